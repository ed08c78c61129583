"""The command line under test: the sidecar beside a server, and one-shot inspections.

It may only use what a user has: the installed command, its output and its exit code.
"""

import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COMMAND = Path(sys.executable).with_name("specgauge")
WINDOW_SECONDS = 60  # the sidecar's own default
LISTENING = re.compile(r"listening.*?(http://127\.0\.0\.1:\d+)")


def surroundings() -> dict[str, str]:
    """Return the environment less what would configure specgauge, or these tests."""
    return {name: value for name, value in os.environ.items() if not name.startswith("SPECGAUGE_")}


@dataclass(slots=True, kw_only=True)
class Sidecar:
    """`specgauge serve` beside one target, on a port of the kernel's choosing.

    Given a configuration file, it has its target from there.
    """

    target: str
    log: Path
    config: Path | None = None
    url: str = ""
    _process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and return once it has said where it listens."""
        source = ["--config", self.config] if self.config else ["--target", self.target]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [COMMAND, "serve", *source, "--listen", "127.0.0.1:0"],
                env=surroundings(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        deadline = time.monotonic() + 60
        while not (said := LISTENING.search(self.log.read_text())):
            assert self._process.poll() is None, f"the sidecar ended: {self.log.read_text()}"
            assert time.monotonic() < deadline, f"it never listened: {self.log.read_text()}"
            time.sleep(0.1)
        self.url = said[1]

    def stop(self) -> int:
        """End it as an init system would and return its exit code."""
        if self._process is None:
            return 0
        self._process.terminate()
        try:
            return self._process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait(timeout=15)


def inspect(*arguments: str | Path) -> dict[str, Any]:
    """Run `specgauge inspect --json` and return what it says about the only model."""
    return _only_model(_run("inspect", "--json", *arguments))


def verdict(*arguments: str | Path) -> dict[str, Any]:
    """Run `specgauge verdict --json` and return what it says about the only model."""
    return _only_model(_run("verdict", "--json", *arguments, codes=(0, 1, 4)))


def record_baseline(*arguments: str | Path) -> str:
    """Run `specgauge baseline record` to its end and return what it said of its levels."""
    return _run("baseline", "record", *arguments, seconds=300).stderr


def _run(
    *arguments: str | Path, codes: tuple[int, ...] = (0,), seconds: float = 60
) -> subprocess.CompletedProcess[str]:
    ran = subprocess.run(
        [COMMAND, *arguments],
        env=surroundings(),
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert ran.returncode in codes, f"{arguments[0]} ended with {ran.returncode}: {ran.stderr}"
    return ran


def _only_model(ran: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    answer = json.loads(ran.stdout)
    assert [model["model_name"] for model in answer["models"]] == ["tiny"], ran.stdout
    return {**answer, **answer["models"][0]}
