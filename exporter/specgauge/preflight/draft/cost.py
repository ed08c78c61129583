"""What drafting costs by the bytes that a step reads, and the acceptance that pays for it.

An estimate: it knows nothing of kernels, batches or the GPU, and takes verification for free.
"""

from dataclasses import dataclass

from specgauge.preflight.draft.config import Config
from specgauge.preflight.draft.finding import Area, Checked, Code, Finding, Severity
from specgauge.preflight.draft.folder import Model
from specgauge.preflight.draft.pair import Pair
from specgauge.preflight.draft.releases import NEEDS_NO_DRAFT
from specgauge.preflight.draft.weights import Tensor, Weights

FORMULA = "L / (1 + k c) = 1 (Leviathan et al., arXiv 2211.17192, with verification for free)"
ASSUMPTIONS = (
    "a step takes as long as it takes to read its bytes once (batch 1, memory-bound)",
    "verifying k + 1 tokens costs as much as one plain step",
    "embedding tables are looked up, not read; of experts only the chosen ones are read",
)
TOO_EXPENSIVE = 0.5
LENGTHS = (1, 2, 3, 4, 5, 7)
_WIDTHS = {"float32": 32, "float16": 16, "bfloat16": 16, "float8_e4m3fn": 8}
_BY_METHOD = {"fp8": 8, "awq": 4, "gptq": 4, "mxfp4": 4, "nvfp4": 4, "modelopt-fp4": 4}
_USUAL_WIDTH = 16
_HALVINGS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Bytes of a model: all, and those that a decode step reads; `told_by` headers or config."""

    total: int
    read: float
    head: float
    told_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What k drafted tokens must bring: None where no acceptance is enough."""

    tokens: int
    length: float
    share: float
    per_token: float | None
    best_speedup: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Sizes and what follows from them; `ratio` is c, a drafted token's cost in plain steps."""

    target: Size | None
    draft: Size | None
    size_ratio: float | None
    ratio: float | None
    rows: tuple[Row, ...]
    reason: str = ""


def estimate(pair: Pair) -> Cost:
    """Estimate what a drafted token costs beside a plain step of the target."""
    if pair.method in NEEDS_NO_DRAFT:
        return Cost(target=size(pair.target), draft=None, size_ratio=0.0, ratio=0.0, rows=table(0))
    own_heads = pair.draft is pair.target
    target = size(pair.target, without_mtp=True)
    draft = _modules(pair.target) if own_heads else size(pair.draft)
    if target is None or draft is None or not target.read:
        side = "target" if target is None else "draft"
        reason = f"the {side} has neither safetensors files nor a config.json that tells its size"
        if own_heads and target is not None:
            reason = "no safetensors file holds a tensor of the MTP modules"
        return Cost(target=target, draft=draft, size_ratio=None, ratio=None, rows=(), reason=reason)
    shares_output = pair.head and pair.method != "medusa" and not draft.head
    read = draft.read + (target.head if shares_output else 0)
    ratio = read / target.read / _at_once(pair)
    return Cost(
        target=target,
        draft=draft,
        size_ratio=draft.total / target.total,
        ratio=ratio,
        rows=table(ratio),
    )


def _at_once(pair: Pair) -> int:
    """Give how many tokens a draft's bytes are read for: each Medusa head or module is for one."""
    config = pair.draft.config
    many = {"medusa": config.medusa_heads, "mtp": config.mtp_layers}
    return many.get(pair.method) or 1


def check_cost(cost: Cost) -> Checked:
    """Warn of a draft that can hardly pay."""
    if cost.ratio is None or cost.ratio < TOO_EXPENSIVE:
        return Checked(area=Area.WEIGHTS)
    never = cost.ratio >= 1
    finding = Finding(
        code=Code.DRAFT_TOO_EXPENSIVE,
        severity=Severity.CONDITION,
        message=f"a drafted token costs {cost.ratio:.2f} of a plain step"
        + (": however much is accepted, it cannot pay" if never else ""),
        numbers={"cost": cost.ratio, "most": TOO_EXPENSIVE},
        fix="take a smaller draft, an EAGLE head, or n-gram drafting",
    )
    return Checked(area=Area.WEIGHTS, findings=(finding,))


def table(cost: float) -> tuple[Row, ...]:
    """Give what has to be accepted for each k, at a cost."""
    return tuple(
        Row(
            tokens=tokens,
            length=1 + tokens * cost,
            share=cost,
            per_token=per_token(tokens, cost),
            best_speedup=(tokens + 1) / (1 + tokens * cost),
        )
        for tokens in LENGTHS
    )


def per_token(tokens: int, cost: float) -> float | None:
    """Solve (1 - a^(k+1)) / (1 - a) = 1 + k c for a: one chance of acceptance for every token."""
    if cost > 1:
        return None
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if sum(middle**one for one in range(tokens + 1)) < 1 + tokens * cost:
            low = middle
        else:
            high = middle
    return high


def size(model: Model, *, without_mtp: bool = False) -> Size | None:
    """Measure a model by its safetensors headers, or estimate it by its configuration."""
    if model.weights is not None and not model.weights.missing and model.weights.size:
        tensors = list(model.weights.tensors.values())
        if without_mtp:
            tensors = [one for one in tensors if not _is_mtp(one, model.config)]
        return _measured(tensors, model)
    return _estimated(model.config)


def _modules(model: Model) -> Size | None:
    """Measure the MTP modules within a target's own checkpoint."""
    tensors = model.weights.tensors.values() if model.weights is not None else ()
    found = [one for one in tensors if _is_mtp(one, model.config)]
    return _measured(found, model) if found else None


def _is_mtp(tensor: Tensor, config: Config) -> bool:
    """Tell a module's tensor: under `mtp`, or a layer behind the last."""
    parts = tensor.name.split(".")
    if "mtp" in parts or any(part.startswith("mtp_") for part in parts):
        return True
    after = [parts[at + 1] for at, part in enumerate(parts[:-1]) if part == "layers"]
    behind = config.layers if config.mtp_layers is not None else None
    return behind is not None and any(one.isdecimal() and int(one) >= behind for one in after)


def _measured(tensors: list[Tensor], model: Model) -> Size:
    config = model.config
    share = 1.0
    if config.experts and config.experts_per_token:
        share = min(1.0, config.experts_per_token / config.experts)
    whole = Weights(tensors={one.name: one for one in tensors})
    head = whole.ending("lm_head.weight") or whole.ending("shared_head.head.weight")
    table_ = next((one for one in tensors if "embed_tokens" in one.name), None)
    output = head if head is not None else table_ if config.tied else None
    read = sum(
        one.size * (share if ".experts." in one.name else 1.0)
        for one in tensors
        if one is output or one is not table_
    )
    return Size(
        total=whole.size,
        read=read,
        head=output.size if output is not None else 0,
        told_by="headers",
    )


def _estimated(config: Config) -> Size | None:
    """Add a decoder's matrices up: attention, the gated feed-forward part, the two ends."""
    hidden, layers, rows = config.hidden_size, config.layers, config.vocab_size
    if hidden is None or layers is None or rows is None or config.heads is None:
        return None
    head = config.head_dim or hidden // config.heads
    keys = (config.kv_heads or config.heads) * head
    attention = 2 * hidden * config.heads * head + 2 * hidden * keys
    inner = config.expert_size or config.intermediate_size or 4 * hidden
    one = 3 * hidden * inner
    experts = config.experts or 1
    active = min(experts, config.experts_per_token or experts)
    ends = rows * hidden * _width("", config) / 8
    per = _width(config.quantisation or "", config) / 8
    total = layers * (attention + experts * one) * per + ends * (1 if config.tied else 2)
    read = layers * (attention + active * one) * per + ends
    return Size(total=int(total), read=read, head=ends, told_by="config")


def _width(method: str, config: Config) -> int:
    """Give the bits of a weight."""
    if method:
        return config.quantised_bits or _BY_METHOD.get(method, 8)
    return _WIDTHS.get(config.dtype or "", _USUAL_WIDTH)
