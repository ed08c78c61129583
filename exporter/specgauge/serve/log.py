"""Structured log lines on stderr: time, level, event, then key=value; one line a change."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import TextIO

from aiohttp.http_exceptions import HttpProcessingError

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:/+@%[]")


class _Formatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """Write one record as one line, whatever the values hold."""
        at = datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]
        fields = getattr(record, "fields", {})
        pairs = "".join(f" {key}={_value(value)}" for key, value in fields.items())
        line = f"{at}Z {record.levelname.lower()} {record.getMessage()}{pairs}"
        if record.exc_info:
            line += f" error={_value(self.formatException(record.exc_info))}"
        return line


def _value(value: object) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if text and set(text) <= _PLAIN else json.dumps(text, ensure_ascii=False)


class RequestFaults(logging.Handler):
    """Takes aiohttp's own records: a request that is no HTTP is nobody's news, a fault of ours is.

    Each kind of fault is told once, in one line.
    """

    def __init__(self, log: "Log") -> None:
        super().__init__(logging.ERROR)
        self._log = log
        self._told: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Pass a fault of a handler of ours on."""
        error = record.exc_info[1] if record.exc_info else None
        if error is None or isinstance(error, HttpProcessingError | ConnectionError):
            return
        kind = f"{type(error).__name__}: {error}"
        if kind not in self._told:
            self._told.add(kind)
            self._log.warning("request_fault", error=kind)


def server_logger(log: "Log") -> logging.Logger:
    """Make the logger that a web server writes to."""
    logger = logging.Logger("specgauge.web", logging.ERROR)  # noqa: LOG001 - ours alone
    logger.addHandler(RequestFaults(log))
    return logger


class Log:
    """Writes events with their fields to a stream of its own; no global logger is touched."""

    def __init__(self, stream: TextIO | None = None) -> None:
        # Not getLogger: two sidecars in one process write to streams of their own.
        self._logger = logging.Logger("specgauge", logging.INFO)  # noqa: LOG001 - see above
        handler = logging.StreamHandler(stream or sys.stderr)
        handler.setFormatter(_Formatter())
        self._logger.addHandler(handler)

    def info(self, event: str, **fields: object) -> None:
        """Tell of a change."""
        self._logger.info(event, extra={"fields": fields})

    def warning(self, event: str, **fields: object) -> None:
        """Tell of a change for the worse."""
        self._logger.warning(event, extra={"fields": fields})

    def fault(self, event: str, **fields: object) -> None:
        """Tell of a fault of our own, with its traceback in one line."""
        self._logger.error(event, exc_info=True, extra={"fields": fields})  # noqa: LOG014 - called so
