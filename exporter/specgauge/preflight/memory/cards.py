"""GPUs by the name people have for them; `MEMORY` is in MiB, as `nvidia-smi` shows it."""

from collections.abc import Mapping

from specgauge.errors import UsageError
from specgauge.preflight.memory.reserve import DRIVER_BYTES, MIB

MEMORY: Mapping[str, int] = {
    "A10": 23_028,
    "A100-40GB": 40_960,
    "A100-80GB": 81_920,
    "B200": 183_359,
    "GH200": 97_871,
    "H100": 81_559,
    "H100-NVL": 95_830,
    "H200": 143_771,
    "L4": 23_034,
    "L40S": 46_068,
    "RTX3090": 24_576,
    "RTX4090": 24_564,
    "RTX5090": 32_607,
    "RTXA6000": 49_140,
    "T4": 15_360,
    "V100-32GB": 32_768,
}

_LARGE = 70 << 30


def card_bytes(name: str) -> int:
    """Give a card's memory by name, of which case, spaces and a maker's name do not matter."""
    wanted = _plain(name.upper().removeprefix("NVIDIA").strip())
    for known, size in MEMORY.items():
        if _plain(known) == wanted:
            return size * MIB
    listed = ", ".join(MEMORY)
    raise UsageError(f"--gpu {name}: not among {listed}; give its memory with --gpu-memory")


def seen_bytes(size: int) -> int:
    """Give what programs see of a card's memory."""
    return max(size - DRIVER_BYTES, 0)


def usual_limits(size: int, name: str) -> tuple[int, int]:
    """Give the tokens and requests a batch that vLLM's server takes on such a card by default."""
    return (8192, 1024) if size >= _LARGE and "A100" not in name.upper() else (2048, 256)


def _plain(name: str) -> str:
    return name.replace(" ", "").replace("-", "")
