"""Flags that lie on the machine itself: in a file, or behind commands."""

import asyncio
import os
import stat
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from specgauge.errors import ConfigError
from specgauge.guard.flags.atomic import write_atomically
from specgauge.guard.flags.exec import Exec, ExecTerms
from specgauge.guard.flags.family import end_family
from specgauge.guard.flags.file import File, FileTerms
from specgauge.guard.flags.protocol import FlagError, WriteResult

PYTHON = sys.executable
as_a_user = pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def test_file(tmp_path: Path) -> None:
    """The file holds the flag, is replaced whole, and is read back."""
    path = tmp_path / "flag"
    backend = File(FileTerms(path=str(path)))
    assert await backend.read() is None
    for on, text in ((True, "true\n"), (False, "false\n")):
        await backend.write(on)
        assert path.read_text() == text
        assert await backend.read() is on
    await backend.close()
    assert names_in(tmp_path) == ["flag"]
    assert (backend.name, backend.place, backend.can_read) == ("file", str(path), True)


async def test_file_texts(tmp_path: Path) -> None:
    """The texts for on and off are the user's own, and blanks around them do not matter."""
    path = tmp_path / "pool.conf"
    backend = File(FileTerms(path=str(path), on="set $pool fast;\n", off="set $pool plain;"))
    await backend.write(on=True)
    assert path.read_text() == "set $pool fast;\n"
    path.write_text("\n  set $pool plain;  ")
    assert await backend.read() is False


async def test_file_with_something_else(tmp_path: Path) -> None:
    """A text that is neither is not taken for a value."""
    path = tmp_path / "flag"
    path.write_text("maybe")
    with pytest.raises(FlagError, match=r"^unreadable: .*flag holds neither the text for on"):
        await File(FileTerms(path=str(path))).read()


async def test_file_keeps_its_rights(tmp_path: Path) -> None:
    """A new file may be read by whoever obeys it, an old one keeps its rights, a link stays one."""
    path, link = tmp_path / "flag", tmp_path / "link"
    backend = File(FileTerms(path=str(link)))
    link.symlink_to(path)
    await backend.write(on=True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    path.chmod(0o600)
    await backend.write(on=False)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert link.is_symlink()
    assert path.read_text() == "false\n"


async def test_file_without_its_folder(tmp_path: Path) -> None:
    """A folder that is missing is named with what to mend."""
    path = tmp_path / "nowhere" / "flag"
    backend = File(FileTerms(path=str(path)))
    with pytest.raises(FlagError, match=rf"^io: {path} cannot be written: No such file.*create"):
        await backend.write(on=True)


async def test_file_that_is_a_folder(tmp_path: Path) -> None:
    """A path that cannot be a file is an error of reading and of writing."""
    path = tmp_path / "flag"
    path.mkdir()
    backend = File(FileTerms(path=str(path)))
    with pytest.raises(FlagError, match=r"^io: .* cannot be read: Is a directory"):
        await backend.read()
    with pytest.raises(FlagError, match=r"^io: .* cannot be written"):
        await backend.write(on=True)
    assert names_in(tmp_path) == ["flag"]


@as_a_user
def test_file_in_a_folder_of_others(tmp_path: Path) -> None:
    """A folder that may not be written to is named with what to mend."""
    tmp_path.chmod(0o500)
    backend = File(FileTerms(path=str(tmp_path / "flag")))
    with pytest.raises(FlagError, match=r"^io: .*Permission denied; let this user write in"):
        asyncio.run(backend.write(on=True))


FULL_DISK = """
import asyncio, resource, sys
from specgauge.guard.flags.file import File, FileTerms
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
try:
    asyncio.run(File(FileTerms(path=sys.argv[1])).write(on=False))
except Exception as error:
    print(error)
"""


def test_full_disk(tmp_path: Path) -> None:
    """A disk that takes nothing leaves the old file whole and no other beside it."""
    path = tmp_path / "flag"
    path.write_text("true\n")
    ran = subprocess.run(
        [PYTHON, "-c", FULL_DISK, str(path)], capture_output=True, text=True, check=True
    )
    assert ran.stdout.startswith(f"io: {path} cannot be written: File too large; make room")
    assert path.read_text() == "true\n"
    assert list(tmp_path.iterdir()) == [path]


def test_a_pipe_is_not_replaced(tmp_path: Path) -> None:
    """What is there and no file is told and stays what it is."""
    pipe = tmp_path / "flag"
    os.mkfifo(pipe)
    with pytest.raises(FlagError, match="cannot be written: not a regular file; check the path"):
        write_atomically(pipe, b"x")
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]


def test_write_that_came_too_late(tmp_path: Path) -> None:
    """A write that hung does not undo the one that came after it."""
    path = tmp_path / "flag"
    write_atomically(path, b"new")
    write_atomically(path, b"old", wanted=lambda: False)
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("terms", "paths"),
    [
        pytest.param(FileTerms(path=""), ["flag.file.path"], id="no file"),
        pytest.param(FileTerms(path="/x", on="a", off=" a"), ["flag.file.off"], id="one text"),
        pytest.param(ExecTerms(on=(), off=()), ["flag.exec.on", "flag.exec.off"], id="no commands"),
    ],
)
def test_faults(terms: FileTerms | ExecTerms, paths: Sequence[str]) -> None:
    """Terms that cannot work are refused, all at once, each with its path."""
    with pytest.raises(ConfigError) as caught:
        File(terms) if isinstance(terms, FileTerms) else Exec(terms)
    assert [problem.partition(":")[0] for problem in caught.value.problems] == paths


def python(code: str) -> Sequence[str]:
    return (PYTHON, "-c", code)


def commands(*, on: str = "", off: str = "", read: str = "", timeout: float = 20.0) -> Exec:
    """Run these lines of Python in the place of commands."""
    terms = ExecTerms(on=python(on), off=python(off), read=python(read) if read else ())
    return Exec(terms, timeout=timeout)


async def test_exec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each value has its command, which gets little of our environment and no shell."""
    monkeypatch.setenv("SOME_TOKEN", "s3cret")
    monkeypatch.delenv("PATH")
    out = tmp_path / "out"
    code = f"import os; open({str(out)!r}, 'w').write(repr(sorted(os.environ.items())))"
    backend = commands(on=code, off=code)
    for on, word in ((True, "on"), (False, "off")):
        await backend.write(on)
        text = out.read_text()
        assert f"('SPECGAUGE_FLAG', '{word}')" in text
        assert "('PATH', '/usr/local/sbin:" in text
        assert "s3cret" not in text
    await backend.close()
    assert (backend.name, backend.place, backend.can_read) == ("exec", PYTHON, False)


async def test_exec_without_a_shell(tmp_path: Path) -> None:
    """What a shell would act on is an argument like any other."""
    out = tmp_path / "out"
    code = f"import sys; open({str(out)!r}, 'w').write(sys.argv[1])"
    words = f"; touch {tmp_path}/no $(id) `id` *"
    terms = ExecTerms(on=(*python(code), words), off=("true",))
    await Exec(terms).write(on=True)
    assert out.read_text() == words
    assert names_in(tmp_path) == ["out"]


@pytest.mark.parametrize(
    ("printed", "value"),
    [("on", True), ("off\n", False), (" TRUE ", True), ("false", False), ("1", True), ("0", False)],
)
async def test_exec_reads(printed: str, value: bool) -> None:
    """The command that reads prints the value in one of the usual words."""
    backend = commands(read=f"import sys; print('noise', file=sys.stderr); print({printed!r})")
    assert backend.can_read
    assert await backend.read() is value


@pytest.mark.parametrize(
    ("code", "result", "words"),
    [
        pytest.param("", "unreadable", "printed none of on, off", id="nothing"),
        pytest.param("print('active')", "unreadable", "printed none of", id="another word"),
        pytest.param("print('on' * 90_000)", "unreadable", "printed none of", id="much"),
        pytest.param(
            "import sys; sys.exit('no such\\nunit')",
            "io",
            "exit code 1, saying no such?unit",
            id="1",
        ),
        pytest.param("import sys; sys.exit(7)", "io", "exit code 7", id="7"),
        pytest.param("import os; os.kill(os.getpid(), 9)", "io", "exit code -9", id="killed"),
    ],
)
async def test_exec_reading_fails(code: str, result: str, words: str) -> None:
    """A command that fails or prints something else gives no value."""
    with pytest.raises(FlagError) as caught:
        await commands(read=code or "pass").read()
    assert caught.value.result == result
    assert words in caught.value.detail


@pytest.mark.parametrize(
    ("program", "words"),
    [
        pytest.param("/nowhere/program", "No such file", id="missing"),
        pytest.param("/", "Permission denied", id="not executable"),
        pytest.param("a\0b", "cannot be run", id="no name"),
    ],
)
async def test_exec_that_cannot_be_run(program: str, words: str) -> None:
    """A program that is not there is named; its arguments, which may be secret, are not."""
    terms = ExecTerms(on=(program, "--token=s3cret"), off=("true",))
    with pytest.raises(FlagError, match=r"^io") as caught:
        await Exec(terms).write(on=True)
    assert words in caught.value.detail
    assert "s3cret" not in str(caught.value)


HANGING = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
with open({name!r} + ".new", "w") as file:
    file.write(f"{{os.getpid()}} {{child.pid}}")
os.rename({name!r} + ".new", {name!r})
time.sleep(600)
"""


def wait_for_numbers(file: Path) -> list[int]:
    """Wait until another process has written its numbers."""
    while not file.exists():
        time.sleep(0.02)
    return [int(number) for number in file.read_text().split()]


def end(number: int) -> bool:
    """Tell whether a process ends within twenty seconds."""
    until = time.monotonic() + 20
    while not (over := ended(number)) and time.monotonic() < until:
        time.sleep(0.02)
    return over


def ended(number: int) -> bool:
    """Tell whether a process is gone, or waits only to be taken note of."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.mark.parametrize("cancelled", [False, True], ids=["timeout", "cancelled"])
async def test_exec_that_hangs(tmp_path: Path, cancelled: bool) -> None:
    """A command that hangs is killed with all its children, when its time is over or ours is."""
    pids = tmp_path / "pids"
    backend = commands(off=HANGING.format(name=str(pids)), timeout=600.0 if cancelled else 8.0)
    writing = asyncio.ensure_future(backend.write(on=False))
    parent, child = await asyncio.to_thread(wait_for_numbers, pids)
    if cancelled:
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
    else:
        with pytest.raises(FlagError, match=r"^timeout: .* did not end within 8 s and was killed"):
            await writing
    assert await asyncio.to_thread(end, parent)
    assert await asyncio.to_thread(end, child)


APART = """
echo $$ >> {name}.new
setsid sleep 600 &
echo $! >> {name}.new
setsid sh -c 'setsid sleep 600 & echo $! $$ >> {name}.new; mv {name}.new {name}; exec sleep 600' &
exec sleep 600
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere only the group is known")
@pytest.mark.parametrize("cancelled", [False, True], ids=["timeout", "cancelled"])
async def test_exec_that_hangs_with_children_of_other_sessions(
    tmp_path: Path, cancelled: bool
) -> None:
    """What descends from a command is killed with it, in whatever group or session it is."""
    pids = tmp_path / "pids"
    script = ("sh", "-c", APART.format(name=pids))
    backend = Exec(ExecTerms(on=script, off=script), timeout=600.0 if cancelled else 6.0)
    writing = asyncio.ensure_future(backend.write(on=False))
    numbers = await asyncio.to_thread(wait_for_numbers, pids)
    if cancelled:
        writing.cancel()
    with pytest.raises(asyncio.CancelledError if cancelled else FlagError):
        await writing
    assert len(numbers) == 4
    for number in numbers:
        assert await asyncio.to_thread(end, number)


def test_family_that_is_gone() -> None:
    """Who has ended already is no fault."""
    made = subprocess.Popen([PYTHON, "-c", ""], start_new_session=True)
    made.wait()
    end_family(made.pid)


async def test_exec_that_leaves_a_child() -> None:
    """A command that starts something that stays is over when it ends itself."""
    code = (
        "import subprocess, sys; subprocess.Popen([sys.executable, '-c', "
        "'import time; time.sleep(2)']); print('on')"
    )
    assert await commands(read=code).read() is True


async def test_exec_that_prints_without_end() -> None:
    """Output without end is dropped while the time runs out."""
    with pytest.raises(FlagError) as caught:
        await commands(on="while True: print('y' * 9999)", timeout=0.5).write(on=True)
    assert caught.value.result is WriteResult.TIMEOUT
