"""Reads a model's folder: its configuration, and the headers of its weights; never the weights.

Every refusal is one line that names the file. Nothing is fetched from anywhere.
"""

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from specgauge.preflight.memory.fault import FolderError
from specgauge.preflight.memory.model import Model
from specgauge.preflight.memory.shape import Shape, read_shape
from specgauge.preflight.memory.weights import Role, Tensor, count, estimate, read_header

_CONFIG = "config.json"
_INDEX = "model.safetensors.index.json"
_MOST_CONFIG = 16 << 20
_MOST_INDEX = 256 << 20
_MOST_HEADER = 100_000_000
_LENGTH = 8
_NOT_HERE = "no folder here; nothing is fetched, so download the model and give its folder"


def read_model(path: Path, role: Role = Role.TARGET) -> Model:
    """Read a folder; raises FolderError naming the file that is missing or amiss."""
    config = read_config(path)
    try:
        shape = read_shape(config)
    except ValueError as problem:
        told = f"{problem}; is it a language model's?"
        raise FolderError(f"{path / _CONFIG}: {told}") from None
    tensors = _tensors(path)
    weights = count(tensors, shape) if tensors else estimate(shape, role)
    return Model(path=str(path), shape=shape, weights=weights)


def read_heads(path: Path, target: Shape) -> Model:
    """Read a folder of heads on the target, of which only the weights count."""
    read_config(path)
    if not (tensors := _tensors(path)):
        raise FolderError(f"{path}: no safetensors files, and no shape to estimate heads from")
    return Model(path=str(path), shape=target, weights=count(tensors, target))


def read_config(path: Path) -> Mapping[str, Any]:
    """Read a folder's configuration; raises FolderError where there is none."""
    if not _is_folder(path):
        raise FolderError(f"{path}: {_NOT_HERE}")
    return _object(path / _CONFIG, _MOST_CONFIG)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError) as problem:
        raise FolderError(f"{path}: {_reason(problem)}") from None


def _tensors(path: Path) -> list[Tensor]:
    """Read the headers of all shards: those that an index names, or every file that there is."""
    index = path / _INDEX
    if index.exists():
        listed = _object(index, _MOST_INDEX).get("weight_map")
        if not isinstance(listed, Mapping):
            raise FolderError(f'{index}: no "weight_map" in it; download it again')
        names = sorted({name for name in listed.values() if isinstance(name, str)})
        if any(Path(name).name != name for name in names):
            raise FolderError(f"{index}: it names files outside of its folder")
        wanted: frozenset[str] | None = frozenset(listed)
        if not any((path / name).exists() for name in names):
            return []
    else:
        names = sorted(one.name for one in path.glob("*.safetensors"))
        wanted = None
    found = [tensor for name in names for tensor in _shard(path / name)]
    return [one for one in found if wanted is None or one.name in wanted]


def _shard(path: Path) -> list[Tensor]:
    with _opened(path) as file:
        try:
            size = os.fstat(file.fileno()).st_size
            length = int.from_bytes(file.read(_LENGTH), "little")
            if length > min(size - _LENGTH, _MOST_HEADER):
                raise FolderError(f"{path}: cut short or no safetensors file; download it again")
            header = _parsed(file.read(length), path)
        except OSError as problem:
            raise FolderError(f"{path}: {_reason(problem)}") from None
    try:
        return read_header(header)
    except ValueError as problem:
        raise FolderError(f"{path}: {problem}; download it again") from None


def _object(path: Path, most: int) -> Mapping[str, Any]:
    with _opened(path) as file:
        try:
            data = file.read(most + 1)
        except OSError as problem:
            raise FolderError(f"{path}: {_reason(problem)}") from None
    if len(data) > most:
        raise FolderError(f"{path}: larger than {most >> 20} MiB; is it the right file?")
    return _parsed(data, path)


def _parsed(data: bytes, path: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise FolderError(f"{path}: no JSON in it; download it again") from None
    if not isinstance(found, dict):
        raise FolderError(f"{path}: no JSON object in it; download it again")
    return found


def _opened(path: Path) -> BinaryIO:
    """Open a regular file: a pipe would wait for ever."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise FolderError(f"{path}: not a regular file")
        return path.open("rb")
    except (OSError, ValueError) as problem:
        raise FolderError(f"{path}: {_reason(problem)}") from None


def _reason(problem: OSError | ValueError) -> str:
    return problem.strerror or str(problem) if isinstance(problem, OSError) else str(problem)
