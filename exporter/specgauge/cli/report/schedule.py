"""Makes of this command line one that is run every week."""

import shutil
from collections.abc import Mapping
from typing import Any

from specgauge.cli.report.plan import Plan
from specgauge.errors import UsageError
from specgauge.report.schedule import Job, kubernetes, systemd

_WRITERS = {"systemd": systemd, "kubernetes": kubernetes}
_OPTIONS = {
    "url": "--prometheus",
    "last": "--last",
    "compare_to": "--compare-to",
    "selector": "--selector",
    "gpus_per_server": "--gpus-per-server",
    "form": "--format",
    "output": "--output",
    "webhook": "--webhook",
}
_FILES = {"config_file": ("config", "--config"), "token_file": ("token", "--token-file")}


def scheduled(kind: str, given: Mapping[str, Any], plan: Plan) -> str:
    """Write what runs it; the end is the time at which it runs."""
    if given["until"] != "now":
        raise UsageError("--until and --schedule: what is scheduled ends when it runs")
    given = {**given, "output": _output(kind, plan.output)}
    words, files = ["report"], {}
    for key, (name, option) in _FILES.items():
        if given[key] is not None:
            path = str(given[key].resolve())
            words += [option, path]
            files[name] = path
    for key, option in _OPTIONS.items():
        if given[key] is not None:
            words += [option, str(given[key])]
    program = shutil.which("specgauge") or "/usr/local/bin/specgauge"
    return _WRITERS[kind](Job(words=words, output=given["output"], files=files, program=program))


def _output(kind: str, output: str | None) -> str | None:
    """Let a CronJob write into a folder of its own, where its claim is mounted."""
    apart = output is not None and output.startswith("/") and output.count("/") > 1
    if kind != "kubernetes" or output is None or apart:
        return output
    return f"/reports/{output.removeprefix('/')}"
