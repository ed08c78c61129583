"""Prompt lookup as vLLM's n-gram proposer does it, replayed over recorded answers.

The longest run of tokens that ends the text and stands earlier in it is sought, of at least
`shortest` and at most `longest` tokens; of several places the earliest counts, and what follows
there is the draft. A recorded answer says which draft tokens would have been accepted: those that
it goes on with. That holds at any temperature at which the answers were recorded, since a lookup
drafts one token for certain and the chance that it is kept is the model's own.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

Token = int | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """How to look up: tokens a draft, and the shortest and longest run that may match."""

    draft_tokens: int = 4
    shortest: int = 2
    longest: int = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What a replay counted: decode steps, drafts, and how far drafts were accepted.

    The first token of an answer comes from the prompt's own pass and is no decode step.
    `positions` counts the drafts that were accepted up to and with each position.
    """

    requests: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    steps: int = 0
    drafts: int = 0
    draft_tokens: int = 0
    positions: tuple[int, ...] = ()

    @property
    def accepted(self) -> int:
        """Count the draft tokens that were accepted."""
        return sum(self.positions)

    @property
    def acceptance_ratio(self) -> float | None:
        """Accepted over drafted tokens; None where nothing was drafted."""
        return self.accepted / self.draft_tokens if self.draft_tokens else None

    @property
    def acceptance_length(self) -> float | None:
        """Tokens of a step that carried a draft, with the one that the target adds."""
        return 1.0 + self.accepted / self.drafts if self.drafts else None

    @property
    def coverage(self) -> float | None:
        """Share of decode steps that carried a draft."""
        return self.drafts / self.steps if self.steps else None

    @property
    def tokens_per_step(self) -> float | None:
        """Tokens of a decode step, over all of them."""
        return 1.0 + self.accepted / self.steps if self.steps else None

    @property
    def positions_ratio(self) -> tuple[float, ...]:
        """Share of drafts accepted up to and with each position."""
        return tuple(number / self.drafts for number in self.positions) if self.drafts else ()


@dataclass(slots=True, kw_only=True)
class Text:
    """A text that grows, with the earliest end of every run of tokens in it."""

    lookup: Lookup
    tokens: list[Token] = field(default_factory=list)
    _ends: dict[tuple[Token, ...], int] = field(default_factory=dict)

    def extend(self, more: Iterable[Token]) -> None:
        """Add tokens at the end."""
        tokens, ends = self.tokens, self._ends
        for token in more:
            tokens.append(token)
            end = len(tokens)
            for length in range(self.lookup.shortest, min(self.lookup.longest, end) + 1):
                ends.setdefault(tuple(tokens[end - length :]), end)

    def draft(self) -> Sequence[Token]:
        """Propose what may follow; nothing where no run of the end stands earlier."""
        end = len(self.tokens)
        for length in range(min(self.lookup.longest, end), self.lookup.shortest - 1, -1):
            first = self._ends[tuple(self.tokens[end - length :])]
            if first < end:
                return self.tokens[first : first + self.lookup.draft_tokens]
        return ()


def replay(prompt: Sequence[Token], output: Sequence[Token], lookup: Lookup) -> Tally:
    """Decode a recorded answer again, with drafts.

    A draft that reaches beyond the answer's end is cut there, as nobody knows what came next.
    """
    text = Text(lookup=lookup)
    text.extend(prompt)
    text.extend(output[:1])
    steps = drafts = drafted = 0
    positions = [0] * lookup.draft_tokens
    done = min(1, len(output))
    while done < len(output):
        left = output[done : done + lookup.draft_tokens + 1]
        draft = text.draft()[: len(left)]
        kept = sum(1 for _ in takewhile(bool, map(_equal, draft, left)))
        steps += 1
        drafts += bool(draft)
        drafted += len(draft)
        for at in range(kept):
            positions[at] += 1
        text.extend(left[: kept + 1])
        done += kept + 1
    return Tally(
        requests=1,
        prompt_tokens=len(prompt),
        output_tokens=len(output),
        steps=steps,
        drafts=drafts,
        draft_tokens=drafted,
        positions=tuple(positions),
    )


def add(tallies: Iterable[Tally]) -> Tally:
    """Add replays up: a ratio of the sum is a ratio of sums."""
    found = list(tallies)
    return Tally(
        requests=sum(one.requests for one in found),
        prompt_tokens=sum(one.prompt_tokens for one in found),
        output_tokens=sum(one.output_tokens for one in found),
        steps=sum(one.steps for one in found),
        drafts=sum(one.drafts for one in found),
        draft_tokens=sum(one.draft_tokens for one in found),
        positions=tuple(map(sum, zip(*(one.positions for one in found), strict=True))),
    )


def _equal(one: Token, other: Token) -> bool:
    return one == other
