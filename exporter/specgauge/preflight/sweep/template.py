"""A server's command line from a template: words apart first, so that no shell is needed.

Fills text in; starts nothing.
"""

import json
import re
import shlex
from collections.abc import Sequence

from specgauge.errors import UsageError
from specgauge.preflight.sweep.candidate import Candidate
from specgauge.units import quote

PLACES = ("port", "speculative", "k", "method", "draft", "name")
"""What may stand between << and >> in a template."""

_PLACE = re.compile(r"<<\s*([^<>]*?)\s*>>")
_WHOLE = "<<speculative>>"


def split(template: str) -> tuple[str, ...]:
    """Take a template apart into words; UsageError says what is wrong with it."""
    place = f"--server {quote(template)}"
    for name in _PLACE.findall(template):
        if name not in PLACES:
            known = ", ".join(f"<<{one}>>" for one in PLACES)
            raise UsageError(f"{place}: no <<{name}>>; there is {known}")
    try:
        words = shlex.split(_PLACE.sub(r"<<\1>>", template))
    except ValueError as problem:
        raise UsageError(f"{place}: {problem}; quote it as for a shell") from None
    if not words or "\0" in template:
        raise UsageError(f"{place}: no command in it")
    if "<<port>>" not in template.replace(" ", ""):
        raise UsageError(f"{place}: no <<port>> in it; each start has a port of its own")
    if any(_WHOLE in word and word != _WHOLE for word in words):
        raise UsageError(f"{place}: {_WHOLE} stands for whole arguments; put it alone")
    return tuple(words)


def varies(words: Sequence[str]) -> bool:
    """Tell whether anything but the port differs from candidate to candidate."""
    return any(set(_PLACE.findall(word)) - {"port"} for word in words)


def fill(words: Sequence[str], candidate: Candidate, port: int) -> list[str]:
    """Make the argument list that starts a candidate's server."""
    texts = {
        "port": str(port),
        "k": str(candidate.k or 0),
        "method": candidate.method,
        "draft": candidate.draft,
        "name": candidate.name,
    }
    made: list[str] = []
    for word in words:
        if word == _WHOLE:
            if candidate.config is not None:
                made += ["--speculative-config", json.dumps(dict(candidate.config))]
        else:
            made.append(_PLACE.sub(lambda found: texts[found[1]], word))
    return made
