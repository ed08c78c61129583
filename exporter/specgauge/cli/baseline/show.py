"""`specgauge baseline show`: a baseline file for a person, or normalised for a program."""

from pathlib import Path

import click

from specgauge.baseline.doubts import doubts
from specgauge.baseline.files import load_file
from specgauge.baseline.picture import draw_plot, draw_table
from specgauge.baseline.schema import BaselineFile, dump
from specgauge.cli.baseline.delivery import say, terminal_width
from specgauge.cli.values import READ_BY_US, plain


@click.command(epilog="\b\nExample:\n  specgauge baseline show baseline.json")
@click.argument("file", type=READ_BY_US)
@click.option("--json", "as_json", is_flag=True, help="Print specgauge.baseline/v1.")
def show(*, file: Path, as_json: bool) -> None:
    """Show a baseline: whose it is, its levels, and the curve between them."""
    found = load_file(file)
    if as_json:
        click.echo(dump(found), nl=False)
    else:
        width = terminal_width()
        click.echo(_heading(found))
        click.echo(f"\n{draw_table(found, width=width)}\n\n{draw_plot(found, width=width)}")
    say([*found.notes, *doubts(found)], mark="mind: ")


def _heading(file: BaselineFile) -> str:
    """Say whose baseline it is, in two or three lines."""
    version = f" {file.engine.version}" if file.engine.version else ""
    parts = [f"{file.model.name} on {file.engine.name}{version}"]
    if file.hardware.gpu:
        count = f"{file.hardware.count} x " if file.hardware.count else ""
        parts.append(f"{count}{file.hardware.gpu}")
    made = f"{file.method}, {file.created:%Y-%m-%d %H:%M} {file.created.tzname()}"
    load = file.workload
    facts = {"load": load.name, "temperature": load.temperature, "output": load.output_tokens}
    told = ", ".join(f"{name} {value}" for name, value in facts.items() if value is not None)
    lines = [", ".join(parts), ", ".join(one for one in (made, told) if one)]
    if file.missing:
        lines.append(f"not known: {', '.join(file.missing)}")
    return "\n".join(plain(line) for line in lines)
