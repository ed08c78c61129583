"""Rules on what is not there: no page, no series, zeros, nothing drafted, nothing moving."""

from collections.abc import Iterator, Mapping

from specgauge.model.derived import Derived, Speculation
from specgauge.model.outcome import ScrapeResult
from specgauge.model.quantity import Dialect
from specgauge.preflight.doctor.case import Case, Failure, Model
from specgauge.preflight.doctor.codes import Code, Symptom
from specgauge.preflight.doctor.finding import LIKELY, MEASURED, POSSIBLE, SEEN, Finding
from specgauge.preflight.doctor.logs import Mark
from specgauge.preflight.doctor.names import Status, release_order
from specgauge.preflight.doctor.queries import Query

_REFUSED: Mapping[ScrapeResult, Code] = {
    ScrapeResult.UNREACHABLE: Code.SERVER_UNREACHABLE,
    ScrapeResult.TIMEOUT: Code.SERVER_UNREACHABLE,
    ScrapeResult.TLS: Code.SERVER_UNREACHABLE,
    ScrapeResult.HTTP_STATUS: Code.NOT_METRICS_PAGE,
    ScrapeResult.REDIRECT: Code.NOT_METRICS_PAGE,
    ScrapeResult.NOT_METRICS: Code.NOT_METRICS_PAGE,
    ScrapeResult.UNSUPPORTED_CONTENT_TYPE: Code.NOT_METRICS_PAGE,
    ScrapeResult.UNRECOGNISED_EXPOSITION: Code.FOREIGN_METRICS,
    ScrapeResult.NO_ENGINE_METRICS: Code.STATS_DISABLED,
    ScrapeResult.TRUNCATED: Code.DAMAGED_PAGE,
    ScrapeResult.BAD_ENCODING: Code.DAMAGED_PAGE,
    ScrapeResult.TOO_LARGE: Code.DAMAGED_PAGE,
}
_NAMED: Mapping[Status, Code] = {
    Status.V0_ONLY: Code.METRIC_V0_ONLY,
    Status.UNKNOWN: Code.METRIC_UNKNOWN,
    Status.RENAMED: Code.METRIC_RENAMED,
    Status.TOO_NEW: Code.METRIC_TOO_NEW,
    Status.OTHER_MEANING: Code.METRIC_OTHER_MEANING,
}
_SHOWN_FROM = {
    False: "V1 shows them from the start",
    True: "V0 shows them from the first step with a draft on",
}
_ASKED = frozenset({Symptom.NO_METRICS, Symptom.ZERO, Symptom.SLOWER})
_ENOUGH_TOKENS = 50
_SERVERS_FOLLOW_RANKS = (0, 15)
_LONGEST = 120


def absence_rules(case: Case) -> Iterator[Finding]:
    """Judge what is missing."""
    if case.failure is not None:
        yield _refusal(case, case.failure)
    if case.looked and case.failure is None and not case.models:
        yield Finding(
            code=Code.NOTHING_SERVED_YET,
            confidence=MEASURED,
            evidence="the page has the engine's configuration and no request's figures",
        )
    for model in case.models:
        yield from _moving(case, model)
        yield from _drafting(case, model)
    yield from _queries(case)
    yield from _log_lines(case)


def _refusal(case: Case, failure: Failure) -> Finding:
    """Say what came instead of a page; an engine that failed is why nothing answers."""
    code = _REFUSED.get(failure.result, Code.DAMAGED_PAGE)
    if code is Code.STATS_DISABLED and failure.detail.endswith("the page is empty"):
        code = Code.EMPTY_PAGE
    off = case.setup is not None and case.setup.stats_off
    confidence = MEASURED
    if code is Code.STATS_DISABLED:
        confidence = SEEN if off else MEASURED
    if code is Code.SERVER_UNREACHABLE:
        failed = case.log is not None and bool(case.log.errors)
        confidence = POSSIBLE if failed else SEEN
    told = f"; {case.setup.source} has --disable-log-stats" if off and case.setup else ""
    return Finding(
        code=code,
        confidence=confidence,
        evidence=f"{failure.detail}{told}",
        numbers={"result": str(failure.result)},
    )


def _moving(case: Case, model: Model) -> Iterator[Finding]:
    """Tell a page that stands still and an engine that began anew."""
    running = model.derived.values.get("requests_running")
    if case.still and isinstance(running, int | float) and running > 0:
        yield Finding(
            code=Code.STALE_PAGE,
            confidence=SEEN,
            evidence=f"nothing on the page changed while {running:.0f} requests were running",
            numbers={"requests_running": running},
            where=model.derived.model_name,
        )
    swapped = len({page.kv_tokens for page in case.pages}) > 1  # pages of two servers
    if model.restarted and not swapped:
        yield Finding(
            code=Code.ENGINE_RESTARTED,
            confidence=MEASURED,
            evidence="counters fell or were created anew between two pages",
            where=model.derived.model_name,
        )


def _drafting(case: Case, model: Model) -> Iterator[Finding]:
    """Judge what speculation is doing where it does nothing."""
    derived = model.derived
    state = derived.speculation
    expected = _expected(case)
    if state is Speculation.ABSENT and (expected or case.symptom in _ASKED):
        told = f"{expected} speaks of speculation" if expected else "the engine has served"
        yield Finding(
            code=Code.SPECULATION_NOT_ON,
            confidence=SEEN if expected else MEASURED,
            evidence=f"{told} and no series of speculation is on the page; where it is on, "
            f"{_SHOWN_FROM[case.dialect is Dialect.VLLM_V0]}",
            where=derived.model_name,
        )
    if state is Speculation.UNKNOWN and (expected or case.symptom in _ASKED):
        yield Finding(
            code=Code.ZEROS_WITHOUT_SPECULATION,
            confidence=LIKELY if expected else MEASURED,
            evidence="tokens flow, the draft counters are there at 0, and no position is: "
            "some releases export such zeros always",
            where=derived.model_name,
        )
    if state is Speculation.IDLE and case.symptom in {Symptom.ZERO, Symptom.NO_METRICS}:
        yield Finding(
            code=Code.NO_TRAFFIC,
            confidence=MEASURED,
            evidence="not one token was generated"
            + (" between the pages" if model.windowed else " since the engine started"),
            where=derived.model_name,
        )
    if state is Speculation.INACTIVE and _tokens(derived) >= _ENOUGH_TOKENS:
        yield _inactive(case, derived)


def _inactive(case: Case, derived: Derived) -> Finding:
    """Say why tokens flow and none is drafted, as far as that can be told."""
    setup, code, sure = case.setup, Code.DRAFTS_NOT_MADE, LIKELY
    if setup is not None and setup.schedule_has_zero:
        code, sure = Code.SCHEDULE_ZERO_AT_LOAD, SEEN
    elif derived.speculation_reason == "no_match":
        code, sure = Code.NO_NGRAM_MATCH, MEASURED
    tokens = _tokens(derived)
    return Finding(
        code=code,
        confidence=sure,
        evidence=f"{tokens:.0f} tokens were generated without one draft",
        numbers={"generation_tokens": tokens},
        where=derived.model_name,
    )


def _expected(case: Case) -> str:
    """Say who tells that speculation should be on; nobody is ''."""
    if case.setup is not None and case.setup.speculates:
        return case.setup.source
    return "the log" if case.log is not None and case.log.speculated else ""


def _queries(case: Case) -> Iterator[Finding]:
    """Tell every name that cannot be had, each of them once with all its places."""
    if case.queries is None:
        return
    by_name: dict[tuple[str, Status], list[Query]] = {}
    for query in case.queries:
        by_name.setdefault((query.name, query.status), []).append(query)
    for (name, status), asked in by_name.items():
        if status is Status.OK:
            continue
        places = list(dict.fromkeys(q.place for q in asked if q.place))
        where = f" ({', '.join(places[:3])}{', ...' if len(places) > 3 else ''})" if places else ""  # noqa: PLR2004 - three are enough
        instead = asked[0].instead
        yield Finding(
            code=_NAMED[status],
            confidence=SEEN if status is not Status.UNKNOWN or "spec_decode" in name else LIKELY,
            evidence=f"{name}{where} is asked for: {_shortened(asked[0].expression)}",
            numbers={"name": name, "places": ", ".join(places), "instead": instead},
            where=asked[0].file,
            fix=f"ask for {instead}" if instead else "",
        )
    if not case.queries:
        yield Finding(
            code=Code.NO_QUERIES,
            confidence=MEASURED,
            evidence="no query in these files asks for a name of vLLM's",
            hint=True,
        )


def _log_lines(case: Case) -> Iterator[Finding]:
    """Tell why a log has no lines on speculation."""
    setup, log = case.setup, case.log
    said = log is not None and Mark.STATS_OFF in log.marks
    servers = 0
    if setup is not None:
        follows = case.release is None or release_order(case.release)[:2] >= _SERVERS_FOLLOW_RANKS
        servers = setup.api_servers or (setup.data_parallel if follows else 1)
    if said or servers > 1:
        yield Finding(
            code=Code.SEVERAL_API_SERVERS,
            confidence=SEEN if said else MEASURED,
            evidence="the engine says that it switches its log of statistics off"
            if said
            else f"{servers} API servers are configured",
            numbers={"api_servers": servers} if servers else {},
        )


def _tokens(derived: Derived) -> float:
    return derived.number("generation_tokens") or 0.0


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
