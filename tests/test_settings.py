"""From the configuration to the plain values that the sidecar takes."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.baselines import document

from specgauge.cli.settings import guard_of, settings_of
from specgauge.config import load
from specgauge.errors import ConfigError
from specgauge.guard.flags.embedded import EmbeddedTerms
from specgauge.guard.flags.etcd import EtcdTerms
from specgauge.guard.flags.exec import ExecTerms
from specgauge.guard.flags.file import FileTerms
from specgauge.guard.flags.haproxy import HaproxyTerms
from specgauge.guard.flags.kubernetes import KubernetesTerms
from specgauge.guard.flags.nginx import NginxTerms
from specgauge.guard.flags.production_stack import ProductionStackTerms
from specgauge.guard.flags.webhook_plan import WebhookTerms
from specgauge.guard.policy import Objective, Policy
from specgauge.guard.settings import (
    FlagSettings,
    GrafanaSettings,
    GuardSettings,
    PrometheusSettings,
)
from specgauge.model.derived import Hints
from specgauge.model.guard import Signal, Switch
from specgauge.model.settings import Settings, TargetSettings
from specgauge.serve.loop import endpoint
from specgauge.serve.scrape import Endpoint


def read(folder: Path, text: str) -> Settings:
    file = folder / "specgauge.yaml"
    file.write_text(text)
    return settings_of(load(file, env={}, overrides={}))


def read_guard(
    folder: Path, text: str, env: Mapping[str, str] | None = None
) -> GuardSettings | None:
    file = folder / "specgauge.yaml"
    file.write_text(text)
    return guard_of(load(file, env=env or {}, overrides={}))


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
    assert target.url == expected


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


def test_no_guard(tmp_path: Path) -> None:
    """Where the configuration has no guard, there is none."""
    assert read_guard(tmp_path, ONE) is None


def test_guard_defaults_are_the_same_in_both_places(tmp_path: Path) -> None:
    """What the configuration says of the guard by default is what its values say by default."""
    assert read_guard(tmp_path, ONE + "guard: {}") == GuardSettings(
        flag=FlagSettings(terms={"file": None})
    )


def test_every_guard_key_arrives(tmp_path: Path) -> None:
    """No key of the guard or its flag is left behind; files are paths."""
    (tmp_path / "token").write_text("t0ken")
    (tmp_path / "ca.pem").write_text("pem")
    found = read_guard(
        tmp_path,
        ONE
        + """
baseline: {margin: 0.1}
decision_window: 20s
guard:
  dry_run: true
  min_tokens: 1
  min_requests: 2
  min_drafts: 3
  consecutive: 4
  severe: 0.7
  signals: {speedup: dry_run, acceptance_floor: off, collapse: off, latency: on, errors: on}
  objective: {tpot: 2.5ms, ttft: 1s, e2e: 10s}
  acceptance_floor: 1.5
  cooldown: 1m
  backoff: {factor: 1.5, max: 2m}
  recovery: {mode: manual, probe_for: 90s}
  max_fallbacks_per_day: 5
  max_fallback_share: 0.25
  startup_grace: 0s
  require_standard_capacity: false
  freeze_file: freeze
  lock_file: lock
  source: prometheus
  state_file: state.json
  audit_file: audit.jsonl
  prometheus: {url: "https://p/x", token_file: token, ca_file: ca.pem, selector: 'a="b"',
               tenant: t, interval: 30s, timeout: 10s}
  grafana: {url: "http://g:3000", token_file: token}
flag:
  backend: etcd
  key: k
  timeout: 1s
  check_interval: 10s
  obeyed_by: the gateway
  etcd: {url: "http://e:2379", token_file: token, "on": "1", "off": "0", ca_file: ca.pem}
""",
    )
    token, pem = str(tmp_path / "token"), str(tmp_path / "ca.pem")
    signals = {
        Signal.SPEEDUP: Switch.DRY_RUN,
        Signal.ACCEPTANCE_FLOOR: Switch.OFF,
        Signal.COLLAPSE: Switch.OFF,
        Signal.LATENCY: Switch.ON,
        Signal.ERRORS: Switch.ON,
    }
    policy = Policy(
        dry_run=True,
        min_tokens=1,
        min_requests=2,
        min_drafts=3,
        consecutive=4,
        severe=0.7,
        decision_window=120.0,  # four intervals of guard.prometheus
        margin=0.1,
        signals=signals,
        objective=Objective(tpot_seconds=0.0025, ttft_seconds=1.0, e2e_seconds=10.0),
        floor=1.5,
        cooldown=60.0,
        backoff_factor=1.5,
        backoff_max=120.0,
        probes=False,
        probe_for=90.0,
        max_fallbacks_per_day=5,
        startup_grace=0.0,
        require_standard_capacity=False,
        max_fallback_share=0.25,
    )
    terms = {
        "url": "http://e:2379", "key": "k", "token_file": token, "on": "1", "off": "0",
        "ca_file": pem,
    }  # fmt: skip
    assert found == GuardSettings(
        policy=policy,
        flag=FlagSettings(
            backend="etcd",
            key="k",
            timeout=1.0,
            check_interval=10.0,
            obeyed_by="the gateway",
            terms=terms,
        ),
        decision_window=20.0,
        source="prometheus",
        state_file=str(tmp_path / "state.json"),
        audit_file=str(tmp_path / "audit.jsonl"),
        freeze_file=str(tmp_path / "freeze"),
        lock_file=str(tmp_path / "lock"),
        prometheus=PrometheusSettings(
            url="https://p/x",
            token_file=token,
            ca_file=pem,
            tenant="t",
            selector='a="b"',
            interval=30.0,
            timeout=10.0,
        ),
        grafana=GrafanaSettings(url="http://g:3000", token_file=token),
    )


def test_playbook(tmp_path: Path) -> None:
    """The preset brings its window and its windows in a row, whatever the verdict looks at."""
    found = read_guard(tmp_path, ONE + "decision_window: 5s\nguard: {preset: playbook}")
    assert found is not None
    assert (found.policy.playbook, found.policy.consecutive) == (True, 3)
    assert found.decision_window == 60.0


def test_window_of_the_guard(tmp_path: Path) -> None:
    """It is never above the window of the gauges."""
    found = read_guard(tmp_path, ONE + "window: 10s\nguard: {}")
    assert found is not None
    assert found.decision_window == 10.0


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        pytest.param("embedded: {}", EmbeddedTerms, id="embedded"),
        pytest.param("webhook: {url: 'http://f'}", WebhookTerms, id="webhook"),
        pytest.param("file: {path: /tmp/f}", FileTerms, id="file"),
        pytest.param("exec: {'on': [a], 'off': [b]}", ExecTerms, id="exec"),
        pytest.param("etcd: {url: 'http://e'}", EtcdTerms, id="etcd"),
        pytest.param("kubernetes: {configmap: c}", KubernetesTerms, id="kubernetes"),
        pytest.param("haproxy: {socket: /s, backend: b, server: s}", HaproxyTerms, id="haproxy"),
        pytest.param("nginx: {file: /tmp/f, 'on': 'a', 'off': 'b'}", NginxTerms, id="nginx"),
        pytest.param(
            "production-stack: {file: /tmp/f, 'on': 'on', 'off': 'off'}",
            ProductionStackTerms,
            id="production-stack",
        ),
    ],
)
def test_terms_are_those_of_the_backend(
    tmp_path: Path, text: str, terms: Callable[..., object]
) -> None:
    """The backend is handed its own keys and nothing else, all of them plain values."""
    for name in ("on", "off"):
        (tmp_path / name).write_text("{}")
    backend = text.partition(":")[0]
    found = read_guard(tmp_path, f"{ONE}guard: {{}}\nflag: {{backend: {backend}, {text}}}")
    assert found is not None
    assert terms(**found.flag.terms)
    plain = (str, int, tuple, dict, type(None))
    assert all(isinstance(value, plain) for value in found.flag.terms.values())


def test_tokens_of_the_environment(tmp_path: Path) -> None:
    """A token from a variable is handed on as it is, and is never shown."""
    env = {
        "SPECGAUGE_FLAG_WEBHOOK_TOKEN": "hunter1",
        "SPECGAUGE_GUARD_PROMETHEUS_TOKEN": "hunter2",
        "SPECGAUGE_GUARD_GRAFANA_TOKEN": "hunter3",
    }
    found = read_guard(
        tmp_path,
        ONE
        + """
guard: {prometheus: {url: "http://p"}, grafana: {url: "http://g"}}
flag: {backend: webhook, webhook: {url: "http://f/<< flag >>"}}
""",
        env,
    )
    assert found is not None
    assert found.prometheus is not None
    assert found.grafana is not None
    assert found.flag.terms["token"] == "hunter1"
    assert (found.prometheus.token, found.grafana.token) == ("hunter2", "hunter3")
    assert "hunter" not in repr(found)


@pytest.mark.parametrize(
    ("more", "seconds"),
    [("", 15.0), ("source: prometheus, prometheus: {url: 'http://p:9090', interval: 15s}", 60.0)],
    ids=["sidecar", "pool"],
)
def test_one_window_of_a_pool_is_one_window(tmp_path: Path, more: str, seconds: float) -> None:
    """A window that has to be long to hold enough scrapes is not worth several."""
    file = tmp_path / "specgauge.yaml"
    file.write_text(f"targets: [{{url: 'http://e:8000'}}]\nguard: {{{more}}}\n")
    made = guard_of(load(file, env={}, overrides={}))
    assert made is not None
    assert made.policy.decision_window == seconds
    assert made.decision_window == 15.0
