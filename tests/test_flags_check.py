"""What a release makes of a speculative_config, found out without the engine."""

import json
from typing import Any

import pytest

from specgauge.preflight.flags.check import check_config, check_flags
from specgauge.preflight.flags.command import read_command
from specgauge.preflight.flags.finding import Code, Severity
from specgauge.preflight.flags.gather import gather
from specgauge.preflight.flags.literal import read_config
from specgauge.preflight.flags.release import read_release
from specgauge.preflight.flags.surface import load_surface

SURFACE = load_surface()
NEWEST = "0.33.0"
NGRAM = {
    "method": "ngram",
    "num_speculative_tokens": 4,
    "prompt_lookup_max": 4,
    "prompt_lookup_min": 2,
}
DRAFT = {"method": "draft_model", "model": "D", "num_speculative_tokens": 3}
EAGLE3 = {"method": "eagle3", "model": "D", "num_speculative_tokens": 3}
SYNTHETIC = {**DRAFT, "rejection_sample_method": "synthetic"}
ON = (Code.SYNTHETIC_ACCEPTANCE_ON, Severity.SEVERE, "rejection_sample_method")
SCHEDULE = "num_speculative_tokens_per_batch_size"
WIDTH = "draft_tensor_parallel_size"

Seen = tuple[Code, Severity, str]


def check(config: dict[str, Any], release: str = NEWEST, **sizes: int) -> list[Seen]:
    """Check a configuration; gives code, severity and subject of what is found."""
    around = {f"--{name.replace('_', '-')}": size for name, size in sizes.items()}
    found = check_config(config, SURFACE, read_release(release), around if sizes else None)
    return [(one.code, one.severity, one.subject) for one in found]


def error(code: Code, subject: str) -> Seen:
    """Write down an error."""
    return code, Severity.ERROR, subject


def warning(code: Code, subject: str) -> Seen:
    """Write down a warning."""
    return code, Severity.WARNING, subject


def info(code: Code, subject: str) -> Seen:
    """Write down what is worth knowing."""
    return code, Severity.INFO, subject


CASES: dict[str, tuple[dict[str, Any], str, list[Seen]]] = {
    "ngram": (NGRAM, NEWEST, []),
    "draft": (DRAFT, NEWEST, []),
    "eagle3": (EAGLE3, NEWEST, []),
    "a null is nothing": ({**NGRAM, "revision": None, "rejection_sample_method": None}, NEWEST, []),
    "a default is nothing": ({**NGRAM, "draft_sample_method": "greedy"}, NEWEST, []),
    "mtp": ({"method": "mtp", "num_speculative_tokens": 1}, NEWEST, []),
    "suffix": (
        {"method": "suffix"},
        NEWEST,
        [info(Code.K_FROM_MODEL, "num_speculative_tokens"), info(Code.NEEDS_PACKAGE, "method")],
    ),
    "a number of MTP layers": (
        {"method": "mtp", "num_speculative_tokens": 3},
        NEWEST,
        [warning(Code.MTP_N_PREDICT, "num_speculative_tokens")],
    ),
    "a model's own k": (
        {"method": "mtp", "model": "D"},
        NEWEST,
        [warning(Code.K_FROM_MODEL, "num_speculative_tokens")],
    ),
    "an old name of mtp": (
        {"method": "deepseek_mtp", "num_speculative_tokens": 1},
        NEWEST,
        [info(Code.METHOD_RENAMED, "method")],
    ),
    "an old name of mtp where it is the name": (
        {"method": "deepseek_mtp", "num_speculative_tokens": 1},
        "0.9.0",
        [],
    ),
    "a name that may have come": (
        {"method": "kimi_k3_mtp", "num_speculative_tokens": 1},
        "0.27.0",
        [warning(Code.METHOD_UNSURE, "method")],
    ),
    "a name that came later": (
        {"method": "kimi_k3_mtp", "num_speculative_tokens": 1},
        "0.25.0",
        [error(Code.METHOD_NEWER, "method")],
    ),
    "a method misspelled": (
        {"method": "eagle33", "model": "D", "num_speculative_tokens": 3},
        NEWEST,
        [error(Code.METHOD_UNKNOWN, "method")],
    ),
    "a method like none": (
        {"method": "xxxxx", "model": "D", "num_speculative_tokens": 3},
        NEWEST,
        [error(Code.METHOD_UNKNOWN, "method")],
    ),
    "a method that is a number": (
        {"method": 5, "model": "D", "num_speculative_tokens": 3},
        NEWEST,
        [error(Code.VALUE_TYPE, "method")],
    ),
    "nothing that drafts": (
        {},
        NEWEST,
        [
            error(Code.MODEL_MISSING, "method"),
            error(Code.K_MISSING, "num_speculative_tokens"),
        ],
    ),
    "a draft without a name": (
        {"method": "eagle3", "num_speculative_tokens": 3},
        NEWEST,
        [error(Code.MODEL_MISSING, "model")],
    ),
    "a class without a path": (
        {"method": "custom_class", "num_speculative_tokens": 3},
        NEWEST,
        [error(Code.MODEL_MISSING, "model")],
    ),
    "a method by the draft's name": (
        {"model": "x/EAGLE3-y", "num_speculative_tokens": 3},
        NEWEST,
        [info(Code.METHOD_INFERRED, "method")],
    ),
    "a method by an import path": (
        {"model": "my.Proposer", "num_speculative_tokens": 3},
        NEWEST,
        [info(Code.METHOD_INFERRED, "method")],
    ),
    "a method by the name ngram": (
        {"model": "[ngram]", **{k: v for k, v in NGRAM.items() if k != "method"}},
        NEWEST,
        [
            warning(Code.WITHOUT_EFFECT, "model"),
            info(Code.METHOD_INFERRED, "method"),
        ],
    ),
    "eagle with an EAGLE-3 head": (
        {"method": "eagle", "model": "x/EAGLE3-y", "num_speculative_tokens": 3},
        NEWEST,
        [error(Code.EAGLE3_HEAD, "method")],
    ),
    "a key misspelled": (
        {**NGRAM, "prompt_lookup_mx": 3},
        NEWEST,
        [error(Code.UNKNOWN_KEY, "prompt_lookup_mx")],
    ),
    "a key like none": ({**NGRAM, "zzzzz": 3}, NEWEST, [error(Code.UNKNOWN_KEY, "zzzzz")]),
    "an old flag as a key": (
        {**DRAFT, "speculative_disable_by_batch_size": 3},
        NEWEST,
        [error(Code.UNKNOWN_KEY, "speculative_disable_by_batch_size")],
    ),
    "a key of the engine's own": (
        {**DRAFT, "target_model_config": 3},
        NEWEST,
        [error(Code.UNKNOWN_KEY, "target_model_config")],
    ),
    "the target's key": (
        {**DRAFT, "tensor_parallel_size": 1},
        NEWEST,
        [error(Code.WRONG_KEY, "tensor_parallel_size")],
    ),
    "a key that is gone": (
        {**DRAFT, "disable_by_batch_size": 8},
        "0.17.0",
        [error(Code.KEY_GONE, "disable_by_batch_size")],
    ),
    "a key that does nothing": (
        {**EAGLE3, "disable_by_batch_size": 8},
        "0.16.0",
        [warning(Code.WITHOUT_EFFECT, "disable_by_batch_size")],
    ),
    "a key that V0 obeys": ({**DRAFT, "disable_by_batch_size": 8}, "0.9.2", []),
    "a threshold of 1": (
        {**DRAFT, "disable_by_batch_size": 1},
        "0.9.2",
        [error(Code.BATCH_THRESHOLD, "disable_by_batch_size")],
    ),
    "a threshold that is none": (
        {**DRAFT, "disable_by_batch_size": "x"},
        "0.9.2",
        [error(Code.VALUE_TYPE, "disable_by_batch_size")],
    ),
    "a key to come": (
        {**DRAFT, "kv_cache_dtype": "auto"},
        "0.25.0",
        [error(Code.KEY_NEWER, "kv_cache_dtype")],
    ),
    "a dash": (
        {"method": "draft_model", "model": "D", "num-speculative-tokens": 3},
        "0.25.0",
        [error(Code.DASH_IN_KEY, "num-speculative-tokens")],
    ),
    "a dash that is read": (
        {"method": "draft_model", "model": "D", "num-speculative-tokens": 3},
        NEWEST,
        [],
    ),
    "k 0": (
        {**DRAFT, "num_speculative_tokens": 0},
        NEWEST,
        [error(Code.VALUE_RANGE, "num_speculative_tokens")],
    ),
    "k beyond all numbers": (
        {**DRAFT, "num_speculative_tokens": 10**30},
        NEWEST,
        [error(Code.VALUE_RANGE, "num_speculative_tokens")],
    ),
    "k beyond all bounds": (
        {**DRAFT, "num_speculative_tokens": 10**400},
        NEWEST,
        [error(Code.VALUE_TYPE, "num_speculative_tokens")],
    ),
    "k in words": (
        {**DRAFT, "num_speculative_tokens": "three"},
        NEWEST,
        [error(Code.VALUE_TYPE, "num_speculative_tokens")],
    ),
    "k in quotes": (
        {**DRAFT, "num_speculative_tokens": "3"},
        NEWEST,
        [warning(Code.VALUE_TYPE, "num_speculative_tokens")],
    ),
    "k true": (
        {**DRAFT, "num_speculative_tokens": True},
        NEWEST,
        [error(Code.VALUE_TYPE, "num_speculative_tokens")],
    ),
    "no text": ({**DRAFT, "revision": 5}, NEWEST, [error(Code.VALUE_TYPE, "revision")]),
    "text for no screen": (
        {**DRAFT, "revision": "\x1b[31m"},
        NEWEST,
        [error(Code.VALUE_TYPE, "revision")],
    ),
    "a flag as a number": (
        {**DRAFT, "parallel_drafting": 1},
        NEWEST,
        [warning(Code.VALUE_TYPE, "parallel_drafting")],
    ),
    "brackets that are refused": (
        {**NGRAM, "method": "[ngram]"},
        NEWEST,
        [error(Code.VALUE_UNKNOWN, "method")],
    ),
    "brackets that were taken": ({**NGRAM, "method": "[ngram]"}, "0.8.5", []),
    "no flag": (
        {**DRAFT, "parallel_drafting": 2},
        NEWEST,
        [error(Code.VALUE_TYPE, "parallel_drafting")],
    ),
    "a flag in quotes": (
        {**DRAFT, "parallel_drafting": "True"},
        NEWEST,
        [warning(Code.VALUE_TYPE, "parallel_drafting")],
    ),
    "no object": (
        {**DRAFT, "draft_load_config": "dummy"},
        NEWEST,
        [error(Code.VALUE_TYPE, "draft_load_config")],
    ),
    "an object": ({**DRAFT, "draft_load_config": {"load_format": "dummy"}}, NEWEST, []),
    "no number": (
        {"method": "suffix", "num_speculative_tokens": 4, "suffix_decoding_max_spec_factor": "x"},
        NEWEST,
        [
            error(Code.VALUE_TYPE, "suffix_decoding_max_spec_factor"),
            info(Code.NEEDS_PACKAGE, "method"),
        ],
    ),
    "numbers out of range": (
        {
            "method": "suffix",
            "num_speculative_tokens": 4,
            "suffix_decoding_max_spec_factor": -1,
            "suffix_decoding_min_token_prob": 1.5,
            "suffix_decoding_max_tree_depth": 0,
            "suffix_decoding_max_cached_requests": -1,
        },
        NEWEST,
        [
            error(Code.VALUE_RANGE, "suffix_decoding_max_spec_factor"),
            error(Code.VALUE_RANGE, "suffix_decoding_min_token_prob"),
            error(Code.VALUE_RANGE, "suffix_decoding_max_tree_depth"),
            error(Code.VALUE_RANGE, "suffix_decoding_max_cached_requests"),
            info(Code.NEEDS_PACKAGE, "method"),
        ],
    ),
    "a number in quotes": (
        {"method": "suffix", "num_speculative_tokens": 4, "suffix_decoding_max_spec_factor": "2"},
        NEWEST,
        [
            warning(Code.VALUE_TYPE, "suffix_decoding_max_spec_factor"),
            info(Code.NEEDS_PACKAGE, "method"),
        ],
    ),
    "a value of another release": (
        {**DRAFT, "rejection_sample_method": "strict"},
        NEWEST,
        [error(Code.VALUE_UNKNOWN, "rejection_sample_method")],
    ),
    "a value of no release": (
        {**DRAFT, "rejection_sample_method": ["standard"]},
        NEWEST,
        [error(Code.VALUE_UNKNOWN, "rejection_sample_method")],
    ),
    "lookup by default": (
        {"method": "ngram", "num_speculative_tokens": 4},
        NEWEST,
        [warning(Code.PROMPT_LOOKUP_DEFAULT, "prompt_lookup_max")],
    ),
    "lookup with one end": (
        {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 3},
        NEWEST,
        [info(Code.PROMPT_LOOKUP_DEFAULT, "prompt_lookup_min")],
    ),
    "lookup with the other end": (
        {"method": "ngram_gpu", "num_speculative_tokens": 4, "prompt_lookup_min": 3},
        NEWEST,
        [info(Code.PROMPT_LOOKUP_DEFAULT, "prompt_lookup_max")],
    ),
    "lookup the wrong way round": (
        {**NGRAM, "prompt_lookup_min": 5},
        NEWEST,
        [error(Code.PROMPT_LOOKUP_ORDER, "prompt_lookup_min")],
    ),
    "lookup that is none": (
        {**NGRAM, "prompt_lookup_min": "x"},
        NEWEST,
        [error(Code.VALUE_TYPE, "prompt_lookup_min")],
    ),
    "lookup for a draft": (
        {**DRAFT, "prompt_lookup_min": 5},
        NEWEST,
        [warning(Code.WITHOUT_EFFECT, "prompt_lookup_min")],
    ),
    "another vocabulary": ({**DRAFT, "use_heterogeneous_vocab": True}, NEWEST, []),
    "another vocabulary for a head": (
        {**EAGLE3, "use_heterogeneous_vocab": True},
        NEWEST,
        [error(Code.WRONG_METHOD, "use_heterogeneous_vocab")],
    ),
    "another vocabulary, sampled and reduced": (
        {
            **DRAFT,
            "use_heterogeneous_vocab": True,
            "draft_sample_method": "probabilistic",
            "use_local_argmax_reduction": True,
        },
        NEWEST,
        [
            error(Code.HETEROGENEOUS_VOCAB, "use_heterogeneous_vocab"),
            error(Code.HETEROGENEOUS_VOCAB, "use_heterogeneous_vocab"),
            warning(Code.WITHOUT_EFFECT, "use_local_argmax_reduction"),
        ],
    ),
    "faked by position": (
        {**SYNTHETIC, "synthetic_acceptance_rates": [0.8, 0.5, 0.5]},
        NEWEST,
        [ON],
    ),
    "faked by length": ({**SYNTHETIC, "synthetic_acceptance_length": 2.5}, NEWEST, [ON]),
    "faked once": ({**SYNTHETIC, "synthetic_acceptance_rate": 0.5}, "0.19.0", [ON]),
    "faked by neither": (
        SYNTHETIC,
        NEWEST,
        [error(Code.SYNTHETIC_SHAPE, "synthetic_acceptance_rates"), ON],
    ),
    "faked by both": (
        {
            **SYNTHETIC,
            "synthetic_acceptance_length": 2.5,
            "synthetic_acceptance_rates": [0.8, 0.6, 0.4],
        },
        NEWEST,
        [error(Code.SYNTHETIC_SHAPE, "synthetic_acceptance_rates"), ON],
    ),
    "faked and rising, for another k": (
        {**SYNTHETIC, "synthetic_acceptance_rates": [0.1, 0.5]},
        NEWEST,
        [
            error(Code.SYNTHETIC_SHAPE, "synthetic_acceptance_rates"),
            error(Code.SYNTHETIC_SHAPE, "synthetic_acceptance_rates"),
            ON,
        ],
    ),
    "faked beyond 1": (
        {**SYNTHETIC, "synthetic_acceptance_rates": [1.5, 0.5, "x"]},
        NEWEST,
        [error(Code.VALUE_RANGE, "synthetic_acceptance_rates"), ON],
    ),
    "faked by no list": (
        {**SYNTHETIC, "synthetic_acceptance_rates": 0.5},
        NEWEST,
        [error(Code.VALUE_TYPE, "synthetic_acceptance_rates"), ON],
    ),
    "faked for no k": (
        {
            "method": "mtp",
            "model": "D",
            "rejection_sample_method": "synthetic",
            "synthetic_acceptance_rates": [0.5],
        },
        NEWEST,
        [ON, warning(Code.K_FROM_MODEL, "num_speculative_tokens")],
    ),
    "faked too long": (
        {**SYNTHETIC, "synthetic_acceptance_length": 4.5},
        NEWEST,
        [error(Code.SYNTHETIC_SHAPE, "synthetic_acceptance_length"), ON],
    ),
    "faked without saying so": (
        {**DRAFT, "synthetic_acceptance_length": 2.5},
        NEWEST,
        [error(Code.SYNTHETIC_WITHOUT_METHOD, "synthetic_acceptance_length")],
    ),
    "fly": (
        {**DRAFT, "rejection_sample_method": "fly", "fly_window_size": 4},
        NEWEST,
        [warning(Code.LOSSY_ACCEPTANCE, "rejection_sample_method")],
    ),
    "fly without fly": (
        {**DRAFT, "fly_window_size": 4},
        NEWEST,
        [warning(Code.WITHOUT_EFFECT, "fly_window_size")],
    ),
    "typical acceptance": (
        {**DRAFT, "acceptance_method": "typical_acceptance_sampler"},
        "0.9.0",
        [warning(Code.LOSSY_ACCEPTANCE, "acceptance_method")],
    ),
    "a schedule": ({**DRAFT, SCHEDULE: [[1, 4, 3], [5, 8, 0]]}, NEWEST, []),
    "a schedule above k": (
        {**DRAFT, SCHEDULE: [[1, 4, 5]]},
        NEWEST,
        [warning(Code.SCHEDULE_CLIPPED, SCHEDULE)],
    ),
    "a schedule that not all obey": (
        {"method": "suffix", "num_speculative_tokens": 4, SCHEDULE: [[1, 4, 4]]},
        NEWEST,
        [warning(Code.SCHEDULE_IGNORED, SCHEDULE), info(Code.NEEDS_PACKAGE, "method")],
    ),
    "a schedule without k": (
        {"method": "mtp", "model": "D", SCHEDULE: [[1, 4, 4]]},
        NEWEST,
        [warning(Code.K_FROM_MODEL, "num_speculative_tokens")],
    ),
    "dspark's key": (
        {**DRAFT, "dspark_draft_topk": 4},
        NEWEST,
        [error(Code.WRONG_METHOD, "dspark_draft_topk")],
    ),
    "adaptive and reduced": (
        {**EAGLE3, "enable_adaptive_verification": True, "use_local_argmax_reduction": True},
        NEWEST,
        [
            error(Code.WRONG_METHOD, "enable_adaptive_verification"),
            warning(Code.WITHOUT_EFFECT, "enable_adaptive_verification"),
        ],
    ),
    "adaptive where it is": (
        {
            "method": "dspark",
            "num_speculative_tokens": 7,
            "enable_adaptive_verification": True,
            "use_local_argmax_reduction": True,
        },
        NEWEST,
        [],
    ),
    "a draft as wide as an unknown": (
        {**DRAFT, WIDTH: 2},
        NEWEST,
        [warning(Code.DRAFT_TENSOR_PARALLEL, WIDTH)],
    ),
    "a head of one": ({**EAGLE3, WIDTH: 1}, NEWEST, []),
    "a width for none": ({**NGRAM, WIDTH: 2}, NEWEST, [warning(Code.WITHOUT_EFFECT, WIDTH)]),
}


@pytest.mark.parametrize("case", CASES)
def test_a_configuration(case: str) -> None:
    """What is found is exactly this, the worst first."""
    config, release, wanted = CASES[case]
    assert sorted(check(config, release)) == sorted(wanted)
    severities = [list(Severity).index(severity) for _, severity, _ in check(config, release)]
    assert severities == sorted(severities)


WIDTHS = [
    pytest.param(DRAFT, 1, 4, NEWEST, True, id="a draft narrower than its target"),
    pytest.param(DRAFT, 1, 4, "0.9.2", False, id="a draft narrower, on V0"),
    pytest.param(DRAFT, 4, 4, NEWEST, False, id="a draft as wide"),
    pytest.param(EAGLE3, 1, 4, NEWEST, False, id="a head on one"),
    pytest.param(EAGLE3, 2, 4, NEWEST, True, id="a head on some"),
]


@pytest.mark.parametrize(("config", "width", "target", "release", "wrong"), WIDTHS)
def test_the_draft_is_as_wide_as_allowed(
    config: dict[str, Any], width: int, target: int, release: str, *, wrong: bool
) -> None:
    """1 or the target's width, and since drafts are V1's only the latter for a draft model."""
    found = check({**config, WIDTH: width}, release, tensor_parallel_size=target)
    assert found == ([error(Code.DRAFT_TENSOR_PARALLEL, WIDTH)] if wrong else [])


@pytest.mark.parametrize(
    ("release", "severity"), [(NEWEST, Severity.WARNING), ("0.25.0", Severity.SEVERE)]
)
def test_a_schedule_under_data_parallelism(release: str, severity: Severity) -> None:
    """Newer releases ignore it there; older ones may hang."""
    found = check({**DRAFT, SCHEDULE: [[1, 4, 3]]}, release, data_parallel_size=2)
    assert found == [(Code.SCHEDULE_IGNORED, severity, SCHEDULE)]


MALFORMED = {
    "no list": 5,
    "empty": [],
    "a pair": [[1, 8]],
    "text": [[1, "8", 3]],
    "true": [[1, True, 3]],
    "below 1": [[0, 8, 3]],
    "back to front": [[1, 0, 3]],
    "ends first": [[1, 4, 3], [9, 8, 3]],
    "negative k": [[1, 8, -1]],
    "overlap": [[1, 8, 3], [8, 9, 2]],
    "late": [[2, 8, 3]],
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_schedule_that_is_none(case: str) -> None:
    """The engine would stop at the first request; the check says what is wrong before."""
    found = check({**DRAFT, SCHEDULE: MALFORMED[case]})
    assert {code for code, _, _ in found} == {Code.SCHEDULE_MALFORMED}


LINES = {
    "nothing wrong": ("vllm serve T --spec-tokens 3 --port 1", NEWEST, set()),
    "old flags": (
        "vllm serve T --speculative-model D --use-v2-block-manager --num-lookahead-slots 3",
        NEWEST,
        {
            (Code.FLAG_GONE, "--speculative-model"),
            (Code.FLAG_GONE, "--use-v2-block-manager"),
            (Code.FLAG_GONE, "--num-lookahead-slots"),
        },
    ),
    "new flags": ("vllm serve T --spec-tokens 3", "0.20.0", {(Code.FLAG_NEWER, "--spec-tokens")}),
    "no flags": (
        "vllm serve T --speculative-method eagle",
        NEWEST,
        {(Code.NEVER_EXISTED, "--speculative-method")},
    ),
    "flags then": ("vllm serve T --speculative-model D --swap-space 1", "0.7.0", set()),
}


@pytest.mark.parametrize("case", LINES)
def test_flags_of_a_whole_command_line(case: str) -> None:
    """Flags that the release refuses are errors by name."""
    text, release, wanted = LINES[case]
    gathered = gather(read_command(text), SURFACE)
    found = check_flags(gathered, SURFACE, read_release(release))
    assert {(one.code, one.subject) for one in found} == wanted


GATHERED: dict[str, tuple[str, dict[str, Any]]] = {
    "lists by plus": (
        "-sc.synthetic_acceptance_rates+ 0.5,0.4 -sc.synthetic_acceptance_rates+=0.3",
        {"synthetic_acceptance_rates": [0.5, 0.4, 0.3]},
    ),
    "objects by dots": (
        "-sc.draft_load_config.load_format dummy -sc.draft_load_config.device cpu",
        {"draft_load_config": {"load_format": "dummy", "device": "cpu"}},
    ),
    "text where no JSON is": (
        "-sc.model NaN -sc.revision 1e999",
        {"model": "NaN", "revision": "1e999"},
    ),
    "numbers that are none": (
        "--num-speculative-tokens x --typical-acceptance-sampler-posterior-alpha nan",
        {"num_speculative_tokens": "x", "posterior_alpha": "nan"},
    ),
    "a switch with a word": (
        "--disable-logprobs-during-spec-decoding=false --speculative-disable-mqa-scorer",
        {"disable_logprobs": False, "disable_mqa_scorer": True},
    ),
    "a switch without": (
        "--disable-logprobs-during-spec-decoding --port 1",
        {"disable_logprobs": True},
    ),
    "a Python literal": (
        "-sc \"{'method': 'ngram', 'num_speculative_tokens': 3,}\"",
        {"method": "ngram", "num_speculative_tokens": 3},
    ),
}


@pytest.mark.parametrize("case", GATHERED)
def test_the_ways_to_say_it(case: str) -> None:
    """Dots, plus signs, switches and Python's spelling come to the same keys."""
    flags, wanted = GATHERED[case]
    assert dict(gather(read_command(f"vllm serve T {flags}"), SURFACE).config) == wanted


def test_a_key_that_stands_twice_is_seen() -> None:
    """JSON lets a key stand twice; the last one counts, and it is told."""
    written = read_config('{"method": "ngram", "method": "mtp"}')
    assert written.config == {"method": "mtp"}
    assert written.twice == ("method",)


def test_every_key_of_the_table_is_taken_by_the_newest_release_or_told_of() -> None:
    """No key of the table raises, whatever its value is."""
    for value in (None, True, -1, 0, 3, 0.5, "x", "3", [], [1], [[1, 2, 3]], {}, {"a": 1}):
        for release in ("0.8.2", "0.9.2", "0.16.0", "0.20.0", NEWEST):
            for key in SURFACE.keys:
                json.dumps(check({**DRAFT, key: value}, release))
                json.dumps(check({key: value}, release))
