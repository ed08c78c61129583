"""Prompt sets: the package's own, and files in the formats that people have."""

import json
import os
import re
from pathlib import Path

import pytest

from specgauge.baseline.prompts import (
    CLASSES,
    Prompt,
    PromptSet,
    parse_prompts,
    read_prompts,
    shipped,
)
from specgauge.errors import UsageError


@pytest.mark.parametrize("name", CLASSES)
def test_each_class_has_its_own_prompts(name: str) -> None:
    """Some two dozen prompts a class, of mixed length, none of them twice."""
    prompts = shipped(name).prompts
    lengths = sorted(len(prompt.text) for prompt in prompts)
    assert len({prompt.text for prompt in prompts}) == len(prompts) >= 24
    assert lengths[-1] > 4 * lengths[0]
    assert {prompt.traffic_class for prompt in prompts} == {name}


def test_the_mixed_set_takes_classes_in_turns() -> None:
    """Without a class every class is there, and each round of five has one of each."""
    mixed = shipped()
    assert (mixed.name, len(mixed.prompts)) == ("mixed", 24 * len(CLASSES))
    assert [prompt.traffic_class for prompt in mixed.prompts[:5]] == list(CLASSES)


def test_the_hash_names_what_is_sent() -> None:
    """Another prompt makes another hash; the same prompts have the same one anywhere."""
    assert re.fullmatch("[0-9a-f]{64}", shipped().sha256)
    assert shipped("chat").sha256 == shipped("chat").sha256 != shipped("code").sha256


def test_prompts_that_do_not_fit_are_left_out() -> None:
    """A short context takes the short prompts only."""
    kept = shipped("chat").fitting(70, 20, 2)
    assert 0 < len(kept.prompts) < 24
    assert max(len(prompt.text) for prompt in kept.prompts) <= 100


def test_answers_that_do_not_fit_are_refused() -> None:
    """A length of its own counts for a prompt; one that fits beside no prompt is an error."""
    found = parse_prompts('{"text": "abcd", "max_tokens": 69}\n"ab"\n"abcde"', source="p")
    asked = PromptSet(name="p", prompts=tuple(found))
    assert [one.text for one in asked.fitting(71, 70, 2).prompts] == ["abcd", "ab"]
    assert [one.text for one in asked.fitting(69, 1, 2).prompts] == ["ab", "abcde"]
    with pytest.raises(UsageError, match=r"--prompts p:1: asks for 69 tokens; .* room for 68; ask"):
        asked.fitting(68, 1, 2)


SHAREGPT = [
    {
        "id": "a",
        "conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Yes"}],
    },
    {"id": "b", "conversations": [{"from": "system", "value": "Be brief"}]},
]
MESSAGES = [{"role": "system", "content": "Be brief"}, {"role": "user", "content": "Hi"}]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param('["Hi", "Ho"]', [Prompt(text="Hi"), Prompt(text="Ho")], id="strings"),
        pytest.param(
            json.dumps([{"text": "Hi", "max_tokens": 9, "class": "chat"}], indent=1),
            [Prompt(text="Hi", tokens=9, traffic_class="chat")],
            id="JSON list",
        ),
        pytest.param(
            json.dumps([{"messages": MESSAGES}]),
            [Prompt(messages=(("system", "Be brief"), ("user", "Hi")))],
            id="messages",
        ),
        pytest.param(
            '{"prompt": "Hi", "output_tokens": 7}\n\n{"prompt": "Ho\u2028Ho"}\n',
            [Prompt(text="Hi", tokens=7), Prompt(text="Ho\u2028Ho")],
            id="vLLM custom",
        ),
        pytest.param(json.dumps(SHAREGPT), [Prompt(text="Hi")], id="ShareGPT"),
        pytest.param(
            '{"question_id": 1, "category": "writing", "turns": ["Hi", "Ho"]}',
            [Prompt(text="Hi", traffic_class="writing")],
            id="Spec-Bench",
        ),
        pytest.param(" [ ] ", [], id="empty list"),
        pytest.param("", [], id="empty file"),
    ],
)
def test_formats_are_told_apart(text: str, expected: list[Prompt]) -> None:
    """JSON lists, JSONL, ShareGPT, vLLM's custom format and Spec-Bench's are read alike."""
    assert parse_prompts(text, source="p") == expected


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param(
            '{"prompt": "a"}\n{"prompt":', r"p:2: not JSON .*one JSON object a line", id="torn"
        ),
        pytest.param(
            '{"prompt": "a"}\n\n{"x": 1}', r'p:3: there is no prompt.*"prompt"', id="none"
        ),
        pytest.param("5", "p:1: there is no prompt", id="a number"),
        pytest.param('[\n"a",\n{"x": 1}\n]', "p:3: there is no prompt", id="in a list"),
        pytest.param('[\n"a",\nb]', r"p:3: not JSON .*fix the entry", id="broken list"),
        pytest.param('["a"\n"b"]', "p:2: the list goes on without a comma", id="no comma"),
        pytest.param('["a"', "p:1: the list goes on without a comma or a ]", id="no end"),
        pytest.param("[" * 5000, "p:1: not JSON", id="deep"),
        pytest.param("[" * 5000 + "\n{}", "p:1: not JSON", id="deep with a line"),
        pytest.param('{"messages": []}', "p:1: a conversation is a list", id="no turns"),
        pytest.param('{"messages": "Hi"}', "p:1: a conversation is a list", id="turns no list"),
        pytest.param('{"messages": [5]}', 'p:1: a turn needs "role"', id="turn no object"),
        pytest.param(
            '{"conversations": [{"from": "human"}]}', 'needs "from" and "value"', id="half"
        ),
        pytest.param('{"turns": []}', "p:1: there is no prompt", id="no first turn"),
        pytest.param('{"prompt": " "}', "p:1: there is no prompt", id="blank"),
        pytest.param(
            '{"prompt": "a"}\n{"prompt": "\\ud800"}',
            "^p:2: prompt: half of a surro",
            id="half a pair",
        ),
        pytest.param('"\\udfff"', "^p:1: the text: half of a surrogate", id="half a pair alone"),
        pytest.param(
            '[{"messages": [{"role": "user", "content": "a\\ud83d"}]}]',
            r"^p:1: messages\[0\]\.content: half of a surrogate",
            id="half a pair within",
        ),
        pytest.param('{"prompt": "a", "class": "\\ud800"}', "^p:1: class: half", id="half a class"),
        pytest.param('{"prompt": "a", "max_tokens": 0}', 'p:1: "max_tokens" is 0', id="no tokens"),
        pytest.param(
            '{"prompt": "a", "max_tokens": "9"}', "\"max_tokens\" is '9'", id="text tokens"
        ),
    ],
)
def test_faults_have_a_line_and_a_fix(text: str, told: str) -> None:
    """What cannot be read is named by file and line, with what is expected."""
    with pytest.raises(UsageError, match=told):
        parse_prompts(text, source="p")


def test_a_file_is_read_with_its_class(tmp_path: Path) -> None:
    """A class picks from a file that has several."""
    file = tmp_path / "mine.jsonl"
    file.write_text('{"text": "a", "class": "chat"}\n{"text": "b", "class": "code"}\n')
    assert (read_prompts(file).name, len(read_prompts(file).prompts)) == ("mine", 2)
    only = read_prompts(file, "code")
    assert (only.name, [prompt.text for prompt in only.prompts]) == ("code", ["b"])
    with pytest.raises(UsageError, match="no prompt of the class tools in it"):
        read_prompts(file, "tools")


@pytest.mark.parametrize(
    ("data", "told"),
    [
        pytest.param(None, "No such file", id="not there"),
        pytest.param(b"\xff\xfe", "not UTF-8", id="not UTF-8"),
        pytest.param(b"\n", "no prompt in it", id="empty"),
    ],
)
def test_unreadable_files_are_named(tmp_path: Path, data: bytes | None, told: str) -> None:
    """A file that gives no prompt is named with the reason."""
    file = tmp_path / "mine.jsonl"
    if data is not None:
        file.write_bytes(data)
    with pytest.raises(UsageError, match=f"--prompts .*mine.jsonl: {told}"):
        read_prompts(file)


def test_prompts_are_written_for_both_endpoints() -> None:
    """A text becomes a user's message, and messages become text with their roles."""
    plain, talk = Prompt(text="Hi"), Prompt(messages=(("system", "Be brief"), ("user", "Hi")))
    assert plain.as_messages() == [{"role": "user", "content": "Hi"}]
    assert talk.as_messages() == MESSAGES
    assert (plain.as_text(), talk.as_text()) == ("Hi", "system: Be brief\n\nuser: Hi")


def test_a_mark_comes_first() -> None:
    """A mark changes the beginning, which is where prefix caches look."""
    assert Prompt(text="Hi", tokens=3).marked("[7]") == Prompt(text="[7] Hi", tokens=3)
    talk = Prompt(messages=(("system", "Be brief"), ("user", "Hi"))).marked("[7]")
    assert talk.messages == (("system", "[7] Be brief"), ("user", "Hi"))


def test_text_that_is_not_used_may_be_broken() -> None:
    """Half of a surrogate pair in what is not sent is nobody's trouble, nor is a whole one."""
    kept = parse_prompts('{"prompt": "\\ud83d\\ude00", "answer": "\\ud800"}', source="p")
    assert [one.text for one in kept] == ["\U0001f600"]


def test_a_file_name_that_is_no_text_names_a_set(tmp_path: Path) -> None:
    """The name goes into the baseline, where only text can stand."""
    file = tmp_path / os.fsdecode(b"a\xff.txt")
    file.write_text('"Hi"')
    assert read_prompts(file).name.encode() == "a\ufffd".encode()
