"""The keys of the guard and its flag: what may be written, and what is said otherwise."""

import os
from collections.abc import Mapping
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner

from specgauge.cli.config import config_group
from specgauge.config import (
    Config,
    FlagKeys,
    GuardKeys,
    advice,
    effective,
    load,
    named_files,
    schema,
)
from specgauge.config.describe import key_table
from specgauge.config.document import parse_yaml
from specgauge.config.guard_rules import PLAYBOOK_WINDOW
from specgauge.config.keys import KEYS
from specgauge.errors import ConfigError
from specgauge.guard import settings

ONE = "targets: [{url: 'http://a:1', name: a}]\n"
GUARD = f"{ONE}guard: {{}}\n"
QUIET = """
targets: [{url: 'http://a:1', name: a}, {url: 'http://b:1', name: b, role: standard}]
baseline: {target: b}
guard: {}
"""
SERVICES = "speculative_service: a, standard_service: b"
BACKENDS = {
    "embedded": "embedded: {file: flag.json}",
    "webhook": "webhook: {preset: unleash, url: 'http://f:1', headers: {X-Api-Key: hunter2}}",
    "file": "file: {path: flag}",
    "exec": "exec: {on: [sh, -c, 'true'], off: [sh, -c, 'false']}",
    "etcd": "etcd: {url: 'https://e:2379'}",
    "kubernetes": "kubernetes: {configmap: flags}",
    "haproxy": "haproxy: {socket: s.sock, backend: b, server: spec}",
    "nginx": "nginx: {file: pool.conf, on: 'set $p spec;', off: 'set $p plain;'}",
    "production-stack": "production-stack: {file: r.json, on: on.json, off: off.json}",
}


def write(folder: Path, text: str, name: str = "specgauge.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def read(folder: Path, text: str, env: Mapping[str, str] | None = None) -> Config:
    return load(write(folder, text), env=env or {}, overrides={})


def problems(folder: Path, text: str, env: Mapping[str, str] | None = None) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        read(folder, text, env)
    return caught.value.problems


def guard_in(folder: Path, text: str) -> GuardKeys:
    guard = read(folder, f"{ONE}{text}").guard
    assert guard is not None
    return guard


def test_no_guard_unless_asked_for(tmp_path: Path) -> None:
    """Absent, or without a value, the key means no guard; {} means all defaults."""
    assert read(tmp_path, ONE).guard is None
    assert read(tmp_path, f"{ONE}guard:\nflag:\n").guard is None
    assert guard_in(tmp_path, "guard: {}") == GuardKeys()
    assert read(tmp_path, GUARD).flag is None


def test_one_variable_is_a_guard(tmp_path: Path) -> None:
    """Every key is a variable, and one is enough; lists are YAML."""
    env = {
        "SPECGAUGE_GUARD_DRY_RUN": "true",
        "SPECGAUGE_GUARD_SIGNALS_SPEEDUP": "on",
        "SPECGAUGE_GUARD_SIGNALS_COLLAPSE": "off",
        "SPECGAUGE_GUARD_SEVERE": "0.7",
        "SPECGAUGE_GUARD_OBJECTIVE_E2E": "8s",
        "SPECGAUGE_FLAG_BACKEND": "exec",
        "SPECGAUGE_FLAG_EXEC_ON": "[a, '1']",
        "SPECGAUGE_FLAG_EXEC_OFF": '["a", "0"]',
        "SPECGAUGE_FLAG_WEBHOOK_HEADERS_X_KEY": "k",
        "SPECGAUGE_FLAG_WEBHOOK_EXPECT_STATUS": "[200, 204]",
        "SPECGAUGE_FLAG_PRODUCTION_STACK_FILE": str(tmp_path / "r.json"),
    }
    config = read(tmp_path, ONE, env)
    guard, flag = config.guard, config.flag
    assert guard is not None
    assert flag is not None
    assert (guard.dry_run, guard.severe, guard.objective.e2e) == (True, 0.7, 8.0)
    assert (guard.signals.speedup, guard.signals.collapse) == ("on", "off")
    assert (flag.exec.on, flag.exec.off) == (("a", "1"), ("a", "0"))
    assert flag.webhook.headers == {"X-Key": "k"}
    assert flag.webhook.expect_status == (200, 204)
    assert flag.production_stack.file == tmp_path / "r.json"
    assert config.targets[0].name == "a"


@pytest.mark.parametrize(
    ("written", "read_as"),
    [
        pytest.param("on", "on", id="boolean on"),
        pytest.param("'on'", "on", id="text on"),
        pytest.param("true", "on", id="true"),
        pytest.param("off", "off", id="boolean off"),
        pytest.param('"off"', "off", id="text off"),
        pytest.param("dry_run", "dry_run", id="dry run"),
    ],
)
def test_signal_modes(tmp_path: Path, written: str, read_as: str) -> None:
    """YAML makes booleans of on and off; both spellings mean the same."""
    guard = guard_in(tmp_path, f"guard: {{signals: {{collapse: {written}}}}}")
    assert guard.signals.collapse == read_as


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("2.5ms", 0.0025), ("25ms", 0.025), ("1.5s", 1.5), ("1m30s", 90.0), ("null", None)],
)
def test_latencies(tmp_path: Path, written: str, seconds: float | None) -> None:
    """A latency may have a fraction of a millisecond, and is shown as it was meant."""
    text = f"guard: {{signals: {{latency: on}}, objective: {{tpot: {written}, e2e: 8s}}}}"
    assert guard_in(tmp_path, text).objective.tpot == seconds
    shown = effective(read(tmp_path, ONE + text))
    again = read(tmp_path, shown).guard
    assert again is not None
    assert again.objective.tpot == seconds


@pytest.mark.parametrize(
    ("text", "consecutive"),
    [
        pytest.param("guard: {}", 2, id="none"),
        pytest.param("guard: {preset: playbook}", 3, id="playbook"),
        pytest.param("guard: {preset: playbook, consecutive: 5}", 5, id="one's own goes first"),
        pytest.param("guard: {preset: null, consecutive: 4}", 4, id="null"),
    ],
)
def test_preset_lies_under_what_is_written(tmp_path: Path, text: str, consecutive: int) -> None:
    """The playbook's numbers hold where none of one's own is given, and `show` shows them."""
    assert guard_in(tmp_path, text).consecutive == consecutive
    again = read(tmp_path, effective(read(tmp_path, ONE + text))).guard
    assert again is not None
    assert again.consecutive == consecutive


def test_playbook_window_is_one_number() -> None:
    """The rule about the window and the value that the guard is handed agree."""
    assert PLAYBOOK_WINDOW == settings.PLAYBOOK_WINDOW


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("guard: on", "guard: a mapping is expected, not true or false"),
        ("guard: {dryrun: true}", "guard.dryrun: unknown key; did you mean dry_run?"),
        ("guard: {dry_run: 1}", "guard.dry_run: write true or false, not 1"),
        ("guard: {preset: book}", 'guard.preset: write playbook, not "book"'),
        ("guard: {min_tokens: -1}", "guard.min_tokens: write a whole number from 0, not -1"),
        ("guard: {min_drafts: many}", "guard.min_drafts: write a whole number from 0"),
        ("guard: {consecutive: 0}", "guard.consecutive: write a whole number from 1, not 0"),
        ("guard: {consecutive: true}", "guard.consecutive: write a whole number from 1, not true"),
        ("guard: {severe: 80%}", 'guard.severe: write a ratio from 0 to 1, as 0.8, not "80%"'),
        ("guard: {severe: nan}", "guard.severe: write a ratio from 0 to 1"),
        ("guard: {severe: on}", "guard.severe: write a ratio from 0 to 1"),
        ("guard: {signals: on}", "guard.signals: a mapping is expected, not true or false"),
        ("guard: {signals: {speedup: 1}}", "guard.signals.speedup: write on, dry_run or off"),
        ("guard: {signals: {speed: on}}", "guard.signals.speed: unknown key; did you mean speedup"),
        (
            "guard: {signals: {latency: on}}",
            "guard.signals.latency: needs a latency to hold the server to; set guard.objective",
        ),
        ("guard: {objective: {tpot: 0s}}", "guard.objective.tpot: must be above 0s"),
        ("guard: {objective: {tpot: 25}}", "guard.objective.tpot: 25 has no unit; write 25s"),
        ("guard: {objective: {tpot: 2.5}}", "guard.objective.tpot: 2.5 has no unit"),
        ("guard: {acceptance_floor: 0.4}", "guard.acceptance_floor: write tokens a step from 1"),
        ("guard: {cooldown: 300}", "guard.cooldown: 300 has no unit; write 300s"),
        ("guard: {cooldown: 2h}", "guard.backoff.max: must not be below guard.cooldown (2h)"),
        ("guard: {backoff: {factor: 0.5}}", "guard.backoff.factor: write a number from 1 to 100"),
        ("guard: {recovery: {mode: auto}}", "guard.recovery.mode: write probe or manual"),
        ("guard: {max_fallback_share: 2}", "guard.max_fallback_share: write a share from 0 to 1"),
        ("guard: {max_fallback_share: []}", "guard.max_fallback_share: write a share from 0 to 1"),
        ("guard: {freeze_file: /no/f}", "guard.freeze_file: /no/f: the folder /no is not there"),
        ("guard: {state_file: /}", "guard.state_file: /: a folder; name a file in it"),
        ("guard: {state_file: /dev/null}", "guard.state_file: /dev/null: a device or a pipe, whi"),
        ("guard: {audit_file: 5}", "guard.audit_file: YAML reads this as a number"),
        ("guard: {source: thanos}", "guard.source: write sidecar or prometheus"),
        (
            "guard: {source: prometheus}",
            "guard.prometheus.url: missing; guard.source: prometheus needs it, as http://",
        ),
        ("guard: {prometheus: {url: 'p:9090'}}", "guard.prometheus.url: not a URL; write http://"),
        (
            "guard: {prometheus: {url: 'http+unix:///p'}}",
            'guard.prometheus.url: scheme "http+unix" is not known; use http:// or https://',
        ),
        *(
            (f"{where} '{url}'{'}' * where.count('{')}", f"{key}: {said}")
            for url, said in (
                ("http://p/?x=1", "what is asked for comes after the URL; remove the ? and what"),
                ("https://p?x", "what is asked for comes after the URL; remove the ? and what"),
                ("http://p/#x", "a URL to request has no fragment; remove the # and what"),
            )
            for where, key in (
                ("guard: {prometheus: {url:", "guard.prometheus.url"),
                ("guard: {grafana: {url:", "guard.grafana.url"),
                ("report: {prometheus:", "report.prometheus"),
            )
        ),
        (
            "guard: {grafana: {url: 'http://u:hunter2@g'}}",
            "guard.grafana.url: a URL holds no credentials; use token_file",
        ),
        (
            "guard: {prometheus: {selector: '{job=\"a\"}'}}",
            'guard.prometheus.selector: write label matchers without braces, as job="specgauge"',
        ),
        (
            "guard: {prometheus: {token: hunter2}}",
            "guard.prometheus.token: secrets stay out of the file; use token_file or SPECGAUGE_GUA",
        ),
        ("guard: {preset: playbook}\nwindow: 59s", "window: must be at least 1m for guard.preset"),
    ],
)
def test_guard_problems(tmp_path: Path, text: str, expected: str) -> None:
    """A fault is one line: the key with its path, what is wrong, and what to write."""
    (problem,) = problems(tmp_path, ONE + text)
    assert problem.startswith(expected)
    assert "hunter2" not in problem


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "targets: [{url: 'http://a', role: standard}]", "not 0; run a sidecar", id="none"
        ),
        pytest.param(
            "targets: [{url: 'http://a'}, {url: 'http://b'}]", "not 2; run a sidecar", id="two"
        ),
    ],
)
def test_one_speculative_target(tmp_path: Path, text: str, expected: str) -> None:
    """A guard judges one server by its pages, or a pool by Prometheus."""
    (problem,) = problems(tmp_path, f"{text}\nguard: {{}}")
    assert problem.startswith("guard: needs exactly one target with role: speculative, ")
    assert expected in problem
    fleet = "guard: {source: prometheus, prometheus: {url: 'http://p:9090'}}"
    assert read(tmp_path, f"{text}\n{fleet}").guard is not None


@pytest.mark.parametrize(
    "selector",
    ['job="specgauge",model_name="m"', 'job=~"a|b", x!="", ', "a='b'", r'a!~"\"x\\"'],
)
def test_selectors(tmp_path: Path, selector: str) -> None:
    """Label matchers are taken as PromQL has them."""
    env = {"SPECGAUGE_GUARD_PROMETHEUS_SELECTOR": selector}
    guard = read(tmp_path, ONE, env).guard
    assert guard is not None
    assert guard.prometheus.selector == selector.strip()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("backend: redis", "flag.backend: write embedded, webhook, file, exec, etcd, kubernetes"),
        ("key: 'a b'", 'flag.key: "a b" is not a key'),
        ("timeout: 0s", "flag.timeout: must be at least 1ms"),
        ("check_interval: 10ms", "flag.check_interval: must be at least 100ms"),
        ("obeyed_by: ''", "flag.obeyed_by: some text is expected"),
        ("embedded: {path: a}", "flag.embedded.path: unknown key"),
        ("backend: webhook", "flag.webhook.url: missing; flag.backend: webhook needs it"),
        ("webhook: {preset: flipt}", "flag.webhook.preset: write playbook, unleash, launchdarkly"),
        ("webhook: {method: post}", "flag.webhook.method: write POST, PUT, PATCH, DELETE or GET"),
        ("webhook: {expect_status: 200}", "flag.webhook.expect_status: a list is expected, not a"),
        ("webhook: {expect_status: []}", "flag.webhook.expect_status: name at least one status"),
        (
            "webhook: {expect_status: [20]}",
            "flag.webhook.expect_status[0]: write a status from 200",
        ),
        (
            "webhook: {headers: {authorization: hunter2}}",
            "flag.webhook.headers: Authorization is a secret",
        ),
        (
            "webhook: {token: hunter2}",
            "flag.webhook.token: secrets stay out of the file; use token_file or SPECGAUGE_FLAG_",
        ),
        ("webhook: {url: 'http://h/a b'}", "flag.webhook.url: a URL holds no spaces"),
        ("webhook: {read_url: 'ftp://h'}", 'flag.webhook.read_url: scheme "ftp" is not known'),
        (
            "{backend: webhook, webhook: {url: 'http://h', read_method: POST}}",
            "flag.webhook.read_method: is of no use without flag.webhook.read_url",
        ),
        (
            "{backend: webhook, webhook: {url: 'http://h?a', preset: consul}}",
            "flag.webhook.url: holds a query",
        ),
        ("backend: file", "flag.file.path: missing; flag.backend: file needs it, as /run/flags/"),
        ("file: {on: true}", "flag.file.on: YAML reads this as true or false; put it in quotes"),
        (
            "{backend: file, file: {path: f, on: 'false'}}",
            "flag.file.off: must differ from flag.file.on, else nothing would change",
        ),
        ("exec: {on: systemctl start a}", "flag.exec.on: a list is expected, not text"),
        ("exec: {on: [sleep, 5]}", "flag.exec.on[1]: YAML reads this as a number"),
        (r'exec: {on: ["a\0b"]}', "flag.exec.on[0]: an argument cannot hold"),
        (
            "{backend: exec, exec: {on: [a], off: [a]}}",
            "flag.exec.off: must differ from flag.exec.on",
        ),
        ("etcd: {url: 'http://e/?x=1'}", "flag.etcd.url: what is asked for comes after the URL"),
        ("etcd: {url: 'http://e/#x'}", "flag.etcd.url: a URL to request has no fragment"),
        ("kubernetes: {api: 'http://k?x=1'}", "flag.kubernetes.api: what is asked for comes"),
        ("backend: etcd", "flag.etcd.url: missing; flag.backend: etcd needs it"),
        (
            "backend: kubernetes",
            "flag.kubernetes: needs the object that holds the flag; set configmap or httproute",
        ),
        ("kubernetes: {namespace: A}", 'flag.kubernetes.namespace: "A" is not a name of Kuber'),
        (
            "{backend: kubernetes, kubernetes: {configmap: c}, key: 'a/b'}",
            "flag.key: a key of a ConfigMap holds letters",
        ),
        (
            f"{{backend: kubernetes, kubernetes: {{httproute: r, {SERVICES}}}}}".replace(
                ": b", ": a"
            ),
            "flag.kubernetes.standard_service: must differ",
        ),
        ("haproxy: {mode: maint}", "flag.haproxy.mode: write drain or weight"),
        ("haproxy: {server: 'a b'}", 'flag.haproxy.server: "a b" is not a name'),
        ("nginx: {on: 5}", "flag.nginx.on: YAML reads this as a number"),
        (
            "{backend: production-stack, production-stack: {file: f, on: /no, off: /no}}",
            "flag.production-stack.off: must differ",
        ),
    ],
)
def test_flag_problems(tmp_path: Path, text: str, expected: str) -> None:
    """A fault of the flag is one line as well."""
    body = text if text.startswith("{") else f"{{{text}}}"
    found = problems(tmp_path, f"{GUARD}flag: {body}")
    assert [line for line in found if line.startswith(expected)]
    assert "hunter2" not in "".join(found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("exec", ["flag.exec.on", "flag.exec.off"]),
        ("haproxy", ["flag.haproxy.socket", "flag.haproxy.backend", "flag.haproxy.server"]),
        ("nginx", ["flag.nginx.file", "flag.nginx.on", "flag.nginx.off"]),
        (
            "production-stack",
            [
                "flag.production-stack.file",
                "flag.production-stack.on",
                "flag.production-stack.off",
            ],
        ),
        (
            "kubernetes, kubernetes: {httproute: r}",
            ["flag.kubernetes.speculative_service", "flag.kubernetes.standard_service"],
        ),
        (
            f"kubernetes, kubernetes: {{httproute: r, configmap: c, {SERVICES}}}",
            ["flag.kubernetes.httproute"],
        ),
    ],
)
def test_all_that_a_backend_lacks(tmp_path: Path, text: str, expected: list[str]) -> None:
    """Everything that the chosen backend needs is named at once."""
    found = problems(tmp_path, f"{GUARD}flag: {{backend: {text}}}")
    assert [line.partition(":")[0] for line in found] == expected


def test_a_flag_needs_a_guard(tmp_path: Path) -> None:
    """A flag that nothing would move is an error."""
    (problem,) = problems(tmp_path, f"{ONE}flag: {{}}")
    assert problem == "flag: is of no use without the guard; add guard: {} or remove flag"


def test_every_problem_at_once(tmp_path: Path) -> None:
    """Faults of guard, flag and environment come together, each under its origin."""
    text = f"{ONE}guard: {{severe: x, cooldown: 2h}}\nflag: {{backend: file, key: ''}}"
    found = problems(tmp_path, text, {"SPECGAUGE_GUARD_CONSECUTIVE": "0"})
    assert [line.partition(":")[0] for line in found] == [
        "SPECGAUGE_GUARD_CONSECUTIVE",
        "guard.severe",
        "flag.key",
        "guard.backoff.max",
        "flag.file.path",
    ]


@pytest.mark.parametrize("backend", BACKENDS)
def test_backends(tmp_path: Path, backend: str) -> None:
    """Each backend with what it needs is taken; its own files lie beside the configuration."""
    for name in ("on.json", "off.json"):
        write(tmp_path, "{}", name)
    text = f"{GUARD}flag: {{backend: {backend}, {BACKENDS[backend]}}}\n"
    config = read(tmp_path, text)
    assert config.flag is not None
    assert config.flag.backend == backend
    assert named_files(config) == ()
    shown = effective(config)
    assert "hunter2" not in shown
    again = read(tmp_path, shown.replace("(hidden)", "hunter2"))
    assert again == config
    jsonschema.validate(parse_yaml(text, source="f"), schema())


@pytest.mark.parametrize(
    ("written", "read_as"),
    [("127.0.0.1:9999", "127.0.0.1:9999"), ("/run/../s.sock", "/run/../s.sock"), ("s", "{}/s")],
)
def test_haproxy_socket(tmp_path: Path, written: str, read_as: str) -> None:
    """HAProxy's socket is a path, from the folder of the file on, or a host and a port."""
    text = f"{{backend: haproxy, haproxy: {{socket: '{written}', backend: b, server: s}}}}"
    flag = read(tmp_path, f"{GUARD}flag: {text}").flag
    assert flag is not None
    assert flag.haproxy.socket == read_as.format(tmp_path)


def test_webhook_in_full(tmp_path: Path) -> None:
    """URLs may be templates, a place to read from may lie below the other, texts may be empty."""
    text = """
flag:
  backend: webhook
  webhook:
    url: "https://f/<< flag >>?x=<< enabled | tojson >>"
    method: PUT
    headers: {Content-Type: text/plain}
    body: ""
    expect_status: [204]
    read_url: "/<< flag >>"
    read_method: GET
    read_value: ""
    token_header: X-Token
    token_scheme: ""
"""
    flag = read(tmp_path, GUARD + text).flag
    assert flag is not None
    webhook = flag.webhook
    assert (webhook.url, webhook.read_url) == (
        "https://f/<< flag >>?x=<< enabled | tojson >>",
        "/<< flag >>",
    )
    assert (webhook.body, webhook.read_value, webhook.token_scheme) == ("", "", "")
    assert webhook.expect_status == (204,)


def test_only_the_chosen_section_is_looked_into(tmp_path: Path) -> None:
    """Files of a backend that is not used need not be there; those of the used one are watched."""
    for name in ("token", "ca.pem"):
        write(tmp_path, "t0ken\n", name)
    config = read(
        tmp_path,
        f"""{ONE}
guard:
  state_file: state.json
  prometheus: {{url: 'http://p', token_file: token}}
  grafana: {{url: 'http://g', token_file: token}}
flag:
  backend: etcd
  etcd: {{url: 'http://e', token_file: token, ca_file: ca.pem}}
  webhook: {{token_file: /no/such}}
  nginx: {{file: /no/such/file}}
""",
    )
    assert config.flag is not None
    assert config.guard is not None
    assert config.guard.state_file == tmp_path / "state.json"
    assert named_files(config) == (tmp_path / "token", tmp_path / "ca.pem")
    (problem,) = problems(
        tmp_path, f"{GUARD}flag: {{backend: etcd, etcd: {{url: 'http://e', token_file: /no}}}}"
    )
    assert problem == "flag.etcd.token_file: /no: No such file or directory"


def test_secrets_of_the_environment(tmp_path: Path) -> None:
    """A token in a variable replaces the file's, and shows up nowhere."""
    env = {
        "SPECGAUGE_FLAG_ETCD_TOKEN": "hunter1",
        "SPECGAUGE_GUARD_GRAFANA_TOKEN": "hunter2",
    }
    text = f"{GUARD}flag: {{backend: etcd, etcd: {{url: 'http://e', token_file: /no}}}}"
    config = read(tmp_path, text, env)
    assert config.flag is not None
    assert config.flag.etcd.token_file is None
    assert "hunter" not in repr(config) + effective(config) + config.model_dump_json()
    both = {"SPECGAUGE_FLAG_ETCD_TOKEN_FILE": __file__, **env}
    assert "SPECGAUGE_FLAG_ETCD_TOKEN_FILE: flag.etcd.token is set too; keep one of them" in (
        problems(tmp_path, text, both)
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(ONE, [], id="no guard"),
        pytest.param(QUIET + "flag: {obeyed_by: gateway}", [], id="quiet"),
        pytest.param(QUIET, ["flag.obeyed_by: nothing is configured to obey"], id="nobody"),
        *(
            pytest.param(
                f"{QUIET}flag: {{backend: {backend}, {BACKENDS[backend]}}}",
                ["flag.obeyed_by: nothing is configured to obey"],
                id=backend,
            )
            for backend in ("embedded", "webhook", "file", "etcd", "kubernetes")
        ),
        *(
            pytest.param(
                f"{QUIET}flag: {{backend: {backend}, {BACKENDS[backend]}}}", [], id=backend
            )
            for backend in ("exec", "haproxy", "nginx", "production-stack")
        ),
        pytest.param(
            f"{QUIET}flag: {{backend: kubernetes, kubernetes: {{httproute: r, {SERVICES}}}}}",
            [],
            id="weights of a route",
        ),
        pytest.param(
            f"{QUIET}flag: {{backend: exec, {BACKENDS['exec']}, kubernetes: {{configmap: c}}}}",
            ["flag.kubernetes: not used while flag.backend is exec"],
            id="a ConfigMap of no use",
        ),
        pytest.param(
            GUARD + "flag: {obeyed_by: x}",
            ["baseline: none", "guard.require_standard_capacity: no target has role: standard"],
            id="alone",
        ),
        pytest.param(
            ONE + "guard: {require_standard_capacity: false, signals: {errors: on}}\n"
            "flag: {obeyed_by: x}",
            ["baseline: none", "guard.signals.errors: no target has role: standard"],
            id="errors of one pool",
        ),
        pytest.param(
            QUIET.replace(
                "guard: {}",
                "guard: {max_fallback_share: 0.5, objective: {e2e: 8s}, signals: {speedup: off, "
                "acceptance_floor: off, collapse: off}}",
            )
            + "flag: {obeyed_by: x, exec: {on: [a]}, production-stack: {file: f}}",
            [
                "guard.signals: all are off",
                "guard.max_fallback_share: the other members are not known",
                "guard.objective: not looked at",
                "flag.exec: not used while flag.backend is embedded",
                "flag.production-stack: not used",
            ],
            id="of no use",
        ),
    ],
)
def test_advice(tmp_path: Path, text: str, expected: list[str]) -> None:
    """What can be used but may not do what is meant is told under its key."""
    for name in ("on.json", "off.json"):
        write(tmp_path, "{}", name)
    found = advice(read(tmp_path, text))
    assert [line[: len(start)] for line, start in zip(found, expected, strict=True)] == expected


def test_check_warns_and_still_says_ok(tmp_path: Path) -> None:
    """Warnings of `config check` go to stderr and leave the exit code alone."""
    path = write(tmp_path, QUIET)
    clean = {name: None for name in os.environ if name.startswith("SPECGAUGE_")}
    result = CliRunner().invoke(config_group, ["check", str(path)], env=clean)
    assert (result.exit_code, result.stdout) == (0, f"{path}: OK, 2 target(s): a, b\n")
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"{path}: warning: flag.obeyed_by: nothing is configured to obey")


def test_values_of_code() -> None:
    """Code gives seconds as numbers, and the defaults are those of the documentation."""
    assert GuardKeys(cooldown=1.0, startup_grace=0.0).cooldown == 1.0
    assert (
        GuardKeys.model_validate({"objective": {"tpot": 0.01, "e2e": None}}).objective.e2e is None
    )
    assert FlagKeys(check_interval=0.5).backend == "embedded"
    empty = FlagKeys.model_validate({"webhook": {"url": None, "read_url": None, "body": None}})
    assert empty == FlagKeys()


def test_table_of_keys() -> None:
    """The documentation's table has a line for each key, with its default as it is written."""
    lines = key_table("guard", "flag").splitlines()
    keys = [key for key in KEYS.values() if key.path[0] in ("guard", "flag") and not key.secret]
    assert len(lines) == 2 + len(keys) - 1  # two of head, and no line for a single header
    assert "| `guard.cooldown` | `5m` |" in "\n".join(lines)
    assert "| `flag.nginx.test` | `[nginx, -t]` |" in "\n".join(lines)
    assert "| `guard.dry_run` | `false` |" in "\n".join(lines)


CHECKED = {
    "template": (
        "webhook: {url: 'http://f:1/', body: '<< 9**9**9 >>'}",
        "flag.webhook.body: line 1: the template uses 'pow'",
    ),
    "two templates": (
        "webhook: {url: 'http://f:1/<< a >>', body: '<< b >>'}",
        "flag.webhook.url: line 1: 'a'",
        "flag.webhook.body: line 1: 'b'",
    ),
    "server as a template": (
        "webhook: {url: 'http://<< flag >>/'}",
        "flag.webhook.url: the server may be no template",
    ),
    "same calls": ("webhook: {url: 'http://f:1/', body: a}", "flag.webhook.body: the calls"),
    "no JSON": (
        "webhook: {url: 'http://f:1/', body: '{<< enabled >>}'}",
        "flag.webhook.body: gives no JSON",
    ),
    "texts alike": ("file: {path: f, 'on': ' a', 'off': 'a '}", "flag.file.off: is the same text"),
    "no pod": ("kubernetes: {configmap: c}", "flag.kubernetes.api: it is not set"),
    "names of haproxy": (
        "haproxy: {socket: /s.sock, backend: 'b@x', server: 'c@y'}",
        "flag.haproxy.backend: 'b@x' is no name in HAProxy",
        "flag.haproxy.server: 'c@y' is no name in HAProxy",
    ),
}


def checked(path: Path, env: Mapping[str, str] | None = None) -> tuple[int, list[str]]:
    """Run `config check` outside of any pod; give its code and what it says is wrong."""
    clean = {name: None for name in os.environ if name.startswith(("SPECGAUGE_", "KUBERNETES_"))}
    result = CliRunner().invoke(config_group, ["check", str(path)], env=clean | dict(env or {}))
    lines = [one for one in result.stderr.splitlines() if ": warning: " not in one]
    return result.exit_code, [one.removeprefix(f"{path}: ") for one in lines]


@pytest.mark.parametrize("name", CHECKED)
def test_check_finds_what_serve_would_refuse(tmp_path: Path, name: str) -> None:
    """The backend is made as at the start, so nothing passes here and is refused there."""
    section, *faults = CHECKED[name]
    backend = section.partition(":")[0]
    path = write(tmp_path, f"{GUARD}flag:\n  backend: {backend}\n  {section}\n")
    code, lines = checked(path)
    assert code == 2
    assert len(lines) == len(faults)
    for line, fault in zip(lines, faults, strict=True):
        assert line.startswith(fault)


def test_relative_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the file it can be used from wherever; a bare name in a variable says too little."""
    monkeypatch.chdir(tmp_path)
    haproxy = "backend: haproxy, haproxy: {backend: b, server: s"
    path = write(tmp_path, f"{GUARD}flag: {{{haproxy}, socket: s.sock}}}}\n")
    for spelling in (path, Path(path.name)):
        assert checked(spelling) == (0, [])
    write(tmp_path, f"{GUARD}flag: {{{haproxy}}}}}\n")
    env = {"SPECGAUGE_FLAG_HAPROXY_SOCKET": "s.sock"}
    code, lines = checked(path, env)
    assert code == 2
    assert lines[0].startswith("flag.haproxy.socket: 's.sock' is neither")


def test_check_tells_all_at_once(tmp_path: Path) -> None:
    """A flag that cannot be does not hide a baseline that cannot be, nor the other way round."""
    write(tmp_path, "[]", "bad.json")
    text = f"{GUARD}baseline: {{file: bad.json}}\nflag: {{backend: kubernetes, kubernetes: "
    code, lines = checked(write(tmp_path, f"{text}{{configmap: c}}}}\n"))
    assert code == 2
    assert [line.split(":")[0] for line in lines] == ["baseline.file", "flag.kubernetes.api"]


STATE = "guard.state_file"
SAME = {
    "state and audit": ("guard: {state_file: a, audit_file: a}", ("guard.audit_file", STATE)),
    "written otherwise": (
        "guard: {state_file: a, audit_file: ./b/../a}",
        ("guard.audit_file", STATE),
    ),
    "lock": ("guard: {state_file: a, lock_file: a}", ("guard.lock_file", STATE)),
    "freeze": ("guard: {lock_file: a, freeze_file: a}", ("guard.freeze_file", "guard.lock_file")),
    "embedded": (
        "guard: {state_file: a}\nflag: {embedded: {file: a}}",
        ("flag.embedded.file", STATE),
    ),
    "file": (
        "guard: {audit_file: a}\nflag: {backend: file, file: {path: a}}",
        ("flag.file.path", "guard.audit_file"),
    ),
    "nginx": (
        "guard: {state_file: a}\nflag: {backend: nginx, nginx: {file: a, 'on': 'x;', 'off': 'y;'}}",
        ("flag.nginx.file", STATE),
    ),
    "router": (
        """guard: {}
flag: {backend: production-stack, production-stack: {file: a, 'on': a, 'off': b}}""",
        ("flag.production-stack.on", "flag.production-stack.file"),
    ),
    "token": ("guard: {state_file: a}\ntoken_file: a", ("token_file", STATE)),
    "baseline": (
        "guard: {audit_file: a}\nbaseline: {file: a}",
        ("baseline.file", "guard.audit_file"),
    ),
    "without a guard": (
        "routing: {access_log: b, access_log_state_file: a}\nbaseline: {file: a}",
        ("baseline.file", "routing.access_log_state_file"),
    ),
    "linked": ("guard: {state_file: a, audit_file: link}", ("guard.audit_file", STATE)),
}


@pytest.mark.parametrize("name", SAME)
def test_a_file_that_is_written_serves_one_purpose(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One path for two things is an error that names both keys."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").write_text("x\n")
    (tmp_path / "b").write_text("x\n")
    (tmp_path / "link").symlink_to("a")
    text, (key, other) = SAME[name]
    found = problems(tmp_path, ONE + text + "\n")
    assert f"{key}: is the same file as {other}; each needs one of its own" in found


def test_files_that_are_only_read_may_be_shared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One token for several servers is in order, as are paths that lead nowhere."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t").write_text("x\n")
    (tmp_path / "loop").symlink_to("loop")
    text = "guard: {grafana: {url: 'http://g:1', token_file: t}, state_file: loop}\ntoken_file: t\n"
    assert read(tmp_path, ONE + text).guard is not None
