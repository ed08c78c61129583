"""The least command line for a method in a release, with the reason for each key of it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from specgauge.preflight.flags.check import check_config
from specgauge.preflight.flags.command import Command, Entry
from specgauge.preflight.flags.emit import config_words, lay_out
from specgauge.preflight.flags.finding import Code, Finding, error, has_errors, ordered
from specgauge.preflight.flags.methods import family
from specgauge.preflight.flags.release import Release
from specgauge.preflight.flags.surface import Key, Surface
from specgauge.preflight.flags.words import word

_LOOKUP = {"prompt_lookup_max": 5, "prompt_lookup_min": 2}
_WHY = {
    "method": "said rather than guessed from the draft's name",
    "model": "what drafts",
    "num_speculative_tokens": "tokens drafted a step; start here and measure",
    "prompt_lookup_max": "longest run of tokens that is looked up",
    "prompt_lookup_min": "shortest one; without it, the longest counts for both",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A key that can be set besides, in this release, for this method."""

    name: str
    help: str
    default: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A command line for a method; `command` is None where the release has it not."""

    release: Release
    method: str
    engine: str
    command: str | None
    arguments: tuple[str, ...]
    config: Mapping[str, object]
    why: Mapping[str, str]
    settings: tuple[Setting, ...]
    findings: tuple[Finding, ...]


def show_method(
    method: str,
    surface: Surface,
    release: Release,
    *,
    target: str,
    draft: str | None = None,
    k: int | None = None,
) -> Shown:
    """Lay out a start of the engine with a method; raises ValueError for a method of no release."""
    kind = family(method, surface)
    known = surface.methods.get(kind)
    if known is None:
        raise ValueError(f"no method {method}; there are {', '.join(surface.methods)}")
    config: dict[str, object] = {"method": method}
    if draft is not None:
        config["model"] = draft
    config["num_speculative_tokens"] = known.k if k is None else k
    if kind in surface.groups["lookup"]:
        config |= _LOOKUP
    found = [*check_config(config, surface, release)]
    if release < surface.since["config_flag"]:
        found += _unsaid(config, surface, release)
    said = config_words(config, surface, release, expands=False)
    start = Command(entry=Entry.SERVE, program="vllm", arguments=())
    line = lay_out(start, word(target), said, surface, release)
    findings = ordered(found)
    failed = has_errors(findings)
    return Shown(
        release=release,
        method=method,
        engine=surface.engine_of(release, method, asked_v1=False),
        command=None if failed else line.text(),
        arguments=() if failed else line.arguments,
        config=config,
        why=_reasons(config, surface, release),
        settings=tuple(
            Setting(name=key.name, help=key.help, default=key.default)
            for key in surface.keys.values()
            if key.name not in config and _can_be_set(key, kind, surface, release)
        ),
        findings=findings,
    )


def _reasons(config: Mapping[str, object], surface: Surface, release: Release) -> dict[str, str]:
    """Say why each key is there; before there were keys, the draft's name said the method."""
    why = {name: _WHY[name] for name in config}
    if release < surface.since["config_flag"]:
        del why["method"]
        if "model" not in config:
            why["model"] = "the name [ngram] asks for the method"
    return why


def _unsaid(config: Mapping[str, object], surface: Surface, release: Release) -> list[Finding]:
    return [
        error(Code.KEY_NEWER, name, f"{release} has no flag for it")
        for name in config
        if name != "method" and not surface.flag_of(name, release)
    ]


def _can_be_set(key: Key, kind: str, surface: Surface, release: Release) -> bool:
    if key.instead or (key.methods is not None and kind not in key.methods):
        return False
    if release < surface.since["config_flag"]:
        return surface.flag_of(key.name, release) is not None
    v1 = surface.engine_of(release, kind, asked_v1=False) == "v1"
    return release in key.span and not (key.v0_only and v1)


def default_of(setting: Setting) -> str:
    """Write a default as it would stand in a configuration."""
    return "" if setting.default is None else json.dumps(setting.default)
