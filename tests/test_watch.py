"""Noticing changed files, among them links that Kubernetes swaps as a whole."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from specgauge.serve.watch import Mark, fingerprint, watch

LOOK = 0.01
LONG = 30


async def next_change(changes: AsyncIterator[tuple[Mark, ...]]) -> tuple[Mark, ...]:
    return await asyncio.wait_for(anext(changes), LONG)


def mount(folder: Path, version: str, text: str) -> Path:
    """Write a file as the kubelet does: a link through ..data, which is swapped atomically."""
    (folder / version).mkdir()
    (folder / version / "config.yaml").write_text(text)
    (folder / "..new").symlink_to(version)
    (folder / "..new").rename(folder / "..data")
    link = folder / "config.yaml"
    if not link.is_symlink():
        link.symlink_to(Path("..data") / "config.yaml")
    return link


def test_fingerprint_of_a_file(tmp_path: Path) -> None:
    """A fingerprint holds what tells one state of a file from another."""
    file, link = tmp_path / "a", tmp_path / "b"
    file.write_text("abc")
    link.symlink_to(file)
    status = file.stat()
    expected = (file.resolve(), status.st_ino, status.st_mtime_ns, 3)
    first, second = fingerprint([file, link])
    assert expected == (first.real_path, first.inode, first.modified_ns, first.size)
    assert (link, first.real_path) == (second.path, second.real_path)
    assert fingerprint([file, link]) == (first, second)


@pytest.mark.parametrize("kind", ["missing", "dangling", "loop"])
def test_fingerprint_of_nothing(tmp_path: Path, kind: str) -> None:
    """A missing file has a fingerprint, too, and so have links that lead nowhere."""
    path = tmp_path / "a"
    if kind != "missing":
        path.symlink_to(path if kind == "loop" else tmp_path / "b")
    assert (Mark(path=path),) == fingerprint([path])


def test_fingerprint_sees_a_swap(tmp_path: Path) -> None:
    """A swapped link changes the fingerprint even if size and dates are the same."""
    link = mount(tmp_path, "..2026_1", "same")
    os.utime(link, (1, 1))
    before = fingerprint([link])
    mount(tmp_path, "..2026_2", "same")
    os.utime(link, (1, 1))
    (old,), (new,) = before, fingerprint([link])
    assert (old.size, old.modified_ns) == (new.size, new.modified_ns)
    assert old != new


@pytest.mark.parametrize("change", ["write", "replace", "remove", "create"])
async def test_each_change_once(tmp_path: Path, change: str) -> None:
    """A change is reported once, with the fingerprint of what is there now."""
    path = tmp_path / "a"
    if change != "create":
        path.write_text("old")
    before = fingerprint([path])
    changes = watch(lambda: [path], interval=LOOK, since=before)
    match change:
        case "remove":
            path.unlink()
        case "replace":
            (tmp_path / "b").write_text("new")
            (tmp_path / "b").rename(path)
        case _:
            path.write_text("longer")
    assert fingerprint([path]) == await next_change(changes)
    path.write_text("and longer still")
    assert fingerprint([path]) == await next_change(changes)


async def test_swapped_links(tmp_path: Path) -> None:
    """A new ConfigMap is noticed although the watched path is the same link as before."""
    link = mount(tmp_path, "..2026_1", "a")
    changes = watch(lambda: [link], interval=LOOK, since=fingerprint([link]))
    mount(tmp_path, "..2026_2", "b")
    (mark,) = await next_change(changes)
    assert (tmp_path / "..2026_2" / "config.yaml").resolve() == mark.real_path


async def test_half_written_files_wait(tmp_path: Path) -> None:
    """While a file still grows from look to look nothing is reported."""
    path = tmp_path / "a"
    path.write_text("x")
    looks = 0

    def growing() -> list[Path]:
        nonlocal looks
        looks += 1
        if 1 < looks < 6:
            path.write_text("x" * looks)
        return [path]

    (mark,) = await next_change(watch(growing, interval=LOOK))
    assert (mark.size, looks + 1) == (5, 7)


async def test_other_paths_are_no_change(tmp_path: Path) -> None:
    """After a reload that names other files, only their next change counts."""
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("1")
    two.write_text("2")
    asked = 0

    def paths() -> list[Path]:
        nonlocal asked
        asked += 1
        if asked == 6:
            two.write_text("changed")
        return [one] if asked < 3 else [one, two]

    marks = await next_change(watch(paths, interval=LOOK))
    assert ([one, two], 7) == ([mark.path for mark in marks], asked)
