"""The dashboards: what Grafana's published models say of them, and Prometheus of their queries."""

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import promql_parser
import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard
from tests.ruling import ROOT, promtool

from specgauge.model.derived import Speculation
from specgauge.model.guard import Phase
from specgauge.model.names import ALL
from specgauge.model.verdict import Verdict
from specgauge.render.alert import alerts, dashboard_url
from specgauge.render.catalogue import names_known
from specgauge.render.dashboards import NAMES, dashboard, dashboards
from specgauge.render.files import to_yaml
from specgauge.render.options import Options, Thresholds
from specgauge.render.panels import STATES
from specgauge.render.rules import recording_groups
from specgauge.render.verify import values_of

GRAFANAS_OWN = {"__rate_interval": "5m", "__interval": "1m", "__range": "1h"}
CHOSEN = {"instance": "a:9843", "target": "t", "model_name": "m"}
DCGM = {"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE"}
OF_PLUGIN = {"titleFormat", "textFormat"}
every_dashboard = pytest.mark.parametrize("name", NAMES)


@cache
def read(name: str) -> Any:
    """Render one dashboard with the defaults, as whoever imports it reads it."""
    return json.loads(json.dumps(dashboard(name, Options())))


def panels(name: str) -> list[Any]:
    """Give the panels without the headings between them."""
    return [one for one in read(name)["panels"] if one["type"] != "row"]


def expressions(name: str, options: Options | None = None) -> list[str]:
    """Give every query of panels and annotations, with something chosen in every variable."""
    found = read(name) if options is None else dashboard(name, options)
    return [filled(one) for one in values_of(found, "expr")]


def filled(expression: str) -> str:
    """Put values in the place of Grafana's variables."""
    for variable, value in {**GRAFANAS_OWN, **CHOSEN}.items():
        expression = re.sub(rf"\${variable}\b", value, expression)
    return expression


# Import and provisioning


def lint(found: Any) -> Iterator[str]:
    """Say what keeps a dashboard from being provisioned."""
    if "__inputs" in found:
        yield "__inputs"
    known = {one["name"] for one in found.get("templating", {}).get("list", ())}
    for uid in sorted(set(values_of(found, "uid"))):
        named = re.fullmatch(r"\$\{?(\w+)\}?", uid)
        if named and named[1] not in known:
            yield named[1]
    if isinstance(found.get("id"), int):
        yield "id"


def test_lint_finds_what_was_exported_for_sharing() -> None:
    """An input nobody fills in, a data source without its variable, a foreign id: all are told."""
    shared = {
        "__inputs": [{"name": "DS_PROMETHEUS", "type": "datasource", "pluginId": "prometheus"}],
        "id": 17,
        "uid": "spec",
        "title": "spec",
        "panels": [
            {
                "type": "timeseries",
                "datasource": {"type": "prometheus", "uid": "${DS_PROMETHEUS}"},
                "targets": [{"expr": "up"}],
            }
        ],
    }
    assert [*lint(shared)] == ["__inputs", "DS_PROMETHEUS", "id"]


@every_dashboard
def test_can_be_provisioned_and_imported(name: str) -> None:
    """Nothing has to be filled in, and what an import looks at is there."""
    found = read(name)
    assert [*lint(found)] == []
    assert (found["uid"], found["schemaVersion"]) == (f"specgauge-{name}", 39)
    assert found["title"].startswith("specgauge / ")
    kinds = {one["id"] for one in found["__requires"] if one["type"] == "panel"}
    assert kinds == {one["type"] for one in panels(name)}
    others = [(one["type"], one["id"]) for one in found["__requires"] if one["type"] != "panel"]
    assert others == [("grafana", "grafana"), ("datasource", "prometheus")]


@every_dashboard
def test_data_source_is_the_variable_everywhere(name: str) -> None:
    """The variable is the first, begins with the configured one, and nothing goes around it."""
    found = dashboard(name, Options(datasource="mine"))
    first = found["templating"]["list"][0]
    assert (first["name"], first["type"]) == ("datasource", "datasource")
    assert first["current"]["value"] == "mine"
    used = [target["datasource"] for one in found["panels"] for target in one.get("targets", ())]
    used += [one["datasource"] for one in found["annotations"]["list"]]
    used += [one["datasource"] for one in found["templating"]["list"][1:]]
    assert used
    assert all(one == {"type": "prometheus", "uid": "${datasource}"} for one in used)


# Grafana's models


def lost(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """Name what a round trip lost or changed; what it added does not count."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in before.items():
            if key in after:
                yield from lost(value, after[key], f"{path}.{key}")
            else:
                yield f"{path}.{key}"
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from lost(one, other, f"{path}[{number}]")
    elif before != after:
        yield path


def round_trip(found: Any) -> list[str]:
    """Let Grafana's published models read a dashboard and write it again."""
    register_default_plugins()
    before = {key: value for key, value in found.items() if key != "__requires"}
    after = json.dumps(Dashboard.from_json(json.loads(json.dumps(before))), cls=JSONEncoder)
    return [*lost(before, json.loads(after))]


@every_dashboard
def test_models_know_every_key(name: str) -> None:
    """Nothing is lost but two keys of annotations, which belong to Prometheus' plugin."""
    gone = [one for one in round_trip(read(name)) if not one.startswith(".annotations.list[")]
    assert gone == []
    of_plugin = {one.rsplit(".", 1)[1] for one in round_trip(read(name))}
    assert of_plugin == OF_PLUGIN
    for one in read(name)["annotations"]["list"]:
        assert all(isinstance(one[key], str) and one[key] for key in OF_PLUGIN)


@pytest.mark.parametrize(
    ("place", "path"),
    [
        ((), ".nonsense"),
        (("panels", 1), ".panels[1].nonsense"),
        (("panels", 1, "options"), ".panels[1].options.nonsense"),
        (("panels", 1, "targets", 0), ".panels[1].targets[0].nonsense"),
        (
            ("panels", 1, "fieldConfig", "defaults"),
            ".panels[1].fieldConfig.defaults.nonsense",
        ),
        (("templating", "list", 1), ".templating.list[1].nonsense"),
    ],
    ids=["dashboard", "panel", "options", "query", "field", "variable"],
)
def test_round_trip_finds_unknown_keys(place: tuple[Any, ...], path: str) -> None:
    """The comparison would tell a key that Grafana does not know, wherever it stands."""
    found = json.loads(json.dumps(read("fleet")))
    node = found
    for key in place:
        node = node[key]
    node["nonsense"] = 1
    assert path in round_trip(found)


def test_server_marks_what_changed() -> None:
    """Restarts, other versions, another k and flips of the guard stand on every graph."""
    names = [one["name"] for one in read("server")["annotations"]["list"]]
    assert names == ["Engine restarted", "Version changed", "k changed", "Guard moved"]


# Queries


@every_dashboard
def test_queries_are_promql_over_series_that_exist(name: str) -> None:
    """Both parsers read every query, and each series is ours, recorded by our rules, or DCGM's."""
    recorded = values_of(recording_groups(Options()), "record")
    known = names_known(recorded) | DCGM
    labels = {one.name.removesuffix("_total"): set(one.labels) for one in ALL}
    for expression in expressions(name):
        assert "$" not in re.sub(r'"\$1"', "", expression)
        for selector in selectors(promql_parser.parse(expression)):
            assert selector.name in known
            bare = re.sub(r"_(total|bucket|sum|count)$", "", selector.name)
            asked = {one.name for one in selector.matchers.matchers}
            assert asked <= labels.get(bare, {"target", "model_name", "code"}) | {"instance", "pod"}


def selectors(node: Any) -> Iterator[Any]:
    """Find every selector below a node."""
    if isinstance(node, promql_parser.VectorSelector):
        yield node
    for name in ("expr", "lhs", "rhs", "vector_selector", "param"):
        below = getattr(node, name, None)
        if below is not None:
            yield from selectors(below)
    for below in getattr(node, "args", ()):
        yield from selectors(below)


@every_dashboard
def test_prometheus_reads_every_query(name: str, tmp_path: Path) -> None:
    """The grammar of the oldest supported Prometheus has the last word."""
    rules = [
        {"record": f"a:b:c{number}", "expr": one} for number, one in enumerate(expressions(name))
    ]
    path = tmp_path / "queries.yaml"
    path.write_text(to_yaml({"groups": [{"name": "g", "rules": rules}]}))
    code, said = promtool("check", "rules", path)
    assert code == 0, said


@every_dashboard
def test_rates_go_by_grafanas_window(name: str) -> None:
    """No query has a window of its own: each follows the range shown and the scrape interval."""
    for expression in values_of(read(name), "expr"):
        assert not re.search(r"\[(?!\$__)", re.sub(r'"[^"]*"', "", expression))
        for one in re.findall(r"\brate\([^\[]*\[([^\]]*)\]", expression):
            assert one == "$__rate_interval"


@every_dashboard
def test_variables_are_declared_and_used(name: str) -> None:
    """Every variable that is asked for is there, and every one that is there is asked for."""
    declared = {one["name"] for one in read(name)["templating"]["list"]}
    text = json.dumps([read(name)["panels"], read(name)["annotations"]])
    used = set(re.findall(r"\$\{?([a-z]\w*)\}?", text))
    assert used - {"1"} == declared


def test_links_of_alerts_arrive() -> None:
    """The dashboard that an alert links to exists and has the variables that the link sets."""
    for one in alerts(Options()):
        url = dashboard_url(one, Options())
        found = re.search(r"/d/specgauge-(\w+)\?", url)
        assert found is not None
        known = {each["name"] for each in read(found[1])["templating"]["list"]}
        assert set(re.findall(r"var-(\w+)=", url)) <= known


@pytest.mark.parametrize("models", [("a$instance",), ("a$target", "b{c}", 'd"e')])
def test_names_are_not_taken_for_variables(models: tuple[str, ...]) -> None:
    """A model whose name holds a dollar is asked for by that name."""
    options = Options(models=models, selector='cluster="$model_name"')
    for name in NAMES:
        for expression in values_of(dashboard(name, options), "expr"):
            assert "a$" not in expression
            assert 'cluster="$' not in expression
            promql_parser.parse(filled(expression))
    text = json.dumps(dashboard("fleet", options)["templating"])
    assert "a$" not in text


# What is shown


@every_dashboard
def test_panels_say_what_they_show(name: str) -> None:
    """Ids and places are one panel's own; each has words, and a unit where it has numbers."""
    found = read(name)["panels"]
    assert len({one["id"] for one in found}) == len(found)
    taken: set[tuple[int, int]] = set()
    for one in found:
        place = one["gridPos"]
        cells = {
            (place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])
        }
        assert not taken & cells
        assert place["x"] + place["w"] <= 24
        taken |= cells
    for one in panels(name):
        assert one["description"].endswith(".")
        assert one["type"] == "alertlist" or one["fieldConfig"]["defaults"]["unit"]


@every_dashboard
def test_panels_link_to_the_runbook(name: str) -> None:
    """What a panel links to is the heading of an alert, and thresholds never stand without one."""
    known = {one.name.lower() for one in alerts(Options())}
    options = Options(runbook_url="https://runbooks.example.com/x.md")
    urls = [
        each["url"].split("#")
        for one in dashboard(name, options)["panels"]
        for each in one.get("links", ())
    ]
    assert urls
    assert all(base == options.runbook_url and anchor in known for base, anchor in urls)


def test_states_are_all_states() -> None:
    """Every state that a series can tell of has a code of its own, a word and a colour."""
    assert set(STATES["guard"][1]) == set(Phase)
    assert set(STATES["verdict"][1]) == set(Verdict)
    assert set(STATES["speculation"][1]) == set(Speculation)
    codes = [code for _, states in STATES.values() for code, _ in states.values()]
    assert len(set(codes)) == len(codes)


SHOWN = (
    "baseline_age",
    "costs_warning",
    "errors_critical",
    "errors_warning",
    "kv_cache_critical",
    "kv_cache_warning",
    "preemptions_critical",
    "preemptions_warning",
    "promised_speedup",
    "waiting_critical",
    "waiting_warning",
)


@pytest.mark.parametrize("threshold", [one.name for one in fields(Thresholds)])
def test_thresholds_are_those_of_the_alerts(threshold: str) -> None:
    """A threshold that is shown follows the configuration, and nothing else changes with it."""
    value = getattr(Thresholds(), threshold) * 2
    other = Options(thresholds=replace(Thresholds(), **{threshold: value}))
    changed = [name for name in NAMES if dashboard(name, other) != read(name)]
    assert bool(changed) == (threshold in SHOWN)


def test_one_panel_is_one_block() -> None:
    """Where one threshold changes, only its lines do; the order of everything stays."""
    options = Options(thresholds=Thresholds(preemptions_warning=0.07))
    before, after = ([*dashboards(one)][1].text.splitlines() for one in (Options(), options))
    lines = [*difflib.ndiff(before, after)]
    assert [one.split()[-1] for one in lines if one[0] in "+-"] == ["0.05", "0.07"]


def test_repository_holds_the_default_rendering() -> None:
    """The files in the repository are what would be rendered today."""
    for one in dashboards(Options()):
        assert (ROOT / one.path).read_text(encoding="utf-8") == one.text


def test_page_says_what_was_not_done() -> None:
    """Nobody is led to think that a Grafana has seen the files; their names are all there."""
    text = (ROOT / "dashboards" / "README.md").read_text(encoding="utf-8")
    assert "No Grafana server was run" in text
    assert all(f"`{name}.json`" in text and f"specgauge-{name}" in text for name in NAMES)


# What queries find


def query(name: str, number: int, target: int = 0) -> str:
    """Give one query of one panel, ready for Prometheus."""
    (found,) = [one for one in panels(name) if one["id"] == number]
    return filled(found["targets"][target]["expr"])


def server(instance: str, state: str, load: float, seconds: int, tokens: int) -> dict[str, str]:
    """Make an hour of one server: decode seconds and tokens a minute, at one load."""
    of = f'instance="{instance}:9843",target="t",model_name="m"'
    return {
        f'specgauge_speculation_state{{{of},state="{state}"}}': "1x70",
        f"specgauge_decode_concurrency{{{of}}}": f"{load}x70",
        f'specgauge_decode_seconds_total{{{of},engine="0"}}': f"0+{seconds}x70",
        f'specgauge_generation_tokens_total{{{of},engine="0"}}': f"0+{tokens + 60}x70",
        f'specgauge_first_tokens_total{{{of},engine="0"}}': "0+60x70",
    }


POOLS = (
    server("a", "active", 9, 60, 1200)  # 50 ms a token at load 8
    | server("b", "idle", 17, 60, 600)  # 100 ms at load 16
    | server("c", "active", 40, 60, 600)  # at a load that no standard server has
    | server("d", "absent", 15.9, 60, 600)  # 100 ms at load 8
    | server("e", "absent", 30, 60, 750)  # 80 ms
)

GUARD = {
    f'specgauge_guard_state{{instance="a:9843",target="t",state="{state}"}}': f"{value}x70"
    for state, value in (("active", 0), ("fallback", 1), ("latched", 0))
}
UP = 'specgauge_target_up{instance="a:9843",target="t"'


def expected(samples: Mapping[str, float]) -> list[dict[str, Any]]:
    return [{"labels": labels, "value": value} for labels, value in samples.items()]


@pytest.mark.parametrize(
    ("asked", "series", "samples"),
    [
        (("rollout", 21, 0), POOLS, {'{load="8"}': 0.1, '{load="16"}': 0.08}),
        (("rollout", 21, 1), POOLS, {'{load="8"}': 0.05, '{load="16"}': 0.1, '{load="32"}': 0.1}),
        # 1200 tokens at 100 ms and 600 at 80 ms would have been 168 s; it took 120 s.
        (("rollout", 11, 0), POOLS, {"{}": 1.4}),
        (("rollout", 12, 0), POOLS, {"{}": 0.75}),
        (("rollout", 13, 0), POOLS, {"{}": 2}),
        (("rollout", 13, 1), POOLS, {"{}": 3}),
        (
            ("fleet", 41, 0),
            GUARD,
            {'{instance="a:9843", target="t"}': 3},
        ),
        (
            ("fleet", 21, 5),
            GUARD | POOLS,
            {'{instance="a:9843", model_name="m", target="t"}': 3},
        ),
        (
            ("server", 61, 0),
            {
                f'{UP},namespace="n",pod="p"}}': "1x70",
                'DCGM_FI_DEV_GPU_UTIL{instance="x:9400",gpu="0",namespace="n",pod="p"}': "50x70",
                'DCGM_FI_DEV_GPU_UTIL{instance="x:9400",gpu="1",namespace="n",pod="q"}': "60x70",
            },
            {
                'DCGM_FI_DEV_GPU_UTIL{instance="x:9400",gpu="0",namespace="n",pod="p"}': 50,
            },
        ),
        (
            ("server", 61, 0),
            {
                f'{UP},namespace="n",pod="p"}}': "1x70",
                'DCGM_FI_DEV_GPU_UTIL{gpu="0",exported_namespace="n",exported_pod="p"}': "50x70",
                'DCGM_FI_DEV_GPU_UTIL{gpu="1",exported_namespace="n",exported_pod="q"}': "60x70",
            },
            {
                'DCGM_FI_DEV_GPU_UTIL{exported_namespace="n",exported_pod="p",gpu="0",'
                'namespace="n",pod="p"}': 50,
            },
        ),
        (
            ("server", 61, 0),
            {
                f"{UP}}}": "1x70",
                'DCGM_FI_DEV_GPU_UTIL{instance="a:9400",gpu="0"}': "50x70",
                'DCGM_FI_DEV_GPU_UTIL{instance="b:9400",gpu="0"}': "60x70",
            },
            {'DCGM_FI_DEV_GPU_UTIL{instance="a:9400",gpu="0",host_="a"}': 50},
        ),
        (("server", 61, 0), {f"{UP}}}": "1x70"}, {}),
    ],
    ids=[
        "standard by load",
        "speculative by load",
        "speedup at matched load",
        "tokens compared",
        "standard servers",
        "speculative servers",
        "guard as a number",
        "guard beside a model",
        "GPUs of the pod",
        "GPUs of the pod, renamed by Prometheus",
        "GPUs of the host",
        "no DCGM",
    ],
)
def test_what_queries_find(
    asked: tuple[str, int, int],
    series: Mapping[str, str],
    samples: Mapping[str, float],
    tmp_path: Path,
) -> None:
    """Queries that join or weigh give the numbers that were worked out by hand."""
    case = {
        "expr": f"round({query(*asked)}, 0.0001)" if asked[0] == "rollout" else query(*asked),
        "eval_time": "70m",
        "exp_samples": expected(samples),
    }
    given = [{"series": name, "values": values} for name, values in series.items()]
    tests = [{"interval": "1m", "input_series": given, "promql_expr_test": [case]}]
    path = tmp_path / "test.yaml"
    path.write_text(to_yaml({"evaluation_interval": "1m", "tests": tests}))
    code, said = promtool("test", "rules", path)
    assert code == 0, said
