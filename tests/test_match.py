"""Whether a baseline belongs to a server."""

import pytest
from tests.baselines import baseline, level

from specgauge.baseline.match import STALE_SECONDS, match
from specgauge.baseline.schema import usable

FILE = baseline(
    engine={"name": "vllm", "version": "0.25.1"},
    hardware={"gpu": "NVIDIA H200", "count": 1},
    parallelism={"tensor": 1, "data": 1},
)
OURS = usable(FILE, source="b.json")
SAME = {
    "engine.name": "vllm",
    "engine.version": "0.25.1",
    "model.name": "target",
    "hardware.gpu": "NVIDIA H200",
    "parallelism.tensor": 1,
}


@pytest.mark.parametrize(
    ("server", "mismatches", "warnings"),
    [
        pytest.param(SAME, (), (), id="same"),
        pytest.param({}, (), (), id="nothing-known"),
        pytest.param({"model.name": None}, (), (), id="unknown"),
        pytest.param({**SAME, "model.name": "other"}, ("model.name",), (), id="model"),
        pytest.param({**SAME, "engine.name": "sglang"}, ("engine.name",), (), id="engine"),
        pytest.param(
            {**SAME, "hardware.gpu": "A100", "parallelism.tensor": 2},
            ("parallelism.tensor", "hardware.gpu"),
            (),
            id="two",
        ),
        pytest.param({**SAME, "model.revision": "main"}, (), (), id="only-the-server-knows"),
        pytest.param({**SAME, "engine.version": "0.25.9+cpu"}, (), (), id="patch-level"),
        pytest.param(
            {**SAME, "engine.version": "0.26.0"}, (), ("baseline_engine_release",), id="release"
        ),
    ],
)
def test_what_must_match_and_what_only_warns(
    server: dict[str, object], mismatches: tuple[str, ...], warnings: tuple[str, ...]
) -> None:
    """Another model, engine or machine refuses; another minor release only warns."""
    found = match(OURS, server, now=OURS.created)
    assert found.mismatches == mismatches
    assert found.warnings == warnings
    assert found.spread == pytest.approx(0.02 * len(warnings))


def test_age_and_a_cut_recording_widen_the_interval() -> None:
    """Each doubt adds to the half-width."""
    partial = usable(baseline(partial=True), source="b.json")
    assert partial.created is not None
    found = match(partial, {}, now=partial.created + STALE_SECONDS + 1.0)
    assert found.warnings == ("baseline_stale", "baseline_partial")
    assert found.spread == pytest.approx(0.04)


def test_without_a_clock_nothing_is_stale() -> None:
    """Recorded pages have no present to be old in."""
    assert match(OURS, SAME, now=None).warnings == ()


@pytest.mark.parametrize(("tpot", "told"), [(2.0, False), (2.1, True), (5.0, True)])
def test_milliseconds_written_as_seconds_are_doubted(tpot: float, *, told: bool) -> None:
    """One level with a token of over two seconds is enough."""
    odd = usable(baseline(level(1.0, 0.004), level(8.0, tpot)), source="b.json")
    found = match(odd, {}, now=None)
    assert found.warnings == (("baseline_implausible",) if told else ())
