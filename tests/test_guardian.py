"""The guard in the running sidecar: real engines, real flags, real files, and a fast clock."""

import asyncio
import io
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from time import time
from typing import Any

import aiohttp
import psutil
import pytest
from tests.flag_servers import Asked, FlagServer, Reply, always, flag_server
from tests.guarding import (
    KEY,
    TOKEN,
    Guarded,
    Machine,
    file_flag,
    guarded,
    machine,
    write_config,
)
from tests.servers import answer, serving
from tests.sidecars import DEADLINE, Process, specgauge, until
from tests.small_pages import v1_page

from specgauge.errors import ConfigError
from specgauge.guard.flags.embedded import EmbeddedFlag, dump
from specgauge.guard.remember import recall, remember
from specgauge.guard.settings import FlagSettings, GuardSettings, other_keys
from specgauge.guard.store import load_text
from specgauge.model.guard import GuardState, Look, Outcome, Override, Phase
from specgauge.model.outcome import ScrapeResult
from specgauge.model.settings import Settings, TargetSettings
from specgauge.serve.app import Sidecar
from specgauge.serve.appoint import make_guardian
from specgauge.serve.log import Log
from specgauge.serve.loop import Pace

T = 'target="spec"'
OFF, ON = "false\n", "true\n"


@pytest.fixture
async def engine() -> AsyncIterator[Machine]:
    """Run an engine that is twice as fast as its baseline."""
    async with machine() as made:
        yield made


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def saved(state: GuardState, *, ago: float = 0.0, override: Override | None = None) -> str:
    return remember(state, time=0.0, unix=time() - ago, config="x", override=override)


OFF_STATE = GuardState(phase=Phase.FALLBACK, flag=False, next_probe=1e6)


async def test_flag_follows_the_evidence(engine: Machine, tmp_path: Path) -> None:
    """It turns off what costs, tries again, and turns on what pays; each change is one line."""
    audit = tmp_path / "audit.jsonl"
    guard = f"audit_file: {audit}, state_file: {tmp_path / 'state'}"
    file = write_config(tmp_path, engine, guard=guard, flag=file_flag(tmp_path))
    async with guarded(file) as made:
        await until(lambda: made.view.assessments[Outcome.HEALTHY], "a healthy window")
        engine.slow = 3.0
        await made.phase("fallback")
        await made.confirmed(on=False)
        assert (tmp_path / "flag").read_text() == OFF
        assert (made.view.flag.desired, made.view.flag.pending_since) == (False, None)
        engine.slow = 1.0
        await made.phase("probing")
        await made.confirmed(on=True)
        assert (tmp_path / "flag").read_text() == ON
        await made.phase("active")
        await until(lambda: len(lines_of(audit)) == 3, "three lines")
        found = await made.samples()
        assert len(made.events("guard_decided")) == 3
    for key, value in {
        f'specgauge_guard_state{{state="active",{T}}}': 1,
        f'specgauge_guard_state{{state="fallback",{T}}}': 0,
        f'specgauge_guard_flag_writes_total{{result="ok",{T}}}': 2,
        f'specgauge_guard_flag_writes_total{{result="timeout",{T}}}': 0,
        "specgauge_guard_transitions_total"
        f'{{from="active",reason="speedup_below_one",{T},to="fallback"}}': 1,
        f"specgauge_guard_flag_desired{{{T}}}": 1,
        f"specgauge_guard_flag_confirmed{{{T}}}": 1,
        f"specgauge_guard_override{{{T}}}": 0,
    }.items():
        assert found[key] == value, key
    first, second, third = lines_of(audit)
    assert [(one["from"], one["state"], one["flag"]) for one in (first, second, third)] == [
        ("active", "fallback", False),
        ("fallback", "probing", True),
        ("probing", "active", True),
    ]
    assert first["evidence"]["speedup_ratio"] == pytest.approx(2 / 3, rel=1e-3)
    assert (first["reason"], first["flag_key"], first["target"]) == (
        *("speedup_below_one", KEY),
        "spec",
    )
    assert len(first["config_hash"]) == 12
    assert recall((tmp_path / "state").read_text(), time=0, unix=time()).state is not None


async def test_each_page_is_judged_once(engine: Machine, tmp_path: Path) -> None:
    """A page counts once, whoever tells of it; one page more would double every count."""
    file = write_config(tmp_path, engine, flag=file_flag(tmp_path))
    async with guarded(file) as made:
        for _ in range(3):
            engine.restart()  # then its release is asked for anew, beside the page
            await made.scrapes(2)
        target, guard = made.sidecar.view.targets[0], made.view
        assert sum(guard.assessments.values()) == sum(target.scrapes.values())


UNUSABLE = {
    "stale": (saved(replace(OFF_STATE), ago=90_000), "older than 1d"),
    "stale with an order": (
        saved(OFF_STATE, ago=90_000, override=Override(mode="off")),
        "older than 1d",
    ),
    "future": (saved(OFF_STATE, ago=-3600), "seconds in the future"),
    "truncated": (saved(OFF_STATE)[:-40], "not JSON, or only part of it"),
    "damaged": (saved(OFF_STATE).replace('"failures": 0', '"failures": "x"'), "is damaged"),
    "contradicting": (saved(OFF_STATE).replace("fallback", "active", 1), "contradict each other"),
    "other version": (saved(OFF_STATE).replace("guard/v1", "guard/v2"), "not 'specgauge.guard/v1'"),
    "another flag": (
        saved(OFF_STATE).replace('"flag_key": ""', '"flag_key": "other"'),
        "is of the flag 'other'",
    ),
    "empty": ("", "not JSON, or only part of it"),
    "zeros": ("\0" * 300, "not JSON, or only part of it"),
    "foreign": ('{"a": 1}', "does not say what it is"),
}


@pytest.mark.parametrize("name", UNUSABLE)
@pytest.mark.parametrize("kept", ["file", "embedded"])
async def test_state_that_cannot_be_used(
    engine: Machine, tmp_path: Path, name: str, kept: str
) -> None:
    """It writes nothing, is told in one line that says why, and the flag's read-back is adopted."""
    text, why = UNUSABLE[name]
    (tmp_path / "state").write_text(text)
    flag = file_flag(tmp_path, "true")
    if kept == "embedded":
        (tmp_path / "flag").write_text(dump(EmbeddedFlag(key=KEY, value=True, since=5.0)))
        flag = f"backend: embedded, embedded: {{file: {tmp_path / 'flag'}}}"
    before = (tmp_path / "flag").read_bytes()
    file = write_config(tmp_path, engine, guard=f"state_file: {tmp_path / 'state'}", flag=flag)
    async with guarded(file) as made:
        await made.phase("active")
        await made.scrapes(4)
        assert (made.view.flag.desired, made.view.flag.confirmed) == (True, True)
        assert sum(made.view.flag.writes.values()) == 0
        (told,) = made.events("guard_state_unusable")
        assert why in told
    assert (tmp_path / "flag").read_bytes() == before


@pytest.mark.parametrize(
    ("content", "why"),
    [
        pytest.param(b"\xff\xfe\x00", "codec can't decode", id="no text"),
        pytest.param(b"x" * ((1 << 20) + 1), "larger than", id="huge"),
        pytest.param(None, "no file", id="pipe"),
    ],
)
async def test_state_that_cannot_be_read(
    engine: Machine, tmp_path: Path, content: bytes | None, why: str
) -> None:
    """What is no text at all is as good as none."""
    if content is None:
        os.mkfifo(tmp_path / "state")
    else:
        (tmp_path / "state").write_bytes(content)
    flag = file_flag(tmp_path, "false")
    file = write_config(tmp_path, engine, guard=f"state_file: {tmp_path / 'state'}", flag=flag)
    async with guarded(file) as made:
        await made.phase("fallback")
        (told,) = made.events("guard_state_unreadable")
        assert why in told
        assert made.view.flag.desired is False


async def test_memory_of_a_flag_that_is_gone(engine: Machine, tmp_path: Path) -> None:
    """A served flag in memory comes back as it was; stale memory does not turn it off."""
    for ago, value in ((0.0, False), (90_000.0, True)):
        (tmp_path / "state").write_text(saved(OFF_STATE, ago=ago))
        file = write_config(tmp_path, engine, guard=f"state_file: {tmp_path / 'state'}")
        async with guarded(file) as made:
            await made.confirmed(on=value)
            assert made.view.phase == ("active" if value else "fallback")


async def test_unset_flag_counts_as_on(engine: Machine, tmp_path: Path) -> None:
    """A flag that was never set is taken as on and left unset, whatever is remembered."""
    (tmp_path / "state").write_text(saved(OFF_STATE))
    file = write_config(
        tmp_path,
        engine,
        guard=f"state_file: {tmp_path / 'state'}",
        flag=file_flag(tmp_path, None),
    )
    async with guarded(file) as made:
        await made.phase("active")
        await made.scrapes(4)
        assert not (tmp_path / "flag").exists()


async def test_flag_that_answers_late(engine: Machine, tmp_path: Path) -> None:
    """It is adopted when it can be read at last, and is not written before."""
    (tmp_path / "flag").write_text("neither")
    flag = file_flag(tmp_path, None).replace("check_interval: 1s", "check_interval: 100ms")
    async with guarded(write_config(tmp_path, engine, flag=flag)) as made:
        await made.scrapes(4)
        assert made.view.phase is Phase.STARTING
        assert made.view.flag.last_error is not None
        (tmp_path / "flag").write_text("false")
        await made.phase("fallback")
        assert made.view.transitions == {("starting", "fallback", "read_back_adopted"): 1}
        (tmp_path / "flag").unlink()


async def test_flag_found_unset_late(engine: Machine, tmp_path: Path) -> None:
    """A flag that is found unset after all counts as on, as at the start."""
    (tmp_path / "flag").write_text("neither")
    flag = file_flag(tmp_path, None).replace("check_interval: 1s", "check_interval: 100ms")
    async with guarded(write_config(tmp_path, engine, flag=flag)) as made:
        await made.scrapes(2)
        assert made.view.phase is Phase.STARTING
        (tmp_path / "flag").unlink()
        await made.phase("active")


async def test_flag_nobody_can_read(engine: Machine, tmp_path: Path) -> None:
    """Of a flag without read-back the last process's memory tells; nothing is written for it."""
    (tmp_path / "state").write_text(saved(OFF_STATE))
    async with flag_server(always(Reply())) as server:
        file = write_config(
            tmp_path,
            engine,
            guard=f"state_file: {tmp_path / 'state'}",
            flag=f'backend: webhook, webhook: {{url: "{server.url}/flag"}}',
        )
        async with guarded(file) as made:
            await made.phase("fallback")
            await made.scrapes(3)
            assert server.asked == []


async def test_damaged_file_of_the_served_flag_is_told(engine: Machine, tmp_path: Path) -> None:
    """A served flag whose file is damaged counts as never set, and that is said."""
    (tmp_path / "flag").write_text("{")
    flag = f"embedded: {{file: {tmp_path / 'flag'}}}"
    async with guarded(write_config(tmp_path, engine, flag=flag)) as made:
        await made.confirmed(on=True)
        (told,) = made.events("flag_file_unusable")
        assert "is damaged; the flag counts as never set" in told


def with_token(folder: Path) -> str:
    (folder / "token").write_text(f"{TOKEN}\n")
    return f"token_file: {folder / 'token'}\n"


async def test_override_survives_a_restart_and_expires(engine: Machine, tmp_path: Path) -> None:
    """An operator's word holds over a restart until it expires; its reason is in the record."""
    audit = tmp_path / "audit"
    file = write_config(
        tmp_path,
        engine,
        guard=f"state_file: {tmp_path / 'state'}, audit_file: {audit}",
        flag=file_flag(tmp_path),
        more=with_token(tmp_path),
    )
    async with guarded(file) as made:
        await made.phase("active")
        order = {"mode": "off", "for": "1h", "reason": "maintenance of the drafts"}
        assert (await made.order(order))[0] == 200
        await made.phase("override")
        await made.confirmed(on=False)
        assert (await made.samples())[f"specgauge_guard_override{{{T}}}"] == 1
        assert (await made.document())["override"] == {
            "mode": "off",
            "until": pytest.approx(time() + 3600, abs=60),
            "reason": "maintenance of the drafts",
        }
    async with guarded(file) as made:
        await made.phase("override")
        await made.scrapes(3)
        assert made.view.flag.desired is False
        assert made.view.override_until == pytest.approx(time() + 3600, abs=120)
        assert (await made.order({"mode": "off", "for": "500ms", "reason": "nearly done"}))[
            0
        ] == 200
        await until(lambda: made.view.phase is not Phase.OVERRIDE, "the end of it")
        assert (await made.samples())[f"specgauge_guard_override{{{T}}}"] == 0
    one, *_, last = [line for line in lines_of(audit) if line["reason"].startswith("override")]
    assert (one["reason"], one["operator"]) == ("override_off", "maintenance of the drafts")
    assert (last["reason"], last["operator"]) == ("override_expired", "nearly done")


async def test_order_is_kept_before_it_is_obeyed(engine: Machine, tmp_path: Path) -> None:
    """A process that ends between an order and the next scrape leaves the order to the next one."""
    file = write_config(
        tmp_path,
        engine,
        guard=f"state_file: {tmp_path / 'state'}",
        flag=file_flag(tmp_path),
        more=with_token(tmp_path),
    )
    async with guarded(file, speed=0.01) as made:  # the next scrape is minutes away
        await until(lambda: made.events("guard_started"), "the start")
        assert (await made.order({"mode": "off"}))[0] == 200
    assert (tmp_path / "flag").read_text() == "true"
    async with guarded(file) as made:
        await made.phase("override")
        await made.confirmed(on=False)


async def test_lifted_override_leaves_usable_state(engine: Machine, tmp_path: Path) -> None:
    """`auto` ends an override, its reason is taken down, and it is never saved as one."""
    audit, freeze = tmp_path / "audit", tmp_path / "freeze"
    guard = f"state_file: {tmp_path / 'state'}, audit_file: {audit}, freeze_file: {freeze}"
    file = write_config(
        tmp_path, engine, guard=guard, flag=file_flag(tmp_path), more=with_token(tmp_path)
    )
    async with guarded(file) as made:
        await made.phase("active")
        await made.order({"mode": "on", "reason": "a test"})
        await made.phase("override")
        await made.order({"mode": "auto", "reason": "the test is over"})
        await made.phase("active")
        await until(lambda: len(lines_of(audit)) == 2, "two lines")
        freeze.touch()
        await until(lambda: made.view.frozen, "the freeze")
        await made.order({"mode": "auto"})
        await made.scrapes(3)
    assert lines_of(audit)[1]["operator"] == "the test is over"
    found = recall((tmp_path / "state").read_text(), time=0, unix=time())
    assert (found.reason, found.override) == ("", None)


async def test_override_acts_while_the_engine_is_down(engine: Machine, tmp_path: Path) -> None:
    """An operator is obeyed with the next scrape, also one that fails."""
    engine.down = True
    file = write_config(tmp_path, engine, flag=file_flag(tmp_path), more=with_token(tmp_path))
    async with guarded(file) as made:
        await made.result("http_status")
        assert (await made.order({"mode": "off"}))[0] == 200
        await made.phase("override")
        await made.confirmed(on=False)
        assert made.view.assessments[Outcome.HEALTHY] == 0


PATIENT = 20.0
"""Seconds that a busy machine may take, and far fewer than the flag's timeout below."""

HANGING = "webhook: {{url: {url}/flag, read_url: {url}/flag, read_value: lit}}, timeout: 60s"


async def busy(made: Guarded, engine: Machine, scrapes: int) -> tuple[float, float]:
    """Give the seconds that so many scrapes took, and the slowest answer of /metrics."""
    loop = asyncio.get_running_loop()
    began, first, slowest = loop.time(), engine.asked, 0.0
    while engine.asked < first + scrapes:
        asked = loop.time()
        await made.samples()
        slowest = max(slowest, loop.time() - asked)
        await asyncio.sleep(0.01)
    return loop.time() - began, slowest


async def test_hanging_flag_holds_up_nothing(engine: Machine, tmp_path: Path) -> None:
    """Scrapes, answers and the end come as soon as with a flag that works."""
    async with guarded(write_config(tmp_path, engine, flag=file_flag(tmp_path))) as made:
        usual, usual_answer = await busy(made, engine, 20)
    async with flag_server(always(Reply(hang=True))) as server:
        flag = "backend: webhook, " + HANGING.format(url=server.url)
        file = write_config(tmp_path, engine, flag=flag, more=with_token(tmp_path))
        async with guarded(file) as made:
            await until(lambda: server.asked, "the call that hangs")
            await made.order({"mode": "off"})
            hung, hung_answer = await busy(made, engine, 20)
            assert (made.view.phase, made.view.flag.confirmed) == (Phase.OVERRIDE, None)
            began = asyncio.get_running_loop().time()
            await made.sidecar.stop()
            assert asyncio.get_running_loop().time() - began < PATIENT
    assert hung < usual + PATIENT
    assert hung_answer < usual_answer + PATIENT


async def test_sigterm_ends_it_while_the_flag_hangs(engine: Machine, tmp_path: Path) -> None:
    """The process ends in good order within seconds, while a write is under way."""

    def handle(asked: Asked) -> Reply:
        return Reply(document={"lit": True}) if asked.method == "GET" else Reply(hang=True)

    async with flag_server(handle) as server:
        flag = "backend: webhook, " + HANGING.format(url=server.url)
        file = write_config(tmp_path, engine, flag=flag, more=with_token(tmp_path))
        async with specgauge("serve", "--config", str(file)) as made:
            url = await made.listening()
            await made.line("guard_started")
            await order(url, "off")
            await until(lambda: "POST /flag" in server.calls(), "the call that hangs")
            made.process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(PATIENT):
                await made.line("stopped")
                assert await made.end() == 0


async def order(url: str, mode: str, **more: str) -> int:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with (
        aiohttp.ClientSession(headers=headers) as client,
        client.post(f"{url}/api/v1/guard/override", json={"mode": mode, **more}) as response,
    ):
        return response.status


async def test_reload_takes_a_policy_over(engine: Machine, tmp_path: Path) -> None:
    """A changed policy acts at once; another flag, and a guard that is gone, need a restart."""
    flag = file_flag(tmp_path)
    file = write_config(tmp_path, engine, guard="cooldown: 1h", flag=flag)
    text = file.read_text()
    async with guarded(file) as made:
        await made.phase("active")
        hash_before = made.sidecar._guardian.guarded.config_hash  # type: ignore[union-attr]
        file.write_text(text.replace("consecutive: 1", "dry_run: true, consecutive: 2"))
        assert made.sidecar.reload() == []
        await until(lambda: made.view.dry_run, "the dry run")
        assert made.sidecar._guardian.guarded.config_hash != hash_before  # type: ignore[union-attr]
        assert made.events("guard_unchanged") == []
        for other in (
            text.replace("check_interval: 1s", "check_interval: 2s"),
            text[: text.index("guard:")],
        ):
            file.write_text(other)
            assert made.sidecar.reload() == []
        first, second = made.events("guard_unchanged")
        assert "keys=flag.check_interval fix" in first
        assert "keys=guard fix" in second
        assert made.view.flag.backend == "file"
        file.write_text(text.replace("consecutive: 1", "consecutive: none"))
        (problem,) = made.sidecar.reload()
        assert "guard.consecutive" in problem
        assert made.view.dry_run
        assert made.sidecar.view.reload_ok is False


@pytest.mark.parametrize("hang", [True, False], ids=["hanging", "refused"])
async def test_reload_into_a_dry_run_gives_a_pending_write_up(
    engine: Machine, tmp_path: Path, hang: bool
) -> None:
    """What was wanted before it is not written in it, and the guard says so."""
    open_to = asyncio.Event()
    state = {"lit": True}

    def handle(asked: Asked) -> Reply:
        if asked.method == "POST" and not open_to.is_set():
            return Reply(hang=True) if hang else Reply(status=503)
        if asked.method == "POST":
            state["lit"] = b"true" in asked.body
        return Reply(document=dict(state))

    async with flag_server(handle) as server:
        flag = "backend: webhook, check_interval: 1s, " + HANGING.format(url=server.url)
        file = write_config(tmp_path, engine, flag=flag, more=with_token(tmp_path))
        text = file.read_text()
        async with guarded(file) as made:
            await made.confirmed(on=True)
            await made.order({"mode": "off"})
            await until(lambda: "POST /flag" in server.calls(), "the write")
            file.write_text(text.replace("guard: {", "guard: {dry_run: true, "))
            assert made.sidecar.reload() == []
            assert (made.view.flag.given_up, made.view.flag.pending_since) == (False, None)
            open_to.set()
            asked = len(server.calls())
            await until(lambda: len(server.calls()) > asked + 2, "later looks at the flag")
            assert "POST /flag" not in server.calls()[asked:]
            assert state == {"lit": True}
            await until(lambda: made.view.flag.desired is True, "the flag as it is")
            assert made.view.flag.confirmed is True
            said = (await made.document())["says"]
            assert "A write of off was pending when it began, and was given up." in said
            assert "not confirmed" not in said
            (line,) = made.events("flag_write_given_up")
            assert "flag=off" in line


async def test_reload_out_of_a_dry_run_guards_the_flag_as_it_is(
    engine: Machine, tmp_path: Path
) -> None:
    """What others do to it from then on is told, and the next decision is written."""
    file = write_config(
        tmp_path,
        engine,
        guard="dry_run: true, cooldown: 1h",
        flag=file_flag(tmp_path),
        more=with_token(tmp_path),
    )
    async with guarded(file) as made:
        await made.phase("active")
        await made.confirmed(on=True)
        file.write_text(file.read_text().replace("dry_run: true", "dry_run: false"))
        assert made.sidecar.reload() == []
        (tmp_path / "flag").write_text(OFF)
        await until(lambda: made.view.flag.changed_elsewhere, "the change of others")
        await made.order({"mode": "on"})
        await until(lambda: (tmp_path / "flag").read_text() == ON, "the write")


async def test_reload_out_of_a_dry_run_serves_the_flag(engine: Machine, tmp_path: Path) -> None:
    """A flag that is served here gets the value that a dry run withheld."""
    flag = f"embedded: {{file: {tmp_path / 'flag'}}}"
    file = write_config(tmp_path, engine, guard="dry_run: true", flag=flag)
    async with guarded(file) as made:
        await made.phase("active")
        file.write_text(file.read_text().replace("dry_run: true", "dry_run: false"))
        assert made.sidecar.reload() == []
        await made.confirmed(on=True)


@pytest.mark.parametrize(
    ("flag", "key"),
    [
        pytest.param('{backend: file, file: {path: f, "on": a, "off": " a "}}', "file.off", id="a"),
        pytest.param(
            "{backend: webhook, webhook: {url: 'http://h/', body: '<< 9**9**9 >>'}}",
            *("webhook.body",),
            id="template",
        ),
        pytest.param(
            "{backend: haproxy, haproxy: {socket: /a.sock, backend: 'b@x', server: s}}",
            *("haproxy.backend",),
            id="name",
        ),
        pytest.param(
            "{backend: kubernetes, kubernetes: {configmap: c}}", "kubernetes.api", id="no pod"
        ),
    ],
)
async def test_reload_refuses_a_flag_that_could_not_be_started_with(
    engine: Machine, tmp_path: Path, flag: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What would be refused at the next start is refused now, and all of the old one stays."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    file = write_config(tmp_path, engine, flag=file_flag(tmp_path))
    text = file.read_text()
    async with guarded(file) as made:
        await made.phase("active")
        settings = made.sidecar._settings
        bad = f"{text[: text.index('flag:')]}flag: {flag}\n"
        file.write_text(bad.replace("window: 8s", "window: 50s", 1))
        (problem,) = made.sidecar.reload()
        assert problem.startswith(f"flag.{key}: ")
        assert made.sidecar._settings == settings
        assert made.sidecar.view.reload_ok is False
        assert made.view.flag.backend == "file"
        file.write_text(text)
        assert made.sidecar.reload() == []
        assert made.sidecar.view.reload_ok


async def test_reload_to_another_window_reaches_the_evidence(
    engine: Machine, tmp_path: Path
) -> None:
    """The playbook's window takes the place of the other one in all later looks."""
    file = write_config(tmp_path, engine, flag=file_flag(tmp_path))
    file.write_text(file.read_text().replace("window: 8s", "window: 60s", 1))
    async with guarded(file) as made:
        await made.scrapes(3)
        file.write_text(file.read_text().replace("guard: {", "guard: {preset: playbook, "))
        assert made.sidecar.reload() == []
        loop, _ = made.sidecar._loops["spec"]
        assert loop.tracker._comparison.terms.decision_window == 60.0


async def test_reload_that_renames_the_target(engine: Machine, tmp_path: Path) -> None:
    """The guard goes on with its target under the new name."""
    file = write_config(tmp_path, engine, flag=file_flag(tmp_path))
    async with guarded(file) as made:
        await made.phase("active")
        file.write_text(file.read_text().replace("name: spec", "name: fast"))
        assert made.sidecar.reload() == []
        engine.slow = 3.0
        await made.phase("fallback")
        assert made.view.target == "fast"


@pytest.mark.parametrize(
    ("more", "keys"),
    [
        pytest.param({"state_file": "a", "lock_file": "b"}, "guard.state_file, guard.lock_file"),
        pytest.param({"flag": FlagSettings(key="other")}, "flag.key"),
        pytest.param(
            {"flag": FlagSettings(backend="file", terms={"path": "a"})}, "flag.backend, flag.file"
        ),
        pytest.param({"freeze_file": "a", "decision_window": 30.0}, ""),
    ],
)
def test_keys_that_need_a_restart(more: dict[str, Any], keys: str) -> None:
    """A reload that the guard cannot follow is told by its keys, and by those alone."""
    assert other_keys(GuardSettings(), GuardSettings(**more)) == keys


async def test_guard_that_comes_with_a_reload(engine: Machine, tmp_path: Path) -> None:
    """A guard begins with the process; one that is configured later is told to wait."""
    file = write_config(tmp_path, engine, guard=None)
    async with guarded(file) as made:
        await made.result("ok")
        assert (await made.document())["state"] is None
        write_config(tmp_path, engine)
        assert made.sidecar.reload() == []
        assert made.sidecar.view.guard is None
        assert len(made.events("guard_unchanged")) == 1


async def test_flag_that_cannot_be_is_refused_first(tmp_path: Path) -> None:
    """A flag whose terms are wrong ends the start before a port is opened."""
    guard = GuardSettings()
    bad = replace(guard, flag=replace(guard.flag, backend="file", terms={"path": ""}))
    target = TargetSettings(name="spec", url="http://127.0.0.1:1")
    made = Sidecar(Settings(targets=(target,), host="127.0.0.1", port=0), guard=bad)
    with pytest.raises(ConfigError, match=r"flag\.file\.path"):
        await made.start()
    with pytest.raises(RuntimeError, match="not started"):
        _ = made.url


async def test_two_sidecars_share_a_flag(tmp_path: Path) -> None:
    """The one that sees no loss tells that others moved the flag, and leaves it to them."""
    async with AsyncExitStack() as opened:
        engines = [await opened.enter_async_context(machine()) for _ in range(2)]
        flag = file_flag(tmp_path)
        made = []
        for place, engine in enumerate(engines):
            folder = tmp_path / str(place)
            folder.mkdir()
            file = write_config(folder, engine, guard="cooldown: 1h", flag=flag)
            made.append(await opened.enter_async_context(guarded(file)))
        first, second = made
        for one in made:
            await until(lambda one=one: one.view.assessments[Outcome.HEALTHY], "health")  # type: ignore[misc]
        engines[0].slow = 3.0
        await first.phase("fallback")
        await second.confirmed(on=False)
        await asyncio.gather(*(one.scrapes(20) for one in made))
        assert (tmp_path / "flag").read_text() == OFF
        assert first.view.flag.writes["ok"] == 1
        assert sum(second.view.flag.writes.values()) == 0
        assert second.view.assessments[Outcome.DEGRADED] == 0
        assert len(first.view.history) == 1


async def test_flag_that_others_change(engine: Machine, tmp_path: Path) -> None:
    """What others make of the flag after it was written is told once and not fought."""
    file = write_config(tmp_path, engine, guard="cooldown: 1h", flag=file_flag(tmp_path))
    async with guarded(file) as made:
        await until(lambda: made.view.assessments[Outcome.HEALTHY], "health")
        engine.slow = 3.0
        await made.confirmed(on=False)
        (tmp_path / "flag").write_text("true")
        await made.confirmed(on=True)
        await made.scrapes(30)
        assert (tmp_path / "flag").read_text() == "true"
        assert made.view.flag.writes["ok"] == 1
        assert len(made.events("flag_changed_elsewhere")) == 1
        said = (await made.document())["says"]
        assert "Somebody else changed the flag since it was written." in said


async def test_flag_that_is_so_already(engine: Machine, tmp_path: Path) -> None:
    """A flag that somebody turned off just before is not written again."""
    flag = file_flag(tmp_path).replace("check_interval: 1s", "check_interval: 1h")
    async with guarded(write_config(tmp_path, engine, flag=flag)) as made:
        await until(lambda: made.view.assessments[Outcome.HEALTHY], "health")
        (tmp_path / "flag").write_text("false")
        engine.slow = 3.0
        await made.phase("fallback")
        await made.confirmed(on=False)
        assert (tmp_path / "flag").read_text() == "false"
        assert made.events("flag_written") == []


async def test_freeze_file(engine: Machine, tmp_path: Path) -> None:
    """While it is there nothing moves, which is told once; what it held back comes after it."""
    freeze = tmp_path / "freeze"
    freeze.write_text("yes")
    audit = tmp_path / "audit"
    file = write_config(
        tmp_path,
        engine,
        guard=f"cooldown: 1h, freeze_file: {freeze}, audit_file: {audit}",
        flag=file_flag(tmp_path),
    )
    async with guarded(file) as made:
        await until(lambda: made.view.assessments[Outcome.HEALTHY], "health")
        engine.slow = 3.0
        await until(lambda: made.events("guard_would_change"), "what it would do")
        degraded = made.view.assessments[Outcome.DEGRADED]
        engine.waiting = 1.0
        engine.down = True  # a gap in the evidence is no news either
        await made.result("http_status")
        engine.down = False
        await until(lambda: made.view.assessments[Outcome.DEGRADED] > degraded + 5, "more")
        assert (made.view.frozen, made.view.phase) == (True, Phase.ACTIVE)
        assert len(made.events("guard_would_change")) == 1
        assert len(made.view.history) == 1
        assert (tmp_path / "flag").read_text() == "true"
        freeze.write_text("false\n")
        await made.phase("fallback")
        await made.confirmed(on=False)
    held, moved = lines_of(audit)
    assert (held["reason"], held["would_be"], held["changed"]) == ("frozen", "fallback", False)
    assert (moved["reason"], moved["changed"]) == ("speedup_below_one", True)


async def test_freeze_holds_a_pending_write(engine: Machine, tmp_path: Path) -> None:
    """A write that failed is not tried again while the file is there, and is made afterwards."""
    freeze, broken = tmp_path / "freeze", True
    state = {"lit": True}

    def handle(asked: Asked) -> Reply:
        if asked.method == "POST" and broken:
            return Reply(status=503)
        if asked.method == "POST":
            state["lit"] = b"true" in asked.body
        return Reply(document=dict(state))

    async with flag_server(handle) as server:
        flag = "backend: webhook, check_interval: 1s, " + HANGING.format(url=server.url)
        guard = f"cooldown: 1h, freeze_file: {freeze}"
        file = write_config(tmp_path, engine, guard=guard, flag=flag, more=with_token(tmp_path))
        async with guarded(file) as made:
            await made.confirmed(on=True)
            await made.order({"mode": "off"})
            await until(lambda: "POST /flag" in server.calls(), "the write")
            freeze.touch()
            await until(lambda: made.view.frozen, "the freeze")
            broken, asked = False, len(server.calls())
            await until(lambda: server.calls()[asked:].count("GET /flag") > 2, "later looks")
            assert "POST /flag" not in server.calls()[asked + 1 :]
            assert "not written while the freeze file" in (await made.document())["says"]
            freeze.unlink()
            await made.confirmed(on=False)
    assert state == {"lit": False}


async def test_dry_run(engine: Machine, tmp_path: Path) -> None:
    """The flag is never written; each step that it would take is told once, and kept."""
    file = write_config(
        tmp_path,
        engine,
        guard=f"dry_run: true, audit_file: {tmp_path / 'audit'}",
        flag=file_flag(tmp_path),
        more=with_token(tmp_path),
    )
    async with guarded(file) as made:
        await until(lambda: made.view.assessments[Outcome.HEALTHY], "health")
        engine.slow = 3.0
        await until(lambda: len(made.events("guard_would_change")) == 3, "off, on trial, off")
        engine.slow = 1.0
        wanted = [past.decision.wanted for past in made.view.history]
        assert wanted[:3] == ["fallback", "probing", "fallback"]
        assert len(wanted) == len(made.events("guard_would_change"))
        assert (await made.order({"mode": "off", "for": "300ms"}))[0] == 200
        await until(
            lambda: "override" in [past.decision.wanted for past in made.view.history], "an order"
        )
        assert (made.view.phase, made.view.flag.desired) == (Phase.ACTIVE, True)
        assert sum(made.view.flag.writes.values()) == 0
        said = (await made.document())["says"]
        assert "This is a dry run: the flag is never written." in said
    assert (tmp_path / "flag").read_text() == "true"
    assert all(not line["changed"] for line in lines_of(tmp_path / "audit"))


async def test_dry_run_writes_no_served_flag(engine: Machine, tmp_path: Path) -> None:
    """Not even the value that a served flag begins with."""
    kept = tmp_path / "flag"
    flag = f"embedded: {{file: {kept}}}"
    async with guarded(write_config(tmp_path, engine, guard="dry_run: true", flag=flag)) as made:
        await made.phase("active")
        await made.scrapes(5)
        assert not kept.exists()
        assert sum(made.view.flag.writes.values()) == 0


async def test_record_that_cannot_be_written(engine: Machine, tmp_path: Path) -> None:
    """It is told once, the guard goes on, and the lines come when there is a place for them."""
    folder, away = tmp_path / "records", tmp_path / "away"
    folder.mkdir()
    guard = f"cooldown: 1h, audit_file: {folder / 'audit'}, state_file: {folder / 'state'}"
    file = write_config(tmp_path, engine, guard=guard, flag=file_flag(tmp_path))
    async with guarded(file) as made:
        await until(lambda: made.view.assessments[Outcome.HEALTHY], "health")
        folder.rename(away)
        engine.slow = 3.0
        await made.confirmed(on=False)
        await made.scrapes(25)  # the state is tried again meanwhile
        told = made.events("guard_record_failed")
        assert sorted(line.split()[2] for line in told) == ["what=audit_file", "what=state_file"]
        away.rename(folder)
        await until(lambda: lines_of(folder / "audit"), "the line")
        await until(lambda: len(made.events("guard_record_mended")) == 2, "the news")
    assert [line["state"] for line in lines_of(folder / "audit")] == ["fallback"]


async def test_marks_in_grafana(engine: Machine, tmp_path: Path) -> None:
    """Each flip is posted once with the token; what moves no flag is not."""
    (tmp_path / "grafana").write_text("grafana-token\n")
    async with flag_server(always(Reply(document={"id": 1}))) as server:
        grafana = f"{{url: {server.url}, token_file: {tmp_path / 'grafana'}}}"
        file = write_config(
            tmp_path,
            engine,
            guard=f"grafana: {grafana}",
            flag=file_flag(tmp_path),
            more=with_token(tmp_path),
        )
        async with guarded(file) as made:
            await until(lambda: made.view.assessments[Outcome.HEALTHY], "health")
            await made.order({"mode": "on"})  # a change of state alone
            await made.phase("override")
            await made.order({"mode": "auto"})
            await made.phase("active")
            engine.slow = 3.0
            await made.phase("fallback")
            engine.slow = 1.0
            await made.phase("active")
            await until(lambda: len(server.asked) >= 2, "two marks")
    posts = [one.json() for one in server.asked]
    assert server.calls() == ["POST /api/annotations"] * 2
    assert {one.headers["Authorization"] for one in server.asked} == {"Bearer grafana-token"}
    for post, state in zip(posts, ("fallback", "probing"), strict=True):
        assert isinstance(post, dict)
        assert post["tags"] == [
            *("specgauge", "speculative-decoding", "target:spec"),
            f"state:{state}",
        ]
        assert post["time"] == pytest.approx(time() * 1000, abs=60_000)
        assert post["text"].startswith("spec: From ")


@asynccontextmanager
async def pooled(folder: Path, guard: str) -> AsyncIterator[tuple[Machine, Machine, Guarded]]:
    """Guard one engine beside another without speculation."""
    async with machine() as ours, machine(drafting=False) as theirs:
        file = write_config(folder, ours, theirs, guard=guard, flag=file_flag(folder))
        async with guarded(file) as made:
            await until(lambda: made.view.assessments[Outcome.HEALTHY], "health")
            await until(lambda: made.sidecar.view.targets[1].models, "the other pool")
            yield ours, theirs, made


@pytest.mark.parametrize("fault", ["down", "waiting"])
async def test_traffic_without_a_place_to_go(tmp_path: Path, fault: str) -> None:
    """It holds while the standard target is down or has requests waiting, and says why."""
    async with pooled(tmp_path, "cooldown: 1h") as (ours, theirs, made):
        setattr(theirs, fault, 1)
        await until(
            lambda: (
                not made.sidecar.view.targets[1].up
                or made.sidecar.view.targets[1].models["small"].values["requests_waiting"]
            ),
            "the fault",
        )
        ours.slow = 3.0
        await until(
            lambda: made.view.last and made.view.last.decision.reason == "no_fallback_capacity",
            "the reason",
        )
        assert made.view.phase is Phase.ACTIVE
        (told,) = made.events("guard_warning")
        assert told.endswith("warning=no_fallback_capacity")
        assert [past.decision.reason for past in made.view.history] == ["no_fallback_capacity"]
        found = await made.samples()
        assert found[f'specgauge_guard_warnings_total{{reason="no_fallback_capacity",{T}}}'] >= 1
        assert found[f'specgauge_guard_warnings_total{{reason="fallback_ineffective",{T}}}'] == 0
        setattr(theirs, fault, 0)
        await made.phase("fallback")


async def test_fallback_that_did_not_help(tmp_path: Path) -> None:
    """A standard pool that is no faster than speculation was is told of once."""
    async with pooled(tmp_path, "cooldown: 1h") as (ours, theirs, made):
        theirs.slow = 3.0  # a token a step: 30 ms against the 10 ms before
        ours.slow = 3.0
        await made.phase("fallback")
        await until(lambda: made.events("guard_warning"), "the warning")
        await made.scrapes(40)
        assert [line.split()[3] for line in made.events("guard_warning")] == [
            "warning=fallback_ineffective"
        ]
        assert len(made.view.history) == 2
        found = await made.samples()
        assert found[f'specgauge_guard_warnings_total{{reason="fallback_ineffective",{T}}}'] == 1
        assert found[f'specgauge_guard_warnings_total{{reason="no_fallback_capacity",{T}}}'] == 0


async def test_fault_of_our_own(engine: Machine, tmp_path: Path) -> None:
    """Evidence that the guard itself fails on is an error of its own, and the guard goes on."""
    file = write_config(tmp_path, engine, flag=file_flag(tmp_path))
    async with guarded(file, speed=0.01) as made:
        await made.result("ok")
        guardian = made.sidecar._guardian
        assert guardian is not None
        target = made.sidecar.view.targets[0]
        broken = Look(start=0, end=1, numbers={"tokens": "many"})  # type: ignore[dict-item]
        seen = replace(
            target, scrapes={ScrapeResult.OK: 50}, looks={"small": broken, "large": broken}
        )
        with pytest.raises(TypeError):
            guardian.consider(seen, [])
        for count, outcome in ((51, "error"), (52, "no_data")):
            guardian.consider(replace(seen, scrapes={ScrapeResult.OK: count}, looks={}), [])
            assert guardian.view.last is not None
            assert guardian.view.last.decision.outcome == outcome


async def test_times_stand_still(engine: Machine, tmp_path: Path) -> None:
    """Since when a state holds is the same number at every scrape."""
    async with guarded(write_config(tmp_path, engine, flag=file_flag(tmp_path))) as made:
        await made.phase("active")
        seen = set()
        for _ in range(5):
            await made.scrapes(1)
            seen.add(
                (await made.samples())[f"specgauge_guard_state_since_timestamp_seconds{{{T}}}"]
            )
        assert len(seen) == 1
        assert seen.pop() == pytest.approx(time(), abs=60)


async def test_clock_that_is_set() -> None:
    """Times follow a clock that was set, and not two clocks that drift apart a little."""
    clock = [1e9]
    pace = Pace(steady=lambda: 100.0, unix=lambda: clock[0])
    settings = Settings(targets=(TargetSettings(name="spec", url="http://127.0.0.1:1"),))
    guardian = make_guardian(GuardSettings(), settings, pace=pace, log=Log(io.StringIO()))
    assert guardian.view.since == 1e9
    for seen, since in ((1e9 + 0.5, 1e9), (1e9 + 3600, 1e9 + 3600)):
        clock[0] = seen
        assert guardian.view.since == since
    for second in range(100):
        guardian._wall(second)
    assert len(guardian._walls) <= 16
    await guardian.stop()


SECRETS = {
    "flag": "flag-secret-4711",
    "override": "override-secret-4712",
    "grafana": "grafana-secret-4713",
}


def echoing(asked: Asked) -> Reply:
    """Refuse, and say what was sent."""
    return Reply(status=403, text=f"not for {asked.headers.get('Authorization')}")


def secret_config(folder: Path, engine: Machine, server: FlagServer) -> Path:
    for name, secret in SECRETS.items():
        (folder / name).write_text(f"{secret}\n")
    flag = (
        f"backend: webhook, check_interval: 1s, webhook: {{url: {server.url}/flag, "
        f"read_url: {server.url}/flag, read_value: lit, token_file: {folder / 'flag'}}}"
    )
    guard = (
        f"audit_file: {folder / 'audit'}, state_file: {folder / 'state'}, "
        f"grafana: {{url: {server.url}, token_file: {folder / 'grafana'}}}"
    )
    return write_config(
        folder, engine, guard=guard, flag=flag, more=f"token_file: {folder / 'override'}\n"
    )


async def test_no_secret_shows(engine: Machine, tmp_path: Path) -> None:
    """No token is in a log, a series, a document, a record, an error or an argument."""
    shown: dict[str, str] = {}
    async with flag_server(echoing) as server:
        file = secret_config(tmp_path, engine, server)
        async with (
            specgauge("serve", "--config", str(file)) as made,
            aiohttp.ClientSession() as client,
        ):
            url = await made.listening()

            async def ask(path: str, **more: Any) -> str:
                method = "POST" if more else "GET"
                async with client.request(method, f"{url}{path}", **more) as response:
                    return await response.text()

            right = {"Authorization": f"Bearer {SECRETS['override']}"}
            await made.line("guard_started")
            body = {"mode": "off", "reason": "to see"}
            shown["order"] = await ask("/api/v1/guard/override", json=body, headers=right)
            await made.line("flag_write_failed")
            await made.line("guard_record_failed")
            for name, sent in {"bad": {"mode": "x"}, "good": {"mode": "on"}}.items():
                shown[name] = await ask("/api/v1/guard/override", json=sent, headers=right)
            wrong = {"Authorization": f"Bearer {SECRETS['override'][:-1]}"}
            shown["wrong"] = await ask("/api/v1/guard/override", json=body, headers=wrong)
            shown["reload"] = await ask("/-/reload", data=b"", headers=right)
            for path in ("/metrics", "/api/v1/status", "/api/v1/guard", "/api/v1/history"):
                shown[path] = await ask(path)
            for path in ("/flags.json", "/", f"/ofrep/v1/evaluate/flags/{KEY}"):
                shown[path] = await ask(path)
            arguments = psutil.Process(made.process.pid).cmdline()
            shown["arguments"] = " ".join(arguments)
            made.process.send_signal(signal.SIGTERM)
            await made.end()
    assert {one.headers.get("Authorization") for one in server.asked} == {
        f"Bearer {SECRETS['flag']}",
        f"Bearer {SECRETS['grafana']}",
    }
    shown["log"] = "\n".join(made.lines)
    shown["audit"] = (tmp_path / "audit").read_text()
    shown["state"] = (tmp_path / "state").read_text()
    assert all(shown.values())
    leaks = [
        (where, name) for where in shown for name, one in SECRETS.items() if one in shown[where]
    ]
    assert leaks == []


# Killed at any instant


async def guard_of(url: str) -> Any:
    async with (
        aiohttp.ClientSession() as client,
        client.get(f"{url}/api/v1/guard") as response,
    ):
        return await response.json()


async def settled(url: str, *, on: bool, states: str) -> None:
    """Wait until it stands in one of the states, with the flag wanted so and read back so."""
    async with asyncio.timeout(DEADLINE):
        while True:
            found = await guard_of(url)
            flag = found.get("flag", {})
            agreed = (flag.get("desired"), flag.get("confirmed")) == (on, on)
            if agreed and found["state"] in states.split():
                return
            await asyncio.sleep(0.05)


async def agitate(made: Process, url: str, chance: Random) -> None:
    """Give one order after the other until it is killed, at an instant that nobody chose."""

    async def orders() -> None:
        while True:
            await order(url, chance.choice(["on", "off", "auto"]))
            await asyncio.sleep(chance.uniform(0.0, 0.15))

    giving = asyncio.create_task(orders())
    await asyncio.sleep(chance.uniform(0.2, 0.8))
    os.kill(made.process.pid, signal.SIGKILL)
    await made.process.wait()
    giving.cancel()
    await asyncio.gather(giving, return_exceptions=True)


@pytest.mark.slow
async def test_killed_at_any_instant(tmp_path: Path) -> None:
    """State, flag and record are whole; the flag as it reads is adopted, unless an order holds."""
    chance = Random(20250727)  # noqa: S311 - instants of a test
    flag, state, audit = tmp_path / "flag", tmp_path / "state", tmp_path / "audit"
    async with serving(answer(v1_page(1000))) as server:
        guard = f"recovery: {{mode: manual}}, state_file: {state}, audit_file: {audit}"
        file = write_config(
            tmp_path,
            Machine(url=server.url),
            guard=guard,
            flag=file_flag(tmp_path),
            more=with_token(tmp_path),
        )
        often = file.read_text().replace("interval: 1s, timeout", "interval: 100ms, timeout")
        file.write_text(often)
        for _ in range(6):
            left, before = flag.read_text().strip(), flag.stat()
            assert left in ("true", "false")
            text = load_text(state)
            kept = None if text is None else recall(text, time=0, unix=time())
            assert kept is None or kept.reason == ""
            obeyed = kept.override if kept is not None else None
            async with specgauge("serve", "--config", str(file)) as made:
                url = await made.listening()
                if obeyed is not None:
                    await settled(url, on=obeyed.mode == "on", states="override")
                else:
                    await settled(url, on=left == "true", states="active fallback override")
                    assert flag.stat().st_mtime_ns == before.st_mtime_ns
                assert made.told("guard_state_unusable") == []
                await agitate(made, url, chance)
    assert all(line["schema"] == "specgauge.audit/v1" for line in lines_of(audit))


async def test_auto_takes_over_what_others_made(engine: Machine, tmp_path: Path) -> None:
    """A flag that others turned off stays so, is told, and is taken over when it is handed back."""
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    file = write_config(
        tmp_path,
        engine,
        guard="cooldown: 30s, backoff: {max: 30s}",
        flag=file_flag(tmp_path),
        more=f"token_file: {tmp_path / 'token'}\n",
    )
    async with guarded(file) as made:
        await made.phase("active")
        assert (await made.order({"mode": "on"}))[0] == 200
        await made.phase("override")
        await made.confirmed(on=True)
        (tmp_path / "flag").write_text("false\n")
        await made.confirmed(on=False)
        await until(lambda: made.view.flag.changed_elsewhere, "the notice")
        await made.scrapes(10)
        assert (tmp_path / "flag").read_text() == "false\n"
        assert (await made.order({"mode": "auto"}))[0] == 200
        await made.phase("fallback")
        assert made.view.flag.desired is False
        assert not made.view.flag.changed_elsewhere
        assert "changed_elsewhere" in {one.decision.reason for one in made.view.history}
        await made.phase("probing")
        await made.confirmed(on=True)
    assert (tmp_path / "flag").read_text().strip() == "true"
