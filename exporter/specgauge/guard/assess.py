"""From one look at the evidence to what it says: the first rule that fires gives the answer.

Missing data is never bad data. Only what is sure is `degraded`; everything else leaves the flag
where it is. Speed decides; acceptance decides only where no baseline speaks for the load.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from specgauge.guard.acceptance import (
    Acceptance,
    acceptance_losses,
    acceptance_numbers,
    acceptance_rest,
    weigh_acceptance,
)
from specgauge.guard.collapse import Watched, settle, watch
from specgauge.guard.failures import Restarts, judge_errors, judge_restarts, remember_restarts
from specgauge.guard.finding import Finding
from specgauge.guard.latency import judge_latency
from specgauge.guard.pace import Pace, forget_pace, keep_pace, notice
from specgauge.guard.playbook import judge_playbook
from specgauge.guard.policy import Policy
from specgauge.guard.speed import judge_speed
from specgauge.guard.step import TOUCHING
from specgauge.model.guard import Assessment, Blind, GuardReason, Look, Outcome, Signal, Switch

OWN_FAULT = "error:"
"""How the text begins where our own evaluation failed, not the engine's page."""

KV_CACHE_FULL = 0.95

_EVIDENCE = (
    "speedup_ratio",
    "speedup_ratio_low",
    "speedup_ratio_high",
    "e2e_speedup_ratio",
    "decode_concurrency",
    "tokens",
    "requests",
    "first_tokens",
    "drafts",
    "acceptance_ratio",
    "acceptance_length",
    "breakeven_acceptance_length",
    "tpot_seconds",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What one model's assessments leave to the next; a new one knows nothing.

    `grace_from` is when the first page came or the engine last restarted.
    """

    time: float = -math.inf
    grace_from: float = math.inf
    restarted: bool = False
    restarts: Restarts = field(default_factory=Restarts)
    acceptance: Watched = field(default_factory=Watched)
    pace: Pace = field(default_factory=Pace)


def assess(
    memory: Memory,
    look: Look | None,
    policy: Policy,
    *,
    time: float,
    error: str | Blind = "",
    flag_on: bool = True,
) -> tuple[Memory, Assessment]:
    """Say what a look says of speculation; `error` is why there is no look.

    No look is `no_data`, and the outcome `error` only where the text begins with `error:` or the
    reason comes with that outcome.
    """
    went_back = time < memory.time
    memory = _anchor(memory, time)
    if look is None:
        return memory, _blind(time, error)
    memory = _remember(memory, look, time)
    refusal = _refusal(memory, look, policy, time, flag_on=flag_on, went_back=went_back)
    if refusal is not None:
        memory = replace(
            memory,
            acceptance=settle(memory.acceptance, policy),
            pace=forget_pace(memory.pace, flag_on=flag_on),
        )
        rest = Finding(signal=Signal.SPEEDUP, outcome=Outcome.NO_DATA, reason=refusal)
        loop = judge_restarts(memory.restarts, look)
        counts = loop is not None and refusal is GuardReason.ENGINE_RESTARTED
        return memory, _answer(look, policy, rest, [loop] if loop and counts else [])
    if policy.playbook:
        found = judge_playbook(look, policy)
        return memory, _write(look, found, found.numbers)
    watched = watch(memory.acceptance, look, policy, time=time)
    memory = replace(memory, acceptance=watched, pace=notice(memory.pace, look))
    assessment = _judge(memory, look, policy)
    if assessment.outcome is not Outcome.DEGRADED:
        memory = replace(memory, pace=keep_pace(memory.pace, look))
    return memory, assessment


def _anchor(memory: Memory, time: float) -> Memory:
    """Follow the clock; one that went back takes the start of the grace along."""
    back = max(memory.time - time, 0.0)
    return replace(memory, time=time, grace_from=memory.grace_from - back)


def _blind(time: float, error: str | Blind) -> Assessment:
    if isinstance(error, Blind):
        return Assessment(
            start=time,
            end=time,
            outcome=error.outcome,
            reason=error.reason,
            detail=error.detail,
        )
    ours = error.startswith(OWN_FAULT)
    reason = GuardReason.NO_PAGE if error else GuardReason.NEEDS_WINDOW
    if ours:
        reason = GuardReason.EVALUATION_FAILED
    return Assessment(
        start=time,
        end=time,
        outcome=Outcome.ERROR if ours else Outcome.NO_DATA,
        reason=reason,
        detail=error.removeprefix(OWN_FAULT).strip(),
    )


def _remember(memory: Memory, look: Look, time: float) -> Memory:
    again = look.restarted or math.isinf(memory.grace_from)
    return replace(
        memory,
        grace_from=time if again else memory.grace_from,
        restarted=look.restarted or memory.restarted,
        restarts=remember_restarts(memory.restarts, look, time),
    )


def _refusal(
    memory: Memory, look: Look, policy: Policy, time: float, *, flag_on: bool, went_back: bool
) -> GuardReason | None:
    """Say why the look is no evidence; None where it is. The playbook knows no grace."""
    end = memory.grace_from + policy.startup_grace
    # A window that had to grow must not bring back what the grace was for.
    grown = look.start < end - policy.decision_window - TOUCHING
    grace = (time < end or grown) and not policy.playbook
    rules = (
        (not flag_on, GuardReason.FLAG_OFF),
        (went_back, GuardReason.CLOCK_WENT_BACK),
        (grace and memory.restarted, GuardReason.ENGINE_RESTARTED),
        (grace, GuardReason.STARTUP_GRACE),
        (look.speculating is False, GuardReason.NOT_SPECULATING),
    )
    return next((reason for refused, reason in rules if refused), None)


def _judge(memory: Memory, look: Look, policy: Policy) -> Assessment:
    """Ask every signal, and answer with the first that says `degraded` and may act."""
    if all(_switch(policy, signal) is Switch.OFF for signal in Signal):
        return _write(look, _quiet(GuardReason.ALL_SIGNALS_OFF), {})
    speed = judge_speed(look, policy, memory.pace)
    acceptance = weigh_acceptance(memory.acceptance, look, policy)
    lost = acceptance is not None and acceptance.lost
    others = (
        judge_latency(look, policy, acceptance_lost=lost),
        judge_errors(look),
        judge_restarts(memory.restarts, look),
    )
    losses = [
        *(one for one in (speed,) if one.outcome is Outcome.DEGRADED),
        *(() if acceptance is None else acceptance_losses(acceptance, policy)),
        *(one for one in others if one is not None),
    ]
    numbers = {} if acceptance is None else acceptance_numbers(acceptance)
    found = _answer(look, policy, _rest(speed, acceptance, look, policy), losses, numbers)
    return replace(found, detail=_explain(memory.acceptance))


def _explain(watched: Watched) -> str:
    """Say what acceptance did: it may be why, also where it does not decide."""
    fall = watched.collapse
    if fall is None:
        return ""
    return f"acceptance length fell from {fall.before:.2f} to {fall.after:.2f}"


def _rest(speed: Finding, acceptance: Acceptance | None, look: Look, policy: Policy) -> Finding:
    """Say what is left where nothing acts: never `degraded`."""
    if acceptance is not None:
        found = acceptance_rest(acceptance, look, policy)
        if found is not None:
            return found
    if _switch(policy, Signal.SPEEDUP) is Switch.OFF or speed.outcome is Outcome.DEGRADED:
        return _quiet(look.verdict_reason)
    return speed


def _quiet(reason: str) -> Finding:
    return Finding(signal=Signal.SPEEDUP, outcome=Outcome.INCONCLUSIVE, reason=reason)


def _answer(
    look: Look,
    policy: Policy,
    rest: Finding,
    losses: Sequence[Finding],
    numbers: Mapping[str, float] = MappingProxyType({}),
) -> Assessment:
    """Let the switches say which losses act and which are rehearsed; one severe makes it so."""
    acting = [one for one in losses if _switch(policy, one.signal) is Switch.ON]
    rehearsed = [one for one in losses if _switch(policy, one.signal) is Switch.DRY_RUN]
    numbers = dict(numbers)
    for one in (*acting, *rehearsed):
        numbers |= one.numbers
    found = acting[0] if acting else rest
    severe = any(one.severe for one in acting)
    reasons = tuple(one.reason for one in rehearsed)
    return _write(look, replace(found, severe=severe), numbers, rehearsed=reasons)


def _switch(policy: Policy, signal: Signal) -> Switch:
    return policy.signals.get(signal, Switch.OFF)


def _write(
    look: Look, found: Finding, numbers: Mapping[str, float], *, rehearsed: tuple[str, ...] = ()
) -> Assessment:
    """Write the answer down with the numbers that it rests on."""
    known = {name: look.numbers[name] for name in _EVIDENCE if name in look.numbers}
    outright = found.outcome in {Outcome.HEALTHY, Outcome.DEGRADED}
    return Assessment(
        start=look.start,
        end=look.end,
        outcome=found.outcome,
        reason=found.reason,
        signal=found.signal if outright else None,
        model_name=look.model_name,
        severe=found.severe,
        numbers={**known, **numbers},
        rehearsed=rehearsed,
        companions=tuple(_companions(look)),
    )


def _companions(look: Look) -> Iterator[str]:
    """Name what makes any server slow, with speculation or without; it never acts."""
    if look.numbers.get("requests_waiting", 0.0) > 0.0:
        yield "waiting"
    if look.numbers.get("preemptions", 0.0) > 0.0:
        yield "preempting"
    if look.numbers.get("kv_cache_usage_ratio", 0.0) >= KV_CACHE_FULL:
        yield "kv_cache_full"
