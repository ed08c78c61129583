"""`specgauge guard replay`: the guard over a recorded past; it writes no flag."""

import json
from pathlib import Path
from time import time

import click

from specgauge.cli.guard.configuration import read_config
from specgauge.cli.guard.replay_text import draw
from specgauge.cli.guard.source import Source, Stretch, find_source
from specgauge.cli.progress import counting
from specgauge.cli.settings import guard_of, settings_of
from specgauge.config import Config, GuardKeys
from specgauge.derive.judge import Terms
from specgauge.guard.audit import decision_document
from specgauge.serve.comparison import ComparisonTerms
from specgauge.serve.replay import Rehearsal
from specgauge.serve.replay import replay as rehearse


@click.command(
    epilog="\b\nExamples:\n"
    "  specgauge guard replay --config specgauge.yaml timeline.jsonl\n"
    "  specgauge guard replay --config specgauge.yaml --json timeline.jsonl | grep fallback\n"
    "  specgauge guard replay --prometheus http://prometheus:9090 --from -7d"
)
@click.argument(
    "timeline", required=False, type=click.Path(path_type=Path), metavar="[TIMELINE.jsonl]"
)
@click.option(
    "--config",
    "file",
    type=click.Path(path_type=Path),
    help="Configuration file; its targets are not scraped and may be absent.",
)
@click.option("--prometheus", "url", metavar="URL", help="Replay what it remembers of the pool.")
@click.option("--from", "start", metavar="TIME", help="RFC 3339, Unix seconds, or ago as -7d.")
@click.option("--to", "end", metavar="TIME", help="The same, or now.  [now]")
@click.option("--step", metavar="DURATION", help="Time between two lines.  [as often as asked]")
@click.option("--json", "as_json", is_flag=True, help="Print every decision, an object a line.")
def replay(
    timeline: Path | None,
    file: Path | None,
    url: str | None,
    start: str | None,
    end: str | None,
    step: str | None,
    as_json: bool,
) -> None:
    """Run the guard over recorded pages, evidence and errors, and print what it decides.

    They are those of a timeline, or of a pool as a Prometheus remembers it; how it is asked
    stands in guard.prometheus.

    Without a `guard:` in the configuration its defaults are tried. Nothing is written, and a dry
    run is replayed as if it acted. Exit code 0 whatever was decided; 2: configuration; 3: the
    timeline or Prometheus cannot be read.
    """
    config = read_config(file)
    stretch = Stretch(url=url, start=start, end=end, step=step)
    source = find_source(timeline, stretch, config, now=time())
    decisions = rehearse(source.entries, rehearsal_of(config, source))
    shown = counting(decisions, source.count, "replaying", quiet=as_json)
    if as_json:
        for decision in shown:
            click.echo(json.dumps(decision_document(decision), allow_nan=False))
    else:
        draw(shown)


def rehearsal_of(config: Config, source: Source) -> Rehearsal:
    """Put together what a source is replayed under: the guard's terms, and its baselines."""
    wanted = config.guard or GuardKeys()
    settings = settings_of(config)
    guard = guard_of(config.model_copy(update={"guard": wanted}))
    assert guard is not None
    if settings.baseline_target is not None:
        click.echo("mind: baseline.target is a live server; only files are compared with", err=True)
    ours = [one for one in settings.targets if one.role == "speculative"]
    return Rehearsal(
        policy=guard.policy,
        target=(ours or list(settings.targets))[0],
        comparison=ComparisonTerms(
            baselines=settings.baselines,
            interval=source.spacing,
            decision_window=source.window or guard.decision_window,
            window=settings.window,
            terms=Terms(margin=settings.margin, min_tokens=guard.policy.min_tokens),
            guarded=True,
            policy=guard.policy,
        ),
    )
