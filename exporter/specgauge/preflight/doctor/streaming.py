"""Rules on tokens that come in clumps: a step's worth at a time is normal, more is not."""

from collections.abc import Iterator

from specgauge.preflight.doctor.case import Case, Probe
from specgauge.preflight.doctor.codes import Code, Symptom
from specgauge.preflight.doctor.finding import LIKELY, MEASURED, SEEN, Figure, Finding

_TOGETHER = 1.15
_TOO_MANY = 1.5
_HALF = 0.5


def streaming_rules(case: Case) -> Iterator[Finding]:
    """Judge how tokens reach a client."""
    interval = case.setup.stream_interval if case.setup is not None else 1
    if interval > 1 and case.setup is not None:
        yield Finding(
            code=Code.STREAM_INTERVAL,
            confidence=SEEN,
            evidence=f"{case.setup.source} sets --stream-interval {interval}",
            numbers={"stream_interval": interval},
        )
    held = case.probe is not None and _held_back(case.probe, interval)
    if case.probe is not None and held:
        yield _buffered(case.probe)
    if case.symptom is Symptom.CLUMPS:
        yield from _steps(case, held=held)


def _held_back(probe: Probe, interval: int) -> bool:
    """Tell whether chunks hold more than steps do, or come several at one moment."""
    whole = probe.in_one_piece > _HALF * max(probe.requests - probe.failed, 1)
    burst = probe.burst_share is not None and probe.burst_share > _HALF
    most = _expected(probe)
    many = (
        interval == 1
        and probe.tokens_per_chunk is not None
        and most is not None
        and probe.tokens_per_chunk > _TOO_MANY * most
    )
    return whole or burst or many


def _expected(probe: Probe) -> float | None:
    """Give how many tokens a chunk should have: those of a step, by the page."""
    value = probe.page.number("tokens_per_step") if probe.page is not None else None
    return None if value is None else max(value, 1.0)


def _buffered(probe: Probe) -> Finding:
    expected = _expected(probe)
    numbers: dict[str, Figure] = {"in_one_piece": probe.in_one_piece, "requests": probe.requests}
    told = []
    if probe.in_one_piece:
        told.append(f"{probe.in_one_piece} of {probe.requests} answers came in one piece")
    if probe.tokens_per_chunk is not None:
        numbers["tokens_per_chunk"] = probe.tokens_per_chunk
        step = f" where a step makes {expected:.2f}" if expected is not None else ""
        told.append(f"a chunk brought {probe.tokens_per_chunk:.2f} tokens{step}")
    if probe.burst_share is not None:
        numbers["burst_share"] = probe.burst_share
        told.append(f"{probe.burst_share:.0%} of the chunks came together with the one before")
    return Finding(
        code=Code.CHUNKS_HELD_BACK,
        confidence=SEEN,
        evidence=", ".join(told),
        numbers=numbers,
    )


def _steps(case: Case, *, held: bool) -> Iterator[Finding]:
    """Explain clumps by what a step delivers."""
    for model in case.models:
        values = model.derived.values
        per_step, k = values.get("tokens_per_step"), values.get("num_speculative_tokens")
        length = values.get("acceptance_length")
        together = per_step if isinstance(per_step, int | float) else length
        if not isinstance(together, int | float) or together < _TOGETHER:
            continue
        step = values.get("step_seconds")
        most = f", at most {k + 1}" if isinstance(k, int) else ""
        every = f" every {1e3 * step:.3g} ms" if isinstance(step, int | float) else ""
        numbers: dict[str, Figure] = {"tokens_per_step": together}
        if isinstance(length, int | float):
            numbers["acceptance_length"] = length
        if isinstance(step, int | float):
            numbers["step_seconds"] = step
        yield Finding(
            code=Code.CLUMPS_ARE_STEPS,
            confidence=LIKELY if held else MEASURED,
            evidence=f"a step delivers {together:.2f} tokens at once{most}{every}",
            numbers=numbers,
            where=model.derived.model_name,
        )
