"""Put the checks of a pair together into one report; opens nothing."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from specgauge.preflight.draft.cost import Cost, check_cost, estimate
from specgauge.preflight.draft.finding import (
    Area,
    Checked,
    Code,
    Engine,
    Finding,
    Fit,
    Severity,
    Unmeasured,
    arrange,
    engine,
    fit,
    refusal,
)
from specgauge.preflight.draft.heads import check_head, check_other
from specgauge.preflight.draft.method import engine_infers, overruled
from specgauge.preflight.draft.pair import Difference, Pair, differ
from specgauge.preflight.draft.releases import NEEDS_NO_DRAFT, NEWEST, UNCHECKED_METHODS
from specgauge.preflight.draft.sizes import check_sizes
from specgauge.preflight.draft.start import check_lengths, check_parallel, check_types
from specgauge.preflight.draft.texts import (
    check_encodings,
    check_specials,
    check_template,
    check_texts,
)
from specgauge.preflight.draft.translation import check_translation

USUAL_TOKENS = 3
_NO_HEAD = "There is no module or parameter named 'model'"
_NO_INPUT = "There is no module or parameter named 'fc'"
_ARCTIC = "Arctic Inference is required for suffix decoding."


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What is said of a pair. `speculative_config` is what to start the engine with."""

    pair: Pair
    fit: Fit
    engine: Engine
    findings: tuple[Finding, ...]
    unmeasured: tuple[Unmeasured, ...]
    checked: tuple[Area, ...]
    cost: Cost
    speculative_config: Mapping[str, object]


def judge(pair: Pair) -> Report:
    """Run every check that concerns the method, and judge by the heaviest finding."""
    cost = estimate(pair)
    made = [*_checks(pair), check_cost(cost)]
    findings = arrange([finding for one in made for finding in one.findings])
    missing = [gap for one in made for gap in one.unmeasured]
    if cost.reason:
        missing.append(Unmeasured(area=Area.WEIGHTS, reason=cost.reason))
    gaps = {one.area for one in missing}
    return Report(
        pair=pair,
        fit=fit(findings),
        engine=engine(findings),
        findings=findings,
        unmeasured=tuple(dict.fromkeys(missing)),
        checked=tuple(dict.fromkeys(one.area for one in made if one.area not in gaps)),
        cost=cost,
        speculative_config=_speculative_config(pair),
    )


def _checks(pair: Pair) -> Iterator[Checked]:
    yield _release(pair)
    yield _files(pair)
    if pair.wish.heterogeneous:
        yield check_translation(pair)
    if pair.method in NEEDS_NO_DRAFT:
        yield check_parallel(pair)
        yield _no_draft(pair)
        return
    yield check_lengths(pair)
    yield check_parallel(pair)
    if pair.method == "mtp":
        yield check_head(pair)
        return
    yield check_types(pair)
    if pair.method in UNCHECKED_METHODS:
        yield check_other(pair)
        return
    if pair.method == "draft_model":
        yield from _whole_model(pair)
        return
    yield check_head(pair)
    yield check_texts(pair, _difference(pair))


def _whole_model(pair: Pair) -> Iterator[Checked]:
    """Check all that two models of their own are compared by."""
    difference = _difference(pair)
    yield _is_head(pair)
    yield check_sizes(pair, difference)
    if not pair.translated:
        yield check_texts(pair, difference)
        yield check_specials(pair)
        yield check_encodings(pair)
    yield check_template(pair)


def _is_head(pair: Pair) -> Checked:
    """Find a head that is to be used as a model of its own."""
    weights = pair.draft.weights
    if weights is None or weights.ending("fc.weight") is None:
        return Checked(area=Area.WEIGHTS)
    finding = refusal(
        code=Code.DRAFT_IS_HEAD,
        message="the draft has an fc.weight, as heads have, and is to be used as a whole model",
        engine_says=_NO_INPUT,
        fix="leave --method out, or name the head's",
    )
    return Checked(area=Area.WEIGHTS, findings=(finding,))


def _difference(pair: Pair) -> Difference | None:
    target, draft = pair.target.vocabulary, pair.draft.vocabulary
    return None if target is None or draft is None else differ(target, draft)


def _release(pair: Pair) -> Checked:
    """Say whether the release has the method, and what it needs to be told."""
    rules = pair.rules
    findings = [] if rules.has_method else [_no_method(pair)]
    if rules.newer_than_known:
        findings.append(
            Finding(
                code=Code.RELEASE_NOT_KNOWN,
                severity=Severity.NOTE,
                message=f"{rules.release} is newer than {NEWEST}, whose rules are taken",
                numbers={"release": rules.release, "newest_known": NEWEST},
            )
        )
    if pair.draft is not pair.target:
        findings += _name(pair)
    named = rules.takes_config and pair.method not in NEEDS_NO_DRAFT
    if named and not engine_infers(pair.draft.config, pair.draft.source, pair.method):
        findings.append(
            Finding(
                code=Code.METHOD_MUST_BE_NAMED,
                severity=Severity.CONDITION,
                message=f"without a method the engine takes this {pair.method} checkpoint for "
                "another kind",
                fix=f'"method": "{rules.method_name}" in speculative_config',
            )
        )
    return Checked(area=Area.RELEASE, findings=tuple(findings))


def _no_method(pair: Pair) -> Finding:
    """Say that a release has not the method, or that nobody knows whether it has."""
    rules = pair.rules
    numbers = {"release": rules.release, "method": pair.method}
    fix = f"use {rules.method_from or 'another release'} or another method"
    if rules.has_method is None:
        return Finding(
            code=Code.METHOD_NOT_KNOWN,
            severity=Severity.UNKNOWN,
            message=f"whether {rules.release} has the method {pair.method} is not known",
            numbers=numbers,
            effect=Engine.UNKNOWN,
            fix=fix,
        )
    when = f"; {rules.method_from} has it" if rules.method_from else ""
    return refusal(
        code=Code.METHOD_NOT_IN_RELEASE,
        message=f"{rules.release} has no method {pair.method}{when}",
        numbers=numbers,
        engine_says=rules.method_says,
        fix=fix,
    )


def _name(pair: Pair) -> list[Finding]:
    """Warn of a name that the engine heeds more than the method it is given."""
    taken = overruled(pair.draft.source, pair.method)
    if taken is None or not pair.rules.takes_config:
        return []
    known = (pair.method, taken) == ("draft_model", "eagle")
    return [
        Finding(
            code=Code.NAME_OVERRULES_METHOD,
            severity=Severity.ERROR,
            message=f"for its name the engine takes {pair.draft.source} for an {taken} head, even "
            f"with the method {pair.method}",
            numbers={"method": pair.method, "taken_for": taken},
            effect=Engine.REFUSES if known else Engine.UNKNOWN,
            engine_says=_NO_HEAD if known else None,
            fix="give it a path without eagle-, eagle3, dflash and dspark in it",
        )
    ]


def _files(pair: Pair) -> Checked:
    """Say what in the folders cannot be used."""
    findings, unseen = [], []
    for side, model in {"target": pair.target, "draft": pair.draft}.items():
        if side == "draft" and model is pair.target:
            continue
        if model.config.faults:
            findings.append(
                Finding(
                    code=Code.CONFIG_UNUSABLE,
                    severity=Severity.UNKNOWN,
                    message=f"{model.folder / 'config.json'}: {'; '.join(model.config.faults)}",
                    effect=Engine.UNKNOWN,
                    fix="mend config.json, or fetch it again",
                )
            )
        if model.weights_broken:
            missing = model.weights.missing if model.weights is not None else ()
            reason = f"{', '.join(missing[:3])} missing" if missing else model.weights_reason
            findings.append(
                refusal(
                    code=Code.WEIGHTS_INCOMPLETE,
                    message=f"the {side}'s weights are not whole: {reason}",
                    numbers={"missing": len(missing)},
                    fix=f"fetch {model.source} again",
                )
            )
        elif model.weights is None:
            reason = f"whether the {side}'s are whole: {model.weights_reason}"
            unseen.append(Unmeasured(area=Area.WEIGHTS, reason=reason))
    return Checked(area=Area.WEIGHTS, findings=tuple(findings), unmeasured=tuple(unseen))


def _no_draft(pair: Pair) -> Checked:
    suffix = pair.method == "suffix"
    finding = Finding(
        code=Code.NEEDS_NO_DRAFT,
        severity=Severity.CONDITION if suffix else Severity.NOTE,
        message=f"{pair.method} copies from the text itself: there is no vocabulary to differ",
        engine_says=_ARCTIC if suffix else None,
        fix="pip install arctic-inference==0.1.1 beside the engine" if suffix else None,
    )
    return Checked(area=Area.RELEASE, findings=(finding,))


def _speculative_config(pair: Pair) -> Mapping[str, object]:
    """Write down what the engine is to be started with."""
    modules = pair.draft.config.mtp_layers if pair.method == "mtp" else None
    made: dict[str, object] = {"method": pair.rules.method_name}
    if pair.draft is not pair.target:
        made["model"] = pair.draft.source
    made["num_speculative_tokens"] = pair.wish.tokens or modules or USUAL_TOKENS
    if pair.method in {"ngram", "ngram_gpu"}:
        made |= {"prompt_lookup_min": 2, "prompt_lookup_max": 5}
    if pair.translated:
        made["use_heterogeneous_vocab"] = True
    return made
