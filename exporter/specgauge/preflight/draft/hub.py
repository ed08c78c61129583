"""Find a model by its name in the local hub cache; asks the hub only where that is wanted.

Weights are never fetched.
"""

import contextlib
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from specgauge.errors import UsageError
from specgauge.preflight.draft.fault import ModelError
from specgauge.preflight.draft.folder import require_folder

FETCHED = (
    "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
    "special_tokens_map.json", "added_tokens.json", "vocab.json", "merges.txt",
    "chat_template.jinja", "chat_template.json",
)  # fmt: skip
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(?:/[A-Za-z0-9][\w.-]{0,95})?")
_MISSING = "specgauge: huggingface-hub is not installed; pip install 'specgauge[preflight]'"


def locate(source: str, *, online: bool = False) -> Path:
    """Give the folder of a model: the one that is named, or the cached one of a hub name."""
    path = Path(source)
    if _NAME.fullmatch(source) is None or _is_there(path):
        return require_folder(path)
    if find_spec("huggingface_hub") is None:
        raise UsageError(_MISSING.removeprefix("specgauge: "))
    if online:
        return _fetch(source)
    found = _cached(source)
    if found is None:
        raise ModelError(
            f"{source}: no such folder, and not in the local hub cache; give the model's folder, "
            "or --online to fetch its configuration and tokenizer"
        )
    return found


def cached_models() -> Iterator[tuple[str, Path]]:
    """Name the models of the local hub cache that have a configuration, with their folders."""
    if find_spec("huggingface_hub") is None:
        return
    from huggingface_hub.constants import HF_HUB_CACHE  # noqa: PLC0415 - an extra

    names: list[str] = []
    with contextlib.suppress(OSError):
        names = sorted(one.name for one in Path(HF_HUB_CACHE).iterdir())
    for name in names:
        kind, *parts = name.split("--")
        if kind == "models" and parts and (found := _cached("/".join(parts))) is not None:
            yield "/".join(parts), found


def _is_there(path: Path) -> bool:
    try:
        path.lstat()
    except (OSError, ValueError):
        return False
    return True


def _cached(name: str) -> Path | None:
    """Ask the cache, and nobody else, for a model's newest configuration."""
    from huggingface_hub import try_to_load_from_cache  # noqa: PLC0415 - an extra

    try:
        found = try_to_load_from_cache(name, "config.json")
    except (OSError, ValueError):
        return None
    return Path(found).parent if isinstance(found, str) else None


def _fetch(name: str) -> Path:
    """Fetch a model's small files, never its weights."""
    from huggingface_hub import snapshot_download  # noqa: PLC0415 - an extra
    from huggingface_hub.errors import LocalEntryNotFoundError  # noqa: PLC0415 - an extra

    try:
        return Path(snapshot_download(name, allow_patterns=list(FETCHED)))
    except LocalEntryNotFoundError as error:
        raise ModelError(
            f"{name}: the hub cannot be reached, and it is not in the local hub cache; give the "
            "model's folder instead"
        ) from error
    except (OSError, ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0][:160] if str(error) else type(error).__name__
        raise ModelError(
            f"{name}: could not be fetched ({reason}); give the model's folder instead"
        ) from error
