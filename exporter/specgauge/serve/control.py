"""The routes of the guard and its flag: who may change something, and what is answered."""

import hmac
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Protocol

from aiohttp import web

from specgauge.guard.flags.embedded import EmbeddedFlag
from specgauge.guard.flags.openfeature import JsonAnswer, evaluate, flagd_document, unreadable
from specgauge.guard.once import RepeatedKeyError, load_once
from specgauge.model.view import View
from specgauge.serve.body import BodyError, read_body
from specgauge.serve.guard_document import guard_document, history_document
from specgauge.units import parse_duration

NO_STORE = {"Cache-Control": "no-store"}
_BEARER = "bearer"
_MODES = ("on", "off", "auto")
_LONGEST_REASON = 500
_LONGEST_SECONDS = 366 * 86400.0
_KEYS = {"mode", "for", "reason"}
_NO_GUARD = "no guard is configured; add guard: to the file"
_NOT_OURS = "another process holds guard.lock_file; ask that one"


class Commanded(Protocol):
    """What an operator can tell the guard."""

    def override(self, mode: str, seconds: float | None, reason: str) -> None:
        """Have the flag on, off or left to the evidence."""

    def probe(self) -> str:
        """Have the next probe at once; says why not, or nothing."""

    @property
    def ours(self) -> bool:
        """Whether this process decides, and not another that holds the lock."""

    @property
    def embedded(self) -> EmbeddedFlag | None:
        """The flag that is served here, where it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """What these routes answer from; `guard` is None where none is configured."""

    view: Callable[[], View]
    guard: Callable[[], Commanded | None]
    token: Callable[[], str | None]


def add_control(app: web.Application, control: Control) -> None:
    """Add the routes of the guard."""

    async def guard(_: web.Request) -> web.Response:
        return web.json_response(guard_document(control.view().guard), headers=NO_STORE)

    async def history(_: web.Request) -> web.Response:
        return web.json_response(history_document(control.view().guard), headers=NO_STORE)

    async def override(request: web.Request) -> web.Response:
        refused = refusal(request, control.token())
        if refused is not None:
            return refused
        return await _ordered(control.guard(), request)

    async def probe(request: web.Request) -> web.Response:
        refused = refusal(request, control.token())
        return _probe(control.guard()) if refused is None else refused

    async def ofrep(request: web.Request) -> web.Response:
        flag = _served(control)
        if flag is None:
            return _no_flag()
        return await _evaluated(flag, request)

    async def flagd(request: web.Request) -> web.Response:
        flag = _served(control)
        if flag is None:
            return _no_flag()
        return _answer(flagd_document(flag, request.headers.get("If-None-Match")))

    app.router.add_get("/api/v1/guard", guard)
    app.router.add_get("/api/v1/history", history)
    app.router.add_post("/api/v1/guard/override", override)
    app.router.add_post("/api/v1/guard/probe", probe)
    app.router.add_post("/ofrep/v1/evaluate/flags/{key:.+}", ofrep)
    app.router.add_get("/flags.json", flagd)


def refusal(request: web.Request, token: str | None) -> web.Response | None:
    """Refuse who may not change anything: without a token nobody may."""
    if token is None:
        return web.Response(
            text="no token_file is configured, so this route changes nothing\n",
            status=HTTPStatus.FORBIDDEN,
        )
    scheme, _, rest = request.headers.get("Authorization", "").partition(" ")
    sent = rest.lstrip(" ") if scheme.lower() == _BEARER else ""
    if hmac.compare_digest(sent.encode(errors="surrogateescape"), token.encode()):
        return None
    return web.Response(
        text="Authorization: Bearer with the token of token_file is needed\n",
        status=HTTPStatus.UNAUTHORIZED,
        headers={"WWW-Authenticate": "Bearer"},
    )


async def _ordered(guard: Commanded | None, request: web.Request) -> web.Response:
    try:
        body = await read_body(request)
    except BodyError as error:
        return _text(error.status, error.detail)
    return _override(guard, body)


async def _evaluated(flag: EmbeddedFlag, request: web.Request) -> web.Response:
    key = request.match_info["key"]
    try:
        body = await read_body(request)
    except BodyError as error:
        large = error.status is HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        return _answer(unreadable(key, error.detail, too_large=large))
    return _answer(evaluate(flag, key, body))


def _probe(guard: Commanded | None) -> web.Response:
    if guard is None:
        return _text(HTTPStatus.NOT_FOUND, _NO_GUARD)
    if not guard.ours:
        return _text(HTTPStatus.CONFLICT, _NOT_OURS)
    why_not = guard.probe()
    if why_not:
        return _text(HTTPStatus.CONFLICT, why_not)
    return web.json_response({"probe": "due"}, headers=NO_STORE)


def _override(guard: Commanded | None, body: bytes) -> web.Response:
    if guard is None:
        return _text(HTTPStatus.NOT_FOUND, _NO_GUARD)
    try:
        mode, seconds, reason = _read(body)
    except ValueError as error:
        return _text(HTTPStatus.BAD_REQUEST, str(error))
    if not guard.ours:
        return _text(HTTPStatus.CONFLICT, _NOT_OURS)
    guard.override(mode, seconds, reason)
    return web.json_response({"mode": mode, "for_seconds": seconds}, headers=NO_STORE)


def _read(body: bytes) -> tuple[str, float | None, str]:
    """Read an override; raises ValueError with what is wrong."""
    found = _load(body)
    if not isinstance(found, dict) or found.get("mode") not in _MODES:
        raise ValueError(f"mode must be one of {', '.join(_MODES)}")
    unknown = sorted(set(found) - _KEYS)
    if unknown:
        raise ValueError(f"{unknown[0][:40]!r} is not known here; send mode, for, reason")
    span, reason = found.get("for"), found.get("reason") or ""
    if not isinstance(reason, str) or len(reason) > _LONGEST_REASON or not reason.isprintable():
        raise ValueError(f"reason must be a line of at most {_LONGEST_REASON} characters")
    if span is not None and not isinstance(span, str):
        raise ValueError('for must be a duration such as "30m"')
    if found["mode"] == "auto" and span is not None:
        raise ValueError("for goes with on and off; auto holds until it is overridden")
    try:
        seconds = None if span is None else parse_duration(span)
    except ValueError as error:
        raise ValueError(f"for: {error}") from error
    if seconds is not None and seconds <= 0.0:
        raise ValueError("for must be longer than 0s")
    if seconds is not None and seconds > _LONGEST_SECONDS:
        raise ValueError("for must be at most 366d; leave it out to have it hold for good")
    return found["mode"], seconds, reason


def _load(body: bytes) -> Any:
    try:
        return load_once(body)
    except RepeatedKeyError as error:
        raise ValueError(str(error)) from None
    except (ValueError, RecursionError):
        raise ValueError('the body is not JSON; send {"mode": "off", "for": "30m"}') from None


def _served(control: Control) -> EmbeddedFlag | None:
    guard = control.guard()
    return None if guard is None else guard.embedded


def _answer(answer: JsonAnswer) -> web.Response:
    headers = {"ETag": answer.etag, "Cache-Control": "no-cache"} if answer.etag else dict(NO_STORE)
    empty = answer.status == HTTPStatus.NOT_MODIFIED
    return web.Response(
        status=answer.status,
        body=None if empty else answer.body,
        headers=headers,
        content_type=None if empty else "application/json",
    )


def _no_flag() -> web.Response:
    return _text(HTTPStatus.NOT_FOUND, "no flag is served here; it needs flag.backend: embedded")


def _text(status: HTTPStatus, line: str) -> web.Response:
    return web.Response(text=f"{line}\n", status=status)
