"""The Dockerfile without a container engine: linted, read, its RUN lines carried out elsewhere."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCKERFILE = ROOT / "Dockerfile"


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """One instruction with its continuation lines joined."""

    word: str
    rest: str

    def arguments(self) -> list[str]:
        """Return the words of the instruction, of its JSON form as well."""
        return json.loads(self.rest) if self.rest.startswith("[") else shlex.split(self.rest)


def instructions() -> Iterator[Instruction]:
    """Read the Dockerfile into instructions."""
    text = re.sub(r"^\s*#.*\n", "", DOCKERFILE.read_text(), flags=re.MULTILINE)
    for line in re.sub(r"\\\n", " ", text).splitlines():
        if line.strip():
            word, rest = line.split(maxsplit=1)
            yield Instruction(word=word, rest=rest)


def final_stage() -> dict[str, Instruction]:
    """Return the last of each instruction after the last FROM: what the image is made of."""
    stage: dict[str, Instruction] = {}
    for instruction in instructions():
        stage = {} if instruction.word == "FROM" else {**stage, instruction.word: instruction}
    return stage


def test_hadolint_finds_nothing() -> None:
    """The linter for Dockerfiles has no complaint."""
    hadolint = shutil.which("hadolint", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if hadolint is None:
        assert os.environ.get("CI") != "true", "hadolint is missing: it comes with the dev extra"
        pytest.skip("hadolint is not installed")
    run = subprocess.run([hadolint, str(DOCKERFILE)], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout + run.stderr) == (0, "")


def test_base_image_names_its_release() -> None:
    """Every stage starts from one image with a full tag, or from another stage."""
    froms = [i.arguments() for i in instructions() if i.word == "FROM"]
    stages = {words[2] for words in froms if len(words) == 3}
    images = {words[0] for words in froms} - stages
    assert len(images) == 1
    assert re.fullmatch(r"python:3\.\d+(\.\d+)?-slim-[a-z]+", images.pop())


def test_image_starts_the_sidecar_without_a_shell() -> None:
    """The entry point is the program itself, and what it does by default is serve on 9843."""
    stage = final_stage()
    assert stage["ENTRYPOINT"].arguments() == ["/opt/specgauge/bin/specgauge"]
    assert stage["CMD"].arguments() == ["serve"]
    assert stage["ENTRYPOINT"].rest.startswith("[")
    assert stage["CMD"].rest.startswith("[")
    assert stage["EXPOSE"].rest == "9843"


def test_image_does_not_run_as_root() -> None:
    """The user is a number above 0, which Kubernetes can check before it starts the container."""
    user, group = final_stage()["USER"].rest.split(":")
    assert int(user) >= 1000
    assert int(group) >= 1000


def test_image_leaves_the_health_check_to_the_orchestrator() -> None:
    """There is no HEALTHCHECK and nothing is fetched by ADD."""
    assert not {"HEALTHCHECK", "ADD"} & {i.word for i in instructions()}


def test_labels_say_the_version_and_the_licence() -> None:
    """The image's labels agree with pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    labels = dict(word.split("=", 1) for word in final_stage()["LABEL"].arguments())
    prefix = "org.opencontainers.image"
    assert project["version"] == labels[f"{prefix}.version"]
    assert project["license"] == labels[f"{prefix}.licenses"]
    assert project["name"] == labels[f"{prefix}.title"]


def test_what_is_copied_passes_dockerignore() -> None:
    """Everything the build copies from the repository exists and is let through to the builder."""
    let_through = {
        line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] == "!"
    }
    copies = [i.arguments() for i in instructions() if i.word == "COPY"]
    sources = {source for words in copies if "--from" not in words[0] for source in words[:-1]}
    assert let_through == sources
    assert all((ROOT / source).exists() for source in sources)


def bare_environment() -> dict[str, str]:
    """Return the environment of a build: this one less what points into a Python environment."""
    foreign = ("PYTHON", "COVERAGE", "COV_CORE", "VIRTUAL_ENV", "SPECGAUGE_")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(foreign)}
    return {**kept, "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}


def moved(text: str, root: Path) -> str:
    """Return a line of the Dockerfile with the image's own folders placed under `root`."""
    return re.sub(r"(?<![\w./*-])/(?=(?:src|dist|opt)\b)", f"{root}/", text)


def build(root: Path) -> None:
    """Carry out WORKDIR, COPY and RUN of every stage, with `root` for the image's /."""
    folder = root
    for instruction in instructions():
        words = instruction.arguments()
        if instruction.word == "FROM":
            folder = root
        elif instruction.word == "WORKDIR":
            folder = Path(moved(instruction.rest, root))
            folder.mkdir(parents=True)
        elif instruction.word == "COPY" and words[0].startswith("--from"):
            assert list(Path(moved(words[1], root)).iterdir())
        elif instruction.word == "COPY":
            for source in words[:-1]:
                copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copy
                copy(ROOT / source, folder / words[-1])
        elif instruction.word == "RUN":
            run = subprocess.run(
                ["/bin/sh", "-ec", moved(instruction.rest, root)],
                cwd=folder, env=bare_environment(), capture_output=True, text=True, check=False,
            )  # fmt: skip
            assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.slow
def test_run_lines_make_a_program_that_starts(tmp_path: Path) -> None:
    """The install steps, carried out in an empty folder, end in an entry point that answers."""
    build(tmp_path)
    entry = moved(final_stage()["ENTRYPOINT"].arguments()[0], tmp_path)
    environment = {"PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
    answers = [
        subprocess.run(
            [entry, *arguments],
            cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
        )
        for arguments in (["--version"], ["--help"], ["serve", "--help"])
    ]  # fmt: skip
    assert [answer.returncode for answer in answers] == [0, 0, 0], answers
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert version in answers[0].stdout
    assert not list(Path(entry).parent.glob("pip*"))
