"""One streamed answer: server-sent events with their arrival times in, one request's record out.

Opens no socket and looks at no clock. A chunk is not a token: tokens come from `usage` alone.
"""

import json
import re
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

_ORDINARY = b'"finish_reason":null'
_USAGE = b'"usage":{'
_GENERATED = re.compile(rb'"(?:text|content|reasoning|reasoning_content|arguments)":"[^"]')
_DELTAS = ("content", "reasoning", "reasoning_content", "tool_calls", "function_call", "refusal")
_OTHER_FIELDS = (b":", b"event:", b"id:", b"retry:")
_MAX_LINE = 4 << 20
_SHOWN = 80
_SHOWN_MESSAGE = 300
_MOST_TOKENS = 10**9
"""More than any context holds: such a count is none."""


class Outcome(StrEnum):
    """How a request ended; only a complete one has a time per token."""

    COMPLETE = "complete"
    NO_USAGE = "no_usage"
    EMPTY = "empty"
    TRUNCATED = "truncated"
    MORE_THAN_ASKED = "more_than_asked"
    """Its usage counts more tokens than were asked for, and so is not believed."""
    FAILED = "failed"
    CUT = "cut"
    """Ended by us, because the recording went on without it."""


BROKEN = frozenset({Outcome.FAILED, Outcome.TRUNCATED, Outcome.MORE_THAN_ASKED, Outcome.EMPTY})
"""Outcomes that count as failed requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What became of one request; times in seconds on the caller's clock.

    `first` is the first chunk with text, reasoning or a tool call; `last` the last one with one
    of these or a finish reason. `first_tokens` is how many tokens the first chunk held, where
    the stream said so. `asked` is the number of tokens that were asked for.
    """

    sent: float
    ended: float
    outcome: Outcome
    detail: str = ""
    asked: int = 0
    first: float | None = None
    last: float | None = None
    arrivals: Sequence[float] = ()
    tokens: int | None = None
    first_tokens: int | None = None
    prompt_tokens: int | None = None

    @property
    def ttft(self) -> float | None:
        """Seconds from sending to the first chunk that carries something generated."""
        return None if self.first is None else self.first - self.sent

    @property
    def e2e(self) -> float | None:
        """Seconds from sending to the last chunk."""
        return None if self.last is None else self.last - self.sent

    @property
    def decode_tokens(self) -> int | None:
        """Tokens that came after the first chunk; one is the first chunk's unless it said more."""
        if self.tokens is None:
            return None
        return max(0, self.tokens - (self.first_tokens or 1))

    @property
    def decode_seconds(self) -> float | None:
        """Seconds between the first chunk and the last."""
        return None if self.first is None or self.last is None else self.last - self.first

    @property
    def tpot(self) -> float | None:
        """Time per output token after the first chunk's; None where it cannot be known."""
        seconds, tokens = self.decode_seconds, self.decode_tokens
        if self.outcome is not Outcome.COMPLETE or not seconds or not tokens:
            return None
        return seconds / tokens

    @property
    def in_one_piece(self) -> bool:
        """Whether many tokens arrived at one moment: something on the way held them back."""
        return bool(self.decode_tokens) and self.decode_seconds == 0.0


class Take:
    """Takes the bytes of one answer as they arrive; lives as long as the request does.

    Ordinary chunks after the first are recognised by their bytes alone, which costs a tenth of
    taking their JSON apart; whatever looks different is parsed.
    """

    def __init__(self, sent: float, *, asked: int = 0) -> None:
        self.touched = sent
        self.sent = sent
        self._asked = asked
        self._rest = b""
        self._arrivals = array("d")
        self._last: float | None = None
        self._tail = b""
        self._usage: Mapping[str, Any] = {}
        self._first_tokens: int | None = None
        self._finished = False
        self._failure: str | None = None

    @property
    def chunks(self) -> int:
        """How many chunks with something generated have come."""
        return len(self._arrivals)

    @property
    def failed(self) -> bool:
        """Whether the answer is beyond repair."""
        return self._failure is not None

    def feed(self, data: bytes, at: float) -> None:
        """Take bytes of the body that arrived at this moment."""
        self.touched = at
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            if self._arrivals and _ORDINARY in line and _GENERATED.search(line):
                self._arrivals.append(at)
                self._last = at
                self._tail = line
            elif line and line != b"\r":
                self._line(line, at)
        if len(self._rest) > _MAX_LINE:
            self.fail("the stream sends a line without end")
            self._rest = b""

    def fail(self, detail: str) -> None:
        """Note why the answer is none; the first reason stays."""
        if self._failure is None:
            self._failure = detail

    def close(self, at: float, *, cut: bool = False) -> Request:
        """End the record; `cut` says that it was us who ended the stream."""
        if self._rest.rstrip().endswith((b"}", b"[DONE]")):
            self.feed(b"\n", at)
        if _USAGE in self._tail:
            self._note_usage(self._parse(self._tail))
        outcome, detail = self._outcome(cut=cut)
        usage = {} if outcome is Outcome.MORE_THAN_ASKED else self._usage
        first = self._arrivals[0] if self._arrivals else None
        return Request(
            sent=self.sent,
            ended=at,
            outcome=outcome,
            detail=detail,
            asked=self._asked,
            first=first,
            last=None if first is None else self._last,
            arrivals=self._arrivals,
            tokens=_count(usage, "completion_tokens"),
            first_tokens=None if outcome is Outcome.MORE_THAN_ASKED else self._first_tokens,
            prompt_tokens=_count(usage, "prompt_tokens"),
        )

    def _outcome(self, *, cut: bool) -> tuple[Outcome, str]:
        if self._failure is not None:
            return Outcome.FAILED, self._failure
        if not self._finished:
            ended = "ended without a finish_reason and without [DONE]"
            return (Outcome.CUT, "") if cut else (Outcome.TRUNCATED, ended)
        if not self._arrivals:
            return Outcome.EMPTY, "nothing was generated"
        told = self._usage.get("completion_tokens")
        if self._asked and type(told) is int and told > self._asked:
            return Outcome.MORE_THAN_ASKED, "usage counts more tokens than were asked for"
        if _count(self._usage, "completion_tokens") is None:
            return Outcome.NO_USAGE, "no usage.completion_tokens in the stream"
        return Outcome.COMPLETE, ""

    def _line(self, line: bytes, at: float) -> None:
        """Take one line that is not plainly another token."""
        if not line.startswith(b"data:"):
            if not line.startswith(_OTHER_FIELDS):
                self.fail(f"no event stream: {_shown(line)}")
            return
        if line[5:].strip() == b"[DONE]":
            self._finished = True
            return
        chunk = self._parse(line)
        if chunk.get("error"):
            self.fail(f"error in the stream: {_message(chunk['error'])}")
        choices: object = chunk.get("choices")
        listed = choices if isinstance(choices, list) else []
        kept = [choice for choice in listed if isinstance(choice, dict)]
        generated = any(_generates(choice) for choice in kept)
        begins = generated and not self._arrivals
        self._note_usage(chunk, first=begins)
        if generated:
            self._arrivals.append(at)
        ends = any(choice.get("finish_reason") for choice in kept)
        self._finished = self._finished or ends
        if generated or ends:
            self._last = at

    def _parse(self, line: bytes) -> Mapping[str, Any]:
        try:
            chunk = json.loads(line[5:])
        except (ValueError, RecursionError):
            chunk = None
        if isinstance(chunk, dict):
            return chunk
        self.fail(f"an event is no JSON object: {_shown(line)}")
        return {}

    def _note_usage(self, chunk: Mapping[str, Any], *, first: bool = False) -> None:
        usage = chunk.get("usage")
        if isinstance(usage, dict):
            self._usage, self._tail = usage, b""
            if first:
                self._first_tokens = _count(usage, "completion_tokens")


def _generates(choice: Mapping[str, Any]) -> bool:
    delta = choice.get("delta")
    if isinstance(delta, dict):
        return any(delta.get(name) for name in _DELTAS)
    return bool(choice.get("text"))


def _count(usage: Mapping[str, Any], name: str) -> int | None:
    value = usage.get(name)
    return value if type(value) is int and 0 <= value <= _MOST_TOKENS else None


def _message(error: object) -> str:
    told = str(error.get("message") or error) if isinstance(error, dict) else str(error)
    shown = told[:_SHOWN_MESSAGE]
    return shown if shown.isprintable() else ascii(shown)[1:-1]


def _shown(line: bytes) -> str:
    return ascii(line[:_SHOWN].decode(errors="replace"))
