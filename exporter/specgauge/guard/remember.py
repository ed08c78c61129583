"""The guard's memory as text and back: `specgauge.guard/v1`; opens no file and never raises.

Times are written as seconds from the moment of saving, for another process has another clock; how
much time has passed since is told by the wall clock. Whatever is not exactly as it was written is
refused as a whole: the flag's read-back tells more than half a memory.
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from specgauge.model.guard import GuardReason, GuardState, Override, Phase

SCHEMA = "specgauge.guard/v1"
# Two machines' wall clocks, or one before and after it was set, may differ by this many seconds.
SLACK = 60.0
_MOST = 1e12
_MOST_ENTRIES = 10_000
_FLAGS: Mapping[Phase, frozenset[bool | None]] = {
    Phase.STARTING: frozenset({None}),
    Phase.ACTIVE: frozenset({True}),
    Phase.FALLBACK: frozenset({False}),
    Phase.PROBING: frozenset({True}),
    Phase.LATCHED: frozenset({False}),
    Phase.OVERRIDE: frozenset({True, False}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """What was left by an earlier run, on this one's clock, or why it cannot be used.

    `config` is the hash of the configuration it was saved under, `flag_key` the flag that it is
    about, `override` an operator's word that was in force.
    """

    state: GuardState | None
    reason: str = ""
    config: str = ""
    flag_key: str = ""
    override: Override | None = None


def remember(
    state: GuardState,
    *,
    time: float,
    unix: float,
    config: str,
    flag_key: str = "",
    override: Override | None = None,
) -> str:
    """Write a state down; one that still waits for its flag passes on what it found.

    An override that nobody upholds any more is over.
    """
    state = state if state.saved is None else state.saved
    if state.phase is Phase.OVERRIDE and override is None:
        state = replace(state, phase=Phase.ACTIVE if state.flag else Phase.FALLBACK)
    document = {
        "schema": SCHEMA,
        "saved_unix": unix,
        "config": config,
        "flag_key": flag_key,
        "override": None if override is None else _override(override, time),
        "state": {
            "phase": str(state.phase),
            "flag": state.flag,
            "time": state.time - time,
            "since": state.since - time,
            "streak": state.streak,
            "streak_end": state.streak_end - time,
            "failures": state.failures,
            "next_probe": None if state.next_probe is None else state.next_probe - time,
            "fallback_load": state.fallback_load,
            "fallback_tpot": state.fallback_tpot,
            "probe_load": state.probe_load,
            "fallbacks": [at - time for at in state.fallbacks],
            "told": [str(reason) for reason in state.told],
            "healthy_for": state.healthy_for,
        },
    }
    return json.dumps(document, indent=2) + "\n"


def recall(text: str, *, time: float, unix: float) -> Recalled:
    """Read a state back at `time` on the guard's clock, `unix` on the wall."""
    try:
        document = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return Recalled(state=None, reason="the saved state is not JSON, or only part of it")
    if not isinstance(document, dict) or not isinstance(document.get("schema"), str):
        return Recalled(state=None, reason="the saved state does not say what it is")
    if document["schema"] != SCHEMA:
        named = document["schema"][:40]
        return Recalled(state=None, reason=f"the saved state is {named!r}, not {SCHEMA!r}")
    document.setdefault("flag_key", "")
    fault = _fault(document, _DOCUMENT) or _fault(document["state"], _STATE)
    if document.get("override") is not None:
        fault = fault or _fault(document["override"], _OVERRIDE)
    fault = fault or _contradiction(document["state"], document["override"])
    if fault:
        return Recalled(state=None, reason=f"the saved state is damaged: {fault}")
    passed = unix - document["saved_unix"]
    if passed < -SLACK:
        return Recalled(
            state=None, reason=f"the saved state is from {-passed:.0f} seconds in the future"
        )
    saved = time - max(0.0, passed)
    return Recalled(
        state=_placed(document["state"], saved),
        config=document["config"],
        flag_key=document["flag_key"],
        override=_said(document["override"], saved),
    )


def _override(override: Override, time: float) -> dict[str, object]:
    until = None if override.until is None else override.until - time
    return {"mode": override.mode, "until": until, "reason": override.reason}


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number")


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and abs(value) <= _MOST and math.isfinite(value)


def _is_past(value: Any) -> bool:
    return _is_number(value) and value <= 0


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and _is_amount(value)


def _is_amount(value: Any) -> bool:
    return _is_number(value) and value >= 0


def _or_none(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or check(value)


def _is_history(value: Any) -> bool:
    if not isinstance(value, list) or len(value) > _MOST_ENTRIES:
        return False
    return all(map(_is_past, value)) and all(a <= b for a, b in pairwise(value))


def _are_reasons(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(one, str) and one in set(GuardReason) for one in value
    )


Checks = Mapping[str, Callable[[Any], bool]]
_DOCUMENT: Checks = {
    "schema": lambda value: isinstance(value, str),
    "saved_unix": _is_number,
    "config": lambda value: isinstance(value, str),
    "flag_key": lambda value: isinstance(value, str),
    "override": _or_none(lambda value: isinstance(value, dict)),
    "state": lambda value: isinstance(value, dict),
}
_OVERRIDE: Checks = {
    "mode": lambda value: value in ("on", "off"),
    "until": _or_none(_is_number),
    "reason": lambda value: isinstance(value, str),
}
_STATE: Checks = {
    "phase": lambda value: isinstance(value, str) and value in set(Phase),
    "flag": _or_none(lambda value: isinstance(value, bool)),
    "time": _is_past,
    "since": _is_past,
    "streak": _is_count,
    "streak_end": _is_number,
    "failures": _is_count,
    "next_probe": _or_none(_is_number),
    "fallback_load": _or_none(_is_amount),
    "fallback_tpot": _or_none(_is_amount),
    "probe_load": _or_none(_is_amount),
    "fallbacks": _is_history,
    "told": _are_reasons,
    "healthy_for": _is_amount,
}


def _fault(found: Mapping[str, Any], checks: Checks) -> str:
    """Name the first field that is missing, too many or not what it should be."""
    for name, check in checks.items():
        if name not in found:
            return f"{name} is missing"
        if not check(found[name]):
            return f"{name} is not what it can be"
    more = sorted(set(found) - set(checks))
    return f"{more[0][:40]!r} is not a field of it" if more else ""


def _contradiction(found: Mapping[str, Any], override: object) -> str:
    """Say where two fields cannot both be true."""
    phase, flag = Phase(found["phase"]), found["flag"]
    if phase is Phase.OVERRIDE and override is None:
        return "its phase is override, and no override is in it"
    return "" if flag in _FLAGS[phase] else "phase and flag contradict each other"


def _said(found: Mapping[str, Any] | None, saved: float) -> Override | None:
    if found is None:
        return None
    until = None if found["until"] is None else saved + found["until"]
    return Override(mode=found["mode"], until=until, reason=found["reason"])


def _placed(found: Mapping[str, Any], saved: float) -> GuardState:
    """Put a state on this clock, on which it was saved at `saved`."""
    due = found["next_probe"]
    return GuardState(
        phase=Phase(found["phase"]),
        flag=found["flag"],
        time=saved + found["time"],
        since=saved + found["since"],
        streak=found["streak"],
        streak_end=saved + found["streak_end"],
        failures=found["failures"],
        next_probe=None if due is None else saved + due,
        fallback_load=found["fallback_load"],
        fallback_tpot=found["fallback_tpot"],
        probe_load=found["probe_load"],
        fallbacks=tuple(saved + at for at in found["fallbacks"]),
        told=tuple(GuardReason(reason) for reason in found["told"]),
        healthy_for=float(found["healthy_for"]),
    )
