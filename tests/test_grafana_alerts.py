"""The alerts as Grafana's own: held against a model of the provisioning file.

No schema of that file is published. The model below is ours, made from Grafana's documentation
and how it reads the file; it refuses every key that it does not know.
"""

import json
import re
from collections import Counter
from collections.abc import Callable
from typing import Annotated, Any, Literal

import pytest
import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from tests.ruling import ROOT

from specgauge.render.alert import alerts, annotations_of, labels_of
from specgauge.render.files import RenderedFile
from specgauge.render.grafana_alerts import grafana_alerts, grafana_rule
from specgauge.render.options import Options

Duration = Annotated[
    str, StringConstraints(pattern=r"^(\d+d)?(\d+h)?(\d+m)?(\d+s)?$", min_length=2)
]
Word = Annotated[str, StringConstraints(pattern=r"^[^$]+$")]
Label = Annotated[str, StringConstraints(pattern=r"^([^$]|\$\$)+$")]
"""A dollar begins a variable of Grafana's environment, two of them are one."""
Note = Annotated[str, StringConstraints(pattern=r"^([^$]|\$[^{$])+$")]
"""In annotations only one with a brace does."""
LabelName = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z_]\w*$")]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class TimeRange(Strict):
    from_: Annotated[int, Field(alias="from", gt=0)]
    to: Annotated[int, Field(ge=0)]


class Prometheus(Strict):
    refId: Literal["A"]  # noqa: N815 - Grafana's own name
    expr: Annotated[str, StringConstraints(min_length=1)]
    instant: Literal[True]
    range: Literal[False]


class ServerSide(Strict):
    type: Literal["__expr__"]
    uid: Literal["__expr__"]


class Maths(Strict):
    refId: Literal["B"]  # noqa: N815 - Grafana's own name
    type: Literal["math"]
    expression: Annotated[str, StringConstraints(pattern=r"\$A\b")]
    datasource: ServerSide


class Query(Strict):
    refId: Literal["A", "B"]  # noqa: N815 - Grafana's own name
    relativeTimeRange: TimeRange  # noqa: N815 - Grafana's own name
    datasourceUid: Label  # noqa: N815 - Grafana's own name
    model: Prometheus | Maths


class Rule(Strict):
    uid: Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9_-]{1,40}$")]
    title: Annotated[Word, StringConstraints(max_length=190)]
    condition: Literal["B"]
    data: Annotated[list[Query], Field(min_length=2, max_length=2)]
    noDataState: Literal["NoData", "Alerting", "OK", "KeepLast"]  # noqa: N815 - Grafana's own name
    execErrState: Literal["Error", "Alerting", "OK", "KeepLast"]  # noqa: N815 - Grafana's own name
    for_: Annotated[Duration, Field(alias="for")]
    keepFiringFor: Duration | None = None  # noqa: N815 - Grafana's own name
    labels: dict[LabelName, Label]
    annotations: dict[LabelName, Note]
    isPaused: bool  # noqa: N815 - Grafana's own name


class Group(Strict):
    orgId: Annotated[int, Field(gt=0)]  # noqa: N815 - Grafana's own name
    name: Word
    folder: Word
    interval: Duration
    rules: Annotated[list[Rule], Field(min_length=1)]


class Provisioned(Strict):
    apiVersion: Literal[1]  # noqa: N815 - Grafana's own name
    groups: Annotated[list[Group], Field(min_length=1)]


def read(options: Options | None = None) -> Any:
    """Render the file and read it as YAML."""
    (file,) = grafana_alerts(options or Options())
    return yaml.load(file.text, Loader=yaml.CSafeLoader)


def rules(options: Options | None = None) -> list[dict[str, Any]]:
    """Give every rule."""
    return [rule for group in read(options)["groups"] for rule in group["rules"]]


@pytest.mark.parametrize(
    "options",
    [
        Options(),
        Options(
            datasource="$mine",
            labels={"site": "a$b {{ x }}"},
            teams={'m"$x': "$team"},
            keep_labels=("namespace",),
        ),
        Options(severities={"SpecgaugeTpotBudgetBurn": "none"}, waits={"SpecgaugeTargetDown": 0}),
    ],
    ids=["default", "names that need care", "other alerts"],
)
def test_file_fits_the_model(options: Options) -> None:
    """Every key is known and every value of its kind; uids and titles are one rule's own."""
    found = Provisioned.model_validate(read(options))
    every = [rule for group in found.groups for rule in group.rules]
    for names in ([rule.uid for rule in every], [rule.title for rule in every]):
        assert max(Counter(names).values()) == 1
    assert len({group.name for group in found.groups}) == len(found.groups)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda rule: rule.update(panel=1),
        lambda rule: rule.pop("condition"),
        lambda rule: rule.update({"for": "5 minutes"}),
        lambda rule: rule.update(noDataState="Ok"),
        lambda rule: rule["labels"].update(severity=1),
        lambda rule: rule["labels"].update(team="$team"),
        lambda rule: rule["annotations"].update(summary="${HOME}"),
        lambda rule: rule["data"][0]["model"].pop("expr"),
        lambda rule: rule["data"][0]["model"].update(exprs="up"),
        lambda rule: rule["data"].pop(),
    ],
    ids=[
        "unknown key",
        "no condition",
        "duration",
        "state",
        "number",
        "variable in a label",
        "variable in an annotation",
        "no expression",
        "unknown key of a query",
        "no second query",
    ],
)
def test_model_refuses(spoil: Callable[[Any], object]) -> None:
    """The model is of use: what Grafana would misread does not pass."""
    found = json.loads(json.dumps(read()))
    spoil(found["groups"][0]["rules"][0])
    with pytest.raises(ValidationError):
        Provisioned.model_validate(found)


def test_same_alerts_as_in_prometheus() -> None:
    """They are the same alerts in the same order, with the same expressions, times and texts."""
    options = Options()
    made = rules()
    assert len(made) == len(alerts(options))
    for alert, rule in zip(alerts(options), made, strict=True):
        assert rule["title"] == " ".join([alert.name, alert.level, *alert.labels.values()])
        assert rule["data"][0]["model"]["expr"] == alert.expr
        labels = {"alert": alert.name, **labels_of(alert, options)}
        assert {name: text.replace("$$", "$") for name, text in rule["labels"].items()} == labels
        notes = annotations_of(alert, options)
        assert rule["annotations"].keys() == notes.keys()
        told = rule["annotations"]["description"].replace("$values.A.Value", "$value")
        assert told == notes["description"]


def test_values_are_read_grafanas_way() -> None:
    """Grafana's `$value` is a text about all queries; numbers come from the query by its name."""
    for rule in rules():
        text = " ".join(rule["annotations"].values())
        assert not re.search(r"\$value\b", text)
        assert set(re.findall(r"\$(\w+)", text)) <= {"labels", "values"}
    assert any("{{ $values.A.Value | humanizePercentage }}" in str(rule) for rule in rules())


def test_held_on_after_the_cause_is_gone() -> None:
    """What keeps firing in Prometheus does so here."""
    held = {rule["title"]: rule["keepFiringFor"] for rule in rules() if "keepFiringFor" in rule}
    kept = {f"{one.name} {one.level}" for one in alerts(Options()) if one.keep_firing}
    assert held.keys() == kept
    assert held["SpecgaugeFallbackIneffective warning"] == "30m"


@pytest.mark.parametrize(("given", "written"), [(30.0, "30s"), (15.0, "20s"), (1.0, "10s")])
def test_interval_is_a_multiple_of_grafanas_tick(given: float, written: str) -> None:
    """Grafana refuses groups that are not evaluated every ten seconds or a multiple of it."""
    found = read(Options(evaluation_interval=given))
    assert {group["interval"] for group in found["groups"]} == {written}


def test_dollars_are_written_twice_where_the_environment_is_read() -> None:
    """A team chosen by the model reaches Grafana as the template that it is."""
    options = Options(teams={"m": "t"})
    (alert,) = [one for one in alerts(options) if one.name == "SpecgaugeFleetCosts"]
    team = grafana_rule(alert, options)["labels"]["team"]
    assert team.startswith('{{ if eq $$labels.model_name "m" }}{{ "t" }}')


def test_group_without_alerts_is_left_out() -> None:
    """Where all its alerts are switched off there is no empty group, which Grafana refuses."""
    names = [group["name"] for group in read()["groups"]]
    options = Options(severities={"SpecgaugeTpotBudgetBurn": "none"})
    left = [group["name"] for group in read(options)["groups"]]
    assert left == [name for name in names if name != "specgauge-alerts-slo"]


def test_repository_holds_the_default_rendering() -> None:
    """The file in the repository is what would be rendered today, and always the same."""
    file: RenderedFile
    (file,) = grafana_alerts(Options())
    assert (ROOT / file.path).read_text(encoding="utf-8") == file.text
