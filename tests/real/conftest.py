"""Choose when the tests against servers from npm run: when their marker is asked for."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent
MARKER = "unleash"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave these tests out unless their marker was asked for."""
    if MARKER in config.getoption("markexpr").replace(f"not {MARKER}", ""):
        return
    ours = [item for item in items if HERE in item.path.parents and MARKER in item.keywords]
    items[:] = [item for item in items if item not in ours]
    config.hook.pytest_deselected(items=ours)
