"""A real vLLM server on the processor, in its own process group, that ends for sure.

It may not be imported by anything outside tests/vllm, and it knows nothing of specgauge.
"""

import json
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from typing import Any

from tests.vllm.pages import get

MODELS = Path(__file__).parent / "models"
MODEL_NAME = "tiny"
READY_SECONDS = 300.0
TAIL_LINES = 40
LENGTH_ROUNDING = 0.0051  # the log has two decimals

SETTINGS = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "VLLM_LOG_STATS_INTERVAL": "5",
}


class EngineError(Exception):
    """The server under test could not be started; the message ends with its log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecLine:
    """What the server itself logged about speculation in one logging interval."""

    acceptance_length: float
    accepted: int
    drafted: int
    position_acceptance: tuple[float, ...]

    def drafts(self, longest: int) -> tuple[float, float]:
        """Bound the drafts behind the line: it has no count of them, and its length is rounded."""
        fewest, most = self.drafted / longest, float(self.drafted)
        extra = self.acceptance_length - 1
        if extra > LENGTH_ROUNDING:
            most = min(most, self.accepted / (extra - LENGTH_ROUNDING))
        return max(fewest, self.accepted / (extra + LENGTH_ROUNDING)), most


SPEC_LINE = re.compile(
    r"SpecDecoding metrics: Mean acceptance length: (?P<length>[\d.]+),"
    r".* Accepted: (?P<accepted>\d+) tokens, Drafted: (?P<drafted>\d+) tokens,"
    r" Per-position acceptance rate: (?P<positions>[\d., ]+), Avg Draft"
)


def spec_lines(log: str) -> list[SpecLine]:
    """Read the server's own account of speculation from its log."""
    return [
        SpecLine(
            acceptance_length=float(match["length"]),
            accepted=int(match["accepted"]),
            drafted=int(match["drafted"]),
            position_acceptance=tuple(float(part) for part in match["positions"].split(",")),
        )
        for match in SPEC_LINE.finditer(log)
    ]


def free_port() -> int:
    """Ask the kernel for a port nobody listens on: the server wants a number to begin with."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(slots=True, kw_only=True)
class Engine:
    """One server: started, killed and started again on the same port, with one log for all."""

    python: Path
    log: Path
    speculative: Mapping[str, Any] | None = None
    options: tuple[str, ...] = ()
    port: int = field(default_factory=free_port)
    start_seconds: list[float] = field(default_factory=list)
    _process: subprocess.Popen[bytes] | None = None
    _leash: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where the server listens."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the server and return once it answers on /health."""
        began = time.monotonic()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command(),
                env={**os.environ, **SETTINGS},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        # Should this process be killed, its end of the pipe closes and the group goes with it.
        self._leash = subprocess.Popen(
            ["sh", "-c", 'read -r _; kill -s KILL -- "-$1"', "leash", str(self._process.pid)],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._await_health(began + READY_SECONDS)
        self.start_seconds.append(time.monotonic() - began)

    def kill(self) -> None:
        """End the server and everything it started as a crash would: at once."""
        for process in (self._leash, self._process):
            if process is None:
                continue
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=30)
        if self._leash is not None and self._leash.stdin is not None:
            self._leash.stdin.close()
        self._process = self._leash = None

    def kill_core(self) -> None:
        """End only the process that computes, as the kernel does when memory runs out."""
        assert self._process is not None
        tasks = Path(f"/proc/{self._process.pid}/task")
        children = " ".join(file.read_text() for file in tasks.glob("*/children")).split()
        named = {int(pid): Path(f"/proc/{pid}/comm").read_text() for pid in children}
        (core,) = (pid for pid, name in named.items() if "EngineCor" in name)
        os.kill(core, signal.SIGKILL)

    def spec_lines(self) -> list[SpecLine]:
        """Read what the server has logged about speculation so far."""
        return spec_lines(self.log.read_text(errors="replace"))

    def tail(self) -> str:
        """Quote the end of the log, for an error message."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-TAIL_LINES:])

    def _command(self) -> list[str]:
        command = [str(self.python), "-m", "vllm.entrypoints.openai.api_server"]
        command += ["--host", "127.0.0.1", "--port", str(self.port)]
        command += ["--model", str(MODELS / "target"), "--served-model-name", MODEL_NAME]
        command += ["--max-model-len", "1024", "--max-num-seqs", "16", "--enforce-eager"]
        if self.speculative is not None:
            command += ["--speculative-config", json.dumps(self.speculative)]
        return [*command, *self.options]

    def _await_health(self, deadline: float) -> None:
        while self._process is not None and self._process.poll() is None:
            with suppress(OSError, HTTPException):
                if get(self.url, "/health")[0] == HTTPStatus.OK:
                    return
            if time.monotonic() > deadline:
                raise EngineError(
                    f"no /health in {READY_SECONDS:.0f} s; {self.log}:\n{self.tail()}"
                )
            time.sleep(0.5)
        raise EngineError(f"the server ended while starting; {self.log}:\n{self.tail()}")
