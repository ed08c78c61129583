"""Files of text that an option names: read whole up to a limit, or refused in one line."""

from pathlib import Path

from specgauge.errors import UsageError


def read_text(option: str, path: Path, *, most: int, too_large: str) -> str:
    """Read a file as UTF-8 of at most so many bytes; UsageError names option and path."""
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
        text = data.decode("utf-8-sig")
    except (OSError, ValueError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "not UTF-8 text"
        raise UsageError(f"{option} {path}: {reason}") from None
    if len(data) > most:
        raise UsageError(f"{option} {path}: {too_large}")
    return text
