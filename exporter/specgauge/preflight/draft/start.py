"""What a pair needs to start: lengths, types, parallel parts; compares no tokens."""

from specgauge.preflight.draft.config import Config
from specgauge.preflight.draft.finding import (
    Area,
    Checked,
    Code,
    Engine,
    Finding,
    Severity,
    Unmeasured,
    refusal,
)
from specgauge.preflight.draft.pair import Pair

TOO_LONG = (
    "User-specified max_model_len ({wished}) is greater than the derived max_model_len ({key}="
)
NOT_DIVISIBLE = (
    "Total number of attention heads ({heads}) must be divisible by tensor parallel size ({parts})."
)
OTHER_PARTS = (
    "speculative_draft_tensor_parallel_size={parts} cannot be other value than 1 or target "
    "model tensor_parallel_size"
)
UNEQUAL_PARTS = (
    "Currently, 'draft_tensor_parallel_size' and 'tensor_parallel_size' must be the same. "
    "Got {draft} and {target}."
)


def check_lengths(pair: Pair) -> Checked:
    """Compare the longest sequences: beyond the draft's nothing is drafted."""
    wished, target, draft = pair.wish.max_model_len, pair.target.config, pair.draft.config
    area = Area.MAX_LENGTH
    findings = []
    if wished is not None and target.max_length is not None and wished > target.max_length:
        findings.append(_too_long(wished, target))
    served = wished or target.max_length
    if draft.max_length is None and pair.method == "medusa":
        return Checked(area=area, findings=tuple(findings))
    if served is None or draft.max_length is None:
        side = "draft" if served is not None else "target"
        reason = f"{side}: config.json names no length"
        return Checked(
            area=area,
            findings=tuple(findings),
            unmeasured=(Unmeasured(area=area, reason=reason),),
        )
    if draft.max_length < served:
        findings.append(_shorter(pair, served, draft.max_length))
    elif draft.max_length > served:
        findings.append(
            Finding(
                code=Code.DRAFT_LENGTH_LIMITED,
                severity=Severity.NOTE,
                message=f"the draft could take {draft.max_length} tokens and is held to {served}",
                numbers={"served": served, "draft": draft.max_length},
                engine_says=f"Overriding draft model max model len from {draft.max_length} to "
                f"{served}",
            )
        )
    return Checked(area=area, findings=tuple(findings))


def _too_long(wished: int, target: Config) -> Finding:
    return refusal(
        code=Code.MAX_LENGTH_TOO_LARGE,
        message=f"the target takes {target.max_length} tokens, fewer than the {wished} wanted",
        numbers={"wanted": wished, "target": target.max_length},
        engine_says=TOO_LONG.format(wished=wished, key=target.length_key),
        fix=f"--max-model-len {target.max_length}",
    )


def _shorter(pair: Pair, served: int, draft: int) -> Finding:
    """Say what a draft that is shorter than the target costs."""
    unsafe = pair.head and pair.method != "mtp" and not pair.rules.raises_positions
    more = "; releases before 0.28.0 may read beyond the head's positions" if unsafe else ""
    return Finding(
        code=Code.DRAFT_SHORTER,
        severity=Severity.CONDITION,
        message=f"the draft takes {draft} tokens, the target is served with {served}: while one "
        f"sequence of a batch is longer, the whole batch is not drafted for{more}",
        numbers={"served": served, "draft": draft},
        fix=f"--max-model-len {draft}, or a draft that takes {served} (longer positions by rope "
        "scaling only if it was trained so)",
    )


def check_types(pair: Pair) -> Checked:
    """Compare number types and quantisation."""
    target, draft = pair.target.config, pair.draft.config
    findings = []
    if target.dtype and draft.dtype and target.dtype != draft.dtype:
        findings.append(
            Finding(
                code=Code.DTYPE_DIFFERS,
                severity=Severity.NOTE,
                message=f"the target is {target.dtype}, the draft {draft.dtype}; the engine loads "
                "the draft as the target's type",
                numbers={"target": target.dtype, "draft": draft.dtype},
            )
        )
    if target.quantisation != draft.quantisation:
        dense = draft.quantisation is None
        findings.append(
            Finding(
                code=Code.QUANTISATION_DIFFERS,
                severity=Severity.NOTE if dense else Severity.CONDITION,
                message=f"the target is {_kind(target)}, the draft {_kind(draft)}",
                numbers={"target": target.quantisation, "draft": draft.quantisation},
                effect=Engine.STARTS if dense else Engine.UNKNOWN,
                fix=None
                if dense
                else f"see that the GPU runs {draft.quantisation}; the engine reads the method "
                'from the draft\'s config.json, or from "quantization" in speculative_config',
            )
        )
    return Checked(area=Area.DTYPE, findings=tuple(findings))


def _kind(config: Config) -> str:
    if config.quantisation is None:
        return "not quantised"
    bits = f" with {config.quantised_bits} bits" if config.quantised_bits else ""
    return f"quantised by {config.quantisation}{bits}"


def check_parallel(pair: Pair) -> Checked:
    """See that attention heads can be dealt out to the parts of tensor parallelism."""
    parts = pair.wish.tensor_parallel
    asked = pair.wish.draft_tensor_parallel
    draft_parts = parts if asked is None else asked
    findings = _heads(pair.target.config, parts, "target")
    if draft_parts not in {1, parts}:
        findings.append(_parts(pair, OTHER_PARTS.format(parts=draft_parts), draft_parts))
    elif draft_parts != parts and pair.rules.draft_parallel_equal:
        says = UNEQUAL_PARTS.format(draft=draft_parts, target=parts)
        findings.append(_parts(pair, says, draft_parts))
    unknown = _headless(pair.target.config, parts, "target")
    if pair.draft is not pair.target and pair.method != "medusa":
        findings += _heads(pair.draft.config, draft_parts, "draft")
        unknown += _headless(pair.draft.config, draft_parts, "draft")
    return Checked(area=Area.TENSOR_PARALLEL, findings=tuple(findings), unmeasured=tuple(unknown))


def _headless(config: Config, parts: int, side: str) -> list[Unmeasured]:
    """Say where nothing tells whether heads can be dealt out."""
    if parts == 1 or config.heads is not None:
        return []
    reason = f"{side}: config.json names no attention heads"
    return [Unmeasured(area=Area.TENSOR_PARALLEL, reason=reason)]


def _parts(pair: Pair, says: str, draft_parts: int) -> Finding:
    return refusal(
        code=Code.DRAFT_TENSOR_PARALLEL,
        message=f"a draft in {draft_parts} parts beside a target in {pair.wish.tensor_parallel} "
        "is refused",
        numbers={"target": pair.wish.tensor_parallel, "draft": draft_parts},
        engine_says=says,
        fix=f'"draft_tensor_parallel_size": {pair.wish.tensor_parallel}, or leave it out',
    )


def _heads(config: Config, parts: int, side: str) -> list[Finding]:
    findings = []
    if config.heads is not None and config.heads % parts:
        findings.append(
            refusal(
                code=Code.HEADS_NOT_DIVISIBLE,
                message=f"the {side} has {config.heads} attention heads, which {parts} parts "
                "cannot share evenly",
                numbers={"heads": config.heads, "tensor_parallel": parts},
                engine_says=NOT_DIVISIBLE.format(heads=config.heads, parts=parts),
                fix=f"a tensor parallel size that divides {config.heads}, or another {side}",
            )
        )
    elif config.kv_heads is not None and config.kv_heads % parts and parts % config.kv_heads:
        findings.append(
            refusal(
                code=Code.KV_HEADS_NOT_DIVISIBLE,
                message=f"the {side} has {config.kv_heads} key-value heads, which neither divide "
                f"{parts} parts nor are divided by them",
                numbers={"kv_heads": config.kv_heads, "tensor_parallel": parts},
                engine_says="AssertionError",
                fix=f"a tensor parallel size that divides {config.kv_heads}, or another {side}",
            )
        )
    return findings
