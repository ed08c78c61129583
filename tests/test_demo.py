"""The demo's recordings, the engine that plays them back, and the command around both."""

import asyncio
import itertools
import lzma
import re
import signal
import socket
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

import aiohttp
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from specgauge.cli.demo import (
    DemoOptions,
    Service,
    SidecarSetup,
    demo,
    describe,
    make_sidecar,
    play,
)
from specgauge.errors import UsageError
from specgauge.serve.demo.recording import (
    RecordedPage,
    Recording,
    RecordingName,
    list_digests,
    load,
    load_digests,
    pack,
    unpack,
)
from specgauge.serve.demo.replay_page import Reel
from specgauge.serve.demo.stand_in import CONTENT_TYPE, StandIn
from specgauge.serve.demo.story import Act, Plot, Story

RECORDINGS = {name: load(name) for name in RecordingName}
REELS = {name: Reel(recording) for name, recording in RECORDINGS.items()}
SPEC = "vllm:spec_decode_num_"
E2E = "vllm:e2e_request_latency_seconds"
DURATION = 133.001

names = st.sampled_from(RecordingName)
moments = st.floats(min_value=0, max_value=3 * 135, allow_nan=False)
every_recording = pytest.mark.parametrize("name", list(RecordingName), ids=str)


def read_samples(page: str) -> dict[str, float]:
    """Read every sample of a page by its key."""
    lines = (line for line in page.splitlines() if not line.startswith("#"))
    return {key: float(value) for key, _, value in (line.rpartition(" ") for line in lines)}


def sum_by_name(samples: dict[str, float]) -> dict[str, float]:
    """Add up samples over their labels."""
    totals: defaultdict[str, float] = defaultdict(float)
    for key, value in samples.items():
        totals[key.partition("{")[0]] += value
    return dict(totals)


def find_kinds(page: str) -> dict[str, str]:
    """Find the TYPE of every family of a page."""
    return dict(re.findall(r"^# TYPE (\S+) (\S+)$", page, re.MULTILINE))


def split_key(key: str) -> tuple[str, frozenset[str]]:
    """Split a sample's key into its name and its labels but `le`."""
    labels = re.findall(r'\w+="[^"]*"', key)
    return key.partition("{")[0], frozenset(one for one in labels if not one.startswith("le="))


def is_cumulative(key: str, kinds: dict[str, str]) -> bool:
    """Whether a sample may never fall."""
    name = key.partition("{")[0]
    kind = kinds.get(name) or kinds[name.rpartition("_")[0]]
    return kind in {"counter", "histogram", "summary"}


class FakeClock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class FakeSidecar:
    """A sidecar that only remembers what was asked of it."""

    def __init__(self, setup: SidecarSetup, on_start: Callable[[], None]) -> None:
        self.setup = setup
        self.url = f"http://{setup.listen}"
        self.on_start = on_start
        self.running = False
        self.page = ""

    async def start(self) -> None:
        async with aiohttp.ClientSession() as session:
            answer = await session.get(f"{self.setup.engine_url}/metrics")
            self.page = await answer.text()
        self.on_start()
        self.running = True

    async def stop(self) -> None:
        self.running = False


# --- the recordings -------------------------------------------------------------------------


@every_recording
def test_every_recorded_page_comes_back_byte_for_byte(name: RecordingName) -> None:
    """The sha256 list was written from the raw captures, before they were packed."""
    assert tuple(page.digest for page in RECORDINGS[name].pages) == load_digests(name)


@every_recording
def test_packing_keeps_everything(name: RecordingName) -> None:
    """A recording cut to three pages reads back as it was written, digests included."""
    whole = RECORDINGS[name]
    recording = Recording(
        engine_version=whole.engine_version,
        hardware=whole.hardware,
        method=whole.method,
        synthetic_acceptance=whole.synthetic_acceptance,
        num_speculative_tokens=whole.num_speculative_tokens,
        arrivals_per_second=whole.arrivals_per_second,
        phase_seconds=whole.phase_seconds,
        pages=whole.pages[:3],
    )
    assert unpack(pack(recording)) == recording
    assert tuple(list_digests(recording.pages).split()) == load_digests(name)[:3]


def test_a_foreign_file_is_refused() -> None:
    """A file of another format is named as such, with what to do."""
    packed = lzma.compress(b'{"format": "something/v9"}')
    with pytest.raises(ValueError, match=r"specgauge\.recording/v1.*make_recordings"):
        unpack(packed)


def test_the_recordings_say_what_they_are() -> None:
    """Both ramps have the same arrivals; one speculates with eagle and four draft tokens."""
    speculative = RECORDINGS[RecordingName.SPECULATIVE]
    standard = RECORDINGS[RecordingName.STANDARD]
    assert (speculative.method, speculative.num_speculative_tokens) == ("eagle", 4)
    assert speculative.synthetic_acceptance
    assert (standard.method, standard.num_speculative_tokens) == (None, None)
    assert speculative.arrivals_per_second == standard.arrivals_per_second
    assert speculative.duration == DURATION


# --- the page at any moment -----------------------------------------------------------------


@every_recording
def test_a_recorded_moment_shows_the_recorded_page(name: RecordingName) -> None:
    """At the time of a recorded page the page is the recorded one, to the byte."""
    recording = RECORDINGS[name]
    for page in recording.pages:
        assert REELS[name].page_at(page.at) == page.text


@every_recording
@pytest.mark.parametrize("error", [1e-9, -1e-9], ids=["late", "early"])
def test_a_clock_off_by_a_nanosecond_changes_no_counter(name: RecordingName, error: float) -> None:
    """Float error in the clock does not cost a count."""
    page = RECORDINGS[name].pages[min(50, len(RECORDINGS[name].pages) - 1)]
    kinds = find_kinds(page.text)
    recorded = read_samples(page.text)
    shown = read_samples(REELS[name].page_at(page.at + error))
    assert shown == recorded or all(
        shown[key] == recorded[key] for key in recorded if is_cumulative(key, kinds)
    )


@settings(deadline=None, max_examples=60)
@given(name=names, first=moments, second=moments)
def test_counters_never_fall(name: RecordingName, first: float, second: float) -> None:
    """Between any two moments, also across rounds, no counter, bucket, count or sum falls."""
    kinds = find_kinds(RECORDINGS[name].pages[0].text)
    earlier, later = (read_samples(REELS[name].page_at(at)) for at in sorted([first, second]))
    assert earlier.keys() == later.keys()
    fallen = [key for key in earlier if later[key] < earlier[key] and is_cumulative(key, kinds)]
    assert fallen == []


@every_recording
@pytest.mark.parametrize("lap", [1, 2, 7])
def test_the_next_round_goes_on_where_the_last_one_ended(name: RecordingName, lap: int) -> None:
    """Just before and just after the seam the counters agree and `_created` has not moved."""
    reel, duration = REELS[name], RECORDINGS[name].duration
    kinds = find_kinds(RECORDINGS[name].pages[0].text)
    before = read_samples(reel.page_at(lap * duration))
    after = read_samples(reel.page_at(lap * duration + 1e-6))
    first = read_samples(reel.page_at(0))
    for key, value in before.items():
        if is_cumulative(key, kinds):
            assert value <= after[key]
            assert after[key] == pytest.approx(value, rel=1e-6, abs=1e-6)
        if "_created" in key or key == "process_start_time_seconds":
            assert after[key] == first[key]


def test_a_round_adds_what_the_recording_gained() -> None:
    """Two rounds bring exactly twice the tokens of one; the warm-up before is not added again."""
    reel = REELS[RecordingName.SPECULATIVE]
    start, one, two = (sum_by_name(read_samples(reel.page_at(lap * DURATION))) for lap in range(3))
    for key in ("vllm:generation_tokens_total", f"{SPEC}drafts_total", f"{E2E}_count"):
        assert two[key] - start[key] == 2 * (one[key] - start[key])


@settings(deadline=None, max_examples=80)
@given(at=moments)
def test_speculation_identities_hold(at: float) -> None:
    """Draft tokens are K drafts, positions add up to accepted, and a step is a draft."""
    samples = read_samples(REELS[RecordingName.SPECULATIVE].page_at(at))
    total = sum_by_name(samples)
    positions = [value for key, value in samples.items() if "per_pos_total" in key]
    assert total[f"{SPEC}draft_tokens_total"] == 4 * total[f"{SPEC}drafts_total"]
    assert total[f"{SPEC}accepted_tokens_total"] == sum(positions)
    assert positions == sorted(positions, reverse=True)
    assert positions[0] <= total[f"{SPEC}drafts_total"]
    assert total["vllm:inter_token_latency_seconds_count"] == total[f"{SPEC}drafts_total"]


@settings(deadline=None, max_examples=80)
@given(name=names, at=moments)
def test_token_identities_hold(name: RecordingName, at: float) -> None:
    """Generated tokens never exceed what steps and drafts yield; without drafts they are equal."""
    total = sum_by_name(read_samples(REELS[name].page_at(at)))
    accepted = total.get(f"{SPEC}accepted_tokens_total", 0)
    outputs = (
        total["vllm:inter_token_latency_seconds_count"]
        + total["vllm:time_to_first_token_seconds_count"]
    )
    generated = total["vllm:generation_tokens_total"]
    assert generated <= outputs + accepted
    assert accepted or generated == outputs
    assert total["vllm:prompt_tokens_by_source_total"] == total["vllm:prompt_tokens_total"]
    prompt = total["vllm:prompt_tokens_total"]
    assert total["vllm:iteration_tokens_total_sum"] == prompt + generated
    assert total["vllm:request_success_total"] == total[f"{E2E}_count"]


@settings(deadline=None, max_examples=80)
@given(name=names, at=moments)
def test_histograms_stay_consistent(name: RecordingName, at: float) -> None:
    """Buckets rise, the last one is the count, and counts are whole numbers."""
    samples = read_samples(REELS[name].page_at(at))
    buckets: defaultdict[tuple[str, frozenset[str]], list[float]] = defaultdict(list)
    counts = {split_key(key): value for key, value in samples.items()}
    for key, value in samples.items():
        series, labels = split_key(key)
        if series.endswith("_bucket"):
            buckets[f"{series.removesuffix('_bucket')}_count", labels].append(value)
    assert len(buckets) > 15
    for series_key, values in buckets.items():
        assert values == sorted(values)
        assert values[-1] == counts[series_key]
        assert all(value.is_integer() for value in values)


def test_a_sum_moves_only_with_its_count() -> None:
    """While no request finishes the latency sum stands still, so no mean runs away."""
    reel = REELS[RecordingName.SPECULATIVE]
    moving = [sum_by_name(read_samples(reel.page_at(1 + step / 50))) for step in range(200)]
    for earlier, later in itertools.pairwise(moving):
        finished = later[f"{E2E}_count"] - earlier[f"{E2E}_count"]
        assert (later[f"{E2E}_sum"] > earlier[f"{E2E}_sum"]) == (finished > 0)


@pytest.mark.parametrize("name", [RecordingName.SPECULATIVE, RecordingName.STANDARD], ids=str)
def test_a_gauge_shows_the_earlier_page(name: RecordingName) -> None:
    """Requests running are those of the page before, and the first page's before the start."""
    pages, reel = RECORDINGS[name].pages, REELS[name]
    key = 'vllm:num_requests_running{engine="0",model_name="target"}'
    assert read_samples(reel.page_at(60.5))[key] == read_samples(pages[60].text)[key]
    assert reel.page_at(-1) == pages[0].text


@settings(deadline=None, max_examples=15)
@given(name=names, at=moments)
def test_the_page_is_what_the_reference_parser_reads(name: RecordingName, at: float) -> None:
    """prometheus_client reads every page, with the families and samples of the recorded one."""
    page = REELS[name].page_at(at)
    families = {family.name: family for family in text_string_to_metric_families(page)}
    recorded = {
        family.name: len(family.samples)
        for family in text_string_to_metric_families(RECORDINGS[name].pages[0].text)
    }
    assert {family.name: len(family.samples) for family in families.values()} == recorded
    assert families["vllm:generation_tokens"].type == "counter"


@every_recording
def test_load_follows_the_recorded_arrivals(name: RecordingName) -> None:
    """In each phase the first tokens per second are about the arrivals that were sent."""
    recording, reel = RECORDINGS[name], REELS[name]
    key = "vllm:time_to_first_token_seconds_count"
    for phase, rate in enumerate(recording.arrivals_per_second):
        start = phase * recording.phase_seconds
        before, after = (
            sum_by_name(read_samples(reel.page_at(at)))[key]
            for at in (start, start + recording.phase_seconds)
        )
        expected = rate * recording.phase_seconds
        assert after - before == pytest.approx(expected, abs=4 * expected**0.5)


def test_a_page_is_cheap_to_write() -> None:
    """A page costs far less than a scrape: the best of many stays below three milliseconds."""
    reel = REELS[RecordingName.SPECULATIVE]
    costs = []
    for at in range(100):
        start = time.perf_counter()
        reel.page_at(at + 0.37)
        costs.append(time.perf_counter() - start)
    assert min(costs) < 0.003


def test_a_recording_of_two_pages_plays() -> None:
    """The smallest recording: floats flow, whole numbers are floored, rounding never falls."""
    text = (
        "# TYPE a_seconds_total counter\na_seconds_total {}\n# TYPE n_total counter\nn_total {}\n"
    )
    recording = Recording(
        engine_version="0",
        hardware="none",
        method=None,
        synthetic_acceptance=False,
        num_speculative_tokens=None,
        arrivals_per_second=(1.0,),
        phase_seconds=2.0,
        pages=(
            RecordedPage(at=5.0, text=text.format("0.1", "1.0")),
            RecordedPage(at=7.0, text=text.format("0.7", "4.0")),
        ),
    )
    reel = Reel(recording)
    assert reel.page_at(1.0) == text.format("0.4", "2.0")
    seconds = [read_samples(reel.page_at(at / 8))["a_seconds_total"] for at in range(2000)]
    assert seconds == sorted(seconds)


# --- the story ------------------------------------------------------------------------------


def test_the_story_shows_one_server() -> None:
    """Through all acts no counter falls, and the draft counters stand still without drafts."""
    story = Story(RECORDINGS, Plot(spoils_after=20.0, mended_after=20.0))
    drafts = "vllm:spec_decode_num_drafts_total"
    acts: list[Act] = []
    last: dict[str, float] = {}
    grown: dict[Act, set[bool]] = {}
    for now in range(120):
        samples = read_samples(story.page_at(float(now)))
        fell = {
            key
            for key, value in samples.items()
            if key.partition("{")[0].endswith(("_total", "_count", "_bucket", "_sum"))
            and value < last.get(key, 0.0)
        }
        assert not fell
        if last and story.act == acts[-1]:
            grown.setdefault(story.act, set()).add(
                sum_by_name(samples)[drafts] > sum_by_name(last)[drafts]
            )
        acts.append(story.act)
        last = samples
        story.obey(not 40 <= now < 80, float(now))
    assert [act for act, _ in itertools.groupby(acts)] == [
        Act.FITTING, Act.UNFIT, Act.WITHOUT, Act.FITTING, Act.UNFIT,
    ]  # fmt: skip
    assert True in grown[Act.FITTING]
    assert grown[Act.UNFIT] == {True}
    assert grown[Act.WITHOUT] == {False}


@pytest.mark.slow
async def test_the_demo_closes_the_loop() -> None:
    """The draft stops fitting, the guard turns it off, it is mended, a probe brings it back."""
    options = replace(make_options(listen="127.0.0.1:0"), speed=30)
    made: list[Service] = []

    def make(setup: SidecarSetup) -> Service:
        made.append(make_sidecar(setup))
        return made[-1]

    playing = asyncio.create_task(play(RECORDINGS[RecordingName.SPECULATIVE], options, make))
    states: list[str] = []
    try:
        async with asyncio.timeout(120), aiohttp.ClientSession() as session:
            while states[-1:] != ["active"] or "probing" not in states:
                await asyncio.sleep(0.1)
                try:
                    url = made[0].url
                except (IndexError, RuntimeError):  # not there yet, or not listening yet
                    continue
                document = await (await session.get(f"{url}/api/v1/guard")).json()
                if states[-1:] != [document["state"]]:
                    states.append(document["state"])
    finally:
        playing.cancel()
        await asyncio.gather(playing, return_exceptions=True)
    assert states == ["active", "fallback", "probing", "active"]
    changes = [one for one in document["history"] if one["changed"]]
    assert [one["reason"] for one in changes] == [
        "speedup_below_one", "probe_due", "probe_succeeded",
    ]  # fmt: skip
    assert changes[0]["evidence"]["speedup_ratio"] < 0.8


# --- the server -----------------------------------------------------------------------------


async def test_the_stand_in_answers_like_vllm() -> None:
    """/metrics, /version and /health answer with vLLM's own types and bodies."""
    async with (
        StandIn(RECORDINGS[RecordingName.SPECULATIVE], clock=FakeClock()) as engine,
        aiohttp.ClientSession(engine.url) as session,
    ):
        metrics = await session.get("/metrics")
        assert metrics.headers["Content-Type"] == CONTENT_TYPE
        assert await metrics.text() == RECORDINGS[RecordingName.SPECULATIVE].pages[0].text
        version = await session.get("/version")
        assert await version.json() == {"version": "0.25.1"}
        assert (await session.get("/health")).status == 200


async def test_the_stand_in_plays_at_its_speed() -> None:
    """At speed 10 the page of the thirtieth second is shown after three."""
    clock = FakeClock()
    recording = RECORDINGS[RecordingName.STANDARD]
    engine = StandIn(recording, speed=10, clock=clock)
    clock.now += 500
    async with engine:
        assert engine.recorded_now() == 0
        clock.now += recording.pages[30].at / 10
        assert engine.recorded_now() == pytest.approx(recording.pages[30].at)
        assert read_samples(engine.page()) == read_samples(recording.pages[30].text)


async def test_a_taken_port_is_an_os_error() -> None:
    """Two engines cannot have one port; the second one says so and leaves nothing open."""
    recording = RECORDINGS[RecordingName.STANDARD]
    async with StandIn(recording) as engine:
        with pytest.raises(OSError, match="address already in use"):
            await StandIn(recording, port=int(engine.url.rpartition(":")[2])).start()


# --- the command ----------------------------------------------------------------------------


def make_options(
    *, engine_port: int = 0, listen: str = "127.0.0.1:9843", stop_after: float | None = None
) -> DemoOptions:
    """Options with ports that nobody else has."""
    return DemoOptions(speed=50, listen=listen, engine_port=engine_port, stop_after=stop_after)


async def play_with_fake(
    options: DemoOptions, on_start: Callable[[], None] = lambda: None
) -> FakeSidecar:
    """Play the speculative ramp with a sidecar that only remembers."""
    made: list[FakeSidecar] = []

    def make(setup: SidecarSetup) -> Service:
        made.append(FakeSidecar(setup, on_start))
        return made[-1]

    await play(RECORDINGS[RecordingName.SPECULATIVE], options, make)
    return made[0]


async def test_the_demo_runs_for_its_time_and_closes_both(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It prints both addresses, says that it is a recording, and stops what it started."""
    sidecar = await play_with_fake(make_options(stop_after=0.05))
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        f"engine     {sidecar.setup.engine_url}/metrics",
        "specgauge  http://127.0.0.1:9843",
    ]
    assert "This is a recording" in err
    assert "The demo has ended." in err
    assert not sidecar.running
    assert "vllm:spec_decode_num_drafts_total" in sidecar.page
    assert (sidecar.setup.method, sidecar.setup.speed) == ("eagle", 50)
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientConnectionError):
            await session.get(sidecar.setup.engine_url)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["int", "term"])
async def test_a_signal_ends_the_demo(number: signal.Signals) -> None:
    """Ctrl-C and a polite kill stop it in order, without a traceback."""
    playing = play_with_fake(make_options(), lambda: signal.raise_signal(number))
    sidecar = await asyncio.wait_for(playing, 30)
    assert not sidecar.running


async def test_a_port_that_cannot_be_had_is_a_usage_error() -> None:
    """The line names the option; the engine that had started is stopped again."""

    def refuse() -> None:
        raise OSError(99, "Cannot assign requested address")

    with pytest.raises(UsageError, match=r"^--listen 192\.0\.2\.1:1: Cannot assign") as caught:
        await play_with_fake(make_options(listen="192.0.2.1:1"), refuse)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    "limits", [[], ["--once"], ["--for", "1m30s"], ["--once", "--for", "1h"]], ids=" ".join
)
def test_the_command_refuses_a_taken_engine_port(limits: list[str]) -> None:
    """A port in use ends the command before anything runs, in one line."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = CliRunner().invoke(demo, ["--engine-port", str(port), *limits])
    assert isinstance(result.exception, UsageError)
    assert str(result.exception) == (f"--engine-port {port}: the port is in use; choose another")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--speed", "0"],
        ["--for", "soon"],
        ["--for", "0s"],
        ["--for", "367d"],
        ["--engine-port", "70000"],
        ["--listen", "nowhere"],
        ["--listen", "[::"],
        ["--listen", "127.0.0.1:99999"],
    ],
    ids=[
        "speed",
        "duration",
        "no time",
        "over a year",
        "port",
        "address",
        "bracket",
        "port of the address",
    ],
)  # fmt: skip
def test_a_bad_option_ends_with_two(arguments: list[str]) -> None:
    """What cannot be obeyed is refused by name."""
    result = CliRunner().invoke(demo, arguments)
    assert result.exit_code == 2
    assert arguments[0] in result.output


def test_the_description_tells_the_truth() -> None:
    """It names engine, hardware, drafts and load, and that the acceptance is synthetic."""
    assert describe(RECORDINGS[RecordingName.SPECULATIVE], 10) == (
        "This is a recording, not a running engine: vLLM 0.25.1 on one NVIDIA H200, "
        "synthetic acceptance, eagle, K = 4.\n"
        "Load rises from 1 to 40 requests/s and falls again, 10 times as fast as recorded: "
        "a round takes 13.3 s, then the next begins.\n"
        "After 15 s the draft stops fitting: watch the guard turn speculation off, and on again "
        "about 40 s later, when it is mended.\n"
        "Ctrl-C stops it."
    )
    assert "H200, no speculation." in describe(RECORDINGS[RecordingName.STANDARD], 1)
