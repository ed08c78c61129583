"""The tables in the documentation are what the code would write today."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from specgauge.engines import compatibility
from specgauge.engines.vllm import NEWEST_RELEASE, OLDEST_RELEASE, TABLE

ROOT = Path(__file__).parents[1]
FILES = (
    "docs/compatibility.md",
    "docs/metrics.md",
    "docs/configuration.md",
    "docs/rules.md",
    "docs/generate.py",
)


def generate(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the generator of one copy of the documentation."""
    command = [sys.executable, str(root / "docs" / "generate.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Copy the documentation, to be spoilt."""
    (tmp_path / "docs").mkdir()
    for name in FILES:
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def test_tables_are_current() -> None:
    """Nobody changed the dialect table, a series or a key without running docs/generate.py."""
    run = generate(ROOT, "--check")
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("name", "mark"),
    [
        ("docs/compatibility.md", "compatibility"),
        ("docs/metrics.md", "series"),
        ("docs/configuration.md", "guard keys"),
        ("docs/configuration.md", "rules keys"),
        ("docs/configuration.md", "checklist keys"),
        ("docs/rules.md", "alerts"),
    ],
    ids=["compatibility", "series", "guard keys", "rules keys", "checklist keys", "alerts"],
)
def test_stale_table_is_told_and_mended(copy: Path, name: str, mark: str) -> None:
    """A changed table fails the check, and a run without --check restores the file exactly."""
    page = copy / name
    before = page.read_text()
    begin = f"<!-- {mark}:begin -->\n"
    page.write_text(before.replace(begin, f"{begin}stale\n"))
    check = generate(copy, "--check")
    stale = f"{name}: the table {mark} is stale; run docs/generate.py\n"
    assert (check.returncode, check.stderr) == (1, stale)
    assert generate(copy).returncode == 0
    assert page.read_text() == before


def test_missing_mark_is_an_error(copy: Path) -> None:
    """A page whose marks are gone is named; nothing is written into it."""
    page = copy / "docs/compatibility.md"
    page.write_text("# specgauge\n")
    run = generate(copy)
    assert run.returncode == 2
    assert run.stderr.startswith("docs/compatibility.md: needs <!-- compatibility:begin -->")
    assert page.read_text() == "# specgauge\n"


def test_unknown_argument_is_a_usage_error() -> None:
    """Nothing but --check is taken."""
    assert generate(ROOT, "--force").returncode == 2


def test_table_covers_the_known_releases() -> None:
    """The rows of both generations lie within the releases that the dialect table knows."""
    releases = compatibility.RELEASES
    assert (releases[0], releases[-1]) == (OLDEST_RELEASE, NEWEST_RELEASE)
    v0, v1 = compatibility.rows("V0"), compatibility.rows("V1")
    assert (v0[0].first, v0[-1].last) == ("0.5.5", "0.10.2")
    assert (v1[0].first, v1[-1].last) == ("0.7.1", "0.33.0")


def test_every_change_falls_on_a_known_release() -> None:
    """Each end of a span in the dialect table is a release, or older than the table's first."""
    spans = [span for entry in TABLE for name in entry.names for span in name.spans]
    ends = {end for span in spans for end in (span.first, span.last) if end}
    older = {"0.2.3", "0.3.1", "0.3.3", "0.4.2", "0.4.3", "0.5.3"}
    assert ends - older <= set(compatibility.RELEASES)
