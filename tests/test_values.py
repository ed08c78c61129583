"""Kinds of values on every command line there is: finite numbers, paths that we read ourselves."""

import os
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from specgauge.cli.main import cli, main
from specgauge.cli.values import READ_BY_US, FiniteRange, plain

Out = pytest.CaptureFixture[str]


def commands(
    group: click.Group = cli, words: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """List every command with the words that call it."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, (*words, name))
        else:
            yield (*words, name), command


def kinds(parameter: click.Parameter) -> "tuple[click.ParamType[object], ...]":
    """Give the type of a parameter, or those of its values."""
    kind = parameter.type
    return tuple(kind.types) if isinstance(kind, click.Tuple) else (kind,)


NUMBERS = [
    pytest.param(words, parameter, id=f"{' '.join(words)} {parameter.opts[0]}")
    for words, command in commands()
    for parameter in command.params
    if any(isinstance(one, type(click.FLOAT)) for one in kinds(parameter))
]


def test_there_are_numbers() -> None:
    """The list below is of what there is."""
    assert len(NUMBERS) >= 6


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "-NaN", "1e999"])
@pytest.mark.parametrize(("words", "parameter"), NUMBERS)
def test_numbers_are_finite(
    words: tuple[str, ...], parameter: click.Parameter, value: str, capsys: Out
) -> None:
    """Whichever option takes a number, it is named where what it is given is none."""
    option = parameter.opts[0]
    given = ["x"] * (parameter.nargs - 1)
    assert main([*words, option, *given, value]) == 2
    err = capsys.readouterr().err
    assert f"'{option}" in err
    assert "is not a finite number" in err
    assert all(isinstance(one, FiniteRange) for one in kinds(parameter) if one is not READ_BY_US)


@pytest.mark.parametrize(
    ("value", "told"), [("x", "is not a valid float"), ("0.6", "is not in the range")]
)
def test_other_faults_are_told_as_before(value: str, told: str, capsys: Out) -> None:
    """What is no number, or out of range, is click's to tell."""
    assert main(["verdict", "--margin", value]) == 2
    assert told in capsys.readouterr().err


def test_facts_are_text(capsys: Out) -> None:
    """What is no UTF-8 cannot be written, and is refused before anything is measured."""
    for words in (["observe"], ["record"]):
        given = ["--url", "http://127.0.0.1:9", "-o", "-", "--gpu", os.fsdecode(b"a\xff")]
        assert main(["baseline", *words, *given]) == 2
        assert capsys.readouterr().err == "specgauge: --gpu: a\\udcff is not UTF-8\n"


READING = [
    pytest.param(parameter, id=f"{' '.join(words)} {parameter.opts[0]}")
    for words, command in commands()
    if words[0] in {"baseline", "verdict"}
    for parameter in command.params
    if any(isinstance(one, click.Path) for one in kinds(parameter))
]


@pytest.mark.parametrize("parameter", READING)
def test_paths_are_read_by_us(parameter: click.Parameter) -> None:
    """Click would end with the code of a wrong command line where a file cannot be read."""
    assert all(not one.readable for one in kinds(parameter) if isinstance(one, click.Path))


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is unreadable to the superuser")
def test_files_that_may_not_be_read(tmp_path: Path, capsys: Out) -> None:
    """They are sources that cannot be read."""
    file = tmp_path / "x"
    file.write_text("")
    file.chmod(0)
    for words in (
        ["verdict", "--baseline", file, "--window", "1", file, file],
        ["verdict", "--baseline", file, "--timeline", file],
        ["baseline", "show", file],
        ["baseline", "diff", file, file],
        ["baseline", "check", "--url", "http://127.0.0.1:9", file],
        ["baseline", "import", file, "-o", tmp_path / "b"],
        ["baseline", "from-pages", "-o", tmp_path / "b", "--timeline", file],
        ["baseline", "from-pages", "-o", tmp_path / "b", "--page", file, file, "1"],
    ):
        assert main([str(word) for word in words]) == 3
        assert f"{file}: Permission denied" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("model-7B é 模型", "model-7B é 模型"),
        ("\x1b[31m", r"\x1b[31m"),
        ("a\nb\x7f\x9b\u202e\ud800", r"a\nb\x7f\x9b\u202e\ud800"),
        ("", ""),
    ],
)
def test_text_for_a_terminal(text: str, shown: str) -> None:
    """What a terminal would obey is spelled out; letters of any script stay."""
    assert plain(text) == shown
