"""Two baselines beside each other."""

from typing import Any

import pytest
from tests.baselines import Json, baseline, level

from specgauge.baseline.compare import Comparison, compare, workload_mismatches
from specgauge.baseline.schema import Workload

LOW, HIGH = level(1.0, 0.004), level(8.0, 0.005)


def compared(*levels: Json, first: Json | None = None, **more: Any) -> Comparison:
    """Compare a baseline of two levels with another."""
    return compare(baseline(LOW, HIGH, **(first or {})), baseline(*levels, **more))


def test_a_baseline_equals_itself() -> None:
    """Every ratio is 1, at the loads measured."""
    found = compared(LOW, HIGH)
    assert found.equal
    assert [pair.ratio for pair in found.pairs] == [1.0, 1.0]
    assert [pair.interpolated for pair in found.pairs] == [False, False]
    assert found.provenance == {}


def test_loads_between_levels_are_interpolated() -> None:
    """At 4.5 the first lies half-way between its levels: 4.5 ms."""
    found = compared(LOW, level(4.5, 0.009), level(8.0, 0.009))
    middle = found.pairs[1]
    assert middle.decode_concurrency == 4.5
    assert (middle.first, middle.second) == pytest.approx((0.0045, 0.009))
    assert middle.interpolated
    assert not middle.equal
    assert not found.equal
    assert found.comparable


def test_the_interval_joins_both_intervals() -> None:
    """Half-widths of 1 % on either side make 1.41 %."""
    pair = compared(LOW, level(8.0, 0.00507)).pairs[-1]
    assert (pair.low, pair.high) == pytest.approx((1.014 * (1 - 0.0141421), 1.014 * 1.0141421))
    assert pair.equal


def test_no_ratio_is_below_zero() -> None:
    """Where the times are hardly known, the interval of their ratio begins at 0."""
    wide = level(8.0, 0.005, server={"tpot_ci95": [0.0, 0.011]})
    pair = compared(LOW, wide).pairs[-1]
    assert pair.low == 0.0
    assert pair.high > 2.0


def test_without_a_recorded_interval_five_percent_stand_for_it() -> None:
    """A baseline that knows no interval is not taken for exact."""
    bare = [
        level(load, tpot, server={"tpot_ci95": None}) for load, tpot in ((1, 0.004), (8, 0.005))
    ]
    pair = compare(baseline(*bare), baseline(*bare)).pairs[0]
    assert pair.high == pytest.approx(1.0 + 0.05 * 2**0.5)


def test_only_loads_that_both_cover_are_compared() -> None:
    """Beyond the shorter range there is nothing to compare; without any common load neither."""
    found = compared(level(4.0, 0.005), level(64.0, 0.009))
    assert [pair.decode_concurrency for pair in found.pairs] == [4.0, 8.0]
    apart = compared(level(32.0, 0.005), level(64.0, 0.009))
    assert (apart.reason, apart.pairs, apart.equal) == ("no_common_load", (), False)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        pytest.param({"temperature": 0.0}, {"temperature": 1.0}, ("temperature",), id="sampling"),
        pytest.param({"temperature": 0.0}, {}, (), id="one-does-not-say"),
        pytest.param(
            {"temperature": 0.0, "name": "mt-bench"},
            {"temperature": 1.0, "name": "random"},
            ("temperature", "prompts_sha256"),
            id="sampling-and-prompts",
        ),
        pytest.param(
            {"prompts_sha256": "a", "name": "chat"},
            {"prompts_sha256": "a", "name": "talk"},
            (),
            id="the-digest-tells-more-than-the-name",
        ),
        pytest.param(
            {"prompts_sha256": "a"}, {"prompts_sha256": "b"}, ("prompts_sha256",), id="prompts"
        ),
        pytest.param(
            {"output_tokens": "32-352", "prefix_caching": False},
            {"output_tokens": "192", "prefix_caching": True},
            ("output_tokens", "prefix_caching"),
            id="lengths-and-caching",
        ),
    ],
)
def test_other_loads_are_not_compared(first: Json, second: Json, expected: tuple[str, ...]) -> None:
    """A changed temperature is a change of the client, not of the server."""
    found = compare(baseline(workload=first), baseline(workload=second))
    assert workload_mismatches(Workload(**first), Workload(**second)) == expected
    assert found.mismatches == expected
    assert found.reason == ("baseline_mismatch" if expected else None)
    assert found.pairs == () or not expected


def test_other_lengths_are_another_load() -> None:
    """Outputs twice as long are not compared, even where no digest tells."""
    short, long = (level(8.0, 0.005, output_tokens_per_request=n) for n in (100, 200))
    found = compare(baseline(short), baseline(long))
    assert found.mismatches == ("output_tokens_per_request",)


def test_whole_requests_of_other_lengths_carry_a_warning() -> None:
    """Faster requests with shorter answers while each token got slower: both are said."""
    first = level(8.0, 0.014, output_tokens_per_request=1000, server={"e2e_seconds": 14.0})
    second = level(8.0, 0.016, output_tokens_per_request=700, server={"e2e_seconds": 11.2})
    found = compare(baseline(first), baseline(second))
    assert found.pairs[0].ratio == pytest.approx(1.0 / 0.875)
    assert found.e2e_ratio == pytest.approx(0.8)
    assert found.warnings == ("output_length_mismatch",)
    assert compare(baseline(first), baseline(first)).warnings == ()


def test_lengths_that_are_not_known_raise_no_warning() -> None:
    """A warning needs both lengths."""
    one = level(8.0, 0.014, server={"e2e_seconds": 14.0})
    found = compare(baseline(one), baseline(one))
    assert (found.e2e_ratio, found.warnings) == (1.0, ())


def test_facts_of_another_server_are_listed_not_refused() -> None:
    """Comparing two releases or machines is what one does it for."""
    found = compared(
        LOW,
        HIGH,
        engine={"name": "vllm", "version": "0.26.0"},
        hardware={"gpu": "A100", "kv_blocks": 7},
        method="observed",
    )
    assert found.equal
    assert found.provenance == {
        "engine.version": (None, "0.26.0"),
        "hardware.gpu": (None, "A100"),
        "hardware.kv_blocks": (None, 7),
        "method": ("closed_loop", "observed"),
    }
