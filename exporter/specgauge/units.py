"""Durations and sizes as people write them: `1m30s`, `64MiB`.

Text in, number out, and back; nothing here knows which key the text came from.
"""

import json
import re

DURATION_PATTERN = r"(?=.)(?:\d{1,9}d)?(?:\d{1,9}h)?(?:\d{1,9}m)?(?:\d{1,9}s)?(?:\d{1,9}ms)?"
SIZE_PATTERN = r"\d{1,15}(?:B|kB|KB|MB|GB|KiB|MiB|GiB)?"

_MILLISECONDS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
_BYTES = {
    "GiB": 1 << 30,
    "MiB": 1 << 20,
    "KiB": 1 << 10,
    "GB": 10**9,
    "MB": 10**6,
    "KB": 10**3,
    "kB": 10**3,
    "B": 1,
    "": 1,
}
_LONGEST_QUOTE = 60
LONGEST_SPAN = 366 * 86_400.0
"""Seconds that anybody may wait for, or look back over, at once: a year, leap years too."""


def quote(value: object) -> str:
    """Show a value in an error: quoted, on one line, cut where it grows long."""
    text = json.dumps(value, ensure_ascii=not str(value).isprintable(), default=str)
    return text if len(text) <= _LONGEST_QUOTE else text[: _LONGEST_QUOTE - 2] + '…"'


def parse_duration(text: str) -> float:
    """Read `500ms`, `30s`, `1m30s`, `1h` or `7d` as seconds."""
    if re.fullmatch(r"[0-9]+(?:\.[0-9]+)?", text):
        raise ValueError(f"{text[:12]} has no unit; write {text[:12]}s, or another of d h m s ms")
    if not re.fullmatch(DURATION_PATTERN, text, re.ASCII):
        raise ValueError(f"{quote(text)} is not a duration; write 3s, 500ms or 1m")
    parts = re.findall(r"(\d+)([a-z]+)", text, re.ASCII)
    return sum(int(number) * _MILLISECONDS[unit] for number, unit in parts) / 1000


def parse_span(text: str) -> float:
    """Read a duration that is waited for or looked back over: above 0s, and at most 366d."""
    seconds = parse_duration(text)
    if seconds <= 0.0:
        raise ValueError(f"{text} must be above 0s")
    if seconds > LONGEST_SPAN:
        raise ValueError(f"{text} is longer than 366d; write 366d or less")
    return seconds


def format_duration(seconds: float) -> str:
    """Write seconds the way `parse_duration` reads them, to the millisecond."""
    rest, parts = round(seconds * 1000), []
    for unit, length in _MILLISECONDS.items():
        number, rest = divmod(rest, length)
        if number:
            parts.append(f"{number}{unit}")
    return "".join(parts) or "0s"


def parse_size(text: str) -> int:
    """Read `64MiB`, `10MB` or `1024` as bytes."""
    if not re.fullmatch(SIZE_PATTERN, text, re.ASCII):
        raise ValueError(f"{quote(text)} is not a size; write 64MiB, 10MB or a number of bytes")
    digits = text.rstrip("BKMGik")
    return int(digits) * _BYTES[text[len(digits) :]]


def format_size(size: int) -> str:
    """Write bytes the way `parse_size` reads them, in the largest unit that divides them."""
    for unit, length in _BYTES.items():
        if size and size % length == 0 and length > 1:
            return f"{size // length}{unit}"
    return str(size)
