"""One pool's whole record, and the file `specgauge.compare-run/v1` that keeps it for later.

Text in, values out, and back; opens no file.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from specgauge.baseline.faults import dotted
from specgauge.errors import BaselineError
from specgauge.preflight.compare.bouts import Bout, Count
from specgauge.preflight.compare.plan import Contest

GREEDY, AGAIN, PRODUCTION = "greedy", "again", "production"
"""The passes over the sample of prompts: at temperature 0, the same once more, as in production."""

Texts = tuple[str | None, ...]
_SHOWN = 5
_MOST_TOKENS, _MOST_STREAMS, _MOST_REPEATS = 10**6, 4096, 1000
_LEAST_WINDOW, _DAY = 0.1, 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What one pool told and did; `texts` are its answers to a sample, by class and pass.

    `speculated` says whether drafts were ever counted, None where nothing counts them.
    """

    facts: Mapping[str, str | int | bool] = field(default_factory=dict)
    bouts: tuple[Bout, ...] = ()
    texts: Mapping[str, Mapping[str, Texts]] = field(default_factory=dict)
    speculated: bool | None = None
    partial: bool = False
    out_of_memory_lines: Count | None = None
    notes: tuple[str, ...] = ()


def _sound(contest: Contest) -> Contest:
    """Refuse a plan that could not have come from a command line."""
    plan = contest
    if not (plan.loads and plan.temperatures and plan.classes):
        raise ValueError("a plan needs loads, temperatures and classes")
    if not 1 < plan.lengths.low <= plan.lengths.high <= _MOST_TOKENS:
        raise ValueError("lengths must rise, from 2 tokens on")
    if any(one.concurrency not in range(1, _MOST_STREAMS + 1) for one in plan.loads):
        raise ValueError(f"loads are whole numbers from 1 to {_MOST_STREAMS}")
    timed = _LEAST_WINDOW <= plan.window <= _DAY and 0.0 <= plan.warmup <= _DAY
    if not (1 < plan.repeats <= _MOST_REPEATS and timed):
        raise ValueError("repeats, window or warmup are out of range")
    return plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """A record with the plan that it is of; `prompts` are the digests of its sets by class."""

    schema: Literal["specgauge.compare-run/v1"] = "specgauge.compare-run/v1"
    contest: Annotated[Contest, AfterValidator(_sound)]
    endpoint: Literal["completions", "chat"] = "completions"
    samples: Annotated[int, Field(ge=0, le=10**6)] = 0
    prompts: Mapping[str, str] = field(default_factory=dict)
    record: Record


def dump(saved: Saved) -> str:
    """Write a record with its plan."""
    return _ADAPTER.dump_json(saved, indent=1).decode() + "\n"


def parse(text: str, *, source: str) -> Saved:
    """Read a record back; BaselineError names what is wrong and where."""
    try:
        document = json.loads(text, parse_constant=_refuse)
        return _ADAPTER.validate_python(document)
    except ValidationError as error:
        faults = [f"{source}: {dotted(one['loc'])}: {one['msg']}" for one in error.errors()]
        more = [f"{source}: and {len(faults) - _SHOWN} more"] if len(faults) > _SHOWN else []
        raise BaselineError(faults[:_SHOWN] + more) from None
    except (ValueError, RecursionError) as error:
        told = f"{source}: no record of a comparison ({error}); make one with --save"
        raise BaselineError([told]) from None


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is no number")


_ADAPTER: TypeAdapter[Saved] = TypeAdapter(Saved)
