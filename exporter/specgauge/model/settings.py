"""What the sidecar is told, as plain values; secrets are already read into the headers."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from specgauge.model.baseline import Baseline
from specgauge.model.derived import Hints


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSettings:
    """One server to watch; `url` is that of its metrics page.

    `facts` are what no page tells, by their dotted path in a baseline file.
    """

    name: str
    url: str
    role: str = "speculative"
    hints: Hints = field(default_factory=Hints)
    facts: Mapping[str, object] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    server_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteSettings:
    """What routers are told and where; `limits` are loads as pairs of at_most and resume.

    `hold` is how many seconds a router goes by the last known flag.
    """

    state_file: str | None = None
    limits: tuple[tuple[float, float], ...] = ()
    hold: float = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The whole sidecar; times in seconds, sizes in bytes."""

    targets: tuple[TargetSettings, ...]
    interval: float = 1.0
    timeout: float = 3.0
    max_bytes: int = 64 << 20
    window: float = 60.0
    host: str = "0.0.0.0"  # noqa: S104 - a sidecar is scraped from outside the pod
    port: int = 9843
    token: str | None = field(default=None, repr=False)
    histograms: bool = True
    positions: bool = True
    decision_window: float = 15.0
    baselines: tuple[Baseline, ...] = ()
    baseline_target: str | None = None
    margin: float = 0.05
    routing: RouteSettings = field(default_factory=RouteSettings)
    access_log: str | None = None
    access_log_state: str | None = None
