"""The four ways to compare: two pools, one before and after, and recorded pages."""

import asyncio
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from specgauge import __version__
from specgauge.baseline.faults import shown
from specgauge.baseline.files import load_text, write_atomically
from specgauge.baseline.load import Terms as LoadTerms
from specgauge.baseline.prompts import CLASSES
from specgauge.cli.compare.checking import count_passes
from specgauge.cli.compare.driving import Driven, drive
from specgauge.cli.compare.options import (
    OF_THE_PLAN,
    allowed_of,
    check_of,
    contest_of,
    headers_of,
    prompts_of,
    terms_of,
)
from specgauge.cli.compare.reading import read_recorded
from specgauge.errors import UsageError
from specgauge.model.outcome import ExitCode
from specgauge.preflight.compare.bouts import Side
from specgauge.preflight.compare.contest import Order
from specgauge.preflight.compare.decide import decide
from specgauge.preflight.compare.document import Report
from specgauge.preflight.compare.fields import SPECULATION
from specgauge.preflight.compare.judge import judge
from specgauge.preflight.compare.logs import LogMark, mark
from specgauge.preflight.compare.quality import Passes
from specgauge.preflight.compare.records import Record, Saved, dump, parse
from specgauge.preflight.compare.validate import Check

INTERRUPTED = 130

Options = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A comparison that can begin."""

    saved: Saved
    sets: Mapping[str, Any]
    order: Order
    headers: Mapping[str, str]
    check: Check | None


def of_pages(options: Options) -> Report:
    """Compare recorded pages."""
    allowed = allowed_of(options)
    found = read_recorded(options)
    refused = [
        f"{one.field}: {shown(one.baseline)} in the baseline's pages, {shown(one.speculative)} in "
        f"the speculative ones; compare like with like, or give --allow {one.field}"
        for one in found.likeness.refused(allowed)
    ]
    if SPECULATION not in allowed and found.speculates[Side.BASELINE]:
        refused.append(f"{SPECULATION}: drafts are counted in the baseline's pages; take others")
    if SPECULATION not in allowed and not found.speculates[Side.SPECULATIVE]:
        refused.append(f"{SPECULATION}: no drafts are counted in the speculative pages")
    if refused:
        raise UsageError("\n".join(refused))
    terms = terms_of(options)
    return Report(
        outcome=decide(found.cells, terms),
        terms=terms,
        created=_now(),
        created_by=f"specgauge {__version__}",
        likeness=found.likeness,
        facts={str(side): facts for side, facts in found.facts.items()},
    )


def of_pools(options: Options) -> tuple[Report, bool]:
    """Compare two pools now; gives whether the user ended it."""
    urls = {Side.BASELINE: options["baseline_url"], Side.SPECULATIVE: options["speculative_url"]}
    if urls[Side.BASELINE].rstrip("/") == urls[Side.SPECULATIVE].rstrip("/"):
        raise UsageError("both URLs are the same server; for one server use --save and --against")
    ready = _prepare(options)
    logs = _marks(options)
    driven = _drive(urls, ready)
    records = _with_logs(driven.records, logs)
    report = _report(options, ready, records[Side.BASELINE], records[Side.SPECULATIVE], driven)
    return report, driven.stopped


def save_run(options: Options) -> int:
    """Measure one server without speculation and keep it for later."""
    path: Path = options["save"]
    ready = _prepare(options)
    logs = _marks(options)
    driven = _drive({Side.BASELINE: options["url"]}, ready)
    record = _with_logs(driven.records, logs)[Side.BASELINE]
    write_atomically(path, dump(replace(ready.saved, record=record)))
    partial = "partial, " if record.partial else ""
    click.echo(f"specgauge: {path}: {partial}{len(record.bouts)} bouts", err=True)
    if driven.stopped:
        return INTERRUPTED
    return ExitCode.FAILED if record.partial else ExitCode.OK


def of_before(options: Options, given: frozenset[str]) -> tuple[Report, bool]:
    """Compare a server with what was measured before; the plan is the saved one."""
    if wrong := sorted(given.intersection(OF_THE_PLAN)):
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in wrong)
        raise UsageError(f"{flags}: with --against the saved run says so; leave it out")
    path: Path = options["against"]
    saved = parse(load_text(path), source=str(path))
    ready = _prepare(options, saved)
    logs = _marks(options)
    driven = _drive({Side.SPECULATIVE: options["url"]}, ready)
    record = _with_logs(driven.records, logs)[Side.SPECULATIVE]
    return _report(options, ready, saved.record, record, driven), driven.stopped


def _prepare(options: Options, before: Saved | None = None) -> Prepared:
    """Read everything that can be wrong before any server is asked."""
    told = options["classes"]
    if before is not None and told is None and options["prompts"] is None:
        told = ",".join(before.contest.classes)
        if not set(CLASSES).issuperset(before.contest.classes):
            raise UsageError("the saved run had prompts of a file; give the same --prompts")
    sets = prompts_of({**options, "classes": told})
    digests = {name: one.sha256 for name, one in sets.items()}
    if before is None:
        contest = contest_of(options, sets, salt=secrets.token_hex(4))
        saved = Saved(
            contest=contest,
            endpoint=options["endpoint"],
            samples=options["samples"],
            prompts=digests,
            record=Record(),
        )
    elif digests != before.prompts:
        told = "the prompts are not those of the saved run; give the same --prompts or --classes"
        raise UsageError(told)
    else:
        saved = before
    order = Order(
        wish=LoadTerms(endpoint=saved.endpoint, model=options["model"] or ""),
        samples=saved.samples,
        model=options["model"],
        allowed=allowed_of(options),
        known=None if before is None else before.record.facts,
    )
    headers = headers_of(options, os.environ.get("OPENAI_API_KEY"))
    return Prepared(saved=saved, sets=sets, order=order, headers=headers, check=check_of(options))


def _drive(urls: Mapping[Side, str], ready: Prepared) -> Driven:
    plan = ready.saved.contest
    bouts = len(plan.cells) * plan.repeats * len(urls)
    minutes = bouts * plan.bout_seconds / 60.0
    told = f"cells: {len(plan.cells)}, bouts: {bouts}, at least {minutes:.1f} minutes"
    click.echo(f"specgauge: {told}", err=True)
    return asyncio.run(drive(urls, plan, ready.sets, ready.order, ready.headers))


def _report(
    options: Options, ready: Prepared, baseline: Record, speculative: Record, driven: Driven
) -> Report:
    plan, terms = ready.saved.contest, terms_of(options)
    passes, notes = _passes(ready.check, baseline, speculative)
    outcome = judge(plan, baseline, speculative, terms, passes=passes)
    every = dict.fromkeys((*baseline.notes, *speculative.notes, *notes))
    return Report(
        outcome=outcome,
        terms=terms,
        created=_now(),
        created_by=f"specgauge {__version__}",
        contest=plan,
        likeness=driven.likeness,
        facts={"baseline": baseline.facts, "speculative": speculative.facts},
        prompts=ready.saved.prompts,
        partial=baseline.partial or speculative.partial,
        notes=tuple(every),
    )


def _passes(
    check: Check | None, baseline: Record, speculative: Record
) -> tuple[Mapping[str, Passes], tuple[str, ...]]:
    """Check the answers; Ctrl-C ends that alone."""
    if check is None:
        return {}, ("no check of the answers was given: their quality is not measured",)
    try:
        found = asyncio.run(count_passes(check, baseline, speculative))
    except KeyboardInterrupt:
        return {}, ("the check of the answers was stopped: their quality is not measured",)
    none = [name for name, one in found.items() if one.baseline == 0 < one.baseline_of]
    notes = [f"no answer of the baseline pool passes the check: {name}" for name in none]
    return found, tuple(notes)


def _marks(options: Options) -> dict[Side, LogMark]:
    paths = {Side.BASELINE: options["baseline_log"], Side.SPECULATIVE: options["speculative_log"]}
    return {side: mark(path) for side, path in paths.items() if path is not None}


def _with_logs(records: Mapping[Side, Record], logs: Mapping[Side, LogMark]) -> dict[Side, Record]:
    return {
        side: replace(one, out_of_memory_lines=logs[side].count()) if side in logs else one
        for side, one in records.items()
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
