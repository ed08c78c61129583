"""The dashboards against Grafana's TypeScript types, where `tests/node/install.sh` was run."""

import os
import shutil
from pathlib import Path

import pytest
from tests.node.typed import DASHBOARDS, check


@pytest.fixture(scope="module")
def types() -> Path:
    """Find the packages; nothing is fetched by a test."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(os.environ.get("GRAFANA_TYPES") or cache / "specgauge" / "grafana-types")
    if shutil.which("node") is None or not (folder / "node_modules/@grafana/schema").is_dir():
        pytest.skip("needs @grafana/schema: run tests/node/install.sh")
    return folder


def test_dashboards_fit_the_types(types: Path) -> None:
    """Every key and value is one that Grafana's frontend knows, panels' own options included."""
    assert check(types) == (0, "")


@pytest.mark.parametrize(
    ("right", "wrong", "told"),
    [
        ('"title": "Servers"', '"title": 5', "number"),
        ('"mode": "absolute"', '"mode": "certain"', "certain"),
        ('"drawStyle": "line"', '"drawStyle": "zigzag"', "zigzag"),
        ('"xField": "load"', '"xFeld": "load"', "xFeld"),
        ('"graphTooltip": 1', '"graphTooltips": 1', "graphTooltips"),
    ],
    ids=["title", "mode of thresholds", "custom", "option", "dashboard"],
)
def test_types_refuse(types: Path, right: str, wrong: str, told: str, tmp_path: Path) -> None:
    """The check would tell a value or a key that is not known."""
    text = (DASHBOARDS / "fleet.json").read_text(encoding="utf-8")
    assert right in text
    (tmp_path / "fleet.json").write_text(text.replace(right, wrong), encoding="utf-8")
    code, said = check(types, tmp_path)
    assert code != 0
    assert told in said
