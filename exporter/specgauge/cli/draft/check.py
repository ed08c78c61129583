"""`specgauge draft check`: whether a draft fits its target, before either is started."""

import json
from datetime import UTC, datetime
from typing import Any

import click

from specgauge import __version__
from specgauge.cli.draft.options import method_option, shared_options
from specgauge.cli.draft.text import describe
from specgauge.model.outcome import ExitCode
from specgauge.preflight.draft.document import CHECK_SCHEMA, report_document
from specgauge.preflight.draft.examine import examine, load
from specgauge.preflight.draft.finding import Fit
from specgauge.preflight.draft.judge import Report
from specgauge.preflight.draft.pair import Wish
from specgauge.preflight.draft.releases import parse

_EXITS = {Fit.INCOMPATIBLE: ExitCode.FAILED, Fit.UNKNOWN: ExitCode.NO_VERDICT}


@click.command(epilog="\b\nExample:\n  specgauge draft check ./llama-70b ./llama-1b")
@click.argument("target")
@click.argument("draft", required=False)
@method_option
@shared_options
@click.option("--draft-tensor-parallel", type=click.IntRange(1, 1024), help="Parts of the draft.")
@click.option("--max-model-len", type=click.IntRange(1, 1 << 30), help="Length that is served.")
@click.option("--num-speculative-tokens", type=click.IntRange(1, 1024), help="Tokens to draft.")
@click.option("--heterogeneous-vocab", is_flag=True, help="Let the engine translate vocabularies.")
@click.option("--json", "as_json", is_flag=True, help=f"Print {CHECK_SCHEMA}.")
def check(target: str, draft: str | None, *, as_json: bool, **options: Any) -> int:
    """Say whether DRAFT can draft for TARGET; both are folders or names in the hub cache.

    Exit code 0: it fits, if with conditions; 1: it does not; 4: that cannot be told.
    """
    report = _examine(target, draft, **options)
    if as_json:
        now = datetime.now(UTC).replace(microsecond=0)
        document = report_document(report, created=now, created_by=f"specgauge {__version__}")
        click.echo(json.dumps(document, indent=1, allow_nan=False))
    else:
        click.echo(describe(report))
    return _EXITS.get(report.fit, ExitCode.OK)


def _examine(
    target: str,
    draft: str | None,
    *,
    method: str | None,
    release: str,
    online: bool,
    tensor_parallel: int,
    draft_tensor_parallel: int | None,
    max_model_len: int | None,
    num_speculative_tokens: int | None,
    heterogeneous_vocab: bool,
) -> Report:
    """Read both models and have them judged."""
    parse(release)
    return examine(
        load(target, online=online),
        None if draft is None else load(draft, online=online),
        method=method,
        release=release,
        wish=Wish(
            tensor_parallel=tensor_parallel,
            draft_tensor_parallel=draft_tensor_parallel,
            max_model_len=max_model_len,
            tokens=num_speculative_tokens,
            heterogeneous=heterogeneous_vocab,
        ),
    )
