"""Gates by what was found out before it was switched on: the draft, k, and memory."""

from collections.abc import Iterator

from specgauge.preflight.checklist.case import Case
from specgauge.preflight.checklist.deployment import needs_draft
from specgauge.preflight.checklist.evidence import DRAFT, MEMORY, SWEEP, Evidence
from specgauge.preflight.checklist.live import Live
from specgauge.preflight.checklist.live_gates import usable_live
from specgauge.preflight.checklist.origin import share_in_use
from specgauge.preflight.checklist.paper import given
from specgauge.preflight.checklist.reading import at, mappings, number, whole, word
from specgauge.preflight.checklist.result import (
    Proof,
    Reason,
    Result,
    failed,
    passed,
    unmeasured,
)

_COMPATIBLE, _CONDITIONS, _INCOMPATIBLE = "compatible", "with_conditions", "incompatible"


def judge_draft(case: Case) -> Result:
    """Say whether the draft fits the model, under conditions that are met."""
    if needs_draft(case.deployment.speculation) is False:
        method = case.deployment.speculation.method
        return passed(f"{method} needs no draft model", reason=Reason.NOT_NEEDED)
    found = given(case, case.draft, DRAFT)
    if isinstance(found, Result):
        return found
    fit = word(found.body.get("verdict"))
    if fit in {_COMPATIBLE, _CONDITIONS} and any(_codes(found, "error")):
        fit = _INCOMPATIBLE
    if fit == _COMPATIBLE:
        return passed("compatible", found.proof())
    if fit == _CONDITIONS:
        return _conditions(case, found)
    if fit == _INCOMPATIBLE:
        codes = ", ".join(_codes(found, "error")) or "see its findings"
        fix = "choose another draft: specgauge draft suggest TARGET"
        return failed(Reason.REJECTED, f"incompatible: {codes}", found.proof(), fix=fix)
    says = f"{found.source}: its verdict is {fit or 'missing'}"
    return unmeasured(Reason.NO_VERDICT, says, found.proof())


def _conditions(case: Case, found: Evidence) -> Result:
    """Hold the conditions against those that an operator says are met."""
    codes = list(_codes(found, "condition"))
    if not codes:
        says = f"{found.source}: it has conditions and does not say which"
        return unmeasured(Reason.INCOMPLETE, says, found.proof())
    still = [code for code in codes if code not in case.stated.draft_conditions]
    if still:
        fix = "see that they are met, and name them in checklist.draft_conditions"
        says = f"compatible if {', '.join(still)} is seen to"
        return failed(Reason.CONDITIONS_OPEN, says, found.proof(), fix=fix)
    return passed(f"compatible; stated as met: {', '.join(codes)}", found.proof())


def _codes(found: Evidence, severity: str) -> Iterator[str]:
    for one in mappings(found.body.get("findings")):
        code = word(one.get("code"))
        if code is not None and one.get("severity") == severity:
            yield code


def judge_k(case: Case) -> Result:
    """Say whether the k that runs is the one that an experiment recommends."""
    found = given(case, case.sweep, SWEEP)
    if isinstance(found, Result):
        return found
    chosen = found.body.get("recommended")
    k = whole(at(chosen, "num_speculative_tokens"))
    repeats = _fewest_repeats(found, word(at(chosen, "candidate")))
    speedup = number(at(chosen, "speedup_ratio"))
    proof = found.proof(recommended_k=k, speedup_ratio=speedup, repeats=repeats)
    says = f"k={k} is what the sweep recommends"
    return next(_against_k(case, found, k, repeats, proof), passed(says, proof))


def _against_k(
    case: Case, found: Evidence, k: int | None, repeats: int, proof: Proof
) -> Iterator[Result]:
    """Say what speaks against the k that runs, what makes the sweep no evidence first."""
    runs, wanted = case.deployment.speculation.k, case.terms.min_repeats
    if found.body.get("complete") is not True:
        says = f"{found.source}: the sweep has not come to its end"
        yield unmeasured(Reason.INCOMPLETE, says, proof, fix="run it again, and it goes on")
    if k is None:
        says = f"{found.source}: it recommends nothing"
        yield unmeasured(Reason.NO_VERDICT, says, proof, fix="see why its runs were rejected")
    if repeats < wanted:
        says = f"{repeats} repeats of what it recommends, {wanted} are wanted"
        yield unmeasured(Reason.LOW_SAMPLE, says, proof, fix="run the sweep with more repeats")
    if k == 0:
        says = "the sweep recommends no speculation"
        yield failed(Reason.COSTS, says, proof, fix="switch it off, or try another draft")
    if runs is None:
        says = f"the sweep recommends k={k}; which k runs is not known"
        yield unmeasured(Reason.DEPLOYMENT_UNKNOWN, says, proof)
    if k != runs:
        says = f"the sweep recommends k={k}, and k={runs} runs"
        yield failed(Reason.OTHER_K, says, proof, fix=f"set num_speculative_tokens to {k}")


def _fewest_repeats(found: Evidence, candidate: str | None) -> int:
    """Give the fewest repeats that the candidate has at a load; 0 where it has none."""
    repeats = [
        whole(one.get("repeats")) or 0
        for one in mappings(found.body.get("cells"))
        if word(one.get("candidate")) == candidate
    ]
    return min(repeats, default=0)


def judge_memory(case: Case) -> Result:
    """Say whether there is memory left, by the report and as the sidecar sees it."""
    found = given(case, case.memory, MEMORY)
    if isinstance(found, Result):
        return found
    shares = share_in_use(found.body)
    proofs = [found.proof(**shares)]
    wrong = list(_codes(found, "error"))
    if wrong:
        fix = "see its findings: specgauge memory"
        return failed(Reason.REJECTED, f"it does not fit: {', '.join(wrong)}", *proofs, fix=fix)
    if not shares or min(shares.values()) < 0.0:
        says = f"{found.source}: says nothing of the share of memory in use"
        return unmeasured(Reason.INCOMPLETE, says, *proofs)
    live = usable_live(case)
    if isinstance(live, Live) and live.kv_usage is not None:
        proofs.append(live.proof(kv_cache_usage_ratio=live.kv_usage))
        shares |= {"kv_cache_usage_ratio": live.kv_usage}
    limit = case.terms.max_memory
    says = ", ".join(f"{_SHARES[name]} {value:.1%}" for name, value in shares.items())
    if any(value >= limit for value in shares.values()):
        fix = "fewer draft tokens (k = 3), a smaller draft, or a lower --gpu-memory-utilization"
        return failed(Reason.NOT_MET, f"{says}: not below {limit:.0%}", *proofs, fix=fix)
    return passed(f"{says}: below {limit:.0%}", *proofs)


_SHARES = {
    "gpu_memory_ratio": "GPU memory",
    "kv_cache_use_ratio": "KV cache as reported",
    "kv_cache_usage_ratio": "KV cache now",
}
