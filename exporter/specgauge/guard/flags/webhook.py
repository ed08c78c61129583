"""Changes a flag by an HTTP call of the user's own making, or by a preset; it decides nothing."""

import base64
from binascii import Error as Base64Error
from collections.abc import Callable
from http import HTTPStatus

from specgauge.errors import ConfigError
from specgauge.guard.flags.http import FlagHttp, HttpAnswer, HttpTerms
from specgauge.guard.flags.presets import Says
from specgauge.guard.flags.protocol import FlagError, WriteResult
from specgauge.guard.flags.spelling import read_value
from specgauge.guard.flags.webhook_plan import Plan, Request, WebhookTerms, plan

_ABSENT = object()


def faults(terms: WebhookTerms, key: str) -> tuple[str, ...]:
    """Find what is wrong with the terms, each fault with its path in the configuration."""
    try:
        plan(terms, key)
    except ValueError as error:
        return tuple(f"flag.webhook.{line}" for line in str(error).splitlines())
    return ()


class Webhook:
    """One flag behind one or two URLs; `reason` gives the words that a body may carry."""

    name = "webhook"

    def __init__(
        self,
        terms: WebhookTerms,
        *,
        key: str,
        timeout: float = 5.0,
        reason: Callable[[], str] = str,
    ) -> None:
        found = faults(terms, key)
        if found:
            raise ConfigError(found)
        self._plan: Plan = plan(terms, key)
        self._reason = reason
        self._terms = terms
        self._timeout = timeout
        self._reading = self._plan.reading()
        writing = self._plan.writing(on=False)
        self._writer = self._open(writing)
        self._reader = self._open(self._reading) if self._reading else None
        self._place = f"{self._writer.place.rstrip('/')}{writing.path.partition('?')[0]}"

    @property
    def place(self) -> str:
        """The address that is written to, without its query."""
        return self._place

    @property
    def can_read(self) -> bool:
        """Whether there is a URL to read the flag back from."""
        return self._reading is not None

    async def read(self) -> bool | None:
        """Read the flag back; raises FlagError."""
        if self._reader is None or self._reading is None:
            raise FlagError(WriteResult.REFUSED, f"{self._place}: no read_url is configured")
        preset = self._plan.preset
        expect = (HTTPStatus.OK, *((preset.unset,) if preset.unset else ()))
        answer = await self._reader.call(self._reading.method, self._reading.path, expect=expect)
        if answer.status == preset.unset:
            return None
        if answer.is_html or self._plan.value_path:
            found = self._find(answer.json())
        else:
            found = answer.body.decode(errors="replace")
        if found is _ABSENT:
            where = ".".join(self._plan.value_path)
            raise answer.unreadable(f"the answer holds no {where}; correct read_value")
        if found is None:
            return None
        return self._understand(found, answer)

    async def write(self, on: bool) -> bool | None:
        """Make the call for on or off; raises FlagError where its answer says that it failed."""
        try:
            request = self._plan.writing(on=on, reason=self._reason())
        except ValueError as error:
            raise FlagError(WriteResult.REFUSED, f"{self._place}: {error}") from error
        answer = await self._writer.call(
            request.method,
            request.path,
            headers=self._plan.preset.headers,
            body=request.body,
            expect=self._plan.preset.expect_status,
        )
        stated = self._stated(answer)
        if stated not in {None, on}:
            detail = f"{answer.place}: answered {answer.status}, but that the flag is unchanged"
            raise FlagError(WriteResult.UNVERIFIED, detail)
        return stated

    async def close(self) -> None:
        """Give up connections; none outlives its call."""

    def _open(self, request: Request) -> FlagHttp:
        preset = self._plan.preset
        return FlagHttp(
            HttpTerms(
                url=request.root,
                timeout=self._timeout,
                headers=self._terms.headers,
                token_file=self._terms.token_file,
                token=self._terms.token,
                token_header=preset.auth_header,
                token_scheme=preset.auth_scheme,
                ca_file=self._terms.ca_file,
            )
        )

    def _stated(self, answer: HttpAnswer) -> bool | None:
        """Find what an answer to a write says of the flag; None where it says nothing."""
        says = self._plan.preset.says
        if answer.is_html:
            raise answer.unreadable("answered with HTML, a page for people; is the URL right?")
        if says is Says.SUCCESS:
            if answer.json() is not True:
                raise FlagError(WriteResult.REFUSED, f"{answer.place}: the store did not take it")
            return None
        if says is Says.NOTHING or not self._plan.value_path:
            return None
        try:
            found = self._find(answer.json())
        except FlagError:
            return None  # "OK" and nothing at all are fine answers
        return None if found is _ABSENT else read_value(found)

    def _find(self, document: object) -> object:
        """Follow the dotted path; `_ABSENT` where it leads nowhere."""
        for piece in self._plan.value_path:
            if isinstance(document, dict) and piece in document:
                document = document[piece]
            elif isinstance(document, list) and piece.isdigit() and int(piece) < len(document):
                document = document[int(piece)]
            else:
                return _ABSENT
        return document

    def _understand(self, found: object, answer: HttpAnswer) -> bool:
        text = found
        if self._plan.preset.base64 and self._plan.value_path:
            try:
                text = base64.b64decode(str(found), validate=True).decode()
            except (Base64Error, ValueError):
                raise answer.unreadable("the value is not base64; correct read_value") from None
        value = read_value(text)
        if value is None:
            raise answer.unreadable("the value is none of true, false, on, off, 1, 0")
        return value
