"""Sweeps from end to end, over stub servers that are real processes: ended, resumed, stopped."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.stub_engine import Engine, Faults, serving_engine
from tests.stub_engine import until as soon
from tests.sweep_server import DraftingEngine
from tests.swept import world

from specgauge.baseline.brake import Brake, Why
from specgauge.baseline.figures import Measured, Piece
from specgauge.baseline.level import Live
from specgauge.baseline.plan import Lengths, Load, Plan, closed_levels
from specgauge.baseline.prompts import shipped
from specgauge.baseline.record import Order
from specgauge.cli.main import main
from specgauge.cli.sweep.group import open_scraper
from specgauge.preflight.sweep.candidate import NONE, Candidate, grid
from specgauge.preflight.sweep.conduct import Sweep, Telling
from specgauge.preflight.sweep.folder import Folder
from specgauge.preflight.sweep.measure import run_of
from specgauge.preflight.sweep.memory import gpu_memory
from specgauge.preflight.sweep.order import Visit
from specgauge.preflight.sweep.processes import MARK, Root, end, listed, members, started_at
from specgauge.preflight.sweep.schema import Run
from specgauge.preflight.sweep.server import CandidateError, running
from specgauge.preflight.sweep.state import Book
from specgauge.preflight.sweep.task import Task

ROOT = Path(__file__).parents[1]
STUB = f"{sys.executable} {ROOT / 'tests' / 'sweep_server.py'} --port <<port>> <<speculative>>"
WORDS = ["--concurrency", "1", "--window", "0.5", "--warmup", "0.05", "--output-tokens", "4-8"]
PLAN = Plan(
    levels=closed_levels(["1,2"]),
    lengths=Lengths(low=4, high=8),
    window=0.4,
    warmup=0.05,
    tolerance=0.5,
)
ORDER = Order(plan=PLAN, prompts=shipped("chat"), poll=0.05, drain=5.0)
BARE = Measured(load=Load(concurrency=1), pieces=[Piece(start=0.0, end=1.0)], requests=[])
NOW = datetime(2031, 5, 6, 7, 8, 9, tzinfo=UTC)


def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait for something that another process does."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def is_up(left: tuple[Root, str] | None, candidate: str) -> bool:
    """Tell whether the server that a folder names is this candidate's, and is there."""
    return left is not None and left[1] == candidate and bool(members(left[0]))


def runs_in(folder: Path) -> list[dict[str, Any]]:
    """Read the runs that a sweep has so far."""
    try:
        found = json.loads((folder / "sweep.json").read_text())["runs"]
    except OSError:
        return []
    assert isinstance(found, list)
    return found


def marked() -> set[int]:
    """List every process that a sweep has started and not ended."""
    found = set()
    for pid in listed():
        with contextlib.suppress(OSError):
            if MARK.encode() in Path(f"/proc/{pid}/environ").read_bytes():
                found.add(pid)
    return found


@pytest.fixture(autouse=True)
def leaves_nothing() -> Iterator[None]:
    """Hold every test to leaving no process behind."""
    before = marked()
    yield
    left = marked() - before
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert left == set()


def test_a_sweep_that_is_killed_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """After kill -9 the same command stops the server that was left and loses no run."""
    out = tmp_path / "sweep"
    listed_ones = tmp_path / "candidates.yaml"
    listed_ones.write_text(
        "candidates:\n"
        "  - {name: none}\n"
        "  - {name: ngram-k4, speculative_config: {method: ngram, num_speculative_tokens: 4}}\n"
        "  - name: ngram-k2\n"
        "    server: \"sh -c 'echo ValueError: the vocabularies differ; exit 1' <<port>>\"\n"
        "    speculative_config: {method: ngram, num_speculative_tokens: 2}\n"
    )
    words = ["sweep", "--server", f"{STUB} --child", "--candidates", str(listed_ones)]
    words += ["-o", str(out), *WORDS]
    with (tmp_path / "log").open("w") as log:
        alone = "from specgauge.cli.sweep.group import sweep_group; sweep_group()"
        first = subprocess.Popen([sys.executable, "-c", alone, *words[1:]], stderr=log)
        try:
            until(lambda: len(runs_in(out)) == 1 and is_up(Folder(out).left_server(), "ngram-k4"))
        finally:
            first.kill()
            first.wait()
    before = runs_in(out)
    left = Folder(out).left_server()
    assert left is not None
    root, candidate = left
    assert members(root)
    code = main([*words, "--json"])
    told = capsys.readouterr()
    assert f"stopped what the last run had left of {candidate}" in told.err
    assert "of 3 runs are there; going on" in told.err
    document = json.loads(told.out)
    assert document == json.loads((out / "sweep.json").read_text())
    assert [one["candidate"] for one in document["runs"]] == ["none", "ngram-k4"]
    assert document["runs"][: len(before)] == before
    assert document["complete"] is True
    assert code == expected(document)
    failed = next(one for one in document["states"] if one["name"] == "ngram-k2")
    assert failed["status"] == "failed"
    assert "exit code 1" in failed["reason"]
    assert failed["tail"][-1] == "ValueError: the vocabularies differ"
    assert members(root) == set()
    assert Folder(out).left_server() is None
    assert main(words) == code  # nothing is left to do
    text = capsys.readouterr().out
    assert "ValueError: the vocabularies differ" in text
    assert "ngram-k4" in text


def expected(document: dict[str, Any]) -> int:
    """Give the exit code for what was found: on a busy machine that may be nothing."""
    chosen = document["recommended"]
    if chosen is None or chosen["compared"] == ["none"]:
        return 4
    return int(chosen["num_speculative_tokens"] == 0)


def test_ctrl_c_ends_in_good_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What was measured is kept and shown, and the server is stopped."""
    out = tmp_path / "sweep"

    def interrupt() -> None:
        until(lambda: len(runs_in(out)) == 1)
        os.kill(os.getpid(), signal.SIGINT)

    watching = threading.Thread(target=interrupt)
    watching.start()
    words = ["sweep", "--server", STUB, "--method", "ngram", "--k", "4", "-o", str(out)]
    assert main([*words, *WORDS, "--concurrency", "2"]) == 130
    watching.join()
    told = capsys.readouterr()
    assert "the same command goes on from here" in told.out
    assert len(runs_in(out)) == 1
    assert Folder(out).left_server() is None


@dataclass(slots=True, kw_only=True)
class Watch:
    """What a sweep told while it ran."""

    said: list[str] = field(default_factory=list)
    waited: list[float] = field(default_factory=list)
    lives: list[Live] = field(default_factory=list)
    sweep: Sweep | None = None
    stop_at: str = ""

    def telling(self) -> Telling:
        return Telling(
            say=self.said.append,
            wait=lambda _, seconds: self.waited.append(seconds),
            live=self.live,
        )

    def live(self, visit: Visit, figures: Live) -> None:
        self.lives.append(figures)
        if visit.candidate == self.stop_at and self.sweep is not None:
            self.sweep.stop()


async def sweep(
    task: Task, folder: Path, watch: Watch | None = None, done: Sequence[Run] = ()
) -> tuple[Book, bool]:
    """Run a sweep in this process."""
    kept = Folder(folder)
    book = Book(
        candidates=task.candidates,
        loads=task.loads,
        expected=task.expected,
        settings=task.settings,
        created=NOW,
        write=kept.write,
        visits=len(task.visits),
        runs=list(done),
    )
    watch = watch or Watch()
    watch.sweep = Sweep(
        task,
        book,
        kept,
        open_pages=lambda url: open_scraper(url, task.order),
        telling=watch.telling(),
        salt="s",
    )
    finished = await watch.sweep.run()
    return book, finished


@contextlib.asynccontextmanager
async def servers(*engines: Engine) -> AsyncIterator[list[Engine]]:
    """Run several engines at once."""
    async with contextlib.AsyncExitStack() as stack:
        yield [await stack.enter_async_context(serving_engine(one)) for one in engines]


def drafting(k: int) -> DraftingEngine:
    return DraftingEngine(k=k, step_seconds=lambda _: 0.003 * (1.0 + 0.1 * k))


def given(engines: list[Engine], **changes: Any) -> Task:
    """Ask for a sweep of servers that run."""
    listed_ones = tuple(
        Candidate(name=f"u{place}", k=None, url=one.url) for place, one in enumerate(engines)
    )
    return replace(Task(order=ORDER, candidates=listed_ones, rounds=2), **changes)


async def test_servers_that_run(tmp_path: Path) -> None:
    """Given servers tell their k; every one gets the same prompts, in turns."""
    async with servers(drafting(0), drafting(2)) as engines:
        plan = replace(PLAN, levels=PLAN.levels[:1])
        book, finished = await sweep(given(engines, order=replace(ORDER, plan=plan)), tmp_path)
    assert finished
    assert "".join(run.candidate[1] for run in book.runs) == "0110"
    result = book.result()
    assert {cell.candidate: cell.k for cell in result.cells} == {"u0": 0, "u1": 2}
    assert result.recommended is not None
    assert result.recommended.candidate == "u1"
    assert book.states["u0"].server is not None
    assert book.states["u0"].server.gpu_memory_unknown == "the server was not started here"
    prompts = [[body["prompt"] for body in engine.bodies] for engine in engines]
    shortest = min(len(one) for one in prompts)
    assert shortest > 10
    first = [{text for text in one if text.startswith("[s-1-1-")} for one in prompts]
    assert len(first[0] & first[1]) == min(map(len, first))


async def test_a_given_server_that_fails(tmp_path: Path) -> None:
    """What cannot be reached, or has no page, is out; the others are measured."""
    broken = Engine(faults=Faults(page_gone=True))
    refusing = Engine(faults=Faults(status=500))
    breaking = Engine(faults=Faults(status=500, status_after=3))
    async with servers(drafting(0), broken, refusing, breaking) as engines:
        order = replace(ORDER, plan=replace(PLAN, levels=PLAN.levels[:1]))
        task = given(engines, order=order, rounds=1)
        gone = Candidate(name="gone", k=None, url="http://127.0.0.1:9")
        task = replace(task, candidates=(*task.candidates, gone))
        book, finished = await sweep(task, tmp_path)
    assert finished
    failed = {name: one.reason for name, one in book.states.items() if one.status == "failed"}
    assert set(failed) == {"u1", "u2", "gone"}
    assert "does not answer" in (failed["u2"] or "")
    assert {run.candidate for run in book.runs if run.failure is None} == {"u0"}
    broke = [run.failure for run in book.runs if run.candidate == "u3"]
    assert all("the server fails: http 500" in (reason or "") for reason in broke)


async def test_a_server_without_speculation_that_drafts(tmp_path: Path) -> None:
    """A baseline that drafts is none."""
    async with servers(drafting(2)) as engines:
        listed_ones = (Candidate(name=NONE, k=0, url=engines[0].url),)
        task = given([], candidates=listed_ones, rounds=1)
        book, _ = await sweep(task, tmp_path)
    assert all("the server speculates" in (run.failure or "") for run in book.runs)
    assert book.result().recommended is None


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        pytest.param({"model": "other"}, "no model 'other'", id="model"),
        pytest.param({"temperature": 0.7}, "", id="temperature"),
    ],
)
async def test_terms(changes: dict[str, Any], told: str, tmp_path: Path) -> None:
    """A model that is not served is told; with a temperature every request has the seed."""
    async with servers(drafting(1)) as engines:
        plan = replace(PLAN, levels=PLAN.levels[:1])
        task = given(engines, order=replace(ORDER, plan=plan, **changes), rounds=1)
        book, _ = await sweep(task, tmp_path)
    reason = book.states["u0"].reason or ""
    assert told in reason
    assert not told or book.runs == []
    seeds = {body.get("seed") for body in engines[0].bodies[1:]}
    assert seeds <= {0}


async def test_a_server_without_a_model(tmp_path: Path) -> None:
    """A server that names no model never gets ready; one that is given is told."""
    async with servers(Engine(faults=Faults(keyed=True))) as engines:
        book, _ = await sweep(given(engines), tmp_path)
    assert "/v1/models names no model; name one" in (book.states["u0"].reason or "")


@pytest.mark.parametrize(
    ("measured", "why", "told"),
    [
        pytest.param(None, None, "nothing was measured", id="nothing"),
        pytest.param(None, Why.LIMIT, "full", id="limit"),
        pytest.param(BARE, None, "0 of 3 repeats have a time per token", id="no-tokens"),
        pytest.param(BARE, Why.FAILING, "full", id="failing"),
    ],
)
async def test_levels_that_measured_nothing(
    measured: Measured | None, why: Why | None, told: str
) -> None:
    """A run says why it has no figures."""
    brake = Brake()
    if why is not None:
        brake.pull(why, "full")
    run = run_of(measured, Visit(candidate="a", concurrency=1, round=1), ORDER, brake)
    assert told in (run.failure or "")


async def test_prompts_that_do_not_fit(tmp_path: Path) -> None:
    """A context without room for a prompt and an answer is told before anything is measured."""
    engine = drafting(0)
    engine.max_model_len = 80
    async with servers(engine) as engines:
        with pytest.raises(Exception, match="no prompt fits beside so many"):
            await sweep(given(engines), tmp_path)


def own(*candidates: Candidate, **changes: Any) -> Task:
    """Ask for a sweep that starts its servers."""
    plan = replace(PLAN, levels=PLAN.levels[:1])
    task = Task(
        order=replace(ORDER, plan=plan), candidates=candidates, server=STUB, start_timeout=30.0
    )
    return replace(task, **changes)


async def test_servers_that_never_get_ready(tmp_path: Path) -> None:
    """One that hangs, dies, cannot be started or goes to the background is out, with its log."""
    hangs = Candidate(name="hangs", server="sh -c 'echo loading; sleep 600' <<port>>")
    dies = Candidate(name="dies", server="sh -c 'echo no memory; kill -9 $$' <<port>>")
    lacks = Candidate(name="lacks", server="/not/there <<port>>")
    leaves = Candidate(name="leaves", server="sh -c 'sleep 600 &' <<port>>")
    watch = Watch()
    task = own(hangs, dies, lacks, leaves, start_timeout=0.4)
    book, finished = await sweep(task, tmp_path, watch)
    assert finished
    reasons = {name: one.reason or "" for name, one in book.states.items()}
    assert "not ready within 0.4 s: " in reasons["hangs"]
    assert "ended before it was ready (signal 9)" in reasons["dies"]
    assert "cannot be started: No such file" in reasons["lacks"]
    assert "goes to the background is none: it has to stay" in reasons["leaves"]
    assert book.states["hangs"].tail[-1] == "loading"
    assert book.states["dies"].tail[-1] == "no memory"
    assert watch.waited
    again = Book(
        candidates=book.candidates,
        loads=book.loads,
        expected=(),
        settings=book.settings,
        created=NOW,
        write=lambda _: None,
    )
    kept = Folder(tmp_path).read()
    assert kept is not None
    again.take_up(kept, retry=True)
    assert [again.status(one.name) for one in book.candidates] == ["pending"] * 4


async def test_a_server_that_dies_under_load(tmp_path: Path) -> None:
    """Its death is why it is out, not the requests that failed with it."""
    (candidate,) = grid(["ngram"], [2], [], {})
    task = own(candidate, server=f"{STUB} --collapses 2")
    book, finished = await sweep(task, tmp_path)
    assert finished
    assert book.runs == []
    assert "the server died at concurrency 1 (exit code 9)" in (
        book.states["ngram-k2"].reason or ""
    )


async def test_a_stop_while_a_level_runs(tmp_path: Path) -> None:
    """The level that was under way is not kept, and no further server is asked."""
    watch = Watch(stop_at="u1")
    async with servers(drafting(0), drafting(2)) as engines:
        book, finished = await sweep(given(engines), tmp_path, watch)
    assert not finished
    assert [run.candidate for run in book.runs] == ["u0"]
    assert not book.complete


async def test_a_stop_while_a_server_loads(tmp_path: Path) -> None:
    """A server that still loads is stopped at once."""
    watch = Watch()
    task = own(Candidate(name="hangs", server="sh -c 'sleep 600' <<port>>"))
    sweeping = asyncio.create_task(sweep(task, tmp_path, watch))
    await soon(lambda: bool(watch.waited))
    assert watch.sweep is not None
    watch.sweep.stop()
    book, finished = await sweeping
    assert (finished, book.runs) == (False, [])


async def test_pruned_candidates_are_not_started(tmp_path: Path) -> None:
    """What need not be tried is told, and its server is never asked."""
    listed_ones = (Candidate(name=NONE), *grid(["ngram"], [4, 1], [], {}))
    listed_ones = tuple(replace(one, url="http://127.0.0.1:9") for one in listed_ones)
    order = replace(ORDER, plan=replace(PLAN, levels=closed_levels(["4"])))
    task = Task(order=order, candidates=listed_ones)
    done = world([0.95, 0.9, 0.85, 0.8], 0.02, [0, 4])
    watch = Watch()
    book, finished = await sweep(task, tmp_path, watch, done)
    assert finished
    assert book.status("ngram-k1") == "pruned"
    assert watch.said[0].startswith("ngram-k1: pruned, predicted from")
    book, _ = await sweep(replace(task, prune=False), tmp_path, None, done)
    assert book.status("ngram-k1") == "failed"


async def test_a_process_that_will_not_end_is_killed(tmp_path: Path) -> None:
    """Asked first, then made to; with children in sessions of their own."""
    folder = Folder(tmp_path)
    script = "trap '' TERM; setsid sleep 600 & echo up; while :; do sleep 1; done"
    async with running(["sh", "-c", script], "a", folder, grace=0.3) as server:
        await soon(lambda: (tmp_path / "a.log").read_text().endswith("up\n"))
        assert len(members(server.root)) >= 2
        assert folder.left_server() == (server.root, "a")
    assert members(server.root) == set()
    assert folder.left_server() is None


async def test_a_sweep_that_is_cancelled_stops_its_server(tmp_path: Path) -> None:
    """Even where whoever waits for the end is cancelled while waiting."""
    folder = Folder(tmp_path)
    up = asyncio.Event()

    async def run() -> None:
        async with running(["sh", "-c", "trap '' TERM; sleep 600"], "a", folder, grace=0.5):
            up.set()
            await asyncio.sleep(60)

    task = asyncio.create_task(run())
    await up.wait()
    task.cancel()
    await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert folder.left_server() is None


async def test_a_number_of_another_process_is_left_alone() -> None:
    """A process id that is another's by now is no proof, and neither is its session."""
    process = await asyncio.create_subprocess_exec("sleep", "600", start_new_session=True)
    try:
        root = Root(pid=process.pid, started=started_at(process.pid) + 1, mark="m")
        assert members(root) == set()
        assert await end(root, grace=0.1)
        assert process.returncode is None
        assert members(replace(root, started=root.started - 1)) == {process.pid}
    finally:
        process.kill()
        await process.wait()
    assert started_at(process.pid) == 0


class NVMLError(Exception):
    """What NVIDIA's library raises."""


class Nvml:
    """A machine with two GPUs, on which process 7 holds memory and 8 does not tell."""

    NVMLError = NVMLError

    def __init__(self, fails: str = "") -> None:
        self.fails = fails

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name == self.fails:
            raise NVMLError("Driver Not Loaded")
        held = [SimpleNamespace(pid=7, usedGpuMemory=5), SimpleNamespace(pid=8, usedGpuMemory=None)]
        told = {"nvmlDeviceGetCount": 2, "nvmlDeviceGetComputeRunningProcesses": held}
        return lambda *_: told.get(name)


def missing() -> Nvml:
    raise ImportError


@pytest.mark.parametrize(
    ("pids", "load", "found"),
    [
        pytest.param({7, 8}, Nvml, 10, id="known"),
        pytest.param({8}, Nvml, "the driver names none of the server's processes", id="not-told"),
        pytest.param({7}, lambda: Nvml("nvmlInit"), "no GPU is seen: Driver Not Loaded", id="none"),
        pytest.param(
            {7},
            lambda: Nvml("nvmlDeviceGetCount"),
            "the driver does not tell: Driver Not Loaded",
            id="driver",
        ),
        pytest.param(
            {7}, missing, "nvidia-ml-py is not installed; pip install 'specgauge[gpu]'", id="extra"
        ),
    ],
)
def test_gpu_memory_is_known_or_said_why(
    pids: set[int], load: Callable[[], Any], found: int | str
) -> None:
    """What the server's processes hold on all GPUs, or a reason, never a zero."""
    assert gpu_memory(pids, load) == found


def test_gpu_memory_here() -> None:
    """The library itself is asked, on a machine with a GPU or without."""
    assert gpu_memory({os.getpid()})


def test_an_error_of_a_candidate_has_its_log() -> None:
    """The reason is the message; the lines of the log come with it."""
    problem = CandidateError("why", ["a", "b"])
    assert (str(problem), problem.lines) == ("why", ("a", "b"))
