"""Reads pages: strict about the format, quick about the keys, which repeat from page to page.

A page is taken whole or refused whole. Nothing of a refused page is remembered.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from specgauge.engines.detect import describe, recognised
from specgauge.engines.normalise import Catalogue, Unread
from specgauge.engines.parse import MalformedLineError, number, parse_line
from specgauge.errors import SourceError
from specgauge.model.outcome import ScrapeResult
from specgauge.model.quantity import Layout, Page, Quantity, Series

_SHOWN = 60
_TOO_LARGE = 1e300  # sums of such numbers leave the floats
_SPARE_KEYS = 10_000
_MAX_NUMBERS = 5_000

MAX_LINES = 250_000
"""A page of more lines is refused unread: ten times the largest server's, seconds of work."""

MAX_SERIES = 60_000
"""More series of engines than this are no server's: labels must have gone wild."""

NOT_FINITE = "not_finite"
NEGATIVE = "negative_value"
DUPLICATE = "duplicate_series"
NO_FINAL_NEWLINE = "no_final_newline"


class Reader:
    """Turns the pages of one target into values; lives as long as the target does.

    Holds what is worth keeping between scrapes: the meaning of each key, the numbers that came
    before, and the layout while it stays the same.
    """

    def __init__(self) -> None:
        self._catalogue = Catalogue()
        self._keys: dict[str, Series | Unread] = {}
        self._numbers: dict[str, float] = {}
        self._order: list[Series] = []
        self._layout: Layout | None = None
        self._comments: list[str] = []
        self._needs_end = False

    def read(self, data: bytes, *, complete: bool = False) -> Page:
        """Read one page.

        `complete` says that the transport vouches for the body's length, so that a missing final
        newline is only bad style. Raises SourceError with the reason where the page is refused.
        """
        text = _decode(data)
        notes: tuple[str, ...] = ()
        if not text:
            raise SourceError(ScrapeResult.NO_ENGINE_METRICS, "the page is empty")
        if text.lstrip(" \t\r\n")[:1] == "<":
            raise SourceError(ScrapeResult.NOT_METRICS, "the page is HTML, not metrics")
        if not text.endswith("\n"):
            if not complete:
                last = text.rpartition("\n")[2]
                raise SourceError(
                    ScrapeResult.TRUNCATED, f"the page ends in the middle of {last[-_SHOWN:]!r}"
                )
            notes = (NO_FINAL_NEWLINE,)
            text += "\n"
        if text.count("\n") > MAX_LINES:
            raise SourceError(ScrapeResult.TOO_LARGE, f"the page has more than {MAX_LINES:,} lines")
        lines = text.split("\n")
        lines.pop()
        met: dict[str, Series | Unread] = {}
        try:
            page = self._accept(lines, text, notes, met)
        finally:  # a refused page adds no keys, and its series may not pile up either
            if len(self._catalogue) > 2 * len(self._keys) + _SPARE_KEYS:
                self._catalogue.keep({*self._order, *self._keys.values()})
        self._keys.update(met)
        if met and len(self._keys) > 2 * len(lines) + _SPARE_KEYS:
            self._forget(page)
        return page

    def _accept(
        self,
        lines: Sequence[str],
        text: str,
        notes: tuple[str, ...],
        met: dict[str, Series | Unread],
    ) -> Page:
        """Read the lines of a whole page; the keys that were new are left in `met`."""
        series, read, unread = self._samples(lines, met)
        if len(series) > MAX_SERIES:
            raise SourceError(
                ScrapeResult.TOO_LARGE, f"an engine's page has more than {MAX_SERIES:,} series"
            )
        values = dict(zip(series, read, strict=True))
        comments = [line for line in lines if line[:1] == "#"]
        layout, needs_end = self._layout, self._needs_end
        if list(values) != self._order:
            layout = None
        if layout is None or comments != self._comments:
            needs_end = _openmetrics_counter(lines)
        _require_end(lines, text, needs_end=needs_end)
        if layout is None:
            _require_engine(values, unread)
            self._order = list(values)
            layout = self._layout = describe(self._order, self._catalogue.cell)
        self._comments, self._needs_end = comments, needs_end
        faults = {} if len(values) == len(series) else _duplicates(series, read)
        return _page(layout, values, faults, notes)

    def _samples(
        self, lines: Sequence[str], met: dict[str, Series | Unread]
    ) -> tuple[list[Series], list[float], Counter[Unread]]:
        """Read every sample line; what no quantity is read from is only counted."""
        keys, numbers = self._keys, self._numbers
        series: list[Series] = []  # apart from the values: a page of tuples is garbage to collect
        values: list[float] = []
        unread: Counter[Unread] = Counter()
        neutral = 0
        if len(numbers) > max(_MAX_NUMBERS, 2 * len(lines)):
            numbers.clear()
        types: dict[str, str] = {}
        for line in lines:
            cut = line.rfind(" ")
            meaning = keys.get(line[:cut])
            if meaning is not None:
                raw = line[cut + 1 :]
                value = numbers.get(raw)
                if value is None:
                    try:
                        value = numbers[raw] = number(raw.rstrip("\r"))
                    except MalformedLineError:  # more than a number stands behind the key
                        meaning, value = self._parse(lines, line, types, met)
            elif line[:1] != "#" and (shown := line.strip()) and shown[0] != "#":
                meaning, value = self._parse(lines, line, types, met)
            else:
                continue
            if isinstance(meaning, Series):
                series.append(meaning)
                values.append(value)
            elif meaning is Unread.NEUTRAL:
                neutral += 1
            else:
                unread[meaning] += 1
        unread[Unread.NEUTRAL] += neutral
        return series, values, unread

    def _parse(
        self,
        lines: Sequence[str],
        line: str,
        types: dict[str, str],
        met: dict[str, Series | Unread],
    ) -> tuple[Series | Unread, float]:
        """Read a line in full, and put its key to those met; `types` is filled when first used."""
        if not types:
            types.update(_types(lines))
        try:
            sample = parse_line(line.rstrip("\r"))
        except MalformedLineError:
            raise _malformed(lines, line) from None
        family = types.get(sample.name) or types.get(_family(sample.name))
        meaning = self._catalogue.identify(sample.name, sample.labels, family)
        if line.rfind(" ") == sample.end:
            met[line[: sample.end]] = meaning
        return meaning, sample.value

    def _forget(self, page: Page) -> None:
        """Let go of keys that no longer come, so that changing labels cannot fill the memory."""
        live = set(page.values) | set(page.faults)
        self._keys = {key: m for key, m in self._keys.items() if m in live}
        self._catalogue.keep(live)


def _types(lines: Sequence[str]) -> dict[str, str]:
    """Collect the TYPE lines of a page: family name to type; never empty."""
    declared = (line[7:].rstrip("\r").rpartition(" ") for line in lines if line[:7] == "# TYPE ")
    return {"": ""} | {name: kind for name, _, kind in declared}


def _require_end(lines: Sequence[str], text: str, *, needs_end: bool) -> None:
    """Refuse an OpenMetrics page without its `# EOF`, or with more behind it."""
    end = "# EOF"
    ends = text.count("\n# EOF") + text.startswith(end)
    if ends:
        if ends == 1 and lines[-1].rstrip("\r") == end:
            return
        raise SourceError(ScrapeResult.TRUNCATED, "the page goes on behind its # EOF line")
    if needs_end or text.startswith("# UNIT ") or "\n# UNIT " in text:
        raise SourceError(
            ScrapeResult.TRUNCATED, "the page is OpenMetrics but does not end with # EOF"
        )


def _require_engine(values: Mapping[Series, float], unread: Counter[Unread]) -> None:
    """Refuse a page on which no engine we know says anything."""
    if recognised(values):
        return
    strange = any(series.quantity is Quantity.OTHER for series in values)
    if strange or unread[Unread.FOREIGN] or unread[Unread.ENGINE]:
        raise SourceError(
            ScrapeResult.UNRECOGNISED_EXPOSITION,
            "no series that specgauge knows of an engine is on the page",
        )
    raise SourceError(
        ScrapeResult.NO_ENGINE_METRICS,
        "the page holds no engine metrics; was the server started with --disable-log-stats?",
    )


def _decode(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as problem:
        raise SourceError(
            ScrapeResult.BAD_ENCODING, f"byte {problem.start} of the page is not UTF-8"
        ) from None


def _malformed(lines: Sequence[str], line: str) -> SourceError:
    shown = line if len(line) <= _SHOWN else line[:_SHOWN] + "..."
    place = lines.index(line) + 1
    return SourceError(ScrapeResult.NOT_METRICS, f"line {place} is no sample: {shown!r}")


def _family(name: str) -> str:
    """Give the name under which a histogram's or summary's TYPE line stands."""
    base, _, suffix = name.rpartition("_")
    return base if suffix in {"bucket", "sum", "count", "total"} else name


def _openmetrics_counter(lines: Sequence[str]) -> bool:
    """Tell whether a counter is declared by the name that only its OpenMetrics samples extend."""
    counters = {name for name, kind in _types(lines).items() if kind == "counter"}
    samples = {f"{name}_total" for name in counters if not name.endswith("_total")}
    starts = (line.partition("{")[0].partition(" ")[0] for line in lines if line[:1] != "#")
    return bool(samples) and any(start in samples for start in starts)


def _page(
    layout: Layout,
    values: dict[Series, float],
    faults: dict[Series, str],
    notes: tuple[str, ...],
) -> Page:
    """Set aside what cannot be trusted; the rest of the page stays usable."""
    for series, value in values.items():
        if not -_TOO_LARGE < value < _TOO_LARGE:
            faults[series] = NOT_FINITE
        elif value < 0.0:
            faults[series] = NEGATIVE
    for series in faults:
        del values[series]
    return Page(layout=layout, values=values, faults=faults, notes=notes)


def _duplicates(found: Sequence[Series], values: Sequence[float]) -> dict[Series, str]:
    """Name the series that stand on the page more than once with different values."""
    first: dict[Series, float] = {}
    faults: dict[Series, str] = {}
    for series, value in zip(found, values, strict=True):
        if first.setdefault(series, value) != value:
            faults[series] = DUPLICATE
    return faults
