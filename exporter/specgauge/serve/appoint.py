"""Makes the guard that the settings ask for; contacts nothing."""

import os

from specgauge.derive.judge import Terms
from specgauge.guard.flags.build import make_backend
from specgauge.guard.settings import GuardSettings
from specgauge.model.settings import Settings
from specgauge.serve.guard_records import Guarded, hash_of
from specgauge.serve.guardian import Guardian
from specgauge.serve.log import Log
from specgauge.serve.loop import Pace


def make_guardian(guard: GuardSettings, settings: Settings, *, pace: Pace, log: Log) -> Guardian:
    """Make the guard of the speculative target; raises ConfigError for a flag that cannot be."""
    guarded = Guarded(settings=guard, target=guarded_name(settings, ""), config_hash=hash_of(guard))
    made: list[Guardian] = []
    backend = make_backend(
        guard.flag,
        reason=lambda: made[0].reason if made else "",
        environment=os.environ,
    )
    made.append(Guardian(guarded, backend, pace=pace, log=log))
    return made[0]


def check_guard(guard: GuardSettings | None) -> None:
    """Raise ConfigError for a flag that could not be guarded, before anything depends on it."""
    if guard is not None:
        make_backend(guard.flag, environment=os.environ)


def guarded_name(settings: Settings, before: str) -> str:
    """Name the target that is guarded: the one before if it is still there, else the first.

    A pool that is judged from afar may have no speculative target here: then the first of all.
    """
    every = [one.name for one in settings.targets]
    names = [one.name for one in settings.targets if one.role != "standard"] or every
    return before if before in names else names[0]


def judging(settings: Settings, guard: GuardSettings | None) -> Terms:
    """Say when a verdict is sure; a guard has its own word on how many tokens that takes."""
    if guard is None:
        return Terms(margin=settings.margin)
    return Terms(margin=settings.margin, min_tokens=guard.policy.min_tokens)
