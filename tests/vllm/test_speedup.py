"""What is said of speculation beside a real server, held against clients of two servers.

One server does without speculation and stays up throughout; those that draft come beside it one
after the other. A baseline is recorded and load put on either server in turns, so that what else
the machine does hits all three. It may not have more than two servers at a time.
"""

import itertools
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from tests.vllm.client import Sent, prompts
from tests.vllm.engine import Engine
from tests.vllm.episode import DRAFT, NGRAM, Episode, Load, Mode
from tests.vllm.pages import Page, fetch, fetch_until
from tests.vllm.series import THEIRS
from tests.vllm.sidecar import Sidecar, record_baseline, verdict

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]

ROUNDS = 5
BOUT_SECONDS = 12.0
REST_SECONDS = 1.5  # a server's worker goes on waiting busily for a second after its last step
DECISION_SECONDS = 10
CONCURRENCY = 3
LENGTHS = (96, 224, 128, 192, 160)
PROMPTS = 64
UNSTEADY = 1.5
STILL = 0.2  # with the waits for first tokens, in which a baseline has no part
CLEAR = 0.15  # so far from 1 the client knows which way it is, whatever else the machine does
SPEEDUP = "specgauge_speedup_ratio"
VERDICT = "specgauge_verdict"
TRUTH = {NGRAM.name: "pays", DRAFT.name: "costs"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bout:
    """A stretch of load on one server: what the client got, and the server's pages around it."""

    sent: Sent
    before: Page
    after: Page
    seconds: float

    @property
    def server_tpot(self) -> float:
        """Time per token after a request's first, from a histogram of whole requests."""
        return self._moved("vllm:request_decode_time_seconds_sum") / self._tokens

    @property
    def seat_tpot(self) -> float:
        """The same from how long the client's seats were taken, less the waits for first tokens.

        On a busy machine a client may have its first chunks late and then many at once; how long
        requests took as a whole it knows nevertheless.
        """
        waited = self._moved("vllm:time_to_first_token_seconds_sum")
        return (self.sent.seated_seconds - waited) / self._tokens

    @property
    def _tokens(self) -> int:
        return self.sent.generation_tokens - self.sent.requests

    def _moved(self, name: str) -> float:
        return self.after.total(name) - self.before.total(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """A fresh baseline, both servers under the same load, and what was said of the drafting one.

    `live` is the sidecar's page right after the load, `recorded` the verdict on two pages.
    """

    baseline: dict[str, Any]
    plain: Bout
    drafting: Bout
    live: Page
    recorded: dict[str, Any]

    @property
    def clients_speedup(self) -> float:
        """How many times as fast the client had its tokens with drafts."""
        return self.plain.seat_tpot / self.drafting.seat_tpot

    @property
    def live_speedup(self) -> float | None:
        """The sidecar's word for it, if it has one."""
        return self.live.total(SPEEDUP, basis="concurrency") if self.live.has(SPEEDUP) else None

    @property
    def live_verdict(self) -> str | None:
        """The sidecar's verdict."""
        return self.live.state(VERDICT, "verdict")


@pytest.fixture(scope="module")
def plain(vllm_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """Keep a server without speculation up."""
    engine = Engine(python=vllm_python, log=tmp_path_factory.mktemp("plain") / "engine.log")
    try:
        engine.start()
        yield engine
    finally:
        engine.kill()


@pytest.fixture(scope="module")
def record(plain: Engine, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """Return what records the server without speculation, with the client's prompts and lengths."""
    folder = tmp_path_factory.mktemp("baseline")
    asked = [json.dumps({"prompt": prompt}) for prompt in itertools.islice(prompts(), PROMPTS)]
    (folder / "prompts.jsonl").write_text("\n".join(asked))
    output = folder / "baseline.json"

    def once() -> Path:
        record_baseline(
            *("--url", plain.url, "-o", output, "--prompts", folder / "prompts.jsonl"),
            *("--concurrency", "1,2,4", "--window", "5", "--warmup", "0.5"),
            *("--output-tokens", f"{min(LENGTHS)}-{max(LENGTHS)}"),
        )
        return output

    return once


@pytest.fixture(scope="module", params=[NGRAM, DRAFT], ids=lambda mode: mode.name)
def mode(request: pytest.FixtureRequest) -> Mode:
    """Return a way to draft."""
    found: Mode = request.param
    return found


@pytest.fixture(scope="module")
def rounds(
    mode: Mode,
    vllm_python: Path,
    plain: Engine,
    record: Callable[[], Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> list[Round]:
    """Put load on a server that drafts and on the one that does not, in turns."""
    folder = tmp_path_factory.mktemp(mode.name)
    engine = Engine(python=vllm_python, log=folder / "engine.log", speculative=mode.speculative)
    file = folder / "specgauge.yaml"
    configuration = {
        "targets": [{"url": engine.url}],
        "baseline": {"file": str(record())},
        "decision_window": f"{DECISION_SECONDS}s",
    }
    file.write_text(json.dumps(configuration))  # JSON is YAML too
    sidecar = Sidecar(target=engine.url, log=folder / "sidecar.log", config=file)
    loads = Load(url=plain.url), Load(url=engine.url)
    try:
        engine.start()
        sidecar.start()
        for load in loads:
            load.bout(CONCURRENCY, CONCURRENCY)
        return [_round(record(), loads, sidecar, folder, turn) for turn in range(ROUNDS)]
    finally:
        sidecar.stop()
        engine.kill()


def _round(
    baseline: Path, loads: tuple[Load, Load], sidecar: Sidecar, folder: Path, turn: int
) -> Round:
    """Load both servers, the other one first each time, and read the sidecar after its own."""
    bouts: dict[int, Bout] = {}
    for which in (turn % 2, 1 - turn % 2):
        bouts[which] = _bout(loads[which])
        if which == 1:
            live = fetch_until(sidecar.url, lambda page: page.has(SPEEDUP), seconds=2)
    plain, drafting = bouts[0], bouts[1]
    return Round(
        baseline=json.loads(baseline.read_text()),
        plain=plain,
        drafting=drafting,
        live=live,
        recorded=_judged(baseline, drafting.before, drafting.after, drafting.seconds, folder),
    )


def _bout(load: Load) -> Bout:
    time.sleep(REST_SECONDS)
    before, began = fetch(load.url), time.monotonic()
    deadline = began + BOUT_SECONDS
    sent = load.keep_up(CONCURRENCY, lambda _: time.monotonic() < deadline, lengths=LENGTHS)
    expected = before.total(THEIRS["generation_tokens"]) + sent.generation_tokens
    after = fetch_until(
        load.url, lambda page: page.total(THEIRS["generation_tokens"]) >= expected, seconds=10
    )
    return Bout(sent=sent, before=before, after=after, seconds=time.monotonic() - began)


def _judged(
    baseline: Path, before: Page, after: Page, seconds: float, folder: Path
) -> dict[str, Any]:
    files = folder / "before.prom", folder / "after.prom"
    for file, page in zip(files, (before, after), strict=True):
        file.write_text(page.text)
    return verdict("--baseline", baseline, "--window", f"{seconds:.3f}", *files)


def _hold(quotients: Sequence[float], rounds: Sequence[Round]) -> None:
    """Want the median quotient within 10 % of 1."""
    right = median(quotients) == pytest.approx(1, abs=0.1)
    _want(rounds, [f"{quotient:.2f}" for quotient in quotients], right=right)


def _want(rounds: Sequence[Round], seen: object, *, right: bool) -> None:
    """Fail where something is not right, unless the machine itself did not hold still."""
    for name in ("plain", "drafting"):
        tpots = [getattr(one, name).server_tpot for one in rounds]
        if not right and max(tpots) > UNSTEADY * min(tpots):
            span = f"{min(tpots) * 1e3:.2f} to {max(tpots) * 1e3:.2f} ms"
            pytest.skip(f"a busy machine: the {name} server took {span} under the same load")
    assert right, seen


def test_the_live_speedup_is_the_clients(rounds: list[Round]) -> None:
    """The sidecar's speedup is how many times as fast the client had its tokens."""
    said = [
        one.live_speedup / one.clients_speedup for one in rounds if one.live_speedup is not None
    ]
    _want(rounds, said, right=len(said) > ROUNDS // 2)
    _hold(said, rounds)


@pytest.mark.parametrize("which", ["plain", "drafting"])
def test_client_and_server_agree_on_the_time_per_token(rounds: list[Round], which: str) -> None:
    """The client's chunks and the server's histogram tell the same time per output token."""
    bouts: list[Bout] = [getattr(one, which) for one in rounds]
    _hold([bout.sent.tpot_seconds / bout.server_tpot for bout in bouts], rounds)


def test_recorded_twins_agree(rounds: list[Round]) -> None:
    """In the recorded baselines, too, the client's time per output token is the server's."""
    levels = [level for one in rounds for level in one.baseline["levels"]]
    _hold(
        [
            level["client"]["tpot_seconds"]["mean"] / level["server"]["tpot_seconds"]
            for level in levels
        ],
        rounds,
    )


def test_two_pages_say_what_the_sidecar_says(mode: Mode, rounds: list[Round]) -> None:
    """The verdict on two pages is that of the live sidecar, where it has one, and the truth."""
    said = Counter(one.recorded["verdict"] for one in rounds)
    live = Counter(one.live_verdict for one in rounds)
    del live["unknown"]  # a few seconds may be too few
    right = {told.most_common(1)[0][0] for told in (said, live) if told} == {TRUTH[mode.name]}
    _want(rounds, (said, live), right=right)


@pytest.mark.smoke
def test_recorded_pages_are_judged(
    recorded: Callable[[Mode], Episode], plain: Engine, record: Callable[[], Path], tmp_path: Path
) -> None:
    """Two pages are judged as the client would, who sends the same to the plain server."""
    episode = recorded(NGRAM)
    load = Load(url=plain.url)
    load.bout(1, 1)
    baseline = record()
    without = load.bout(1, 6), load.bout(4, 16), load.bout(4, 8, chat=True)
    _want_still(baseline, without[1])
    clients = _seat_seconds(without) / _seat_seconds(episode.measured)
    seconds = episode.two_pages["window_seconds"]
    said = _judged(baseline, episode.before, episode.after, seconds, tmp_path)
    assert said["mismatches"] == [], said
    assert said["speedup_ratio"]["concurrency"] == pytest.approx(clients, rel=0.25), said
    opposite = {"pays"} if clients < 1 - CLEAR else {"costs"} if clients > 1 + CLEAR else set()
    assert said["verdict"] not in opposite, (clients, said)


def _want_still(baseline: Path, again: Sent) -> None:
    """Skip where the same load on the same server took another time than a minute before."""
    levels = json.loads(baseline.read_text())["levels"]
    (before,) = [
        level["server"]["tpot_seconds"]
        for level in levels
        if level["concurrency"] == again.concurrency
    ]
    changed = _seat_seconds([again]) / before
    if changed != pytest.approx(1, abs=STILL):
        pytest.skip(f"a busy machine: the same load took {changed:.2f} times as long")


def _seat_seconds(bouts: Sequence[Sent]) -> float:
    tokens = sum(bout.generation_tokens for bout in bouts)
    return sum(bout.seated_seconds for bout in bouts) / tokens
