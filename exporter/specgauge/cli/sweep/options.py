"""What the command line of `specgauge sweep` asks for, as a task; starts nothing."""

import json
import os
from pathlib import Path
from typing import Any

from specgauge.baseline import exchange
from specgauge.cli.baseline.record import read_order
from specgauge.cli.texts import read_text
from specgauge.cli.values import span_seconds
from specgauge.config.address import parse_address
from specgauge.errors import UsageError
from specgauge.preflight.sweep.candidate import (
    NONE,
    Candidate,
    check,
    grid,
    parse_candidates,
    parse_ks,
    parse_url,
)
from specgauge.preflight.sweep.methods import NEEDS_DRAFT
from specgauge.preflight.sweep.task import Task
from specgauge.preflight.sweep.template import split, varies

LOADS = "1,4,16"

_FEWEST_ROUNDS = 2
_MAX_BYTES = 1 << 20


def read_task(options: dict[str, Any]) -> Task:
    """Make a task of the command line; UsageError names the option that is wrong."""
    candidates = _candidates(options)
    check(candidates)
    for one in candidates:
        if one.url is not None:
            _check_url(one.name, one.url)
    given = candidates[0].url is not None
    wanted = {**options, "concurrency": options["concurrency"] or (LOADS,)}
    return Task(
        order=read_order(
            {**wanted, "request_rate": (), "shared": False}, os.environ.get("OPENAI_API_KEY")
        ),
        candidates=candidates,
        server=None if given else options["server"],
        rounds=_rounds(options["rounds"], given=given),
        expected=tuple(options["expect"]),
        prune=not options["measure_all"],
        start_timeout=span_seconds("--start-timeout", options["start_timeout"]),
    )


def root_of(url: str) -> str:
    """Take /v1 off, so that the metrics page is looked for at the server's root."""
    return url.rstrip("/").removesuffix("/v1")


def _check_url(name: str, url: str) -> None:
    try:
        exchange.parse_address(url)
        parse_address(root_of(url))
    except ValueError as problem:
        raise UsageError(f"candidate {name}: {problem}") from None


def _candidates(options: dict[str, Any]) -> tuple[Candidate, ...]:
    file, ks = options["candidates"], parse_ks(options["k"])
    found = [parse_url(text) for text in options["candidate"]]
    if file is not None:
        found += parse_candidates(_candidates_in(file), source=f"--candidates {file}")
    if (options["method"] and not ks) or (ks and not options["method"]):
        raise UsageError("--method and --k go together: --method ngram --k 1,2,4")
    if options["draft"] and not NEEDS_DRAFT.intersection(options["method"]):
        raise UsageError("--draft: none of the methods drafts with a model; add its --method")
    drafts = [_draft(text) for text in options["draft"]]
    more = _more(options["speculative_config"])
    found += grid(options["method"], ks, drafts, more)
    started = [one for one in found if one.url is None]
    if started and not options["without_baseline"] and all(one.k != 0 for one in found):
        found.insert(0, Candidate(name=NONE))
        started.append(found[0])
    _check_templates(options["server"], started)
    return tuple(found)


def _check_templates(template: str | None, started: list[Candidate]) -> None:
    """Refuse templates that cannot start what they are for."""
    if template is not None and not started:
        raise UsageError("--server: nothing to start; add --method and --k, or --candidates")
    shared = [one for one in started if one.server is None]
    for one in started:
        if one.server is not None:
            split(one.server)
    if shared and template is None:
        raise UsageError(
            "give --server, the command that starts a server: "
            "--server 'vllm serve MODEL --port <<port>> <<speculative>>'"
        )
    if template is not None and not varies(split(template)) and len(shared) > 1:
        raise UsageError(
            "--server: every candidate would be the same server; put <<speculative>> in it"
        )


def _rounds(rounds: int | None, *, given: bool) -> int:
    if given and rounds is not None and rounds < _FEWEST_ROUNDS:
        raise UsageError("--rounds: at least 2 with given servers, which cost no restart")
    return rounds or (_FEWEST_ROUNDS if given else 1)


def _draft(text: str) -> str:
    """Take a draft by its folder or its name; a folder that is not there is told now."""
    if text.startswith((".", "/", "~")):
        path = Path(text).expanduser()
        if not path.is_dir():
            raise UsageError(f"--draft {text}: no such folder")
        return str(path.resolve())
    return str(Path(text).resolve()) if Path(text).is_dir() else text


def _more(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text) if text is not None else {}
    except (ValueError, RecursionError) as problem:
        raise UsageError(f"--speculative-config: not JSON: {problem}") from None
    if not isinstance(found, dict):
        raise UsageError('--speculative-config: a JSON object, as in {"prompt_lookup_max": 4}')
    for name in ("method", "model", "num_speculative_tokens"):
        if name in found:
            raise UsageError(f"--speculative-config: {name} comes from --method, --draft, --k")
    return found


def _candidates_in(path: Path) -> str:
    return read_text("--candidates", path, most=_MAX_BYTES, too_large="larger than 1 MiB")
