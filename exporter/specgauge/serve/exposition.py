"""What a scraper of ours is answered: format by `Accept`, gzip by `Accept-Encoding`, baked once.

A page is baked when it is first asked for and kept until the view changes, so that twenty
scrapers cost what one does.
"""

import gzip
from collections.abc import Callable
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.openmetrics.exposition import (
    CONTENT_TYPE_LATEST as CONTENT_TYPE_OPENMETRICS,
)
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

_OPENMETRICS = "application/openmetrics-text"
_TEXT = "text/plain"
_FAST = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Baked:
    """A body and what it must be announced as; `encoding` None for a plain one."""

    body: bytes
    content_type: str
    encoding: str | None


@dataclass(slots=True, kw_only=True)
class Oven:
    """Bakes a registry's page; `version` names the state that a baked page belongs to."""

    registry: CollectorRegistry
    version: Callable[[], object]
    _kept: dict[tuple[bool, bool], tuple[object, Baked]] = field(default_factory=dict)

    def bake(self, accept: str, accept_encoding: str) -> Baked:
        """Answer a request by its headers."""
        key = (wants_openmetrics(accept), accepts_gzip(accept_encoding))
        version = self.version()
        kept = self._kept.get(key)
        if kept is not None and kept[0] is version:
            return kept[1]
        baked = self._bake(*key)
        self._kept[key] = (version, baked)
        return baked

    def _bake(self, openmetrics: bool, zipped: bool) -> Baked:
        if zipped:
            plain = self.bake(_OPENMETRICS if openmetrics else _TEXT, "")
            body = gzip.compress(plain.body, compresslevel=_FAST, mtime=0)
            return Baked(body=body, content_type=plain.content_type, encoding="gzip")
        if openmetrics:
            written: bytes = generate_openmetrics(self.registry)  # type: ignore[no-untyped-call]
            return Baked(body=written, content_type=CONTENT_TYPE_OPENMETRICS, encoding=None)
        body = generate_latest(self.registry)
        return Baked(body=body, content_type=CONTENT_TYPE_PLAIN_0_0_4, encoding=None)


def wants_openmetrics(accept: str) -> bool:
    """Tell whether OpenMetrics is named in `Accept` and liked no less than plain text."""
    weights = _weights(accept)
    text = max(weights.get(_TEXT, 0.0), weights.get("text/*", 0.0))
    asked = weights.get(_OPENMETRICS, 0.0)
    return asked > 0.0 and asked >= text


def accepts_gzip(accept_encoding: str) -> bool:
    """Tell whether the client takes gzip; `gzip;q=0` refuses it."""
    weights = _weights(accept_encoding)
    return weights.get("gzip", weights.get("*", 0.0)) > 0.0


def _weights(header: str) -> dict[str, float]:
    """Read a list of names with q-values; a name given twice keeps its highest."""
    found: dict[str, float] = {}
    for item in header.lower().split(","):
        name, *parameters = (part.strip() for part in item.split(";"))
        weight = 1.0
        for parameter in parameters:
            if parameter.startswith("q="):
                try:
                    weight = min(max(float(parameter[2:]), 0.0), 1.0)
                except ValueError:
                    weight = 0.0
        if name:
            found[name] = max(weight, found.get(name, 0.0))
    return found
