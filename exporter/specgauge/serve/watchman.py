"""The guard's thinking over time: views go in, decisions come out. No socket, no file, no clock."""

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, replace

from specgauge.guard.assess import Memory, assess
from specgauge.guard.decide import begin, decide
from specgauge.guard.merge import merge
from specgauge.guard.policy import Policy
from specgauge.model.guard import (
    Blind,
    Decision,
    GuardReason,
    GuardState,
    Look,
    Outcome,
    Override,
    Phase,
    Surroundings,
)
from specgauge.model.guard_view import Past
from specgauge.serve.pools import Room

_HOLDS = (GuardReason.NO_FALLBACK_CAPACITY, GuardReason.MEMBERS_FALLING_BACK)
_WARNED = (GuardReason.FALLBACK_INEFFECTIVE, *_HOLDS)
"""Reasons that are counted as warnings: a fallback that did not help, and those to hold."""

_KEPT = 200


def warned_of(decision: Decision) -> tuple[str, ...]:
    """Name what a decision warns of, be it beside its reason or the reason itself; each once."""
    told = dict.fromkeys((*decision.warnings, decision.reason))
    return tuple(str(one) for one in told if one in _WARNED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What the watchman is told besides the evidence; see `Surroundings`."""

    room: Room
    confirmed: bool | None = None
    frozen: bool = False
    override: Override | None = None
    others_falling_back: bool = False
    changed_elsewhere: bool = False
    probe_asked: bool = False


class Watchman:
    """Assesses every page and decides; `state` is all it remembers, `history` what it did.

    `news` says whether the last decision is worth keeping: it moved something, warns of something,
    or would have moved something, which a frozen guard says once while it stays frozen. That it
    holds although speculation costs is said once, until it moves or a window is healthy.
    Until it is begun with what the flag reads, it wants nothing.
    """

    def __init__(self, policy: Policy, *, time: float) -> None:
        self.policy = policy
        self.state: GuardState = begin(None, None, time, policy)
        self.transitions: Counter[tuple[str, str, str]] = Counter()
        self.assessments: Counter[Outcome] = Counter(dict.fromkeys(Outcome, 0))
        self.warnings: Counter[str] = Counter(dict.fromkeys(map(str, _WARNED), 0))
        self.history: deque[Past] = deque(maxlen=_KEPT)
        self.last: Past | None = None
        self.news = False
        self._memory: dict[str, Memory] = {}
        self._withheld: frozenset[Phase] = frozenset()
        self._holds: frozenset[str] = frozenset()

    def restore(self, saved: GuardState | None, time: float) -> None:
        """Keep what an earlier run left until it is known what the flag reads."""
        self.state = begin(None, saved, time, self.policy)

    def adopt(self, read_back: bool, saved: GuardState | None, time: float) -> None:
        """Begin where the flag stands, and where the last process left off if that agrees."""
        self.state = begin(read_back, saved, time, self.policy)

    def consider(
        self,
        looks: Mapping[str, Look],
        around: Circumstances,
        *,
        time: float,
        unix: float,
        error: str | Blind = "",
    ) -> Decision:
        """Decide on what one page showed of each model; without a page `error` says why."""
        flag_on = self.state.flag is not False and around.confirmed is not False
        names = tuple(looks) or tuple(self._memory) or ("",)
        assessments = []
        for name in names:
            memory = self._memory.get(name, Memory())
            shown = looks.get(name)
            if shown is not None and not shown.standard:
                shown = replace(shown, standard=around.room.numbers)
            self._memory[name], assessment = assess(
                memory, shown, self.policy, time=time, error=error, flag_on=flag_on
            )
            assessments.append(assessment)
        self._memory = {name: self._memory[name] for name in names}
        merged = merge(assessments)
        before = self.state
        self.state, decision = decide(
            before,
            merged,
            Surroundings(
                time=time,
                frozen=around.frozen,
                override=around.override,
                standard_up=around.room.up,
                standard_has_room=around.room.has_room,
                standard=self._standing_in(looks, around, flag_on=flag_on),
                confirmed=around.confirmed,
                others_falling_back=around.others_falling_back,
                changed_elsewhere=around.changed_elsewhere,
                probe_asked=around.probe_asked,
            ),
            self.policy,
        )
        self._note(decision, unix, frozen=around.frozen)
        return decision

    def _standing_in(
        self, looks: Mapping[str, Look], around: Circumstances, *, flag_on: bool
    ) -> Mapping[str, float]:
        """Give the numbers of the pool that serves while the flag is off.

        Where no other pool is watched it is the target itself, once it does without drafts.
        """
        if around.room.numbers or flag_on or not looks:
            return around.room.numbers
        plain = [shown for shown in looks.values() if shown.speculating is False]
        return plain[0].numbers if len(plain) == 1 == len(looks) else {}

    def _note(self, decision: Decision, unix: float, *, frozen: bool) -> None:
        self.assessments[decision.outcome] += 1
        self.last = Past(unix=unix, decision=decision)
        self.warnings.update(warned_of(decision))
        if decision.state is not decision.before:
            key = (str(decision.before), str(decision.state), decision.reason)
            self.transitions[key] += 1
        wanted = decision.wanted
        would = frozenset[Phase]() if wanted is None else frozenset({wanted}) - self._withheld
        self._withheld = self._withheld.union(would) if frozen else frozenset()
        holds = frozenset({decision.reason} & {*_HOLDS})
        held = holds - self._holds
        over = decision.changed or wanted is not None or decision.outcome is Outcome.HEALTHY
        self._holds = frozenset() if over else self._holds | holds
        self.news = decision.changed or bool(decision.warnings) or bool(would) or bool(held)
        if self.news:
            self.history.append(self.last)

    @property
    def phase(self) -> Phase:
        """Where it stands."""
        return self.state.phase
