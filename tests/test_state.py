"""What a server's speculation is doing, told from the window and what was seen before."""

from dataclasses import replace

import pytest
from tests.recorded import measure, measure_life, only
from tests.written import Engine, write_page

from specgauge.derive.inspection import model
from specgauge.model.derived import Hints, Speculation

BASE = Engine(drafts=10, drafted=30, accepted=20, positions=(10, 6, 4), tokens=50, steps=20)
MORE = replace(BASE, tokens=90)
NEVER = replace(BASE, drafts=0, drafted=0, accepted=0, positions=())

STATES = {
    "drafts in the window": (BASE, replace(MORE, drafts=11, drafted=33), Speculation.ACTIVE, None),
    "draft tokens without a count of drafts": (
        replace(BASE, drafts=None),
        replace(MORE, drafts=None, drafted=33),
        Speculation.ACTIVE,
        None,
    ),
    "no tokens": (BASE, BASE, Speculation.IDLE, None),
    "tokens without drafts": (BASE, MORE, Speculation.INACTIVE, "unknown"),
    "tokens without drafts, seen to draft before": (
        replace(BASE, positions=()),
        replace(MORE, positions=()),
        Speculation.INACTIVE,
        "unknown",
    ),
    "zeros from the start": (NEVER, replace(NEVER, tokens=90), Speculation.UNKNOWN, None),
    "no series of speculation": (
        Engine(tokens=1),
        Engine(tokens=9),
        Speculation.ABSENT,
        None,
    ),
    "steps where tokens are not counted": (
        replace(BASE, tokens=None),
        replace(BASE, tokens=None, steps=30),
        Speculation.INACTIVE,
        "unknown",
    ),
    "nothing that flows is counted": (
        replace(BASE, tokens=None, steps=None),
        replace(BASE, tokens=None, steps=None),
        Speculation.UNKNOWN,
        None,
    ),
}


@pytest.mark.parametrize(("start", "end", "state", "why"), STATES.values(), ids=STATES)
def test_state(start: Engine, end: Engine, state: Speculation, why: str | None) -> None:
    """The window decides, and for silence what is known of the engine."""
    found = only(measure([write_page(start), write_page(end)]))
    assert (found.speculation, found.speculation_reason) == (state, why)


@pytest.mark.parametrize("method", ["ngram", "ngram_gpu", "suffix"])
def test_lookup_methods_find_nothing(method: str) -> None:
    """A method that looks drafts up is silent where nothing matches."""
    pages = [write_page(BASE), write_page(MORE)]
    found = only(measure(pages, hints=Hints(method=method)))
    assert (found.speculation, found.speculation_reason) == (Speculation.INACTIVE, "no_match")


METHODS = {
    "draft_model": "k_zero_at_load",
    "eagle3": "k_zero_at_load",
    "deepseek_mtp": "k_zero_at_load",
    "custom_class": "unknown",
}


@pytest.mark.parametrize(("method", "why"), METHODS.items())
def test_methods_that_always_draft_were_told_not_to(method: str, why: str) -> None:
    """A method that drafts at every step is silent only where K is scheduled to be 0."""
    pages = [write_page(BASE), write_page(MORE)]
    found = only(measure(pages, hints=Hints(method=method)))
    assert found.speculation_reason == why
    assert model(found)["speculation_reason"] == why


def test_tokens_that_are_at_fault_are_not_asked() -> None:
    """A counter that cannot be trusted does not make a server idle."""
    pages = [write_page(BASE), write_page(replace(BASE, tokens=float("nan"), steps=30))]
    assert only(measure(pages)).speculation is Speculation.INACTIVE


def test_one_page_tells_the_whole_life() -> None:
    """From one page the state is that of all since the engine started."""
    assert only(measure_life(write_page(BASE))).speculation is Speculation.ACTIVE
    assert only(measure_life(write_page(NEVER))).speculation is Speculation.UNKNOWN
