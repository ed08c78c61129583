"""The real stack on what is rendered: sidecars, Prometheus, Alertmanager, and who is told."""

import asyncio
import json
import os
import re
import shlex
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.containers import program
from tests.flag_servers import Asked, FlagServer, Reply, flag_server
from tests.fleets import listening, prometheus_at, running
from tests.guarding import QUICK, TOKEN, Guarded, Machine, guarded, machine, write_config
from tests.ruling import ROOT, RULES, alerts_in, promtool, rules_in
from tests.servers import answer, serving
from tests.sidecars import DEADLINE, Process, specgauge
from tests.test_prometheus import Server

from specgauge.cli.guard.configuration import read_config
from specgauge.cli.settings import rules_of
from specgauge.render.options import Options
from specgauge.render.registry import KINDS
from specgauge.render.verify import values_of

SPEED = 5.0
PATIENCE = 90.0
NAME = 'acme/"chat" {70b}: x'
RULES_KEYS = """
rules:
  scrape_interval: 1s
  evaluation_interval: 1s
  windows: {short: 4s, medium: 1m, long: 2m}
  team: inference
  teams: {'acme/"chat" {70b}: x': chat}
  thresholds: {first_position_warning: 0.9, fleet_costs_members: 2, fleet_costs_share: 0.6}
  for:
    SpecgaugeSpeculationCosts: 1s
    SpecgaugeFirstPositionCollapsed: 1s
    SpecgaugeFleetCosts: 1s
    SpecgaugeTargetDown: 1s
"""
SILENT = {
    "Requests that missed the promised time per token",  # recorded once a minute
    "Why",  # a counter's first value is no increase
    "Age of the baseline",  # that of these engines has no date
    "Baseline of another server",
    "Broken identities",
    "Errors",  # the engines do not count answers, or preemptions
    "Preemptions per request",
    "GPU memory",  # nothing exports it here
    "GPU utilisation",
    "Until the next probe",  # there is none while an operator has overruled the guard
    "Warnings",  # nor has the guard one
    "Writes of the flag",  # not within the last seconds
}
"""Panels that have nothing to show of this scene."""

VARIABLES = {
    "$__rate_interval": "10s",
    "$__range": "1m",
    "$__interval": "5s",
    "$target": "spec",
    "$model_name": "small",
}
RECORDED = re.compile(r"(?<!slo_errors)(:(?:increase|ratio_rate|p99_rate))(?:5m|1h|1d)\b")

Alert = Mapping[str, Any]


@pytest.fixture
def alertmanager() -> str:
    """Return the Alertmanager server."""
    if found := program("alertmanager", "prometheus-alertmanager"):
        return found
    if os.environ.get("CI") == "true":
        pytest.fail("Alertmanager is missing: .ci/packages test installs it")
    pytest.skip("Alertmanager is not installed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """Prometheus and Alertmanager as rendered, and the webhook that is told."""

    prometheus: Server
    alertmanager: aiohttp.ClientSession
    webhook: FlagServer

    def told(self) -> list[Alert]:
        """List what the webhook got, in order, each with who it was for."""
        return [
            {**alert, "receiver": message["receiver"]}
            for one in self.webhook.asked
            for message in (json.loads(one.body),)
            for alert in message["alerts"]
        ]

    async def arrived(self, status: str = "firing", **labels: str) -> Alert:
        """Wait until the webhook got an alert with these labels."""
        wanted = labels.items()

        async def look() -> Any:
            found = [
                one
                for one in self.told()
                if one["status"] == status and wanted <= one["labels"].items()
            ]
            return found[-1] if found else None

        found: Alert = await self._wait(look, f"{status} {labels}")
        return found

    async def suppressed(self, by: str, **labels: str) -> None:
        """Wait until an alert with these labels is silenced by another one."""

        async def look() -> Any:
            alerts = await self.alerts()
            names = {one["fingerprint"]: one["labels"]["alertname"] for one in alerts}
            for one in alerts:
                inhibitors = [names.get(each) for each in one["status"]["inhibitedBy"]]
                if labels.items() <= one["labels"].items() and by in inhibitors:
                    assert one["status"]["state"] == "suppressed"
                    return one
            return None

        await self._wait(look, f"{labels} suppressed by {by}")

    async def alerts(self) -> list[Any]:
        """List the alerts that Alertmanager has."""
        async with self.alertmanager.get("/api/v2/alerts") as response:
            found: list[Any] = await response.json()
            return found

    async def _wait(self, look: Callable[[], Any], what: str) -> Any:
        try:
            async with asyncio.timeout(PATIENCE):
                while not (found := await look()):  # noqa: ASYNC110 - only asking tells
                    await asyncio.sleep(0.2)
        except TimeoutError:
            seen = [(one["labels"], one["status"]["state"]) for one in await self.alerts()]
            raise AssertionError(f"{what} did not come; there are {seen}") from None
        return found


@asynccontextmanager
async def alerting(program: str, folder: Path, config: str) -> AsyncIterator[str]:
    """Run an Alertmanager on a free port; gives its address."""
    (folder / "alertmanager.yaml").write_text(config)
    command = (
        program,
        f"--config.file={folder / 'alertmanager.yaml'}",
        f"--storage.path={folder / 'alertmanager'}",
        "--cluster.listen-address=",
    )
    async with listening(*command, found=_listening) as address:
        yield address


async def _listening(log: asyncio.StreamReader) -> str:
    seen = ""
    async for line in log:
        seen += line.decode()
        if found := re.search(r'"Listening on" address=(\S+)', seen):
            return found[1]
    raise AssertionError(seen)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Sidecars at work, with the engines that they watch."""

    first: Machine
    fellow: Machine
    acting: Guarded
    gone: Guarded
    watching: Guarded
    demo: Mapping[str, str]

    @property
    def sidecars(self) -> list[str]:
        """Tell where all of them are."""
        guards = (one.sidecar.url for one in (self.acting, self.gone, self.watching))
        return [host(url) for url in (*guards, self.demo["specgauge"])]


@asynccontextmanager
async def scene(folder: Path) -> AsyncIterator[Scene]:
    """Run a recorded collapse, and engines that are slower with speculation than without.

    The guard of one turns it off; its fellow has none; the third has a model to itself; the fourth
    fell back and does not answer any more.
    """
    for name in ("acting", "gone", "watching"):
        (folder / name).mkdir()
    (folder / "token").write_text(TOKEN)
    more = f"token_file: {folder / 'token'}\n"
    async with AsyncExitStack() as opened:
        enter = opened.enter_async_context
        first, fellow, lone, dead = [await enter(machine(speed=SPEED, slow=3.0)) for _ in range(4)]
        file = write_config(folder / "acting", first, guard="cooldown: 1h", more=more)
        acting = await enter(guarded(file, speed=SPEED))
        file = write_config(folder / "gone", dead, guard="cooldown: 1h")
        gone = await enter(guarded(file, speed=SPEED))
        await gone.phase("fallback")
        dead.down = True
        await gone.result("http_status")
        names = (
            await enter(rewritten(lone, renamed)),
            await enter(rewritten(Machine(speed=SPEED), plain)),
        )
        file = folder / "watching/specgauge.yaml"
        file.write_text(
            f"targets: [{{name: fellow, url: '{fellow.url}'}}, {{name: lone, url: '{names[0]}'}}, "
            f"{{name: plain, url: '{names[1]}', role: standard}}]\n" + QUICK
        )
        watching = await enter(guarded(file, speed=SPEED))
        demo = await enter(
            specgauge("demo", "--speed", "10", "--listen", "127.0.0.1:0", "--for", "5m")
        )
        yield Scene(
            first=first,
            fellow=fellow,
            acting=acting,
            gone=gone,
            watching=watching,
            demo=await shown_at(demo),
        )


def texts(options: Options, *kinds: str) -> dict[str, str]:
    """Render some kinds; gives texts by the name of their file."""
    files = (one for kind in kinds for one in KINDS[kind](options))
    return {one.path.rpartition("/")[2]: one.text for one in files}


@asynccontextmanager
async def stack(programs: tuple[str, str], folder: Path, at: Scene) -> AsyncIterator[Stack]:
    """Run what is rendered for a scene, from a configuration with short times."""
    file = folder / "rules.yaml"
    file.write_text(RULES_KEYS)
    options = rules_of(read_config(file))
    async with AsyncExitStack() as opened:
        webhook = await opened.enter_async_context(flag_server(_taken))
        options = replace(
            options,
            receiver_url=f"{webhook.url}/alerts",
            sidecars=tuple(at.sidecars),
            engines=(host(at.demo["engine"]),),
        )
        config = texts(options, "alertmanager")["alertmanager.yaml"]
        address = await opened.enter_async_context(alerting(programs[1], folder, config))
        made = texts(replace(options, alertmanagers=(address,)), "rules", "prometheus")
        (folder / "specgauge.rules.yaml").write_text(made["specgauge.rules.yaml"])
        url = await opened.enter_async_context(
            running(programs[0], folder, made["prometheus.yaml"])
        )
        yield Stack(
            prometheus=Server(await opened.enter_async_context(aiohttp.ClientSession(url))),
            alertmanager=await opened.enter_async_context(
                aiohttp.ClientSession(f"http://{address}")
            ),
            webhook=webhook,
        )


def _taken(_: Asked) -> Reply:
    return Reply()


def host(url: str) -> str:
    """Give host and port of a URL."""
    return url.removeprefix("http://").partition("/")[0]


@asynccontextmanager
async def rewritten(made: Machine, rewrite: Callable[[bytes], bytes]) -> AsyncIterator[str]:
    """Serve a machine's page with something changed in it."""

    async def run(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer(rewrite(made.page())))
        await writer.drain()

    async with serving(run) as server:
        yield server.url


def renamed(page: bytes) -> bytes:
    """Give the model another name."""
    return page.replace(b'"small"', json.dumps(NAME).encode())


def plain(page: bytes) -> bytes:
    """Take out what a server without speculation does not show."""
    return re.sub(rb"(?m)^.*spec_decode.*\n", b"", page)


@pytest.mark.slow
async def test_alerts_arrive(prometheus: str, alertmanager: str, tmp_path: Path) -> None:
    """What happens is told with its text, and resolved; what follows from it is not told."""
    async with scene(tmp_path) as at, stack((prometheus, alertmanager), tmp_path, at) as made:
        await costs(made)
        await inhibitions(made, host(at.acting.sidecar.url))
        await recordings(made.prometheus)
        await a_server_down(made, host(at.gone.sidecar.url))
        await recovery(made, at)
        await recorded_collapse(made)
        await panels(made.prometheus, host(at.acting.sidecar.url))


async def test_the_readmes_commands_list_the_alerts(prometheus: str, tmp_path: Path) -> None:
    """A bare Prometheus, started as the README says, knows every alert that lies in `rules/`."""
    section = (ROOT / "README.md").read_text().partition("## Alerts and dashboards")[2]
    check, start, ask = section.split("```")[1].strip().splitlines()
    code, said = promtool(*shlex.split(check)[1:], folder=ROOT)
    assert code == 0, said
    assert shlex.split(start)[0] == "prometheus"
    options = [word.replace("prometheus-data", str(tmp_path)) for word in shlex.split(start)[1:]]
    async with prometheus_at(prometheus, *options, folder=ROOT) as url:
        asked = shlex.split(ask)[-1].replace("http://127.0.0.1:9090", url)
        async with aiohttp.ClientSession() as client, client.get(asked) as answer:
            groups = (await answer.json())["data"]["groups"]
    listed = {rule["name"] for group in groups for rule in group["rules"]}
    assert listed == set(alerts_in(RULES / "specgauge.rules.yaml"))


async def shown_at(demo: Process) -> dict[str, str]:
    """Read where the demo is from what it prints."""
    assert demo.process.stdout is not None
    lines = [
        (await asyncio.wait_for(demo.process.stdout.readline(), DEADLINE)).decode().split()
        for _ in range(2)
    ]
    return {line[0]: line[1] for line in lines}


async def costs(made: Stack) -> None:
    """See the model that is alone told of, to its own team, with its name intact."""
    found = await made.arrived(alertname="SpecgaugeSpeculationCosts", model_name=NAME)
    labels, notes = found["labels"], found["annotations"]
    assert (labels["severity"], labels["team"], labels["target"]) == ("critical", "chat", "lone")
    assert found["receiver"] == "chat/critical"
    assert notes["summary"] == "Speculative decoding costs more than it saves."
    assert re.match(
        re.escape(f"Tokens of {NAME} on lone come 0.6")
        + r"\d times as fast as they would without speculation at this load, below 0\.8\.",
        notes["description"],
    )
    assert notes["runbook_url"].endswith("#specgaugespeculationcosts")
    assert "var-target=lone" in notes["dashboard_url"]
    assert "var-model_name=acme%2F%22chat%22+%7B70b%7D%3A+x" in notes["dashboard_url"]


async def inhibitions(made: Stack, guard: str) -> None:
    """See what follows from another alert there, and nobody told."""
    await made.suppressed(
        "SpecgaugeSpeculationCosts",
        alertname="SpecgaugeSpeculationCosts",
        model_name=NAME,
        severity="warning",
    )
    told = [one["labels"] for one in made.told() if one["labels"].get("model_name") == NAME]
    assert ("SpecgaugeSpeculationCosts", "warning") not in {
        (one["alertname"], one["severity"]) for one in told
    }
    fleet = await made.arrived(alertname="SpecgaugeFleetCosts")
    assert (fleet["labels"]["model_name"], fleet["labels"]["severity"]) == ("small", "critical")
    assert fleet["receiver"] == "inference/critical"
    for target in ("spec", "fellow"):
        await made.suppressed(
            "SpecgaugeFleetCosts", alertname="SpecgaugeSpeculationCosts", target=target
        )
    fallback = await made.arrived(alertname="SpecgaugeGuardFallback", instance=guard)
    assert (fallback["labels"]["severity"], fallback["labels"]["team"]) == ("warning", "inference")
    await made.suppressed(
        "SpecgaugeGuardFallback", alertname="SpecgaugeFirstPositionCollapsed", instance=guard
    )
    await made.arrived(alertname="SpecgaugeFirstPositionCollapsed", target="lone")


async def recordings(server: Server) -> None:
    """See that every rule is evaluated, and each recording of the default rendering has data."""
    for group in (await server.ask("rules"))["groups"]:
        for rule in group["rules"]:
            assert rule["health"] in ("ok", "unknown"), f"{rule['name']}: {rule.get('lastError')}"
    empty = []
    for rule in rules_in(RULES / "specgauge.rules.yaml"):
        found = await server.ask("query", query=RECORDED.sub(r"\g<1>4s", rule["expr"]))
        if "record" in rule and not found["result"]:
            empty.append(rule["record"])
    assert empty == []


async def a_server_down(made: Stack, instance: str) -> None:
    """See only this told of a server that does not answer, not that its guard had fallen back."""
    found = await made.arrived(alertname="SpecgaugeTargetDown", instance=instance)
    assert found["labels"]["severity"] == "critical"
    await made.suppressed(
        "SpecgaugeTargetDown", alertname="SpecgaugeGuardFallback", instance=instance
    )


async def panels(server: Server, instance: str) -> None:
    """See that every expression of every dashboard is answered, with data where there is some."""
    empty = set()
    for one in KINDS["dashboards"](Options()):
        for panel in json.loads(one.text)["panels"] if one.path.endswith(".json") else ():
            for query in values_of(panel, "expr"):
                filled = RECORDED.sub(r"\g<1>4s", query)
                for variable, value in {**VARIABLES, "$instance": instance}.items():
                    filled = filled.replace(variable, value)
                if not (await server.ask("query", query=filled))["result"]:
                    empty.add(panel["title"])
    assert empty <= SILENT


async def recovery(made: Stack, at: Scene) -> None:
    """See what is over told as well."""
    at.first.slow = at.fellow.slow = 1.0
    assert (await at.acting.order({"mode": "on", "reason": "mended"}))[0] == 200
    instance = host(at.acting.sidecar.url)
    await made.arrived("resolved", alertname="SpecgaugeGuardFallback", instance=instance)
    await made.arrived("resolved", alertname="SpecgaugeFleetCosts")


async def recorded_collapse(made: Stack) -> None:
    """See the guard of the demo fall back when its draft stops fitting, and active again."""
    found = await made.arrived(alertname="SpecgaugeGuardFallback", target="demo")
    assert found["annotations"]["description"].startswith("The guard of demo is in fallback")
    await made.arrived("resolved", alertname="SpecgaugeGuardFallback", target="demo")
