"""Translated command lines are what the engine's own parser and validator accept.

It starts no server: one process for each release reads all lines.
"""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.flag_lines import LINES
from tests.vllm.engine import MODELS, SETTINGS

from specgauge.preflight.flags.check import check_config
from specgauge.preflight.flags.command import read_command
from specgauge.preflight.flags.finding import Severity
from specgauge.preflight.flags.release import Release, read_release
from specgauge.preflight.flags.show import show_method
from specgauge.preflight.flags.surface import load_surface
from specgauge.preflight.flags.translate import translate

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]

SURFACE = load_surface()
OLD = "VLLM_TEST_ENV_OLD"
# What the validator cannot judge here: packages that are not there, models that are not these.
PARSED_ONLY = frozenset({"suffix", "deepseek_mtp", "--speculative-model-quantization"})
# What the engine refuses at its validator, and our check with it.
REFUSED: Mapping[str, Mapping[str, object]] = {
    "unknown key": {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_mx": 4},
    "key of an old release": {
        "method": "ngram",
        "num_speculative_tokens": 3,
        "disable_by_batch_size": 8,
    },
    "unknown method": {"method": "ngramm", "num_speculative_tokens": 3},
    "a method in brackets": {"method": "[ngram]", "num_speculative_tokens": 3},
    "no k": {"method": "ngram"},
    "k 0": {"method": "ngram", "num_speculative_tokens": 0},
    "k no number": {"method": "ngram", "num_speculative_tokens": "many"},
    "lookup order": {
        "method": "ngram",
        "num_speculative_tokens": 3,
        "prompt_lookup_min": 5,
        "prompt_lookup_max": 2,
    },
    "no draft": {"method": "eagle3", "num_speculative_tokens": 3},
    "strict": {
        "method": "ngram",
        "num_speculative_tokens": 3,
        "rejection_sample_method": "strict",
    },
    "rates without synthetic": {
        "method": "ngram",
        "num_speculative_tokens": 3,
        "synthetic_acceptance_rates": [0.5, 0.4, 0.3],
    },
    "rates that rise": {
        "method": "ngram",
        "num_speculative_tokens": 3,
        "rejection_sample_method": "synthetic",
        "synthetic_acceptance_rates": [0.3, 0.4, 0.5],
    },
    "rates for another k": {
        "method": "ngram",
        "num_speculative_tokens": 3,
        "rejection_sample_method": "synthetic",
        "synthetic_acceptance_rates": [0.3],
    },
    "another vocabulary without a draft": {
        "method": "ngram",
        "num_speculative_tokens": 3,
        "use_heterogeneous_vocab": True,
    },
    "sampled drafts of another vocabulary": {
        "method": "draft_model",
        "model": "{draft}",
        "num_speculative_tokens": 3,
        "use_heterogeneous_vocab": True,
        "draft_sample_method": "probabilistic",
    },
    "a draft as wide as nothing": {
        "method": "draft_model",
        "model": "{draft}",
        "num_speculative_tokens": 3,
        "draft_tensor_parallel_size": 2,
    },
    "the target's width": {
        "method": "draft_model",
        "model": "{draft}",
        "num_speculative_tokens": 3,
        "tensor_parallel_size": 1,
    },
    "dspark's key": {
        "method": "draft_model",
        "model": "{draft}",
        "num_speculative_tokens": 3,
        "dspark_draft_topk": 4,
    },
    "a schedule of pairs": {
        "method": "ngram",
        "num_speculative_tokens": 3,
        "num_speculative_tokens_per_batch_size": [[1, 8]],
    },
}


def models(folder: Path) -> dict[str, str]:
    """Name the models that lines are filled with; an EAGLE-3 head is a config of its own here."""
    head = folder / "eagle3-head"
    head.mkdir()
    config = json.loads((MODELS / "draft" / "config.json").read_text())
    config["architectures"] = ["LlamaForCausalLMEagle3"]
    config["draft_vocab_size"] = config["vocab_size"]
    (head / "config.json").write_text(json.dumps(config))
    return {
        "target": str(MODELS / "target"),
        "draft": str(MODELS / "draft"),
        "eagle3": str(head),
    }


def ask(python: Path, lines: Mapping[str, Mapping[str, object]]) -> dict[str, str | None]:
    """Have one process of the engine's interpreter answer for all lines."""
    done = subprocess.run(
        [python, Path(__file__).with_name("parse_lines.py")],
        input=json.dumps(list(lines.values())),
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env={**os.environ, **SETTINGS, "VLLM_LOGGING_LEVEL": "ERROR"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answers = json.loads(done.stdout.strip().splitlines()[-1])
    return dict(zip(lines, answers, strict=True))


def release_of(python: Path) -> Release:
    """Read which release an environment holds, from what pip wrote down."""
    found = sorted(python.parents[1].glob("lib/python3*/site-packages/vllm*.dist-info"))
    assert found, f"no vLLM beside {python}"
    return read_release(found[0].name.removesuffix(".dist-info").rpartition("-")[2])


@pytest.fixture(params=["VLLM_TEST_ENV", OLD])
def python(request: pytest.FixtureRequest) -> Path:
    """Return the interpreter of a release; the second is left out where there is none."""
    if request.param == "VLLM_TEST_ENV":
        return Path(request.getfixturevalue("vllm_python"))
    if not os.environ.get(OLD):
        pytest.skip(f"{OLD} names no environment of an older release")
    return Path(os.environ[OLD], "bin", "python")


def test_the_engine_agrees_with_translations_and_checks(python: Path, tmp_path: Path) -> None:
    """What is translated or shown starts, and what the check refuses the engine refuses too."""
    release, named = release_of(python), models(tmp_path)
    lines: dict[str, Mapping[str, object]] = {}
    untold = []
    for name, old in LINES.items():
        done = translate(read_command(old.text.format(**named)), SURFACE, release)
        if done.command is None:
            untold.append(name)
            continue
        again = read_command(done.command)  # as a shell would hand it over
        arguments = [one.value for one in again.arguments]
        assert arguments == list(done.arguments)
        wide = "playbook" in name
        lines[name] = {"arguments": arguments, "builds": name not in PARSED_ONLY and not wide}
    for method, draft in (("ngram", None), ("draft_model", "draft"), ("eagle3", "eagle3")):
        shown = show_method(
            method, SURFACE, release, target=named["target"], draft=named.get(draft or "")
        )
        lines[f"show {method}"] = {"arguments": list(shown.arguments), "builds": True}
    wrong = []
    for name, config in REFUSED.items():
        text = json.dumps(config).replace("{draft}", named["draft"])
        found = check_config(json.loads(text), SURFACE, release, {})
        if not any(one.severity is Severity.ERROR for one in found):
            wrong.append(name)
        arguments = [named["target"], "--speculative-config", text]
        lines[f"refused: {name}"] = {"arguments": arguments, "builds": True}
    answers = ask(python, lines)
    accepted = {name: said for name, said in answers.items() if not name.startswith("refused: ")}
    assert {name: said for name, said in accepted.items() if said is not None} == {}
    refused = [name for name, said in answers.items() if name.startswith("refused: ") and not said]
    assert refused == []
    assert wrong == []
    assert untold == []
