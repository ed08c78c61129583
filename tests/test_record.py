"""`baseline record` from end to end, against a stub engine whose work is the truth."""

import asyncio
import json
import re
import signal
import socket
import sys
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.calm import Measured, calmly, near
from tests.stub_engine import MODEL, Engine, Faults, serving_engine, until

from specgauge.baseline.brake import Brake
from specgauge.baseline.exchange import parse_address
from specgauge.baseline.level import Live
from specgauge.baseline.load import Ask, Generator, Terms
from specgauge.baseline.plan import Lengths, Plan, closed_levels, open_levels
from specgauge.baseline.prompts import Prompt, PromptSet, read_prompts, shipped
from specgauge.baseline.record import Order, Recorder, Recording
from specgauge.baseline.schema import BaselineFile, LevelRecord, dump, parse
from specgauge.cli.baseline.live import describe, finished, watching
from specgauge.cli.baseline.record import record
from specgauge.errors import BaselineError, SourceError, UsageError
from specgauge.serve.scrape import Endpoint, Scraper

NOW = datetime(2031, 5, 6, 7, 8, 9, tzinfo=UTC)
PLAN = Plan(
    levels=closed_levels(["1,2"]),
    lengths=Lengths(low=8, high=24),
    window=1.2,
    warmup=0.2,
    tolerance=0.10,
)
ORDER = Order(plan=PLAN, prompts=shipped("chat"), poll=0.1)


@dataclass(slots=True, kw_only=True)
class Run:
    """What a recording left behind besides its result."""

    saved: list[BaselineFile] = field(default_factory=list)
    told: list[Live | LevelRecord] = field(default_factory=list)
    brake: Brake = field(default_factory=Brake)


async def run(
    engine: Engine, order: Order = ORDER, run: Run | None = None, stall_seconds: float = 30.0
) -> Recording:
    """Record a running engine."""
    kept = run or Run()
    scraper = Scraper(Endpoint(url=f"{engine.url}/metrics"))
    recorder = Recorder(
        order,
        scraper,
        Generator(parse_address(engine.url), stall_seconds=stall_seconds),
        brake=kept.brake,
        now=lambda: NOW,
        save=kept.saved.append,
        report=kept.told.append,
    )
    try:
        return await recorder.record()
    finally:
        await scraper.close()


def plan_with(**changes: object) -> Order:
    return replace(ORDER, plan=replace(PLAN, **changes))  # type: ignore[arg-type]


async def test_a_baseline_is_recorded() -> None:
    """Two levels of a healthy server: both sides' figures agree, and the file says whose it is."""

    async def record_two() -> list[Measured]:
        kept = Run()
        async with serving_engine(Engine()) as engine:
            made = await run(engine, run=kept)
        assert_whole(made, kept)
        return [one for level in made.file.levels for one in figures_of(level)]

    await calmly(record_two)


def assert_whole(made: Recording, kept: Run) -> None:
    """Hold a recording of two levels against the stub that it is of."""
    file = made.file
    assert (made.ended, file.partial, file.method, file.created) == (
        None,
        False,
        "closed_loop",
        NOW,
    )
    assert (file.engine.name, file.engine.version) == ("vllm", "0.25.1")
    assert (file.model.name, file.model.max_model_len) == (MODEL, 4096)
    assert (file.hardware.kv_blocks, file.parallelism.data) == (4096, 1)
    assert file.workload.prompts_sha256 == shipped("chat").sha256
    assert (file.workload.name, file.workload.output_tokens) == ("chat", "8-24")
    assert (file.workload.prefix_caching, file.workload.temperature) == (False, 0.0)
    assert "hardware.gpu" in file.missing
    assert [one.concurrency for one in file.levels] == [1, 2]
    assert [len(one.levels) for one in kept.saved] == [1, 2, 2]
    assert [one.partial for one in kept.saved] == [True, True, False]
    assert parse(dump(file), source="x") == file
    for level in file.levels:
        assert_sound(level)


def assert_sound(level: LevelRecord) -> None:
    """Hold a level against itself and against what was asked for."""
    server, client = level.server, level.client
    assert server is not None
    assert client is not None
    assert client.tpot_seconds.ci95 is not None
    assert server.tpot_ci95 is not None
    assert server.tpot_ci95[0] <= server.tpot_seconds <= server.tpot_ci95[1]
    assert 3 <= level.repeats <= 6
    assert (level.failed_requests, server.step_seconds) == (0, server.tpot_seconds)
    assert 8 <= (level.output_tokens_per_request or 0.0) <= 24


def figures_of(level: LevelRecord) -> list[Measured]:
    """Hold what the client measured against the server's word, and the load against the plan."""
    server, client, streams = level.server, level.client, level.concurrency
    assert server is not None
    assert client is not None
    assert streams is not None
    pace, load = server.tpot_seconds, level.decode_concurrency
    return [
        near("client's TPOT", client.tpot_seconds.mean, pace, rel=0.10),
        near("chunk gap", client.chunk_gap_seconds.mean, pace, rel=0.15),
        Measured(name="decode concurrency", value=load, low=0.4 * streams, high=streams),
        Measured(name="window", value=level.window_seconds, low=0.5, high=4.0),
        Measured(name="tokens", value=level.output_tokens_per_request, low=11.0, high=21.0),
    ]


async def test_every_prompt_is_new_to_the_cache() -> None:
    """No two requests begin alike, lengths are mixed, and the end of a text is not heeded."""
    async with serving_engine(Engine(step_seconds=lambda _: 0.001)) as engine:
        await run(engine, plan_with(levels=closed_levels(["2"])))
    sent = engine.bodies[1:]
    assert len({body["prompt"].split()[0] for body in sent}) == len(sent)
    assert len({body["max_tokens"] for body in sent}) > 5
    assert all(body["ignore_eos"] for body in sent)


async def test_an_open_loop_has_rates() -> None:
    """With request rates there are no concurrencies, and the achieved load is measured."""
    order = plan_with(levels=open_levels(["20"]))

    async def record_rate() -> list[Measured]:
        async with serving_engine(Engine()) as engine:
            file = (await run(engine, order)).file
        (level,) = file.levels
        assert (file.method, level.request_rate, level.concurrency) == ("open_loop", 20.0, None)
        seconds, load = level.window_seconds or 0.0, level.decode_concurrency
        return [
            Measured(name="decode concurrency", value=load, low=0.5, high=8.0),
            Measured(name="requests", value=level.requests, low=14 * seconds, high=26 * seconds),
        ]

    await calmly(record_rate)


async def test_chat_with_thinner_servers() -> None:
    """A server that refuses what is beyond the standard is asked for the standard."""
    engine = Engine(faults=Faults(refuses_extras=True))
    order = replace(plan_with(levels=closed_levels(["1"])), endpoint="chat")
    async with serving_engine(engine):
        file = (await run(engine, order)).file
    assert "messages" in engine.bodies[-1]
    assert "ignore_eos" not in engine.bodies[-1]
    assert any("ignore_eos" in note for note in file.notes)
    assert any("first chunk are not told" in note for note in file.notes)


async def test_without_a_page_the_client_alone_measures() -> None:
    """A server without metrics is no obstacle: the client's figures stand alone."""

    async def record_client() -> list[Measured]:
        engine = Engine(faults=Faults(page_gone=True))
        async with serving_engine(engine):
            file = (await run(engine, plan_with(levels=closed_levels(["2"])))).file
        (level,) = file.levels
        assert level.server is None
        assert level.client is not None
        assert file.engine.name == "unknown"
        assert any("no figures of the server's own" in note for note in file.notes)
        return [
            near("client's TPOT", level.client.tpot_seconds.mean, engine.pace, rel=0.15),
            Measured(name="decode concurrency", value=level.decode_concurrency, low=0.5, high=2.0),
        ]

    await calmly(record_client)


async def test_without_usage_the_page_alone_measures() -> None:
    """A stream without usage gives no TPOT; the requests are counted by that name."""
    engine = Engine(faults=Faults(no_usage=True))
    order = replace(plan_with(levels=closed_levels(["1"])), shared=True)
    async with serving_engine(engine):
        file = (await run(engine, order)).file
    (level,) = file.levels
    assert level.client is not None
    assert level.client.tpot_seconds.mean is None
    assert level.client.ttft_seconds.mean is not None
    assert level.server is not None
    assert any("no_usage: " in note for note in level.notes)
    assert any("sends no usage" in note for note in file.notes)


async def test_neither_usage_nor_page() -> None:
    """Where nobody counts tokens there is nothing to record."""
    engine = Engine(faults=Faults(no_usage=True, page_gone=True))
    async with serving_engine(engine):
        with pytest.raises(BaselineError, match="neither the stream nor a metrics page"):
            await run(engine)


async def test_first_chunks_of_several_tokens_are_corrected() -> None:
    """Where the first chunk holds several tokens, the client's TPOT still is the server's step."""
    order = plan_with(levels=closed_levels(["1"]))

    async def record_held_back() -> list[Measured]:
        engine = Engine(faults=Faults(held_back=4))
        async with serving_engine(engine):
            file = (await run(engine, order)).file
        client = file.levels[0].client
        assert client is not None
        return [near("client's TPOT", client.tpot_seconds.mean, engine.pace, rel=0.10)]

    await calmly(record_held_back)


async def test_difference_between_client_and_server_is_named() -> None:
    """A server whose own TPOT differs by more than five percent is doubted in the notes."""
    engine = Engine(faults=Faults(foreign=1))
    order = replace(plan_with(levels=closed_levels(["1"])), shared=True)
    async with serving_engine(engine):
        file = (await run(engine, order)).file
    (level,) = file.levels
    assert any("off the server's" in note for note in level.notes)
    assert any(note.startswith("shared: the server generated") for note in level.notes)


async def test_an_interval_that_stays_wide_is_named() -> None:
    """A level that uses its whole window without a tight mean says so."""
    async with serving_engine(Engine()) as engine:
        order = plan_with(levels=closed_levels(["1"]), tolerance=1e-9)
        file = (await run(engine, order)).file
    (level,) = file.levels
    assert level.repeats == PLAN.pieces
    assert any("a longer --window narrows it" in note for note in level.notes)


async def test_a_server_that_speculates_is_refused() -> None:
    """A baseline is without speculation; drafts on the page end it before it begins."""
    engine = Engine(faults=Faults(drafts=True))
    async with serving_engine(engine):
        with pytest.raises(BaselineError, match="the server speculates: it drafts"):
            await run(engine)
    assert engine.began == 1


async def test_several_tokens_a_step_are_speculation_too() -> None:
    """Steps that yield more than one token are not those of a baseline, whatever is counted."""
    engine = Engine(faults=Faults(hidden=1))
    async with serving_engine(engine):
        with pytest.raises(BaselineError, match=r"its steps yield 2\.\d+ tokens a request"):
            await run(engine, replace(ORDER, shared=True))


async def test_a_server_that_begins_to_speculate_is_left() -> None:
    """Drafts that appear in a later level end the recording; the earlier level is kept."""
    engine, kept = Engine(), Run()
    async with serving_engine(engine):
        task = asyncio.create_task(run(engine, run=kept))
        await until(lambda: len(kept.saved) == 1)
        engine.faults.drafts = True
        made = await task
    assert made.ended is not None
    assert "speculates" in made.ended
    assert ([one.concurrency for one in made.file.levels], made.file.partial) == ([1], True)


@pytest.mark.parametrize("shared", [False, True], ids=["alone", "shared"])
async def test_other_traffic_at_the_start(shared: bool) -> None:
    """A server with requests of others is refused, unless it is meant to be shared."""
    async with serving_engine(Engine()) as engine:
        other = Generator(parse_address(engine.url))
        async with other.running():
            ask = Ask(prompt=Prompt(text="x"), tokens=100_000)
            asking = asyncio.create_task(other.send(Terms(model=MODEL), ask))
            await until(lambda: bool(engine.running))
            order = replace(plan_with(levels=closed_levels(["1"])), shared=shared)
            if shared:
                level = (await run(engine, order)).file.levels[0]
                assert any("shared: " in note for note in level.notes)
            else:
                with pytest.raises(BaselineError, match="requests under way: 1"):
                    await run(engine, order)
            other.give_up()
            await asking


async def test_counters_that_move_at_the_start() -> None:
    """Traffic between two looks is seen although no request is under way at either."""
    engine = Engine()
    async with serving_engine(engine):
        ticking = asyncio.create_task(tick(engine))
        with pytest.raises(BaselineError, match="its token counters move"):
            await run(engine)
        ticking.cancel()


async def tick(engine: Engine) -> None:
    while True:
        await asyncio.sleep(0.02)
        engine.count_foreign(5)


async def test_other_traffic_under_way() -> None:
    """Tokens that nobody asked for here end the recording, and the level is not kept."""
    engine, kept = Engine(), Run()
    async with serving_engine(engine):
        task = asyncio.create_task(run(engine, run=kept))
        await until(lambda: len(kept.saved) == 1)
        await until(lambda: len(engine.running) == 2)
        engine.count_foreign(4_000)
        made = await task
    assert made.ended is not None
    assert re.search(r"other traffic: the server generated [34]\d\d\d tokens", made.ended)
    assert [one.concurrency for one in made.file.levels] == [1]


@pytest.mark.parametrize(
    ("engine", "told"),
    [
        pytest.param(Engine(max_running=1), "requests waiting: ", id="waiting queue"),
        pytest.param(Engine(kv_tokens=60), "the KV cache is", id="KV cache"),
    ],
)
async def test_a_server_is_not_driven_to_its_limit(engine: Engine, told: str) -> None:
    """A level that fills the queue or the cache ends the climb; lower levels are kept."""
    prompts = replace(shipped("chat"), prompts=shipped("chat").prompts[:1])
    order = replace(plan_with(levels=closed_levels(["1,2,4"])), prompts=prompts)
    async with serving_engine(engine):
        made = await run(engine, order)
    assert made.ended is not None
    assert told in made.ended
    assert [one.concurrency for one in made.file.levels][:1] == [1]
    assert 4 not in [one.concurrency for one in made.file.levels]
    assert not made.file.partial


@pytest.mark.parametrize(
    ("faults", "told"),
    [
        pytest.param(Faults(status=503), "http 503", id="503"),
        pytest.param(Faults(status=429), "http 429", id="429"),
        pytest.param(Faults(garbage=True), "no event stream", id="garbage"),
        pytest.param(Faults(error_event=True), "out of memory", id="error event"),
        pytest.param(Faults(truncate=True), "without a finish_reason", id="truncated"),
        pytest.param(Faults(stall=True), "stalled", id="stall"),
    ],
)
async def test_what_goes_wrong_under_way_loses_nothing(faults: Faults, told: str) -> None:
    """A server that fails in the second level leaves a partial file with the first one."""
    engine, kept = Engine(), Run()
    async with serving_engine(engine):
        task = asyncio.create_task(run(engine, run=kept, stall_seconds=0.5))
        await until(lambda: len(kept.saved) == 1)
        await until(lambda: len(engine.running) == 2)
        engine.faults = faults
        made = await task
    assert made.ended is not None
    assert told in made.ended
    assert made.file.partial
    assert made.file.levels[0].concurrency == 1
    assert any(note.startswith("ended early: the server fails") for note in made.file.notes)
    assert kept.saved[-1] == made.file


async def test_a_server_that_dies() -> None:
    """A dead server ends the recording within seconds, with what there is."""
    engine, kept = Engine(), Run()
    async with serving_engine(engine):
        task = asyncio.create_task(run(engine, run=kept))
        await until(lambda: len(kept.saved) == 1)
        await until(lambda: len(engine.running) == 2)
        await engine.die()
        made = await task
    assert made.file.partial
    assert made.file.levels[0].concurrency == 1
    assert made.ended is not None


async def test_a_level_cut_short_is_kept_with_a_note() -> None:
    """Whole pieces of a level are kept when the recording ends within it."""
    engine, kept = Engine(), Run()
    order = plan_with(levels=closed_levels(["1"]), tolerance=1e-9, window=3.0)
    async with serving_engine(engine):
        task = asyncio.create_task(run(engine, order, kept))
        await until(lambda: bool(kept.told) and getattr(kept.told[-1], "tpot", None) is not None)
        kept.brake.event.set()
        made = await task
    (level,) = made.file.levels
    assert made.ended == "stopped by the user"
    assert level.repeats >= 1
    assert any(note.startswith(f"cut short after {level.repeats}") for note in level.notes)


async def test_no_model_is_named() -> None:
    """A server that answers but lists no model is asked for its name, or for the key."""
    engine = Engine(faults=Faults(keyed=True))
    async with serving_engine(engine):
        with pytest.raises(BaselineError, match="names no model; name it with --model, and give"):
            await run(engine)


async def test_nothing_to_show() -> None:
    """A recording that is stopped before it has anything says so instead of writing a file."""
    kept = Run()
    kept.brake.event.set()
    async with serving_engine(Engine()) as engine:
        with pytest.raises(BaselineError, match="nothing was recorded: stopped by the user"):
            await run(engine, run=kept)
    assert kept.saved == []


async def test_stopped_while_the_server_is_tried() -> None:
    """A server that hangs at the first request does not hold up whoever stops the recording."""
    engine, kept = Engine(faults=Faults(stall=True)), Run()
    async with serving_engine(engine):
        task = asyncio.create_task(run(engine, run=kept))
        await until(lambda: bool(engine.running))
        kept.brake.event.set()
        with pytest.raises(BaselineError, match="nothing was recorded: stopped by the user"):
            await task


async def test_a_server_that_answers_nothing() -> None:
    """An endpoint that is not there is named with its answer."""
    engine = Engine(faults=Faults(status=404))
    async with serving_engine(engine):
        with pytest.raises(BaselineError, match="does not answer /v1/completions: http 404"):
            await run(engine)


async def test_prompts_must_fit_the_context() -> None:
    """Prompts too long for the model are left out; if none is left, the fix is named."""
    order = plan_with(levels=closed_levels(["1"]))
    async with serving_engine(Engine(max_model_len=150)) as engine:
        file = (await run(engine, order)).file
        assert any("prompts left out" in note for note in file.notes)
    async with serving_engine(Engine(max_model_len=90)) as engine:
        with pytest.raises(UsageError, match="--output-tokens 8-24: no prompt fits"):
            await run(engine, order)


async def test_prompts_must_leave_room_for_the_answer_they_ask_for(tmp_path: Path) -> None:
    """A length of its own beyond the context is refused by its place before a level is run."""
    file = tmp_path / "mine.jsonl"
    file.write_text('"Hi"\n{"prompt": "Ho", "max_tokens": 5000}\n')
    kept, order = Run(), replace(ORDER, prompts=read_prompts(file))
    async with serving_engine(Engine()) as engine:
        with pytest.raises(UsageError, match=r"--prompts .*mine\.jsonl:2: asks for 5000 tokens"):
            await run(engine, order, kept)
    assert (engine.began, kept.saved) == (0, [])


async def test_an_answer_without_end_does_not_hold_up_a_level() -> None:
    """After warm-up, twice the window and the drain it is cut; what the server told is kept."""
    prompts = PromptSet(name="p", prompts=(Prompt(text="Hi", tokens=10**6),))
    order = replace(plan_with(levels=closed_levels(["1"]), window=0.6), prompts=prompts, drain=0.2)
    engine, kept = Engine(max_model_len=10**7, step_seconds=lambda _: 0.002), Run()
    async with asyncio.timeout(60), serving_engine(engine):
        (level,) = (await run(engine, order, kept)).file.levels
    assert level.requests == 0
    assert level.server is not None


@pytest.mark.parametrize("times", [2, 10**12, 10**400], ids=["twice", "absurd", "endless"])
async def test_a_server_that_counts_more_than_was_asked_for(times: int) -> None:
    """It fails as other sick servers do, in a line, and what was recorded before is kept."""
    engine, kept = Engine(), Run()
    async with serving_engine(engine):
        task = asyncio.create_task(run(engine, run=kept))
        await until(lambda: bool(kept.saved))
        engine.faults.counted_times = times
        made = await task
    assert made.file.partial
    assert made.ended == "the server fails: usage counts more tokens than were asked for"
    assert made.file.levels[0].concurrency == 1
    sick = Engine(faults=Faults(counted_times=times))
    async with serving_engine(sick):
        with pytest.raises(BaselineError, match="nothing was recorded: the server fails: usage"):
            await run(sick)
    blind = Engine(faults=Faults(counted_times=times, page_gone=True))
    async with serving_engine(blind):
        with pytest.raises(BaselineError, match="neither the stream nor a metrics page"):
            await run(blind)


async def test_a_page_that_tells_no_sense_ends_the_recording() -> None:
    """Figures that no server has are told in a line; the levels before them are kept."""
    engine, kept = Engine(), Run()
    async with serving_engine(engine):
        task = asyncio.create_task(run(engine, run=kept))
        await until(lambda: bool(kept.saved))
        while not task.done():
            engine.step.total += 1e13
            await asyncio.sleep(0.05)
        made = await task
    assert made.file.partial
    assert made.ended is not None
    assert made.ended.startswith("the server tells no sense: concurrency 2: ")
    assert [one.concurrency for one in made.file.levels] == [1]


async def test_the_model_is_one_that_is_served() -> None:
    """Another name is refused with those there are; the file has the name on the page."""
    async with serving_engine(Engine()) as engine:
        for wrong in ("foo", "stu"):
            with pytest.raises(UsageError, match=f"no model '{wrong}'; there is {MODEL}"):
                await run(engine, replace(ORDER, model=wrong, facts={"model.name": wrong}))
        assert engine.began == 0
    async with serving_engine(Engine(faults=Faults(keyed=True))) as engine:
        order = replace(plan_with(levels=closed_levels(["1"])), model="alias")
        made = await run(engine, replace(order, facts={"model.name": "alias"}))
    assert engine.bodies[-1]["model"] == "alias"
    assert made.file.model.name == MODEL


@pytest.mark.parametrize(("fact", "value"), [("engine.version", "0.9.0"), ("parallelism.data", 4)])
async def test_facts_that_the_server_contradicts_are_refused(fact: str, value: object) -> None:
    """An option may only state what the server does not tell."""
    async with serving_engine(Engine()) as engine:
        with pytest.raises(UsageError, match=f"{fact}: .* is stated, the server tells"):
            await run(engine, replace(ORDER, facts={fact: value}))
        assert engine.began <= 1


COMMAND = (
    "import sys; from specgauge.cli.baseline.record import record; "
    "sys.exit(record.main(sys.argv[1:], standalone_mode=False))"
)


WHOLE = (
    "import sys; from specgauge.cli.main import main; "
    "sys.exit(main(['baseline', 'record', *sys.argv[1:]]))"
)


async def start(*arguments: str, command: str = COMMAND) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", command, *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def finish(process: asyncio.subprocess.Process) -> tuple[int | None, str]:
    _, said = await process.communicate()
    return process.returncode, said.decode()


async def test_the_command_writes_a_file(tmp_path: Path) -> None:
    """From the command line to a file that can be read back, with a line a level on stderr."""
    file, key = tmp_path / "b.json", tmp_path / "key"
    key.write_text("secret\n")
    async with serving_engine(Engine()) as engine:
        process = await start(
            *("--url", f"{engine.url}/v1", "-o", str(file), "--concurrency", "1,4"),
            *("--window", "0.5", "--warmup", "0.1", "--output-tokens", "8-16"),
            *("--gpu", "H200", "--tensor-parallel", "2", "--api-key-file", str(key)),
        )
        code, said = await finish(process)
    assert (code, "concurrency 1: " in said, "add 2" in said) == (0, True, True), said
    made = parse(file.read_text(), source=str(file))
    assert (made.hardware.gpu, made.parallelism.tensor) == ("H200", 2)
    assert (made.workload.name, made.model.name) == ("mixed", MODEL)
    assert engine.headers[-1]["Authorization"] == "Bearer secret"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "terminated"])
async def test_the_command_stopped_leaves_a_partial_file(
    tmp_path: Path, number: signal.Signals
) -> None:
    """Stopped after the first level, it keeps that level, marks the file, and ends with 130."""
    file, engine = tmp_path / "b.json", Engine()
    async with serving_engine(engine):
        process = await start(
            *("--url", engine.url, "-o", str(file), "--concurrency", "1,2"),
            *("--warmup", "0.1", "--output-tokens", "8-16", "--window", "0.6"),
        )
        await until(file.exists)
        engine.faults.stall = True  # the next level cannot end before the signal comes
        assert json.loads(file.read_text())["partial"] is True
        process.send_signal(number)
        code, said = await finish(process)
    assert (code, f"{file}: partial, " in said, "stopped by the user" in said) == (130, True, True)
    made = parse(file.read_text(), source=str(file))
    assert made.partial
    assert made.levels[0].concurrency == 1


async def test_the_command_stopped_before_a_level_leaves_nothing(tmp_path: Path) -> None:
    """Stopped while the server is tried, it ends as if stopped, and an older file stays."""
    file, engine = tmp_path / "b.json", Engine(faults=Faults(stall=True))
    file.write_text("older")
    async with serving_engine(engine):
        process = await start("--url", engine.url, "-o", str(file), command=WHOLE)
        await until(lambda: bool(engine.running))
        process.send_signal(signal.SIGINT)
        code, said = await finish(process)
    assert code == 130, said
    assert said.splitlines() == [
        f"specgauge: {file} is there: replaced once a level is recorded",
        "specgauge: nothing was recorded: stopped by the user",
    ]
    assert file.read_text() == "older"


async def test_the_command_prints_a_file() -> None:
    """With - the whole baseline goes to standard output, once."""
    async with serving_engine(Engine()) as engine:
        process = await start(
            *("--url", engine.url, "-o", "-", "--concurrency", "1"),
            *("--window", "0.5", "--warmup", "0.1", "--output-tokens", "8-16"),
        )
        printed, said = await process.communicate()
    assert process.returncode == 0, said
    assert len(parse(printed.decode(), source="-").levels) == 1


def test_a_server_that_is_not_there_is_named(tmp_path: Path) -> None:
    """Nobody listens: the failure is told, with the address, before anything is recorded."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but not listening
        port = taken.getsockname()[1]
        with pytest.raises(SourceError, match=rf"127\.0\.0\.1:{port}/metrics: cannot connect"):
            invoke("--url", f"http://127.0.0.1:{port}", "-o", str(tmp_path / "b.json"))


def invoke(*arguments: str) -> None:
    record.main(list(arguments), standalone_mode=False)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        pytest.param(["--concurrency", "x"], "--concurrency: 'x' is no", id="concurrency"),
        pytest.param(["--request-rate", "x"], "--request-rate: 'x' is no", id="rate"),
        pytest.param(
            ["--request-rate", "1", "--concurrency", "1"], "give one of them", id="both loads"
        ),
        pytest.param(["--output-tokens", "9-1"], "--output-tokens: '9-1'", id="lengths"),
        pytest.param(["--class", "poems"], "--class poems: choose one", id="class"),
        pytest.param(["--prompts", "none.jsonl"], "--prompts none.jsonl: No such", id="prompts"),
        pytest.param(["--api-key-file", "none"], "--api-key-file none: No such", id="key"),
        pytest.param(["--url", "localhost"], "--url: 'localhost' is no", id="url"),
    ],
)
def test_the_command_line_is_checked_first(tmp_path: Path, arguments: list[str], told: str) -> None:
    """Every wrong option is named before anything is sent."""
    base = ["--url", "http://127.0.0.1:9", "-o", str(tmp_path / "b.json")]
    with pytest.raises(UsageError, match=told):
        invoke(*base, *arguments)


@pytest.mark.parametrize("data", [b"", b"\xff", b"a\nb"], ids=["empty", "no text", "two lines"])
def test_a_key_is_one_line(tmp_path: Path, data: bytes) -> None:
    """A file that holds no key is named."""
    file = tmp_path / "key"
    file.write_bytes(data)
    base = ["--url", "http://127.0.0.1:9", "-o", str(tmp_path / "b.json")]
    with pytest.raises(UsageError, match="--api-key-file"):
        invoke(*base, "--api-key-file", str(file))


def test_live_figures_fit_a_line() -> None:
    """What is known of a level stands on one line; what is not is left out."""
    load = PLAN.levels[0]
    bare = Live(load=load, seconds=0.1, steady=False, in_flight=1)
    full = replace(
        bare, steady=True, chunks_per_second=200.4, tpot=0.005, half_width=0.01, waiting=2.0,
        kv_usage=0.25,
    )  # fmt: skip
    assert describe(bare) == "concurrency 1 | 1 in flight | warming up | 0 chunks/s"
    assert describe(full) == (
        "concurrency 1 | 1 in flight | TPOT 5 ms +-1.0% | 200 chunks/s | 2 waiting | KV 25%"
    )


def test_a_finished_level_has_its_notes_below() -> None:
    """A level's line has both sides' TPOT, where they are known."""
    level = LevelRecord.model_validate(
        {
            "request_rate": 0.5,
            "decode_concurrency": 1.5,
            "window_seconds": 9.0,
            "requests": 5,
            "server": {"tpot_seconds": 0.005},
            "notes": ["a", "b"],
        }
    )
    assert finished(level) == (
        "0.5 requests/s: 1.5 in decode, TPOT 5 ms (server), 5 requests in 9 s\n  a\n  b"
    )


def test_progress_takes_what_it_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Off a terminal only finished levels are shown."""
    level = LevelRecord.model_validate(
        {"concurrency": 1, "decode_concurrency": 1.0, "client": {"tpot_seconds": {"mean": 0.005}}}
    )
    with watching(PLAN) as report:
        report(Live(load=PLAN.levels[1], seconds=9.0, steady=True, in_flight=1))
        report(Live(load=PLAN.levels[0], seconds=0.1, steady=False, in_flight=1))
        report(level)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "concurrency 1: 1 in decode, 5 ms (client), 0 requests in 0 s\n"
