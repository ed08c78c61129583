"""`compare` on a real server before and after speculation is switched on.

It may not start more than one server at a time.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.vllm.engine import Engine
from tests.vllm.episode import NGRAM

from specgauge.cli.main import main

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]

PLAN = [
    "--temperature", "0", "--classes", "extraction", "--output-tokens", "16-64", "--window", "4s",
    "--load", "steady=1,burst=4", "--warmup", "1s", "--samples", "5",
]  # fmt: skip


def test_one_server_before_and_after(vllm_python: Path, tmp_path: Path) -> None:
    """The two runs are of one server but for speculation, and client and page agree on the gain."""
    before, output, log = (tmp_path / name for name in ("before.json", "now.json", "engine.log"))
    plain = Engine(python=vllm_python, log=log)
    try:
        plain.start()
        assert main(["compare", "--url", plain.url, "--save", str(before), *PLAN]) == 0
        refused = ["compare", "--url", plain.url, "--against", str(before)]
        assert main(refused) == 2
    finally:
        plain.kill()
    ngram = Engine(python=vllm_python, log=log, speculative=NGRAM.speculative)
    try:
        ngram.start()
        args = ["--against", str(before), "-o", str(output)]
        assert main(["compare", "--url", ngram.url, *args]) in {0, 1, 4}
        assert main(["compare", "--url", ngram.url, "--save", str(tmp_path / "x"), *PLAN]) == 2
    finally:
        ngram.kill()
    found = json.loads(output.read_text())
    assert [one for one in found["differences"] if not one["expected"]] == []
    assert [cell["load"] for cell in found["cells"]] == ["steady", "burst"]
    for cell in found["cells"]:
        assert_sound(cell)
    match = found["quality"]["extraction"]
    assert (match["exact_match"]["of"], match["baseline_against_itself"]["of"]) == (5, 5)


def assert_sound(cell: dict[str, Any]) -> None:
    """Hold what the client measured of a cell against the server's own word."""
    one, two = cell["baseline"], cell["speculative"]
    for side in (one, two):
        told = side["server"]["tpot_seconds"]
        assert side["tpot_seconds"]["mean"] == pytest.approx(told, rel=0.6)
    assert (one["failed_requests"], two["failed_requests"]) == (0, 0)
    assert cell["pairs"] >= 6
    assert two["server"]["drafts"] > 0
    assert 0.0 < two["server"]["acceptance_ratio"] <= 1.0
