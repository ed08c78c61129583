"""A server's pages one after the other, gathered into bins until they are full.

Pages and times come in; nothing here fetches, waits or looks at a clock.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from specgauge.baseline.bins import Bins, Filling, fill, gather
from specgauge.baseline.from_pages import pick_model
from specgauge.baseline.observation import Look, Observation, Unfit, follow
from specgauge.derive.accumulate import open_ledger, whole_life
from specgauge.derive.pieces import is_evidence
from specgauge.derive.summary import summarise
from specgauge.derive.window import windows
from specgauge.errors import BaselineError
from specgauge.model.derived import Hints, Speculation
from specgauge.model.ledger import Interval, Ledger
from specgauge.model.quantity import Page

_ACTIVE = "speculation is active; a baseline is learnt from a server started without it"
_HIDDEN = "several tokens come a step: speculation that the page does not count?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Learning:
    """What was learnt so far; each page makes a new one. Times are on the caller's clock.

    `model` is None until the server has served something. `left_out` counts intervals that
    taught nothing, by reason; `newest` is when a bin was last begun.
    """

    place: str
    began: float
    page: Page
    ledger: Ledger
    wanted: str | None = None
    model: str | None = None
    bins: Bins = field(default_factory=dict)
    fillings: Mapping[int, Filling] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)
    newest: float = 0.0
    configured: bool = False


def begin(page: Page, time: float, *, place: str, model: str | None = None) -> Learning:
    """Start from a first page; raises BaselineError where the server has been speculating."""
    life = windows({}, whole_life(page, 0.0), page, None)
    for name, window in life.items():
        if model in {None, name} and summarise(window, Hints()).speculation is Speculation.ACTIVE:
            raise BaselineError([f"{place}: {_ACTIVE}"])
    return Learning(
        place=place,
        began=time,
        page=page,
        ledger=open_ledger(page, time),
        wanted=model,
        newest=time,
    )


def learn(state: Learning, page: Page, time: float, *, usual: float) -> Learning:
    """Take one more page in; `usual` is the time between two.

    Raises BaselineError where speculation turns out to be active.
    """
    ledger, interval, looks = follow(state.ledger, page, time)
    after = replace(state, page=page, ledger=ledger)
    if not any(page.layout.engines):
        return after
    model = state.model or pick_model(page, state.wanted, state.place)
    after = replace(after, model=model)
    return _take(after, looks[model], interval, usual) if model in looks else after


def is_done(state: Learning, time: float, *, quiet: float) -> bool:
    """Tell whether every bin seen is full and no new one came for so many seconds."""
    known = state.fillings.values()
    return bool(known) and all(one.full for one in known) and time - state.newest >= quiet


def _take(state: Learning, look: Look, interval: Interval, usual: float) -> Learning:
    found = look.found
    if found in {Unfit.SPECULATING, Unfit.HIDDEN}:
        text = _ACTIVE if found is Unfit.SPECULATING else _HIDDEN
        raise BaselineError([f"{state.place}: {text}"])
    state = replace(
        state, configured=state.configured or look.derived.speculation is Speculation.INACTIVE
    )
    if isinstance(found, Observation) and not is_evidence(interval, usual):
        found = Unfit.GAP
    if isinstance(found, Observation) and found.uneven:
        found = Unfit.UNEVEN
    if isinstance(found, Unfit):
        count = state.left_out.get(str(found), 0) + 1
        return replace(state, left_out={**state.left_out, str(found): count})
    bins = gather(state.bins, [found])
    changed = {
        number: fill(held) for number, held in bins.items() if held is not state.bins.get(number)
    }
    newest = interval.end if len(bins) > len(state.bins) else state.newest
    return replace(state, bins=bins, fillings={**state.fillings, **changed}, newest=newest)
