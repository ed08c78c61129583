"""From the configuration to the plain values that the sidecar takes."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.baselines import document

from specgauge.cli.settings import settings_of
from specgauge.config import load
from specgauge.errors import ConfigError
from specgauge.model.derived import Hints
from specgauge.model.settings import Settings, TargetSettings
from specgauge.serve.loop import endpoint
from specgauge.serve.scrape import Endpoint, metrics_url


def read(folder: Path, text: str) -> Settings:
    file = folder / "specgauge.yaml"
    file.write_text(text)
    return settings_of(load(file, env={}, overrides={}))


def write_baseline(path: Path, **more: Any) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(document(**more)))
    return path


def test_defaults_are_the_same_in_both_places(tmp_path: Path) -> None:
    """What the configuration says by default is what the values say by default."""
    settings = read(tmp_path, "targets: [{url: 'http://a:8000', name: a}]")
    assert settings == Settings(targets=(TargetSettings(name="a", url="http://a:8000/metrics"),))


def test_every_key_arrives(tmp_path: Path) -> None:
    """No key of the configuration is left behind; secrets are read into the headers."""
    write_baseline(tmp_path / "base.json")
    for name in ("bearer", "token", "ca.pem", "cert.pem", "key.pem"):
        (tmp_path / name).write_text(f"{name}-text\n")
    settings = read(
        tmp_path,
        """
        targets:
          - {name: a, url: "https://a:8443/m?x=1", role: standard, engines: 2, method: eagle,
             auth: {bearer_file: bearer, headers: {X-Tenant: t}},
             tls: {ca_file: ca.pem, cert_file: cert.pem, key_file: key.pem, server_name: s}}
        scrape: {interval: 2s, timeout: 4s, max_bytes: 1MiB}
        window: 90s
        listen: "127.0.0.1:1234"
        token_file: token
        export: {histograms: false, positions: false}
        decision_window: 30s
        baseline: {file: base.json, target: a, margin: 0.1}
        """,
    )
    (baseline,) = settings.baselines
    assert settings == Settings(
        targets=(
            TargetSettings(
                name="a",
                url="https://a:8443/m?x=1",
                role="standard",
                hints=Hints(method="eagle", engines=2),
                headers={"X-Tenant": "t", "Authorization": "Bearer bearer-text"},
                ca_file=str(tmp_path / "ca.pem"),
                cert_file=str(tmp_path / "cert.pem"),
                key_file=str(tmp_path / "key.pem"),
                server_name="s",
            ),
        ),
        interval=2.0,
        timeout=4.0,
        max_bytes=1 << 20,
        window=90.0,
        host="127.0.0.1",
        port=1234,
        token="token-text",
        histograms=False,
        positions=False,
        decision_window=30.0,
        baselines=(baseline,),
        baseline_target="a",
        margin=0.1,
    )
    assert baseline.source == str(tmp_path / "base.json")
    assert [one.decode_concurrency for one in baseline.curve.levels] == [1.0, 8.0]
    assert "text" not in repr(settings)
    assert endpoint(settings.targets[0], settings) == Endpoint(
        url="https://a:8443/m?x=1",
        headers=settings.targets[0].headers,
        ca_file=str(tmp_path / "ca.pem"),
        cert_file=str(tmp_path / "cert.pem"),
        key_file=str(tmp_path / "key.pem"),
        server_name="s",
        timeout=4.0,
        max_bytes=1 << 20,
    )


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        pytest.param("http://a:8000", "http://a:8000/metrics", id="http"),
        pytest.param("https://a/prometheus/metrics", "https://a/prometheus/metrics", id="path"),
        pytest.param(
            "http+unix:///run/v.sock", "http+unix:///run/v.sock:/metrics", id="socket"
        ),
        pytest.param(
            "http+unix:///run/v.sock:/m?x=1", "http+unix:///run/v.sock:/m?x=1", id="socket path"
        ),
    ],
)  # fmt: skip
def test_urls(tmp_path: Path, url: str, expected: str) -> None:
    """The URL in the configuration is the one that is fetched."""
    (target,) = read(tmp_path, f"targets: [{{url: '{url}'}}]").targets
    assert metrics_url(target.url) == expected


ONE = "targets: [{url: 'http://a:8000'}]\n"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        pytest.param("", 15.0, id="default"),
        pytest.param("window: 10s", 10.0, id="never above the window"),
        pytest.param("decision_window: 5s", 5.0, id="as told"),
    ],
)
def test_decision_window(tmp_path: Path, text: str, seconds: float) -> None:
    """By default it is fifteen seconds, or the window where that is shorter."""
    assert read(tmp_path, ONE + text).decision_window == seconds


def test_baselines_of_file_and_folder(tmp_path: Path) -> None:
    """The file comes first, then those of the folder by name; other files there are left alone."""
    paths = [
        write_baseline(tmp_path / "b.json"),
        write_baseline(tmp_path / "more" / "x.json", model={"name": "x"}),
        write_baseline(tmp_path / "more" / "y.json"),
    ]
    (tmp_path / "more" / "notes.txt").write_text("none")
    found = read(tmp_path, ONE + "baseline: {file: b.json, dir: more}").baselines
    assert [one.source for one in found] == [str(path) for path in paths]
    assert found[1].facts["model.name"] == "x"


def test_empty_folder(tmp_path: Path) -> None:
    """A folder may be filled later."""
    (tmp_path / "more").mkdir()
    assert read(tmp_path, ONE + "baseline: {dir: more}").baselines == ()


def test_bad_baselines_tell_every_fault(tmp_path: Path) -> None:
    """Each fault of each file is a line under the key that named the file."""
    write_baseline(tmp_path / "b.json", created="yesterday", levels=[])
    write_baseline(tmp_path / "more" / "x.json", schema="specgauge.baseline/v2")
    write_baseline(tmp_path / "more" / "y.json", mode={})
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, ONE + "baseline: {file: b.json, dir: more}")
    found = caught.value.problems
    folder = tmp_path / "more"
    starts = [
        f"baseline.file: {tmp_path / 'b.json'}: created: ",
        f"baseline.file: {tmp_path / 'b.json'}: levels: ",
        f"baseline.dir: {folder / 'x.json'}: schema: ",
        f"baseline.dir: {folder / 'y.json'}: mode: ",
    ]
    assert [line.startswith(start) for line, start in zip(found, starts, strict=True)] == [True] * 4


def test_folder_that_went_away(tmp_path: Path) -> None:
    """A folder that is gone between two looks is a fault of the key, as any other."""
    (tmp_path / "more").mkdir()
    (tmp_path / "specgauge.yaml").write_text(ONE + "baseline: {dir: more}")
    config = load(tmp_path / "specgauge.yaml", env={}, overrides={})
    (tmp_path / "more").rmdir()
    with pytest.raises(ConfigError, match=r"^baseline\.dir: .*more: No such file or directory$"):
        settings_of(config)
