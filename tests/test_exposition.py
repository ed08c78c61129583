"""The whole page we serve, held against files, and the forms in which it can be asked for."""

import gzip
import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_strictly
from tests.class_lines import of_class, written
from tests.conftest import GOLDEN
from tests.guarding import guard_view
from tests.recorded import load_page
from tests.servers import Answer, answer, serving, then_close
from tests.sidecars import read_samples
from tests.small_pages import diffusion_page, v0_page, v1_page

from specgauge.baseline.schema import usable
from specgauge.errors import SourceError
from specgauge.model import names
from specgauge.model.derived import Hints
from specgauge.model.guard import Outcome, Phase
from specgauge.model.guard_view import FlagStatus
from specgauge.model.settings import TargetSettings
from specgauge.model.traffic import ClassesView, LineResult, LogState
from specgauge.model.view import TargetView, View
from specgauge.serve.classes.line import read_line
from specgauge.serve.classes.totals import Totals
from specgauge.serve.collector import ViewCollector
from specgauge.serve.comparison import ComparisonTerms
from specgauge.serve.demo.recording import RecordingName, load, recorded_baseline
from specgauge.serve.exposition import Baked, Oven, accepts_gzip, wants_openmetrics
from specgauge.serve.scrape import Endpoint, Scraper
from specgauge.serve.tracker import Moment, Tracker

BEGAN = 1_796_000_000.0
PLAIN = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """A target and what it answers, an answer every `every` seconds."""

    name: str
    answers: Sequence[Answer]
    every: float = 1.0
    version: str | None = None
    hints: Hints = field(default_factory=Hints)
    comparison: ComparisonTerms | None = None


def ramp(name: RecordingName, start: int, count: int) -> list[Answer]:
    """Spell out answers with some pages of a recording."""
    return [answer(page.text.encode()) for page in load(name).pages[start : start + count]]


def captured(folder: str, *moments: str) -> list[Answer]:
    """Spell out answers with pages that were captured from a server."""
    return [answer(load_page(f"vllm/{folder}/{moment}.prom")) for moment in moments]


EAGLE = Act(
    name="spec",
    answers=ramp(RecordingName.SPECULATIVE, 40, 12),
    version="0.25.1",
    hints=Hints(method="eagle", engines=1),
)
RECORDED = usable(recorded_baseline(), source="baseline.json")
OTHERS = replace(RECORDED, facts={"model.name": "another", "parallelism.data": 8})
COMPARED, MISMATCHED = (
    replace(EAGLE, name=name, comparison=ComparisonTerms(baselines=(baseline,)))
    for name, baseline in (("compared", RECORDED), ("mismatched", OTHERS))
)
STANDARD = Act(name="plain", answers=ramp(RecordingName.STANDARD, 40, 12), version="0.25.1")
DOWN = Act(name="down", answers=[answer(status=500)] * 3)
LOST = Act(
    name="lost",
    answers=[
        answer(v1_page(1000)),
        answer(v1_page(2000)),
        then_close(answer(v1_page(3000), length=999_999)),
    ],
)
STAGES = {
    "metrics": [EAGLE],
    "v0": [
        Act(
            name="recovered",
            answers=[
                answer(v0_page(collected, sum(collected[-1:])))
                for collected in ([], [500], [500, 1225])
            ],
        ),
        Act(name="captured", answers=captured("0.8.5-v0-draft", "before", "during", "after")),
    ],
    "dp2": [
        Act(
            name="dp2",
            answers=captured("0.32.0-draft-dp2", "before", "during", "after"),
            hints=Hints(engines=2),
        )
    ],
    "standard": [STANDARD],
    "diffusion": [Act(name="canvas", answers=[answer(diffusion_page(n)) for n in (1000, 2000)])],
    "compared": [COMPARED, MISMATCHED],
    "down": [DOWN],
    "guarded": [DOWN],
    "routed": [DOWN],
    "several": [Act(name="up", answers=[answer(v1_page(n)) for n in (1000, 2000, 3000)]), LOST],
}  # fmt: skip


FALLEN = guard_view(
    phase=Phase.FALLBACK,
    since=BEGAN + 30.0,
    next_probe=BEGAN + 330.0,
    flag=FlagStatus(
        key="k",
        backend="file",
        place="here",
        desired=False,
        confirmed=True,
        writes={"ok": 3, "timeout": 1},
    ),
    transitions={("active", "fallback", "speedup_below_one"): 1},
    assessments={**dict.fromkeys(Outcome, 0), Outcome.DEGRADED: 2},
    warnings={"fallback_ineffective": 1},
)


async def play(act: Act) -> TargetView:
    """Fetch every answer from a real server and take it in at its scripted time."""
    async with serving(*act.answers) as server:
        settings = TargetSettings(name=act.name, url="http://engine:8000", hints=act.hints)
        tracker = Tracker(settings, 60.0, act.comparison)
        scraper = Scraper(Endpoint(url=server.page))
        tracker.learn_version(act.version)
        for slot in range(len(act.answers)):
            at = Moment(time=act.every * slot, unix=BEGAN + act.every * slot)
            try:
                body = await scraper.fetch()
                tracker.page(body.data, complete=body.complete, at=at, seconds=0.01)
            except SourceError as problem:
                tracker.failure(problem, 0.02)
            finally:
                await scraper.close()
    return tracker.view


def bake(view: View, accept: str = "", encoding: str = "") -> Baked:
    """Bake a view's page without the series of this process."""
    registry = CollectorRegistry()
    registry.register(ViewCollector(lambda: view))
    return Oven(registry=registry, version=lambda: view).bake(accept, encoding)


def traffic() -> ClassesView:
    """Give two classes, one in both pools, and a line that is none."""
    totals = Totals(since=BEGAN)
    totals.count(LineResult.NOT_JSON)
    for line in (written(), written(served_pool="standard"), of_class("batch", stream="0")):
        record = read_line(line)
        assert not isinstance(record, LineResult)
        totals.add(record)
    return totals.view(LogState.FOLLOWED, 0)


async def stage(name: str) -> View:
    guard = FALLEN if name == "guarded" else None
    classes = traffic() if name == "routed" else None
    targets = tuple([await play(act) for act in STAGES[name]])
    return View(targets=targets, guard=guard, classes=classes)


every_stage = pytest.mark.parametrize("name", STAGES)


# --- whole pages ------------------------------------------------------------------------------


@every_stage
async def test_page_is_as_kept(name: str, golden: Callable[[str, str], None]) -> None:
    """The whole page of a scripted run is what tests/golden has."""
    page = bake(await stage(name)).body.decode()
    page = re.sub(r"(build_info\{).*(\})", r'\1python_version="3",version="0"\2', page)
    golden(f"{name}.prom", page)


@every_stage
def test_promtool_finds_nothing(name: str, promtool: str) -> None:
    """`promtool check metrics` has nothing to say of our names, types and help texts."""
    command = [promtool, "check", "metrics"]
    page = (GOLDEN / f"{name}.prom").read_bytes()
    run = subprocess.run(command, input=page, capture_output=True, check=False)
    assert (run.returncode, run.stdout + run.stderr) == (0, b"")


@every_stage
async def test_openmetrics_holds_the_same(name: str) -> None:
    """The OpenMetrics form passes the strict parser and says what the plain one says."""
    view = await stage(name)
    strict = bake(view, "application/openmetrics-text").body.decode()
    assert strict.endswith("\n# EOF\n")
    samples = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in read_strictly(strict)  # type: ignore[no-untyped-call]
        for sample in family.samples
    }
    assert len(samples) == sum(not line.startswith("#") for line in strict.splitlines())
    assert sorted(samples.values()) == sorted(read_samples(bake(view).body.decode()).values())


@every_stage
async def test_page_keeps_to_the_table_of_names(name: str) -> None:
    """Every sample belongs to a known series and has its labels; no colon, no time, no NaN."""
    known = {one.name: one for one in names.ALL}
    for line in bake(await stage(name)).body.decode().splitlines():
        if line.startswith("#"):
            assert line.split()[2] in known
            continue
        found = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line)
        assert found, line
        series = known.get(found[1]) or known[re.sub("_(bucket|sum|count)$", "", found[1])]
        labels = set(re.findall(r'(\w+)="', found[2] or "")) - {"le"}
        assert labels == set(series.labels)
        assert found[3] not in {"NaN", "+Inf", "-Inf"}


async def test_table_of_names_has_nothing_more() -> None:
    """Each series of the table comes in one of the scripted runs."""
    pages = [bake(await stage(name)).body.decode() for name in STAGES]
    told = {line.split()[2] for page in pages for line in page.splitlines() if line[0] == "#"}
    assert told == {one.name for one in names.ALL}


# --- negotiation ------------------------------------------------------------------------------

PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        pytest.param("", False, id="nothing"),
        pytest.param("*/*", False, id="anything"),
        pytest.param("text/plain", False, id="plain"),
        pytest.param("text/html,application/xhtml+xml,*/*;q=0.8", False, id="browser"),
        pytest.param(PROMETHEUS, True, id="prometheus"),
        pytest.param("application/openmetrics-text", True, id="openmetrics"),
        pytest.param("Application/OpenMetrics-Text; Version=1.0.0", True, id="capitals"),
        pytest.param("application/openmetrics-text;q=0", False, id="refused"),
        pytest.param("application/openmetrics-text;q=0.3,text/plain;q=0.5", False, id="less"),
        pytest.param("application/openmetrics-text;q=0.5,text/plain;q=0.5", True, id="as much"),
        pytest.param("application/openmetrics-text;q=0.4,text/*;q=0.5", False, id="any text"),
        pytest.param("application/openmetrics-text;q=high", False, id="no number"),
        pytest.param("application/openmetrics-text;q=7", True, id="beyond one"),
        pytest.param(",;q=1,,application/openmetrics-text", True, id="blanks"),
        pytest.param("application/vnd.google.protobuf;encoding=delimited", False, id="protobuf"),
    ],
)  # fmt: skip
def test_accept(accept: str, expected: bool) -> None:
    """OpenMetrics is for who names it and likes plain text no better."""
    assert wants_openmetrics(accept) is expected
    told = bake(View(targets=()), accept)
    assert told.content_type == (OPENMETRICS if expected else PLAIN)
    assert told.body.endswith(b"# EOF\n") is expected


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        pytest.param("", False, id="nothing"),
        pytest.param("gzip", True, id="gzip"),
        pytest.param("GZIP;q=0.5", True, id="capitals"),
        pytest.param("gzip;q=0", False, id="refused"),
        pytest.param("gzip;q=0, *", False, id="all but gzip"),
        pytest.param("identity", False, id="identity"),
        pytest.param("deflate, br", False, id="others"),
        pytest.param("deflate, br, *;q=0.1", True, id="anything"),
    ],
)
def test_accept_encoding(header: str, expected: bool) -> None:
    """The body is gzipped if and only if the header said so, and then says so itself."""
    assert accepts_gzip(header) is expected
    view = View(targets=())
    told = bake(view, "", header)
    assert told.encoding == ("gzip" if expected else None)
    plain = bake(view).body
    assert (gzip.decompress(told.body) if expected else told.body) == plain


def test_page_is_baked_once_for_each_state() -> None:
    """Twenty scrapers of one state get the same bytes; a new state is baked anew."""
    view = View(targets=())
    registry = CollectorRegistry()
    registry.register(ViewCollector(lambda: view))
    oven = Oven(registry=registry, version=lambda: view)
    first = oven.bake("", "gzip")
    assert oven.bake("", "gzip") is first
    assert oven.bake("text/plain", "") is oven.bake("*/*", "")
    view = View(targets=(), reload_ok=False)
    second = oven.bake("", "gzip")
    assert b"config_last_reload_success 0.0" in gzip.decompress(second.body)
