"""The configuration: what may be written, where it may be written, and what is said otherwise."""

import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from specgauge.cli.config import config_group
from specgauge.config import (
    Address,
    Auth,
    Config,
    ListenAddress,
    Scrape,
    Target,
    control_token,
    effective,
    load,
    named_files,
    read_secret,
    request_headers,
    schema,
)
from specgauge.config.address import default_name, parse_address, parse_listen
from specgauge.config.document import parse_yaml
from specgauge.config.keys import KEYS
from specgauge.errors import ConfigError
from specgauge.units import (
    format_duration,
    format_size,
    parse_duration,
    parse_size,
    quote,
)

DOCS = Path(__file__).parents[1] / "docs" / "configuration.md"
ONE = "targets: [{url: 'http://a:1'}]\n"
URL = {"SPECGAUGE_TARGETS": "http://a:1"}


def write(folder: Path, text: str | bytes, name: str = "specgauge.yaml") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def problems(
    path: Path | None, env: Mapping[str, str] | None = None, **flags: object
) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        load(path, env=env or {}, overrides=flags)
    return caught.value.problems


def faults(action: Callable[[], object]) -> tuple[str, ...]:
    try:
        action()
    except ConfigError as error:
        return error.problems
    return ()


# Units


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("500ms", 0.5),
        ("3s", 3.0),
        ("1m30s", 90.0),
        ("5m", 300.0),
        ("1h", 3600.0),
        ("7d", 604800.0),
        ("1d2h3m4s5ms", 93784.005),
        ("0s", 0.0),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    """A duration is whole numbers with units, largest first."""
    assert seconds == parse_duration(text)


@pytest.mark.parametrize(
    "text", ["", "abc", "3 s", "3S", "s", "-3s", "1.5s", "1s1m", "1m1m", "1:30", "٣s", "1e3s"]
)
def test_not_durations(text: str) -> None:
    """Anything else is refused with an example of what to write."""
    with pytest.raises(ValueError, match=r"is not a duration; write 3s, 500ms or 1m"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["30", "0", "0.5"])
def test_durations_need_a_unit(text: str) -> None:
    """A bare number is refused, and the hint repeats it with a unit."""
    with pytest.raises(ValueError, match=rf"{text} has no unit; write {text}s"):
        parse_duration(text)


@given(st.integers(0, 10**12))
def test_durations_round_trip(milliseconds: int) -> None:
    """What is written is read back as the same number."""
    assert milliseconds / 1000 == parse_duration(format_duration(milliseconds / 1000))


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1024", 1024),
        ("10MB", 10_000_000),
        ("64MiB", 64 << 20),
        ("2GiB", 2 << 30),
        ("1kB", 1000),
        ("1KB", 1000),
        ("1GB", 10**9),
        ("7B", 7),
        ("3KiB", 3072),
    ],
)
def test_sizes(text: str, size: int) -> None:
    """A size is bytes, or a whole number with a decimal or binary unit."""
    assert size == parse_size(text)


@pytest.mark.parametrize("text", ["", "64M", "64 MiB", "-1", "1.5MiB", "1e6", "mib", "64mib"])
def test_not_sizes(text: str) -> None:
    """Anything else is refused with an example of what to write."""
    with pytest.raises(ValueError, match=r"is not a size; write 64MiB, 10MB or"):
        parse_size(text)


@given(st.integers(0, 10**14))
def test_sizes_round_trip(size: int) -> None:
    """What is written is read back as the same number."""
    assert size == parse_size(format_size(size))


def test_quotes_are_short() -> None:
    """A long or unprintable value does not fill the screen."""
    assert len(quote("x" * 500)) == 60
    assert quote("a\nb\x1b\u202e") == r'"a\nb\u001b\u202e"'


# Addresses


@pytest.mark.parametrize(
    ("text", "url", "socket", "name"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000/metrics", None, "127.0.0.1:8000"),
        ("http://A.example/", "http://a.example/metrics", None, "a.example:80"),
        ("HTTPS://h", "https://h/metrics", None, "h:443"),
        ("http://[::1]:8000", "http://[::1]:8000/metrics", None, "[::1]:8000"),
        ("http://h:1/x/metrics", "http://h:1/x/metrics", None, "h:1"),
        ("http://h:1/x/", "http://h:1/x/", None, "h:1"),
        ("http://h:1?a=b", "http://h:1/metrics?a=b", None, "h:1"),
        ("http+unix:///r/v.sock", "http://localhost/metrics", "/r/v.sock", "/r/v.sock"),
        ("http+unix:///r/v.sock:/m?a=b", "http://localhost/m?a=b", "/r/v.sock", "/r/v.sock"),
        ("http+unix:///r/a%3Ab%20c", "http://localhost/metrics", "/r/a:b c", "/r/a:b_c"),
    ],
)
def test_addresses(text: str, url: str, socket: str | None, name: str) -> None:
    """A target's URL says what to request, through what, and what to call the target."""
    found = parse_address(text)
    assert (url, Path(socket) if socket else None) == (found.url, found.socket)
    assert name == default_name(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("localhost:8000", "not a URL; write http://HOST:PORT"),
        ("ftp://h", 'scheme "ftp" is not known'),
        ("http://u:p@h", "auth.basic_file"),
        ("http://h/metrics/", "another format at /metrics/"),
        ("http+unix:///s:/metrics/", "another format at /metrics/"),
        ("http://h/#x", "no fragment"),
        ("http://h /", "no spaces"),
        ("http://hé", "percent-encode"),
        ("http://", "not a host name"),
        ("http://:80", "not a host name"),
        ("http://a_b!", "not a host name"),
        ("http://h:0", "port 0"),
        ("http://h:99999", "not a URL: Port"),
        ("http://h:x", "not a URL: Port"),
        ("http://[::1", "not a URL: Invalid IPv6"),
        ("http+unix://run/s", "three slashes"),
        ("http+unix:///", "does not name a socket"),
        ("http+unix:///a%00", "does not name a socket"),
        ("http+unix:///%ff", "not UTF-8"),
        ("http+unix:///" + "x" * 120, "at most 107 bytes"),
        ("http+unix:///s:metrics", "http+unix:///run/vllm.sock:/metrics"),
    ],
)
def test_not_addresses(text: str, problem: str) -> None:
    """A URL that cannot be scraped is refused with what to write instead."""
    with pytest.raises(ValueError, match=re.escape(problem)):
        parse_address(text)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("0.0.0.0:9843", "0.0.0.0", 9843),
        (":9843", "", 9843),
        ("[::]:0", "::", 0),
        ("localhost:1", "localhost", 1),
    ],
)
def test_listen_addresses(text: str, host: str, port: int) -> None:
    """The address to serve on is a host and a port; no host is every interface."""
    assert ListenAddress(host=host, port=port) == parse_listen(text)


@pytest.mark.parametrize(
    "text", ["", "9843", "h", "h:", "h:x", "h:70000", "::1:9", "[x]:9", "a!:9"]
)
def test_not_listen_addresses(text: str) -> None:
    """Anything else is refused."""
    with pytest.raises(ValueError, match=r"address|brackets|octets|At least|digits"):
        parse_listen(text)


# YAML


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [1", "f:1:6: expected ',' or ']'"),
        ("a: 1\na: 2", 'f:2:1: key "a" is there twice'),
        ("a: {b: 1, b: 2}", 'f:1:11: key "b" is there twice'),
        ("a: &x 1\nb: *x", "f:1:4: anchors and aliases"),
        ("a: *x", "f:1:4: anchors and aliases"),
        ("a: !!python/object:os.system x", "f:1:4: tags are not supported"),
        ("a: !x {}", "f:1:4: tags are not supported"),
        ("a: 1\n---\nb: 2", "f:2:1: a second document"),
        ("[1, 2]: 3", "f:1:1: a key must be plain text"),
        ("[" * 40, "f:1:18: nested more than 16 deep"),
        ('a: "\\ud800"', "f:1:4: half of a surrogate"),
        ('a: "\\UFFFFFFFF"', "f: not YAML"),
        ("a:\n\tb: 1", "f:2:1: found character '\\t'"),
        ("a: 1\nb: \x00", "f:2: the character U+0000 is not allowed"),
        ("%YAML 9.9\n---\na: 1", "f:1:1: found incompatible YAML document"),
    ],
)
def test_yaml_refused(text: str, problem: str) -> None:
    """What would surprise an operator is one line with file, line and column."""
    with pytest.raises(ConfigError) as caught:
        parse_yaml(text, source="f")
    assert len(caught.value.problems) == 1
    assert caught.value.problems[0].startswith(problem)


def test_yaml_values() -> None:
    """Plain scalars are null, booleans, whole numbers or text; none becomes a date or base 60."""
    text = "{a: , b: ~, c: on, d: No, e: 12, f: 1:30, g: 0123, h: 2026-01-01, i: 'on', j: 1.5}"
    assert parse_yaml(text, source="f") == {
        "a": None,
        "b": None,
        "c": True,
        "d": False,
        "e": 12,
        "f": "1:30",
        "g": "0123",
        "h": "2026-01-01",
        "i": "on",
        "j": "1.5",
    }
    assert parse_yaml("# nothing", source="f") is None


# Files


def test_defaults(tmp_path: Path) -> None:
    """One URL is a whole configuration."""
    config = load(write(tmp_path, "\ufeff" + ONE), env={}, overrides={})
    assert Config(targets=(Target(url="http://a:1"),)) == config
    assert Scrape(interval=1.0, timeout=3.0, max_bytes=64 << 20) == config.scrape
    assert ListenAddress(host="0.0.0.0", port=9843) == config.listen_address
    assert (config.window, config.export.histograms, config.export.positions) == (60, True, True)
    (target,) = config.targets
    assert (target.name, target.role, target.engines) == ("a:1", "speculative", None)
    assert Address(url="http://a:1/metrics", socket=None, peer="a:1") == target.address
    assert named_files(config) == ()
    assert control_token(config) is None
    assert request_headers(target.auth) == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("scrape: {timeout: abc}", 'scrape.timeout: "abc" is not a duration; write 3s,'),
        ("scrape: {timeout: 3}", "scrape.timeout: 3 has no unit; write 3s"),
        ("scrape: {timeout: 0}", "scrape.timeout: 0 has no unit; write 0s"),
        ("scrape: {timeout: 0s}", "scrape.timeout: must be at least 1ms"),
        ("scrape: {timeout: yes}", "scrape.timeout: a duration is expected, as 3s"),
        ("scrape: {timeout: [3s]}", "scrape.timeout: a duration is expected, as 3s"),
        ("scrape: {interval: 50ms}", "scrape.interval: must be at least 100ms"),
        ("scrape: {interval: 1:30}", 'scrape.interval: "1:30" is not a duration'),
        ("scrape: {max_bytes: on}", "scrape.max_bytes: a size is expected"),
        (
            "scrape: {max_bytes: {}}",
            "scrape.max_bytes: a size is expected, as 64MiB, not a mapping",
        ),
        ("scrape: {max_bytes: 64M}", 'scrape.max_bytes: "64M" is not a size'),
        ("scrape: {max_bytes: 1000}", "scrape.max_bytes: must be at least 1KiB"),
        ("scrape: 5", "scrape: a mapping is expected, not a number"),
        ("scrape: on", "scrape: a mapping is expected, not true or false"),
        ("scrape: [a]", "scrape: a mapping is expected, not a list"),
        ("window: 1500ms", "window: must be at least 2s, twice scrape.interval (1s)"),
        ("scrape: {interval: 1m}", "window: must be at least 2m, twice scrape.interval (1m)"),
        ("listen: 9843", 'listen: "9843" is not an address'),
        ("listen: on", "listen: YAML reads this as true or false; put it in quotes"),
        ("export: {histograms: 1}", "export.histograms: write true or false, not 1"),
        ("export: {histograms: []}", "export.histograms: write true or false, not a list"),
        ("scrpae: {}", "scrpae: unknown key; did you mean scrape?"),
        ("interval: 5s", "interval: unknown key; did you mean scrape.interval?"),
        ("role: standard", "role: unknown key; did you mean targets[].role?"),
        ("qqqq: 5", "qqqq: unknown key; see specgauge config schema"),
        (r'"a\nb": 5', r'"a\nb": unknown key'),
        ("report: {setp: 5m}", "report.setp: unknown key; did you mean step?"),
        ("decision_window: 15", "decision_window: 15 has no unit; write 15s"),
        ("decision_window: 61s", "decision_window: must not be above window (1m)"),
        (
            "decision_window: 11s\nwindow: 10s",
            "decision_window: must not be above window (10s)",
        ),
        (
            "decision_window: 1s",
            "decision_window: must be at least 2s, twice scrape.interval (1s)",
        ),
        ("baseline: b.json", "baseline: a mapping is expected, not text"),
        ("baseline: {margin: 0.51}", "baseline.margin: write a share from 0 to 0.5, as 0.05, not"),
        ("baseline: {margin: -0.01}", "baseline.margin: write a share from 0 to 0.5, as 0.05, not"),
        ("baseline: {margin: 5%}", "baseline.margin: write a share from 0 to 0.5, as 0.05, not"),
        ("baseline: {margin: nan}", "baseline.margin: write a share from 0 to 0.5, as 0.05, not"),
        ("baseline: {margin: true}", "baseline.margin: write a share from 0 to 0.5, as 0.05, not"),
        ("baseline: {file: /no/b}", "baseline.file: /no/b: No such file or directory"),
        ("baseline: {file: /}", "baseline.file: /: not a regular file"),
        ("baseline: {file: 5}", "baseline.file: YAML reads this as a number; put it in quotes"),
        ("baseline: {dir: /no/b}", "baseline.dir: /no/b: not a folder"),
        ("baseline: {path: b}", "baseline.path: unknown key"),
        ("baseline: {target: none}", 'baseline.target: "none" is the name of no target'),
        ("baseline: {target: on}", "baseline.target: YAML reads this as true or false"),
        (
            "baseline: {target: 'a:1'}",
            'baseline.target: "a:1" must have role: standard, to run without speculation',
        ),
        ("token: abc", "token: secrets stay out of the file; use token_file or SPECGAUGE_TOKEN"),
        ("token_file: ''", "token_file: expected is the path of a file"),
        ('token_file: "a\\0b"', "token_file: expected is the path of a file"),
        (r'token_file: "/a\nb\L"', r"token_file: /a\nb\u2028: No such file or directory"),
        ("token_file: 5", "token_file: YAML reads this as a number; put it in quotes"),
        ("token_file: [a]", "token_file: text is expected, not a list"),
        ("token_file: {a: b}", "token_file: text is expected, not a mapping"),
    ],
)
def test_file_problems(tmp_path: Path, text: str, expected: str) -> None:
    """A fault is one line: the key with its path, what is wrong, and what to write."""
    (problem,) = problems(write(tmp_path, ONE + text))
    assert problem.startswith(expected)


@pytest.mark.parametrize("text", ["baseline: {margin: 0}", "baseline: {margin: '0.0'}"])
def test_no_margin(tmp_path: Path, text: str) -> None:
    """A margin of nothing is one."""
    assert load(write(tmp_path, ONE + text), env={}, overrides={}).baseline.margin == 0.0


def test_stated_facts(tmp_path: Path) -> None:
    """What is known of a server goes by the path that it has in a baseline file."""
    path = write(
        tmp_path,
        """
        targets:
        - url: http://a:1
          facts: {gpu: NVIDIA H200, gpu_count: 2, tensor_parallel: 2, revision: "2024",
                  quantization: fp8}
        - url: http://b:1
        """,
    )
    first, second = load(path, env={}, overrides={}).targets
    assert first.facts.stated == {
        "model.revision": "2024",
        "model.quantization": "fp8",
        "hardware.gpu": "NVIDIA H200",
        "hardware.count": 2,
        "parallelism.tensor": 2,
    }
    assert second.facts.stated == {}


def test_baseline_keys(tmp_path: Path) -> None:
    """A file and a folder lie beside the configuration; a sibling goes by its name."""
    write(tmp_path, "{}", "b.json")
    (tmp_path / "more").mkdir()
    for name in ("y.json", "x.json", "notes.txt"):
        write(tmp_path / "more", "{}", name)
    path = write(
        tmp_path,
        """
        targets: [{url: 'http://a:1'}, {url: 'http://b:1', role: standard}]
        baseline: {file: b.json, dir: more, target: 'b:1', margin: 0.1}
        decision_window: 30s
        """,
    )
    config = load(path, env={}, overrides={})
    assert config.decision_window == 30.0
    assert config.baseline.model_dump() == {
        "file": tmp_path / "b.json",
        "dir": tmp_path / "more",
        "target": "b:1",
        "margin": 0.1,
    }
    assert named_files(config) == (
        tmp_path / "b.json",
        tmp_path / "more",
        tmp_path / "more" / "x.json",
        tmp_path / "more" / "y.json",
    )


def test_baseline_from_the_environment(tmp_path: Path) -> None:
    """Every key of it is a variable, too; there paths are as they are written."""
    file = write(tmp_path, "{}", "b.json")
    env = {
        **URL,
        "SPECGAUGE_BASELINE_FILE": str(file),
        "SPECGAUGE_BASELINE_MARGIN": "0.02",
        "SPECGAUGE_DECISION_WINDOW": "20s",
    }
    config = load(None, env=env, overrides={})
    assert (config.baseline.file, config.baseline.margin) == (file, 0.02)
    assert config.decision_window == 20.0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", ["targets[0].url: missing; every target needs one"]),
        ("{url: }", ["targets[0].url: missing; every target needs one"]),
        ("'http://a'", ["targets[0]: a mapping is expected, not text"]),
        ("null", ["targets[0]: a mapping is expected, not nothing"]),
        ("{url: 5}", ["targets[0].url: YAML reads this as a number; put it in quotes"]),
        ("{url: 'http://a', name: 'a b'}", ['targets[0].name: "a b" is not a name']),
        ("{url: 'http://a', name: on}", ["targets[0].name: YAML reads this as true or false"]),
        ("{url: 'http://a', name: 8000}", ["targets[0].name: YAML reads this as a number"]),
        ("{url: 'http://a', role: fast}", ["targets[0].role: write speculative or standard, not"]),
        ("{url: 'http://a', role: []}", ["targets[0].role: write speculative or standard, not a"]),
        ("{url: 'http://a', engines: 0}", ["targets[0].engines: write a whole number from 1"]),
        ("{url: 'http://a', engines: true}", ["targets[0].engines: write a whole number from 1"]),
        ("{url: 'http://a', engines: two}", ["targets[0].engines: write a whole number from 1"]),
        ("{url: 'http://a', method: 'a b'}", ['targets[0].method: "a b" is not a method']),
        (
            "{url: 'http://a', auth: {bearer_token: x}}",
            ["targets[0].auth.bearer_token: unknown key; did you mean bearer_file?"],
        ),
        (
            "{url: 'http://a', auth: {basic: 'u:hunter2'}}",
            ["targets[0].auth.basic: secrets stay out of the file; use basic_file or SPECGAUGE_"],
        ),
        (
            "{url: 'http://a', auth: {headers: [x]}}",
            ["targets[0].auth.headers: a mapping is expected, not a list"],
        ),
        (
            "{url: 'http://a', auth: {headers: {authorization: hunter2}}}",
            ["targets[0].auth.headers: Authorization is a secret"],
        ),
        *(
            (
                f"{{url: 'http://a', auth: {{headers: {{{name}: a}}}}}}",
                [f'targets[0].auth.headers: "{name}" belongs to the request itself; remove it'],
            )
            for name in ("Host", "Content-Length", "transfer-encoding", "Connection", "Expect")
        ),
        (
            "{url: 'http://a', auth: {headers: {X-A: a, x-a: b}}}",
            ['targets[0].auth.headers: "x-a" is there twice'],
        ),
        (
            "{url: 'http://a', auth: {headers: {'X A': a}}}",
            ['targets[0].auth.headers: "X A" is not the name of a header'],
        ),
        (
            "{url: 'http://a', auth: {headers: {X-A: 5}}}",
            ['targets[0].auth.headers: the value of "X-A" must be text'],
        ),
        (
            '{url: "http://a", auth: {headers: {X-A: "a\\r\\nb"}}}',
            ['targets[0].auth.headers: the value of "X-A" must be text'],
        ),
        (
            "{url: 'http://a', tls: {server_name: b}}",
            ["targets[0].tls: is for https:// only; change the url or remove tls"],
        ),
        (
            "{url: 'https://a', server_name: b}",
            ["targets[0].server_name: unknown key; did you mean targets[].tls.server_name?"],
        ),
        (
            "{url: 'https://a', tls: {key_file: /no}}",
            [
                "targets[0].tls.key_file: is of no use without cert_file",
                "targets[0].tls.key_file: /no: No such file or directory",
            ],
        ),
        (
            "{url: 'http://a'}, {url: 'http://a:80/x'}",
            ['targets[1].name: "a:80" is also the name of targets[0]; name one of them'],
        ),
        (
            "{url: 'http://a', name: x}, {url: 'http://b', name: x}, {url: nope, name: 5}",
            [
                "targets[2].url: not a URL",
                "targets[2].name: YAML reads this as a number",
                'targets[1].name: "x" is also the name of targets[0]',
            ],
        ),
    ],
)
def test_target_problems(tmp_path: Path, text: str, expected: list[str]) -> None:
    """Faults in a target carry its position in the list."""
    found = problems(write(tmp_path, f"targets: [{text}]"))
    assert [line[: len(start)] for line, start in zip(found, expected, strict=True)] == expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "targets: none given; name one with --target URL"),
        (b"targets: []", "targets: none given"),
        (b"targets:", "targets: none given"),
        (b"targets: http://a", "targets: a list is expected, not text"),
        (b"- a", "{file}: a mapping of keys is expected, not a list"),
        (b"a", "{file}: a mapping of keys is expected, not text"),
        (b"a: 1\nb: \xff", "{file}:2: not UTF-8"),
        (b"a: [", "{file}:1:5: "),
        (b"#" * (1 << 20) + b"#", "{file}: larger than 1MiB"),
    ],
)
def test_unusable_files(tmp_path: Path, data: bytes, expected: str) -> None:
    """A file that is no configuration at all is named with the place."""
    path = write(tmp_path, data)
    (problem,) = problems(path)
    assert problem.startswith(expected.replace("{file}", str(path)))


def test_missing_files(tmp_path: Path) -> None:
    """A file that is not there, is a folder, or cannot exist is one line."""
    missing = tmp_path / "no.yaml"
    assert (f"{missing}: No such file or directory",) == problems(missing)
    assert (f"{tmp_path}: Is a directory",) == problems(tmp_path)
    assert problems(Path("a\0b"))[0].endswith("embedded null byte")


def test_every_problem_at_once(tmp_path: Path) -> None:
    """All faults of file, environment and flags are reported together, each under its origin."""
    path = write(tmp_path, "scrape: {timeout: abc}\ntargets: [{}]\nscrpae: 1\nwindow: 1ms")
    env = {"SPECGAUGE_SCRAPE_INTERVAL": "x", "SPECGAUGE_EXPORT_POSITION": "true"}
    found = problems(path, env, listen="nowhere")
    assert [problem.partition(":")[0] for problem in found] == [
        "targets[0].url",
        "SPECGAUGE_SCRAPE_INTERVAL",
        "scrape.timeout",
        "--listen",
        "scrpae",
        "SPECGAUGE_EXPORT_POSITION",
    ]


@given(st.text() | st.binary())
def test_any_text_is_a_configuration_or_an_error(text: str | bytes) -> None:
    """Whatever the YAML holds, nothing but ConfigError comes out, each problem on one line."""
    data = text if isinstance(text, str) else text.decode(errors="replace")
    assert all(len(line.splitlines()) == 1 for line in faults(lambda: parse_yaml(data, source="f")))


_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
_NAMES = st.sampled_from(sorted({part for key in KEYS for part in key})) | st.text(max_size=3)
_TREES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(_NAMES, _TREES), st.dictionaries(_NAMES, st.text(), max_size=3))
def test_any_tree_is_a_configuration_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, tree: dict[str, Any], variables: dict[str, str]
) -> None:
    """Whatever stands under whichever key, in file or environment, only ConfigError comes out."""
    path = write(tmp_path_factory.mktemp("tree"), yaml.safe_dump(tree))
    env = {f"SPECGAUGE_{name.upper()}": value for name, value in variables.items()}
    env |= {f"SPECGAUGE_TARGETS_0_{name.upper()}": value for name, value in variables.items()}
    found = faults(lambda: load(path, env=env, overrides={}))
    assert all(len(line.splitlines()) == 1 for line in found)


# Environment and flags


def test_precedence(tmp_path: Path) -> None:
    """Flags go before the environment, that before the file, that before the default."""
    path = write(tmp_path, ONE + "scrape: {interval: 2s, timeout: 2s}\nwindow: 20s\nlisten: ':2'")
    env = {"SPECGAUGE_SCRAPE_INTERVAL": "3s", "SPECGAUGE_WINDOW": "30s", "SPECGAUGE_LISTEN": ""}
    config = load(path, env=env, overrides={"window": "40s", "targets": (), "listen": None})
    assert Scrape(interval=3.0, timeout=2.0, max_bytes=64 << 20) == config.scrape
    assert (config.window, config.listen, config.targets[0].name) == (40.0, ":2", "a:1")


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"SPECGAUGE_TARGETS": "http://a:1, http://b:2,"}, ["a:1", "b:2"]),
        ({"SPECGAUGE_TARGETS": '["http://a:1", {"url": "http://b:2", "name": "x"}]'}, ["a:1", "x"]),
        ({"SPECGAUGE_TARGETS": "- url: http://a:1\n"}, ["a:1"]),
        ({"SPECGAUGE_TARGETS_0_URL": "http://a:1", "SPECGAUGE_TARGETS_0_NAME": "x"}, ["x"]),
        ({"SPECGAUGE_TARGETS_0": "{url: http://a:1}"}, ["a:1"]),
        (URL | {"SPECGAUGE_TARGETS_1_URL": "http://b:2"}, ["a:1", "b:2"]),
        (URL | {"SPECGAUGE_TARGETS_0_NAME": "8000"}, ["8000"]),
        ({f"SPECGAUGE_TARGETS_{n}_URL": f"http://a:{n + 1}" for n in range(11)}, None),
    ],
)
def test_targets_from_the_environment(env: dict[str, str], expected: list[str] | None) -> None:
    """Targets are a list of URLs, a YAML or JSON list, or single variables with a number."""
    config = load(None, env=env, overrides={})
    names = [target.name for target in config.targets]
    assert (expected or [f"a:{n + 1}" for n in range(11)]) == names


def test_values_from_the_environment() -> None:
    """Every kind of key can be set by a variable; a section is YAML."""
    env = URL | {
        "SPECGAUGE_EXPORT_HISTOGRAMS": "false",
        "SPECGAUGE_SCRAPE": "{interval: 5s}",
        "SPECGAUGE_SCRAPE_MAX_BYTES": "2048",
        "SPECGAUGE_TARGETS_0_ENGINES": "2",
        "SPECGAUGE_TARGETS_0_AUTH_HEADERS_X_API_KEY": "5",
    }
    config = load(None, env=env, overrides={})
    assert (
        config.export.histograms,
        config.scrape.interval,
        config.scrape.max_bytes,
    ) == (False, 5.0, 2048)
    assert config.targets[0].engines == 2
    assert request_headers(config.targets[0].auth) == {"X-Api-Key": "5"}


def test_numbered_variables_reach_into_the_file(tmp_path: Path) -> None:
    """A variable sets one key of a target that the file describes, and adds what is not there."""
    text = "targets: [{url: 'http://a:1', auth: {headers: {x-a: '1', X-B: '2'}}}, null]\nexport:"
    env = {
        "SPECGAUGE_TARGETS_0_AUTH_HEADERS_X_A": "3",
        "SPECGAUGE_TARGETS_1_URL": "http://b:2",
        "SPECGAUGE_EXPORT_POSITIONS": "no",
    }
    config = load(write(tmp_path, text), env=env, overrides={})
    assert config.targets[0].auth.headers == {"X-A": "3", "X-B": "2"}
    assert config.targets[1].name == "b:2"
    assert config.export.positions is False


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        (
            {"SPECGAUGE_SCRAPE_INTERVALL": "5s"},
            "SPECGAUGE_SCRAPE_INTERVALL: unknown variable; did you mean SPECGAUGE_SCRAPE_INTERVAL?",
        ),
        (
            {"SPECGAUGE_TARGETS_3_URI": "x"},
            "SPECGAUGE_TARGETS_3_URI: unknown variable; did you mean SPECGAUGE_TARGETS_3_URL?",
        ),
        (
            {"SPECGAUGE_TARGETS_0_AUTH_HEADERS_": "x"},
            "SPECGAUGE_TARGETS_0_AUTH_HEADERS_: unknown variable; did you mean",
        ),
        ({"SPECGAUGE_lower": ""}, "SPECGAUGE_lower: unknown variable; see"),
        ({"SPECGAUGE_\n": ""}, r"'SPECGAUGE_\n': unknown variable"),
        ({"SPECGAUGE_TARGETS_#_URL": "x"}, "SPECGAUGE_TARGETS_#_URL: unknown variable"),
        ({"SPECGAUGE_PORT": "9843"}, "SPECGAUGE_PORT: unknown variable"),
        ({"SPECGAUGE_WINDOW": "60"}, "SPECGAUGE_WINDOW: 60 has no unit; write 60s"),
        ({"SPECGAUGE_WINDOW": "\udcff"}, "SPECGAUGE_WINDOW: not UTF-8"),
        ({"SPECGAUGE_EXPORT_POSITIONS": "1"}, "SPECGAUGE_EXPORT_POSITIONS: write true or false"),
        ({"SPECGAUGE_EXPORT": "hunter2"}, "SPECGAUGE_EXPORT: a mapping is expected, not text"),
        ({"SPECGAUGE_EXPORT": "{"}, "SPECGAUGE_EXPORT:1:2: "),
        ({"SPECGAUGE_EXPORT": "{a: 1}"}, "SPECGAUGE_EXPORT: export.a: unknown key"),
        (
            {"SPECGAUGE_TARGETS_2_URL": "http://b"},
            "SPECGAUGE_TARGETS_2_URL: there is no targets[1]",
        ),
        (
            {"SPECGAUGE_TARGETS": "[{url: 'http://a'}, {url: x}]"},
            "SPECGAUGE_TARGETS: targets[1].url: not a URL; write http://HOST:PORT",
        ),
        ({"SPECGAUGE_TARGETS": "{url: 'http://a'}"}, "SPECGAUGE_TARGETS: a list is expected"),
        (
            {"SPECGAUGE_TARGETS": "[]", "SPECGAUGE_TARGETS_0_NAME": "x"},
            "SPECGAUGE_TARGETS_0_NAME: targets[0].url: missing",
        ),
    ],
)
def test_environment_problems(env: dict[str, str], expected: str) -> None:
    """A fault in the environment names the variable."""
    expected = expected.replace("SPECGAUGE_TARGETS_0_NAME: ", "SPECGAUGE_TARGETS: ")
    (problem,) = problems(None, URL | env)
    assert problem.startswith(expected)


def test_kubernetes_service_variables() -> None:
    """What Kubernetes sets for a Service of our name is none of our business."""
    load(
        None,
        env=URL
        | {
            "SPECGAUGE_SERVICE_HOST": "10.0.0.1",
            "SPECGAUGE_SERVICE_PORT": "9843",
            "SPECGAUGE_SERVICE_PORT_METRICS": "9843",
            "SPECGAUGE_PORT": "tcp://10.0.0.1:9843",
            "SPECGAUGE_PORT_9843_TCP": "tcp://10.0.0.1:9843",
            "SPECGAUGE_PORT_9843_TCP_PROTO": "tcp",
            "SPECGAUGE_PORT_9843_TCP_PORT": "9843",
            "SPECGAUGE_PORT_9843_TCP_ADDR": "10.0.0.1",
            "SPECGAUGE_PROD_SERVICE_HOST": "10.0.0.2",
            "SPECGAUGE_PROD_PORT": "tcp://10.0.0.2:9843",
            "PATH": "/bin",
        },
        overrides={},
    )


def test_a_target_flag_replaces_the_list(tmp_path: Path) -> None:
    """--target goes before every other list; variables with a number add what it does not say."""
    env = {
        "SPECGAUGE_TARGETS": "http://b:2,http://c:3",
        "SPECGAUGE_TARGETS_0_URL": "http://d:4",
        "SPECGAUGE_TARGETS_0_AUTH_BEARER": "t0ken",
        "SPECGAUGE_TARGETS_1_NAME": "x",
    }
    flags = {"targets": ("http://e:5",), "scrape.interval": "2s"}
    config = load(write(tmp_path, ONE), env=env, overrides=flags)
    (target,) = config.targets
    assert target.name == "e:5"
    assert request_headers(target.auth) == {"Authorization": "Bearer t0ken"}
    assert (2.0, "t0ken" in repr(config)) == (config.scrape.interval, False)


def test_flag_problems() -> None:
    """A fault in a flag names the flag."""
    found = problems(None, URL, window=1.5)
    assert found == ("--window: must be at least 2s, twice scrape.interval (1s)",)
    flags = {"scrape.max_bytes": "x", "targets": ["nope"]}
    with pytest.raises(ConfigError) as caught:
        load(None, env={}, overrides=flags)
    assert list(caught.value.problems) == [
        "--target: not a URL; write http://HOST:PORT",
        '--max-bytes: "x" is not a size; write 64MiB, 10MB or a number of bytes',
    ]


@pytest.mark.parametrize(
    "text",
    ["targets: {a: 1}", "targets: [5]", "targets: 5", "targets: [{url: 'http://a', auth: 5}]"],
)
def test_variables_cannot_mend_a_broken_file(tmp_path: Path, text: str) -> None:
    """Where the file has another kind of value, the variable is not put into it."""
    env = {"SPECGAUGE_TARGETS_0_AUTH_HEADERS_A": "x"}
    (problem,) = problems(write(tmp_path, text), env)
    assert "is expected, not" in problem


# Secrets and other files


def test_secrets_from_files(tmp_path: Path) -> None:
    """A secret is the first line of its file, found beside the configuration, read on each call."""
    token = write(tmp_path, "t0ken\nrest\n", "token")
    basic = write(tmp_path, "user:pa:ss wörd\n", "basic")
    pem = write(tmp_path, "x", "ca.pem")
    text = """
        token_file: token
        targets:
          - {url: "http://a:1", auth: {bearer_file: token, headers: {x_file: token}}}
          - url: "https://b:2"
            auth: {basic_file: basic}
            tls: {ca_file: ca.pem, cert_file: ca.pem}
    """
    config = load(write(tmp_path, text), env={}, overrides={})
    bearer, password = (target.auth for target in config.targets)
    assert "t0ken" == control_token(config) == read_secret(token)
    assert request_headers(bearer) == {"x_file": "token", "Authorization": "Bearer t0ken"}
    assert request_headers(password) == {"Authorization": "Basic dXNlcjpwYTpzcyB3w7ZyZA=="}
    assert (token, basic, pem) == named_files(config)
    token.write_text("new")
    assert control_token(config) == "new"


def test_secrets_from_the_environment(tmp_path: Path) -> None:
    """A secret in a variable replaces the file's of whatever kind, and shows up nowhere."""
    text = "{url: 'http://a', auth: {bearer_file: no}}, {url: 'http://b', auth: {bearer_file: no}}"
    env = {
        "SPECGAUGE_TOKEN": "hunter1\n",
        "SPECGAUGE_TARGETS_0_AUTH_BASIC": "u:hunter2",
        "SPECGAUGE_TARGETS_1_AUTH_BEARER": "hunter3",
    }
    path = write(tmp_path, f"token_file: no\ntargets: [{text}]")
    config = load(path, env=env, overrides={})
    first, second = (request_headers(target.auth) for target in config.targets)
    assert control_token(config) == "hunter1"
    assert first == {"Authorization": "Basic dTpodW50ZXIy"}
    assert second == {"Authorization": "Bearer hunter3"}
    assert "hunter" not in repr(config) + effective(config) + config.model_dump_json()


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("bearer_file", None, "{file}: No such file or directory"),
        ("bearer_file", b"\nhunter2", "{file}: the first line is empty"),
        ("bearer_file", b"hunter2 x", "{file}: holds characters that a token cannot have"),
        ("bearer_file", b"\xff", "{file}: not UTF-8"),
        ("basic_file", b"hunter2", "{file}: expected is one line: user:password"),
    ],
)
def test_secret_file_problems(
    tmp_path: Path, name: str, content: bytes | None, expected: str
) -> None:
    """A secret's file that cannot be used is named with the key, and its content is not shown."""
    secret = tmp_path / "secret"
    if content is not None:
        secret.write_bytes(content)
    text = f"targets: [{{url: 'http://a', auth: {{{name}: secret}}}}]"
    (problem,) = problems(write(tmp_path, text))
    start = f"targets[0].auth.{name}: " + expected.replace("{file}", str(secret))
    assert start == problem[: len(start)]
    assert "hunter" not in problem


def test_other_file_problems(tmp_path: Path) -> None:
    """A folder is no certificate, nor is a device; unknown keys are not opened."""
    text = f"""
        bogus_file: nope
        targets: [{{url: "https://a", tls: {{ca_file: {tmp_path}, cert_file: /dev/zero}}}}]
    """
    assert (
        "bogus_file: unknown key; did you mean token_file?",
        f"targets[0].tls.ca_file: {tmp_path}: not a regular file",
        "targets[0].tls.cert_file: /dev/zero: not a regular file",
    ) == problems(write(tmp_path, text))


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        (
            {"SPECGAUGE_TARGETS_0_AUTH_BEARER": "a", "SPECGAUGE_TARGETS_0_AUTH_BASIC": "a:hunter2"},
            "SPECGAUGE_TARGETS_0_AUTH_BASIC: targets[0].auth.bearer is set too; keep one of them",
        ),
        (
            {"SPECGAUGE_TOKEN": "a", "SPECGAUGE_TOKEN_FILE": __file__},
            "SPECGAUGE_TOKEN_FILE: token is set too; keep one of them",
        ),
        (
            {"SPECGAUGE_REPORT_WEBHOOK": "http://a", "SPECGAUGE_REPORT_WEBHOOK_FILE": __file__},
            "SPECGAUGE_REPORT_WEBHOOK_FILE: report.webhook is set too; keep one of them",
        ),
        (
            {"SPECGAUGE_TARGETS_0_AUTH_BEARER": "hunter2 x"},
            "SPECGAUGE_TARGETS_0_AUTH_BEARER: holds",
        ),
        ({"SPECGAUGE_TARGETS_0_AUTH_BASIC": "hunter2"}, "SPECGAUGE_TARGETS_0_AUTH_BASIC: expected"),
        (
            {"SPECGAUGE_TARGETS": "[{url: 'http://a', auth: {bearer: [hunter2]}}]"},
            "SPECGAUGE_TARGETS: targets[0].auth.bearer: text is expected, not a list",
        ),
        (
            {"SPECGAUGE_TARGETS": "http://u:hunter2@h"},
            "SPECGAUGE_TARGETS: targets[0].url: a URL hol",
        ),
    ],
)
def test_secret_variable_problems(env: dict[str, str], expected: str) -> None:
    """A secret that cannot be used is named by its variable, and its value is not shown."""
    found = problems(None, URL | env)
    assert any(problem.startswith(expected) for problem in found)
    assert "hunter2" not in "".join(found)


def test_values_are_frozen() -> None:
    """A configuration is a value: nothing changes it, and code gives seconds as numbers."""
    scrape = Scrape(interval=0.2)
    with pytest.raises(ValueError, match="frozen"):
        scrape.interval = 5.0
    with pytest.raises(ValueError, match="must be at least 100ms"):
        Scrape(interval=float("nan"))
    assert Auth(bearer_file=Path("x"), bearer=None).bearer_file == Path("x")


# Schema, commands, documentation


def test_schema() -> None:
    """The schema is a valid one, describes every key, forbids others, and knows no secrets."""
    described = schema()
    jsonschema.Draft202012Validator.check_schema(described)
    for part in (described, *described["$defs"].values()):
        assert part["additionalProperties"] is False
        assert not {"bearer", "basic", "token"} & set(part["properties"])
        for name, key in part["properties"].items():
            assert key.get("description"), name
    assert described["$defs"]["Scrape"]["properties"]["interval"]["default"] == "1s"


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("targets: [{url: 'http+unix:///a'}]\nscrape: {interval: 1m30s, max_bytes: 2048}", True),
        ("targets: [{url: 'http://a', name: null, engines: null, auth: {basic_file: null}}]", True),
        ("scrape: {interval: 30}", False),
        ("scrape: {interval: ''}", False),
        ("scrape: {max_bytes: 5M}", False),
        ("targets: [{url: 'http://a'}]\nguard: {}", True),
        ("report: {step: 5m}", True),
        ("report: {step: 5}", False),
        ("targets: [{name: a}]", False),
        ("targets: [{url: 'a:1'}]", False),
    ],
)
def test_schema_agrees_with_the_reader(text: str, valid: bool) -> None:
    """What the schema lets an editor accept is what the reader accepts."""
    validator = jsonschema.Draft202012Validator(schema())
    assert valid is validator.is_valid(yaml.safe_load(text))


def run(*arguments: str, env: Mapping[str, str] | None = None) -> tuple[int, str, str]:
    clean = {name: None for name in os.environ if name.startswith("SPECGAUGE_")}
    result = CliRunner().invoke(config_group, list(arguments), env=clean | dict(env or {}))
    return result.exit_code, result.stdout, result.stderr


def test_schema_command() -> None:
    """`config schema` prints the schema as JSON."""
    code, out, err = run("schema")
    assert (0, schema(), "") == (code, json.loads(out), err)


def test_check_command(tmp_path: Path) -> None:
    """`config check` says OK on stdout, or every problem on stderr with the file before it."""
    good, bad = write(tmp_path, ONE), write(tmp_path, "targets: [{}]\nx: 1", "bad.yaml")
    broken = write(tmp_path, "a: [", "broken.yaml")
    assert (0, f"{good}: OK, 1 target(s): a:1\n", "") == run("check", str(good))
    code, out, err = run("check", str(bad), env={"SPECGAUGE_WINDOW": "1"})
    assert (code, out) == (2, "")
    assert [
        f"{bad}: targets[0].url: missing; every target needs one",
        "SPECGAUGE_WINDOW: 1 has no unit; write 1s, or another of d h m s ms",
        f"{bad}: x: unknown key; see specgauge config schema",
    ] == err.splitlines()
    code, out, err = run("check", str(broken))
    assert (code, out, err.startswith(f"{broken}:1:5: ")) == (2, "", True)
    damaged = write(tmp_path, "{}", "damaged.json")
    named = write(tmp_path, f"{ONE}\nbaseline: {{file: {damaged}}}\n", "named.yaml")
    code, out, err = run("check", str(named))
    assert (code, out) == (2, "")
    assert err.startswith(f"{named}: baseline.file: {damaged}: schema: ")


def test_show_command(tmp_path: Path) -> None:
    """`config show` prints a file that means the same, but for the values of headers."""
    text = "targets: [{url: 'http://a:1', auth: {headers: {X-Key: hunter2}}}]\nwindow: 90s"
    path = write(tmp_path, text)
    code, out, err = run("show", str(path), env={"SPECGAUGE_SCRAPE_INTERVAL": "2s"})
    assert (code, err) == (0, "")
    shown = load(write(tmp_path, out, "shown.yaml"), env={}, overrides={})
    assert (shown.scrape.interval, shown.window, shown.targets[0].name) == (2.0, 90.0, "a:1")
    assert "hunter2" not in out


def test_documentation_is_complete() -> None:
    """Every key and every variable stands in the documentation, and its example can be used."""
    text = DOCS.read_text()
    for key in KEYS.values():
        if key.path[-1] in "#*":
            continue
        assert f"`{key.variable.replace('#', '0')}`" in text
        if not key.secret:
            assert f"`{'.'.join(key.path).replace('.#', '[]')}`" in text


def test_documented_example(tmp_path: Path) -> None:
    """The example in the documentation is a configuration that the schema accepts as well."""
    write(tmp_path, "{}", "baseline.json")
    blocks = re.findall(r"```yaml\n(.*?)```", DOCS.read_text(), re.DOTALL)
    for block in blocks:
        config = load(write(tmp_path, block), env={}, overrides={})
        assert [target.name for target in config.targets] == ["spec", "plain"]
        jsonschema.Draft202012Validator(schema()).validate(yaml.safe_load(block))
    assert blocks
