"""Checks answers by a command or a JSON schema; each check says why a text does not pass."""

import asyncio
import importlib
import json
import os
import re
import shlex
import shutil
import signal
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from specgauge.errors import UsageError
from specgauge.units import quote

Check = Callable[[str], Awaitable[str | None]]
"""Takes an answer; gives None where it passes, else why not."""

_MOST_BYTES = 16 << 20
_SHOWN = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A program that gets an answer on standard input and ends with 0 if it is good."""

    arguments: Sequence[str]
    timeout: float

    async def __call__(self, text: str) -> str | None:
        """Run it once; whatever it prints is dropped."""
        try:
            process = await asyncio.create_subprocess_exec(
                *self.arguments,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "it cannot be run"
            raise UsageError(f"--validate {self.arguments[0]}: {reason}") from None
        try:
            async with asyncio.timeout(self.timeout):
                with suppress(ConnectionError):  # it need not read
                    await process.communicate(text.encode(errors="replace"))
                await process.wait()
        except TimeoutError:
            return f"did not end within {self.timeout:g} s"
        finally:
            with suppress(ProcessLookupError):  # what it has left behind ends with it
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        return None if process.returncode == 0 else f"exit code {process.returncode}"


def command(line: str, timeout: float) -> Command:
    """Read a command line, which no shell sees; UsageError where there is no such program."""
    try:
        arguments = shlex.split(line)
    except ValueError as problem:
        raise UsageError(f"--validate {quote(line)}: {problem}") from None
    if not arguments or shutil.which(arguments[0]) is None:
        named = arguments[0] if arguments else ""
        raise UsageError(f"--validate {quote(named)}: no such program; give its path")
    return Command(arguments=arguments, timeout=timeout)


def schema(path: Path) -> Check:
    """Read a JSON schema; UsageError for a file that is none or a library that is missing."""
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        document = json.loads(data.decode("utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or f"not JSON ({error})"
        raise UsageError(f"--schema {path}: {reason}") from None
    if len(data) > _MOST_BYTES or not isinstance(document, dict | bool):
        raise UsageError(
            f"--schema {path}: no JSON schema; an object of at most 16 MiB is expected"
        )
    first_fault = _validator(document, path)
    first_fault(None)  # some of what cannot be resolved shows before any load

    async def check(text: str) -> str | None:
        try:
            answer = json.loads(text)
        except (ValueError, RecursionError):
            return "no JSON"
        fault = first_fault(answer)
        return None if fault is None else f"against the schema at {fault}"

    return check


def _validator(document: object, path: Path) -> Callable[[object], str | None]:
    """Make what names the place of an answer's first fault; it fetches nothing."""
    try:
        library = importlib.import_module("jsonschema")
        referencing = importlib.import_module("referencing")
    except ImportError:
        fix = "pip install jsonschema, or check with --validate COMMAND"
        raise UsageError(f"jsonschema is not installed; {fix}") from None
    kind = library.validators.validator_for(document, default=library.Draft202012Validator)
    try:
        kind.check_schema(document)
    except library.exceptions.SchemaError as fault:
        told = fault.message[:_SHOWN]
        raise UsageError(f"--schema {path}: {fault.json_path}: {told}") from None
    validator = kind(document, registry=referencing.Registry())

    def first_fault(answer: object) -> str | None:
        try:
            fault = next(iter(validator.iter_errors(answer)), None)
        except RecursionError:
            return "$ (nested too deeply)"
        except (referencing.exceptions.Unresolvable, re.error) as problem:
            told = f"{str(problem)[:_SHOWN]}; nothing is fetched, put what $ref names in the file"
            raise UsageError(f"--schema {path}: {told}") from None
        return None if fault is None else str(fault.json_path)

    return first_fault
