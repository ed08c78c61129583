"""The file by which anybody on the machine holds the guard still; reads it and nothing else."""

import os
from pathlib import Path

_SAYS_NO = frozenset({"0", "false", "no", "off"})
_MOST = 64


def is_frozen(file: Path | None) -> bool:
    """Tell whether the file is there, unless it says no; one that cannot be read is there."""
    if file is None:
        return False
    try:
        opened = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        text = os.read(opened, _MOST).decode("utf-8", errors="replace")
    except OSError:
        return True
    finally:
        os.close(opened)
    return text.strip().lower() not in _SAYS_NO
