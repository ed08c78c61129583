"""From the configuration to the plain values that the sidecar takes."""

from pathlib import Path

import pytest

from specgauge.cli.settings import settings_of
from specgauge.config import load
from specgauge.model.derived import Hints
from specgauge.model.settings import Settings, TargetSettings
from specgauge.serve.loop import endpoint
from specgauge.serve.scrape import Endpoint, metrics_url


def read(folder: Path, text: str) -> Settings:
    file = folder / "specgauge.yaml"
    file.write_text(text)
    return settings_of(load(file, env={}, overrides={}))


def test_defaults_are_the_same_in_both_places(tmp_path: Path) -> None:
    """What the configuration says by default is what the values say by default."""
    settings = read(tmp_path, "targets: [{url: 'http://a:8000', name: a}]")
    assert settings == Settings(targets=(TargetSettings(name="a", url="http://a:8000/metrics"),))


def test_every_key_arrives(tmp_path: Path) -> None:
    """No key of the configuration is left behind; secrets are read into the headers."""
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
        """,
    )
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
    )
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
