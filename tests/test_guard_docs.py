"""What the pages about the guard show can be used as it stands: configurations, servers, code."""

import asyncio
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from click.testing import CliRunner
from openfeature import api
from tests.flag_servers import Asked, Reply, flag_server

from specgauge.cli.main import cli
from specgauge.cli.settings import guard_of
from specgauge.config import load, schema
from specgauge.config.document import parse_yaml
from specgauge.guard.audit import SCHEMA, audit_line
from specgauge.guard.flags.build import make_backend
from specgauge.guard.flags.embedded import EmbeddedFlag
from specgauge.guard.flags.openfeature import evaluate, flagd_document
from specgauge.guard.flags.presets import PRESETS
from specgauge.guard.settings import FlagSettings
from specgauge.model.guard import Decision, Outcome, Phase

DOCS = Path(__file__).parents[1] / "docs"
PAGES = ("guard.md", "flag-backends.md", "topologies.md", "../README.md")
OURS = re.compile(r"(?<=[ '\"])(/(?:etc|run|var)/[\w./-]+)")
IN_A_POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def blocks(page: str, kind: str) -> list[str]:
    """Cut the blocks of one kind out of a page."""
    found = re.findall(
        r"^```(\w*)\n(.*?)^```$", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL
    )
    return [block for of, block in found if of == kind]


def document(block: str) -> dict[str, Any]:
    """Read a configuration as specgauge does: `on` may be a key."""
    found = parse_yaml(block, source="example")
    assert isinstance(found, dict)
    return found


def examples(*, foreign: bool) -> list[Any]:
    """Give each YAML example with its place: ours, or objects of Kubernetes."""
    return [
        pytest.param(block, id=f"{page} {number}")
        for page in PAGES
        for number, block in enumerate(blocks(page, "yaml"), 1)
        if block.startswith("apiVersion:" if foreign else "targets:")
    ]


def at_home(block: str, folder: Path) -> str:
    """Move the files that an example names below a folder, and put something into them."""
    (folder / "baseline.json").write_text("{}")
    for name in OURS.findall(block):
        file = folder / name[1:]
        file.parent.mkdir(parents=True, exist_ok=True)
        if not name.startswith("/run/"):
            file.write_text("{}")
    return OURS.sub(lambda found: f"{folder}{found[1]}", block)


@pytest.mark.parametrize("block", examples(foreign=False))
def test_examples_can_be_used(block: str, tmp_path: Path) -> None:
    """Every configuration in the pages passes the schema and the check, and makes its backend."""
    jsonschema.Draft202012Validator(schema()).validate(document(block))
    file = tmp_path / "specgauge.yaml"
    file.write_text(at_home(block, tmp_path))
    guard = guard_of(load(file, env={}, overrides={}))
    assert guard is not None
    backend = make_backend(guard.flag, environment=IN_A_POD)
    assert backend.name == guard.flag.backend


def test_examples_say_what_obeys(tmp_path: Path) -> None:
    """No example leaves it open who obeys its flag."""
    for block in (param.values[0] for param in examples(foreign=False)):
        file = tmp_path / "specgauge.yaml"
        file.write_text(at_home(str(block), tmp_path))
        said = CliRunner().invoke(cli, ["config", "check", str(file)])
        assert "nothing is configured to obey" not in said.stderr


def test_every_backend_and_preset_has_an_example() -> None:
    """A backend and a preset are shown in a configuration, not only named."""
    shown = [document(str(param.values[0])) for param in examples(foreign=False)]
    backends = {one["flag"].get("backend", "embedded") for one in shown}
    presets = {one["flag"].get("webhook", {}).get("preset") for one in shown} - {None}
    known = schema()["$defs"]["FlagKeys"]["properties"]["backend"]["enum"]
    assert (set(known), set(PRESETS)) == (backends, presets)


@pytest.mark.parametrize("block", examples(foreign=True))
def test_objects_of_kubernetes_are_whole(block: str) -> None:
    """An object has a kind, a name and the namespace that the examples beside it speak of."""
    found = yaml.safe_load(block)
    assert {"apiVersion", "kind", "metadata"} <= found.keys()
    assert (bool(found["metadata"]["name"]), found["metadata"]["namespace"]) == (True, "llm")


def program(name: str) -> str:
    """Find a program of Debian's; without it the test fails."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    return found or pytest.fail(f"{name} is missing: `make packages` as root installs it")


def test_haproxy_takes_its_example(tmp_path: Path) -> None:
    """The configuration of HAProxy is one, and has the socket, backend and server of ours."""
    (block,) = blocks("flag-backends.md", "haproxy")
    file = tmp_path / "haproxy.cfg"
    file.write_text(at_home(block, tmp_path))
    command = [program("haproxy"), "-c", "-f", str(file)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    keys = flag_of("haproxy")["haproxy"]
    assert f"stats socket {keys['socket']} " in block
    assert f"\n  server {keys['server']} " in block.partition(f"\nbackend {keys['backend']}\n")[2]


@pytest.mark.parametrize("value", ["on", "off"])
def test_nginx_takes_its_example(value: str, tmp_path: Path) -> None:
    """The configuration of nginx is one with either text of the include file."""
    (block,) = blocks("flag-backends.md", "nginx")
    keys = flag_of("nginx")["nginx"]
    (tmp_path / "etc/nginx/flags").mkdir(parents=True)
    (tmp_path / keys["file"][1:]).write_text(keys[value])
    (tmp_path / "logs").mkdir()
    temp = "".join(
        f"  {kind}_temp_path {tmp_path}/temp;\n"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    block = block.replace("/etc/nginx", f"{tmp_path}/etc/nginx").replace(
        "http {\n", f"http {{\n{temp}"
    )
    (tmp_path / "nginx.conf").write_text(f"pid {tmp_path}/pid;\n{block}")
    command = [program("nginx"), "-p", str(tmp_path), "-c", "nginx.conf", "-e", "stderr", "-t"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def flag_of(backend: str) -> dict[str, Any]:
    """Give the flag of the page's own example for a backend."""
    ours = [block for block in blocks("flag-backends.md", "yaml") if "\nflag:" in block]
    flags: list[dict[str, Any]] = [document(block)["flag"] for block in ours]
    return next(flag for flag in flags if flag["backend"] == backend)


@pytest.mark.parametrize(
    ("state", "value"),
    [("active", True), ("activating", True), ("inactive", False), ("failed", False)],
)
async def test_systemd_pair_is_read(
    state: str, value: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commands of the pair read a unit that still starts as on, and are the same everywhere."""
    systemctl = tmp_path / "systemctl"
    systemctl.write_text(f'#!/bin/sh\n[ "$1" = start ] || echo {state}\n[ {state} = active ]\n')
    systemctl.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    terms = flag_of("exec")["exec"]
    flag = make_backend(FlagSettings(backend="exec", terms=terms))
    assert await flag.read() is value
    pair = [block for block in blocks("topologies.md", "yaml") if "systemctl" in block]
    assert [document(one)["flag"]["exec"] for one in pair] == [terms]


def test_shown_answers_are_given(tmp_path: Path) -> None:
    """The answers of the embedded flag and the line of the record are what the code writes."""
    text = (DOCS / "flag-backends.md").read_text()
    flag = EmbeddedFlag(key="speculative_decoding_enabled", value=True, since=1790000000.0)
    for said in (evaluate(flag, flag.key, b"{}"), flagd_document(flag)):
        assert f"\n{said.body.decode().strip()}\n" in text
    shown = json.loads(next(b for b in blocks("guard.md", "json") if SCHEMA in b))
    decision = Decision(
        time=shown["t"],
        before=Phase(shown["from"]),
        state=Phase(shown["state"]),
        flag=shown["flag"],
        outcome=Outcome(shown["outcome"]),
        reason=shown["reason"],
        changed=shown["changed"],
        signal=shown["signal"],
        evidence=shown["evidence"],
        next_probe=shown["next_probe"],
    )
    written = audit_line(
        decision,
        unix=shown["unix"],
        target=shown["target"],
        flag_key=shown["flag_key"],
        config_hash=shown["config_hash"],
    )
    assert list(written.items()) == list(shown.items())


def test_shown_replay_is_printed(tmp_path: Path) -> None:
    """The replay in the page is what the command prints for such a timeline."""
    (block,) = (b for b in blocks("guard.md", "") if b.startswith("$ specgauge guard replay"))
    lines = []
    for t in range(15, 1215, 15):
        ratio = 1.62 if t <= 300 else 0.87 if t <= 450 else 1.58
        numbers = {"speedup_ratio": ratio, "decode_concurrency": 24, "tokens": 9000, "requests": 40}
        ends = {"speedup_ratio_low": ratio - 0.04, "speedup_ratio_high": ratio + 0.04}
        lines.append(json.dumps({"t": t, "evidence": numbers | ends}))
    (tmp_path / "timeline.jsonl").write_text("\n".join(lines))
    (tmp_path / "specgauge.yaml").write_text("targets: [{url: 'http://127.0.0.1:1'}]\nguard: {}\n")
    command = ["guard", "replay", "--config", str(tmp_path / "specgauge.yaml")]
    run = CliRunner().invoke(cli, [*command, str(tmp_path / "timeline.jsonl")])
    assert run.exit_code == 0
    told = [line.rstrip() for line in run.stdout.splitlines()]
    assert told == block.splitlines()[1:]


async def test_application_keeps_the_last_value_and_then_the_safe_one() -> None:
    """The code for applications obeys the flag, and outlives a sidecar that is away for a while."""
    (code,) = blocks("topologies.md", "python")
    flag = EmbeddedFlag(key="speculative_decoding_enabled", value=True, since=0.0)

    def serve(asked: Asked) -> Reply:
        said = evaluate(flag, asked.path.rpartition("/")[2], asked.body)
        headers = {"Content-Type": "application/json"}
        return Reply(status=said.status, text=said.body.decode(), headers=headers)

    made: dict[str, Any] = {}
    try:
        async with flag_server(serve) as server:
            exec(code.replace("http://127.0.0.1:9843", server.url), made)  # noqa: S102 - our own page
            assert made["SAFE"] is False
            assert await asyncio.to_thread(made["speculate"]) is True
        made["FRESH"] = 0.0
        assert await asyncio.to_thread(made["speculate"]) is True
        made["STALE"] = 0.0
        assert await asyncio.to_thread(made["speculate"]) is False
    finally:
        api.shutdown()
        api.clear_providers()
