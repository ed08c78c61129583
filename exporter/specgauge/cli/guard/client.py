"""Asks a running sidecar about its guard, over its own API; it follows no redirect or proxy.

Every call ends within its timeout, and an answer beyond its size is refused.
"""

import asyncio
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from specgauge.cli.guard.place import Place
from specgauge.errors import SourceError, SpecgaugeError, UsageError
from specgauge.guard.flags.http import FlagHttp, HttpAnswer, HttpTerms
from specgauge.guard.flags.protocol import FlagError, WriteResult
from specgauge.model.outcome import ScrapeResult

SCHEMA = "specgauge.guard_status/v1"
GUARD = "/api/v1/guard"
OVERRIDE = "/api/v1/guard/override"

_MOST_BYTES = 8 << 20
_SECONDS = 10.0
_EXPECTED = (
    HTTPStatus.OK,
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.NOT_FOUND,
    HTTPStatus.CONFLICT,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
)
_REFUSED = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE})
_RESULTS = {
    WriteResult.TIMEOUT: ScrapeResult.TIMEOUT,
    WriteResult.UNREACHABLE: ScrapeResult.UNREACHABLE,
    WriteResult.TLS: ScrapeResult.TLS,
    WriteResult.REDIRECT: ScrapeResult.REDIRECT,
}


class NoGuardError(SpecgaugeError):
    """The sidecar runs, and guards nothing; ends with 1."""


class NotItsTurnError(SpecgaugeError):
    """The sidecar runs, and another process guards the flag; ends with 1."""


def fetch_guard(place: Place) -> dict[str, Any]:
    """Ask how the guard stands; gives its document.

    Raises NoGuardError where none is configured, SourceError where there is no such answer.
    """
    answer = _call(place, "GET", GUARD)
    if answer.status == HTTPStatus.NOT_FOUND:
        raise _unreadable(answer, "no such page; is it a sidecar that knows the guard?")
    found = _document(answer)
    if found.get("schema") != SCHEMA:
        raise _unreadable(answer, f"the answer is not {SCHEMA}; is it a sidecar of this release?")
    if found.get("state") is None:
        raise _no_guard(place)
    return found


def send_override(place: Place, wish: Mapping[str, object]) -> dict[str, Any]:
    """Hand an operator's wish over; gives the answer.

    Raises UsageError where the wish or the token is refused, NoGuardError where there is nothing
    to override, NotItsTurnError where another process has to be asked.
    """
    answer = _call(place, "POST", OVERRIDE, wish)
    said = _said(answer)
    if answer.status == HTTPStatus.NOT_FOUND:
        raise _no_guard(place)
    if answer.status == HTTPStatus.UNAUTHORIZED:
        given = "was not accepted" if place.has_token else "is missing"
        raise UsageError(f"{place.url}: the token {given}; give --token-file or --config")
    if answer.status == HTTPStatus.FORBIDDEN:
        raise UsageError(f"{place.url}: overrides are not allowed: {said or 'forbidden'}")
    if answer.status in _REFUSED:
        raise UsageError(f"{place.url}: {said or 'refused'}")
    return _document(answer)


def _call(
    place: Place, method: str, path: str, document: Mapping[str, object] | None = None
) -> HttpAnswer:
    """Ask, and answer for what may come back from any route; raises for what is no answer."""
    headers = {"Authorization": f"Bearer {place.token}"} if place.token else {}
    terms = HttpTerms(
        url=place.url,
        timeout=_SECONDS,
        headers=headers,
        token_file=None if place.token_file is None else str(place.token_file),
        max_bytes=_MOST_BYTES,
    )
    try:
        http = FlagHttp(terms)
    except ValueError as error:
        raise UsageError(f"--url: {error}") from None
    try:
        answer = asyncio.run(http.call(method, path, document=document, expect=_EXPECTED))
    except FlagError as error:
        if error.result in {WriteResult.REFUSED, WriteResult.IO}:
            raise UsageError(error.detail) from None
        result = _RESULTS.get(error.result, ScrapeResult.HTTP_STATUS)
        hint = "; is the sidecar running there?" if result is ScrapeResult.UNREACHABLE else ""
        raise SourceError(result, f"{error.detail}{hint}") from None
    if answer.status == HTTPStatus.CONFLICT:
        why = _said(answer) or "another process guards this flag; ask that one"
        raise NotItsTurnError(f"{place.url}: {why}")
    return answer


def _said(answer: HttpAnswer) -> str:
    """Give what the sidecar answered as one line."""
    return " ".join(answer.body.decode(errors="replace").split())[:300]


def _document(answer: HttpAnswer) -> dict[str, Any]:
    try:
        found = answer.json()
    except FlagError as error:
        raise SourceError(ScrapeResult.UNRECOGNISED_EXPOSITION, error.detail) from None
    if answer.status != HTTPStatus.OK or not isinstance(found, dict):
        raise _unreadable(answer, "not the answer of a sidecar; is the URL right?")
    return found


def _unreadable(answer: HttpAnswer, detail: str) -> SourceError:
    return SourceError(ScrapeResult.UNRECOGNISED_EXPOSITION, f"{answer.place}: {detail}")


def _no_guard(place: Place) -> NoGuardError:
    return NoGuardError(f"{place.url}: no guard is configured; add guard: to its configuration")
