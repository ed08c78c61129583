"""Several recordings shown as the one page of one server; no clock and no I/O.

The page keeps the lines of the first recording. Counters go on from where the recording before
left them; what another recording does not show stands still, as the draft counters of a server
do that no longer drafts. Gauges are those of the recording that is played, but for those that say
when the server started: it is one server.
"""

import re
from collections.abc import Callable, Mapping

from prometheus_client.utils import floatToGoString

from specgauge.serve.demo.replay_page import Reel

_format: Callable[[float], str] = floatToGoString
_STARTED = re.compile(r"_created$|^process_start_time_seconds$")
_GROWING = frozenset({"counter", "histogram", "summary"})


class Splice:
    """Plays one of several reels at a time; `turn` changes to another."""

    def __init__(self, reels: Mapping[str, Reel], first: str) -> None:
        self._reels = reels
        self.playing = first
        self._lines = reels[first].page_at(0.0).split("\n")
        kinds = dict(line.split(" ")[2:4] for line in self._lines if line.startswith("# TYPE "))
        self._growing = {
            key: _kind(key, kinds) in _GROWING
            for key in map(_key, self._lines)
            if key and not _STARTED.search(key.partition("{")[0])
        }
        self._offsets: dict[str, float] = {}
        self._shown = _values(self._lines)

    def page_at(self, elapsed: float) -> str:
        """Write the page at `elapsed` seconds into the recording that is played."""
        found = _values(self._reels[self.playing].page_at(elapsed).split("\n"))
        for key, growing in self._growing.items():
            value = found.get(key)
            if value is None:
                continue
            if not growing:
                self._shown[key] = value
                continue
            reading = float(value) + self._offsets.get(key, 0.0)
            self._shown[key] = _format(max(reading, float(self._shown[key])))
        return "\n".join(
            f"{key} {self._shown[key]}" if (key := _key(line)) else line for line in self._lines
        )

    def turn(self, name: str, elapsed: float, at: float) -> None:
        """Go on with another reel: this one's `elapsed` seconds meet the other's `at`."""
        self.page_at(elapsed)
        self.playing = name
        start = _values(self._reels[name].page_at(at).split("\n"))
        self._offsets = {
            key: float(self._shown[key]) - float(start[key])
            for key, growing in self._growing.items()
            if growing and key in start
        }


def _key(line: str) -> str:
    return "" if line.startswith("#") else line.rpartition(" ")[0]


def _values(lines: list[str]) -> dict[str, str]:
    return {key: line.rpartition(" ")[2] for line in lines if (key := _key(line))}


def _kind(key: str, kinds: Mapping[str, str]) -> str | None:
    name = key.partition("{")[0]
    return kinds.get(name) or kinds.get(name.rpartition("_")[0])
