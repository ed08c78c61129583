"""`specgauge guard`: its sources and its output, what it asks of the sidecar, its exit codes."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.baselines import document as baseline_document
from tests.baselines import level
from tests.servers import answer, serving
from tests.sidecars import DEADLINE, specgauge
from tests.small_pages import v1_page
from tests.timelines import Pool, failed, moved, paged, steady, write_timeline

from specgauge.cli.main import main

Capture = pytest.CaptureFixture[str]
CONTRACT = ("t", "state", "flag", "outcome", "reason", "changed", "evidence")
TOKEN = "let-me-in"


def run(capsys: Capture, *words: object) -> tuple[int, str, str]:
    """Run the command line; gives exit code, stdout and stderr."""
    code = main(["guard", *map(str, words)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def config(folder: Path, text: str) -> Path:
    path = folder / "specgauge.yaml"
    path.write_text(text)
    return path


# replay

LOSS = [*steady(0, 300), *steady(300, 590, 0.7), *steady(590, 900)]


def test_replay_prints_every_decision(tmp_path: Path, capsys: Capture) -> None:
    """One object a line for each line of the timeline, with the contract's keys first."""
    file = config(tmp_path, "guard: {startup_grace: 0s}\n")
    code, out, err = run(
        capsys, "replay", "--config", file, "--json", write_timeline(tmp_path, LOSS)
    )
    assert (code, err) == (0, "")
    found = [json.loads(one, parse_constant=pytest.fail) for one in out.splitlines()]
    assert [one["t"] for one in found] == [one.time for one in LOSS]
    assert all(tuple(one)[: len(CONTRACT)] == CONTRACT for one in found)
    changed = [one for one in found if one["changed"]]
    assert [(one["t"], one["state"], one["flag"], one["reason"]) for one in changed] == [
        (300.0, "fallback", False, "speedup_below_one"),
        (600.0, "probing", True, "probe_due"),
        (660.0, "active", True, "probe_succeeded"),
    ]
    assert changed[0]["outcome"] == "degraded"
    assert changed[0]["evidence"]["speedup_ratio"] == 0.7
    assert changed[0]["evidence"]["tokens"] == 8000.0


def test_replay_for_a_person(tmp_path: Path, capsys: Capture) -> None:
    """Without --json: the changes as rows, and one line that sums up."""
    file = config(tmp_path, "guard: {startup_grace: 0s}\n")
    code, out, err = run(capsys, "replay", "--config", file, write_timeline(tmp_path, LOSS))
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert [line.split()[:5] for line in lines[1:4]] == [
        ["300", "s", "active", "→", "fallback"],
        ["600", "s", "fallback", "→", "probing"],
        ["660", "s", "probing", "→", "active"],
    ]
    assert "speedup 0.70 (0.68 to 0.72)" in lines[1]
    assert lines[-1] == (
        "180 lines, 1 fallback, 1 probe, 1 passed, in 14 min 55 s; flag off for 5 min (34%). "
        "It ends active with the flag on: tokens come faster than they would without speculation "
        "at this load."
    )


@pytest.mark.parametrize(
    ("start", "shown"),
    [
        pytest.param(0.0, "300 s", id="seconds"),
        pytest.param(1_800_000_000.0, "2027-01-15 08:05:00Z", id="a date"),
        pytest.param(9e14, "9e+14 s", id="beyond the calendar"),
    ],
)
def test_replay_shows_times(tmp_path: Path, capsys: Capture, start: float, shown: str) -> None:
    """Times that are dates are shown as such."""
    file = config(tmp_path, "guard: {startup_grace: 0s}\n")
    timeline = write_timeline(tmp_path, moved(LOSS, start))
    code, out, _ = run(capsys, "replay", "--config", file, timeline)
    assert code == 0
    assert out.splitlines()[1].startswith(shown)


def test_replay_on_a_terminal(tmp_path: Path, capsys: Capture, monkeypatch: Any) -> None:
    """A terminal gets a line of the states as well, with what its marks mean."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    file = config(tmp_path, "guard: {startup_grace: 0s}\n")
    code, out, _ = run(capsys, "replay", "--config", file, write_timeline(tmp_path, LOSS))
    assert code == 0
    assert out.count("█") > 50
    assert out.count("▁") > 25
    assert " fallback" in out.splitlines()[-2]


@pytest.mark.parametrize(
    ("lines", "last"),
    [
        pytest.param([], "The timeline is empty.", id="empty"),
        pytest.param(steady(0, 5), "Nothing changed.", id="one line"),
        pytest.param(failed(0, 60), "Nothing changed.", id="failures"),
    ],
)
def test_replay_of_nothing(tmp_path: Path, capsys: Capture, lines: Any, last: str) -> None:
    """A timeline without a change is fine, and so is an empty one."""
    file = write_timeline(tmp_path, lines)
    code, out, err = run(capsys, "replay", file)
    assert (code, err) == (0, "")
    assert last in out
    code, out, err = run(capsys, "replay", "--json", file)
    assert (code, len(out.splitlines()), err) == (0, len(lines), "")


def test_replay_of_pages_against_a_baseline(tmp_path: Path, capsys: Capture) -> None:
    """Pages and baseline are found beside their files; the usual spacing is the timeline's."""
    levels = [level(load, 0.010, server={"ttft_seconds": 0.05}) for load in (1.0, 64.0)]
    (tmp_path / "base.json").write_text(json.dumps(baseline_document(*levels)))
    pool = Pool()
    timeline = [
        *paged(pool, 0.0, 100.0, lambda one, seconds: one.run(seconds, 0.0077), step=5.0),
        *paged(pool, 100.0, 200.0, lambda one, seconds: one.run(seconds, 0.0143), step=5.0),
    ]
    file = config(tmp_path, "baseline: {file: base.json}\nguard:\n")
    code, out, err = run(
        capsys, "replay", "--config", file, "--json", write_timeline(tmp_path, timeline)
    )
    assert (code, err) == (0, "")
    changed = [one for one in map(json.loads, out.splitlines()) if one["changed"]]
    assert [(one["state"], one["reason"]) for one in changed] == [("fallback", "speedup_below_one")]
    assert 100.0 <= changed[0]["t"] <= 130.0
    assert changed[0]["evidence"]["speedup_ratio"] < 0.95


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("guard:\n", id="guard without keys"),
        pytest.param("guard: {}\n", id="guard of defaults"),
        pytest.param("guard: {dry_run: true, source: sidecar}\n", id="dry run"),
        pytest.param(
            "targets:\n- {url: 'http://a:1'}\n- {url: 'http://b:1', role: standard}\nguard: {}\n",
            id="whole",
        ),
        pytest.param(
            "targets:\n- url: http://a:1\n  auth: {bearer_file: not-here}\nguard: {}\n",
            id="secrets of targets that are elsewhere",
        ),
        pytest.param(
            "targets: [{url: 'http://a:1'}, {url: 'http://b:1'}]\nguard: {}\n", id="two of them"
        ),
    ],
)
def test_replay_needs_no_targets(tmp_path: Path, capsys: Capture, text: str) -> None:
    """What is scraped does not matter, and a guard that is not there has the defaults."""
    file = config(tmp_path, text)
    timeline = write_timeline(tmp_path, [*steady(0, 300), *steady(300, 400, 0.7)])
    code, out, err = run(capsys, "replay", "--config", file, timeline)
    assert (code, err) == (0, "")
    assert "active → fallback" in out


def test_replay_without_the_live_sibling(tmp_path: Path, capsys: Capture) -> None:
    """A baseline that is a live server cannot be replayed, and that is said."""
    text = (
        "targets:\n- {url: 'http://a:1', method: eagle}\n"
        "- {name: plain, url: 'http://b:1', role: standard}\nbaseline: {target: plain}\n"
    )
    file = write_timeline(tmp_path, steady(0, 60))
    code, _, err = run(capsys, "replay", "--config", config(tmp_path, text), file)
    assert code == 0
    assert err == "mind: baseline.target is a live server; only files are compared with\n"


def test_replay_with_the_playbook(tmp_path: Path, capsys: Capture) -> None:
    """The article's preset has windows of its own and counts three of them."""
    file = config(tmp_path, "guard: {preset: playbook}\n")
    timeline = write_timeline(tmp_path, steady(0, 300, 1.15, acceptance=0.1))
    code, out, _ = run(capsys, "replay", "--config", file, timeline)
    assert code == 0
    (row,) = (line for line in out.splitlines() if "→" in line)
    assert row.split()[:2] == ["120", "s"]
    assert "acceptance_below_floor" in row


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("guard: {cooldwn: 5m}\n", "guard.cooldwn", id="a key that is none"),
        pytest.param(
            "targets:\n- {url: 'http://a:1', role: none}\nguard: {cooldwn: 5m}\n",
            "guard.cooldwn",
            id="beside a target that is wrong",
        ),
        pytest.param("baseline: {file: gone.json}\n", "gone.json", id="a baseline not there"),
        pytest.param("guard: [\n", "specgauge.yaml", id="no YAML"),
    ],
)
def test_replay_configuration_that_is_wrong(
    tmp_path: Path, capsys: Capture, text: str, problem: str
) -> None:
    """It ends with 2 and names the fault, and none about targets."""
    timeline = write_timeline(tmp_path, steady(0, 60))
    code, out, err = run(capsys, "replay", "--config", config(tmp_path, text), timeline)
    assert (code, out) == (2, "")
    assert problem in err
    assert "targets" not in err


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        pytest.param("{", "not a JSON object", id="cut"),
        pytest.param('{"t": 5}', "a page, an error or evidence is needed", id="empty"),
        pytest.param(
            '{"t": 5, "evidence": {"verdict": "maybe"}}',
            "evidence: 'maybe' is not a valid Verdict",
            id="verdict",
        ),
        pytest.param('{"t": 5, "evidence": 7}', "evidence must be an object", id="evidence"),
        pytest.param('{"t": 5, "page": "gone.prom"}', "gone.prom: No such file", id="page"),
        pytest.param(
            '{"t": 5, "evidence": {"speedup_raito": 0.5}}',
            "evidence.speedup_raito is not known; did you mean speedup_ratio?",
            id="misspelt",
        ),
    ],
)
@pytest.mark.parametrize("json_flag", [[], ["--json"]], ids=["text", "json"])
def test_replay_of_a_line_that_is_none(
    tmp_path: Path, capsys: Capture, line: str, problem: str, json_flag: list[str]
) -> None:
    """It ends with 3 and names file and line."""
    path = tmp_path / "run.jsonl"
    path.write_text(f'{{"t": 1, "error": "x"}}\n\n{line}\n')
    code, _, err = run(capsys, "replay", *json_flag, path)
    assert code == 3
    assert f"{path}:3: {problem}" in err
    assert len(err.splitlines()) == 1


def test_replay_names_what_it_leaves_out(tmp_path: Path, capsys: Capture) -> None:
    """A key of another system is told once, with where it stands first; decisions go on."""
    path = tmp_path / "run.jsonl"
    line = {"t": 5, "error": "timeout", "host": "a"}
    path.write_text("".join(json.dumps(line | {"t": time}) + "\n" for time in (5, 10, 15)))
    code, out, err = run(capsys, "replay", "--json", path)
    assert (code, len(out.splitlines())) == (0, 3)
    assert err == f"mind: {path}:1: host means nothing here, and on 2 lines more\n"


def test_replay_takes_its_own_record(tmp_path: Path, capsys: Capture) -> None:
    """What one replay printed is a timeline of its evidence, in which no key is unknown."""
    file = config(tmp_path, "guard: {startup_grace: 0s}\n")
    _, out, _ = run(capsys, "replay", "--config", file, "--json", write_timeline(tmp_path, LOSS))
    (tmp_path / "again.jsonl").write_text(out)
    code, again, err = run(capsys, "replay", "--config", file, "--json", tmp_path / "again.jsonl")
    assert (code, err) == (0, "")
    assert len(again.splitlines()) == len(out.splitlines())


def test_replay_of_a_file_that_is_not_there(tmp_path: Path, capsys: Capture) -> None:
    """It ends with 3; without a file at all with 2."""
    code, out, err = run(capsys, "replay", tmp_path / "none.jsonl")
    assert (code, out) == (3, "")
    assert "none.jsonl: No such file or directory" in err
    assert run(capsys, "replay")[0] == 2


# The sidecar that is asked

CHANGE: dict[str, Any] = {
    "unix": 1_800_000_300.0,
    "t": 300.0,
    "state": "fallback",
    "flag": False,
    "outcome": "degraded",
    "reason": "speedup_below_one",
    "changed": True,
    "evidence": {
        "speedup_ratio": 0.71,
        "speedup_ratio_low": 0.66,
        "speedup_ratio_high": 0.76,
        "decode_concurrency": 31.2,
        "tokens": 8123.0,
    },
}
WARNING = CHANGE | {"changed": False, "unix": 1_800_000_360.0, "warnings": ["fallback_ineffective"]}
FLAG: dict[str, Any] = {
    "key": "speculative_decoding_enabled",
    "backend": "embedded",
    "place": "memory",
    "obeyed_by": "the router",
    "desired": False,
    "confirmed": False,
    "on_the_word": False,
    "writes": {"ok": 1, "409": 0},
    "last_error": None,
    "pending_since": None,
    "changed_elsewhere": False,
}
DOCUMENT: dict[str, Any] = {
    "schema": "specgauge.guard_status/v1",
    "target": "spec",
    "state": "fallback",
    "since": 1_800_000_300.0,
    "dry_run": False,
    "frozen": False,
    "flag": FLAG,
    "next_probe": 1_800_000_600.0,
    "override": None,
    "assessments": {"degraded": 3},
    "transitions": [],
    "last": WARNING,
    "history": [CHANGE, WARNING],
    "says": "Speculation is wanted off, for it cost.\nNext: a trial in 4 min.",
}


@dataclass(slots=True)
class Stub:
    """A sidecar's routes of the guard, and what was asked of them."""

    document: Mapping[str, Any]
    url: str = ""
    wishes: list[Any] = field(default_factory=list)

    async def guard(self, _: web.Request) -> web.Response:
        return web.json_response(self.document)

    async def override(self, request: web.Request) -> web.Response:
        if self.document.get("state") is None:
            return web.Response(text="no guard is configured\n", status=404)
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return web.Response(text="Authorization is needed\n", status=401)
        wish = await request.json()
        self.wishes.append(wish)
        if wish.get("reason") == "bad":
            return web.Response(text="reason: say why\n", status=400)
        return web.json_response({"mode": wish["mode"]})


@asynccontextmanager
async def sidecar(document: Mapping[str, Any] = DOCUMENT) -> AsyncIterator[Stub]:
    """Run the routes on a free port."""
    stub = Stub(document)
    app = web.Application()
    app.router.add_get("/api/v1/guard", stub.guard)
    app.router.add_post("/api/v1/guard/override", stub.override)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        stub.url = f"http://{host}:{port}"
        yield stub
    finally:
        await runner.cleanup()


async def ask(capsys: Capture, *words: object) -> tuple[int, str, str]:
    """Run the command line beside the server of this loop."""
    return await asyncio.to_thread(run, capsys, *words)


def settled(
    folder: Path, stub: Stub, *, host: str = "127.0.0.1", token: str | None = TOKEN
) -> Path:
    """Write the configuration that the sidecar runs under."""
    port = stub.url.rpartition(":")[2]
    lines = [f'listen: "{host}:{port}"', "targets: [{url: 'http://127.0.0.1:8000'}]", "guard: {}"]
    if token is not None:
        (folder / "token").write_text(f"{token}\n")
        lines.append("token_file: token")
    return config(folder, "\n".join(lines))


async def test_status(capsys: Capture) -> None:
    """It says how the guard stands and where the flag lies, in plain words."""
    async with sidecar() as stub:
        code, out, err = await ask(capsys, "status", "--url", stub.url)
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "spec: fallback",
        "Speculation is wanted off, for it cost.",
        "Next: a trial in 4 min.",
        "Flag speculative_decoding_enabled (embedded, memory): wanted off, confirmed off",
        "Writes: ok 1",
    ]


async def test_status_document(capsys: Capture) -> None:
    """--json hands the sidecar's document on as it is."""
    async with sidecar() as stub:
        code, out, _ = await ask(capsys, "status", "--json", "--url", stub.url)
    assert (code, json.loads(out)) == (0, DOCUMENT)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        pytest.param(
            {"flag": FLAG | {"last_error": "409: busy"}},
            "Last failure of the flag: 409: busy",
            id="failure",
        ),
        pytest.param(
            {"flag": FLAG | {"on_the_word": True}},
            "Mind: the flag cannot be read back, so its writes are taken on their answer's word",
            id="on the word",
        ),
        pytest.param(
            {"override": {"mode": "off", "until": 1_800_000_900.0, "reason": "test"}},
            "Override: off until 2027-01-15 08:15:00Z: test",
            id="override",
        ),
        pytest.param(
            {"override": {"mode": "on", "until": None, "reason": ""}},
            "Override: on until an override of auto",
            id="override for good",
        ),
    ],
)
async def test_what_is_odd(capsys: Capture, more: dict[str, Any], said: str) -> None:
    """What is not as usual is told by status and by explain."""
    async with sidecar(DOCUMENT | more) as stub:
        told = [await ask(capsys, command, "--url", stub.url) for command in ("status", "explain")]
    for code, out, _ in told:
        assert code == 0
        assert out.splitlines()[-1] == said


async def test_frozen_and_dry(capsys: Capture) -> None:
    """A guard that is held, or only rehearses, says so."""
    async with sidecar(DOCUMENT | {"frozen": True, "dry_run": True}) as stub:
        _, out, _ = await ask(capsys, "status", "--url", stub.url)
    assert out.startswith("spec: fallback (dry run)\n")
    assert "Mind: the freeze file holds the flag where it is" in out


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", ""])
async def test_address_of_the_configuration(tmp_path: Path, capsys: Capture, host: str) -> None:
    """The sidecar's own configuration says where it listens; from anywhere is from here too."""
    async with sidecar() as stub:
        file = settled(tmp_path, stub, host=host, token=None)
        code, out, err = await ask(capsys, "status", "--config", file)
    assert (code, err) == (0, "")
    assert out.startswith("spec: fallback\n")


async def test_address_of_the_environment(capsys: Capture, monkeypatch: Any) -> None:
    """Without a file the environment says it, as for the sidecar."""
    async with sidecar() as stub:
        monkeypatch.setenv("SPECGAUGE_LISTEN", stub.url.removeprefix("http://"))
        code, out, _ = await ask(capsys, "history")
    assert code == 0
    assert len(out.splitlines()) == 2


async def test_history(capsys: Capture) -> None:
    """A row each, oldest first, with the numbers; --json gives an object a line."""
    async with sidecar(DOCUMENT | {"history": [WARNING, CHANGE]}) as stub:
        code, out, _ = await ask(capsys, "history", "--url", stub.url)
        _, lines, _ = await ask(capsys, "history", "--json", "--url", stub.url)
    assert code == 0
    rest = "speedup 0.71 (0.66 to 0.76), 31.2 in decode, 8123 tokens"
    assert out.splitlines() == [
        f"2027-01-15 08:05:00Z  fallback  flag off  speedup_below_one     {rest}",
        f"2027-01-15 08:06:00Z  fallback  flag off  fallback_ineffective  {rest}",
    ]
    assert [json.loads(line) for line in lines.splitlines()] == [CHANGE, WARNING]


async def test_no_history(capsys: Capture) -> None:
    """A guard that has just started has moved nothing."""
    async with sidecar(DOCUMENT | {"history": []}) as stub:
        _, rows, _ = await ask(capsys, "history", "--url", stub.url)
        _, said, _ = await ask(capsys, "explain", "--url", stub.url)
        _, lines, _ = await ask(capsys, "history", "--json", "--url", stub.url)
    assert rows == "Nothing has changed since the sidecar started.\n"
    assert "It has not moved the flag since the sidecar started." in said
    assert lines == ""


async def test_what_a_dry_run_would_have_done(capsys: Capture) -> None:
    """Where the flag is never moved, both commands say what would have been."""
    would = CHANGE | {"state": "active", "flag": True, "changed": False, "would_be": "fallback"}
    document = DOCUMENT | {"dry_run": True, "history": [would | {"says": "It would be fallback."}]}
    async with sidecar(document) as stub:
        _, rows, _ = await ask(capsys, "history", "--url", stub.url)
        _, said, _ = await ask(capsys, "explain", "--url", stub.url)
    assert "  would be fallback  flag on  speedup_below_one  " in rows
    assert "It has not moved the flag since the sidecar started.\n" in said
    assert said.splitlines()[-1].endswith(" ago: It would be fallback.")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        pytest.param({"says": "From active to fallback."}, "From active to fallback.", id="said"),
        pytest.param(
            {},
            "fallback, flag off: tokens come slower than they would without speculation at this "
            "load.",
            id="unsaid",
        ),
    ],
)
async def test_explain(capsys: Capture, more: dict[str, Any], said: str) -> None:
    """Plain words: where it stands, and why it moved."""
    async with sidecar(DOCUMENT | {"history": [CHANGE | more, WARNING]}) as stub:
        code, out, err = await ask(capsys, "explain", "--url", stub.url)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[:2] == DOCUMENT["says"].splitlines()
    assert len(lines) == 3
    assert lines[2].endswith(f" ago: {said}")


async def test_odd_documents(capsys: Capture) -> None:
    """Whatever an answer holds, a terminal is not taken over and nothing breaks."""
    odd = {
        "target": "a\x1b[31mb",
        "says": None,
        "flag": [],
        "history": [7, {"unix": "x", "evidence": {"tokens": "many"}, "warnings": 3}],
    }
    async with sidecar(DOCUMENT | odd) as stub:
        for command in ("status", "history", "explain"):
            code, out, _ = await ask(capsys, command, "--url", stub.url)
            assert code == 0
            assert "\x1b" not in out


# override


@pytest.mark.parametrize(
    ("words", "wish", "said"),
    [
        (["on"], {"mode": "on"}, "on, whatever the evidence says, until an override of auto."),
        (
            ["off", "--for", "30m", "--reason", "load test"],
            {"mode": "off", "for": "30m", "reason": "load test"},
            "off, whatever the evidence says, for 30 min.",
        ),
        (["auto"], {"mode": "auto"}, "The guard decides again, from the next scrape on."),
    ],
    ids=str,
)
@pytest.mark.parametrize("given", ["file", "option", "environment"])
async def test_override(
    tmp_path: Path,
    capsys: Capture,
    monkeypatch: Any,
    given: str,
    words: list[str],
    wish: dict[str, str],
    said: str,
) -> None:
    """The wish reaches the sidecar with the token, wherever that is from."""
    async with sidecar() as stub:
        where: list[object] = ["--url", stub.url]
        if given == "environment":
            monkeypatch.setenv("SPECGAUGE_TOKEN", TOKEN)
        elif given == "file":
            where = ["--config", settled(tmp_path, stub)]
        else:
            (tmp_path / "own").write_text(TOKEN)
            where += ["--token-file", tmp_path / "own"]
        code, out, err = await ask(capsys, "override", *words, *where)
    assert (code, err) == (0, "")
    assert stub.wishes == [wish]
    assert out.rstrip("\n").endswith(said)


async def test_token_file_goes_before_the_configuration(tmp_path: Path, capsys: Capture) -> None:
    """What the option names is sent, and the address is still the file's."""
    async with sidecar() as stub:
        file = settled(tmp_path, stub, token="another-token")
        (tmp_path / "own").write_text(TOKEN)
        own = ("--token-file", tmp_path / "own")
        code, _, _ = await ask(capsys, "override", "on", "--config", file, *own)
    assert (code, stub.wishes) == (0, [{"mode": "on"}])


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["perhaps"], "perhaps"),
        (["on", "--for", "30"], "30 has no unit"),
        (["on", "--for", "0s"], "must be above 0s"),
        (["on", "--for", "367d"], "longer than 366d"),
        (["auto", "--for", "5m"], "--for is of no use with auto"),
        ([], "Missing argument"),
    ],
    ids=str,
)
async def test_wishes_that_are_none(capsys: Capture, words: list[str], problem: str) -> None:
    """They end with 2 and ask nobody."""
    async with sidecar() as stub:
        code, out, err = await ask(capsys, "override", *words, "--url", stub.url)
    assert (code, out, stub.wishes) == (2, "", [])
    assert problem in err


async def test_override_refused(tmp_path: Path, capsys: Capture) -> None:
    """A wrong or missing token and a wish that is refused end with 2; the token is never shown."""
    (tmp_path / "own").write_text("wrong-token")
    own = ("--token-file", tmp_path / "own")
    async with sidecar() as stub:
        wrong = await ask(capsys, "override", "on", "--url", stub.url, *own)
        missing = await ask(capsys, "override", "on", "--url", stub.url)
        file = settled(tmp_path, stub)
        bad = await ask(capsys, "override", "on", "--reason", "bad", "--config", file)
    hint = "give --token-file or --config"
    assert wrong == (2, "", f"specgauge: {stub.url}: the token was not accepted; {hint}\n")
    assert missing == (2, "", f"specgauge: {stub.url}: the token is missing; {hint}\n")
    assert bad == (2, "", f"specgauge: {stub.url}: reason: say why\n")


async def test_token_files_that_cannot_be_read(tmp_path: Path, capsys: Capture) -> None:
    """They end with 2 and are named; nothing is asked."""
    async with sidecar() as stub:
        code, _, err = await ask(
            capsys, "override", "on", "--url", stub.url, "--token-file", tmp_path / "none"
        )
    assert (code, stub.wishes) == (2, [])
    assert f"{tmp_path / 'none'}" in err


@pytest.mark.parametrize("words", [("override", "off"), ("status",), ("history",), ("explain",)])
@pytest.mark.parametrize(
    ("said", "told"),
    [
        pytest.param(
            b"another process holds guard.lock_file; ask that one\n",
            "another process holds guard.lock_file; ask that one",
            id="told",
        ),
        pytest.param(b"", "another process guards this flag; ask that one", id="silent"),
    ],
)
async def test_another_process_guards(
    capsys: Capture, words: tuple[str, ...], said: bytes, told: str
) -> None:
    """A sidecar that only looks on ends with 1, and says whom to ask."""
    async with serving(answer(said, status=409)) as server:
        code, out, err = await ask(capsys, *words, "--url", server.url)
    assert (code, out, err) == (1, "", f"specgauge: {server.url}: {told}\n")


async def test_override_that_is_too_long(capsys: Capture) -> None:
    """What is more than the sidecar reads ends with 2, as any wish that is refused."""
    said = b"the body is longer than 65536 bytes\n"
    async with serving(answer(said, status=413)) as server:
        code, out, err = await ask(capsys, "override", "off", "--url", server.url)
    assert (code, out) == (2, "")
    assert err == f"specgauge: {server.url}: the body is longer than 65536 bytes\n"


async def test_override_not_allowed(tmp_path: Path, capsys: Capture) -> None:
    """A sidecar without a token file says so."""
    said = b"no token_file is configured, so this route changes nothing\n"
    (tmp_path / "own").write_text(TOKEN)
    async with serving(answer(said, status=403)) as server:
        code, _, err = await ask(
            capsys, "override", "on", "--url", server.url, "--token-file", tmp_path / "own"
        )
    assert code == 2
    assert "overrides are not allowed: no token_file is configured" in err
    assert TOKEN not in err


# Sidecars that cannot be asked

ASKING = (("status",), ("history",), ("explain",), ("override", "auto"))


@pytest.mark.parametrize("words", ASKING, ids=lambda one: one[0])
async def test_no_guard(tmp_path: Path, capsys: Capture, words: tuple[str, ...]) -> None:
    """A sidecar that guards nothing ends every question with 1."""
    nothing = {"schema": DOCUMENT["schema"], "state": None, "says": "no guard is configured"}
    async with sidecar(nothing) as stub:
        file = settled(tmp_path, stub)
        code, out, err = await ask(capsys, *words, "--config", file)
    assert (code, out) == (1, "")
    assert err == (
        f"specgauge: {stub.url}: no guard is configured; add guard: to its configuration\n"
    )


@pytest.mark.parametrize("words", ASKING, ids=lambda one: one[0])
async def test_no_sidecar(capsys: Capture, words: tuple[str, ...]) -> None:
    """Where nobody listens every question ends with 3 and says so."""
    async with sidecar() as stub:
        url = stub.url
    code, out, err = await ask(capsys, *words, "--url", url)
    assert (code, out) == (3, "")
    assert "cannot connect" in err
    assert err.endswith("; is the sidecar running there?\n")


@pytest.mark.parametrize(
    ("answered", "problem"),
    [
        pytest.param(answer(b"<html>hello</html>", content_type="text/html"), "HTML", id="HTML"),
        pytest.param(answer(b"{", content_type="application/json"), "not JSON", id="cut"),
        pytest.param(answer(b"[]", content_type="application/json"), "a sidecar", id="a list"),
        pytest.param(answer(b'{"schema": "x"}'), "specgauge.guard_status/v1", id="schema"),
        pytest.param(answer(b"", status=404), "no such page", id="not there"),
        pytest.param(answer(b"", status=503), "503", id="unwell"),
        pytest.param(answer(b"", "Location: http://a/", status=302), "redirect", id="elsewhere"),
    ],
)
async def test_answers_of_something_else(capsys: Capture, answered: bytes, problem: str) -> None:
    """What is no sidecar, or an older one, ends with 3 and one line."""
    async with serving(answered) as server:
        code, out, err = await ask(capsys, "status", "--url", server.url)
        assert len(server.requests) == 1
    assert (code, out, len(err.splitlines())) == (3, "", 1)
    assert problem in err


@pytest.mark.parametrize("url", ["127.0.0.1:9843", "ftp://127.0.0.1", "http://", "http://a/?x=1"])
def test_urls_that_are_none(capsys: Capture, url: str) -> None:
    """They end with 2."""
    code, out, err = run(capsys, "status", "--url", url)
    assert (code, out) == (2, "")
    assert err


def test_port_that_nobody_knows(tmp_path: Path, capsys: Capture) -> None:
    """A sidecar on a free port has to be named."""
    code, _, err = run(capsys, "status", "--config", config(tmp_path, 'listen: "127.0.0.1:0"'))
    assert code == 2
    assert "give --url" in err


async def test_as_a_process_of_its_own(tmp_path: Path) -> None:
    """It works by exec, without a shell, and proxies of the environment are not asked."""
    async with sidecar() as stub:
        made = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "specgauge", "guard", "status"),
            *("--config", str(settled(tmp_path, stub))),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={"http_proxy": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9"},
        )
        out, err = await made.communicate()
    assert (made.returncode, err) == (0, b"")
    assert out.startswith(b"spec: fallback\n")


async def test_with_the_real_sidecar(tmp_path: Path, capsys: Capture) -> None:
    """A running guard is asked, overruled and let go again."""
    (tmp_path / "token").write_text(TOKEN)
    async with serving(answer(v1_page(1000))) as engine:
        file = config(
            tmp_path,
            f"targets: [{{name: spec, url: '{engine.url}'}}]\nscrape: {{interval: 100ms}}\n"
            'listen: "127.0.0.1:0"\ntoken_file: token\nguard: {}\n',
        )
        async with specgauge("serve", "--config", str(file)) as made:
            where = ("--url", await made.listening(), "--config", file)

            async def until_state(state: str) -> dict[str, Any]:
                async with asyncio.timeout(DEADLINE):
                    while True:
                        code, out, err = await ask(capsys, "status", "--json", *where)
                        assert (code, err) == (0, "")
                        found: dict[str, Any] = json.loads(out)
                        if found["state"] == state:
                            return found

            await until_state("active")
            told = await ask(capsys, "override", "off", "--for", "30m", "--reason", "test", *where)
            assert told[0] == 0
            found = await until_state("override")
            assert found["override"]["mode"] == "off"
            assert found["flag"]["desired"] is False
            _, out, _ = await ask(capsys, "status", *where)
            assert out.splitlines()[-1].startswith("Override: off until ")
            _, out, _ = await ask(capsys, "history", *where)
            assert "override_off" in out
            assert (await ask(capsys, "override", "auto", *where))[0] == 0
            await until_state("probing")
            code, out, _ = await ask(capsys, "explain", *where)
            assert code == 0
            assert "an operator wants it off" in out
