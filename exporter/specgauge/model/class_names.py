"""The series that tell of classes of traffic, from the router's access log."""

from specgauge.model.series_name import SeriesName, counter, gauge

_CLASS = ("class", "pool")
_CONTEXT = (*_CLASS, "context")


def _histogram(name: str, labels: tuple[str, ...], text: str) -> SeriesName:
    return SeriesName(name=f"specgauge_{name}", kind="histogram", labels=labels, help=text)


REQUESTS = counter("class_requests", _CLASS, "Requests of a class that a pool answered.")
ERRORS = counter("class_errors", _CLASS, "Those of them that failed or were broken off.")
RETRIES = counter("class_retries", _CLASS, "Further servers that were tried for them.")
COMPLETION_TOKENS = counter(
    "class_completion_tokens", _CLASS, "Tokens generated for answers that tell them."
)
DECODE_TOKENS = counter(
    "class_decode_tokens", _CLASS, "Tokens of streams after the first, where the answer tells them."
)
DECODE_SECONDS = counter(
    "class_decode_seconds", _CLASS, "Time in which those tokens came, added up."
)
DRAFTS = counter("class_drafts", _CONTEXT, "Drafts, as answers tell them.")
DRAFT_TOKENS = counter("class_draft_tokens", _CONTEXT, "Tokens that drafts proposed, likewise.")
ACCEPTED_TOKENS = counter(
    "class_accepted_tokens", _CONTEXT, "Draft tokens accepted, bonus excluded, likewise."
)
TTFT = _histogram("class_ttft_seconds", _CLASS, "Time to the first byte of a stream's body.")
E2E = _histogram("class_e2e_seconds", _CLASS, "Time of a whole request that was answered.")
ACCEPTANCE_LENGTH = _histogram(
    "class_acceptance_length", _CONTEXT, "Tokens a draft of one request gave on average, bonus too."
)
LOG_LINES = counter("class_log_lines", ("result",), "Lines of the access log by what they were.")
LOG_UNREAD = gauge("class_log_unread_bytes", (), "Bytes of the access log that are not read yet.")

CLASSES: tuple[SeriesName, ...] = (
    REQUESTS,
    ERRORS,
    RETRIES,
    COMPLETION_TOKENS,
    DECODE_TOKENS,
    DECODE_SECONDS,
    DRAFTS,
    DRAFT_TOKENS,
    ACCEPTED_TOKENS,
    TTFT,
    E2E,
    ACCEPTANCE_LENGTH,
    LOG_LINES,
    LOG_UNREAD,
)
