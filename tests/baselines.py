"""Baselines and pages written by hand for tests: small, and right unless told otherwise."""

import json
import lzma
from pathlib import Path
from typing import Any

import click

from specgauge.baseline.from_pages import PagePair
from specgauge.baseline.schema import BaselineFile, parse
from specgauge.cli.baseline.check import check
from specgauge.cli.baseline.diff import diff
from specgauge.cli.baseline.from_pages import from_pages
from specgauge.cli.baseline.import_ import import_
from specgauge.cli.baseline.observe import observe
from specgauge.cli.baseline.show import show
from specgauge.engines.reader import Reader
from specgauge.errors import SpecgaugeError

H200 = Path(__file__).parent / "pages" / "h200-none-mixed.json.xz"
COMMANDS = {one.name or "": one for one in (from_pages, import_, show, check, diff, observe)}

Json = dict[str, Any]


def level(load: float = 8.0, tpot: float = 0.005, **more: Any) -> Json:
    """Write one level as it stands in a file."""
    server = {"tpot_seconds": tpot, "tpot_ci95": [0.99 * tpot, 1.01 * tpot]}
    return {
        "decode_concurrency": load,
        "window_seconds": 8.0,
        "server": {**server, **more.pop("server", {})},
        **more,
    }


def document(*levels: Json, **more: Any) -> Json:
    """Write a whole file as a JSON object."""
    return {
        "schema": "specgauge.baseline/v1",
        "created": "2026-11-29T16:04:00Z",
        "method": "closed_loop",
        "model": {"name": "target"},
        "levels": list(levels) or [level(1.0, 0.004), level(8.0, 0.005)],
        **more,
    }


def baseline(*levels: Json, **more: Any) -> BaselineFile:
    """Read a whole file as a value."""
    return parse(json.dumps(document(*levels, **more)), source="test")


def vllm_page(
    *,
    tokens: float = 0,
    firsts: float = 0,
    spent: float = 0.0,
    steps: float | None = None,
    iterations: float | None = None,
    drafts: float | None = None,
    accepted: float = 0,
    model: str = "target",
    blocks: str = "100",
    created: float = 1.0,
) -> bytes:
    """Write the page of a server that has generated so many tokens in so many decode seconds."""
    of = f'{{engine="0",model_name="{model}"}}'
    first = of.replace("}", ',position="0"}')
    done = tokens - firsts if steps is None else steps
    info = f'{{engine="0",enable_prefix_caching="False",num_gpu_blocks="{blocks}"}}'
    lines = [
        f"vllm:cache_config_info{info} 1",
        f"vllm:generation_tokens_total{of} {tokens}",
        f"vllm:generation_tokens_created{of} {created}",
        f"vllm:prompt_tokens_total{of} {100 * firsts}",
        f"vllm:time_to_first_token_seconds_count{of} {firsts}",
        f"vllm:time_to_first_token_seconds_sum{of} {0.02 * firsts}",
        f"vllm:inter_token_latency_seconds_count{of} {done}",
        f"vllm:inter_token_latency_seconds_sum{of} {spent}",
        f"vllm:kv_cache_usage_perc{of} 0.25",
    ]
    if iterations is not None:
        lines.append(f"vllm:iteration_tokens_total_count{of} {iterations}")
    if drafts is not None:
        lines += [
            f"vllm:spec_decode_num_drafts_total{of} {drafts}",
            f"vllm:spec_decode_num_draft_tokens_total{of} {3 * drafts}",
            f"vllm:spec_decode_num_accepted_tokens_total{of} {accepted}",
            f"vllm:spec_decode_num_accepted_tokens_per_pos_total{first} {accepted}",
        ]
    return ("\n".join(lines) + "\n").encode()


def h200_pairs() -> list[tuple[str, float, bytes, bytes]]:
    """Load pages of a real server without speculation: level, seconds, before, after."""
    found = json.loads(lzma.decompress(H200.read_bytes()))["levels"]
    return [
        (name, one["seconds"], one["before"].encode(), one["after"].encode())
        for name, one in found.items()
    ]


def pair(before: bytes, after: bytes, seconds: float = 1.0, place: str = "pair") -> PagePair:
    """Two pages read as one server's."""
    reader = Reader()
    return PagePair(
        before=reader.read(before), after=reader.read(after), seconds=seconds, place=place
    )


def run(*arguments: object) -> int:
    """Run a baseline command as the command line does, errors told on stderr."""
    group = click.Group("baseline", commands=COMMANDS)
    try:
        code = group.main([str(one) for one in arguments], standalone_mode=False)
    except SpecgaugeError as error:
        click.echo(str(error), err=True)
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return 2
    return code if isinstance(code, int) else 0
