"""The baseline commands, as a person or a script runs them."""

import asyncio
import io
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.baselines import Json, document, h200_pairs, level, run, vllm_page
from tests.servers import answer, serving, then_close

from specgauge.baseline.doubts import tpot_of
from specgauge.baseline.files import load_file
from specgauge.baseline.picture import draw_plot, draw_table
from specgauge.baseline.schema import parse
from specgauge.cli.baseline import reading
from specgauge.cli.main import main

Out = pytest.CaptureFixture[str]


@pytest.fixture(name="pairs")
def _pairs(tmp_path: Path) -> list[object]:
    """Write a real server's pages; gives the arguments that name them."""
    found: list[object] = []
    for name, seconds, before, after in h200_pairs():
        for end, data in (("before", before), ("after", after)):
            (tmp_path / f"c{name}-{end}.prom").write_bytes(data)
        ends = (tmp_path / f"c{name}-before.prom", tmp_path / f"c{name}-after.prom")
        found += ["--page", *ends, seconds]
    return found


def write(path: Path, *levels: Json, **more: object) -> Path:
    """Write a baseline file by hand."""
    path.write_text(json.dumps(document(*levels, **more)))
    return path


def test_pages_become_a_file_that_shows_and_equals_itself(
    tmp_path: Path, pairs: list[object], capsys: Out
) -> None:
    """From recorded pages to a curve on the terminal."""
    file = tmp_path / "b.json"
    assert run("from-pages", "-o", file, *pairs, "--gpu", "NVIDIA H200", "--temperature", 0) == 0
    told = capsys.readouterr()
    assert told.out == ""
    assert "b.json: 8 levels, 0.979 to 119 requests in decode" in told.err
    assert "give --revision, --quantization, --engine-version, --gpu-count" in told.err
    found = load_file(file)
    assert [round(1000 * tpot_of(one), 2) for one in found.levels][::7] == [4.60, 11.23]
    assert (found.method, found.hardware.gpu, found.hardware.kv_blocks) == (
        "from_pages",
        "NVIDIA H200",
        49886,
    )
    assert found.workload.prefix_caching is False
    assert run("show", file) == 0
    told = capsys.readouterr()
    assert "target on vllm, NVIDIA H200" in told.out
    assert "ms a token" in told.out
    assert max(len(line) for line in told.out.splitlines()[4:]) <= 80
    assert run("diff", file, file) == 0


def test_a_baseline_may_go_to_standard_output(pairs: list[object], capsys: Out) -> None:
    """The file alone is on stdout."""
    assert run("from-pages", "-o", "-", *pairs[:4]) == 0
    assert len(parse(capsys.readouterr().out, source="stdout").levels) == 1


def test_a_timeline_becomes_a_file(tmp_path: Path, capsys: Out) -> None:
    """Pages with times, one of them missing."""
    lines = []
    for n in range(14):
        page = vllm_page(tokens=810 * n, firsts=10 * n, spent=4.0 * n)
        (tmp_path / f"{n}.prom").write_bytes(page)
        lines.append({"t": n, "page": f"{n}.prom"})
    lines[7] = {"t": 7, "page": None, "error": "timeout"}
    (tmp_path / "t.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    out = tmp_path / "b.json"
    assert run("from-pages", "-o", out, "--timeline", tmp_path / "t.jsonl") == 0
    assert "1 level, 4 to 4 requests" in capsys.readouterr().err
    assert tpot_of(load_file(out).levels[0]) == pytest.approx(0.005)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        pytest.param(["-o", "b.json"], 2, "give --page BEFORE AFTER SECONDS", id="nothing"),
        pytest.param(
            ["-o", "b.json", "--page", "a", "b", "1", "--timeline", "t"], 2, "alone", id="both"
        ),
        pytest.param(
            ["-o", "b.json", "--page", "a", "b", "0"], 2, "0.0 is not in the", id="instant"
        ),
        pytest.param(["-o", "b.json", "--page", "a", "b", "nan"], 2, "not a finite", id="nan"),
        pytest.param(["-o", "b.json", "--page", "a", "b", "1"], 3, "a: No such file", id="no-page"),
        pytest.param(["-o", "x/b.json", "--page", "a", "b", "1"], 3, "make it first", id="place"),
        pytest.param(["-o", "b.json", "--page", "p", "p", "1"], 3, "ends in the middle", id="cut"),
        pytest.param(["-o", "b.json", "--timeline", "t"], 3, "t: No such file", id="no-timeline"),
        pytest.param(["-o", "b.json", "--timeline", "j"], 3, "j:1: ", id="bad-page"),
        pytest.param(["--page", "a", "b", "1"], 2, "Missing option", id="no-output"),
    ],
)
def test_from_pages_refuses_in_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Out,
    arguments: list[str],
    code: int,
    message: str,
) -> None:
    """Usage is 2, a source that cannot be used is 3, and nothing is written."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p").write_text("vllm:generation_tokens_total{")
    (tmp_path / "j").write_text('{"t": 1, "page": "p"}')
    assert run("from-pages", *arguments) == code
    assert message in capsys.readouterr().err
    assert not (tmp_path / "b.json").exists()


def test_a_page_larger_than_any_is_refused(tmp_path: Path, capsys: Out) -> None:
    """A disk image is no page."""
    with (tmp_path / "p").open("wb") as file:
        file.truncate((64 << 20) + 1)
    page = tmp_path / "p"
    assert run("from-pages", "-o", tmp_path / "b", "--page", page, page, 1) == 3
    assert "larger than 64 MiB" in capsys.readouterr().err


def test_results_of_other_tools_become_a_file(tmp_path: Path, capsys: Out) -> None:
    """What was converted and what is missing is said."""
    result = tmp_path / "flat.json"
    result.write_text(json.dumps({"tpot_p50_ms": 24.0, "concurrency": 1}))
    out = tmp_path / "b.json"
    assert run("import", result, "-o", out) == 2
    assert "give --model NAME" in capsys.readouterr().err
    assert run("import", result, "-o", out, "--model", "m", "--tensor-parallel", 4) == 0
    told = capsys.readouterr().err
    assert "mind: tpot_seconds.mean: the median tpot_p50_ms stands for it" in told
    assert "not known: model.revision" in told
    found = load_file(out)
    assert (found.method, found.model.name, found.parallelism.tensor) == ("imported", "m", 4)
    assert run("import", tmp_path / "none.json", "-o", out) == 3


def test_show_gives_a_program_the_whole_file(tmp_path: Path, capsys: Out) -> None:
    """`--json` normalises; what is odd goes to stderr."""
    path = write(tmp_path / "b.json", level(8.0), notes=["by hand"])
    assert run("show", "--json", path) == 0
    told = capsys.readouterr()
    assert parse(told.out, source="stdout") == load_file(path)
    assert told.err.splitlines()[0] == "mind: by hand"
    assert run("show", tmp_path / "none.json") == 3


def test_show_names_machine_load_and_age(tmp_path: Path, capsys: Out) -> None:
    """The head says whose it is and under which load."""
    path = write(
        tmp_path / "b.json",
        engine={"name": "vllm", "version": "0.25.1"},
        hardware={"gpu": "NVIDIA H200", "count": 2},
        workload={"name": "chat", "temperature": 0.0},
        missing=["model.revision"],
    )
    assert run("show", path) == 0
    assert capsys.readouterr().out.splitlines()[:3] == [
        "target on vllm 0.25.1, 2 x NVIDIA H200",
        "closed_loop, 2026-11-29 16:04 UTC, load chat, temperature 0.0",
        "not known: model.revision",
    ]


@pytest.mark.parametrize("width", [10, 24, 40, 80, 120])
def test_pictures_fit_the_width(width: int) -> None:
    """Columns that do not fit go; the plot narrows, down to what still shows a curve."""
    client = {"tpot_seconds": {"mean": 0.006, "ci95": [0.005, 0.007]}, "ttft_seconds": {"mean": 1}}
    alone = {"decode_concurrency": 3.0, "client": client}
    bare = {"decode_concurrency": 20.0, "server": {"tpot_seconds": 0.02}}
    file = parse(json.dumps(document(level(1.0, 0.004), alone, level(8.0), bare)), source="t")
    table, plot = draw_table(file, width=width), draw_plot(file, width=width)
    assert all(len(line) <= max(width, 6) for line in table.splitlines())
    assert len(table.splitlines()) == 5
    assert all(len(line) <= max(width, 27) for line in plot.splitlines())
    assert plot.count("o") >= 4


def test_one_level_is_drawn_as_a_flat_line() -> None:
    """A baseline of one load is held everywhere."""
    plot = draw_plot(parse(json.dumps(document(level(8.0))), source="t"), width=40)
    assert sum(line.count("o....") for line in plot.splitlines()) == 1


def test_diff_tells_levels_that_differ(tmp_path: Path, capsys: Out) -> None:
    """Exit code 1, and the level is marked."""
    one = write(tmp_path / "1.json", engine={"name": "vllm", "version": "0.25.1"})
    other = write(tmp_path / "2.json", level(1.0, 0.004), level(8.0, 0.006))
    assert run("diff", one, other) == 1
    out = capsys.readouterr().out.splitlines()
    assert out[0] == 'engine.version: "0.25.1" and null'
    assert [line.endswith("differs") for line in out[2:]] == [False, True]
    assert run("diff", "--json", one, other) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["schema"], found["equal"]) == ("specgauge.baseline-diff/v1", False)
    assert found["levels"][1]["ratio"] == pytest.approx(1.2)
    assert found["provenance"] == {"engine.version": ["0.25.1", None]}


def test_diff_of_other_loads_gives_no_verdict(tmp_path: Path, capsys: Out) -> None:
    """A changed temperature and prompt set: no ratio at all, and the fields by name."""
    one = write(tmp_path / "1.json", workload={"temperature": 0.0, "prompts_sha256": "a"})
    other = write(tmp_path / "2.json", workload={"temperature": 1.0, "prompts_sha256": "b"})
    assert run("diff", one, other) == 4
    message = "not comparable: baseline_mismatch: the loads differ in temperature, prompts_sha256"
    assert message in capsys.readouterr().out
    assert run("diff", "--json", one, other) == 4
    found = json.loads(capsys.readouterr().out)
    assert found["mismatches"] == ["temperature", "prompts_sha256"]
    assert found["levels"] == []
    far = write(tmp_path / "3.json", level(100.0))
    assert run("diff", one, far) == 4
    assert "no_common_load" in capsys.readouterr().out


class Terminal(io.StringIO):
    """A stderr that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_long_reading_is_counted_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it takes over two seconds, and the line ends with the work."""
    terminal = Terminal()
    monkeypatch.setattr(reading, "_WORTH_SHOWING", 0.0)
    monkeypatch.setattr(sys, "stderr", terminal)
    assert list(reading.counted([5, 6], "pages read")) == [5, 6]
    assert terminal.getvalue() == "\r1 pages read\r2 pages read\r2 pages read\n"


BUSY = vllm_page(tokens=1010, firsts=10, spent=5.0)


def served(path: str, body: object) -> bytes:
    """Spell the answer to a request for JSON."""
    assert path
    return answer(json.dumps(body).encode(), content_type="application/json")


@pytest.fixture(name="server")
async def _server() -> AsyncIterator[str]:
    """Serve a vLLM that tells its version and its models."""
    answers = (
        answer(BUSY),
        served("/version", {"version": "0.25.1"}),
        served("/v1/models", {"data": [{"id": "alias", "max_model_len": 4096}, {"x": 1}]}),
    )
    async with serving(*answers) as one:
        yield one.url


async def test_check_finds_the_baseline_to_belong(tmp_path: Path, server: str, capsys: Out) -> None:
    """What agrees, what the server does not tell, and what only warns."""
    file = write(
        tmp_path / "b.json",
        engine={"name": "vllm", "version": "0.20.0"},
        hardware={"gpu": "NVIDIA H200"},
        created="2020-01-01T00:00:00Z",
    )
    assert await asyncio.to_thread(run, "check", "--url", server, file) == 0
    told = capsys.readouterr()
    assert told.out == f"{file} belongs to this server\n"
    assert "the server does not tell: hardware.gpu; state them as options" in told.err
    assert "mind: baseline_engine_release\nmind: baseline_stale\n" in told.err


async def test_check_says_exactly_what_differs(tmp_path: Path, server: str, capsys: Out) -> None:
    """Exit code 1, a line for each fact."""
    file = write(tmp_path / "b.json", model={"name": "other"}, hardware={"gpu": "NVIDIA H200"})
    command = ("check", "--url", server, file, "--gpu", "A100", "--json")
    assert await asyncio.to_thread(run, *command) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["belongs"] is False
    assert found["mismatches"] == {
        "model.name": {"baseline": "other", "server": "target, alias"},
        "hardware.gpu": {"baseline": "NVIDIA H200", "server": "A100"},
    }
    async with serving(answer(BUSY), answer(status=404)) as silent:
        code = await asyncio.to_thread(run, "check", "--url", silent.url, file)
    assert code == 1
    line = 'model.name: the baseline is of "other", the server has "target"'
    assert line in capsys.readouterr().out


async def test_check_of_a_fresh_server_goes_by_what_it_serves(tmp_path: Path) -> None:
    """Before the first request the page names no model, and a list may be no list."""
    fresh = answer(b'vllm:cache_config_info{num_gpu_blocks="9"} 1\n')
    file = write(tmp_path / "b.json")
    for models in ({"data": [{"id": "target"}]}, {"data": 7}):
        listed = served("/v1/models", models)
        async with serving(fresh, answer(status=404), listed) as one:
            assert await asyncio.to_thread(run, "check", "--url", one.url, file) == 0


async def test_check_ends_with_3_where_there_is_no_server(tmp_path: Path, capsys: Out) -> None:
    """A server that is not there is a source that cannot be read; a bad URL is usage."""
    file = write(tmp_path / "b.json")
    async with serving(then_close(b"")) as one:
        assert await asyncio.to_thread(run, "check", "--url", one.url, file) == 3
    assert await asyncio.to_thread(run, "check", "--url", "localhost", file) == 2
    assert "--url: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("recorded", "given", "code", "told"),
    [
        pytest.param(
            "target", "foo", 2, "--model: no model 'foo'; there is target, alias", id="no"
        ),
        pytest.param("other", "other", 2, "--model: no model 'other'; there is", id="foreign"),
        pytest.param("target", "target", 0, "belongs", id="shown"),
        pytest.param("target", "alias", 0, "belongs", id="alias of what is shown"),
        pytest.param("alias", "alias", 0, "belongs", id="alias"),
        pytest.param("alias", "target", 1, 'the server has "target"', id="another of its names"),
    ],
)
async def test_check_takes_a_model_that_is_served(
    tmp_path: Path, server: str, capsys: Out, recorded: str, given: str, code: int, told: str
) -> None:
    """An option picks among the names there are, and puts none in their place."""
    file = write(tmp_path / "b.json", model={"name": recorded})
    command = ("check", "--url", server, file, "--model", given)
    assert await asyncio.to_thread(run, *command) == code
    said = capsys.readouterr()
    assert told in said.out + said.err


@pytest.mark.parametrize(
    ("option", "value"), [("--engine-version", "0.9.0"), ("--data-parallel", 7)]
)
async def test_options_do_not_contradict_the_server(
    tmp_path: Path, server: str, capsys: Out, option: str, value: object
) -> None:
    """What the server tells is not stated otherwise."""
    file = write(tmp_path / "b.json")
    command = ("check", "--url", server, file, option, value)
    assert await asyncio.to_thread(run, *command) == 2
    assert "is stated, the server tells" in capsys.readouterr().err


async def test_options_may_say_what_the_server_says(tmp_path: Path, server: str) -> None:
    """Stating the same does no harm."""
    file = write(tmp_path / "b.json")
    same = ("check", "--url", server, file, "--engine-version", "0.25.1", "--data-parallel", 1)
    assert await asyncio.to_thread(run, *same) == 0


async def test_check_of_a_nameless_server_takes_the_name_given(tmp_path: Path, capsys: Out) -> None:
    """Where neither page nor list has a name it may be stated, and else is not checked."""
    fresh = answer(b'vllm:cache_config_info{num_gpu_blocks="9"} 1\n')
    file = write(tmp_path / "b.json")
    async with serving(fresh, answer(status=404)) as one:
        assert await asyncio.to_thread(run, "check", "--url", one.url, file) == 0
    assert "the server does not tell: model.name" in capsys.readouterr().err
    async with serving(fresh, answer(status=404)) as one:
        command = ("check", "--url", one.url, file, "--model", "other")
        assert await asyncio.to_thread(run, *command) == 1


def test_pages_are_not_contradicted(tmp_path: Path, pairs: list[object], capsys: Out) -> None:
    """A page that shows one engine is of no server with two."""
    command = ("from-pages", "-o", tmp_path / "b", *pairs[:4], "--data-parallel", 2)
    assert run(*command) == 2
    assert "parallelism.data: 2 is stated, the server tells 1" in capsys.readouterr().err


RAW = "a\x1b[31m\x9b\u202e\x7fb"


def test_show_and_diff_escape_what_a_terminal_obeys(tmp_path: Path, capsys: Out) -> None:
    """No text of a file reaches the terminal with control characters in it."""
    everywhere = {
        "model": {"name": RAW},
        "engine": {"name": RAW, "version": RAW},
        "hardware": {"gpu": RAW},
        "workload": {"name": RAW, "output_tokens": RAW},
        "missing": [RAW],
        "notes": [RAW],
    }
    file, other = write(tmp_path / "1", **everywhere), write(tmp_path / "2")
    assert run("show", file) == 0
    run("diff", file, other)
    told = capsys.readouterr()
    assert all(line.isprintable() for line in (told.out + told.err).split("\n"))
    assert r"a\x1b[31m\x9b\u202e\x7fb on" in told.out


async def test_check_escapes_what_a_terminal_obeys(tmp_path: Path, capsys: Out) -> None:
    """Names of a file and of a server stand in its differences and in its refusals."""
    file = write(tmp_path / "b.json", model={"name": RAW})
    async with serving(answer(vllm_page(tokens=10, firsts=1, model=RAW + "c"))) as one:
        assert (
            await asyncio.to_thread(main, ["baseline", "check", "--url", one.url, str(file)]) == 1
        )
        wrong = ["baseline", "check", "--url", one.url, str(file), "--model", RAW]
        assert await asyncio.to_thread(main, wrong) == 2
    told = capsys.readouterr()
    assert all(line.isprintable() for line in (told.out + told.err).split("\n"))
    assert "no model" in told.err
