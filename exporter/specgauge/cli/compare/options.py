"""What the command line of a comparison asks for, as values; measures nothing."""

import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from specgauge.baseline.files import load_text
from specgauge.baseline.plan import parse_lengths
from specgauge.baseline.prompts import CLASSES, PromptSet, read_prompts, shipped
from specgauge.errors import BaselineError, UsageError
from specgauge.preflight.compare.bouts import LoadLevel
from specgauge.preflight.compare.fields import EXPECTED, MUST_AGREE, SPECULATION
from specgauge.preflight.compare.gates import Terms
from specgauge.preflight.compare.plan import Contest, named_loads
from specgauge.preflight.compare.validate import Check, command, schema
from specgauge.units import parse_duration

OF_THE_PLAN = (
    "load",
    "concurrency",
    "temperature",
    "also_temperature",
    "output_tokens",
    "repeats",
    "window",
    "warmup",
    "seed",
    "endpoint",
    "samples",
)
"""Options that a saved run answers already."""

_DEFAULT_CLASSES = "chat,code"


def seconds(
    least: float, most: float
) -> Callable[[click.Context, click.Parameter, str | None], float | None]:
    """Make what reads a time as `10s` or a bare number of seconds, within a range."""

    def read(_: click.Context, option: click.Parameter, value: str | None) -> float | None:
        if value is None:
            return None
        try:
            found = float(value)
        except ValueError:
            try:
                found = parse_duration(value)
            except ValueError as problem:
                raise UsageError(f"{option.opts[0]}: {problem}") from None
        if not (math.isfinite(found) and least <= found <= most):
            told = f"{value} is not from {least:g} to {most:g} seconds"
            raise UsageError(f"{option.opts[0]}: {told}")
        return found

    return read


def contest_of(options: Mapping[str, Any], classes: Iterable[str], salt: str) -> Contest:
    """Make the plan; UsageError names the option that is wrong."""
    hot, others = options["temperature"], options["also_temperature"]
    wrong = "--output-tokens"
    try:
        lengths = parse_lengths(options["output_tokens"])
    except ValueError as problem:
        raise UsageError(f"{wrong}: {problem}") from None
    return Contest(
        loads=loads_of(options),
        temperatures=tuple(dict.fromkeys((hot, *others))),
        classes=tuple(classes),
        lengths=lengths,
        repeats=options["repeats"],
        window=options["window"],
        warmup=options["warmup"],
        seed=options["seed"],
        salt=salt,
    )


def loads_of(options: Mapping[str, Any]) -> tuple[LoadLevel, ...]:
    """Read the loads, by name or bare; UsageError says what is wrong."""
    named, bare = options["load"], options["concurrency"]
    if named and bare:
        raise UsageError("--load and --concurrency: give one of them")
    wrong = "--concurrency" if bare else "--load"
    if bare and "=" in bare:
        raise UsageError("--concurrency: bare numbers are expected; name loads with --load")
    try:
        return named_loads(bare or named or "idle=1,steady=8,burst=32")
    except ValueError as problem:
        raise UsageError(f"{wrong}: {problem}") from None


def prompts_of(options: Mapping[str, Any]) -> dict[str, PromptSet]:
    """Read a prompt set for every class; UsageError names what cannot be had."""
    file, told = options["prompts"], options["classes"]
    names = tuple(dict.fromkeys(part.strip() for part in (told or "").split(",") if part.strip()))
    if file is not None:
        return _of_file(file, names)
    names = names or tuple(_DEFAULT_CLASSES.split(","))
    for name in names:
        if name not in CLASSES:
            raise UsageError(f"--classes {name}: choose among {', '.join(CLASSES)}")
    return {name: shipped(name) for name in names}


def _of_file(path: Path, names: tuple[str, ...]) -> dict[str, PromptSet]:
    if names:
        return {name: read_prompts(path, name) for name in names}
    whole = read_prompts(path)
    found = dict.fromkeys(prompt.traffic_class or whole.name for prompt in whole.prompts)
    return {
        name: PromptSet(
            name=name,
            prompts=tuple(p for p in whole.prompts if (p.traffic_class or whole.name) == name),
        )
        for name in found
    }


def allowed_of(options: Mapping[str, Any]) -> tuple[str, ...]:
    """Read which differences are taken; UsageError for a field that is none."""
    known = (*MUST_AGREE, SPECULATION)
    for name in options["allow"]:
        if name in EXPECTED:
            raise UsageError(f"--allow {name}: it is expected to differ; leave it out")
        if name not in known:
            raise UsageError(f"--allow {name}: no such field; choose among {', '.join(known)}")
    return (*options["allow"], *(MUST_AGREE if options["allow_differences"] else ()))


def terms_of(options: Mapping[str, Any]) -> Terms:
    """Read the thresholds."""
    return Terms(
        steady=options["min_speedup"],
        burst=options["min_speedup_burst"],
        idle=options["min_speedup_idle"],
        margin=options["margin"],
    )


def check_of(options: Mapping[str, Any]) -> Check | None:
    """Make the check of answers that is asked for."""
    if options["validate"] is not None and options["schema"] is not None:
        raise UsageError("--validate and --schema: give one of them")
    if options["validate"] is not None:
        return command(options["validate"], options["validate_timeout"])
    return schema(options["schema"]) if options["schema"] is not None else None


def headers_of(options: Mapping[str, Any], key: str | None) -> dict[str, str]:
    """Give the headers with the key, from its file or as the environment has it."""
    path = options["api_key_file"]
    if path is not None:
        try:
            key = load_text(path).strip()
        except BaselineError as problem:
            raise UsageError(f"--api-key-file {problem}") from None
    if not key:
        if path is not None:
            raise UsageError(f"--api-key-file {path}: it is empty")
        return {}
    if not (key.isascii() and key.isprintable()):
        raise UsageError("the key for the server is not one line of plain characters")
    return {"Authorization": f"Bearer {key}"}
