"""The thinking of a comparison: intervals, chances, gates, decisions, fields, texts, the plan."""

import json
import math
import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from specgauge.baseline.plan import Lengths
from specgauge.derive.statistics import Estimate
from specgauge.errors import BaselineError
from specgauge.model.outcome import ExitCode
from specgauge.preflight.compare.bouts import Answer, Bout, CellKey, LoadLevel, Role, Side
from specgauge.preflight.compare.cells import Cell, Figures, measure
from specgauge.preflight.compare.chances import difference_interval, fall_chance
from specgauge.preflight.compare.decide import Decision, Why, decide
from specgauge.preflight.compare.fields import all_facts, likeness
from specgauge.preflight.compare.gates import (
    CellVerdict,
    GateName,
    GateReason,
    GateState,
    Terms,
    gates,
    verdict,
)
from specgauge.preflight.compare.intervals import Block, mean_ratio, quantile_ratios
from specgauge.preflight.compare.judge import judge
from specgauge.preflight.compare.plan import Contest, named_loads, ranked, turn
from specgauge.preflight.compare.quality import Passes, Quality, compare_texts, fallen
from specgauge.preflight.compare.records import Record, parse

LOADS = named_loads("idle=1,steady=8,burst=32")


def simulate(seed: int, *, ratio: float, repeats: int = 3, pairs: int = 40) -> list[Block]:
    """Draw pairs whose true ratio is known: lengths of their own, noise, and drift by repeat."""
    chance = random.Random(seed)  # noqa: S311 - nothing secret here
    blocks: list[Block] = []
    for _ in range(repeats):
        drift = chance.gauss(0.0, 0.02)
        block = []
        for _ in range(pairs):
            length = math.exp(chance.gauss(0.0, 0.4))
            first = length * math.exp(chance.gauss(drift, 0.1))
            second = length / ratio * math.exp(chance.gauss(0.0, 0.1))
            block.append(((first, 1.0), (second, 1.0)))
        blocks.append(block)
    return blocks


@pytest.mark.parametrize("ratio", [0.8, 1.0, 2.5])
def test_mean_interval_covers_the_truth(ratio: float) -> None:
    """Over hundreds of simulated comparisons the interval holds the true ratio as it should."""
    held = 0
    for seed in range(300):
        found = mean_ratio(simulate(seed, ratio=ratio, pairs=10))
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        held += found.low <= ratio <= found.high
    assert held >= 0.90 * 300


def test_percentile_intervals_cover_the_truth() -> None:
    """The bootstrap of pairs holds the true ratio of each percentile in nine of ten."""
    shares = (0.5, 0.95, 0.99)
    held = dict.fromkeys(shares, 0)
    for seed in range(100):
        found = quantile_ratios(simulate(seed, ratio=1.5), shares, seed=seed, draws=40)
        for share, one in found.items():
            held[share] += (one.low or 9.0) <= 1.5 <= (one.high or 0.0)
    assert min(held.values()) >= 90


def test_intervals_of_little_say_so() -> None:
    """Nothing has no ratio, one repeat or one pair has no interval, the same seed the same one."""
    one = [[((2.0, 1.0), (1.0, 1.0))]]
    assert mean_ratio([]) is None
    assert mean_ratio([[], [((0.0, 1.0), (1.0, 1.0))]]) is None
    single = mean_ratio(one)
    assert single is not None
    assert single.value == pytest.approx(2.0)
    assert single.low is None
    assert single.high is None
    assert quantile_ratios([], (0.5,), seed=0) == {}
    assert quantile_ratios(one, (0.5,), seed=0)[0.5].low is None
    blocks = simulate(1, ratio=2.0)
    again = [quantile_ratios(blocks, (0.9,), seed=7, draws=20) for _ in range(2)]
    assert again[0] == again[1]
    alike = [[((2.0, 1.0), (1.0, 1.0))] * 3, [((2.0, 1.0), (1.0, 1.0))] * 3]
    assert quantile_ratios(alike, (0.5,), seed=0, draws=5)[0.5].high == pytest.approx(2.0)
    alone = quantile_ratios(simulate(3, ratio=1.0, repeats=1), (0.5,), seed=0, draws=20)
    assert alone[0.5].low is not None


def test_many_pairs_are_drawn_in_part() -> None:
    """Of thousands of pairs a bootstrap takes some, and its interval is not wider for that."""
    blocks = simulate(5, ratio=1.2, repeats=2, pairs=1500)
    found = quantile_ratios(blocks, (0.5,), seed=0, draws=10)[0.5]
    assert found.low is not None
    assert found.low > 1.05


@pytest.mark.parametrize(
    ("counts", "chance"),
    [
        ((3, 10, 8, 10), 0.0349),  # from a table of Fisher's exact test
        ((0, 5, 5, 5), 1 / 252),
        ((10, 10, 10, 10), 1.0),
        ((9, 10, 5, 10), 0.994),
        ((0, 0, 5, 5), 1.0),
        ((5, 5, 0, 0), 1.0),
    ],
)
def test_chance_of_a_fall(counts: tuple[int, int, int, int], chance: float) -> None:
    """The one-sided chance is Fisher's; where nothing is counted nothing fell."""
    assert fall_chance(*counts) == pytest.approx(chance, abs=2e-3)


def test_difference_of_shares() -> None:
    """Newcombe's own example, 56/70 less 48/80, has the interval that he gives."""
    found = difference_interval(56, 70, 48, 80)
    assert found == pytest.approx((0.0524, 0.3339), abs=1e-4)
    assert difference_interval(0, 0, 1, 2) is None


def cell(
    tpot: object = 2.0,
    *,
    load: LoadLevel = LOADS[1],
    name: str = "chat",
    baseline: Figures | None = None,
    speculative: Figures | None = None,
    died: Mapping[str, str] | None = None,
    single: bool = False,
    **ratios: object,
) -> Cell:
    """Make a cell from ratios: a number has a narrow interval, a triple its own."""
    told = {"tpot_mean": tpot, "e2e_mean": tpot, "e2e_p99": tpot, **ratios}
    fine = Figures(requests=200)
    return Cell(
        key=CellKey(load=load, temperature=0.0, traffic_class=name),
        repeats=3,
        pairs=150,
        baseline=baseline or fine,
        speculative=speculative or fine,
        ratios={key: estimate(value) for key, value in told.items() if value is not None},
        died=died or {},
        single=single,
    )


def estimate(value: object) -> Estimate:
    """Read a number, a triple of value, low and high, or a list of a point without interval."""
    if isinstance(value, tuple):
        return Estimate(value=value[0], low=value[1], high=value[2])
    if isinstance(value, list):
        return Estimate(value=value[0], low=None, high=None)
    assert isinstance(value, float)
    return Estimate(value=value, low=0.99 * value, high=1.01 * value)


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (cell(2.0), CellVerdict.PAYS),
        (cell(0.8), CellVerdict.COSTS),
        (cell(0.8, e2e_mean=1.1), CellVerdict.EVEN),
        (cell(0.8, e2e_mean=None), CellVerdict.COSTS),
        (cell(1.01), CellVerdict.EVEN),
        (cell((1.0, 0.5, 2.0)), CellVerdict.UNDECIDED),
        (cell([2.0]), CellVerdict.UNDECIDED),
        (cell([2.0], single=True), CellVerdict.PAYS),
        (cell([1.02], single=True), CellVerdict.EVEN),
        (cell(None), CellVerdict.UNDECIDED),
    ],
)
def test_verdict_of_a_cell(made: Cell, told: CellVerdict) -> None:
    """Time per token says whether a cell pays; a loss needs whole requests that are no faster."""
    assert verdict(made, Terms()) is told


LOST = Figures(requests=200, failed=20)
NO_MEMORY = Figures(requests=200, failed=1, out_of_memory=1)


@pytest.mark.parametrize(
    ("made", "gate", "state", "reason"),
    [
        (cell(2.0), "speedup", "pass", GateReason.SPEEDUP_REACHED),
        (cell(1.2), "speedup", "fail", GateReason.SPEEDUP_BELOW),
        (cell((1.4, 1.2, 1.6)), "speedup", "unknown", GateReason.STRADDLES),
        (cell([1.4]), "speedup", "unknown", GateReason.TOO_FEW_REPEATS),
        (cell(None), "speedup", "unknown", GateReason.NOTHING_PAIRED),
        (replace(cell(None), pairs=0), "speedup", "unknown", GateReason.NOTHING_PAIRED),
        (cell(0.98, load=LOADS[2]), "speedup", "pass", GateReason.SPEEDUP_REACHED),
        (cell(0.9, load=LOADS[2]), "speedup", "fail", GateReason.SPEEDUP_BELOW),
        (cell(1.0, load=LOADS[0]), "speedup", "pass", GateReason.SPEEDUP_REACHED),
        (cell(e2e_mean=0.9), "e2e", "fail", GateReason.WORSE),
        (cell(e2e_mean=None), "e2e", "not_measured", GateReason.NO_REQUESTS),
        (cell(e2e_p99=(1.1, 0.8, 1.5)), "tail", "pass", GateReason.NOT_WORSE),
        (cell(e2e_p99=(0.9, 0.8, 1.1)), "tail", "unknown", GateReason.NOT_KNOWN),
        (cell(e2e_p99=(0.9, 0.8, 0.99)), "tail", "fail", GateReason.WORSE),
        (replace(cell(), pairs=50), "tail", "not_measured", GateReason.TOO_FEW_PAIRS),
        (replace(cell(e2e_p95=2.0), pairs=50), "tail", "pass", GateReason.NOT_WORSE),
        (replace(cell(), pairs=5), "tail", "not_measured", GateReason.TOO_FEW_PAIRS),
        (cell(), "errors", "pass", GateReason.NOT_MORE),
        (cell(speculative=LOST), "errors", "fail", GateReason.MORE),
        (cell(speculative=LOST, baseline=LOST), "errors", "pass", GateReason.NOT_MORE),
        (cell(speculative=NO_MEMORY), "errors", "fail", GateReason.OUT_OF_MEMORY),
        (cell(speculative=Figures()), "errors", "not_measured", GateReason.NO_REQUESTS),
        (cell(died={"speculative": "x"}), "errors", "fail", GateReason.SPECULATIVE_DIED),
        (cell(died={"baseline": "x"}), "errors", "unknown", GateReason.BASELINE_DIED),
    ],
)
def test_gates(made: Cell, gate: str, state: str, reason: GateReason) -> None:
    """Each gate passes, fails or is not known by its own numbers, and says which."""
    (found,) = [one for one in gates(made, Terms()) if one.name is GateName(gate)]
    assert (found.state, found.reason) == (GateState(state), reason)


UNSURE = (1.4, 1.2, 1.6)


@pytest.mark.parametrize(
    ("speeds", "decision", "below", "why"),
    [
        ((2.0, 1.8, 1.1), Decision.PROMOTE, None, Why.EVERY_GATE_PASSED),
        ((2.0, 1.8, 0.8), Decision.ONLY_BELOW_LOAD, 32, Why.FAILS_ABOVE),
        ((2.0, 1.1, 0.8), Decision.ONLY_BELOW_LOAD, 8, Why.FAILS_ABOVE),
        ((2.0, UNSURE, 0.8), Decision.ONLY_BELOW_LOAD, 8, Why.FAILS_ABOVE),
        ((2.0, 0.8, 1.1), Decision.ONLY_BELOW_LOAD, 8, Why.FAILS_ABOVE),
        ((1.1, 1.1, 1.1), Decision.KEEP_OFF, None, Why.GAIN_TOO_SMALL),
        ((0.5, 0.6, 0.7), Decision.KEEP_OFF, None, Why.NO_LOAD_PASSES),
        ((0.5, 1.6, 0.7), Decision.KEEP_OFF, None, Why.LOWEST_LOAD_FAILS),
        ((1.0, 1.0, 1.0), Decision.EVEN, None, Why.NO_DIFFERENCE),
        ((2.0, UNSURE, 1.1), Decision.UNDECIDED, None, Why.NOT_ENOUGH_KNOWN),
        (((1.0, 0.5, 2.0), 0.5, 0.5), Decision.UNDECIDED, None, Why.NOT_ENOUGH_KNOWN),
    ],
)
def test_decision_over_loads(
    speeds: tuple[object, ...], decision: Decision, below: float | None, why: Why
) -> None:
    """Loads are taken from the lowest: all, none, or those below the first that does not pass."""
    cells = [cell(speed, load=load) for speed, load in zip(speeds, LOADS, strict=True)]
    found = decide(cells, Terms())
    assert (found.overall.decision, found.overall.below, found.overall.why) == (
        decision,
        below,
        why,
    )


def test_classes_are_never_averaged() -> None:
    """Code that gains much and chat that loses do not make a gain; each has its own decision."""
    found = decide([cell(3.0, name="code"), cell(0.7, name="chat")], Terms())
    assert (found.overall.decision, found.overall.why) == (Decision.KEEP_OFF, Why.CLASSES_DIFFER)
    assert {name: one.decision for name, one in found.by_class.items()} == {
        "code": Decision.PROMOTE,
        "chat": Decision.KEEP_OFF,
    }
    loads = [cell(2.0 if place < limit else 0.5, load=load, name=name)
             for name, limit in (("code", 2), ("chat", 1))
             for place, load in enumerate(LOADS)]  # fmt: skip
    assert decide(loads, Terms()).overall.below == 8


def test_what_was_not_measured_is_no_pass() -> None:
    """A missing cell leaves the decision open, unless another load has shown a loss already."""
    lacking = [CellKey(load=LOADS[2], temperature=0.0, traffic_class="chat")]
    open_still = decide([cell(2.0)], Terms(), missing=lacking)
    assert (open_still.overall.decision, open_still.exit_code) == (
        Decision.UNDECIDED,
        ExitCode.NO_VERDICT,
    )
    assert any("not measured" in one for one in open_still.overall.reasons)
    assert decide([cell(0.5)], Terms(), missing=lacking).overall.decision is Decision.KEEP_OFF
    assert decide([], Terms()).overall.decision is Decision.UNDECIDED
    never = decide([cell(2.0)], Terms(), speculated=False)
    assert never.overall.why is Why.NEVER_SPECULATED


def passed(first: int, second: int, of: int = 40) -> Quality:
    """Make the quality of a class in which so many answers of each pool pass."""
    passes = Passes(baseline=first, baseline_of=of, speculative=second, speculative_of=of)
    return Quality(between=compare_texts(["a"], ["a"]), passes=passes)


def test_a_fall_in_quality_blocks() -> None:
    """However fast it is, fewer good answers in one class keep speculation off."""
    quality = {"chat": passed(40, 40), "code": passed(38, 24), "tools": Quality(
        between=compare_texts([], []))}  # fmt: skip
    found = decide([cell(3.0)], Terms(), quality=quality)
    assert fallen(quality) == ("code",)
    assert (found.overall.decision, found.overall.why) == (Decision.KEEP_OFF, Why.QUALITY_FELL)
    assert "code: 24 of 40" in found.overall.reasons[0]
    assert decide([cell(3.0)], Terms(), quality={"": passed(38, 37)}).exit_code == ExitCode.OK
    assert "24 of 40" in decide([], Terms(), quality={"": passed(38, 24)}).overall.reasons[0]


@pytest.mark.parametrize("of", [(0, 4), (4, 0), (0, 0)])
def test_a_check_without_answers_decides_nothing(of: tuple[int, int]) -> None:
    """A check that was asked for and had nothing to look at is no pass; what fails still does."""
    passes = Passes(baseline=of[0], baseline_of=of[0], speculative=of[1], speculative_of=of[1])
    for name in ("", "chat"):
        quality = {name: Quality(between=compare_texts([], []), passes=passes)}
        found = decide([cell(3.0)], Terms(), quality=quality).overall
        assert (found.decision, found.why) == (Decision.UNDECIDED, Why.NOT_ENOUGH_KNOWN)
        told = f"the check had {of[0]} answers of the baseline pool and {of[1]} with speculation"
        assert told in found.reasons[-1]
        assert found.reasons[-1].startswith(name or "the check")
        assert decide([cell(0.5)], Terms(), quality=quality).overall.decision is Decision.KEEP_OFF


def test_texts_are_compared_to_the_character() -> None:
    """Equal shares and the place of the first difference; what lacks an answer is left out."""
    found = compare_texts(["same", "abcd", None, "ab"], ["same", "abXd", "x", "abc"])
    assert (found.equal, found.of, found.first_divergence) == (1, 3, (2, 2))
    assert found.share == pytest.approx(1 / 3)
    assert found.median_divergence == 2
    none = compare_texts([], [])
    assert (none.share, none.median_divergence) == (None, None)
    noisy = compare_texts(list("abcdefgh"), list("abcdwxyz"))
    steady = compare_texts(list("abcdefgh"), list("abcdefgh"))
    assert Quality(between=noisy, itself=steady).differs_more
    assert not Quality(between=noisy, itself=noisy).differs_more
    assert not Quality(between=noisy).differs_more


SAME = {"engine.version": "0.25.1", "model.name": "m", "hardware.kv_blocks": 49886}


@pytest.mark.parametrize(
    ("changes", "refused"),
    [
        ({}, []),
        ({"hardware.kv_blocks": 48110}, []),
        ({"engine.version": "0.26.0"}, ["engine.version"]),
        ({"model.name": "n", "engine.version": "0.1"}, ["engine.version", "model.name"]),
        ({"model.max_model_len": 2048}, []),  # told by one side alone
    ],
)
def test_fields_that_refuse(changes: dict[str, object], refused: list[str]) -> None:
    """Every field that both sides tell is compared; cache blocks alone may differ."""
    found = likeness(SAME, {**SAME, **changes})
    assert [one.field for one in found.refused(())] == refused
    assert found.refused(refused) == ()
    assert "model.max_model_len" in found.not_compared


def test_facts_without_a_page() -> None:
    """A server without a page still tells its release, its root, its context and its settings."""
    models = {"data": [7, {"id": "m", "root": "org/model", "max_model_len": 4096}]}
    text = "model='x', revision=None, quantization=fp8, tensor_parallel_size=2, dtype=torch.bf16"
    found = all_facts(None, "m", version="0.9", models=models, server_info={"vllm_config": text})
    assert found == {
        "engine.version": "0.9",
        "model.name": "m",
        "model.root": "org/model",
        "model.max_model_len": 4096,
        "model.revision": "None",
        "model.quantization": "fp8",
        "model.dtype": "torch.bf16",
        "parallelism.tensor": 2,
    }
    assert all_facts(None, "m", models={"data": [{"id": "m", "root": 7}]}, server_info=[]) == {
        "model.name": "m"
    }
    assert all_facts(None, "m", models=[]) == {"model.name": "m"}


def bout(*answers: Answer, repeat: int = 0, seconds: float = 1.0, **rest: object) -> Bout:
    key = CellKey(load=LOADS[1])
    return Bout(key=key, repeat=repeat, seconds=seconds, answers=answers, **rest)  # type: ignore[arg-type]


def test_only_the_same_prompt_is_paired() -> None:
    """Places that both pools answered make pairs; failures are counted by kind and reason."""
    good = [
        Answer(place=n, ttft=0.1, e2e=1.0, decode_seconds=0.9, decode_tokens=9, tokens=10)
        for n in range(3)
    ]
    fast = replace(good[1], e2e=0.5, decode_seconds=0.4)
    lost = [
        Answer(place=0, failure="http 503: busy"),
        Answer(place=2, failure="CUDA out of memory"),
    ]
    first = bout(*good, figures={"preemptions": 1.0, "kv_cache_usage_ratio_max": 0.2, "x": 1.0})
    more = bout(good[0], repeat=1, figures={"preemptions": 2.0, "x": 3.0}, notes=("n",))
    second = bout(fast, *lost, finished={"stop": 2.0}, died="gone")
    found = measure(first.key, [first, more], [second], seed=0)
    assert (found.pairs, found.repeats, found.notes) == (1, 1, ("n",))
    assert found.ratios["tpot_mean"].value == pytest.approx(0.9 / 0.4)
    assert found.ratios["throughput"].value == pytest.approx(1 / 3)
    assert found.baseline.server == {
        "preemptions": 3.0, "kv_cache_usage_ratio_max": 0.2, "x": 2.0}  # fmt: skip
    assert (found.speculative.failed, found.speculative.retries) == (2, 1)
    assert (found.speculative.out_of_memory, found.died) == (1, {"speculative": "gone"})
    assert found.speculative.finished == {"stop": 2.0}


def test_answers_without_figures_pair_to_nothing() -> None:
    """Answers of one chunk have no time per token, and a bout of no length no flow."""
    bare = bout(Answer(place=0), seconds=0.0)
    found = measure(bare.key, [bare], [bare], seed=0)
    assert (found.pairs, dict(found.ratios), found.baseline.tokens_per_second) == (1, {}, None)
    assert Answer(place=0).tpot is None
    assert Answer(place=0, decode_seconds=1.0, decode_tokens=4).tpot == 0.25


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("burst=32,idle=1", [("idle", Role.IDLE, 1), ("burst", Role.BURST, 32)]),
        ("peak=64", [("peak", Role.STEADY, 64)]),
        ("8,1,32", [("c1", Role.IDLE, 1), ("c8", Role.STEADY, 8), ("c32", Role.BURST, 32)]),
        ("8", [("c8", Role.STEADY, 8)]),
        ("8,32", [("c8", Role.STEADY, 8), ("c32", Role.BURST, 32)]),
    ],
)
def test_loads_are_read(text: str, told: list[tuple[str, Role, int]]) -> None:
    """Loads have names and roles, or get them by their place."""
    assert [(one.name, one.role, one.concurrency) for one in named_loads(text)] == told


@pytest.mark.parametrize("text", ["idle=", "idle=x", "a b=1", "idle=1,idle=2", "a=1,b=1", "1,x"])
def test_loads_that_are_none(text: str) -> None:
    """A load that cannot be understood is refused with its text."""
    with pytest.raises(ValueError, match=r"load|twice|same|concurrency"):
        named_loads(text)


def test_pools_take_turns() -> None:
    """The order turns from repeat to repeat, so that drift helps neither pool."""
    sides = [side for repeat in range(2) for side in turn(repeat)]
    assert sides == [Side.BASELINE, Side.SPECULATIVE, Side.SPECULATIVE, Side.BASELINE]
    assert ranked([]) == ()
    assert str(CellKey(load=LOADS[0], temperature=0.7, traffic_class="chat")) == (
        "idle (1) chat T=0.7"
    )
    assert str(CellKey(load=named_loads("8")[0])) == "c8"


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", "nonsense", '{"schema": "specgauge.compare-run/v1", "contest": NaN}',
     "[" * 100_000, '{"record": {"bouts": [{"seconds": -1}]}}'],
)  # fmt: skip
def test_saved_runs_that_are_none(text: str) -> None:
    """Whatever is no saved run is refused with its file and place, a few faults at most."""
    with pytest.raises(BaselineError, match=r"^run\.json: ") as caught:
        parse(text, source="run.json")
    assert len(caught.value.problems) <= 6


PLAN: dict[str, Any] = {
    "loads": [{"name": "steady", "role": "steady", "concurrency": 8}],
    "temperatures": [0.0],
    "classes": ["x"],
    "lengths": {"low": 2, "high": 4},
    "repeats": 2,
    "window": 1.0,
    "warmup": 0.0,
    "seed": 0,
    "salt": "s",
}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"loads": []}, "a plan needs loads"),
        ({"lengths": {"low": 9, "high": 4}}, "lengths must rise"),
        ({"repeats": 10**12}, "out of range"),
        ({"window": 1e300}, "out of range"),
        ({"loads": [{**PLAN["loads"][0], "concurrency": 1.5}]}, "whole numbers"),
    ],
)
def test_saved_plans_that_cannot_run(changes: dict[str, Any], says: str) -> None:
    """A saved run with a plan that no command line could have asked for is refused."""
    assert parse(json.dumps({"contest": PLAN, "record": {}}), source="run.json").contest.seed == 0
    with pytest.raises(BaselineError, match=says):
        parse(json.dumps({"contest": {**PLAN, **changes}, "record": {}}), source="run.json")


def test_records_are_judged_cell_by_cell() -> None:
    """A cell without bouts is missing, texts need both pools, and logs charge the last cell."""
    contest = Contest(loads=LOADS[:2], temperatures=(0.0,), classes=("x",), lengths=Lengths(),
                      repeats=2, window=1.0, warmup=0.0, seed=0, salt="s")  # fmt: skip
    key = contest.cells[1]
    texts: dict[str, dict[str, tuple[str | None, ...]]] = {
        "x": {"greedy": ("a", None), "again": ("a", "b")},
        "y": {"greedy": ("a",)},
    }
    first = Record(bouts=(Bout(key=key, repeat=0, seconds=1.0),), texts=texts)
    second = replace(first, out_of_memory_lines=2, texts={"x": {"greedy": ("b", "b")}})
    found = judge(contest, first, second, Terms())
    assert found.missing == (contest.cells[0],)
    assert found.cells[0].cell.speculative.out_of_memory == 2
    quality = found.quality
    assert list(quality) == ["x"]
    assert (quality["x"].between.of, quality["x"].failed) == (1, 1)
    assert quality["x"].itself is not None
    empty = judge(contest, Record(), Record(), Terms())
    assert (empty.cells, len(empty.missing)) == ((), 2)
