"""Decides what may be repeated of a server's words: nothing that could be a secret; asks no one.

A server that complains may echo the token it was sent: whole, cut short, broken by lines, or as
JSON, URL, HTML, base64 or hex write it. What stands there whole and plainly is masked. If after
that the words still share a run of characters with any such form, none of them is repeated.
"""

import base64
import html
import re
from collections.abc import Callable, Collection
from urllib.parse import unquote

RUN = 6
"""So many characters in a row of a secret are not repeated; of a shorter one, all of it."""

MASK = "[secret]"
WITHHELD = "words that may hold a secret"
_READ = 4096
_LONGEST = 200
_ROUNDS = 3
_ESCAPES = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|([0-7]{3})|(.))", re.DOTALL)
_WHITE = re.compile(r"[\s\x00-\x1f\x7f\u200b-\u200f\ufeff]+")
_NO_WORD = re.compile(r"[\W_]+")


def excerpt(text: str, secrets: Collection[str]) -> str:
    """Give the beginning of a server's words as one short line without any form of a secret."""
    text, known = text[:_READ], sorted(filter(None, secrets), key=len, reverse=True)
    for secret in known:
        text = text.replace(secret, MASK)
    line = " ".join(text.split())
    if any(_shares(line, secret) for secret in known):
        return WITHHELD
    line = "".join(character if character.isprintable() else "?" for character in line)
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def _shares(line: str, secret: str) -> bool:
    """Tell whether a line holds a run of any form of a secret, however it is written."""
    seen = {view for text in _decoded(line.replace(MASK, "\n")) for view in _views(text)}
    found = {run for view in seen for run in _runs(view)}
    short = [form for form in _forms(secret) if len(form) < RUN]
    return any(form in view for form in short for view in seen) or any(
        not found.isdisjoint(_runs(form)) for form in _forms(secret)
    )


def _runs(text: str) -> set[str]:
    return {text[at : at + RUN] for at in range(len(text) - RUN + 1)}


def _forms(secret: str) -> set[str]:
    """Give what a secret looks like in words: itself, and as base64 and hex at any offset."""
    raw = secret.encode(errors="surrogateescape")
    written = [secret, raw.decode("latin-1"), raw.hex()]
    # The last character of a group depends on what follows it.
    written += [base64.b64encode(raw[at:]).decode().rstrip("=")[:-1] for at in range(3)]
    least = min(RUN, len(secret))
    return {form for text in written for form in _views(text) if len(form) >= least}


def _views(text: str) -> tuple[str, str]:
    """Give a text without its blanks, and without all that is no letter or digit."""
    dense = _WHITE.sub("", text).casefold()
    return dense, _NO_WORD.sub("", dense)


def _decoded(text: str) -> set[str]:
    """Give a text as it is, and as it reads when escapes are taken for what they stand for.

    One kind at a time, in every order: what one makes plain another may spoil.
    """
    found, fresh = {text}, {text}
    for _ in range(_ROUNDS):
        fresh = {decode(one) for one in fresh for decode in _DECODERS} - found
        found |= fresh
    return found


def _unslashed(text: str) -> str:
    return _ESCAPES.sub(_unescape, text)


def _unescape(found: re.Match[str]) -> str:
    four, two, octal, one = found.groups()
    if octal:
        return chr(int(octal, 8))
    if four or two:
        return chr(int(four or two, 16))
    return {"n": " ", "t": " ", "r": " ", "b": " ", "f": " "}.get(one, one)


_DECODERS: tuple[Callable[[str], str], ...] = (_unslashed, unquote, html.unescape)
