"""Facts that no page tells, as options that several baseline commands share."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from specgauge.baseline.facts import WANTED
from specgauge.baseline.faults import is_text
from specgauge.cli.values import FiniteRange, plain
from specgauge.errors import UsageError

Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = {
    "model": ("model.name", "NAME", str, "Model name, where there are several or none."),
    "revision": ("model.revision", "TEXT", str, "Revision of the model."),
    "quantization": ("model.quantization", "TEXT", str, "Quantisation of the model."),
    "engine_version": ("engine.version", "TEXT", str, "Release of the engine."),
    "gpu": ("hardware.gpu", "NAME", str, "GPU, as nvidia-smi names it."),
    "gpu_count": ("hardware.count", "N", click.IntRange(min=1), "How many GPUs."),
    "tensor_parallel": ("parallelism.tensor", "N", click.IntRange(min=1), "Tensor-parallel size."),
    "data_parallel": ("parallelism.data", "N", click.IntRange(min=1), "Data-parallel size."),
    "temperature": (
        "workload.temperature",
        "NUMBER",
        FiniteRange(min=0.0, max=100.0),
        "Sampling temperature of the load.",
    ),
}


def fact_options(command: Command) -> Command:
    """Add the options to a command, which takes them as one mapping of keywords."""
    for name, (_, metavar, kind, text) in reversed(_OPTIONS.items()):
        flag = "--" + name.replace("_", "-")
        command = click.option(flag, name, metavar=metavar, type=kind, help=text)(command)
    return command


def facts_given(options: Mapping[str, object]) -> dict[str, object]:
    """Pick the facts that the command line gave, by their dotted path in the file."""
    given = {name: options[name] for name in _OPTIONS if options.get(name) is not None}
    for name, value in given.items():
        if not is_text(value):
            raise UsageError(f"--{name.replace('_', '-')}: {plain(str(value))} is not UTF-8")
    return {_OPTIONS[name][0]: value for name, value in given.items()}


def ask_for(missing: tuple[str, ...]) -> str | None:
    """Say which options would give what is missing; None where nothing is."""
    flags = [
        "--" + name.replace("_", "-")
        for name, (fact, *_) in _OPTIONS.items()
        if fact in missing and fact in WANTED
    ]
    rest = [name for name in missing if name not in {fact for fact, *_ in _OPTIONS.values()}]
    parts = [f"not known: {', '.join(missing)}"] if missing else []
    if flags and len(rest) < len(missing):
        parts.append(f"give {', '.join(flags)} if you know")
    return "; ".join(parts) or None
