"""Encode the sample texts with a model's own tokenizer; compares nothing."""

import json
from importlib.util import find_spec
from pathlib import Path

from specgauge.preflight.draft.fault import ModelError

LIBRARY_MISSING = "tokenizers is not installed; pip install 'specgauge[preflight]'"
Encoding = tuple[int, ...]


def samples() -> list[str]:
    """Give the sample texts: many languages, code, numbers and white space."""
    found: list[str] = json.loads(Path(__file__).with_name("samples.json").read_text("utf-8"))
    return found


def available() -> bool:
    """Say whether the library that encodes is there."""
    return find_spec("tokenizers") is not None


def encode(path: Path, texts: list[str]) -> list[Encoding]:
    """Encode texts by a tokenizer.json; raises ModelError where the library cannot read it."""
    from tokenizers import Tokenizer  # noqa: PLC0415 - an extra

    try:
        tokenizer = Tokenizer.from_file(str(path))
        return [tuple(tokenizer.encode(text, add_special_tokens=False).ids) for text in texts]
    except Exception as error:  # the library raises nothing narrower
        raise ModelError(f"{path}: {str(error).splitlines()[0][:120]}") from error
