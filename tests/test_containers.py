"""The second provider of the real stack: images, before a Docker of our own that starts nothing."""

import subprocess
from pathlib import Path

import pytest
from tests.containers import contained, program

DOCKER = """#!/bin/sh
[ "$1" = info ] && exit {code}
printf '%s\\n' "$@"
"""


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """Put a `docker` first in the path that says how it is and then what it was asked."""
    (tmp_path / "bin").mkdir()
    file = tmp_path / "bin" / "docker"
    file.write_text(DOCKER.format(code=request.param))
    file.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    return file


@pytest.mark.parametrize("engine", [0], indirect=True)
@pytest.mark.usefixtures("engine")
def test_a_program_comes_from_its_image(tmp_path: Path) -> None:
    """The script runs the image with the arguments, network, user and folder that it was given."""
    script = contained("prometheus")
    assert script is not None
    command = [script, "--config.file=a b.yml", ""]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    told = ran.stdout.split("\n")
    place = told.index("prom/prometheus:v2.42.0")
    assert told[place + 1 : place + 3] == ["--config.file=a b.yml", ""]
    assert told[told.index("--workdir") + 1] == str(tmp_path)
    assert told[told.index("--network") + 1] == "host"
    assert told[told.index("--entrypoint") + 1] == "/bin/prometheus"


@pytest.mark.parametrize("engine", [1], indirect=True)
@pytest.mark.usefixtures("engine")
def test_an_engine_that_does_not_answer_is_none() -> None:
    """Where Docker is installed but its engine does not run, the program is missing."""
    assert contained("prometheus") is None


@pytest.mark.parametrize("engine", [0], indirect=True)
def test_what_is_installed_goes_first(engine: Path) -> None:
    """An installed program is taken before an image, and what has no image stays missing."""
    assert program("nothing", "docker") == str(engine)
    assert program("nothing") is None
