"""`specgauge checklist`: real sidecars, a real Prometheus, files, options and exit codes."""

import asyncio
import json
import shutil
import signal
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from tests.checklists import DOCUMENTS, compare_document, guard_document
from tests.checklists import write as write_json
from tests.flag_servers import Asked, FlagServer, Reply, always, flag_server
from tests.guarding import TOKEN, Guarded, file_flag, guarded, machine, write_config
from tests.servers import serving, silent
from tests.sidecars import DEADLINE, specgauge
from tests.test_prometheus import Server, scraping

from specgauge.cli.checklist import exercise as exercising
from specgauge.cli.main import main
from specgauge.preflight.checklist.gates import NAMES
from specgauge.preflight.checklist.report import timestamp
from specgauge.render.dashboards import dashboards
from specgauge.render.options import Options
from specgauge.render.rules import rules

Capture = pytest.CaptureFixture[str]
Json = dict[str, Any]
CONFIG = """
targets: [{{name: spec, url: "{url}", method: eagle3}}]
baseline: {{file: base.json}}
guard: {{}}
flag: {{obeyed_by: the gateway}}
rules: {{runbook_url: "{runbook}"}}
checklist:
  models: [/models/target]
  model_revision: r1
  draft_revision: r2
  speculative_config: '{{"method": "eagle3", "model": "/models/head", "num_speculative_tokens": 4}}'
  routing: routes.yaml
  report_scheduled_by: report.timer
"""
RUNBOOK = "https://git.example/README.md"
DEAD = "http://127.0.0.1:9"


async def run(capsys: Capture, *words: object) -> tuple[int, str, str]:
    """Run the command line beside the servers of a test; gives exit code, stdout and stderr."""
    code = await asyncio.to_thread(main, ["checklist", *map(str, words)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


async def gates(capsys: Capture, *words: object) -> dict[str, str]:
    """Run it for its document; gives how each gate ended and why."""
    _, out, _ = await run(capsys, *words, "--json")
    found = json.loads(out, parse_constant=pytest.fail)
    return {one["gate"]: f"{one['status']} {one['reason']}" for one in found["gates"]}


# a real sidecar


@asynccontextmanager
async def watched(
    folder: Path, guard: str = "", **more: Any
) -> AsyncIterator[tuple[Guarded, Path]]:
    """Run a guarded sidecar that takes orders, over an engine that speculation pays for."""
    (folder / "token").write_text(TOKEN)
    async with machine(**more) as one:
        file = write_config(
            folder,
            one,
            guard=guard,
            flag=file_flag(folder),
            more=f"token_file: {folder / 'token'}\n",
        )
        async with guarded(file) as made:
            yield made, file


async def test_live_gates_and_an_exercise(tmp_path: Path, capsys: Capture) -> None:
    """The flag is turned off and on, read back each time, and left to the evidence again."""
    async with watched(tmp_path) as (made, file):
        await made.phase("active")
        await made.scrapes(12)
        only = [("--only", name) for name in ("guard_configured", "guard_exercised", "flag_obeyed")]
        words = (
            "--config",
            file,
            "--url",
            made.sidecar.url,
            *(word for one in only for word in one),
        )
        found = await gates(capsys, *words)
        assert found["guard_configured"] == "pass met"
        assert found["guard_exercised"] == "not_measured not_exercised"
        assert found["flag_obeyed"] == "fail nobody_obeys"
        found = await gates(capsys, *words, "--exercise")
        assert found["guard_exercised"] == "pass met"
        assert (made.view.phase, made.view.flag.confirmed) == ("active", True)
        reasons = [past.decision.reason for past in made.view.history]
        assert reasons[-3:] == ["override_off", "override_on", "override_lifted"]
        assert (tmp_path / "flag").read_text().strip() == "true"
        found = await gates(capsys, *words)
        assert found["guard_exercised"] == "pass met"


async def test_live_acceptance(tmp_path: Path, capsys: Capture) -> None:
    """What the sidecar sees decides: against break-even, and without a sample not at all."""
    async with watched(tmp_path) as (made, file):
        words = ("--config", file, "--url", made.sidecar.url, "--only", "acceptance")
        found = await gates(capsys, *words)
        assert found == {"acceptance": "not_measured low_sample"} or found["acceptance"].startswith(
            "not_measured"
        )
        async with asyncio.timeout(DEADLINE):
            while (await gates(capsys, *words))["acceptance"] != "pass met":
                await made.scrapes(3)
        code, out, err = await run(capsys, *words)
        assert (code, err) == (0, "")
        assert "pass          acceptance: " in out
        assert "tokens a step (" in out
        assert out.splitlines()[0] == "small, release not known, k=4"
        assert out.splitlines()[-1].startswith("Ready to go live (1 pass, 0 fail")


async def test_exercise_in_a_dry_run(tmp_path: Path, capsys: Capture) -> None:
    """A dry run takes the override down and writes nothing."""
    async with watched(tmp_path, guard="dry_run: true") as (made, file):
        await made.phase("active")
        words = ("--config", file, "--url", made.sidecar.url, "--only", "guard_exercised")
        assert await gates(capsys, *words, "--exercise") == {"guard_exercised": "pass met"}
        assert (tmp_path / "flag").read_text().strip() == "true"
        assert await gates(capsys, *words) == {"guard_exercised": "pass met"}


async def test_exercise_begins_from_active_alone(tmp_path: Path, capsys: Capture) -> None:
    """Where the guard has fallen back there is nothing to turn off, and nothing is touched."""
    guard = "cooldown: 1h"
    async with watched(tmp_path, guard=guard, slow=3.0) as (made, file):
        await made.phase("fallback")
        await made.confirmed(on=False)
        before = len(made.view.history)
        words = ("--config", file, "--url", made.sidecar.url, "--only", "guard_exercised")
        code, out, _ = await run(capsys, *words, "--exercise")
        assert code == 1
        assert "the guard is fallback and its flag off; it begins from active and on" in out
        assert len(made.view.history) == before


async def test_exercise_with_another_token(tmp_path: Path, capsys: Capture) -> None:
    """A token that the sidecar does not take fails the gate, and the token is not shown."""
    (tmp_path / "other").write_text("not-the-token")
    async with watched(tmp_path) as (made, file):
        await made.phase("active")
        words = ("--config", file, "--url", made.sidecar.url, "--only", "guard_exercised")
        code, out, err = await run(capsys, *words, "--exercise", "--token-file", tmp_path / "other")
        assert (code, err) == (1, "")
        assert "answered 401" in out
        assert "not-the-token" not in out


async def test_exercise_gives_up(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flag that does not follow fails the gate, and the guard is left to the evidence."""
    monkeypatch.setattr(exercising, "_PATIENCE", 0.5)
    (tmp_path / "token").write_text(TOKEN)
    said = guard_document(flag={"key": "k", "backend": "file", "confirmed": True, "desired": True})
    async with flag_server(always(Reply(document=said))) as sidecar:
        words = ("--url", sidecar.url, "--token-file", tmp_path / "token", "--exercise", "--only")
        (tmp_path / "c.yaml").write_text("guard: {}\n")
        code, out, _ = await run(capsys, *words, "guard_exercised", "--config", tmp_path / "c.yaml")
        assert code == 1
        assert "the flag is not off within 0.5 s" in out
        await run(capsys, *words, "routing", "--config", tmp_path / "c.yaml")
        orders = [one.json() for one in sidecar.asked if one.method == "POST"]
        assert [one["mode"] for one in orders if isinstance(one, dict)] == ["off", "auto"]


async def test_nobody_answers(capsys: Capture) -> None:
    """Without a sidecar and without evidence every gate says what it lacks."""
    code, out, err = await run(capsys, "--url", DEAD)
    assert (code, err) == (1, "")
    assert "Not ready to go live (0 pass, 2 fail, 16 not measured, 0 waived)." in out
    assert "Traceback" not in out


async def test_a_silent_sidecar(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that never answers costs its timeout, once for all that is asked."""
    monkeypatch.setattr("specgauge.cli.checklist.ask.SECONDS", 0.3)
    async with serving(silent) as server:
        began = time.monotonic()
        given = ("--url", server.url, "--prometheus", server.url)
        found = await gates(capsys, *given, "--only", "acceptance", "--only", "rules")
        assert time.monotonic() - began < DEADLINE
    assert found["acceptance"] == found["rules"] == "not_measured unreachable"


# recorded answers


@pytest.fixture(scope="session")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Render the dashboards of the configuration once."""
    folder = tmp_path_factory.mktemp("rendered")
    for one in dashboards(Options(runbook_url=RUNBOOK)):
        file = folder / one.path.removeprefix("dashboards/")
        file.write_text(one.text)
    return folder


@pytest.fixture
def folder(tmp_path: Path, rendered: Path) -> Path:
    """Give a folder with everything in place and recorded, but for what has to be asked."""
    now = time.time()
    (tmp_path / "specgauge.yaml").write_text(
        CONFIG.format(url="http://127.0.0.1:8000", runbook=RUNBOOK)
    )
    for name, (_, make) in DOCUMENTS.items():
        write_json(tmp_path, f"{name}.json", make(created=timestamp(now - 3600)))
    write_json(tmp_path, "status.json", status(now))
    history = [
        {"unix": now - 60, "state": "override", "flag": False, "changed": True, "reason": "x"}
    ]
    place = {"key": "speculative_decoding_enabled", "backend": "embedded"}
    flag = {**place, "desired": True, "confirmed": True}
    write_json(tmp_path, "guard.json", guard_document(flag=flag, history=history))
    write_json(tmp_path, "base.json", baseline(now))
    shutil.copytree(rendered, tmp_path / "dashboards")
    return tmp_path


def status(now: float) -> Json:
    judged = {
        "verdict": "pays",
        "reason": "speedup_above_one",
        "acceptance_length": 3.4,
        "breakeven_acceptance_length": 1.4,
        "speedup_ratio": {"concurrency": 1.9},
    }
    model = {
        "model_name": "target",
        "engines": ["0"],
        "num_speculative_tokens": 4,
        "drafts": 5000,
        "acceptance_ratio": 0.6,
        "kv_cache_usage_ratio": 0.3,
        "verdict": judged,
    }
    target = {
        "name": "spec",
        "role": "speculative",
        "method": "eagle3",
        "up": True,
        "engine_version": "0.25.1",
        "last_scrape_success_timestamp_seconds": now - 5,
        "models": [model],
    }
    return {"schema": "specgauge.status/v1", "targets": [target]}


def baseline(now: float) -> Json:
    levels = [
        {"decode_concurrency": load, "server": {"tpot_seconds": 0.005}} for load in (1.0, 8.0)
    ]
    return {
        "schema": "specgauge.baseline/v1",
        "created": timestamp(now - 3600),
        "method": "closed_loop",
        "engine": {"name": "vllm", "version": "0.25.1"},
        "model": {"name": "target"},
        "levels": levels,
    }


def words(folder: Path, *more: object) -> list[object]:
    """Name everything that the folder holds."""
    return [
        *("--config", folder / "specgauge.yaml", "--recorded", folder),
        *("--draft-report", folder / "draft.json", "--sweep", folder / "sweep.json"),
        *("--compare", folder / "compare.json", "--memory", folder / "memory.json"),
        *("--dashboards", folder, *more),
    ]


async def pinned(folder: Path, capsys: Capture) -> None:
    """Pin what the recorded sidecar of a folder tells, as if it answered."""

    def answer(asked: Asked) -> Reply:
        return Reply(document=json.loads((folder / "status.json").read_text()))

    async with flag_server(answer) as sidecar:
        code, out, err = await run(
            capsys, "pin", "--config", folder / "specgauge.yaml", "--url", sidecar.url,
            "--dashboards", folder,
        )  # fmt: skip
    assert (code, out.strip(), err) == (0, str(folder / "specgauge.lock.json"), "")


async def test_everything_in_place(folder: Path, capsys: Capture) -> None:
    """With all evidence and everything pinned the command ends with 0, and writes its reports."""
    await pinned(folder, capsys)
    reports = ("--markdown", folder / "c.md", "--junit", folder / "c.xml")
    code, out, err = await run(capsys, *words(folder, "--skip", "rules=asked elsewhere", *reports))
    assert (code, err) == (0, ""), out
    assert "Ready to go live (17 pass, 0 fail, 0 not measured, 1 waived)." in out
    assert "waived: asked elsewhere" in out
    root = ET.fromstring((folder / "c.xml").read_bytes())  # noqa: S314 - our own output
    assert (root.attrib["tests"], root.attrib["skipped"]) == (str(len(NAMES)), "1")
    assert "| ✅ pass |" in (folder / "c.md").read_text()


@pytest.mark.parametrize(
    ("name", "gate"),
    [("draft", "draft"), ("sweep", "k_chosen"), ("compare", "comparison"), ("memory", "memory")],
)
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(b'{"schema": ', "unreadable", id="cut off"),
        pytest.param(b"", "unreadable", id="empty"),
        pytest.param(b"\0" * (17 << 20), "unreadable", id="huge"),
        pytest.param(b"{}", "wrong_schema", id="another"),
        pytest.param(None, "unreadable", id="not there"),
        pytest.param("folder", "unreadable", id="a folder"),
        pytest.param("loop", "unreadable", id="a loop of links"),
    ],
)
async def test_hostile_files(
    folder: Path, capsys: Capture, name: str, gate: str, content: bytes | str | None, expected: str
) -> None:
    """A file that is none makes its gate not measured, on one line, and the others go on."""
    file = folder / f"{name}.json"
    file.unlink()
    match content:
        case bytes():
            file.write_bytes(content)
        case "folder":
            file.mkdir()
        case "loop":
            file.symlink_to(file)
    found = await gates(capsys, *words(folder, "--only", gate, "--only", "routing"))
    assert found == {gate: f"not_measured {expected}", "routing": "pass stated"}


@pytest.mark.parametrize(
    ("more", "code"),
    [
        pytest.param((), 4, id="not measured"),
        pytest.param(("--allow-not-measured",), 0, id="let pass"),
    ],
)
async def test_not_measured_is_never_a_pass(
    folder: Path, capsys: Capture, more: tuple[str, ...], code: int
) -> None:
    """Where none failed and something was not measured the end is 4, unless that is asked for."""
    only = ("--only", "rules", "--only", "routing")
    found, out, err = await run(capsys, *words(folder, *only, *more))
    assert found == code
    assert "Not ready to go live: not everything was measured" in out
    told = "mind: 1 gates were NOT MEASURED and are let pass: rules\n"
    assert err == (told if more else "")


async def test_a_fail_is_not_let_pass(folder: Path, capsys: Capture) -> None:
    """The option lets pass what was not measured, and nothing else."""
    write_json(folder, "compare.json", compare_document(created=time.time(), decision="keep_off"))
    only = ("--only", "comparison", "--only", "routing", "--allow-not-measured")
    code, _, _ = await run(capsys, *words(folder, *only))
    assert code == 1


async def test_recorded_rules(folder: Path, capsys: Capture) -> None:
    """A recorded answer of Prometheus is taken, and is looked at as a live one."""
    write_json(folder, "rules.json", {"status": "success", "data": {"groups": []}})
    found = await gates(capsys, *words(folder, "--only", "rules"))
    assert found == {"rules": "fail not_loaded"}


async def test_a_recording_that_is_not_there(folder: Path, capsys: Capture) -> None:
    """Answers that were not recorded are not measured."""
    (folder / "status.json").unlink()
    (folder / "guard.json").write_text("[]")
    names = ("acceptance", "guard_configured", "comparison")
    found = await gates(capsys, *words(folder, *(f"--only={name}" for name in names)))
    assert found["acceptance"] == "not_measured unreadable"
    assert found["guard_configured"] == "not_measured unreadable"
    assert found["comparison"] == "not_measured deployment_unknown"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param("{", "not_measured unreadable", id="cut off"),
        pytest.param("{}", "not_measured incomplete", id="another"),
    ],
)
async def test_a_baseline_that_is_none(
    folder: Path, capsys: Capture, content: str, expected: str
) -> None:
    """A baseline file that cannot be used makes its gate not measured."""
    (folder / "base.json").write_text(content)
    found = await gates(capsys, *words(folder, "--only", "baseline"))
    assert found == {"baseline": expected.replace("incomplete", "unreadable")}


async def test_a_folder_of_baselines(folder: Path, capsys: Capture) -> None:
    """Of a folder the one counts that belongs to the server."""
    (folder / "bases").mkdir()
    (folder / "base.json").rename(folder / "bases/one.json")
    write_json(folder / "bases", "two.json", {**baseline(time.time()), "model": {"name": "other"}})
    file = folder / "specgauge.yaml"
    file.write_text(file.read_text().replace("{file: base.json}", "{dir: bases}"))
    assert await gates(capsys, *words(folder, "--only", "baseline")) == {"baseline": "pass met"}


async def test_the_guards_record_counts(folder: Path, capsys: Capture) -> None:
    """A flip in guard.audit_file counts where the sidecar has forgotten it; bad lines do not."""
    file = folder / "specgauge.yaml"
    file.write_text(file.read_text().replace("guard: {}", "guard: {audit_file: audit.jsonl}"))
    document = json.loads((folder / "guard.json").read_text())
    line = {**document["history"][0], "target": "spec", "flag_key": "speculative_decoding_enabled"}
    (folder / "guard.json").write_text(json.dumps({**document, "history": []}))
    only = ("--only", "guard_exercised")
    found = await gates(capsys, *words(folder, *only))
    assert found == {"guard_exercised": "not_measured not_exercised"}
    (folder / "audit.jsonl").write_text(f"{{\n[]\n{json.dumps(line)}\n" + "[" * 9999)
    assert await gates(capsys, *words(folder, *only)) == {"guard_exercised": "pass met"}


# pinning


async def test_what_is_pinned_has_to_run(folder: Path, capsys: Capture) -> None:
    """Another release than was pinned fails the gate; without a lock file it is not measured."""
    only = words(folder, "--only", "pinned")
    assert await gates(capsys, *only) == {"pinned": "not_measured missing"}
    await pinned(folder, capsys)
    assert await gates(capsys, *only) == {"pinned": "pass met"}
    lock = folder / "specgauge.lock.json"
    text = lock.read_text()
    lock.write_text(text.replace("0.25.1", "0.25.0"))
    code, out, _ = await run(capsys, *only)
    assert code == 1
    assert "engine.version: 0.25.0 is pinned, 0.25.1 runs" in out
    lock.write_text(text[:50])
    assert await gates(capsys, *only) == {"pinned": "not_measured unreadable"}
    lock.unlink()
    lock.mkdir()
    assert await gates(capsys, *only) == {"pinned": "not_measured unreadable"}


async def test_pin_says_what_it_does_not_know(folder: Path, capsys: Capture) -> None:
    """What is not known is not pinned, and ends with 4; the file is written all the same."""
    file = folder / "specgauge.yaml"
    file.write_text(file.read_text().replace("  model_revision: r1\n", ""))
    document = json.loads((folder / "status.json").read_text())
    async with flag_server(always(Reply(document=document))) as sidecar:
        code, out, err = await run(
            capsys, "pin", "--config", file, "--url", sidecar.url, "-o", folder / "my.lock"
        )
    assert (code, out) == (4, f"{folder / 'my.lock'}\n")
    assert err == "mind: not known, and not pinned: model.revision\n"
    found = json.loads((folder / "my.lock").read_text())
    assert found["engine"] == {"version": "0.25.1"}
    assert found["model"] == {"name": "target", "revision": None}
    assert len(found["dashboards"]["sha256"]) == 64


@pytest.mark.parametrize(
    ("old", "new", "code", "told"),
    [
        pytest.param(
            '"num_speculative_tokens": 4',
            '"num_speculative_tokens": 5',
            1,
            "specgauge: checklist.speculative_config.num_speculative_tokens: 5 is stated, 4 runs",
            id="another k is stated",
        ),
        pytest.param("models:", "models:", 2, "choose another file with -o", id="no such folder"),
    ],
)
async def test_pin_refuses(
    folder: Path, capsys: Capture, old: str, new: str, code: int, told: str
) -> None:
    """What is stated wrongly is not pinned, nor is anything where it cannot be written."""
    file = folder / "specgauge.yaml"
    file.write_text(file.read_text().replace(old, new))
    document = json.loads((folder / "status.json").read_text())
    async with flag_server(always(Reply(document=document))) as sidecar:
        found, out, err = await run(
            capsys, "pin", "--config", file, "--url", sidecar.url, "-o", folder / "no/lock"
        )
    assert (found, out) == (code, "")
    assert told in err


async def test_pin_without_a_sidecar(folder: Path, capsys: Capture) -> None:
    """Where the sidecar does not answer there is nothing to pin."""
    words = ("pin", "--config", folder / "specgauge.yaml", "--url", DEAD)
    code, out, err = await run(capsys, *words)
    assert (code, out) == (3, "")
    assert err.startswith("specgauge: unreachable: GET http://127.0.0.1:9/api/v1/status")
    assert not (folder / "specgauge.lock.json").exists()


async def test_pin_where_a_dashboard_is_missing(folder: Path, capsys: Capture) -> None:
    """Dashboards that are not all there are not pinned."""
    (folder / "dashboards/fleet.json").unlink()
    document = json.loads((folder / "status.json").read_text())
    async with flag_server(always(Reply(document=document))) as sidecar:
        code, _, err = await run(
            capsys, "pin", "--config", folder / "specgauge.yaml", "--url", sidecar.url,
            "--dashboards", folder,
        )  # fmt: skip
    assert (code, err) == (4, "mind: not known, and not pinned: dashboards.sha256\n")


# dashboards and rules


def grafana(folder: Path, **more: Reply) -> AbstractAsyncContextManager[FlagServer]:
    """Answer as Grafana does of the dashboards that were imported into it."""

    def handler(asked: Asked) -> Reply:
        uid = asked.path.rpartition("/")[2]
        if uid in more:
            return more[uid]
        if asked.headers.get("Authorization") != "Bearer grafana-token":
            return Reply(status=401, document={"message": "Unauthorized"})
        file = folder / "dashboards" / f"{uid.removeprefix('specgauge-')}.json"
        shown = {**json.loads(file.read_text()), "id": 7, "version": 12}
        return Reply(document={"dashboard": shown, "meta": {"slug": uid}})

    return flag_server(handler)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        pytest.param({}, "pass met", id="imported"),
        pytest.param({"specgauge-fleet": Reply(status=404)}, "fail not_loaded", id="not there"),
        pytest.param(
            {"specgauge-fleet": Reply(document={"dashboard": {"title": "mine"}})},
            "fail differs",
            id="changed",
        ),
        pytest.param(
            {"specgauge-fleet": Reply(text="<html>")}, "not_measured unreadable", id="a page"
        ),
        pytest.param({"specgauge-fleet": Reply(document=[])}, "fail not_loaded", id="no dashboard"),
        pytest.param(
            {"specgauge-fleet": Reply(status=500)}, "not_measured unreachable", id="failing"
        ),
    ],
)
async def test_dashboards_in_grafana(
    folder: Path, capsys: Capture, more: dict[str, Reply], expected: str
) -> None:
    """Grafana is asked by uid with its own token; what it numbers anew does not count."""
    (folder / "token").write_text("grafana-token")
    given = words(folder, "--only", "dashboards", "--grafana-token-file", folder / "token")
    at = given.index("--dashboards")
    async with grafana(folder, **more) as server:
        given[at : at + 2] = ["--grafana", server.url]
        assert await gates(capsys, *given) == {"dashboards": expected}


async def test_grafana_as_configured(folder: Path, capsys: Capture) -> None:
    """The token of guard.grafana goes to that Grafana, and to no other."""
    (folder / "token").write_text("grafana-token")
    given = words(folder, "--only", "dashboards")
    at = given.index("--dashboards")
    file = folder / "specgauge.yaml"
    async with grafana(folder) as server:
        keys = f"guard: {{grafana: {{url: '{server.url}', token_file: token}}}}"
        file.write_text(file.read_text().replace("guard: {}", keys))
        given[at : at + 2] = ["--grafana", server.url]
        assert await gates(capsys, *given) == {"dashboards": "pass met"}
        given[at + 1] = server.url.replace("127.0.0.1", "localhost")
        assert await gates(capsys, *given) == {"dashboards": "not_measured unreachable"}
        assert server.asked[-1].headers.get("Authorization") is None


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param('"title": "', "fail differs", id="changed"),
        pytest.param("{", "not_measured unreadable", id="cut off"),
    ],
)
async def test_dashboards_in_a_folder(
    folder: Path, capsys: Capture, change: str, expected: str
) -> None:
    """Files have to be what would be rendered."""
    file = folder / "dashboards/server.json"
    text = file.read_text()
    file.write_text(text.replace(change, '"title": "My ', 1) if "title" in change else change)
    found = await gates(capsys, *words(folder, "--only", "dashboards"))
    assert found == {"dashboards": expected}


async def test_dashboards_in_no_folder(folder: Path, capsys: Capture) -> None:
    """Where there is no folder, nothing was looked at."""
    (folder / "dashboards").rename(folder / "moved")
    only = words(folder, "--only", "dashboards")
    assert await gates(capsys, *only) == {"dashboards": "fail not_loaded"}
    only[only.index("--dashboards") + 1] = folder / "nowhere"
    assert await gates(capsys, *only) == {"dashboards": "not_measured unreadable"}


PROMETHEUS = "global: {{evaluation_interval: 1s}}\nscrape_configs: []\n"


async def test_rules_in_a_real_prometheus(
    prometheus: str, folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rules that are loaded and evaluated pass; a Prometheus without them fails the gate."""
    file = folder / "specgauge.rules.yaml"
    text = next(iter(rules(Options(runbook_url=RUNBOOK)))).text
    for often in ("30s", "1m", "2m"):  # a group first waits for some part of its interval
        text = text.replace(f"interval: {often}\n", "interval: 1s\n")
    file.write_text(text)
    only = words(folder, "--only", "rules", "--only", "runbook")
    monkeypatch.setattr("tests.test_prometheus.CONFIG", PROMETHEUS)
    async with scraping(prometheus, folder, "-") as server:
        found = await gates(capsys, *only, "--prometheus", str(server._client._base_url))
        assert found == {"rules": "fail not_loaded", "runbook": "pass stated"}
    monkeypatch.setattr("tests.test_prometheus.CONFIG", f"{PROMETHEUS}rule_files: ['{file}']\n")
    async with scraping(prometheus, folder, "-") as server:
        await evaluated(server)
        found = await gates(capsys, *only, "--prometheus", str(server._client._base_url))
        assert found == {"rules": "pass met", "runbook": "pass stated"}


async def evaluated(server: Server) -> None:
    """Wait until every rule has been evaluated."""
    async with asyncio.timeout(DEADLINE):
        while True:
            groups = (await server.ask("rules"))["groups"]
            if {one["health"] for group in groups for one in group["rules"]} == {"ok"}:
                return
            await asyncio.sleep(0.2)


async def test_prometheus_as_configured(folder: Path, capsys: Capture) -> None:
    """The Prometheus of the guard is asked by default, with its token."""
    (folder / "token").write_text("prometheus-token")
    file = folder / "specgauge.yaml"
    body = {"status": "success", "data": {"groups": []}}
    async with flag_server(always(Reply(document=body))) as server:
        keys = f"guard: {{prometheus: {{url: '{server.url}', token_file: token, tenant: t}}}}"
        file.write_text(file.read_text().replace("guard: {}", keys))
        found = await gates(capsys, *words(folder, "--only", "rules"))
        assert found == {"rules": "fail not_loaded"}
        (asked,) = server.asked
        assert asked.path == "/api/v1/rules"
        assert asked.headers["Authorization"] == "Bearer prometheus-token"
        assert asked.headers["X-Scope-OrgID"] == "t"


# command lines


@pytest.mark.parametrize(
    ("more", "told"),
    [
        pytest.param(
            ("--skip", "x=y"), "--skip x: no gate; there are baseline, draft", id="no gate"
        ),
        pytest.param(("--skip", "rules"), "--skip rules: give a reason", id="no reason"),
        pytest.param(("--skip", "rules= "), "--skip rules: give a reason", id="blank reason"),
        pytest.param(("--only", "x"), "'x' is not one of 'baseline'", id="only no gate"),
        pytest.param(("--url", "http://a"), "--recorded asks nobody", id="recorded and url"),
        pytest.param(("--exercise",), "--recorded asks nobody", id="recorded and exercise"),
        pytest.param(("--grafana", "http://g"), "give one of them", id="two places"),
        pytest.param(("--prometheus", "ftp://p"), "--prometheus: ", id="no URL"),
        pytest.param(("--prometheus", "http://p/?x=1"), "--prometheus: what is", id="a query"),
        pytest.param(("--prometheus", "http://p/#x"), "--prometheus: a URL to", id="a fragment"),
        pytest.param(("--junit", "/no/such/x.xml"), "/no/such/x.xml: No such", id="no folder"),
        pytest.param(("--markdown", "/"), "/: Is a directory", id="a folder"),
    ],
)
async def test_usage(folder: Path, capsys: Capture, more: tuple[str, ...], told: str) -> None:
    """A command line that cannot be obeyed is told on stderr and ends with 2."""
    code, out, err = await run(capsys, *words(folder, "--only=routing", *more))
    assert (code, out) == (2, "")
    assert told in err


async def test_exercise_needs_a_token(tmp_path: Path, capsys: Capture) -> None:
    """Without a token nothing is tried."""
    (tmp_path / "c.yaml").write_text("guard: {}\n")
    words = ("--config", tmp_path / "c.yaml", "--url", DEAD, "--exercise")
    code, _, err = await run(capsys, *words)
    assert code == 2
    assert "--exercise changes the flag; give --token-file" in err


async def test_exercise_needs_a_guard(tmp_path: Path, capsys: Capture) -> None:
    """Without a guard in the configuration nothing is tried."""
    words = ("--token-file", tmp_path / "token", "--url", DEAD, "--exercise")
    code, _, err = await run(capsys, *words)
    assert code == 2
    assert "--exercise: no guard is configured" in err


async def test_an_exercise_that_is_interrupted(tmp_path: Path) -> None:
    """Ctrl-C amid an exercise leaves the guard to the evidence before the command ends."""
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "c.yaml").write_text("guard: {}\n")
    said = guard_document(flag={"key": "k", "backend": "file", "confirmed": True, "desired": True})
    ordered = asyncio.Event()

    def handler(asked: Asked) -> Reply:
        if asked.method == "POST":
            ordered.set()
        return Reply(document=said)

    async with flag_server(handler) as sidecar:
        words = ("checklist", "--config", str(tmp_path / "c.yaml"), "--url", sidecar.url)
        more = ("--token-file", str(tmp_path / "token"), "--exercise")
        async with specgauge(*words, *more) as made:
            await asyncio.wait_for(ordered.wait(), DEADLINE)
            made.process.send_signal(signal.SIGINT)
            assert await made.end() == 130
            orders = [one.json() for one in sidecar.asked if one.method == "POST"]
            assert [one["mode"] for one in orders if isinstance(one, dict)] == ["off", "auto"]
            assert not any("Traceback" in line for line in made.lines)


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        pytest.param("waive: {x: y}", "checklist.waive.x: no gate; there are", id="no gate"),
        pytest.param("waive: {rules: ''}", "checklist.waive", id="no reason"),
        pytest.param("max_age: 0s", "checklist.max_age: must be at least", id="no age"),
        pytest.param("min_acceptance: 2", "checklist.min_acceptance: write a ratio", id="ratio"),
        pytest.param("expected_concurrency: 0", "must be above 0", id="no load"),
        pytest.param("speculative_config: '{'", "must be JSON in quotes", id="no JSON"),
        pytest.param("speculative_config: '[]'", "must be a JSON object", id="a list"),
        pytest.param("speculative_config: '{\"a\": NaN}'", "must be JSON", id="NaN"),
        pytest.param("speculative_config: {a: 1}", "text is expected", id="YAML"),
        pytest.param("lock_file: no/lock.json", "is not there; make it first", id="no folder"),
        pytest.param("nonsense: 1", "checklist.nonsense: unknown key", id="unknown"),
    ],
)
async def test_keys(tmp_path: Path, capsys: Capture, keys: str, told: str) -> None:
    """A bad key is told with its path, and ends with 2."""
    (tmp_path / "c.yaml").write_text(f"checklist:\n  {keys}\n")
    code, _, err = await run(capsys, "--config", tmp_path / "c.yaml", "--url", DEAD)
    assert code == 2
    assert told in err


async def test_keys_waive_and_the_command_line_goes_first(folder: Path, capsys: Capture) -> None:
    """A waiver of the configuration counts; the flag's reason replaces its own."""
    file = folder / "specgauge.yaml"
    file.write_text(file.read_text() + "  waive: {rules: in the file}\n  lock_file: other.json\n")
    _, out, _ = await run(capsys, *words(folder, "--only", "rules"))
    assert "waived: in the file" in out
    _, out, _ = await run(capsys, *words(folder, "--only", "rules", "--skip", "rules=by hand"))
    assert "waived: by hand" in out
