"""Beside a real server, in each mode, everything specgauge says is what the server did.

It may not start anything: each server is recorded once (episode.py) and looked at here.
"""

import pytest
from tests.vllm.client import total
from tests.vllm.episode import STATE, Episode
from tests.vllm.series import GENERAL, OURS, SPECULATIVE, THEIRS, counts, per_position, ratios
from tests.vllm.sidecar import WINDOW_SECONDS

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]

SHARE_ROUNDING = 0.00051  # the engine's log has three decimals


def grown(episode: Episode, name: str) -> float:
    """Say how far one of the engine's counters moved between the two saved pages."""
    return episode.after.total(name) - episode.before.total(name)


def test_enough_happened_to_tell_anything(drafting: Episode) -> None:
    """The load drafts often, and is accepted at least in part."""
    assert drafting.after.total(THEIRS["drafts"]) >= 200
    assert drafting.after.total(THEIRS["accepted_tokens"]) >= 100


@pytest.mark.parametrize("name", GENERAL)
def test_counters_are_the_engines_own(episode: Episode, name: str) -> None:
    """A counter of ours stands where the engine's own stands, for each engine."""
    assert episode.sidecar.has(OURS[name])
    theirs = episode.after.by(THEIRS[name], "engine")
    assert theirs == pytest.approx(episode.sidecar.by(OURS[name], "engine"), rel=1e-12)


@pytest.mark.parametrize("name", SPECULATIVE)
def test_speculation_counters_are_the_engines_own(episode: Episode, name: str) -> None:
    """Drafts, drafted and accepted tokens are exact, and absent where nothing speculates."""
    assert episode.sidecar.has(OURS[name]) is (episode.mode.drafts > 0)
    theirs = episode.after.by(THEIRS[name], "engine")
    assert theirs == episode.sidecar.by(OURS[name], "engine")


def test_accepted_tokens_are_exact_at_each_position(episode: Episode) -> None:
    """Each position counts what the engine counts there, and there are as many as it drafts."""
    ours = per_position(episode.sidecar, OURS)
    assert per_position(episode.after, THEIRS) == ours
    assert episode.mode.drafts == len(ours)


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("generation_tokens", "generation_tokens"),
        ("prompt_tokens", "prompt_tokens"),
        ("requests_finished", "requests"),
        ("first_tokens", "requests"),
    ],
)
def test_counters_are_what_the_client_got(episode: Episode, name: str, field: str) -> None:
    """Tokens and requests are those that the client was told of in `usage`."""
    assert total(episode.sent, field) == episode.sidecar.total(OURS[name])


def test_log_lines_add_up_to_the_same_tokens(drafting: Episode) -> None:
    """What the engine logged of speculation, interval by interval, adds up to our counters."""
    accepted = sum(line.accepted for line in drafting.spec_lines)
    drafted = sum(line.drafted for line in drafting.spec_lines)
    assert accepted == drafting.sidecar.total(OURS["accepted_tokens"])
    assert drafted == drafting.sidecar.total(OURS["draft_tokens"])


def test_log_lines_allow_the_same_lengths_and_positions(drafting: Episode) -> None:
    """Undoing the logged figures' rounding leaves room for our drafts and positions exactly."""
    lines = drafting.spec_lines
    drafts = [line.drafts(drafting.mode.drafts) for line in lines]
    fewest, most = (sum(ends) for ends in zip(*drafts, strict=True))
    assert fewest <= drafting.sidecar.total(OURS["drafts"]) <= most
    for place, accepted in enumerate(per_position(drafting.sidecar, OURS)):
        shares = [line.position_acceptance[place] for line in lines]
        ends = list(zip(shares, drafts, strict=True))
        low = sum((share - SHARE_ROUNDING) * few for share, (few, _) in ends)
        high = sum((share + SHARE_ROUNDING) * many for share, (_, many) in ends)
        assert low <= accepted <= high, place


def test_gauges_are_the_ratios_of_all_that_was_sent(episode: Episode) -> None:
    """While the window holds the whole load, every ratio on the page is the exact one."""
    if episode.load_seconds > WINDOW_SECONDS - 5:
        pytest.skip(f"the load took {episode.load_seconds:.0f} s and outgrew the window")
    for name, expected in ratios(counts(episode.after, THEIRS)).items():
        assert expected == pytest.approx(episode.sidecar.total(f"specgauge_{name}")), name
    drafts = episode.after.total(THEIRS["drafts"])
    survival = [accepted / drafts for accepted in per_position(episode.after, THEIRS)]
    shown = episode.sidecar.by("specgauge_position_acceptance_ratio", "position")
    assert {str(at): share for at, share in enumerate(survival)} == pytest.approx(shown)
    assert episode.sidecar.has("specgauge_acceptance_ratio") is (episode.mode.drafts > 0)


def test_a_step_brings_one_token_without_drafts_and_more_with_them(episode: Episode) -> None:
    """A server without speculation makes exactly one token a step and request."""
    tokens_per_step = episode.two_pages["tokens_per_step"]
    assert (tokens_per_step > 1.2) if episode.mode.drafts else (tokens_per_step == 1.0)


def test_tpot_is_the_engines_decode_time_per_token(episode: Episode) -> None:
    """The time per output token agrees with a histogram that it is not made from."""
    seconds = grown(episode, "vllm:request_decode_time_seconds_sum")
    requests = grown(episode, "vllm:request_decode_time_seconds_count")
    tokens = grown(episode, THEIRS["generation_tokens"]) - requests
    assert seconds / tokens == pytest.approx(episode.two_pages["tpot_seconds"], rel=0.02)


def test_tpot_fits_into_the_clients_time(episode: Episode) -> None:
    """What the seats' seconds leave beside the waits for first tokens is the tokens' time."""
    seated = sum(bout.seconds * bout.concurrency for bout in episode.measured)
    waited = grown(episode, "vllm:time_to_first_token_seconds_sum")
    tokens = total(episode.measured, "generation_tokens") - total(episode.measured, "requests")
    left = (seated - waited) / tokens
    tpot = episode.two_pages["tpot_seconds"]
    assert tpot <= left * 1.02
    lost = 1 - grown(episode, "vllm:e2e_request_latency_seconds_sum") / seated
    if lost > 0.15:
        pytest.skip(f"a busy machine: {lost:.0%} of the client's time is not the server's")
    assert left == pytest.approx(tpot, rel=0.25)


def test_speculation_is_active_under_load_and_idle_after_it(episode: Episode) -> None:
    """The state follows the load, and is `absent` throughout on a server that does not draft."""
    drafts = episode.mode.drafts > 0
    assert episode.live_sidecar.state(STATE, "state") == ("active" if drafts else "absent")
    assert episode.idle_sidecar.state(STATE, "state") == ("idle" if drafts else "absent")


@pytest.mark.parametrize("gauge", ["acceptance_ratio", "tokens_per_step", "tpot_seconds"])
def test_gauges_of_an_idle_server_are_absent(drafting: Episode, gauge: str) -> None:
    """Where nothing was generated in the window there is no ratio to show, not a zero."""
    assert drafting.sidecar.has(f"specgauge_{gauge}")
    assert not drafting.idle_sidecar.has(f"specgauge_{gauge}")


@pytest.mark.parametrize("name", ["generation_tokens", "drafts", "draft_tokens", "accepted_tokens"])
def test_two_pages_give_what_lies_between_them(episode: Episode, name: str) -> None:
    """Inspecting two saved pages counts exactly what the engine counted in between."""
    if not episode.after.has(THEIRS[name]):
        assert name in episode.two_pages["absent"]
        return
    assert grown(episode, THEIRS[name]) == episode.two_pages[name]


def test_two_pages_give_the_ratios_of_what_lies_between_them(episode: Episode) -> None:
    """Every ratio of an inspection is the ratio of the engine's own differences."""
    moved = {name: grown(episode, series) for name, series in THEIRS.items()}
    for name, expected in ratios(moved).items():
        assert expected == pytest.approx(episode.two_pages[name]), name


def test_two_pages_count_each_position(drafting: Episode) -> None:
    """Inspecting two saved pages has a count for each drafted position, in order."""
    ends = per_position(drafting.after, THEIRS), per_position(drafting.before, THEIRS)
    grew = [after - before for after, before in zip(*ends, strict=True)]
    assert grew == drafting.two_pages["accepted_tokens_per_position"]
    assert drafting.mode.drafts == drafting.two_pages["num_speculative_tokens"]


def test_two_pages_agree_with_the_client(episode: Episode) -> None:
    """Between the two pages lie just the tokens that the client got in the meantime."""
    sent = total(episode.measured, "generation_tokens")
    assert sent == episode.two_pages["generation_tokens"]
    rate = sent / episode.two_pages["window_seconds"]
    assert rate == pytest.approx(episode.two_pages["generation_tokens_per_second"])


def test_one_page_gives_what_the_sidecar_counted(episode: Episode) -> None:
    """The totals of a single page are the sidecar's counters."""
    assert "lifetime_value" in episode.one_page["warnings"]
    names = ["generation_tokens", *(["drafts", "accepted_tokens"] if episode.mode.drafts else [])]
    for name in names:
        assert episode.sidecar.total(OURS[name]) == episode.one_page[name], name


def test_a_running_server_is_inspected_by_its_url(episode: Episode) -> None:
    """Two scrapes of a loaded server show its state, its release family and its load."""
    seen = episode.live_inspect
    assert seen["dialect"] == "vllm-v1"
    assert seen["speculation"] == ("active" if episode.mode.drafts else "absent")
    # How late the second page comes, and how many requests end before it, the machine decides.
    assert seen["window_seconds"] > 0
    assert seen["generation_tokens"] > 0
    rate = seen["generation_tokens"] / seen["window_seconds"]
    assert rate == pytest.approx(seen["generation_tokens_per_second"])
    assert seen["decode_concurrency"] > 0


def test_inspection_is_consistent_with_itself(drafting: Episode) -> None:
    """The acceptance length is one more than the accepted share of the draft length."""
    seen = drafting.two_pages
    accepted = seen["acceptance_ratio"] * seen["draft_length"]
    assert 1 + accepted == pytest.approx(seen["acceptance_length"])
    assert sum(seen["position_acceptance_ratio"]) == pytest.approx(accepted)
