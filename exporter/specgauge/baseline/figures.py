"""From a level's requests and the server's pages to its record in the baseline file; no I/O."""

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from specgauge.baseline.disagreement import MOST_LATE, difference
from specgauge.baseline.faults import word
from specgauge.baseline.plan import Load, Plan, convergence, relative_half_width
from specgauge.baseline.schema import ClientFigures, LevelRecord, ServerFigures, Spread, keys_at
from specgauge.baseline.stream import BROKEN, Outcome, Request
from specgauge.derive.latency import decode_tokens
from specgauge.errors import BaselineError
from specgauge.model.derived import Absent, Derived
from specgauge.model.ledger import ModelWindow

_SIDES = {ServerFigures.__name__: "server.", Spread.__name__: "client."}


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A piece of a level's window; `window` is what the server did in it, None if not known."""

    start: float
    end: float
    window: ModelWindow | None = None
    derived: Derived | None = None

    @property
    def decode(self) -> tuple[float, float] | None:
        """The server's seconds in decode and tokens after the first, for a ratio of sums."""
        if self.window is None or self.derived is None:
            return None
        tokens, tpot = decode_tokens(self.window), self.derived.values.get("tpot_seconds")
        if isinstance(tokens, Absent) or not isinstance(tpot, float) or tokens <= 0:
            return None
        return tpot * tokens, tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Everything that a level left behind.

    `whole` is the server's own window over all pieces; `late` are samples of how far the
    generator's loop was behind; `kv_max` is the highest KV usage seen.
    """

    load: Load
    pieces: Sequence[Piece]
    requests: Sequence[Request]
    whole: Derived | None = None
    kv_max: float | None = None
    late: Sequence[float] = ()
    notes: tuple[str, ...] = ()

    @property
    def start(self) -> float:
        """Begin of the steady window."""
        return self.pieces[0].start

    @property
    def end(self) -> float:
        """End of the steady window."""
        return self.pieces[-1].end


def level_record(measured: Measured, plan: Plan) -> LevelRecord | None:
    """Sum a level up; None where neither side has a time per token.

    Raises BaselineError where the server tells figures that no server has.
    """
    try:
        return _record(measured, plan)
    except ValidationError as error:
        place = f"{measured.load}: {_SIDES.get(error.title, '')}"
        faults = [f"{place}{word(one, keys_at)}" for one in error.errors()]
        raise BaselineError(faults) from None


def _record(measured: Measured, plan: Plan) -> LevelRecord | None:
    ended = [one for one in measured.requests if measured.start <= one.ended < measured.end]
    server, client = _server(measured), _client(measured, ended)
    decode = _decode_concurrency(measured)
    if (server is None and client.tpot_seconds.mean is None) or not decode > 0.0:
        return None
    complete = [one for one in ended if one.tokens is not None]
    whole = measured.whole.values if measured.whole is not None else {}
    prompts = [one.prompt_tokens for one in complete if one.prompt_tokens is not None]
    tokens = [one.tokens for one in complete if one.tokens is not None]
    return LevelRecord(
        concurrency=measured.load.concurrency,
        request_rate=measured.load.request_rate,
        decode_concurrency=decode,
        window_seconds=measured.end - measured.start,
        repeats=len(measured.pieces),
        requests=len(ended),
        failed_requests=sum(one.outcome in BROKEN for one in ended),
        output_tokens=_whole(whole.get("generation_tokens")) or sum(tokens),
        prompt_tokens_per_request=_mean(prompts),
        output_tokens_per_request=_mean(tokens),
        server=server,
        client=client,
        notes=(*measured.notes, *_notes(measured, plan, ended, server, client)),
    )


def settled(
    pieces: Sequence[Piece], requests: Sequence[Request], plan: Plan
) -> tuple[float | None, bool]:
    """Tell how wide the interval of mean TPOT is by now, and whether that is narrow enough."""
    sums = _server_sums(pieces) or _client_sums(pieces, requests)
    found = convergence(
        [top for top, _ in sums],
        [bottom for _, bottom in sums],
        repeats=plan.repeats,
        tolerance=plan.tolerance,
    )
    return found.half_width, found.reached


def quantile(ordered: Sequence[float], q: float) -> float:
    """Interpolate a quantile of values in rising order."""
    place = q * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def _server(measured: Measured) -> ServerFigures | None:
    if measured.whole is None:
        return None
    values = measured.whole.values
    tpot = _positive(values.get("tpot_seconds"))
    if tpot is None:
        return None
    sums = _server_sums(measured.pieces)
    return ServerFigures(
        tpot_seconds=tpot,
        tpot_ci95=_around(tpot, sums),
        step_seconds=_positive(values.get("step_seconds")),
        ttft_seconds=_positive(values.get("ttft_seconds")),
        e2e_seconds=_positive(values.get("e2e_seconds")),
        generation_tokens_per_second=_positive(values.get("generation_tokens_per_second")),
        kv_cache_usage_ratio_max=None if measured.kv_max is None else min(1.0, measured.kv_max),
    )


def _client(measured: Measured, ended: Sequence[Request]) -> ClientFigures:
    gaps = sorted(
        gap
        for one in measured.requests
        for before, after in itertools.pairwise(one.arrivals)
        if measured.start <= after < measured.end and (gap := after - before) >= 0.0
    )
    good = [one for one in ended if one.outcome in {Outcome.COMPLETE, Outcome.NO_USAGE}]
    pieces = measured.pieces
    return ClientFigures(
        tpot_seconds=_spread([(one.ended, one.tpot) for one in good], pieces),
        ttft_seconds=_spread([(one.ended, one.ttft) for one in good], pieces),
        e2e_seconds=_spread([(one.ended, one.e2e) for one in good], pieces),
        chunk_gap_seconds=_figures(gaps, None),
    )


def _spread(timed: Iterable[tuple[float, float | None]], pieces: Sequence[Piece]) -> Spread:
    """Describe one latency; its interval is of the means of the pieces."""
    known = [(at, value) for at, value in timed if value is not None]
    by_piece = [[value for at, value in known if one.start <= at < one.end] for one in pieces]
    values = sorted(value for _, value in known)
    sums = [(math.fsum(part), float(len(part))) for part in by_piece if part]
    return _figures(values, sums)


def _figures(values: Sequence[float], sums: Sequence[tuple[float, float]] | None) -> Spread:
    mean = math.fsum(values) / len(values) if values else 0.0
    if mean <= 0.0:
        return Spread()
    return Spread(
        mean=mean,
        p50=quantile(values, 0.5),
        p95=quantile(values, 0.95),
        p99=quantile(values, 0.99),
        ci95=_around(mean, sums or ()),
    )


def _around(value: float, sums: Sequence[tuple[float, float]]) -> tuple[float, float] | None:
    """Put the relative interval of a ratio of sums around a value; None for a single piece."""
    width = relative_half_width([top for top, _ in sums], [bottom for _, bottom in sums])
    return None if width is None else (max(0.0, value * (1.0 - width)), value * (1.0 + width))


def _server_sums(pieces: Sequence[Piece]) -> list[tuple[float, float]]:
    found = [one.decode for one in pieces]
    return [one for one in found if one is not None] if None not in found else []


def _client_sums(pieces: Sequence[Piece], requests: Sequence[Request]) -> list[tuple[float, float]]:
    """Add up seconds and tokens after the first of the requests that ended in each piece."""
    known = [
        (one.ended, one.decode_seconds or 0.0, one.decode_tokens or 0)
        for one in requests
        if one.tpot is not None
    ]
    sums = []
    for piece in pieces:
        own = [(s, n) for at, s, n in known if piece.start <= at < piece.end]
        if own:
            sums.append((math.fsum(s for s, _ in own), float(sum(n for _, n in own))))
    return sums


def _decode_concurrency(measured: Measured) -> float:
    """Take the server's word for how many requests were in decode, else the client's own."""
    told = measured.whole.values.get("decode_concurrency") if measured.whole is not None else None
    if isinstance(told, float) and told > 0.0:
        return told
    spent = math.fsum(
        max(0.0, min(one.last, measured.end) - max(one.first, measured.start))
        for one in measured.requests
        if one.first is not None and one.last is not None
    )
    return spent / (measured.end - measured.start)


def _notes(
    measured: Measured,
    plan: Plan,
    ended: Sequence[Request],
    server: ServerFigures | None,
    client: ClientFigures,
) -> list[str]:
    width, _ = settled(measured.pieces, measured.requests, plan)
    notes = []
    if width is None:
        notes.append("interval of mean TPOT not known: too few repeats with finished requests")
    elif width > plan.tolerance:
        notes.append(
            f"interval of mean TPOT is +-{width:.1%} after {len(measured.pieces)} repeats, wider "
            f"than +-{plan.tolerance:.0%}; a longer --window narrows it"
        )
    counted = Counter(str(one.outcome) for one in ended if one.outcome is not Outcome.COMPLETE)
    if counted:
        notes.append(", ".join(f"{name}: {n}" for name, n in sorted(counted.items())))
    notes += sorted({one.detail for one in ended if one.outcome in BROKEN})[:3]
    whole = sum(one.in_one_piece for one in ended)
    if whole:
        told = f"answers that came in one piece, and so have no TPOT: {whole}"
        notes.append(f"{told}; does something on the way buffer them?")
    late = lateness(measured.late)
    if late is not None and late > MOST_LATE:
        notes.append(
            f"the load generator was the bottleneck: it took chunks {late * 1e3:.1f} ms late at "
            "p99; run it on a machine of its own"
        )
    mean = client.tpot_seconds.mean
    if server is not None and mean is not None:
        notes += difference(server.tpot_seconds, mean, ended, late)
    return notes


def lateness(late: Sequence[float]) -> float | None:
    """Give the p99 of how late the generator's loop was."""
    return quantile(sorted(late), 0.99) if late else None


def _mean(values: Sequence[int]) -> float | None:
    return sum(values) / len(values) if values else None


def _positive(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and value > 0 else None


def _whole(value: object) -> int | None:
    return int(value) if isinstance(value, int | float) else None
