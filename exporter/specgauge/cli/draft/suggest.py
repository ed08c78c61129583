"""`specgauge draft suggest`: what could draft for a target, in the order to try it."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from specgauge.cli.draft.options import shared_options
from specgauge.cli.draft.text import describe_suggestions
from specgauge.cli.progress import counting
from specgauge.cli.values import READ_BY_US
from specgauge.preflight.draft.candidates import candidates
from specgauge.preflight.draft.document import SUGGEST_SCHEMA, report_body
from specgauge.preflight.draft.examine import examine, load
from specgauge.preflight.draft.families import family_of
from specgauge.preflight.draft.folder import Model
from specgauge.preflight.draft.judge import Report
from specgauge.preflight.draft.pair import Wish
from specgauge.preflight.draft.releases import parse
from specgauge.preflight.draft.suggest import Suggestion, order


@click.command(epilog="\b\nExample:\n  specgauge draft suggest ./llama-70b --among ./models")
@click.argument("target")
@click.option(
    "--among", multiple=True, type=READ_BY_US, help="Folder of models, or a model's; repeatable."
)
@shared_options
@click.option("--json", "as_json", is_flag=True, help=f"Print {SUGGEST_SCHEMA}.")
def suggest(
    target: str,
    *,
    among: tuple[Path, ...],
    release: str,
    tensor_parallel: int,
    online: bool,
    as_json: bool,
) -> None:
    """Say what could draft for TARGET: no draft at all, local models, and its known family."""
    parse(release)
    model = load(target, online=online)
    wish = Wish(tensor_parallel=tensor_parallel)
    reports = _reports(model, among, release, wish)
    family = family_of(model.config, f"{target} {model.folder}")
    found = order(model.config.vocab_size, reports, family, release=release)
    if as_json:
        click.echo(json.dumps(_document(target, release, found), indent=1, allow_nan=False))
        return
    click.echo(describe_suggestions(found))
    if family is not None:
        click.echo(f"\n{family.name}: {family.note}")


def _reports(target: Model, among: Sequence[Path], release: str, wish: Wish) -> list[Report]:
    """Check every way to draft that can be looked at here."""
    drafts: list[tuple[Model | None, str | None]] = [(None, "ngram"), (None, "suffix")]
    if target.config.mtp_layers is not None:
        drafts.append((None, "mtp"))
    local = list(candidates(target, among))
    drafts += [(one, None) for one in local]
    return [
        examine(target, draft, method=method, release=release, wish=wish)
        for draft, method in counting(drafts, len(drafts), "checking drafts")
    ]


def _document(target: str, release: str, found: Sequence[Suggestion]) -> dict[str, Any]:
    return {
        "schema": SUGGEST_SCHEMA,
        "target": target,
        "release": release,
        "suggestions": [
            {
                "name": one.name,
                "method": one.method,
                "checked": one.report is not None,
                "why": one.why,
                "report": None if one.report is None else report_body(one.report),
            }
            for one in found
        ],
    }
