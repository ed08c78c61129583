"""What each reason means, in words for a person; decides nothing."""

from collections.abc import Mapping

from specgauge.model.guard import GuardReason
from specgauge.model.verdict import VerdictReason

_G, _V = GuardReason, VerdictReason
REASONS: Mapping[str, str] = {
    _V.ABOVE_ONE: "tokens come faster than they would without speculation at this load",
    _V.BELOW_ONE: "tokens come slower than they would without speculation at this load",
    _V.WITHIN_MARGIN: "speculation makes no difference beyond the margin",
    _V.LATENCY_TRADEOFF: "what is won in time per token is lost in the time of a whole request",
    _V.INTERVAL_TOO_WIDE: "the numbers scatter too much to tell",
    _V.NO_BASELINE: "no baseline belongs to this server; record one",
    _V.OUTSIDE_RANGE: "the load is above what the baseline was recorded at",
    _V.TOO_FEW_TOKENS: "too few tokens were generated to judge",
    _V.BASELINE_MISMATCH: "the baseline is of another server",
    _V.WORKLOAD_MISMATCH: "prompts or answers are of another length than the baseline's",
    _V.UNEVEN_LOAD: "the load came and went between two pages, which reads as a loss",
    _G.ACCEPTANCE_BELOW_FLOOR: "fewer draft tokens are accepted than speculation needs to pay",
    _G.ACCEPTANCE_COLLAPSED: "acceptance fell suddenly, against its own recent past",
    _G.ACCEPTANCE_HELD: "acceptance is as high as speculation needs",
    _G.LATENCY_OBJECTIVE_MISSED: "a promised latency is missed, and speculation likely causes it",
    _G.EXCESS_ERRORS: "the speculative pool fails more often than the standard one",
    _G.STARTUP_GRACE: "the engine has only just started",
    _G.NEEDS_WINDOW: "there is only one page so far",
    _G.ENGINE_RESTARTED: "the engine restarted within the window",
    _G.CLOCK_WENT_BACK: "the clock went back within the window",
    _G.NO_PAGE: "the engine's metrics could not be had",
    _G.NO_MODEL: "the page names no model",
    _G.NOT_SPECULATING: "the server does not speculate, as far as its page tells",
    _G.FLAG_OFF: "the flag is off, so the pages say nothing of speculation",
    _G.EVIDENCE_IMPOSSIBLE: "the speedup that was given cannot be: it contradicts itself or the "
    "verdict, or there is a loss without a number",
    _G.WITHIN_USUAL: "it cost in this window, by no more than windows of late differ anyway",
    _G.SPEEDUP_FELL: "speedup has just fallen, and probably to a loss",
    _G.TOO_FEW_REQUESTS: "too few requests finished to judge",
    _G.TOO_FEW_DRAFTS: "too few drafts were made to judge",
    _G.MODELS_DISAGREE: "it costs for one model and not for another on the same server",
    _G.ALL_SIGNALS_OFF: "every signal is switched off, so nothing is judged",
    _G.READ_BACK_ADOPTED: "the flag was read and taken over as it is",
    _G.READ_BACK_UNKNOWN: "the flag could not be read back yet",
    _G.NOT_YET_IN_A_ROW: "speculation cost in this window, which is not enough in a row yet",
    _G.COOLING_DOWN: "the cool-down after the last fallback lasts",
    _G.PROBE_DUE: "the cool-down ended, so speculation gets another chance",
    _G.PROBE_ASKED: "an operator asked for a trial before the cool-down ended",
    _G.PROBE_TOO_SHORT: "the trial is too young to decide: it lasts guard.recovery.probe_for at "
    "least, and what was measured before it does not count; shorten that key to decide earlier",
    _G.PROBE_LOAD_TOO_LOW: "it goes well, but at a lower load than the one that would return",
    _G.PROBE_NOT_CLEAR: "at the load at which it cost, it does not yet clearly pay",
    _G.PROBE_SUCCEEDED: "the trial went well for long enough and at enough load",
    _G.PROBE_FAILED: "speculation cost in the trial as well",
    _G.MANUAL_RECOVERY: "recovery is manual: only an operator turns it on again",
    _G.NO_FALLBACK_CAPACITY: "the standard pool is down or full, so the traffic has nowhere to go",
    _G.FALLBACK_INEFFECTIVE: "the service is no faster since speculation was turned off; look for "
    "another cause",
    _G.TOO_MANY_FALLBACKS: "it fell back too often within a day; an operator has to look, and lets "
    "go of it with `specgauge guard override auto`",
    _G.MEMBERS_FALLING_BACK: "as many members of the pool as may already fall back",
    _G.FROZEN: "the freeze file holds the flag where it is",
    _G.OVERRIDE_ON: "an operator wants it on",
    _G.OVERRIDE_OFF: "an operator wants it off",
    _G.OVERRIDE_EXPIRED: "the operator's override has expired",
    _G.OVERRIDE_LIFTED: "the operator has handed the flag back",
    _G.EVALUATION_FAILED: "the guard failed to work the evidence out, a fault of its own",
    _G.CHANGED_ELSEWHERE: "somebody else changed the flag, and it is taken over as it reads",
}


POOL_REASONS: Mapping[str, str] = {
    "query_failed": "Prometheus says that the query failed",
    "partial_answer": "Prometheus gave only a part of the answer",
    "wrong_shape": "the answer is none of Prometheus'",
    "several_series": "Prometheus holds more series than there can be",
    "not_finite": "Prometheus holds no number where a count is needed",
    "no_series": "Prometheus knows no member of the pool",
    "too_few_samples": "no member of the pool was scraped twice within the window",
    "members_missing": "too many members of the pool are missing",
    "400": "Prometheus refuses the query",
    "401": "Prometheus wants another token",
    "403": "Prometheus does not let this token ask",
    "404": "there is no Prometheus at that address",
    "409": "Prometheus refuses the query for now",
    "429": "Prometheus is asked too often",
    "4xx": "Prometheus refuses the query",
    "5xx": "Prometheus, or what stands before it, failed",
    "timeout": "Prometheus gave no whole answer in time",
    "unreachable": "Prometheus cannot be reached",
    "tls": "the certificate of Prometheus is not accepted",
    "redirect": "Prometheus answers with a redirect, which is not followed",
    "unverified": "the answer of Prometheus cannot be relied on",
    "unreadable": "the answer of Prometheus is not understood",
    "refused": "the query cannot be sent",
    "io": "a file that is needed to ask Prometheus cannot be read",
}
"""Why a pool cannot be looked at, which is nobody's fault but the way there."""


def reason_in_words(reason: str) -> str:
    """Say a reason, or its own name where it comes from elsewhere."""
    return REASONS.get(reason) or POOL_REASONS.get(reason) or reason.replace("_", " ")


def span_in_words(seconds: float) -> str:
    """Say a length of time to two places: 45 s, 4 min 30 s, 2 h 5 min, 3 d 4 h."""
    left = max(0, round(seconds))
    parts = []
    for name, size in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {name}")
        elif parts:
            break
    return " ".join(parts[:2]) or "0 s"
