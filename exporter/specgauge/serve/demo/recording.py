"""The recordings inside the package and their file format; opens package files, never a socket."""

import hashlib
import json
import lzma
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum
from importlib import resources
from importlib.resources.abc import Traversable

from specgauge.baseline.schema import BaselineFile, parse

FORMAT = "specgauge.recording/v1"
"""The `format` member of every recording file."""


class RecordingName(StrEnum):
    """The recordings that ship.

    The same arrivals with and without speculation; and eight requests at a time with a draft that
    does not fit.
    """

    SPECULATIVE = "eagle-ramp"
    STANDARD = "none-ramp"
    POOR = "draft-poor-c8"

    @property
    def file_name(self) -> str:
        """The compressed recording."""
        return f"{self}.json.xz"

    @property
    def digests_file_name(self) -> str:
        """The sha256 of every page of it, one a line, in order."""
        return f"{self}.sha256"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedPage:
    """One metrics page as the engine sent it, and the seconds since the first one."""

    at: float
    text: str

    @property
    def digest(self) -> str:
        """The sha256 of the page's bytes."""
        return hashlib.sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """What one engine showed while its load changed; `method` is None without speculation."""

    engine_version: str
    hardware: str
    method: str | None
    synthetic_acceptance: bool
    num_speculative_tokens: int | None
    arrivals_per_second: tuple[float, ...]
    phase_seconds: float
    pages: tuple[RecordedPage, ...]

    @property
    def duration(self) -> float:
        """Recorded seconds from the first page to the last."""
        return self.pages[-1].at - self.pages[0].at


def pack(recording: Recording) -> bytes:
    """Write a recording as a file: compressed JSON, small because pages repeat each other."""
    document = {"format": FORMAT, **asdict(recording)}
    return lzma.compress(json.dumps(document).encode(), preset=9 | lzma.PRESET_EXTREME)


def unpack(content: bytes) -> Recording:
    """Read back what `pack` wrote."""
    document = json.loads(lzma.decompress(content))
    if document.pop("format", None) != FORMAT:
        raise ValueError(f"not a {FORMAT} file; write it again with benchmarks/make_recordings.py")
    pages = tuple(RecordedPage(**page) for page in document.pop("pages"))
    arrivals = tuple(document.pop("arrivals_per_second"))
    return Recording(pages=pages, arrivals_per_second=arrivals, **document)


def load(name: RecordingName) -> Recording:
    """Load a recording that ships with the package."""
    return unpack((_data() / name.file_name).read_bytes())


def load_digests(name: RecordingName) -> tuple[str, ...]:
    """Load the sha256 list that was written beside the recording from the raw pages."""
    return tuple((_data() / name.digests_file_name).read_text("ascii").split())


def recorded_baseline() -> BaselineFile:
    """Load the baseline of the recorded machine: the same server without speculation."""
    text = (_data() / "baseline.json").read_text("ascii")
    return parse(text, source="the recorded baseline")


def list_digests(pages: Iterable[RecordedPage]) -> str:
    """Write the sha256 list of pages, one a line."""
    return "".join(f"{page.digest}\n" for page in pages)


def _data() -> Traversable:
    return resources.files("specgauge.serve.demo") / "data"
