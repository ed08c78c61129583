"""The `specgauge.memory/v1` document: plans and pairs as JSON, unknown values with a reason."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from specgauge.preflight.memory.finding import Finding
from specgauge.preflight.memory.measured import Capacity, Pair
from specgauge.preflight.memory.model import Model
from specgauge.preflight.memory.plan import Plan, Setting, Side
from specgauge.preflight.memory.weights import Role

SCHEMA = "specgauge.memory/v1"

ASSUMPTIONS = (
    "activations: the largest batch once through the widest layer, 16 bits a value",
    "graphs: the first of each kind in full and 1 MiB for each other one, as vLLM counts them",
    "libraries: 196 MiB, measured on an H200",
    "a card shows programs 615 MiB less than nvidia-smi does, measured on an H200",
    "tensor parallelism divides weights evenly; NCCL's buffers lie outside the share",
)


def dated(document: dict[str, Any], *, created: datetime, created_by: str) -> dict[str, Any]:
    """Say in a document when it was made, and by which release."""
    made = {"created": created.isoformat(), "created_by": created_by}
    return {"schema": document["schema"], **made, **document}


def planned(plan: Plan, findings: Iterable[Finding]) -> dict[str, Any]:
    """Build the document of a plan."""
    change = plan.change
    return {
        "schema": SCHEMA,
        "source": "folders",
        "method": None if plan.role is Role.TARGET else str(plan.role),
        "setting": _setting(plan.setting),
        "target": _model(plan.target),
        "draft": None if plan.draft is None else _model(plan.draft),
        "before": _side(plan.before),
        "after": None if plan.after is None else _side(plan.after),
        "change_percent": None if change is None else 100.0 * change,
        "findings": [told(one) for one in findings],
        "assumptions": list(ASSUMPTIONS) if plan.before.reserve else [],
    }


def measured(pair: Pair) -> dict[str, Any]:
    """Build the document of two servers."""
    return {
        "schema": SCHEMA,
        "source": "pages",
        "before": _capacity(pair.before),
        "after": _capacity(pair.after),
        "change_percent": None if pair.change is None else 100.0 * pair.change,
        "findings": [told(one) for one in pair.findings],
    }


def told(one: Finding) -> dict[str, Any]:
    """Build one finding's object."""
    found: dict[str, Any] = {"code": str(one.code), "severity": str(one.severity)}
    found |= {"text": one.text, "numbers": dict(one.numbers)}
    if one.engine_says:
        found["engine_says"] = one.engine_says
    if one.fix:
        found["fix"] = one.fix
    return found


def _setting(one: Setting) -> dict[str, Any]:
    return {
        "memory_bytes": one.memory,
        "kv_space_bytes": one.kv_space,
        "utilization": one.utilisation,
        "tensor_parallel": one.parallel,
        "count": one.count,
        "kv_value_bytes": one.value_bytes,
        "block_size": one.block_size,
        "max_model_len": one.max_model_len,
        "max_num_batched_tokens": one.limits.batched_tokens,
        "max_num_seqs": one.limits.requests,
        "num_speculative_tokens": one.limits.draft_tokens,
        "enforce_eager": one.limits.eager,
        "mean_tokens": one.mean_tokens,
        "concurrency": one.concurrency,
    }


def _model(one: Model) -> dict[str, Any]:
    shape = one.shape
    return {
        "path": one.path,
        "layers": shape.layers,
        "hidden_size": shape.hidden,
        "kv_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "vocabulary": shape.vocabulary,
        "quantisation": shape.quantisation,
        "weights_estimated": one.weights.estimated,
    }


def _side(one: Side) -> dict[str, Any]:
    kept = one.reserve
    return {
        "target_weights_bytes": one.target_weights,
        "draft_weights_bytes": one.draft_weights,
        "activation_bytes": kept and kept.activations,
        "graph_bytes": kept and kept.graphs,
        "library_bytes": kept and kept.libraries,
        "draft_buffer_bytes": kept and kept.buffers,
        "kv_cache_bytes": one.kv_memory,
        "target_kv_bytes_per_token": one.target_token_bytes,
        "draft_kv_bytes_per_token": one.draft_token_bytes,
        "block_bytes": one.pool.block_bytes,
        "kv_groups": len(one.pool.groups),
        "blocks": one.holds.blocks,
        "tokens": one.holds.tokens,
        "max_concurrency": one.holds.max_concurrency,
        "mean_concurrency": one.holds.mean_concurrency,
        "kv_cache_use_ratio": one.holds.use_ratio,
    }


def _capacity(one: Capacity) -> dict[str, Any]:
    known = {"blocks": one.blocks, "block_size": one.block_size, "tokens": one.tokens}
    known |= {"num_speculative_tokens": one.draft_tokens}
    found: dict[str, Any] = {"models": list(one.models), "engines": one.engines}
    found |= {name: value for name, value in known.items() if value is not None}
    found |= _numbers(one.values)
    found["absent"] = dict(one.absent)
    return found


def _numbers(values: Mapping[str, float]) -> dict[str, float | int]:
    """Write whole numbers as such."""
    return {name: int(v) if float(v).is_integer() else v for name, v in values.items()}
