"""Where a request goes and why; the router's script decides the same from the same table.

The first rule whose conditions hold gives the class, whatever the flag and the load say, so that a
class can be compared between pools. Then the flag, then the load send it to the standard pool.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from specgauge.routing.rules import OTHER, FlagTerms, Pool, Range, Routes, Rule, When
from specgauge.routing.shape import Body, Shape


class Flag(StrEnum):
    """What is known of the guard's flag."""

    ON = "on"
    OFF = "off"
    UNKNOWN = "unknown"


class Reason(StrEnum):
    """Why a request goes where it goes, beside `rule:NAME` and why a body was not read."""

    FLAG_OFF = "flag_off"
    FLAG_UNKNOWN = "flag_unknown"
    LOAD = "load"
    LOAD_UNKNOWN = "load_unknown"
    FALLBACK = "fallback"


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """What holds at the moment: the flag, and the answer to each limit of load by its key."""

    flag: Flag = Flag.ON
    loads: Mapping[str, bool | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Where a request goes; `wanted` is the pool that the rule alone would have it in."""

    traffic_class: str
    pool: Pool
    reason: str
    wanted: Pool


def decide(routes: Routes, shape: Shape, live: Live) -> Decision:
    """Give a request its class and its pool."""
    rule = next((rule for rule in routes.rules if unmet(rule, shape) is None), None)
    name, wanted = (OTHER, routes.fallback_pool) if rule is None else (rule.name, rule.pool)
    refused = _refused(routes, rule, live)
    if refused is not None:
        return Decision(traffic_class=name, pool=Pool.STANDARD, reason=refused, wanted=wanted)
    if rule is not None:
        reason = f"rule:{rule.name}"
    else:
        reason = str(Reason.FALLBACK if shape.body is Body.READ else shape.body)
    return Decision(traffic_class=name, pool=wanted, reason=reason, wanted=wanted)


def flag_of(*, known: bool | None, age: float | None, terms: FlagTerms) -> Flag:
    """Judge the last flag that was known by its age in seconds; None where none ever was."""
    if known is not None and age is not None and age <= terms.hold:
        return Flag.ON if known else Flag.OFF
    return Flag.ON if terms.then is Pool.SPECULATIVE else Flag.UNKNOWN


def unmet(rule: Rule, shape: Shape) -> str | None:
    """Say which condition of a rule does not hold, with what was found; None if all do."""
    return next((words for holds, words in _asked(rule.when, shape) if not holds), None)


def _refused(routes: Routes, rule: Rule | None, live: Live) -> str | None:
    """Say what sends a request to the standard pool, whatever its rule says."""
    if live.flag is not Flag.ON:
        return str(Reason.FLAG_OFF if live.flag is Flag.OFF else Reason.FLAG_UNKNOWN)
    limit = routes.limit_of(rule)
    if limit is None:
        return None
    holds = live.loads.get(limit.key)
    if holds is None:
        return str(Reason.LOAD_UNKNOWN)
    return None if holds else str(Reason.LOAD)


def _asked(when: When, shape: Shape) -> Iterator[tuple[bool, str]]:
    """Ask the conditions one by one; each with what to say where it does not hold."""
    for name, limits, number in (
        ("temperature", when.temperature, shape.temperature),
        ("max_tokens", when.max_tokens, shape.max_tokens),
        ("prompt_characters", when.prompt_characters, shape.prompt_characters),
    ):
        if limits is not None:
            yield number is not None and limits.holds(number), _off(name, limits, number)
    for name, wanted, is_so in (
        ("stream", when.stream, shape.stream),
        ("structured_output", when.structured_output, shape.structured_output),
        ("tools", when.tools, shape.tools),
    ):
        if wanted is not None:
            yield wanted is is_so, f"{name} is {_word(is_so)}, not {_word(wanted)}"
    if when.routes:
        yield shape.route in when.routes, f"route {shape.route} is none of {_list(when.routes)}"
    if when.paths:
        yield shape.path.startswith(when.paths), f"the path begins with none of {_list(when.paths)}"
    if when.models:
        yield shape.model in when.models, f"model {_shown(shape.model)} is none of them"
    if when.header is not None:
        found = shape.headers.get(when.header.name)
        yield found in when.header.values, f"header {when.header.name} is {_shown(found)}"
    if when.texts:
        yield _holds_text(shape.text, when.texts), "no such text in the prompt"


def _holds_text(text: str | None, texts: tuple[str, ...]) -> bool:
    return text is not None and any(one in text for one in texts)


def _off(name: str, limits: Range, number: float | None) -> str:
    bounds = " and ".join(
        f"{bound.replace('_', ' ')} {value:g}" for bound, value in limits.bounds.items()
    )
    return f"{name} is {'not known' if number is None else f'{number:g}'}, not {bounds}"


def _word(value: bool | None) -> str:
    return "not known" if value is None else str(value).lower()


def _shown(value: str | None) -> str:
    return "not there" if value is None else repr(value[:80])


def _list(names: tuple[str, ...]) -> str:
    return ", ".join(names)
