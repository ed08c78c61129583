"""Turns the flag off and on again through the sidecar's own API, and reads it back each time.

It begins only where the guard stands in `active`, says for how long, and ends with `auto` whatever
happens: a run that is killed leaves an override that expires.
"""

import asyncio
from collections.abc import Callable, Mapping
from http import HTTPStatus
from time import monotonic, time
from typing import Any

from specgauge.cli.guard.client import GUARD, OVERRIDE
from specgauge.guard.flags.http import FlagHttp
from specgauge.guard.flags.protocol import FlagError
from specgauge.preflight.checklist.case import Exercise
from specgauge.preflight.checklist.reading import at, mappings, moment, parse_object, word

_PATIENCE = 30.0
_PAUSE = 0.2
_SPAN = "5m"
_REASON = "specgauge checklist --exercise"
_EXPECTED = (
    HTTPStatus.OK,
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.NOT_FOUND,
    HTTPStatus.CONFLICT,
)


class _Failed(Exception):  # noqa: N818 - ends one attempt
    """Says in words what did not come about."""


async def exercise(http: FlagHttp) -> Exercise:
    """Go through off, on and auto; gives how it went, and never raises."""
    source = f"{http.place.rstrip('/')}{OVERRIDE}"
    began = time()
    try:
        first = await _look(http)
        if at(first, "dry_run") is True:
            told = await _rehearse(http, began)
        else:
            told = await _turn(http, first)
    except (_Failed, FlagError, ValueError) as error:
        detail = getattr(error, "detail", None) or str(error)
        return Exercise(source=source, at=time(), done=False, told=f"exercise: {detail}")
    return Exercise(source=source, at=time(), done=True, told=told)


async def _turn(http: FlagHttp, first: Mapping[str, Any]) -> str:
    """Turn a flag off and on that is on, and leave it to the evidence again."""
    state = word(at(first, "state"))
    if state != "active" or at(first, "flag.confirmed") is not True:
        confirmed = at(first, "flag.confirmed")
        flag = "on" if confirmed is True else "off" if confirmed is False else "not known"
        raise _Failed(f"the guard is {state} and its flag {flag}; it begins from active and on")
    if at(first, "frozen") is True:
        raise _Failed("the guard is frozen by guard.freeze_file")
    try:
        went_off = await _have(http, "off", _reads(on=False), "off")
        went_on = await _have(http, "on", _reads(on=True), "on")
    finally:
        await asyncio.shield(_order(http, "auto"))
    await _wait(http, lambda one: at(one, "state") == "active", "active again")
    return (
        f"the flag was turned off and read back in {went_off:.1f} s, "
        f"on again in {went_on:.1f} s, and left to the evidence"
    )


async def _rehearse(http: FlagHttp, began: float) -> str:
    """In a dry run the flag stays, and the record says what would have been done."""

    def rehearsed(body: Mapping[str, Any]) -> bool:
        return any(
            word(one.get("reason")) == "override_off"
            and (moment(one.get("unix")) or 0) >= began - 1
            for one in mappings(body.get("history"))
        )

    try:
        went = await _have(http, "off", rehearsed, "in the record")
    finally:
        await asyncio.shield(_order(http, "auto"))
    return f"a dry run took the override down in {went:.1f} s, and wrote no flag"


def _reads(*, on: bool) -> Callable[[Mapping[str, Any]], bool]:
    def check(body: Mapping[str, Any]) -> bool:
        settled = at(body, "flag.pending_since") is None
        return at(body, "flag.confirmed") is on and at(body, "flag.desired") is on and settled

    return check


async def _have(
    http: FlagHttp,
    mode: str,
    check: Callable[[Mapping[str, Any]], bool],
    what: str,
) -> float:
    began = monotonic()
    await _order(http, mode)
    await _wait(http, check, what)
    return monotonic() - began


async def _order(http: FlagHttp, mode: str) -> None:
    wish = {"mode": mode, "reason": _REASON, **({} if mode == "auto" else {"for": _SPAN})}
    answer = await http.call("POST", OVERRIDE, document=wish, expect=_EXPECTED)
    if answer.status != HTTPStatus.OK:
        said = http.quote(answer.body.decode(errors="replace"))
        raise _Failed(f"{answer.place} answered {answer.status}: {said}")


async def _wait(http: FlagHttp, check: Callable[[Mapping[str, Any]], bool], what: str) -> None:
    end = monotonic() + _PATIENCE
    body: Mapping[str, Any] = {}
    while monotonic() < end:
        body = await _look(http)
        if check(body):
            return
        await asyncio.sleep(_PAUSE)
    why = word(at(body, "flag.last_error")) or f"the guard is {word(at(body, 'state'))}"
    raise _Failed(f"the flag is not {what} within {_PATIENCE:g} s: {why}")


async def _look(http: FlagHttp) -> Mapping[str, Any]:
    answer = await http.call("GET", GUARD)
    return parse_object(answer.body)
