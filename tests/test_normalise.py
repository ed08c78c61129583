"""From names and labels to canonical series."""

import pytest

from specgauge.derive.accumulate import advance, open_ledger
from specgauge.engines.normalise import Catalogue, Unread
from specgauge.engines.reader import Reader
from specgauge.engines.vllm import TABLE
from specgauge.model.quantity import Kind, Quantity, Series

OWN = {"model_name": "m", "engine": "0"}


def identify(name: str, labels: dict[str, str] | None = None, kind: str | None = None) -> Series:
    """Identify a sample that must be a series."""
    found = Catalogue().identify(name, OWN if labels is None else labels, kind)
    assert isinstance(found, Series)
    return found


PREFIXES = ["vllm:", "vllm_", "ray_vllm:", "ray_vllm_"]


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("entry", TABLE, ids=lambda entry: str(entry.quantity))
def test_every_name_of_the_table_is_known(prefix: str, entry: object) -> None:
    """Each name of each release leads to its quantity, whatever stands before it."""
    (match,) = [found for found in TABLE if found is entry]
    for name in match.names:
        suffixes = {
            Kind.COUNTER: {"_total": Kind.COUNTER, "": Kind.COUNTER},
            Kind.BUCKET: {"_bucket": Kind.BUCKET, "_sum": Kind.SUM, "_count": Kind.COUNT},
        }.get(match.kind, {"": match.kind})
        for suffix, kind in suffixes.items():
            series = identify(prefix + name.name + suffix, {**OWN, "le": "1", "position": "2"})
            assert (series.quantity, series.kind) == (match.quantity, kind)
            assert (series.cell.model, series.cell.engine) == ("m", "0")


def test_part_tells_cells_apart() -> None:
    """Positions are numbers, bounds are numbers however they are spelled, reasons are words."""
    assert identify("vllm:spec_decode_num_accepted_tokens_per_pos", {"position": "12"}).cell.measure
    catalogue = Catalogue()
    name = "vllm:time_to_first_token_seconds_bucket"
    assert catalogue.identify(name, {"le": "1"}, None) is catalogue.identify(
        name, {"le": "1.0"}, None
    )
    position = identify("vllm:spec_decode_num_accepted_tokens_per_pos_total", {"position": "12"})
    assert position.cell.measure == (Quantity.ACCEPTED_PER_POSITION, Kind.COUNTER, 12)
    reason = identify("vllm:request_success_total", {"finished_reason": "stop"})
    assert reason.cell.measure == (Quantity.REQUESTS_FINISHED, Kind.COUNTER, "stop")
    assert position.origin == reason.origin == ()


def test_unknown_labels_stay_with_the_series() -> None:
    """Labels that no release documents feed the same cell but keep series apart."""
    catalogue = Catalogue()
    one, two = (
        catalogue.identify("vllm:prompt_tokens_total", {**OWN, "pid": pid}, None)
        for pid in ("1", "2")
    )
    assert isinstance(one, Series)
    assert isinstance(two, Series)
    assert one is not two
    assert one.cell is two.cell
    assert (one.origin, two.origin) == ((("pid", "1"),), (("pid", "2"),))


NO_SERIES = {
    "bucket without a bound": ("vllm:time_to_first_token_seconds_bucket", {}, Unread.ENGINE),
    "bucket with a word for a bound": (
        "vllm:time_to_first_token_seconds_bucket",
        {"le": "many"},
        Unread.ENGINE,
    ),
    "bucket with no number for a bound": (
        "vllm:time_to_first_token_seconds_bucket",
        {"le": "NaN"},
        Unread.ENGINE,
    ),
    "no position": ("vllm:spec_decode_num_accepted_tokens_per_pos_total", {}, Unread.ENGINE),
    "position below zero": (
        "vllm:spec_decode_num_accepted_tokens_per_pos_total",
        {"position": "-1"},
        Unread.ENGINE,
    ),
    "position of too many digits": (
        "vllm:spec_decode_num_accepted_tokens_per_pos_total",
        {"position": "9" * 5000},
        Unread.ENGINE,
    ),
    "position in other digits": (
        "vllm:spec_decode_num_accepted_tokens_per_pos_total",
        {"position": "\u0663"},
        Unread.ENGINE,
    ),
    "engine gauge that nobody knows": ("vllm:lora_requests_info", {}, Unread.ENGINE),
    "process": ("process_open_fds", {}, Unread.NEUTRAL),
    "Python": ("python_info", {}, Unread.NEUTRAL),
    "web server": ("http_request_duration_seconds_sum", {}, Unread.NEUTRAL),
    "something else": ("node_load1", {}, Unread.FOREIGN),
    "name that only begins alike": ("vllmx:prompt_tokens_total", {}, Unread.FOREIGN),
}


@pytest.mark.parametrize(("name", "labels", "unread"), NO_SERIES.values(), ids=NO_SERIES)
def test_sample_that_is_no_series(name: str, labels: dict[str, str], unread: Unread) -> None:
    """What no quantity is read from still says whose it is."""
    assert Catalogue().identify(name, labels, None) is unread


OTHERS = {
    "creation time": ("vllm:generation_tokens_created", "gauge", Kind.CREATED),
    "unknown counter": ("vllm:lora_loads_total", "counter", Kind.COUNTER),
    "count of an unknown histogram": ("vllm:x_seconds_count", "histogram", Kind.COUNTER),
    "unknown summary": ("vllm:x_seconds_count", "summary", Kind.COUNTER),
}


@pytest.mark.parametrize(("name", "kind", "expected"), OTHERS.values(), ids=OTHERS)
def test_unknown_series_may_still_tell_a_restart(name: str, kind: str, expected: Kind) -> None:
    """Whatever can only grow, or says when it began, is watched."""
    series = identify(name, kind=kind)
    assert (series.quantity, series.kind) == (Quantity.OTHER, expected)


@pytest.mark.parametrize(("name", "kind"), [("vllm:x_sum", "histogram"), ("vllm:x", "gauge")])
def test_what_may_fall_tells_nothing(name: str, kind: str) -> None:
    """A sum or a gauge that nobody knows is left alone."""
    assert Catalogue().identify(name, OWN, kind) is Unread.ENGINE


def test_preference_among_names() -> None:
    """The newer of two names comes first, and a counter's `_total` before its bare name."""
    assert identify("vllm:inter_token_latency_seconds_sum").rank == 0
    assert identify("vllm:time_per_output_token_seconds_sum").rank == 1
    assert identify("vllm:prompt_tokens_total").rank == 0
    assert identify("vllm:prompt_tokens").rank == 1
    assert identify("vllm:gpu_cache_usage_perc").rank == 1


@pytest.mark.parametrize("label", ["status", "code"])
def test_http_requests_are_of_the_server(label: str) -> None:
    """Requests belong to no engine; their status is the part, their labels stay."""
    series = identify("http_requests_total", {"handler": "/v1/chat", label: "5xx"})
    assert series.cell.measure == (Quantity.HTTP_REQUESTS, Kind.COUNTER, "5xx")
    assert (series.cell.model, series.cell.engine) == ("", "")
    assert dict(series.origin) == {"handler": "/v1/chat", label: "5xx"}


def test_process_start_is_of_the_server() -> None:
    """The start of the process is a creation time of everything in it."""
    series = identify("process_start_time_seconds", {})
    assert (series.quantity, series.kind) == (Quantity.PROCESS_START, Kind.CREATED)


def test_diffusion_names_share_a_quantity() -> None:
    """The three counters of a diffusion model are three cells of one quantity."""
    catalogue = Catalogue()
    for name in ("denoising_steps", "canvas_positions", "committed_tokens"):
        series = catalogue.identify(f"vllm:diffusion_num_{name}_total", OWN, None)
        assert isinstance(series, Series)
        assert series.quantity is Quantity.DIFFUSION
    assert len(catalogue) == 3


def test_forgetting_keeps_what_lives() -> None:
    """Series that are named live on as the same objects; cells are kept in any case."""
    catalogue = Catalogue()
    kept = catalogue.identify("vllm:prompt_tokens_total", OWN, None)
    gone = catalogue.identify("vllm:generation_tokens_total", OWN, None)
    catalogue.keep({kept})
    assert catalogue.identify("vllm:prompt_tokens_total", OWN, None) is kept
    again = catalogue.identify("vllm:generation_tokens_total", OWN, None)
    assert again is not gone
    assert isinstance(again, Series)
    assert isinstance(gone, Series)
    assert again.cell is gone.cell


def test_very_many_words_are_told_apart_no_more() -> None:
    """Of very many reasons or codes the rest are counted together, and none is lost."""

    def page(count: int) -> bytes:
        finished = (
            f'vllm:request_success_total{{model_name="m",engine="0",finished_reason="r{i}"}} '
            f"{count + i}\n"
            for i in range(150)
        )
        answered = (f'http_requests_total{{status="s{i}"}} {count + i}\n' for i in range(150))
        return "".join([*finished, *answered]).encode()

    reader = Reader()
    first = reader.read(page(0))
    assert first.faults == {}
    last, _ = advance(open_ledger(first, 0.0), reader.read(page(7)), 1.0)
    for quantity in (Quantity.REQUESTS_FINISHED, Quantity.HTTP_REQUESTS):
        grown = {c.measure[2]: v for c, v in last.totals.items() if c.measure[0] is quantity}
        assert len(grown) == 101
        assert (grown["other"], sum(grown.values())) == (50 * 7, 150 * 7)
