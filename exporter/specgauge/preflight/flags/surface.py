"""The table of what each release takes, as values; the one place that reads `surface.yaml`.

It decides nothing: who asks compares releases.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from specgauge.preflight.flags.release import Release, Span, read_release


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """A flag of the command line: when there was one, and the key that says the same."""

    name: str
    span: Span
    key: str | None = None
    takes: str = "value"
    existed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """A flag that stands beside speculation in old guides: when it went, and why."""

    name: str
    last: Release
    gone: Release
    takes: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key of speculative_config: when there was one, its kind, and where it matters."""

    name: str
    span: Span
    kind: str
    help: str
    methods: frozenset[str] | None = None
    refused_elsewhere: bool = False
    instead: str | None = None
    default: object = None
    v0_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """A method of drafting: when there was one, and what it needs."""

    name: str
    spans: tuple[Span, ...]
    needs: str
    k: int
    help: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSpan:
    """Which engine runs speculation over some releases, and which methods are an exception."""

    span: Span
    engine: str
    on_v1: frozenset[str]
    on_request: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Surface:
    """All that is known of the command line of speculation, by release."""

    known: Span
    since: Mapping[str, Release]
    engines: tuple[EngineSpan, ...]
    flags: Mapping[str, Flag]
    neighbours: Mapping[str, Neighbour]
    switches: Mapping[str, Release]
    keys: Mapping[str, Key]
    internal: frozenset[str]
    groups: Mapping[str, frozenset[str]]
    methods: Mapping[str, Method]
    mtp_names: Mapping[str, Span]
    choices: Mapping[str, Mapping[str, Span]]
    synonyms: tuple[tuple[Mapping[str, str], ...], ...]
    gone: Mapping[str, str]
    refuse: Mapping[str, str]

    def keys_of(self, release: Release) -> Iterator[Key]:
        """Go through the keys that a release takes."""
        return (key for key in self.keys.values() if release in key.span and not key.instead)

    def flag_of(self, key: str, release: Release) -> Flag | None:
        """Find the flag that says what a key says, in a release that has it."""
        named = (flag for flag in self.flags.values() if flag.key == key and flag.existed)
        return next((flag for flag in named if release in flag.span), None)

    def engine_of(self, release: Release, method: str, *, asked_v1: bool) -> str:
        """Tell which engine runs a method in a release: `v0` or `v1`."""
        found = next(one for one in reversed(self.engines) if not one.span.is_newer_than(release))
        if method in found.on_v1 or (asked_v1 and method in found.on_request):
            return "v1"
        return found.engine


@cache
def load_surface() -> Surface:
    """Read the table that comes with the package."""
    text = files("specgauge.preflight.flags").joinpath("surface.yaml").read_text("utf-8")
    return _surface(yaml.safe_load(text))


_SINCE = (
    "serve_command",
    "wants_block_manager",
    "config_flag",
    "closed_methods",
    "dashes_in_keys",
    "same_draft_tensor_parallel",
    "mtp_name",
    "schedule_off_in_data_parallel",
)


def _surface(raw: Mapping[str, Any]) -> Surface:
    groups = {name: frozenset(members) for name, members in raw["groups"].items()}
    return Surface(
        known=_span(raw),
        since={name: read_release(raw[name]) for name in _SINCE},
        engines=tuple(_engine(one) for one in raw["engines"]),
        flags={name: _flag(name, one) for name, one in raw["flags"].items()},
        neighbours={name: _neighbour(name, one) for name, one in raw["neighbours"].items()},
        switches={name: read_release(one) for name, one in raw["switches"].items()},
        keys={name: _key(name, one, groups) for name, one in raw["keys"].items()},
        internal=frozenset(raw["internal"]),
        groups=groups,
        methods={name: _method(name, one) for name, one in raw["methods"].items()},
        mtp_names={name: _span(one) for name, one in raw["mtp_names"].items()},
        choices={
            key: {name: _span(one) for name, one in values.items()}
            for key, values in raw["choices"].items()
        },
        synonyms=tuple(tuple(sides) for sides in raw["synonyms"]),
        gone=raw["gone"],
        refuse=raw["refuse"],
    )


def _span(raw: Mapping[str, Any]) -> Span:
    ends = {name: read_release(raw[name]) for name in ("first", "last", "absent") if name in raw}
    return Span(**ends)


def _engine(raw: Mapping[str, Any]) -> EngineSpan:
    return EngineSpan(
        span=_span(raw),
        engine=raw["engine"],
        on_v1=frozenset(raw.get("methods", ())),
        on_request=frozenset(raw.get("on_request", ())),
    )


def _flag(name: str, raw: Mapping[str, Any]) -> Flag:
    return Flag(
        name=name,
        span=_span(raw),
        key=raw.get("key"),
        takes=raw.get("takes", "value"),
        existed="first" in raw,
    )


def _neighbour(name: str, raw: Mapping[str, Any]) -> Neighbour:
    return Neighbour(
        name=name,
        last=read_release(raw["last"]),
        gone=read_release(raw["gone"]),
        takes=raw.get("takes", "value"),
        why=raw["why"],
    )


def _key(name: str, raw: Mapping[str, Any], groups: Mapping[str, frozenset[str]]) -> Key:
    wanted = raw.get("methods")
    return Key(
        name=name,
        span=_span(raw),
        kind=raw["type"],
        help=raw["help"],
        methods=None if wanted is None else groups.get(wanted, frozenset({wanted})),
        refused_elsewhere=raw.get("otherwise") == "refused",
        instead=raw.get("instead"),
        default=raw.get("default"),
        v0_only=raw.get("v1") == "ignored",
    )


def _method(name: str, raw: Mapping[str, Any]) -> Method:
    pairs = raw.get("spans")
    spans = (
        (_span(raw),)
        if pairs is None
        else tuple(_span(dict(zip(("first", "last"), pair, strict=False))) for pair in pairs)
    )
    return Method(
        name=name,
        spans=spans,
        needs=raw.get("needs", "nothing"),
        k=raw["k"],
        help=raw["help"],
    )
