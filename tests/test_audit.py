"""The record of changes: what a line holds, and that no line is torn, lost or written by halves."""

import asyncio
import errno
import fcntl
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.guarding import KEY, decision

from specgauge.guard import audit
from specgauge.guard.audit import MOST_BYTES, append, audit_line, decision_document
from specgauge.model.guard import Phase, Signal


def test_line_of_a_change() -> None:
    """A line says when, where, from what to what, why, on which numbers and under which terms."""
    found = audit_line(
        decision(signal=Signal.SPEEDUP, companions=("waiting",), next_probe=425.0),
        unix=1795988304.63812,
        target="spec",
        flag_key=KEY,
        config_hash="fa8d620e4d29",
    )
    assert json.loads(json.dumps(found, allow_nan=False)) == {
        "schema": "specgauge.audit/v1",
        "unix": 1795988304.638,
        "target": "spec",
        "flag_key": KEY,
        "config_hash": "fa8d620e4d29",
        "from": "active",
        "t": 125.0,
        "state": "fallback",
        "flag": False,
        "outcome": "degraded",
        "reason": "speedup_below_one",
        "changed": True,
        "evidence": {"speedup_ratio": 0.712346, "tokens": 8123.0},
        "signal": "speedup",
        "companions": ["waiting"],
        "next_probe": 425.0,
    }


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        pytest.param({}, {}, id="nothing"),
        pytest.param({"wanted": Phase.PROBING}, {"would_be": "probing"}, id="dry run"),
        pytest.param({"model_name": "chat"}, {"model_name": "chat"}, id="one of several models"),
        pytest.param(
            {"rehearsed": ("excess_errors",)},
            {"dry_run_signals": ["excess_errors"]},
            id="signal in dry run",
        ),
        pytest.param(
            {"warnings": ("fallback_ineffective",)},
            {"warnings": ["fallback_ineffective"]},
            id="warning",
        ),
        pytest.param({"next_probe": 0.0}, {"next_probe": 0.0}, id="probe at zero"),
    ],
)
def test_extras_stand_only_where_they_are_known(
    more: dict[str, Any], expected: dict[str, object]
) -> None:
    """Beside the fields of a replay there is only what is known."""
    plain = decision_document(decision())
    assert decision_document(decision(**more)) == {**plain, **expected}


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        pytest.param(0.1234567, 0.123457, id="small"),
        pytest.param(-0.1234567, -0.123457, id="negative"),
        pytest.param(1234567.8912, 1234567.9, id="large"),
        pytest.param(math.nan, None, id="nan"),
        pytest.param(math.inf, None, id="inf"),
        pytest.param(-math.inf, None, id="minus inf"),
    ],
)
def test_numbers_are_short_and_finite(value: float, shown: float | None) -> None:
    """A number has the digits that mean something; what is no number is not there."""
    evidence = decision_document(decision(evidence={"x": value}))["evidence"]
    assert evidence == ({} if shown is None else {"x": shown})


def read(file: Path) -> list[Any]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_append(tmp_path: Path) -> None:
    """Lines come one after the other; the file is for its owner and readers of the group."""
    file = tmp_path / "audit"
    for number in range(3):
        append(file, {"n": number, "text": "zwei\nZeilen ü"})
    assert [line["n"] for line in read(file)] == [0, 1, 2]
    assert file.stat().st_mode & 0o007 == 0


def test_rotation(tmp_path: Path) -> None:
    """A file that would grow too large is put aside whole, over the one before it."""
    file, aside = tmp_path / "audit", tmp_path / "audit.1"
    for turn in range(2):
        large = b"%d" % turn + b" " * (MOST_BYTES - 8) + b"\n"
        file.write_bytes(large)
        append(file, {"n": turn})
        append(file, {"n": turn + 1})
        assert aside.read_bytes() == large
        assert [line["n"] for line in read(file)] == [turn, turn + 1]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["audit", "audit.1"]


def test_line_larger_than_a_file(tmp_path: Path) -> None:
    """A line of its own size still ends up in a file."""
    append(tmp_path / "audit", {"text": "x" * MOST_BYTES})
    append(tmp_path / "audit", {"n": 2})
    assert read(tmp_path / "audit") == [{"n": 2}]


def test_half_a_line_is_ended(tmp_path: Path) -> None:
    """What a machine that lost its power left behind does not spoil the line after it."""
    file = tmp_path / "audit"
    file.write_text('{"n": 1}\n{"n": 2, "te')
    append(file, {"n": 3})
    lines = file.read_text().splitlines()
    assert (json.loads(lines[0]), json.loads(lines[-1])) == ({"n": 1}, {"n": 3})
    assert len(lines) == 3


MANY = 200
WRITER = f"""
import sys
from pathlib import Path
from specgauge.guard.audit import append
for number in range({MANY}):
    append(Path(sys.argv[1]), {{"who": sys.argv[2], "n": number, "text": "x" * 30_000}})
"""


def test_two_processes(tmp_path: Path) -> None:
    """Two processes append through a rotation: no line is torn, none is lost, all are in order."""
    file = tmp_path / "audit"
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(file), who]) for who in ("a", "b")
    ]
    assert [one.wait(timeout=60) for one in writers] == [0, 0]
    found = read(tmp_path / "audit.1") + read(file)
    assert len(found) == 2 * MANY
    for who in ("a", "b"):
        assert [line["n"] for line in found if line["who"] == who] == list(range(MANY))
    assert (tmp_path / "audit.1").stat().st_size <= MOST_BYTES


FULL = """
import resource, sys
from pathlib import Path
from specgauge.guard.audit import append
file = Path(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (file.stat().st_size + 20, resource.RLIM_INFINITY))
try:
    append(file, {"text": "x" * 100})
except OSError as error:
    print(error.strerror)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
"""


def test_disk_that_takes_half_a_line(tmp_path: Path) -> None:
    """A line that does not fit leaves the file as it was, and that is an error."""
    file = tmp_path / "audit"
    append(file, {"n": 1})
    before = file.read_bytes()
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(file)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "No space left on device\n"
    assert file.read_bytes() == before
    append(file, {"n": 2})
    assert [line["n"] for line in read(file)] == [1, 2]


@pytest.mark.parametrize(
    ("name", "number"),
    [
        pytest.param("missing/audit", errno.ENOENT, id="no folder"),
        pytest.param(".", errno.EISDIR, id="folder"),
        pytest.param("/dev/full", errno.ENOSPC, id="full"),
        pytest.param("pipe", None, id="pipe that someone reads"),
    ],
)
def test_places_that_are_no_file(tmp_path: Path, name: str, number: int | None) -> None:
    """What refuses a line raises OSError at once; a pipe takes it."""
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        if number is None:
            append(tmp_path / name, {"n": 1})
            assert os.read(reader, 100) == b'{"n": 1}\n'
        else:
            with pytest.raises(OSError, match=r".") as caught:
                append(tmp_path / name, {"n": 1})
            assert caught.value.errno == number
    finally:
        os.close(reader)


async def test_lock_of_another_process(tmp_path: Path) -> None:
    """A line waits while another process has the file, but not for ever."""
    file = tmp_path / "audit"
    append(file, {"n": 1})
    with file.open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(TimeoutError, match="another process holds its lock"):
            await asyncio.to_thread(append, file, {"n": 2})
        waiting = asyncio.create_task(asyncio.to_thread(append, file, {"n": 3}))
        await asyncio.sleep(0.1)
        fcntl.flock(other, fcntl.LOCK_UN)
        await waiting
    assert [line["n"] for line in read(file)] == [1, 3]


def test_file_system_without_locks(tmp_path: Path) -> None:
    """Where a lock cannot be had at all, lines are written without."""
    closed = os.open(tmp_path, os.O_RDONLY)
    os.close(closed)
    audit._lock(closed)


def test_file_that_was_put_aside_meanwhile(tmp_path: Path) -> None:
    """A writer that opened the file before it was put aside writes to the new one."""
    file = tmp_path / "audit"
    for change in (lambda: file.rename(tmp_path / "audit.1"), file.unlink):
        file.touch()
        opened = os.open(file, os.O_RDWR)
        change()
        assert audit._add(file, opened, b"{}\n") is False
        assert not file.exists()
