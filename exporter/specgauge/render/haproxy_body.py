"""What a rendered HAProxy asks of a request's body: its grammar, and where a value stands in it.

HAProxy's `json_query` finds a value but neither tells a text from a number nor sees a mapping or
a list, and takes what is no JSON; the regular expressions here do. They need PCRE2, as Debian's
HAProxy and the official images have it.
"""

from dataclasses import dataclass

from specgauge.routing.shape import GUIDED, LENGTHS

_TEXT = (
    r'"(?:[\x20\x21\x23-\x5b\x5d-\x7f]++|[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]'
    r"|[\xe1-\xec\xee\xef][\x80-\xbf]{2}|\xed[\x80-\x9f][\x80-\xbf]|\xf0[\x90-\xbf][\x80-\xbf]{2}"
    r"|[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2}"
    r'|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"'
)
GRAMMAR = (
    r"(?(DEFINE)"
    r"(?<w>[ \t\n\r]*+)"
    rf"(?<s>{_TEXT})"
    r"(?<n>-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][-+]?[0-9]++)?+)"
    r"(?<m>(?&w)(?&s)(?&w):(?&v))"
    r"(?<o>\{(?:(?&m)(?:,(?&m))*+|(?&w))\})"
    r"(?<a>\[(?:(?&v)(?:,(?&v))*+|(?&w))\])"
    r"(?<v>(?&w)(?:(?&s)|(?&n)|(?&o)|(?&a)|true|false|null)(?&w))"
    r")"
)
"""JSON in UTF-8: (w)hite space, (s)tring, (n)umber, (m)ember, (o)bject, (a)rray, (v)alue."""

MAPPING = r"^(?&w)(?&o)(?&w)$"
_SET = r"(?!null|false)"
_NUMBER = r"[-0-9]"
_NO_TEXT_FORMAT = r'(?!"text")"'
_FILLED = r"\[(?&w)(?!\])"
_ANY_KEY = r'(?:[^"\\]|\\.)*+'
_YES = "bool(1)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One thing to know of a body; `asks` are tried in turn until the variable is set.

    Each is the expression that it is set to, and the patterns of which the body must match one.
    """

    name: str
    asks: tuple[tuple[str, tuple[str, ...]], ...]


def member(*keys: str, value: str) -> str:
    """Match a body with a value at the end of these keys; the first counts if one stands twice.

    A key may be several, as `a|b`: then any of them counts that has the value.
    """
    found = "^(?&w)"
    for key in keys:
        several = "|" in key
        name = f"(?:{key})" if several else key
        sought = rf'(?&w)"{name}"(?&w):(?&w)'
        skipped = sought + value if several else sought
        found += rf"\{{(?:(?!{skipped})(?&m),)*+{sought}"
    return found + value


def facts() -> tuple[Fact, ...]:
    """Give everything that a rule may ask of a body."""
    structured = (
        member("response_format", "type", value=_NO_TEXT_FORMAT),
        member("text", "format", "type", value=_NO_TEXT_FORMAT),
        member("|".join(GUIDED), value=_SET),
        member("structured_outputs", _ANY_KEY, value=_SET),
    )
    none = member("tool_choice", value='"none"').removeprefix("^")
    tools = member("tools", value=_FILLED).replace("^", f"^(?!{none})", 1)
    lengths = tuple((_value_of(name), (member(name, value=_NUMBER),)) for name in LENGTHS)
    return (
        Fact(
            name="temperature",
            asks=((_value_of("temperature"), (member("temperature", value=_NUMBER),)),),
        ),
        Fact(name="max_tokens", asks=lengths),
        Fact(name="stream", asks=((_YES, (member("stream", value="true"),)),)),
        Fact(name="structured_output", asks=((_YES, structured),)),
        Fact(name="tools", asks=((_YES, (member("functions", value=_FILLED), tools)),)),
        Fact(name="model", asks=((_value_of("model"), (member("model", value='"'),)),)),
    )


def _value_of(key: str) -> str:
    return f"req.body,json_query('$.{key}')"
