"""Log lines: one event, one line, whatever its values hold."""

import io
import logging
import re
import sys

import pytest
from tests.sidecars import LINE

from specgauge.serve.log import Log


def told(event: str, **fields: object) -> str:
    """Log one event and return its line without the time."""
    stream = io.StringIO()
    Log(stream).info(event, **fields)
    line = stream.getvalue()
    assert line.endswith("\n")
    assert LINE.fullmatch(line[:-1])
    return line[:-1].split(" ", 1)[1]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("plain", "plain", id="word"),
        pytest.param("http://[::1]:9843/a?b", '"http://[::1]:9843/a?b"', id="query"),
        pytest.param("http://127.0.0.1:9843", "http://127.0.0.1:9843", id="url"),
        pytest.param("two words", '"two words"', id="blank"),
        pytest.param('say "no"', '"say \\"no\\""', id="quote"),
        pytest.param("", '""', id="empty"),
        pytest.param("a\nb\r", '"a\\nb\\r"', id="line ends"),
        pytest.param("\x1b[31m", '"\\u001b[31m"', id="escape codes"),
        pytest.param("a=b", '"a=b"', id="equals"),
        pytest.param(3, "3", id="integer"),
        pytest.param(0.25, "0.25", id="float"),
        pytest.param(1 / 3, "0.333333", id="long float"),
        pytest.param(None, "None", id="none"),
        pytest.param("größer", '"größer"', id="letters"),
    ],
)
def test_value(value: object, expected: str) -> None:
    """A value with anything but plain characters is quoted as in JSON."""
    assert told("event", key=value) == f"info event key={expected}"


def test_levels() -> None:
    """A line says when in UTC, how grave, and what; fields keep their order."""
    stream = io.StringIO()
    log = Log(stream)
    log.info("one", b=1, a=2)
    log.warning("two")
    lines = stream.getvalue().splitlines()
    assert [line.split(" ", 1)[1] for line in lines] == ["info one b=1 a=2", "warning two"]


def test_fault_is_one_line() -> None:
    """A fault of our own has its whole traceback, in one line."""
    stream = io.StringIO()
    try:
        int("at\nonce")
    except ValueError:
        Log(stream).fault("scrape_fault", target="a")
    (line,) = stream.getvalue().splitlines()
    assert re.fullmatch(r'\S+ error scrape_fault target=a error="Traceback .*at\\\\nonce.*"', line)


def test_streams_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    """By default it goes to stderr; no logger of the program's is touched."""
    before = logging.getLogger().handlers.copy()
    Log().info("one")
    Log(sys.stdout).info("two")
    told_out, told_err = capsys.readouterr()
    assert ("two" in told_out, "one" in told_err) == (True, True)
    assert logging.getLogger().handlers == before
    assert "specgauge" not in logging.root.manager.loggerDict
