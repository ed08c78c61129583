"""Drains a server of HAProxy or gives it traffic again, over the runtime socket; it edits no file.

The socket has no error code: success is an empty answer, every sentence is a failure, and only
the state that HAProxy shows afterwards proves anything. Changes last until HAProxy is reloaded.
"""

import asyncio
import re
from dataclasses import dataclass
from enum import IntFlag, StrEnum

from specgauge.errors import ConfigError
from specgauge.guard.flags.http_failures import clean
from specgauge.guard.flags.protocol import FlagError, WriteResult

_NAME = re.compile(r"[A-Za-z0-9_.:-]+")
_MAX_ANSWER = 1024 * 1024
_NEEDED = ("srv_name", "srv_admin_state", "srv_uweight", "srv_iweight")


class HaproxyMode(StrEnum):
    """How traffic is kept away: the server's state, or a weight of 0."""

    DRAIN = "drain"
    WEIGHT = "weight"


@dataclass(frozen=True, slots=True, kw_only=True)
class HaproxyTerms:
    """The keys of `flag.haproxy`; `socket` is a path or HOST:PORT, with level admin."""

    socket: str
    backend: str
    server: str
    mode: HaproxyMode = HaproxyMode.DRAIN


class _Admin(IntFlag):
    """What somebody wants of a server, as the bits of `srv_admin_state`."""

    MAINTENANCE = 0x01 | 0x02 | 0x04
    DRAIN = 0x08 | 0x10


@dataclass(frozen=True, slots=True, kw_only=True)
class _Server:
    """A server as HAProxy shows it; `first_weight` is the one of its configuration."""

    maintenance: bool
    drained: bool
    weight: int
    first_weight: int

    @property
    def on(self) -> bool:
        """Whether it is given new requests as long as it is healthy."""
        return not self.maintenance and not self.drained and self.weight > 0


def faults(terms: HaproxyTerms) -> tuple[str, ...]:
    """Find what is wrong with the terms, each fault with its path in the configuration."""
    found = [
        f"flag.haproxy.{key}: {name!r} is no name in HAProxy; write it as it stands there"
        for key, name in (("backend", terms.backend), ("server", terms.server))
        if not _NAME.fullmatch(name)
    ]
    if "/" not in terms.socket and not terms.socket.rpartition(":")[2].isdecimal():
        found.append(
            f"flag.haproxy.socket: {terms.socket!r} is neither; write the whole path or HOST:PORT"
        )
    return tuple(found)


class Haproxy:
    """One server of one backend; on means that HAProxy gives it new requests."""

    name = "haproxy"
    can_read = True

    def __init__(self, terms: HaproxyTerms, *, timeout: float = 5.0) -> None:
        found = faults(terms)
        if found:
            raise ConfigError(found)
        self._terms = terms
        self._timeout = timeout

    @property
    def place(self) -> str:
        """The server and the socket."""
        terms = self._terms
        return f"server {terms.backend}/{terms.server} of haproxy at {terms.socket}"

    async def read(self) -> bool | None:
        """Look whether the server is given new requests."""
        return (await self._bounded()).on

    async def write(self, on: bool) -> None:
        """Ask for the state or weight; FlagError where HAProxy or an operator is against it."""
        await self._bounded(on=on)

    async def close(self) -> None:
        """Every call has a connection of its own."""

    async def _bounded(self, *, on: bool | None = None) -> _Server:
        """Look at the server, then change it unless `on` is None, all within the timeout."""
        try:
            async with asyncio.timeout(self._timeout):
                server = await self._look()
                if on is not None:
                    await self._change(server, on=on)
                return server
        except TimeoutError as error:
            detail = f"{self.place}: no complete answer within {self._timeout:g} s"
            raise FlagError(WriteResult.TIMEOUT, detail) from error

    async def _change(self, server: _Server, *, on: bool) -> None:
        if on:
            self._check_free(server)
        elif server.maintenance:
            return  # drain would take it out of maintenance
        if self._terms.mode is HaproxyMode.DRAIN:
            setting = f"state {'ready' if on else 'drain'}"
        else:
            setting = f"weight {'100%' if on else '0'}"  # in percent of the first weight
        command = f"set server {self._terms.backend}/{self._terms.server} {setting}"
        answer = (await self._ask(command)).strip()
        if answer:
            raise self._refused(answer)

    def _check_free(self, server: _Server) -> None:
        """Refuse to end what an operator wants, and what our kind of change could not end."""
        if server.maintenance:
            raise self._refused("it is in maintenance; set it ready by hand")
        if self._terms.mode is HaproxyMode.WEIGHT:
            if server.drained:
                raise self._refused("it is drained; set it ready by hand, or use mode drain")
            if server.first_weight == 0:
                raise self._refused("its configured weight is 0; give it a weight there")
        elif server.weight == 0:
            raise self._refused("its weight is 0; set it by hand, or use mode weight")

    async def _look(self) -> _Server:
        answer = await self._ask(f"show servers state {self._terms.backend}")
        _, _, table = answer.partition("# ")
        lines = [line.split() for line in table.splitlines() if line.strip()]
        if not lines or not set(_NEEDED) <= set(lines[0]):
            raise self._refused(answer.strip() or "an empty answer")
        rows = [dict(zip(lines[0], line, strict=False)) for line in lines[1:]]
        for row in rows:
            if row["srv_name"] == self._terms.server:
                return self._read_row(row)
        names = ", ".join(row["srv_name"] for row in rows) or "none"
        raise self._refused(f"no such server; the backend has {names}")

    def _read_row(self, row: dict[str, str]) -> _Server:
        try:
            state = int(row["srv_admin_state"])
            return _Server(
                maintenance=bool(state & _Admin.MAINTENANCE),
                drained=bool(state & _Admin.DRAIN),
                weight=int(row["srv_uweight"]),
                first_weight=int(row["srv_iweight"]),
            )
        except (KeyError, ValueError) as error:
            detail = f"{self.place}: its state cannot be understood; is this HAProxy's socket?"
            raise FlagError(WriteResult.UNREADABLE, detail) from error

    async def _ask(self, command: str) -> str:
        """Send one line and take everything until HAProxy closes."""
        try:
            reader, writer = await self._connect()
            try:
                writer.write(f"{command}\n".encode())
                taken = bytearray()
                while piece := await reader.read(_MAX_ANSWER):
                    taken += piece
                    if len(taken) > _MAX_ANSWER:
                        detail = f"{self.place}: the answer is larger than {_MAX_ANSWER} bytes"
                        raise FlagError(WriteResult.UNREADABLE, detail)
            finally:
                writer.close()
        except OSError as error:
            raise self._unreachable(error) from error
        return taken.decode(errors="replace")

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        socket = self._terms.socket
        if "/" in socket:
            return await asyncio.open_unix_connection(socket)
        host, _, port = socket.rpartition(":")
        return await asyncio.open_connection(host.strip("[]"), int(port))

    def _refused(self, words: str) -> FlagError:
        detail = clean(f"{self.place}: {' '.join(words.split())}", ())
        return FlagError(WriteResult.REFUSED, detail)

    def _unreachable(self, error: OSError) -> FlagError:
        result = WriteResult.UNREACHABLE
        fix = "is HAProxy running?"
        if isinstance(error, FileNotFoundError):
            result = WriteResult.IO
            fix = "is HAProxy running, with `stats socket PATH level admin` in its global section?"
        elif isinstance(error, PermissionError):
            result = WriteResult.IO
            fix = "let this user use it: `mode 660 group GROUP` after `stats socket PATH`"
        reason = error.strerror or str(error)
        return FlagError(result, f"{self.place}: cannot connect: {reason}; {fix}")
