"""What is tried: candidates from a grid, from URLs and from a file's text; opens nothing."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from specgauge.errors import UsageError
from specgauge.preflight.sweep.methods import NEEDS_DRAFT, is_chain
from specgauge.units import quote

NONE = "none"
"""Name of the candidate without speculation that a grid has."""

MOST_K = 64
MOST_CANDIDATES = 64
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One server to try; `k` is None where only its page will tell, 0 without speculation.

    `config` is vLLM's speculative configuration; `server` a command template of its own.
    """

    name: str
    k: int | None = 0
    method: str = ""
    draft: str = ""
    config: Mapping[str, Any] | None = None
    url: str | None = None
    server: str | None = None

    @property
    def family(self) -> tuple[str, str]:
        """What candidates share that differ in k alone."""
        return self.method, self.draft

    @property
    def chain(self) -> bool:
        """Whether a shorter draft of it is the beginning of a longer one."""
        keys = frozenset(name for name, value in (self.config or {}).items() if value)
        return is_chain(self.method, keys)


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    name: str
    speculative_config: dict[str, Any] | None = None
    url: str | None = None
    server: str | None = None


class _Listed(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    candidates: list[_Entry] = Field(min_length=1)


def grid(
    methods: Sequence[str],
    ks: Sequence[int],
    drafts: Sequence[str],
    more: Mapping[str, Any],
) -> tuple[Candidate, ...]:
    """Combine methods, drafts and k; the largest k of each comes first, as most follows from it."""
    found = []
    for method in methods:
        if method in NEEDS_DRAFT and not drafts:
            raise UsageError(f"--method {method}: give --draft FOLDER, which drafts for it")
        for draft in drafts if method in NEEDS_DRAFT else ("",):
            label = f"{method}-{_UNFIT.sub('-', PurePath(draft).name)}" if draft else method
            for k in sorted(ks, reverse=True):
                config = {"method": method, **({"model": draft} if draft else {}), **more}
                config["num_speculative_tokens"] = k
                name = f"{label if len(drafts) > 1 else method}-k{k}"
                found.append(Candidate(name=name, k=k, method=method, draft=draft, config=config))
    return tuple(found)


def parse_ks(texts: Sequence[str]) -> tuple[int, ...]:
    """Read "1,2,4" or one by one; UsageError says what is wrong."""
    found = set()
    for part in (part.strip() for text in texts for part in text.split(",") if part.strip()):
        if not (part.isascii() and part.isdigit() and 0 < int(part) <= MOST_K):
            told = f"--k {quote(part)}: whole numbers from 1 to {MOST_K}"
            raise UsageError(f"{told}, as in --k 1,2,4")
        found.add(int(part))
    return tuple(sorted(found))


def parse_url(text: str) -> Candidate:
    """Read NAME=URL of a server that runs; its page will tell its k."""
    name, separator, url = text.partition("=")
    if not separator or not url:
        raise UsageError(f"--candidate {quote(text)}: write NAME=URL, as in none=http://HOST:8000")
    return Candidate(name=name, k=None, url=url)


def parse_candidates(text: str, *, source: str) -> tuple[Candidate, ...]:
    """Read a YAML file of candidates; UsageError names every fault by its place."""
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text)):
            raise UsageError(f"{source}: aliases (*name) are not taken; write it out")
        document = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as problem:
        reason = " ".join(str(problem).split())
        raise UsageError(f"{source}: not YAML: {reason}") from None
    try:
        listed = _Listed.model_validate(document)
    except ValidationError as error:
        lines = []
        for one in error.errors(include_url=False):
            place = ".".join(str(part) for part in one["loc"]) or "the file"
            lines.append(f"{source}: {place}: {one['msg']}; see docs/sweep.md")
        raise UsageError("\n".join(lines)) from None
    return tuple(_entry(one, source) for one in listed.candidates)


def _entry(one: _Entry, source: str) -> Candidate:
    place = f"{source}: {quote(one.name)}"
    if one.url is not None and one.server is not None:
        raise UsageError(f"{place}: url and server: a server is given or started, not both")
    config = one.speculative_config
    if config is None:
        k = None if one.url is not None else 0
        return Candidate(name=one.name, k=k, url=one.url, server=one.server)
    k = config.get("num_speculative_tokens")
    method, draft = config.get("method", ""), config.get("model", "")
    try:
        json.dumps(config, allow_nan=False)
    except (TypeError, ValueError) as problem:
        raise UsageError(f"{place}: speculative_config is no JSON: {problem}") from None
    if k is not None and (type(k) is not int or not 0 < k <= MOST_K):
        told = "speculative_config.num_speculative_tokens"
        raise UsageError(f"{place}: {told}: a whole number from 1 to {MOST_K}")
    if not isinstance(method, str) or not isinstance(draft, str):
        raise UsageError(f"{place}: speculative_config: method and model are texts")
    return Candidate(
        name=one.name,
        k=k,
        method=method,
        draft=draft,
        config=config,
        url=one.url,
        server=one.server,
    )


def check(candidates: Sequence[Candidate]) -> None:
    """Refuse candidates that cannot be told apart, or whose name is unfit for a file."""
    names = [one.name for one in candidates]
    for name in names:
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"candidate {quote(name)}: a name has letters, digits, dots, dashes and "
                "underscores, at most 64"
            )
        if names.count(name) > 1:
            raise UsageError(f"candidate {quote(name)}: there are two of that name; rename one")
    if not candidates:
        raise UsageError(
            "nothing to try: give --server with --method and --k, --candidate NAME=URL, "
            "or --candidates FILE"
        )
    if len(candidates) > MOST_CANDIDATES:
        raise UsageError(f"{len(candidates)} candidates: at most {MOST_CANDIDATES}; give fewer --k")
    if len({one.url is None for one in candidates}) > 1:
        raise UsageError(
            "some candidates are URLs and some are to be started: a server that runs beside "
            "another one slows it; give all as URLs, or start all"
        )
