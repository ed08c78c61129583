"""Reports of the checklist: the document, Markdown, JUnit XML, and what follows from the gates."""

import json
import re
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from tests.checklists import NOW, STATED, compare_document, evidence, live, ready

from specgauge.preflight.checklist.case import Answer, Case, Exercise
from specgauge.preflight.checklist.evidence import COMPARE
from specgauge.preflight.checklist.gates import NAMES
from specgauge.preflight.checklist.junit import write_junit
from specgauge.preflight.checklist.markdown import escape, write_markdown
from specgauge.preflight.checklist.report import Outcome, Report, cite, document, judge
from specgauge.preflight.checklist.result import Reason, Status, Trouble

NASTY = "a|b\n<script>x</script> `c` [d](http://e) @team *f* \x1b[31m \ud800 & ]]> \x00"
REASONS = {"routing": "the \x1bgateway | has <none> \ud800"}


def mixed() -> Case:
    """Give a case with a pass, a fail, something unmeasured, and hostile texts."""
    return ready(
        compare=None,
        stated=replace(STATED, report_scheduled_by=NASTY),
        exercise=Exercise(source=NASTY, at=NOW, done=False, told=NASTY),
        rules=Trouble(source=NASTY, reason=Reason.UNREACHABLE, detail=NASTY, fix=NASTY),
        live=live(model_name="t|arget <&>\x1b"),
    )


def report(case: Case | None = None, **more: Any) -> Report:
    return judge(case or ready(), **{"waived": {}, **more})


def test_outcome_of_everything_in_place() -> None:
    """Where every gate passes, the deployment is ready."""
    found = report()
    assert found.outcome is Outcome.READY
    assert found.count(Status.PASS) == len(NAMES)


@pytest.mark.parametrize(
    ("more", "waived", "expected"),
    [
        pytest.param({"compare": None}, {}, Outcome.NOT_MEASURED, id="not measured"),
        pytest.param({"guard_config": None}, {}, Outcome.NOT_READY, id="fail before not measured"),
        pytest.param({"rules": None}, {"rules": "no Prometheus"}, Outcome.READY, id="waived"),
        pytest.param(
            {"rules": None}, {"report": "later"}, Outcome.NOT_MEASURED, id="another waived"
        ),
    ],
)
def test_outcome(more: dict[str, Any], waived: dict[str, str], expected: Outcome) -> None:
    """A fail decides, then what was not measured; what is waived counts for neither."""
    assert report(ready(**more), waived=waived).outcome is expected


def test_only_some_gates() -> None:
    """Gates that are not asked for are not there."""
    found = report(only=("rules", "baseline"))
    assert [gate.name for gate, _ in found.lines] == ["baseline", "rules"]


def test_a_waived_gate_shows_its_reason() -> None:
    """A waiver is shown and counted apart, even where the gate would pass."""
    found = report(waived={"rules": "no Prometheus here"})
    (result,) = [one for gate, one in found.lines if gate.name == "rules"]
    assert (result.status, result.says) == (Status.WAIVED, "waived: no Prometheus here")
    assert (found.count(Status.WAIVED), found.count(Status.PASS)) == (1, len(NAMES) - 1)


def test_document() -> None:
    """The document has every gate with its evidence, and is JSON whatever stands in it."""
    found = document(report(mixed(), waived=REASONS), created_by="specgauge 1")
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert (found["schema"], found["created"]) == ("specgauge.checklist/v1", "2027-01-15T08:00:00Z")
    assert [one["gate"] for one in found["gates"]] == list(NAMES)
    assert sum(found["counts"].values()) == len(NAMES)
    assert found["counts"]["waived"] == 1
    assert found["outcome"] == "not_ready"
    (acceptance,) = [one for one in found["gates"] if one["gate"] == "acceptance"]
    (proof,) = acceptance["evidence"]
    assert proof["numbers"]["breakeven_acceptance_length"] == 1.4
    assert (proof["age_seconds"], proof["engine_version"]) == (1.0, "0.25.1")
    assert acceptance["fix"] is None
    texts = [one["says"] for one in found["gates"]]
    assert all(text.isprintable() for text in texts)


def test_markdown_survives_hostile_texts() -> None:
    """No cell breaks the table, nothing becomes HTML, a link or a name that is called."""
    text = write_markdown(report(mixed(), waived=REASONS), created_by="specgauge 1")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) == len(NAMES) + 2
    assert all(row.count("|") == 4 for row in rows)
    tags = set(re.findall(r"<[^>]*>", text))
    assert tags == {"<br>"}
    assert "@" not in text
    assert "](" not in text
    assert "://" not in text
    text.encode()


def test_markdown_says_what_it_comes_to() -> None:
    """The first line has the outcome, the counts and what it is about."""
    text = write_markdown(report(), created_by="specgauge 1")
    assert "**Ready to go live** (18 pass, 0 fail, 0 not measured, 0 waived)" in text
    assert "were allowed" not in text
    allowed = write_markdown(report(ready(rules=None)), created_by="s", allowed=True)
    assert "**Gates that were not measured were allowed to pass.**" in allowed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a|b", "a&#124;b"),
        ("a\n\nb", "a b"),
        ("<b>&#124;", "&lt;b&gt;&amp;&#35;124;"),
        ("`x` *y* _z_", "&#96;x&#96; &#42;y&#42; &#95;z&#95;"),
        ("http://x @me www.y", "http&#58;//x &#64;me www&#46;y"),
    ],
)
def test_escape(text: str, expected: str) -> None:
    """Text stays text."""
    assert escape(text) == expected


def parsed(text: str) -> ET.Element:
    return ET.fromstring(text.encode())  # noqa: S314 - our own output


ATTRIBUTES = {"tests", "failures", "errors", "skipped", "time", "name"}


def test_junit_is_what_its_readers_expect() -> None:
    """One suite, one case a gate by name, children and counts as the schema has them."""
    found = report(mixed(), waived=REASONS)
    root = parsed(write_junit(found))
    assert root.tag == "testsuites"
    assert set(root.attrib) == ATTRIBUTES
    (suite,) = root
    assert suite.tag == "testsuite"
    assert set(suite.attrib) == ATTRIBUTES | {"id", "package", "hostname", "timestamp"}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.attrib["timestamp"])
    order = [child.tag for child in suite]
    assert order == ["properties", *["testcase"] * len(NAMES), "system-out", "system-err"]
    cases = suite.findall("testcase")
    assert [case.attrib["name"] for case in cases] == list(NAMES)
    assert {case.attrib["classname"] for case in cases} == {"specgauge.checklist"}
    assert all(float(case.attrib["time"]) == 0.0 for case in cases)
    children = [child for case in cases for child in case]
    assert all(len(case) <= 1 for case in cases)
    for tag, attribute in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        number = sum(child.tag == tag for child in children)
        assert root.attrib[attribute] == suite.attrib[attribute] == str(number)
        assert number > 0
    assert root.attrib["tests"] == str(len(NAMES))
    for child in children:
        assert child.attrib["message"]
        assert ("type" in child.attrib) is (child.tag != "skipped")


@pytest.mark.parametrize(
    ("status", "tag"),
    [("fail", "failure"), ("not_measured", "error"), ("waived", "skipped"), ("pass", None)],
)
def test_junit_element_of_each_status(status: str, tag: str | None) -> None:
    """A fail is a failure, what is not measured an error, a waiver a skip, a pass nothing."""
    found = report(mixed(), waived=REASONS)
    root = parsed(write_junit(found))
    names = [gate.name for gate, result in found.lines if result.status == status]
    assert names
    for name in names:
        (case,) = root.findall(f".//testcase[@name='{name}']")
        assert [child.tag for child in case] == ([] if tag is None else [tag])


def test_junit_lets_pass_what_is_allowed() -> None:
    """With the option, what was not measured is skipped and no error any more."""
    found = report(ready(rules=None, compare=None))
    root = parsed(write_junit(found, allowed=True))
    assert (root.attrib["errors"], root.attrib["skipped"]) == ("0", "5")
    (case,) = root.findall(".//testcase[@name='rules']")
    assert [(child.tag, child.get("type")) for child in case] == [("skipped", None)]


def test_evidence_from_the_future_is_shown_as_such() -> None:
    """A time ahead is shown without an age."""
    late = evidence(COMPARE, compare_document(created="2030-01-01T00:00:00Z"))
    found = report(ready(compare=late))
    assert "from now" in write_markdown(found, created_by="s")
    (line,) = [one for gate, one in found.lines if gate.name == "comparison"]
    assert [cite(one, NOW) for one in line.proofs] == [
        "compare.json, target, vLLM 0.25.1, k=4, 2030-01-01T00:00:00Z"
    ]


def test_what_runs_is_unknown() -> None:
    """Without a sidecar the report says that it does not know what it is about."""
    gone = Trouble(source="s", reason=Reason.UNREACHABLE, detail="gone")
    found = report(ready(live=gone, guard=Answer(source="g")))
    assert document(found, created_by="s")["deployment"]["model_name"] is None
    assert "model not known, release not known" in write_markdown(found, created_by="s")
    assert 'name="model_name" value="unknown"' in write_junit(found)
