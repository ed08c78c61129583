"""Rules that need no sidecar: acceptance and true time per token from vLLM's own names.

Which release has which name is read off the dialect table; a file is made for every range of
releases that one set of expressions fits.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from specgauge.engines.compatibility import RELEASES
from specgauge.engines.vllm import NEWEST_RELEASE, TABLE
from specgauge.model.quantity import Quantity
from specgauge.render.alert import NATIVE, Alert, alerts, prometheus_rule
from specgauge.render.files import RenderedFile, to_yaml
from specgauge.render.options import Options
from specgauge.render.rules import HEAD, group
from specgauge.render.templating import fill_yaml

_READ: Mapping[str, tuple[Quantity, ...]] = {
    "V0": (Quantity.ACCEPTANCE_GAUGE, Quantity.DECODE_TIME),
    "V1": (Quantity.DRAFT_TOKENS, Quantity.ACCEPTED_PER_POSITION, Quantity.STEP_LATENCY),
}
"""What the rules read, by generation; the rest of their names has always been the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Releases of one engine generation that are read alike, and the names they are read by."""

    engine: str
    first: str
    last: str
    names: tuple[str, ...]

    @property
    def slug(self) -> str:
        """What the range is called in names of files and groups."""
        last = "newest" if self.last == NEWEST_RELEASE else self.last
        return f"{self.engine.lower()}-{self.first}-{last}"


def native_rules(options: Options) -> Iterator[RenderedFile]:
    """Make one file for each range of releases."""
    for found in (*ranges("V0"), *ranges("V1")):
        yield _file(found, options)


def ranges(engine: str) -> list[Range]:
    """Join neighbouring releases that show the same names; the oldest come first."""
    joined: list[Range] = []
    for release in RELEASES:
        names = tuple(_shown(engine, release))
        if not names:
            continue
        alike = joined and joined[-1].names == names
        first = joined.pop().first if alike else release
        joined.append(Range(engine=engine, first=first, last=release, names=names))
    return joined


def _shown(engine: str, release: str) -> Iterator[str]:
    """Name what a release shows of what the rules read, of each quantity the preferred name."""
    for entry in TABLE:
        if entry.quantity not in _READ[engine]:
            continue
        for one in entry.names:
            if any(
                span.engine == engine
                and _order(span.first) <= _order(release) <= _order(span.last or NEWEST_RELEASE)
                for span in one.spans
            ):
                yield one.name
                break


def _order(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.replace("post", "").split("."))


def _file(found: Range, options: Options) -> RenderedFile:
    facts = {"range": found, "has": found.names.__contains__}
    recorded = fill_yaml("native/recording.yaml", options, **facts) or []
    raised: tuple[Alert, ...] = alerts(options, NATIVE, **facts)
    groups = [
        group(f"vllm-{found.slug}", options.evaluation_interval, recorded),
        group(
            f"vllm-alerts-{found.slug}",
            options.evaluation_interval,
            [prometheus_rule(alert, options) for alert in raised],
        ),
    ]
    text = HEAD + to_yaml({"groups": [one for one in groups if one["rules"]]})
    return RenderedFile(path=f"rules/native-{found.slug}.rules.yaml", text=text)
