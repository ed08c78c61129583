"""Classes in a running sidecar: a log that is long, hostile, rotated, missing, or new."""

import asyncio
import io
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import psutil
import pytest
from tests.class_lines import of_class, written
from tests.servers import RawServer, answer, serving
from tests.sidecars import Running, quick, sidecar, until
from tests.small_pages import v1_page

from specgauge.cli.settings import settings_of
from specgauge.config import load
from specgauge.errors import ConfigError
from specgauge.model.settings import Settings, TargetSettings
from specgauge.model.traffic import ClassesView, LineResult, LogState
from specgauge.serve.classes.line import Record
from specgauge.serve.classes.position import load_place
from specgauge.serve.classes.reading import ClassLog
from specgauge.serve.classes.totals import Totals
from specgauge.serve.log import Log
from specgauge.serve.loop import Pace

MEBI = 1 << 20
REQUESTS = 'specgauge_class_requests_total{class="%s",pool="speculative"}'
PLACE = '{"schema": "specgauge.class_log/v1", "offset": %s, "head_bytes": 0, "head_sha256": ""}'
LINES = 'specgauge_class_log_lines_total{result="%s"}'


@pytest.fixture
async def engine() -> AsyncIterator[RawServer]:
    """Run a server that answers every request with one small page."""
    async with serving(answer(v1_page(1000))) as server:
        yield server


def following(engine: RawServer, log: Path, state: Path | None = None) -> Settings:
    settings = quick(TargetSettings(name="spec", url=engine.page))
    return replace(
        settings, access_log=str(log), access_log_state=None if state is None else str(state)
    )


def known(made: Running) -> ClassesView:
    view = made.sidecar.view.classes
    assert view is not None
    return view


async def counted(made: Running, lines: int) -> None:
    await until(lambda: sum(known(made).lines.values()) >= lines, f"{lines} lines")


async def state(made: Running, wanted: LogState) -> None:
    await until(lambda: known(made).state is wanted, f"the state {wanted}")


def append(log: Path, *lines: bytes) -> None:
    with log.open("ab") as file:
        file.write(b"".join(line + b"\n" for line in lines))


async def test_from_a_line_to_a_series(engine: RawServer, tmp_path: Path) -> None:
    """What the router appends is on /metrics and in the document; what was there before is not."""
    log = tmp_path / "access.log"
    append(log, written(), written())
    async with sidecar(settings=following(engine, log)) as made:
        await state(made, LogState.FOLLOWED)
        append(log, written(), of_class("batch"))
        await counted(made, 2)
        found = await made.samples()
        assert (found[REQUESTS % "chat"], found[REQUESTS % "batch"]) == (1, 1)
        async with made.client.get("/api/v1/classes") as response:
            document = await response.json()
            assert response.headers["Cache-Control"] == "no-store"
        assert document["log"] == {"state": "followed", "lines": {"ok": 2}, "unread_bytes": 0}
        assert [one["class"] for one in document["classes"]] == ["batch", "chat"]
        assert made.events("class_log_followed") == [f"info class_log_followed file={log}"]


async def test_without_a_log(engine: RawServer) -> None:
    """There are no series of classes, and the document says why."""
    async with sidecar(TargetSettings(name="spec", url=engine.page)) as made:
        await made.result("ok")
        assert not any("_class_" in key for key in await made.samples())
        async with made.client.get("/api/v1/classes") as response:
            assert (await response.json())["log"]["state"] == "off"


async def test_goes_on_after_a_restart(engine: RawServer, tmp_path: Path) -> None:
    """With a state file every line is counted once, also those that came in between."""
    log, kept = tmp_path / "access.log", tmp_path / "place.json"
    append(log, written(), written())
    async with sidecar(settings=following(engine, log, kept)) as made:
        await counted(made, 2)
    append(log, written())
    log.rename(tmp_path / "access.log.1")
    append(log, written(), written())
    async with sidecar(settings=following(engine, log, kept)) as made:
        await counted(made, 3)
        assert known(made).lines[LineResult.OK] == 3
        assert made.events("class_log_lost") == []


async def test_another_log_with_the_same_state_file(engine: RawServer, tmp_path: Path) -> None:
    """Reloading and restarting with another path read that log from its start and lose nothing."""
    first, second, kept = (tmp_path / name for name in ("a.log", "b.log", "place.json"))
    append(first, written(), written())
    append(second, *(of_class("batch") for _ in range(3)))
    now = [following(engine, first, kept)]
    async with sidecar(settings=now[0], read_settings=lambda: now[0]) as made:
        await counted(made, 2)
        now[0] = following(engine, second, kept)
        assert made.sidecar.reload() == []
        await counted(made, 5)
        assert made.events("class_log_lost") == []
    append(second, written())
    async with sidecar(settings=following(engine, second, kept)) as made:
        await counted(made, 1)
        assert made.events("class_log_lost") == []
    append(first, written())
    async with sidecar(settings=following(engine, first, kept)) as made:
        await counted(made, 3)
        assert known(made).lines[LineResult.OK] == 3
        assert made.events("class_log_lost") == []


def test_places_of_earlier_releases(tmp_path: Path) -> None:
    """A place without the path of its log is that of whichever log is configured."""
    (tmp_path / "place.json").write_text(PLACE % 0)
    found = load_place(tmp_path / "place.json")
    assert found is not None
    assert found.is_of(tmp_path / "any.log")


NO_PLACES = ["", "{", "[]", '{"schema": "other"}', "[" * 5000, PLACE % -1, PLACE % '"1"']


@pytest.mark.parametrize("text", NO_PLACES, ids=range(len(NO_PLACES)))
async def test_state_file_that_is_none(engine: RawServer, tmp_path: Path, text: str) -> None:
    """It is told, the log is read from its start, and the file is replaced."""
    log, kept = tmp_path / "access.log", tmp_path / "place.json"
    kept.write_text(text)
    append(log, written())
    async with sidecar(settings=following(engine, log, kept)) as made:
        await counted(made, 1)
        (told,) = made.events("class_log_state_unreadable")
        assert f"file={kept}" in told
    assert "specgauge.class_log/v1" in kept.read_text()


async def test_state_file_that_cannot_be_written(engine: RawServer, tmp_path: Path) -> None:
    """It is told once, and reading goes on."""
    log = tmp_path / "access.log"
    append(log, written())
    async with sidecar(settings=following(engine, log, tmp_path / "gone" / "place.json")) as made:
        await counted(made, 1)
    assert len(made.events("class_log_state_failed")) == 1


async def test_missing_at_first_and_for_a_while(engine: RawServer, tmp_path: Path) -> None:
    """A log that is not there is told of after some seconds; it is read once it comes."""
    log = tmp_path / "access.log"
    async with sidecar(settings=following(engine, log)) as made:
        await state(made, LogState.MISSING)
        problem = 'problem="No such file or directory"'
        told = f"warning class_log_unreadable file={log} {problem}"
        assert made.events("class_log_unreadable") == [told]
        assert "specgauge_class_log_unread_bytes" not in await made.samples()
        append(log, written())
        await counted(made, 1)
        assert known(made).state is LogState.FOLLOWED


async def test_reload_to_another_log_and_to_none(engine: RawServer, tmp_path: Path) -> None:
    """Totals go on; the state says that no log is followed any more."""
    one, two = tmp_path / "a.log", tmp_path / "b.log"
    one.touch()
    two.touch()
    desk = [following(engine, one)]
    async with sidecar(settings=desk[0], read_settings=lambda: desk[0]) as made:
        await state(made, LogState.FOLLOWED)
        append(one, written())
        await counted(made, 1)
        desk[0] = following(engine, two)
        assert made.sidecar.reload() == []
        await until(lambda: len(made.events("class_log_followed")) == 2)
        append(two, written())
        append(one, written())
        await counted(made, 2)
        desk[0] = replace(desk[0], access_log=None)
        assert made.sidecar.reload() == []
        await state(made, LogState.OFF)
        assert (await made.samples())[REQUESTS % "chat"] == 2


def test_state_file_cannot_be_the_log_itself(tmp_path: Path) -> None:
    """It would be put in the log's place."""
    file = tmp_path / "specgauge.yaml"
    file.write_text(
        'targets: [{url: "http://127.0.0.1:8000"}]\n'
        "routing: {access_log: access.log, access_log_state_file: access.log}\n"
    )
    with pytest.raises(
        ConfigError, match=r"access_log: is the same file as routing\.access_log_state_file"
    ):
        load(file, env={}, overrides={})


def test_keys_reach_the_sidecar(tmp_path: Path) -> None:
    """Paths are beside the configuration file."""
    file = tmp_path / "specgauge.yaml"
    file.write_text(
        'targets: [{url: "http://127.0.0.1:8000"}]\n'
        "routing: {access_log: access.log, access_log_state_file: place.json}\n"
    )
    settings = settings_of(load(file, env={}, overrides={}))
    assert settings.access_log == str(tmp_path / "access.log")
    assert settings.access_log_state == str(tmp_path / "place.json")


HOSTILE = [
    bytes(range(256)).replace(b"\n", b""),
    b"x" * (10 * MEBI),
    b'{"class":' * 5000,
    written(seconds=float("nan")),
    written(seconds=-1),
    written(status=10**400),
    written(status=[1]),
    written()[:-1] + b',"class":"b"}',
    of_class("x" * 10_000),
    of_class("a\nspecgauge_class_requests_total 1"),
    b"",
    b"\0" * 1000,
]


async def test_hostile_lines_change_nothing_else(engine: RawServer, tmp_path: Path) -> None:
    """Every one of them is counted by what is wrong with it; what stands between them counts."""
    log = tmp_path / "access.log"
    log.touch()
    async with sidecar(settings=following(engine, log)) as made:
        await state(made, LogState.FOLLOWED)
        for line in HOSTILE:
            append(log, written(), line)
        append(log, of_class('b",pool="x'), written(accepted_tokens=10**30))
        await counted(made, 2 * len(HOSTILE) + 2)
        found = await made.samples()
        assert found[REQUESTS % "chat"] == len(HOSTILE) + 1
        results = {str(result): found[LINES % result] for result in LineResult}
        assert results == {
            **dict.fromkeys(map(str, LineResult), 0),
            "ok": len(HOSTILE) + 1, "partial": 1, "too_long": 1, "not_json": 5,
            "duplicate_key": 1, "bad_value": 5,
        }  # fmt: skip
        classes = {key for key in found if key.startswith("specgauge_class_requests_total")}
        assert len(classes) == 2
        assert found['specgauge_target_up{target="spec"}'] == 1
        assert made.events("class_log_fault", "class_log_crowded") == []


async def test_too_many_classes_are_told_of_once(engine: RawServer, tmp_path: Path) -> None:
    """A log full of names does not fill /metrics."""
    log = tmp_path / "access.log"
    log.touch()
    async with sidecar(settings=following(engine, log)) as made:
        await state(made, LogState.FOLLOWED)
        append(log, *(of_class(f"c{number}") for number in range(1000)))
        await counted(made, 1000)
        found = await made.samples()
        assert found[REQUESTS % "other"] == 1000 - 64
        assert len(made.events("class_log_crowded")) == 1


def move_older(log: Path) -> None:
    for age in range(20, 0, -1):
        older = log.with_name(f"{log.name}.{age}")
        if older.exists():
            older.rename(log.with_name(f"{log.name}.{age + 1}"))


def rotate_by_name(log: Path) -> None:
    move_older(log)
    log.rename(log.with_name(f"{log.name}.1"))


def rotate_by_copy(log: Path) -> None:
    move_older(log)
    shutil.copy2(log, log.with_name(f"{log.name}.1"))
    os.truncate(log, 0)


class Writer:
    """Writes lines as a router does: to the file that it has open, until it is told."""

    def __init__(self, log: Path) -> None:
        self.log, self.written = log, 0
        self.file = log.open("ab", buffering=0)

    def write(self, count: int) -> None:
        for _ in range(count):
            self.file.write(of_class(f"c{self.written % 3}") + b"\n")
            self.written += 1

    def reopen(self) -> None:
        self.file.close()
        self.file = self.log.open("ab", buffering=0)


@asynccontextmanager
async def reading(log: Path, stream: io.StringIO | None = None) -> AsyncIterator[ClassLog]:
    """Read a log from its start, as fast as it can be."""
    made = ClassLog(
        log,
        state_file=log.with_name("place"),
        totals=Totals(since=0.0),
        pace=Pace(),
        log=Log(stream),
        poll=0.001,
        patience=0.01,
    )
    made.start()
    try:
        yield made
    finally:
        await made.stop()


async def test_log_that_is_a_folder(tmp_path: Path) -> None:
    """What is no file is unreadable; once it is one it is read."""
    log, stream = tmp_path / "access.log", io.StringIO()
    log.mkdir()
    async with reading(log, stream) as made:
        await until(lambda: made.state is LogState.UNREADABLE)
        log.rmdir()
        append(log, written())
        await until(lambda: made.totals.lines == 1)
        assert made.state is LogState.FOLLOWED
        os.truncate(log, 0)
        await until(lambda: "class_log_lost" in stream.getvalue())
    events = [line.split()[2] for line in stream.getvalue().splitlines()]
    told = [event for event, _ in groupby(events)]  # a look between folder and file finds neither
    assert told == ["class_log_unreadable", "class_log_followed", "class_log_lost"]


async def test_a_fault_of_ours_is_told_once_and_reading_goes_on(tmp_path: Path) -> None:
    """A piece that cannot be taken in is left out, with the traceback in one line."""
    log, stream = tmp_path / "access.log", io.StringIO()

    class Broken(Totals):
        faults = 2

        def add(self, record: Record) -> None:
            if self.faults:
                self.faults -= 1
                raise ArithmeticError("a fault")
            super().add(record)

    broken = Broken(since=0.0)
    async with reading(log, stream) as made:
        made.totals = broken
        for faults in (1, 0):
            append(log, written())
            await until(lambda left=faults: broken.faults == left)  # type: ignore[misc]
        append(log, written())
        await until(lambda: broken.lines == 1)
    assert stream.getvalue().count("class_log_fault") == 1


async def test_stopped_before_it_has_begun(tmp_path: Path) -> None:
    """Nothing hangs."""
    made = ClassLog(
        tmp_path / "a", state_file=None, totals=Totals(since=0.0), pace=Pace(), log=Log()
    )
    await made.stop()
    assert made.state is LogState.STARTING


async def more_than(totals: Totals, lines: int) -> None:
    await until(lambda: totals.lines > lines, "another line")


@pytest.mark.parametrize("kind", ["renamed", "copied"])
async def test_rotation_under_load_loses_nothing(tmp_path: Path, kind: str) -> None:
    """Ten rotations within twenty thousand lines, the router told late: each line counts once."""
    log = tmp_path / "access.log"
    writer = Writer(log)
    async with reading(log) as made:
        totals = made.totals
        for turn in range(10):
            for _ in range(40):
                writer.write(25)
                await asyncio.sleep(0)
            if kind == "copied":
                await more_than(totals, totals.lines)
                writer.write(25)
                # In one go: what is written between copy and cut is lost by who rotates.
                rotate_by_copy(log)
            else:
                rotate_by_name(log)
                writer.write(25 * (turn % 3))
                if turn % 2:
                    log.touch()
                    await asyncio.sleep(0.002)
                    writer.write(10)
                writer.reopen()
            writer.write(1000)
            await asyncio.sleep(0.001 * turn)
        await until(lambda: totals.lines >= writer.written, "every line")
        await asyncio.sleep(0.05)
    writer.file.close()
    view = totals.view(LogState.FOLLOWED, 0)
    assert view.lines == {**dict.fromkeys(LineResult, 0), LineResult.OK: writer.written}
    requests = {key[0]: figures.requests for key, figures in view.figures.items()}
    assert requests == {f"c{n}": len(range(n, writer.written, 3)) for n in range(3)}


def backlog(log: Path, lines: int) -> None:
    with log.open("wb") as file:
        block = [of_class(f"c{number % 5}") + b"\n" for number in range(1000)]
        for _ in range(lines // 1000):
            file.writelines(block)


@pytest.mark.slow
async def test_a_long_log_is_read_in_little_memory_and_holds_up_nobody(
    engine: RawServer, tmp_path: Path
) -> None:
    """A hundred thousand lines that wait: scraping and /metrics go on while they are read."""
    log = tmp_path / "access.log"
    backlog(log, 100_000)
    process = psutil.Process()
    loop = asyncio.get_running_loop()
    waits: list[float] = []
    settings = replace(following(engine, log, tmp_path / "place"), interval=0.1)
    async with sidecar(settings=settings) as made:
        before = most = process.memory_info().rss
        scrapes = 0
        while sum(known(made).lines.values()) < 100_000:
            began = loop.time()
            await made.samples()
            waits.append(loop.time() - began)
            most = max(most, process.memory_info().rss)
            scrapes = sum(made.sidecar.view.targets[0].scrapes.values())
            await asyncio.sleep(0.1)
        assert known(made).lines[LineResult.OK] == 100_000
        assert len(waits) >= 5
        assert sorted(waits)[len(waits) // 2] < 0.5
        assert scrapes >= 5
        assert most - before < 16 * MEBI
