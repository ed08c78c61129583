"""The production-stack backend on real files, read as the router of vLLM production-stack reads."""

import asyncio
import json
import os
import threading
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import yaml

from specgauge.errors import ConfigError
from specgauge.guard.flags.production_stack import ProductionStack, ProductionStackTerms, faults
from specgauge.guard.flags.protocol import FlagError, WriteResult

SPEC = {
    "service_discovery": "static",
    "routing_logic": "roundrobin",
    "static_backends": "http://spec-0:8000,http://spec-1:8000",
    "static_models": "llama,llama",
}
STANDARD = {
    **SPEC,
    "static_backends": "http://standard-0:8000,http://standard-1:8000",
}
DEADLINE = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """The watched file and the two that are put in its place."""

    file: Path
    on: Path
    off: Path

    @property
    def names(self) -> list[str]:
        """What lies in their folder."""
        return [path.name for path in self.file.parent.iterdir()]

    @property
    def terms(self) -> ProductionStackTerms:
        """The three as terms."""
        return ProductionStackTerms(file=str(self.file), on=str(self.on), off=str(self.off))


def lay(folder: Path, suffix: str) -> Files:
    """Lay the two configurations down, in JSON or YAML."""
    on, off, file = (folder / f"{name}.{suffix}" for name in ("on", "off", "dynamic"))
    write = json.dumps if suffix == "json" else yaml.safe_dump
    on.write_text(write(SPEC))
    off.write_text(write(STANDARD))
    return Files(file=file, on=on, off=off)


async def failure(flag: ProductionStack, *, write: bool | None = None) -> FlagError:
    """Read or write what must fail."""
    with pytest.raises(FlagError) as found:
        await (flag.read() if write is None else flag.write(on=write))
    return found.value


@pytest.mark.parametrize("suffix", ["json", "yaml"])
async def test_both_values_there_and_back(tmp_path: Path, suffix: str) -> None:
    """The file is one of the two, byte for byte, and reads as what was written."""
    files = lay(tmp_path, suffix)
    flag = ProductionStack(files.terms)
    assert await flag.read() is None
    for value in (False, True, True, False, False, True):
        await flag.write(on=value)
        assert await flag.read() is value
        source = files.on if value else files.off
        assert files.file.read_bytes() == source.read_bytes()
    assert len(files.names) == 3
    assert flag.place == str(files.file)
    assert (flag.name, flag.can_read) == ("production-stack", True)
    await flag.close()


async def test_what_counts_is_what_the_file_says(tmp_path: Path) -> None:
    """Order, blanks and comments make no difference: the router would not see one either."""
    files = lay(tmp_path, "yaml")
    files.file.write_text(
        "# by hand\n" + yaml.safe_dump(dict(reversed(STANDARD.items())), sort_keys=False)
    )
    assert await ProductionStack(files.terms).read() is False


@pytest.mark.parametrize("suffix", ["json", "yaml"])
async def test_a_reader_never_sees_half_a_file(tmp_path: Path, suffix: str) -> None:
    """Whenever a router looks, the file parses and is whole."""
    files = lay(tmp_path, suffix)
    flag = ProductionStack(files.terms)
    await flag.write(on=True)
    load = json.loads if suffix == "json" else yaml.safe_load
    seen = []
    done = threading.Event()

    def watch() -> None:
        while not done.is_set():
            seen.append(load(files.file.read_text())["static_backends"])

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        for value in (False, True) * 20:
            await flag.write(on=value)
    finally:
        done.set()
        watcher.join(DEADLINE)
    assert seen
    assert set(seen) <= {SPEC["static_backends"], STANDARD["static_backends"]}


@pytest.mark.parametrize(
    ("suffix", "broken", "words"),
    [
        ("json", "{", "is no JSON: Expecting property name"),
        ("json", "service_discovery: static", "is no JSON"),
        ("yaml", "a: [", "is no YAML"),
        ("yaml", "a: \x07", "is no YAML"),
        ("yaml", "- a", "holds no settings"),
        ("json", "{}", "holds no settings"),
        ("yaml", "", "holds no settings"),
        ("json", "[" * 100_000, "is no JSON"),
        ("yaml", "#" * (1024 * 1024 + 1), "is it the right file?"),
    ],
    ids=["cut", "yaml for json", "cut yaml", "bell", "list", "nothing", "empty", "deep", "large"],
)
async def test_what_the_router_could_not_read_is_not_put_there(
    tmp_path: Path, suffix: str, broken: str, words: str
) -> None:
    """A source that does not parse is named, and the watched file stays as it was."""
    files = lay(tmp_path, suffix)
    flag = ProductionStack(files.terms)
    await flag.write(on=True)
    before = files.file.read_bytes()
    files.off.write_text(broken)
    error = await failure(flag, write=False)
    assert error.result is WriteResult.UNREADABLE
    assert error.detail.startswith(str(files.off))
    assert words in error.detail
    assert files.file.read_bytes() == before


async def test_a_source_that_is_missing_is_named(tmp_path: Path) -> None:
    """Without one of the two files nothing is written."""
    files = lay(tmp_path, "json")
    files.on.unlink()
    error = await failure(ProductionStack(files.terms), write=True)
    assert (error.result, str(files.on) in error.detail) == (WriteResult.IO, True)
    assert not files.file.exists()


async def test_two_that_say_the_same_switch_nothing(tmp_path: Path) -> None:
    """Sources without a difference are refused: such a flag would read as on and off."""
    files = lay(tmp_path, "yaml")
    files.off.write_text(json.dumps(SPEC))
    error = await failure(ProductionStack(files.terms), write=False)
    assert (error.result, "say the same" in error.detail) == (WriteResult.REFUSED, True)


async def test_a_foreign_configuration_is_no_value(tmp_path: Path) -> None:
    """What is neither of the two reads as neither, and can be replaced."""
    files = lay(tmp_path, "json")
    files.file.write_text(json.dumps({**SPEC, "static_backends": "http://other:8000"}))
    flag = ProductionStack(files.terms)
    error = await failure(flag)
    assert (error.result, "says neither what" in error.detail) == (WriteResult.UNREADABLE, True)
    await flag.write(on=False)
    assert await flag.read() is False


async def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    """Where the watched file cannot lie the error says what to create."""
    (tmp_path / "sources").mkdir()
    files = lay(tmp_path / "sources", "json")
    flag = ProductionStack(replace(files, file=tmp_path / "none" / "dynamic.json").terms)
    error = await failure(flag, write=True)
    assert error.result is WriteResult.IO
    assert f"create the folder {tmp_path}/none" in error.detail


async def test_a_disk_that_hangs_is_given_up_and_writes_nothing_later(tmp_path: Path) -> None:
    """A source that never comes ends in a timeout; when it comes after all nothing is replaced."""
    files = lay(tmp_path, "json")
    files.file.write_text(json.dumps(SPEC))
    text = files.off.read_text()
    files.off.unlink()
    os.mkfifo(files.off)
    flag = ProductionStack(files.terms, timeout=0.2)
    error = await failure(flag, write=False)
    assert (error.result, "within 0.2 s" in error.detail) == (WriteResult.TIMEOUT, True)
    files.off.write_text(text)  # lets the thread that hangs go on
    await asyncio.get_running_loop().shutdown_default_executor()
    assert json.loads(files.file.read_text()) == SPEC


def test_faults_are_named_with_their_path() -> None:
    """Three names must be three files."""
    terms = ProductionStackTerms(file="a.json", on="a.json", off="b.json")
    (line,) = faults(terms)
    assert line.startswith("flag.production-stack: ")
    with pytest.raises(ConfigError):
        ProductionStack(terms)
