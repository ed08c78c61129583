"""What the log says of the guard: each change, each failed write, each trouble, once."""

from specgauge.guard.flags.protocol import WriteResult
from specgauge.guard.flags.writer import Attempt
from specgauge.model.guard import Decision
from specgauge.serve.log import Log
from specgauge.serve.watchman import warned_of


class GuardTeller:
    """Tells of one guard's flag and decisions; whether they are news was said before."""

    def __init__(self, log: Log, *, place: str) -> None:
        self._log, self._place = log, place

    def decided(self, target: str, decision: Decision) -> None:
        """Tell of a decision, or of what a dry run or a frozen guard would have done."""
        would = decision.wanted is not None and not decision.changed
        tell = self._log.info if decision.flag is not False else self._log.warning
        tell(
            "guard_would_change" if would else "guard_decided",
            target=target,
            state=decision.wanted or decision.state,
            flag=word(decision.flag),
            outcome=decision.outcome,
            reason=decision.reason,
            speedup=decision.evidence.get("speedup_ratio", ""),
            load=decision.evidence.get("decode_concurrency", ""),
        )
        for warning in warned_of(decision):
            self._log.warning("guard_warning", target=target, warning=warning)

    def attempted(self, attempt: Attempt) -> None:
        """Tell of a write that was needed, or that failed."""
        flag = word(attempt.wanted)
        if attempt.result is not WriteResult.OK:
            self._log.warning(
                "flag_write_failed", flag=flag, result=attempt.result, detail=attempt.detail
            )
        elif attempt.wrote:
            verified = not attempt.on_the_word
            self._log.info("flag_written", flag=flag, place=self._place, verified=verified)

    def changed_elsewhere(self, found: bool | None) -> None:
        """Tell that somebody else changed the flag."""
        self._log.warning("flag_changed_elsewhere", flag=word(found), place=self._place)

    def trouble(self, what: str, detail: str) -> None:
        """Tell of a record that cannot be written, and that it can again."""
        if detail:
            self._log.warning("guard_record_failed", what=what, problem=detail)
        else:
            self._log.info("guard_record_mended", what=what)


def word(flag: bool | None) -> str:
    """Say a flag."""
    return {True: "on", False: "off", None: "unknown"}[flag]
