"""How things end: the exit codes of the commands and the results of a scrape."""

from enum import IntEnum, StrEnum


class ExitCode(IntEnum):
    """Exit codes, the same for every command."""

    OK = 0
    FAILED = 1
    USAGE = 2
    UNREADABLE = 3
    NO_VERDICT = 4


class ScrapeResult(StrEnum):
    """How one scrape of an engine ended; the `result` label of `specgauge_scrapes_total`."""

    OK = "ok"
    UNRECOGNISED_EXPOSITION = "unrecognised_exposition"
    NO_ENGINE_METRICS = "no_engine_metrics"
    TIMEOUT = "timeout"
    UNREACHABLE = "unreachable"
    TLS = "tls"
    HTTP_STATUS = "http_status"
    REDIRECT = "redirect"
    TOO_LARGE = "too_large"
    TRUNCATED = "truncated"
    BAD_ENCODING = "bad_encoding"
    NOT_METRICS = "not_metrics"
    UNSUPPORTED_CONTENT_TYPE = "unsupported_content_type"

    @property
    def page_arrived(self) -> bool:
        """Whether a whole metrics page was fetched and parsed: then the target counts as up."""
        return self in _ARRIVED


_ARRIVED = frozenset(
    {ScrapeResult.OK, ScrapeResult.UNRECOGNISED_EXPOSITION, ScrapeResult.NO_ENGINE_METRICS}
)
