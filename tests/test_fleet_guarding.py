"""The guard of a whole pool, and guards that share a flag or a pool, as sidecars that run."""

import asyncio
from pathlib import Path

import pytest
from tests.flag_servers import Asked, Reply, flag_server
from tests.guarding import TOKEN, file_flag, guarded, machine, write_config
from tests.sidecars import until
from tests.test_fleet import PARTS, series, whole, window, without

from specgauge.cli.main import main
from specgauge.guard.words import POOL_REASONS
from specgauge.model.guard import Outcome
from specgauge.serve.guard_document import guard_document

COOL = "cooldown: 1h, backoff: {max: 1h}"
LEVELS = ("1", "1000")
BAD = whole(window(levels=LEVELS))
GOOD = whole(
    window(without(baseline_seconds=1440), tuple((1.5, load) for _, load in PARTS), LEVELS)
)


async def test_one_writes_and_the_other_follows(tmp_path: Path) -> None:
    """The second of two guards shows what the flag reads, and takes over when the first ends."""
    flag = file_flag(tmp_path)
    lock = f"{COOL}, lock_file: {tmp_path / 'lock'}, state_file: {tmp_path / 'state'}"
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    async with machine() as fast, machine(slow=4.0) as slow:
        leading = write_config(tmp_path / "a", fast, guard=lock, flag=flag)
        following = write_config(tmp_path / "b", slow, guard=lock, flag=flag)
        async with guarded(leading) as first:
            await first.phase("active")
            async with guarded(following) as second:
                await second.phase("active")
                await second.scrapes(20)
                assert second.view.phase == "active"
                assert second.view.last is None
                assert second.events("guard_follows")
                assert (await second.document())["following"] is True
                assert (await second.document())["says"].startswith("Another process holds")
                await first.sidecar.stop()
                await second.phase("fallback")
                await until(lambda: second.view.flag.confirmed is False, "the flag off")
    assert (tmp_path / "flag").read_text().strip() == "false"


async def test_client_is_told_whose_turn_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who overrules a guard that only looks on is sent on, and can see why in its status."""
    (tmp_path / "token").write_text(TOKEN)
    lock = f"{COOL}, lock_file: {tmp_path / 'lock'}"
    async with machine() as engine:
        file = write_config(
            tmp_path,
            engine,
            guard=lock,
            flag=file_flag(tmp_path),
            more=f"token_file: {tmp_path / 'token'}\n",
        )
        async with guarded(file) as first, guarded(file) as second:
            await until(lambda: second.view.following or first.view.following, "a follower")
            one, other = (first, second) if second.view.following else (second, first)
            where = ["--url", other.sidecar.url, "--token-file", str(tmp_path / "token")]
            code = await asyncio.to_thread(main, ["guard", "override", "off", *where])
            why = "another process holds guard.lock_file; ask that one"
            said = f"specgauge: {other.sidecar.url}: {why}\n"
            assert (code, *capsys.readouterr()) == (1, "", said)
            assert await asyncio.to_thread(main, ["guard", "status", *where[:2]]) == 0
            assert "this one looks on and writes nothing" in capsys.readouterr().out
            assert one.view.phase != "override"


async def test_pool_is_judged(tmp_path: Path) -> None:
    """A guard of a pool falls back by what Prometheus says, whatever its own target shows."""
    answers = [GOOD]
    async with machine() as fast, flag_server(lambda _: Reply(document=answers[0])) as server:
        more = f"{COOL}, source: prometheus, prometheus: {{url: '{server.url}', interval: 1s}}"
        file = write_config(tmp_path, fast, guard=more, flag=file_flag(tmp_path))
        async with guarded(file) as made:
            await made.phase("active")
            await until(lambda: made.view.assessments[Outcome.HEALTHY] > 2, "healthy looks")
            answers[0] = BAD
            await made.phase("fallback")
            await until(lambda: made.view.flag.confirmed is False, "the flag off")
            last = made.view.history[-1].decision
    assert last.reason == "speedup_below_one"
    assert round(last.evidence["speedup_ratio"], 2) == 0.6


async def test_share_holds(tmp_path: Path) -> None:
    """A member stays where it is while as many others as may are in fallback, or none is known."""
    fallen = ["2"]

    def answer(_: Asked) -> Reply:
        counted: list[object] = [series("guards", 4), series("fallen", fallen[0])]
        return Reply(document=whole(counted)) if fallen[0] else Reply(status=503)

    async with machine(slow=4.0) as slow, flag_server(answer) as server:
        more = f"max_fallback_share: 0.5, prometheus: {{url: '{server.url}', interval: 1s}}"
        file = write_config(tmp_path, slow, guard=f"{COOL}, {more}", flag=file_flag(tmp_path))
        async with guarded(file) as made:
            held = "members_falling_back"
            await until(lambda: made.view.last and made.view.last.decision.reason == held, held)
            fallen[0] = ""
            await made.scrapes(30)
            assert made.view.phase == "active"
            fallen[0] = "1"
            await made.phase("fallback")


@pytest.mark.parametrize(
    ("reply", "reason", "outcome"),
    [
        pytest.param(Reply(document=whole([])), "no_series", Outcome.NO_DATA, id="no series"),
        pytest.param(
            Reply(document={"status": "error", "errorType": "bad_data", "error": "x"}),
            *("query_failed", Outcome.ERROR),
            id="query failed",
        ),
        pytest.param(Reply(document=[]), "wrong_shape", Outcome.ERROR, id="wrong shape"),
        pytest.param(Reply(status=503), "5xx", Outcome.NO_DATA, id="5xx"),
        pytest.param(Reply(status=401), "401", Outcome.ERROR, id="401"),
        pytest.param(Reply(hang=True), "timeout", Outcome.NO_DATA, id="timeout"),
        pytest.param(Reply(text="<html>"), "unreadable", Outcome.ERROR, id="html"),
    ],
)
async def test_pool_that_cannot_be_judged(
    tmp_path: Path, reply: Reply, reason: str, outcome: Outcome
) -> None:
    """Why there is no answer is the reason everywhere, and nothing is put on specgauge."""
    async with machine() as fast, flag_server(lambda _: reply) as server:
        asked = f"{{url: '{server.url}', interval: 1s, timeout: 1s}}"
        more = f"{COOL}, source: prometheus, prometheus: {asked}"
        file = write_config(tmp_path, fast, guard=more, flag=file_flag(tmp_path))
        async with guarded(file) as made:
            await made.phase("active")
            await until(lambda: made.view.last and made.view.last.decision.reason == reason, reason)
            assert made.view.last is not None
            assert made.view.last.decision.outcome is outcome
            document = guard_document(made.view)
            assert made.view.phase == "active"
            assert [word for word in made.events("fleet_unknown") if reason in word]
    assert document["last"]["reason"] == reason
    assert POOL_REASONS[reason] in document["says"]
    assert "a fault of its own" not in document["says"]
