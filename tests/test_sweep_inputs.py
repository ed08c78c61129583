"""What a sweep is told: candidates, command templates, options, and the file it goes on from."""

import json
import shlex
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.swept import KS, Noise, Truth, candidates, derived, run

from specgauge.baseline.plan import Load, Plan
from specgauge.baseline.prompts import shipped
from specgauge.baseline.record import Order
from specgauge.cli.main import main
from specgauge.cli.sweep.show import draw
from specgauge.errors import BaselineError, UsageError
from specgauge.preflight.sweep.candidate import (
    Candidate,
    check,
    grid,
    parse_candidates,
    parse_ks,
    parse_url,
)
from specgauge.preflight.sweep.document import digest, document
from specgauge.preflight.sweep.folder import Folder, tail
from specgauge.preflight.sweep.measure import asks, speculation
from specgauge.preflight.sweep.order import running, started, turns
from specgauge.preflight.sweep.picture import draw_bars
from specgauge.preflight.sweep.processes import Root
from specgauge.preflight.sweep.result import conclude
from specgauge.preflight.sweep.schema import Server, State, differences, parse
from specgauge.preflight.sweep.template import fill, split, varies

NOW = datetime(2031, 5, 6, 7, 8, 9, tzinfo=UTC)
SERVER = "vllm serve m --port <<port>> <<speculative>>"
TRUTH = Truth(tpot={1: dict.fromkeys((0, *KS), 5.0), 4: dict.fromkeys((0, *KS), 6.0)})


def test_a_grid_of_candidates() -> None:
    """Every method with every k, the largest first; a method that needs a draft with every one."""
    found = grid(["ngram", "draft_model"], [1, 4], ["/m/1b", "/m/3 b"], {"prompt_lookup_max": 4})
    assert [one.name for one in found] == [
        "ngram-k4",
        "ngram-k1",
        "draft_model-1b-k4",
        "draft_model-1b-k1",
        "draft_model-3-b-k4",
        "draft_model-3-b-k1",
    ]
    assert found[0].config == {
        "method": "ngram",
        "prompt_lookup_max": 4,
        "num_speculative_tokens": 4,
    }
    assert found[2].config is not None
    assert found[2].config["model"] == "/m/1b"
    check(found)
    single = grid(["eagle3"], [2], ["/m/head"], {})
    assert [one.name for one in single] == ["eagle3-k2"]


GRID = "--method ngram --k 1"
ONE = "--candidate a=http://h"
REFUSED = {
    "": "nothing to try",
    "--method eagle3 --k 2": "--method eagle3: give --draft",
    "--method ngram": "--method and --k go together",
    "--k 2": "--method and --k go together",
    "--method ngram --k 0": '--k "0": whole numbers',
    "--method ngram --k 1,x": '--k "x": whole numbers',
    "--candidate x": "write NAME=URL",
    "--candidate x=": "write NAME=URL",
    "--candidate ../x=http://h": "a name has letters",
    f"{ONE} {ONE}": "two of that name",
    f"{ONE} --server '{SERVER}'": "nothing to start",
    f"{ONE} --server '{SERVER}' {GRID}": "some candidates are URLs",
    f"{ONE} --rounds 1": "--rounds: at least 2",
    f"{ONE} --start-timeout 10": "has no unit",
    f"{ONE} --start-timeout 0s": "above 0",
    f"{ONE} --start-timeout 367d": "longer than 366d",
    "--candidate a=ftp://h": "candidate a: 'ftp://h' is no server",
    "--candidate a=http://h:99999999": "candidate a: ",
    "--candidate a=http://u@h:80": "candidate a: ",
    GRID: "give --server, the command",
    f"{GRID} --server 'vllm serve --port <<port>>'": "put <<speculative>> in it",
    f"{GRID} --server 'vllm <<speculative>>'": "no <<port>> in it",
    f"--method eagle --k 1 --server '{SERVER}' --draft ./not-there": "no such folder",
    f"{GRID} --draft ./head": "--draft: none of the methods drafts",
    f"{GRID} --speculative-config {{": "not JSON",
    f"{GRID} --speculative-config []": "a JSON object",
    f"{GRID} --speculative-config '{{\"method\": 1}}'": "method comes from --method",
    "--candidates not-there.yaml": "No such file",
    f"--method ngram --server '{SERVER}' --k {','.join(map(str, range(1, 65)))}": "at most 64",
}


@pytest.mark.parametrize(("words", "told"), REFUSED.items())
def test_command_lines_that_cannot_be_obeyed(
    words: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line says what is wrong and what to write, and nothing is started."""
    assert main(["sweep", "-o", str(tmp_path / "o"), *shlex.split(words)]) == 2
    err = capsys.readouterr().err
    assert told in err
    assert len(err.splitlines()) == 1


def test_an_output_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    """A sweep is long: it wants a place to keep what it has."""
    assert main(["sweep", "--candidate", "a=http://h"]) == 2
    assert "give -o FOLDER" in capsys.readouterr().err


def test_a_file_in_place_of_the_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What cannot be a folder is told in one line."""
    (tmp_path / "o").write_text("x")
    assert main(["sweep", "-o", str(tmp_path / "o"), "--candidate", "a=http://h"]) == 2
    assert "choose another folder" in capsys.readouterr().err


CANDIDATES = """
candidates:
  - name: none
  - name: head
    speculative_config: {method: eagle3, model: /m/head, num_speculative_tokens: 3}
  - name: other
    server: python -m other --port <<port>>
    speculative_config: {method: ngram}
"""


def test_candidates_from_a_file() -> None:
    """Each has a name, and what makes it different."""
    none, head, other = parse_candidates(CANDIDATES, source="f")
    assert (none.k, none.config) == (0, None)
    assert (head.k, head.family, head.chain) == (3, ("eagle3", "/m/head"), True)
    assert (other.k, other.server) == (None, "python -m other --port <<port>>")
    given = parse_candidates("candidates: [{name: a, url: 'http://h'}]", source="f")
    assert (given[0].k, given[0].url) == (None, "http://h")
    assert parse_url("a=http://h?x=y") == Candidate(name="a", k=None, url="http://h?x=y")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("", "f: the file: ", id="empty"),
        pytest.param("- a", "f: the file: ", id="list"),
        pytest.param("candidates: []", "f: candidates: ", id="none"),
        pytest.param("candidates: [{name: 1}]", "f: candidates.0.name: ", id="type"),
        pytest.param("candidates: [{name: a, k: 1}]", "f: candidates.0.k: ", id="unknown-key"),
        pytest.param("a: [", "f: not YAML", id="not-yaml"),
        pytest.param("a: \x00", "f: not YAML", id="control"),
        pytest.param("a: &b 1\nc: *b", "f: aliases (*name) are not taken", id="alias"),
        pytest.param(
            "candidates: [{name: a, url: 'http://h', server: x}]", "given or started", id="both"
        ),
        pytest.param(
            "candidates: [{name: a, speculative_config: {num_speculative_tokens: 0}}]",
            "a whole number from 1 to 64",
            id="k-zero",
        ),
        pytest.param(
            "candidates: [{name: a, speculative_config: {num_speculative_tokens: true}}]",
            "a whole number from 1 to 64",
            id="k-bool",
        ),
        pytest.param(
            "candidates: [{name: a, speculative_config: {method: [1]}}]", "are texts", id="method"
        ),
        pytest.param(
            "candidates: [{name: a, speculative_config: {x: 2020-01-01}}]", "is no JSON", id="date"
        ),
        pytest.param(
            "candidates: [{name: a, speculative_config: {x: .nan}}]", "is no JSON", id="nan"
        ),
    ],
)
def test_candidate_files_that_cannot_be_read(text: str, told: str) -> None:
    """Every fault is told with its place."""
    with pytest.raises(UsageError) as refused:
        parse_candidates(text, source="f")
    assert told in str(refused.value)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\xff\xfe\x00", id="binary"),
        pytest.param(b"#" * (1 << 20) + b"\n#", id="large"),
    ],
)
def test_candidate_files_of_another_kind(
    data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that is no text, or that is too large, is refused."""
    (tmp_path / "c.yaml").write_bytes(data)
    words = ["sweep", "-o", str(tmp_path / "o"), "--candidates", str(tmp_path / "c.yaml")]
    assert main(words) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_ks() -> None:
    """Numbers come once, rising."""
    assert parse_ks(["4,1", " 2 ", "1"]) == (1, 2, 4)


def test_a_template_is_filled() -> None:
    """Words are taken apart before anything is filled in, so that nothing is a shell's to read."""
    words = split("env 'A=b c' x --port << port >> <<speculative>> --log <<name>>-<<k>>.txt")
    config = {"method": "ngram", "num_speculative_tokens": 2, "x": "$(rm) 'q'"}
    candidate = Candidate(name="a", k=2, method="ngram", config=config)
    assert fill(words, candidate, 81) == [
        *("env", "A=b c", "x", "--port", "81"),
        *("--speculative-config", json.dumps(config), "--log", "a-2.txt"),
    ]
    assert fill(words, Candidate(name="none"), 81)[5:] == ["--log", "none-0.txt"]
    assert varies(words)
    assert varies(split("a --spec-tokens=<<k>> --spec-model=<<draft>> <<method>> <<port>>"))
    assert not varies(split("a <<port>>"))


@pytest.mark.parametrize(
    ("template", "told"),
    [
        pytest.param("a <<prot>>", "no <<prot>>; there is <<port>>", id="unknown"),
        pytest.param("a '<<port>>", "No closing quotation", id="quote"),
        pytest.param("", "no command in it", id="empty"),
        pytest.param("a\0 <<port>>", "no command in it", id="nul"),
        pytest.param("a <<port>> x=<<speculative>>", "put it alone", id="within"),
        pytest.param("a <<>> <<port>>", "no <<>>", id="nothing"),
    ],
)
def test_templates_that_cannot_be_used(template: str, told: str) -> None:
    """What is wrong with a template is told with what there is."""
    with pytest.raises(UsageError) as refused:
        split(template)
    assert told in str(refused.value)


def test_the_order_is_there_and_back() -> None:
    """Rounds alternate, so that what drifts over time is no candidate's alone."""
    own = started("ABC", [1, 4], 2)
    assert "".join(one.candidate for one in own) == "AABBCCCCBBAA"
    assert [one.concurrency for one in own[:2] + own[6:8]] == [1, 4, 4, 1]
    assert [len(turn) for turn in turns(own)] == [2] * 6
    given = running("ABC", [1, 4], 2)
    assert "".join(one.candidate for one in given) == "ABCCBAABCCBA"
    assert {len(turn) for turn in turns(given)} == {1}
    assert turns([]) == []


def test_every_candidate_gets_the_same_requests() -> None:
    """Prompts, their order and their lengths follow from the seed; no two begin alike."""
    order = Order(plan=Plan(levels=(Load(concurrency=1),), seed=3), prompts=shipped("code"))
    one, other = asks(order, order.prompts, "a"), asks(order, order.prompts, "a")
    first = [next(one) for _ in range(20)]
    assert first == [next(other) for _ in range(20)]
    assert len({ask.prompt.text for ask in first}) == 20


def test_the_document_is_read_back(tmp_path: Path) -> None:
    """What is written can be gone on from, and everything in it is a number, a text or null."""
    runs = [*TRUTH.runs(Noise(), 1), run(1, 16, [], failure="no answer")]
    states = [State(name="none", status="measured"), State(name="ngram-k1", status="pruned")]
    made = document(
        conclude(candidates(), runs, states, ()),
        states=states,
        runs=runs,
        settings={"a": 1},
        created=NOW,
        complete=False,
    )
    folder = Folder(tmp_path)
    assert folder.read() is None
    folder.write(made)
    kept = folder.read()
    assert kept is not None
    assert (kept.created, kept.settings_sha256) == (NOW, digest({"a": 1}))
    assert (list(kept.runs), list(kept.states)) == (runs, states)
    failed = next(one for one in made["cells"] if one["concurrency"] == 16)
    assert failed["absent"]["tpot_seconds"] == "no answer"
    assert made["cells"][0]["absent"]["gpu_memory_bytes"] == "no_result"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("", "not JSON", id="empty"),
        pytest.param('{"schema": "specg', "not JSON", id="truncated"),
        pytest.param("[" * 100_000, "not JSON", id="deep"),
        pytest.param("[]", "no specgauge.sweep/v1 document", id="list"),
        pytest.param('{"schema": "specgauge.baseline/v1"}', "no specgauge.sweep/v1", id="other"),
        pytest.param('{"schema": "specgauge.sweep/v1"}', "created: Field required", id="keys"),
        pytest.param(
            json.dumps(
                {
                    "schema": "specgauge.sweep/v1",
                    "created": "2031-05-06T07:08:09Z",
                    "settings": {},
                    "settings_sha256": "",
                    "runs": [{"candidate": "a", "concurrency": 1e400, "round": 1}],
                }
            ),
            "runs.0.concurrency",
            id="infinite",
        ),
    ],
)
def test_sweep_files_that_cannot_be_read(
    text: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that is not ours is left alone, and told in one line."""
    with pytest.raises(BaselineError) as refused:
        parse(text, source="f")
    assert told in str(refused.value)
    (tmp_path / "sweep.json").write_text(text)
    assert main(["sweep", "-o", str(tmp_path), "--candidate", "a=http://127.0.0.1:9"]) == 3
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert (tmp_path / "sweep.json").read_text() == text


def test_another_sweep_is_not_gone_on_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What differs is named."""
    words = ["sweep", "-o", str(tmp_path), "--candidate", "a=http://127.0.0.1:9"]
    assert main([*words, "--concurrency", "1"]) == 4
    capsys.readouterr()
    assert main([*words, "--concurrency", "2", "--seed", "4"]) == 2
    assert "of another sweep, which differs in concurrency, seed;" in capsys.readouterr().err
    assert differences({"a": 1, "b": 2}, {"a": 1, "c": 3}) == ["b", "c"]


def test_one_sweep_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A second sweep in the same folder is refused while the first one runs."""
    with Folder(tmp_path).held():
        assert main(["sweep", "-o", str(tmp_path), "--candidate", "a=http://127.0.0.1:9"]) == 2
    assert "another sweep runs in this folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"pid": "x", "started": 1, "mark": "", "candidate": ""}']
)
def test_a_damaged_note_of_a_server(text: str, tmp_path: Path) -> None:
    """A note that says nothing stops nothing."""
    folder = Folder(tmp_path)
    (tmp_path / "server.json").write_text(text)
    assert folder.left_server() is None
    root = Root(pid=5, started=6, mark="m")
    folder.note_server(root, "a")
    assert folder.left_server() == (root, "a")
    folder.forget_server()
    folder.forget_server()
    assert folder.left_server() is None


def test_the_end_of_a_log(tmp_path: Path) -> None:
    """The last lines that say something, whatever is in the file."""
    log = tmp_path / "a.log"
    assert tail(log) == ()
    log.write_bytes(b"x\n" * 20_000 + b"\n  \n\xff last\n\n")
    assert tail(log, lines=2) == ("x", "\ufffd last")


def test_bars() -> None:
    """Bars are as long as the speedup, marked at 1, with a star for the choice."""
    runs = [run(0, 1, [6.0] * 3), run(2, 1, [4.0] * 3), run(4, 1, [], failure="no answer")]
    result = conclude(candidates(), runs, [], ())
    assert draw_bars(result.cells, result.picks, width=40).splitlines() == [
        "concurrency 1",
        "  none       1.00 #############|",
        "* ngram-k2   1.50 #############|######",
    ]
    alone = conclude(candidates(), runs[1:], [], ())
    assert draw_bars(alone.cells, alone.picks, width=10).splitlines()[1].count("#") == 16
    wide = [run(0, 1, [6.0] * 3), run(2, 1, [3.5, 4.0, 4.5])]
    shown = conclude(candidates(), wide, [], ())
    assert "#-" in draw_bars(shown.cells, shown.picks, width=60)
    assert draw_bars((), (), width=40) == ""


def test_what_a_page_says_of_drafts() -> None:
    """Values are kept, and for what is absent the reason."""
    told = speculation(derived({"acceptance_ratio": 0.5}, {"drafts": "no_drafts"}))
    assert (told.acceptance_ratio, told.absent) == (0.5, {"drafts": "no_drafts"})


def test_what_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """A table, bars, the choice at each load, what was left out and why, and the schedule."""
    truth = Truth(tpot={1: {0: 10.0, 2: 7.0, 4: 6.0}, 8: {0: 9.0, 2: 8.0, 4: 12.0}})
    runs = [*truth.runs(Noise(spread=0.001), 1), run(8, 1, [], failure="\x1b[31mno answer")]
    server = Server(engine_version="0.32.0", gpu_memory_bytes=3 << 30)
    states = [
        State(name="none", status="measured", server=Server(kv_blocks=99)),
        State(name="ngram-k4", status="measured", server=server),
        State(name="ngram-k2", status="measured", server=Server()),
        State(name="ngram-k1", status="pruned", reason="too slow", tail=("\x1b[31mlast",)),
    ]
    draw(conclude(candidates(), runs, states, (1.0,)), states, complete=False)
    text = capsys.readouterr().out
    for part in (
        "3.0 GiB",
        "99 blocks",
        "Speedup over no speculation; * chosen",
        "ngram-k1: pruned: too slow",
        "concurrency 8: ngram-k2, 1.1",
        "Recommended: ngram-k4, k = 4, 1.6",
        "ngram-k8 left out: no result at concurrency 1",
        '"num_speculative_tokens_per_batch_size": [[1, 1, 4], [2, 8, 2]]}',
        "Mind: beyond the highest load",
        "the same command goes on from here",
    ):
        assert part in text
    assert "\x1b" not in text


def test_what_is_shown_of_little(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a baseline there are no speedups; without any result that is said."""
    told = [Candidate(name="x", k=None, url="u")]
    draw(conclude(told, [run(0, 1, [5.0] * 3, candidate="x")], [], ()), [], complete=True)
    text = capsys.readouterr().out
    assert "Speed over the slowest" in text
    assert "Recommended: x, k = not known over 1 (100%)" in text
    draw(conclude(told, [], [], ()), [], complete=True)
    assert "Nothing can be recommended" in capsys.readouterr().out


def test_drafts_and_servers_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A draft's folder is taken as it is found; a candidate may bring its own command."""
    (tmp_path / "head").mkdir()
    listed = tmp_path / "c.yaml"
    listed.write_text("candidates: [{name: own, server: 'x <<port>> <<prot>>'}]")
    words = ["sweep", "-o", str(tmp_path / "o")]
    assert main([*words, "--candidates", str(listed)]) == 2
    assert "no <<prot>>" in capsys.readouterr().err
    listed.write_text("candidates: [{name: own, server: '/not/there <<port>>'}]")
    drafts = ["--method", "eagle3", "--k", "1", "--draft", str(tmp_path / "head"), "--draft", "a/b"]
    again = [*words, "--candidates", str(listed), *drafts, "--json"]
    assert main([*again, "--server", "/not/there <<port>> <<speculative>>"]) == 4
    document = json.loads(capsys.readouterr().out)
    configs = {one["name"]: one["speculative_config"] for one in document["settings"]["candidates"]}
    assert configs["own"] is None
    assert configs["eagle3-head-k1"]["model"] == str(tmp_path / "head")
    assert configs["eagle3-b-k1"]["model"] == "a/b"
