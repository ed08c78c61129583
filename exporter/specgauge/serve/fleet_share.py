"""How many members of a pool are in fallback, as its Prometheus knows it; decides nothing else.

For sidecars that guard one member each. A share that cannot be known counts as used up: whoever
set a limit did so because the rest of the pool could not bear more traffic, and speculation that
costs is slow while a pool that is overrun is down. So missing data holds the flag where it is.

Members that fall back within one scrape of each other do not see each other.
"""

import math
from dataclasses import dataclass

from specgauge.guard.settings import GuardSettings, PrometheusSettings
from specgauge.serve.fleet import every
from specgauge.serve.fleet_answer import FleetError, FleetReason, Sample
from specgauge.serve.fleet_api import PrometheusApi
from specgauge.serve.fleet_queries import QUANTITY, share_query
from specgauge.serve.log import Log
from specgauge.serve.loop import Pace

_FRESH = 3.0
"""An answer older than so many intervals says nothing of now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """How many members have a guard, and how many of those do without speculation."""

    members: int
    fallen: int


class FallbackShare:
    """Keeps the count of a pool fresh; `used_up` is asked by whoever is about to fall back."""

    def __init__(self, settings: PrometheusSettings, *, pace: Pace, log: Log) -> None:
        self._api = PrometheusApi(settings)
        self._query = share_query(settings.selector)
        self._interval = settings.interval
        self._pace, self._log = pace, log
        self._census: Census | None = None
        self._known_at = -math.inf
        self._told: str | None = None

    async def run(self) -> None:
        """Count every interval, until cancelled."""
        await every(self._interval, self._once, pace=self._pace)

    def used_up(self, share: float | None) -> bool:
        """Tell whether one more member in fallback would be too many, or that cannot be known."""
        if share is None:
            return False
        fresh = self._pace.now() - self._known_at <= _FRESH * self._interval
        return not fresh or self._census is None or is_used_up(self._census, share)

    async def _once(self) -> None:
        try:
            self._census = count(await self._api.query(self._query))
            self._known_at = self._pace.now()
            self._tell("", "")
        except FleetError as error:
            self._tell(str(error), error.reason)
        except Exception:  # noqa: BLE001 - the one loop boundary
            if self._told != "fault":
                self._log.fault("fleet_fault", place=self._api.place)
            self._told = "fault"

    def _tell(self, error: str, reason: str) -> None:
        if reason == self._told:
            return
        self._told = reason
        if reason:
            self._log.warning("fleet_share_unknown", place=self._api.place, problem=error)
        else:
            self._log.info("fleet_share_known", place=self._api.place)


def make_share(guard: GuardSettings, *, pace: Pace, log: Log) -> FallbackShare | None:
    """Make the count for a guard of one member; None where a flag is the whole pool's, or alone."""
    if guard.prometheus is None or guard.source != "sidecar":
        return None
    return FallbackShare(guard.prometheus, pace=pace, log=log)


def count(samples: list[Sample]) -> Census:
    """Read the count out of an answer; raises FleetError where it is not one sure number each."""
    found: dict[str, float] = {}
    for one in samples:
        name = one.labels.get(QUANTITY, "")
        if name in found:
            raise FleetError(FleetReason.SEVERAL_SERIES, f"more than one answer for {name!r}")
        if not math.isfinite(one.value) or one.value < 0.0:
            raise FleetError(FleetReason.NOT_FINITE, f"{name} is {one.value}")
        found[name] = one.value
    members, fallen = found.get("guards"), found.get("fallen")
    if not members or fallen is None:
        raise FleetError(FleetReason.NO_SERIES, "no guard of the pool is known to Prometheus")
    return Census(members=round(members), fallen=round(fallen))


def is_used_up(census: Census, share: float) -> bool:
    """Tell whether as many as may are in fallback; of any share above 0 one member may."""
    allowed = max(math.floor(share * census.members + 1e-9), 1) if share > 0.0 else 0
    return census.fallen + 1 > allowed
