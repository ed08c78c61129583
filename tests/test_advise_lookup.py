"""Prompt lookup: what it drafts, against a search by hand and a decoder that really decodes."""

import contextlib
import json
import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specgauge.errors import UsageError
from specgauge.preflight.advise.exchanges import parse_exchanges
from specgauge.preflight.advise.lookup import Lookup, Tally, Text, Token, add, replay
from specgauge.preflight.advise.pieces import cut

LOOKUP = Lookup(draft_tokens=4, shortest=2, longest=4)


def drafted(tokens: Sequence[Token], lookup: Lookup) -> list[Token]:
    """Draft by searching the whole text anew, longest run first, earliest place first."""
    for length in range(lookup.longest, lookup.shortest - 1, -1):
        if length >= len(tokens):
            continue
        wanted = list(tokens[len(tokens) - length :])
        for start in range(len(tokens) - length):
            if list(tokens[start : start + length]) == wanted:
                after = start + length
                return list(tokens[after : after + lookup.draft_tokens])
    return []


@pytest.mark.parametrize(
    ("text", "draft"),
    [
        pytest.param("", "", id="nothing"),
        pytest.param("a", "", id="one token"),
        pytest.param("abcd", "", id="nothing repeats"),
        pytest.param("abXcdab", "Xcda", id="two match"),
        pytest.param("abXabYab", "XabY", id="the earliest place counts"),
        pytest.param("abcQbcRabc", "QbcR", id="the longest run counts"),
        pytest.param("aXa", "", id="one is too short"),
        pytest.param("aaa", "a", id="a run may overlap itself"),
        pytest.param("abcdeZZabcde", "ZZab", id="no longer than allowed"),
    ],
)
def test_what_is_drafted(text: str, draft: str) -> None:
    """The draft is what followed the longest run's earliest place."""
    known = Text(lookup=LOOKUP)
    known.extend(text)
    assert "".join(map(str, known.draft())) == draft


@given(
    st.lists(st.integers(0, 3), max_size=40),
    st.integers(1, 3),
    st.integers(0, 3),
    st.integers(1, 6),
)
@settings(max_examples=150, deadline=None)
def test_drafts_are_those_of_a_plain_search(
    tokens: list[int], shortest: int, more: int, draft_tokens: int
) -> None:
    """The index gives what searching the text from its beginning gives."""
    lookup = Lookup(draft_tokens=draft_tokens, shortest=shortest, longest=shortest + more)
    known = Text(lookup=lookup)
    known.extend(tokens)
    assert list(known.draft()) == drafted(tokens, lookup)


def decode(prompt: list[int], length: int, chance: random.Random) -> tuple[list[int], Tally]:
    """Decode a known text greedily with drafts, step by step, counting like an engine does."""
    source = [chance.randrange(6) for _ in range(8)] * 40
    told = source[:length]
    text, steps, drafts, tokens = [*prompt, told[0]], 0, 0, 0
    positions = [0] * LOOKUP.draft_tokens
    while (done := len(text) - len(prompt)) < length:
        draft = drafted(text, LOOKUP)[: length - done]
        steps, drafts, tokens = steps + 1, drafts + bool(draft), tokens + len(draft)
        for at, token in enumerate(draft):
            if token != told[done + at]:
                break
            positions[at] += 1
            text.append(token)
        if len(text) - len(prompt) < length:
            text.append(told[len(text) - len(prompt)])
    assert text == [*prompt, *told]
    tally = Tally(
        requests=1,
        prompt_tokens=len(prompt),
        output_tokens=length,
        steps=steps,
        drafts=drafts,
        draft_tokens=tokens,
        positions=tuple(positions),
    )
    return told, tally


@pytest.mark.parametrize("seed", range(12))
def test_a_replay_counts_what_a_decoder_counts(seed: int) -> None:
    """Replaying an answer gives the steps, drafts and positions of the decoder that wrote it."""
    chance = random.Random(seed)  # noqa: S311 - a test
    prompt = [chance.randrange(6) for _ in range(chance.randrange(30))]
    told, truth = decode(prompt, chance.randrange(1, 120), chance)
    assert replay(prompt, told, LOOKUP) == truth


def test_the_figures_of_a_tally() -> None:
    """Ratios are of sums, and not known where nothing was drafted or decoded."""
    nothing = replay("abc", "d", LOOKUP)
    assert (nothing.steps, nothing.acceptance_ratio, nothing.tokens_per_step) == (0, None, None)
    assert (nothing.coverage, nothing.acceptance_length, nothing.positions_ratio) == (None,) * 2 + (
        (),
    )
    copied = replay("one two three four ", "one two three four ", LOOKUP)
    both = add([nothing, copied])
    assert both.requests == 2
    assert both.accepted == copied.accepted
    assert both.acceptance_ratio == copied.acceptance_ratio
    assert copied.tokens_per_step == 1 + copied.accepted / copied.steps
    assert copied.acceptance_length == pytest.approx(1 + 4 * (copied.acceptance_ratio or 0), abs=1)
    assert add([]) == Tally()


def test_the_repeating_model_of_the_recordings() -> None:
    """A model that repeats itself is accepted about as often as the recorded one, 62 to 65 %."""
    chance = random.Random(5)  # noqa: S311 - a test
    tallies = []
    for _ in range(30):
        phrase = [chance.randrange(2000) for _ in range(chance.randrange(12, 40))]
        output: list[int] = []
        while len(output) < 96:
            output += [t if chance.random() > 0.08 else chance.randrange(2000) for t in phrase]
        tallies.append(replay(phrase, output[:96], LOOKUP))
    assert 0.5 < (add(tallies).acceptance_ratio or 0.0) < 0.9


@pytest.mark.parametrize(
    "text",
    [
        "",
        "def f(x):\n    return x_1 + 12345",
        "Zażółć gęślą jaźń",
        "   \n\n\t a",
        "漢字かな交じり文",
        "🙂",
    ],
)
def test_pieces_are_the_text(text: str) -> None:
    """Cutting loses nothing, and cuts equal text equally."""
    assert "".join(cut(text)) == text
    assert cut(f"{text} again")[: len(cut(text))][:1] == cut(text)[:1]


def test_pieces_are_about_tokens() -> None:
    """English has some four to six characters a piece."""
    text = "Speculative decoding proposes several tokens and checks them in a single pass. " * 5
    assert 4.0 < len(text) / len(cut(text)) < 6.5


@pytest.mark.parametrize(
    ("line", "prompt", "output"),
    [
        pytest.param('{"prompt": "p", "output": "o"}', "p", "o", id="plain"),
        pytest.param('{"text": "p", "completion": "o"}', "p", "o", id="completion"),
        pytest.param(
            '{"messages": [{"role": "user", "content": "p"}, '
            '{"role": "assistant", "content": "o"}]}',
            "user: p",
            "o",
            id="messages that end with the answer",
        ),
        pytest.param(
            '{"messages": [{"role": "user", "content": [{"type": "text", "text": "p"}]}, '
            '{"role": "assistant", "content": [{"type": "text", "text": "o"}, '
            '{"type": "text", "text": "k"}]}]}',
            "user: p",
            "ok",
            id="content in parts",
        ),
        pytest.param(
            '{"messages": [{"role": "user", "content": "p"}], "response": "o"}',
            "user: p",
            "o",
            id="messages and an answer",
        ),
        pytest.param(
            '{"conversations": [{"from": "human", "value": "p"}, {"from": "gpt", "value": "o"},'
            ' {"from": "human", "value": "q"}, {"from": "gpt", "value": "r"}]}',
            "p",
            "o",
            id="ShareGPT, the first turn",
        ),
        pytest.param(
            '{"prompt": "p", "response": {"choices": [{"message": {"content": "o"}}]}}',
            "p",
            "o",
            id="a chat response",
        ),
        pytest.param('{"prompt": "p", "choices": [{"text": "o"}]}', "p", "o", id="a completion"),
        pytest.param(
            '{"prompt": "p", "prompt_token_ids": [1, 2], "token_ids": [3]}',
            (1, 2),
            (3,),
            id="tokens",
        ),
    ],
)
def test_exchanges(line: str, prompt: object, output: object) -> None:
    """A prompt and its answer are found in every format that prompts come in."""
    for text in (line, f"[{line}]"):
        (found,) = parse_exchanges(text, source="file").exchanges
        assert (found.prompt, found.output) == (prompt, output)


@pytest.mark.parametrize(
    "line",
    [
        '{"prompt": "p"}',
        '{"prompt": "p", "prompt_token_ids": [1], "token_ids": []}',
        '"p"',
        "3",
        '{"prompt": "p", "output": ""}',
        '{"prompt": "p", "choices": []}',
        '{"prompt": "p", "choices": [{"message": {"content": null}}]}',
        '{"prompt": "p", "output": 3, "choices": 4}',
        '{"messages": ["p", {"role": "assistant", "content": [{"text": "o"}, {"url": "i"}]}]}',
        '{"conversations": [{"from": "gpt", "value": "o"}]}',
        '{"conversations": [{"from": "system", "value": "s"}, {"from": "gpt", "value": "o"}]}',
    ],
)
def test_entries_without_an_answer(line: str) -> None:
    """Entries without an answer are counted; a file of nothing else is refused."""
    found = parse_exchanges(f'{line}\n\n{{"prompt": "p", "output": "o"}}', source="file")
    assert (len(found.exchanges), found.unanswered) == (1, 1)
    with pytest.raises(UsageError, match="no recorded answer"):
        parse_exchanges(line, source="file")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "file:1: not JSON"),
        ('{"prompt": "p", "output": "o"}\n[', "file:2: not JSON"),
        ("[" * 100_000, "file: an entry is nested too deep"),
        ('{"messages": [{"role": "user"}, {"role": "assistant", "content": "o"}]}', "file:1:1"),
        ('[{"output": "o"}]', "file: entry 1:1"),
        ('{"prompt_token_ids": [1], "token_ids": ["a"]}', "file:1: tokens are whole numbers"),
        ('{"prompt": "p", "output": "\\ud800"}', "file:1: half of a surrogate"),
        ('{"prompt": "\\ud800", "output": "o"}', "file:1:1"),
    ],
)
def test_files_that_are_amiss(text: str, told: str) -> None:
    """A line that cannot be read is named."""
    with pytest.raises(UsageError) as problem:
        parse_exchanges(text, source="file")
    assert str(problem.value).startswith(told)


@pytest.mark.parametrize("name", ["prompt", "messages", "conversations", "output", "choices"])
@pytest.mark.parametrize(
    "value",
    [None, True, 1.5, "x", [], {}, [{}], {"a": 1}, [{"from": []}, {"role": {}}]],
    ids=repr,
)
def test_any_value_may_stand_anywhere(name: str, value: Any) -> None:
    """Whatever JSON an entry is, it is an exchange, unanswered, or refused in words."""
    entry = {"prompt": "p", "output": "o", name: value}
    with contextlib.suppress(UsageError):
        found = parse_exchanges(json.dumps(entry), source="f")
        assert len(found.exchanges) == 1
