"""V0's sums of running totals: what is recovered is true, and what cannot be is absent."""

import random
from dataclasses import dataclass, field, replace
from fractions import Fraction

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.recorded import Watched, load_page, measure_life, only, totals
from tests.written import Labels, sample

from specgauge.derive.v0 import lifetime
from specgauge.model.derived import Method, Reason, Speculation, Warn
from specgauge.model.quantity import Quantity

COLLECTION_SECONDS = 5.0


@dataclass(slots=True, kw_only=True)
class Sampler:
    """The totals of V0's rejection sampler, which never fall while the process lives."""

    drafted: int = 0
    accepted: int = 0
    emitted: int = 0
    prefix: int = 0
    drafts: int = 0


@dataclass(slots=True, kw_only=True)
class Server:
    """A V0 server: its sampler, and the counters to which it adds the totals ever again."""

    k: int = 4
    chance: float = 0.7
    rng: random.Random
    labels: Labels = field(default_factory=lambda: {"model_name": "m"})
    sampler: Sampler = field(default_factory=Sampler)
    collected: Sampler = field(default_factory=Sampler)
    sums: Sampler = field(default_factory=Sampler)
    steps: int = 0
    seconds: float = 0.0
    due: float = COLLECTION_SECONDS
    collections: list[Sampler] = field(default_factory=list)

    def step(self, *, drafts: bool = True) -> None:
        """Take one step of one sequence, a quarter of a second long."""
        self.seconds += 0.25
        self.steps += 1
        if not drafts:
            return
        kept = [self.rng.random() < self.chance for _ in range(self.k)]
        prefix = (*kept, False).index(False)
        totals = self.sampler
        totals.drafts += 1
        totals.drafted += self.k
        totals.accepted += sum(kept)
        totals.prefix += prefix
        totals.emitted += prefix + 1
        if self.seconds >= self.due:
            self.collect()

    def collect(self) -> None:
        """Add the totals, not their growth, to the counters."""
        self.due = self.seconds + COLLECTION_SECONDS
        self.collected = replace(self.sampler)
        self.collections.append(self.collected)
        self.sums.drafted += self.sampler.drafted
        self.sums.accepted += self.sampler.accepted
        self.sums.emitted += self.sampler.emitted

    def restart(self) -> None:
        """Begin anew as a process would."""
        self.sampler, self.collected, self.sums = Sampler(), Sampler(), Sampler()
        self.steps = 0
        self.due = self.seconds + COLLECTION_SECONDS

    def page(self) -> bytes:
        """Write the page as it is now: no series of speculation before the first collection."""
        values: dict[str, float] = {
            "vllm:generation_tokens_total": self.steps,
            "vllm:time_per_output_token_seconds_count": self.steps,
            "vllm:time_per_output_token_seconds_sum": self.steps / 4,
            "vllm:request_generation_tokens_sum": self.steps // 10 * 20,
            "vllm:request_generation_tokens_count": self.steps // 10,
        }
        if self.collected.drafted:
            most = self.collected.drafted / self.k * (self.k + 1)
            values |= {
                "vllm:spec_decode_draft_acceptance_rate": (
                    self.collected.accepted / self.collected.drafted
                ),
                "vllm:spec_decode_efficiency": self.collected.emitted / most,
                "vllm:spec_decode_num_accepted_tokens_total": self.sums.accepted,
                "vllm:spec_decode_num_draft_tokens_total": self.sums.drafted,
                "vllm:spec_decode_num_emitted_tokens_total": self.sums.emitted,
            }
        lines = [sample(name, self.labels, float(value)) for name, value in values.items()]
        return "".join(f"{line}\n" for line in lines).encode()


def serve(seed: int = 1, **given: float) -> Server:
    """Start a server with its own dice."""
    return Server(rng=random.Random(seed), **given)  # type: ignore[arg-type]  # noqa: S311 - dice


def run(server: Server, seconds: float, *, drafts: bool = True) -> None:
    """Let it work."""
    for _ in range(round(seconds * 4)):
        server.step(drafts=drafts)


def growth(before: Sampler, after: Sampler) -> tuple[int, int, int]:
    """Say what truly happened between two collections."""
    return (
        after.drafts - before.drafts,
        after.drafted - before.drafted,
        after.prefix - before.prefix,
    )


def shown(watched: Watched) -> tuple[object, object, object] | str:
    """Give drafts, drafted and accepted tokens of the window, or why they are absent."""
    found = only(watched.derive())
    if "drafts" in found.absent:
        return found.absent["drafts"]
    names = ("drafts", "draft_tokens", "accepted_tokens")
    drafts, drafted, accepted = (found.values[name] for name in names)
    return drafts, drafted, accepted


def test_every_interval_of_a_quick_scrape_is_recovered() -> None:
    """With a page each second every collection is caught, and each window is exact."""
    server = serve()
    watched = Watched(server.page())
    for second in range(1, 60):
        start = server.collected
        run(server, 1)
        watched.mark()
        watched.see(server.page(), float(second))
        if server.collected is start:
            # Before its first collection a V0 page shows no speculation at all.
            unknown = Reason.V0_NOT_RECOVERABLE if start.drafts else Reason.NOT_EXPOSED
            assert shown(watched) == unknown
        else:
            assert shown(watched) == growth(start, server.collected)
    assert only(watched.derive()).method is Method.V0_INTERVAL


def test_opening_page_after_one_collection() -> None:
    """The reference may lie behind the first collection, long after it."""
    server = serve()
    run(server, 9)
    watched = Watched(server.page())
    first = server.collected
    run(server, 2)
    watched.see(server.page(), 2.0)
    assert shown(watched) == growth(first, server.collected)


def test_opening_page_after_many_collections() -> None:
    """Behind several collections the first that is caught is the new reference."""
    server = serve()
    run(server, 30)
    watched = Watched(server.page())
    run(server, 5.25)
    watched.see(server.page(), 5.0)
    assert shown(watched) == Reason.V0_NOT_RECOVERABLE
    caught = server.collected
    watched.mark()
    run(server, 5.25)
    watched.see(server.page(), 10.0)
    assert shown(watched) == growth(caught, server.collected)


def test_missed_collection_spoils_the_next_interval_too() -> None:
    """What the next one adds happened partly before: it counts in the totals, not in a window."""
    server = serve()
    watched = Watched(server.page())
    run(server, 5.25)
    watched.see(server.page(), 5.0)
    run(server, 11)
    watched.see(server.page(), 16.0)
    assert shown(watched) == Reason.V0_NOT_RECOVERABLE
    watched.mark()
    run(server, 5.25)
    watched.see(server.page(), 21.0)
    assert shown(watched) == Reason.V0_NOT_RECOVERABLE
    caught = server.collected
    assert total(watched, Quantity.DRAFTS) == caught.drafts
    watched.mark()
    run(server, 5.25)
    watched.see(server.page(), 26.0)
    assert shown(watched) == growth(caught, server.collected)


def total(watched: Watched, quantity: Quantity) -> float:
    """Give one total of the ledger."""
    return sum(v for c, v in watched.ledger.totals.items() if c.measure[0] is quantity)


def test_restart_begins_at_zero() -> None:
    """A new process has new totals."""
    server = serve()
    watched = Watched(server.page())
    run(server, 5.25)
    watched.see(server.page(), 5.0)
    server.restart()
    watched.mark()
    run(server, 5)
    watched.see(server.page(), 10.0)
    assert shown(watched) == growth(Sampler(), server.collected)
    assert watched.ledger.restarts == {("m", ""): 1}


def test_same_totals_twice_are_not_growth() -> None:
    """Two collections of the same totals look like one of twice as much; no step was taken."""
    server = serve()
    watched = Watched(server.page())
    run(server, 5.25)
    watched.see(server.page(), 5.0)
    watched.mark()
    server.collect()
    server.collect()
    watched.see(server.page(), 15.0)
    assert shown(watched) == Reason.V0_NOT_RECOVERABLE


def test_misread_totals_are_given_up() -> None:
    """A reference that later totals contradict is dropped, and the next one is taken."""
    server = serve()
    run(server, 5.25)
    run(server, 100, drafts=False)
    server.collect()
    watched = Watched(server.page())  # two equal collections, read as one of twice as much
    for second in (1, 2):
        run(server, 0.25)
        server.collect()
        watched.see(server.page(), float(second))
    caught = server.collected
    watched.mark()
    run(server, 0.25)
    server.collect()
    watched.see(server.page(), 3.0)
    assert shown(watched) == growth(caught, server.collected)


def test_other_draft_length_gives_the_reference_up() -> None:
    """K does not change while a process lives; where it seems to, something was misread."""
    server = serve()
    watched = Watched(server.page())
    run(server, 5.25)
    watched.see(server.page(), 5.0)
    other = serve(k=2)
    run(other, 40)
    other.sums, other.due = replace(server.sums), other.seconds
    run(other, 0.25)
    watched.mark()
    watched.see(other.page(), 6.0)
    assert shown(watched) == Reason.V0_NOT_RECOVERABLE
    assert watched.ledger.v0["m"].drafted is None


def test_no_tokens_are_no_drafts() -> None:
    """An idle server's window holds zeros, not unknowns."""
    server = serve()
    run(server, 6)
    watched = Watched(server.page())
    watched.see(server.page(), 60.0)
    assert shown(watched) == (0, 0, 0)
    found = only(watched.derive())
    assert found.absent["acceptance_ratio"] == Reason.NO_DRAFTS
    assert found.speculation is Speculation.IDLE


def test_tokens_without_collections_say_nothing() -> None:
    """Tokens flow but no collection came by: unknown, though drafted before."""
    server = serve()
    run(server, 6)
    watched = Watched(server.page())
    run(server, 3, drafts=False)
    watched.see(server.page(), 3.0)
    assert shown(watched) == Reason.V0_NOT_RECOVERABLE
    assert only(watched.derive()).speculation is Speculation.INACTIVE


def test_single_page_shows_the_gauge() -> None:
    """From one page the lifetime gauge is all there is, and it says what it counts."""
    server = serve()
    run(server, 6)
    found = only(measure_life(server.page()))
    assert found.values["acceptance_ratio"] == server.collected.accepted / server.collected.drafted
    assert {Warn.LIFETIME_VALUE, Warn.V0_ANY_POSITION} <= set(found.warnings)
    assert found.absent["acceptance_length"] == Reason.V0_NOT_RECOVERABLE
    assert found.method is Method.V0_LIFETIME
    assert found.speculation is Speculation.ACTIVE


def test_gauge_above_one_is_not_shown() -> None:
    """A gauge that cannot be an acceptance is none."""
    line = sample("vllm:spec_decode_draft_acceptance_rate", {"model_name": "m"}, 1.5)
    found = only(measure_life(f"{line}\n".encode()))
    assert found.absent["acceptance_ratio"] == Reason.ABOVE_ONE
    assert Warn.V0_ANY_POSITION not in found.warnings


def test_delivered_tokens_are_those_of_finished_requests() -> None:
    """The counter of that name counts steps in V0; it is kept as what it is."""
    server = serve()
    watched = Watched(server.page())
    run(server, 10)
    watched.see(server.page(), 10.0)
    assert only(watched.derive()).values["generation_tokens"] == 80
    assert total(watched, Quantity.V0_ENGINE_OUTPUTS) == 40


def test_two_samplers_on_one_page_are_not_mixed_up() -> None:
    """Two V0 engines whose totals were added up cannot be told apart."""
    servers = [
        serve(seed, chance=chance, labels={"model_name": "m", "engine": str(seed)})  # type: ignore[arg-type]
        for seed, chance in ((0, 0.2), (1, 0.9))
    ]
    watched = Watched(b"".join(server.page() for server in servers))
    for server in servers:
        run(server, 5.25)
    watched.see(b"".join(server.page() for server in servers), 5.0)
    assert shown(watched) == Reason.V0_NOT_RECOVERABLE
    assert total(watched, Quantity.DRAFT_TOKENS) == 0


def test_two_models_are_recovered_each_on_its_own() -> None:
    """Two V0 models on one page have their own samplers."""
    servers = [serve(n, k=n + 3, labels={"model_name": f"m{n}"}) for n in range(2)]  # type: ignore[arg-type]  # not a number
    watched = Watched(b"".join(server.page() for server in servers))
    for server in servers:
        run(server, 5.25)
    watched.see(b"".join(server.page() for server in servers), 5.0)
    for n, found in enumerate(watched.derive().values()):
        assert found.values["drafts"] == servers[n].collected.drafts
        assert found.values["draft_length"] == n + 3


def test_page_without_finished_requests() -> None:
    """Before the first request has finished, delivered tokens are not known."""
    page = sample("vllm:generation_tokens_total", {"model_name": "m"}, 4.0).encode() + b"\n"
    watched = Watched(page)
    watched.see(page, 1.0)
    assert only(watched.derive()).absent["generation_tokens"] == Reason.NOT_EXPOSED


phases = st.lists(
    st.tuples(
        st.floats(0.25, 12),  # seconds until the next page
        st.floats(0, 1),  # share of steps that draft
        st.floats(0, 1),  # chance that a drafted token is kept
        st.sampled_from([False] * 9 + [True]),  # restart
    ),
    min_size=1,
    max_size=25,
)


def look_like_one(collections: list[Sampler], k: int) -> bool:
    """Tell whether by chance the sums of several small collections pass for those of one."""
    drafted, accepted, emitted = (
        sum(getattr(one, name) for one in collections)
        for name in ("drafted", "accepted", "emitted")
    )
    last = collections[-1]
    x = Fraction(last.emitted * k, last.drafted * (k + 1)) * Fraction(drafted, emitted)
    return (
        x < 1
        and (x / (1 - x)).denominator == 1
        and Fraction(accepted, drafted) == Fraction(last.accepted, last.drafted)
    )


@settings(max_examples=300)
@given(st.integers(0, 2**32), st.integers(1, 8), st.floats(0, 40), phases)
def test_recovered_values_are_true_or_absent(
    seed: int, k: int, lived: float, life: list[tuple[float, float, float, bool]]
) -> None:
    """Scraped at any times, a window's acceptance is that of its collections, or absent."""
    server = serve(seed, k=k)
    run(server, lived)
    watched = Watched(server.page())
    now = 0.0
    for seconds, share, chance, restarts in life:
        start = server.collected
        if restarts:
            server.restart()
            start = server.collected
        server.chance = chance
        server.collections.clear()
        for _ in range(round(seconds * 4)):
            server.step(drafts=server.rng.random() < share)
        now += seconds
        assume(len(server.collections) < 2 or not look_like_one(server.collections, k))
        watched.mark()
        reset = watched.see(server.page(), now).reset
        found = only(watched.derive())
        if reset or restarts or "acceptance_ratio" in found.absent:
            continue  # an interval with a reset counts in totals alone
        drafts, drafted, prefix = growth(start, server.collected)
        assert found.values["acceptance_ratio"] == pytest.approx(prefix / drafted, rel=1e-9)
        assert (found.values["draft_tokens"], found.values["drafts"]) == (drafted, drafts)


@given(st.integers(0, 2**32), st.integers(1, 8), st.floats(0.05, 0.95))
def test_totals_follow_the_sampler(seed: int, k: int, chance: float) -> None:
    """Scraped each second for two minutes, our totals are the sampler's."""
    server = serve(seed, k=k, chance=chance)
    watched = Watched(server.page())
    for second in range(1, 121):
        run(server, 1)
        watched.see(server.page(), float(second))
    named = {key[0]: value for key, value in totals(watched.ledger).items()}
    assert named[Quantity.DRAFTS] == server.collected.drafts
    assert named[Quantity.DRAFT_TOKENS] == server.collected.drafted
    assert named[Quantity.ACCEPTED_TOKENS] == server.collected.prefix
    assert named[Quantity.V0_LOST] == 0


LIFETIMES = {
    "one collection": (980.0, 740.0, 740 / (245 * 5), 4),
    "nothing kept": (12.0, 4.0, 4 / 16, 3),
    "everything kept": (12.0, 16.0, 1.0, 3),
    "one token a draft": (10.0, 15.0, 15 / 20, 1),
}


@pytest.mark.parametrize(("drafted", "emitted", "efficiency", "k"), LIFETIMES.values())
def test_k_is_given_away(drafted: float, emitted: float, efficiency: float, k: int) -> None:
    """The efficiency gauge and the two totals determine the draft length."""
    found = lifetime(drafted, emitted, efficiency)
    assert found is not None
    assert (found.k, found.steps) == (k, drafted / k)


NO_LIFETIME = {
    "no gauge": (980.0, 740.0, None),
    "nothing drafted": (0.0, 740.0, 0.6),
    "nothing emitted": (980.0, 0.0, 0.6),
    "gauge of zero": (980.0, 740.0, 0.0),
    "gauge too large": (980.0, 740.0, 1.0),
    "two collections": (1960.0, 1400.0, 740 / (245 * 5)),
    "less than one token a draft": (10.0, 100.0, 0.5),
}


@pytest.mark.parametrize(("drafted", "emitted", "efficiency"), NO_LIFETIME.values())
def test_no_k_no_totals(drafted: float, emitted: float, efficiency: float | None) -> None:
    """Where K is no whole number there was not exactly one collection."""
    assert lifetime(drafted, emitted, efficiency) is None


def test_recorded_server_without_speculation() -> None:
    """A V0 server without speculation counts no drafts, not even as zeros."""
    before, after = (load_page(f"vllm/0.8.5-v0-none/{at}.prom") for at in ("before", "after"))
    watched = Watched(before)
    watched.see(after, 60.0)
    assert {key[0] for key in totals(watched.ledger)} & {Quantity.DRAFTS} == set()
    assert only(watched.derive()).speculation is Speculation.ABSENT
