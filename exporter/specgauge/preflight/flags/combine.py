"""Keys of a speculative_config together: what the engine refuses or does otherwise than meant."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from specgauge.preflight.flags.finding import Code, Finding, error, info, severe, warning
from specgauge.preflight.flags.kinds import number_of, whole_of
from specgauge.preflight.flags.methods import family
from specgauge.preflight.flags.release import Release
from specgauge.preflight.flags.schedule import faults
from specgauge.preflight.flags.surface import Surface

_SCHEDULE = "num_speculative_tokens_per_batch_size"
_RATES = "synthetic_acceptance_rates"
_LENGTH = "synthetic_acceptance_length"
_SYNTHETIC = (_RATES, _LENGTH, "synthetic_acceptance_rate")
_HALF_RATES = "write synthetic_acceptance_rates or synthetic_acceptance_length, not both"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A configuration with what is known of the server around it; None: not known."""

    config: Mapping[str, object]
    method: str
    surface: Surface
    release: Release
    tensor_parallel: int | None = None
    data_parallel: int | None = None

    @property
    def kind(self) -> str:
        """The method, with the model-specific names of MTP made one."""
        return family(self.method, self.surface)

    @property
    def k(self) -> int | None:
        """The number of tokens drafted a step, if it is a number."""
        return whole_of(self.config.get("num_speculative_tokens"))

    def says(self, key: str) -> bool:
        """Tell whether a key is there and not null."""
        return self.config.get(key) is not None


def check_combinations(case: Case) -> list[Finding]:
    """Go through all rules."""
    return [finding for rule in _RULES for finding in rule(case)]


def _k(case: Case) -> list[Finding]:
    name = "num_speculative_tokens"
    if case.says(name):
        return _n_predict(case)
    if case.kind == "suffix":
        message = "the depth of the suffix trees is taken"
        return [info(Code.K_FROM_MODEL, name, message)]
    if case.kind in {"mtp", "medusa", "mlp_speculator", "dspark"} and case.says("model"):
        message = "the draft's own number is taken, if its config has one"
        return [warning(Code.K_FROM_MODEL, name, message, "write it down")]
    return [error(Code.K_MISSING, name, "it is not there", "write how many tokens to draft")]


def _n_predict(case: Case) -> list[Finding]:
    if case.kind != "mtp" or (case.k or 0) <= 1:
        return []
    message = f"{case.k} must be a multiple of the model's n_predict, which is not known here"
    fix = "see num_nextn_predict_layers in the model's config.json"
    return [warning(Code.MTP_N_PREDICT, "num_speculative_tokens", message, fix)]


def _lookup(case: Case) -> list[Finding]:
    if case.kind not in {"ngram", "ngram_gpu"}:
        return []
    most, least = (case.config.get(f"prompt_lookup_{end}") for end in ("max", "min"))
    if most is None and least is None:
        message = "neither prompt_lookup_max nor prompt_lookup_min is there; 5 and 5 are taken"
        return [warning(Code.PROMPT_LOOKUP_DEFAULT, "prompt_lookup_max", message, "write both")]
    if most is None or least is None:
        there, missing = ("min", "max") if most is None else ("max", "min")
        message = f"prompt_lookup_{missing} becomes what prompt_lookup_{there} is"
        name = f"prompt_lookup_{missing}"
        return [info(Code.PROMPT_LOOKUP_DEFAULT, name, message, "write both")]
    low, high = whole_of(least), whole_of(most)
    if low is not None and high is not None and low > high:
        message = f"{low} is above prompt_lookup_max, {high}"
        return [error(Code.PROMPT_LOOKUP_ORDER, "prompt_lookup_min", message)]
    return []


def _draft_width(case: Case) -> list[Finding]:
    name = "draft_tensor_parallel_size"
    width, target = whole_of(case.config.get(name)), case.tensor_parallel
    if width is None or case.kind in {"ngram", "ngram_gpu", "suffix"}:
        return []
    alike = (
        case.kind == "draft_model"
        and case.release >= case.surface.since["same_draft_tensor_parallel"]
    )
    if target is None:
        if width == 1 and not alike:
            return []
        choices = f"{width}" if alike else f"1 or {width}"
        message = f"the target's --tensor-parallel-size is not known; it must be {choices}"
        return [warning(Code.DRAFT_TENSOR_PARALLEL, name, message)]
    if width == target or (width == 1 and not alike):
        return []
    limit = f"{target}" if alike else f"1 or {target}"
    message = f"{width}, where the target has --tensor-parallel-size {target}: must be {limit}"
    return [error(Code.DRAFT_TENSOR_PARALLEL, name, message, "take it out")]


def _vocabulary(case: Case) -> list[Finding]:
    name = "use_heterogeneous_vocab"
    if case.config.get(name) is not True:
        return []
    found = []
    if case.says("draft_sample_method") and case.config["draft_sample_method"] != "greedy":
        message = "drafts must be greedy"
        found.append(error(Code.HETEROGENEOUS_VOCAB, name, message, "take draft_sample_method out"))
    if case.config.get("use_local_argmax_reduction") is True:
        message = "not together with use_local_argmax_reduction"
        found.append(error(Code.HETEROGENEOUS_VOCAB, name, message, "take one of them out"))
    return found


def _synthetic(case: Case) -> list[Finding]:
    there = [name for name in _SYNTHETIC if case.says(name)]
    if case.config.get("rejection_sample_method") != "synthetic":
        message = "only with rejection_sample_method synthetic"
        return [error(Code.SYNTHETIC_WITHOUT_METHOD, name, message) for name in there]
    message = "drafts are accepted by lot, whatever the target says: answers are garbage"
    fix = "take rejection_sample_method out, and synthetic_* with it"
    found = [severe(Code.SYNTHETIC_ACCEPTANCE_ON, "rejection_sample_method", message, fix)]
    if case.surface.keys[_RATES].span.is_newer_than(case.release):
        return found
    if case.says(_RATES) == case.says(_LENGTH):
        message = "exactly one of rates and length must be there"
        return [*found, error(Code.SYNTHETIC_SHAPE, _RATES, message, _HALF_RATES)]
    return [*found, *_rates(case), *_length(case)]


def _rates(case: Case) -> list[Finding]:
    rates = case.config.get(_RATES)
    if not isinstance(rates, list):
        return []
    found = []
    if case.k is not None and len(rates) != case.k:
        message = f"{len(rates)} rates for {case.k} tokens"
        found.append(error(Code.SYNTHETIC_SHAPE, _RATES, message))
    numbers = [number_of(one) for one in rates]
    known = [one for one in numbers if one is not None]
    if any(after > before for before, after in pairwise(known)):
        found.append(error(Code.SYNTHETIC_SHAPE, _RATES, "they must not rise"))
    return found


def _length(case: Case) -> list[Finding]:
    length = number_of(case.config.get(_LENGTH))
    if length is None or case.k is None or 1 <= length <= case.k + 1:
        return []
    return [error(Code.SYNTHETIC_SHAPE, _LENGTH, f"{length:g} is not from 1 to {case.k + 1}")]


def _lossy(case: Case) -> list[Finding]:
    found = []
    if case.config.get("rejection_sample_method") == "fly":
        message = "fly accepts drafts the target would not: answers change, acceptance rises"
        found.append(warning(Code.LOSSY_ACCEPTANCE, "rejection_sample_method", message))
    else:
        for name in case.config:
            if name.startswith("fly_") and case.says(name):
                message = "only rejection_sample_method fly reads it"
                found.append(warning(Code.WITHOUT_EFFECT, name, message, "take it out"))
    if case.config.get("acceptance_method") == "typical_acceptance_sampler":
        message = "typical acceptance changes what the target would say"
        found.append(warning(Code.LOSSY_ACCEPTANCE, "acceptance_method", message))
    return found


def _schedule(case: Case) -> list[Finding]:
    rows = case.config.get(_SCHEDULE)
    if not isinstance(rows, list) or faults(rows):
        return []
    found = []
    if case.k is not None and (above := [row for row in rows if row[2] > case.k]):
        message = f"k {above[0][2]} is cut to num_speculative_tokens, {case.k}"
        found.append(warning(Code.SCHEDULE_CLIPPED, _SCHEDULE, message))
    if (case.data_parallel or 1) > 1:
        found.append(_in_data_parallel(case))
    if case.method and case.kind not in case.surface.groups["scheduled"]:
        message = f"not every runner obeys it with method {case.method}"
        found.append(warning(Code.SCHEDULE_IGNORED, _SCHEDULE, message, "measure it"))
    return found


def _in_data_parallel(case: Case) -> Finding:
    fix = "take it out, or turn speculation off by pool"
    if case.release >= case.surface.since["schedule_off_in_data_parallel"]:
        message = "ignored under data parallelism: num_speculative_tokens holds at every load"
        return warning(Code.SCHEDULE_IGNORED, _SCHEDULE, message, fix)
    message = "under data parallelism the ranks can part and hang"
    return severe(Code.SCHEDULE_IGNORED, _SCHEDULE, message, fix)


def _adaptive(case: Case) -> list[Finding]:
    name = "enable_adaptive_verification"
    both = case.config.get(name) is True and case.config.get("use_local_argmax_reduction") is True
    if not both or case.kind == "dspark":
        return []
    message = "not together with use_local_argmax_reduction"
    return [error(Code.WRONG_METHOD, name, message, "take one of them out")]


def _package(case: Case) -> list[Finding]:
    if case.kind != "suffix":
        return []
    message = "the engine wants the package arctic-inference"
    return [info(Code.NEEDS_PACKAGE, "method", message, "install it beside the engine")]


_RULES: tuple[Callable[[Case], list[Finding]], ...] = (
    _k,
    _lookup,
    _draft_width,
    _vocabulary,
    _synthetic,
    _lossy,
    _schedule,
    _adaptive,
    _package,
)
