"""Whether acceptance fell off all at once, against its own recent past; knows no clock.

Every stretch of traffic that ends now, from `LASTING` up to `RECENT` seconds, is compared with all
before it: a generalised likelihood ratio test for a change of mean over a window (Lai, IEEE Trans.
Inf. Theory 44, 1998; Basseville and Nikiforov 1993, 2.4). A mean alone would take a deep dip of two
seconds for ten low ones, so no piece of the stretch may have recovered, nor its beginning be high.
What is compared is the acceptance length, so that the size of a fall is in tokens a step: at the
same cost of a step a fall to `FALL` makes each token 1/FALL times as dear.

Drafts of one request are alike, and successive seconds hold the same requests, so requests are
the samples: over R requests and D drafts accepted tokens a draft have the variance
spread/R + m*(k - m)/D. `spread`, that between requests, is learned from blocks of the past,
as mean of (block - past)^2 * R, and starts from a quarter of the largest that is possible.
"""

import math
from dataclasses import dataclass, replace

from specgauge.guard.policy import Policy
from specgauge.guard.stretch import NOTHING, Stretch, faded, last_step, plus
from specgauge.model.guard import Look

FALL = 0.8
"""An acceptance length of so many times the past's, or less, is a collapse."""

STILL = 0.9
"""Above this the latest traffic has recovered, whatever came before it; nor is a length that falls
with the drafts' own, while their share accepted stays above this, a fall."""

SURE = 6.0
"""Standard deviations below the past; so many overlapping tests leave no room for fewer."""

SEVERE_Z = 3.0

LASTING = 10.0
"""Seconds of traffic that must lie low: one batch of requests alike is over sooner."""

PIECE = 3.0
"""Seconds of traffic by which it is seen that a stretch lies low throughout."""

RECENT = 60.0
PAST = 600.0
SPREAD = 3600.0
"""Seconds of traffic: what is tested for a change, and over what past and spread are forgotten."""

MIN_PAST = 30.0
GRAIN = 1.0
GIVE_UP = 1800.0
"""After so many seconds of traffic at the lower level that level is the new past."""

STALE = 86400.0
"""A past so many seconds old is another day's traffic."""

REGIME = 1.3
"""A draft length that moves by this factor is another setting, not another acceptance."""

_SOME_DRAFTS = 20.0
_PRIOR_SHARE = 0.25
_PRIOR_BLOCKS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Collapse:
    """A fall: acceptance length now over before, its upper bound, both lengths, and since when.

    `steps` is how many of the recent steps lie after the fall. `steady` says that every piece of
    the traffic since then lies as low as a collapse, not only all of it together.
    """

    ratio: float
    high: float
    before: float
    after: float
    seconds: float
    steps: int
    steady: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What is remembered of one model's acceptance; `recent` is newest first.

    `total` is the sum of the recent steps. `known` says that the last traffic could be compared
    with a past.
    """

    recent: tuple[Stretch, ...] = ()
    total: Stretch = NOTHING
    block: Stretch = NOTHING
    past: Stretch = NOTHING
    spread: float = 0.0
    blocks: float = 0.0
    fallen_for: float = 0.0
    last: float = 0.0
    known: bool = False
    collapse: Collapse | None = None


def watch(watched: Watched, look: Look, policy: Policy, *, time: float) -> Watched:
    """Take in the last interval and test for a fall; without traffic nothing moves."""
    step = last_step(look)
    if step is None:
        return watched
    if time - watched.last > STALE or _other_setting(watched, step):
        watched = Watched()
    watched = _age(_add(watched, step), policy)
    known, collapse = _test(watched, policy)
    fallen_for = watched.fallen_for + step.seconds if collapse else watched.fallen_for
    if known and collapse is None:
        fallen_for = 0.0
    if fallen_for > GIVE_UP:
        return Watched(recent=watched.recent, total=watched.total, last=time)
    return replace(watched, known=known, collapse=collapse, fallen_for=fallen_for, last=time)


def settle(watched: Watched, policy: Policy) -> Watched:
    """Close the account before a gap: what fell is dropped, what went before it is the past."""
    kept = watched.recent[watched.collapse.steps :] if watched.collapse else watched.recent
    for step in reversed(kept):
        watched = _file(watched, step, policy)
    return replace(watched, recent=(), total=NOTHING, known=False, collapse=None)


def _other_setting(watched: Watched, step: Stretch) -> bool:
    if step.drafts < _SOME_DRAFTS:
        return False
    before = plus(watched.past, plus(watched.block, watched.total))
    if before.drafts <= 0.0:
        return False
    return not 1.0 / REGIME <= step.draft_length / before.draft_length <= REGIME


def _add(watched: Watched, step: Stretch) -> Watched:
    newest, *older = watched.recent or (NOTHING,)
    total = plus(watched.total, step)
    if newest.seconds + step.seconds <= GRAIN:
        return replace(watched, recent=(plus(newest, step), *older), total=total)
    return replace(watched, recent=(step, *watched.recent), total=total)


def _age(watched: Watched, policy: Policy) -> Watched:
    """Let go of steps over `RECENT` seconds old: to the past, unless they lie after a fall."""
    while watched.total.seconds - watched.recent[-1].seconds >= RECENT:
        leaving = watched.recent[-1]
        fell = watched.collapse is not None and watched.collapse.steps + 1 >= len(watched.recent)
        total = plus(watched.total, leaving, -1.0)
        watched = replace(watched, recent=watched.recent[:-1], total=total)
        if not fell:
            watched = _file(watched, leaving, policy)
    return watched


def _file(watched: Watched, step: Stretch, policy: Policy) -> Watched:
    """Put a step into the open block; a block that is full tells of spread and joins the past."""
    block = plus(watched.block, step)
    if not _enough(block, policy):
        return replace(watched, block=block)
    spread, blocks = watched.spread, watched.blocks
    if watched.past.drafts > 0.0:
        fade = math.exp(-block.seconds / SPREAD)
        off = block.accepted_per_draft - watched.past.accepted_per_draft
        spread, blocks = spread * fade + off * off * block.requests, blocks * fade + 1.0
    past = plus(faded(watched.past, math.exp(-block.seconds / PAST)), block)
    return replace(watched, block=NOTHING, past=past, spread=spread, blocks=blocks)


def _test(watched: Watched, policy: Policy) -> tuple[bool, Collapse | None]:
    """Find the surest fall among the stretches that end now, if the latest traffic is low too."""
    total = plus(watched.past, plus(watched.block, watched.total))
    mean = total.accepted_per_draft
    most = max(mean * (total.draft_length - mean), 0.0)  # a count within 0 to k
    learned = watched.spread + _PRIOR_BLOCKS * _PRIOR_SHARE * most
    spread = learned / (watched.blocks + _PRIOR_BLOCKS)
    known, surest, found = False, -SURE, None
    now, piece, highest = NOTHING, NOTHING, 0.0
    newest = 0.0 if watched.collapse else _length(watched.recent[0])  # one step does not end it
    for steps, step in enumerate(watched.recent, 1):
        now, piece = plus(now, step), plus(piece, step)
        ends = max(_length(piece), _length(step), newest)
        if piece.seconds >= PIECE and _enough(piece, policy):
            highest, piece = max(highest, _length(piece)), NOTHING
        if not _enough(now, policy):
            continue
        before = plus(total, now, -1.0)
        if before.seconds < MIN_PAST or not _enough(before, policy):
            break
        if not known and _length(now) > STILL * _length(before):
            return True, None
        known = True
        if not _is_low(now, before, ends, highest):
            continue
        deviation = _deviation(now, before, spread, most)
        z = (now.accepted_per_draft - before.accepted_per_draft) / deviation
        if z <= surest:
            steady = highest <= FALL * _length(before)
            surest, found = z, _describe(now, before, deviation, steps, steady=steady)
    return known, found


def _is_low(now: Stretch, before: Stretch, ends: float, highest: float) -> bool:
    """Tell whether a stretch has lasted, begins and ends low, is low and never recovered.

    `ends` is the acceptance length at its ends, `highest` that of its best piece.
    """
    was = _length(before)
    long = now.seconds >= LASTING and _share(now) <= STILL * _share(before)
    return long and max(_length(now), ends) <= FALL * was and highest <= STILL * was


def _length(stretch: Stretch) -> float:
    return 1.0 + stretch.accepted_per_draft


def _enough(stretch: Stretch, policy: Policy) -> bool:
    requests = max(policy.min_requests, 1.0)
    return stretch.drafts >= policy.min_drafts and stretch.requests >= requests


def _share(stretch: Stretch) -> float:
    return stretch.accepted / stretch.draft_tokens


def _deviation(now: Stretch, before: Stretch, spread: float, most: float) -> float:
    """Give what the difference varies by; crowds are alike, so no more count than usual."""
    usual = (before.present + before.first_tokens * now.seconds) / before.seconds
    between = spread * (1.0 / min(now.requests, usual) + 1.0 / before.requests)
    return math.sqrt(between + most * (1.0 / now.drafts + 1.0 / before.drafts))


def _describe(
    now: Stretch, before: Stretch, deviation: float, steps: int, *, steady: bool
) -> Collapse:
    was, is_now = _length(before), _length(now)
    return Collapse(
        ratio=is_now / was,
        high=(is_now + SEVERE_Z * deviation) / was,
        before=was,
        after=is_now,
        seconds=now.seconds,
        steps=steps,
        steady=steady,
    )
