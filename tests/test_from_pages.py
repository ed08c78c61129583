"""Recorded pages of a server without speculation as a baseline."""

import pytest
from tests.baselines import h200_pairs, pair, vllm_page

from specgauge.baseline.facts import facts_of
from specgauge.baseline.from_pages import (
    Learned,
    PagePair,
    TimedPage,
    from_pairs,
    from_timeline,
    pick_model,
)
from specgauge.baseline.observation import Observation, Unfit, follow
from specgauge.derive.accumulate import open_ledger
from specgauge.engines.reader import Reader
from specgauge.errors import BaselineError
from specgauge.serve.demo.recording import RecordingName, load

EMPTY = vllm_page()
BUSY = vllm_page(tokens=1010, firsts=10, spent=5.0)

# TPOT in ms by decode concurrency: the two sums of each level, divided by hand.
H200 = {
    0.9788: 4.6041,
    1.9454: 4.6653,
    3.8795: 4.7469,
    7.807: 4.9309,
    15.6249: 5.3952,
    31.0924: 6.0832,
    61.1284: 8.1774,
    119.4624: 11.2346,
}


def timeline(*pages: tuple[float, bytes]) -> list[TimedPage]:
    """Read a timeline through one reader."""
    reader = Reader()
    return [TimedPage(time=time, page=reader.read(data)) for time, data in pages]


def steady(
    count: int, *, every: float = 1.0, drafts: float | None = None
) -> list[tuple[float, bytes]]:
    """Write pages of a server that does four requests at a time at 5 ms a token."""
    return [
        (
            every * n,
            vllm_page(tokens=810 * n, firsts=10 * n, spent=4.0 * n, drafts=drafts and drafts * n),
        )
        for n in range(count)
    ]


def refusal(pairs: list[PagePair], model: str | None = None) -> tuple[str, ...]:
    """Take pairs that must be refused; gives the lines."""
    with pytest.raises(BaselineError) as caught:
        from_pairs(pairs, model=model)
    return caught.value.problems


def test_a_real_server_gives_its_curve() -> None:
    """Eight loads of vLLM on an H200: B rises from 4.604 ms at 0.98 to 11.235 ms at 119.46."""
    pairs = [pair(before, after, seconds, name) for name, seconds, before, after in h200_pairs()]
    learned = from_pairs(pairs)
    assert [
        (round(one.decode_concurrency, 4), round(1000.0 * one.server.tpot_seconds, 4))
        for one in learned.levels
        if one.server
    ] == list(H200.items())
    assert learned.model == "target"
    assert learned.notes == ()


def test_a_pair_gives_every_figure_of_a_level() -> None:
    """What the sums between two pages tell beyond B is kept."""
    (found,) = from_pairs([pair(EMPTY, BUSY, 2.0)]).levels
    assert found.server is not None
    assert found.decode_concurrency == pytest.approx(2.5)
    assert found.server.tpot_seconds == pytest.approx(0.005)
    assert found.server.tpot_ci95 is None
    assert found.server.step_seconds == pytest.approx(0.005)
    assert found.server.ttft_seconds == pytest.approx(0.02)
    assert found.server.e2e_seconds is None
    assert found.server.generation_tokens_per_second == pytest.approx(505.0)
    assert found.server.kv_cache_usage_ratio_max == pytest.approx(0.25)
    assert (found.requests, found.output_tokens) == (10, 1010)
    assert found.prompt_tokens_per_request == pytest.approx(100.0)


DRAFTING = vllm_page(tokens=1010, firsts=10, spent=5.0, drafts=400, accepted=100, steps=400)


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        pytest.param(
            vllm_page(drafts=0),
            DRAFTING,
            "speculation was active; a baseline needs a server started without it",
            id="speculation",
        ),
        pytest.param(
            BUSY,
            EMPTY,
            "the engine restarted between them, or they are in the wrong order",
            id="reset",
        ),
        pytest.param(
            BUSY,
            vllm_page(tokens=2010, firsts=20, spent=9.0, created=2.0),
            "the engine restarted between them, or they are in the wrong order",
            id="reset-told-by-created-alone",
        ),
        pytest.param(BUSY, BUSY, "no tokens were generated between them", id="idle"),
        pytest.param(
            EMPTY,
            vllm_page(tokens=1010, firsts=10, spent=5.0, steps=400),
            "several tokens came a step; is speculation on that the page does not count?",
            id="hidden-speculation",
        ),
        pytest.param(
            b'vllm:generation_tokens_total{engine="0",model_name="m"} 1\n',
            b'vllm:generation_tokens_total{engine="0",model_name="m"} 9\n',
            "the page lacks what the time per token is made of (tpot_seconds: "
            "not_exposed_by_engine)",
            id="no-latency",
        ),
        pytest.param(
            b'vllm:cache_config_info{num_gpu_blocks="9"} 1\n',
            b'vllm:cache_config_info{num_gpu_blocks="9"} 1\n',
            "the server has served nothing yet",
            id="nothing-served",
        ),
    ],
)
def test_a_pair_that_is_no_baseline_is_refused_with_the_reason(
    before: bytes, after: bytes, reason: str
) -> None:
    """The pair is named, and why it cannot be used."""
    assert refusal([pair(before, after)]) == (f"pair: {reason}",)


def test_all_refusals_are_told_at_once() -> None:
    """A good pair does not hide the bad ones."""
    pairs = [
        pair(EMPTY, BUSY, place="good"),
        pair(BUSY, EMPTY, place="reset"),
        pair(EMPTY, BUSY, 0.0, place="instant"),
    ]
    assert [line.split(":")[0] for line in refusal(pairs)] == ["reset", "instant"]
    assert refusal([]) == ("no pages are given",)


def test_pairs_of_two_models_are_no_baseline() -> None:
    """One file speaks for one model."""
    other = pair(vllm_page(model="a"), vllm_page(tokens=110, firsts=1, spent=1.0, model="a"))
    assert refusal([pair(EMPTY, BUSY), other]) == ("the pairs are of different models: a, target",)


def test_absurd_figures_are_refused_as_figures() -> None:
    """A page of impossible sums ends in a line, not in a traceback."""
    absurd = vllm_page(tokens=1010, firsts=10, spent=1e290)
    assert refusal([pair(EMPTY, absurd)])[0].startswith("tpot_seconds: must be at most 1e+09")


def test_the_model_is_chosen_where_there_are_several() -> None:
    """A page with two models asks which; a wrong name lists what there is."""
    both = Reader().read(vllm_page(model="a") + vllm_page(model="b"))
    assert pick_model(both, "b", "p") == "b"
    for wanted, message in (
        (None, "p: several models: a, b; choose with --model"),
        ("c", "p: no model 'c'; there is a, b"),
    ):
        with pytest.raises(BaselineError, match=message):
            pick_model(both, wanted, "p")


def test_notes_tell_of_uneven_load_and_configured_speculation() -> None:
    """What may mislead is used, but said."""
    uneven = pair(
        vllm_page(iterations=0), vllm_page(tokens=1010, firsts=10, spent=5.0, iterations=100), 4.0
    )
    assert from_pairs([uneven]).notes == (
        "pair: uneven_load: the load came or went between the pages",
    )
    idle = pair(vllm_page(drafts=0), vllm_page(tokens=1010, firsts=10, spent=5.0, drafts=0))
    assert from_pairs([idle]).notes == (
        "pair: speculation is configured but drafted nothing; a server without it is faster",
    )


def test_a_timeline_is_gathered_by_load() -> None:
    """Intervals of one load make one level, with an interval of its mean."""
    found = from_timeline(timeline(*steady(12)), place="t")
    (one,) = found.levels
    assert one.server is not None
    assert one.decode_concurrency == pytest.approx(4.0)
    assert one.server.tpot_seconds == pytest.approx(0.005)
    assert one.server.tpot_ci95 == pytest.approx((0.005, 0.005))
    assert one.window_seconds == pytest.approx(11.0)


def test_a_gap_in_a_timeline_teaches_nothing() -> None:
    """An interval longer than twice the usual one is left out."""
    pages = steady(12)
    (one,) = from_timeline(timeline(*pages[:5], *pages[8:]), place="t").levels
    assert one.window_seconds == pytest.approx(7.0)


@pytest.mark.parametrize(
    ("pages", "message"),
    [
        pytest.param(steady(1), "a baseline needs at least two pages", id="one-page"),
        pytest.param(
            steady(4, drafts=10),
            "3 of 3 intervals: speculation was active; a baseline needs a server started without",
            id="speculation",
        ),
        pytest.param(
            [(0.0, EMPTY), (1.0, EMPTY), (2.0, EMPTY)],
            "no interval can be used: 2 no_tokens",
            id="idle",
        ),
        pytest.param(
            steady(3),
            "left out the load of 4 requests: 1600 tokens in 2 intervals, within 0.0%",
            id="too-few",
        ),
    ],
)
def test_a_timeline_without_a_level_says_why(
    pages: list[tuple[float, bytes]], message: str
) -> None:
    """Nothing is made up from too little."""
    with pytest.raises(BaselineError) as caught:
        from_timeline(timeline(*pages), place="t")
    assert caught.value.problems[0].startswith(f"t: {message}")


def test_a_model_that_comes_late_has_only_its_own_intervals() -> None:
    """Before the first request a page shows no model."""
    nothing = b'vllm:cache_config_info{num_gpu_blocks="9"} 1\n'
    pages = [(-2.0, nothing), (-1.0, nothing), *steady(6)]
    found = from_timeline(timeline(*pages), place="t")
    assert found.levels[0].window_seconds == pytest.approx(5.0)


@pytest.fixture(name="ramp", scope="module")
def _ramp() -> Learned:
    pages = [(one.at, one.text.encode()) for one in load(RecordingName.STANDARD).pages]
    return from_timeline(timeline(*pages), place="ramp")


def test_a_baseline_learnt_on_the_ramp_agrees_with_the_measured_one(ramp: Learned) -> None:
    """What was learnt from open-loop traffic lies within 2.5 % of the closed-loop levels."""
    curve = sorted(H200.items())
    assert len(ramp.levels) >= 8
    for one in ramp.levels:
        assert one.server is not None
        load, tpot = one.decode_concurrency, 1000.0 * one.server.tpot_seconds
        above = next((point for point in curve if point[0] >= load), curve[-1])
        below = next((point for point in reversed(curve) if point[0] <= load), curve[0])
        share = (load - below[0]) / (above[0] - below[0]) if above[0] > below[0] else 0.0
        assert tpot == pytest.approx(below[1] + share * (above[1] - below[1]), rel=0.04)


def test_facts_come_from_the_page_and_the_server() -> None:
    """What a server tells of itself goes into the file; what it does not is not there."""
    page = Reader().read(BUSY)
    models = {"data": ["x", {"id": "other"}, {"id": "target", "max_model_len": 4096}]}
    assert facts_of(page, "target", version="0.25.1", models=models) == {
        "engine.name": "vllm",
        "engine.version": "0.25.1",
        "model.name": "target",
        "model.max_model_len": 4096,
        "parallelism.data": 1,
        "hardware.kv_blocks": 100,
        "workload.prefix_caching": False,
    }
    bare = Reader().read(vllm_page(blocks="None").replace(b"enable_prefix_caching", b"x"))
    found = facts_of(bare, "gone", models={"data": [{"id": "gone", "max_model_len": "long"}]})
    assert found == {"engine.name": "vllm", "model.name": "gone"}
    plain = Reader().read(b'vllm:generation_tokens_total{model_name="m"} 1\n')
    assert facts_of(plain, "m", models=[]) == {
        "engine.name": "vllm",
        "model.name": "m",
        "parallelism.data": 1,
    }


def test_v0_pages_measure_finished_requests() -> None:
    """V0 counts steps as tokens, so its tokens are those of finished requests."""
    of = '{model_name="m"}'

    def page(n: int) -> bytes:
        return "".join(
            f"vllm:{name}{of} {value}\n"
            for name, value in {
                "num_requests_swapped": 0,
                "generation_tokens_total": 300 * n,
                "request_generation_tokens_sum": 200 * n,
                "request_generation_tokens_count": 2 * n,
                "request_decode_time_seconds_sum": 1.98 * n,
                "request_decode_time_seconds_count": 2 * n,
                "time_to_first_token_seconds_count": 2 * n,
                "time_to_first_token_seconds_sum": 0.1 * n,
                "time_per_output_token_seconds_sum": 2.2 * n,
                "time_per_output_token_seconds_count": 220 * n,
            }.items()
        ).encode()

    reader = Reader()
    ledger = open_ledger(reader.read(page(0)), 0.0)
    _, _, looks = follow(ledger, reader.read(page(1)), 1.0)
    found = looks["m"].found
    assert isinstance(found, Observation)
    assert found.tokens == 198.0
    assert found.spent == pytest.approx(1.98)
    assert found.concurrency == pytest.approx(2.2)
    assert found.generated == 200.0


def test_a_reset_of_the_process_is_a_reset_of_every_model() -> None:
    """A process that started anew has lost what it counted."""
    start = b"process_start_time_seconds %d\n"
    found = pair(EMPTY + start % 1, BUSY + start % 2)
    _, _, looks = follow(open_ledger(found.before, 0.0), found.after, 1.0)
    assert looks["target"].found is Unfit.RESET
