"""Baseline files on disk."""

import json
import os
from pathlib import Path

import pytest
from tests.baselines import baseline, document

from specgauge.baseline.files import (
    MAX_BYTES,
    load_dir,
    load_file,
    require_writable,
    write_atomically,
)
from specgauge.baseline.schema import dump
from specgauge.errors import BaselineError


def test_a_file_is_written_whole_and_read_back(tmp_path: Path) -> None:
    """Nothing but the file is left, and a link stays a link to it."""
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    link.symlink_to(real)
    write_atomically(link, dump(baseline()))
    assert load_file(real) == baseline()
    assert link.is_symlink()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["link.json", "real.json"]


def test_what_cannot_be_written_leaves_the_old_file(tmp_path: Path) -> None:
    """A failure names the file and leaves no draft behind."""
    place = tmp_path / "folder"
    place.mkdir()
    with pytest.raises(BaselineError, match="nothing was written"):
        write_atomically(place, "text")
    assert list(tmp_path.iterdir()) == [place]


def test_a_pipe_gets_the_text_and_stays(tmp_path: Path) -> None:
    """A device or a pipe is never replaced by a file."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    held = os.open(pipe, os.O_RDWR)
    try:
        require_writable(pipe)
        write_atomically(pipe, "text")
        assert os.read(held, 100) == b"text"
    finally:
        os.close(held)
    assert pipe.is_fifo()
    with pytest.raises(BaselineError, match="No space left on device"):
        write_atomically(Path("/dev/full"), "text")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(None, "No such file or directory", id="missing"),
        pytest.param(b"\xff\xfe", "not UTF-8 text", id="binary"),
        pytest.param(b" " * (MAX_BYTES + 1), "larger than 16 MiB", id="huge"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    """One line: the file and the reason."""
    path = tmp_path / "b.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BaselineError, match=message) as caught:
        load_file(path)
    assert caught.value.problems[0].startswith(str(path))


def test_a_byte_order_mark_does_no_harm(tmp_path: Path) -> None:
    """Editors of one system put it in front."""
    path = tmp_path / "b.json"
    path.write_text(json.dumps(document()), encoding="utf-8-sig")
    assert load_file(path).model.name == "target"


def test_a_folder_gives_its_baselines_and_says_what_is_none(tmp_path: Path) -> None:
    """One bad file does not hide the good ones; other files are none of ours."""
    (tmp_path / "b.json").write_text(json.dumps(document()))
    (tmp_path / "a.json").write_text("{}")
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "c.json").mkdir()
    found = load_dir(tmp_path)
    assert [one.source for one in found.candidates] == [str(tmp_path / "b.json")]
    assert [line.split(":")[0] for line in found.problems] == [str(tmp_path / "a.json")]
    with pytest.raises(BaselineError, match="No such file"):
        load_dir(tmp_path / "none")


def test_a_place_that_cannot_be_written_is_refused_beforehand(tmp_path: Path) -> None:
    """Before an hour of recording, not after it."""
    require_writable(tmp_path / "b.json")
    with pytest.raises(BaselineError, match="make it first"):
        require_writable(tmp_path / "none" / "b.json")
    with pytest.raises(BaselineError, match="choose another file"):
        require_writable(tmp_path)
