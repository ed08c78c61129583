"""What there is to say about a plan: what does not fit, what is tight, what was assumed."""

from collections.abc import Iterator

from specgauge.preflight.memory.finding import Code, Finding, Severity, ordered
from specgauge.preflight.memory.model import Model
from specgauge.preflight.memory.plan import Plan, Side
from specgauge.preflight.memory.reserve import CONTEXT_BYTES
from specgauge.preflight.memory.weights import Role

TIGHT = 0.95
"""A KV cache fuller than this preempts at the next burst."""

FEW_DRAFTS = 3
_MUCH = -0.2
_GIB = 1 << 30


def judge(plan: Plan) -> tuple[Finding, ...]:
    """Find what is wrong with a plan, or worth knowing of it."""
    sides = [plan.before] if plan.after is None else [plan.before, plan.after]
    found = [*_models(plan), *_parallel(plan), *_utilisation(plan)]
    worst = sides[-1]
    found += _fit(plan, worst, drafting=plan.after is not None)
    found += [*_change(plan), *_use(plan)]
    return ordered(found)


def _fit(plan: Plan, side: Side, *, drafting: bool) -> Iterator[Finding]:
    """Say that there is no room, or none for one request of the longest kind."""
    fix = "more GPUs, a higher --utilization or a quantised model"
    fix = f"a smaller draft or a head, {fix}" if drafting else fix
    if side.kv_memory <= 0 and plan.setting.memory is not None:
        yield Finding(
            code=Code.WEIGHTS_EXCEED_MEMORY,
            severity=Severity.ERROR,
            text=f"weights and reserve exceed the share by {-side.kv_memory / _GIB:.2f} GiB",
            numbers={"kv_cache_bytes": side.kv_memory},
            engine_says="No available memory for the cache blocks.",
            fix=fix,
        )
    elif side.holds.max_concurrency < 1.0:
        length, holds = plan.setting.max_model_len, side.holds
        yield Finding(
            code=Code.MAX_LENGTH_DOES_NOT_FIT,
            severity=Severity.ERROR,
            text=f"one request of {length} tokens needs more than the {holds.blocks} blocks "
            "that there are",
            numbers={"max_model_len": length, "blocks": holds.blocks, "tokens": holds.tokens},
            engine_says="To serve at least one request with the model's max seq len",
            fix=f"--max-model-len {holds.tokens}, or {fix}",
        )


def _use(plan: Plan) -> Iterator[Finding]:
    setting, use = plan.setting, (plan.after or plan.before).holds.use_ratio
    if use is None or use < TIGHT:
        return
    tokens = setting.mean_tokens or setting.max_model_len
    fix = "lower the load, shorten requests, or take more memory"
    if plan.after is not None:
        fix = "a smaller draft or a head, or n-gram, which takes no memory"
        if setting.limits.draft_tokens > FEW_DRAFTS:
            fix = f"num_speculative_tokens {FEW_DRAFTS}, which holds fewer slots ahead; else {fix}"
    yield Finding(
        code=Code.KV_ABOVE_95,
        severity=Severity.WARNING,
        text=f"{setting.concurrency:g} requests of {tokens} tokens take {use:.1%} of the KV "
        "cache: requests will wait and be preempted",
        numbers={"kv_cache_use_ratio": use, "threshold": TIGHT},
        fix=fix,
    )


def _change(plan: Plan) -> Iterator[Finding]:
    if plan.after is not None and plan.role is Role.OTHER and plan.draft is None:
        yield Finding(
            code=Code.NO_DRAFT_MEMORY,
            severity=Severity.NOTE,
            text="this method loads no model and keeps no KV cache of its own",
        )
        return
    if (change := plan.change) is None or change >= 0.0 or plan.after is None:
        return
    yield Finding(
        code=Code.KV_SMALLER,
        severity=Severity.WARNING if change <= _MUCH else Severity.NOTE,
        text=f"the KV cache holds {plan.before.holds.tokens} tokens without speculation and "
        f"{plan.after.holds.tokens} with it, {change:+.2%}",
        numbers={
            "tokens_before": plan.before.holds.tokens,
            "tokens_after": plan.after.holds.tokens,
            "change_percent": 100.0 * change,
        },
    )


def _utilisation(plan: Plan) -> Iterator[Finding]:
    """Say where what an engine asks for is not free: the context lies outside its share."""
    memory = plan.setting.memory
    if memory is None:
        return
    rest = memory * (1.0 - plan.setting.utilisation)
    if rest < CONTEXT_BYTES:
        highest = 1.0 - CONTEXT_BYTES / memory if memory > CONTEXT_BYTES else 0.0
        yield Finding(
            code=Code.UTILISATION_TOO_HIGH,
            severity=Severity.WARNING,
            text=f"the share leaves {rest / _GIB:.2f} GiB for the CUDA context, which takes about "
            f"{CONTEXT_BYTES / _GIB:.2f} GiB",
            numbers={"left_bytes": int(rest), "context_bytes": CONTEXT_BYTES},
            engine_says="Free memory on device … on startup is less than desired GPU memory "
            "utilization",
            fix=f"--utilization {int(100 * highest) / 100:g} or less",
        )


def _parallel(plan: Plan) -> Iterator[Finding]:
    parallel = plan.setting.parallel
    for model in _both(plan):
        heads, kv = model.shape.heads, model.shape.kv_heads
        uneven = kv % parallel and parallel % kv and model.shape.latent is None
        if heads % parallel or uneven:
            yield Finding(
                code=Code.PARALLEL_INDIVISIBLE,
                severity=Severity.ERROR,
                text=f"{model.path}: {heads} heads and {kv} KV heads cannot be shared by "
                f"{parallel} GPUs",
                numbers={"heads": heads, "kv_heads": kv, "tensor_parallel": parallel},
                engine_says=f"Total number of attention heads ({heads}) must be divisible by "
                f"tensor parallel size ({parallel}).",
                fix="choose a --tensor-parallel that divides both",
            )


def _models(plan: Plan) -> Iterator[Finding]:
    for model in _both(plan):
        shape = model.shape
        if shape.unmodelled:
            yield Finding(
                code=Code.LAYERS_NOT_MODELLED,
                severity=Severity.ERROR,
                text=f"{model.path}: {', '.join(shape.unmodelled)} keep something else than keys "
                "and values, which is not reckoned here",
                fix="start the engine and compare two servers: --before URL --after URL",
            )
        if model.weights.estimated:
            yield Finding(
                code=Code.WEIGHTS_ESTIMATED,
                severity=Severity.NOTE,
                text=f"{model.path}: no safetensors files, so weights are estimated from "
                "config.json",
            )
        if shape.weight_bits is None and model.weights.estimated:
            yield Finding(
                code=Code.QUANTISATION_UNKNOWN,
                severity=Severity.WARNING,
                text=f"{model.path}: quantised by {shape.quantisation!r} to a width that is not "
                "told; reckoned with 16 bits",
                fix="give a folder with its safetensors files",
            )
        windows = {one for one in shape.windows if one is not None}
        if windows:
            yield Finding(
                code=Code.SLIDING_WINDOW,
                severity=Severity.NOTE,
                text=f"{model.path}: {sum(1 for one in shape.windows if one)} of "
                f"{shape.layers} layers keep a window of {max(windows)} tokens only",
                numbers={"window_tokens": max(windows)},
            )


def _both(plan: Plan) -> list[Model]:
    return [plan.target] if plan.draft is None else [plan.target, plan.draft]
