"""Templates, quoting, alerts as values, and the second look at everything that was rendered."""

import json
import re
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import promql_parser
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import UndefinedError

from specgauge.config.rules_keys import RulesKeys
from specgauge.engines.vllm import NEWEST_RELEASE
from specgauge.errors import RenderError
from specgauge.render import native
from specgauge.render.alert import (
    NATIVE,
    SIMPLE,
    Alert,
    alerts,
    labels_of,
    levels_known,
    prometheus_rule,
)
from specgauge.render.catalogue import names_in
from specgauge.render.files import RenderedFile, to_yaml
from specgauge.render.options import Objective, Options, Thresholds
from specgauge.render.quoting import go_literal, go_regex, go_string, json_string
from specgauge.render.registry import KINDS, render
from specgauge.render.rules import alert_groups
from specgauge.render.templating import environment, fill, fill_yaml, names_of, selector
from specgauge.render.verify import verify

ANYTHING = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30)
NASTY = st.text(st.sampled_from("\"'{}:\n#\\`<>% $|&-aé\t\x00\x85\u2028"), min_size=1, max_size=12)
NAMES = st.one_of(ANYTHING, NASTY)

# Templates


def filled(text: str, **more: object) -> str:
    """Fill a text in the environment of all templates."""
    return environment().from_string(text).render({**names_of(Options()), **more})


def test_jinja_leaves_go_templates_alone() -> None:
    """What Prometheus fills in stays as it is; what we fill in is filled in."""
    text = """
groups:
  - name: << group | json >>
    rules:
      - alert: SpecAcceptanceLow
        expr: spec_acceptance_rate{model_name=<< model | promql >>} < << threshold >>
        annotations:
          description: 'acceptance {{ $value | printf "%.2f" }} on {{ $labels.model_name }}'
"""
    made = filled(text, group="spec", model="acme/chat-70b", threshold=0.5)
    (group,) = yaml.safe_load(made)["groups"]
    (rule,) = group["rules"]
    assert group["name"] == "spec"
    assert rule["expr"] == 'spec_acceptance_rate{model_name="acme/chat-70b"} < 0.5'
    told = 'acceptance {{ $value | printf "%.2f" }} on {{ $labels.model_name }}'
    assert rule["annotations"]["description"] == told
    with pytest.raises(UndefinedError, match="'threshold' is undefined"):
        filled(text, group="spec", model="m")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("<< o.nothing >>", "has no attribute 'nothing'"),
        ("<< t.nothing >>", "has no attribute 'nothing'"),
        ("<< nothing | number >>", "unsupported format"),
        ("<% if nothing %>x<% endif %>", "'nothing' is undefined"),
    ],
)
def test_missing_names_are_errors(text: str, problem: str) -> None:
    """A name that is not there is never an empty text."""
    with pytest.raises((UndefinedError, TypeError), match=problem):
        filled(text)


@pytest.mark.parametrize("name", ["native/recording.yaml", "stack/prometheus.yaml", "none.yaml"])
def test_a_template_that_cannot_be_filled_is_named(name: str) -> None:
    """What a template asks for and does not get is one fault of that template."""
    with pytest.raises(RenderError, match=rf"^{re.escape(name)}: "):
        fill(name, Options())


def test_a_template_that_makes_no_yaml_is_an_error() -> None:
    """The runbook is no YAML; who asks for it as such is told which template it was."""
    with pytest.raises(RenderError, match=r"^runbook\.md: "):
        fill_yaml("runbook.md", Options())


# Quoting


@given(NAMES)
def test_go_strings_are_promql_strings(text: str) -> None:
    """Whatever a name holds, the matcher that is written means that name, on one line."""
    written = go_string(text)
    assert "\n" not in written
    assert _unquoted(written) == text


@given(NAMES)
def test_literals_come_back(text: str) -> None:
    """A text that Prometheus takes for a template yields the text again."""
    written = go_literal(text)
    if written != text:
        assert _unquoted(written.removeprefix("{{ ").removesuffix(" }}")) == text
    else:
        assert "{{" not in text


def _unquoted(written: str) -> str:
    """Read a Go string the way strconv does."""
    assert (written[0], written[-1]) == ('"', '"')
    simple = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\"}
    body = written[1:-1]
    assert not re.search(r'(?<!\\)(?:\\\\)*"', body)
    return re.sub(
        r"\\(?:U([0-9a-f]{8})|(.))",
        lambda found: chr(int(found[1], 16)) if found[1] else simple[found[2]],
        body,
    )


@given(NAMES)
def test_regular_expressions_match_their_text_alone(text: str) -> None:
    """Escaped for RE2, a name matches itself and not what it would match unescaped."""
    assert re.fullmatch(go_regex(text), text)
    assert not re.fullmatch(go_regex(text), text + "x")


@given(NAMES)
def test_json_strings_come_back(text: str) -> None:
    """The JSON of a text is its JSON, and its YAML as well where JSON may hold it."""
    assert json.loads(json_string(text)) == text


@given(st.dictionaries(ANYTHING, NAMES), NAMES)
def test_yaml_comes_back(mapping: dict[str, str], text: str) -> None:
    """What is dumped as text is text again, also what looks like a number or a boolean."""
    document = {"a": mapping, "b": [text, "0.4", "on", "no", "1", "null", "7e2", "1:30"]}
    assert yaml.safe_load(to_yaml(document)) == document


@given(st.lists(NAMES, min_size=1, max_size=4, unique=True), NAMES, NAMES)
def test_rendered_names_come_back(models: list[str], team: str, value: str) -> None:
    """Models, teams and labels of any kind make rules whose every selector means those models."""
    options = Options(
        models=tuple(models), team=team, labels={"site": value}, teams={models[0]: value}
    )
    text = to_yaml({"groups": alert_groups(options, "simple")})
    (group,) = yaml.safe_load(text)["groups"]
    for rule in group["rules"]:
        promql_parser.parse(rule["expr"])
        assert selector(options) in rule["expr"]
        assert rule["labels"]["site"] == go_literal(value)
    matcher = selector(options)
    if len(models) == 1:
        assert _unquoted(matcher.removeprefix("{model_name=").removesuffix("}")) == models[0]
    else:
        pattern = _unquoted(matcher.removeprefix("{model_name=~").removesuffix("}"))
        assert all(re.fullmatch(pattern, model) for model in models)


@pytest.mark.parametrize(
    ("options", "matchers", "written"),
    [
        (Options(), (), ""),
        (Options(), ('a="b"',), '{a="b"}'),
        (Options(selector='cluster="a"'), ('a="b"',), '{cluster="a",a="b"}'),
        (Options(selector='cluster="a", '), ('a="b"',), '{cluster="a",a="b"}'),
        (Options(models=("m",)), (), '{model_name="m"}'),
        (Options(models=("a.b", "c|d")), (), r'{model_name=~"a\\.b|c\\|d"}'),
    ],
    ids=["nothing", "one", "of all series", "with a comma", "a model", "models"],
)
def test_selectors(options: Options, matchers: tuple[str, ...], written: str) -> None:
    """A selector has what the options say and what the rule asks for, or no braces at all."""
    assert selector(options, *matchers) == written


@pytest.mark.parametrize("model", ["$__all", "${x}", "a$b", "$1", "\\$x", "$__rate_interval"])
def test_dollars_in_names_are_no_variables(model: str) -> None:
    """What was rendered is read again as it is, and Grafana's variables only where they are."""
    verify(KINDS["rules"](Options(models=(model, "other"))), parse=promql_parser.parse)


# Alerts


def test_every_option_has_its_key_and_default() -> None:
    """Configuration and options agree on names and defaults of thresholds and the objective."""
    keys = RulesKeys()
    assert Thresholds(**dict(keys.thresholds)) == Thresholds()
    assert Objective(**dict(keys.objective)) == Objective()
    assert {one.name for one in fields(Thresholds)} == set(type(keys.thresholds).model_fields)


@pytest.mark.parametrize("name", [one.name for one in fields(Thresholds)])
def test_every_threshold_counts(name: str) -> None:
    """Each threshold that can be set changes an alert."""
    value = getattr(Thresholds(), name)
    other = replace(Thresholds(), **{name: value + 1 if isinstance(value, int) else value / 2})
    assert every_alert(Options()) != every_alert(Options(thresholds=other))


def every_alert(options: Options) -> list[Alert]:
    """List all alerts, also those of the files beside the whole set."""
    return [
        *alerts(options),
        *alerts(options, SIMPLE),
        *alerts(options, NATIVE, range=None, has=lambda _: True),
    ]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"warning": 120.0, "critical": 600.0}),
        ({"waits": {"SpecgaugeTargetDown": 60.0}}, {"warning": 60.0, "critical": 60.0}),
        ({"waits": {"SpecgaugeTargetDown/critical": 9.0}}, {"warning": 120.0, "critical": 9.0}),
        ({"severities": {"SpecgaugeTargetDown/warning": "none"}}, {"critical": 600.0}),
        ({"severities": {"SpecgaugeTargetDown": "none"}}, {}),
    ],
    ids=["default", "both levels", "one level", "without one level", "without"],
)
def test_waits_and_severities(options: dict[str, Any], expected: dict[str, float]) -> None:
    """An alert can wait for another time, at all levels or one, and can be left out."""
    found = [one for one in alerts(Options(**options)) if one.name == "SpecgaugeTargetDown"]
    assert {one.level: one.wait for one in found} == expected


def test_levels_can_have_other_names() -> None:
    """Where severities are called page and ticket, so they are."""
    options = Options(levels={"warning": "ticket", "critical": "page"})
    assert {labels_of(one, options)["severity"] for one in alerts(options)} == {"ticket", "page"}


def test_group_without_alerts_is_left_out() -> None:
    """Where all its alerts are switched off there is no empty group."""
    options = Options(severities={"SpecgaugeTpotBudgetBurn": "none"})
    names = [group["name"] for group in alert_groups(options)]
    assert "specgauge-alerts-slo" not in names
    assert "specgauge-alerts-guard" in names


def test_teams_are_chosen_by_model() -> None:
    """A model's own team is chosen by Prometheus; an alert without a model has the default."""
    options = Options(team="all", teams={"a": "x", "b": "y"})
    by_name = {one.name: prometheus_rule(one, options)["labels"] for one in alerts(options)}
    assert by_name["SpecgaugeTargetDown"]["team"] == "all"
    assert by_name["SpecgaugeFleetCosts"]["team"] == (
        '{{ if eq $labels.model_name "a" }}{{ "x" }}'
        '{{ else if eq $labels.model_name "b" }}{{ "y" }}'
        '{{ else }}{{ "all" }}{{ end }}'
    )


def test_known_levels() -> None:
    """Alerts and their levels can be named in the configuration, switched off or not."""
    known = levels_known(Options(severities={"SpecgaugeTargetDown": "none"}))
    assert {
        "SpecgaugeTargetDown",
        "SpecgaugeTargetDown/critical",
        "SpecgaugeAcceptanceLow/warning",
        "SpecgaugeNativeTpotHigh",
    } <= known


def test_native_ranges_cover_every_release() -> None:
    """The ranges of each generation follow one another, to the newest release."""
    v0, v1 = native.ranges("V0"), native.ranges("V1")
    assert [(one.first, one.last) for one in v0] == [
        ("0.5.5", "0.6.3.post1"),
        ("0.6.4", "0.9.2"),
        ("0.10.0", "0.10.2"),
    ]
    assert [(one.first, one.last) for one in v1] == [
        ("0.7.1", "0.8.2"),
        ("0.8.3", "0.8.4"),
        ("0.8.5", "0.10.1.1"),
        ("0.10.2", NEWEST_RELEASE),
    ]
    assert [one.slug for one in v1][-1] == "v1-0.10.2-newest"


def test_scrape_interval_sets_the_bridge() -> None:
    """Where Prometheus scrapes rarely, the shortest windows grow with it."""
    (one, *_) = [a for a in alerts(Options(scrape_interval=60)) if a.name == "SpecgaugeTargetDown"]
    assert "[4m]" in one.expr


def test_kept_labels_are_kept() -> None:
    """Further labels tell servers apart wherever their instance does."""
    options = Options(keep_labels=("namespace", "pod"))
    (file,) = [one for one in render(("rules",), options) if "specgauge.rules" in one.path]
    assert "by (instance, namespace, pod, target, model_name)" in file.text
    assert "by (instance, target" not in file.text
    assert "max by (instance, namespace, pod) (up" in file.text


# The second look

GOOD: dict[str, Any] = {
    "alert": "A",
    "expr": "specgauge_target_up == 0",
    "labels": {"severity": "warning"},
    "annotations": {
        "summary": "s",
        "description": "d",
        "runbook_url": "r",
        "dashboard_url": "b",
    },
}


def rule_file(*rules: dict[str, Any], path: str = "a.yaml") -> RenderedFile:
    return RenderedFile(path=path, text=to_yaml({"groups": [{"name": "g", "rules": [*rules]}]}))


def faults(*files: RenderedFile, parse: Any = None) -> list[str]:
    """List what is wrong."""
    try:
        verify(files, parse=parse)
    except RenderError as error:
        return [*error.problems]
    return []


def bare(name: str) -> dict[str, Any]:
    kept = {key: text for key, text in GOOD["annotations"].items() if key != name}
    return GOOD | {"annotations": kept}


@pytest.mark.parametrize(
    ("file", "problem"),
    [
        (RenderedFile(path="a.yaml", text=" \n"), "a.yaml: empty"),
        (RenderedFile(path="a.md", text=""), "a.md: empty"),
        (RenderedFile(path="a.yaml", text="---\n---\n"), "a.yaml: an empty document"),
        (RenderedFile(path="a.yaml", text="a: [\n"), "a.yaml: while parsing"),
        (RenderedFile(path="a.json", text="{"), "a.json: Expecting property"),
        (RenderedFile(path="a.json", text='{"a": NaN}'), "a.json: NaN is not JSON"),
        (rule_file(GOOD, GOOD), "a.yaml: alert A warning is there 2 times"),
        (
            rule_file({"record": "a:b:c", "expr": "1"}, {"record": "a:b:c", "expr": "2"}),
            "a.yaml: record a:b:c is there 2 times",
        ),
        (
            RenderedFile(path="a.yaml", text="groups: [{name: g, rules: []}, {name: g}]"),
            "a.yaml: group g is there 2 times",
        ),
        (rule_file(bare("summary")), "a.yaml: alert A has no summary"),
        (rule_file(bare("runbook_url")), "a.yaml: alert A has no runbook_url"),
        (rule_file(GOOD | {"labels": {}}), "a.yaml: alert A has no severity"),
        (
            rule_file(GOOD | {"expr": "specgauge_target_upp == 0"}),
            "a.yaml: specgauge_target_upp is no series of ours or vLLM's",
        ),
        (
            rule_file(GOOD | {"expr": "a:b:c > vllm:nothing_total"}),
            "a.yaml: a:b:c is no series of ours or vLLM's",
        ),
        (
            RenderedFile(
                path="a.json",
                text=json.dumps({"panels": [{"targets": [{"expr": "rate(x[$y"}]}]}),
            ),
            "a.json: ",
        ),
    ],
)
def test_second_look(file: RenderedFile, problem: str) -> None:
    """Each fault is found and named with its file."""
    assert any(one.startswith(problem) for one in faults(file, parse=promql_parser.parse))


@pytest.mark.parametrize(
    "file",
    [
        rule_file(GOOD),
        rule_file(GOOD, GOOD | {"labels": {"severity": "critical"}}),
        RenderedFile(path="a.md", text="# words"),
        RenderedFile(path="a.json", text='{"expr": "rate(vllm:prompt_tokens_total[$__interval])"}'),
        RenderedFile(
            path="a.json",
            text=json.dumps({"expr": 'up{instance="$instance", job=~"${job:regex}"}'}),
        ),
        RenderedFile(path="a.yaml", text="a: 1\n---\nspec: {groups: [1], b: [{expr: [1]}]}\n"),
    ],
    ids=["alert", "levels", "text", "window variable", "label variables", "other YAML"],
)
def test_nothing_to_mind(file: RenderedFile) -> None:
    """What is right is let through."""
    assert faults(file, parse=promql_parser.parse) == []


def test_records_are_known_in_every_file() -> None:
    """What one file records another may ask for; a path made twice is a fault."""
    asks = RenderedFile(path="b.json", text='{"expr": "a:b:c"}')
    records = rule_file({"record": "a:b:c", "expr": "1"})
    assert faults(asks, records) == []
    assert faults(asks) != []
    assert faults(records, records) == ["a.yaml: made twice"]


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("sum by (target) (rate(specgauge_drafts_total[5m]))", {"specgauge_drafts_total"}),
        ("up{job=\"specgauge_x\", a='b:c'}", set()),
        ("max_over_time(a:b:c[1h:5m] offset 1d)", {"a:b:c"}),
        ("vllm:x_total / on (a) group_left () y", {"vllm:x_total"}),
        ("rate(up[$__rate_interval])", set()),
    ],
)
def test_names_in_expressions(expression: str, names: set[str]) -> None:
    """Names of ours, vLLM's and recording rules are found, and none in strings or ranges."""
    assert names_in(expression) == names


@pytest.fixture(scope="module")
def everything() -> Sequence[RenderedFile]:
    """Render all kinds with the defaults once, each expression read by a second parser."""
    return render((), Options(), parse=promql_parser.parse)


def test_kinds_are_made_in_order_and_alone(everything: Sequence[RenderedFile]) -> None:
    """With no kind named all are made; with one named, only its files are handed out."""
    every = [one.path for one in everything]
    unrouted = [kind for kind in KINDS if kind not in {"nginx", "haproxy"}]
    assert [one.path for one in render(reversed(unrouted), Options())] == every
    native_only = [one.path for one in render(("native-rules",), Options())]
    assert native_only == [path for path in every if "native-" in path]


def test_everything_is_promql(everything: Sequence[RenderedFile]) -> None:
    """Every expression of the whole default rendering is PromQL to a second parser, too."""
    assert {"rules/specgauge.rules.yaml"} < {one.path for one in everything}
