"""What every test may ask for: programs that may be missing, and texts that are kept as files."""

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings
from tests.containers import program

GOLDEN = Path(__file__).parent / "golden"

# Examples are not timed: a busy machine would fail them for being slow.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a deliberate change of an output be taken over."""
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/golden/")


def pytest_configure(config: pytest.Config) -> None:
    """Have pytest-xdist keep the order of files that is made below."""
    config.option.loadscopereorder = False


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put files with slow tests first, then those with many: two workers end together so."""
    slow = Counter(one.path for one in items if one.get_closest_marker("slow"))
    many = Counter(one.path for one in items)
    items.sort(key=lambda one: (not slow[one.path], -many[one.path], one.path))


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Return a function that holds a text against the file of that name in tests/golden."""

    def compare(name: str, text: str) -> None:
        file = GOLDEN / name
        if request.config.getoption("--update-golden"):
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
        assert text == file.read_text(), f"{name} differs; --update-golden takes the change over"

    return compare


@pytest.fixture(scope="session")
def promtool() -> str:
    """Return Prometheus' checker of rules and pages."""
    return _program("promtool")


@pytest.fixture(scope="session")
def prometheus() -> str:
    """Return the Prometheus server."""
    return _program("prometheus")


@pytest.fixture(scope="session")
def victoria_metrics() -> str:
    """Return the VictoriaMetrics server of one node."""
    return _program("victoria-metrics")


def _program(name: str) -> str:
    """Find a program; where it is missing, the test fails in CI and is skipped else."""
    found = program(name)
    if found is None and os.environ.get("CI") == "true":
        pytest.fail(f"{name} is missing: .ci/packages test installs it")
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found
