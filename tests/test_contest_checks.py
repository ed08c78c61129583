"""What a comparison does at its rim besides load: checks of answers, logs, odd servers."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.contested import contesting, plain
from tests.servers import RawServer, answer, serving, silent
from tests.stub_engine import Engine, Faults, serving_engine, until

from specgauge.baseline.brake import Brake
from specgauge.baseline.exchange import parse_address
from specgauge.baseline.load import Generator, Terms
from specgauge.baseline.plan import Lengths
from specgauge.baseline.prompts import Prompt, PromptSet
from specgauge.cli.compare.options import headers_of, prompts_of
from specgauge.cli.compare.text import conclusion
from specgauge.engines.reader import Reader
from specgauge.errors import BaselineError, SourceError, UsageError
from specgauge.preflight.compare.arena import Arena
from specgauge.preflight.compare.bouts import CellKey, Side
from specgauge.preflight.compare.decide import decide
from specgauge.preflight.compare.document import Report
from specgauge.preflight.compare.fields import Difference, Likeness, all_facts
from specgauge.preflight.compare.gates import Terms as Thresholds
from specgauge.preflight.compare.logs import mark
from specgauge.preflight.compare.outputs import Sampling, collect
from specgauge.preflight.compare.plan import Contest, named_loads
from specgauge.preflight.compare.pool import Door, Pool, open_pool
from specgauge.preflight.compare.quality import Quality, compare_texts
from specgauge.preflight.compare.validate import command, schema
from specgauge.serve.scrape import Endpoint, Scraper

SAMPLING = Sampling(temperature=0.0, seed=0, tokens=8)
PROMPTS = (Prompt(text="one"), Prompt(text="two"))


@pytest.mark.parametrize(
    ("line", "text", "why"),
    [
        ("grep -q good", "a good answer", None),
        ("grep -q good", "a bad one", "exit code 1"),
        ("true", "x" * 1_000_000, None),  # which never reads it
        (f"{sys.executable} -c 'import time; time.sleep(60)'", "", "did not end within 0.3 s"),
    ],
)
async def test_command(line: str, text: str, why: str | None) -> None:
    """A program passes an answer by ending with 0; one that does not end is ended."""
    assert await command(line, 0.3 if "sleep" in line else 20.0)(text) == why


async def test_what_a_command_leaves_behind_ends_with_it(tmp_path: Path) -> None:
    """A check that goes on in the background has passed, and nothing of it stays up."""
    told = tmp_path / "pid"
    line = f"sh -c 'sleep 600 & echo $! > {told}'"
    assert await command(line, 20.0)("text") is None
    left = Path(f"/proc/{told.read_text().strip()}/stat")
    await until(lambda: not left.exists() or left.read_text().split()[2] == "Z")


async def test_command_that_cannot_run(tmp_path: Path) -> None:
    """A file that is found and is no program says so when it is run."""
    file = tmp_path / "check"
    file.write_bytes(b"\x7fELF nonsense")
    file.chmod(0o755)
    with pytest.raises(UsageError, match=r"--validate .*check: "):
        await command(str(file), 5.0)("text")


def written(path: Path, document: Any) -> Path:
    path.write_text(json.dumps(document))
    return path


async def test_schema(tmp_path: Path) -> None:
    """An answer must be JSON and fulfil the whole schema, with references within the file."""
    document = {"type": "array", "items": {"$ref": "#/$defs/n"}, "$defs": {"n": {"minimum": 1}}}
    check = schema(written(tmp_path / "s.json", document))
    assert await check("[1, 2]") is None
    assert await check("[1, 0]") == "against the schema at $[1]"
    assert await check("Sure! [1]") == "no JSON"
    assert await check("[" * 100_000) == "no JSON"


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({"type": 7}, "$.type"),
        ([], "no JSON schema"),
        ({"$ref": "http://127.0.0.1:9/schema.json"}, "nothing is fetched"),
    ],
)
def test_schemas_that_cannot_be_used(document: Any, says: str, tmp_path: Path) -> None:
    """A schema that is none, or that stands elsewhere, is refused before any load."""
    path = written(tmp_path / "s.json", document)
    with pytest.raises(UsageError) as caught:
        schema(path)
    assert says in str(caught.value)
    assert str(path) in str(caught.value)


async def test_schema_with_a_fault_further_down(tmp_path: Path) -> None:
    """What cannot be resolved may show late; a schema may go round in circles."""
    late = {"properties": {"a": {"$ref": "other.json"}}}
    check = schema(written(tmp_path / "s.json", late))
    with pytest.raises(UsageError, match="nothing is fetched"):
        await check('{"a": 1}')
    round_and_round = {"properties": {"a": {"$ref": "#"}}}
    check = schema(written(tmp_path / "r.json", round_and_round))
    deep = '{"a": ' * 900 + "1" + "}" * 900
    assert await check(deep) in {None, "against the schema at $ (nested too deeply)"}


def test_schema_without_its_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where jsonschema is not installed one line says so and what to do instead."""
    path = written(tmp_path / "s.json", {})
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    with pytest.raises(UsageError, match="jsonschema is not installed; pip install jsonschema"):
        schema(path)


def test_logs_count_from_where_they_were(tmp_path: Path) -> None:
    """Only new lines count, a log begun anew counts whole, one that went is told."""
    path = tmp_path / "server.log"
    path.write_bytes(b"torch.OutOfMemoryError: old\n")
    seen = mark(path)
    assert seen.count() == 0
    with path.open("ab") as file:
        file.write(b"\xff\xfeCUDA out of memory. Tried to allocate\nfine\n")
    assert seen.count() == 1
    path.write_bytes(b"oom-kill\n")
    assert seen.count() == 1
    path.unlink()
    with pytest.raises(SourceError, match=r"server\.log"):
        seen.count()
    with pytest.raises(SourceError):
        mark(tmp_path)


def test_keys(tmp_path: Path) -> None:
    """A key comes from its file or the environment, and is one line of plain characters."""
    path = tmp_path / "key"
    path.write_text("abc\n")
    assert headers_of({"api_key_file": path}, None) == {"Authorization": "Bearer abc"}
    assert headers_of({"api_key_file": None}, None) == {}
    path.write_text("")
    with pytest.raises(UsageError, match="it is empty"):
        headers_of({"api_key_file": path}, "other")
    with pytest.raises(UsageError, match="plain characters"):
        headers_of({"api_key_file": None}, "a\nb")


def test_classes_of_a_file(tmp_path: Path) -> None:
    """A file's own classes become cells of their own, or those that are asked for."""
    path = written(tmp_path / "mine.json", [{"text": "a", "class": "x"}, {"text": "b"}])
    assert sorted(prompts_of({"prompts": path, "classes": None})) == ["mine", "x"]
    assert list(prompts_of({"prompts": path, "classes": "x"})) == ["x"]


@asynccontextmanager
async def door_of(url: str) -> AsyncIterator[Door]:
    """Make a door to a server."""
    address, scraper = parse_address(url), Scraper(Endpoint(url=f"{url}/metrics", timeout=2.0))
    generator = Generator(address)
    try:
        async with generator.running():
            yield Door(
                side=Side.SPECULATIVE,
                name=address.authority,
                address=address,
                pages=scraper,
                generator=generator,
                clock=asyncio.get_running_loop().time,
            )
    finally:
        await scraper.close()


async def opened(door: Door, model: str | None = None) -> Pool:
    return await open_pool(door, Terms(model=""), PROMPTS[0], Brake(), model=model)


async def test_servers_that_do_not_say_who_they_are() -> None:
    """A server that names no model is refused, unless the model is named; so is one that fails."""
    async with (
        serving_engine(Engine(faults=Faults(keyed=True))) as keyed,
        door_of(keyed.url) as door,
    ):
        with pytest.raises(BaselineError, match="names no model; name it with --model"):
            await opened(door)
        assert (await opened(door, "stub")).model == "stub"
    async with serving_engine(Engine(faults=Faults(status=503))) as busy, door_of(busy.url) as door:
        with pytest.raises(BaselineError, match="does not answer /v1/completions: http 503"):
            await opened(door)
    async with (
        serving_engine(Engine(faults=Faults(no_usage=True))) as bare,
        door_of(bare.url) as door,
    ):
        pool = await opened(door)
        assert any("no usage" in note for note in pool.notes)
        assert (pool.speculates, pool.configured) == (False, False)


ZEROS = "".join(
    f"# TYPE vllm:{name}_total counter\n"
    f'vllm:{name}_total{{engine="0",model_name="stub"{more}}} 0.0\n'
    for name, more in (
        ("spec_decode_num_drafts", ""),
        ("spec_decode_num_draft_tokens", ""),
        ("spec_decode_num_accepted_tokens", ""),
        ("spec_decode_num_accepted_tokens_per_pos", ',position="0"'),
    )
)


async def test_a_server_that_drafted_nothing() -> None:
    """Series of positions without a draft are a server started with speculation that waits."""
    with contesting(plain(page_end=ZEROS)) as (url,):
        async with door_of(url) as door:
            pool = await opened(door)
    assert (pool.speculates, pool.configured) == (None, True)
    assert "drafted nothing" in pool.why


def body(document: Any) -> bytes:
    return answer(json.dumps(document).encode(), content_type="application/json")


def pool_at(server: RawServer, door: Door) -> Pool:
    return Pool(
        door=door,
        model="m",
        terms=Terms(model="m"),
        twin=None,
        facts={},
        speculates=None,
        configured=False,
        why="",
    )


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (body({"choices": [{"text": "good"}]}), "good"),
        (body({"choices": [{"text": "\ud800"}]}), None),
        (body({"choices": [{"text": 7}]}), None),
        (body({"choices": [7]}), None),
        (body({"choices": {}}), None),
        (body([]), None),
        (answer(b"[" * 100_000), None),
        (answer(b"<html>"), None),
        (answer(b"", status=500), None),
        (answer(b"", "Location: /elsewhere", status=302), None),
        (answer(b"x" * (9 << 20)), None),
    ],
)
async def test_texts(reply: bytes, text: str | None) -> None:
    """A whole answer is its text; whatever else comes is no answer and no traceback."""
    async with serving(reply) as server, door_of(server.url) as door:
        found = await collect(pool_at(server, door), PROMPTS, SAMPLING, Brake())
    assert found == (text, text)


async def test_a_stop_ends_the_sample() -> None:
    """Pulling the brake ends the answers under way and begins no other."""
    brake = Brake()
    async with serving(silent) as server, door_of(server.url) as door:
        asking = asyncio.create_task(collect(pool_at(server, door), PROMPTS * 3, SAMPLING, brake))
        await until(lambda: len(server.requests) == 4)
        brake.event.set()
        assert await asking == (None,) * 6


def test_prompts_that_do_not_fit() -> None:
    """Long prompts are left out by the model's context; where none is left it is said."""
    contest = Contest(
        loads=named_loads("1"),
        temperatures=(0.0,),
        classes=("x",),
        lengths=Lengths(low=8, high=16),
        repeats=2,
        window=1.0,
        warmup=0.0,
        seed=0,
        salt="s",
    )
    sets = {"x": PromptSet(name="x", prompts=(Prompt(text="a"), Prompt(text="b" * 900)))}
    arena = Arena(contest=contest, prompts=sets, brake=Brake(), clock=lambda: 0.0)
    assert arena.fitted(None) is arena
    assert len(arena.fitted(128).prompts["x"].prompts) == 1
    with pytest.raises(UsageError, match=r"no prompt of x fits beside so many in the model's 70"):
        arena.fitted(70)


def test_differing_texts_are_told() -> None:
    """Pools that differ more than the baseline from itself are worth a look, and it is said."""
    words = [f"word {n}" for n in range(9)]
    other = [f"wort {n}" for n in range(9)]
    itself = compare_texts(words, words)
    quality = {
        "x": Quality(between=compare_texts(words, other), itself=itself),
        "y": Quality(between=compare_texts([], []), failed=4),
    }
    outcome = decide([], Thresholds(), quality=quality)
    other_blocks = Difference(
        field="hardware.kv_blocks", baseline="many", speculative=1, expected=True
    )
    report = Report(
        outcome=outcome,
        terms=Thresholds(),
        created="",
        created_by="",
        partial=True,
        likeness=Likeness(differences=(other_blocks,), not_compared=()),
    )
    lines = "\n".join(conclusion(report))
    assert "x: greedy answers equal in both pools: 0 of 9, parting at character 3" in lines
    assert "x: the pools differ more than the baseline from itself" in lines
    assert "y: greedy answers equal in both pools: none compared" in lines
    assert "y: 4 requests of the sample were not answered with a text" in lines
    assert "x: 0 requests" not in lines
    assert "Partial" in lines
    assert "hardware.kv_blocks: many and 1 (expected: the draft's memory)" in lines


def test_every_class_is_told() -> None:
    """With several classes each has its decision in the report."""
    load = named_loads("8")[0]
    missing = [CellKey(load=load, traffic_class=name) for name in ("chat", "code")]
    outcome = decide([], Thresholds(), missing=missing)
    report = Report(outcome=outcome, terms=Thresholds(), created="", created_by="")
    lines = list(conclusion(report))
    assert lines[:2] == [
        "chat: undecided (not_enough_known)",
        "code: undecided (not_enough_known)",
    ]


def test_a_page_without_its_cache() -> None:
    """A page that says nothing of its cache leaves those fields out."""
    page = Reader().read(ZEROS.encode())
    assert all_facts(page, "stub") == {
        "engine.name": "vllm",
        "model.name": "stub",
        "parallelism.data": 1,
    }
