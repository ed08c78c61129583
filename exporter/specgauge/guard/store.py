"""Reads the file that lets the guard outlive its process; it does not know what the text says."""

from pathlib import Path

_MOST = 1 << 20


def load_text(file: Path) -> str | None:
    """Read the file, None where there is none yet; raises OSError, ValueError if not text."""
    try:
        if file.exists() and not file.is_file():
            raise ValueError("no file")  # a pipe would be waited for without end
        with file.open("rb") as opened:
            data = opened.read(_MOST + 1)
    except FileNotFoundError:
        return None
    if len(data) > _MOST:
        raise ValueError(f"larger than {_MOST} bytes")
    return data.decode("utf-8")
