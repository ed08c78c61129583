"""The router that `specgauge render nginx` writes, in the machine's nginx, and what it tells.

It may only use what a user has: the installed command, nginx, and the files that both write.
"""

import io
import json
import shutil
import socket
import subprocess
import time
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.vllm.asking import Asked
from tests.vllm.engine import free_port
from tests.vllm.sidecar import COMMAND, surroundings

from specgauge.cli.main import main

MODULE = Path("/usr/lib/nginx/modules/ngx_http_js_module.so")
FOREGROUND = "daemon off;"
DEADLINE = 60.0


def find_nginx() -> str:
    """Find the machine's nginx; without it or its JavaScript module the tests are skipped."""
    found = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/sbin")
    if found is None or not MODULE.is_file():
        pytest.skip("nginx with its JavaScript module is missing: `make packages` as root")
    return found


@dataclass(slots=True, kw_only=True)
class Router:
    """A running nginx; the folder has to be open to all, for its workers may be nobody."""

    program: str
    folder: Path
    port: int
    _process: subprocess.Popen[bytes] | None = None

    @classmethod
    def make(cls, folder: Path) -> "Router":
        """Choose a port; nothing is written yet."""
        folder.chmod(0o755)
        return cls(program=find_nginx(), folder=folder, port=free_port())

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def config(self) -> Path:
        """The one file that it is rendered from, the sidecar runs by and explain decides by."""
        return self.folder / "specgauge.yaml"

    def keys(self, speculative: str, standard: str) -> dict[str, Any]:
        """Write the part of `routing` that says where everything is, in URLs."""
        return {
            "listen": f"127.0.0.1:{self.port}",
            "pools": {
                "speculative": {"servers": [speculative.removeprefix("http://")]},
                "standard": {"servers": [standard.removeprefix("http://")]},
            },
            "state_file": str(self.folder / "state.json"),
            "access_log": str(self.folder / "access.log"),
        }

    def start(self) -> None:
        """Render it from the configuration, and return once it listens."""
        output = self.folder / "output"
        with output.open("wb") as file:
            subprocess.run(
                [COMMAND, "render", "nginx", "--config", self.config, "--output", self.folder],
                env=surroundings(),
                stdout=file,
                check=True,
                timeout=DEADLINE,
            )
            self._process = subprocess.Popen(
                [self.program, "-p", self.folder / "nginx", "-c", "nginx.conf", "-g", FOREGROUND],
                stdout=file,
                stderr=file,
            )
        deadline = time.monotonic() + DEADLINE
        while not self._listens():
            assert self._process.poll() is None, f"nginx ended: {output.read_text()}"
            assert time.monotonic() < deadline, f"nginx never listened: {output.read_text()}"
            time.sleep(0.1)

    def _listens(self) -> bool:
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self) -> None:
        """End it, whatever is under way."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(timeout=30)

    def lines(self, count: int) -> dict[str, dict[str, Any]]:
        """Read the access log by the requests' ids, once it has so many lines."""
        deadline = time.monotonic() + DEADLINE
        while True:
            text = (self.folder / "access.log").read_text()
            if text.count("\n") >= count or time.monotonic() > deadline:
                lines = [json.loads(line) for line in text.splitlines()]
                return {line["id"]: line for line in lines}
            time.sleep(0.1)

    def state(self) -> dict[str, Any]:
        """Read what the sidecar told it last; nothing before the first word."""
        file = self.folder / "state.json"
        found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
        return found

    def explain(self, asked: Asked, state: dict[str, Any]) -> dict[str, Any]:
        """Ask `specgauge route explain` where a request goes while that state holds."""
        body = self.folder / "request.json"
        body.write_text(json.dumps(asked.body))
        command = ["route", "explain", str(body), "--config", str(self.config), "--json"]
        command += ["--path", asked.path, "--flag", "on" if state["flag"] else "off"]
        if state["decode_concurrency"] is not None:
            command += ["--load", str(state["decode_concurrency"])]
        for name, value in asked.headers.items():
            command += ["--header", f"{name}: {value}"]
        with redirect_stdout(io.StringIO()) as output:
            assert main(command) == 0
        found: dict[str, Any] = json.loads(output.getvalue())
        return found
