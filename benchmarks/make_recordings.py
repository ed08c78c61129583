r"""Turns raw captures of a vLLM server under a load ramp into the recordings that ship.

A capture is a JSON file (or its gzip) with `phases_requests_per_s`, `phase_seconds`, `spec`
(the speculative configuration or null) and `pages`: a list of `{"t": seconds, "page": text}`.

The third recording is a pair of pages of a draft that does not fit, at a steady load.

    python benchmarks/make_recordings.py --speculative eagle.json.gz --standard none.json.gz \
        --poor poor-before.prom poor-after.prom --poor-seconds 15.41 --poor-requests 64
"""

import argparse
import gzip
import json
from pathlib import Path
from typing import Any

from specgauge.serve.demo.recording import (
    RecordedPage,
    Recording,
    RecordingName,
    list_digests,
    pack,
    unpack,
)

DATA = Path(__file__).parent.parent / "exporter" / "specgauge" / "serve" / "demo" / "data"


def read_capture(path: Path) -> dict[str, Any]:
    """Read a raw capture, compressed or not."""
    content = path.read_bytes()
    capture: dict[str, Any] = json.loads(
        gzip.decompress(content) if path.suffix == ".gz" else content
    )
    return capture


def make_recording(capture: dict[str, Any], *, engine_version: str, hardware: str) -> Recording:
    """Keep the pages and what was done to the server; leave out the clients' own numbers."""
    spec = capture["spec"] or {}
    skeletons = {
        tuple(line if line.startswith("#") else line.rpartition(" ")[0] for line in lines)
        for lines in (page["page"].split("\n") for page in capture["pages"])
    }
    if len(skeletons) != 1:
        raise SystemExit("the capture's pages differ in their series; record after a warm-up")
    return Recording(
        engine_version=engine_version,
        hardware=hardware,
        method=spec.get("method"),
        synthetic_acceptance=spec.get("rejection_sample_method") == "synthetic",
        num_speculative_tokens=spec.get("num_speculative_tokens"),
        arrivals_per_second=tuple(capture["phases_requests_per_s"]),
        phase_seconds=capture["phase_seconds"],
        pages=tuple(RecordedPage(at=page["t"], text=page["page"]) for page in capture["pages"]),
    )


def make_pair(
    before: Path, after: Path, *, seconds: float, requests: int, engine_version: str, hardware: str
) -> Recording:
    """Make a recording of two pages: a draft of four tokens whose acceptance was set low."""
    pages = (
        RecordedPage(at=0.0, text=before.read_text()),
        RecordedPage(at=seconds, text=after.read_text()),
    )
    return Recording(
        engine_version=engine_version,
        hardware=hardware,
        method="draft_model",
        synthetic_acceptance=True,
        num_speculative_tokens=4,
        arrivals_per_second=(round(requests / seconds, 2),),
        phase_seconds=seconds,
        pages=pages,
    )


def write_recording(name: RecordingName, recording: Recording, directory: Path) -> None:
    """Write the compressed recording and, beside it, the sha256 of every raw page."""
    content = pack(recording)
    (directory / name.file_name).write_bytes(content)
    (directory / name.digests_file_name).write_text(list_digests(recording.pages), "ascii")
    if unpack(content) != recording:
        raise SystemExit(f"{name}: did not survive packing")
    print(f"{directory / name.file_name}: {len(recording.pages)} pages, {len(content)} bytes")


def main() -> None:
    """Make the recordings."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--speculative", type=Path, required=True, help="capture with speculation")
    parser.add_argument("--standard", type=Path, required=True, help="the same arrivals without")
    parser.add_argument("--poor", type=Path, nargs=2, required=True, metavar=("BEFORE", "AFTER"))
    parser.add_argument("--poor-seconds", type=float, required=True)
    parser.add_argument("--poor-requests", type=int, required=True)
    parser.add_argument("--engine-version", default="0.25.1")
    parser.add_argument("--hardware", default="one NVIDIA H200")
    parser.add_argument("--into", type=Path, default=DATA, help="where to write the recordings")
    arguments = parser.parse_args()
    arguments.into.mkdir(parents=True, exist_ok=True)
    sources = {
        RecordingName.SPECULATIVE: arguments.speculative,
        RecordingName.STANDARD: arguments.standard,
    }
    for name, path in sources.items():
        recording = make_recording(
            read_capture(path),
            engine_version=arguments.engine_version,
            hardware=arguments.hardware,
        )
        write_recording(name, recording, arguments.into)
    poor = make_pair(
        *arguments.poor,
        seconds=arguments.poor_seconds,
        requests=arguments.poor_requests,
        engine_version=arguments.engine_version,
        hardware=arguments.hardware,
    )
    write_recording(RecordingName.POOR, poor, arguments.into)


if __name__ == "__main__":
    main()
