"""`specgauge render`: what it writes, what it says, how it ends."""

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from specgauge.cli.main import main

ROOT = Path(__file__).parents[1]
ONE = ["rules/specgauge.rules.yaml", "rules/simple.rules.yaml", "rules/README.md"]


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the environment's own configuration out."""
    for name in os.environ:
        if name.startswith("SPECGAUGE_"):
            monkeypatch.delenv(name)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str], list[str]]:
    code = main(["render", *arguments])
    said = capsys.readouterr()
    return code, said.out.splitlines(), said.err.splitlines()


def test_writes_one_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The paths written are on stdout, and the files are those of the repository."""
    code, out, err = run(capsys, "rules", "--output", str(tmp_path / "new"))
    assert (code, out, err) == (0, ONE, [])
    for path in ONE:
        assert (tmp_path / "new" / path).read_bytes() == (ROOT / path).read_bytes()


@pytest.mark.package
def test_writes_everything_from_anywhere(tmp_path: Path) -> None:
    """The templates come with the package: the command works wherever it is started."""
    command = [sys.executable, "-m", "specgauge", "render", "--output", "out"]
    made = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (made.returncode, made.stderr) == (0, "")
    assert set(ONE) < set(made.stdout.splitlines())
    assert all((tmp_path / "out" / path).stat().st_size for path in made.stdout.splitlines())


def test_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A changed and a missing file are named with exit code 1; nothing is written."""
    assert run(capsys, "--output", str(tmp_path))[0] == 0
    assert run(capsys, "--output", str(tmp_path), "--check")[:2] == (0, [])
    (tmp_path / ONE[0]).write_text("x")
    (tmp_path / ONE[2]).unlink()
    assert run(capsys, "--output", str(tmp_path), "--check")[:2] == (1, [ONE[0], ONE[2]])
    assert not (tmp_path / ONE[2]).exists()
    assert run(capsys, "native-rules", "--output", str(tmp_path), "--check")[:2] == (0, [])
    monkeypatch.setenv("SPECGAUGE_RULES_TEAM", "other")
    assert run(capsys, "native-rules", "--output", str(tmp_path), "--check")[0] == 1


def test_check_says_what_it_could_not_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without promtool and promql-parser it works, and says that they are missing."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "promql_parser", None)
    run(capsys, "rules", "--output", str(tmp_path))
    code, out, err = run(capsys, "rules", "--output", str(tmp_path), "--check")
    assert (code, out) == (0, [])
    assert err == [
        "promql-parser is not installed: PromQL was not parsed with it",
        "promtool is not on the PATH: it has not read the rules",
    ]


def test_check_takes_promtools_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rules that promtool refuses are told in its words with exit code 1."""
    stub = tmp_path / "promtool"
    stub.write_text("#!/bin/sh\necho 'group \"x\": bad' >&2\nexit 1\n")
    stub.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    code, out, err = run(capsys, "rules", "--output", str(tmp_path), "--check")
    assert (code, out) == (1, [])
    assert err == [f'specgauge: {path}: group "x": bad' for path in ONE[:2]]


PROBLEMS: Mapping[str, tuple[str, str]] = {
    "unknown key": ("{nothing: 1}", "rules.nothing: unknown key; see specgauge config schema"),
    "unknown threshold": (
        "{thresholds: {costs_warnin: 1}}",
        "rules.thresholds.costs_warnin: unknown key; did you mean costs_warning?",
    ),
    "threshold": (
        "{thresholds: {costs_warning: x}}",
        'rules.thresholds.costs_warning: write a number from 0, as 1.5, not "x"',
    ),
    "window": (
        "{scrape_interval: 60s, windows: {short: 1m}}",
        "rules: windows.short must be at least 4x scrape_interval (4m)",
    ),
    "windows": (
        "{windows: {short: 2h}}",
        "rules: windows: short must be below medium, and that below long",
    ),
    "edge": ("{objective: {tpot: 60ms}}", "rules.objective.tpot: must be an edge of vLLM's"),
    "no time": ("{objective: {tpot: fast}}", "rules.objective.tpot: a time is expected, as 50ms"),
    "alert": ("{for: {SpecgaugeX: 1m}}", 'rules.for."SpecgaugeX": no alert of that name'),
    "level": (
        "{severity: {SpecgaugeTargetVanished/critical: none}}",
        'rules.severity."SpecgaugeTargetVanished/critical": no alert of that name',
    ),
    "severity": ("{severity: {A: page}}", 'rules.severity: "A": write warning, critical or none'),
    "levels": ("{levels: {info: a}}", 'rules.levels: "info" is no level; there are warning and'),
    "levels not a mapping": ("{levels: [a]}", "rules.levels: a mapping is expected, not a list"),
    "wait": ("{for: {A: 5}}", 'rules.for: "A": YAML reads this as a number; put it in quotes'),
    "label": ("{labels: {a-b: c}}", 'rules.labels: "a-b" cannot be the name of a further label'),
    "own label": ("{labels: {team: c}}", 'rules.labels: "team" cannot be the name of a further'),
    "label of the server": (
        "{labels: {instance: c}}",
        'rules.labels: "instance" cannot be the name of a further',
    ),
    "label of Prometheus": (
        "{labels: {__name__: c}}",
        'rules.labels: "__name__" cannot be the name of a further',
    ),
    "kept and overwritten": (
        "{labels: {pod: c}, keep_labels: [pod]}",
        "rules: labels: pod is one of keep_labels, and would overwrite it",
    ),
    "label's value": ("{labels: {a: 1}}", "rules.labels: YAML reads this as a number; put it in"),
    "team": ("{teams: {m: no}}", 'rules.teams: "m" needs some text, in quotes'),
    "teams": ("{teams: 5}", "rules.teams: a mapping is expected, not a number"),
    "kept label": ("{keep_labels: [a-b]}", 'rules.keep_labels: "a-b" is not the name of a label'),
    "kept label with a meaning": (
        "{keep_labels: [severity]}",
        'rules.keep_labels: "severity" is no label to keep; it has a meaning of its own',
    ),
    "kept label of Prometheus": (
        "{keep_labels: [__name__]}",
        'rules.keep_labels: "__name__" is no label to keep',
    ),
    "kept label, twice": ("{keep_labels: [a, a]}", 'rules.keep_labels: "a" is there twice'),
    "levels alike": (
        "{levels: {warning: a, critical: a}}",
        "rules.levels: warning and critical must differ",
    ),
    "critical before warning": (
        "{thresholds: {costs_warning: 0.5}}",
        "rules.thresholds: costs_critical is above costs_warning: critical would come before",
    ),
    "critical before warning, rising": (
        "{thresholds: {waiting_warning: 60}}",
        "rules.thresholds: waiting_warning is above waiting_critical: critical would come before",
    ),
    "no host": ('{sidecars: ["a b:1"]}', 'rules.sidecars[0]: "a b" is not a host name or an IP'),
    "no port": ("{engines: [host]}", 'rules.engines[0]: "host" is not an address; write HOST'),
    "any host": ('{alertmanagers: [":1"]}', 'rules.alertmanagers[0]: ":1" names no host and port'),
    "line": ('{team: "a\\nb"}', "rules.team: some text on one line is expected"),
    "URL": ("{runbook_url: runbook}", 'rules.runbook_url: "runbook" is not a URL; write https'),
    "twice": (
        "{severity: {SpecgaugeTargetDown: warning}}",
        "rules/specgauge.rules.yaml: alert SpecgaugeTargetDown warning is there 2 times",
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_problems(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A fault is one line with the key's path; nothing is written."""
    text, problem = PROBLEMS[name]
    file = tmp_path / "specgauge.yaml"
    file.write_text(f"rules: {text}\n")
    code, out, err = run(capsys, "--config", str(file), "--output", str(tmp_path / "out"))
    assert (code, out) == (1 if name == "twice" else 2, [])
    # What is there twice is so in the PrometheusRule as well.
    assert len(err) == (2 if name == "twice" else 1)
    assert err[0].startswith(f"specgauge: {problem}")
    assert not (tmp_path / "out").exists()


def test_configuration_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Thresholds, waits, severities, windows and links of the file are in what is written."""
    file = tmp_path / "specgauge.yaml"
    file.write_text(
        "rules:\n"
        "  thresholds: {kv_cache_warning: 0.85, baseline_age: 60d, falls: 5}\n"
        "  windows: {short: 10m}\n  objective: {tpot: 1s, share: 0.999}\n"
        "  for: {SpecgaugeTargetDown/warning: 7m}\n  severity: {SpecgaugeTargetVanished: none}\n"
        "  levels: {critical: page}\n  job: side\n  runbook_url: https://git.example/r.md/\n"
        "  labels: {site: 'no'}\n  selector: 'cluster=\"a\", '\n  sidecars: [\"[::1]:9843\"]\n"
    )
    assert run(capsys, "rules", "--config", str(file), "--output", str(tmp_path))[0] == 0
    text = (tmp_path / ONE[0]).read_text()
    for part in (
        'specgauge_kv_cache_usage_ratio{cluster="a"}[10m])) > 0.85',
        "> 5184000",
        "[1h])) >= 5",
        "instance:specgauge_acceptance_ratio:ratio_rate10m",
        'le="1.0"',
        "for: 7m",
        "severity: page",
        'up{job="side"}',
        "https://git.example/r.md#specgaugetargetdown",
        "site: 'no'",
    ):
        assert part in text
    assert "SpecgaugeTargetVanished" not in text
    assert "severity: warning" in text


def test_unwritable_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder that cannot be written into is one line and exit code 2."""
    (tmp_path / "file").write_text("")
    code, out, err = run(capsys, "rules", "--output", str(tmp_path / "file"))
    assert (code, out) == (2, [])
    place = tmp_path / "file" / ONE[0]
    assert err == [f"specgauge: {place}: Not a directory; choose another --output"]


def test_nothing_is_half_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where one of several files has no place, what lay there stays, and no draft does."""
    config = tmp_path / "specgauge.yaml"
    config.write_text("routing: {}\n")
    folder = tmp_path / "nginx"
    (folder / "route.js").mkdir(parents=True)
    (folder / "nginx.conf").write_text("old")
    (folder / "nginx.conf").chmod(0o640)
    command = ("nginx", "--config", str(config), "--output", str(tmp_path))
    code, out, err = run(capsys, *command)
    assert (code, out) == (2, [])
    assert err[-1].endswith("route.js: Is a directory; choose another --output")
    assert sorted(one.name for one in folder.iterdir()) == ["nginx.conf", "route.js"]
    assert (folder / "nginx.conf").read_text() == "old"
    (folder / "route.js").rmdir()
    assert run(capsys, *command)[0] == 0
    assert stat.S_IMODE((folder / "nginx.conf").stat().st_mode) == 0o640


KILLED = """
import os, signal, sys
from specgauge.cli.main import main
left = int(sys.argv.pop(1))
def kill(event, _):
    global left
    if event == "os.rename":
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(kill)
main(sys.argv[1:])
"""


@pytest.mark.parametrize("renamed", [0, 1, 2], ids=["none", "one", "two"])
def test_killed_between_two_files(
    renamed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every file is an old or a new one; --check names the old ones, and what else was left."""
    words = ["rules", "--output", str(tmp_path)]
    (tmp_path / "rules").mkdir()
    for path in ONE:
        (tmp_path / path).write_text("old")
    command = [sys.executable, "-c", KILLED, str(renamed), "render", *words]
    ended = subprocess.run(command, capture_output=True, check=False)
    assert ended.returncode == -signal.SIGKILL
    code, out, err = run(capsys, *words, "--check")
    assert (code, out) == (1, ONE[renamed:])
    for number, path in enumerate(ONE):
        whole = (ROOT / path).read_text() if number < renamed else "old"
        assert (tmp_path / path).read_text() == whole
    left = [line for line in err if line.endswith("ended midway; delete it")]
    assert len(left) == len(ONE) - renamed
    for line in left:
        Path(line.partition(": left by")[0]).unlink()
    assert run(capsys, *words)[0] == 0
    assert run(capsys, *words, "--check")[:2] == (0, [])


def test_unknown_kind(capsys: pytest.CaptureFixture[str]) -> None:
    """A kind that there is not is a usage error that names those there are."""
    code, _, err = run(capsys, "pictures")
    assert code == 2
    assert "native-rules" in err[-1]
