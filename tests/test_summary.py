"""One model's summary: every field once, with a value or a reason, and what to warn of."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.recorded import CAPTURES, load_page, measure, measure_life, only
from tests.written import Engine, sample, write_page

from specgauge.engines.reader import Reader
from specgauge.model.derived import FIELDS, Derived, Hints, Warn

BASE = Engine(drafts=200, drafted=600, accepted=420, positions=(190, 140, 90), tokens=800)


def numbers(found: Derived) -> list[float]:
    """List every number of a summary."""
    values = found.values.values()
    return [n for v in values for n in (v if isinstance(v, Sequence) else (v,))]


@pytest.mark.parametrize("name", CAPTURES)
def test_every_field_stands_in_one_place(name: str) -> None:
    """A field has a value or a reason, never both and never neither."""
    pages = [load_page(f"vllm/{name}/{at}.prom") for at in ("before", "after")]
    for found in (only(measure(pages, 10.0)), only(measure_life(pages[1]))):
        assert sorted([*found.values, *found.absent]) == sorted(FIELDS)
        assert all(math.isfinite(n) and n >= 0 for n in numbers(found))


WARNINGS = {
    "fewer than a hundred drafts": (replace(BASE, drafts=99), Hints(), {Warn.LOW_SAMPLE}),
    "engines missing": (BASE, Hints(engines=2), {Warn.ENGINES_MISSING}),
    "as many engines as there should be": (BASE, Hints(engines=1), set()),
    "lookup method with full drafts": (BASE, Hints(method="ngram"), {Warn.PADDED_DRAFTS}),
    "lookup method with short drafts": (
        replace(BASE, drafted=500),
        Hints(method="ngram"),
        set(),
    ),
    "lookup method without drafts": (
        replace(BASE, drafts=0, drafted=0, accepted=0, positions=(0, 0, 0)),
        Hints(method="ngram"),
        set(),
    ),
    "lookup method without positions": (
        replace(BASE, positions=()),
        Hints(method="suffix"),
        set(),
    ),
    "lookup method without a count of drafts": (
        replace(BASE, drafts=None),
        Hints(method="ngram"),
        set(),
    ),
    "another method with full drafts": (BASE, Hints(method="eagle"), set()),
    "synthetic acceptance": (BASE, Hints(method="synthetic"), {Warn.SYNTHETIC_ACCEPTANCE}),
    "synthetic acceptance without speculation": (
        Engine(tokens=4),
        Hints(method="synthetic"),
        set(),
    ),
}


@pytest.mark.parametrize(("engine", "hints", "expected"), WARNINGS.values(), ids=WARNINGS)
def test_warning(engine: Engine, hints: Hints, expected: set[Warn]) -> None:
    """What a reader should know stands beside the numbers."""
    told = {w for w in only(measure_life(write_page(engine), hints)).warnings if ":" not in w}
    assert told - {Warn.NOT_MONOTONE} == expected | {Warn.LIFETIME_VALUE}


def test_notes_of_the_page_are_passed_on() -> None:
    """What was wrong with the page itself is told last."""
    page = write_page(BASE)[:-1]
    assert Reader().read(page, complete=True).notes == ("no_final_newline",)


def test_engines_without_a_label_are_called_zero() -> None:
    """Releases without the label have one engine."""
    found = only(measure_life(write_page(replace(BASE, engine=None))))
    assert found.engines == ("0",)
    assert found.per_engine[0].engine == "0"
    assert found.per_engine[0].acceptance_ratio == 0.7


def test_models_are_told_apart() -> None:
    """Each model of a page has its own summary."""
    found = measure_life(write_page(BASE, replace(BASE, model="other", accepted=0, positions=())))
    assert {name: one.values["acceptance_ratio"] for name, one in found.items()} == {
        "target": 0.7,
        "other": 0.0,
    }


def test_absurd_numbers_give_no_infinity() -> None:
    """A quotient that no float holds is absent, the rest stays."""
    labels = {"model_name": "target", "engine": "0"}
    lines = [
        sample("vllm:inter_token_latency_seconds_sum", labels, 1e299),
        sample("vllm:inter_token_latency_seconds_count", labels, 1e-300),
    ]
    found = only(measure_life(write_page(BASE, extra=lines)))
    assert found.absent["step_seconds"] == "not_finite"
    assert found.values["acceptance_ratio"] == 0.7


values = st.floats() | st.integers(-5, 10**6).map(float)
engines = st.builds(
    Engine,
    engine=st.sampled_from(["0", "1", None]),
    drafts=st.none() | values,
    drafted=st.none() | values,
    accepted=st.none() | values,
    positions=st.lists(values, max_size=4),
    tokens=st.none() | values,
    firsts=st.none() | values,
    first_seconds=values,
    steps=st.none() | values,
    step_seconds=values,
    iterations=st.none() | values,
    running=st.none() | values,
    usage=st.none() | values,
    created=st.none() | values,
)
bounded = (
    "acceptance_ratio",
    "position_acceptance_ratio",
    "position_conditional_acceptance_ratio",
)


@given(st.lists(engines, min_size=1, max_size=3), st.lists(engines, min_size=1, max_size=3))
def test_no_page_gives_an_impossible_number(start: list[Engine], end: list[Engine]) -> None:
    """Nothing is NaN, infinite or below zero, and no ratio leaves 0 to 1."""
    always = Engine(model="always", tokens=1.0)
    pages = [write_page(*shown, always) for shown in (start, end)]
    for found in [*measure(pages, 1.0).values(), *measure_life(pages[1]).values()]:
        assert all(math.isfinite(n) and n >= 0 for n in numbers(found))
        shares = [found.values.get(name, 0.0) for name in bounded]
        flat = [n for v in shares for n in (v if isinstance(v, Sequence) else (v,))]
        assert all(n <= 1 for n in flat)
        assert sorted([*found.values, *found.absent]) == sorted(FIELDS)
