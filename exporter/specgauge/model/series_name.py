"""What an emitted series is called and carries; which there are stands elsewhere."""

from dataclasses import dataclass

TARGET = "target"
MODEL = "model_name"
ENGINE = "engine"
PER_MODEL = (TARGET, MODEL)
PER_ENGINE = (TARGET, MODEL, ENGINE)
REPLICAS = (
    "prometheus_replica", "receive_replica", "thanos_replica", "replica", "__replica__",
)  # fmt: skip
"""Labels that tell two Prometheus of a pair apart, who both scraped the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesName:
    """One emitted family; `name` is the sample name, `_total` included."""

    name: str
    kind: str
    labels: tuple[str, ...]
    help: str


def counter(name: str, labels: tuple[str, ...], text: str) -> SeriesName:
    """Name a counter."""
    return SeriesName(name=f"specgauge_{name}_total", kind="counter", labels=labels, help=text)


def gauge(name: str, labels: tuple[str, ...], text: str) -> SeriesName:
    """Name a gauge."""
    return SeriesName(name=f"specgauge_{name}", kind="gauge", labels=labels, help=text)


def histogram(name: str, text: str) -> SeriesName:
    """Name a histogram of a model."""
    return SeriesName(name=f"specgauge_{name}", kind="histogram", labels=PER_MODEL, help=text)
