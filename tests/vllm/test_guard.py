"""The guard before a real server: it turns speculation off when it costs, and on when it pays.

A server that looks n-grams up gains at temperature 0, where the tiny model repeats itself, and
loses at temperature 1, where it does not. A small router obeys the embedded flag: it sends to that
server or to one without speculation. Two servers, of which one has the traffic at a time.
"""

import asyncio
import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.vllm.client import prompts, send
from tests.vllm.engine import MODEL_NAME, Engine
from tests.vllm.episode import NGRAM
from tests.vllm.pages import fetch, get
from tests.vllm.series import THEIRS
from tests.vllm.sidecar import Sidecar, record_baseline

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]

CONCURRENCY = 3
LENGTHS = (96, 224, 128, 192, 160)
FLAG = "/ofrep/v1/evaluate/flags/speculative_decoding_enabled"


@dataclass(slots=True, kw_only=True)
class Traffic:
    """Clients that never stop, behind a router that obeys the flag."""

    speculative: str
    standard: str
    temperature: float = 0.0
    flag: bool = True
    flags: list[bool] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self, sidecar: str) -> None:
        """Begin to send, and to ask for the flag."""
        self._threads = [
            threading.Thread(target=self._send),
            threading.Thread(target=self._ask, args=(sidecar,)),
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Let the requests under way end."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _send(self) -> None:
        asyncio.run(
            send(
                self.speculative,
                MODEL_NAME,
                prompts(),
                concurrency=CONCURRENCY,
                more=lambda _: not self._stop.is_set(),
                lengths=LENGTHS,
                temperature=lambda: self.temperature,
                route=lambda: self.speculative if self.flag else self.standard,
            )
        )

    def _ask(self, sidecar: str) -> None:
        while not self._stop.wait(0.5):
            self.flag = json.loads(get(sidecar, FLAG, '{"context": {}}')[1])["value"]
            if self.flags[-1:] != [self.flag]:
                self.flags.append(self.flag)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Both servers, the sidecar with its guard, and the traffic."""

    spec: Engine
    plain: Engine
    sidecar: Sidecar
    traffic: Traffic

    def guard(self) -> dict[str, Any]:
        """Ask the sidecar for its guard."""
        found: dict[str, Any] = json.loads(get(self.sidecar.url, "/api/v1/guard")[1])
        return found

    def wait(self, reached: Callable[[dict[str, Any]], bool], seconds: float) -> dict[str, Any]:
        """Wait until the guard is so far, or fail with what it says."""
        deadline = time.monotonic() + seconds
        while not reached(found := self.guard()):
            if time.monotonic() > deadline:
                pytest.fail(f"after {seconds:g} s: {json.dumps(found, indent=1)}")
            time.sleep(0.5)
        return found


@pytest.fixture(scope="module")
def stage(vllm_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Record a baseline on the plain server, then guard the other one."""
    folder = tmp_path_factory.mktemp("guard")
    plain = Engine(python=vllm_python, log=folder / "plain.log")
    with ExitStack() as opened:
        opened.callback(plain.kill)
        plain.start()
        file, baseline = folder / "specgauge.yaml", folder / "baseline.json"
        _record(plain.url, baseline)
        # Made only now: its port is free when it is made, and has to be when it starts.
        spec = Engine(python=vllm_python, log=folder / "spec.log", speculative=NGRAM.speculative)
        opened.callback(spec.kill)
        spec.start()
        file.write_text(json.dumps(_configuration(spec.url, plain.url, baseline, folder)))
        sidecar = Sidecar(target=spec.url, log=folder / "sidecar.log", config=file)
        opened.callback(sidecar.stop)
        sidecar.start()
        traffic = Traffic(speculative=spec.url, standard=plain.url)
        opened.callback(traffic.stop)
        yield Stage(spec=spec, plain=plain, sidecar=sidecar, traffic=traffic)


def _record(url: str, output: Path) -> None:
    asked = [json.dumps({"prompt": prompt}) for prompt in itertools.islice(prompts(), 64)]
    chosen = output.with_name("prompts.jsonl")
    chosen.write_text("\n".join(asked))
    record_baseline(
        *("--url", url, "-o", output, "--prompts", chosen),
        *("--concurrency", "1,2,4", "--window", "5", "--warmup", "0.5"),
        *("--output-tokens", f"{min(LENGTHS)}-{max(LENGTHS)}"),
    )


def _configuration(spec: str, plain: str, baseline: Path, folder: Path) -> dict[str, Any]:
    """Guard with times that a test can wait for; everything else as it comes."""
    return {
        "targets": [
            {"name": "spec", "url": spec, "method": "ngram"},
            {"name": "plain", "url": plain, "role": "standard"},
        ],
        "baseline": {"file": str(baseline)},
        "decision_window": "10s",
        "guard": {
            "startup_grace": "10s",
            "cooldown": "15s",
            "recovery": {"probe_for": "15s"},
            "backoff": {"max": "60s"},
            "state_file": str(folder / "state.json"),
            "audit_file": str(folder / "audit.jsonl"),
        },
        "flag": {"obeyed_by": "the router of this test"},
    }


def test_the_guard_follows_the_traffic(stage: Stage) -> None:
    """Temperature 0 pays, 1 costs and the flag goes off, 0 again and a probe brings it back."""
    stage.traffic.start(stage.sidecar.url)
    stage.wait(lambda guard: guard["assessments"]["healthy"] > 0, 90)
    assert stage.guard()["state"] == "active"
    stage.traffic.temperature = 1.0
    stage.wait(lambda guard: guard["state"] == "fallback", 120)
    stage.wait(lambda guard: guard["flag"]["confirmed"] is False, 10)
    served = fetch(stage.plain.url).total(THEIRS["generation_tokens"])
    time.sleep(5)
    assert fetch(stage.plain.url).total(THEIRS["generation_tokens"]) > served
    stage.traffic.temperature = 0.0
    stage.wait(_came_back, 240)
    back = stage.wait(lambda guard: guard["flag"]["confirmed"] is True, 10)
    stage.traffic.stop()
    reasons = [one["reason"] for one in back["history"] if one["changed"]]
    assert reasons[0] == "speedup_below_one"
    assert reasons[-2:] == ["probe_due", "probe_succeeded"]
    assert stage.traffic.flags[:3] == [True, False, True]


def _came_back(guard: dict[str, Any]) -> bool:
    return guard["state"] == "active" and len(guard["history"]) > 1
