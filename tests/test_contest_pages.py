"""`compare` over recorded pages of an H200: every load is decided as its clients measured it."""

import json
import lzma
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.recorded import H200_LEVELS, load_page, load_truth

from specgauge.cli.main import main
from specgauge.serve.demo.recording import RecordingName, load


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpack the pages of every mode and level."""
    made = tmp_path_factory.mktemp("h200")
    for mode in ("none", "draft", "draft-poor", "eagle"):
        for level in H200_LEVELS:
            for end in ("before", "after"):
                page = load_page(f"h200/{mode}/c{level}-{end}.prom")
                (made / f"{mode}-c{level}-{end}.prom").write_bytes(page)
    return made


def given(folder: Path, mode: str, levels: Sequence[int], *, flag: str) -> list[str]:
    """Spell the options for the pages of a mode out."""
    found: list[str] = []
    for level in levels:
        pages = [str(folder / f"{mode}-c{level}-{end}.prom") for end in ("before", "after")]
        seconds = load_truth(f"h200/{mode}")["levels"][str(level)]["wall_s"]
        found += [flag, *pages, str(seconds)]
    return found


def both(folder: Path, mode: str, levels: Sequence[int] = H200_LEVELS) -> list[str]:
    """Compare the pages without speculation with those of a mode."""
    return [
        "compare",
        *given(folder, "none", levels, flag="--baseline-page"),
        *given(folder, mode, levels, flag="--speculative-page"),
        "--concurrency",
        ",".join(str(level) for level in levels),
        "--json",
    ]


def told(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("mode", ["eagle", "draft", "draft-poor"])
def test_every_load_is_decided_as_the_clients_measured(
    mode: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The speedup is the clients' and a load pays or costs as theirs did."""
    main(both(folder, mode))
    cells = told(capsys)["cells"]
    assert [cell["concurrency"] for cell in cells] == list(H200_LEVELS)
    for cell in cells:
        without, with_it = (
            load_truth(f"h200/{one}")["levels"][str(int(cell["concurrency"]))]
            for one in ("none", mode)
        )
        truth = without["tpot_mean"] / with_it["tpot_mean"]
        assert cell["speedup"]["tpot_mean"]["value"] == pytest.approx(truth, rel=0.03)
        assert cell["verdict"] == ("pays" if truth > 1.05 else "costs")
        assert cell["baseline"]["requests"] == without["requests"]


@pytest.mark.parametrize(
    ("mode", "levels", "decision", "below", "code"),
    [
        ("eagle", (1, 8, 32, 128), "only_below_load", 128, 1),
        ("eagle", (1, 8, 32), "promote", None, 0),
        ("draft", (1, 8, 32, 128), "keep_off", None, 1),
        ("draft-poor", (1, 8, 32, 128), "keep_off", None, 1),
    ],
)
def test_decision(
    mode: str,
    levels: tuple[int, ...],
    decision: str,
    below: float | None,
    code: int,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The head pays below 128 at a time, both draft models cost; the draft's memory is expected."""
    assert main(both(folder, mode, levels)) == code
    found = told(capsys)
    assert (found["decision"], found["below_load"]) == (decision, below)
    (difference,) = found["differences"]
    assert (difference["field"], difference["baseline"]) == ("hardware.kv_blocks", 49886)
    assert difference["expected"]


def test_loads_without_names(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a word on the loads they go by what was in decode, and repeats of one go together."""
    args = both(folder, "eagle", (8,))
    assert main([one for one in args if one not in {"--concurrency", "8"}]) == 0
    assert told(capsys)["cells"][0]["concurrency"] == pytest.approx(7.4, abs=0.6)
    twice = [
        *given(folder, "none", (8, 8), flag="--baseline-page"),
        *given(folder, "eagle", (8, 8), flag="--speculative-page"),
    ]
    assert main(["compare", *twice, "--load", "steady=8,again=8"]) == 2
    capsys.readouterr()
    assert main(["compare", *twice, "--concurrency", "8,8", "--json"]) == 0
    (cell,) = told(capsys)["cells"]
    assert cell["repeats"] == 2
    one = given(folder, "none", (8,), flag="--baseline-page")
    other = given(folder, "eagle", (8,), flag="--speculative-page")
    assert main(["compare", *one, *other, "--load", "peak=8"]) == 0
    assert "peak (8): pays (1 repeat)" in capsys.readouterr().out


def test_report_for_people(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The text has a table a load and the decision; the files have the same."""
    files = [tmp_path / "compare.json", tmp_path / "compare.md"]
    args = [one for one in both(folder, "eagle") if one != "--json"]
    assert main([*args, "-o", str(files[0]), "--markdown", str(files[1])]) == 1
    text = capsys.readouterr().out
    assert "time per token, mean" in text
    assert "49886 and 48110 (expected: -3.6%, the draft's memory)" in text
    assert text.rstrip().endswith("switch it off from there on (fails_above_load)")
    assert json.loads(files[0].read_text())["schema"] == "specgauge.compare/v1"
    page = files[1].read_text()
    assert page.startswith("# only below load 128")
    assert page.count("|---|---:|---:|---:|") == 4


@pytest.mark.parametrize(
    ("first", "second", "allow", "says"),
    [
        ("none", "none", [], "no drafts are counted"),
        ("eagle", "draft", [], "drafts are counted in the baseline's pages"),
        ("none", "none", ["--allow", "speculation"], None),
        ("eagle", "draft", ["--allow", "speculation"], None),
    ],
)
def test_pages_of_the_wrong_kind(
    first: str,
    second: str,
    allow: list[str],
    says: str | None,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Pages that do not speculate are no speculative pool's, unless that is allowed."""
    code = main([
        "compare",
        *given(folder, first, (8,), flag="--baseline-page"),
        *given(folder, second, (8,), flag="--speculative-page"),
        *allow,
    ])  # fmt: skip
    seen = capsys.readouterr()
    assert (code == 2) == (says is not None)
    assert (says or "") in seen.err
    if first == second == "none" and not says:
        assert "even: it makes no difference" in seen.out


@pytest.mark.parametrize(("load", "unlike"), [(1, False), (32, True)])
def test_pages_of_different_loads_are_told(
    load: int, unlike: bool, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Pools with neither the same requests at once nor the same arrivals had different work."""
    pages = given(folder, "none", (1,), flag="--baseline-page")
    pages += given(folder, "eagle", (load,), flag="--speculative-page")
    main(["compare", *pages, "--load", "steady=1", "--json"])
    assert ("loads_differ" in told(capsys)["cells"][0]["notes"]) == unlike
    main(["compare", *pages, "--load", "steady=1"])
    text = capsys.readouterr().out
    assert ("Mind: the pools had different loads at steady (1) (loads_differ)" in text) == unlike


def write_timeline(name: RecordingName, folder: Path) -> Path:
    """Write a packaged recording as a timeline."""
    made = folder / name
    made.mkdir()
    lines = []
    for number, page in enumerate(load(name).pages):
        (made / f"{number}.prom").write_text(page.text)
        lines.append(json.dumps({"t": page.at, "page": f"{number}.prom"}))
    path = made / "pages.jsonl"
    path.write_text("\n".join(lines))
    return path


def test_timelines_are_decided_slice_by_slice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same arrivals with and without a head: each slice is within 7 % of its clients' truth."""
    without, with_it = (
        write_timeline(name, tmp_path)
        for name in (RecordingName.STANDARD, RecordingName.SPECULATIVE)
    )
    files = ["--baseline-timeline", str(without), "--speculative-timeline", str(with_it)]
    assert main(["compare", *files, "--slice", "18s", "--json"]) == 0
    cells = {cell["load"]: cell for cell in told(capsys)["cells"]}
    truth = load_phases()
    for place, phase in enumerate(truth, 1):
        found = cells[f"slice{place}"]["speedup"]["tpot_mean"]
        assert found["low"] < found["value"] < found["high"]
        assert found["value"] == pytest.approx(phase, rel=0.07)
        assert cells[f"slice{place}"]["verdict"] == "pays"
    assert main(["compare", *files]) == 0
    assert "1 repeat" in capsys.readouterr().out


def load_phases() -> list[float]:
    """Give the clients' ratio of times per token in each phase."""
    path = Path(__file__).parent / "pages" / "ramps-truth.json"
    return [
        phase["none"]["decode_seconds"] / phase["eagle"]["decode_seconds"]
        for phase in json.loads(path.read_text())["phases"]
    ]


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        ([], 2, "--baseline-url"),
        (["--baseline-url", "http://a:1"], 2, "--speculative-url"),
        (["--url", "http://a:1"], 2, "--save"),
        (["--save", "x.json"], 2, "--url"),
        (["--baseline-url", "http://a:1", "--speculative-url", "http://a:1/"], 2, "same server"),
        (["--baseline-url", "ftp://a", "--speculative-url", "http://a:1"], 2, "is no server"),
        (["--baseline-timeline", "x"], 2, "--speculative-timeline"),
        (["--baseline-timeline", "x", "--speculative-timeline", "y"], 3, "x: "),
        (["--baseline-page", "a", "b", "1"], 2, "equally often"),
        (["--window", "soon"], 2, "--window"),
        (["--window", "100ms"], 2, "is not from 0.2"),
        (["--window", "nan"], 2, "is not from 0.2"),
        (["--repeats", "1"], 2, "--repeats"),
        (["-o", "nowhere/at/all.json"], 3, "no folder"),
    ],
)
def test_command_lines_that_cannot_be_obeyed(
    args: list[str], code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is wrong is said on one line, with the option or the file."""
    assert main(["compare", *args]) == code
    assert says in capsys.readouterr().err


BOTH = ["--baseline-url", "http://127.0.0.1:9", "--speculative-url", "http://127.0.0.1:10"]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--load", "steady"], "--load"),
        (["--load", "steady=1", "--concurrency", "2"], "give one of them"),
        (["--concurrency", "a=1"], "name loads with --load"),
        (["--output-tokens", "many"], "--output-tokens"),
        (["--classes", "poems"], "choose among chat"),
        (["--prompts", "nowhere.json"], "--prompts nowhere.json"),
        (["--allow", "hardware.kv_blocks"], "expected to differ"),
        (["--allow", "colour"], "no such field"),
        (["--validate", "x", "--schema", "y"], "give one of them"),
        (["--validate", "no-such-program-at-all"], "no such program"),
        (["--validate", "'"], "No closing quotation"),
        (["--validate", ""], "no such program"),
        ([], "unreachable: http://127.0.0.1:9"),
        (["--schema", "nowhere.json"], "--schema nowhere.json"),
        (["--api-key-file", "nowhere.key"], "--api-key-file nowhere.key"),
        (["--baseline-log", "nowhere.log"], "nowhere.log"),
    ],
)
def test_options_are_checked_before_any_server(
    args: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is asked of a server whose comparison could not end; else nobody listens there."""
    code = main(["compare", *BOTH, *args])
    seen = capsys.readouterr().err
    assert code == (3 if says.startswith(("unreachable", "nowhere.log")) else 2)
    assert says in seen
    assert "Traceback" not in seen


def test_an_unpaired_set_of_pages(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Pages come in equal numbers, and so do their loads; a timeline of one page tells nothing."""
    args = both(folder, "eagle", (1, 8))
    assert main([*args[:-1], "--baseline-page", *args[2:5]]) == 2
    assert "equally often" in capsys.readouterr().err
    assert main([*args[:-3], "--concurrency", "1,8,9"]) == 2
    assert "3 loads for 2 pairs" in capsys.readouterr().err
    single = folder / "single.jsonl"
    single.write_text('{"t": 0, "page": "none-c1-before.prom"}')
    twice = ["--baseline-timeline", str(single), "--speculative-timeline", str(single)]
    assert main(["compare", *twice]) == 4


def test_garbage_in_place_of_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Binary files, folders and other people's JSON are refused with their path."""
    noise = tmp_path / "noise.bin"
    noise.write_bytes(lzma.compress(b"x" * 1000))
    page = ["--baseline-page", str(noise), str(noise), "1"]
    code = main(["compare", *page, "--speculative-page", str(tmp_path), str(noise), "1"])
    assert (code, str(noise) in capsys.readouterr().err) == (3, True)
    for path in (noise, tmp_path):
        args = ["compare", "--url", "http://127.0.0.1:9", "--against", str(path)]
        assert main(args) == 3
        assert str(path) in capsys.readouterr().err
        assert main(["compare", *BOTH, "--schema", str(path)]) == 2
        assert main(["compare", *BOTH, "--api-key-file", str(path)]) == 2
        capsys.readouterr()


def test_slices_that_hold_nothing(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Slices shorter than the spacing of pages give no cell; idle ones no speedup."""
    names = {"none": tmp_path / "a.jsonl", "eagle": tmp_path / "b.jsonl"}
    for mode, path in names.items():
        pages = [str(folder / f"{mode}-c1-{end}.prom") for end in ("before", "after", "after")]
        lines = [json.dumps({"t": 20 * n, "page": page}) for n, page in enumerate(pages)]
        path.write_text("\n".join(lines))
    files = ["--baseline-timeline", str(names["none"]), "--speculative-timeline"]
    assert main(["compare", *files, str(names["eagle"]), "--slice", "1"]) == 4
    assert "no slice of both holds two pages" in capsys.readouterr().err
    assert main(["compare", *files, str(names["eagle"]), "--slice", "20", "--json"]) == 4
    assert [len(cell["speedup"]) for cell in told(capsys)["cells"]] == [0, 4]


def test_pages_that_tell_less(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Pages without gauges of the cache are compared by what they have."""
    args = both(folder, "eagle", (8,))
    for place, one in enumerate(args):
        if one.endswith(".prom"):
            lines = Path(one).read_text().splitlines(keepends=True)
            args[place] = one.replace(".prom", ".less")
            kept = [line for line in lines if "kv_cache_usage_perc" not in line]
            Path(args[place]).write_text("".join(kept))
    assert main(args) == 0
    server = told(capsys)["cells"][0]["speculative"]["server"]
    assert "kv_cache_usage_ratio_end" not in server
    assert server["acceptance_ratio"] == pytest.approx(0.548, abs=0.01)
