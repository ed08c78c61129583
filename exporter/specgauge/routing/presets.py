"""Ready-made rules, as two articles on serving with speculation give them; data only."""

from collections.abc import Mapping
from types import MappingProxyType

from specgauge.routing.rules import LoadLimit, Pool, Range, Rule, When

PRESETS: Mapping[str, tuple[Rule, ...]] = MappingProxyType(
    {
        "playbook": (
            Rule(
                name="high-temperature",
                pool=Pool.STANDARD,
                when=When(temperature=Range(above=1.0)),
            ),
            Rule(name="tiny", pool=Pool.STANDARD, when=When(max_tokens=Range(below=32.0))),
            Rule(
                name="short-blocking",
                pool=Pool.STANDARD,
                when=When(stream=False, max_tokens=Range(below=64.0)),
            ),
        ),
        "production": (
            Rule(name="tools", pool=Pool.STANDARD, when=When(tools=True)),
            Rule(name="structured", pool=Pool.STANDARD, when=When(structured_output=True)),
            Rule(
                name="chat",
                pool=Pool.SPECULATIVE,
                when=When(routes=("chat",), structured_output=False),
                load=LoadLimit(at_most=4.0, resume=3.0),
            ),
            Rule(name="rest", pool=Pool.STANDARD),
        ),
    }
)
"""By name; the playbook's leave the rest to `fallback_pool`, those for production take it all."""
