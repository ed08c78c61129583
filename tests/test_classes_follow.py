"""The follower of a log: rotation of both kinds, cuts, restarts, and what is no log at all."""

import os
import random
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from specgauge.serve.classes.follow import LINGER_SECONDS, Follower, Slice
from specgauge.serve.classes.tail import LONGEST_LINE, Place


class Log:
    """A log in a folder of its own, a follower of it, and a clock that only a test moves."""

    def __init__(self, folder: Path, *, from_start: bool = True) -> None:
        self.path = folder / "access.log"
        self.now = 0.0
        self.number = 0
        self.last = Slice()
        self.follower = self.made(from_start=from_start)

    def made(self, *, place: Place | None = None, from_start: bool = True) -> Follower:
        clock = lambda: self.now  # noqa: E731 - shorter than a method
        return Follower(self.path, place=place, from_start=from_start, clock=clock)

    def write(self, count: int = 1, path: Path | None = None) -> list[int]:
        """Append numbered lines, as a router does."""
        numbers = list(range(self.number, self.number + count))
        self.number += count
        with (path or self.path).open("ab") as file:
            file.write(b"".join(b'{"n":%d}\n' % number for number in numbers))
        return numbers

    def read(self) -> list[int]:
        """Read until there is no more; gives the numbers."""
        found: list[int] = []
        while True:
            self.last = self.follower.read()
            found += [int(line[5:-1]) for line in self.last.lines]
            if not self.last.more:
                return found

    def rename(self, suffix: str = ".1") -> Path:
        """Rotate by a new name, as logrotate does: older ones move on first."""
        old = self.path.with_name(self.path.name + suffix)
        if suffix == ".1":
            for age in range(40, 0, -1):
                one = self.path.with_name(f"{self.path.name}.{age}")
                if one.exists():
                    one.rename(self.path.with_name(f"{self.path.name}.{age + 1}"))
        self.path.rename(old)
        self.path.touch()
        return old

    def copy(self) -> Path:
        """Rotate by a copy; older ones move on first, and the log is cut to nothing."""
        for age in range(40, 0, -1):
            one = self.path.with_name(f"{self.path.name}.{age}")
            if one.exists():
                one.rename(self.path.with_name(f"{self.path.name}.{age + 1}"))
        copied = self.path.with_name(f"{self.path.name}.1")
        shutil.copy2(self.path, copied)
        os.truncate(self.path, 0)
        return copied


@contextmanager
def nobody() -> Iterator[None]:
    """Be a user who may read nothing, where we are one who may read everything."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Make a log that is read from its start."""
    return Log(tmp_path)


def test_as_it_grows(log: Log) -> None:
    """Each line is given once, and what is not read yet is told."""
    log.write(3)
    assert (log.read(), log.last.unread) == ([0, 1, 2], 0)
    assert log.read() == []
    log.write(2)
    assert log.read() == [3, 4]


def test_half_a_line_waits(log: Log) -> None:
    """A line counts once its end is there, however often it is looked at before."""
    log.path.write_bytes(b'{"n"')
    assert log.read() == log.read() == []
    with log.path.open("ab") as file:
        file.write(b':7}\n{"n"')
    assert log.read() == [7]
    with log.path.open("ab") as file:
        file.write(b":8}\n")
    assert log.read() == [8]


@pytest.mark.parametrize("size", [LONGEST_LINE + 1, 10 << 20], ids=["by a byte", "10 MB"])
def test_a_line_too_long_is_counted_once(log: Log, size: int) -> None:
    """It is never held in memory, and its neighbours are read."""
    log.path.write_bytes(b'{"n":1}\n' + b"x" * size + b'\n{"n":2}\n')
    found, too_long = [], 0
    while (got := log.follower.read()).more:
        found += [int(line[5:-1]) for line in got.lines]
        too_long += got.too_long
        assert len(log.follower._current._pending) <= LONGEST_LINE  # type: ignore[union-attr]
    assert (found, too_long) == ([1, 2], 1)


def test_without_a_place_it_begins_at_the_end(tmp_path: Path) -> None:
    """What was there before is not read, nor the rest of a line that was being written."""
    log = Log(tmp_path, from_start=False)
    log.write(3)
    with log.path.open("ab") as file:
        file.write(b"being ")
    assert log.read() == []
    with log.path.open("ab") as file:
        file.write(b"written\n")
    assert log.read() == []
    assert log.write() == log.read()


def test_a_file_that_comes_later_is_read_from_its_start(tmp_path: Path) -> None:
    """While it is missing that is told, and nothing of it is left out."""
    log = Log(tmp_path, from_start=False)
    assert log.read() == []
    assert isinstance(log.last.trouble, FileNotFoundError)
    assert log.last.unread is None
    log.write(2)
    assert log.read() == [0, 1]
    assert log.last == Slice(unread=0)


def test_renamed(log: Log) -> None:
    """The old file is read to its end, and on while the router still writes to it."""
    log.write(2)
    assert log.read() == [0, 1]
    log.write(2)
    old = log.rename()
    late = log.write(1, old)
    new = log.write(2)
    assert log.read() == [2, 3, *late, *new]
    late = log.write(1, old)
    assert log.read() == late


def test_old_file_is_let_go_when_it_is_still(log: Log) -> None:
    """A minute after its last line it is closed, if the router has found the new one."""
    log.write()
    log.read()
    old = log.rename()
    log.read()
    log.now += 10 * LINGER_SECONDS
    assert log.write(1, old) == log.read(), "the router has not been told"
    log.write()
    assert log.read() == [2]
    with old.open("ab") as file:
        file.write(b'{"n":')
    log.read()
    log.now += LINGER_SECONDS
    log.read()
    assert (log.last.cut, log.follower._leaving) == (1, log.follower._leaving.__class__())
    log.write(1, old)
    assert log.read() == []


def test_between_two_names(log: Log) -> None:
    """While no file has the name the old one is read."""
    log.write()
    log.read()
    old = log.path.rename(log.path.with_name("access.log.1"))
    late = log.write(1, old)
    assert log.read() == late
    assert isinstance(log.last.trouble, FileNotFoundError)
    assert log.write(2) == log.read()


@pytest.mark.parametrize("suffix", [".1", "-20261130"])
def test_renamed_several_times_between_two_looks(log: Log, suffix: str) -> None:
    """Files that came and went meanwhile are found beside the log, in their order."""
    log.write(2)
    log.read()
    expected = []
    for number in range(3):
        expected += log.write(3)
        log.rename(suffix if suffix == ".1" else f"{suffix}{number}")
    expected += log.write()
    assert log.read() == expected


def test_old_files_are_not_read_again(log: Log) -> None:
    """An old one that was written to after the new one was made is not taken for a missed one."""
    log.write(2)
    log.read()
    old = log.rename()
    log.read()
    log.write(1, old)
    log.write(1)
    assert log.read() == [2, 3]
    log.now += LINGER_SECONDS
    log.read()
    os.utime(old)
    log.rename()
    log.write()
    assert log.read() == [4]


def test_copies_and_compressed_files_are_left_alone(log: Log) -> None:
    """What an operator puts beside the log is not read as a part of it."""
    log.write(2)
    log.read()
    shutil.copy(log.path, log.path.with_name("access.log.bak"))
    log.path.with_name("access.log.9.gz").write_bytes(b'{"n":99}\n')
    log.path.with_name("access.log.d").mkdir()
    os.mkfifo(log.path.with_name("access.log.fifo"))
    log.write()
    log.rename()
    log.write()
    assert log.read() == [2, 3]


def test_copied_and_cut(log: Log) -> None:
    """What was not read before the cut is read from the copy."""
    log.write(2)
    assert log.read() == [0, 1]
    log.write(3)
    log.copy()
    assert log.write(2) == [5, 6]
    assert log.read() == [2, 3, 4, 5, 6]
    assert log.last.lost == ""
    log.write()
    log.copy()
    log.write()
    assert log.read() == [7, 8]


def test_cut_within_a_line(log: Log) -> None:
    """A line whose beginning was read before the cut is whole in the copy."""
    log.write()
    with log.path.open("ab") as file:
        file.write(b'{"n":')
    assert log.read() == [0]
    with log.path.open("ab") as file:
        file.write(b"50}\n")
    log.copy()
    assert [*log.read(), *log.write(), *log.read()] == [50, 1, 1]


def test_cut_and_grown_beyond_where_it_was_read(log: Log) -> None:
    """A size that is larger than before does not hide a cut."""
    log.write(2)
    log.read()
    log.write(1)
    log.copy()
    new = log.write(50)
    assert log.read() == [2, *new]


def test_copied_and_cut_twice_between_two_looks(log: Log) -> None:
    """Copies of what came and went meanwhile are read, too."""
    log.write(2)
    log.read()
    expected = []
    for _ in range(3):
        expected += log.write(3)
        log.copy()
    expected += log.write()
    assert log.read() == expected


def test_copied_and_cut_while_the_copy_before_is_read(log: Log) -> None:
    """What was written between two cuts counts, although nothing of it was read yet."""
    log.write(2)
    log.read()
    expected = log.write(20_000)
    log.copy()
    expected += log.write(30)
    first = log.follower.read()
    log.copy()
    expected += log.write(5)
    assert [*(int(line[5:-1]) for line in first.lines), *log.read()] == expected


@pytest.mark.parametrize("refilled", [0, 4])
@pytest.mark.parametrize("times", [1, 3])
def test_filled_copied_and_cut_again_while_it_is_empty(log: Log, times: int, refilled: int) -> None:
    """What an empty log held between two looks is read from its copies."""
    log.write(2)
    log.read()
    log.copy()
    assert log.read() == []
    for _ in range(2):
        expected = []
        for _ in range(times):
            expected += log.write(3)
            log.copy()
        assert log.read() == expected
    expected = log.write(3)
    log.copy()
    expected += log.write(refilled)
    assert log.read() == expected
    assert log.last.lost == ""


@pytest.mark.parametrize("refilled", [0, 4])
@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("kind", ["copied", "renamed"])
def test_came_filled_and_rotated_between_two_looks(
    log: Log, kind: str, times: int, refilled: int
) -> None:
    """What a log held that was not there at the look before is read; what lay there is not."""
    log.write(2, log.path.with_name("access.log.7"))
    assert log.read() == []
    expected = []
    for _ in range(times):
        time.sleep(0.006)  # files have times of some milliseconds
        expected += log.write(3)
        log.copy() if kind == "copied" else log.rename()
    expected += log.write(refilled)
    assert (log.read(), log.last.lost) == (expected, "")
    assert log.write() == log.read()


def cut_later(path: Path, *, later: int = 10_000_000) -> None:
    """Cut a file to nothing, a while after it was made."""
    os.truncate(path, 0)
    found = path.stat()
    os.utime(path, ns=(found.st_atime_ns, found.st_atime_ns + later))


@pytest.mark.parametrize("before", ["missing", "empty", "another"])
@pytest.mark.parametrize("copy", ["none", "packed"])
def test_cut_before_it_was_read(log: Log, before: str, copy: str) -> None:
    """That lines may be missing is told once, where neither they nor a copy were ever seen."""
    if before == "empty":
        log.path.touch()
        os.utime(log.path, ns=(0, 0))
    elif before == "another":
        log.write()
    log.read()
    if before == "another":
        log.path.unlink()
    time.sleep(0.006)
    log.write(3)
    if copy == "packed":
        log.path.with_name("access.log.1.gz").write_bytes(b"packed")
    cut_later(log.path)
    first = log.follower.read()
    told = "access.log.1.gz" if copy == "packed" and before != "another" else "cut to nothing"
    assert (first.lines, told in first.lost) == ((), True)
    assert log.follower.read().lost == ""
    assert (log.write(), log.last.lost) == (log.read(), "")


@pytest.mark.parametrize("what", ["made", "touched", "rights", "copied while empty", "old packed"])
def test_nothing_is_lost_of_what_never_held_anything(log: Log, what: str) -> None:
    """A log that is made, touched, given away or rotated while it is empty is no loss."""
    if what == "old packed":
        log.write(2, log.path.with_name("access.log.1"))
        time.sleep(0.006)
    if what != "made":
        log.path.touch()
    log.read()
    time.sleep(0.006)
    if what == "rights":
        log.path.chmod(0o640)
    elif what == "copied while empty":
        shutil.copyfile(log.path, log.path.with_name("access.log.1"))
        cut_later(log.path)
    elif what == "old packed":
        old, packed = (log.path.with_name(f"access.log.{name}") for name in ("1", "2.gz"))
        packed.write_bytes(b"packed")
        shutil.copystat(old, packed)
        old.unlink()
    log.path.touch()
    assert (log.read(), log.last.lost) == ([], "")
    assert (log.write(), log.last.lost) == (log.read(), "")


@pytest.mark.parametrize("before", ["missing", "empty"])
@pytest.mark.parametrize("rotations", [1, 2])
def test_rotated_while_it_was_down_from_an_empty_log(log: Log, before: str, rotations: int) -> None:
    """The place in a log that holds nothing says since when: its copies are read afterwards."""
    log.write(2, log.path.with_name("access.log.7"))
    time.sleep(0.006)
    if before == "empty":
        log.path.touch()
    log.read()
    place = log.follower.place()
    log.follower.close()
    expected = []
    for _ in range(rotations):
        time.sleep(0.006)
        expected += log.write(3)
        log.copy()
    log.follower = log.made(place=place)
    expected += log.write()
    assert (log.read(), log.last.lost) == (expected, "")


def test_empty_log_of_a_router_that_still_writes_to_the_old_one(tmp_path: Path) -> None:
    """Without a place what lay beside the log at the start is no part of it, though it grows."""
    log = Log(tmp_path, from_start=False)
    log.write(40)
    old = log.rename()
    log.path.touch()
    assert log.read() == []
    log.write(3, old)
    assert log.write(2) == log.read()
    log.write(3, old)
    assert log.read() == []


def test_cut_without_a_copy(log: Log) -> None:
    """That lines may be missing is told once."""
    log.write(2)
    log.read()
    os.truncate(log.path, 0)
    log.write()
    first = log.follower.read()
    assert first.lines == (b'{"n":2}',)
    assert first.lost == "the file was cut to nothing, and no copy of it is there"
    assert log.follower.read().lost == ""


def test_only_its_end_cut_off(log: Log) -> None:
    """Nothing is read twice."""
    log.write(200)
    log.read()
    os.truncate(log.path, 905)
    assert log.read() == []
    with log.path.open("ab") as file:
        file.write(b"\n")
    assert log.write(2) == log.read()


RESTARTS = ["nothing", "more", "renamed", "renamed often", "copied", "half"]


@pytest.mark.parametrize("happened", RESTARTS)
def test_goes_on_after_a_restart(log: Log, happened: str) -> None:
    """With its place it reads what came meanwhile, whatever became of the file, and no more."""
    log.write(200)
    log.read()
    place = log.follower.place()
    log.follower.close()
    expected = [] if happened == "nothing" else log.write(3)
    for _ in range({"renamed": 1, "renamed often": 3}.get(happened, 0)):
        log.rename()
        expected += log.write(2)
    if happened == "copied":
        log.copy()
        expected += log.write(2)
    if happened == "half":
        with log.path.open("ab") as file:
            file.write(b'{"n":')
    log.follower = log.made(place=place)
    assert (log.read(), log.last.lost) == (expected, "")


def test_place_while_an_old_file_is_not_read_to_its_end(log: Log) -> None:
    """It is that of the old one, and then of the new one."""
    log.write(30_000)
    first = log.follower.read()
    log.rename()
    new = log.write(5)
    second = log.follower.read()
    place = log.follower.place()
    log.follower.close()
    log.follower = log.made(place=place)
    rest = log.read()
    assert len(first.lines) + len(second.lines) + len(rest) == 30_005
    assert rest[-5:] == new


def test_place_before_the_first_line_of_a_new_file(log: Log) -> None:
    """A file that is empty has no face: the old one's end says where to go on."""
    log.write(2)
    log.read()
    log.rename()
    log.read()
    place = log.follower.place()
    expected = log.write(2)
    log.rename()
    expected += log.write()
    log.follower = log.made(place=place)
    assert log.read() == expected


def test_place_of_a_file_that_is_gone(log: Log) -> None:
    """The log is read from its start, and that lines may be missing is told."""
    log.write(2)
    log.read()
    place = log.follower.place()
    log.path.unlink()
    log.write(2)
    log.follower = log.made(place=place)
    first = log.follower.read()
    assert len(first.lines) == 2
    assert first.lost == "the file that was read last is not there any more"


@pytest.mark.parametrize("there", ["another", "nothing yet", "the same"])
def test_place_that_was_kept_for_another_path(log: Log, there: str) -> None:
    """Another log is read from its start without a loss; the same by another name goes on."""
    log.write(2)
    log.read()
    place = log.follower.place()
    log.follower.close()
    if there != "the same":
        log.path.unlink()
    expected = [] if there == "nothing yet" else log.write(2)
    log.follower = Follower(log.path, place=place, own=False, from_start=True)
    assert (log.read(), log.last.lost) == (expected, "")
    assert log.follower.place() != place
    assert (log.write(), log.last.lost) == (log.read(), "")


@pytest.mark.parametrize("kind", ["folder", "pipe", "forbidden"])
def test_what_cannot_be_read_is_no_reason_to_stop(log: Log, kind: str) -> None:
    """It is told and tried again; a pipe is not waited for."""
    if kind == "folder":
        log.path.mkdir()
    elif kind == "pipe":
        os.mkfifo(log.path)
    else:
        log.path.touch(mode=0o000)
    with nobody():
        assert log.read() == []
    assert isinstance(log.last.trouble, OSError)
    if kind == "folder":
        log.path.rmdir()
    else:
        log.path.unlink()
    assert (log.write(), log.read()) == ([0], [0])


def test_folder_that_goes_away(log: Log) -> None:
    """What is open is read on; nothing is raised."""
    log.write()
    log.read()
    shutil.rmtree(log.path.parent)
    assert log.read() == []
    log.path.parent.mkdir()
    assert log.write() == log.read()


def test_many_old_files_are_not_kept_open(log: Log) -> None:
    """Only so many files are open, however often the log is rotated."""
    log.path.touch()
    assert log.read() == []
    for number in range(40):
        written = log.write()
        log.rename(f".x{number}")
        assert log.read() == written
    assert len(log.follower._leaving) <= 9


def test_deleted_and_its_number_given_to_another(log: Log) -> None:
    """A file of the same number that begins otherwise is another file."""
    log.write(2)
    log.read()
    place = log.follower.place()
    log.follower.close()
    log.path.unlink()
    log.number = 500
    log.write(40)
    log.follower = log.made(place=place)
    assert len(log.read()) == 40


def test_disk_that_fails(log: Log) -> None:
    """It is told, and reading goes on where it was once the disk does."""
    log.write(100)
    log.read()
    tail = log.follower._current
    assert tail is not None
    number, tail._number = tail._number, os.open(log.path.parent, os.O_RDONLY)
    os.close(number)
    expected = log.write(2)
    found = log.follower.read()
    assert isinstance(found.trouble, OSError)
    assert log.read() == expected


class Course:
    """A course of events drawn by chance: what was written, and what came of it."""

    def __init__(self, log: Log, seed: int, rotate: Callable[[], Path]) -> None:
        self.log, self.rotate = log, rotate
        self.chance = random.Random(seed)  # noqa: S311 - the same events in every run
        self.written, self.got = log.write(), list[int]()

    def read(self) -> bool:
        """Read one piece."""
        piece = self.log.follower.read()
        self.got += [int(line[5:-1]) for line in piece.lines]
        assert (piece.lost, piece.trouble) == ("", None)
        return piece.more

    def read_all(self) -> None:
        """Read until there is no more."""
        while self.read():
            pass

    def restart(self) -> None:
        """Go on in another process."""
        self.read_all()
        place = self.log.follower.place()
        self.log.follower.close()
        self.log.follower = self.log.made(place=place)

    def turn(self) -> None:
        """Rotate, with lines before, late ones into the old file, and some in the new one."""
        self.read()
        self.written += self.log.write(self.chance.randint(1, 3))
        old = self.rotate()
        if self.rotate == self.log.rename:
            self.written += self.log.write(self.chance.randint(0, 2), old)
        time.sleep(0.006)  # files have times of some milliseconds
        self.written += self.log.write(self.chance.randint(0, 1))

    def wait(self) -> None:
        """Let time pass."""
        self.log.now += self.chance.choice([1.0, LINGER_SECONDS])

    def step(self) -> None:
        """Let one thing happen."""
        match self.chance.randint(0, 8):
            case 0 | 1 | 2:
                self.written += self.log.write(self.chance.choice([1, 5, 9000]))
            case 3 | 4:
                self.read()
            case 5:
                self.read_all()
            case 6:
                self.turn()
            case 7:
                self.wait()
            case _:
                self.restart()


@pytest.mark.parametrize("kind", ["renamed", "copied"])
@pytest.mark.parametrize("seed", range(8))
def test_whatever_happens_each_line_is_given_once(log: Log, kind: str, seed: int) -> None:
    """Writing, reading, rotating, waiting and restarting in any order lose and repeat nothing."""
    course = Course(log, seed, log.rename if kind == "renamed" else log.copy)
    course.read()
    for _ in range(40):
        course.step()
    course.read_all()
    assert sorted(course.got) == course.written
