"""Where advice gets its figures from: pages, a baseline, recorded answers; judges nothing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specgauge.baseline.schema import BaselineFile, LevelRecord
from specgauge.cli.inspect import Look, derive
from specgauge.cli.progress import counting
from specgauge.cli.texts import read_text
from specgauge.errors import UsageError
from specgauge.model.derived import Derived, Hints
from specgauge.preflight.advise.exchanges import parse_exchanges
from specgauge.preflight.advise.lookup import Lookup, Tally, Token, add, replay
from specgauge.preflight.advise.observed import Observed
from specgauge.preflight.advise.pieces import STATED, cut
from specgauge.preflight.advise.tokenizer import read_tokenizer

_MOST_BYTES = 1 << 30
_TWO = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The command line: pages, and the options by name."""

    pages: tuple[str, ...]
    options: dict[str, Any]

    def sources(self) -> tuple[str, ...]:
        """Name what to look at; raises UsageError where that is no page, two pages or one URL."""
        url, window = self.options["url"], self.options["window"]
        if url is not None and self.pages:
            raise UsageError("give --url or pages, not both")
        if url is not None:
            return (url if "://" in url else f"http://{url}",)
        if any("://" in page for page in self.pages):
            raise UsageError("give a URL with --url; it is scraped twice")
        if len(self.pages) > _TWO or self.pages.count("-") > 1:
            raise UsageError("give one page, or two with --window")
        if (len(self.pages) == _TWO) is not (window is not None):
            raise UsageError("two pages and --window SECONDS, the time between them, go together")
        return self.pages


def observe(seen: Look, asked: Asked, change: float | None) -> list[Observed]:
    """Take from pages what advice needs, a model each."""
    models = derive(seen, Hints())
    if not models:
        return [_observed(None, seen, asked, change)]
    return [_observed(one, seen, asked, change) for one in models]


def _observed(derived: Derived | None, seen: Look, asked: Asked, change: float | None) -> Observed:
    def figure(name: str) -> float | None:
        value = None if derived is None else derived.values.get(name)
        return float(value) if isinstance(value, int | float) else None

    output, generated = figure("output_tokens_per_request"), figure("generation_tokens")
    load = asked.options["concurrency"]
    return Observed(
        model_name="" if derived is None else derived.model_name,
        speculation="unknown" if derived is None else str(derived.speculation),
        seconds=seen.seconds,
        requests=generated / output if output and generated is not None else None,
        decode_concurrency=load if load is not None else figure("decode_concurrency") or None,
        requests_waiting=figure("requests_waiting"),
        preemptions=figure("preemptions"),
        kv_use=figure("kv_cache_usage_ratio"),
        kv_change=change,
        prompt_tokens=figure("prompt_tokens_per_request"),
        output_tokens=output,
        tpot_seconds=figure("tpot_seconds"),
        temperature=asked.options["temperature"],
        version=seen.version,
    )


def observe_baseline(file: BaselineFile, asked: Asked, change: float | None) -> Observed:
    """Take from a baseline what it says of the server at the load that is expected."""
    load = asked.options["concurrency"]
    if load is None:
        raise UsageError("a baseline alone does not tell the load: --concurrency N, that expected")
    level = min(file.levels, key=lambda one: abs(one.decode_concurrency - load))
    given = asked.options["temperature"]
    return Observed(
        model_name=file.model.name,
        decode_concurrency=load,
        kv_use=_kv_use(level),
        kv_change=change,
        requests=float(level.requests),
        prompt_tokens=level.prompt_tokens_per_request,
        output_tokens=level.output_tokens_per_request,
        temperature=given if given is not None else file.workload.temperature,
        version=file.engine.version,
    )


def _kv_use(level: LevelRecord) -> float | None:
    return None if level.server is None else level.server.kv_cache_usage_ratio_max


def replay_file(
    path: Path | None, tokenizer: Path | None, lookup: Lookup
) -> tuple[Tally | None, str | None]:
    """Replay the recorded answers of a file; gives also how they were cut into tokens."""
    if path is None:
        if tokenizer is not None:
            raise UsageError("--tokenizer is for --prompts, of which there are none")
        return None, None
    text = read_text(
        "--prompts", path, most=_MOST_BYTES, too_large="larger than 1 GiB; take a sample of it"
    )
    found = parse_exchanges(text, source=f"--prompts {path}").exchanges
    cutter: Callable[[str], Sequence[Token]] = cut
    if tokenizer is not None:
        cutter = read_tokenizer(tokenizer)

    def tokens(part: str | tuple[int, ...]) -> Sequence[Token]:
        return cutter(part) if isinstance(part, str) else part

    tallies = [
        replay(tokens(one.prompt), tokens(one.output), lookup)
        for one in counting(found, len(found), "answers replayed")
    ]
    return add(tallies), STATED if tokenizer is None else str(tokenizer)
