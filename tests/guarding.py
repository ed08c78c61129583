"""A guarded sidecar over an engine whose speed can be set, and decisions written by hand."""

import asyncio
import io
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import aiohttp
from tests.judging import base, line
from tests.servers import Script, answer, serving
from tests.sidecars import Running, until
from tests.written import Engine, write_page

from specgauge.cli.settings import guard_of, settings_of
from specgauge.config import load
from specgauge.guard.settings import GuardSettings
from specgauge.model.guard import Decision, Outcome, Phase
from specgauge.model.guard_view import FlagStatus, GuardView
from specgauge.model.settings import Settings
from specgauge.serve.app import Sidecar
from specgauge.serve.log import Log
from specgauge.serve.loop import Pace

KEY = "speculative_decoding_enabled"
TOKEN = "sesame-token"
SPEED = 20.0
BASELINE = base(line((0.001, 0.02 / 3), (1e6, 0.02 / 3)))
"""Without speculation a token takes 6.7 ms; a machine as it is makes one in half of that."""

QUICK = """
listen: "127.0.0.1:0"
scrape: {interval: 1s, timeout: 2s}
window: 8s
decision_window: 3s
"""
USUAL = {
    "startup_grace": "0s",
    "consecutive": "1",
    "cooldown": "4s",
    "recovery": "{probe_for: 3s}",
}
"""What the guard is told unless a test says otherwise: to act soon."""


@dataclass(slots=True, kw_only=True)
class Machine:
    """An engine in a world `speed` times as fast: 8 requests decode, 3 tokens a step.

    A step takes `slow` times 10 ms. While it is `down` it answers with 500.
    """

    speed: float = SPEED
    slow: float = 1.0
    drafting: bool = True
    down: bool = False
    waiting: float = 0.0
    url: str = ""
    asked: int = 0
    _last: float = field(default_factory=time.monotonic)
    _steps: int = 0
    _spent: float = 0.0
    _drafts: int = 0
    _tokens: int = 0

    def page(self) -> bytes:
        """Work for as long as has passed, and write the page of this moment."""
        now = time.monotonic()
        seconds, self._last = (now - self._last) * self.speed, now
        steps = int(8 * seconds / (0.01 * self.slow)) // 25 * 25
        self._steps += steps
        self._spent += steps * 0.01 * self.slow
        self._drafts += steps if self.drafting else 0
        self._tokens += steps * 3 + steps // 25
        requests = self._steps // 25
        return write_page(
            Engine(
                model="small",
                drafts=self._drafts,
                drafted=4 * self._drafts,
                accepted=2 * self._drafts,
                positions=[self._drafts * share for share in (0.8, 0.6, 0.4, 0.2)],
                tokens=self._tokens,
                firsts=requests,
                first_seconds=0.05 * requests,
                steps=self._steps,
                step_seconds=self._spent,
                finished=requests,
                running=8,
                waiting=self.waiting,
                usage=0.2,
            )
        )

    def restart(self) -> None:
        """Begin to count anew."""
        self._steps = self._drafts = self._tokens = 0
        self._spent = 0.0

    @property
    def script(self) -> Script:
        """Answer a request."""

        async def run(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.asked += 1
            writer.write(answer(status=500) if self.down else answer(self.page()))
            await writer.drain()

        return run


@asynccontextmanager
async def machine(**given: Any) -> AsyncIterator[Machine]:
    """Run a machine behind a port."""
    made = Machine(**given)
    async with serving(made.script) as server:
        made.url = server.url
        yield made


@dataclass(slots=True, kw_only=True)
class Desk:
    """The configuration of a guarded sidecar; what is written into its file counts at a reload."""

    file: Path
    env: Mapping[str, str] = field(default_factory=dict)

    def settings(self) -> Settings:
        config = load(self.file, env=self.env, overrides={})
        return replace(settings_of(config), baselines=(BASELINE,))

    def guard(self) -> GuardSettings | None:
        return guard_of(load(self.file, env=self.env, overrides={}))


def write_config(
    folder: Path,
    *machines: Machine,
    guard: str | None = "",
    flag: str = "",
    more: str = "",
) -> Path:
    """Write a configuration: the first machine speculates, the others do not."""
    rows = [
        f'  - {{name: {"spec" if not place else f"plain{place}"}, url: "{one.url}", '
        f"role: {'standard' if place else 'speculative'}}}\n"
        for place, one in enumerate(machines)
    ]
    parts = ["targets:\n", *rows, QUICK, more, "\n"]
    if guard is not None:
        usual = [f"{key}: {value}" for key, value in USUAL.items() if key not in guard]
        parts.append(f"guard: {{{', '.join(filter(None, [*usual, guard]))}}}\n")
    if flag:
        parts.append(f"flag: {{{flag}}}\n")
    file = folder / "specgauge.yaml"
    file.write_text("".join(parts))
    return file


def file_flag(folder: Path, text: str | None = "true") -> str:
    """Put a flag into a file, and name the backend that keeps it there."""
    if text is not None:
        (folder / "flag").write_text(text)
    return f"backend: file, check_interval: 1s, file: {{path: {folder / 'flag'}}}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded(Running):
    """A running sidecar with a guard."""

    desk: Desk

    @property
    def view(self) -> GuardView:
        found = self.sidecar.view.guard
        assert found is not None
        return found

    async def phase(self, phase: str) -> None:
        """Wait until it stands there."""
        await until(
            lambda: self.sidecar.view.guard is not None and self.view.phase == phase,
            f"the phase {phase}",
        )

    async def confirmed(self, *, on: bool) -> None:
        """Wait until the flag was read back so."""
        await until(lambda: self.view.flag.confirmed is on, f"the flag {on}")

    async def document(self, path: str = "/api/v1/guard") -> Any:
        async with self.client.get(path) as response:
            assert response.status == 200
            return await response.json()

    async def order(self, body: object, token: str | None = TOKEN) -> tuple[int, str]:
        """Send an operator's order; gives status and text."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        sent: Any = {"data": body} if isinstance(body, bytes) else {"json": body}
        async with self.client.post("/api/v1/guard/override", headers=headers, **sent) as response:
            return response.status, await response.text()


@asynccontextmanager
async def guarded(
    file: Path, *, env: Mapping[str, str] | None = None, speed: float = SPEED
) -> AsyncIterator[Guarded]:
    """Run the sidecar of a configuration in a world that goes fast."""
    desk, stream = Desk(file=file, env=env or {}), io.StringIO()
    made = Sidecar(
        desk.settings(),
        read_settings=desk.settings,
        pace=Pace(speed=speed),
        log=Log(stream),
        guard=desk.guard(),
        read_guard=desk.guard,
    )
    await made.start()
    try:
        async with aiohttp.ClientSession(made.url) as client:
            yield Guarded(sidecar=made, client=client, stream=stream, desk=desk)
    finally:
        await made.stop()


def decision(**more: Any) -> Decision:
    """Write the decision that turned the flag off."""
    given: dict[str, Any] = {
        "time": 125.0,
        "before": Phase.ACTIVE,
        "state": Phase.FALLBACK,
        "flag": False,
        "outcome": Outcome.DEGRADED,
        "reason": "speedup_below_one",
        "changed": True,
        "evidence": {"speedup_ratio": 0.7123456789, "tokens": 8123.0},
    }
    return Decision(**{**given, **more})


def guard_view(**more: Any) -> GuardView:
    """Write a view of a guard that has seen nothing."""
    given: dict[str, Any] = {
        "target": "spec",
        "dry_run": False,
        "phase": Phase.ACTIVE,
        "since": 1000.0,
        "flag": FlagStatus(key=KEY, backend="file", place="/run/flag"),
        "assessments": dict.fromkeys(Outcome, 0),
    }
    return GuardView(**{**given, **more})


Told = list[tuple[str, str]]


def telling(told: Told) -> Callable[[str, str], None]:
    """Give a listener that keeps what it is told."""
    return lambda what, detail: told.append((what, detail))
