"""The tokens of a tokenizer with their ids, from its files' documents; opens no file."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_ROLES = ("bos", "eos", "pad", "unk")
_ENDS = (
    "<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<|end_of_text|>", "<|endoftext|>",
    "<end_of_turn>", "</s>", "<|END_OF_TURN_TOKEN|>", "<\uff5cend\u2581of\u2581sentence\uff5c>",
    "[/INST]", "<|return|>",
)  # fmt: skip
_DECIDING = ("normalizer", "pre_tokenizer", "model", "added_tokens")
_SPACES = ("\u0120", "\u2581")
_MOST = 1 << 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """Every token by id, which of them were added, and the ids with a role.

    `base` is what a tokenizer calls its `vocab_size`: it leaves the added tokens out.
    `encoder` is all that decides how a text is cut up; equal ones cut alike.
    """

    texts: Mapping[int, str]
    base: int
    added: Mapping[int, str]
    roles: Mapping[str, tuple[int, ...]]
    encoder: object
    source: str

    @property
    def size(self) -> int:
        """Count the tokens, added ones too."""
        return len(self.texts)

    @property
    def highest(self) -> int:
        """Give the highest id."""
        return max(self.texts)

    def ends(self) -> dict[str, int]:
        """Give the ids of the tokens that end a turn in well-known chat formats."""
        return {text: number for number, text in self.texts.items() if text in _ENDS}

    def normalised(self) -> dict[str, int]:
        """Give ids by text with the mark of a leading space written as a space.

        This is how the engine looks for tokens that two vocabularies share.
        """
        known = set(self.texts.values())
        marks = tuple(mark for mark in _SPACES if f"{mark}a" in known)[:1] or _SPACES
        found: dict[str, int] = {}
        for number, text in self.texts.items():
            mark = next((one for one in marks if text.startswith(one)), "")
            found.setdefault(f" {text[len(mark) :]}" if mark else text, number)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """The documents of a tokenizer's files, as far as they are there."""

    tokenizer: Mapping[str, Any] | None = None
    config: Mapping[str, Any] | None = None
    specials: Mapping[str, Any] | None = None
    vocab: Mapping[str, Any] | None = None
    merges: str | None = None
    added: Mapping[str, Any] | None = None


def build(files: Files, special_ids: Mapping[str, tuple[int, ...]]) -> Vocabulary:
    """Put a vocabulary together; raises ValueError saying what is wrong with the files.

    `special_ids` are those of config.json and generation_config.json, which the engine obeys.
    """
    if files.tokenizer is not None:
        base, source = _of_tokenizer(files.tokenizer), "tokenizer.json"
        added = dict(_added_list(files.tokenizer.get("added_tokens")))
    elif files.vocab is not None:
        base, source = _by_id(files.vocab, "vocab.json"), "vocab.json"
        added = _by_id(files.added or {}, "added_tokens.json")
        added.update(_decoder(files.config or {}))
    else:
        raise ValueError("no tokenizer.json and no vocab.json")
    texts = {**base, **added}
    if not texts:
        raise ValueError(f"{source} holds no token")
    return Vocabulary(
        texts=texts,
        base=len(base),
        added={number: text for number, text in added.items() if number not in base},
        roles=_roles(files, texts, special_ids),
        encoder=_encoder(files),
        source=source,
    )


def _of_tokenizer(document: Mapping[str, Any]) -> dict[int, str]:
    model = document.get("model")
    vocab = model.get("vocab") if isinstance(model, dict) else None
    if isinstance(vocab, dict):
        return _by_id(vocab, "tokenizer.json")
    if isinstance(vocab, list):
        pieces = [one[0] for one in vocab if isinstance(one, list) and one]
        if len(pieces) == len(vocab) and all(isinstance(one, str) for one in pieces):
            return dict(enumerate(pieces))
    raise ValueError("tokenizer.json has no vocabulary in model.vocab")


def _by_id(vocab: Mapping[str, Any], source: str) -> dict[int, str]:
    found: dict[int, str] = {}
    for text, number in vocab.items():
        if not _is_id(number):
            raise ValueError(f"{source} gives {json.dumps(text)[:40]} no id from 0 up")
        found[number] = text
    return found


def _is_id(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST


def _added_list(value: object) -> Iterator[tuple[int, str]]:
    for one in value if isinstance(value, list) else []:
        number, text = (one.get("id"), one.get("content")) if isinstance(one, dict) else (None, 0)
        if not _is_id(number) or not isinstance(text, str):
            raise ValueError("tokenizer.json has an added token without id and content")
        assert isinstance(number, int)
        yield number, text


def _decoder(config: Mapping[str, Any]) -> dict[int, str]:
    """Read the added tokens of tokenizer_config.json, whose keys are ids written as text."""
    part = config.get("added_tokens_decoder")
    return {
        int(number): one["content"]
        for number, one in (part.items() if isinstance(part, dict) else ())
        if number.isdecimal() and isinstance(one, dict) and isinstance(one.get("content"), str)
    }


def _roles(
    files: Files, texts: Mapping[int, str], special_ids: Mapping[str, tuple[int, ...]]
) -> dict[str, tuple[int, ...]]:
    """Give the ids of the tokens that begin, end, pad and stand for the unknown."""
    by_text = {text: number for number, text in texts.items()}
    roles: dict[str, tuple[int, ...]] = {}
    for role in _ROLES:
        named = (_content(part, f"{role}_token") for part in (files.config, files.specials))
        ids = [by_text[text] for text in named if text is not None and text in by_text]
        found = ids[:1] or list(special_ids.get(role, ()))
        if found:
            roles[role] = tuple(sorted(set(found)))
    return roles


def _content(document: Mapping[str, Any] | None, name: str) -> str | None:
    value = (document or {}).get(name)
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else None


def _encoder(files: Files) -> object:
    """Gather what decides how texts are cut up, so that it can be compared."""
    if files.tokenizer is not None:
        return {name: files.tokenizer.get(name) for name in _DECIDING}
    return [files.vocab, files.merges, files.added, _decoder(files.config or {})]
