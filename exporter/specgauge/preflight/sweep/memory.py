"""How much GPU memory a server holds, from NVIDIA's library where it is there."""

from collections.abc import Callable
from importlib import import_module
from typing import Any


def gpu_memory(
    pids: set[int], load: Callable[[], Any] = lambda: import_module("pynvml")
) -> int | str:
    """Give the bytes that these processes hold on all GPUs, or say why that is not known."""
    try:
        nvml = load()
    except ImportError:
        return "nvidia-ml-py is not installed; pip install 'specgauge[gpu]'"
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as problem:
        return f"no GPU is seen: {problem}"
    try:
        return _held(nvml, pids)
    except nvml.NVMLError as problem:
        return f"the driver does not tell: {problem}"
    finally:
        nvml.nvmlShutdown()


def _held(nvml: Any, pids: set[int]) -> int | str:
    """Add up what the driver says of these processes."""
    devices = [nvml.nvmlDeviceGetHandleByIndex(at) for at in range(nvml.nvmlDeviceGetCount())]
    found = [
        int(one.usedGpuMemory)
        for device in devices
        for one in nvml.nvmlDeviceGetComputeRunningProcesses(device)
        if one.pid in pids and one.usedGpuMemory is not None
    ]
    return sum(found) if found else "the driver names none of the server's processes"
