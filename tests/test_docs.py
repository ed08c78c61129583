"""The documentation and the program name the same things: nothing is missing, nothing made up."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import get_args

import click
import pytest
import yaml

import specgauge
from specgauge.baseline.match import MUST_MATCH
from specgauge.baseline.schema import BaselineFile
from specgauge.cli.main import cli
from specgauge.config.guard_fields import Backend
from specgauge.config.keys import ANY, INDEX, KEYS
from specgauge.derive.speedup import Basis
from specgauge.derive.verdict_document import judgement
from specgauge.guard.audit import audit_line
from specgauge.guard.flags.presets import PRESETS
from specgauge.guard.flags.protocol import WriteResult
from specgauge.model import names
from specgauge.model.derived import FIELDS, Check, Method, Reason, Speculation, Warn
from specgauge.model.guard import Decision, GuardReason, Outcome, Phase, Signal, Switch
from specgauge.model.guard_view import FlagStatus, GuardView
from specgauge.model.outcome import ExitCode, ScrapeResult
from specgauge.model.quantity import Dialect
from specgauge.model.traffic import LineResult, LogState
from specgauge.model.verdict import Judgement, Verdict, VerdictReason
from specgauge.preflight.advise import document as advise_document
from specgauge.preflight.advise import finding as advise_finding
from specgauge.preflight.advise.observed import Limits
from specgauge.preflight.checklist.case import Answer, Case
from specgauge.preflight.checklist.lock import PINS
from specgauge.preflight.checklist.report import document as checklist_document
from specgauge.preflight.checklist.report import judge as judge_checklist
from specgauge.preflight.checklist.result import Reason as GateReasonCode
from specgauge.preflight.checklist.result import Trouble
from specgauge.preflight.compare.decide import Decision as ContestDecision
from specgauge.preflight.compare.decide import Why
from specgauge.preflight.compare.fields import MUST_AGREE, SPECULATION
from specgauge.preflight.compare.gates import CellVerdict, GateName, GateReason, GateState
from specgauge.preflight.doctor.case import Case as DoctorCase
from specgauge.preflight.doctor.case import Probe
from specgauge.preflight.doctor.codes import Code, Symptom
from specgauge.preflight.doctor.diagnose import diagnose
from specgauge.preflight.doctor.document import document as doctor_document
from specgauge.preflight.doctor.document import finding as doctor_finding
from specgauge.preflight.doctor.setup import Setup
from specgauge.preflight.draft import finding as draft_finding
from specgauge.preflight.flags import finding as flags_finding
from specgauge.preflight.flags.surface import load_surface
from specgauge.preflight.memory import cards as memory_cards
from specgauge.preflight.memory import document as memory_document
from specgauge.preflight.memory import finding as memory_finding
from specgauge.preflight.sweep.predict import Assumption
from specgauge.preflight.sweep.schedule import Caution, Refusal
from specgauge.preflight.sweep.schema import Kept
from specgauge.render.options import Options
from specgauge.render.registry import KINDS
from specgauge.render.verify import rules_of
from specgauge.serve.classes.line import CONTEXT_NAMES
from specgauge.serve.fleet_answer import FleetReason
from specgauge.serve.guard_document import guard_document

ROOT = Path(__file__).parents[1]
PACKAGE = Path(specgauge.__file__).parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TEXT = "\n".join(page.read_text() for page in PAGES)
SERVE = "\n".join(
    path.read_text()
    for folder in ("serve", "serve/classes")
    for path in (PACKAGE / folder).glob("*.py")
)
CODE = re.findall(r"`([^`\n]+)`", TEXT)
QUOTED = {part for code in CODE for part in (code, *code.split(), *re.split(r"\W+", code))}
BLOCKS = "\n".join(re.findall(r"^```.*?\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL))

# Flags of other programs that the documentation may name.
FOREIGN = {
    "--disable-log-stats",  # vllm serve
    "--show-hidden-metrics-for-version",  # vllm serve
    "--port",  # vllm serve
    "--speculative-config",  # vllm serve
    "--network",  # docker run
    "--storage",  # prometheus
    "--per-request-spec-decode-metrics",  # vllm serve
    "--save-detailed",  # vllm bench serve
    "--no-block",  # systemctl
    "--dynamic-config-json",  # vLLM production-stack's router
    "--dynamic-config-yaml",  # same
}  # fmt: skip

FOREIGN |= {*load_surface().flags, *load_surface().neighbours}  # vllm serve, by release
FOREIGN |= {"--config", "--port", "--tensor-parallel-size"}  # vllm serve


def commands(
    command: click.Command = cli, path: str = "specgauge"
) -> Iterator[tuple[str, click.Command]]:
    """Walk the command line; gives each command with how it is called."""
    yield path, command
    if isinstance(command, click.Group):
        for name, one in command.commands.items():
            yield from commands(one, f"{path} {name}")


COMMANDS = dict(commands())
FLAGS = {
    flag
    for command in COMMANDS.values()
    for option in command.params
    if isinstance(option, click.Option)
    for flag in option.opts
    if flag.startswith("--")
}
SERIES = {one.name for one in names.ALL}
DERIVED_SERIES = {
    f"{one.name}_{suffix}"
    for one in names.ALL
    if one.kind == "histogram"
    for suffix in ("bucket", "sum", "count")
}
EVENTS = set(re.findall(r'log\.(?:info|warning|fault)\(\s*"(\w+)"', SERVE))
EVENTS |= set(re.findall(r'"(target_\w+)"', SERVE)) & {"target_down", "target_silent"}
EVENTS |= {
    event
    for path in (PACKAGE / "serve").glob("guard*.py")
    for event in re.findall(r'"((?:guard|flag)_\w+)"', path.read_text())
}
ROUTES = {
    re.sub(r":[^}]*}", "}", route)  # what a part of a path may hold
    for route in re.findall(r'add_(?:get|post)\("(/[^"]*)"', SERVE)
}
KEY_PATHS = {
    ".".join(key.path).replace(f".{INDEX}", "[]")
    for key in KEYS.values()
    if key.path[-1] not in {ANY, INDEX} and not key.secret
}
BASELINE_WARNINGS = set(
    re.findall(
        r'"(baseline_\w+)"',
        "".join((PACKAGE / name).read_text() for name in ("baseline/match.py", "derive/judge.py")),
    )
)
BASELINE_KEYS = {
    name
    for kind in BaselineFile.model_json_schema()["$defs"].values()
    for name in kind["properties"]
} | set(BaselineFile.model_json_schema()["properties"])
DECISION = Decision(
    time=0.0,
    before=Phase.ACTIVE,
    state=Phase.FALLBACK,
    flag=False,
    outcome=Outcome.DEGRADED,
    reason="r",
    changed=True,
    signal=Signal.SPEEDUP,
    wanted=Phase.PROBING,
    rehearsed=("r",),
    companions=("c",),
    next_probe=1.0,
    warnings=("w",),
)
RECORD_FIELDS = {
    *audit_line(DECISION, unix=0.0, target="t", flag_key="k", config_hash="h"),
    *(name for name in FlagStatus.__dataclass_fields__),
    *guard_document(
        GuardView(
            target="t",
            dry_run=False,
            phase=Phase.ACTIVE,
            since=0.0,
            flag=FlagStatus(key="k", backend="embedded", place="memory"),
        )
    ),
}
JUDGED_FIELDS = {
    *names.JUDGED,
    *judgement(
        Judgement(
            model_name="m",
            verdict=Verdict.EVEN,
            reason=VerdictReason.WITHIN_MARGIN,
            ratios={"concurrency": 1.0},
            lows={"concurrency": 0.9},
            highs={"concurrency": 1.1},
        )
    ),
}


def keys_of(node: object) -> set[str]:
    """Name every key of a document, however deep."""
    found: set[str] = set()
    for one in node if isinstance(node, list) else ():
        found |= keys_of(one)
    for name, value in node.items() if isinstance(node, dict) else ():
        found |= {name} | keys_of(value)
    return found


UNASKED = Trouble(source="s", reason=GateReasonCode.UNREACHABLE, detail="d")
CHECKLIST_KEYS = keys_of(
    checklist_document(
        judge_checklist(Case(now=1e9, live=UNASKED, guard=Answer(source="s")), waived={}),
        created_by="specgauge",
    )
)

RENDERED = [
    rule
    for kind in ("rules", "native-rules")
    for file in KINDS[kind](Options())
    if file.path.endswith(".yaml")
    for rule in rules_of(yaml.load(file.text, Loader=yaml.CSafeLoader))
]
ALERTS = {rule["alert"] for rule in RENDERED if "alert" in rule}
RECORDED = {
    metric
    for rule in RENDERED
    if (metric := rule.get("record", "::").split(":")[1]).startswith("specgauge_")
}

SWEEP_KEYS = {
    name for kind in Kept.model_json_schema()["$defs"].values() for name in kind["properties"]
} | {name for name in Kept.model_fields if name != "schema_name"}

COMPARE_KEYS = set(
    re.findall(
        r'^\s+"(\w+)":', (PACKAGE / "preflight/compare/document.py").read_text(), re.MULTILINE
    )
)

DOCTOR = DoctorCase(setup=Setup(source="log", speculative={"synthetic_acceptance_length": 2}))
DOCTOR_KEYS = {
    *doctor_document(DOCTOR, [], ""),
    *doctor_finding(diagnose(DOCTOR)[0]),
    *Probe.__dataclass_fields__,
}

MEMORY_KEYS, ADVISE_KEYS = (
    set(re.findall(r'"(\w+)":', Path(module.__file__ or "").read_text()))
    for module in (memory_document, advise_document)
)
ADVISE_KEYS -= set(advise_document.FIGURES)
ADVISE_KEYS |= set(advise_document.FIGURES.values())

FLAGS_KEYS = set(
    re.findall(r'"(\w+)":', (PACKAGE / "preflight/flags/document.py").read_text(), re.MULTILINE)
)

CLASSES_KEYS = set(
    re.findall(r'"(\w+)":', (PACKAGE / "serve/classes/document.py").read_text(), re.MULTILINE)
)

WORDS: dict[str, Iterable[str]] = {
    "results of log lines": LineResult,
    "states of the log": LogState,
    "buckets of context": CONTEXT_NAMES,
    "memory codes": [*memory_finding.Code, *memory_finding.Severity],
    "memory keys": MEMORY_KEYS,
    "cards": memory_cards.MEMORY,
    "advice": [*advise_finding.Advice, *advise_finding.FirstMethod, *advise_finding.Weight],
    "advise codes": advise_finding.Code,
    "advise keys": ADVISE_KEYS,
    "advise limits": Limits.__dataclass_fields__,
    "decisions of a comparison": ContestDecision,
    "reasons of such a decision": Why,
    "verdicts of its cells": CellVerdict,
    "its gates": GateName,
    "states of its gates": GateState,
    "reasons of its gates": GateReason,
    "fields that pools share": (*MUST_AGREE, SPECULATION),
    "keys of a comparison": COMPARE_KEYS,
    "series": SERIES,
    "fields": FIELDS,
    "scrape results": ScrapeResult,
    "reasons": Reason,
    "warnings": Warn,
    "checks": Check,
    "states": Speculation,
    "methods": Method,
    "dialects": Dialect,
    "configuration keys": KEY_PATHS,
    "log events": EVENTS,
    "routes": ROUTES,
    "verdicts": Verdict,
    "verdict reasons": VerdictReason,
    "verdict fields": JUDGED_FIELDS,
    "bases": Basis,
    "baseline warnings": BASELINE_WARNINGS,
    "facts that must match": MUST_MATCH,
    "baseline keys": BASELINE_KEYS,
    "guard states": Phase,
    "guard outcomes": Outcome,
    "guard signals": Signal,
    "signal switches": Switch,
    "guard reasons": GuardReason,
    "guard record": RECORD_FIELDS,
    "write results": WriteResult,
    "fleet reasons": FleetReason,
    "flag backends": get_args(get_args(Backend)[0]),
    "webhook presets": PRESETS,
    "kinds of rendered files": KINDS,
    "alerts": ALERTS,
    "recorded metrics": RECORDED,
    "draft codes": draft_finding.Code,
    "flags codes": [*flags_finding.Code, *flags_finding.Severity],
    "flags keys": FLAGS_KEYS,
    "draft checks": draft_finding.Area,
    "draft verdicts": [*draft_finding.Fit, *draft_finding.Engine, *draft_finding.Severity],
    "doctor codes": Code,
    "symptoms": Symptom,
    "doctor keys": DOCTOR_KEYS,
    "sweep keys": SWEEP_KEYS,
    "sweep refusals": Refusal,
    "sweep cautions": Caution,
    "sweep assumptions": Assumption,
}


def missing(words: Iterable[str]) -> list[str]:
    """Name the words that stand nowhere in the documentation as code."""
    return sorted({str(word) for word in words} - QUOTED)


@pytest.mark.parametrize("kind", WORDS)
def test_nothing_is_missing(kind: str) -> None:
    """Whatever a user can meet is explained somewhere, marked as code."""
    assert missing(WORDS[kind]) == []


def test_no_command_is_missing() -> None:
    """Every command stands in the documentation as it is called."""
    ends = [path for path, one in COMMANDS.items() if not isinstance(one, click.Group)]
    assert [path for path in ends if path not in TEXT] == []


def test_no_flag_is_missing() -> None:
    """Every flag of every command stands in the documentation."""
    assert [flag for flag in sorted(FLAGS) if not re.search(rf"{flag}(?![\w-])", TEXT)] == []


def test_no_key_of_the_checklist_is_missing() -> None:
    """Every key of the checklist's document and of its lock file stands in an example."""
    page = (ROOT / "docs" / "checklist.md").read_text()
    pinned = {part for path in PINS for part in path.split(".")}
    assert [key for key in sorted(CHECKLIST_KEYS | pinned) if f'"{key}":' not in page] == []


def test_no_key_of_the_classes_is_missing() -> None:
    """Every key of the document of classes stands in its example."""
    page = (ROOT / "docs" / "classes.md").read_text()
    assert [key for key in sorted(CLASSES_KEYS) if f'"{key}":' not in page] == []


def test_no_exit_code_is_missing() -> None:
    """One sentence lists every exit code."""
    listed = re.search(r"^Exit codes of every command: .*$", TEXT, re.MULTILINE)
    assert listed
    assert re.findall(r"\d", listed[0]) == [str(int(code)) for code in ExitCode]


def test_no_series_is_made_up() -> None:
    """No series stands in the documentation that is not emitted."""
    told = set(re.findall(r"\bspecgauge_[a-z0-9_]*[a-z0-9](?![a-z0-9_]*[*{…<.]\w?)", TEXT))
    assert sorted(told - SERIES - DERIVED_SERIES - RECORDED) == []


def test_no_alert_is_made_up() -> None:
    """No alert stands in the documentation that is not rendered."""
    assert sorted(set(re.findall(r"\bSpecgauge[A-Z]\w+", TEXT)) - ALERTS) == []


def test_no_flag_is_made_up() -> None:
    """No flag stands in the documentation that neither we nor a program named here has."""
    told = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", TEXT))
    assert sorted(told - FLAGS - FOREIGN - {"--help", "--version"}) == []


def test_no_command_is_made_up() -> None:
    """No command stands in a line of code that there is not."""
    tops = {path.split()[1] for path in COMMANDS if " " in path}
    told = set(re.findall(r"^(?:\$ )?specgauge ([a-z][\w-]*)", BLOCKS, re.MULTILINE))
    told |= set(re.findall(r"`specgauge ([a-z][\w-]*)", TEXT))
    assert sorted(told - tops) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """A link to a file of ours leads to one, and its anchor to a heading."""
    for target in re.findall(r"\]\(([^)#\s]*)(?:#[^)]*)?\)", page.read_text()):
        if target and "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
    for target, anchor in re.findall(r"\]\(([^)#\s]*)#([^)]+)\)", page.read_text()):
        if "://" not in target:
            linked = page.parent / target if target else page
            heads = re.findall(r"^#+ (.+)$", linked.read_text(), re.MULTILINE)
            anchors = {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}
            assert anchor in anchors, f"{page.name} links to {target}#{anchor}"
