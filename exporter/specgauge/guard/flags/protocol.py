"""What every flag backend can do, and the ways in which it may fail; writes nothing itself."""

from enum import StrEnum
from typing import Protocol

from specgauge.errors import SpecgaugeError


class WriteResult(StrEnum):
    """How an attempt ended, as the label of the counter of writes."""

    OK = "ok"
    BAD_REQUEST = "400"
    UNAUTHORIZED = "401"
    FORBIDDEN = "403"
    NOT_FOUND = "404"
    CONFLICT = "409"
    TOO_MANY = "429"
    OTHER_4XX = "4xx"
    SERVER_ERROR = "5xx"
    TIMEOUT = "timeout"
    UNREACHABLE = "unreachable"
    TLS = "tls"
    REDIRECT = "redirect"
    UNVERIFIED = "unverified"
    UNREADABLE = "unreadable"
    REFUSED = "refused"
    IO = "io"


class FlagError(SpecgaugeError):
    """An attempt that failed; `detail` holds no secret, `retry_after` is in seconds."""

    def __init__(self, result: WriteResult, detail: str, retry_after: float | None = None) -> None:
        self.result = result
        self.detail = detail
        self.retry_after = retry_after
        super().__init__(f"{result}: {detail}")


class FlagBackend(Protocol):
    """One place that holds the flag. Every call ends within the backend's own timeout.

    `can_read` is false where there is nothing to read back: then a write that was answered as
    expected counts, and `confirmed` says that it is on the answer's word.
    """

    @property
    def name(self) -> str:
        """Its name in the configuration."""

    @property
    def place(self) -> str:
        """Where the flag lies, for people; never a secret."""

    @property
    def can_read(self) -> bool:
        """Whether `read` works."""

    async def read(self) -> bool | None:
        """Give the flag as it is, None where it was never set; raises FlagError."""

    async def write(self, on: bool) -> bool | None:
        """Ask for the flag to be on or off; give what the answer says it is now, None if nothing.

        Raises FlagError.
        """

    async def close(self) -> None:
        """Give up connections."""
