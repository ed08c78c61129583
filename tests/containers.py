"""The real stack's programs from container images, where they are not installed and Docker answers.

What is found is a path like that of an installed program: the tests are the same for both.
"""

import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROMETHEUS, ALERTMANAGER = "prom/prometheus:v2.42.0", "prom/alertmanager:v0.25.0"
IMAGES = {"prometheus": PROMETHEUS, "promtool": PROMETHEUS, "alertmanager": ALERTMANAGER}
"""The image of each program, of the releases that Debian has."""

_PATIENCE = 10.0


def program(name: str, *others: str) -> str | None:
    """Find a program by one of its names, installed or in an image; None where there is neither."""
    installed = next(filter(None, map(shutil.which, (name, *others))), None)
    return installed or contained(name)


def contained(name: str) -> str | None:
    """Write a script that runs a program from its image; None where no Docker engine answers.

    It shares the network, the user and the folders of the tests with the program.
    """
    docker = shutil.which("docker")
    if docker is None or name not in IMAGES or not _answers(docker):
        return None
    temporary = tempfile.gettempdir()
    words = [docker, "run", "--rm", "--init", "--network", "host", "--entrypoint", f"/bin/{name}"]
    words += ["--volume", f"{temporary}:{temporary}", "--volume", f"{ROOT}:{ROOT}"]
    command = f'{shlex.join(words)} --user "$(id -u):$(id -g)" --workdir "$PWD" {IMAGES[name]}'
    script = Path(tempfile.mkdtemp(prefix="specgauge-")) / name
    script.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    script.chmod(0o755)
    return str(script)


def _answers(docker: str) -> bool:
    try:
        told = subprocess.run([docker, "info"], capture_output=True, timeout=_PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        return False
    return told.returncode == 0
