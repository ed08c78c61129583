"""What of the guard outlives its process: its state, its record, its marks in Grafana.

It decides nothing and waits for no disk but at the start, when it reads what was left.
"""

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from specgauge.guard.annotate import Annotator, annotation
from specgauge.guard.audit import audit_line
from specgauge.guard.chronicle import Chronicle
from specgauge.guard.command import AUTO
from specgauge.guard.remember import Recalled, recall, remember
from specgauge.guard.settings import GuardSettings
from specgauge.guard.store import load_text
from specgauge.model.guard import Decision, GuardReason, GuardState, Override
from specgauge.serve.guard_log import GuardTeller
from specgauge.serve.log import Log
from specgauge.serve.loop import Pace
from specgauge.units import format_duration

_SAVE_SECONDS = 10.0
_NOTHING = Recalled(state=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded:
    """What is guarded, by the target's name; `config_hash` tells configurations apart."""

    settings: GuardSettings
    target: str
    config_hash: str = ""


class GuardRecords:
    """Reads what the last process left, and has written what the next one may need."""

    def __init__(self, guarded: Guarded, *, pace: Pace, log: Log, teller: GuardTeller) -> None:
        settings = guarded.settings
        self._pace, self._log = pace, log
        self._state_file = path(settings.state_file)
        self._flag_key = settings.flag.key
        self._saved_at = float("-inf")
        self._chronicle = Chronicle(
            audit_file=path(settings.audit_file),
            state_file=self._state_file,
            annotator=Annotator(settings.grafana) if settings.grafana else None,
            tell=teller.trouble,
        )

    def start(self) -> None:
        """Begin to write."""
        self._chronicle.start()

    async def close(self) -> None:
        """End, after at most a second for what still waits."""
        await self._chronicle.close()

    def recall(self, day: float) -> Recalled:
        """Read what the last process saved; what cannot be used is told, and then there is none.

        What is older than `day`, in seconds, is as good as none, an operator's word included.
        """
        file = self._state_file
        if file is None:
            return _NOTHING
        try:
            text = load_text(file)
        except (OSError, ValueError) as error:
            problem = getattr(error, "strerror", None) or str(error)
            self._log.warning("guard_state_unreadable", file=file, problem=problem)
            return _NOTHING
        if text is None:
            return _NOTHING
        now = self._pace.now()
        found = recall(text, time=now, unix=self._pace.unix())
        reason = found.reason
        if found.state is not None and now - found.state.time > day:
            reason = f"the saved state is older than {format_duration(day)}"
        if found.flag_key not in {"", self._flag_key}:
            reason = f"the saved state is of the flag {found.flag_key[:40]!r}"
        if reason:
            self._log.warning("guard_state_unusable", file=file, problem=reason)
            return _NOTHING
        return found

    def save(
        self, state: GuardState, override: Override | None, *, config: str, force: bool
    ) -> None:
        """Have the state saved when it changed, and now and then for its age."""
        now = self._pace.now()
        if not force and now - self._saved_at < _SAVE_SECONDS:
            return
        self._saved_at = now
        lasting = None if override is None or override.mode == AUTO else override
        unix = self._pace.unix()
        self._chronicle.keep(
            remember(
                state,
                time=now,
                unix=unix,
                config=config,
                flag_key=self._flag_key,
                override=lasting,
            )
        )

    def take_down(
        self, decision: Decision, guarded: Guarded, override: Override | None, *, flipped: bool
    ) -> None:
        """Write a decision down with an operator's reason, and mark it if the flag is moved."""
        unix = self._pace.unix()
        line = audit_line(
            decision,
            unix=unix,
            target=guarded.target,
            flag_key=guarded.settings.flag.key,
            config_hash=guarded.config_hash,
        )
        if override is not None and override.reason and decision.reason in _OPERATED:
            line["operator"] = override.reason
        mark = annotation(decision, unix=unix, target=guarded.target) if flipped else None
        self._chronicle.note(line, mark)


_OPERATED = frozenset(
    {
        GuardReason.OVERRIDE_ON,
        GuardReason.OVERRIDE_OFF,
        GuardReason.OVERRIDE_LIFTED,
        GuardReason.OVERRIDE_EXPIRED,
    }
)


def path(file: str | None) -> Path | None:
    """Make a path of what the settings say."""
    return None if file is None else Path(file)


def hash_of(guard: GuardSettings) -> str:
    """Tell one configuration of the guard from another; secrets do not enter."""
    return sha256(repr(guard).encode()).hexdigest()[:12]
