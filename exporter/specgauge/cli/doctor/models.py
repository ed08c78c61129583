"""From pages to what the doctor judges of each model; arithmetic is the verdict's own."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from specgauge.baseline.stream import Request
from specgauge.cli.doctor.look import Seen
from specgauge.cli.inspect import Look, derive
from specgauge.cli.moments import Moment
from specgauge.cli.verdict import Run, follow, judge_run
from specgauge.derive.accumulate import whole_life
from specgauge.derive.judge import Terms
from specgauge.derive.pieces import is_evidence, pieces, usual_spacing
from specgauge.derive.speedup import Piece
from specgauge.derive.summary import summarise
from specgauge.derive.window import windows
from specgauge.model.baseline import Baseline
from specgauge.model.derived import Derived, Hints
from specgauge.model.ledger import Interval
from specgauge.model.quantity import Kind, Quantity
from specgauge.preflight.doctor.case import Model, Probe, Stretch
from specgauge.preflight.doctor.probe import summary

_DRAFTED = (Quantity.DRAFT_TOKENS, Kind.COUNTER)
_ACCEPTED = (Quantity.ACCEPTED_TOKENS, Kind.COUNTER)


def models_of(
    moments: Sequence[Moment],
    baseline: Baseline | None,
    hints: Hints,
    *,
    blocks: int | None,
    now: float,
) -> tuple[Model, ...]:
    """Derive and judge every model of the last page."""
    if not moments:
        return ()
    if len(moments) == 1:
        alone = Look(pages=(moments[0].page,), seconds=None, version=None)
        return tuple(Model(derived=one, windowed=False) for one in derive(alone, hints))
    run = follow(moments)
    judged = {}
    if baseline is not None:
        judged = {one.model_name: one for one in judge_run(run, baseline, hints, Terms(), now=now)}
    waited = _waiting(moments[0])
    return tuple(
        Model(
            derived=one,
            windowed=True,
            judgement=judged.get(one.model_name),
            curve=baseline.curve if baseline is not None else None,
            pieces=_pieces(run, one.model_name),
            stretches=[_stretch(interval, one.model_name) for interval in run.intervals],
            restarted=any(name == one.model_name for i in run.intervals for name, _ in i.reset),
            baseline_blocks=blocks,
            waiting_before=waited.get(one.model_name),
        )
        for one in _derived(run, hints)
    )


def probe_of(seen: Seen, hints: Hints) -> Probe | None:
    """Put a probe's requests together with the pages around them."""
    if seen.probed is None:
        return None
    around = seen.moments[seen.probe_from :]
    page = _busiest(_derived(follow(around), hints)) if len(around) > 1 else None
    return _with_page(seen.probed, page)


def _with_page(probed: Sequence[Request], page: Derived | None) -> Probe:
    step = page.values.get("step_seconds") if page is not None else None
    found = summary(probed, step if isinstance(step, int | float) else None)
    return replace(found, page=page)


def _busiest(derived: Sequence[Derived]) -> Derived | None:
    """Give the model that generated most: the probe's, unless others were busier."""

    def generated(one: Derived) -> float:
        value = one.values.get("generation_tokens")
        return float(value) if isinstance(value, int | float) else 0.0

    return max(derived, key=generated, default=None)


def _derived(run: Run, hints: Hints) -> list[Derived]:
    seconds = run.last.time - run.first.time
    found = windows(run.first.totals, run.last, run.page, seconds, run.first.doubts)
    return [summarise(one, hints) for one in found.values()]


def _pieces(run: Run, model: str) -> list[Piece]:
    usual = usual_spacing([interval.seconds for interval in run.intervals])
    kept = [one for one in run.intervals if is_evidence(one, usual)]
    cut = (pieces(one, run.page.layout.dialect).get(model) for one in kept)
    return [piece for piece in cut if piece is not None]


def _stretch(interval: Interval, model: str) -> Stretch:
    sums = dict.fromkeys((_DRAFTED, _ACCEPTED), 0.0)
    for cell, growth in interval.deltas.items():
        if cell.model == model and cell.measure[:2] in sums:
            sums[cell.measure[:2]] += growth
    return Stretch(seconds=interval.seconds, drafted=sums[_DRAFTED], accepted=sums[_ACCEPTED])


def _waiting(moment: Moment) -> Mapping[str, float]:
    found = windows({}, whole_life(moment.page, 0.0), moment.page, None)
    return {name: one.gauges.get(Quantity.REQUESTS_WAITING, 0.0) for name, one in found.items()}
