"""Requests of every shape that routing asks about, and rules that ask about all of it."""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

RULES = """
  presets: [playbook]
  decode_concurrency: {at_most: 32, resume: 24}
  rules:
    - name: batch-jobs
      when: {header: {name: X-Traffic, values: [batch, offline work]}}
      pool: standard
    - name: embeddings
      when: {routes: [embeddings, other]}
      pool: standard
    - name: team-a
      when: {paths: [/team-a/], stream: true}
      pool: speculative
    - name: tools
      when: {tools: true}
      pool: standard
    - name: structured
      when: {structured_output: true, max_tokens: {at_least: 16}}
      pool: standard
    - name: code
      when: {patterns: [code_fence], decode_concurrency: {at_most: 4, resume: 3}}
      pool: speculative
    - name: formulas
      when: {patterns: [latex], contains: ["Translate: ", "größer"]}
      pool: speculative
    - name: small-model
      when: {models: [small, "org/small-instruct"], temperature: {at_least: 0.25, at_most: 0.75}}
      pool: standard
    - name: long-prompt
      when: {prompt_characters: {above: 2000, below: 9000}, stream: false}
      pool: standard
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request as it is sent."""

    body: bytes
    path: str
    headers: dict[str, str]


def requests(seed: int, count: int) -> Iterator[Asked]:
    """Make requests that fall under all the rules, and some that are broken."""
    chance = random.Random(seed)  # noqa: S311 - the same requests in every run
    for _ in range(count):
        yield Asked(
            body=_body(chance),
            path=chance.choice(
                ["/v1/chat/completions"] * 8
                + ["/v1/completions", "/v1/responses", "/v1/embeddings", "/team-a/v1/completions"]
                + ["/v1/models"]
            ),
            headers=chance.choice(
                [{}] * 12 + [{"X-Traffic": "batch"}, {"x-traffic": " offline work "}]
                + [{"X-Traffic": "Batch"}, {"X-Traffic": ""}]
            ),
        )  # fmt: skip


def _body(chance: random.Random) -> bytes:
    match chance.randrange(20):
        case 0:
            return chance.choice(BROKEN)
        case 1:
            return b""
        case _:
            text = json.dumps(_document(chance), ensure_ascii=chance.random() < 0.5)
            return text.encode("utf-8", "surrogatepass")


BROKEN = (
    b"{", b"[]", b"[1]", b"null", b"7", b'"text"', b"\xff\xfe{}", b'{"temperature": NaN}', b"{}}",
    b'{"temperature": 2,}', b"{'max_tokens': 1}", b'\xef\xbb\xbf{"max_tokens": 1}', b" ",
    b'{"a": "\n"}', b'{"temperature": +1}', b'{"temperature": Infinity}',
)  # fmt: skip

LENIENT = (
    b'{"temperature": 01}', b'{"temperature": .5}', b'{"temperature": 1.}',
    b'{"model": "\xc3\x28"}',
    b'{"messages": [{"content": "\xc3\x28"}, {"content": "gr\xc3\xb6\xc3\x9fer"}]}',
    b'{"prompt": ["\xff", "\xc3\xa9", "```"], "model": "\xff", "tools": ["\xff"]}',
)  # fmt: skip
"""No JSON, and every engine refuses it; nginx's script engine reads what it can of it."""

_VALUES: dict[str, list[Any]] = {
    "temperature": [0, 0.0, 0.25, 0.5, 0.75, 1, 1.0, 1.01, 1.5, 2, 15e-1, "1.5", None, True, -1],
    "max_tokens": [0, 1, 15, 16, 31, 32, 33, 63, 64, 500, 31.5, 1e400, None, "20", False, 10**30],
    "max_completion_tokens": [None, 8, 40, 100, "8"],
    "max_output_tokens": [16, 64],
    "stream": [True, False, None, "true", 1],
    "model": ["small", "org/small-instruct", "large", None, 3, "Small"],
    "response_format": [
        {"type": "json_object"}, {"type": "json_schema", "json_schema": {}}, {"type": "text"}, {},
        None, "json", [], {"type": None},
    ],
    "text": [{"format": {"type": "json_schema"}}, {"format": {"type": "text"}}, {}, "x", None],
    "guided_json": [{"type": "object"}, None, {}, False, ""],
    "guided_choice": [["a", "b"], None, []],
    "structured_outputs": [{"regex": "a+"}, {}, {"regex": None}, {"json_object": True}, None, []],
    "tools": [[{"type": "function"}], [], None, {}, "x"],
    "functions": [[{"name": "f"}], [], None],
    "tool_choice": ["none", "auto", None, {"type": "function"}],
    "n": [1, 2],
    "stop": [["\n"], None],
}  # fmt: skip

_OFTEN = {"temperature", "max_tokens", "stream", "model"}
_TEXTS = (
    "hi", "", "```python\nx = 1\n```", "~~~", "a \\frac{1}{2} b", "Translate: cat", "größer als",
    "x" * 1999, "x" * 2000, "é" * 2001, "y" * 8999, "y" * 9000, "\u4f60\u597d", "\U0001f600 ``",
    "$$", "\\", '"', "z" * 70000 + "```", "z" * 65533 + "```", "z" * 65534 + "```", "a\x00b\u2028",
)  # fmt: skip


def _document(chance: random.Random) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, values in _VALUES.items():
        if chance.random() < (0.5 if name in _OFTEN else 0.08):
            found[name] = chance.choice(values)
    name, prompt = chance.choice(
        [
            ("messages", [{"role": "user", "content": _text(chance)}]),
            (
                "messages",
                [{"role": "system", "content": _text(chance)}, {"content": _parts(chance)}],
            ),
            ("prompt", _text(chance)),
            ("prompt", [_text(chance), _text(chance)]),
            ("prompt", [1, 2, 3]),
            ("input", _text(chance)),
            ("input", [{"role": "user", "content": _text(chance)}, "more", 5, None]),
            ("messages", chance.choice([None, {}, "text", [[]], [{"content": None}], []])),
        ]
    )
    found[name] = prompt
    items = list(found.items())
    chance.shuffle(items)
    return dict(items)


def _parts(chance: random.Random) -> list[Any]:
    pieces: list[Any] = [{"type": "text", "text": _text(chance)}, {"type": "image_url"}, None, "no"]
    return chance.sample(pieces, 3)


def _text(chance: random.Random) -> str:
    return chance.choice(_TEXTS)
