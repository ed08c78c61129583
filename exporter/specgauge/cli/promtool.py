"""Prometheus' own reader of rules, where it is installed: what it says of rendered files."""

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from specgauge.render.files import RenderedFile

_PATIENCE = 60.0


def promtool_faults(files: Iterable[RenderedFile]) -> list[str] | None:
    """Let promtool check every rule file; gives what it minds, None where there is no promtool."""
    program = shutil.which("promtool")
    if program is None:
        return None
    faults: list[str] = []
    with TemporaryDirectory() as folder:
        for one in files:
            if not one.path.endswith(".rules.yaml"):
                continue
            path = Path(folder) / one.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(one.text, encoding="utf-8")
            answer = subprocess.run(  # noqa: S603 - nothing comes from outside
                [program, "check", "rules", path],
                capture_output=True,
                text=True,
                timeout=_PATIENCE,
                check=False,
            )
            if answer.returncode:
                faults.append(f"{one.path}: {' '.join(answer.stderr.split())}")
    return faults
