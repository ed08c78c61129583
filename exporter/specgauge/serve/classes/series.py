"""What /metrics says of classes of traffic, from the view; a class that never came is not there."""

from collections.abc import Iterator
from itertools import accumulate

from prometheus_client.core import HistogramMetricFamily, Metric

from specgauge.model import class_names as names
from specgauge.model.series_name import SeriesName
from specgauge.model.traffic import ClassesView, ClassFigures, Drafted, Spread

Sample = tuple[SeriesName, tuple[str, ...], float]


def class_series(classes: ClassesView) -> Iterator[Sample]:
    """Give each sample that is no histogram's."""
    for result, count in classes.lines.items():
        yield names.LOG_LINES, (result,), count
    if classes.unread_bytes is not None:
        yield names.LOG_UNREAD, (), classes.unread_bytes
    for labels, figures in classes.figures.items():
        for name, value in _counters(figures):
            yield name, labels, value
        for context, drafted in figures.contexts.items():
            by_context = (*labels, context)
            for name, value in _drafted(drafted):
                yield name, by_context, value


def class_histograms(classes: ClassesView) -> Iterator[Metric]:
    """Give the histograms that hold something."""
    found: dict[SeriesName, list[tuple[tuple[str, ...], Spread]]] = {}
    for key, figures in classes.figures.items():
        found.setdefault(names.TTFT, []).append((key, figures.ttft))
        found.setdefault(names.E2E, []).append((key, figures.e2e))
        for context, drafted in figures.contexts.items():
            lengths = found.setdefault(names.ACCEPTANCE_LENGTH, [])
            lengths.append(((*key, context), drafted.lengths))
    for name, spreads in found.items():
        family = HistogramMetricFamily(name.name, name.help, labels=name.labels)
        for labels, spread in spreads:
            if spread.count:
                family.add_metric(labels, buckets=_buckets(spread), sum_value=spread.total)
        if family.samples:
            yield family


def _counters(figures: ClassFigures) -> Iterator[tuple[SeriesName, float]]:
    yield names.REQUESTS, figures.requests
    yield names.ERRORS, figures.errors
    yield names.RETRIES, figures.retries
    yield names.COMPLETION_TOKENS, figures.completion_tokens
    yield names.DECODE_TOKENS, figures.decode_tokens
    yield names.DECODE_SECONDS, figures.decode_seconds


def _drafted(drafted: Drafted) -> Iterator[tuple[SeriesName, float]]:
    yield names.DRAFTS, drafted.drafts
    yield names.DRAFT_TOKENS, drafted.draft_tokens
    yield names.ACCEPTED_TOKENS, drafted.accepted_tokens


def _buckets(spread: Spread) -> list[tuple[str, float]]:
    bounds = [*(repr(bound) for bound in spread.bounds), "+Inf"]
    return list(zip(bounds, accumulate(spread.counts), strict=True))
