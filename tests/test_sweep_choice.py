"""How a sweep chooses: on made-up results whose best k is known, and rule by rule."""

import math
from collections.abc import Mapping, Sequence

import pytest
from tests.drafted import chance as dice
from tests.swept import KS, Noise, Truth, candidates, drafted, name, run, world

from specgauge.preflight.sweep.candidate import Candidate
from specgauge.preflight.sweep.cell import Cell, cells, known_k, scatter
from specgauge.preflight.sweep.choose import pick, recommend, weigh
from specgauge.preflight.sweep.prune import predict, prune
from specgauge.preflight.sweep.result import Result, conclude
from specgauge.preflight.sweep.schema import Run, Server, Speculation, State

FLAT = {0: 10.0, 1: 8.0, 2: 7.0, 4: 6.0, 8: 6.5}
SEEDS = range(100)


def at(load: int, *tpots: float) -> dict[int, dict[int, float]]:
    """Give the truth at one load: milliseconds a token without speculation and for each k."""
    return {load: dict(zip((0, *KS), tpots, strict=True))}


CROSSING = {
    **at(1, 10.0, 8.0, 7.0, 6.0, 6.3),
    **at(4, 11.0, 9.4, 8.6, 9.6, 11.0),
    **at(16, 14.0, 15.0, 17.0, 20.0, 26.0),
}
LUMPY = Noise(spread=0.04, outliers=0.15, rounds=2)
UPSET = Noise(spread=0.02, disturbed=0.15, rounds=3)
FULL = {(16, 4): "the KV cache is 93% full"}
SCENARIOS: dict[str, tuple[Truth, Noise, dict[int, int], int]] = {
    "plain": (Truth(tpot={1: FLAT, 8: FLAT}), Noise(), {1: 4, 8: 4}, 4),
    "noise-and-outliers": (Truth(tpot={4: FLAT}), LUMPY, {4: 4}, 4),
    "tie-goes-to-the-smaller": (
        Truth(tpot=at(4, 10, 8, 6.01, 6, 6)),
        Noise(spread=0.004),
        {4: 2},
        2,
    ),
    "tie-with-none": (Truth(tpot=at(4, 10, 10.02, 9.98, 11, 12)), Noise(spread=0.004), {4: 0}, 0),
    "not-monotone": (Truth(tpot=at(4, 10, 7.8, 9.2, 6.6, 8.4)), Noise(spread=0.03), {4: 4}, 4),
    "best-fails": (Truth(tpot={4: FLAT, 16: FLAT}, fails=FULL), Noise(), {4: 4, 16: 8}, 8),
    "disturbed-runs": (Truth(tpot={4: FLAT}), UPSET, {4: 4}, 4),
    "costs-under-load": (Truth(tpot=CROSSING), Noise(spread=0.02), {1: 4, 4: 2, 16: 0}, 2),
}


def decide(
    runs: Sequence[Run], expect: Sequence[float] = (), states: Sequence[State] = ()
) -> Result:
    return conclude(candidates(), runs, states, expect)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_best_is_chosen(scenario: str) -> None:
    """At every load and over all the best k is chosen, whatever the noise, in 95 of 100 sweeps."""
    truth, noise, best, overall = SCENARIOS[scenario]
    right = 0
    for seed in SEEDS:
        result = decide(truth.runs(noise, seed), (4.0,) if len(truth.tpot) > 2 else ())
        chosen = {one.concurrency: one.k for one in result.picks}
        over_all = result.recommended.k if result.recommended else None
        right += (chosen, over_all) == (best, overall)
    assert right >= 95


def test_a_candidate_that_failed_is_out() -> None:
    """What died once is not recommended for the loads that it survived."""
    states = [State(name="ngram-k4", status="failed", reason="the server died")]
    result = decide(Truth(tpot={4: FLAT}).runs(Noise(), 1), states=states)
    assert result.picks[0].k == 8
    assert result.recommended is not None
    assert result.recommended.left_out == {
        "ngram-k4": "no result at concurrency 4: the server died"
    }


def test_a_load_that_nothing_bears_does_not_count() -> None:
    """Where every candidate fails at a load, the others decide."""
    fails = {(64, k): "the server takes no more at once" for k in (0, *KS)}
    result = decide(Truth(tpot={4: FLAT, 64: FLAT}, fails=fails).runs(Noise(), 1))
    assert result.recommended is not None
    assert (result.recommended.k, result.recommended.weights) == (4, {4: 1.0})


def test_noise_costs() -> None:
    """Of two that look alike the one that is known better wins."""
    quiet = run(4, 1, [6.0, 6.02, 5.98, 6.0, 6.01, 5.99])
    loud = run(1, 1, [5.9, 6.9, 5.0, 5.95, 6.6, 5.2])
    found = cells(candidates(), [quiet, loud], {})
    chosen = pick(found)
    assert chosen is not None
    assert (chosen.k, chosen.ties) == (4, ())
    assert min(found, key=lambda one: one.tpot).k == 1


@pytest.mark.parametrize(
    ("runs", "rejected"),
    [
        pytest.param([run(2, 1, [], failure="no answer")], "no answer", id="failed"),
        pytest.param([run(2, 1, [5.0, 9.0, 6.0])], "20% or more noise in every run", id="noisy"),
        pytest.param([run(2, 1, [5.0, 5.1, 5.0]), run(2, 1, [5, 9, 6], number=2)], None, id="one"),
    ],
)
def test_runs_that_do_not_count(runs: list[Run], rejected: str | None) -> None:
    """Failed and noisy runs are left out; with none left the candidate is out at that load."""
    (found,) = cells(candidates(), runs, {})
    assert found.rejected == rejected
    assert found.repeats == (0 if rejected else 3)
    assert (pick([found]) is None) == (rejected is not None)
    assert recommend([found], {1: 1.0}) is None or rejected is None


def test_a_failed_round_is_noted() -> None:
    """A round that failed beside one that did not is told, and so is a noisy one."""
    runs = [
        run(2, 1, [5.0, 5.1, 5.0]),
        run(2, 1, [], number=2, failure="no answer"),
        run(2, 1, [5.0, 9.0, 6.0], number=3),
    ]
    (found,) = cells(candidates(), runs, {})
    assert found.notes == ("round 3: noisy, left out", "a round failed: no answer")


def test_without_a_baseline_there_is_no_speedup() -> None:
    """The quickest is chosen all the same, and k = 0 is not known to be slower."""
    runs = [run(1, 4, [8.0, 8.0, 8.1]), run(2, 4, [6.0, 6.0, 6.1])]
    result = decide(runs)
    assert result.recommended is not None
    assert (result.recommended.k, result.recommended.speedup) == (2, None)
    assert [one.speedup for one in result.cells] == [None, None]


def test_a_single_repeat_has_no_interval() -> None:
    """A ratio of two single figures is a speedup without an interval."""
    found = cells(candidates(), [run(0, 4, [9.0]), run(1, 4, [6.0])], {})
    assert [(one.speedup, one.low) for one in found] == [
        (1.0, 1.0),
        (pytest.approx(1.5), None),
    ]


@pytest.mark.parametrize(
    ("expect", "weights"),
    [
        pytest.param((), {1: 1 / 3, 4: 1 / 3, 16: 1 / 3}, id="nothing-expected"),
        pytest.param((4.0,), {4: 1.0}, id="measured"),
        pytest.param((8.0,), {4: 0.5, 16: 0.5}, id="between"),
        pytest.param((100.0,), {16: 1.0}, id="above"),
        pytest.param((1.0, 16.0), {1: 0.5, 16: 0.5}, id="two"),
    ],
)
def test_weights(expect: tuple[float, ...], weights: dict[int, float]) -> None:
    """A load counts by how near it is to what is expected, in logarithms."""
    assert weigh([1, 4, 16], expect) == pytest.approx(weights)


@pytest.mark.parametrize(
    ("told", "k"),
    [
        pytest.param(drafted([0.8, 0.5]), 2, id="told"),
        pytest.param(Speculation(state="absent"), 0, id="none"),
        pytest.param(Speculation(state="unknown"), None, id="unknown"),
        pytest.param(None, None, id="nothing-told"),
    ],
)
def test_k_of_a_server_that_was_given(told: Speculation | None, k: int | None) -> None:
    """A server that runs tells its k on its page."""
    given = Candidate(name="x", k=None, url="http://h")
    assert known_k(given, [run(0, 1, [1.0], told=told, candidate="x")]) == k


def test_an_unknown_k_comes_last_in_a_tie() -> None:
    """Of equals, one whose k nobody knows is not the smallest."""
    listed = [Candidate(name="x", k=None, url="u"), Candidate(name="y", k=3, url="u")]
    runs = [run(0, 1, [5.0] * 3, candidate=one.name) for one in listed]
    chosen = pick(cells(listed, runs, {}))
    assert chosen is not None
    assert (chosen.candidate, chosen.ties) == ("y", ("x",))


def test_rounds_are_pooled_by_their_drafts() -> None:
    """What two rounds say of drafts is one figure; survivals of another length are none."""
    runs = [
        run(2, 1, [5.0] * 3, told=drafted([0.8, 0.4], drafts=3000.0)),
        run(2, 1, [5.0] * 3, told=drafted([0.4, 0.2], drafts=1000.0), number=2),
    ]
    (found,) = cells(candidates(), runs, {})
    assert found.speculation is not None
    assert found.speculation.position_acceptance_ratio == pytest.approx((0.7, 0.35))
    assert found.speculation.drafts == 4000.0
    other = run(2, 1, [5.0] * 3, told=drafted([0.4], drafts=1000.0), number=2)
    (found,) = cells(candidates(), [runs[0], other], {})
    assert found.speculation is not None
    assert found.speculation.position_acceptance_ratio is None
    lacking = drafted([0.4, 0.2]).model_copy(update={"tokens_per_step": None})
    third = run(2, 1, [5.0] * 3, told=lacking, number=2)
    (found,) = cells(candidates(), [runs[0], third], {})
    assert found.speculation is not None
    assert found.speculation.tokens_per_step is None


def test_scatter_is_a_deviation() -> None:
    """The median deviation of normal values is scaled to their standard deviation."""
    chance = dice(1)
    values = [chance.gauss(10.0, 0.5) for _ in range(5000)]
    assert scatter(values) == pytest.approx(0.05, rel=0.05)


def chain(k: int) -> Candidate:
    return next(one for one in candidates() if one.k == k)


def test_a_hopeless_candidate_is_pruned() -> None:
    """Where even a free draft of one token cannot catch up, it is not tried; and that is told."""
    found = cells(candidates(), world([0.95, 0.9, 0.85, 0.8], 0.02, [0, 4]), {})
    why = prune(chain(1), found, [4], {4: 1.0})
    assert why is not None
    assert why.startswith("predicted from the survival of ngram-k4: 1.91x (at most 1.")
    assert "at 4, where ngram-k4 has at least 4." in why


@pytest.mark.parametrize(
    "runs",
    [
        pytest.param(world([0.8, 0.3, 0.1, 0.05], 0.1, [0, 4]), id="it-may-be-the-best"),
        pytest.param(world([0.9, 0.8, 0.7, 0.6], 0.1, [4]), id="no-baseline"),
        pytest.param(world([0.9, 0.8, 0.7, 0.6], 0.1, [0]), id="nothing-of-its-kind"),
        pytest.param(
            [
                *world([], 0.1, [0]),
                run(4, 4, [2.0] * 6, told=drafted([0.9] * 4, drafts=50.0)),
            ],
            id="few-drafts",
        ),
        pytest.param(
            [*world([], 0.1, [0]), run(4, 4, [2.0] * 6, told=Speculation(state="active"))],
            id="no-survival",
        ),
        pytest.param(
            [*world([], 0.1, [0]), run(4, 4, [2.0] * 6)],
            id="no-page",
        ),
    ],
)
def test_what_may_be_the_best_is_not_pruned(runs: list[Run]) -> None:
    """Without evidence nothing is left out."""
    assert prune(chain(1), cells(candidates(), runs, {}), [4], {4: 1.0}) is None


def test_other_shapes_of_draft_are_never_pruned() -> None:
    """A tree or a block cut short is another draft."""
    for method in ("dflash", "medusa", "suffix"):
        assert not Candidate(name="x", k=1, method=method).chain
    tree = {"speculative_token_tree": "[(0,)]"}
    assert not Candidate(name="x", k=1, method="eagle", config=tree).chain
    assert Candidate(name="x", k=1, method="deepseek_mtp").chain
    block = Candidate(name="x", k=1, method="dflash")
    assert predict(block, cells(candidates(), world([0.9] * 4, 0.02, [0, 4]), {})) is None
    assert predict(Candidate(name="none"), []) is None


def test_pruning_needs_all_loads_and_one_that_is_better_over_all() -> None:
    """A load without a result, or a best that changes from load to load, keeps a candidate."""
    found = cells(candidates(), world([0.95, 0.9, 0.85, 0.8], 0.02, [0, 4]), {})
    assert prune(chain(1), found, [4, 16], {4: 0.5, 16: 0.5}) is None
    assert prune(chain(1), found, [4], {4: 0.5, 16: 0.5}) is None


def test_a_longer_draft_is_predicted_by_what_is_known() -> None:
    """Beyond the k that was measured survival and cost go on as they ended."""
    found = cells(candidates(), world([0.8, 0.4], 0.3, [0, 1, 2]), {})
    predicted = predict(chain(4), found)
    assert predicted is not None
    assert predicted.speedup == pytest.approx((1 + 0.8 + 0.4 + 0.2 + 0.1) / 2.2, rel=0.03)
    assert predicted.most > predicted.speedup
    single = cells(candidates(), world([0.0], 0.3, [0, 1]), {})
    predicted = predict(chain(4), single)
    assert predicted is not None
    assert predicted.speedup == pytest.approx(1 / 2.2, rel=0.03)
    nothing = cells(candidates(), world([0.0, 0.0], 0.3, [0, 1, 2]), {})
    predicted = predict(chain(4), nothing)
    assert predicted is not None
    assert predicted.speedup < 1.0


def test_the_best_is_never_pruned() -> None:
    """Over 300 made-up servers pruning saves measurements and never the best one."""
    saved = 0
    for seed in range(300):
        chance = dice(seed)
        survival, last = [], 1.0
        for _ in range(8):
            last *= chance.uniform(0.2, 1.0)
            survival.append(last)
        cost = chance.uniform(0.01, 0.4)
        speed = {k: (1 + sum(survival[:k])) / (1 + cost * k) for k in (0, *KS)}
        runs: list[Run] = []
        for k in (0, *sorted(KS, reverse=True)):
            found = cells(candidates(), runs, {})
            if k and prune(chain(k), found, [4], {4: 1.0}) is not None:
                saved += 1
                assert speed[k] < max(speed.values()), f"seed {seed}"
            else:
                runs += world(survival, cost, [k])
    assert saved > 50


# The schedule by batch size.


def shaped(tpots: Mapping[int, Mapping[int, float]]) -> list[Run]:
    return Truth(tpot=tpots).runs(Noise(spread=0.0005), 1)


UNDER_LOAD = {
    1: {0: 10.0, 2: 7.0, 4: 6.8},
    4: {0: 11.0, 2: 8.0, 4: 9.0},
    16: {0: 14.0, 2: 16.0, 4: 20.0},
}


def states(version: str | None = "0.32.0", engines: int = 1) -> list[State]:
    server = Server(engine_version=version, engines=engines)
    return [State(name=name(k), status="measured", server=server) for k in (0, 2, 4)]


def test_the_schedule_is_vllms_own() -> None:
    """Ranges begin at 1, do not overlap, and change where two curves cross."""
    schedule = decide(shaped(UNDER_LOAD), states=states()).schedule
    assert schedule.ranges == ((1, 1, 4), (2, 10, 2), (11, 16, 0))
    assert schedule.config == {
        "method": "ngram",
        "num_speculative_tokens": 4,
        "num_speculative_tokens_per_batch_size": [[1, 1, 4], [2, 10, 2], [11, 16, 0]],
    }
    assert schedule.argument is not None
    assert (schedule.cautions, schedule.refusal) == ((), None)


@pytest.mark.parametrize(
    ("tpots", "told", "refusal"),
    [
        pytest.param({1: FLAT, 8: FLAT}, states(), "one_k_at_every_load", id="one-k"),
        pytest.param({1: {0: 5.0, 2: 6.0}}, states(), "no_speculation_pays", id="none-pays"),
        pytest.param({}, states(), "nothing_measured", id="nothing"),
        pytest.param({1: {0: 5.0}}, states(), "nothing_measured", id="nothing-that-drafts"),
        pytest.param(UNDER_LOAD, states("0.23.1"), "engine_too_old", id="old"),
        pytest.param(UNDER_LOAD, states(engines=2), "data_parallel", id="data-parallel"),
    ],
)
def test_no_schedule(
    tpots: Mapping[int, Mapping[int, float]], told: list[State], refusal: str
) -> None:
    """Where a schedule is of no use, or the engine takes none, it says which."""
    found = decide(shaped(tpots), states=told).schedule
    assert (found.refusal, found.ranges, found.argument) == (refusal, (), None)


@pytest.mark.parametrize(
    ("version", "loads", "cautions"),
    [
        pytest.param(None, (1, 4, 16), ("engine_version_unknown",), id="unknown-release"),
        pytest.param("dev", (1, 4), ("engine_version_unknown", "beyond_measured_load"), id="dev"),
        pytest.param("0.24.0rc1+cpu", (1, 4), ("beyond_measured_load",), id="beyond"),
    ],
)
def test_cautions(version: str | None, loads: tuple[int, ...], cautions: tuple[str, ...]) -> None:
    """What to mind about a schedule is said."""
    runs = shaped({load: UNDER_LOAD[load] for load in loads})
    assert decide(runs, states=states(version)).schedule.cautions == cautions


def test_a_schedule_of_given_servers() -> None:
    """Servers that run tell no method; without a baseline k = 0 is not known."""
    listed = [Candidate(name=f"u{k}", k=k, url="http://h") for k in (2, 4)]
    runs = [
        run(k, load, [UNDER_LOAD[load][k]] * 3, candidate=f"u{k}")
        for load in (1, 4)
        for k in (2, 4)
    ]
    schedule = conclude(listed, runs, [], ()).schedule
    assert schedule.ranges == ((1, 1, 4), (2, 4, 2))
    assert set(schedule.cautions) == {
        "engine_version_unknown",
        "method_unknown",
        "k_zero_not_measured",
        "beyond_measured_load",
    }


def test_a_schedule_with_gaps_says_so() -> None:
    """Where a result is missing the best k of that load may be another one."""
    fails = {(1, 4): "no answer"}
    runs = Truth(tpot=UNDER_LOAD, fails=fails).runs(Noise(spread=0.0005), 1)
    assert decide(runs, states=states()).schedule.cautions == ("results_missing",)


def test_loads_of_one_k_are_one_range() -> None:
    """A range ends only where k changes."""
    rows = {**UNDER_LOAD, 2: {0: 10.0, 2: 7.0, 4: 6.0}}
    assert decide(shaped(rows), states=states()).schedule.ranges[0][:1] == (1,)
    assert len(decide(shaped(rows), states=states()).schedule.ranges) == 3


def test_a_schedule_without_a_crossing() -> None:
    """Where one of two candidates has no result at a load, the change lies in the middle."""
    runs = shaped(UNDER_LOAD)
    runs = [one for one in runs if (one.candidate, one.concurrency) != ("ngram-k4", 4)]
    assert decide(runs, states=states()).schedule.ranges == ((1, 2, 4), (3, 10, 2), (11, 16, 0))


def test_the_schedule_is_for_the_quickest_where_none_is_recommended() -> None:
    """Speculation that pays only at a load that is not expected still gets its schedule."""
    result = decide(shaped(UNDER_LOAD), (16.0,), states())
    assert result.recommended is not None
    assert result.recommended.k == 0
    assert result.schedule.ranges[0] == (1, 1, 4)


def test_cells_say_nothing_that_is_not_a_number() -> None:
    """A rejected cell has no time, and no speedup is made of it."""
    runs = [run(0, 1, [], failure="no answer"), run(2, 1, [5.0] * 3)]
    base, other = cells(candidates(), runs, {})
    assert math.isnan(base.tpot)
    assert other.speedup is None
    assert isinstance(other, Cell)
