"""The grammar of one line, held against the parsers of prometheus_client."""

import math
from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from specgauge.engines.parse import MalformedLineError, number, parse_line, unescape

Read = tuple[str, frozenset[tuple[str, str]], str]

names = st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,20}", fullmatch=True)
# Two underscores first are reserved: the reference parser takes them for an error, we read them.
label_names = st.from_regex(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]{0,10}", fullmatch=True)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    ["", "\\", "\\\\", '"', "a,b", "}", "{", "#", " ", "\n", "\\n", "=", "x # {", "\t", "ü", "🙂"]
)
labels = st.dictionaries(label_names, texts, max_size=4)
values = st.floats() | st.integers(-(10**18), 10**18).map(float)
blanks = st.sampled_from(["", " ", "\t", "  "])
gaps = st.sampled_from([" ", "  ", "\t", " \t "])


def spell(value: float) -> str:
    """Write a value as the exposition formats do."""
    if math.isnan(value):
        return "NaN"
    return {math.inf: "+Inf", -math.inf: "-Inf"}.get(value, repr(value))


def quote(text: str) -> str:
    """Write a label value."""
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
    return f'"{escaped}"'


def inside(pairs: dict[str, str]) -> str:
    """Write labels between their braces."""
    return ",".join(f"{name}={quote(text)}" for name, text in pairs.items())


def by_oracle(samples: Iterable[Sample]) -> Counter[Read]:
    """Note what the oracle read."""
    return Counter((s.name, frozenset(s.labels.items()), repr(float(s.value))) for s in samples)


def by_us(lines: Iterable[str]) -> Counter[Read]:
    """Note what we read."""
    read = [parse_line(line) for line in lines if not line.startswith("#")]
    return Counter((line.name, frozenset(line.labels.items()), repr(line.value)) for line in read)


@st.composite
def classic_lines(draw: st.DrawFn) -> str:
    """Draw one sample in classic text, with whatever blanks and timestamp the format allows."""
    pairs = draw(labels)
    body = ",".join(
        f"{draw(blanks)}{name}{draw(blanks)}={draw(blanks)}{quote(text)}{draw(blanks)}"
        for name, text in pairs.items()
    )
    comma = draw(st.sampled_from(["", ","])) if pairs else ""
    braces = f"{{{body}{comma}}}" if draw(st.booleans()) or pairs else ""
    stamp = draw(st.none() | st.integers(-(10**13), 10**13))
    end = "" if stamp is None else f"{draw(gaps)}{stamp}"
    return f"{draw(names)}{braces}{draw(gaps)}{spell(draw(values))}{end}"


@given(st.lists(classic_lines(), max_size=5))
@example(['a{b="\\\\"} 1', 'a{b="\\\\n"} 2'])
def test_classic_text_is_read_as_the_reference_parser_reads_it(lines: list[str]) -> None:
    """Every sample of classic text has the same name, labels and value for both."""
    families = text_string_to_metric_families("".join(f"{line}\n" for line in lines))
    assert by_us(lines) == by_oracle(s for family in families for s in family.samples)


@st.composite
def openmetrics_families(draw: st.DrawFn) -> list[str]:
    """Draw a counter family in OpenMetrics, perhaps with timestamp and exemplar."""
    name = draw(names)
    pairs = draw(labels)
    value = spell(draw(st.floats(0, 1e15)))
    stamp = draw(st.sampled_from(["", " 1790000000.123", " 1790000000"]))
    trace = quote(draw(st.text("abc #{}=,", max_size=8)))
    exemplar = draw(st.sampled_from(["", f" # {{trace_id={trace}}} 1.5", " # {} 3 1790000000.5"]))
    return [f"# TYPE {name} counter", f"{name}_total{{{inside(pairs)}}} {value}{stamp}{exemplar}"]


@given(openmetrics_families())
def test_openmetrics_is_read_as_the_reference_parser_reads_it(lines: list[str]) -> None:
    """Timestamps and exemplars do not reach a value."""
    text = "".join(f"{line}\n" for line in [*lines, "# EOF"])
    families = openmetrics.text_string_to_metric_families(text)  # type: ignore[no-untyped-call]  # no types there
    assert by_us(lines) == by_oracle(s for family in families for s in family.samples)


@given(texts.filter(bool), labels)
def test_quoted_names_are_read_as_the_reference_parser_reads_them(
    name: str, pairs: dict[str, str]
) -> None:
    """A metric whose name is any text stands between the braces, before the labels."""
    parts = [quote(name), *(f"{quote(label)}={quote(text)}" for label, text in pairs.items())]
    line = f"{{{','.join(parts)}}} 3"
    try:
        families = list(text_string_to_metric_families(f"{line}\n"))
    except ValueError:
        return  # some names the reference does not take; we have no reason to refuse them
    assert by_us([line]) == by_oracle(s for family in families for s in family.samples)


READ = {
    "plain": ("a 1", "a", {}, 1.0),
    "braces but no labels": ("a{} 1", "a", {}, 1.0),
    "blank before the braces": ('a {b="c"} 1', "a", {"b": "c"}, 1.0),
    "value close to the braces": ('a{b="c"}1', "a", {"b": "c"}, 1.0),
    "blanks everywhere": (' a { b = "c" , } 1 ', "a", {"b": "c"}, 1.0),
    "tabs": ('a{b="c"}\t1\t2', "a", {"b": "c"}, 1.0),
    "timestamp": ("a 1 1790000000123", "a", {}, 1.0),
    "exemplar": ('a 1 # {t="#"} 3 4', "a", {}, 1.0),
    "exemplar on labels that hold a hash": ('a{b="#"} 1 # {} 3', "a", {"b": "#"}, 1.0),
    "quoted name": ('{"a b"} 1', "a b", {}, 1.0),
    "quoted name and labels": ('{"a b","c d"="e",f="g"} 1', "a b", {"c d": "e", "f": "g"}, 1.0),
    "quoted label of a plain name": ('a{"c d"="e"} 1', "a", {"c d": "e"}, 1.0),
    "unknown escape": (r'a{b="\q"} 1', "a", {"b": r"\q"}, 1.0),
}


@pytest.mark.parametrize(("line", "name", "pairs", "value"), READ.values(), ids=READ)
def test_line_is_read(line: str, name: str, pairs: dict[str, str], value: float) -> None:
    """The formats allow much between the parts of a line."""
    read = parse_line(line)
    assert (read.name, read.labels, read.value) == (name, pairs, value)


MALFORMED = {
    "nothing": "",
    "no value": "a",
    "no value behind the braces": 'a{b="c"}',
    "blank for a value": 'a{b="c"} ',
    "no name": "{} 1",
    "no name but labels": '{b="c"} 1',
    "empty quoted name": '{""} 1',
    "two names": 'a{"b"} 1',
    "two quoted names": '{"a","b"} 1',
    "quoted name behind a label": '{b="c","a"} 1',
    "name with a dash": "a-b 1",
    "name that begins with a digit": "1a 1",
    "label without a value": "a{b} 1",
    "label with a bare value": "a{b=c} 1",
    "label twice": 'a{b="c",b="d"} 1',
    "labels without a comma": 'a{b="c" d="e"} 1',
    "only a comma": "a{,} 1",
    "two commas": 'a{b="c",,} 1',
    "open braces": 'a{b="c" 1',
    "open quote": 'a{b="c} 1',
    "line feed within a value": 'a{b="c\nd"} 1',
    "word for a value": "a one",
    "three numbers": "a 1 2 3",
    "word for a timestamp": "a 1 now",
    "something behind the value": "a 1 # note",
}


@pytest.mark.parametrize("line", MALFORMED.values(), ids=MALFORMED)
def test_malformed_line_is_refused(line: str) -> None:
    """What is no sample raises, however near it comes."""
    with pytest.raises(MalformedLineError):
        parse_line(line)


NUMBERS = {"1": 1.0, "-1.5e3": -1500.0, "+.5": 0.5, "5.": 5.0, "1e400": math.inf, "0": 0.0}
NUMBERS |= {"+Inf": math.inf, "-inf": -math.inf, "Infinity": math.inf, "INF": math.inf}


@pytest.mark.parametrize(("text", "value"), NUMBERS.items())
def test_number_is_read(text: str, value: float) -> None:
    """Numbers are spelled as in Go."""
    assert number(text) == value


@pytest.mark.parametrize("text", ["NaN", "nan", "NAN"])
def test_nan_is_a_number(text: str) -> None:
    """NaN is read, and left to be judged later."""
    assert math.isnan(number(text))


@pytest.mark.parametrize(
    "text", ["", " ", "1_000", "0x10", "1,5", "\u0661", "1 ", "--1", "e5", "1e"]
)
def test_other_spellings_are_no_numbers(text: str) -> None:
    """What Python would take besides is refused."""
    with pytest.raises(MalformedLineError):
        number(text)


@given(texts)
def test_unescape_undoes_escapes(text: str) -> None:
    """A label value survives being written and read."""
    assert unescape(quote(text)[1:-1]) == text
