"""The memory of this machine's GPUs, by NVIDIA's own library where it is installed."""

from typing import Any

from specgauge.preflight.doctor.case import Gpu


def read_gpus() -> tuple[tuple[Gpu, ...] | None, str]:
    """Give every GPU's memory, or None and why there is no answer."""
    try:
        import pynvml  # type: ignore[import-untyped]  # noqa: PLC0415 - of an extra
    except ImportError:
        return None, "nvidia-ml-py is not installed; pip install 'specgauge[gpu]'"
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as problem:
        return None, f"no NVIDIA driver answers: {problem}"
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        return tuple(_gpu(pynvml, handle) for handle in handles), ""
    except pynvml.NVMLError as problem:
        return None, f"the NVIDIA driver does not tell: {problem}"
    finally:
        pynvml.nvmlShutdown()


def _gpu(pynvml: Any, handle: Any) -> Gpu:
    name = pynvml.nvmlDeviceGetName(handle)
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
    text = name.decode(errors="replace") if isinstance(name, bytes) else str(name)
    return Gpu(name=text, used=int(memory.used), total=int(memory.total))
