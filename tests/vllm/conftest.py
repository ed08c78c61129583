"""Choose when the real-engine tests run, and record each server's life once for all of them."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.vllm.episode import DRAFT, NGRAM, NONE, SELF_DRAFT, Episode, Mode, record

HERE = Path(__file__).parent
CHOSEN = "VLLM_TEST_PYTHON"
MODES = [
    pytest.param(NONE, id=NONE.name),
    pytest.param(NGRAM, id=NGRAM.name, marks=pytest.mark.smoke),
    pytest.param(DRAFT, id=DRAFT.name, marks=pytest.mark.smoke),
    pytest.param(SELF_DRAFT, id=SELF_DRAFT.name),
]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave these tests out unless an environment is named or a marker of theirs was asked for."""
    asked = config.getoption("markexpr")
    if os.environ.get(CHOSEN) or "vllm" in asked or "smoke" in asked:
        return
    ours = [item for item in items if HERE in item.path.parents]
    items[:] = [item for item in items if HERE not in item.path.parents]
    config.hook.pytest_deselected(items=ours)


@pytest.fixture(scope="session")
def vllm_python() -> Path:
    """Return the interpreter of the environment that tests/vllm/install.sh made."""
    named = os.environ.get(CHOSEN) or f"{os.environ.get('VLLM_TEST_ENV', '')}/bin/python"
    python = Path(named)
    if not python.is_file():
        pytest.fail(f"no {named}: {CHOSEN} is what tests/vllm/install.sh prints", pytrace=False)
    return python


@pytest.fixture(scope="session")
def recorded(
    vllm_python: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Mode], Episode]:
    """Return a function that records a mode once, even if that went wrong."""
    begun: set[str] = set()
    kept: dict[str, Episode] = {}

    def once(mode: Mode) -> Episode:
        if mode.name not in kept:
            if mode.name in begun:
                pytest.fail(
                    f"the {mode.name} server was not recorded: see its first error", pytrace=False
                )
            begun.add(mode.name)
            kept[mode.name] = record(vllm_python, mode, tmp_path_factory.mktemp(mode.name))
        return kept[mode.name]

    return once


@pytest.fixture(params=MODES)
def episode(request: pytest.FixtureRequest, recorded: Callable[[Mode], Episode]) -> Episode:
    """Return the recording of a server started in one of the modes."""
    return recorded(request.param)


@pytest.fixture(params=[mode for mode in MODES if mode.id != NONE.name])
def drafting(request: pytest.FixtureRequest, recorded: Callable[[Mode], Episode]) -> Episode:
    """Return the recording of a server that drafts."""
    return recorded(request.param)
