"""`specgauge route explain`, and `specgauge render nginx`, as a person runs them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.routers import program

from specgauge.cli.main import main
from specgauge.errors import RenderError
from specgauge.render.nginx import listen_of, nginx, quoted
from specgauge.render.options import Options
from specgauge.render.router import Router
from specgauge.routing.rules import LoadLimit, Pool, Routes, Rule, When

CONFIG = """
routing:
  presets: [playbook]
  decode_concurrency: {at_most: 8}
  rules:
    - {name: jobs, when: {header: {name: X-Traffic, values: [batch]}}, pool: standard}
    - {name: vectors, when: {routes: [embeddings]}, pool: standard}
"""


@pytest.fixture
def config(tmp_path: Path) -> str:
    """Write the configuration; gives its path."""
    file = tmp_path / "specgauge.yaml"
    file.write_text(CONFIG)
    return str(file)


def asked(tmp_path: Path, body: str) -> str:
    """Write the body of a request; gives its path."""
    file = tmp_path / "request.json"
    file.write_text(body)
    return str(file)


def test_explain(tmp_path: Path, config: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It names pool, class and reason, and every rule up to the one that fits."""
    request = asked(tmp_path, '{"temperature": 1.5}')
    assert main(["route", "explain", request, "--config", config, "--load", "3"]) == 0
    assert capsys.readouterr().out == (
        "standard pool, class high-temperature (rule:high-temperature)\n"
        "  jobs: header x-traffic is not there\n"
        "  vectors: route chat is none of embeddings\n"
        "  high-temperature: fits\n"
    )


def test_explain_what_takes_the_pool_away(
    tmp_path: Path, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where flag or load overrule the rule, both are said; so is a body that was not read."""
    command = ["route", "explain", asked(tmp_path, "{"), "--config", config]
    assert main([*command, "--load", "9"]) == 0
    assert capsys.readouterr().out.splitlines()[:3] == [
        "standard pool, class other (load)",
        "its rule alone would have it in the speculative pool",
        "the body was not looked into (malformed): no condition over it holds",
    ]


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        pytest.param([], ("other", "standard", "load_unknown"), id="load unknown"),
        pytest.param(["--load", "8"], ("other", "speculative", "fallback"), id="load"),
        pytest.param(["--flag", "off"], ("other", "standard", "flag_off"), id="flag off"),
        pytest.param(["--flag", "unknown"], ("other", "standard", "flag_unknown"),
                     id="flag unknown"),
        pytest.param(["--header", "x-traffic:batch", "--load", "1"],
                     ("jobs", "standard", "rule:jobs"), id="header"),
        pytest.param(["--header", "x-traffic:no", "--header", "X-Traffic:batch", "--load", "1"],
                     ("jobs", "standard", "rule:jobs"), id="last header"),
        pytest.param(["--path", "http://r/v1/%65mbeddings?a=b", "--load", "1"],
                     ("vectors", "standard", "rule:vectors"), id="URL"),
    ],
)  # fmt: skip
def test_explain_json(
    tmp_path: Path,
    config: str,
    capsys: pytest.CaptureFixture[str],
    more: list[str],
    expected: tuple[str, str, str],
) -> None:
    """The same as JSON, for what was said of the moment."""
    request = asked(tmp_path, "{}")
    assert main(["route", "explain", request, "--config", config, "--json", *more]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["class"], found["pool"], found["reason"]) == expected
    assert found["schema"] == "specgauge.route/v1"
    assert found["rules"][0]["name"] == "jobs"


def test_explain_without_routing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without rules everything is for the speculative pool; other paths are other routes."""
    assert main(["route", "explain", asked(tmp_path, "{}"), "--path", "/v1/models"]) == 0
    assert capsys.readouterr().out == "speculative pool, class other (fallback)\n"


def test_explain_what_is_piped_in(config: str) -> None:
    """A dash reads the request from standard input."""
    command = [sys.executable, "-m", "specgauge", "route", "explain", "-", "--config", config]
    done = subprocess.run(command, input=b'{"max_tokens": 5}', capture_output=True, check=True)
    assert done.stdout.startswith(b"standard pool, class tiny (rule:tiny)\n")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        pytest.param(["none.json"], 3, "none.json: No such file or directory", id="no file"),
        pytest.param(["none.json", "--header", "x"], 2, "write it as 'Name: value'", id="header"),
        pytest.param(["none.json", "--path", "v1"], 2, "--path v1: no path that a", id="path"),
        pytest.param(["none.json", "--flag", "maybe"], 2, "'maybe'", id="flag"),
    ],
)
def test_refusals(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, words: str
) -> None:
    """What cannot be read is exit 3, what is not understood 2."""
    if "--flag" not in arguments and len(arguments) > 1:
        arguments = [str(Path(__file__)), *arguments[1:]]
    assert main(["route", "explain", *arguments]) == code
    assert words in capsys.readouterr().err


def test_render_needs_routing(capsys: pytest.CaptureFixture[str]) -> None:
    """Asked for a router where nothing is to be routed, it says so instead of writing nothing."""
    assert main(["render", "nginx"]) == 2
    assert "nginx: nothing is to be routed; add routing: to the file" in capsys.readouterr().err


def test_render_and_check(tmp_path: Path, config: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It writes three files, and finds one that was changed by hand."""
    command = ["render", "nginx", "--config", config, "--output", str(tmp_path)]
    assert main(command) == 0
    told = capsys.readouterr()
    written = told.out.split()
    assert told.err.splitlines() == [
        "nginx/nginx.conf: routing.pools.speculative is not set, so its server is 127.0.0.1:8000",
        "nginx/nginx.conf: routing.pools.standard is not set, so its server is 127.0.0.1:8001",
    ]
    assert written == ["nginx/nginx.conf", "nginx/route.js", "nginx/routes.json"]
    assert main([*command, "--check"]) == 0
    (tmp_path / "nginx" / "routes.json").write_text("{}")
    capsys.readouterr()
    assert main([*command, "--check"]) == 1
    assert capsys.readouterr().out == "nginx/routes.json\n"


HOSTILE = Router(
    routes=Routes(
        rules=(
            Rule(
                name="a",
                pool=Pool.SPECULATIVE,
                when=When(contains=('"}; evil', "\\", "é\n", "${x}"), models=("m'\"$",)),
                load=LoadLimit(at_most=4.5, resume=0.25),
            ),
        ),
        max_body=1024,
    ),
    host="::1",
    port=18089,
    speculative=("127.0.0.1:8000", "[::1]:8000", "localhost:8002"),
    standard=("127.0.0.1:8001", "127.0.0.1:8003"),
    state_url="http://127.0.0.1:9843",
    access_log="access log;.json",
    connect_timeout=0.0015,
    workers="2",
)


@pytest.mark.parametrize(
    "router",
    [
        pytest.param(Router(), id="defaults"),
        pytest.param(HOSTILE, id="much of everything"),
        pytest.param(Router(host="", state_file="/run/x y/state.json"), id="every address"),
    ],
)
def test_nginx_takes_it(tmp_path: Path, router: Router) -> None:
    """Whatever the configuration says, nginx reads what is written, as it was meant."""
    for one in nginx(Options(router=router)):
        (tmp_path / one.path).parent.mkdir(exist_ok=True)
        (tmp_path / one.path).write_text(one.text)
    command = [program("nginx"), "-p", str(tmp_path / "nginx"), "-c", "nginx.conf", "-t"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    table = json.loads((tmp_path / "nginx" / "routes.json").read_text())
    assert [rule["name"] for rule in table["rules"]] == [rule.name for rule in router.routes.rules]


def test_no_router_no_files() -> None:
    """Where nothing is to be routed nothing is written."""
    assert list(nginx(Options())) == []


def test_paths_that_nginx_reads_otherwise() -> None:
    """A path with a dollar sign would be a variable, so it is refused."""
    with pytest.raises(RenderError, match="nginx cannot take a path with"):
        quoted("/var/log/$host")
    assert quoted('a "b" \\c') == '"a \\"b\\" \\\\c"'
    assert listen_of(Router(host="", port=80)) == "80"
