"""EAGLE, Medusa and MTP heads against the target they sit on; compares no tokenizers."""

from specgauge.preflight.draft.eagle import check_tensors, fed
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

NO_MTP = "Unsupported speculative method: 'mtp'"
NOT_A_MULTIPLE = "num_speculative_tokens:{tokens} must be divisible by n_predict={modules}"
OTHER_WIDTH = {
    "eagle": "The expanded size of the tensor ({draft}) must match the existing size ({target})",
    "medusa": "mat1 and mat2 shapes cannot be multiplied",
}
_HAVE_MTP = (
    "deepseek_v3", "deepseek_v32", "deepseek_v4", "glm_moe_dsa", "glm4_moe", "glm4_moe_lite",
    "glm_ocr", "glm5_next", "pangu_ultra_moe", "kimi_k3", "mimo", "ernie4_5_moe", "nemotron_h",
    "qwen3_next", "qwen3_5", "qwen4_exp", "exaone", "longcat_flash", "step3p", "bailing", "hy_v",
    "inkling", "gemma4", "minimax_m3", "dots3_note", "intern", "mtp",
)  # fmt: skip
FEW_HEADS = "Following weights were not initialized from checkpoint"
_UNREAD = "the head's tensors could not be read"


def check_head(pair: Pair) -> Checked:
    """Check a head of its kind."""
    findings: list[Finding]
    if pair.method == "mtp":
        findings = _mtp(pair)
    elif pair.method == "medusa":
        findings = [*_hidden(pair), *_medusa(pair)]
    else:
        findings = [*_made_for(pair), *_hidden(pair), *check_tensors(pair)]
    unread = pair.draft.weights is None
    reason = f"{_UNREAD}: {pair.draft.weights_reason}"
    missing = (Unmeasured(area=Area.HEAD, reason=reason),) if unread else ()
    return Checked(area=Area.HEAD, findings=tuple(findings), unmeasured=missing)


def check_other(pair: Pair) -> Checked:
    """Say of a method that is not checked here that it is not."""
    finding = Finding(
        code=Code.HEAD_NOT_CHECKED,
        severity=Severity.UNKNOWN,
        message=f"{pair.method} drafts are not checked beyond the release and the sizes",
        effect=Engine.UNKNOWN,
        fix="start the engine with it and read its log, or name another --method",
    )
    return Checked(area=Area.HEAD, findings=(finding,))


def _made_for(pair: Pair) -> list[Finding]:
    """Compare the name of the target that the head says it was made for."""
    verifier = pair.draft.config.verifier
    if verifier is None or _last(verifier) in {_last(pair.target.source), "", "."}:
        return []
    return [
        Finding(
            code=Code.HEAD_OTHER_TARGET,
            severity=Severity.CONDITION,
            message=f"the head was made for {verifier}; this target is {pair.target.source}",
            numbers={"made_for": verifier, "target": pair.target.source},
            fix="see that the two are the same model",
        )
    ]


def _last(name: str) -> str:
    return name.rstrip("/").split("/")[-1].lower()


def _hidden(pair: Pair) -> list[Finding]:
    """Compare the width of the hidden states that the head is fed with the target's."""
    target = pair.target.config.hidden_size
    draft, told_by = fed(pair)
    if target is None or draft is None or target == draft:
        return []
    return [
        Finding(
            code=Code.HEAD_HIDDEN_SIZE,
            severity=Severity.ERROR,
            message=f"the head takes hidden states of {draft} ({told_by}), the target has {target}",
            numbers={"target": target, "draft": draft},
            effect=Engine.FAILS,
            engine_says=_other_width(pair.method, draft, target),
            fix="take the head that was trained for this very target",
        )
    ]


def _other_width(method: str, draft: int, target: int) -> str | None:
    """Quote the first request's end; with eagle3 the engine's process dies without a word."""
    says = OTHER_WIDTH.get(method)
    return None if says is None else says.format(draft=draft, target=target)


def _medusa(pair: Pair) -> list[Finding]:
    """See that there are heads enough for the tokens wanted."""
    heads, tokens = pair.draft.config.medusa_heads, pair.wish.tokens
    if heads is None or tokens is None or tokens <= heads:
        return []
    return [
        refusal(
            code=Code.MEDUSA_HEADS,
            message=f"there are {heads} Medusa heads and {tokens} tokens are to be drafted",
            numbers={"heads": heads, "tokens": tokens},
            engine_says=FEW_HEADS,
            fix=f'"num_speculative_tokens": {heads}, or fewer',
        )
    ]


def _mtp(pair: Pair) -> list[Finding]:
    """See that the checkpoint has MTP modules, and that the tokens wanted suit them."""
    modules, tokens = pair.draft.config.mtp_layers, pair.wish.tokens
    if modules is None:
        return [
            refusal(
                code=Code.TARGET_HAS_NO_MTP,
                message="config.json names no MTP modules",
                engine_says=NO_MTP,
                fix="take a method that needs no MTP modules: ngram, or a draft model",
            )
        ]
    if tokens is not None and tokens > modules and tokens % modules:
        return [
            refusal(
                code=Code.MTP_NOT_DIVISIBLE,
                message=f"{tokens} tokens are no multiple of {modules} MTP modules",
                numbers={"tokens": tokens, "modules": modules},
                engine_says=NOT_A_MULTIPLE.format(tokens=tokens, modules=modules),
                fix=f'"num_speculative_tokens": {modules}, or a multiple of it',
            )
        ]
    known = any(one in pair.draft.config.model_type.lower() for one in _HAVE_MTP)
    if not known:
        return [_mtp_not_known(pair)]
    if tokens is None or tokens <= modules:
        return []
    return [
        Finding(
            code=Code.MTP_REUSES_MODULE,
            severity=Severity.CONDITION,
            message=f"{tokens} tokens from {modules} MTP modules: each is run again for the later "
            "ones, which are accepted less",
            numbers={"tokens": tokens, "modules": modules},
            fix=f'measure "num_speculative_tokens": {modules} first',
        )
    ]


def _mtp_not_known(pair: Pair) -> Finding:
    return Finding(
        code=Code.MTP_NOT_KNOWN,
        severity=Severity.UNKNOWN,
        message=f"whether {pair.rules.release} runs MTP modules of "
        f"{pair.draft.config.model_type or 'a model without a type'} is not known",
        numbers={"release": pair.rules.release, "model_type": pair.draft.config.model_type},
        effect=Engine.UNKNOWN,
        fix="start the engine with them and read its log",
    )
