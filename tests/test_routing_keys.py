"""The section `routing` of a configuration: what it takes, and what it says of faults."""

from pathlib import Path

import jsonschema
import pytest
import trustme
import yaml

from specgauge.cli.route.settings import router_of, routes_of, told_of
from specgauge.cli.route.switch import switch_of
from specgauge.cli.settings import guard_of
from specgauge.config import advice, load, schema
from specgauge.config.routing_keys import MODULE, RoutingKeys
from specgauge.errors import ConfigError
from specgauge.model.settings import RouteSettings
from specgauge.render.router import Router, Trust
from specgauge.routing.rules import HeaderIs, LoadLimit, Pool, Range, Routes, Rule, When

ONE = 'targets: [{url: "http://127.0.0.1:8000"}]\n'


def written(folder: Path, text: str) -> Path:
    """Write a configuration."""
    file = folder / "specgauge.yaml"
    file.write_text(ONE + text)
    return file


def test_defaults_are_the_same_in_both_places(tmp_path: Path) -> None:
    """An empty section is a router as the plain values have it."""
    config = load(written(tmp_path, "routing: {}"), env={}, overrides={})
    assert router_of(config) == Router()
    assert told_of(config) == RouteSettings(hold=300.0)
    assert Router().module == MODULE
    assert routes_of(RoutingKeys()) == Routes()
    nothing = load(written(tmp_path, ""), env={}, overrides={})
    assert (router_of(nothing), told_of(nothing)) == (None, RouteSettings())


def test_every_key_arrives(tmp_path: Path) -> None:
    """Each key of the file is a value of the router."""
    text = """
routing:
  listen: "[::1]:81"
  pools: {speculative: {servers: ["a:1", "[::1]:2"]}, standard: {servers: ["b.example:3"]}}
  presets: [production]
  fallback_pool: standard
  decode_concurrency: {at_most: 16}
  max_body: 2MiB
  max_request: 3MiB
  state_file: state.json
  stale_after: 9s
  on_sidecar_loss: {hold: 1m, then: speculative}
  access_log: access.log
  timeouts: {connect: 1s, read: 2m}
  keepalive: 7
  nginx: {module: /usr/lib/x.so, workers: 3}
  rules:
    - name: one
      pool: speculative
      when:
        temperature: {above: 1, at_most: 1.5}
        max_tokens: {at_least: 2}
        prompt_characters: {below: 9}
        stream: true
        structured_output: false
        tools: false
        routes: [chat, other]
        paths: [/v1/]
        models: [m]
        header: {name: X-App, values: [a, b]}
        patterns: [latex]
        contains: ["x y"]
        decode_concurrency: {at_most: 4, resume: 2}
"""
    config = load(written(tmp_path, text), env={}, overrides={})
    router = router_of(config)
    assert router is not None
    (one, *ready) = router.routes.rules
    assert one == Rule(
        name="one",
        pool=Pool.SPECULATIVE,
        when=When(
            temperature=Range(above=1.0, at_most=1.5),
            max_tokens=Range(at_least=2.0),
            prompt_characters=Range(below=9.0),
            stream=True,
            structured_output=False,
            tools=False,
            routes=("chat", "other"),
            paths=("/v1/",),
            models=("m",),
            header=HeaderIs(name="x-app", values=("a", "b")),
            patterns=("latex",),
            contains=("x y",),
        ),
        load=LoadLimit(at_most=4.0, resume=2.0),
    )
    assert [rule.name for rule in ready] == ["tools", "structured", "chat", "rest"]
    assert (router.host, router.port) == ("::1", 81)
    assert (router.speculative, router.standard) == (("a:1", "[::1]:2"), ("b.example:3",))
    assert (router.max_request, router.routes.max_body) == (3 << 20, 2 << 20)
    assert (router.connect_timeout, router.read_timeout, router.keepalive) == (1.0, 120.0, 7)
    assert (router.module, router.workers) == ("/usr/lib/x.so", "3")
    assert router.routes.load == LoadLimit(at_most=16.0, resume=12.0)
    assert router.routes.fallback_pool is Pool.STANDARD
    flag = router.routes.flag
    assert (flag.fresh, flag.hold, flag.then) == (9.0, 60.0, Pool.SPECULATIVE)
    assert router.access_log == str(tmp_path / "access.log")
    assert told_of(config) == RouteSettings(
        state_file=str(tmp_path / "state.json"), limits=((4.0, 2.0), (4.0, 3.0)), hold=60.0
    )
    jsonschema.Draft202012Validator(schema()).validate(yaml.safe_load(ONE + text))


POOL = "routing: {pools: {standard: {servers: %s}}}"
RULE = "routing: {rules: [{name: a, pool: speculative, when: {%s}}]}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (RULE % "temprature: {above: 1}", "routing.rules[0].when.temprature: unknown key"),
        (RULE % "temperature: {}", "routing.rules[0].when.temperature: set one of above"),
        (RULE % "temperature: 1", "routing.rules[0].when.temperature: a mapping is expected"),
        (RULE % "temperature: {above: hot}", "routing.rules[0].when.temperature.above: write a n"),
        (RULE % "max_tokens: {below: true}", "routing.rules[0].when.max_tokens.below: write a num"),
        (RULE % "max_tokens: {below: -1}", "routing.rules[0].when.max_tokens.below: write a num"),
        (RULE % "stream: 1", "routing.rules[0].when.stream: write true or false"),
        (RULE % "routes: [chats]", 'routing.rules[0].when.routes[0]: "chats" is not known here'),
        (RULE % "paths: [v1]", 'routing.rules[0].when.paths[0]: "v1" is not the beginning'),
        (RULE % "patterns: [html]", 'routing.rules[0].when.patterns[0]: "html" is not known here'),
        (RULE % "contains: ['']", "routing.rules[0].when.contains[0]: some text"),
        (RULE % 'contains: ["a\\x00"]', "routing.rules[0].when.contains[0]: some text"),
        (RULE % "header: {name: X-A}", "routing.rules[0].when.header: values: name at least one"),
        (RULE % "header: {name: 'X A', values: [b]}", "routing.rules[0].when.header.name"),
        (RULE % "header: {values: [b]}", "routing.rules[0].when.header.name: missing"),
        (RULE % "decode_concurrency: {at_most: 3, resume: 4}",
         "routing.rules[0].when.decode_concurrency: resume must not be above at_most"),
        ("routing: {rules: [{name: a, pool: fast}]}", 'routing.rules[0].pool: "fast" is not known'),
        ("routing: {rules: [{name: 'a b', pool: standard}]}", 'routing.rules[0].name: "a b" is'),
        ("routing: {rules: [{name: 'a\"; evil', pool: standard}]}", "routing.rules[0].name:"),
        ("routing: {rules: [{pool: standard}]}", "routing.rules[0].name: missing"),
        ("routing: {rules: [{name: a, pool: standard, when: {decode_concurrency: {}}}]}",
         "routing.rules[0]: when.decode_concurrency: is for pool: speculative"),
        ("routing: {rules: [{name: a, pool: standard}, {name: a, pool: standard}]}",
         'routing: rules: the class "a" is there twice'),
        ("routing: {presets: [playbook, playbook]}",
         'routing: rules or presets: the class "high-temperature" is there twice'),
        ("routing: {presets: [best]}", 'routing.presets[0]: "best" is not known here'),
        ("routing: {rules: [{name: other, pool: standard}]}", 'routing: rules: "other" is th'),
        ("routing: {pools: {speculative: {servers: []}}}",
         "routing.pools: speculative.servers: name at least one"),
        ("routing: {pools: {standard: {servers: ['http://a:1']}}}",
         'routing.pools.standard.servers[0]: "http://a:1" is not a server'),
        ("routing: {pools: {standard: {servers: ['a:1', 'a:1']}}}",
         'routing.pools.standard: servers: "a:1" is there twice'),
        ("routing: {pools: {standard: {servers: ['a:99999']}}}",
         "routing.pools.standard.servers[0]:"),
        ("routing: {pools: {standard: {servers: ['127.0.0.1:8000']}}}",
         'routing.pools: "127.0.0.1:8000" is in both pools'),
        ("routing: {state_file: s, state_url: 'http://a:1'}", "routing: state_url: state_file i"),
        ("routing: {state_url: 'ftp://a:1'}", "routing.state_url:"),
        ("routing: {state_url: 'https://a:0'}", "routing.state_url:"),
        ("routing: {state_url: 'http://a:1', state_tls: {server_name: b}}",
         "routing: state_tls: is for https:// only; write https:// in state_url, or remove st"),
        ("routing: {state_tls: {server_name: b}}", "routing: state_tls: is for https:// only;"),
        ("routing: {state_url: 'https://[::1]:1'}",
         'routing: state_tls.server_name: "::1" is an address, and routers look for a name'),
        (POOL % "['https://a:0']", "routing.pools.standard.servers[0]:"),
        (POOL % "['https://a:1', 'b:1']",
         'routing.pools.standard: servers: "b:1" is without https:// where others have it;'),
        (POOL % "['https://127.0.0.1:8000'], tls: {server_name: a}",
         'routing.pools: "127.0.0.1:8000" is in both pools'),
        (POOL % "['https://10.0.0.1:1']",
         'routing.pools.standard: tls.server_name: "10.0.0.1" is an address, and routers look'),
        (POOL % "['https://a:1'], tls: {server_name: 10.0.0.1}",
         'routing.pools.standard: tls.server_name: "10.0.0.1" is not the name of a host'),
        (POOL % "['https://a:1'], tls: {server_name: 'a/b'}",
         'routing.pools.standard: tls.server_name: "a/b" is not the name of a host'),
        (POOL % "['a:1'], tls: {ca_file: c.pem}",
         "routing.pools.standard: tls: is for https:// only; write https:// in servers, or rem"),
        (POOL % "['https://a:1'], tls: {key_file: k.pem}",
         "routing.pools.standard: tls.key_file: is of no use without cert_file"),
        (POOL % "['https://a:1'], tls: {ca_file: 'a$b'}", "routing.pools.standard: tls: "),
        (POOL % "['https://a:1'], tls: {cafile: c}", "routing.pools.standard.tls.cafile: unknown"),
        ("routing: {haproxy: {sni: 1}}", "routing.haproxy.sni: write true or false"),
        ("routing: {max_request: 1KiB}", "routing: max_request: must not be below max_body"),
        ("routing: {stale_after: 1s}", "routing.stale_after: must be at least 2s, twice"),
        ("routing: {stale_after: soon}", "routing.stale_after:"),
        ("routing: {state_file: none/s}", "routing.state_file:"),
        ("routing: {access_log: none/s}", "routing.access_log:"),
        ("routing: {nginx: {module: x.so}}", 'routing.nginx.module: "x.so" is not a full path'),
        ("routing: {nginx: {module: '/x.so; evil'}}", "routing.nginx.module:"),
        ("routing: {nginx: {workers: 0}}", "routing.nginx.workers:"),
        ("routing: {nginx: {workers: many}}", 'routing.nginx.workers: "many" is not auto'),
        ("routing: {rules: [{name: a}]}", "routing.rules[0].pool: missing; every rule needs one"),
        ("routing: {rules: [{name: none, pool: standard}]}", 'routing: rules: "none" is what a re'),
        ("routing: {rules: [{name: %s, pool: standard}]}" % ("a" * 41), "routing.rules[0].name:"),
        (RULE % "temperature: {above: 2, below: 1}",
         "routing.rules[0].when.temperature: no number lies within"),
        (RULE % "max_tokens: {at_least: 2, below: 2}",
         "routing.rules[0].when.max_tokens: no number lies within"),
        (RULE % "header: {name: X-A, values: [' a']}",
         'routing.rules[0].when.header.values[0]: " a" never comes'),
        ("routing: {listen: '127.0.0.1:0'}", 'routing.listen: "127.0.0.1:0" has no port'),
        ("routing: {pools: {standard: {servers: ['a:0']}}}", "routing.pools.standard.servers[0]:"),
        ("routing: {listen: ':8001'}", 'routing: pools: "127.0.0.1:8001" is the router itself'),
        ("routing: {timeouts: {read: 8d}}", "routing.timeouts.read: must be at most 7d"),
        ("routing: {max_body: 65MiB, max_request: 1GiB}", "routing.max_body: must be at most 64M"),
        ("routing: {keepalive: 10001}", "routing.keepalive: write a whole number from 1 to 10000"),
        ("routing: {nginx: {workers: 9999}}", "routing.nginx.workers: 9999 is not auto or a n"),
        ("routing: {state_file: s, access_log: s}",
         "routing.access_log: is the same file as routing.state_file"),
        ("routing: {access_log: 'a$b'}", "routing: access_log: "),
        ('routing: {access_log: "a\\nb"}', "routing: access_log: "),
        ("guard: {state_file: s}\nrouting: {state_file: s}",
         "routing.state_file: is the same file as guard.state_file"),
        ("routing: 3", "routing: a mapping is expected, not a number"),
    ],
)  # fmt: skip
def test_faults(tmp_path: Path, text: str, expected: str) -> None:
    """A fault is one line: the key with its path, what is wrong, and what to write."""
    with pytest.raises(ConfigError) as raised:
        load(written(tmp_path, text), env={}, overrides={})
    (problem,) = raised.value.problems
    assert problem.startswith(expected)


def test_null_is_not_set(tmp_path: Path) -> None:
    """A key that holds nothing is as if it were not there."""
    text = RULE % "temperature: {above: null, below: 2}" + "\n"
    keys = load(written(tmp_path, text), env={}, overrides={}).routing
    assert keys is not None
    assert keys.rules[0].when.temperature is not None
    assert keys.rules[0].when.temperature.above is None


def test_tls_keys_arrive(tmp_path: Path) -> None:
    """What is said of TLS reaches the router, files as whole paths; elsewhere there is none."""
    authority = trustme.CA()
    pem = authority.issue_cert("router.internal").private_key_and_cert_chain_pem
    for name in ("cert.pem", "key.pem"):
        pem.write_to_path(str(tmp_path / name))
    text = """
routing:
  pools:
    speculative:
      servers: ["https://a.internal:1", "https://[::1]:2/"]
      tls: {ca_file: cert.pem, cert_file: cert.pem, key_file: key.pem, server_name: engine.internal}
    standard: {servers: ["b.internal:3"]}
  state_url: "https://c.internal:4/"
  haproxy: {sni: true}
"""
    router = router_of(load(written(tmp_path, text), env={}, overrides={}))
    assert router is not None
    assert router.speculative == ("a.internal:1", "[::1]:2")
    cert, key = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    assert router.speculative_trust == Trust(
        name="engine.internal", authorities=cert, cert=cert, key=key
    )
    assert (router.standard, router.standard_trust) == (("b.internal:3",), None)
    assert (router.sidecar, router.state_trust, router.sni) == ("c.internal:4", Trust(), True)
    jsonschema.Draft202012Validator(schema()).validate(yaml.safe_load(ONE + text))


def test_environment(tmp_path: Path) -> None:
    """Keys of rules can be set from the environment, as any other."""
    env = {
        "SPECGAUGE_ROUTING_RULES_0_NAME": "b",
        "SPECGAUGE_ROUTING_RULES_0_WHEN_TEMPERATURE_ABOVE": "1.25",
        "SPECGAUGE_ROUTING_PRESETS": "[playbook]",
    }
    file = written(tmp_path, "routing: {rules: [{name: a, pool: standard}]}")
    router = router_of(load(file, env=env, overrides={}))
    assert router is not None
    first = router.routes.rules[0]
    assert (first.name, first.when.temperature) == ("b", Range(above=1.25))
    assert len(router.routes.rules) == 4


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("routing: {state_file: s, access_log: l}", []),
        ("routing: {access_log: l}", []),
        ("routing: {state_file: s}", ["routing.access_log: none"]),
        ("guard: {}\nrouting: {access_log: l}", ["routing.state_file: neither it nor"]),
        (
            "routing: {access_log: l, decode_concurrency: {}}",
            ["routing.state_file: neither it nor"],
        ),
        (
            "routing: {access_log: l, presets: [playbook], rules: [{name: a, pool: standard}]}",
            ["routing.rules: a takes every request, so that none comes to high-temp"],
        ),
        (
            "routing: {access_log: l, presets: [production, playbook]}",
            ["routing.rules: rest takes every request, so that none comes to high-temp"],
        ),
        ("routing: {access_log: l, presets: [playbook, production]}", []),
    ],
)
def test_advice(tmp_path: Path, text: str, told: list[str]) -> None:
    """A router that is told nothing, or measures nothing, is worth a warning."""
    config = load(written(tmp_path, text), env={}, overrides={})
    found = [line for line in advice(config) if line.startswith("routing")]
    assert [line.startswith(start) for line, start in zip(found, told, strict=True)] == [
        True
    ] * len(told)


def test_bounds_that_meet(tmp_path: Path) -> None:
    """One number alone is a range."""
    text = RULE % "temperature: {at_least: 1, at_most: 1}"
    keys = load(written(tmp_path, text), env={}, overrides={}).routing
    assert keys is not None
    assert keys.rules[0].when.temperature is not None


def test_files_are_whole_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A router runs elsewhere than the command that wrote it, however its file was named."""
    text = (
        "routing: {state_file: s, access_log: l}\nguard: {}\n"
        "flag: {backend: haproxy, haproxy: {socket: a.sock, backend: b, server: c}}\n"
    )
    written(tmp_path, text)
    monkeypatch.chdir(tmp_path)
    config = load(Path("specgauge.yaml"), env={}, overrides={})
    router, switch = router_of(config), switch_of(config)
    assert router is not None
    assert switch is not None
    assert router.state_file == str(tmp_path / "s")
    assert router.access_log == str(tmp_path / "l")
    assert switch.socket == str(tmp_path / "a.sock")


def test_the_router_obeys(tmp_path: Path) -> None:
    """A router that is told of the flag is what obeys it, unless the file names something else."""
    text = "guard: {}\nrouting: {listen: ':81', state_file: s, access_log: l}\n"
    config = load(written(tmp_path, text), env={}, overrides={})
    guard = guard_of(config)
    assert guard is not None
    assert guard.flag.obeyed_by == "the router on :81"
    assert not [line for line in advice(config) if line.startswith("flag.obeyed_by")]
    named = load(written(tmp_path, text + "flag: {obeyed_by: mesh}"), env={}, overrides={})
    guard = guard_of(named)
    assert guard is not None
    assert guard.flag.obeyed_by == "mesh"
