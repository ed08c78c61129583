"""Reasons for and against speculation, one figure at a time: values in, reasons out.

Where a baseline knows what checking drafts costs at this load, that decides; a bare number of
requests decides only without one.
"""

from collections.abc import Iterator

from specgauge.preflight.advise.expect import Expected, in_step
from specgauge.preflight.advise.finding import Code, Reason, Weight
from specgauge.preflight.advise.observed import Limits, Observed

_BUSY = frozenset({"active", "inactive"})


def speculating(observed: Observed) -> Iterator[Reason]:
    """Say where a server drafts already."""
    if observed.speculation in _BUSY:
        yield Reason(
            code=Code.ALREADY_SPECULATING,
            weight=Weight.UNKNOWN,
            text="this server speculates already, so what it would gain cannot be told from it",
            fix="specgauge verdict --baseline baseline.json says whether it pays; record the "
            "baseline on a server without speculation",
        )


def load(
    observed: Observed, draft_tokens: int, expected: Expected | None, limits: Limits
) -> Iterator[Reason]:
    """Judge the load: a queue, and what checking drafts would cost."""
    waiting, preempted = observed.requests_waiting or 0.0, observed.preemptions or 0.0
    if waiting > 0.0 or (preempted > 0.0 and observed.seconds is not None):
        yield Reason(
            code=Code.SATURATED,
            weight=Weight.AGAINST,
            text=f"{waiting:g} requests wait and {preempted:g} were preempted: the server is full, "
            "and drafts would take room from requests",
            numbers={"requests_waiting": waiting, "preemptions": preempted},
            fix="more replicas or a smaller load first",
        )
    if (busy := observed.decode_concurrency) is None:
        yield Reason(
            code=Code.LOAD_NOT_MEASURED,
            weight=Weight.UNKNOWN,
            text="the load is not known: it takes two pages some seconds apart with traffic "
            "between them",
            fix="--url with --window 30 while it serves, or --concurrency N for the expected load",
        )
    elif expected is not None:
        yield _priced(busy, draft_tokens, expected, limits)
        if expected.extrapolated:
            yield Reason(
                code=Code.OUTSIDE_BASELINE,
                weight=Weight.CAUTION,
                text=f"{busy:.3g} requests with {draft_tokens} draft tokens each lie above the "
                "baseline's highest level; the price there is its last line drawn on",
                fix="record a higher level: specgauge baseline record",
            )
    else:
        yield _counted(busy, draft_tokens, limits)


def _priced(load: float, draft_tokens: int, expected: Expected, limits: Limits) -> Reason:
    """Judge the load by what checking drafts would cost."""
    needed = expected.breakeven_acceptance
    dear = needed > limits.breakeven_acceptance
    return Reason(
        code=Code.VERIFICATION_TOO_DEAR if dear else Code.ROOM_IN_LOAD,
        weight=Weight.AGAINST if dear else Weight.FOR,
        text=f"at {load:.3g} requests in decode, checking {draft_tokens} draft tokens makes a "
        f"step {expected.verification_cost:.2f} times as long: {needed:.0%} of them must be "
        "accepted to break even, what drafting costs not counted",
        numbers={
            "decode_concurrency": load,
            "verification_cost_ratio": expected.verification_cost,
            "breakeven_acceptance_ratio": needed,
            "threshold": limits.breakeven_acceptance,
        },
        fix="fewer draft tokens, or speculation at low load only" if dear else None,
    )


def _counted(load: float, draft_tokens: int, limits: Limits) -> Reason:
    """Judge the load by the tokens of a step alone."""
    tokens = in_step(load) * (1 + draft_tokens)
    many = tokens > limits.step_tokens
    numbers = {"decode_concurrency": load, "step_tokens": tokens, "threshold": limits.step_tokens}
    told = f"{load:.3g} requests in decode with {draft_tokens} draft tokens each make steps of"
    if many:
        return Reason(
            code=Code.MANY_REQUESTS,
            weight=Weight.AGAINST,
            text=f"{told} {tokens:.0f} tokens, where reading weights is no longer what takes time",
            numbers=numbers,
            fix="--baseline with levels at this load tells what such steps really cost",
        )
    return Reason(
        code=Code.ROOM_IN_LOAD,
        weight=Weight.FOR,
        text=f"{told} {tokens:.0f} tokens, few enough to be nearly free",
        numbers=numbers,
    )


def cache(observed: Observed, limits: Limits) -> Iterator[Reason]:
    """Judge the room in the KV cache."""
    use, after = observed.kv_use, observed.kv_use_after
    if use is None or after is None:
        yield Reason(
            code=Code.KV_NOT_MEASURED,
            weight=Weight.UNKNOWN,
            text="the use of the KV cache is not known",
            fix="a page of a server that has served something tells it",
        )
        return
    told = f"{use:.1%} of the KV cache is in use"
    if observed.kv_change is not None:
        told += f", {after:.1%} of what the draft would leave"
    numbers = {"kv_cache_usage_ratio": use, "kv_cache_use_after": after}
    if after >= limits.kv_use:
        yield Reason(
            code=Code.TIGHT_KV,
            weight=Weight.AGAINST,
            text=told,
            numbers={**numbers, "threshold": limits.kv_use},
            fix="n-gram takes no memory; a draft model needs room first (specgauge memory)",
        )
    else:
        filling = after >= limits.kv_filling
        yield Reason(
            code=Code.KV_HEADROOM,
            weight=Weight.CAUTION if filling else Weight.FOR,
            text=told,
            numbers=numbers,
            fix="specgauge memory tells what a draft would take" if filling else None,
        )


def outputs(observed: Observed, limits: Limits) -> Iterator[Reason]:
    """Judge the length of answers, and how many were seen."""
    if (tokens := observed.output_tokens) is None:
        yield Reason(
            code=Code.OUTPUTS_NOT_MEASURED,
            weight=Weight.UNKNOWN,
            text="how long answers are is not known",
            fix="look while the server serves",
        )
        return
    numbers = {"output_tokens_per_request": tokens}
    if tokens < limits.short_outputs:
        yield Reason(
            code=Code.SHORT_OUTPUTS,
            weight=Weight.AGAINST,
            text=f"answers have {tokens:.3g} tokens: most of a request is its prompt, which "
            "speculation does not speed up",
            numbers={**numbers, "threshold": limits.short_outputs},
            fix="route long answers to a server of their own",
        )
    else:
        yield Reason(
            code=Code.LONG_OUTPUTS,
            weight=Weight.FOR if tokens >= limits.long_outputs else Weight.CAUTION,
            text=f"answers have {tokens:.3g} tokens",
            numbers=numbers,
        )
    if observed.requests is not None and observed.requests < limits.requests:
        yield Reason(
            code=Code.FEW_REQUESTS,
            weight=Weight.CAUTION,
            text=f"only {observed.requests:.3g} requests were seen",
            numbers={"requests": observed.requests, "threshold": limits.requests},
            fix="a longer --window",
        )


def temperature(observed: Observed, limits: Limits) -> Iterator[Reason]:
    """Judge the temperature of requests."""
    if (heat := observed.temperature) is None:
        yield Reason(
            code=Code.TEMPERATURE_NOT_GIVEN,
            weight=Weight.CAUTION,
            text="no page tells the temperature, and acceptance falls with it",
            fix="--temperature T, that of most requests",
        )
        return
    hot = heat > limits.high_temperature
    warm = heat > limits.low_temperature
    weight = Weight.AGAINST if hot else Weight.CAUTION if warm else Weight.FOR
    yield Reason(
        code=Code.HIGH_TEMPERATURE if warm else Code.LOW_TEMPERATURE,
        weight=weight,
        text=f"requests are sampled at temperature {heat:g}",
        numbers={"temperature": heat, "threshold": limits.high_temperature},
        fix="speculation for requests of low temperature alone" if hot else None,
    )


def version(observed: Observed) -> Iterator[Reason]:
    """Say where the release is not pinned."""
    version = observed.version
    built = version is not None and any(mark in version for mark in ("dev", "rc", "nightly", "+g"))
    if version is not None and not built:
        return
    told = "the server's release is not known" if version is None else f"release {version}"
    yield Reason(
        code=Code.UNPINNED_VERSION,
        weight=Weight.CAUTION,
        text=f"{told}: unless it is pinned, nobody can tell whether speculation or an upgrade "
        "changed something",
        fix="pin the release and the models' revisions before a comparison",
    )
