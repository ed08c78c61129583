"""Where a baseline command's result goes: a file or standard output; the rest to stderr."""

import shutil
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import click

from specgauge import __version__
from specgauge.baseline.doubts import doubts
from specgauge.baseline.facts import compose
from specgauge.baseline.files import require_writable, write_atomically
from specgauge.baseline.schema import BaselineFile, LevelRecord, dump
from specgauge.cli.baseline.provenance import ask_for
from specgauge.cli.values import READ_BY_US, plain
from specgauge.errors import UsageError

STDOUT = Path("-")

output_option = click.option(
    "-o",
    "--output",
    required=True,
    type=READ_BY_US,
    help="Baseline file to write; - for standard output.",
)


def check_output(path: Path) -> None:
    """Refuse a place that cannot be written, before any work."""
    if path != STDOUT:
        require_writable(path)


def make_file(
    facts: Mapping[str, object],
    levels: Sequence[LevelRecord],
    *,
    method: str,
    created: datetime | None = None,
    notes: Sequence[str] = (),
    missing: Sequence[str] = (),
    partial: bool = False,
) -> BaselineFile:
    """Put a file together as made by this release, now unless something else is known."""
    if facts.get("model.name") is None:
        raise UsageError("nothing names the model; give --model NAME")
    return compose(
        facts,
        levels,
        method=method,
        created=created or datetime.now(UTC),
        created_by=f"specgauge {__version__}",
        notes=notes,
        missing=missing,
        partial=partial,
    )


def deliver(file: BaselineFile, path: Path) -> None:
    """Write a baseline and say on stderr what is in it and what to mind."""
    if path == STDOUT:
        click.echo(dump(file), nl=False)
    else:
        write_atomically(path, dump(file))
    loads = [one.decode_concurrency for one in file.levels]
    plural = "" if len(loads) == 1 else "s"
    span = f"{min(loads):.3g} to {max(loads):.3g} requests in decode"
    say([f"{path}: {len(loads)} level{plural}, {span}"])
    say([*file.notes, *doubts(file)], mark="mind: ")
    asked = ask_for(file.missing)
    say([asked] if asked else [])


def say(lines: Iterable[str], *, mark: str = "") -> None:
    """Tell a person, a line each."""
    for line in lines:
        click.echo(f"{mark}{plain(line)}", err=True)


def terminal_width() -> int:
    """Give the width to draw in."""
    return min(shutil.get_terminal_size((80, 24)).columns, 120)
