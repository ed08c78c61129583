"""The server of HAProxy whose state is the guard's flag, as a rendered router names it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """Where the flag lies: `socket` is a path or HOST:PORT; the names are HAProxy's own."""

    socket: str
    backend: str
    server: str
