"""Whether speculative decoding pays on a vLLM server, right now."""

from importlib.metadata import version

__version__ = version("specgauge")
__all__ = ["__version__"]
