"""Reads a token where it lies and knows what no error may show; it keeps and prints neither."""

from base64 import b64decode
from collections.abc import Mapping
from pathlib import Path

from aiohttp import hdrs
from yarl import URL

from specgauge.guard.flags.protocol import FlagError, WriteResult

_OPEN_HEADERS = {hdrs.ACCEPT, hdrs.ACCEPT_ENCODING, hdrs.USER_AGENT, hdrs.CONTENT_TYPE}
_SCHEMES = {"bearer", "basic", "token"}
_SHORTEST_SECRET = 4
_LONGEST_SECRET = 64 * 1024


def read_token(path: str, place: str) -> str:
    """Read the secret that `place` asks for, or raise a FlagError that says what to mend."""
    try:
        token = _read_text(Path(path)).strip()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no file of text"
        fix = "make the file readable or correct token_file"
        raise FlagError(
            WriteResult.IO, f"{place}: token_file {path} cannot be read: {reason}; {fix}"
        ) from None
    if not token or not token.isprintable():
        fault = "holds more than one line" if token else "is empty"
        raise FlagError(WriteResult.IO, f"{place}: token_file {path} {fault}; write one token")
    return token


def secrets_in(url: URL, headers: Mapping[str, str]) -> set[str]:
    """Gather what no error may show: what we send beside the open headers, whole and by word."""
    values = [value for name, value in headers.items() if name.title() not in _OPEN_HEADERS]
    found = {url.password or "", url.raw_password or "", *url.query.values()}
    if url.password:
        found.add(f"{url.user or ''}:{url.password}")
    for value in values:
        words = [word for word in value.split() if word.lower() not in _SCHEMES]
        found |= {" ".join(words), *words, *map(_plain, words)}
    return {secret for secret in found if len(secret) >= _SHORTEST_SECRET}


def _plain(word: str) -> str:
    """Read what Basic authentication carries: user and password behind base64."""
    try:
        return b64decode(word, validate=True).decode()
    except ValueError:
        return ""


def _read_text(path: Path) -> str:
    if path.exists() and not path.is_file():
        raise ValueError  # a pipe would be waited for without end
    with path.open(encoding="utf-8") as file:
        return file.read(_LONGEST_SECRET)
