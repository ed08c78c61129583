"""Read a model's folder: configuration, tokenizer, chat template and the heads of its weights.

Weights themselves are never read, and nothing here compares two models.
"""

import json
import stat
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specgauge.preflight.draft.config import Config, ids_of, read_config
from specgauge.preflight.draft.fault import ModelError
from specgauge.preflight.draft.vocabulary import Files, Vocabulary, build
from specgauge.preflight.draft.weights import MOST_HEADER, Tensor, Weights, gather, parse_header

_MOST = 256 << 20
_FIX = "give a folder that holds a model's config.json"
_SINGLE = "model.safetensors"
_ROLES = ("bos", "eos", "pad")
_OTHER_KINDS = ("tokenizer.model", "tekken.json", "spiece.model", "vocab.txt")


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """What a model's folder tells; a part that is None has its reason beside it."""

    source: str
    folder: Path
    config: Config
    vocabulary: Vocabulary | None = None
    vocabulary_reason: str = ""
    weights: Weights | None = None
    weights_reason: str = ""
    weights_broken: bool = False
    template: str | None = None
    tokenizer_file: Path | None = None


def read_model(folder: Path, source: str) -> Model:
    """Read a folder; raises ModelError where it is no model's."""
    document = _document(folder / "config.json")
    if document is None:
        raise ModelError(f"{folder}: no config.json; {_FIX}")
    config = read_config(document)
    vocabulary, why = _vocabulary(folder, config)
    weights, because, broken = _weights(folder)
    tokenizer = folder / "tokenizer.json"
    return Model(
        source=source,
        folder=folder,
        config=config,
        vocabulary=vocabulary,
        vocabulary_reason=why,
        weights=weights,
        weights_reason=because,
        weights_broken=broken,
        template=_template(folder),
        tokenizer_file=tokenizer if tokenizer.is_file() else None,
    )


def require_folder(path: Path) -> Path:
    """Refuse what is there and is no folder."""
    try:
        kind = path.stat().st_mode
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ModelError(f"{path}: {reason}; {_FIX}") from error
    if not stat.S_ISDIR(kind):
        raise ModelError(f"{path}: not a folder; {_FIX}")
    return path


def _read(path: Path) -> bytes | None:
    """Read a small file whole; None where there is none."""
    try:
        if not path.is_file():
            return None
        if path.stat().st_size > _MOST:
            raise ModelError(f"{path}: larger than {_MOST >> 20} MiB; is it a model's?")
        with path.open("rb") as file:
            return file.read(_MOST)
    except OSError as error:
        raise ModelError(f"{path}: {error.strerror}; {_FIX}") from error


def _document(path: Path) -> Mapping[str, Any] | None:
    """Read a JSON object; None where there is no such file."""
    data = _read(path)
    if data is None:
        return None
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path}: not JSON, or cut off; fetch it again") from error
    if not isinstance(found, dict):
        raise ModelError(f"{path}: not a JSON object; fetch it again")
    return found


def _maybe(path: Path) -> Mapping[str, Any] | None:
    """Read a document that the check can do without."""
    try:
        return _document(path)
    except ModelError:
        return None


def _vocabulary(folder: Path, config: Config) -> tuple[Vocabulary | None, str]:
    """Read the tokenizer, or say why not."""
    generation = _maybe(folder / "generation_config.json") or {}
    special = {
        role: ids_of(generation.get(f"{role}_token_id")) or config.special_ids[role]
        for role in _ROLES
    }
    try:
        merges = _read(folder / "merges.txt")
        files = Files(
            tokenizer=_document(folder / "tokenizer.json"),
            config=_maybe(folder / "tokenizer_config.json"),
            specials=_maybe(folder / "special_tokens_map.json"),
            vocab=_document(folder / "vocab.json"),
            merges=None if merges is None else merges.decode("utf-8", "replace"),
            added=_document(folder / "added_tokens.json"),
        )
        return build(files, special), ""
    except ModelError as error:
        return None, str(error)
    except (ValueError, RecursionError) as error:
        others = [name for name in _OTHER_KINDS if (folder / name).is_file()]
        kinds = f"; {', '.join(others)} is of a kind that is not read here" if others else ""
        return None, f"{folder}: {error}{kinds}"


def _template(folder: Path) -> str | None:
    """Find the chat template: a file of its own before one in a configuration."""
    try:
        own = _read(folder / "chat_template.jinja")
    except ModelError:
        own = None
    if own is not None:
        return own.decode("utf-8", "replace")
    for name in ("chat_template.json", "tokenizer_config.json"):
        value = (_maybe(folder / name) or {}).get("chat_template")
        for one in value if isinstance(value, list) else []:
            if isinstance(one, dict) and one.get("name") == "default":
                value = one.get("template")
        if isinstance(value, str):
            return value
    return None


def _weights(folder: Path) -> tuple[Weights | None, str, bool]:
    """Read the heads of all safetensors files; or say why not, and whether they are broken."""
    try:
        files = sorted(one for one in folder.iterdir() if one.suffix == ".safetensors")
        promised = _promised(folder)
        if not promised and any(one.name == _SINGLE for one in files):
            promised = {_SINGLE}  # others are copies in another form
        missing = sorted(promised - {one.name for one in files if one.is_file()})
        there = [one for one in files if one.is_file() and (not promised or one.name in promised)]
        if not there:
            told = f", though its index names {len(promised)}" if promised else ""
            return None, f"no safetensors files{told}", False
        tensors = [tensor for one in there for tensor in _tensors(one)]
    except ModelError as error:
        return None, str(error), True
    except OSError as error:
        return None, f"{folder}: {error.strerror}", False
    return gather(tensors, missing), "", bool(missing)


def _promised(folder: Path) -> set[str]:
    """Name the files that the index says the weights are in."""
    index = _document(folder / "model.safetensors.index.json") or {}
    by_tensor = index.get("weight_map")
    files = by_tensor.values() if isinstance(by_tensor, dict) else ()
    return {one for one in files if isinstance(one, str)}


def _tensors(path: Path) -> list[Tensor]:
    """Read the head of one file: eight bytes of length, then JSON."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            start = file.read(8)
            length = struct.unpack("<Q", start)[0] if len(start) == 8 else MOST_HEADER + 1  # noqa: PLR2004 - as written
            if length > min(MOST_HEADER, size - 8):
                raise ModelError(f"{path}: not a safetensors file, or cut off; fetch it again")
            header = file.read(length)
        return parse_header(header, size - 8 - length)
    except OSError as error:
        raise ModelError(f"{path}: {error.strerror}; make it readable") from error
    except ValueError as error:
        raise ModelError(f"{path}: {error}; fetch it again") from error
