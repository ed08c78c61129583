"""One server's life beside a sidecar, recorded once: the tests only look at the recording.

It may not judge: every wait is bounded and returns what was there; the tests say if it is right.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

from tests.vllm.client import Sent, prompts, send, total, up_to
from tests.vllm.engine import MODEL_NAME, MODELS, Engine, SpecLine
from tests.vllm.pages import Page, fetch_until
from tests.vllm.sidecar import WINDOW_SECONDS, Sidecar, inspect

GENERATED = "specgauge_generation_tokens_total"
STATE = "specgauge_speculation_state"
TARGET_UP = "specgauge_target_up"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """A way to start the server."""

    name: str
    speculative: Mapping[str, Any] | None = None
    crashes: bool = False

    @property
    def drafts(self) -> int:
        """How many tokens it is told to draft at a time."""
        return 0 if self.speculative is None else int(self.speculative["num_speculative_tokens"])


def draft_model(model: str, **more: object) -> dict[str, Any]:
    """Write the speculative configuration of a server with a draft model of its own."""
    path = str(MODELS / model)
    return {"method": "draft_model", "model": path, "num_speculative_tokens": 3, **more}


LOOKUP = {"num_speculative_tokens": 4, "prompt_lookup_max": 4, "prompt_lookup_min": 2}
NONE = Mode(name="none")
NGRAM = Mode(name="ngram", speculative={"method": "ngram", **LOOKUP}, crashes=True)
DRAFT = Mode(name="draft_model", speculative=draft_model("draft"))
SELF_DRAFT = Mode(name="self_draft", speculative=draft_model("target"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """What the sidecar showed while the server was gone and after it had come back."""

    down: Page
    back: Page
    engine: Page
    sent: Sent


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """Everything seen of one server: its own pages, the sidecar's, the client's and the log's."""

    mode: Mode
    warm: tuple[Sent, ...]
    live: Sent
    measured: tuple[Sent, ...]
    load_seconds: float
    before: Page
    after: Page
    live_sidecar: Page
    sidecar: Page
    idle_sidecar: Page
    live_inspect: dict[str, Any]
    two_pages: dict[str, Any]
    one_page: dict[str, Any]
    spec_lines: tuple[SpecLine, ...]
    crash: Crash | None

    @property
    def sent(self) -> tuple[Sent, ...]:
        """All that was sent, from the first request on."""
        return (*self.warm, self.live, *self.measured)


@contextmanager
def running(python: Path, mode: Mode, folder: Path) -> Iterator[tuple[Engine, Sidecar]]:
    """Keep a server and a sidecar beside it, and end both whatever happens."""
    engine = Engine(python=python, log=folder / "engine.log", speculative=mode.speculative)
    sidecar = Sidecar(target=engine.url, log=folder / "sidecar.log")
    try:
        engine.start()
        sidecar.start()
        yield engine, sidecar
    finally:
        sidecar.stop()
        engine.kill()


def record(python: Path, mode: Mode, folder: Path) -> Episode:
    """Run one server through everything the tests ask about."""
    with running(python, mode, folder) as (engine, sidecar):
        fetch_until(sidecar.url, _is_up, seconds=30)
        load, began = Load(url=engine.url), time.monotonic()
        warm = (load.bout(1, 1), load.bout(1, 1, chat=True))
        live, live_sidecar, live_inspect = _watch(load, engine, sidecar, mode)
        before, at_before = _settled(engine, (*warm, live)), time.monotonic()
        measured = (load.bout(1, 6), load.bout(4, 16), load.bout(4, 8, chat=True))
        after, at_after = _settled(engine, (*warm, live, *measured)), time.monotonic()
        generated = after.total("vllm:generation_tokens_total")
        caught_up = fetch_until(sidecar.url, _counts(generated), seconds=15)
        _write(folder, before=before, after=after, sidecar=caught_up)
        saved = (folder / "before.prom", folder / "after.prom")
        return Episode(
            mode=mode,
            warm=warm,
            live=live,
            measured=measured,
            load_seconds=at_after - began,
            before=before,
            after=after,
            live_sidecar=live_sidecar,
            sidecar=caught_up,
            live_inspect=live_inspect,
            two_pages=inspect("--window", f"{at_after - at_before:.3f}", *saved),
            one_page=inspect(saved[1]),
            idle_sidecar=fetch_until(sidecar.url, _is_quiet, seconds=WINDOW_SECONDS + 30),
            spec_lines=_logged(engine, after),
            crash=_crash(engine, sidecar, load, generated) if mode.crashes else None,
        )


@dataclass(slots=True, kw_only=True)
class Load:
    """The only sender of an episode, so that no prompt comes twice."""

    url: str
    _prompts: Iterator[str] = field(default_factory=prompts)

    def bout(self, concurrency: int, requests: int, *, chat: bool = False) -> Sent:
        """Send that many requests and wait for the last."""
        return self.keep_up(concurrency, up_to(requests), chat=chat)

    def keep_up(
        self,
        concurrency: int,
        more: Callable[[int], bool],
        *,
        chat: bool = False,
        lengths: Sequence[int] = (192,),
    ) -> Sent:
        """Send for as long as `more` holds."""
        return asyncio.run(
            send(
                self.url,
                MODEL_NAME,
                self._prompts,
                concurrency=concurrency,
                more=more,
                chat=chat,
                lengths=lengths,
            )
        )


def _watch(
    load: Load, engine: Engine, sidecar: Sidecar, mode: Mode
) -> tuple[Sent, Page, dict[str, Any]]:
    enough = Event()
    expected = "absent" if mode.speculative is None else "active"
    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(load.keep_up, 4, lambda _: not enough.is_set())
        try:
            page = fetch_until(
                sidecar.url, lambda page: page.state(STATE, "state") == expected, seconds=20
            )
            seen = inspect("--window", "3", engine.url)
        finally:
            enough.set()
        return sending.result(), page, seen


def _settled(engine: Engine, sent: tuple[Sent, ...]) -> Page:
    # A client can have its last chunk a moment before the server has counted it.
    expected = total(sent, "generation_tokens")
    return fetch_until(
        engine.url, lambda page: page.total("vllm:generation_tokens_total") == expected, seconds=10
    )


def _logged(engine: Engine, page: Page) -> tuple[SpecLine, ...]:
    drafted = page.total("vllm:spec_decode_num_draft_tokens_total")
    deadline = time.monotonic() + 30
    while sum(line.drafted for line in engine.spec_lines()) < drafted:
        if time.monotonic() > deadline:
            break
        time.sleep(0.5)
    return tuple(engine.spec_lines())


def _crash(engine: Engine, sidecar: Sidecar, load: Load, generated: float) -> Crash:
    engine.kill()
    down = fetch_until(sidecar.url, lambda page: page.total(TARGET_UP) == 0, seconds=30)
    engine.start()
    fetch_until(sidecar.url, _is_up, seconds=30)
    sent = load.bout(4, 8)
    page = _settled(engine, (sent,))
    back = fetch_until(sidecar.url, _counts(generated + sent.generation_tokens), seconds=15)
    return Crash(down=down, back=back, engine=page, sent=sent)


def _is_up(page: Page) -> bool:
    return page.total(TARGET_UP) == 1


def _is_quiet(page: Page) -> bool:
    return page.state(STATE, "state") in {"idle", "absent"}


def _counts(tokens: float) -> Callable[[Page], bool]:
    return lambda page: page.total(GENERATED) >= tokens


def _write(folder: Path, **named: Page) -> None:
    for name, page in named.items():
        (folder / f"{name}.prom").write_text(page.text)
