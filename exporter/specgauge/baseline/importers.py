"""Other tools' results as levels: units and definitions converted, what is missing named.

Text in, levels out; which tool wrote a document is told by its keys alone.
"""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from pydantic import ValidationError

from specgauge.baseline.bench import is_bench, read_bench
from specgauge.baseline.faults import shown, word
from specgauge.baseline.flat import flat_parts, read_flat
from specgauge.baseline.guidellm import guidellm_parts, read_guidellm
from specgauge.baseline.results import Run
from specgauge.baseline.schema import SCHEMA, ClientFigures, LevelRecord, Spread, keys_at
from specgauge.derive.statistics import ratio_estimate
from specgauge.errors import BaselineError

_FOR_INTERVAL = 3
_KINDS = "results of vllm bench serve, GuideLLM reports, flat JSON with tpot_p50_ms and the like"


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """Levels with what else the documents told; `created` is the latest of their dates."""

    levels: tuple[LevelRecord, ...]
    facts: dict[str, object]
    created: datetime | None
    notes: tuple[str, ...]
    missing: tuple[str, ...]


def import_results(texts: Sequence[tuple[str, str]]) -> Imported:
    """Turn results, as pairs of source and text, into levels; several of one load are repeats.

    Raises BaselineError naming every document that is no baseline, and why.
    """
    runs: list[Run] = []
    problems: list[str] = []
    for source, text in texts:
        try:
            for place, document in _documents(source, text):
                runs += _read(document, place)
        except BaselineError as problem:
            problems += problem.problems
    facts, clashes = _facts(runs)
    problems += clashes
    if problems or not runs:
        raise BaselineError(problems or ["no results are given"])
    found = sorted(
        (_level(group) for group in _groups(runs)), key=lambda one: one.decode_concurrency
    )
    dates = [run.created for run in runs if run.created is not None]
    return Imported(
        levels=tuple(found),
        facts=facts,
        created=max(dates, default=None),
        notes=tuple(dict.fromkeys(note for run in runs for note in run.notes)),
        missing=tuple(
            dict.fromkeys(["levels.server", *(one for run in runs for one in run.missing)])
        ),
    )


def _documents(source: str, text: str) -> Iterator[tuple[str, object]]:
    """Read a file's JSON documents: one, or one behind the other as --append-result leaves them."""
    decoder = json.JSONDecoder()
    start, found = 0, []
    while start < len(text):
        try:
            document, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError) as problem:
            raise BaselineError([f"{source}: not JSON: {problem}"]) from None
        found.append(document)
        start = end + len(text[end:]) - len(text[end:].lstrip())
    if not found:
        raise BaselineError([f"{source}: empty"])
    for number, document in enumerate(found, 1):
        yield (source if len(found) == 1 else f"{source} (result {number})"), document


def _read(document: object, place: str) -> list[Run]:
    """Understand a document of whichever tool."""
    if isinstance(document, dict):
        if document.get("schema") == SCHEMA:
            raise BaselineError([f"{place}: already is a baseline; there is nothing to import"])
        if is_bench(document):
            return [read_bench(document, place)]
    if parts := guidellm_parts(document):
        return [read_guidellm(part, f"{place}: benchmarks[{n}]") for n, part in enumerate(parts)]
    if parts := flat_parts(document):
        return [read_flat(part, place) for part in parts]
    raise BaselineError([f"{place}: {shown(document)} is none of: {_KINDS}"])


def _facts(runs: Sequence[Run]) -> tuple[dict[str, object], list[str]]:
    """Join the facts of all documents; the second value says where they contradict each other."""
    found: dict[str, object] = {}
    clashes = []
    for run in runs:
        for name, value in run.facts.items():
            if value is not None and found.setdefault(name, value) != value:
                clashes.append(
                    f"{run.place}: {name} is {shown(value)}, in the files before it "
                    f"{shown(found[name])}; import them apart"
                )
    return found, clashes


def _groups(runs: Sequence[Run]) -> list[list[Run]]:
    """Put repeats of one load together."""
    found: dict[tuple[object, ...], list[Run]] = {}
    for number, run in enumerate(runs):
        asked = (run.concurrency, run.request_rate)
        key = asked if any(asked) else (number,)
        found.setdefault(key, []).append(run)
    return list(found.values())


def _level(runs: Sequence[Run]) -> LevelRecord:
    """Write the repeats of one load as a level."""
    tpot, load, interval = _pool(runs)
    first, alone = runs[0], len(runs) == 1
    spread = first.tpot_spread.model_dump() if alone else {}
    figures = {
        "tpot_seconds": {**spread, "mean": tpot, "ci95": interval},
        "ttft_seconds": first.ttft if alone else Spread(),
        "e2e_seconds": first.e2e if alone else Spread(),
    }
    try:
        client = ClientFigures.model_validate(figures)
        return LevelRecord(
            concurrency=first.concurrency,
            request_rate=first.request_rate,
            decode_concurrency=load,
            window_seconds=_sum([run.seconds for run in runs]),
            repeats=len(runs),
            requests=sum(run.requests for run in runs),
            failed_requests=sum(run.failed for run in runs),
            prompt_tokens_per_request=_average([run.prompt_tokens_per_request for run in runs]),
            output_tokens_per_request=_average([run.output_tokens_per_request for run in runs]),
            client=client,
        )
    except ValidationError as error:
        raise BaselineError(
            [
                f"{first.place}: {word(one, lambda _: keys_at(('levels',)))}"
                for one in error.errors()
            ]
        ) from None


def _pool(runs: Sequence[Run]) -> tuple[float, float, tuple[float, float] | None]:
    """Give TPOT over all tokens, the load, and from three repeats on the interval of TPOT."""
    weights = [run.tokens or 1.0 for run in runs]
    spent = [run.tpot * weight for run, weight in zip(runs, weights, strict=True)]
    found = ratio_estimate(spent, weights, confidence=0.95)
    assert found is not None
    load = _average([run.decode_concurrency for run in runs]) or math.nan
    if len(runs) < _FOR_INTERVAL or found.low is None or found.high is None:
        return found.value, load, None
    return found.value, load, (found.low, found.high)


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) if known else None


def _average(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None
