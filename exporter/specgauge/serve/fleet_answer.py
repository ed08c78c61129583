"""Reads what a Prometheus answers, and refuses whatever is not the whole answer; asks nothing."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from specgauge.errors import SpecgaugeError

_LONGEST = 200


class FleetReason(StrEnum):
    """Why there is nothing to judge a pool by, beside the results of a call."""

    QUERY_FAILED = "query_failed"
    PARTIAL = "partial_answer"
    WRONG_SHAPE = "wrong_shape"
    SEVERAL_SERIES = "several_series"
    NOT_FINITE = "not_finite"
    NO_SERIES = "no_series"
    TOO_FEW_SAMPLES = "too_few_samples"
    MEMBERS_MISSING = "members_missing"


class FleetError(SpecgaugeError):
    """A pool that cannot be judged now; `reason` is the code, `detail` a person's line."""

    def __init__(self, reason: str, detail: str) -> None:
        self.reason = reason
        self.detail = detail
        super().__init__(f"{reason}: {detail}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One series of an answer at one time, in Unix seconds; the value may be NaN."""

    labels: Mapping[str, str]
    time: float
    value: float


def read_vector(document: object) -> list[Sample]:
    """Read the answer to a query at one time; raises FleetError."""
    return [
        _sample(labels, one.get("value"))
        for labels, one in _series(_result(document, "vector"))
        if "histogram" not in one
    ]


def read_matrix(document: object) -> dict[float, list[Sample]]:
    """Read the answer to a query over a range, by time; raises FleetError."""
    found: dict[float, list[Sample]] = {}
    for labels, one in _series(_result(document, "matrix")):
        for pair in _list(one.get("values", [])):
            sample = _sample(labels, pair)
            found.setdefault(sample.time, []).append(sample)
    return found


def _result(document: object, kind: str) -> Sequence[object]:
    """Take the result out of an answer that says it is whole."""
    if not isinstance(document, dict):
        raise _wrong("the answer is no JSON object; is the URL of Prometheus right?")
    if document.get("status") != "success":
        said = f"{document.get('errorType') or 'error'}: {document.get('error') or 'no reason'}"
        raise FleetError(FleetReason.QUERY_FAILED, _short(said))
    if document.get("isPartial") is True:
        raise FleetError(FleetReason.PARTIAL, "the answer says that it is partial")
    warnings = document.get("warnings")
    if warnings:
        told = warnings[0] if isinstance(warnings, list) else warnings
        raise FleetError(FleetReason.PARTIAL, _short(f"the answer warns: {told}"))
    data = document.get("data")
    if not isinstance(data, dict) or data.get("resultType") != kind:
        raise _wrong(f"the answer holds no {kind}; is the URL of Prometheus right?")
    return _list(data.get("result"))


def _series(result: Sequence[object]) -> Iterator[tuple[Mapping[str, str], Mapping[str, Any]]]:
    for one in result:
        labels = one.get("metric") if isinstance(one, dict) else None
        if not isinstance(one, dict) or not isinstance(labels, dict):
            raise _wrong("a series without labels")
        yield labels, one


def _sample(labels: Mapping[str, str], pair: object) -> Sample:
    try:
        time, value = _list(pair)
        if not isinstance(value, str) or isinstance(time, bool):
            raise _wrong("a sample whose value is no text")
        found = Sample(labels=labels, time=float(str(time)), value=float(value))
    except ValueError:
        raise _wrong("a sample that is no pair of time and number") from None
    if not math.isfinite(found.time):
        raise _wrong("a sample without a time")
    return found


def _list(found: object) -> Sequence[object]:
    if not isinstance(found, list):
        raise _wrong("something else where a list was expected")
    return found


def _wrong(detail: str) -> FleetError:
    return FleetError(FleetReason.WRONG_SHAPE, detail)


def _short(text: str) -> str:
    line = "".join(one if one.isprintable() else " " for one in text)
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
