"""`specgauge report` on the command line: terms, delivery, schedules, and who answers badly."""

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml
from tests.baselines import document as baseline_document
from tests.flag_servers import Asked, Reply, flag_server

from specgauge import __version__
from specgauge.cli.main import main
from specgauge.cli.report.plan import Plan, plan_of
from specgauge.config import load
from specgauge.errors import UsageError
from specgauge.report.schedule import Job, kubernetes, systemd

URL = "http://prometheus:9090"
NOW = 1_764_500_123.0
GIVEN: Mapping[str, Any] = {
    "config_file": None,
    "url": URL,
    "token_file": None,
    "last": "7d",
    "until": "now",
    "compare_to": None,
    "selector": None,
    "gpus_per_server": None,
    "form": None,
    "output": None,
    "webhook": None,
    "schedule": None,
}


def plan(config: Mapping[str, object] | None = None, env: Any = None, **given: Any) -> Plan:
    """Put a plan together as the command does."""
    keys: dict[str, Any] = {"targets": ["http://a"], **(config or {})}
    path = Path(keys.pop("file")) if "file" in keys else None
    return plan_of({**GIVEN, **given}, load(path, env=env or {}, overrides=keys), now=NOW)


def configured(folder: Path, text: str) -> dict[str, object]:
    """Write a configuration."""
    (folder / "c.yaml").write_text(text)
    return {"file": folder / "c.yaml"}


def test_periods() -> None:
    """A period ends with a whole cell; the one beside it is as long, and so long before."""
    made = plan(compare_to="7d")
    assert (made.period.start, made.period.end) == (1_764_500_100.0 - 604_800.0, 1_764_500_100.0)
    assert made.before is not None
    assert made.before.end == made.period.start
    assert plan(until="2025-11-30T10:52:00Z", last="1h").period.end == 1_764_499_800.0


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"last": "30m"}, "--last 30m: whole hours are needed"),
        ({"last": "7"}, "--last: 7 has no unit"),
        ({"last": "367d"}, "--last: 367d is longer than 366d; write 366d or less"),
        ({"last": "100000d"}, "--last: 100000d is longer than 366d"),
        ({"last": "0s"}, "--last: 0s must be above 0s"),
        ({"last": "366d", "until": "864000"}, "--last 366d: begins before 1970"),
        ({"until": "-100000d"}, "-100000d is before 1970; write a later time, as -7d"),
        ({"compare_to": "36500d"}, "--compare-to: 36500d is longer than 366d"),
        ({"output": "week.pdf"}, "no form ends in .pdf; use .md, .html, .htm, .json or --format"),
        ({"output": "a/week-{date}.txt"}, "no form ends in .txt"),
        ({"url": f"{URL}/?x=1"}, "--prometheus: what is asked for comes after the URL"),
        ({"url": f"{URL}/#x"}, "--prometheus: a URL to request has no fragment"),
        ({"until": "tomorrow"}, "'tomorrow' is no time"),
        ({"until": str(NOW + 600.0)}, "is not a time of the past"),
        ({"compare_to": "1d"}, "--compare-to 1d must be no shorter than --last 7d"),
        ({"selector": "a=b"}, "--selector: write label matchers without braces"),
        ({"webhook": "x"}, "--webhook:"),
        ({"url": "x"}, "--prometheus:"),
        ({"url": None}, "whom to ask?"),
    ],
)
def test_what_cannot_be_meant(given: dict[str, Any], problem: str) -> None:
    """A command line that cannot be obeyed is told in one line."""
    with pytest.raises(UsageError, match=r"^[^\n]*$") as caught:
        plan(**given)
    assert problem in str(caught.value)


def test_whom_it_asks(tmp_path: Path) -> None:
    """The configuration's Prometheus is asked with its token, another one without."""
    (tmp_path / "token").write_text("t0ken\n")
    own = f"report: {{prometheus: {URL}, token_file: {tmp_path}/token, tenant: a}}\n"
    named = plan(configured(tmp_path, own), url=None).server
    assert (named.url, named.token_file, named.tenant) == (URL, str(tmp_path / "token"), "a")
    assert plan(configured(tmp_path, own), url="http://other").server.token_file is None
    given = plan(configured(tmp_path, own), token_file=tmp_path / "x").server
    assert given.token_file == str(tmp_path / "x")
    guard = (
        f"guard: {{prometheus: {{url: {URL}, token_file: {tmp_path}/token, "
        "tenant: b, selector: 'job=\"x\"'}}\n"
    )
    shared = plan(configured(tmp_path, guard), url=None).server
    assert (shared.url, shared.token_file, shared.tenant) == (URL, str(tmp_path / "token"), "b")
    assert plan(configured(tmp_path, guard), url="http://other").server.tenant is None
    secret = {"SPECGAUGE_REPORT_TOKEN": "s3cret"}
    assert plan(configured(tmp_path, own), env=secret, url=None).server.token == "s3cret"


def test_blocks_of_baselines(tmp_path: Path) -> None:
    """KV blocks come from baseline files, where those of a model agree."""
    for name, hardware in (("a", {"kv_blocks": 9}), ("b", {"kv_blocks": 9}), ("c", {})):
        (tmp_path / f"{name}.json").write_text(json.dumps(baseline_document(hardware=hardware)))
    folder = configured(tmp_path, f"baseline: {{dir: {tmp_path}}}\n")
    assert plan(folder).terms.baseline_blocks == {"target": 9}
    (tmp_path / "d.json").write_text(json.dumps(baseline_document(hardware={"kv_blocks": 8})))
    assert plan(folder).terms.baseline_blocks == {}


def test_terms(tmp_path: Path) -> None:
    """Thresholds come from the configuration, the form from the file's name."""
    keys = "{step: 10m, gpus_per_server: 8, min_speedup: 1.5, webhook_file: %s}" % (tmp_path / "w")
    (tmp_path / "w").write_text("http://hook/secret\n")
    made = plan(configured(tmp_path, f"report: {keys}\n"), output="a/week.html")
    assert (made.period.step, made.terms.gpus_per_server) == (600.0, 8)
    assert (made.terms.limits.min_speedup, made.form) == (1.5, "html")
    assert made.webhook == "http://hook/secret"
    assert "secret" not in repr(made)
    assert plan(gpus_per_server=2).terms.gpus_per_server == 2
    assert plan(last="366d", compare_to="366d").period.seconds == 366 * 86_400.0
    assert plan(output="a.pdf", form="html").form == "html"


ENDINGS = {
    None: "markdown", "/dev/stdout": "markdown", "week": "markdown", "a.b/week": "markdown",
    "a.md": "markdown", "a.json": "json", "a.HTML": "html", "a.htm": "html",
}  # fmt: skip


@pytest.mark.parametrize("output", ENDINGS)
def test_form_of_a_file(output: str | None) -> None:
    """It is that of the file's ending; a name without one is of the usual form."""
    assert plan(output=output).form == ENDINGS[output]


def answer(asked: Asked) -> Reply:
    """Answer as a Prometheus that has a little of everything a report needs."""
    labels = {"instance": "a:1", "model_name": "m", "specgauge_quantity": "generated"}
    values = [[1_764_000_000.0 + 300.0 * n, str(100.0 * n)] for n in range(13)]
    found = [{"metric": labels, "values": values}] if b"generation_tokens" in asked.body else []
    data = {"resultType": "matrix", "result": found}
    return Reply(document={"status": "success", "data": data})


async def command(*words: str) -> int:
    return await asyncio.to_thread(main, ["report", *words])


def files_in(folder: Path) -> list[str]:
    return [one.name for one in folder.iterdir()]


WHEN = ("--last", "1h", "--until", str(1_764_003_600))


@pytest.mark.parametrize(
    ("form", "kind", "read"),
    [
        ("json", "application/json", lambda body: json.loads(body)["schema"]),
        ("markdown", "application/json", lambda body: json.loads(body)["text"][:12]),
        ("html", "text/html; charset=utf-8", lambda body: body.decode()[:15]),
    ],
)
async def test_delivery(
    form: str,
    kind: str,
    read: Callable[[bytes], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A report goes to a file named after its last day, and to a webhook as it reads it."""
    async with flag_server(answer) as server, flag_server(lambda _: Reply(status=204)) as hook:
        words = (*WHEN, "--prometheus", server.url, "--format", form)
        out = tmp_path / "week-{date}.x"
        assert await command(*words, "-o", str(out), "--webhook", f"{hook.url}/T/secret") == 0
        assert capsys.readouterr().out == ""
        assert await command(*words) == 0
    (posted,) = hook.asked
    assert (posted.path, posted.headers["Content-Type"]) == ("/T/secret", kind)
    begins = {"json": "specgauge.report/v1", "markdown": "# Speculativ", "html": "<!doctype html>"}
    assert read(posted.body) == begins[form]
    assert files_in(tmp_path) == ["week-2025-11-24.x"]
    assert len(capsys.readouterr().out) == len((tmp_path / "week-2025-11-24.x").read_text())


async def test_failed_delivery(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A webhook that refuses is told without its path, a folder that is missing by its name."""
    async with flag_server(answer) as server, flag_server(lambda _: Reply(status=403)) as hook:
        words = (*WHEN, "--prometheus", server.url)
        refused = await command(*words, "--webhook", f"{hook.url}/T/secret")
        _, told = capsys.readouterr()
        missing = await command(*words, "-o", str(tmp_path / "no" / "x.md"))
    assert (refused, missing) == (3, 2)
    assert f"http_status: webhook: POST {hook.url}/…: answered 403" in told
    assert "secret" not in told
    assert "No such file or directory; choose another --output" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["markdown", "html", "json"])
@pytest.mark.parametrize(
    ("file", "status", "code", "lines", "printed"),
    [
        pytest.param("", 500, 3, 1, True, id="no file, the webhook refuses"),
        pytest.param("no/x.md", 204, 2, 1, False, id="no folder, the webhook takes it"),
        pytest.param("no/x.md", 500, 2, 2, True, id="no folder, the webhook refuses"),
        pytest.param("no/x.md", None, 2, 1, True, id="no folder"),
        pytest.param("x.md", 500, 3, 1, False, id="a file, the webhook refuses"),
    ],
)
async def test_a_report_is_never_lost(
    form: str,
    file: str,
    status: int | None,
    code: int,
    lines: int,
    printed: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What nothing took goes to standard output; every way is tried, and a failing one a line."""
    async with (
        flag_server(answer) as server,
        flag_server(lambda _: Reply(status=status or 204)) as hook,
    ):
        words = [*WHEN, "--prometheus", server.url, "--format", form]
        assert await command(*words) == 0
        report = capsys.readouterr().out
        words += ["-o", str(tmp_path / file)] if file else []
        words += ["--webhook", hook.url] if status is not None else []
        assert await command(*words) == code
    out, err = capsys.readouterr()
    assert (len(out.splitlines()), len(err.splitlines())) == (
        len(report.splitlines()) if printed else 0,
        lines,
    )
    assert len(hook.asked) == (status is not None)
    assert files_in(tmp_path) == (["x.md"] if file == "x.md" else [])


async def test_webhook_that_nobody_answers(capsys: pytest.CaptureFixture[str]) -> None:
    """It is told by what went wrong, with its port and without its path."""
    async with flag_server(answer) as server:
        words = (*WHEN, "--prometheus", server.url)
        assert await command(*words, "--webhook", "http://127.0.0.1:1/secret") == 3
    told = capsys.readouterr().err
    assert "unreachable: webhook: POST http://127.0.0.1:1/…: cannot connect" in told
    assert "secret" not in told


async def test_output_that_is_no_file(tmp_path: Path) -> None:
    """A device or a pipe gets the report and stays what it is; so does a link to a file."""
    pipe, link = tmp_path / "pipe", tmp_path / "link.md"
    os.mkfifo(pipe)
    link.symlink_to("week.md")
    held = os.open(pipe, os.O_RDWR)
    try:
        async with flag_server(answer) as server:
            words = (*WHEN, "--prometheus", server.url)
            assert await command(*words, "-o", str(pipe)) == 0
            assert await command(*words, "-o", str(link)) == 0
        assert os.read(held, 1 << 16).startswith(b"# Speculative decoding")
    finally:
        os.close(held)
    assert pipe.is_fifo()
    assert link.is_symlink()
    assert sorted(files_in(tmp_path)) == ["link.md", "pipe", "week.md"]


async def test_output_that_cannot_be_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is left of an attempt that failed at its end."""
    (tmp_path / "week.md").mkdir()
    async with flag_server(answer) as server:
        words = (*WHEN, "--prometheus", server.url, "-o", str(tmp_path / "week.md"))
        assert await command(*words) == 2
    assert "Is a directory; choose another --output" in capsys.readouterr().err
    assert files_in(tmp_path) == ["week.md"]


@pytest.mark.parametrize("content", [None, "", "a\nb"], ids=["missing", "empty", "two lines"])
async def test_token_that_cannot_be_read(
    content: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is a fault of the command line, told before anybody is asked."""
    if content is not None:
        (tmp_path / "token").write_text(content)
    async with flag_server(answer) as server:
        words = (*WHEN, "--prometheus", server.url, "--token-file", str(tmp_path / "token"))
        assert await command(*words) == 2
    assert server.asked == []
    assert f"token_file {tmp_path}/token " in capsys.readouterr().err


WARNED = {"status": "success", "warnings": ["store gone"], "data": {}}
PARTIAL = {"status": "success", "isPartial": True, "data": {}}
FAILED = {"status": "error", "errorType": "execution", "error": "too many samples"}


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        pytest.param(Reply(document=WARNED), "store gone", id="Thanos, a store is gone"),
        pytest.param(Reply(document=PARTIAL), "partial", id="VictoriaMetrics, a node is gone"),
        pytest.param(
            Reply(status=422, document=FAILED),
            "422 Unprocessable Entity, saying too many samples; pick fewer series with --selector",
            id="Mimir, a limit",
        ),
        pytest.param(Reply(status=404), "address without /api/v1", id="too long an address"),
        pytest.param(Reply(document=FAILED), "too many samples", id="an error"),
        pytest.param(Reply(text="<html>login"), "HTML", id="a login"),
        pytest.param(Reply(document=[1]), "is the URL of Prometheus right?", id="another"),
    ],
)
async def test_answers_that_are_not_whole(
    reply: Reply, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever is not the whole answer is no report: one line, exit code 3."""
    async with flag_server(lambda _: reply) as server:
        assert await command(*WHEN, "--prometheus", server.url) == 3
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 1)
    assert told in err
    assert "asked for counters" in err


async def test_too_few_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Series whose scrapes are too far apart say so; a tenant is named to Mimir."""

    def sparse(asked: Asked) -> Reply:
        reply = answer(asked)
        assert isinstance(reply.document, dict)
        for one in reply.document["data"]["result"]:
            del one["values"][1:]
        return reply

    (tmp_path / "c.yaml").write_text("report: {tenant: team-a}\n")
    async with flag_server(sparse) as server:
        words = (*WHEN, "--prometheus", server.url, "--config", str(tmp_path / "c.yaml"))
        assert await command(*words) == 4
    assert "too few values" in capsys.readouterr().err
    assert {one.headers.get("X-Scope-OrgID") for one in server.asked} == {"team-a"}


JOB = Job(
    words=[
        "report",
        "--prometheus",
        URL,
        "--selector",
        'cluster="a b%c$d"',
        "--token-file",
        "/e/t",
    ],
    output="/reports/week-{date}.html",
    files={"token": "/e/t", "config": "/e/specgauge.yaml"},
)


def test_systemd_takes_the_units(tmp_path: Path) -> None:
    """The service and the timer are what systemd reads, with every word quoted for it."""
    service, _, timer = systemd(JOB).partition("# /etc/systemd/system/specgauge-report.timer\n")
    assert r'--selector "cluster=\"a b%%c$$d\"" --token-file %d/token' in service
    assert "LoadCredential=token:/e/t" in service
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("needs systemd-analyze")
    for name, text in (("service", service), ("timer", timer)):
        file = tmp_path / f"specgauge-report.{name}"
        file.write_text(text.replace("/usr/local/bin/specgauge", "/bin/true"))
    run = subprocess.run(
        [program, "verify", "--man=no", tmp_path / "specgauge-report.timer"],
        capture_output=True,
        text=True,
        check=False,
    )
    ours = [row for row in run.stderr.splitlines() if "specgauge-report" in row]
    assert (run.returncode, ours) == (0, [])


@pytest.mark.parametrize("version", ["1.29", "1.37"])
@pytest.mark.parametrize(
    "job",
    [
        pytest.param(JOB, id="files"),
        pytest.param(Job(words=["report", "--prometheus", URL]), id="nothing to keep"),
    ],
)
def test_kubernetes_takes_the_cronjob(job: Job, version: str) -> None:
    """The CronJob is one by its schema, runs this version, and mounts all that it names."""
    made = yaml.safe_load(kubernetes(job))
    kubernetes_validate.validate(made, version, strict=True)
    pod = made["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["image"] == f"specgauge:{__version__}"
    assert container["args"] == list(job.words)
    mounts = {one["name"]: one["mountPath"] for one in container.get("volumeMounts", ())}
    assert set(mounts) == {one["name"] for one in pod.get("volumes", ())}
    if job.files:
        assert mounts == {
            "reports": "/reports", "token": "/e/t", "config": "/e/specgauge.yaml",
        }  # fmt: skip


@pytest.mark.parametrize("kind", ["systemd", "kubernetes"])
def test_schedule(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is scheduled is this command line, and nobody is asked."""
    (tmp_path / "c.yaml").write_text("{}\n")
    words = ["report", "--prometheus", URL, "--compare-to", "7d", "--gpus-per-server", "8"]
    words += ["--config", str(tmp_path / "c.yaml"), "-o", "/reports/{date}.html"]
    assert main([*words, "--schedule", kind]) == 0
    out = capsys.readouterr().out
    for word in ("--compare-to", "7d", "--gpus-per-server", "--output", "/reports/{date}.html"):
        assert word in out
    assert "--schedule" not in out


def test_schedule_has_no_end(capsys: pytest.CaptureFixture[str]) -> None:
    """A past that is named cannot be scheduled; a CronJob's file lies on its claim."""
    words = ["report", "--prometheus", URL, "--schedule", "kubernetes"]
    assert main([*words, "--until", "-1d"]) == 2
    assert "--until and --schedule" in capsys.readouterr().err
    assert main([*words, "-o", "week.html"]) == 0
    made = yaml.safe_load(capsys.readouterr().out)
    (container,) = made["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    assert container["args"][-1] == "/reports/week.html"
    assert container["volumeMounts"] == [{"name": "reports", "mountPath": "/reports"}]
