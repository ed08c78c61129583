"""`specgauge flags`: what goes where, exit codes, documents, and hostile input."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from tests.flag_lines import ARTICLE_NGRAM, PLAYBOOK_YAML

from specgauge.cli.main import main

Capture = pytest.CaptureFixture[str]
OLD = "vllm serve T --speculative-model D --num-speculative-tokens 5"
NEW = (
    "vllm serve T \\\n  --speculative-config "
    '\'{"method": "draft_model", "model": "D", "num_speculative_tokens": 5}\'\n'
)
NGRAM = (
    '{"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4, '
    '"prompt_lookup_min": 2}'
)


def run(capsys: Capture, *arguments: str | Path) -> tuple[int, str, str]:
    """Run one flags command; gives the exit code and both outputs."""
    code = main(["flags", *map(str, arguments)])
    out, err = capsys.readouterr()
    return code, out, err


def document(capsys: Capture, *arguments: str | Path) -> dict[str, Any]:
    """Run one flags command with --json; gives its document."""
    found = json.loads(run(capsys, *arguments, "--json")[1])
    assert isinstance(found, dict)
    return found


def hand_in(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    """Put something on standard input."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_the_command_line_is_data_and_the_rest_for_people(capsys: Capture) -> None:
    """Standard output can be run as it is; what changed stands on standard error."""
    code, out, err = run(capsys, "translate", OLD)
    assert (code, out) == (0, NEW)
    assert "warning method: none was named; taken for draft_model" in err


@pytest.mark.parametrize("way", ["file", "yaml", "json", "standard input"])
def test_where_it_may_come_from(
    way: str, capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file with a command line, YAML, a configuration, or standard input say the same."""
    config = {"method": "draft_model", "model": "D", "num_speculative_tokens": 5}
    texts = {
        "file": ("old.sh", OLD),
        "yaml": ("old.yaml", "model: T\nspeculative_model: D\nnum_speculative_tokens: 5\n"),
        "json": ("old.json", json.dumps(config)),
    }
    if way == "standard input":
        hand_in(monkeypatch, OLD.encode())
        given = ["-"]
    else:
        name, text = texts[way]
        (tmp_path / name).write_text(text)
        given = ["--file", str(tmp_path / name), "--model", "T"]
    assert run(capsys, "translate", *given)[:2] == (0, NEW)


def test_the_playbooks_file(capsys: Capture, tmp_path: Path) -> None:
    """Its YAML lacks a draft: an error by name; given one, a command line comes out."""
    file = tmp_path / "speculative_decoding_config.yaml"
    file.write_text(PLAYBOOK_YAML)
    code, out, err = run(capsys, "translate", "--file", file)
    assert (code, out) == (1, "")
    assert "error   method: neither a method nor a model is named [model_missing]" in err
    code, out, _ = run(capsys, "translate", "--file", file, "--model", "T", "--draft", "D")
    assert code == 0
    assert '"num_speculative_tokens_per_batch_size": [[1, 7, 5], [8, 1024, 0]]' in out


def test_document_of_a_translation(capsys: Capture) -> None:
    """Everything that text says, and the arguments as the engine gets them."""
    found = document(capsys, "translate", OLD, "--from", "0.6.3")
    assert found.pop("findings")[0] == {
        "code": "method_inferred",
        "severity": "warning",
        "subject": "method",
        "message": "none was named; taken for draft_model, by the draft's name",
        "fix": "name it if the draft is a head",
    }
    config = {"method": "draft_model", "model": "D", "num_speculative_tokens": 5}
    assert found == {
        "schema": "specgauge.flags-translate/v1",
        "release": "0.33.0",
        "from": {"first": "0.6.3", "last": "0.6.3"},
        "engine": {"before": "v0", "after": "v1"},
        "translated": True,
        "command": NEW.rstrip(),
        "arguments": ["T", "--speculative-config", json.dumps(config)],
        "speculative_config": config,
    }
    mixed = document(capsys, "translate", f"{OLD} --per-request-spec-decode-metrics none")
    assert mixed["from"] == {"first": None, "last": None}
    assert document(capsys, "translate", "vllm serve T")["speculative_config"] is None


def test_what_cannot_be_translated_fails(capsys: Capture) -> None:
    """Exit code 1 and no command line, also in the document."""
    line = "vllm serve T -sc.method medusa -sc.model D -sc.num_speculative_tokens 3"
    assert run(capsys, "translate", line)[:2] == (1, "")
    found = document(capsys, "translate", line)
    assert (found["translated"], found["command"], found["arguments"]) == (False, None, [])


def test_show(capsys: Capture) -> None:
    """The command line, why each key is there, and what else can be set."""
    code, out, err = run(capsys, "show", "--method", "eagle3", "--target", "T", "--draft", "D")
    assert (code, err) == (0, "")
    assert out.startswith("vllm serve T --speculative-config ")
    assert "runs on V1 of vLLM 0.33.0" in out
    assert "draft_sample_method" in out
    assert '(default "greedy")' in out
    code, out, _ = run(
        capsys,
        "show",
        "--method",
        "mlp_speculator",
        "--target",
        "T",
        "--draft",
        "D",
        "--release",
        "0.5.1",
    )
    assert code == 0
    assert "--speculative-model D" in out


def test_document_of_what_is_shown(capsys: Capture) -> None:
    """The same for machines."""
    found = document(capsys, "show", "--method", "ngram", "--target", "T", "--k", "3")
    assert {"key": "enforce_eager", "meaning": "no CUDA graphs for the draft", "default": None} in (
        found.pop("settings")
    )
    assert set(found.pop("why")) == set(found["speculative_config"])
    assert found.pop("arguments")[0] == "T"
    assert found.pop("command").startswith("vllm serve T")
    assert found == {
        "schema": "specgauge.flags-show/v1",
        "release": "0.33.0",
        "method": "ngram",
        "engine": "v1",
        "speculative_config": {
            "method": "ngram",
            "num_speculative_tokens": 3,
            "prompt_lookup_max": 5,
            "prompt_lookup_min": 2,
        },
        "findings": [],
    }


def test_what_cannot_be_shown_fails(capsys: Capture) -> None:
    """A method that the release has not has no command line."""
    code, out, err = run(capsys, "show", "--method", "medusa", "--target", "T", "--draft", "D")
    assert (code, out) == (1, "")
    assert "[method_gone]" in err


@pytest.mark.parametrize(
    ("source", "code", "told"),
    [
        pytest.param(NGRAM, 0, "vLLM 0.33.0 takes it", id="a configuration"),
        pytest.param(
            NGRAM.replace("ngram", "ngrm"), 1, "did you mean ngram?", id="a method misspelled"
        ),
        pytest.param(
            NGRAM[:-1] + ', "rejection_sample_method": "synthetic", '
            '"synthetic_acceptance_length": 2}',
            1,
            "synthetic_acceptance_on",
            id="synthetic acceptance left on",
        ),
        pytest.param(ARTICLE_NGRAM.format(target="T"), 0, "takes it", id="a command line"),
        pytest.param(NGRAM.replace("4", "9" * 20), 1, "is above 2147483647", id="far too many"),
        pytest.param(
            f"docker run vllm/vllm-openai:v0.10.1.1@sha256:{'a1' * 32} --model T -sc '{NGRAM}'",
            1,
            "-sc: there from 0.19.0 on",
            id="an image by its digest",
        ),
        pytest.param("--port=1 --spec-method mtp --spec-tokens 1", 0, "takes it", id="arguments"),
        pytest.param(OLD, 1, "[flag_gone]", id="an old command line"),
        pytest.param(f"{OLD} --port 1 && docker run x", 1, "[flag_gone]", id="with another behind"),
        pytest.param(
            f"docker run vllm/vllm-openai:v0.7.0 --model T {OLD.partition('T')[2]}",
            0,
            "vLLM 0.7.0 takes it",
            id="an image's release",
        ),
    ],
)
def test_check(source: str, code: int, told: str, capsys: Capture) -> None:
    """Findings are the data here, and errors and what is severe fail."""
    got, out, _ = run(capsys, "check", "--", source)
    assert (got, told in out) == (code, True)


@pytest.mark.parametrize(("release", "code"), [("0.8.2", 0), ("0.8.1", 1), ("0.4.1", 1)])
def test_a_configuration_needs_its_flag(release: str, code: int, capsys: Capture) -> None:
    """Before there was --speculative-config, no configuration could be given."""
    pairs = '"prompt_lookup_max": 4, "prompt_lookup_min": 2}'
    ended, out, _ = run(capsys, "check", "--release", release, f"{NGRAM[:-1]}, {pairs}")
    assert (ended, "--speculative-config: there from 0.8.2 on" in out) == (code, bool(code))


def test_document_of_a_check(capsys: Capture, tmp_path: Path) -> None:
    """The same for machines, from a file and for a release."""
    file = tmp_path / "spec.json"
    file.write_text(NGRAM)
    assert document(capsys, "check", file, "--release", "0.32.0") == {
        "schema": "specgauge.flags-check/v1",
        "release": "0.32.0",
        "passed": True,
        "speculative_config": json.loads(NGRAM),
        "findings": [],
    }


def test_check_reads_files_and_standard_input(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file's name decides how it is read; standard input may hold either."""
    (tmp_path / "a.yaml").write_text(f"speculative_config: {NGRAM}\n")
    (tmp_path / "a.sh").write_text(f"vllm serve T -sc '{NGRAM}'")
    (tmp_path / "b.yaml").write_text("port: 1\n")
    for name, code in (("a.yaml", 0), ("a.sh", 0), ("b.yaml", 2)):
        assert run(capsys, "check", tmp_path / name)[0] == code
    hand_in(monkeypatch, NGRAM.encode())
    assert run(capsys, "check", "-")[0] == 0


def test_nothing_to_check_is_no_verdict(capsys: Capture) -> None:
    """A command line without speculation is neither right nor wrong."""
    code, _, err = run(capsys, "check", "vllm serve T")
    assert (code, err) == (4, "specgauge: nothing in it turns speculation on\n")


BAD: dict[str, tuple[bytes, str, int, str]] = {
    "no UTF-8": (b"vllm serve \xff", "x.sh", 3, "no UTF-8 text, byte 11"),
    "too large": (b"#" * 300_000, "x.sh", 3, "more than 262144 bytes"),
    "empty": (b"", "x.sh", 2, "the command line is empty"),
    "binary": (b"\x7fELF\x02\x00", "x.sh", 2, "control character"),
    "no JSON": (b'{"method": ', "x.json", 2, "no JSON"),
    "empty YAML": (b"", "x.yaml", 2, "no mapping"),
    "broken YAML": (b"a: [1", "x.yaml", 2, "line 1 column 6"),
    "a list in YAML": (b"- a\n", "x.yaml", 2, "no mapping"),
    "deep YAML": (b"[" * 3000 + b"]" * 3000, "x.yaml", 2, "3000 brackets"),
    "steep YAML": (b"- " * 3000, "x.yaml", 2, "nested too deep"),
    "growing YAML": (b"a: &a [1]\nb: [*a, *a]\n", "x.yaml", 2, "aliases"),
    "a date in YAML": (b"a: {b: 2026-01-01}\n", "x.yaml", 2, "not JSON serializable"),
    "Kubernetes": (b"apiVersion: v1\nkind: Pod\n", "x.yml", 2, "Kubernetes"),
    "half a flag": (b"speculative_config: nothing\n", "x.yaml", 2, "no JSON"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files_get_one_line(case: str, capsys: Capture, tmp_path: Path) -> None:
    """Whatever a file holds, one line says what is wrong, and nothing is printed as data."""
    data, name, wanted, told = BAD[case]
    file = tmp_path / name
    file.write_bytes(data)
    for command in (["translate", "--file", str(file)], ["check", str(file)]):
        code, out, err = run(capsys, *command)
        assert (code, out) == (wanted, "")
        assert told in err
        assert err.count("\n") == 1


@pytest.mark.parametrize("name", ["missing.sh", "."])
def test_files_that_cannot_be_read(name: str, capsys: Capture, tmp_path: Path) -> None:
    """A missing file or a folder is a source that cannot be read."""
    code, _, err = run(capsys, "translate", "--file", f"{tmp_path}/{name}")
    assert code == 3
    assert err.count("\n") == 1


USAGE: dict[str, list[str]] = {
    "nothing": ["translate"],
    "two inputs": ["translate", "vllm serve T", "--file", "x"],
    "no release": ["translate", "vllm serve T", "--to", "newest"],
    "a release to come": ["translate", "vllm serve T", "--to", "0.34.0"],
    "a release before": ["translate", "vllm serve T", "--to", "0.4.0"],
    "no model": ["translate", "--port 1", "--model", ""],
    "no name": ["show", "--method", "ngram", "--target", "\x1b[31m"],
    "no method": ["show", "--method", "magic", "--target", "T"],
    "no k": ["show", "--method", "ngram", "--target", "T", "--k", "0"],
    "a flag with nothing": ["check", "vllm serve T --spec-tokens"],
    "a bad literal": ["check", "{method: ngram}"],
}


@pytest.mark.parametrize("case", USAGE)
def test_bad_usage(case: str, capsys: Capture) -> None:
    """What cannot be obeyed ends with 2."""
    assert run(capsys, *USAGE[case])[0] == 2


def test_nothing_reaches_the_terminal_unseen(capsys: Capture) -> None:
    """Control characters of a configuration are shown, never sent."""
    config = '{"method": "ng\\u001b[31mram", "x\\u009b": 1, "num_speculative_tokens": 3}'
    for command in ("check", "translate"):
        _, out, err = run(capsys, command, config)
        assert not {"\x1b", "\x9b"} & set(out + err)
