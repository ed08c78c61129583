"""Keeps a flag in a key of etcd over its JSON gateway; it writes over nothing that it has not seen.

Every write is a transaction that only holds while the key is as it was read. The gateway speaks
base64, writes numbers as strings, and leaves out whatever is zero, empty or false.
"""

import asyncio
import base64
from binascii import Error as Base64Error
from dataclasses import dataclass, field
from typing import Any, NoReturn

from specgauge.errors import ConfigError
from specgauge.guard.flags.http import FlagHttp, HttpAnswer, HttpTerms
from specgauge.guard.flags.protocol import FlagError, WriteResult

_SHOWN = 40
_ABSENT = "0"


@dataclass(frozen=True, slots=True, kw_only=True)
class EtcdTerms:
    """The keys of `flag.etcd`; the file of `token_file` holds what /v3/auth/authenticate gave."""

    url: str
    key: str
    token_file: str | None = None
    token: str | None = field(default=None, repr=False)
    on: str = "true"
    off: str = "false"
    ca_file: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """The key as it was seen: None and revision 0 where it does not exist."""

    text: str | None = None
    revision: str = _ABSENT


def faults(terms: EtcdTerms) -> tuple[str, ...]:
    """Find what is wrong with the terms, each fault with its path in the configuration."""
    found = [] if terms.key else ["flag.etcd.key: it is empty; name a key"]
    if terms.on.strip() == terms.off.strip():
        found.append("flag.etcd.on: it is the same text as off; write two that differ")
    return tuple(found)


class Etcd:
    """One flag in one key; blanks around its text do not matter when it is read."""

    name = "etcd"
    can_read = True

    def __init__(self, terms: EtcdTerms, *, timeout: float = 5.0) -> None:
        found = faults(terms)
        if found:
            raise ConfigError(found)
        self._key = terms.key
        self._texts = {True: terms.on, False: terms.off}
        self._timeout = timeout
        self._http = FlagHttp(
            HttpTerms(
                url=terms.url,
                timeout=timeout,
                token_file=terms.token_file,
                token=terms.token,
                token_scheme="",
                ca_file=terms.ca_file,
            )
        )

    @property
    def place(self) -> str:
        """The key and the server it lies on."""
        return f"key {self._key} in etcd at {self._http.place}"

    async def read(self) -> bool | None:
        """Read the key; None where there is none, FlagError where it says something else."""
        entry = await self._read()
        if entry.text is None:
            return None
        value = self._value(entry)
        if value is None:
            shown = repr(self._http.quote(entry.text[:_SHOWN]))
            wanted = f"neither {self._texts[True]!r} nor {self._texts[False]!r}"
            fix = "correct flag.etcd.on and off, or the key"
            raise FlagError(WriteResult.UNREADABLE, f"{self.place} holds {shown}, {wanted}; {fix}")
        return value

    async def write(self, on: bool) -> bool | None:
        """Put the text for the value unless it is there; a conflict where another was faster."""
        try:
            async with asyncio.timeout(self._timeout):
                entry = await self._read()
                if self._value(entry) is on:
                    return on
                now = await self._put(entry, self._texts[on])
        except TimeoutError as error:
            detail = f"{self.place}: no end within {self._timeout:g} s"
            raise FlagError(WriteResult.TIMEOUT, detail) from error
        if now is not None and self._value(now) is not on:
            self._conflict(now)
        return on

    async def close(self) -> None:
        """Give up connections."""
        await self._http.close()

    def _value(self, entry: _Entry) -> bool | None:
        """Tell which value the text stands for; None for no text and for any other."""
        if entry.text is None:
            return None
        texts = self._texts.items()
        return next((value for value, ours in texts if entry.text.strip() == ours.strip()), None)

    async def _read(self) -> _Entry:
        document = {"key": _encode(self._key)}
        answer = await self._http.call("POST", "/v3/kv/range", document=document)
        return _entry(answer, _object(answer, answer.json()))

    async def _put(self, seen: _Entry, text: str) -> _Entry | None:
        """Put the text if the key still is as seen; else give what it is now."""
        key = _encode(self._key)
        compare = {"key": key, "result": "EQUAL", "target": "MOD", "mod_revision": seen.revision}
        if seen.revision == _ABSENT:
            compare = {"key": key, "result": "EQUAL", "target": "CREATE", "create_revision": "0"}
        document = {
            "compare": [compare],
            "success": [{"request_put": {"key": key, "value": _encode(text)}}],
            "failure": [{"request_range": {"key": key}}],
        }
        answer = await self._http.call("POST", "/v3/kv/txn", document=document)
        said = _object(answer, answer.json())
        if said.get("succeeded") is True:
            return None
        responses = said.get("responses")
        if not isinstance(responses, list) or not responses:
            raise answer.unreadable("the answer is none of etcd's; is the URL right?")
        return _entry(answer, _object(answer, _object(answer, responses[0]).get("response_range")))

    def _holds(self, text: str) -> str:
        return f"it holds {self._http.quote(text[:_SHOWN])!r}"

    def _conflict(self, now: _Entry) -> NoReturn:
        shown = "it is gone" if now.text is None else self._holds(now.text)
        detail = f"{self.place} was changed by another at the same time: now {shown}"
        raise FlagError(WriteResult.CONFLICT, detail)


def _encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _object(answer: HttpAnswer, found: object) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise answer.unreadable("the answer is none of etcd's; is the URL right?")
    return found


def _entry(answer: HttpAnswer, found: dict[str, Any]) -> _Entry:
    """Read the answer to a range; every one of etcd's has a header, none has empty lists."""
    if "header" not in found:
        raise answer.unreadable("the answer is none of etcd's; is the URL right?")
    kvs = found.get("kvs", [])
    if not kvs:
        return _Entry()
    try:
        (one,) = kvs
        text = base64.b64decode(one.get("value", ""), validate=True).decode(errors="replace")
        return _Entry(text=text, revision=str(int(one["mod_revision"])))
    except (ValueError, TypeError, KeyError, AttributeError, Base64Error) as error:
        raise answer.unreadable("its key cannot be understood; is the URL right?") from error
