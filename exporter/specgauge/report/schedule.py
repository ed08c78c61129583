"""What runs the report once a week: systemd units, or a CronJob; starts nothing itself."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from specgauge import __version__
from specgauge.report.templating import environment

_SAFE = re.compile(r"[A-Za-z0-9_@:,./=+-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A command line, word by word, and the files that it needs, by what they are."""

    words: Sequence[str]
    output: str | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    program: str = "/usr/local/bin/specgauge"


def systemd(job: Job) -> str:
    """Write a service and its timer, one after the other; files come to it as credentials."""
    names = {path: name for name, path in job.files.items()}
    words = [
        f"%d/{names[word]}" if word in names else systemd_word(word)
        for word in (job.program, *job.words)
    ]
    return _fill("systemd.txt", job, command=" ".join(words))


def kubernetes(job: Job) -> str:
    """Write a CronJob."""
    return _fill("cronjob.yaml", job, command="")


def systemd_word(text: str) -> str:
    """Quote a word of a command line for systemd, which expands % and $."""
    if _SAFE.fullmatch(text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"'


def json_word(text: str) -> str:
    """Write a text as JSON, which is YAML too; Kubernetes would expand $(…)."""
    return json.dumps(text.replace("$(", "$$("), ensure_ascii=False)


def _fill(name: str, job: Job, *, command: str) -> str:
    made = environment({"json": json_word, "folder": _folder, "file": _file})
    folder = _folder(job.output or "")
    names = {"job": job, "command": command, "folder": folder, "version": __version__}
    return made.get_template(name).render(names)


def _folder(path: str) -> str:
    return path.rpartition("/")[0] if path.startswith("/") else ""


def _file(path: str) -> str:
    return path.rpartition("/")[2]
