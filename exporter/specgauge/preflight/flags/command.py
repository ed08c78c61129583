"""Where in a command line the engine is started, and with what; knows no release's flags."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from specgauge.preflight.flags.release import Release, read_release
from specgauge.preflight.flags.words import Word, split, unix_lines, word
from specgauge.units import quote

MODULE = "vllm.entrypoints.openai.api_server"
_IMAGE = re.compile(
    r"(?P<name>(?:\S*/)?vllm-openai(?:-cpu)?)(?::(?P<tag>[\w.-]+))?(?:@sha256:\w+)?", re.ASCII
)
_PYTHON = re.compile(r"(?:.*/)?python[\d.]*", re.ASCII)
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.ASCII | re.DOTALL)
_TYPESET = re.compile(r"[\u2010-\u2015\u2212][^\W\d]|[\u2018-\u201f]")
"""A dash before a name, or a quote, as a text processor sets it."""
_PROMPTS = frozenset({"$", "%"})


class Entry(StrEnum):
    """How the engine is started."""

    SERVE = "serve"
    MODULE = "module"
    IMAGE = "image"
    ARGUMENTS = "arguments"
    """Nothing starts it: only its arguments are given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One start of the engine within a command line."""

    entry: Entry
    program: str
    arguments: tuple[Word, ...]
    prefix: tuple[Word, ...] = ()
    begins_line: bool = False
    tail: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    release: Release | None = None


def read_command(text: str) -> Command:
    """Find the start of the engine in a command line.

    Raises ValueError for a quote that is open, for no start of it, and for more than one.
    """
    words = split(text)
    if not words:
        raise ValueError("the command line is empty")
    starts = [at for at in range(len(words)) if _program(words, at)]
    if len(starts) > 1:
        raise ValueError(f"{len(starts)} starts of vLLM; give one command line at a time")
    if not starts:
        return _arguments_alone(words, text)
    entry, program, after, release = _program(words, starts[0]) or (Entry.SERVE, "", 0, None)
    arguments, tail = _until_end(words, after, unix_lines(text))
    _refuse_typeset(arguments)
    before = words[: starts[0]]
    while before and before[0].value in _PROMPTS:
        before = before[1:]
    return Command(
        entry=entry,
        program=program,
        arguments=arguments,
        prefix=tuple(before),
        begins_line=words[starts[0]].begins_line,
        tail=tail,
        environment=_environment(before),
        release=release,
    )


def from_mapping(raw: Mapping[str, object]) -> Command:
    """Read a file as `vllm serve --config` takes it: names of flags and their values."""
    arguments: list[Word] = []
    for name, value in raw.items():
        flag = f"--{name}"
        if value is None:
            continue
        if isinstance(value, bool):
            arguments.append(word(flag if value else f"--no-{name}"))
        elif isinstance(value, list) and not any(isinstance(one, dict | list) for one in value):
            arguments += [word(flag), *(word(str(one)) for one in value)]
        else:
            text = json.dumps(value) if isinstance(value, dict | list) else str(value)
            arguments.append(word(f"{flag}={text}" if text.startswith("-") else flag))
            if not text.startswith("-"):
                arguments.append(word(text))
    return Command(entry=Entry.ARGUMENTS, program="", arguments=tuple(arguments))


def _program(words: Sequence[Word], at: int) -> tuple[Entry, str, int, Release | None] | None:
    """Tell whether the engine is started here: how, by what, and where its arguments begin."""
    value = words[at].value
    following = [one.value for one in words[at + 1 : at + 5]]
    if value.rpartition("/")[2] == "vllm" and following[:1] == ["serve"]:
        return Entry.SERVE, words[at].raw, at + 2, None
    if _PYTHON.fullmatch(value) and MODULE in following:
        step = following.index(MODULE)
        if step and following[step - 1] == "-m":
            return Entry.MODULE, words[at].raw, at + 2 + step, None
    if image := _IMAGE.fullmatch(value):
        return Entry.IMAGE, image["name"], at + 1, _tagged(image["tag"])
    return None


def _tagged(tag: str | None) -> Release | None:
    try:
        return None if tag is None else read_release(tag)
    except ValueError:
        return None


def _until_end(words: Sequence[Word], after: int, text: str) -> tuple[tuple[Word, ...], str]:
    """Part the arguments from what follows them: a redirection, another command."""
    for at in range(after, len(words)):
        one = words[at]
        other_command = one.begins_line and at > after and not one.value.startswith(("-", "{"))
        if not one.is_operator and not other_command:
            continue
        start = at
        if one.is_operator and at > after and _is_descriptor(words[at - 1], one):
            start -= 1
        mark = "\n" if one.begins_line else ""
        return tuple(words[after:start]), mark + text[words[start].start :].strip()
    return tuple(words[after:]), ""


def _refuse_typeset(arguments: Sequence[Word]) -> None:
    """Refuse what a text processor made of a flag; the engine would take it for a model."""
    if typeset := next((one.value for one in arguments if _TYPESET.match(one.value)), None):
        raise ValueError(f"{quote(typeset)} begins with a printer's dash or quote; write -- or '")


def _is_descriptor(before: Word, operator: Word) -> bool:
    """Tell whether a word is the 2 of `2>`."""
    return before.value.isdecimal() and before.end == operator.start and operator.value != "&"


def _arguments_alone(words: Sequence[Word], text: str) -> Command:
    if not words[0].value.startswith("-"):
        shown = quote(text.strip())
        raise ValueError(f"no `vllm serve` and no `python -m {MODULE}` in {shown}")
    arguments, tail = _until_end(words, 0, unix_lines(text))
    if tail:
        raise ValueError(f"what is {quote(tail)} behind the arguments?")
    return Command(entry=Entry.ARGUMENTS, program="", arguments=arguments)


def _environment(words: Sequence[Word]) -> dict[str, str]:
    found = (_ASSIGNMENT.fullmatch(one.value) for one in words)
    return {match[1]: match[2] for match in found if match}
