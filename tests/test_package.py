"""The installed package as a user gets it; also run on the built wheel with the source deleted."""

import json
import re
import subprocess
import sys
from importlib.metadata import metadata, version
from importlib.resources import files
from pathlib import Path

import pytest

import specgauge
from specgauge.cli.main import main

pytestmark = pytest.mark.package

PAGE = Path(__file__).parent / "data" / "small_page.prom"
SCRIPT = str(Path(sys.executable).parent / "specgauge")
MODULE = [sys.executable, "-m", "specgauge"]
COMMANDS = (
    "advise", "baseline", "checklist", "compare", "config", "demo", "doctor", "draft", "flags",
    "guard", "inspect", "memory", "render", "report", "route", "serve", "sweep", "verdict",
)  # fmt: skip
NESTED = (
    "baseline record", "checklist pin", "config check", "config schema", "draft check",
    "draft suggest", "flags check", "flags show", "flags translate", "guard replay",
    "guard status", "route explain", "sweep predict",
)  # fmt: skip
EVERY_COMMAND = ("", *COMMANDS, *NESTED)


def answer(*command: str, stdin: str = "") -> str:
    """Run a command that must succeed and return what it printed."""
    run = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_version_is_that_of_the_metadata() -> None:
    """The version stands in one place, and the package and the command line say the same."""
    assert version("specgauge") == specgauge.__version__
    assert version("specgauge") in answer(SCRIPT, "--version")
    assert answer(SCRIPT, "--version") == answer(*MODULE, "--version")


def test_package_is_typed() -> None:
    """Type checkers of others see the types: py.typed is installed."""
    assert files("specgauge").joinpath("py.typed").is_file()


def test_metadata_tells_licence_and_python() -> None:
    """Whoever looks at the installed package sees its licence and the Python it needs."""
    told = metadata("specgauge")
    assert told["License-Expression"] == "Apache-2.0"
    assert told["Requires-Python"] == ">=3.11"


def test_help_lists_the_commands() -> None:
    """`specgauge --help` lists exactly the commands there are."""
    _, _, listed = answer(SCRIPT, "--help").partition("Commands:\n")
    names = re.findall(r"^  (\w+)(?:  |$)", listed.split("\n\n")[0], flags=re.MULTILINE)
    assert list(COMMANDS) == sorted(names)


@pytest.mark.parametrize("command", EVERY_COMMAND, ids=lambda c: c.replace(" ", "-") or "top")
def test_help_ends_with_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The help of every command ends with a line to copy."""
    assert main([*command.split(), "--help"]) == 0
    last = capsys.readouterr().out.strip().splitlines()[-1].strip()
    assert last.removeprefix("$ ").startswith(f"specgauge {command}".strip())


def test_module_and_script_are_one_program() -> None:
    """`python -m specgauge` calls itself specgauge in its help, like the script."""
    assert answer(SCRIPT, "--help") == answer(*MODULE, "--help")


def test_schema_is_json() -> None:
    """`specgauge config schema` prints a JSON Schema that forbids unknown keys."""
    schema = json.loads(answer(SCRIPT, "config", "schema"))
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False


def test_inspect_reads_a_page() -> None:
    """`specgauge inspect` reads a page from standard input with no more than was installed."""
    told = json.loads(answer(SCRIPT, "inspect", "--json", "-", stdin=PAGE.read_text()))
    assert told["schema"] == "specgauge.inspect/v1"
    assert [
        (m["model_name"], m["acceptance_ratio"], m["num_speculative_tokens"])
        for m in told["models"]
    ] == [("small", 0.55, 4)]
