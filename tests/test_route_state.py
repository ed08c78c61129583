"""What the sidecar tells routers: the flag, the load, and that it is alive."""

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.sidecars import sidecar, until

from specgauge.model.derived import Hints
from specgauge.model.guard import Phase
from specgauge.model.guard_view import FlagStatus, GuardView
from specgauge.model.outcome import ScrapeResult
from specgauge.model.quantity import Cell, Kind, Quantity
from specgauge.model.settings import RouteSettings, TargetSettings
from specgauge.model.view import TargetView, View
from specgauge.routing.live import LiveState, LoadMeter, flag_of
from specgauge.routing.rules import LoadLimit
from specgauge.serve.log import Log
from specgauge.serve.loop import Pace
from specgauge.serve.route_state import RouteState

CELL = Cell(measure=(Quantity.STEP_LATENCY, Kind.SUM, ""), model="m", engine="0")
OTHER = Cell(measure=(Quantity.STEP_LATENCY, Kind.COUNT, ""), model="m", engine="0")
LIMIT = LoadLimit(at_most=4, resume=3)


def target(
    time: float, seconds: float | None, *, name: str = "spec", role: str = "speculative"
) -> TargetView:
    """Make a target whose requests have spent so long in decode, scraped at a time."""
    return TargetView(
        name=name,
        url="http://x",
        role=role,
        hints=Hints(),
        result=ScrapeResult.OK,
        last_success=time,
        totals={OTHER: 1.0} if seconds is None else {CELL: seconds, OTHER: 9.0},
    )


def guarded(*, desired: bool | None, confirmed: bool | None) -> GuardView:
    """Make a guard with such a flag."""
    flag = FlagStatus(
        key="k", backend="embedded", place="memory", desired=desired, confirmed=confirmed
    )
    return GuardView(target="spec", dry_run=False, phase=Phase.ACTIVE, since=0.0, flag=flag)


@pytest.mark.parametrize(
    ("desired", "confirmed", "flag"),
    [
        (True, True, True),
        (False, True, False),
        (True, False, False),
        (None, True, True),
        (None, None, None),
    ],
)
def test_flag(desired: bool | None, confirmed: bool | None, flag: bool | None) -> None:
    """A flag is on only where nothing says off; what nobody knows is unknown."""
    assert flag_of(View(targets=(), guard=guarded(desired=desired, confirmed=confirmed))) is flag


def test_no_guard_is_no_objection() -> None:
    """Without a guard the rules alone decide."""
    assert flag_of(View(targets=())) is True


def test_load_is_the_growth_of_time_in_decode() -> None:
    """Over some seconds, whatever the pace of scrapes; a scrape seen twice counts once."""
    meter = LoadMeter()
    assert meter.take(target(10.0, 100.0)) is None
    assert meter.take(target(11.0, 102.0)) == 2.0
    assert meter.take(target(11.0, 102.0)) == 2.0
    assert [meter.take(target(12.0 + t, 102.0 + 6 * (t + 1))) for t in range(4)][-1] == 6.0
    assert meter.take(target(46.0, 126.0 + 310.0)) == 10.0


def test_load_is_unknown_without_a_page() -> None:
    """A server that gives no page, or none with steps, has no load; its past does not count."""
    meter = LoadMeter()
    meter.take(target(10.0, 100.0))
    assert meter.take(replace(target(11.0, 102.0), result=ScrapeResult.TIMEOUT)) is None
    assert meter.take(target(12.0, 104.0)) is None
    assert meter.take(target(13.0, None)) is None


def test_document() -> None:
    """The busiest speculative server gives the load; hysteresis remembers what it said."""
    live = LiveState([LIMIT])

    def take(time: float, spec: float, standard: float = 0.0) -> dict[str, Any]:
        view = View(
            targets=(target(time, spec), target(time, standard, name="std", role="standard"))
        )
        return live.take(view, time)

    first = take(0.0, 0.0)
    assert (first["decode_concurrency"], first["loads"]) == (None, {"4:3": None})
    assert take(10.0, 35.0, 90.0)["decode_concurrency"] == 3.5
    answers = [take(10.0 * step, total)["loads"]["4:3"] for step, total in
               ((2, 70.0), (3, 120.0), (4, 155.0), (5, 185.0), (6, 220.0))]  # fmt: skip
    assert answers == [True, False, False, True, True]
    assert first["schema"] == "specgauge.route_state/v1"
    assert (first["flag"], first["written"], first["last_flag"]) == (True, 0.0, True)


def test_last_flag_is_remembered() -> None:
    """While the flag is unknown the document says what it was and how long ago."""
    live = LiveState()
    live.take(View(targets=(), guard=guarded(desired=False, confirmed=False)), 100.0)
    found = live.take(View(targets=(), guard=guarded(desired=None, confirmed=None)), 107.0)
    assert (found["flag"], found["last_flag"], found["last_flag_age"]) == (None, False, 7.0)


@pytest.mark.parametrize(
    ("document", "known", "age"),
    [
        ({"flag": False, "written": 90.0}, False, 10.0),
        ({"flag": None, "last_flag": True, "last_flag_age": 5.0, "written": 90.0}, True, 15.0),
        ({"flag": None, "last_flag": True, "written": 90.0}, True, 10.0),
        ({"flag": False, "written": 190.0}, False, 0.0),
        ({"flag": None, "written": 90.0}, None, 0.0),
        ({"flag": False}, None, 0.0),
        ({}, None, 0.0),
    ],
)
def test_earlier_runs(document: dict[str, Any], known: bool | None, age: float) -> None:
    """A sidecar that starts remembers the flag of the one before, as old as it is."""
    live = LiveState()
    live.adopt(document, 100.0)
    found = live.take(View(targets=(), guard=guarded(desired=None, confirmed=None)), 100.0)
    assert (found["last_flag"], found["last_flag_age"]) == (known, age)


@pytest.fixture
def clock() -> list[float]:
    """Give a clock that a test sets."""
    return [1000.0]


def told(
    settings: RouteSettings, clock: list[float], stream: io.StringIO | None = None
) -> RouteState:
    """Make what tells routers, with that clock."""
    pace = replace(Pace(), unix=lambda: clock[0])
    return RouteState(settings, pace=pace, log=Log(stream or io.StringIO()))


def names_in(folder: Path) -> list[str]:
    """List what lies in a folder."""
    return [one.name for one in folder.iterdir()]


async def test_file(tmp_path: Path, clock: list[float]) -> None:
    """After every scrape the file is there anew, whole, and readable for everybody."""
    file = tmp_path / "state.json"
    state = told(RouteSettings(state_file=str(file), limits=((4.0, 3.0),)), clock)
    state.take(View(targets=()))
    await state.close()
    first = file.stat()
    found = json.loads(file.read_text())
    assert found == {
        "schema": "specgauge.route_state/v1", "flag": True, "decode_concurrency": None,
        "written": 1000.0, "loads": {"4:3": None}, "last_flag": True, "last_flag_age": 0.0,
    }  # fmt: skip
    assert first.st_mode & 0o777 == 0o644
    state.take(View(targets=(), guard=guarded(desired=False, confirmed=False)))
    state.take(View(targets=(), guard=guarded(desired=None, confirmed=None)))
    await state.close()
    assert file.stat().st_ino != first.st_ino
    assert json.loads(file.read_text())["last_flag"] is False
    assert names_in(tmp_path) == ["state.json"]


async def test_file_of_an_earlier_run(tmp_path: Path, clock: list[float]) -> None:
    """What the file said is taken over at the start; a file that makes no sense is none."""
    file = tmp_path / "state.json"
    for text, known in (('{"flag": false, "written": 990}', False), ("[]", None), ("{", None)):
        file.write_text(text)
        state = told(RouteSettings(state_file=str(file)), clock)
        state.take(View(targets=(), guard=guarded(desired=None, confirmed=None)))
        await state.close()
        assert json.loads(file.read_text())["last_flag"] is known


async def test_file_that_cannot_be_written(tmp_path: Path, clock: list[float]) -> None:
    """It is said once, and once the folder is there the file is."""
    stream = io.StringIO()
    file = tmp_path / "later" / "state.json"
    state = told(RouteSettings(state_file=str(file)), clock, stream)
    for _ in range(3):
        state.take(View(targets=()))
        await state.close()
    assert stream.getvalue().count("route_state_not_written") == 1
    file.parent.mkdir()
    state.take(View(targets=()))
    await state.close()
    assert file.is_file()


async def test_answer(clock: list[float]) -> None:
    """Over HTTP the same is told, with its age, and how long it may be kept."""
    state = told(RouteSettings(hold=300.0), clock)
    assert state.answer().status == 503
    state.take(View(targets=(target(1000.0, 0.0),)))
    clock[0] = 1002.0
    state.take(View(targets=(target(1002.0, 5.0),), guard=guarded(desired=False, confirmed=False)))
    clock[0] = 1002.5
    answer = state.answer()
    assert answer.status == 200
    assert answer.headers["X-Specgauge-Flag"] == "off"
    assert answer.headers["X-Specgauge-Load"] == "2.5"
    assert answer.headers["Cache-Control"] == "max-age=1, stale-if-error=300"
    assert answer.text is not None
    assert json.loads(answer.text)["age"] == 0.5


async def test_new_settings(tmp_path: Path, clock: list[float]) -> None:
    """The same settings change nothing; others keep what was known of the flag."""
    state = told(RouteSettings(), clock)
    state.take(View(targets=(), guard=guarded(desired=False, confirmed=False)))
    state.follow(RouteSettings())
    assert state.answer().headers["X-Specgauge-Flag"] == "off"
    file = tmp_path / "state.json"
    state.follow(RouteSettings(state_file=str(file)))
    state.take(View(targets=(), guard=guarded(desired=None, confirmed=None)))
    await until(file.is_file)
    await state.close()
    assert json.loads(file.read_text())["last_flag"] is False
    assert state.answer().headers["X-Specgauge-Load"] == "unknown"
    assert state.answer().headers["X-Specgauge-Flag"] == "unknown"


async def test_route() -> None:
    """The sidecar answers routers as soon as it listens, and anybody may ask."""
    async with (
        sidecar(TargetSettings(name="a", url="http://127.0.0.1:9/metrics")) as made,
        made.client.get("/api/v1/route-state") as response,
    ):
        assert response.status == 200
        found = await response.json()
        assert (found["flag"], found["decode_concurrency"]) == (True, None)
        assert response.headers["Cache-Control"] == "max-age=1, stale-if-error=3"
