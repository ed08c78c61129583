"""From a rule to the conditions that HAProxy asks, and what it cannot ask; knows no servers."""

from collections.abc import Iterator
from dataclasses import dataclass

from specgauge.render.haproxy_numbers import above, at_least, can_compare
from specgauge.routing.rules import Range, Rule, When
from specgauge.routing.shape import ROUTES

READ = "body_read"
"""The condition that a body is there, not too large, and a mapping in JSON."""

_NUMBERS = ("temperature", "max_tokens")
_ANSWERS = ("stream", "structured_output", "tools")
_ENDS = tuple(ROUTES.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A rule as HAProxy asks it; of `facts` it needs the values, `refused` is what it cannot."""

    rule: Rule
    conditions: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


def ask(rule: Rule) -> Asked:
    """Write the conditions of a rule; one that cannot be asked whole is not to be asked at all."""
    when = rule.when
    asked = (*_NUMBERS, *_ANSWERS)
    facts = [name for name in asked if getattr(when, name) is not None]
    return Asked(
        rule=rule,
        conditions=(*_of_body(when), *_of_head(when)),
        facts=(*facts, *(["model"] if when.models else [])),
        refused=tuple(_refused(when)),
    )


def quoted(text: str) -> str:
    """Write a text as HAProxy reads it back, whatever printable characters it has."""
    return "'" + text.replace("'", r"'\''") + "'"


def _of_body(when: When) -> Iterator[str]:
    for name in _NUMBERS:
        limits = getattr(when, name)
        if limits is not None:
            yield from _within(name, limits)
    for name in _ANSWERS:
        wanted = getattr(when, name)
        if wanted is not None:
            yield f"{READ} {'' if wanted else '!'}{{ var(txn.{name}) -m bool }}"
    if when.models:
        yield f"{{ var(txn.model) -m str -- {_any(when.models)} }}"


def _of_head(when: When) -> Iterator[str]:
    if when.routes:
        yield f"{{ var(txn.route) -m str {' '.join(when.routes)} }}"
    if when.paths:
        yield f"{{ path,url_dec -m beg -- {_any(when.paths)} }}"
    if when.header is not None:
        yield f"{{ req.fhdr({when.header.name},-1) -m str -- {_any(when.header.values)} }}"


def _within(name: str, limits: Range) -> Iterator[str]:
    """Compare a number; one that is not there lies within nothing."""
    yield f"{{ var(txn.{name}) -m found }}"
    for bound, value in limits.bounds.items():
        if can_compare(value):
            pattern = above(value) if bound in {"above", "at_most"} else at_least(value)
            wanted = "" if bound in {"above", "at_least"} else "!"
            yield f"{wanted}{{ var(txn.{name}) -m reg {quoted(pattern)} }}"


def _any(texts: tuple[str, ...]) -> str:
    return " ".join(quoted(text) for text in texts)


def _refused(when: When) -> Iterator[str]:
    """Name what HAProxy cannot ask, in the words of the configuration."""
    for name in ("prompt_characters", "patterns", "contains"):
        if getattr(when, name):
            yield f"when.{name}: it cannot look into the texts of a prompt"
    for name in _NUMBERS:
        limits = getattr(when, name)
        for bound, value in {} if limits is None else limits.bounds.items():
            if not can_compare(value):
                yield f"when.{name}.{bound}: it knows numbers of six digits, 0.0001 to 999999"
    if any(not name.isascii() for name in when.models):
        yield "when.models: it reads names in ASCII alone"
    values = () if when.header is None else when.header.values
    if any("\n" in text for text in (*when.models, *values)):
        yield "when: a line break cannot stand in its configuration"


def routes() -> Iterator[tuple[str, str]]:
    """Give each route with the condition that a path leads to it; the first that holds counts."""
    for end, name in _ENDS:
        yield name, f"{{ path,url_dec -m end {end} }}"
