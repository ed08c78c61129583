"""Baseline files on disk: read one or a folder of them, write one whole or not at all."""

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

from specgauge.baseline.schema import BaselineFile, parse
from specgauge.errors import BaselineError

MAX_BYTES = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A baseline and the file it comes from."""

    source: str
    file: BaselineFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """The baselines of a folder, by name; `problems` says of the other files why not."""

    candidates: tuple[Candidate, ...]
    problems: tuple[str, ...]


def load_text(path: Path) -> str:
    """Read a file as text; raises BaselineError naming it."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        text = data.decode("utf-8-sig")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise BaselineError([f"{path}: {reason}"]) from error
    if len(data) > MAX_BYTES:
        raise BaselineError([f"{path}: larger than {MAX_BYTES >> 20} MiB; is it a baseline?"])
    return text


def load_file(path: Path) -> BaselineFile:
    """Read a baseline file; raises BaselineError naming every fault."""
    return parse(load_text(path), source=str(path))


def load_dir(path: Path) -> Folder:
    """Read every `.json` file of a folder; files that are no baselines become problems."""
    try:
        names = sorted(one for one in path.iterdir() if one.suffix == ".json" and one.is_file())
    except OSError as error:
        raise BaselineError([f"{path}: {error.strerror}"]) from error
    found: list[Candidate] = []
    problems: list[str] = []
    for one in names:
        try:
            found.append(Candidate(source=str(one), file=load_file(one)))
        except BaselineError as problem:
            problems += problem.problems
    return Folder(candidates=tuple(found), problems=tuple(problems))


def write_atomically(path: Path, text: str) -> None:
    """Put a text in place of a file: a reader sees the old one or the new one, never a part.

    A device or a pipe gets the text and stays what it is.
    """
    try:
        put(path, text)
    except OSError as error:
        rest = "" if _is_special(path) else "; nothing was written"
        raise BaselineError([f"{path}: {error.strerror}{rest}"]) from error


def put(path: Path, text: str) -> None:
    """Do the same for whoever has words of their own for an OSError, which this raises."""
    if _is_special(path):
        path.write_text(text, encoding="utf-8", newline="\n")
        return
    goal = path.resolve()  # a link stays a link
    draft = goal.with_name(f".{goal.name}.{os.getpid()}.part")
    try:
        with draft.open("w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(goal)
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise


def _is_special(path: Path) -> bool:
    """Tell whether there is something that is neither file nor folder, as a device or a pipe."""
    return path.exists() and not (path.is_file() or path.is_dir())


def require_writable(path: Path) -> None:
    """Refuse a place that cannot be written before an hour is spent on what belongs there."""
    if _is_special(path):
        return  # it is opened only once
    folder = path.resolve().parent
    if not folder.is_dir():
        raise BaselineError([f"{path}: no folder {folder}; make it first"])
    if path.is_dir() or not os.access(folder, os.W_OK):
        raise BaselineError([f"{path}: cannot be written; choose another file with -o"])
