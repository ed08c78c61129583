"""Which vLLM release drafts how, as one table; reads nothing and compares no models.

`None` as a last release means that the newest known one still does it.
"""

import re
from dataclasses import dataclass

from specgauge.errors import UsageError

Release = tuple[int, ...]

NEWEST = "0.33.0"
FIRST = "0.4.1"
NEEDS_NO_DRAFT = frozenset({"ngram", "ngram_gpu", "suffix"})
HEADS = frozenset({"eagle", "eagle3", "medusa", "mtp"})
METHODS = ("draft_model", "ngram", "ngram_gpu", "suffix", "eagle", "eagle3", "medusa", "mtp")
UNCHECKED_METHODS = ("mlp_speculator", "dflash", "dspark")

# Methods by the releases that have them. What was before 0.8.2 is only known for two.
_METHODS: dict[str, tuple[tuple[str, str | None], ...]] = {
    "draft_model": (("0.4.1", "0.9.2"), ("0.15.0", None)),
    "ngram": (("0.4.2", None),),
    "ngram_gpu": (("0.18.0", None),),
    "suffix": (("0.11.1", None),),
    "eagle": (("0.8.2", None),),
    "eagle3": (("0.8.5", None),),
    "medusa": (("0.8.2", "0.32.0"),),
    "mlp_speculator": (("0.8.2", "0.32.0"),),
    "mtp": (("0.9.0", None),),
    "dflash": (("0.20.0", None),),
    "dspark": (("0.25.0", None),),
}
_EARLIER_NOT_KNOWN = frozenset({"eagle", "medusa", "mlp_speculator"})
_NO_DRAFT_MODEL = "Speculative decoding with draft model is not supported yet."
_RENAMED_MTP = "0.11.0"
_RAISES = "0.15.0"
_HETEROGENEOUS = "0.25.0"
_RAISES_POSITIONS = "0.28.0"
# With a needless map the first was seen to start, the second to refuse.
_NEEDLESS_MAP = ("0.28.0", "0.32.0")
_LAST_V0 = "0.9.2"
_CONFIG = "0.8.2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What one release does with a method."""

    release: str
    has_method: bool | None
    method_says: str | None
    method_from: str | None
    compares_by_assertion: bool
    heterogeneous: bool
    draft_parallel_equal: bool
    raises_positions: bool
    takes_config: bool
    needless_map_refused: bool | None
    method_name: str
    newer_than_known: bool


def parse(text: str) -> Release:
    """Read a release; raises UsageError where it is none that speculates."""
    match = re.fullmatch(r"v?(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?(?:[.+-]?[a-z0-9.+]*)?", text)
    if match is None:
        raise UsageError(f"--release: {text!r} is no release of vLLM; write one as {NEWEST}")
    found = tuple(int(part or 0) for part in match.groups())
    if found < _numbers(FIRST):
        raise UsageError(f"--release: {text} does not speculate; {FIRST} is the first that does")
    return found


def rules(text: str, method: str) -> Rules:
    """Look up what a release does with a method."""
    release = parse(text)
    spans = _METHODS[method]
    has: bool | None = any(
        _numbers(first) <= release and (last is None or release <= _numbers(last))
        for first, last in spans
    )
    if not has and method in _EARLIER_NOT_KNOWN and release < _numbers(spans[0][0]):
        has = None
    later = [first for first, _ in spans if _numbers(first) > release]
    return Rules(
        release=text.removeprefix("v"),
        has_method=has,
        method_says=_refusal(method, release) if has is False else None,
        method_from=later[0] if later else None,
        compares_by_assertion=release < _numbers(_RAISES),
        heterogeneous=release >= _numbers(_HETEROGENEOUS),
        draft_parallel_equal=method == "draft_model" and release >= _numbers(_RAISES),
        raises_positions=method in {"eagle", "eagle3"} and release >= _numbers(_RAISES_POSITIONS),
        takes_config=release >= _numbers(_CONFIG),
        needless_map_refused=_between(release, *_NEEDLESS_MAP),
        method_name="deepseek_mtp"
        if method == "mtp" and release < _numbers(_RENAMED_MTP)
        else method,
        newer_than_known=release > _numbers(NEWEST),
    )


def _numbers(text: str) -> Release:
    return tuple(int(part) for part in text.split("."))


def _between(release: Release, last_without: str, first_with: str) -> bool | None:
    """Say whether a release does what began somewhere after one release and by another."""
    if release <= _numbers(last_without):
        return False
    return True if release >= _numbers(first_with) else None


def _refusal(method: str, release: Release) -> str | None:
    """Quote what a release without a method says, where that is known."""
    if method == "draft_model" and release > _numbers(_LAST_V0):
        return _NO_DRAFT_MODEL
    return None
