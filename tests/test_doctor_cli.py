"""`specgauge doctor` as a command: sources, probe, text, document, and what it refuses."""

import asyncio
import gzip
import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from tests import planted as p
from tests.recorded import load_page
from tests.servers import answer, serving, silent
from tests.stub_engine import Engine, Faults, serving_engine

from specgauge.baseline.exchange import parse_address
from specgauge.baseline.load import Generator, Terms
from specgauge.baseline.stream import Outcome, Request
from specgauge.cli.doctor import files
from specgauge.cli.doctor.command import doctor
from specgauge.cli.main import main
from specgauge.errors import SpecgaugeError
from specgauge.preflight.doctor import gpu
from specgauge.preflight.doctor.advice import advice
from specgauge.preflight.doctor.codes import Code, Symptom
from specgauge.preflight.doctor.probe import Plan, ProbeError, probe, summary

Capture = pytest.CaptureFixture[str]
PAGE = load_page("vllm/0.32.0-ngram/after.prom")


async def asked(*arguments: object) -> int:
    """Run the command beside a server of this process."""

    def run() -> int:
        return main(["doctor", *map(str, arguments)])

    return await asyncio.to_thread(run)


def found(text: str) -> list[str]:
    """Name the causes of a document."""
    return [one["code"] for one in json.loads(text)["findings"] if one["severity"] == "cause"]


async def test_a_server_is_looked_at_twice(capsys: Capture) -> None:
    """A URL is scraped twice and asked for its release; /v1 at its end is no matter."""
    async with serving_engine(Engine(faults=Faults(drafts=True))) as engine:
        code = await asked("--json", "--url", f"{engine.url}/v1", "--window", "0.05")
    document = json.loads(capsys.readouterr().out)
    assert code == 0
    assert (document["dialect"], document["engine_version"]) == ("vllm-v1", "0.25.1")
    assert set(document["not_measured"]) == {"baseline", "log", "flags", "probe", "gpu"}


async def test_a_probe_tells_how_tokens_come(capsys: Capture) -> None:
    """The probe says what it sends, sends it, and measures chunks against the page's steps."""
    engine = Engine(step_seconds=lambda _: 0.002, faults=Faults(drafts=True))
    async with serving_engine(engine):
        code = await asked("--json", "--url", engine.url, "--probe", "--symptom", "clumps")
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert code == 0
    assert "5 streamed requests of at most 128 tokens" in err
    seen = document["probe"]
    assert (seen["requests"], seen["failed"], seen["tokens"]) == (5, 0, 640)
    assert seen["tokens_per_chunk"] == pytest.approx(1.0)
    assert 0.0 < seen["gap_p50"] <= seen["gap_p95"] <= seen["gap_p99"]
    assert seen["tokens_per_step"] == pytest.approx(1.0, abs=0.05)
    assert seen["ttft_p50"] > 0.0
    assert len(engine.bodies) == 6
    assert all(body["temperature"] == 0.0 for body in engine.bodies)


@asynccontextmanager
async def buffering(url: str) -> AsyncIterator[str]:
    """Run a proxy that passes an answer on once it has all of it."""
    async with aiohttp.ClientSession() as session:

        async def forward(request: web.Request) -> web.Response:
            target, data = f"{url}{request.path}", await request.read()
            async with session.request(request.method, target, data=data) as there:
                return web.Response(
                    body=await there.read(),
                    status=there.status,
                    headers={"Content-Type": there.headers["Content-Type"]},
                )

        app = web.Application()
        app.router.add_route("*", "/{path:.*}", forward)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()


async def test_a_probe_tells_a_stream_that_is_held_back(capsys: Capture) -> None:
    """Behind a proxy that buffers, answers come in one piece, and that is told."""
    engine = Engine(step_seconds=lambda _: 0.001)
    async with serving_engine(engine), buffering(engine.url) as url:
        code = await asked("--url", url, "--window", "0.02", "--probe", "--model", "stub",
                           "--symptom", "clumps")  # fmt: skip
    out = capsys.readouterr().out
    assert code == 1
    assert "5 of 5 answers came in one piece" in out
    assert "proxy_buffering off" in out


async def test_a_probe_that_fails_says_so(capsys: Capture) -> None:
    """A server that refuses, and one that lists no model, are told in a line."""
    async with serving_engine(Engine(faults=Faults(status=500))) as engine:
        assert await asked("--json", "--url", engine.url, "--probe") == 3
        document = json.loads(capsys.readouterr().out)
        assert document["probe"] is None
        assert "http 500" in document["not_measured"]["probe"]
    async with serving(answer(PAGE)) as plain:
        assert await asked("--url", plain.url, "--probe") == 2
        assert "name one with --model" in capsys.readouterr().err


async def test_a_probe_ends_in_time() -> None:
    """A server that never answers costs no more than the time that was allowed."""
    engine = Engine(faults=Faults(stall=True))
    async with serving_engine(engine):
        generator = Generator(parse_address(engine.url))
        with pytest.raises(ProbeError, match=r"no answer within 0\.2 s"):
            await probe(generator, Terms(model="stub"), Plan(seconds=0.2))


async def test_requests_that_fail_under_way_are_counted(capsys: Capture) -> None:
    """Failures of a probe are in its figures, with the first one's reason."""
    engine = Engine(step_seconds=lambda _: 0.001, faults=Faults(status=503, status_after=3))
    async with serving_engine(engine):
        assert await asked("--url", engine.url, "--probe") == 0
    assert "3 failed: http 503" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (answer(b"<html>", content_type="text/html"), "not_metrics_page"),
        (answer(b"no", status=404), "not_metrics_page"),
        (answer(b"", "Location: /x", status=302), "not_metrics_page"),
        (answer(b"process_open_fds 3\n"), "stats_disabled"),
        (answer(b"node_load1 3\n"), "foreign_metrics"),
        (answer(b""), "empty_page"),
    ],
)
async def test_a_wrong_port_is_told(body: bytes, code: str, capsys: Capture) -> None:
    """Whatever answers on the port, it is told for what it is."""
    async with serving(body) as server:
        ended = await asked("--json", "--url", server.url, "--symptom", "no-metrics")
    assert (ended, found(capsys.readouterr().out)[:1]) == (1, [code])


async def test_nobody_at_the_port(capsys: Capture) -> None:
    """A closed port is a finding, and a source that cannot be read."""
    async with serving(silent) as server:
        url = server.url
    assert await asked("--json", "--url", url, "--symptom", "no-metrics") == 3
    assert found(capsys.readouterr().out) == ["server_unreachable"]


def test_a_text_for_people(tmp_path: Path, capsys: Capture) -> None:
    """People get what, why and what to do; control characters of a page are made visible."""
    page = load_page("vllm/0.32.0-draft/after.prom").replace(b'"tiny"', b'"ti\x1b[2Jny"')
    assert main(["doctor", *p.page(tmp_path, page), "--symptom", "slower"]) == 1
    out = capsys.readouterr().out
    assert "Symptom: slower. Server: vllm-v1." in out
    assert "1. the draft is rarely right (low_acceptance, confidence 0.85) [ti\\x1b[2Jny]" in out
    assert "   seen  17.9% of what the draft proposes is accepted" in out
    assert "   fix   swap the draft" in out
    assert "Not looked at: window: only one page" in out
    assert "\x1b" not in out


def test_too_little_is_said(tmp_path: Path, capsys: Capture) -> None:
    """Where the symptom cannot be judged, the answer names what it takes."""
    assert main(["doctor", *p.page(tmp_path, PAGE), "--symptom", "slower"]) == 4
    assert "Too little is known: two pages or --url, and a --baseline" in capsys.readouterr().out
    assert main(["doctor", *p.page(tmp_path, PAGE)]) == 0
    assert "Nothing found." in capsys.readouterr().out


def test_a_page_that_has_served_nothing(tmp_path: Path, capsys: Capture) -> None:
    """A server's very first page holds its configuration alone."""
    page = b'vllm:cache_config_info{num_gpu_blocks="7",engine="0"} 1\n'
    assert main(["doctor", "--json", *p.page(tmp_path, page), "--symptom", "zero"]) == 1
    assert found(capsys.readouterr().out) == ["nothing_served_yet"]
    assert main(["doctor", *p.page(tmp_path, page)]) == 0


def test_a_file_without_queries_is_a_hint(tmp_path: Path, capsys: Capture) -> None:
    """Rules that ask for nothing of vLLM's are worth a word."""
    assert main(["doctor", *p.rules(tmp_path, "up == 0")]) == 0
    assert "no query in these files asks for anything of vLLM's" in capsys.readouterr().out


REFUSED: dict[str, tuple[Sequence[str], int, str]] = {
    "nothing at all": ([], 2, "give something to look at"),
    "two kinds of source": (["a.prom", "--url", "http://x"], 2, "one of them"),
    "three pages": (["a", "b", "c", "--window", "1"], 2, "BEFORE and AFTER"),
    "two pages without the time": (["a", "b"], 2, "BEFORE and AFTER"),
    "a probe of nothing": (["a", "--probe"], 2, "--probe needs --url"),
    "no URL": (["--url", "host:80"], 2, "--url"),
    "two configurations": (["--command", "x", "--speculative-config", "{}"], 2, "one of them"),
    "a config that is none": (["--speculative-config", "{"], 2, "--speculative-config: the"),
    "a command with a quote": (["--command", "vllm 'x"], 2, "--command: cannot be taken apart"),
    "an unknown symptom": (["--symptom", "sad"], 2, "--symptom"),
    "a log that is not there": (["--log", "nowhere.log"], 3, "nowhere.log: No such file"),
    "a folder as a log": (["--log", "."], 3, "Is a directory"),
    "a packed log": (["--log", "packed"], 2, "--log packed: not text; give it unpacked"),
    "a log in UTF-16": (["--log", "wide"], 2, "--log wide: not text"),
    "a command of something else": (["--command", "rm -rf /"], 2, "has neither vllm nor a flag"),
    "rules that are not there": (["--rules", "nowhere"], 3, "nowhere: No such file"),
    "rules that are none": (["--rules", "garbage"], 2, "--rules garbage: not text in UTF-8"),
    "a dashboard that is none": (["--dashboard", "words"], 2, "neither JSON nor YAML"),
    "requests that are none": (["--requests", "words"], 2, "--requests words: line 1"),
    "requests without drafts": (["--requests", "list"], 2, "num_draft_tokens"),
    "a baseline that is none": (["--baseline", "list", "--log", "words"], 3, "list"),
    "an empty timeline": (["--timeline", "empty"], 3, "no line of it has a page"),
    "a timeline that is none": (["--timeline", "words"], 3, "words:1: not a JSON object"),
    "no release": (["--release", "banana", "--log", "words"], 2, "--release banana: no release"),
    "a loop of links": (["--log", "loop"], 3, "symbolic links"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_is_refused(
    name: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line says what, where and how to mend it; never a traceback."""
    arguments, code, told = REFUSED[name]
    monkeypatch.chdir(tmp_path)
    Path("garbage").write_bytes(b"\xff\xfe\x00")
    Path("words").write_text("only words")
    Path("empty").touch()
    Path("packed").write_bytes(gzip.compress(bytes(range(256)) * 40))
    Path("wide").write_bytes("INFO a line\n".encode("utf-16"))
    Path("list").write_text("[1, 2]")
    Path("loop").symlink_to("loop")
    assert main(["doctor", *arguments]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert told in err


def test_a_page_that_is_not_there_is_a_finding(tmp_path: Path, capsys: Capture) -> None:
    """The rest is looked at all the same, and the exit code tells."""
    arguments = [str(tmp_path / "none.prom"), *p.rules(tmp_path, "vllm:gpu_cache_usage_perc")]
    assert main(["doctor", "--json", *arguments]) == 3
    assert found(capsys.readouterr().out) == ["server_unreachable", "metric_renamed"]
    html = p.timeline(tmp_path, [(0.0, PAGE.decode()), (9.0, "<html>")])
    assert main(["doctor", "--json", *html]) == 1
    assert found(capsys.readouterr().out) == ["not_metrics_page"]


def test_a_huge_log_is_read_at_both_ends(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a log beyond the limit the start and the end are read; binary in between is no matter."""
    monkeypatch.setattr(files, "_HEAD", 4000)
    monkeypatch.setattr(files, "_TAIL", 4000)
    path = tmp_path / "vllm.log"
    start = "\n".join(p.started("0.25.1"))
    end = "\n".join(p.failed("torch.OutOfMemoryError", "CUDA out of memory."))
    path.write_bytes(start.encode() + b"\n" + b"\x00\xff\n" * 9000 + end.encode())
    assert main(["doctor", "--json", "--log", str(path)]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["engine_version"] == "0.25.1"
    assert document["findings"][0]["code"] == "out_of_memory"
    assert "MiB in its middle were not read" in document["not_measured"]["log"]


def test_a_log_that_was_rotated_begins_with_zeros(tmp_path: Path, capsys: Capture) -> None:
    """What rotation leaves before the lines, and colours in them, make no log unreadable."""
    path = tmp_path / "vllm.log"
    words = "\n".join(p.failed("torch.OutOfMemoryError", "CUDA out of memory."))
    path.write_bytes(b"\0" * 70_000 + f"\x1b[31m{words}\x1b[0m \ufffd".encode())
    assert main(["doctor", "--json", "--log", str(path)]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["findings"][0]["code"] == "out_of_memory"
    assert "log" not in document["not_measured"]


def test_other_files_have_their_limit(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rule file of gigabytes is refused before it is read in full."""
    monkeypatch.setattr(files, "_MOST", 10)
    assert main(["doctor", *p.rules(tmp_path, "vllm:a")]) == 3
    assert "larger than" in capsys.readouterr().err


class FakeError(Exception):
    """What the driver's library raises."""


def driver(**changes: Any) -> Any:
    """Stand in for NVIDIA's library with two cards, one of them named in bytes."""
    memory = SimpleNamespace(used=98, total=100)
    plain: dict[str, Any] = {
        "NVMLError": FakeError,
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetCount": lambda: 2,
        "nvmlDeviceGetHandleByIndex": lambda i: i,
        "nvmlDeviceGetName": lambda i: b"H200" if i else "H100",
        "nvmlDeviceGetMemoryInfo": lambda _: memory,
    }
    return SimpleNamespace(**{**plain, **changes})


def refuse(*_: object) -> None:
    """Fail as the library does."""
    raise FakeError("no")


@pytest.mark.parametrize(
    ("library", "names", "why"),
    [
        (driver(), ["H100", "H200"], ""),
        (driver(nvmlInit=refuse), None, "no NVIDIA driver answers: no"),
        (driver(nvmlDeviceGetCount=refuse), None, "the NVIDIA driver does not tell: no"),
        (None, None, "nvidia-ml-py is not installed; pip install 'specgauge[gpu]'"),
    ],
)
def test_cards_are_read_where_they_can_be(
    library: Any, names: list[str] | None, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing library or driver is a reason, never an error."""
    monkeypatch.setitem(sys.modules, "pynvml", library)
    cards, reason = gpu.read_gpus()
    assert reason == why
    assert (None if cards is None else [one.name for one in cards]) == names


def request(*arrivals: float, tokens: int | None = 10, **more: Any) -> Request:
    """Make a record of an answer whose chunks came at these times."""
    ends = {"first": arrivals[0], "last": arrivals[-1]} if arrivals else {}
    plain = {"sent": 0.0, "ended": 9.0, "outcome": Outcome.COMPLETE}
    return Request(**{**plain, **ends, "arrivals": arrivals, "tokens": tokens, **more})


def test_a_probe_is_summed_up() -> None:
    """Gaps, tokens a chunk and bursts follow from the records; what is not known is absent."""
    steady = [request(*(1.0 + 0.01 * n for n in range(10)), tokens=28) for _ in range(3)]
    found = summary(steady, 0.01)
    assert found.tokens_per_chunk == pytest.approx(3.0)
    assert found.gap_p50 == pytest.approx(0.01)
    assert (found.burst_share, found.in_one_piece) == (0.0, 0)
    bursts = [request(*(1.0 + 0.1 * (n // 5) for n in range(10))) for _ in range(3)]
    share = summary(bursts, 0.01).burst_share
    assert share == pytest.approx(24 / 27)
    whole = summary([request(1.0, tokens=128)], None)
    assert (whole.in_one_piece, whole.gap_p50, whole.tokens_per_chunk) == (1, None, None)
    broken = summary([request(tokens=None, outcome=Outcome.FAILED, detail="http 500")], 0.01)
    assert (broken.failed, broken.detail, broken.ttft_p50, broken.tpot) == (
        1,
        "http 500",
        None,
        None,
    )
    assert "at most 60 s" in str(Plan())


def test_every_code_has_its_advice() -> None:
    """Each code says what, what to do and where to read, and explains what it says it does."""
    known = advice()
    assert list(known) == list(Code)
    for code, one in known.items():
        assert one.title, code
        assert one.fix, code
        assert "#" in one.link or one.link.startswith("docs/"), code
        assert set(one.explains) <= set(Symptom)
        assert all(0.0 < weight <= 1.0 for weight in one.explains.values())


def test_every_symptom_has_a_cause_of_its_own() -> None:
    """Each symptom is what some code explains best."""
    best = {max(one.explains, key=lambda s: one.explains[s]) for one in advice().values()
            if one.explains}  # fmt: skip
    assert best == set(Symptom)


def test_the_command_stays_a_rim() -> None:
    """Errors of ours leave the command as what they are."""
    with pytest.raises(SpecgaugeError, match="give something to look at"):
        doctor.main([], standalone_mode=False)
