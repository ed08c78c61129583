"""Gates by what the sidecar sees now, of production traffic."""

from collections.abc import Iterator

from specgauge.preflight.checklist.case import Case
from specgauge.preflight.checklist.evidence import format_age
from specgauge.preflight.checklist.live import Live
from specgauge.preflight.checklist.result import (
    Reason,
    Result,
    Trouble,
    failed,
    passed,
    troubled,
    unmeasured,
)
from specgauge.preflight.checklist.terms import CLOCK_SLACK, NOW

_SYNTHETIC = "synthetic_acceptance"
_NO_BASELINE = "no_baseline"
_CANNOT_PAY = "cannot_pay"
_BUSY = "try again while production traffic flows"


def usable_live(case: Case) -> Live | Result:
    """Give the sidecar's word if it is about now; else say why it is not."""
    live = case.live
    if isinstance(live, Trouble):
        return troubled(live)
    return next(_refusals(case, live), live)


def _refusals(case: Case, live: Live) -> Iterator[Result]:
    if not live.up:
        yield unmeasured(Reason.TARGET_DOWN, f"the target {live.target} is down", live.proof())
    elif live.at is None:
        says = f"the target {live.target} was never scraped"
        yield unmeasured(Reason.UNDATED, says, live.proof())
    elif (age := case.now - live.at) < -CLOCK_SLACK:
        says = f"the last page of {live.target} is {format_age(-age)} from now"
        yield unmeasured(Reason.FROM_THE_FUTURE, says, live.proof(), fix="set the clocks")
    elif age > (case.terms.max_age if case.recorded else NOW):
        says = f"the last page of {live.target} is {format_age(age)} old"
        yield unmeasured(Reason.STALE, says, live.proof(), fix="see why it is not scraped")
    if _SYNTHETIC in live.warnings:
        says = "acceptance is made up: the server runs with synthetic acceptance"
        yield unmeasured(Reason.SYNTHETIC, says, live.proof(), fix="take it out of its flags")


def judge_acceptance(case: Case) -> Result:
    """Say whether enough is accepted of what production traffic is offered."""
    live = usable_live(case)
    if isinstance(live, Result):
        return live
    proof = live.proof(drafts=live.drafts, acceptance_ratio=live.acceptance_ratio)
    if live.drafts is None or live.drafts < case.terms.min_drafts:
        seen = "no drafts" if not live.drafts else f"{live.drafts:.0f} drafts"
        says = f"{seen} in the window, {case.terms.min_drafts} make a sample"
        return unmeasured(Reason.LOW_SAMPLE, says, proof, fix=_BUSY)
    if live.verdict is not None and live.verdict_reason != _NO_BASELINE:
        return _against_breakeven(live)
    return _against_threshold(live, case.terms.min_acceptance)


def _against_threshold(live: Live, least: float) -> Result:
    """Without a baseline the article's rule of thumb has to do."""
    proof = live.proof(drafts=live.drafts, acceptance_ratio=live.acceptance_ratio)
    if live.acceptance_ratio is None:
        return unmeasured(Reason.INCOMPLETE, "the acceptance ratio is not known", proof)
    says = f"{live.acceptance_ratio:.3f} of what {live.drafts:.0f} drafts proposed was accepted"
    if live.acceptance_ratio > least:
        return passed(f"{says}, above {least:g} (there is no baseline)", proof)
    fix = "try another draft, or fewer draft tokens"
    return failed(Reason.NOT_MET, f"{says}, not above {least:g}", proof, fix=fix)


def _against_breakeven(live: Live) -> Result:
    """With a baseline, what a step costs says what has to be accepted."""
    proof = live.proof(
        drafts=live.drafts,
        acceptance_ratio=live.acceptance_ratio,
        acceptance_length=live.acceptance_length,
        breakeven_acceptance_length=live.breakeven_length,
    )
    if live.breakeven_absent == _CANNOT_PAY:
        says = "a step costs more than all draft tokens could earn, were they all accepted"
        return failed(Reason.COSTS, says, proof, fix="switch speculation off at this load")
    if live.acceptance_length is None or live.breakeven_length is None:
        why = live.breakeven_absent or live.verdict_reason or "no verdict now"
        return unmeasured(Reason.NO_VERDICT, f"no break-even is known: {why}", proof, fix=_BUSY)
    says = (
        f"{live.acceptance_length:.3g} tokens a step ({live.drafts:.0f} drafts in the window), "
        f"break-even is {live.breakeven_length:.3g}"
    )
    if live.acceptance_length > live.breakeven_length:
        return passed(says, proof)
    return failed(Reason.NOT_MET, says, proof, fix="try another draft, or fewer draft tokens")
