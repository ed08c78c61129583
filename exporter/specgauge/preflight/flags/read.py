"""Reading command lines and configurations from files and standard input; the rim of `flags`."""

import sys
from collections.abc import Mapping
from pathlib import Path

import yaml

from specgauge.errors import SourceError, UsageError
from specgauge.model.outcome import ScrapeResult
from specgauge.preflight.flags.command import Command, from_mapping, read_command
from specgauge.units import quote

_MOST = 1 << 18
_MOST_BRACKETS = 500
_YAML = frozenset({".yaml", ".yml"})


def read_text(place: Path) -> str:
    """Read a file, or standard input for `-`; raises SourceError with one line for what fails."""
    name = "standard input" if str(place) == "-" else str(place)
    try:
        if str(place) == "-":
            data = sys.stdin.buffer.read(_MOST + 1)
        else:
            with place.open("rb") as file:
                data = file.read(_MOST + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise SourceError(ScrapeResult.UNREACHABLE, f"{name}: {reason}") from None
    if len(data) > _MOST:
        raise SourceError(ScrapeResult.TOO_LARGE, f"{name}: more than {_MOST} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        detail = f"{name}: no UTF-8 text, byte {error.start}"
        raise SourceError(ScrapeResult.BAD_ENCODING, detail) from None


def is_yaml(place: Path) -> bool:
    """Tell whether a file holds YAML, by its name."""
    return place.suffix.lower() in _YAML


def command_of(text: str, *, place: str = "command line") -> Command:
    """Read a command line; raises UsageError for one that is none."""
    try:
        return read_command(text)
    except ValueError as error:
        raise UsageError(f"{place}: {error}") from None


def mapping_of(text: str, *, place: str) -> Mapping[str, object]:
    """Read YAML with named values; raises UsageError for anything else."""
    if (brackets := text.count("[") + text.count("{")) > _MOST_BRACKETS:
        raise UsageError(f"{place}: {brackets} brackets; a file of flags has few")
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text)):
            raise UsageError(f"{place}: aliases (*name) are not read; write the values out")
        found = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise UsageError(f"{place}: no YAML: {_where(error)}") from None
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
        raise UsageError(f"{place}: {quote(found)} is no mapping of flags to values")
    if "kind" in found and "apiVersion" in found:
        raise UsageError(f"{place}: a Kubernetes object; give the command of its container instead")
    return found


def yaml_command(text: str, *, place: str) -> Command:
    """Read a file of flags and values, as `vllm serve --config` takes."""
    try:
        return from_mapping(mapping_of(text, place=place))
    except (RecursionError, ValueError, TypeError) as error:
        raise UsageError(f"{place}: {_where(error)}") from None


def _where(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    if mark is not None:
        problem = getattr(error, "problem", None) or "unreadable"
        return f"{problem}, line {mark.line + 1} column {mark.column + 1}"
    return "nested too deep" if isinstance(error, RecursionError) else str(error)[:100]
