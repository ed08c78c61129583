"""What a sweep must know of vLLM's speculation methods and releases, as tables.

Knows nothing of flags; nothing here is measured.
"""

import re

NEEDS_DRAFT = frozenset(
    {"draft_model", "eagle", "eagle3", "medusa", "mlp_speculator", "dflash", "dspark"}
)
"""Methods that draft with a model or head of their own."""

CHAINS = frozenset({"ngram", "ngram_gpu", "draft_model", "eagle", "eagle3", "mtp"})
"""Methods whose draft of k' tokens is the beginning of their draft of k tokens; and all *_mtp."""

NOT_CHAINS = frozenset({"speculative_token_tree", "parallel_drafting"})
"""Keys of a speculative configuration that make another shape of draft."""

SCHEDULE_SINCE = (0, 24)
"""Release from which vLLM takes k by batch size."""


def is_chain(method: str, keys: frozenset[str] = frozenset()) -> bool:
    """Tell whether cutting this method's draft short leaves the rest of it as it was."""
    return (method in CHAINS or method.endswith("_mtp")) and not keys & NOT_CHAINS


def release(version: str | None) -> tuple[int, int] | None:
    """Give a release as numbers, 0.25.1+cpu as (0, 25); None where it is none."""
    found = re.match(r"(\d{1,6})\.(\d{1,6})(?!\d)", version or "")
    return (int(found[1]), int(found[2])) if found else None
