"""The guard in the sidecar: views go in as scrapes end, a flag, a state and a record come out.

Nothing here waits for the flag, a disk or another server: those have tasks of their own.

Longer than others: it is where everything of the guard meets, and only passes it on.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from specgauge.guard.assess import OWN_FAULT
from specgauge.guard.flags.embedded import Embedded, EmbeddedFlag
from specgauge.guard.flags.protocol import FlagBackend
from specgauge.guard.flags.writer import FlagWriter
from specgauge.guard.freeze import is_frozen
from specgauge.guard.settings import GuardSettings, other_keys
from specgauge.model.guard import Blind, GuardReason, Look, Override, Phase
from specgauge.model.guard_view import FlagStatus, GuardView
from specgauge.model.obedience import moves_traffic
from specgauge.model.outcome import ScrapeResult
from specgauge.model.view import TargetView
from specgauge.serve.fleet_share import make_share
from specgauge.serve.guard_log import GuardTeller, word
from specgauge.serve.guard_records import Guarded, GuardRecords, hash_of, path
from specgauge.serve.log import Log
from specgauge.serve.loop import Pace
from specgauge.serve.pools import room
from specgauge.serve.turn import WriterTurn
from specgauge.serve.watchman import Circumstances, Watchman

_CLOCK_SLACK = 1.0
_MOST_WALLS = 16


class Guardian:
    """Guards one target for as long as the sidecar runs."""

    def __init__(
        self,
        guarded: Guarded,
        backend: FlagBackend,
        *,
        pace: Pace,
        log: Log,
    ) -> None:
        self.guarded = guarded
        self.backend = backend
        settings = guarded.settings
        self._pace, self._log = pace, log
        self._teller = GuardTeller(log, place=backend.place)
        self._writer = FlagWriter(
            backend,
            timeout=settings.flag.timeout,
            check_interval=settings.flag.check_interval,
            clock=pace.unix,
            on_attempt=self._teller.attempted,
            on_changed_elsewhere=self._teller.changed_elsewhere,
        )
        self._records = GuardRecords(guarded, pace=pace, log=log, teller=self._teller)
        self._watchman = Watchman(settings.policy, time=pace.now())
        self._turn = WriterTurn(path(settings.lock_file), log=log)
        self._share = make_share(settings, pace=pace, log=log)
        self._override: Override | None = None
        self._frozen = False
        self._probe_asked = False
        self._seen = 0
        self._failed = False
        self._walls: dict[float, float] = {}
        self._beginning: asyncio.Task[None] | None = None
        self._counting: asyncio.Task[None] | None = None

    @property
    def view(self) -> GuardView:
        """The guard as it stands."""
        man = self._watchman
        override = self._override if man.state.phase is Phase.OVERRIDE else None
        until = None if override is None else override.until
        due = man.state.next_probe
        return GuardView(
            target=self.guarded.target,
            dry_run=self.guarded.settings.policy.dry_run,
            phase=man.state.phase,
            since=self._wall(man.state.since),
            flag=self._status(),
            next_probe=None if due is None else self._wall(due),
            override=override,
            override_until=None if until is None else self._wall(until),
            frozen=self._frozen,
            following=not self._turn.ours,
            transitions=dict(man.transitions),
            assessments=dict(man.assessments),
            warnings=dict(man.warnings),
            last=man.last,
            history=tuple(man.history),
        )

    async def start(self) -> None:
        """Take up what the last process left and begin; the flag is read beside the scraping."""
        self._recall()
        self._records.start()
        self._beginning = asyncio.create_task(self._begin(), name="guard-start")
        if self._share is not None:
            self._counting = asyncio.create_task(self._share.run(), name="guard-share")

    def _recall(self) -> None:
        found = self._records.recall(self.guarded.settings.policy.day)
        self._override = found.override
        self._watchman.restore(found.state, self._pace.now())

    async def _follow(self) -> None:
        """Show what the flag reads while another process guards it."""
        found = await self._writer.look()
        if found is not None:
            self._watchman.adopt(read_back=found, saved=None, time=self._pace.now())

    async def _begin(self) -> None:
        """Read the flag, within its timeout, and go on from there; then begin to write."""
        waited = not self._turn.ours
        await self._turn.come(self._follow)
        if waited:
            self._recall()  # what the one before us left, if it kept its state in the same file
        found = await self._writer.look()
        if found is None:
            self._adopt_unset()
        else:
            now = self._pace.now()
            self._watchman.adopt(read_back=found, saved=self._watchman.state.saved, time=now)
            self._take_over(found)
        self._writer.start()
        if isinstance(self.backend, Embedded) and self.backend.warning:
            self._log.warning("flag_file_unusable", problem=self.backend.warning)
        self._log.info(
            "guard_started",
            target=self.guarded.target,
            state=self._watchman.state.phase,
            flag=word(self._watchman.state.flag),
            backend=self.backend.name,
            place=self.backend.place,
            dry_run=self.guarded.settings.policy.dry_run,
        )

    def _take_over(self, found: bool | None) -> None:
        """Have the writer tell of changes from here on; a dry run follows them instead."""
        if found is not None and not self.guarded.settings.policy.dry_run:
            self._writer.adopt(on=found)

    def _adopt_unset(self) -> None:
        """Take over a flag that was never set or cannot be read: nobody turned it off.

        Where nothing but the last process's memory can tell, that counts. Only a flag that is
        served here is written, since its readers need a value.
        """
        written, man = self._writer.view(), self._watchman
        unset = written.confirmed_at is not None and written.confirmed is None
        if man.phase is not Phase.STARTING or not (unset or not self.backend.can_read):
            return
        served = isinstance(self.backend, Embedded)
        saved = man.state.saved
        remembers = saved is not None and (served or not self.backend.can_read)
        found = not remembers or saved is None or saved.flag is not False
        man.adopt(read_back=found, saved=saved, time=self._pace.now())
        if served and not self.guarded.settings.policy.dry_run:
            self._writer.want(on=found)

    async def stop(self) -> None:
        """Save the state and end; the flag stays as it is."""
        tasks = [one for one in (self._beginning, self._counting) if one is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._save(force=True)
        await self._writer.close()
        await self._records.close()
        self._turn.end()

    def watches(self, target: str) -> bool:
        """Tell whether scrapes of this target are what it decides by."""
        return self.guarded.settings.source == "sidecar" and target == self.guarded.target

    def consider(self, target: TargetView, standards: Sequence[TargetView]) -> None:
        """Decide on what the last scrape of the guarded target brought, once for each scrape."""
        scrapes = sum(target.scrapes.values())
        if scrapes == self._seen:  # told of a second time
            return
        self._seen = scrapes
        arrived = target.result is ScrapeResult.OK
        error = "" if arrived else str(target.result or "not scraped yet")
        self.judge(target.looks, standards, error)

    def judge(
        self, looks: Mapping[str, Look], standards: Sequence[TargetView], error: str | Blind
    ) -> None:
        """Decide on these looks, or on there being none; a follower decides nothing."""
        if self._turn.lost():
            self._beginning = asyncio.create_task(self._begin(), name="guard-start")
        if not self._turn.ours:
            self._writer.hold(held=True)
            return
        failed, self._failed = self._failed, True  # as long as this has not come to its end
        self._frozen = is_frozen(path(self.guarded.settings.freeze_file))
        unset = self.embedded is not None and self.embedded.value is None
        self._writer.hold(held=self._frozen and not unset)  # to give it a value moves nothing
        self._adopt_unset()
        before = self._watchman.state.flag
        written = self._writer.view()
        decision = self._watchman.consider(
            looks,
            Circumstances(
                room=room(standards),
                confirmed=written.confirmed,
                changed_elsewhere=written.changed_elsewhere,
                frozen=self._frozen,
                override=self._override,
                probe_asked=self._probe_asked,
                others_falling_back=self._share is not None
                and self._share.used_up(self.guarded.settings.policy.max_fallback_share),
            ),
            time=self._pace.now(),
            unix=self._pace.unix(),
            error=f"{OWN_FAULT} the guard failed on the last page" if failed else error,
        )
        state, override = self._watchman.state, self._override
        self._probe_asked = self._probe_asked and self._frozen and state.phase is Phase.FALLBACK
        adopted = decision.changed and decision.reason in _ADOPTING
        flipped = state.flag is not before and not adopted
        ordered = decision.changed and state.phase is Phase.OVERRIDE
        if adopted:
            self._take_over(state.flag)
        elif state.flag is not None and (flipped or ordered):
            self._writer.want(on=state.flag)
        if (state.shadow or state).phase is not Phase.OVERRIDE and not self._frozen:
            self._override = None  # it was lifted, or it has expired
        if self._watchman.news:
            self._teller.decided(self.guarded.target, decision)
            self._records.take_down(decision, self.guarded, override, flipped=flipped)
        self._save(force=decision.changed or override is not self._override)
        self._failed = False

    def override(self, mode: str, seconds: float | None, reason: str) -> None:
        """Have the flag on or off for so long, or left to the evidence again (`auto`).

        Obeyed with the next scrape of the guarded target, also one that fails.
        """
        until = None if seconds is None else self._pace.now() + seconds * self._pace.speed
        self._override = Override(mode=mode, until=until, reason=reason)
        self._log.info("guard_override", mode=mode, seconds=seconds or 0.0, reason=reason)
        self._save(force=True)

    def probe(self) -> str:
        """Have the next probe begin with the next scrape; says why not, or nothing."""
        state = self._watchman.state
        if state.phase is not Phase.FALLBACK:
            return f"the guard is {state.phase}: only in fallback is there a probe to wait for"
        if not self.guarded.settings.policy.probes:
            return "guard.recovery.mode is manual: override the guard with on instead"
        self._watchman.state = replace(state, next_probe=self._pace.now())
        self._probe_asked = True
        self._log.info("guard_probe_asked", target=self.guarded.target)
        self._save(force=True)
        return ""

    def _status(self) -> FlagStatus:
        written = self._writer.view()
        flag = self.guarded.settings.flag
        return FlagStatus(
            key=flag.key,
            backend=self.backend.name,
            place=self.backend.place,
            moves_traffic=moves_traffic(flag.backend, flag.terms.get("httproute")),
            obeyed_by=flag.obeyed_by,
            desired=self._watchman.state.flag,
            confirmed=written.confirmed,
            on_the_word=written.on_the_word,
            writes={str(result): count for result, count in written.attempts.items()},
            last_error=written.last_error or written.read_error or None,
            pending_since=written.pending_since,
            changed_elsewhere=written.changed_elsewhere,
            given_up=written.given_up,
        )

    @property
    def reason(self) -> str:
        """Why the flag is as it is wanted."""
        last = self._watchman.last
        return "" if last is None else last.decision.reason

    @property
    def ours(self) -> bool:
        """Whether this process decides, and not another that holds the lock."""
        return self._turn.ours

    @property
    def embedded(self) -> EmbeddedFlag | None:
        """The flag that this process serves, where it is the one that keeps it."""
        return self.backend.flag if isinstance(self.backend, Embedded) else None

    def reconfigure(self, settings: GuardSettings) -> bool:
        """Go on under another policy; false where more than that has changed, and nothing is."""
        if other_keys(self.guarded.settings, settings):
            return False
        before = self.guarded.settings.policy.dry_run
        self.guarded = replace(self.guarded, settings=settings, config_hash=hash_of(settings))
        self._watchman.policy = settings.policy
        if settings.policy.dry_run and not before:
            self._stop_writing()
        elif before and not settings.policy.dry_run:
            self._begin_to_write()
        return True

    def _stop_writing(self) -> None:
        """Write nothing from here on; where something was pending, go on from what the flag is."""
        given_up = self._writer.give_up()
        if given_up is not None:
            self._log.warning(
                "flag_write_given_up", flag=word(given_up), place=self.backend.place, why="dry run"
            )
            self._watchman.restore(self._watchman.state, self._pace.now())
            self._save(force=True)

    def _begin_to_write(self) -> None:
        """Guard the flag as a dry run left it; one that is served here gets its value."""
        flag, written = self._watchman.state.flag, self._writer.view()
        if flag is not None and written.confirmed is flag:
            self._take_over(flag)
        elif flag is not None and written.confirmed is None and isinstance(self.backend, Embedded):
            self._writer.want(on=flag)

    def follow(self, target: str) -> None:
        """Go on with a target that the configuration now calls by another name."""
        self.guarded = replace(self.guarded, target=target)

    def _save(self, *, force: bool) -> None:
        if not self._turn.ours:
            return  # the file may be the holder's too
        self._records.save(
            self._watchman.state,
            self._override,
            config=self.guarded.config_hash,
            force=force,
        )

    def _wall(self, time: float) -> float:
        """Give a time of the guard's clock on the wall's, the same one whenever it is asked for.

        Two clocks never run quite alike; only one that was set is followed.
        """
        ahead = (time - self._pace.now()) / self._pace.speed
        found = self._pace.unix() + ahead
        if abs(self._walls.get(time, float("inf")) - found) > _CLOCK_SLACK:
            if len(self._walls) >= _MOST_WALLS:
                self._walls.clear()
            self._walls[time] = found
        return self._walls[time]


_ADOPTING = frozenset({GuardReason.READ_BACK_ADOPTED, GuardReason.CHANGED_ELSEWHERE})
