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
    """`specgauge serve` beside one target, on a port of the kernel's choosing."""

    target: str
    log: Path
    url: str = ""
    _process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and return once it has said where it listens."""
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [COMMAND, "serve", "--target", self.target, "--listen", "127.0.0.1:0"],
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
    ran = subprocess.run(
        [COMMAND, "inspect", "--json", *arguments],
        env=surroundings(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, f"inspect ended with {ran.returncode}: {ran.stderr}"
    answer = json.loads(ran.stdout)
    assert [model["model_name"] for model in answer["models"]] == ["tiny"], ran.stdout
    return {**answer, **answer["models"][0]}
