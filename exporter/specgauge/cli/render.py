"""`specgauge render`: writes the files that an SRE imports, or says which are not current."""

import errno
import importlib
import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from glob import escape
from pathlib import Path

import click

from specgauge.cli.guard.configuration import read_config
from specgauge.cli.promtool import promtool_faults
from specgauge.cli.settings import rules_of
from specgauge.errors import RenderError, UsageError
from specgauge.model.outcome import ExitCode
from specgauge.render.files import RenderedFile
from specgauge.render.registry import KINDS, render
from specgauge.render.verify import PromqlParser

_DRAFT = ".part"


@click.command("render", epilog="\b\nExample:\n  specgauge render rules --output monitoring")
@click.argument("kinds", nargs=-1, type=click.Choice(tuple(KINDS)), metavar="[KIND]...")
@click.option(
    "--config", "file", type=click.Path(path_type=Path), help="Configuration file (YAML)."
)
@click.option(
    "--output", "folder", type=click.Path(path_type=Path), default=".", show_default=True,
    help="Folder to write into.",
)  # fmt: skip
@click.option("--check", "checks", is_flag=True, help="Write nothing; name files not current.")
def render_files(kinds: tuple[str, ...], file: Path | None, folder: Path, checks: bool) -> int:
    """Write rules, dashboards and what goes with them; every KIND where none is named.

    Every file is read again before it is written: YAML, JSON, PromQL, names of series.
    With --check, exit code 1 if a file in the folder is not what would be written.
    """
    parse = _parser()
    made = render(kinds, rules_of(read_config(file)), parse=parse)
    for one in made:
        for note in one.notes:
            click.echo(f"{one.path}: {note}", err=True)
    if checks:
        return _check(made, folder, parsed=parse is not None)
    for path in _write(made, folder):
        click.echo(path)
    _tell_of_drafts(made, folder)
    return ExitCode.OK


def _parser() -> PromqlParser | None:
    """Give promql-parser where it is installed; no user needs it."""
    try:
        parse: PromqlParser = importlib.import_module("promql_parser").parse
    except ModuleNotFoundError:
        return None
    return parse


def _check(made: Iterable[RenderedFile], folder: Path, *, parsed: bool) -> int:
    """Compare with what lies there, and let promtool read the rules where there is one."""
    if not parsed:
        click.echo("promql-parser is not installed: PromQL was not parsed with it", err=True)
    faults = promtool_faults(made)
    if faults is None:
        click.echo("promtool is not on the PATH: it has not read the rules", err=True)
    elif faults:
        raise RenderError(faults)
    _tell_of_drafts(made, folder)
    stale = [one.path for one in made if _present(folder / one.path) != one.text.encode()]
    for path in stale:
        click.echo(path)
    return ExitCode.FAILED if stale else ExitCode.OK


def _present(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _tell_of_drafts(made: Iterable[RenderedFile], folder: Path) -> None:
    """Name what a rendering left that was ended midway, as by a power cut."""
    for one in made:
        goal = (folder / one.path).resolve()
        for draft in sorted(goal.parent.glob(f".{escape(goal.name)}.*{_DRAFT}")):
            click.echo(f"{draft}: left by a rendering that was ended midway; delete it", err=True)


def _write(made: Iterable[RenderedFile], folder: Path) -> Iterable[str]:
    """Write all files beside their places, then put them there: old or new, never a half one."""
    drafts: list[tuple[Path, Path]] = []
    path = folder
    try:
        for one in made:
            path = folder / one.path
            path.parent.mkdir(parents=True, exist_ok=True)
            goal = path.resolve()  # a link stays a link
            if goal.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            drafts.append((goal.with_name(f".{goal.name}.{os.getpid()}{_DRAFT}"), goal))
            drafts[-1][0].write_text(one.text, encoding="utf-8", newline="\n")
        for draft, path in drafts:
            if path.exists():
                shutil.copymode(path, draft)
            draft.replace(path)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; choose another --output") from None
    finally:
        for draft, _ in drafts:
            with suppress(OSError):
                draft.unlink()
    return [one.path for one in made]
