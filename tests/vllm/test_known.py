"""Servers whose acceptance is known beforehand, and one that crashes and comes back.

It may not start more than one server at a time.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

import aiohttp
import pytest
from tests.vllm.client import prompts, send, up_to
from tests.vllm.engine import MODEL_NAME, Engine
from tests.vllm.episode import NGRAM, SELF_DRAFT, Crash, Episode, Mode, draft_model
from tests.vllm.pages import fetch
from tests.vllm.series import OURS, THEIRS
from tests.vllm.sidecar import inspect

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]

RATES = [0.8, 0.6, 0.4]
UNSUPPORTED = "Synthetic acceptance not supported"
GAUGES = ["acceptance_ratio", "tokens_per_step", "tpot_seconds", "requests_running"]
COUNTERS = ["drafts", "draft_tokens", "accepted_tokens", "generation_tokens", "decode_steps"]


def test_a_draft_by_the_target_itself_is_accepted(recorded: Callable[[Mode], Episode]) -> None:
    """Who drafts with the target at temperature 0 has nearly every token accepted."""
    seen = recorded(SELF_DRAFT).two_pages
    assert seen["acceptance_ratio"] == pytest.approx(1, abs=0.05)
    assert seen["acceptance_length"] == pytest.approx(4, abs=0.15)


def test_configured_acceptance_is_what_is_measured(vllm_python: Path, tmp_path: Path) -> None:
    """A server told to accept at given rates is measured to do so, where its build can."""
    configured = draft_model(
        "draft", rejection_sample_method="synthetic", synthetic_acceptance_rates=RATES
    )
    engine = Engine(python=vllm_python, log=tmp_path / "engine.log", speculative=configured)
    try:
        engine.start()
        before = tmp_path / "before.prom"
        before.write_text(fetch(engine.url).text)
        load = send(engine.url, MODEL_NAME, prompts(), concurrency=4, more=up_to(24))
        asyncio.run(load)
        after = tmp_path / "after.prom"
        after.write_text(fetch(engine.url).text)
        seen = inspect("--window", "10", before, after)
    except (aiohttp.ClientError, AssertionError):
        if UNSUPPORTED not in engine.log.read_text(errors="replace"):
            raise
        pytest.skip(f"this build says: {UNSUPPORTED} with CPU sampling")
    finally:
        engine.kill()
    assert pytest.approx(RATES, abs=0.06) == seen["position_acceptance_ratio"]


@pytest.fixture
def crashed(recorded: Callable[[Mode], Episode]) -> tuple[Episode, Crash]:
    """Return the recording of the server that was killed and started again."""
    episode = recorded(NGRAM)
    assert episode.crash is not None
    return episode, episode.crash


@pytest.mark.smoke
def test_a_killed_server_is_down_and_its_counters_stay(crashed: tuple[Episode, Crash]) -> None:
    """With the server gone its gauges vanish and its counters stand where they stood."""
    episode, crash = crashed
    assert crash.down.total("specgauge_target_up") == 0
    assert [gauge for gauge in GAUGES if crash.down.has(f"specgauge_{gauge}")] == []
    for counter in COUNTERS:
        assert episode.sidecar.total(OURS[counter]) == crash.down.total(OURS[counter]), counter
    assert crash.down.total("specgauge_engine_restarts_total") == 0


@pytest.mark.smoke
def test_counters_go_on_over_a_restart(crashed: tuple[Episode, Crash]) -> None:
    """What the new server counts comes on top of what the old one had, and a restart is noted."""
    episode, crash = crashed
    assert crash.back.total("specgauge_target_up") == 1
    assert crash.back.total("specgauge_engine_restarts_total") == 1
    for counter in COUNTERS:
        grew = crash.back.total(OURS[counter]) - episode.sidecar.total(OURS[counter])
        assert crash.engine.total(THEIRS[counter]) == grew, counter
