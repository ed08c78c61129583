"""How a draft is to be used, told from its configuration and its tensors; opens no file."""

from dataclasses import dataclass

from specgauge.preflight.draft.config import Config
from specgauge.preflight.draft.weights import Weights

# What stands in an architecture or a model type, in the order it is looked for.
_MARKS = (
    ("eagle3", "eagle3"),
    ("eagle", "eagle"),
    ("medusa", "medusa"),
    ("mlpspeculator", "mlp_speculator"),
    ("mlp_speculator", "mlp_speculator"),
    ("dflash", "dflash"),
    ("dspark", "dspark"),
    ("mtp", "mtp"),
)
_NAMES = (("eagle-", "eagle"), ("eagle3", "eagle3"), ("dflash", "dflash"), ("dspark", "dspark"))
_SAID_BY_NAMES = frozenset(method for _, method in _NAMES)
_SPECULATORS = {"eagle": "eagle", "eagle3": "eagle3", "peagle": "eagle3", "mtp": "mtp"}
_EAGLE3_INPUTS = 3
_EAGLE_INPUTS = 2
ENGINE_TELLS = frozenset({"medusa", "mlp_speculator", "mtp"})
"""Methods that the engine finds out by the model type; others by the folder's name, if at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """A method and what it was told by: `given`, `config`, `weights`, `name` or `default`."""

    name: str
    told_by: str


def infer(config: Config, weights: Weights | None, source: str) -> Method:
    """Tell a head from a whole draft model; the configuration goes before the tensors' shapes."""
    if config.speculator is not None:
        found = _SPECULATORS.get(config.speculator) or _mark(config.speculator)
        return Method(name=found or "eagle3", told_by="config")
    marks = (*config.architectures, config.model_type)
    found = next((mark for word in marks if (mark := _mark(word)) is not None), None)
    if found == "eagle" and config.draft_vocab_size is not None:
        found = "eagle3"
    if found is None and config.medusa_heads is not None and config.layers is None:
        found = "medusa"
    if found is None and config.draft_vocab_size is not None:
        found = "eagle3"
    if found is not None:
        return Method(name=found, told_by="config")
    if (by_shape := _by_shape(weights)) is not None:
        return Method(name=by_shape, told_by="weights")
    if (by_name := _by_name(source)) is not None:
        return Method(name=by_name, told_by="name")
    return Method(name="draft_model", told_by="default")


def overruled(source: str, method: str) -> str | None:
    """Give the method that the engine takes for the name's sake, whatever it is told.

    A name says nothing against a method that names say.
    """
    named = _by_name(source)
    return None if method in _SAID_BY_NAMES else named


def engine_infers(config: Config, source: str, method: str) -> bool:
    """Say whether the engine would come to the same method if it were not named."""
    if method in ENGINE_TELLS and config.speculator is None:
        return True
    return (_by_name(source) or "draft_model") == method


def _mark(word: str) -> str | None:
    low = word.lower()
    return next((method for mark, method in _MARKS if mark in low), None)


def _by_name(source: str) -> str | None:
    """Read a name as the engine does."""
    low = source.lower()
    return next((method for mark, method in _NAMES if mark in low), None)


def _by_shape(weights: Weights | None) -> str | None:
    """Tell a head by its input: two or three hidden states beside each other."""
    if weights is None:
        return None
    if weights.ending("d2t") is not None:
        return "eagle3"
    fc = weights.ending("fc.weight")
    if fc is None or len(fc.shape) != 2 or fc.shape[0] == 0:  # noqa: PLR2004 - a matrix
        return None
    inputs = fc.shape[1] / fc.shape[0]
    if inputs == _EAGLE_INPUTS:
        return "eagle"
    return "eagle3" if inputs == _EAGLE3_INPUTS else None
