"""The rules of a router as plain values, and when a single condition holds.

Nothing here looks at a request as it arrives; a condition over what is not known never holds.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

OTHER = "other"
"""The class of requests that no rule takes."""

LOOKED_AT = 64 << 10
"""Characters of a prompt in which texts are looked for."""

CLASS_PATTERN = r"[a-z][a-z0-9_-]{0,39}"
"""What a class may be called: it stands in headers, labels and files of other programs."""

PATTERNS = MappingProxyType(
    {
        "code_fence": ("```", "~~~"),
        "latex": (
            "\\begin{", "\\frac{", "\\sqrt{", "\\sum_", "\\int_", "\\(", "\\[", "$$",
        ),
    }
)  # fmt: skip
"""The named patterns: any of these texts, as they are, so that no prompt can be slow to read."""


class Pool(StrEnum):
    """Who serves: with speculation, or without."""

    SPECULATIVE = "speculative"
    STANDARD = "standard"


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Where a number must lie; every bound that is there must hold."""

    above: float | None = None
    at_least: float | None = None
    below: float | None = None
    at_most: float | None = None

    def holds(self, value: float) -> bool:
        """Tell whether a number lies within."""
        return (
            (self.above is None or value > self.above)
            and (self.at_least is None or value >= self.at_least)
            and (self.below is None or value < self.below)
            and (self.at_most is None or value <= self.at_most)
        )

    @property
    def bounds(self) -> dict[str, float]:
        """Give the bounds that are there, by name."""
        found = {
            "above": self.above,
            "at_least": self.at_least,
            "below": self.below,
            "at_most": self.at_most,
        }
        return {name: bound for name, bound in found.items() if bound is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderIs:
    """A header of the application and the values that count; its name is in lower case."""

    name: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class When:
    """What a request must be like; what is None or empty is not asked.

    `routes` and `models` are names of which one must fit, `paths` beginnings of the path, `texts`
    of which one must stand in the prompt; `patterns` names those of them that have a name.
    """

    temperature: Range | None = None
    max_tokens: Range | None = None
    prompt_characters: Range | None = None
    stream: bool | None = None
    structured_output: bool | None = None
    tools: bool | None = None
    routes: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    header: HeaderIs | None = None
    patterns: tuple[str, ...] = ()
    contains: tuple[str, ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        """Every text of which one must stand in the prompt."""
        return (*(text for name in self.patterns for text in PATTERNS[name]), *self.contains)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadLimit:
    """Requests in decode up to which a class goes to the speculative pool.

    Above `at_most` it leaves; it is back once the load is at `resume` or below.
    """

    at_most: float
    resume: float

    @property
    def key(self) -> str:
        """What the answer to this limit is called in the route state."""
        return f"{self.at_most:g}:{self.resume:g}"

    def holds(self, load: float | None, *, held: bool) -> bool | None:
        """Tell whether it holds now, after whether it held before; None where nobody knows."""
        if load is None:
            return None
        return load <= (self.at_most if held else self.resume)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One class of traffic; `load` is asked only where the pool is the speculative one."""

    name: str
    pool: Pool
    when: When = field(default_factory=When)
    load: LoadLimit | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagTerms:
    """How long a flag is believed, in seconds.

    Up to `fresh` after the sidecar's last sign the state is current; the last known flag holds
    for `hold`, and after that, or where none was ever known, `then` is where traffic goes.
    """

    fresh: float = 5.0
    hold: float = 300.0
    then: Pool = Pool.STANDARD


@dataclass(frozen=True, slots=True, kw_only=True)
class Routes:
    """All that a router decides by; the first rule that fits gives a request its class."""

    rules: tuple[Rule, ...] = ()
    fallback_pool: Pool = Pool.SPECULATIVE
    load: LoadLimit | None = None
    max_body: int = 1 << 20
    flag: FlagTerms = field(default_factory=FlagTerms)

    def limit_of(self, rule: Rule | None) -> LoadLimit | None:
        """Give the limit that counts for a rule, or for requests that no rule takes."""
        pool = self.fallback_pool if rule is None else rule.pool
        if pool is Pool.STANDARD:
            return None
        return self.load if rule is None or rule.load is None else rule.load

    def limits(self) -> Iterator[LoadLimit]:
        """Give every limit that is asked about, each once."""
        asked = [self.limit_of(rule) for rule in (*self.rules, None)]
        yield from dict.fromkeys(limit for limit in asked if limit is not None)
