"""`specgauge checklist pin`: writes down what runs now, for the checklist to hold it to."""

import asyncio
from pathlib import Path
from time import time

import click

from specgauge import __version__
from specgauge.cli.checklist.gather import Sources, observe
from specgauge.cli.checklist.options import sidecar_options, sources_of
from specgauge.cli.checklist.terms import lock_file, stated_in, wanted_by
from specgauge.cli.guard.configuration import read_config
from specgauge.config import Config
from specgauge.errors import SourceError, SpecgaugeError, UsageError
from specgauge.guard.flags.atomic import write_atomically
from specgauge.guard.flags.protocol import FlagError
from specgauge.model.outcome import ExitCode, ScrapeResult
from specgauge.preflight.checklist.case import Shown
from specgauge.preflight.checklist.deployment import Deployment, deployed, needs_draft
from specgauge.preflight.checklist.lock import (
    DRAFT_PINS,
    NAME,
    Pins,
    contradictions,
    hash_dashboards,
    pins_of,
    write_lock,
)
from specgauge.preflight.checklist.report import timestamp
from specgauge.preflight.checklist.result import Trouble


@click.command("pin", epilog="\b\nExample:\n  specgauge checklist pin --config specgauge.yaml")
@sidecar_options
@click.option("-o", "--output", type=click.Path(path_type=Path), help=f"File to write.  [{NAME}]")
def pin(*, output: Path | None, **given: object) -> int:
    """Write the versions, revisions, speculation config and dashboards that run now into a file.

    Exit code 0: everything is pinned; 1: what is stated is not what runs; 2: configuration; 3: the
    sidecar does not answer; 4: written, and something is not known.
    """
    config = read_config(sources_of(given).config_file)
    sources = sources_of(given, config)
    deployment, pins = _observed(config, sources)
    path = output or lock_file(config, sources.config_file)
    stated = stated_in(config)
    now = timestamp(time())
    text = write_lock(pins, stated, created=now, created_by=f"specgauge {__version__}")
    _write(path, text)
    click.echo(path)
    unknown = [name for name in _wanted(deployment, pins) if pins[name] is None]
    if unknown:
        click.echo(f"mind: not known, and not pinned: {', '.join(unknown)}", err=True)
    return ExitCode.NO_VERDICT if unknown else ExitCode.OK


def _observed(config: Config, sources: Sources) -> tuple[Deployment, Pins]:
    """See what runs; raises SourceError where the sidecar does not tell."""
    live, shown = asyncio.run(observe(sources))
    for one in (live, shown):
        if isinstance(one, Trouble):
            raise SourceError(ScrapeResult.UNREACHABLE, one.detail)
    assert not isinstance(live, Trouble)
    stated = stated_in(config)
    deployment = deployed(live, stated)
    if wrong := list(contradictions(deployment, stated)):
        raise SpecgaugeError("\n".join(f"checklist.{line}" for line in wrong))
    return deployment, pins_of(deployment, stated, _dashboards(config, shown))


def _dashboards(config: Config, shown: Shown | Trouble | None) -> str | None:
    """Hash the dashboards that are there, or as they would be rendered."""
    if not isinstance(shown, Shown):
        return hash_dashboards(wanted_by(config).dashboards)
    found = {uid: one for uid, one in shown.hashes.items() if one is not None}
    return hash_dashboards(found) if len(found) == len(shown.hashes) else None


def _wanted(deployment: Deployment, pins: Pins) -> list[str]:
    drafts = needs_draft(deployment.speculation) is not False
    return [name for name in pins if drafts or name not in DRAFT_PINS]


def _write(path: Path, text: str) -> None:
    try:
        write_atomically(path, text.encode())
    except FlagError as error:
        raise UsageError(f"{error.detail}; choose another file with -o") from None
