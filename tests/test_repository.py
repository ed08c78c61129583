"""The repository itself: what a reader, a fresh clone and a build machine rely on."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

# In two halves, so that this file does not find itself.
MACHINE_PATH = re.compile(r"(?<![\w./:-])/(?:wo" r"rk|ho" r"me|ro" r"ot)(?:/|\b)")
REGISTRY = re.compile(r"\b(?:py" r"pi|pythonho" r"sted|np" r"mjs|deb\.deb" r"ian)\.(?:org|com)\b")


def tracked_files() -> list[Path]:
    """List the files git keeps or would keep, without the ones that are no text of ours."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        assert os.environ.get("CI") != "true", f"git cannot list the files: {run.stderr}"
        pytest.skip("not a git clone")
    paths = [ROOT / name for name in run.stdout.split("\0") if name]
    return [path for path in paths if path.is_file()]


def found(pattern: re.Pattern[str]) -> list[str]:
    """Return file and line of each hit of a pattern in the tracked files."""
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for path in tracked_files()
        for number, line in enumerate(path.read_bytes().decode(errors="replace").splitlines(), 1)
        if pattern.search(line)
    ]


@pytest.mark.parametrize(
    "pattern", [MACHINE_PATH, REGISTRY], ids=["absolute machine path", "registry host"]
)
def test_files_name_no_machine(pattern: re.Pattern[str]) -> None:
    """Nothing points at somebody's own disk, and which registry is used is left to pip and apt."""
    assert found(pattern) == []


def test_readme_is_short_and_names_the_python() -> None:
    """The README fits on 200 lines, and the Python it asks for is the one pip asks for."""
    readme = (ROOT / "README.md").read_text()
    assert len(readme.splitlines()) <= 200
    oldest = PROJECT["requires-python"].removeprefix(">=")
    assert {oldest} == set(re.findall(r"Python (3\.\d+)", readme))


def test_changelog_has_the_current_version() -> None:
    """The newest section of the changelog is that of the version in pyproject.toml."""
    versions = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert PROJECT["version"] == next(v for v in versions if v != "Unreleased")


def test_commit_hooks_need_no_network() -> None:
    """Every pre-commit hook is local and runs what the environment has."""
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    hooks = [hook for repo in config["repos"] for hook in repo["hooks"]]
    assert {"local"} == {repo["repo"] for repo in config["repos"]}
    assert {"system"} == {hook["language"] for hook in hooks}
    assert {"ruff-check", "ruff-format", "mypy"} == {hook["id"] for hook in hooks}


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run make as from a person's shell, also where the tests themselves were started by make."""
    env = {k: v for k, v in os.environ.items() if k not in {"MAKEFLAGS", "MAKELEVEL", "MFLAGS"}}
    return subprocess.run(
        ["make", *arguments], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )


def test_make_alone_lists_every_target() -> None:
    """`make` without a target explains each of them in a line."""
    phony = re.search(r"^\.PHONY: (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert phony is not None
    run = make()
    listed = re.findall(r"^  make ([a-z-]+) +\S", run.stdout, re.MULTILINE)
    assert (0, sorted(phony[1].split())) == (run.returncode, sorted(listed))


def test_make_says_which_python_is_needed(tmp_path: Path) -> None:
    """With an old Python, or one without venv, make stops with one line that says what to do."""
    old = tmp_path / "python3.9"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    run = make(f"PYTHON={old}", f"VENV={tmp_path / 'venv'}", "run")
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.startswith(f"make: {old} is no Python 3.11 or newer with venv: install one")
    assert not (tmp_path / "venv").exists()


def test_scripts_are_sound() -> None:
    """Every shell script can be executed, and shellcheck has no complaint."""
    shebang = re.compile(rb"#!\S*/(env )?(ba)?sh\b")
    scripts = [path for path in tracked_files() if shebang.match(path.read_bytes())]
    assert ROOT / ".ci" / "run" in scripts
    assert [script for script in scripts if not os.access(script, os.X_OK)] == []
    if shutil.which("shellcheck") is None:
        assert os.environ.get("CI") != "true", "shellcheck is missing: .ci/packages installs it"
        pytest.skip("shellcheck is not installed")
    command = ["shellcheck", *map(str, scripts)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout + run.stderr) == (0, "")


@pytest.mark.parametrize("script", ["run", "packages"])
def test_ci_scripts_refuse_what_they_do_not_know(script: str) -> None:
    """A mistyped stage is a usage error that lists the right ones."""
    command = [str(ROOT / ".ci" / script), "nonsense"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert "unknown" in run.stderr
    assert "are known" in run.stderr
