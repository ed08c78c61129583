"""specgauge: does speculative decoding pay on this server, right now?"""

from importlib.metadata import version

__version__ = version("specgauge")
__all__ = ["__version__"]
