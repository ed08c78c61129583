"""What a request is like, which class that gives it, and where flag and load send it."""

import json
from typing import Any

import pytest

from specgauge.routing.decide import Decision, Flag, Live, Reason, decide, flag_of, unmet
from specgauge.routing.presets import PRESETS
from specgauge.routing.rules import (
    LOOKED_AT,
    FlagTerms,
    HeaderIs,
    LoadLimit,
    Pool,
    Range,
    Routes,
    Rule,
    When,
)
from specgauge.routing.shape import Body, Shape, route_of, shape_of
from specgauge.routing.table import table_of, table_text

CHAT = "/v1/chat/completions"


def shaped(document: Any, *, path: str = CHAT, **headers: str) -> Shape:
    """Read the shape of a request with a JSON body."""
    return shape_of(json.dumps(document).encode(), path=path, headers=headers, max_body=1 << 20)


@pytest.mark.parametrize(
    ("document", "field", "value"),
    [
        pytest.param({"temperature": 1}, "temperature", 1.0, id="whole number"),
        pytest.param({"temperature": True}, "temperature", None, id="true is no number"),
        pytest.param({"temperature": "1"}, "temperature", None, id="text is no number"),
        pytest.param({}, "temperature", None, id="not there"),
        pytest.param({"max_tokens": 5}, "max_tokens", 5.0, id="length"),
        pytest.param(
            {"max_tokens": 5, "max_completion_tokens": 9}, "max_tokens", 9.0, id="newer name"
        ),
        pytest.param(
            {"max_tokens": 5, "max_completion_tokens": None}, "max_tokens", 5.0, id="null"
        ),
        pytest.param({"max_output_tokens": 7}, "max_tokens", 7.0, id="of responses"),
        pytest.param({"max_tokens": 10**400}, "max_tokens", float("inf"), id="huge"),
        pytest.param({"stream": True}, "stream", True, id="stream"),
        pytest.param({"stream": "true"}, "stream", False, id="text is no true"),
        pytest.param({}, "stream", False, id="no stream by default"),
        pytest.param({"response_format": {"type": "json_object"}}, "structured_output", True,
                     id="JSON mode"),
        pytest.param({"response_format": {"type": "text"}}, "structured_output", False, id="text"),
        pytest.param({"response_format": "json"}, "structured_output", False, id="no object"),
        pytest.param({"text": {"format": {"type": "json_schema"}}}, "structured_output", True,
                     id="schema of responses"),
        pytest.param({"guided_json": {}}, "structured_output", True, id="guided"),
        pytest.param({"guided_json": None}, "structured_output", False, id="guided by nothing"),
        pytest.param({"structured_outputs": {"regex": "a"}}, "structured_output", True,
                     id="structured outputs"),
        pytest.param({"structured_outputs": {"json_object": False}}, "structured_output", False,
                     id="structured outputs off"),
        pytest.param({"tools": [{}]}, "tools", True, id="tools"),
        pytest.param({"tools": []}, "tools", False, id="no tools"),
        pytest.param({"tools": [{}], "tool_choice": "none"}, "tools", False, id="not to be called"),
        pytest.param({"functions": [{}]}, "tools", True, id="functions"),
        pytest.param({"model": "m"}, "model", "m", id="model"),
        pytest.param({"model": 3}, "model", None, id="number as model"),
        pytest.param({"prompt": "ab"}, "text", "ab", id="prompt"),
        pytest.param({"prompt": ["ab", "c"]}, "text", "ab\nc", id="prompts"),
        pytest.param({"prompt": [1, 2]}, "text", None, id="token ids"),
        pytest.param({"messages": [{"content": "é\U0001f600"}]}, "prompt_characters", 2.0,
                     id="characters"),
        pytest.param(
            {"messages": [{"content": [{"text": "a"}, {"image_url": {}}, "b"]}, {"content": "c"}]},
            "text", "a\nc", id="parts",
        ),
        pytest.param({"messages": [{"content": None}, [], 4]}, "text", None, id="no text"),
        pytest.param({"prompt": "x" * 70000}, "text", "x" * LOOKED_AT, id="long text"),
        pytest.param({"prompt": "x" * 70000}, "prompt_characters", 70000.0, id="its length"),
    ],
)  # fmt: skip
def test_shape(document: dict[str, Any], field: str, value: object) -> None:
    """Each thing that rules ask about is read from the body, or is not known."""
    assert getattr(shaped(document), field) == value


@pytest.mark.parametrize(
    ("body", "state"),
    [
        pytest.param(None, Body.TOO_LARGE, id="known to be too large"),
        pytest.param(b" " * 101, Body.TOO_LARGE, id="too large"),
        pytest.param(b"{}".ljust(100), Body.READ, id="as large as may be"),
        pytest.param(b"", Body.NONE, id="none"),
        pytest.param(b"{", Body.MALFORMED, id="cut"),
        pytest.param(b"[]", Body.MALFORMED, id="no object"),
        pytest.param(b"\xff", Body.MALFORMED, id="not UTF-8"),
        pytest.param(b'{"a": NaN}', Body.MALFORMED, id="no number"),
        pytest.param(b'{"a":' + b"[" * 30 + b"]" * 30 + b"}", Body.READ, id="31 levels"),
        pytest.param(b'{"a":' + b"[" * 31 + b"]" * 31 + b"}", Body.MALFORMED, id="32 levels"),
    ],
)
def test_bodies(body: bytes | None, state: Body) -> None:
    """A body that is not looked into says why, and nothing is known of it."""
    shape = shape_of(body, path=CHAT, headers={}, max_body=100)
    assert shape.body is state
    assert (shape.stream is None) == (state is not Body.READ)


def test_far_too_deep() -> None:
    """A body nested beyond every limit is malformed, not an error of ours."""
    body = b"[" * 500_000
    assert shape_of(body, path=CHAT, headers={}, max_body=1 << 20).body is Body.MALFORMED


@pytest.mark.parametrize(
    ("path", "route"),
    [
        (CHAT, "chat"),
        ("/v1/completions", "completions"),
        ("/team/v1/responses", "responses"),
        ("/v1/embeddings", "embeddings"),
        ("/v1/models", "other"),
        ("/v1/chat/completions/", "other"),
    ],
)
def test_routes(path: str, route: str) -> None:
    """A route is told by the end of its path."""
    assert route_of(path) == route


SHAPE = shaped(
    {"temperature": 0.5, "max_tokens": 64, "stream": True, "model": "m", "tools": [{}],
     "prompt": "```x", "response_format": {"type": "json_object"}},
    **{"X-App": " ide "},
)  # fmt: skip


@pytest.mark.parametrize(
    ("when", "fits"),
    [
        pytest.param(When(), True, id="nothing asked"),
        pytest.param(When(temperature=Range(above=0.5)), False, id="above"),
        pytest.param(When(temperature=Range(at_least=0.5)), True, id="at least"),
        pytest.param(When(temperature=Range(below=0.5)), False, id="below"),
        pytest.param(When(temperature=Range(at_most=0.5)), True, id="at most"),
        pytest.param(When(max_tokens=Range(above=63, below=65)), True, id="both bounds"),
        pytest.param(When(prompt_characters=Range(below=4)), False, id="prompt length"),
        pytest.param(When(stream=True, tools=True, structured_output=True), True, id="yes"),
        pytest.param(When(stream=False), False, id="no"),
        pytest.param(When(routes=("completions", "chat")), True, id="route"),
        pytest.param(When(routes=("completions",)), False, id="other route"),
        pytest.param(When(paths=("/x", "/v1/")), True, id="path"),
        pytest.param(When(paths=("/x",)), False, id="other path"),
        pytest.param(When(models=("m",)), True, id="model"),
        pytest.param(When(models=("M",)), False, id="other model"),
        pytest.param(When(header=HeaderIs(name="x-app", values=("ide",))), True, id="header"),
        pytest.param(When(header=HeaderIs(name="x-app", values=("IDE",))), False, id="its case"),
        pytest.param(When(header=HeaderIs(name="x-b", values=("",))), False, id="no such header"),
        pytest.param(When(patterns=("code_fence",)), True, id="pattern"),
        pytest.param(When(patterns=("latex",), contains=("x",)), True, id="one of both"),
        pytest.param(When(patterns=("latex",)), False, id="other pattern"),
    ],
)
def test_conditions(when: When, fits: bool) -> None:
    """A rule fits where all of its conditions hold, and else says which one does not."""
    why_not = unmet(Rule(name="a", pool=Pool.STANDARD, when=when), SHAPE)
    assert (why_not is None) == fits


@pytest.mark.parametrize(
    "when",
    [
        When(temperature=Range(below=9)),
        When(stream=False),
        When(tools=False),
        When(structured_output=False),
        When(prompt_characters=Range(at_least=0)),
        When(models=("m",)),
        When(contains=("a",)),
    ],
    ids=lambda when: str([name for name in ("stream", "tools") if getattr(when, name) is False]),
)
def test_unknown_holds_nothing(when: When) -> None:
    """Of a body that was not looked into no condition holds, not even that something is not so."""
    shape = shape_of(None, path=CHAT, headers={}, max_body=1)
    words = unmet(Rule(name="a", pool=Pool.STANDARD, when=when), shape)
    assert words is not None


def test_words_name_condition_and_value() -> None:
    """What does not hold is said with what was found and what was wanted."""
    rule = Rule(name="a", pool=Pool.STANDARD, when=When(temperature=Range(above=1, at_most=2)))
    assert unmet(rule, SHAPE) == "temperature is 0.5, not above 1 and at most 2"
    assert unmet(rule, shaped({})) == "temperature is not known, not above 1 and at most 2"
    other = Rule(name="a", pool=Pool.STANDARD, when=When(models=("n",)))
    assert unmet(other, shaped({})) == "model not there is none of them"


LIMIT = LoadLimit(at_most=4, resume=3)
ROUTES = Routes(
    rules=(
        Rule(name="std", pool=Pool.STANDARD, when=When(tools=True), load=LIMIT),
        Rule(name="fast", pool=Pool.SPECULATIVE, when=When(models=("m",)), load=LIMIT),
        Rule(name="free", pool=Pool.SPECULATIVE, when=When(models=("n",))),
    ),
)
ON = {LIMIT.key: True}


@pytest.mark.parametrize(
    ("document", "live", "expected"),
    [
        pytest.param({"model": "m"}, Live(loads=ON), ("fast", "speculative", "rule:fast"),
                     id="rule"),
        pytest.param({"tools": [1], "model": "m"}, Live(loads=ON), ("std", "standard", "rule:std"),
                     id="first rule"),
        pytest.param({}, Live(), ("other", "speculative", "fallback"), id="no rule"),
        pytest.param({"model": "m"}, Live(flag=Flag.OFF, loads=ON),
                     ("fast", "standard", "flag_off"), id="flag off"),
        pytest.param({"tools": [1]}, Live(flag=Flag.OFF), ("std", "standard", "flag_off"),
                     id="flag before rules"),
        pytest.param({}, Live(flag=Flag.UNKNOWN), ("other", "standard", "flag_unknown"),
                     id="flag unknown"),
        pytest.param({"model": "m"}, Live(loads={LIMIT.key: False}),
                     ("fast", "standard", "load"), id="load"),
        pytest.param({"model": "m"}, Live(), ("fast", "standard", "load_unknown"),
                     id="load unknown"),
        pytest.param({"model": "n"}, Live(), ("free", "speculative", "rule:free"), id="no limit"),
        pytest.param({"tools": [1]}, Live(), ("std", "standard", "rule:std"),
                     id="no limit for standard"),
    ],
)  # fmt: skip
def test_decisions(document: Any, live: Live, expected: tuple[str, str, str]) -> None:
    """The class is the first rule's whatever else holds; flag, then load, take the pool away."""
    found = decide(ROUTES, shaped(document), live)
    assert (found.traffic_class, str(found.pool), found.reason) == expected


def test_a_body_that_was_not_read_is_the_reason() -> None:
    """Where no rule takes a request, the reason is why nothing was known of it."""
    shape = shape_of(None, path=CHAT, headers={}, max_body=1)
    assert decide(ROUTES, shape, Live()) == Decision(
        traffic_class="other",
        pool=Pool.SPECULATIVE,
        reason="body_too_large",
        wanted=Pool.SPECULATIVE,
    )


def test_limits() -> None:
    """A limit for all counts where a class has none, and never for the standard pool."""
    every = LoadLimit(at_most=32, resume=24)
    routes = Routes(rules=ROUTES.rules, load=every)
    assert [routes.limit_of(rule) for rule in (*routes.rules, None)] == [None, LIMIT, every, every]
    assert list(routes.limits()) == [LIMIT, every]
    assert list(Routes(fallback_pool=Pool.STANDARD, load=every).limits()) == []


@pytest.mark.parametrize(
    ("load", "held", "answer"),
    [
        (None, True, None), (4.0, True, True), (4.1, True, False),
        (3.5, False, False), (3.0, False, True),
    ],
)  # fmt: skip
def test_hysteresis(load: float | None, held: bool, answer: bool | None) -> None:
    """Above `at_most` a class leaves, and it is back at `resume`."""
    assert LIMIT.holds(load, held=held) is answer


@pytest.mark.parametrize(
    ("known", "age", "then", "flag"),
    [
        (True, 0.0, "standard", Flag.ON),
        (False, 300.0, "speculative", Flag.OFF),
        (True, 300.1, "standard", Flag.UNKNOWN),
        (False, 300.1, "speculative", Flag.ON),
        (None, 0.0, "standard", Flag.UNKNOWN),
        (True, None, "standard", Flag.UNKNOWN),
    ],
)
def test_flags(known: bool | None, age: float | None, then: str, flag: Flag) -> None:
    """The last known flag holds for its time, then the default does."""
    assert flag_of(known=known, age=age, terms=FlagTerms(then=Pool(then))) is flag


@pytest.mark.parametrize(
    ("preset", "document", "expected"),
    [
        ("playbook", {"temperature": 1.1}, "standard"),
        ("playbook", {"temperature": 1.0}, "speculative"),
        ("playbook", {"max_tokens": 31, "stream": True}, "standard"),
        ("playbook", {"max_tokens": 63}, "standard"),
        ("playbook", {"max_tokens": 63, "stream": True}, "speculative"),
        ("playbook", {}, "speculative"),
        ("production", {"messages": []}, "speculative"),
        ("production", {"tools": [1]}, "standard"),
        ("production", {"response_format": {"type": "json_object"}}, "standard"),
    ],
)
def test_presets(preset: str, document: Any, expected: str) -> None:
    """The articles' rules send what they name to the standard pool."""
    routes = Routes(rules=PRESETS[preset])
    calm = Live(loads={limit.key: True for limit in routes.limits()})
    assert str(decide(routes, shaped(document), calm).pool) == expected
    busy = Live(loads={limit.key: False for limit in routes.limits()})
    found = decide(Routes(rules=PRESETS["production"]), shaped(document), busy)
    assert (found.pool, found.reason in {"load", "load_unknown"}) == (
        Pool.STANDARD, found.traffic_class == "chat",
    )  # fmt: skip


def test_reasons_are_words() -> None:
    """A reason is the word itself, as the log and the labels have it."""
    assert str(Reason.FLAG_OFF) == "flag_off"


def test_table() -> None:
    """The table holds what is asked and nothing else, in ASCII."""
    rule = Rule(
        name="a",
        pool=Pool.SPECULATIVE,
        when=When(
            temperature=Range(above=1.0),
            stream=False,
            models=("größer",),
            header=HeaderIs(name="x-app", values=("ide",)),
            patterns=("code_fence",),
            contains=("x",),
        ),
        load=LIMIT,
    )
    routes = Routes(rules=(rule,))
    table = table_of(routes)
    assert table["rules"] == [
        {
            "name": "a", "pool": "speculative", "load": "4:3",
            "when": {
                "temperature": {"above": 1.0}, "stream": False, "models": ["größer"],
                "texts": ["```", "~~~", "x"], "header": {"name": "x-app", "values": ["ide"]},
            },
        }
    ]  # fmt: skip
    assert table["fallback"] == {"name": "other", "pool": "speculative", "load": None}
    assert table_text(routes).isascii()
    assert json.loads(table_text(routes)) == table
    bare = table_of(Routes(rules=(Rule(name="all", pool=Pool.STANDARD),)))
    assert bare["rules"] == [{"name": "all", "pool": "standard", "load": None, "when": {}}]
