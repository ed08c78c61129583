"""Acceptance: every formula, every reason why there is none, and the identities behind both."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.recorded import Watched, measure, measure_life, only
from tests.written import Engine, write_page

from specgauge.derive.acceptance import Counts, length, ratio, silenced, whole_number
from specgauge.derive.identities import violations
from specgauge.derive.window import drafting
from specgauge.engines.reader import Reader
from specgauge.model.derived import Absent, Check, Derived, Reason, Warn

BASE = Engine(drafts=100, drafted=300, accepted=210, positions=(95, 70, 45), tokens=400)


def life(engine: Engine, *more: Engine) -> Derived:
    """Derive from one page."""
    return only(measure_life(write_page(engine, *more)))


def test_every_formula() -> None:
    """Ratio, lengths, survival and conditional acceptance of one window."""
    start = replace(BASE, drafts=0, drafted=0, accepted=0, positions=(0, 0, 0))
    found = only(measure([write_page(start), write_page(BASE)])).values
    assert found["acceptance_ratio"] == 0.7
    assert found["acceptance_length"] == 3.1
    assert found["draft_length"] == 3.0
    assert found["position_acceptance_ratio"] == [0.95, 0.7, 0.45]
    assert found["position_conditional_acceptance_ratio"] == [0.95, 70 / 95, 45 / 70]
    assert found["num_speculative_tokens"] == 3
    assert found["accepted_tokens_per_position"] == [95, 70, 45]
    assert all(isinstance(found[name], int) for name in ("drafts", "draft_tokens"))


ABSENT = {
    "no speculation": (Engine(tokens=5), "acceptance_ratio", Reason.NOT_EXPOSED),
    "no drafts yet": (
        Engine(drafts=0, drafted=0, accepted=0, positions=(0, 0)),
        "acceptance_ratio",
        Reason.NO_DRAFTS,
    ),
    "length without drafts": (
        Engine(drafts=0, drafted=0, accepted=0, positions=(0, 0)),
        "acceptance_length",
        Reason.NO_DRAFTS,
    ),
    "draft length without drafts": (
        Engine(drafts=0, drafted=0, accepted=0),
        "draft_length",
        Reason.NO_DRAFTS,
    ),
    "survival without drafts": (
        Engine(drafts=0, drafted=0, accepted=0, positions=(0, 0)),
        "position_acceptance_ratio",
        Reason.NO_DRAFTS,
    ),
    "conditional without drafts": (
        Engine(drafts=0, drafted=0, accepted=0, positions=(0, 0)),
        "position_conditional_acceptance_ratio",
        Reason.NO_DRAFTS,
    ),
    "all invalid": (
        Engine(drafts=9, drafted=0, accepted=0),
        "acceptance_ratio",
        Reason.ALL_INVALID,
    ),
    "no count of drafts": (
        replace(BASE, drafts=None),
        "acceptance_length",
        Reason.NUM_DRAFTS_MISSING,
    ),
    "survival without a count of drafts": (
        replace(BASE, drafts=None),
        "position_acceptance_ratio",
        Reason.NUM_DRAFTS_MISSING,
    ),
    "conditional without a count of drafts": (
        replace(BASE, drafts=None),
        "position_conditional_acceptance_ratio",
        Reason.NUM_DRAFTS_MISSING,
    ),
    "no count of drafted tokens": (
        replace(BASE, drafted=None),
        "acceptance_ratio",
        Reason.NOT_EXPOSED,
    ),
    "draft length without drafted tokens": (
        replace(BASE, drafted=None),
        "draft_length",
        Reason.NOT_EXPOSED,
    ),
    "conditional without drafted tokens": (
        replace(BASE, drafted=None),
        "position_conditional_acceptance_ratio",
        Reason.NOT_EXPOSED,
    ),
    "no count of accepted tokens": (
        replace(BASE, accepted=None),
        "acceptance_length",
        Reason.NOT_EXPOSED,
    ),
    "no positions": (
        replace(BASE, positions=()),
        "accepted_tokens_per_position",
        Reason.NOT_EXPOSED,
    ),
    "drafts of varying length": (
        replace(BASE, drafted=298),
        "position_conditional_acceptance_ratio",
        Reason.VARYING_DRAFT_LENGTH,
    ),
    "more accepted than drafted": (
        replace(BASE, drafted=200),
        "acceptance_ratio",
        Reason.ABOVE_ONE,
    ),
    "length with more accepted than drafted": (
        replace(BASE, drafted=200),
        "acceptance_length",
        Reason.ABOVE_ONE,
    ),
    "accepted without anything drafted": (
        replace(BASE, drafted=0),
        "acceptance_ratio",
        Reason.ABOVE_ONE,
    ),
    "position above the one before": (
        replace(BASE, positions=(70, 95, 45)),
        "position_acceptance_ratio",
        Reason.NOT_MONOTONE,
    ),
    "first position above the drafts": (
        replace(BASE, positions=(101, 70, 39)),
        "position_acceptance_ratio",
        Reason.NOT_MONOTONE,
    ),
    "positions that add up to something else": (
        replace(BASE, positions=(95, 70, 30)),
        "position_acceptance_ratio",
        Reason.POSITION_SUM,
    ),
}


@pytest.mark.parametrize(("engine", "field", "reason"), ABSENT.values(), ids=ABSENT)
def test_absent_with_its_reason(engine: Engine, field: str, reason: Reason) -> None:
    """What cannot be known is absent, and says why."""
    found = life(engine)
    assert field not in found.values
    assert found.absent[field] == reason


def test_positions_without_accepted_tokens_stand_alone() -> None:
    """Positions need no sum to be held against where there is none."""
    found = life(replace(BASE, accepted=None))
    assert found.values["position_acceptance_ratio"] == [0.95, 0.7, 0.45]


def test_positions_without_drafts_are_counted_all_the_same() -> None:
    """Without a count of drafts the counts by position remain."""
    assert life(replace(BASE, drafts=None)).values["accepted_tokens_per_position"] == [95, 70, 45]


def test_position_that_is_at_fault_spoils_only_the_positions() -> None:
    """A NaN at one position leaves ratio and length."""
    page = write_page(BASE).replace(b" 70.0", b" NaN").replace(b" 70\n", b" NaN\n")
    found = only(measure_life(page))
    assert found.values["acceptance_ratio"] == 0.7
    assert found.absent["position_acceptance_ratio"] == Reason.NOT_FINITE
    assert found.violations == ()


def test_conditional_ends_where_nothing_came_so_far() -> None:
    """Behind the first position that nothing reached there is nothing to divide by."""
    found = life(replace(BASE, accepted=90, positions=(90, 0, 0))).values
    assert found["position_conditional_acceptance_ratio"] == [0.9, 0.0]


def test_almost_full_drafts_count_as_full() -> None:
    """A draft cut at the end of a request does not spoil a chain of fixed length."""
    found = life(Engine(drafts=1000, drafted=2990, accepted=30, positions=(10, 10, 10))).values
    assert found["position_conditional_acceptance_ratio"] == [0.01, 1.0, 1.0]


VIOLATIONS = {
    "none": (BASE, ()),
    "more accepted than drafted": (replace(BASE, drafted=200), (Check.ACCEPTED_WITHIN_DRAFTED,)),
    "positions rise": (replace(BASE, positions=(70, 95, 45)), (Check.POSITIONS_FALL,)),
    "positions rise without a count of drafts": (
        replace(BASE, drafts=None, positions=(70, 95, 45)),
        (Check.POSITIONS_FALL,),
    ),
    "positions miss the sum": (replace(BASE, positions=(95, 70, 44)), (Check.POSITIONS_SUM,)),
    "no sum to miss": (replace(BASE, accepted=None), ()),
    "more drafted than K allows": (replace(BASE, drafted=301), (Check.DRAFTED_WITHIN_K,)),
    "no K": (replace(BASE, drafted=301, positions=()), ()),
    "no speculation": (Engine(tokens=4), ()),
}


@pytest.mark.parametrize(("engine", "broken"), VIOLATIONS.values(), ids=VIOLATIONS)
def test_broken_identities_are_named(engine: Engine, broken: tuple[Check, ...]) -> None:
    """Each identity of an honest page has a name, and a warning where it is broken."""
    found = life(engine)
    assert found.violations == broken
    named = {Check.POSITIONS_FALL: Warn.NOT_MONOTONE, Check.ACCEPTED_WITHIN_DRAFTED: Warn.ABOVE_ONE}
    for check in broken:
        assert named.get(check, f"identity_violation:{check}") in found.warnings


def test_missing_position_is_no_ladder() -> None:
    """Positions 0 and 2 without 1 are not taken for two positions."""
    lines = write_page(BASE).splitlines(keepends=True)
    page = b"".join(line for line in lines if b'position="1"' not in line)
    found = only(measure_life(page))
    assert found.absent["position_acceptance_ratio"] == Reason.NOT_MONOTONE
    assert Check.POSITIONS_FALL in found.violations
    assert found.values["num_speculative_tokens"] == 3


def test_identities_of_one_interval() -> None:
    """The same identities are held against what a single interval added."""
    watched = Watched(write_page(BASE, Engine(model="other", tokens=1.0)))
    later = replace(BASE, drafts=110, drafted=330, accepted=245, positions=(105, 80, 60))
    interval = watched.see(write_page(later, Engine(model="other", tokens=1.0)), 1.0)
    windows = drafting(interval, watched.page)
    assert set(windows) == {"target"}
    broken = (Check.ACCEPTED_WITHIN_DRAFTED, Check.POSITIONS_FALL)
    assert violations(windows["target"]) == broken


def test_silenced_models() -> None:
    """Draft counters of a diffusion model, or of no known generation, are not exported."""
    speculative = Reader().read(write_page(BASE))
    assert silenced(speculative.layout) == frozenset()
    canvas = Engine(drafts=1, drafted=200, accepted=200, positions=[1] * 200)
    assert silenced(Reader().read(write_page(canvas)).layout) == {"target"}
    gauge = b'vllm:spec_decode_efficiency{model_name="target"} 0.5\n'
    assert silenced(Reader().read(write_page(BASE) + gauge).layout) == {"target"}


def test_ratio_is_of_sums() -> None:
    """Engines count by their drafts, not each as one."""
    found = life(
        BASE, replace(BASE, engine="1", drafts=1, drafted=3, accepted=0, positions=(0,) * 3)
    )
    assert found.values["acceptance_ratio"] == 210 / 303
    assert [one.acceptance_ratio for one in found.per_engine] == [0.7, 0.0]


def test_engine_without_the_series_has_no_share() -> None:
    """An engine that shows no drafts has no acceptance of its own."""
    found = life(BASE, Engine(engine="1", tokens=5))
    assert found.per_engine[1].acceptance_ratio == Absent(reason=Reason.NOT_EXPOSED)


counts = st.integers(0, 10**6).map(float) | st.sampled_from(
    [Absent(reason="not_finite"), Absent(reason="duplicate_series")]
)


@given(counts, counts, counts)
def test_ratios_stay_within_bounds(
    drafts: float | Absent, drafted: float | Absent, accepted: float | Absent
) -> None:
    """Whatever the counts, a ratio lies in 0 to 1 and a length is at least 1, or there is none."""
    counted = Counts(drafts=drafts, drafted=drafted, accepted=accepted)
    found = ratio(counted)
    assert isinstance(found, Absent) or 0.0 <= found <= 1.0
    long = length(counted)
    assert isinstance(long, Absent) or long >= 1.0


def test_counts_are_written_as_integers() -> None:
    """A count is an integer where it is one."""
    assert isinstance(whole_number(3.0), int)
    assert whole_number(3.5) == 3.5
