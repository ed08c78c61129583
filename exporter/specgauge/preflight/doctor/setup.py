"""How a server was started: what of its flags or logged arguments bears on speculation.

Text in, values out; nothing is looked up and no release is asked for its own opinion.
"""

import ast
import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

OLD_FLAGS = re.compile(
    r"--(?:speculative-(?!config\b)[\w-]+|num-speculative-tokens|ngram-prompt-lookup-(?:max|min)"
    r"|spec-decoding-acceptance-method|typical-acceptance-sampler-[\w-]+"
    r"|disable-logprobs-during-spec-decoding|use-v2-block-manager)"
)
"""Flags that stand in guides and have not been taken since 0.8.3."""

_LONGEST = 100_000
_JSON_FLAGS = ("--speculative-config", "--speculative_config", "-sc")
_OWN_KEYS = {
    "--spec-method": "method",
    "--spec-model": "model",
    "--spec-tokens": "num_speculative_tokens",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What is known of a start; `speculative` is the speculative_config, empty where there is none.

    `source` says whose word it is. `method` and `tokens` are those of the configuration, also of
    an old style of flags.
    """

    source: str
    speculative: Mapping[str, Any] = field(default_factory=dict)
    old_flags: tuple[str, ...] = ()
    stats_off: bool = False
    api_servers: int | None = None
    data_parallel: int = 1
    stream_interval: int = 1
    lora: bool = False
    temperature: float | None = None

    @property
    def speculates(self) -> bool:
        """Whether speculation was asked for."""
        return bool(self.speculative)

    @property
    def method(self) -> str | None:
        """The method, where it is told or can be told from the other keys."""
        told = self.speculative.get("method")
        if isinstance(told, str):
            return told
        model = self.speculative.get("model")
        if isinstance(model, str):
            return "ngram" if "ngram" in model else None
        return None

    @property
    def tokens(self) -> int | None:
        """K as configured."""
        told = self.speculative.get("num_speculative_tokens")
        return told if isinstance(told, int) and not isinstance(told, bool) else None

    @property
    def schedule(self) -> bool:
        """Whether K follows the batch size."""
        return bool(self.speculative.get("num_speculative_tokens_per_batch_size"))

    @property
    def schedule_has_zero(self) -> bool:
        """Whether the schedule switches drafting off at some load."""
        steps = self.speculative.get("num_speculative_tokens_per_batch_size")
        return isinstance(steps, list) and any(
            isinstance(step, list) and step and step[-1] == 0 for step in steps
        )

    @property
    def synthetic(self) -> bool:
        """Whether acceptance is made up."""
        sampled = self.speculative.get("rejection_sample_method")
        return sampled == "synthetic" or any(
            key.startswith("synthetic_acceptance") for key in self.speculative
        )


def of_command(text: str) -> Setup:
    """Read a `vllm serve` command line; ValueError says what of it cannot be read."""
    if len(text) > _LONGEST:
        raise ValueError("is longer than any command line")
    try:
        words = shlex.split(text.replace("\\\n", " "), comments=True)
    except ValueError as problem:
        raise ValueError(f"cannot be taken apart: {str(problem).lower()}; check quotes") from None
    if not any("vllm" in word or word.startswith("--") or word in _JSON_FLAGS for word in words):
        raise ValueError(
            "has neither vllm nor a flag of it in it; give the line it was started with"
        )
    setup = Setup(source="--command")
    speculative: dict[str, Any] = {}
    place = 0
    while place < len(words):
        name, has_value, value = words[place].partition("=")
        following = words[place + 1] if place + 1 < len(words) else ""
        told = value if has_value else following
        if name in _JSON_FLAGS:
            speculative.update(speculative_config(told))
        elif OLD_FLAGS.fullmatch(name.replace("_", "-")):
            setup = replace(setup, old_flags=(*setup.old_flags, name))
            speculative.update(_old(name.replace("_", "-"), told))
        elif name in _OWN_KEYS:
            speculative[_OWN_KEYS[name]] = _number(told) if name == "--spec-tokens" else told
        elif name.startswith("--speculative-config."):
            speculative[name.partition(".")[2]] = _plain(told)
        elif name.startswith("-"):
            setup = _flag(setup, name.replace("_", "-"), told)
        place += 1
    return replace(setup, speculative=speculative)


def speculative_config(text: str) -> dict[str, Any]:
    """Read a speculative_config; ValueError where it is no JSON object."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise ValueError(f"the speculative config is no JSON: {problem}") from None
    if not isinstance(found, dict):
        told = 'the speculative config is no JSON object, as {"method": "ngram", ...}'
        raise ValueError(told)  # noqa: TRY004 - the text is wrong
    return found


def of_config(text: str) -> Setup:
    """Read a speculative_config by itself."""
    return Setup(source="--speculative-config", speculative=speculative_config(text))


def of_arguments(text: str) -> Setup | None:
    """Read the non-default arguments as the server logs them; None where that fails."""
    try:
        found = ast.literal_eval(text[:_LONGEST])
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    if not isinstance(found, dict):
        return None
    speculative = found.get("speculative_config")
    if isinstance(speculative, str):
        try:
            speculative = speculative_config(speculative)
        except ValueError:
            speculative = None
    told = speculative if isinstance(speculative, dict) else {}
    named = {name: value for name, value in told.items() if isinstance(name, str)}
    setup = Setup(source="the log", speculative=named)
    for name, value in found.items():
        if isinstance(name, str) and value is not False:
            shown = "" if value is True else str(value)
            setup = _flag(setup, "--" + name.replace("_", "-"), shown)
    return setup


def _flag(setup: Setup, name: str, told: str) -> Setup:
    """Take one flag in; most say nothing about speculation."""
    if name == "--disable-log-stats":
        return replace(setup, stats_off=True)
    if name == "--enable-lora":
        return replace(setup, lora=True)
    if name == "--override-generation-config":
        return replace(setup, temperature=_temperature(told))
    counted = {
        "--api-server-count": "api_servers",
        "-asc": "api_servers",
        "--data-parallel-size": "data_parallel",
        "-dp": "data_parallel",
        "--stream-interval": "stream_interval",
    }
    number = _number(told)
    if name in counted and number is not None:
        return replace(setup, **{counted[name]: number})  # type: ignore[arg-type]
    return setup


def _temperature(told: str) -> float | None:
    try:
        found = json.loads(told)
    except (ValueError, RecursionError):
        return None
    value = found.get("temperature") if isinstance(found, dict) else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _old(name: str, told: str) -> Mapping[str, Any]:
    """Say what an old flag would be in the configuration of today."""
    if name == "--num-speculative-tokens":
        return {"num_speculative_tokens": _number(told)}
    if name == "--speculative-model":
        return {"model": told}
    if name == "--speculative-disable-by-batch-size":
        return {"disable_by_batch_size": _number(told)}
    return {}


def _number(told: str) -> int | None:
    return int(told) if told.isascii() and told.isdigit() and len(told) < 10 else None  # noqa: PLR2004 - no count is longer


def _plain(told: str) -> Any:
    """Read one value of a dotted flag: JSON, or else the text itself."""
    try:
        return json.loads(told)
    except (ValueError, RecursionError):
        return told
