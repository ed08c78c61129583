"""What becomes of old command lines: translated, and everything that changed is said."""

import json
from collections.abc import Mapping

import pytest
from tests.flag_lines import LINES, PLAYBOOK_EAGLE, PLAYBOOK_YAML

from specgauge.preflight.flags.command import Entry, from_mapping, read_command
from specgauge.preflight.flags.finding import Code, Severity
from specgauge.preflight.flags.read import mapping_of
from specgauge.preflight.flags.release import Release, read_release
from specgauge.preflight.flags.show import show_method
from specgauge.preflight.flags.surface import load_surface
from specgauge.preflight.flags.translate import Translation, translate
from specgauge.preflight.flags.words import split

SURFACE = load_surface()
NEWEST = "0.33.0"
NAMED = {"target": "T", "draft": "D", "eagle3": "eagle3-head"}
OLDER = ["0.28.0", "0.25.1", "0.24.0", "0.22.0", "0.21.0", "0.20.2", "0.18.0", "0.16.0", "0.15.0"]


def to(text: str, release: str = NEWEST, **terms: str) -> Translation:
    """Translate a command line to a release."""
    source = terms.pop("source", None)
    return translate(
        read_command(text),
        SURFACE,
        read_release(release),
        source=read_release(source) if source else None,
        **terms,
    )


def codes(done: Translation, severity: Severity | None = None) -> set[tuple[str, str]]:
    """Give what was found as pairs of code and subject."""
    return {(one.code, one.subject) for one in done.findings if severity in {None, one.severity}}


def errors(done: Translation) -> set[tuple[str, str]]:
    """Give what could not be said to the release."""
    return codes(done, Severity.ERROR)


def config(text: str) -> str:
    """Write a command line with a speculative_config."""
    return f"vllm serve T --speculative-config '{text}'"


def written(value: object) -> object:
    """Fill in the names of models."""
    return json.loads(json.dumps(value).replace("{draft}", "D").replace("{eagle3}", "eagle3-head"))


@pytest.mark.parametrize("name", LINES)
def test_every_flag_and_key_is_translated(name: str) -> None:
    """What an old line says of speculation is said in one configuration of the newest release."""
    old = LINES[name]
    done = to(old.text.format(**NAMED))
    assert errors(done) == set()
    assert done.config == written(old.config)
    assert done.arguments[0] == "T"
    again = read_command(done.command or "")
    assert [one.value for one in again.arguments] == list(done.arguments)


@pytest.mark.parametrize("release", OLDER)
@pytest.mark.parametrize("name", LINES)
def test_other_releases_get_what_they_take_or_an_error_by_name(name: str, release: str) -> None:
    """No release is handed a key it has not: the key is named, and no command line comes out."""
    done = to(LINES[name].text.format(**NAMED), release)
    there = {key.name for key in SURFACE.keys_of(read_release(release))}
    told = {subject for _, subject in errors(done)}
    assert set(done.config) - there <= told
    assert (done.command is None) == bool(told)


def test_every_flag_of_the_table_has_a_line() -> None:
    """The lines above leave out no flag and no key that can be gone."""
    text = "\n".join(line.text.replace("_", "-") for line in LINES.values())
    known = [*SURFACE.flags, *(key.replace("_", "-") for key in SURFACE.gone)]
    assert [name for name in known if name not in text and "spec-decode" not in name] == []


def test_the_playbook_is_read_as_it_was_meant() -> None:
    """A flag that never existed, a head under the wrong method, and a flag that is gone."""
    done = to(PLAYBOOK_EAGLE.format(**NAMED))
    assert {
        (Code.NEVER_EXISTED, "--speculative-method"),
        (Code.EAGLE3_HEAD, "method"),
        (Code.VANISHED, "--use-v2-block-manager"),
        (Code.RENAMED, "python -m"),
        (Code.ENGINE_CHANGED, "engine"),
    } <= codes(done)
    assert done.command == (
        "vllm serve T \\\n"
        "  --speculative-config '"
        '{"method": "eagle3", "model": "eagle3-head", "num_speculative_tokens": 5}'
        "' \\\n"
        "  --tensor-parallel-size 4 \\\n"
        "  --gpu-memory-utilization 0.92 \\\n"
        "  --max-model-len 4096 \\\n"
        "  --port 8000"
    )


def test_the_playbooks_file_wants_a_draft() -> None:
    """Its YAML names no draft, so nothing starts; with one it does, and drafts as wide as told."""
    command = from_mapping(mapping_of(PLAYBOOK_YAML, place="p"))
    release = read_release(NEWEST)
    bare = translate(command, SURFACE, release)
    assert errors(bare) == {(Code.MODEL_MISSING, "method")}
    assert (Code.NO_TARGET, "model") in codes(bare)
    whole = translate(command, SURFACE, release, model="T", draft="D")
    assert whole.command is not None
    assert whole.config == {
        "method": "draft_model",
        "model": "D",
        "num_speculative_tokens": 5,
        "draft_tensor_parallel_size": 1,
        "num_speculative_tokens_per_batch_size": [[1, 7, 5], [8, 1024, 0]],
    }


CHANGES = {
    "the sampler is gone": (
        config(
            '{"model": "D", "num_speculative_tokens": 3, "acceptance_method": '
            '"typical_acceptance_sampler"}'
        ),
        NEWEST,
        {(Code.SAMPLER_GONE, "acceptance_method"), (Code.METHOD_INFERRED, "method")},
    ),
    "a method by its old name": (
        config('{"method": "[ngram]", "num_speculative_tokens": 3}'),
        "0.6.0",
        {
            (Code.METHOD_RENAMED, "method"),
            (Code.RENAMED, "--speculative-config"),
            (Code.PROMPT_LOOKUP_DEFAULT, "prompt_lookup_max"),
        },
    ),
    "strict is standard": (
        config(
            '{"method": "draft_model", "model": "D", "num_speculative_tokens": 3, '
            '"rejection_sample_method": "strict"}'
        ),
        NEWEST,
        {(Code.VALUE_CHANGED, "rejection_sample_method")},
    ),
    "a threshold that V1 never obeyed": (
        config(
            '{"method": "eagle3", "model": "D", "num_speculative_tokens": 3, '
            '"disable_by_batch_size": 8}'
        ),
        "0.16.0",
        {(Code.WITHOUT_EFFECT, "disable_by_batch_size")},
    ),
    "a threshold with nothing in its place": (
        config(
            '{"method": "eagle3", "model": "D", "num_speculative_tokens": 3, '
            '"disable_by_batch_size": 8}'
        ),
        "0.20.0",
        {(Code.VANISHED, "disable_by_batch_size")},
    ),
    "a threshold under data parallelism": (
        (
            "vllm serve T -dp 2 --speculative-model D --num-speculative-tokens 3 "
            "--speculative-disable-by-batch-size 8"
        ),
        NEWEST,
        {(Code.SCHEDULE_IGNORED, "disable_by_batch_size")},
    ),
    "a schedule under data parallelism": (
        (
            'vllm serve T --data-parallel-size=2 -sc \'{"method": "ngram", '
            '"num_speculative_tokens": 3, "num_speculative_tokens_per_batch_size": [[1, 8, 3]], '
            '"prompt_lookup_max": 3, "prompt_lookup_min": 3}\''
        ),
        NEWEST,
        {(Code.SCHEDULE_IGNORED, "num_speculative_tokens_per_batch_size")},
    ),
    "a draft as wide as its target": (
        (
            "vllm serve T -tp 4 --speculative-model D --num-speculative-tokens 3 "
            "--speculative-draft-tensor-parallel-size 1"
        ),
        NEWEST,
        {(Code.VALUE_CHANGED, "draft_tensor_parallel_size")},
    ),
    "an engine chosen where there is one": (
        f"export VLLM_USE_V1=1 && {config('{}')}".replace(
            "{}",
            '{"method": "ngram", '
            '"num_speculative_tokens": 3, "prompt_lookup_max": 3, "prompt_lookup_min": 2}',
        ),
        NEWEST,
        {(Code.VANISHED, "VLLM_USE_V1")},
    ),
    "a switch that took a word": (
        "vllm serve T --enable-chunked-prefill False",
        NEWEST,
        {(Code.VALUE_CHANGED, "--enable-chunked-prefill"), (Code.NO_SPECULATION, "command")},
    ),
    "a switch left on": (
        "vllm serve T --enable-prefix-caching=true",
        NEWEST,
        {(Code.VALUE_CHANGED, "--enable-prefix-caching"), (Code.NO_SPECULATION, "command")},
    ),
    "flags that no release has together": (
        (
            "vllm serve T --speculative-model D --num-speculative-tokens 3 "
            "--per-request-spec-decode-metrics summary"
        ),
        NEWEST,
        {
            (
                Code.MIXED_RELEASES,
                "--speculative-model, --num-speculative-tokens, --per-request-spec-decode-metrics",
            )
        },
    ),
    "a flag nobody has": (
        "vllm serve T --speculative-modle D",
        NEWEST,
        {(Code.UNKNOWN_FLAG, "--speculative-modle"), (Code.NO_SPECULATION, "command")},
    ),
    "two configurations": (
        config('{"method": "medusa"}') + ' -sc \'{"method": "mtp"}\' --speculative-config '
        '\'{"method": "mtp", "num_speculative_tokens": 1, "num_speculative_tokens": 1}\'',
        NEWEST,
        {
            (Code.DUPLICATE_FLAG, "--speculative-config"),
            (Code.DUPLICATE_KEY, "num_speculative_tokens"),
            (Code.ALIAS_CONFLICT, "method"),
        },
    ),
}


@pytest.mark.parametrize("case", CHANGES)
def test_what_changes_is_said(case: str) -> None:
    """Each change of meaning stands in the findings under its name."""
    text, release, wanted = CHANGES[case]
    assert wanted <= codes(to(text, release))


IMPOSSIBLE: dict[str, tuple[str, str, set[tuple[str, str]]]] = {
    "medusa": (
        config('{"method": "medusa", "model": "D", "num_speculative_tokens": 3}'),
        NEWEST,
        {(Code.METHOD_GONE, "method")},
    ),
    "an MLP by its name": (
        "vllm serve T --speculative-model ibm/x-accelerator --num-speculative-tokens 3",
        NEWEST,
        {(Code.METHOD_GONE, "method")},
    ),
    "no draft model in between": (
        config('{"method": "draft_model", "model": "D", "num_speculative_tokens": 3}'),
        "0.12.0",
        {(Code.METHOD_GONE, "method")},
    ),
    "eagle3 before it": (
        config('{"method": "eagle3", "model": "D", "num_speculative_tokens": 3}'),
        "0.8.4",
        {(Code.METHOD_NEWER, "method")},
    ),
    "mtp before its name": (
        config('{"method": "mtp", "num_speculative_tokens": 1}'),
        "0.10.0",
        {(Code.METHOD_NEWER, "method")},
    ),
    "keys newer than the release": (
        config(
            '{"method": "draft_model", "model": "D", "num_speculative_tokens": 3, '
            '"use_heterogeneous_vocab": true, "moe_backend": "auto"}'
        ),
        "0.18.0",
        {(Code.KEY_NEWER, "use_heterogeneous_vocab"), (Code.KEY_NEWER, "moe_backend")},
    ),
    "a value newer than the release": (
        config(
            '{"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3, '
            '"rejection_sample_method": "fly"}'
        ),
        "0.32.0",
        {(Code.VALUE_UNKNOWN, "rejection_sample_method")},
    ),
    "a key with no flag": (
        config(
            '{"method": "draft_model", "model": "D", "num_speculative_tokens": 3, '
            '"revision": "main"}'
        ),
        "0.7.0",
        {(Code.KEY_NEWER, "revision")},
    ),
    "a flag newer than the release": (
        "vllm serve T --per-request-spec-decode-metrics summary",
        "0.28.0",
        {(Code.FLAG_NEWER, "--per-request-spec-decode-metrics")},
    ),
    "a test setting that is gone": (
        config(
            '{"method": "draft_model", "model": "D", "num_speculative_tokens": 3, '
            '"rejection_sample_method": "synthetic", "synthetic_acceptance_rate": 0.7}'
        ),
        "0.20.0",
        {
            (Code.KEY_GONE, "synthetic_acceptance_rate"),
            (Code.SYNTHETIC_SHAPE, "synthetic_acceptance_rates"),
        },
    ),
    "a key of no release": (
        config('{"method": "ngram", "num_speculative_tokens": 3, "lookahead": 3}'),
        NEWEST,
        {(Code.UNKNOWN_KEY, "lookahead")},
    ),
}


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_what_cannot_be_said_is_an_error_by_name(case: str) -> None:
    """A release that has no way to say it gets no command line."""
    text, release, wanted = IMPOSSIBLE[case]
    done = to(text, release)
    assert errors(done) == wanted
    assert done.command is None
    assert done.arguments == ()


DOWN = {
    "a draft in 0.6.0": (
        config(
            '{"method": "draft_model", "model": "D", "num_speculative_tokens": 3, '
            '"disable_by_batch_size": 8, "disable_logprobs": false}'
        ),
        "0.6.0",
        (
            "vllm serve T --use-v2-block-manager --speculative-model D --num-speculative-tokens 3 "
            "--speculative-disable-by-batch-size 8"
        ),
    ),
    "ngram before vllm serve": (
        (
            "/opt/bin/vllm serve T -sc.method ngram -sc.num_speculative_tokens 3 "
            "-sc.prompt_lookup_max 4 -sc.prompt_lookup_min 2"
        ),
        "0.5.0",
        (
            "/opt/bin/python -m vllm.entrypoints.openai.api_server --model T "
            "--use-v2-block-manager --num-speculative-tokens 3 --ngram-prompt-lookup-max 4 "
            "--ngram-prompt-lookup-min 2 --speculative-model '[ngram]'"
        ),
    ),
    "a module stays one": (
        (
            "python3 -u -m vllm.entrypoints.openai.api_server --model=T --speculative-model D "
            "--num-speculative-tokens 3 --use-v2-block-manager"
        ),
        "0.4.1",
        (
            "python3 -m vllm.entrypoints.openai.api_server --model T --use-v2-block-manager "
            "--speculative-model D --num-speculative-tokens 3"
        ),
    ),
    "a switch of 0.7": (
        config(
            '{"method": "draft_model", "model": "D", "num_speculative_tokens": 3, '
            '"disable_mqa_scorer": true}'
        ),
        "0.7.0",
        (
            "vllm serve T --speculative-model D --num-speculative-tokens 3 "
            "--speculative-disable-mqa-scorer"
        ),
    ),
    "standard was strict": (
        config(
            '{"method": "eagle3", "model": "D", "num_speculative_tokens": 3, '
            '"rejection_sample_method": "standard"}'
        ),
        "0.20.0",
        (
            'vllm serve T --speculative-config \'{"method": "eagle3", "model": "D", '
            '"num_speculative_tokens": 3, "rejection_sample_method": "strict"}\''
        ),
    ),
    "sampled drafts were probabilistic": (
        config(
            '{"method": "eagle3", "model": "D", "num_speculative_tokens": 3, '
            '"rejection_sample_method": "standard", "draft_sample_method": "probabilistic"}'
        ),
        "0.19.0",
        (
            'vllm serve T --speculative-config \'{"method": "eagle3", "model": "D", '
            '"num_speculative_tokens": 3, "rejection_sample_method": "probabilistic"}\''
        ),
    ),
}


@pytest.mark.parametrize("case", DOWN)
def test_older_releases_get_their_own_words(case: str) -> None:
    """A newer line is said in an older release's flags where that has them."""
    text, release, wanted = DOWN[case]
    done = to(text, release)
    assert errors(done) == set()
    assert " ".join((done.command or "").replace("\\\n", " ").split()) == wanted


LAYOUTS: dict[str, tuple[str, str]] = {
    "environment and redirection": (
        (
            "$ CUDA_VISIBLE_DEVICES=0,1 nohup vllm serve T --port 1 --spec-tokens 1 "
            "--spec-method mtp > a.log 2>&1 &"
        ),
        (
            "CUDA_VISIBLE_DEVICES=0,1 nohup vllm serve T \\\n  --port 1 \\\n"
            '  --speculative-config \'{"method": "mtp", "num_speculative_tokens": 1}\''
            " > a.log 2>&1 &"
        ),
    ),
    "a descriptor": (
        "vllm serve T 2> a.log",
        "vllm serve T 2> a.log",
    ),
    "a command before and one behind": (
        "export A=1\nvllm serve T\n  --port 1\ncurl http://x",
        "export A=1\nvllm serve T --port 1\ncurl http://x",
    ),
    "variables are left to the shell": (
        (
            'vllm serve "$TARGET" --port $PORT --speculative-model "$DRAFT/x y" '
            "--num-speculative-tokens 3"
        ),
        (
            'vllm serve "$TARGET" \\\n  --port $PORT \\\n  --speculative-config '
            '"{\\"method\\": \\"draft_model\\", \\"model\\": \\"$DRAFT/x y\\", '
            '\\"num_speculative_tokens\\": 3}"'
        ),
    ),
    "a variable for a number": (
        "vllm serve T --speculative-model D --num-speculative-tokens ${K:-5}",
        (
            'vllm serve T \\\n  --speculative-config "{\\"method\\": \\"draft_model\\", '
            '\\"model\\": \\"D\\", \\"num_speculative_tokens\\": ${K:-5}}"'
        ),
    ),
    "a placeholder": ("vllm serve <target-model>", "vllm serve '<target-model>'"),
    "an image": (
        "docker run --gpus all vllm/vllm-openai:v0.6.3.post1 --model T --num-scheduler-steps 8",
        "docker run --gpus all vllm/vllm-openai:v0.33.0 --model T",
    ),
    "an image without a number": (
        "docker run vllm/vllm-openai:latest --model T",
        "docker run vllm/vllm-openai:v0.33.0 --model T",
    ),
    "arguments alone": ("--model T --port 1", "vllm serve T --port 1"),
    "arguments without a model": ("--port 1 -O3", "--port 1 -O3"),
    "a program in a variable's folder": (
        "$HOME/bin/python -m vllm.entrypoints.openai.api_server --model T",
        "vllm serve T",
    ),
    "a quoted word in pieces": (
        "vllm serve T --served-model-name a\\ 'b'\"c\\$\\\nd\\e\"\\\nf --port 1 -tp x -tp",
        "vllm serve T --served-model-name a\\ 'b'\"c\\$\\\nd\\e\"f --port 1 -tp x -tp",
    ),
    "a long line without a model": (
        "--host " + "a" * 120 + " --port 1",
        "--host " + "a" * 120 + " \\\n  --port 1",
    ),
    "an engine left to choose": (
        "env VLLM_USE_V1=0 vllm serve T",
        "vllm serve T",
    ),
    "a repeated comment": (
        "# it's the first\nvllm serve T # don't\n  --port 1 \\\n  # nor this\n  --host h \\",
        "vllm serve T --port 1 --host h",
    ),
}


@pytest.mark.parametrize("case", LAYOUTS)
def test_the_rest_of_a_line_stays_as_it_is(case: str) -> None:
    """What stands around the engine, and flags that are none of ours, pass through."""
    text, wanted = LAYOUTS[case]
    assert to(text).command == wanted


@pytest.mark.parametrize(
    ("given", "release", "wanted"),
    [
        pytest.param("$K", "0.33.0", {Code.VALUE_TYPE}, id="was not checked"),
        pytest.param("$K", "0.7.3", {Code.VALUE_TYPE}, id="nor for flags"),
        pytest.param("$K$L", "0.33.0", {Code.VALUE_TYPE}, id="two are no number"),
    ],
)
def test_what_the_shell_fills_in_is_said(given: str, release: str, wanted: set[Code]) -> None:
    """A number that is a variable cannot be checked, which is a warning and no error."""
    done = to(f"vllm serve T --speculative-model D --num-speculative-tokens {given}", release)
    assert {one.code for one in done.findings} >= wanted
    assert (done.command is not None) is (given == "$K")


def test_words_are_what_a_shell_makes_of_them() -> None:
    """Escapes, quotes and continuations within a word are resolved; unknown escapes stay."""
    words = split("a\\ 'b'\"c\\$\\\nd\\e\"\\\nf")
    assert [one.value for one in words] == ["a bc$d\\ef"]


def test_an_image_tells_its_release() -> None:
    """The tag of an image says which release the line is of."""
    done = to(
        "docker run vllm/vllm-openai:v0.6.3 --model T --speculative-model D "
        "--num-speculative-tokens 3"
    )
    assert done.source == Release((0, 6, 3))
    assert done.engine_before == "v0"


SOURCES = {
    "flags of V0": ("--speculative-model D --num-speculative-tokens 3", None, "v0"),
    "ngram of 0.9": ('-sc \'{"method": "ngram", "num_speculative_tokens": 3}\'', "0.9.1", "v1"),
    "a draft of 0.9": (
        '-sc \'{"method": "draft_model", "model": "D", "num_speculative_tokens": 3}\'',
        "0.9.1",
        "v0",
    ),
    "either": ('-sc \'{"method": "ngram", "posterior_alpha": 0.1}\'', None, None),
    "none": ("--speculative-model D --per-request-spec-decode-metrics none", None, None),
}


@pytest.mark.parametrize("case", SOURCES)
def test_the_engine_it_ran_on(case: str) -> None:
    """Flags, or the release that is named, tell which engine ran the line, if they can."""
    flags, source, wanted = SOURCES[case]
    terms = {"source": source} if source else {}
    assert to(f"vllm serve T {flags}", **terms).engine_before == wanted


def test_asking_for_v1_counts_where_it_did() -> None:
    """Releases of 0.8 ran speculation on V1 only if asked to."""
    line = config('{"method": "ngram", "num_speculative_tokens": 3}')
    assert to(f"VLLM_USE_V1=1 {line}", source="0.8.5").engine_before == "v1"
    assert to(line, source="0.8.5").engine_before == "v0"


def test_a_flag_outside_the_named_release_is_told() -> None:
    """Who names the release learns which flags it never had."""
    done = to("vllm serve T --speculative-model D --num-speculative-tokens 3", source="0.20.0")
    assert (Code.MIXED_RELEASES, "--speculative-model") in codes(done)


def test_a_threshold_ends_where_the_server_does() -> None:
    """The schedule in a threshold's place reaches the server's largest batch."""
    done = to(
        "vllm serve T --max-num-seqs 64 --speculative-model D --num-speculative-tokens 3 "
        "--speculative-disable-by-batch-size 8"
    )
    assert done.config["num_speculative_tokens_per_batch_size"] == [[1, 7, 3], [8, 64, 0]]


@pytest.mark.parametrize("given", ["1", "many"])
def test_a_threshold_that_is_none_is_left_out(given: str) -> None:
    """A threshold that no engine took becomes no schedule."""
    done = to(
        "vllm serve T --speculative-model D --num-speculative-tokens 3 "
        f"--speculative-disable-by-batch-size {given}"
    )
    assert "num_speculative_tokens_per_batch_size" not in done.config


UNREADABLE = {
    "": "the command line is empty",
    "vllm serve T 'open": "never closed",
    'vllm serve T "open': "never closed",
    "curl http://x": "no `vllm serve`",
    "python vllm.entrypoints.openai.api_server --model T": "no `vllm serve`",
    "vllm serve A\nvllm serve B": "2 starts of vLLM",
    "vllm serve T \x1b[31m": "control character",
    "--port 1 | tee x": "behind the arguments",
    "vllm serve T --speculative-config": "no value behind it",
    "vllm serve T --speculative-model --port": "no value behind it",
    "vllm serve T -sc nothing": "no JSON",
    'vllm serve T -sc {"method":"ngram"}': "put single quotes around",
    'vllm serve T --speculative-config={"method": "ngram"}': "put single quotes around",
    "vllm serve T \u2013speculative-model D": "printer's dash",
    "vllm serve T \u2014num-speculative-tokens 5": "printer's dash",
    "vllm serve T --speculative-model \u2018D\u2019": "printer's dash or quote",
    "vllm serve T -sc '[1]'": "not an object",
    "vllm serve T -sc '{\"a\": NaN}'": "cannot be said in JSON",
    "vllm serve T -sc " + "[" * 5000: "nested too deep",
    'vllm serve T -sc \'{"a": ' + "1" * 5000 + "}'": "cannot be read",
    "vllm serve T -sc '" + " " * 100_001 + "'": "characters",
}


@pytest.mark.parametrize("text", UNREADABLE, ids=lambda text: text[:30])
def test_what_cannot_be_read_says_why(text: str) -> None:
    """A line that is none is refused in one sentence."""
    with pytest.raises(ValueError, match=UNREADABLE[text]):
        to(text)


@pytest.mark.parametrize("text", ["v0.10.1.1", "0.10.1.1.post1", "0.10.1.1+cpu"])
def test_releases_of_four_numbers_are_read(text: str) -> None:
    """A repair of a release has a fourth number, which changes no flag either."""
    assert read_release(text) == Release((0, 10, 1))


@pytest.mark.parametrize("text", ["0.33", "v0.33.0", "0.33.0.post1", "0.33.0rc1", "0.33.0+cpu"])
def test_releases_are_read_as_people_write_them(text: str) -> None:
    """Marks behind the number change no flag."""
    assert read_release(text) == Release((0, 33, 0))


@pytest.mark.parametrize("text", ["", "33", "newest", "0.33.0.1.2", "0.33.0 or so"])
def test_what_is_no_release_is_refused(text: str) -> None:
    """Anything else is no release."""
    with pytest.raises(ValueError, match="is not a release"):
        read_release(text)


MAPPINGS: dict[str, tuple[Mapping[str, object], list[str]]] = {
    "values": ({"port": 1, "host": "h", "none": None}, ["--port", "1", "--host", "h"]),
    "switches": (
        {"enforce-eager": True, "async-scheduling": False},
        ["--enforce-eager", "--no-async-scheduling"],
    ),
    "lists": ({"served-model-name": ["a", "b"]}, ["--served-model-name", "a", "b"]),
    "objects": ({"x": {"a": [1]}, "y": [{"b": 1}]}, ["--x", '{"a": [1]}', "--y", '[{"b": 1}]']),
    "a dash": ({"x": -1}, ["--x=-1"]),
}


@pytest.mark.parametrize("case", MAPPINGS)
def test_files_of_flags_are_read_as_the_engine_does(case: str) -> None:
    """YAML for the engine's --config becomes the arguments that the engine makes of it."""
    given, wanted = MAPPINGS[case]
    command = from_mapping(given)
    assert command.entry is Entry.ARGUMENTS
    assert [one.value for one in command.arguments] == wanted


@pytest.mark.parametrize("method", SURFACE.methods)
def test_every_method_can_be_shown(method: str) -> None:
    """Each method has a command line in a release that has it, with a reason for every key."""
    one = SURFACE.methods[method]
    release = next(span.last or read_release(NEWEST) for span in reversed(one.spans))
    draft = "pkg.Proposer" if one.needs == "path" else "D" if one.needs == "draft" else None
    shown = show_method(method, SURFACE, release, target="T", draft=draft)
    assert shown.command is not None
    assert set(shown.why) == set(shown.config)
    assert not {setting.name for setting in shown.settings} & set(shown.config)


def test_a_method_is_shown_in_flags_where_there_were_flags() -> None:
    """Before there were keys, the flags say it, and so do the reasons and what else can be set."""
    shown = show_method("ngram", SURFACE, read_release("0.6.0"), target="T", k=2)
    assert shown.arguments == (
        "T",
        "--use-v2-block-manager",
        "--num-speculative-tokens",
        "2",
        "--ngram-prompt-lookup-max",
        "5",
        "--ngram-prompt-lookup-min",
        "2",
        "--speculative-model",
        "[ngram]",
    )
    assert "method" not in shown.why
    draft = show_method("draft_model", SURFACE, read_release("0.7.0"), target="T", draft="D")
    assert "disable_by_batch_size" in {setting.name for setting in draft.settings}
    assert "revision" not in {setting.name for setting in draft.settings}


MISSING: dict[str, tuple[str, str, str | None, str]] = {
    "gone": ("medusa", NEWEST, "D", Code.METHOD_GONE),
    "newer": ("eagle3", "0.8.0", "D", Code.METHOD_NEWER),
    "no draft": ("eagle3", NEWEST, None, Code.MODEL_MISSING),
}


@pytest.mark.parametrize("case", MISSING)
def test_what_cannot_be_shown_says_why(case: str) -> None:
    """A method that a release has not, or that lacks its draft, has no command line."""
    method, release, draft, code = MISSING[case]
    shown = show_method(method, SURFACE, read_release(release), target="T", draft=draft)
    assert shown.command is None
    assert code in {one.code for one in shown.findings}


def test_a_method_of_no_release_is_refused() -> None:
    """Who asks for what never was is told what there is."""
    with pytest.raises(ValueError, match="no method magic; there are draft_model, ngram"):
        show_method("magic", SURFACE, read_release(NEWEST), target="T")
