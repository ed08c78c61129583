"""The rendered router before two real servers, one of which speculates, and a sidecar beside them.

The tests share one life of all four, in the order in which they stand here; the last ones kill a
server. What is asked of them is an order of events or a count, so that they hold at any pace.
"""

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.vllm.asking import PATIENCE, Answer, Asked, ask, every_kind, make, until
from tests.vllm.client import prompts
from tests.vllm.engine import Engine
from tests.vllm.pages import Page, fetch
from tests.vllm.routed import LIMIT, Stage, by_pool, counted, settled, staged, told
from tests.vllm.series import THEIRS

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]

OBEYED_SECONDS = 20.0  # two on a machine that does nothing else


@pytest.fixture(scope="module")
def stage(vllm_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Start both servers, the router and the sidecar once for all tests here."""
    with staged(vllm_python, tmp_path_factory.mktemp("router")) as made:
        yield made


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """Requests of every kind, where explain has each of them, and what everybody counted."""

    seen: Sequence[tuple[Asked, Answer]]
    explained: dict[str, dict[str, Any]]
    spec: Page
    plain: Page
    sidecar: Page
    classes: dict[str, Any]


@pytest.fixture(scope="module")
def sent(stage: Stage) -> Sent:
    """Send requests of every kind to idle servers, and those with a limit of load to a busy one."""
    explained = asyncio.run(_everything(stage))
    pages = []
    for engine, pool in ((stage.spec, "speculative"), (stage.plain, "standard")):
        tokens = sum(one.usage["completion_tokens"] for one in by_pool(stage.seen, pool))
        pages.append(settled(engine, tokens))
    return Sent(
        seen=tuple(stage.seen),
        explained=explained,
        spec=pages[0],
        plain=pages[1],
        sidecar=stage.told(),
        classes=stage.classes(),
    )


async def _everything(stage: Stage) -> dict[str, dict[str, Any]]:
    """Send it; gives what explain says of each request during which flag and load held still."""
    explained: dict[str, dict[str, Any]] = {}
    source, room, enough = prompts(), asyncio.Semaphore(2), asyncio.Event()
    async with aiohttp.ClientSession(timeout=PATIENCE) as session:

        async def one(asked: Asked) -> None:
            before = stage.router.state()
            answer = await stage.ask(session, asked)
            after = stage.router.state()
            if _answers(before) == _answers(after) is not None:
                explained[answer.id] = stage.router.explain(asked, before)

        async def calm(asked: Asked) -> None:
            async with room:
                await one(asked)

        async def keep() -> None:
            while not enough.is_set():
                await one(make(next(source), chat=False, stream=True, tokens=300))

        def high() -> bool | None:
            held: bool | None = stage.router.state().get("loads", {}).get(LIMIT)
            return None if held is None else not held

        await until(lambda: high() is False, "a known load")
        await until(lambda: stage.classes()["log"]["state"] == "followed", "the log")
        await asyncio.gather(*map(calm, every_kind(source)))
        keepers = [asyncio.create_task(keep()) for _ in range(7)]
        try:
            await until(high, "a high load")
            for chat, stream in ((True, True), (False, False), (True, False)):
                await one(make("```\n" + next(source), chat=chat, stream=stream))
        finally:
            enough.set()
            await asyncio.gather(*keepers)
        await until(lambda: high() is False, "a low load")
        await one(make("```\n" + next(source), chat=True, stream=True))
    return explained


def _answers(state: dict[str, Any]) -> tuple[bool, bool | None] | None:
    """Read flag and limit; None between the limit and where it resumes: explain knows no past."""
    load, held = state["decode_concurrency"], state["loads"][LIMIT]
    at_most = float(LIMIT.partition(":")[0])
    return (state["flag"], held) if load is None or (load <= at_most) is held else None


def test_requests_land_where_explain_says(stage: Stage, sent: Sent) -> None:
    """Every class and reason is met, and log, client and explain agree on each request."""
    lines = stage.router.lines(len(sent.seen))
    kinds = Counter[tuple[str, str, str]]()
    for _, answer in sent.seen:
        line = lines[answer.id]
        went = (line["class"], line["served_pool"], line["reason"])
        assert (answer.traffic_class, answer.pool, answer.status) == (*went[:2], 200)
        assert (answer.whole, line["complete"], line["upstream_status"]) == (True, "1", "200")
        if found := sent.explained.get(answer.id):
            assert went == (found["class"], found["pool"], found["reason"]), line
            kinds[went] += 1
    assert len(lines) == len(sent.seen) >= kinds.total() >= 30
    assert set(kinds) == {
        ("batch", "standard", "rule:batch"),
        ("structured", "standard", "rule:structured"),
        ("code", "speculative", "rule:code"),
        ("code", "standard", "load"),
        ("pieces", "speculative", "rule:pieces"),
        ("high-temperature", "standard", "rule:high-temperature"),
        ("tiny", "standard", "rule:tiny"),
        ("short-blocking", "standard", "rule:short-blocking"),
        ("other", "speculative", "fallback"),
    }


def test_the_servers_counted_the_same(sent: Sent) -> None:
    """Each server finished as many requests, of as many tokens, as the client had from its pool."""
    for page, pool in ((sent.spec, "speculative"), (sent.plain, "standard")):
        answers = by_pool(sent.seen, pool)
        assert page.total(THEIRS["requests_finished"]) == len(answers)
        for name in ("prompt_tokens", "completion_tokens"):
            theirs = THEIRS[name.replace("completion", "generation")]
            assert page.total(theirs) == sum(one.usage[name] for one in answers)


def test_classes_agree_with_the_client(sent: Sent) -> None:
    """Requests, ends, first bytes and tokens of each class and pool are the client's own."""
    assert told(sent.sidecar) == counted(sent.seen)
    assert sent.sidecar.total("specgauge_class_retries_total") == 0
    assert sent.classes["log"]["lines"] == {"ok": len(sent.seen)}
    by_key = counted(sent.seen)["requests"]
    assert by_key == {
        (one["class"], pool["pool"]): pool["requests"]
        for one in sent.classes["classes"]
        for pool in one["pools"]
    }


def test_acceptance_of_classes_adds_up_to_the_server(sent: Sent) -> None:
    """Only the speculative server's answers tell of drafts, and together they tell of all."""
    sums = counted(sent.seen)
    for name in ("drafts", "draft_tokens", "accepted_tokens"):
        assert {pool for _, pool in sums[name]} == {"speculative"}
        assert sums[name].total() == sent.spec.total(THEIRS[name]) > 0
    assert all(answer.drafted is None for answer in by_pool(sent.seen, "standard"))
    assert all(answer.drafted for answer in by_pool(sent.seen, "speculative"))
    for one in sent.classes["classes"]:
        for pool in one["pools"]:
            key = (one["class"], pool["pool"])
            if not (drafts := sums["drafts"][key]):
                assert "acceptance_length" not in pool
                continue
            length = 1 + sums["accepted_tokens"][key] / drafts
            assert pool["acceptance_length"] == pytest.approx(length)
            assert [part["context"] for part in pool["contexts"]] == ["0-1k"]


@pytest.mark.parametrize("pool", ["speculative", "standard"])
def test_streams_arrive_chunk_by_chunk(stage: Stage, sent: Sent, pool: str) -> None:
    """The first piece is with the client, and the hundredth, while the server still generates."""
    assert sent.seen
    engine = stage.spec if pool == "speculative" else stage.plain
    assert asyncio.run(_overtaken(stage, engine, pool)) == (True, True)


async def _overtaken(stage: Stage, engine: Engine, pool: str) -> tuple[bool, bool]:
    finished = THEIRS["requests_finished"]
    before = fetch(engine.url).total(finished)
    pieces, looks = 0, list[asyncio.Task[Page]]()

    def look() -> None:
        nonlocal pieces
        pieces += 1
        if pieces in {1, 100}:
            looks.append(asyncio.create_task(asyncio.to_thread(fetch, engine.url)))

    headers = {"X-Traffic": "batch"} if pool == "standard" else {}
    asked = make("def", chat=False, stream=True, tokens=900, temperature=0.8, headers=headers)
    async with aiohttp.ClientSession(timeout=PATIENCE) as session:
        answer = await stage.ask(session, asked, on_text=look)
        first, middle = [page.total(finished) == before for page in await asyncio.gather(*looks)]
    assert (answer.pool, answer.whole, answer.usage["completion_tokens"]) == (pool, True, 900)
    return first, middle


@pytest.mark.parametrize("pool", ["speculative", "standard"])
def test_texts_are_what_the_server_gives_directly(stage: Stage, pool: str) -> None:
    """At temperature 0 chat and completion, whole and as a stream, are the same on both ways."""
    engine = stage.spec if pool == "speculative" else stage.plain
    headers = {"X-Traffic": "batch"} if pool == "standard" else {}

    async def both(asked: Asked) -> tuple[Answer, Answer]:
        async with aiohttp.ClientSession(timeout=PATIENCE) as session:
            return await stage.ask(session, asked), await ask(session, engine.url, asked, "direct")

    texts = set()
    prompt = next(prompts())
    for chat in (True, False):
        for stream in (True, False):
            asked = make(prompt, chat=chat, stream=stream, headers=headers)
            routed, direct = asyncio.run(both(asked))
            assert (routed.pool, direct.pool, routed.whole) == (pool, "", True)
            assert (routed.text, routed.usage, routed.drafted) == (
                direct.text, direct.usage, direct.drafted,
            )  # fmt: skip
            texts.add(routed.text)
    assert len(texts) == 2  # one of the chat, one of the completion


def test_the_flag_moves_new_traffic_alone(stage: Stage) -> None:
    """From when the sidecar says off all that is new is served without; what runs, ends whole."""
    asyncio.run(_flag(stage))
    assert told(stage.told()) == counted(stage.seen)


async def _flag(stage: Stage) -> None:
    long = make("def", chat=True, stream=True, tokens=900, temperature=0.8)
    async with aiohttp.ClientSession(timeout=PATIENCE) as session:
        assert (await _probe(stage, session)).pool == "speculative"
        running = await _begun(stage, session, [long, long])
        await asyncio.to_thread(stage.override, "off")
        took = await _moved(stage, session, "standard", flag=False)
        assert not all(task.done() for task, _ in running)
        new = itertools.islice(every_kind(prompts()), 0, None, 3)
        for answer in await asyncio.gather(*(stage.ask(session, asked) for asked in new)):
            assert (answer.pool, answer.whole) == ("standard", True)
        for task, _ in running:
            answer = await task
            assert (answer.pool, answer.whole) == ("speculative", True)
            assert answer.usage["completion_tokens"] == 900
        await asyncio.to_thread(stage.override, "on")
        back = await _moved(stage, session, "speculative", flag=True)
    assert max(took, back) < OBEYED_SECONDS


async def _begun(
    stage: Stage, session: aiohttp.ClientSession, streams: Sequence[Asked]
) -> list[tuple[asyncio.Task[Answer], asyncio.Event]]:
    """Begin streams, and come back when each has brought something."""
    made = []
    for asked in streams:
        begun = asyncio.Event()
        made.append((asyncio.create_task(stage.ask(session, asked, on_text=begun.set)), begun))
    async with asyncio.timeout(90):
        await asyncio.gather(*(begun.wait() for _, begun in made))
    return made


async def _probe(stage: Stage, session: aiohttp.ClientSession) -> Answer:
    """Ask the least that the rules have for the speculative pool."""
    answer = await stage.ask(session, make("```", chat=False, stream=False, tokens=1))
    assert (answer.traffic_class, answer.whole) == ("code", True)
    return answer


async def _moved(stage: Stage, session: aiohttp.ClientSession, pool: str, *, flag: bool) -> float:
    """Probe until a pool serves; gives the time. What begins after the word of it has to obey."""
    began = time.monotonic()
    async with asyncio.timeout(90):
        while True:
            said = stage.router.state()["flag"] is flag
            answer = await _probe(stage, session)
            if answer.pool == pool:
                return time.monotonic() - began
            assert pool == "speculative" or not said, "what the sidecar said was not obeyed"


@pytest.mark.parametrize("death", ["server", "core"])
def test_the_speculative_server_dies(stage: Stage, death: str) -> None:
    """Killed whole, or only its core: but for streams that had begun, every request is served."""
    broken = asyncio.run(_dies(stage, death))
    assert broken
    found = stage.told()
    assert told(found) == counted(stage.seen)
    errors = counted(stage.seen)["errors"]
    assert {pool for _, pool in errors} == {"speculative"}


async def _dies(stage: Stage, death: str) -> list[Answer]:
    """Kill the server, or its core, under traffic of every kind; gives the answers that broke."""

    def long(*, stream: bool) -> list[Asked]:
        return [
            make("def", chat=chat, stream=stream, tokens=900, temperature=0.8)
            for chat in (True, False, True)
        ]

    async with aiohttp.ClientSession(timeout=PATIENCE) as session:
        await _revived(stage, session)
        start, source, enough = len(stage.seen), prompts(), asyncio.Event()

        async def keep() -> None:
            kinds = itertools.cycle(every_kind(source))
            while not enough.is_set():
                await stage.ask(session, next(kinds))

        keepers = [asyncio.create_task(keep()) for _ in range(2)]
        begun = await _begun(stage, session, long(stream=True))
        waiting = [asyncio.create_task(stage.ask(session, one)) for one in long(stream=False)]
        await until(lambda: _running(stage.spec) >= 6, "six requests under way")
        await asyncio.to_thread(stage.spec.kill if death == "server" else stage.spec.kill_core)
        moved = await asyncio.gather(*waiting)
        for asked in itertools.islice(every_kind(source), 0, None, 3):
            answer = await stage.ask(session, asked)
            assert (answer.pool, answer.status, answer.whole) == ("standard", 200, True)
        enough.set()
        await asyncio.gather(*keepers, *(task for task, _ in begun))
    lines = stage.router.lines(len(stage.seen))
    for answer in moved:
        assert (answer.pool, answer.status, answer.whole) == ("standard", 200, True)
    assert any(len(lines[answer.id]["upstream_status"].split(", ")) == 2 for answer in moved)
    broken = [(asked, answer) for asked, answer in stage.seen[start:] if not answer.whole]
    ended = [answer for task, _ in begun if (answer := task.result()).whole]
    assert all(one.usage["completion_tokens"] == 900 for one in ended)  # before the server died
    assert len(ended) < len(begun)
    assert all(asked.streams and answer.status == 200 for asked, answer in broken)
    return [answer for _, answer in broken]


def _running(engine: Engine) -> float:
    return fetch(engine.url).total("vllm:num_requests_running")


async def _revived(stage: Stage, session: aiohttp.ClientSession) -> None:
    """Start the server again where it is dead; once it serves, it has its traffic back."""
    if (await _probe(stage, session)).pool == "standard":
        await asyncio.to_thread(stage.spec.kill)
        await asyncio.to_thread(stage.spec.start)
        await _moved(stage, session, "speculative", flag=True)
