"""Rules on acceptance as a whole: none, low, collapsing after the first token, made up."""

from collections.abc import Iterator

from specgauge.model.derived import Warn
from specgauge.model.quantity import Dialect
from specgauge.model.verdict import Verdict
from specgauge.preflight.doctor.case import Case
from specgauge.preflight.doctor.codes import Code
from specgauge.preflight.doctor.drafting import Drafting, draftings
from specgauge.preflight.doctor.finding import LIKELY, MEASURED, POSSIBLE, SEEN, Figure, Finding
from specgauge.preflight.doctor.logs import Mark

MIN_DRAFTS = 100
"""Below so many drafts an acceptance is a guess."""

LOW = 0.3
"""Below this acceptance the draft is named."""

FEW = 0.25
"""Below this share of steps with a draft, what drafts do hardly matters."""

WARM = 1.0
"""From this temperature on drafts are hard to guess."""

_COLLAPSE = 0.5
_TAIL = 0.6
_FIRST = 0.3
_NONE_OF = 300


def acceptance_rules(case: Case) -> Iterator[Finding]:
    """Judge each model's acceptance."""
    yield from _synthetic(case)
    yield from _v0(case)
    for one in draftings(case):
        padded = any(
            Warn.PADDED_DRAFTS in model.derived.warnings
            for model in case.models
            if model.derived.model_name == one.where
        )
        if one.ratio == 0.0:
            yield from _none(case, one)
        elif one.drafts >= MIN_DRAFTS and one.comparable:
            collapsed = collapses(one)
            if collapsed:
                yield _chain(one)
            if padded:
                yield _padded(one)
            if one.ratio < LOW:
                yield _low(case, one, collapsed=collapsed, padded=padded)


def collapses(one: Drafting) -> bool:
    """Tell a chain that breaks after its first token from a draft that is weak throughout.

    The second token's own chance is at most half of the first's, and no later one's is much
    better.
    """
    if len(one.conditional) < 2 or one.survival[0] < _FIRST:  # noqa: PLR2004 - a first and a second
        return False
    first, second, *rest = one.conditional
    believed = [q for q, reached in zip(rest, one.survival[1:], strict=False)
                if reached * one.drafts >= MIN_DRAFTS]  # fmt: skip
    return second <= _COLLAPSE * first and all(q <= _TAIL * first for q in believed)


def _chain(one: Drafting) -> Finding:
    alone = 1.0 + one.survival[0]
    length = one.length if one.length is not None else 1.0 + sum(one.survival)
    return Finding(
        code=Code.CHAIN_COLLAPSE,
        confidence=SEEN,
        evidence=f"the first drafted token is kept {one.survival[0]:.0%} of the time, the second "
        f"only {one.conditional[1]:.0%} after it; with k = 1 a draft would yield {alone:.2f} "
        f"tokens, with k = {len(one.survival)} it yields {length:.2f}",
        numbers={
            **_figures(one),
            "position_acceptance_ratio": one.survival,
            "position_conditional_acceptance_ratio": one.conditional,
            "length_at_one": alone,
        },
        where=one.where,
    )


def _low(case: Case, one: Drafting, *, collapsed: bool, padded: bool) -> Finding:
    """Name the draft, unless something else accounts for so low an acceptance."""
    rare = one.coverage is not None and one.coverage < FEW
    setup = case.setup
    warm = setup is not None and setup.temperature is not None and setup.temperature >= WARM
    excused = collapsed or padded or rare or warm
    sure = MEASURED if one.ratio_high < LOW else LIKELY
    pays = any(
        model.judgement is not None and model.judgement.verdict is Verdict.PAYS
        for model in case.models
        if model.derived.model_name == one.where
    )
    named = setup.speculative.get("model") if setup is not None else None
    draft = f"the draft {named}" if isinstance(named, str) else "the draft"
    seen = "" if one.source == "page" else ", by the engine's own log lines"
    return Finding(
        code=Code.LOW_ACCEPTANCE,
        confidence=POSSIBLE if excused else sure,
        evidence=f"{one.ratio:.1%} of what {draft} proposes is accepted{seen}; below {LOW:.0%} "
        "drafting is mostly waste",
        numbers=_figures(one),
        where=one.where,
        hint=pays,
    )


def _padded(one: Drafting) -> Finding:
    return Finding(
        code=Code.PADDED_DRAFTS,
        confidence=MEASURED,
        evidence=f"every draft of a lookup method has all {one.k} tokens, which lookups never "
        f"find: {one.ratio:.1%} is accepted of hits and padded misses together",
        numbers=_figures(one),
        where=one.where,
        hint=one.ratio >= LOW,
    )


def _none(case: Case, one: Drafting) -> Iterator[Finding]:
    """Say why of many drafted tokens none was kept."""
    drafted = one.drafted if one.drafted is not None else one.drafts
    if drafted < _NONE_OF:
        return
    yield Finding(
        code=Code.CPU_SAMPLER if on_cpu(case) else Code.NOTHING_ACCEPTED,
        confidence=MEASURED,
        evidence=f"{drafted:.0f} tokens were drafted and not one was accepted",
        numbers=_figures(one),
        where=one.where,
    )


def on_cpu(case: Case) -> bool:
    """Tell whether something says that the engine runs on a CPU."""
    marked = case.log is not None and Mark.ON_CPU in case.log.marks
    return marked or "cpu" in (case.release or "") or any(page.on_cpu for page in case.pages)


def _synthetic(case: Case) -> Iterator[Finding]:
    if case.setup is not None and case.setup.synthetic:
        keys = [k for k in case.setup.speculative if "synthetic" in k or k.startswith("rejection")]
        yield Finding(
            code=Code.SYNTHETIC_ACCEPTANCE,
            confidence=SEEN,
            evidence=f"{case.setup.source} sets {', '.join(keys)}: acceptance is drawn by lot",
            numbers={"keys": ", ".join(keys)},
        )


def _v0(case: Case) -> Iterator[Finding]:
    speculates = any("drafts" in one.derived.values or one.derived.values.get("acceptance_ratio")
                     for one in case.models)  # fmt: skip
    if case.dialect is Dialect.VLLM_V0 and speculates:
        yield Finding(
            code=Code.V0_COUNTERS,
            confidence=MEASURED,
            evidence="the page is V0's: each collection adds the totals of the engine's whole "
            "life to the draft counters once more",
        )


def _figures(one: Drafting) -> dict[str, Figure]:
    found: dict[str, Figure] = {"acceptance_ratio": one.ratio, "drafts": one.drafts}
    if one.length is not None:
        found["acceptance_length"] = one.length
    if one.k is not None:
        found["num_speculative_tokens"] = one.k
    if one.coverage is not None:
        found["draft_coverage_ratio"] = one.coverage
    return found
