"""Which keys a recorded line may have, and which one was meant by one that it may not.

A key that nearly is one, or stands in the wrong place, is refused: what it says would be missing,
and decisions would rest on what is left. Another system's own keys are named and left out.
"""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import lru_cache
from itertools import chain

from specgauge.guard.evidence_keys import NUMBERS, WORDS

LINE = ("t", "page", "error", "evidence", "pool")
POOLS = ("standard", "speculative")

_RECORD = (
    "schema",
    "unix",
    "target",
    "flag_key",
    "config_hash",
    "from",
    "state",
    "flag",
    "outcome",
    "reason",
    "changed",
    "signal",
    "would_be",
    "dry_run_signals",
    "companions",
    "next_probe",
    "warnings",
    "operator",
    "says",
)
"""What our own record of a decision has besides; a record is a timeline of its evidence."""

_EVIDENCE = (*NUMBERS, *WORDS)
_NEAR = 0.7
_SHOWN = 60


def check_keys(found: Mapping[str, object]) -> tuple[str, ...]:
    """Give the keys that mean nothing here; raises ValueError for one that was meant to."""
    pool = found.get("pool")
    if isinstance(pool, str) and pool not in POOLS and (near := _near(pool, POOLS)):
        raise ValueError(f"pool {_shown(pool)} is not known; did you mean {near}?")
    evidence = found.get("evidence")
    if not isinstance(evidence, Mapping):
        return tuple(_unknown("", found, LINE, _RECORD))
    _check_place(found, evidence)
    standard = evidence.get("standard")
    inner = standard if isinstance(standard, Mapping) else {}
    return tuple(
        chain(
            _unknown("", found, LINE, _RECORD),
            _unknown("evidence.", evidence, _EVIDENCE, ()),
            _unknown("evidence.standard.", inner, NUMBERS, ()),
        )
    )


def _check_place(found: Mapping[str, object], evidence: Mapping[str, object]) -> None:
    """Refuse a key of the line within its evidence, and one of the evidence beside it."""
    for name in evidence:
        if name in LINE and name not in _EVIDENCE:
            raise ValueError(f"evidence.{name} is not known; {name} belongs beside evidence")
    for name in found:
        if name in _EVIDENCE and name not in _RECORD:
            raise ValueError(f"{name} is not known; it belongs inside evidence")


def _unknown(
    place: str, found: Mapping[str, object], known: tuple[str, ...], silent: tuple[str, ...]
) -> Iterator[str]:
    """Give each key that is none of these; one that stands for a missing key is refused."""
    for name in found:
        if name in known or name in silent:
            continue
        near = _near(name, known)
        if near is not None and near not in found:
            raise ValueError(f"{place}{_shown(name)} is not known; did you mean {near}?")
        yield f"{place}{_shown(name)}"


@lru_cache(maxsize=256)
def _near(name: str, known: tuple[str, ...]) -> str | None:
    """Give the one that is spelt nearly so, letters of either size and any divider alike."""
    plain = name.casefold().strip().replace("-", "_").replace(" ", "_")
    near = get_close_matches(plain[:_SHOWN], known, n=1, cutoff=_NEAR)
    return near[0] if near else None


def _shown(name: str) -> str:
    shown = name if len(name) <= _SHOWN else f"{name[:_SHOWN]}…"
    plain = shown and shown.isprintable() and shown.strip() == shown
    return shown if plain else repr(shown)
