"""`specgauge verdict`: its sources, its document to the letter, its exit codes, its sentences."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.baselines import document as baseline_document
from tests.baselines import level
from tests.recorded import load_page
from tests.servers import answer, serving
from tests.written import Engine, write_page

from specgauge.baseline.schema import dump
from specgauge.cli.main import main
from specgauge.cli.verdict import exit_code
from specgauge.cli.verdict_text import describe
from specgauge.model.verdict import Judgement, Verdict, VerdictReason
from specgauge.serve.demo.recording import RecordingName, load, recorded_baseline

Capture = pytest.CaptureFixture[str]
LETTER = (
    *("model_name", "verdict", "reason", "speedup_ratio", "speedup_ratio_low"),
    *("speedup_ratio_high", "confidence", "e2e_speedup_ratio", "acceptance_ratio"),
    *("acceptance_length", "step_cost_ratio", "breakeven_acceptance_length", "extrapolated"),
    *("mismatches", "absent"),
)


class Server:
    """Pages of a server that drafts 4 tokens a step and keeps 2, with requests of 200 tokens."""

    def __init__(self, model: str = "target") -> None:
        self.model = model
        self.requests = self.steps = 0
        self.spent = 0.0

    def serve(self, requests: int, tpot: float) -> None:
        """Serve some requests at a time per token."""
        self.requests += requests
        self.steps += 66 * requests
        self.spent += requests * 198 * tpot

    def page(self, **more: Any) -> bytes:
        """Write what its page shows now."""
        return write_page(
            Engine(
                model=self.model,
                tokens=199 * self.requests,
                prompts=100 * self.requests,
                firsts=self.requests,
                first_seconds=0.05 * self.requests,
                steps=self.steps,
                step_seconds=self.spent,
                finished=self.requests,
                drafts=self.steps,
                drafted=4 * self.steps,
                accepted=2 * self.steps,
                positions=[round(share * self.steps) for share in (0.8, 0.6, 0.4, 0.2)],
                **more,
            )
        )


class Desk:
    """A folder with a baseline and pages, and the command run on them."""

    def __init__(self, folder: Path, capsys: Capture) -> None:
        self.folder, self.capsys = folder, capsys
        self.file = folder / "baseline.json"
        self.baseline()

    def baseline(self, *levels: Any, **more: Any) -> None:
        """Write a new baseline: 10 ms a token at every load, unless told otherwise."""
        flat = [level(one, 0.010, server={"ttft_seconds": 0.05}) for one in (1.0, 64.0)]
        facts = {"created": datetime.now(UTC).isoformat(), **more}
        self.file.write_text(json.dumps(baseline_document(*(levels or flat), **facts)))

    def put(self, name: str, page: bytes) -> str:
        """Write a page."""
        (self.folder / name).write_bytes(page)
        return str(self.folder / name)

    def timeline(self, *pages: bytes | None, spacing: float = 1.0) -> str:
        """Write pages as a timeline; None is a failed scrape."""
        lines: list[dict[str, Any]] = []
        for place, page in enumerate(pages):
            if page is None:
                lines.append({"t": place * spacing, "page": None, "error": "timeout"})
            else:
                self.put(f"{place}.prom", page)
                lines.append({"t": place * spacing, "page": f"{place}.prom"})
        path = self.folder / "run.jsonl"
        path.write_text("".join(json.dumps(one) + "\n" for one in lines))
        return str(path)

    def run(self, *arguments: object) -> tuple[int, str, str]:
        """Run the command; gives exit code, stdout and stderr."""
        words = ["verdict", "--baseline", str(self.file), *map(str, arguments)]
        code = main(words)
        captured = self.capsys.readouterr()
        return code, captured.out, captured.err

    def document(self, *arguments: object) -> tuple[int, Any]:
        """Run it for its document."""
        code, out, err = self.run("--json", *arguments)
        assert err == ""
        found = json.loads(out, parse_constant=pytest.fail)
        assert list(found) == ["schema", "models"]
        assert found["schema"] == "specgauge.verdict/v1"
        return code, found["models"]

    def only(self, *arguments: object) -> tuple[int, Any]:
        """Run it for the one model there is."""
        code, (found,) = self.document(*arguments)
        return code, found


@pytest.fixture
def desk(tmp_path: Path, capsys: Capture) -> Desk:
    """Give a folder with a baseline of 10 ms a token."""
    return Desk(tmp_path, capsys)


def steady(tpot: float, count: int = 6, wobble: float = 0.0) -> list[bytes]:
    """Make pages of a server that serves five requests between each two."""
    server, pages = Server(), []
    for place in range(count):
        pages.append(server.page())
        server.serve(5, tpot + (wobble if place % 2 else -wobble))
    return pages


def pair(desk: Desk, tpot: float) -> tuple[object, ...]:
    before, after = (desk.put(f"{n}.prom", page) for n, page in enumerate(steady(tpot, 2)))
    return ("--window", 10, before, after)


@pytest.mark.parametrize(
    ("tpot", "verdict", "reason", "code"),
    [
        pytest.param(0.005, "pays", "speedup_above_one", 0, id="twice as fast"),
        pytest.param(0.010, "even", "within_margin", 0, id="the same"),
        pytest.param(0.020, "costs", "speedup_below_one", 1, id="half as fast"),
    ],
)
@pytest.mark.parametrize("source", ["pair", "timeline"])
def test_verdicts(
    desk: Desk, source: str, tpot: float, verdict: str, reason: str, code: int
) -> None:
    """Two pages and a timeline give the same answer, and the exit code says it."""
    chosen = pair(desk, tpot) if source == "pair" else ("--timeline", desk.timeline(*steady(tpot)))
    exit_status, found = desk.only(*chosen)
    assert (exit_status, found["verdict"], found["reason"]) == (code, verdict, reason)
    assert found["speedup_ratio"]["concurrency"] == pytest.approx(0.010 / tpot)
    assert ("speedup_ratio_low" in found) is (source == "timeline")
    if source == "pair":
        assert found["absent"]["speedup_ratio_low"] == "single_window"
        assert found["absent"]["speedup_ratio_high"] == "single_window"


def test_document_to_the_letter(desk: Desk) -> None:
    """Every key of the contract, in its order, its nesting and its type."""
    code, found = desk.only("--timeline", desk.timeline(*steady(0.005, wobble=0.0002)))
    assert code == 0
    assert [key for key in found if key in LETTER] == list(LETTER)
    assert set(found) - set(LETTER) == {
        *("decode_concurrency", "suggested_num_speculative_tokens", "warnings"),
    }
    for key in ("speedup_ratio", "speedup_ratio_low", "speedup_ratio_high"):
        assert set(found[key]) == {"concurrency", "throughput"}
    low, point, high = (
        found[key]["concurrency"]
        for key in ("speedup_ratio_low", "speedup_ratio", "speedup_ratio_high")
    )
    assert low < point < high
    assert (found["model_name"], found["confidence"]) == ("target", 0.95)
    assert (found["extrapolated"], found["mismatches"], found["absent"]) == (False, [], {})
    assert (found["acceptance_ratio"], found["acceptance_length"]) == (0.5, 3.0)
    assert found["step_cost_ratio"] == pytest.approx(3.0 / point)
    assert found["breakeven_acceptance_length"] == pytest.approx(3.0 / point)
    spent = 198 * 0.010 / point
    assert found["e2e_speedup_ratio"] == pytest.approx((0.05 + 1.98) / (0.05 + spent), rel=1e-3)


def test_interval_by_hand(desk: Desk) -> None:
    """The interval is that of a ratio estimator, widened by the baseline's own 1 %."""
    _, found = desk.only("--timeline", desk.timeline(*steady(0.005, 3, wobble=0.0005)))
    spent = [990 * tpot for tpot in (0.0045, 0.0055)]
    value = 2 * 9.9 / sum(spent)
    squares = 2 * sum((9.9 - value * one) ** 2 for one in spent)
    half = ((12.7062 * squares**0.5 / sum(spent)) ** 2 + (0.01 * value) ** 2) ** 0.5
    assert found["speedup_ratio"]["concurrency"] == pytest.approx(value)
    assert found["speedup_ratio_high"]["concurrency"] == pytest.approx(value + half, rel=1e-4)


UNKNOWN: dict[str, dict[str, Any]] = {
    "too_few_tokens": {"pages": steady(0.005, 1) * 2},
    "baseline_mismatch": {"model": {"name": "another"}},
    "outside_baseline_range": {"levels": [level(1.0, 0.01)], "pages": steady(0.005)},
    "workload_mismatch": {
        "levels": [level(8.0, 0.01, output_tokens_per_request=100.0)],
        "pages": steady(0.005, 22),
    },
    "interval_too_wide": {"pages": steady(0.008, 3, wobble=0.002)},
}


@pytest.mark.parametrize("reason", UNKNOWN)
def test_no_verdict(desk: Desk, reason: str) -> None:
    """Where no verdict is possible the code is 4, and document and paragraph say why."""
    case: dict[str, Any] = dict(UNKNOWN[reason])
    pages, levels = case.pop("pages", steady(0.005)), case.pop("levels", [])
    desk.baseline(*levels, **case)
    line = desk.timeline(*pages)
    code, found = desk.only("--timeline", line)
    assert (code, found["verdict"], found["reason"]) == (4, "unknown", reason)
    if reason in {"too_few_tokens", "baseline_mismatch", "outside_baseline_range"}:
        assert "speedup_ratio" not in found
        assert found["absent"]["speedup_ratio"] in {reason, "no_tokens"}
    assert found["mismatches"] == (["model.name"] if "model" in case else [])
    code, out, err = desk.run("--timeline", line)
    assert (code, err) == (4, "")
    assert out.startswith(f"target: no verdict ({reason}). ")


def test_gaps_and_resets_are_no_evidence(desk: Desk) -> None:
    """An interval with a restart in it, or over a long silence, enters no verdict."""
    server, pages = Server(), list[bytes | None]()
    for place in range(8):
        pages.append(server.page(created=1.0))
        server.serve(5, 0.005 if place != 7 else 0.5)
    pages += [None, None, server.page(created=1.0)]  # slow, over three times the usual spacing
    for _ in range(5):
        server.serve(5, 0.005)
        pages.append(server.page(created=1.0))
    server.serve(5, 0.5)
    pages.append(server.page(created=2.0))  # slow, and an engine that began anew
    _, found = desk.only("--timeline", desk.timeline(*pages))
    assert found["speedup_ratio"]["concurrency"] == pytest.approx(2.0)
    assert found["speedup_ratio_high"]["concurrency"] == pytest.approx(2.02)


def test_several_models(desk: Desk) -> None:
    """Each model has its own verdict; a loss anywhere is told before what is not known."""
    good, bad = Server(), Server("another")
    before = good.page() + bad.page()
    good.serve(5, 0.020)
    bad.serve(5, 0.005)
    names = (desk.put("a", before), desk.put("b", good.page() + bad.page()))
    code, models = desk.document("--window", 10, *names)
    assert code == 1
    assert [(one["model_name"], one["verdict"], one["reason"]) for one in models] == [
        ("another", "unknown", "baseline_mismatch"),
        ("target", "costs", "speedup_below_one"),
    ]


def test_server_that_has_served_nothing(desk: Desk) -> None:
    """A page without a model has no verdict."""
    page = b'vllm:cache_config_info{engine="0"} 1\n'
    names = (desk.put("a", page), desk.put("b", page))
    assert desk.document("--window", 10, *names) == (4, [])


def test_margin_and_method(desk: Desk) -> None:
    """The margin and the method the server was started with can be told."""
    chosen = pair(desk, 0.009)
    assert desk.only(*chosen)[1]["verdict"] == "pays"
    code, found = desk.only("--margin", 0.2, "--method", "ngram", *chosen)
    assert (code, found["verdict"]) == (0, "even")
    assert "padded_drafts_possible" in found["warnings"] or found["warnings"] == []


def test_facts_of_the_page_are_compared(desk: Desk) -> None:
    """How many engines the page shows is held against the baseline's."""
    desk.baseline(parallelism={"data": 2})
    code, found = desk.only(*pair(desk, 0.005))
    assert (code, found["mismatches"]) == (4, ["parallelism.data"])


def test_an_old_baseline_is_doubted(desk: Desk) -> None:
    """A baseline of over 30 days before the call is named, and widens the interval."""
    pages = desk.timeline(*steady(0.005))
    _, new = desk.only("--timeline", pages)
    desk.baseline(created="2020-01-02T03:04:05Z")
    _, old = desk.only("--timeline", pages)
    assert (new["warnings"], old["warnings"]) == ([], ["baseline_stale"])
    assert old["speedup_ratio_low"]["concurrency"] < new["speedup_ratio_low"]["concurrency"]


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param([], id="nothing"),
        pytest.param(["a", "b"], id="no window"),
        pytest.param(["--window", "10", "a"], id="one page"),
        pytest.param(["--window", "0", "a", "b"], id="no time"),
        pytest.param(["--window", "-1", "a", "b"], id="negative time"),
        pytest.param(["--window", "nan", "a", "b"], id="not a time"),
        pytest.param(["--timeline", "t", "a", "b"], id="both"),
        pytest.param(["--timeline", "t", "--window", "10"], id="timeline with window"),
        pytest.param(["--margin", "0.6", "--timeline", "t"], id="margin"),
        pytest.param(["--window", "soon", "a", "b"], id="no number"),
    ],
)
def test_usage(desk: Desk, arguments: list[str]) -> None:
    """What cannot be meant ends with 2 and a line on stderr alone."""
    code, out, err = desk.run(*arguments)
    assert (code, out) == (2, "")
    assert err


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "-inf", "1e10", "0.0"])
def test_a_window_that_is_none(desk: Desk, value: str) -> None:
    """It is told which option is wrong and why, not which options there are."""
    code, out, err = desk.run("--window", value, "a", "b")
    assert (code, out) == (2, "")
    assert "Invalid value for '--window': " in err
    assert ("finite" if "n" in value else "0<x<=1000000000") in err


def test_baseline_is_needed(capsys: Capture) -> None:
    """Without a baseline there is nothing to compare with."""
    assert main(["verdict", "--window", "10", "a", "b"]) == 2
    assert "--baseline" in capsys.readouterr().err


def test_timeline_of_one_page(desk: Desk) -> None:
    """An interval needs two pages that were had: of one there is no verdict."""
    line = desk.timeline(None, steady(0.005, 1)[0], None)
    code, out, err = desk.run("--timeline", line)
    told = f"specgauge: {line}: only one page; a verdict needs at least two\n"
    assert (code, out, err) == (4, "", told)


@pytest.mark.parametrize(
    ("pages", "why"),
    [
        pytest.param([], "there is no line in it", id="empty"),
        pytest.param([None], "none of its 1 lines has a page", id="failed"),
        pytest.param([None] * 3, "none of its 3 lines has a page", id="all failed"),
    ],
)
def test_timeline_without_a_page(desk: Desk, pages: list[bytes | None], why: str) -> None:
    """A timeline with nothing to read is a source that cannot be read, and is named."""
    line = desk.timeline(*pages)
    code, out, err = desk.run("--timeline", line)
    assert (code, out, err) == (3, "", f"specgauge: no_engine_metrics: {line}: {why}\n")


def test_timeline_with_a_page_that_is_not_there(desk: Desk) -> None:
    """A missing page was not had; that is not said to be a bad one."""
    line = desk.timeline(*steady(0.005, 3))
    (desk.folder / "1.prom").unlink()
    code, _, err = desk.run("--timeline", line)
    assert (code, err) == (
        3,
        f"specgauge: unreachable: {line}:2: 1.prom: No such file or directory\n",
    )


BEGAN_ANEW = (
    "The counters began anew between the pages: the engine restarted, or the pages are in the "
    "wrong order."
)
SAME = "The pages are the same: nothing moved between them, or one was taken twice."


def odd_pages(how: str) -> list[bytes]:
    """Give two pages that tell nothing, and not for want of traffic."""
    first, second, third = steady(0.005, 3)
    server = Server()
    server.serve(500, 0.005)
    return {
        "wrong order": [third, second],
        "restart": [third, first],
        "restart, counters higher": [
            second + created(1.0),
            server.page() + created(2.0),
        ],
        "same page": [third, third],
        "same page of zeros": [first, first],
    }[how]


def created(at: float) -> bytes:
    """Say when the engine's counters began."""
    return b'vllm:prompt_tokens_created{engine="0",model_name="target"} %f\n' % at


@pytest.mark.parametrize("source", ["pair", "timeline"])
@pytest.mark.parametrize(
    ("how", "warning", "said"),
    [
        pytest.param("wrong order", "engine_restarted", BEGAN_ANEW, id="wrong order"),
        pytest.param("restart", "engine_restarted", BEGAN_ANEW, id="restart"),
        pytest.param("restart, counters higher", "engine_restarted", BEGAN_ANEW, id="created"),
        pytest.param("same page", "identical_pages", SAME, id="same page"),
        pytest.param("same page of zeros", "identical_pages", SAME, id="zeros"),
    ],
)
def test_pages_that_are_at_fault(
    desk: Desk, source: str, how: str, warning: str, said: str
) -> None:
    """To watch for longer would not help: document and paragraph say what is wrong instead."""
    pages = odd_pages(how)
    chosen: tuple[object, ...] = ("--timeline", desk.timeline(*pages))
    if source == "pair":
        chosen = ("--window", 10, *(desk.put(f"{n}.prom", page) for n, page in enumerate(pages)))
    code, found = desk.only(*chosen)
    assert (code, found["reason"]) == (4, "too_few_tokens")
    assert warning in found["warnings"]
    code, out, _ = desk.run(*chosen)
    assert code == 4
    assert said in out
    assert "watch for longer" not in out


def test_restart_amid_a_run_is_told_beside_the_verdict(desk: Desk) -> None:
    """The rest of the run is evidence; a model that did not restart is not said to have."""
    pages = [*steady(0.005, 12), *steady(0.005, 12)]
    code, found = desk.only("--timeline", desk.timeline(*pages))
    assert (code, found["verdict"], found["warnings"]) == (0, "pays", ["engine_restarted"])
    assert BEGAN_ANEW in desk.run("--timeline", desk.timeline(*pages))[1]
    other = Server("other")
    beside = []
    for page in pages:
        beside.append(page + other.page())
        other.serve(5, 0.005)
    _, models = desk.document("--timeline", desk.timeline(*beside))
    assert {one["model_name"]: one["warnings"] for one in models} == {
        "other": [],
        "target": ["engine_restarted"],
    }


def test_decode_concurrency_is_that_of_the_window(desk: Desk) -> None:
    """Idle time is part of it, as in `inspect` of the same pages; the load while busy is not."""
    server, pages = Server(), []
    for place in range(9):
        pages.append(server.page())
        if place % 3 == 0:
            server.serve(5, 0.005)
    _, found = desk.only("--timeline", desk.timeline(*pages))
    assert found["decode_concurrency"] == pytest.approx(3 * 5 * 198 * 0.005 / 8)
    ends = [desk.put(name, page) for name, page in (("a", pages[0]), ("b", pages[-1]))]
    assert main(["inspect", "--json", "--window", "8", *ends]) == 0
    (seen,) = json.loads(desk.capsys.readouterr().out)["models"]
    assert found["decode_concurrency"] == pytest.approx(seen["decode_concurrency"])
    _, alone = desk.only("--window", 8, *ends)
    assert alone["decode_concurrency"] == pytest.approx(seen["decode_concurrency"])


def test_milliseconds_for_seconds(desk: Desk) -> None:
    """A baseline a thousand times too slow is doubted, and no break-even is made of it."""
    desk.baseline(level(1.0, 10.0), level(64.0, 10.0))
    line = desk.timeline(*steady(0.005))
    code, found = desk.only("--timeline", line)
    assert (code, found["warnings"][0]) == (0, "baseline_implausible")
    assert found["absent"]["breakeven_acceptance_length"] == "breakeven_below_one"
    assert (
        "tokens of more than 2 seconds; are these milliseconds?" in desk.run("--timeline", line)[1]
    )


def test_names_do_not_reach_the_terminal_raw(desk: Desk) -> None:
    """A terminal obeys control characters, so none of a page gets there."""
    name = "a\x1b[31m\x9b\u202e\x7fb"
    server = Server(name)
    before = server.page()
    server.serve(5, 0.005)
    ends = [desk.put(n, page) for n, page in (("a", before), ("b", server.page()))]
    desk.baseline(model={"name": name})
    code, out, _ = desk.run("--window", 10, *ends)
    assert (code, out.isprintable()) == (0, False)  # for the line's end
    assert out[:-1].isprintable()
    assert out.startswith(r"a\x1b[31m\x9b\u202e\x7fb: speculation pays")
    assert desk.only("--window", 10, *ends)[1]["model_name"] == name


def test_sources_that_cannot_be_read(desk: Desk) -> None:
    """Missing and refused pages, timelines and baselines end with 3, each named."""
    good = desk.put("good", steady(0.005, 1)[0])
    for name, page, problem in (
        ("html", b"<html></html>\n", "not_metrics"),
        ("cut", b"vllm:num_requests_running 1\nvllm:num", "truncated"),
        ("empty", b"", "no_engine_metrics"),
    ):
        path = desk.put(name, page)
        code, out, err = desk.run("--window", 10, good, path)
        assert (code, out) == (3, "")
        assert err.startswith(f"specgauge: {problem}: {path}: ")
        line = desk.timeline(page)
        code, _, err = desk.run("--timeline", line)
        assert code == 3
        assert f"{line}:1: " in err
    code, _, err = desk.run("--window", 10, good, desk.folder / "none")
    missing = f"{desk.folder / 'none'}: No such file or directory"
    assert (code, err) == (3, f"specgauge: unreachable: {missing}\n")
    desk.file.write_text('{"schema": "specgauge.baseline/v1"}')
    code, _, err = desk.run("--window", 10, good, good)
    assert code == 3
    assert all(line.startswith(f"specgauge: {desk.file}: ") for line in err.splitlines())
    assert len(err.splitlines()) > 1


SAID = [
    pytest.param(
        0.005,
        "target: speculation pays (speedup_above_one). Each token came 2.00 times as fast as "
        "without it at the same concurrency (1.98 to 2.02), 2.00 times under the same arrivals. "
        "Acceptance length is 3.00; it breaks even at 1.50. At this acceptance and step cost 3 "
        "draft tokens would yield most. Keep it on at this load.\n",
        id="pays",
    ),
    pytest.param(
        0.021,
        "target: speculation costs (speedup_below_one). Each token came 0.48 times as fast as "
        "without it at the same concurrency (0.47 to 0.48), 0.48 times under the same arrivals. "
        "A step costs so much that no acceptance length could pay for it. At this acceptance "
        "and step cost no number of draft tokens would pay. Switch it off at this load, or try "
        "fewer draft tokens.\n",
        id="costs",
    ),
]


@pytest.mark.parametrize(("tpot", "text"), SAID)
def test_paragraph(desk: Desk, tpot: float, text: str) -> None:
    """A person reads the numbers, why, and what to try."""
    assert desk.run("--timeline", desk.timeline(*steady(tpot)))[1] == text


def test_paragraph_of_a_single_window(desk: Desk) -> None:
    """Without an interval there is only the point."""
    text = desk.run(*pair(desk, 0.005))[1]
    assert "2.00 times as fast as without it at the same concurrency, 2.00 times under" in text


@pytest.mark.parametrize("reason", VerdictReason)
def test_every_reason_has_its_words(reason: VerdictReason) -> None:
    """No reason is left without a sentence; differences and warnings are told last."""
    one = Judgement(
        model_name="target",
        verdict=Verdict.UNKNOWN,
        reason=reason,
        mismatches=("hardware.gpu",),
        warnings=("baseline_stale", "baseline_partial"),
    )
    text = describe(one)
    assert text.startswith(f"target: no verdict ({reason}). ")
    assert text.endswith(
        " The baseline differs in hardware.gpu. Mind: baseline_stale, baseline_partial."
    )


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [
        ([], 4),
        ([Verdict.PAYS, Verdict.EVEN], 0),
        ([Verdict.PAYS, Verdict.UNKNOWN], 4),
        ([Verdict.UNKNOWN, Verdict.COSTS], 1),
    ],
)
def test_exit_codes(verdicts: list[Verdict], code: int) -> None:
    """A loss goes before what is not known, that before gain and even."""
    reason = VerdictReason.WITHIN_MARGIN
    judged = [Judgement(model_name="m", verdict=one, reason=reason) for one in verdicts]
    assert exit_code(judged) == code


def test_packaged_recording(desk: Desk) -> None:
    """The recorded eagle ramp pays against the recorded baseline."""
    desk.file.write_text(dump(recorded_baseline()))
    pages = load(RecordingName.SPECULATIVE).pages[20:40]
    code, found = desk.only("--timeline", desk.timeline(*(one.text.encode() for one in pages)))
    assert (code, found["verdict"]) == (0, "pays")
    assert found["speedup_ratio"]["throughput"] > found["speedup_ratio"]["concurrency"] > 1.8


def test_cell_of_the_h200(desk: Desk) -> None:
    """The draft model costs at one request at a time although half of its drafts are accepted."""
    desk.baseline(level(0.98, 0.00464, server={"ttft_seconds": 0.02}))
    names = [
        desk.put(moment, load_page(f"h200/draft/c1-{moment}.prom"))
        for moment in ("before", "after")
    ]
    code, found = desk.only("--window", 19.663704, *names)
    assert (code, found["verdict"]) == (1, "costs")
    assert found["acceptance_ratio"] == pytest.approx(0.554, abs=1e-3)
    assert found["absent"]["breakeven_acceptance_length"] == "cannot_pay"


async def test_url_is_no_page(desk: Desk) -> None:
    """Verdicts are of recorded pages; a URL is taken for a file that is not there."""
    async with serving(answer(steady(0.005, 1)[0])) as server:
        code, _, err = desk.run("--window", 10, server.url, server.url)
        assert (code, server.requests) == (3, [])
        assert server.url.removeprefix("http://") in err
