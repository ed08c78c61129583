"""Rewrites recorded pages into what other frontends and exporters make of the same metrics."""

import re
from collections import defaultdict
from collections.abc import Iterable

from tests.written import Labels, sample

from specgauge.engines.parse import parse_line

TYPE = re.compile(r"# TYPE (\S+) (\S+)")


def read_lines(page: bytes) -> list[tuple[str, dict[str, str], float]]:
    """Take every sample of a page apart."""
    lines = [line for line in page.decode().splitlines() if line and line[0] != "#"]
    return [(read.name, read.labels, read.value) for read in map(parse_line, lines)]


def rename(page: bytes, old: str, new: str, *, types: bool = True) -> bytes:
    """Put another prefix before every sample, and unless told otherwise before its TYPE too."""
    lines = page.decode().splitlines()
    return "".join(
        (
            re.sub(rf"(^|(?<=# TYPE )|(?<=# HELP )){old}", new, line)
            if types or line[0] != "#"
            else line
        )
        + "\n"
        for line in lines
    ).encode()


def relabel(page: bytes, extra: Labels, drop: Iterable[str] = ()) -> bytes:
    """Add labels to every sample and drop others."""
    gone = set(drop)
    return "".join(
        sample(name, {k: v for k, v in {**labels, **extra}.items() if k not in gone}, value) + "\n"
        for name, labels, value in read_lines(page)
    ).encode()


def keep_types(page: bytes) -> bytes:
    """Give only the TYPE lines of a page."""
    return b"".join(line for line in page.splitlines(keepends=True) if line.startswith(b"# TYPE"))


def without(page: bytes, pattern: str) -> bytes:
    """Leave out the lines that match."""
    found = re.compile(pattern.encode())
    return b"".join(line for line in page.splitlines(keepends=True) if not found.search(line))


def as_rust_frontend(page: bytes) -> bytes:
    """Write what the Rust frontend would: OpenMetrics, bare integers, no creation times."""
    types = dict(TYPE.findall(page.decode()))
    families: dict[str, list[str]] = defaultdict(list)
    drafted = any(
        n == "vllm:spec_decode_num_drafts_total" and v > 0 for n, _, v in read_lines(page)
    )
    for name, labels, value in read_lines(page):
        positions = "accepted_tokens_per_pos" in name and not drafted
        if not name.startswith("vllm:") or name.endswith("_created") or positions:
            continue
        if "cache_config" in name:
            continue
        family = re.sub(r"_(total|bucket|count|sum)$", "", name)
        family = "vllm:iteration_tokens_total" if "iteration_tokens" in name else family
        first = {key: labels[key] for key in ("model_name", "engine") if key in labels}
        families[family].append(sample(name, first | labels, value).removesuffix(".0"))
    for name in ("drafts", "draft_tokens", "accepted_tokens"):
        label = {"model_name": "tiny", "engine": "0"}
        families.setdefault(
            f"vllm:spec_decode_num_{name}", [sample(f"vllm:spec_decode_num_{name}_total", label, 0)]
        )
    lines = []
    for family, samples in families.items():
        kind = types.get(family) or types.get(f"{family}_total") or "counter"
        lines += [f"# TYPE {family} {kind}", *samples]
    return "".join(f"{line}\n" for line in [*lines, "# EOF"]).encode()


def as_openmetrics(page: bytes) -> bytes:
    """Write classic text as OpenMetrics: counter families without `_total`, and an end."""
    text = re.sub(r"(# TYPE \S+?)_total counter", r"\1 counter", page.decode())
    return f"{text}# EOF\n".encode()


def as_ray(page: bytes, replica: str, prefix: str = "ray_vllm_") -> bytes:
    """Write what Ray's exporter makes of an engine's page: its prefix, its labels, no creation."""
    page = without(page, r"_created|^(process|python|http)_")
    types = rename(keep_types(page), "vllm:", prefix)
    labels = {"ReplicaId": replica, "WorkerId": f"w-{replica}", "Component": "core_worker"}
    return types + relabel(rename(page, "vllm:", prefix), labels)
