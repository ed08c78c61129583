"""The configuration as values: what `load` returns and the rest of the program is handed.

Single keys are checked here; how keys fit together is checked by `rules` before these are built.
"""

from pydantic import BaseModel, Field

from specgauge.config.address import (
    Address,
    ListenAddress,
    default_name,
    parse_address,
    parse_listen,
)
from specgauge.config.checklist_keys import ChecklistKeys
from specgauge.config.fields import (
    BasicSecret,
    BearerSecret,
    Count,
    Duration,
    File,
    Folder,
    Headers,
    Interval,
    Listen,
    Margin,
    Method,
    Name,
    Role,
    Size,
    Switch,
    Url,
)
from specgauge.config.flag_keys import FlagKeys
from specgauge.config.guard_fields import Words
from specgauge.config.guard_keys import GuardKeys
from specgauge.config.report_keys import ReportKeys
from specgauge.config.routing_keys import RoutingKeys
from specgauge.config.rules_keys import RulesKeys
from specgauge.config.section import SETTINGS, secret_key
from specgauge.config.tls_keys import Tls


class Auth(BaseModel):
    """How to authenticate to a target; at most one of bearer and basic."""

    model_config = SETTINGS

    bearer_file: File = Field(
        default=None, description="File that holds the bearer token on its first line."
    )
    basic_file: File = Field(
        default=None, description="File that holds user:password on its first line."
    )
    headers: Headers = Field(
        default_factory=dict,
        description="Further request headers; never Authorization.",
        repr=False,
    )
    bearer: BearerSecret = secret_key("The bearer token itself; from the environment only.")
    basic: BasicSecret = secret_key("The user:password itself; from the environment only.")


class Facts(BaseModel):
    """What no page tells of a server, for choosing and refusing baselines.

    Where the server does tell, its own word holds.
    """

    model_config = SETTINGS

    revision: Words = Field(default=None, description="Revision of the model.")
    quantization: Words = Field(default=None, description="Quantisation of the model.")
    gpu: Words = Field(default=None, description="GPU, as nvidia-smi names it.")
    gpu_count: Count = Field(default=None, description="How many GPUs.")
    tensor_parallel: Count = Field(default=None, description="Tensor-parallel size.")

    @property
    def stated(self) -> dict[str, object]:
        """Give those that are stated by their dotted path in a baseline file."""
        told = {
            "model.revision": self.revision,
            "model.quantization": self.quantization,
            "hardware.gpu": self.gpu,
            "hardware.count": self.gpu_count,
            "parallelism.tensor": self.tensor_parallel,
        }
        return {name: value for name, value in told.items() if value is not None}


class Target(BaseModel):
    """One server to watch."""

    model_config = SETTINGS

    url: Url = Field(
        description="Where the server is: http://, https:// or http+unix:///path.sock[:/path]. "
        "Without a path, /metrics is read."
    )
    given_name: Name = Field(
        default=None,
        alias="name",
        description="What the target is called in labels; by default its host:port.",
    )
    role: Role = Field(
        default="speculative", description="Whether the server runs speculative decoding."
    )
    engines: Count = Field(
        default=None, description="How many engines its page must show; fewer is warned of."
    )
    method: Method = Field(
        default=None, description="Speculation method it was started with; no page tells."
    )
    facts: Facts = Field(
        default_factory=Facts, description="What else is known of it and no page tells."
    )
    auth: Auth = Field(default_factory=Auth, description="How to authenticate to it.")
    tls: Tls = Field(default_factory=Tls, description="TLS settings, for https:// only.")

    @property
    def name(self) -> str:
        """What the target is called in labels."""
        return self.given_name or default_name(self.url)

    @property
    def address(self) -> Address:
        """What to request, and through which socket."""
        return parse_address(self.url)


class Scrape(BaseModel):
    """The pace and the limits of scraping."""

    model_config = SETTINGS

    interval: Interval = Field(
        default=1.0,
        description="Time from one scrape of a target to the next; at least 100ms.",
        json_schema_extra={"default": "1s"},
    )
    timeout: Duration = Field(
        default=3.0,
        description="How long one scrape may take; slots that pass meanwhile are skipped.",
        json_schema_extra={"default": "3s"},
    )
    max_bytes: Size = Field(
        default=64 << 20,
        description="Largest page taken, after decompression; at least 1KiB.",
        json_schema_extra={"default": "64MiB"},
    )


class Export(BaseModel):
    """What /metrics may leave out."""

    model_config = SETTINGS

    histograms: Switch = Field(default=True, description="Whether the histograms are exported.")
    positions: Switch = Field(
        default=True, description="Whether the series for each draft position are exported."
    )


class BaselineKeys(BaseModel):
    """What the speed of a server is compared with; a live target goes before a file."""

    model_config = SETTINGS

    file: File = Field(default=None, description="Baseline file (specgauge.baseline/v1).")
    dir: Folder = Field(
        default=None,
        description="Folder of baseline files; the one that belongs to the server is taken.",
    )
    target: Name = Field(
        default=None,
        description="Name of a target without speculation, whose speed now is the baseline.",
    )
    margin: Margin = Field(default=0.05, description="A speedup this close to 1 is even.")


class Config(BaseModel):
    """Configuration of specgauge."""

    model_config = SETTINGS

    targets: tuple[Target, ...] = Field(
        default=(), description="The servers to watch; at least one."
    )
    scrape: Scrape = Field(default_factory=Scrape, description="How every target is scraped.")
    window: Duration = Field(
        default=60.0,
        description="Time that the gauges on /metrics look back; at least twice scrape.interval.",
        json_schema_extra={"default": "60s"},
    )
    listen: Listen = Field(
        default="0.0.0.0:9843",
        description="Address to serve on: HOST:PORT, [IPV6]:PORT, or :PORT for every interface.",
    )
    token_file: File = Field(
        default=None,
        description="File with the bearer token that routes which change something ask for; "
        "without one they answer 403.",
    )
    export: Export = Field(
        default_factory=Export, description="Which of the larger families /metrics carries."
    )
    decision_window: Duration = Field(
        default=15.0,
        description="Time that a verdict looks back; grows up to window until it holds enough.",
        json_schema_extra={"default": "15s"},
    )
    baseline: BaselineKeys = Field(
        default_factory=BaselineKeys, description="What the speed is compared with."
    )
    guard: GuardKeys | None = Field(
        default=None, description="When the flag is moved; absent means no guard, {} the defaults."
    )
    flag: FlagKeys | None = Field(
        default=None, description="Where the flag of the guard lies; by default in the sidecar."
    )
    rules: RulesKeys = Field(
        default_factory=RulesKeys, description="What specgauge render writes: rules and dashboards."
    )
    checklist: ChecklistKeys = Field(
        default_factory=ChecklistKeys, description="What specgauge checklist holds it to."
    )
    routing: RoutingKeys | None = Field(
        default=None, description="Which requests are served with speculation; absent means none."
    )
    report: ReportKeys = Field(
        default_factory=ReportKeys, description="What specgauge report asks and holds it to."
    )
    token: BearerSecret = secret_key("The token itself; from the environment only.")

    @property
    def listen_address(self) -> ListenAddress:
        """Where to listen, as host and port."""
        return parse_listen(self.listen)
