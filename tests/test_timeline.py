"""Recorded timelines: what a line may be, and what is said of one that is none."""

import json
from pathlib import Path

import pytest
from tests.guarding import decision

from specgauge.errors import SourceError
from specgauge.guard.audit import audit_line
from specgauge.model.derived import FIELDS
from specgauge.model.guard import Phase
from specgauge.model.names import JUDGED
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
        ('{"t": 5, "t": 6, "error": "x"}', "the key 't' stands twice; write it once"),
        (
            '{"t": 5, "evidence": {"tokens": 1, "tokens": 2}}',
            "the key 'tokens' stands twice; write it once",
        ),
        ('{"t": 5, "pge": "a"}', "pge is not known; did you mean page?"),
        ('{"t": 5, "Page": "a"}', "Page is not known; did you mean page?"),
        ('{"T": 5, "error": "a"}', "T is not known; did you mean t?"),
        ('{"t": 5, "evidnce": {}}', "evidnce is not known; did you mean evidence?"),
        ('{"t": 5, "error": "x", "pol": "standard"}', "pol is not known; did you mean pool?"),
        (
            '{"t": 5, "error": "x", "pool": "standrad"}',
            "pool standrad is not known; did you mean standard?",
        ),
        (
            '{"t": 5, "error": "x", "pool": "Standard"}',
            "pool Standard is not known; did you mean standard?",
        ),
        (
            '{"t": 5, "evidence": {"speedup_ration": 0.5}}',
            "evidence.speedup_ration is not known; did you mean speedup_ratio?",
        ),
        (
            '{"t": 5, "evidence": {"speedup": 0.5}}',
            "evidence.speedup is not known; did you mean speedup_ratio?",
        ),
        (
            '{"t": 5, "evidence": {"speedup-ratio-low ": 0.5}}',
            "evidence.'speedup-ratio-low ' is not known; did you mean speedup_ratio_low?",
        ),
        (
            '{"t": 5, "evidence": {"tokns": 9}}',
            "evidence.tokns is not known; did you mean tokens?",
        ),
        (
            '{"t": 5, "evidence": {"verdcit": "pays"}}',
            "evidence.verdcit is not known; did you mean verdict?",
        ),
        (
            '{"t": 5, "evidence": {"standard": {"sreved": 9}}}',
            "evidence.standard.sreved is not known; did you mean served?",
        ),
        (
            '{"t": 5, "evidence": {"pool": "standard"}}',
            "evidence.pool is not known; pool belongs beside evidence",
        ),
        (
            '{"t": 5, "evidence": {}, "tokens": 9}',
            "tokens is not known; it belongs inside evidence",
        ),
    ],
)
def test_faults_name_file_and_line(tmp_path: Path, line: str, problem: str) -> None:
    """A line that is none is told with its place and what belongs there."""
    path = write(tmp_path, f'{{"t": 1, "error": "x"}}\n\n{line}\n')
    assert refusal(path) == f"{path}:3: {problem}"


@pytest.mark.parametrize(
    ("line", "ignored"),
    [
        ('{"t": 5, "error": "x", "host": "a"}', ("host",)),
        (
            '{"t": 5, "evidence": {"gpu": 1, "standard": {"": 2}}}',
            ("evidence.gpu", "evidence.standard.''"),
        ),
        ('{"t": 5, "page": null, "error": "x", "pagina": 1}', ("pagina",)),
        ('{"t": 5, "error": "x", "pool": "blue"}', ()),
        (
            '{"t": 5, "evidence": {"decode_tokens_per_second": 2, "tokens_per_second": 90}}',
            ("evidence.tokens_per_second",),
        ),
    ],
)
def test_what_other_systems_add_is_named(
    tmp_path: Path, line: str, ignored: tuple[str, ...]
) -> None:
    """A key that is near none, or near one that is there, is somebody else's and means nothing."""
    (entry,) = read_timeline(write(tmp_path, line))
    assert entry.ignored == ignored


def test_every_field_of_our_own_documents_is_known(tmp_path: Path) -> None:
    """What `inspect`, a look at a pool and the record of a decision call their numbers."""
    names = [*FIELDS, *JUDGED, "members", "restarts", "errors", "served", "collapse_ratio"]
    line = audit_line(
        decision(evidence=dict.fromkeys(names, 1.0), warnings=("a",), wanted=Phase.FALLBACK),
        unix=1.0,
        target="spec",
        flag_key="f",
        config_hash="0",
    )
    (entry,) = read_timeline(write(tmp_path, json.dumps(line | {"operator": "x"})))
    assert entry.ignored == ()
    assert entry.evidence is not None
    assert set(entry.evidence) == set(names)


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
