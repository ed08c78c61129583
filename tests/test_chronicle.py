"""Records that are written beside the guard: in order, once, and however the disk behaves."""

import asyncio
import fcntl
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.flag_servers import Reply, always, flag_server, in_turn
from tests.guarding import Told, decision, telling
from tests.sidecars import DEADLINE, until

from specgauge.guard.annotate import Annotator, annotation
from specgauge.guard.chronicle import Chronicle
from specgauge.guard.freeze import is_frozen
from specgauge.guard.settings import GrafanaSettings
from specgauge.guard.store import load_text
from specgauge.model.guard import Phase


@asynccontextmanager
async def chronicle(told: Told | None = None, **given: Any) -> AsyncIterator[Chronicle]:
    """Run a chronicle that tries again soon."""
    terms: dict[str, Any] = {"audit_file": None, "state_file": None, "annotator": None}
    tell = telling([] if told is None else told)
    made = Chronicle(**{**terms, "retry": 0.02, "tell": tell, **given})
    made.start()
    try:
        yield made
    finally:
        await made.close()


def numbers(file: Path) -> list[int]:
    return [json.loads(line)["n"] for line in (load_text(file) or "").splitlines()]


def names_in(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir())


async def test_lines_and_state(tmp_path: Path) -> None:
    """Lines are written in order; of states that wait the last one counts."""
    told: Told = []
    audit, state = tmp_path / "audit", tmp_path / "state"
    async with chronicle(told, audit_file=audit, state_file=state) as made:
        for number in range(5):
            made.note({"n": number}, {"ignored": True})
            made.keep(f"state {number}\n")
        await until(lambda: load_text(state) and len(numbers(audit)) == 5)
    assert numbers(audit) == [0, 1, 2, 3, 4]
    assert load_text(state) == "state 4\n"
    assert told == []
    assert names_in(tmp_path) == ["audit", "state"]


async def test_end_writes_what_waits_once(tmp_path: Path) -> None:
    """What is noted just before the end is written, and a line under way is not written again."""
    for turns in range(6):
        audit, state = tmp_path / f"audit{turns}", tmp_path / f"state{turns}"
        async with chronicle(audit_file=audit, state_file=state) as made:
            for number in range(20):
                made.note({"n": number}, None)
            for _ in range(turns * 3):
                await asyncio.sleep(0)
            made.keep("last")
        assert numbers(audit) == list(range(20))
        assert state.read_text() == "last"


async def test_nothing_configured(tmp_path: Path) -> None:
    """Without files there is nothing to do, and it still begins and ends."""
    async with chronicle() as made:
        made.note({"n": 1}, {"text": "x"})
        made.keep("x")
        await asyncio.sleep(0)
    await made.close()
    assert names_in(tmp_path) == []


async def test_trouble_is_told_once(tmp_path: Path) -> None:
    """A disk that refuses is told when it begins and when it ends; nothing is lost meanwhile."""
    told: Told = []
    folder = tmp_path / "gone"
    async with chronicle(told, audit_file=folder / "audit", state_file=folder / "state") as made:
        for number in range(3):
            made.note({"n": number}, None)
            made.keep(str(number))
            await until(lambda: len(told) == 2)
            await asyncio.sleep(0.05)  # some tries more
        assert [what for what, _ in told] == ["state_file", "audit_file"]
        assert all("No such file" in detail for _, detail in told)
        folder.mkdir()
        await until(lambda: len(told) == 4)
    assert sorted(told[2:]) == [("audit_file", ""), ("state_file", "")]
    assert numbers(folder / "audit") == [0, 1, 2]
    assert (folder / "state").read_text() == "2"


@pytest.mark.parametrize("place", ["/dev/full", "/sys/audit"], ids=["full", "read-only"])
async def test_disk_that_takes_nothing(tmp_path: Path, place: str) -> None:
    """A disk that is full or read-only is told once, and the state is saved all the same."""
    told: Told = []
    state = tmp_path / "state"
    async with chronicle(told, audit_file=Path(place), state_file=state) as made:
        for number in range(5):
            made.note({"n": number}, None)
            made.keep(str(number))
            await until(lambda number=number: load_text(state) == str(number))  # type: ignore[misc]
            await asyncio.sleep(0.03)
    ((what, detail),) = told
    assert what == "audit_file"
    assert detail.startswith(f"{place}: ")


async def test_what_comes_while_a_line_is_written(tmp_path: Path) -> None:
    """A state is not taken for the newer one, nor a line for the one after it."""
    audit, state = tmp_path / "audit", tmp_path / "state"
    async with chronicle(audit_file=audit, state_file=state) as made:
        with audit.open("ab") as other:
            fcntl.flock(other, fcntl.LOCK_EX)
            made.note({"n": -1}, None)
            await asyncio.sleep(0.1)  # it is under way
            for number in range(1000):
                made.note({"n": number}, None)
        made.keep("old")
        await asyncio.to_thread(len, "")  # the old one is under way
        made.keep("new")
        await until(lambda: load_text(state) == "new" and len(numbers(audit)) == 1001)
    assert numbers(audit) == list(range(-1, 1000))


async def test_most_lines_that_wait(tmp_path: Path) -> None:
    """A disk that never comes back does not fill the memory: the oldest lines go."""
    folder = tmp_path / "gone"
    async with chronicle(audit_file=folder / "audit") as made:
        for number in range(1500):
            made.note({"n": number}, None)
        folder.mkdir()
        await until(lambda: len(numbers(folder / "audit")) == 1000)
    assert numbers(folder / "audit") == list(range(500, 1500))


async def test_end_with_a_disk_that_refuses(tmp_path: Path) -> None:
    """It ends at once where nothing can be written."""
    async with asyncio.timeout(DEADLINE), chronicle(audit_file=tmp_path / "gone" / "audit") as made:
        made.note({"n": 1}, None)
        await asyncio.sleep(0.05)


def test_annotation() -> None:
    """A mark has its time in milliseconds, tags to filter by, and plain words."""
    found = annotation(decision(), unix=1700000000.25, target="spec")
    assert found["time"] == 1700000000250
    assert found["tags"] == ["specgauge", "speculative-decoding", "target:spec", "state:fallback"]
    assert str(found["text"]).startswith("spec: From active to fallback, flag off: ")
    other = annotation(decision(state=Phase.PROBING), unix=0.0, target="a b")
    assert other["tags"] == ["specgauge", "speculative-decoding", "target:a b", "state:probing"]


@pytest.mark.parametrize("kept", ["file", "environment"])
async def test_annotator(tmp_path: Path, kept: str) -> None:
    """It posts to the API below Grafana's own path, with the token wherever that is kept."""
    (tmp_path / "token").write_text("secret-4711\n")
    async with flag_server(always(Reply(document={"id": 7}))) as server:
        settings = GrafanaSettings(
            url=f"{server.url}/grafana",
            token_file=str(tmp_path / "token") if kept == "file" else None,
            token="secret-4711" if kept == "environment" else None,
        )
        await Annotator(settings).post({"text": "x"})
    (asked,) = server.asked
    assert (asked.method, asked.path) == ("POST", "/grafana/api/annotations")
    assert asked.headers["Authorization"] == "Bearer secret-4711"
    assert asked.json() == {"text": "x"}
    assert "secret" not in repr(settings)


async def test_grafana_that_fails() -> None:
    """Each mark is tried once; a Grafana that fails is told once, and when it works again."""
    told: Told = []
    bad = Reply(status=500, text="out of order")
    async with flag_server(in_turn(bad, bad, Reply(document={}), bad)) as server:
        annotator = Annotator(GrafanaSettings(url=server.url))
        async with chronicle(told, annotator=annotator) as made:
            for number in range(4):
                made.note({"n": number}, {"n": number})
                made.note({"n": number}, None)
                await until(lambda number=number: len(server.asked) == number + 1)  # type: ignore[misc]
            await until(lambda: len(told) == 3)
    assert [(what, bool(detail)) for what, detail in told] == [
        ("grafana", True),
        ("grafana", False),
        ("grafana", True),
    ]
    assert [one.json() for one in server.asked] == [{"n": number} for number in range(4)]


async def test_grafana_that_hangs(tmp_path: Path) -> None:
    """It holds up neither the record nor the end."""
    async with flag_server(always(Reply(hang=True))) as server:
        annotator = Annotator(GrafanaSettings(url=server.url), timeout=60.0)
        async with asyncio.timeout(DEADLINE):
            async with chronicle(audit_file=tmp_path / "audit", annotator=annotator) as made:
                made.note({"n": 1}, {"n": 1})
                await until(lambda: server.asked)
                made.note({"n": 2}, None)
                await until(lambda: numbers(tmp_path / "audit") == [1, 2])


async def test_marks_that_wait_are_posted_at_the_end() -> None:
    """A flip just before the end is marked."""
    async with flag_server(always(Reply(document={}))) as server:
        async with chronicle(annotator=Annotator(GrafanaSettings(url=server.url))) as made:
            made.note({}, {"n": 1})
            made.note({}, {"n": 2})
        assert [one.json() for one in server.asked] == [{"n": 1}, {"n": 2}]


# The other files: the one that holds the guard still, and the one it remembers by


@pytest.mark.parametrize(
    ("content", "frozen"),
    [
        pytest.param(None, False, id="missing"),
        pytest.param(b"", True, id="empty"),
        pytest.param(b"true", True, id="true"),
        pytest.param(b"1\n", True, id="1"),
        pytest.param(b"false", False, id="false"),
        pytest.param(b" False\n", False, id="False"),
        pytest.param(b"0", False, id="0"),
        pytest.param(b"no\n", False, id="no"),
        pytest.param(b"OFF", False, id="off"),
        pytest.param(b"deploy of 14:00", True, id="words"),
        pytest.param(b"\xff\x00", True, id="no text"),
        pytest.param(b"x" * 100_000, True, id="large"),
    ],
)
def test_freeze_file(tmp_path: Path, content: bytes | None, frozen: bool) -> None:
    """A file that is there freezes, unless it says no."""
    file = tmp_path / "freeze"
    if content is not None:
        file.write_bytes(content)
    assert is_frozen(file) is frozen


def test_freeze_file_of_other_kinds(tmp_path: Path) -> None:
    """None is no file; what cannot be read, or only waited for, is there."""
    assert is_frozen(None) is False
    assert is_frozen(tmp_path) is True
    (tmp_path / "file").touch()
    assert is_frozen(tmp_path / "file" / "below") is True
    os.mkfifo(tmp_path / "pipe")
    assert is_frozen(tmp_path / "pipe") is True


def test_stored_text(tmp_path: Path) -> None:
    """The text as it is; None where there is no file; an error where it is none of ours."""
    file = tmp_path / "state"
    assert load_text(file) is None
    file.write_text("ü" * 1000)
    assert load_text(file) == "ü" * 1000
    file.write_bytes(b"x" * (1 << 20))
    assert len(load_text(file) or "") == 1 << 20
    file.write_bytes(b"x" * ((1 << 20) + 1))
    with pytest.raises(ValueError, match="larger than 1048576 bytes"):
        load_text(file)
    file.write_bytes(b"\xff")
    with pytest.raises(ValueError, match="codec"):
        load_text(file)
    with pytest.raises(ValueError, match="no file"):
        load_text(tmp_path)
    with pytest.raises(OSError, match="Not a directory"):
        load_text(file / "below")
