"""The names that ready evidence may have; what they mean is read by `evidence`."""

from specgauge.model.derived import FIELDS
from specgauge.model.names import JUDGED

WORDS = (
    "model_name",
    "speculating",
    "restarted",
    "verdict",
    "verdict_reason",
    "reason",
    "standard",
)
"""Keys of evidence that are no numbers."""

_WINDOW = ("tokens", "requests", "first_tokens", "errors", "served", "restarts", "members")
_SPEED = ("speedup_ratio", "speedup_ratio_low", "speedup_ratio_high", *JUDGED)
_DECIDED = (
    "acceptance_floor",
    "acceptance_length_low",
    "acceptance_length_high",
    "past_acceptance_length",
    "collapsed_acceptance_length",
    "collapse_ratio",
    "collapse_ratio_high",
    "collapse_seconds",
    "error_ratio",
    "standard_error_ratio",
    "standard_restarts",
)
"""What the guard adds to a decision's numbers; no evidence for another one, but recorded in it."""

NUMBERS = tuple(dict.fromkeys((*_SPEED, *_WINDOW, *FIELDS, *_DECIDED)))
"""Keys of evidence, and of its `standard`, that are numbers."""
