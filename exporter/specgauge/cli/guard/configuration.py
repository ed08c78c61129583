"""The configuration for commands that scrape no target; starts nothing and writes nothing."""

import os
from pathlib import Path

from specgauge.config import Config, load
from specgauge.errors import ConfigError

_NOWHERE = "http://127.0.0.1:8000"


def read_config(file: Path | None) -> Config:
    """Read FILE and the environment; targets may be absent, or wrong on this machine.

    Raises ConfigError with the faults of everything else.
    """
    try:
        return load(file, env=os.environ, overrides={})
    except ConfigError as whole:
        try:
            return load(file, env=os.environ, overrides={"targets": (_NOWHERE,)})
        except ConfigError as rest:
            raise min(rest, whole, key=lambda one: len(one.problems)) from None
