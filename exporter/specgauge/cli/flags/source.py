"""What the flags commands are given: a command line, a configuration, a file or a release."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from specgauge.errors import UsageError
from specgauge.preflight.flags.command import Command, Entry
from specgauge.preflight.flags.finding import Finding
from specgauge.preflight.flags.gather import Gathered, gather, twice
from specgauge.preflight.flags.literal import Written, read_config
from specgauge.preflight.flags.read import command_of, is_yaml, read_text, yaml_command
from specgauge.preflight.flags.release import Release, read_release
from specgauge.preflight.flags.surface import Surface, load_surface
from specgauge.preflight.flags.words import word
from specgauge.units import quote

NEWEST = "0.33.0"
_STANDARD_INPUT = Path("-")


class ReleaseKind(click.ParamType[Release]):
    """A release that the table knows."""

    name = "release"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Release:
        """Read a release, or tell why it is none."""
        try:
            release = read_release(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        known = load_surface().known
        if release not in known:
            self.fail(f"{release} is not known; the table holds {known}", param, ctx)
        return release


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """A configuration to check, with the command line that it stands in, if it does."""

    config: Mapping[str, object]
    command_line: Gathered | None = None
    findings: tuple[Finding, ...] = ()
    release: Release | None = None


def check_names(*names: str | None) -> None:
    """Refuse names of models that no shell and no terminal should be given."""
    for name in names:
        if name is not None and not (name and name.isprintable()):
            raise UsageError(f"{quote(name)} is no name of a model")


def command_given(text: str | None, file: Path | None) -> Command:
    """Read what is to be translated: an argument, standard input for `-`, or --file."""
    if (text is None) == (file is None):
        raise UsageError("give a command line, - for standard input, or --file; one of them")
    if file is not None:
        return _command(read_text(file), place=str(file), yaml=is_yaml(file))
    if text == "-":
        return _command(read_text(_STANDARD_INPUT), place="standard input", yaml=False)
    return _command(text or "", place="command line", yaml=False)


def given_to_check(source: str, surface: Surface) -> Given:
    """Read what is to be checked: JSON, a command line, a file with either, or `-`."""
    text, place, yaml = source, "argument", False
    if source == "-":
        text, place = read_text(_STANDARD_INPUT), "standard input"
    elif not _is_inline(source):
        text, place, yaml = read_text(Path(source)), source, is_yaml(Path(source))
    if not yaml and text.lstrip()[:1] in {"{", "["}:
        written = _written(text, place)
        return Given(config=written.config, findings=tuple(twice(written)))
    command = _command(text, place=place, yaml=yaml)
    found = gathered(command, surface, place=place)
    if not found.config and yaml:
        raise UsageError(f"{place}: nothing in it is about speculation")
    return Given(
        config=found.config,
        command_line=found,
        findings=found.findings,
        release=command.release,
    )


def gathered(command: Command, surface: Surface, *, place: str) -> Gathered:
    """Read the arguments; raises UsageError for those that cannot be."""
    try:
        return gather(command, surface)
    except ValueError as error:
        raise UsageError(f"{place}: {error}") from None


def _is_inline(source: str) -> bool:
    """Tell a command line or a configuration from the name of a file."""
    return source.lstrip()[:1] in {"{", "[", "-", ""} or " " in source.strip()


def _command(text: str, *, place: str, yaml: bool) -> Command:
    if yaml:
        return yaml_command(text, place=place)
    if text.lstrip()[:1] == "{":
        config = json.dumps(_written(text, place).config)
        flag = word("--speculative-config")
        return Command(entry=Entry.ARGUMENTS, program="", arguments=(flag, word(config)))
    return command_of(text, place=place)


def _written(text: str, place: str) -> Written:
    try:
        return read_config(text)
    except ValueError as error:
        raise UsageError(f"{place}: {error}") from None
