"""`specgauge inspect`: its sources, its document to the letter, and what it refuses."""

import asyncio
import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.recorded import PAGES, load_page
from tests.servers import answer, serving
from tests.sidecars import specgauge, until
from tests.small_pages import diffusion_page, v0_page, v1_page

from specgauge.cli.main import main
from specgauge.cli.progress import waiting
from specgauge.cli.table import write
from specgauge.model.derived import FIELDS, Reason, Speculation, Value, Warn
from specgauge.model.quantity import Dialect
from specgauge.serve.demo.recording import RecordingName, load
from specgauge.serve.demo.stand_in import StandIn

SMALL = Path(__file__).parent / "data" / "small_page.prom"
NAMES = [
    str(path.relative_to(PAGES)).removesuffix(".xz")
    for path in sorted(PAGES.rglob("*"))
    if re.search(r"\.(prom|txt)(\.xz)?$", path.name) and path.name != "log.txt"
]
HEAD = ("model_name", "engines", "speculation", "speculation_reason")
TAIL = ("per_engine", "absent", "warnings")
CONTRACT = (
    *("schema", "dialect", "engine_version", "window_seconds", "models"),
    *("model_name", "engines", "speculation", "num_speculative_tokens"),
    *("acceptance_ratio", "acceptance_length", "draft_length", "position_acceptance_ratio"),
    *("position_conditional_acceptance_ratio", "tokens_per_step", "draft_coverage_ratio"),
    *("tpot_seconds", "request_tpot_seconds", "step_seconds", "ttft_seconds", "e2e_seconds"),
    *("decode_concurrency", "generation_tokens_per_second", "drafts", "draft_tokens"),
    *("accepted_tokens", "accepted_tokens_per_position", "generation_tokens"),
    *("requests_running", "requests_waiting", "kv_cache_usage_ratio", "preemptions"),
    *("per_engine", "absent", "warnings"),
)

Capture = pytest.CaptureFixture[str]


def check_document(text: str, *, windowed: bool) -> Any:
    """Hold a document against the contract: order, every field, known words, no NaN."""
    document = json.loads(text, parse_constant=pytest.fail)
    assert list(document) == list(CONTRACT[:5])
    assert document["schema"] == "specgauge.inspect/v1"
    assert document["dialect"] in list(Dialect)
    assert (document["window_seconds"] is not None) is windowed
    for model in document["models"]:
        order = [*HEAD, *FIELDS, *TAIL]
        assert list(model) == [key for key in order if key in model]
        assert {key for key in FIELDS if key in model} | set(model["absent"]) == set(FIELDS)
        assert not set(model) & set(model["absent"])
        assert model["speculation"] in list(Speculation)
        assert set(model["absent"].values()) <= set(Reason)
        plain = [one for one in model["warnings"] if not one.startswith("identity_violation:")]
        assert set(plain) <= set(Warn)
        assert ("lifetime_value" in plain) is not windowed
        assert None not in model.values()
        assert [one["engine"] for one in model["per_engine"]] == model["engines"]
    return document


def run(capsys: Capture, *arguments: str | Path) -> tuple[int, str, str]:
    """Run the command line in this process; gives the exit code and both streams."""
    code = main([str(one) for one in ("inspect", *arguments)])
    out, err = capsys.readouterr()
    return code, out, err


# --- documents --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_every_recorded_page(name: str, tmp_path: Path, capsys: Capture) -> None:
    """Any page gives a whole document and nothing else, or one line that names the page."""
    file = tmp_path / "page"
    file.write_bytes(load_page(name))
    code, out, err = run(capsys, "--json", file)
    if code == 0:
        assert err == ""
        document = check_document(out, windowed=False)
        for model in document["models"]:
            assert model["absent"]["decode_concurrency"] in {
                "needs_window",
                "implausible_ttft",
            } or ("not_exposed" in model["absent"]["decode_concurrency"])
        return
    assert (code, out) == (3, "")
    assert re.fullmatch(rf"specgauge: [a-z_]+: {re.escape(str(file))}: .+\n", err)


@pytest.mark.parametrize(
    "name", sorted({name.rsplit("/", 1)[0] for name in NAMES if name.startswith("vllm/")})
)
def test_every_recorded_window(name: str, tmp_path: Path, capsys: Capture) -> None:
    """Two pages and the time between give rates as well, in JSON and for people."""
    files = [tmp_path / "before", tmp_path / "after"]
    for file in files:
        file.write_bytes(load_page(f"{name}/{file.name}.prom"))
    code, out, err = run(capsys, "--json", "--window", "10", *files)
    assert (code, err) == (0, "")
    document = check_document(out, windowed=True)
    assert document["window_seconds"] == 10
    assert run(capsys, "--window", "10", *files)[0] == 0


def test_document_to_the_letter(tmp_path: Path, capsys: Capture) -> None:
    """The fields stand in the documented order, with the values that the page was made from."""
    before, after = tmp_path / "before", tmp_path / "after"
    before.write_bytes(v1_page(1000))
    after.write_bytes(v1_page(2000))
    _, out, _ = run(capsys, "--json", "--window", "10", before, after)
    document = check_document(out, windowed=True)
    (model,) = document.pop("models")
    assert document == {
        "schema": "specgauge.inspect/v1",
        "dialect": "vllm-v1",
        "engine_version": None,
        "window_seconds": 10.0,
    }
    told = [key for key in (*document, "models", *model) if key in CONTRACT]
    assert told == [key for key in CONTRACT if key != "request_tpot_seconds"]
    assert {key: value for key, value in model.items() if not isinstance(value, float)} == {
        "model_name": "small",
        "engines": ["0"],
        "speculation": "active",
        "num_speculative_tokens": 4,
        "position_acceptance_ratio": [0.8, 0.6, 0.4, 0.2],
        "position_conditional_acceptance_ratio": [0.8, 0.75, 2 / 3, 0.5],
        "drafts": 1000,
        "draft_tokens": 4000,
        "accepted_tokens": 2000,
        "accepted_tokens_per_position": [800, 600, 400, 200],
        "generation_tokens": 3040,
        "requests_running": 1,
        "requests_waiting": 0,
        "preemptions": 10,
        "per_engine": [{"engine": "0", "acceptance_ratio": 0.5, "acceptance_length": 3.0}],
        "absent": {"request_tpot_seconds": "not_exposed_by_engine"},
        "warnings": ["latency_below_first_bucket"],
    }
    assert {key: round(value, 6) for key, value in model.items() if isinstance(value, float)} == {
        "acceptance_ratio": 0.5,
        "acceptance_length": 3.0,
        "draft_length": 4.0,
        "tokens_per_step": 3.0,
        "draft_coverage_ratio": 1.0,
        "tpot_seconds": 0.003333,
        "step_seconds": 0.01,
        "ttft_seconds": 0.05,
        "e2e_seconds": 0.3,
        "decode_concurrency": 1.0,
        "decode_tokens_per_second": 300.0,
        "generation_tokens_per_second": 304.0,
        "prompt_tokens_per_request": 100.0,
        "output_tokens_per_request": 76.0,
        "kv_cache_usage_ratio": 0.25,
    }


def test_server_that_has_served_nothing(tmp_path: Path, capsys: Capture) -> None:
    """A page with the cache's configuration alone is a document without models, and fine."""
    page = tmp_path / "page"
    page.write_text('vllm:cache_config_info{block_size="16",engine="0"} 1.0\n')
    code, out, _ = run(capsys, "--json", page)
    assert (code, check_document(out, windowed=False)["models"]) == (0, [])
    code, out, _ = run(capsys, page)
    assert (code, out.splitlines()[-1]) == (0, "The server has served nothing yet.")


@pytest.mark.parametrize(
    ("options", "warning"),
    [
        pytest.param(["--engines", "2"], "engines_missing", id="engines"),
        pytest.param(["--method", "ngram"], "padded_drafts_possible", id="padded"),
        pytest.param(["--method", "synthetic_eagle"], "synthetic_acceptance", id="synthetic"),
    ],
)
def test_hints(options: list[str], warning: str, capsys: Capture) -> None:
    """What the page cannot tell comes as a flag and shows as a warning."""
    plain = json.loads(run(capsys, "--json", SMALL)[1])
    hinted = json.loads(run(capsys, "--json", *options, SMALL)[1])
    assert set(hinted["models"][0]["warnings"]) - set(plain["models"][0]["warnings"]) == {warning}


# --- text for people --------------------------------------------------------------------------

TEXTS: dict[str, list[bytes]] = {
    "lifetime": [SMALL.read_bytes()],
    "window": [v1_page({"0": 1000, "1": 1000}), v1_page({"0": 2000, "1": 1000})],
    "diffusion": [diffusion_page(1000), diffusion_page(2000)],
    "v0": [v0_page([], 0), v0_page([500], 500)],
    "empty": [b'vllm:cache_config_info{engine="0"} 1.0\n'],
}


@pytest.mark.parametrize("name", TEXTS)
def test_text(
    name: str, tmp_path: Path, capsys: Capture, golden: Callable[[str, str], None]
) -> None:
    """The text is readable: units, percentages, and a reason beside each absent figure."""
    files = []
    for place, page in enumerate(TEXTS[name]):
        files.append(tmp_path / f"{place}")
        files[-1].write_bytes(page)
    window = ["--window", "10"] if len(files) > 1 else []
    code, out, err = run(capsys, *window, *files)
    assert (code, err) == (0, "")
    golden(f"inspect-{name}.txt", "".join(f"{line.rstrip()}\n" for line in out.splitlines()))


def test_labels_are_only_text(tmp_path: Path, capsys: Capture) -> None:
    """A page may call its model and engines anything; a terminal does not obey them."""
    page = tmp_path / "page"
    page.write_bytes(v1_page({"[/red]": 1000, "1": 1000}, model="\x1b[31mred[bold]"))
    code, out, _ = run(capsys, page)
    assert code == 0
    assert "'\\x1b[31mred[bold]': speculation active" in out
    assert "acceptance, engine [/red]" in out
    assert "\x1b" not in out


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        pytest.param("acceptance_ratio", 0.5482, "54.8%", id="ratio"),
        pytest.param("position_acceptance_ratio", [0.8, 0.6], "80.0%  60.0%", id="ratios"),
        pytest.param("tpot_seconds", 0.002114, "2.114 ms", id="milliseconds"),
        pytest.param("e2e_seconds", 12.3456, "12.35 s", id="seconds"),
        pytest.param("drafts", 3856, "3856", id="count"),
        pytest.param("tokens_per_step", 3.17, "3.170", id="number"),
        pytest.param("generation_tokens_per_second", 3334.2, "3334.20 /s", id="rate"),
    ],
)
def test_units(field: str, value: Value, expected: str) -> None:
    """Each figure has the unit that its name says."""
    assert write(field, value) == expected


# --- sources ----------------------------------------------------------------------------------


def test_standard_input(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """- is standard input, on either side of a window."""
    for arguments in (["-"], ["--window", "10", "-", SMALL], ["--window", "10", SMALL, "-"]):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(SMALL.read_bytes())))
        code, out, _ = run(capsys, "--json", *arguments)
        assert code == 0
        check_document(out, windowed=len(arguments) > 1)


async def test_url(capsys: Capture) -> None:
    """A URL is fetched, with the engine's word on its release."""
    async with StandIn(load(RecordingName.SPECULATIVE)) as engine:
        code, out, err = await asyncio.to_thread(run, capsys, "--json", engine.url)
    assert (code, err) == (0, "")
    assert check_document(out, windowed=False)["engine_version"] == "0.25.1"


async def test_url_with_window(capsys: Capture) -> None:
    """A URL with a window is fetched twice, and the time between is measured."""
    async with StandIn(load(RecordingName.SPECULATIVE), speed=40) as engine:
        code, out, err = await asyncio.to_thread(
            run, capsys, "--json", "--window", "0.3", engine.url
        )
    assert (code, err) == (0, "")
    document = check_document(out, windowed=True)
    assert document["window_seconds"] >= 0.3
    assert document["models"][0]["generation_tokens"] > 0


def test_window_as_a_duration(tmp_path: Path, capsys: Capture) -> None:
    """The time between two pages may be written with its unit."""
    after = tmp_path / "after"
    after.write_bytes(v1_page(2000))
    for text, seconds in (("10", 10), ("10s", 10), ("1500ms", 1.5)):
        code, out, err = run(capsys, "--json", "--window", text, SMALL, after)
        assert (code, err) == (0, "")
        assert check_document(out, windowed=True)["window_seconds"] == seconds


async def test_url_without_version(capsys: Capture) -> None:
    """A server that does not tell its release has none."""
    async with serving(answer(v1_page(1000))) as engine:
        _, out, _ = await asyncio.to_thread(run, capsys, "--json", engine.url)
    assert check_document(out, windowed=False)["engine_version"] is None


# --- refusals ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(None, "unreachable: {}: No such file or directory", id="missing"),
        pytest.param(b"", "no_engine_metrics: {}: the page is empty", id="empty"),
        pytest.param(b"\x7fELF\x02\x00\xff", "bad_encoding: {}: byte 6", id="binary"),
        pytest.param(b"\x00\x00\n", "not_metrics: {}: line 1", id="zeros"),
        pytest.param(b"<html>\n", "not_metrics: {}: the page is HTML", id="html"),
        pytest.param(b'{"a": 1}\n', "not_metrics: {}: line 1", id="json"),
        pytest.param(v1_page(25)[:-5], "truncated: {}: the page ends", id="cut"),
        pytest.param(b"sglang:a 1\n", "unrecognised_exposition: {}: no series", id="foreign"),
        pytest.param(b"process_x 1\n", "no_engine_metrics: {}: ", id="process only"),
        pytest.param(b" " * ((64 << 20) + 1), "too_large: {}: ", id="too large"),
    ],
)
def test_refused_page(
    content: bytes | None, expected: str, tmp_path: Path, capsys: Capture
) -> None:
    """A page that cannot be read is exit code 3 and one line: what, where, why."""
    file = tmp_path / "page"
    if content is not None:
        file.write_bytes(content)
    for more in ([], ["--json"]):
        code, out, err = run(capsys, *more, file)
        assert (code, out, err.count("\n")) == (3, "", 1)
        assert err.startswith(f"specgauge: {expected.format(file)}")


def test_refused_directory(tmp_path: Path, capsys: Capture) -> None:
    """A folder is no page."""
    assert run(capsys, tmp_path) == (
        3,
        "",
        f"specgauge: unreachable: {tmp_path}: Is a directory\n",
    )


def test_refused_name(capsys: Capture) -> None:
    """Not even every name can be one."""
    code, out, err = run(capsys, "a\0b")
    assert (code, out, err.count("\n")) == (3, "", 1)


@pytest.mark.parametrize(
    ("served", "expected"),
    [
        pytest.param(answer(status=404), "http_status: {}/metrics: answered 404", id="404"),
        pytest.param(
            answer(b"<html>"), "not_metrics: {}/metrics: the body is HTML", id="html"
        ),
        pytest.param(answer(b"process_x 1\n"), "no_engine_metrics: {}: ", id="process only"),
        pytest.param(answer(b"sglang:a 1\n"), "unrecognised_exposition: {}: ", id="foreign"),
    ],
)  # fmt: skip
async def test_refused_url(served: bytes, expected: str, capsys: Capture) -> None:
    """A URL is named in the refusal."""
    async with serving(served) as engine:
        code, out, err = await asyncio.to_thread(run, capsys, engine.url)
    assert (code, out, err.count("\n")) == (3, "", 1)
    assert err.startswith(f"specgauge: {expected.format(engine.url)}")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        pytest.param("http://ada:secret@a:1", "http://a:1: a URL holds no credentials", id="login"),
        pytest.param("http://a:1/metrics#secret", "no fragment", id="fragment"),
        pytest.param("http://a:1/metrics/", "http://a:1/metrics/: remove the slash", id="slash"),
        pytest.param("http://a:99999", "http://a:99999: not a URL: Port out of", id="port"),
    ],
)
def test_url_that_the_sidecar_would_refuse(url: str, expected: str, capsys: Capture) -> None:
    """A URL follows the rules of a target's; a refusal names it without its password."""
    for more in ([], ["--window", "10"]):
        code, out, err = run(capsys, *more, url)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert expected in err
        assert "ada" not in err
        assert "secret@" not in err


def test_server_without_a_scheme(capsys: Capture) -> None:
    """A file is looked for, and the refusal says how a server is written."""
    code, out, err = run(capsys, "127.0.0.1:8000")
    assert (code, out, err.count("\n")) == (3, "", 1)
    assert err.endswith("; for a server write http://127.0.0.1:8000\n")


def test_nobody_listens(capsys: Capture) -> None:
    """A server that is not there is a source that could not be read."""
    code, out, err = run(capsys, "http://127.0.0.1:1")
    assert (code, out) == (3, "")
    assert re.fullmatch(r"specgauge: unreachable: http://127.0.0.1:1/metrics: .+\n", err)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param([], "Missing argument", id="nothing"),
        pytest.param(["a", "b"], "two pages need --window SECONDS", id="two without a window"),
        pytest.param(["--window", "1", "a"], "--window needs two pages", id="one with a window"),
        pytest.param(["--window", "1", "a", "b", "c"], "give one page, or two", id="three"),
        pytest.param(["--window", "0", "a", "b"], "--window 0: ", id="zero"),
        pytest.param(["--window", "-1", "a", "b"], "--window -1: ", id="below zero"),
        pytest.param(["--window", "nan", "a", "b"], "--window nan: ", id="nan"),
        pytest.param(["--window", "inf", "a", "b"], "--window inf: ", id="endless"),
        pytest.param(["--window", "100000d", "a", "b"], "at most 1e+09 s", id="too long"),
        pytest.param(["--window", "soon", "a", "b"], "write 10 or 10s", id="no time"),
        pytest.param(["--window", "0s", "a", "b"], "--window 0s: ", id="zero seconds"),
        pytest.param(["--window", "1", "http://a", "http://b"], "from files", id="two URLs"),
        pytest.param(["--window", "1", "a", "http://b"], "from files", id="file and URL"),
        pytest.param(["--window", "1", "http://a", "b"], "from files", id="URL and file"),
        pytest.param(["--window", "1", "-", "-"], "standard input", id="stdin twice"),
        pytest.param(["ftp://a/b"], "is not known", id="scheme"),
        pytest.param(["--engines", "0", "a"], "--engines", id="no engines"),
        pytest.param(["--wondow", "1", "a"], "--wondow", id="unknown flag"),
    ],
)
def test_usage(arguments: list[str], expected: str, capsys: Capture) -> None:
    """A command line that makes no sense is exit code 2, before any source is opened."""
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert expected in err


# --- the rest of the command line -------------------------------------------------------------


@pytest.mark.parametrize("options", [["--json"], []], ids=["json", "text"])
def test_nobody_reads_the_output(options: list[str]) -> None:
    """A reader that goes away, as `head` does, is no error to write about."""
    read, write_end = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "specgauge", "inspect", *options, str(SMALL)]
    done = subprocess.run(command, stdout=write_end, stderr=subprocess.PIPE, check=False)
    os.close(write_end)
    assert (done.returncode, done.stderr) == (0, b"")


async def test_interrupted() -> None:
    """Ctrl-C between two scrapes ends it with the shell's code and no traceback."""
    async with (
        serving(answer(v1_page(1000))) as engine,
        specgauge("inspect", "--window", "60", engine.url) as made,
    ):
        await until(lambda: engine.requests, "the first scrape")
        made.process.send_signal(signal.SIGINT)
        assert await made.end() == 130
    assert "".join(made.lines) == ""


async def test_bar_only_on_a_terminal_and_for_long_waits(capsys: Capture) -> None:
    """Off a terminal nothing is drawn."""
    async with waiting(60, "between two scrapes"):
        pass
    assert capsys.readouterr() == ("", "")


async def test_bar_on_a_terminal(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal a long wait has a bar on stderr, a short one has none."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    assert Console(stderr=True).is_terminal
    async with waiting(1, "short"):
        pass
    assert capsys.readouterr() == ("", "")
    async with waiting(60, "between two scrapes"):
        await asyncio.sleep(0.25)
    out, err = capsys.readouterr()
    assert (out, "between two scrapes" in err) == ("", True)
