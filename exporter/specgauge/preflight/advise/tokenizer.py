"""Turns texts into tokens by a model folder's own tokenizer; reads `tokenizer.json` and no more."""

from collections.abc import Callable, Sequence
from pathlib import Path

from specgauge.errors import UsageError
from specgauge.preflight.memory.fault import FolderError

Cut = Callable[[str], Sequence[int]]

_FILE = "tokenizer.json"
_MOST = 512 << 20


def read_tokenizer(folder: Path) -> Cut:
    """Load a folder's tokenizer; raises FolderError where it cannot be, UsageError without one."""
    try:
        from tokenizers import Tokenizer  # noqa: PLC0415 - an extra that most commands need not
    except ImportError:
        raise UsageError(
            "tokenizers is not installed; pip install 'specgauge[preflight]'"
        ) from None
    place = folder / _FILE
    try:
        if not place.is_file() or place.stat().st_size > _MOST:
            raise FolderError(f"{place}: no such file; give a model's folder with {_FILE} in it")
        text = place.read_text(encoding="utf-8")
    except (OSError, ValueError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "not UTF-8"
        raise FolderError(f"{place}: {reason}") from None
    try:
        tokenizer = Tokenizer.from_str(text)
    except Exception as problem:  # noqa: BLE001 - tokenizers raises nothing narrower
        told = str(problem).partition("\n")[0][:80]
        raise FolderError(f"{place}: no tokenizer ({told}); download it again") from None
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def cut(text: str) -> Sequence[int]:
        return list(tokenizer.encode(text, add_special_tokens=False).ids)

    return cut
