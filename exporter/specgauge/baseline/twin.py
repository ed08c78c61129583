"""The server's own page beside the load: the twin of every figure that the client measures.

Fetches through whatever it is given; starts no load and refuses nothing.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from specgauge.baseline.observation import ONE_TOKEN
from specgauge.derive.accumulate import advance, open_ledger
from specgauge.derive.summary import summarise
from specgauge.derive.window import windows
from specgauge.engines.reader import Reader
from specgauge.model.derived import Derived, Hints, Speculation
from specgauge.model.ledger import Ledger, ModelWindow
from specgauge.model.quantity import Dialect, Page, Quantity


class Body(Protocol):
    """A fetched page; `complete` says that the transport vouches for its length."""

    @property
    def data(self) -> bytes:
        """The page."""

    @property
    def complete(self) -> bool:
        """Whether nothing of it can be missing."""


class Pages(Protocol):
    """Where a server's page and its small JSON documents are had from."""

    async def fetch(self) -> Body:
        """Fetch the metrics page; SourceError where there is none."""

    async def fetch_json(self, path: str) -> object | None:
        """Fetch a JSON document; None whatever goes wrong."""

    async def fetch_version(self) -> str | None:
        """Ask for the engine's release; None where the server does not tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The page at one moment, and what had added up by then."""

    time: float
    page: Page
    ledger: Ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class Between:
    """What the model did between two looks."""

    window: ModelWindow
    derived: Derived
    restarted: bool

    @property
    def waiting(self) -> float:
        """Requests in the waiting queue at the second look."""
        return self.window.gauges.get(Quantity.REQUESTS_WAITING, 0.0)

    @property
    def running(self) -> float:
        """Requests in execution at the second look."""
        return self.window.gauges.get(Quantity.REQUESTS_RUNNING, 0.0)

    @property
    def kv_usage(self) -> float | None:
        """Share of the KV cache in use at the second look."""
        return self.window.gauges.get(Quantity.KV_CACHE_USAGE)

    @property
    def generated(self) -> float | None:
        """Tokens generated between the looks."""
        return self.derived.number("generation_tokens")

    @property
    def prompted(self) -> float:
        """Prompt tokens of a request times requests: above 0 where any were taken in."""
        return self.derived.number("prompt_tokens_per_request") or 0.0

    @property
    def speculates(self) -> str | None:
        """Why this is no server without speculation; None where nothing says so."""
        if self.derived.speculation is Speculation.ACTIVE:
            return "it drafts tokens"
        per_step = self.derived.number("tokens_per_step") or 0.0
        if per_step > ONE_TOKEN and self.window.layout.dialect is not Dialect.VLLM_V0:
            return f"its steps yield {per_step:.2f} tokens a request"
        return None


class Twin:
    """Looks at one model on one server's page again and again."""

    def __init__(self, pages: Pages, model: str, clock: Callable[[], float]) -> None:
        self._pages = pages
        self._model = model
        self._clock = clock
        self._reader = Reader()
        self._ledger: Ledger | None = None
        self._turn = asyncio.Lock()

    async def look(self) -> Look:
        """Fetch the page and add it up; SourceError where that cannot be done."""
        async with self._turn:  # a ledger is advanced in the order of the pages
            asked = self._clock()
            body = await self._pages.fetch()
            time = (asked + self._clock()) / 2.0
            page = self._reader.read(body.data, complete=body.complete)
            if self._ledger is None:
                self._ledger = open_ledger(page, time)
            else:
                self._ledger, _ = advance(self._ledger, page, time)
            return Look(time=time, page=page, ledger=self._ledger)

    def between(self, before: Look, after: Look) -> Between | None:
        """Measure what lies between two looks; None where the model is not on the page."""
        seconds = after.time - before.time
        found = windows(
            before.ledger.totals, after.ledger, after.page, seconds, before.ledger.doubts
        )
        window = found.get(self._model)
        if window is None and len(found) == 1:
            window = next(iter(found.values()))  # served under several names
        if window is None:
            return None
        return Between(
            window=window,
            derived=summarise(window, Hints()),
            restarted=before.ledger.restarts != after.ledger.restarts,
        )

    def name_on(self, page: Page) -> str:
        """Tell under which name the page knows the model."""
        names = list(page.layout.engines)
        return names[0] if self._model not in names and len(names) == 1 else self._model
