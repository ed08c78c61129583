"""A replay of a real server's answers tells how often the server itself accepted its n-grams.

The server is started for this alone: no other test keeps what it answers.
"""

import json
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest
from tests.vllm.client import prompts
from tests.vllm.engine import MODEL_NAME, MODELS, Engine
from tests.vllm.episode import LOOKUP, NGRAM
from tests.vllm.pages import get, read
from tests.vllm.series import THEIRS

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]

REQUESTS = 24
CLOSE = 0.05
ROUGH = 0.25
LOOKUPS = (
    *("--num-speculative-tokens", str(LOOKUP["num_speculative_tokens"])),
    *("--lookup-min", str(LOOKUP["prompt_lookup_min"])),
    *("--lookup-max", str(LOOKUP["prompt_lookup_max"])),
)


def replayed(page: Path, prompts: Path, *flags: str) -> tuple[float, float, float]:
    """Ask the command what a replay accepts: its ratio, its length, its drafts."""
    command = [sys.executable, "-m", "specgauge", "advise", "--json", str(page), *LOOKUPS]
    command += ["--prompts", str(prompts), *flags]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    found = json.loads(ran.stdout)["models"][0]["ngram"]
    return found["acceptance_ratio"], found["acceptance_length"], found["drafts"]


def test_the_replay_accepts_what_the_engine_accepted(vllm_python: Path, tmp_path: Path) -> None:
    """From the engine's own tokens come its counters; from the text alone roughly these."""
    engine = Engine(python=vllm_python, log=tmp_path / "log", speculative=NGRAM.speculative)
    tokens, texts, page = (tmp_path / name for name in ("tokens", "texts", "page"))
    try:
        engine.start()
        with tokens.open("w") as exact, texts.open("w") as plain:
            for prompt in islice(prompts(), REQUESTS):
                asked = {"model": MODEL_NAME, "prompt": prompt, "temperature": 0}
                asked |= {"max_tokens": 96, "ignore_eos": True, "return_token_ids": True}
                _, body = get(engine.url, "/v1/completions", json.dumps(asked))
                answer = json.loads(body)["choices"][0]
                exact.write(json.dumps(answer) + "\n")
                plain.write(json.dumps({"prompt": prompt, "output": answer["text"]}) + "\n")
        seen = read(get(engine.url, "/metrics")[1])
    finally:
        engine.kill()
    page.write_text(seen.text)
    drafts, drafted, accepted = (
        seen.total(THEIRS[name]) for name in ("drafts", "draft_tokens", "accepted_tokens")
    )
    truth = pytest.approx((accepted / drafted, 1 + accepted / drafts, drafts), rel=CLOSE)
    assert replayed(page, tokens) == truth
    rough = pytest.approx((accepted / drafted, 1 + accepted / drafts, drafts), rel=ROUGH)
    assert replayed(page, texts, "--tokenizer", str(MODELS / "target")) == rough
