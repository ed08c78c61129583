"""From what a client asks for to the path that the rules see, as nginx reads it; no I/O."""

import re

_HOST = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*")
_QUOTED = re.compile(rb"%([0-9A-Fa-f]{2})")
_BROKEN = re.compile(r"%(?![0-9A-Fa-f]{2})|%00")


def path_of(target: str) -> str | None:
    """Read a path or URL: no query, decoded, `//` one slash, `.` and `..` followed.

    None where nginx answers 400: no path, broken quoting, or a way out at the top.
    """
    raw = re.split("[?#]", _HOST.sub("", target, count=1), maxsplit=1)[0]
    if not raw.startswith("/") or _BROKEN.search(raw):
        return None
    kept: list[str] = []
    read = _QUOTED.sub(lambda found: bytes((int(found[1], 16),)), raw.encode(errors="replace"))
    parts = read.decode(errors="replace").split("/")[1:]
    for part in parts:
        if part == ".." and not kept:
            return None
        if part == "..":
            kept.pop()
        elif part not in ("", "."):
            kept.append(part)
    closed = parts[-1] in ("", ".", "..") and kept
    return "/" + "/".join(kept) + ("/" if closed else "")
