"""A model as its folder tells it; nothing is read here."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from specgauge.preflight.memory.shape import Shape
from specgauge.preflight.memory.weights import Role, Weights


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model: where it was read, its sizes, its weights."""

    path: str
    shape: Shape
    weights: Weights


def role_of(config: Mapping[str, Any]) -> Role:
    """Tell from a draft's configuration what kind it is."""
    architectures = config.get("architectures")
    named = [*architectures] if isinstance(architectures, list) else []
    named += [config.get(name) for name in ("model_type", "speculators_model_type", "method")]
    text = " ".join(str(one).lower() for one in named)
    if "eagle3" in text or config.get("draft_vocab_size") is not None:
        return Role.EAGLE3
    if "eagle" in text:
        return Role.EAGLE
    return Role.OTHER if "medusa" in text or "mlp_speculator" in text else Role.DRAFT
