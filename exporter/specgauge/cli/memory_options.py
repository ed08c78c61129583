"""Options that describe a server before it runs, and the setting that they add up to.

Shared by the commands that reckon with memory; prints nothing.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from specgauge.cli.values import READ_BY_US, FiniteRange
from specgauge.errors import UsageError
from specgauge.preflight.memory.cards import card_bytes, seen_bytes, usual_limits
from specgauge.preflight.memory.folder import read_config, read_heads, read_model
from specgauge.preflight.memory.model import Model, role_of
from specgauge.preflight.memory.plan import Plan, Setting, make_plan
from specgauge.preflight.memory.reserve import Limits
from specgauge.preflight.memory.shape import Shape
from specgauge.preflight.memory.weights import Role
from specgauge.units import parse_size, quote

METHODS: Mapping[str, Role] = {
    "draft_model": Role.DRAFT,
    "eagle": Role.EAGLE,
    "eagle3": Role.EAGLE3,
    "mtp": Role.MTP,
    "medusa": Role.OTHER,
    "ngram": Role.OTHER,
    "suffix": Role.OTHER,
}
_ALONE = frozenset({"ngram", "suffix", "mtp"})
_KV_BYTES = {"auto": 2, "fp8": 1}
_CPU_BLOCK, _CPU_LATENT_BLOCK, _GPU_BLOCK = 128, 16, 16
_CPU_LIMITS = (2048, 128)
_USUAL_DRAFTS = 3
_SMALLEST, _LARGEST = 1 << 20, 1 << 60

Options = Mapping[str, Any]
Command = TypeVar("Command", bound=Callable[..., Any])


def _size(_: click.Context, option: click.Parameter, value: str | None) -> int | None:
    """Read a size, which may have decimals."""
    if value is None:
        return None
    flag = f"--{(option.name or '').replace('_', '-')}"
    match = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,6})?)\s*([A-Za-z]*)", value, re.ASCII)
    if match is None:
        raise UsageError(f"{flag}: {quote(value)} is not a size; write 80GiB or 140.4GiB")
    try:
        size = int(float(match[1]) * parse_size(f"1{match[2]}"))
    except ValueError:
        raise UsageError(f"{flag}: {quote(value)} has no unit that is known; write GiB") from None
    if not _SMALLEST <= size < _LARGEST:
        raise UsageError(f"{flag}: {quote(value)} is too little or too much; write 80GiB")
    return size


_AMOUNT = click.IntRange(1, 10**7)
_OPTIONS = (
    click.option("--target", type=READ_BY_US, metavar="FOLDER", help="Model that is served."),
    click.option("--draft", type=READ_BY_US, metavar="FOLDER", help="Model or head that drafts."),
    click.option("--method", type=click.Choice(list(METHODS)), help="How it drafts."),
    click.option("--gpu", metavar="NAME", help="GPU by name, as H200 or A100-80GB."),
    click.option(
        "--gpu-memory",
        callback=_size,
        metavar="SIZE",
        help="Memory of one GPU as nvidia-smi shows it, as 140.4GiB.",
    ),
    click.option(
        "--kv-space",
        callback=_size,
        metavar="SIZE",
        help="Cache of vLLM's CPU engine (VLLM_CPU_KVCACHE_SPACE), instead of a GPU.",
    ),
    click.option("--count", type=click.IntRange(1, 10**5), help="GPUs in all."),
    click.option(
        "--utilization",
        type=FiniteRange(0.0, 1.0, min_open=True),
        default=0.92,
        show_default=True,
        help="vLLM's --gpu-memory-utilization.",
    ),
    click.option("--tensor-parallel", type=click.IntRange(1, 10**4), help="GPUs an engine."),
    click.option(
        "--kv-dtype",
        type=click.Choice(list(_KV_BYTES)),
        default="auto",
        show_default=True,
        help="vLLM's --kv-cache-dtype.",
    ),
    click.option("--block-size", type=click.IntRange(1, 10**5), help="Tokens a block."),
    click.option("--max-model-len", type=click.IntRange(1, 10**8), help="Longest request."),
    click.option("--max-num-seqs", type=_AMOUNT, help="Requests a batch."),
    click.option("--max-num-batched-tokens", type=_AMOUNT, help="Tokens a batch."),
    click.option(
        "--num-speculative-tokens",
        type=click.IntRange(1, 1000),
        default=_USUAL_DRAFTS,
        show_default=True,
        help="Tokens a draft.",
    ),
    click.option("--enforce-eager", is_flag=True, help="No CUDA graphs."),
    click.option("--mean-tokens", type=click.IntRange(1, 10**8), help="Mean tokens a request."),
    click.option("--concurrency", type=FiniteRange(0.0, 1e7, min_open=True), help="Requests."),
)


def folder_options(command: Command) -> Command:
    """Add the options that describe a server before it runs."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def plan_of(options: Options) -> Plan:
    """Read the folders that options name and reckon with them."""
    if (path := options["target"]) is None:
        raise UsageError("--target FOLDER is needed: the model that is served")
    target = read_model(path)
    draft, role = _draft(options, target.shape)
    setting = _setting(options, target.shape)
    try:
        return make_plan(target, draft, role, setting)
    except ValueError as problem:
        raise UsageError(f"no engine lays this out: {problem}") from None


def _draft(options: Options, target: Shape) -> tuple[Model | None, Role]:
    """Read the draft, if there is one, in the role that its method or its folder tells."""
    path, method = options["draft"], options["method"]
    if path is None:
        if method == "mtp" and not target.mtp_layers:
            raise UsageError("--method mtp: the target's config.json has no layers that draft")
        if method is not None and method not in _ALONE:
            raise UsageError(f"--method {method} needs --draft FOLDER")
        return None, METHODS[method] if method else Role.TARGET
    if method in {"ngram", "suffix"}:
        raise UsageError(f"--method {method} takes no --draft")
    role = METHODS[method] if method else role_of(read_config(path))
    if role is Role.OTHER:
        return read_heads(path, target), role
    return read_model(path, role), role


def _setting(options: Options, target: Shape) -> Setting:
    memory, tokens, requests = _memory(options)
    cpu = memory is None
    parallel = options["tensor_parallel"] or options["count"] or 1
    count = options["count"] or parallel
    if count < parallel:
        raise UsageError(f"--tensor-parallel {parallel} needs as many GPUs; there are {count}")
    if count % parallel:
        fix = f"give a multiple of {parallel}, or another --tensor-parallel"
        raise UsageError(f"--count {count}: engines of {parallel} GPUs leave some idle; {fix}")
    length = options["max_model_len"] or target.max_length
    if length is None:
        raise UsageError("--max-model-len is needed: the target's config.json does not tell it")
    block = _CPU_LATENT_BLOCK if target.latent else _CPU_BLOCK
    return Setting(
        memory=memory,
        kv_space=options["kv_space"],
        utilisation=options["utilization"],
        parallel=parallel,
        count=count,
        value_bytes=_KV_BYTES[options["kv_dtype"]],
        block_size=options["block_size"] or (block if cpu else _GPU_BLOCK),
        max_model_len=length,
        limits=Limits(
            batched_tokens=options["max_num_batched_tokens"] or tokens,
            requests=options["max_num_seqs"] or requests,
            draft_tokens=options["num_speculative_tokens"],
            eager=options["enforce_eager"],
        ),
        mean_tokens=options["mean_tokens"],
        concurrency=options["concurrency"],
    )


def _memory(options: Options) -> tuple[int | None, int, int]:
    """Give what programs see of a card, and the limits that are usual on it."""
    given = [name for name in ("gpu", "gpu_memory", "kv_space") if options[name] is not None]
    if len(given) != 1:
        raise UsageError("give one of --gpu NAME, --gpu-memory SIZE and --kv-space SIZE")
    if given == ["kv_space"]:
        return None, *_CPU_LIMITS
    name = options["gpu"] or ""
    size = options["gpu_memory"] or card_bytes(name)
    return seen_bytes(size), *usual_limits(size, name)
