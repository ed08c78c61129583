"""What a recorded engine's page reads at any moment, also between pages; no clock and no I/O.

Counters move linearly from one recorded page to the next and are floored on one shared fraction,
in whole numbers: so buckets stay cumulative and the last one equals the count. Sums of histograms
move with their counts, so that no mean can arise that was not recorded. Where the engine keeps
one counter equal to others (`_TIES`), it stays so. Gauges hold the earlier page's value.
After the last page the load starts over while the counters go on from where they were.
"""

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client.utils import floatToGoString

from specgauge.serve.demo.recording import Recording

_format: Callable[[float], str] = floatToGoString
_FINENESS = 1_000_000
_CUMULATIVE_KINDS = frozenset({"counter", "histogram", "summary"})

_SPEC = "vllm:spec_decode_num_"
_TIES: tuple[tuple[str, tuple[str, ...]], ...] = (
    (f"{_SPEC}draft_tokens_total", (f"{_SPEC}drafts_total",)),
    (f"{_SPEC}accepted_tokens_total", (f"{_SPEC}accepted_tokens_per_pos_total",)),
    (
        "vllm:generation_tokens_total",
        (
            f"{_SPEC}accepted_tokens_total",
            "vllm:inter_token_latency_seconds_count",
            "vllm:time_to_first_token_seconds_count",
        ),
    ),
    (
        "vllm:iteration_tokens_total_sum",
        ("vllm:prompt_tokens_total", "vllm:generation_tokens_total"),
    ),
)
"""What never exceeds the sum of which others, but for a slack (tokens cut off by max_tokens)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Track:
    """One line of the page that changes, at every recorded page; `slot` is its place in it."""

    slot: int
    name: str
    values: tuple[float, ...]
    held: bool
    pace: int | None

    @property
    def whole(self) -> bool:
        return all(value.is_integer() for value in self.values)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tie:
    """A counter that moves with others: at most `factor` · their sum minus the page's slack."""

    target: int
    parts: tuple[int, ...]
    factor: int
    slack: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moment:
    """A place on the recording: `step`/_FINENESS of the way from page `index` to the next."""

    lap: int
    index: int
    step: int

    @property
    def held_index(self) -> int:
        return self.index + self.step // _FINENESS


class Reel:
    """A recording of a single engine made ready to be read at any moment of recorded time."""

    def __init__(self, recording: Recording) -> None:
        first = recording.pages[0].at
        self._times = [page.at - first for page in recording.pages]
        self._parts, self._tracks = _find_tracks([page.text for page in recording.pages])
        self._ties = tuple(_find_ties(self._tracks))
        self._texts = [
            [_format(value) for value in track.values] if track.held else []
            for track in self._tracks
        ]
        self._numbers = [
            [int(value) for value in track.values] if track.whole else track.values
            for track in self._tracks
        ]
        self._gains = [_measure_gain(numbers) for numbers in self._numbers]

    def page_at(self, elapsed: float) -> str:
        """Write the page `elapsed` recorded seconds after the first one; it may go on for ever."""
        moment = self._locate(max(0.0, elapsed))
        readings = self._read(moment)
        parts = self._parts.copy()
        for track, texts, reading, numbers, gain in zip(
            self._tracks, self._texts, readings, self._numbers, self._gains, strict=True
        ):
            if track.held:
                parts[track.slot] = texts[moment.held_index]
                continue
            # A float's rounding must not let the next lap start below this one's end.
            ceiling = numbers[0] + (moment.lap + 1) * gain
            parts[track.slot] = _format(min(reading + moment.lap * gain, ceiling))
        return "".join(parts)

    def _locate(self, elapsed: float) -> _Moment:
        lap, within = divmod(elapsed, self._times[-1])
        if within == 0 and lap > 0:
            lap, within = lap - 1, self._times[-1]
        index = min(bisect_right(self._times, within) - 1, len(self._times) - 2)
        start, end = self._times[index : index + 2]
        # Rounded, so that a clock's float error of nanoseconds still meets the recorded page.
        step = min(_FINENESS, round((within - start) / (end - start) * _FINENESS))
        return _Moment(lap=int(lap), index=index, step=step)

    def _read(self, moment: _Moment) -> list[float]:
        index, step = moment.index, moment.step
        readings: list[float] = []
        for track, numbers in zip(self._tracks, self._numbers, strict=True):
            if track.held or track.pace is not None:
                readings.append(0)
                continue
            readings.append(_move(numbers[index], numbers[index + 1], step, _FINENESS))
        for place, track in enumerate(self._tracks):
            if track.pace is None:
                continue
            numbers, counts = self._numbers[place], self._numbers[track.pace]
            made = int(readings[track.pace] - counts[index])
            asked = int(counts[index + 1] - counts[index])
            readings[place] = _move(numbers[index], numbers[index + 1], made, asked)
        for tie in self._ties:
            most = tie.factor * sum(readings[part] for part in tie.parts) - tie.slack[index]
            readings[tie.target] = min(readings[tie.target], most)
        return readings


def _move(start: float, end: float, made: int, asked: int) -> float:
    """Go `made`/`asked` of the way; whole numbers are floored, the ends are met exactly."""
    if made >= asked:
        return end if asked else start
    if isinstance(start, int) and isinstance(end, int):
        return start + (end - start) * made // asked
    return min(end, start + (end - start) * made / asked)


def _measure_gain(numbers: Sequence[float]) -> float:
    """Tell what a lap adds to a counter, rounded up: no lap may start below the last one's end."""
    gain = numbers[-1] - numbers[0]
    return gain if numbers[0] + gain >= numbers[-1] else math.nextafter(gain, math.inf)


def _find_tracks(pages: Sequence[str]) -> tuple[list[str], list[_Track]]:
    """Cut the page into text that stays and places that change, with their values."""
    rows = [page.split("\n") for page in pages]
    kinds = dict(line.split(" ")[2:4] for line in rows[0] if line.startswith("# TYPE "))
    parts: list[str] = []
    tracks: list[_Track] = []
    places: dict[str, int] = {}
    still = ""
    for lines in zip(*rows, strict=True):
        if all(line == lines[0] for line in lines):
            still += f"{lines[0]}\n"
            continue
        key = lines[0].rpartition(" ")[0]
        name = key.partition("{")[0]
        parts += [f"{still}{key} ", ""]
        still = "\n"
        places[key] = len(tracks)
        tracks.append(
            _Track(
                slot=len(parts) - 1,
                name=name,
                values=tuple(float(line.rpartition(" ")[2]) for line in lines),
                held=_find_kind(name, kinds) not in _CUMULATIVE_KINDS,
                pace=_find_pace(key, name, places),
            )
        )
    return [*parts, still.removesuffix("\n")], tracks


def _find_kind(name: str, kinds: Mapping[str, str]) -> str | None:
    if name in kinds:
        return kinds[name]
    return kinds.get(name.rpartition("_")[0])


def _find_pace(key: str, name: str, places: Mapping[str, int]) -> int | None:
    """Find the count that a sum moves with; the count stands above its sum on every page."""
    if not name.endswith("_sum") or any(name == target for target, _ in _TIES):
        return None
    return places.get(key.replace("_sum", "_count", 1))


def _find_ties(tracks: Sequence[_Track]) -> Iterator[_Tie]:
    """Find which ties this recording has, and each one's slack at every page."""
    places: defaultdict[str, list[int]] = defaultdict(list)
    for place, track in enumerate(tracks):
        places[track.name].append(place)
    num_speculative_tokens = len(places[f"{_SPEC}accepted_tokens_per_pos_total"])
    for target_name, part_names in _TIES:
        parts = tuple(place for name in part_names for place in places[name])
        factor = num_speculative_tokens if target_name == f"{_SPEC}draft_tokens_total" else 1
        for target in places[target_name][:1] if parts else ():
            sums = zip(*(tracks[part].values for part in parts), strict=True)
            slack = (
                int(factor * sum(values) - own)
                for values, own in zip(sums, tracks[target].values, strict=True)
            )
            yield _Tie(target=target, parts=parts, factor=factor, slack=tuple(slack))
