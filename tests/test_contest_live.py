"""`compare` end to end against two stub servers of known pace, and one before and after."""

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.calm import ATTEMPTS
from tests.contested import Contestant, contesting, drafting, garbled, plain
from tests.stub_engine import Engine

from specgauge.cli.main import main

SHORT = [
    "--temperature", "0", "--classes", "extraction", "--output-tokens", "4-8", "--warmup", "30ms",
    "--samples", "0", "--repeats", "2", "--window", "200ms", "--load", "steady=2",
]  # fmt: skip


def run(urls: Sequence[str], *args: str) -> int:
    """Compare two pools with a short plan; later options override its own."""
    first, second = urls
    return main(["compare", "--baseline-url", first, "--speculative-url", second, *SHORT, *args])


def told(path: Path) -> Any:
    return json.loads(path.read_text())


def test_a_faster_pool_is_promoted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Steps of 3 ms instead of 9 are a speedup of about three, and answers stay as good."""
    output, schema = tmp_path / "compare.json", tmp_path / "schema.json"
    schema.write_text('{"type": "object", "required": ["about"]}')
    args = [
        "--repeats",
        "3",
        "--window",
        "200ms",
        "--warmup",  # in which the fast pool does more than the slow one does in all
        "130ms",
        "--samples",
        "3",
        "--schema",
        str(schema),
        "-o",
        str(output),
    ]
    for _ in range(ATTEMPTS):  # other work on the machine widens the intervals
        one, other = plain(0.009), drafting(0.003)
        with contesting(one, other) as urls:
            code = run(urls, *args)
        if code == 0:
            break
    found = told(output)
    (cell,) = found["cells"]
    assert (code, found["decision"], found["partial"]) == (0, "promote", False)
    assert (cell["verdict"], cell["repeats"], cell["load"]) == ("pays", 3, "steady")
    assert 1.5 <= cell["speedup"]["tpot_mean"]["value"] <= 6.0
    assert cell["pairs"] > 5
    client, server = cell["baseline"]["tpot_seconds"], cell["baseline"]["server"]
    assert server["tpot_seconds"] == pytest.approx(client["mean"], rel=0.5)
    assert cell["speculative"]["server"]["acceptance_ratio"] == 1.0
    assert cell["speculative"]["server"]["num_speculative_tokens"] == 1.0
    assert found["workload"]["loads"] == {"steady": 2}
    assert found["facts"]["baseline"]["engine.version"] == "0.25.1"
    quality = found["quality"]["extraction"]
    assert (quality["exact_match"]["share"], quality["pass_rate"]["speculative"]) == (1.0, 3)
    assert "Decision: promote" in capsys.readouterr().out
    same_prompts(one, other)


def same_prompts(one: Contestant, other: Contestant) -> None:
    """Hold what both pools were asked against each other."""
    loads = [
        [body for body in each.engine.bodies if body["prompt"].startswith("[")]
        for each in (one, other)
    ]
    prompts = [{body["prompt"]: body["max_tokens"] for body in bodies} for bodies in loads]
    common = prompts[0].keys() & prompts[1].keys()
    assert len(common) > 5
    measured = [text for text in common if "w-" not in text.partition("]")[0]]
    odd = [text for text in measured if prompts[0][text] != prompts[1][text]]
    assert len(measured) > 5
    assert len(odd) <= 6  # a stream may begin late, with part of a length
    assert len(prompts[0]) == len(loads[0])
    assert [body["prompt"] for body in one.sampled[:3]] == [
        body["prompt"] for body in other.sampled[:3]
    ]
    assert len(one.sampled) == 2 * len(other.sampled)


def test_garbled_answers_block(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A pool that is three times as fast and breaks every second JSON is kept off."""
    output = tmp_path / "compare.json"
    args = [
        "--samples",
        "10",
        "--validate",
        "grep -q '}$'",
        "-o",
        str(output),
        "--endpoint",
        "chat",
    ]
    with contesting(plain(), drafting(0.001, says=garbled)) as urls:
        assert run(urls, *args) == 1
    found = told(output)
    assert (found["decision"], found["why"]) == ("keep_off", "quality_fell")
    passes = found["quality"]["extraction"]["pass_rate"]
    assert (passes["baseline"], passes["speculative"], passes["why"]) == (10, 5, ["exit code 1"])
    assert found["quality"]["extraction"]["exact_match"]["share"] == 0.5
    text = capsys.readouterr().out
    assert "5 of 10 answers pass the check with speculation, 10 of 10 without" in text


def test_a_pool_that_dies_leaves_its_cells_named(tmp_path: Path) -> None:
    """What was measured before is kept; the cell it died in fails and the next is missing."""
    output = tmp_path / "compare.json"
    args = ["--load", "steady=2,burst=3", "-o", str(output)]
    with contesting(plain(), drafting(dies_after=25)) as urls:
        code = run(urls, *args)
    found = told(output)
    (cell,) = found["cells"]
    assert (code, found["decision"], found["partial"]) == (1, "keep_off", True)
    assert list(cell["died"]) == ["speculative"]
    assert [one["load"] for one in found["missing"]] == ["burst"]
    assert any("is gone" in note for note in found["notes"])
    assert "speculative_died" in {gate["reason"] for gate in cell["gates"]}


def longer(engine: Engine) -> Contestant:
    engine.faults.drafts = True
    return Contestant(engine=engine)


@pytest.mark.parametrize(
    ("pools", "says"),
    [
        (
            lambda: (plain(), longer(Engine(max_model_len=2048))),
            ["model.max_model_len: 4096 in the baseline pool, 2048 in the speculative pool"],
        ),
        (lambda: (drafting(), drafting()), ["the baseline pool", "speculates: it drafts tokens"]),
        (lambda: (plain(), plain()), ["does not speculate: its page has no series"]),
    ],
)
def test_pools_that_are_not_comparable(
    pools: Callable[[], tuple[Contestant, Contestant]],
    says: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Unequal pools are refused before any load, with every field and both of its values."""
    made = pools()
    with contesting(*made) as urls:
        assert run(urls) == 2
    seen = capsys.readouterr().err
    assert [one for one in says if one not in seen] == []
    assert all(len(one.engine.bodies) == 1 for one in made)


def test_differences_may_be_allowed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A field or all of them can be taken; a pool without a page is compared by its streams."""
    output = tmp_path / "compare.json"
    short = longer(Engine(max_model_len=2048, step_seconds=lambda _: 0.0015))
    short.engine.faults.refuses_extras = True
    short.engine.faults.page_gone = True
    with contesting(plain(), short) as urls:
        allow = ["--allow", "model.max_model_len", "-o", str(output), "--markdown",
                 str(tmp_path / "r.md")]  # fmt: skip
        assert run(urls, *allow) in {0, 1, 4}
        assert run(urls, "--allow-differences", "--model", "other") == 2
        assert "no model 'other'" in capsys.readouterr().err
    found = told(output)
    assert found["differences"][0]["field"] == "model.max_model_len"
    assert "only one pool understands ignore_eos: it is asked of neither" in found["notes"]
    assert "(allowed)" in (tmp_path / "r.md").read_text()
    assert found["cells"][0]["speculative"]["server"] == {}
    assert found["cells"][0]["speedup"]["tpot_mean"]["value"] > 0.0
    assert any("whether it speculates was not checked" in note for note in found["notes"])


def test_one_server_before_and_after(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run is kept, and later the same plan runs against it; another plan is refused."""
    before, output = tmp_path / "before.json", tmp_path / "compare.json"
    logs = tmp_path / "server.log"
    logs.write_text("torch.OutOfMemoryError: of yesterday\n")
    with contesting(plain(0.006)) as (url,):
        args = ["--url", url, "--save", str(before), *SHORT, "--samples", "2", "--endpoint", "chat"]
        assert main(["compare", *args, "--baseline-log", str(logs)]) == 0
    after = ["compare", "--against", str(before), "-o", str(output), "--url"]
    with contesting(drafting(0.002)) as (url,):
        assert main([*after, url, "--speculative-log", str(logs)]) in {0, 4}
        assert main([*after, url, "--window", "2s"]) == 2
        assert "--window: with --against" in capsys.readouterr().err
        assert main([*after, url, "--classes", "code"]) == 2
        assert "not those of the saved run" in capsys.readouterr().err
    found = told(output)
    assert found["cells"][0]["speedup"]["tpot_mean"]["value"] > 1.0
    assert found["cells"][0]["speculative"]["out_of_memory"] == 0
    assert found["quality"]["extraction"]["exact_match"]["of"] == 2
    with contesting(plain()) as (url,):
        assert main([*after, url]) == 2


def test_ctrl_c_keeps_what_was_measured(tmp_path: Path) -> None:
    """An interrupt ends the bout under way; the repeats before it are in the file, as partial."""
    output = tmp_path / "compare.json"
    other = drafting()

    def interrupt() -> None:
        deadline = time.monotonic() + 30.0
        while not second_repeat(other) and time.monotonic() < deadline:
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    with contesting(plain(0.009), other) as urls:
        thread = threading.Thread(target=interrupt)
        thread.start()
        code = run(urls, "--repeats", "5", "-o", str(output))
        thread.join()
    found = told(output)
    assert (code, found["partial"], found["decision"]) == (130, True, "undecided")
    assert found["cells"][0]["pairs"] > 0


def test_ctrl_c_before_anything_is_measured() -> None:
    """An interrupt while a server is still tried ends as any command that was stopped."""
    one = plain()
    one.engine.faults.stall = True

    def interrupt() -> None:
        while not one.engine.bodies:
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    with contesting(one, drafting()) as urls:
        thread = threading.Thread(target=interrupt)
        thread.start()
        code = run(urls)
        thread.join()
    assert code == 130


def second_repeat(pool: Contestant) -> bool:
    """Tell whether a pool was asked anything of its second repeat."""
    return any("-2-0-1" in body["prompt"][:30] for body in pool.engine.bodies)


def test_a_server_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    """A pool that nobody serves ends the command with its address and exit code 3."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with contesting(plain()) as (there,):
            assert run([there, url]) == 3
    assert url in capsys.readouterr().err
