"""Recorded timelines: what a line may be, and what is said of one that is none."""

import json
from pathlib import Path

import pytest

from specgauge.errors import SourceError
from specgauge.model.outcome import ExitCode
from specgauge.serve import timeline
from specgauge.serve.timeline import Entry, read_timeline


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "run.jsonl"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def refusal(path: Path) -> str:
    with pytest.raises(SourceError) as caught:
        list(read_timeline(path))
    assert caught.value.exit_code is ExitCode.UNREADABLE
    return caught.value.detail


def test_every_kind_of_line(tmp_path: Path) -> None:
    """Pages beside the file, failures and ready evidence, in the order of their times."""
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "0.prom").write_bytes(b"a 1\n")
    path = write(
        tmp_path,
        '{"t": -1, "page": "pages/0.prom", "pool": "standard"}\n\n'
        '{"t": 2.5, "page": null, "error": "timeout"}\n'
        '{"t": 3, "evidence": {"tokens": 9}, "pool": 7}\n',
    )
    assert list(read_timeline(path)) == [
        Entry(line=1, time=-1.0, data=b"a 1\n", pool="standard"),
        Entry(line=3, time=2.5, error="timeout"),
        Entry(line=4, time=3.0, evidence={"tokens": 9}),
    ]


def test_empty_file(tmp_path: Path) -> None:
    """Nothing in it is no fault of the file."""
    assert list(read_timeline(write(tmp_path, "\n\n"))) == []


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "not a JSON object"),
        ("[" * 100_000, "not a JSON object"),
        ("[1]", "not a JSON object"),
        ('{"page": "a"}', 't must be a number of seconds, as in {"t": 5.0, ...}'),
        ('{"t": "5", "page": "a"}', 't must be a number of seconds, as in {"t": 5.0, ...}'),
        ('{"t": true, "page": "a"}', 't must be a number of seconds, as in {"t": 5.0, ...}'),
        ('{"t": NaN, "page": "a"}', 't must be a number of seconds, as in {"t": 5.0, ...}'),
        (
            f'{{"t": {10**400}, "page": "a"}}',
            't must be a number of seconds, as in {"t": 5.0, ...}',
        ),
        ('{"t": Infinity, "page": "a"}', 't must be a number of seconds, as in {"t": 5.0, ...}'),
        ('{"t": 5}', "a page, an error or evidence is needed"),
        ('{"t": 5, "page": null}', "a page, an error or evidence is needed"),
        ('{"t": 5, "page": 3}', "page must be a path or null"),
        ('{"t": 5, "evidence": [1]}', "evidence must be an object"),
        ('{"t": 5, "page": "none.prom"}', "none.prom: No such file or directory"),
        ('{"t": 5, "page": "."}', ".: Is a directory"),
        ('{"t": 5, "page": "a\\u0000b"}', "a\0b: embedded null byte"),
        ('{"t": 1, "error": "again"}', "t 1 is not after the line before"),
        ('{"t": 0.5, "error": "back"}', "t 0.5 is not after the line before"),
    ],
)
def test_faults_name_file_and_line(tmp_path: Path, line: str, problem: str) -> None:
    """A line that is none is told with its place and what belongs there."""
    path = write(tmp_path, f'{{"t": 1, "error": "x"}}\n\n{line}\n')
    assert refusal(path) == f"{path}:3: {problem}"


def test_file_that_cannot_be_read(tmp_path: Path) -> None:
    """A timeline that is not there, or not text, is named."""
    assert refusal(tmp_path / "none") == f"{tmp_path / 'none'}: No such file or directory"
    path = write(tmp_path, b"\xff\n")
    assert refusal(path) == f"{path}: not UTF-8"


def test_page_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page beyond every page's size is refused unread."""
    monkeypatch.setattr(timeline, "_MAX_BYTES", 4)
    (tmp_path / "p").write_bytes(b"12345")
    path = write(tmp_path, '{"t": 1, "page": "p"}')
    assert refusal(path) == f"{path}:1: p: larger than 64 MiB"


@pytest.mark.parametrize(
    ("page", "result"),
    [
        pytest.param("none.prom", "unreachable", id="missing"),
        pytest.param(".", "unreachable", id="folder"),
        pytest.param("large", "too_large", id="large"),
    ],
)
def test_page_that_was_not_had_is_not_called_a_bad_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: str, result: str
) -> None:
    """What a page holds is judged once it is there."""
    monkeypatch.setattr(timeline, "_MAX_BYTES", 4)
    (tmp_path / "large").write_bytes(b"12345")
    with pytest.raises(SourceError) as caught:
        list(read_timeline(write(tmp_path, json.dumps({"t": 1, "page": page}))))
    assert caught.value.result == result
