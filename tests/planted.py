"""Plants known causes in recorded servers: pages altered in one thing, logs in the engine's form.

Each planting writes its files into a folder and gives the arguments of `specgauge doctor`.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tests.judged import series as read_series
from tests.recorded import load_page, load_series, load_truth
from tests.rewritten import read_lines
from tests.written import sample

from specgauge.baseline.from_pages import TimedPage, from_timeline
from specgauge.baseline.schema import BaselineFile, dump
from specgauge.serve.demo.recording import RecordingName, load, recorded_baseline

NGRAM = '{"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4}'
EAGLE = '{"method": "eagle", "model": "eagle", "num_speculative_tokens": 4}'

Arguments = list[str]


def edited(page: bytes, values: Mapping[str, float], positions: Sequence[float] = ()) -> bytes:
    """Give a page with other values for some metrics, named without prefix, in every series."""
    lines = []
    for name, labels, old in read_lines(page):
        bare = name.removeprefix("vllm:")
        value = values.get(bare, old)
        if positions and bare == "spec_decode_num_accepted_tokens_per_pos_total":
            value = positions[int(labels["position"])]
        lines.append(sample(name, labels, value))
    types = [line for line in page.decode().splitlines() if line.startswith("# TYPE")]
    return "".join(f"{line}\n" for line in [*types, *lines]).encode()


def value_of(page: bytes, name: str) -> float:
    """Add a metric's series up."""
    return sum(value for found, _, value in read_lines(page) if found == f"vllm:{name}")


def drafting(page: bytes, drafts: int, positions: Sequence[int]) -> bytes:
    """Give a page whose every draft is full and whose positions were kept so often."""
    k = len(positions)
    values = {
        "spec_decode_num_drafts_total": drafts,
        "spec_decode_num_draft_tokens_total": k * drafts,
        "spec_decode_num_accepted_tokens_total": sum(positions),
    }
    return edited(page, values, positions)


def cell(mode: str, load: int) -> tuple[bytes, bytes, float]:
    """Load the two pages of one load on the H200, and the seconds between them."""
    seconds = load_truth(f"h200/{mode}")["levels"][str(load)]["wall_s"]
    pages = (load_page(f"h200/{mode}/c{load}-{end}.prom") for end in ("before", "after"))
    before, after = pages
    return before, after, seconds


def window(folder: Path, before: bytes, after: bytes, seconds: float = 10.0) -> Arguments:
    """Write two pages."""
    paths = [folder / "before.prom", folder / "after.prom"]
    for path, page in zip(paths, (before, after), strict=True):
        path.write_bytes(page)
    return ["--window", str(seconds), *map(str, paths)]


def page(folder: Path, data: bytes) -> Arguments:
    """Write one page."""
    path = folder / "page.prom"
    path.write_bytes(data)
    return [str(path)]


def log(folder: Path, *lines: str) -> Arguments:
    """Write a log."""
    path = folder / "vllm.log"
    path.write_text("".join(f"{line}\n" for line in lines))
    return ["--log", str(path)]


def written(folder: Path, name: str, text: str) -> str:
    """Write any other file; gives its path."""
    (folder / name).write_text(text)
    return str(folder / name)


def timeline(folder: Path, pages: Sequence[tuple[float, str]]) -> Arguments:
    """Write pages with their times."""
    lines = []
    for place, (at, text) in enumerate(pages):
        (folder / f"{place:03}.prom").write_text(text)
        lines.append(json.dumps({"t": at, "page": f"{place:03}.prom"}))
    (folder / "timeline.jsonl").write_text("\n".join(lines))
    return ["--timeline", str(folder / "timeline.jsonl")]


def ramp(folder: Path, name: RecordingName) -> Arguments:
    """Write a packaged recording as a timeline."""
    return timeline(folder, [(one.at, one.text) for one in load(name).pages])


def busy(folder: Path, factor: float, above: float) -> Arguments:
    """Write the ramp with speculation, each step longer by a factor where it is that busy."""
    return timeline(folder, _busy(factor, above))


@cache
def _busy(factor: float, above: float) -> list[tuple[float, str]]:
    sums = re.compile(r"^(vllm:inter_token_latency_seconds_sum\{[^}]*\} )(\S+)", re.MULTILINE)
    pages: list[tuple[float, str]] = []
    shown = before = at = 0.0
    for one in load(RecordingName.SPECULATIVE).pages:
        spent = math.fsum(float(value) for _, value in sums.findall(one.text))
        grown, seconds = spent - before, max(one.at - at, 1e-9)
        shown += grown * (factor if pages and grown / seconds > above else 1.0)
        before, at = spent, one.at
        pages.append((one.at, sums.sub(rf"\g<1>{shown!r}", one.text)))
    return pages


def series(folder: Path, mode: str, start: float = 0.0, end: float = 1e9) -> Arguments:
    """Write a part of a CPU series as a timeline."""
    pages = [(one["at"], one["text"]) for one in load_series(mode)["pages"]]
    return timeline(folder, [one for one in pages if start <= one[0] <= end])


def phase(name: str) -> tuple[float, float]:
    """Give when a phase of the CPU series began and ended, without the change of load."""
    (found,) = (one for one in load_series("ngram")["phases"] if one["phase"] == name)
    return found["start"] + 2.0, found["end"]


def baseline(folder: Path) -> Arguments:
    """Write the packaged baseline of the H200."""
    return ["--baseline", written(folder, "baseline.json", _h200())]


def cpu_baseline(folder: Path) -> Arguments:
    """Write the baseline that the CPU series without speculation gives."""
    return ["--baseline", written(folder, "baseline.json", _cpu())]


@cache
def _h200() -> str:
    return dump(recorded_baseline())


@cache
def _cpu() -> str:
    pages = [TimedPage(time=one.time, page=one.page) for one in read_series("none")]
    learned = from_timeline(pages, place="recording")
    document = {
        "created": "2026-01-01T00:00:00Z",
        "method": "observed",
        "model": {"name": learned.model},
        "levels": [one.model_dump() for one in learned.levels],
    }
    return dump(BaselineFile.model_validate(document))


def api(text: str) -> str:
    """Write a line as the API server's process logs it."""
    return f"(APIServer pid=16938) INFO 11-29 16:20:45 [api_server.py:100] {text}"


def core(text: str, level: str = "ERROR") -> str:
    """Write a line as the engine's process logs it."""
    return f"(EngineCore_DP0 pid=17001) {level} 11-29 16:20:49 [core.py:718] {text}"


def started(release: str, **arguments: Any) -> list[str]:
    """Write what a server logs first."""
    return [
        api(f"vLLM API server version {release}"),
        api(f"non-default args: {arguments!r}"),
        core(f"Initializing a V1 LLM engine (v{release}) with config: model='target'", "INFO"),
    ]


def failed(kind: str, words: str) -> list[str]:
    """Write a traceback as the engine's process logs it."""
    return [
        core("EngineCore failed to start."),
        core("Traceback (most recent call last):"),
        core('  File "vllm/v1/engine/core.py", line 709, in run_engine_core'),
        core("    engine_core = EngineCoreProc(*args, **kwargs)"),
        core(f"{kind}: {words}"),
    ]


def v1_line(accepted: int, drafted: int, length: float, positions: Sequence[float]) -> str:
    """Write V1's line on speculation."""
    shares = ", ".join(f"{one:.3f}" for one in positions)
    return (
        "(APIServer pid=16938) INFO 11-29 16:20:45 [metrics.py:100] SpecDecoding metrics: Mean "
        f"acceptance length: {length:.2f}, Accepted throughput: 52.30 tokens/s, Drafted "
        f"throughput: 95.55 tokens/s, Accepted: {accepted} tokens, Drafted: {drafted} tokens, "
        f"Per-position acceptance rate: {shares}, Avg Draft acceptance rate: "
        f"{accepted / drafted:.1%}"
    )


def recorded_lines(capture: str) -> list[str]:
    """Give the lines on speculation that a recorded server logged, as its log had them."""
    head = "(APIServer pid=16938) INFO 11-29 16:20:45 [metrics.py:100] "
    text = load_page(f"vllm/{capture}/log.txt").decode()
    return [head + line for line in text.splitlines() if line]


def rules(folder: Path, *expressions: str) -> Arguments:
    """Write a rule file with an alert for each expression."""
    alerts = [{"alert": f"Alert{n}", "expr": text} for n, text in enumerate(expressions)]
    document = {"groups": [{"name": "speculation", "rules": alerts}]}
    return ["--rules", written(folder, "rules.yaml", json.dumps(document))]


def dashboard(folder: Path, *expressions: str) -> Arguments:
    """Write a Grafana dashboard with a panel for each expression."""
    panels = [
        {"title": f"Panel {n}", "targets": [{"expr": text, "refId": "A"}]}
        for n, text in enumerate(expressions)
    ]
    document = {"title": "vLLM", "panels": [{"type": "row", "panels": panels}]}
    return ["--dashboard", written(folder, "dashboard.json", json.dumps(document))]
