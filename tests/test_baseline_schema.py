"""The baseline file format: what is taken, what is refused and in which words."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.baselines import Json, baseline, document, level

from specgauge.baseline.doubts import doubts
from specgauge.baseline.facts import compose
from specgauge.baseline.schema import SCHEMA, LevelRecord, ServerFigures, dump, parse, usable
from specgauge.errors import BaselineError


def refused(text: str) -> tuple[str, ...]:
    """Parse a text that must be refused; gives the lines."""
    with pytest.raises(BaselineError) as caught:
        parse(text, source="b.json")
    return caught.value.problems


def changed(path: str, value: object) -> str:
    """Write a good file with one value changed; a value of `...` takes the key away."""
    whole: Any = document()
    place = whole
    *parts, last = path.replace("]", "").replace("[", ".").split(".")
    for part in parts:
        place = place[int(part)] if part.isdigit() else place.setdefault(part, {})
    if value is ...:
        del place[last]
    else:
        place[int(last) if last.isdigit() else last] = value
    return json.dumps(whole)


TPOT = "levels[0].server.tpot_seconds"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        pytest.param(TPOT, -1, "must be above 0, is -1", id="negative"),
        pytest.param(TPOT, 0, "must be above 0, is 0", id="zero"),
        pytest.param(TPOT, 1e-12, "must be at least 1e-09, is 1e-12", id="tiny"),
        pytest.param(TPOT, 1e300, "must be at most 1e+09, is 1e+300", id="huge"),
        pytest.param(TPOT, True, "a number is expected, is true", id="bool"),
        pytest.param(TPOT, "5 ms", 'a number is expected, is "5 ms"', id="text"),
        pytest.param(TPOT, [1], "a number is expected, is [1]", id="list"),
        pytest.param(TPOT, ..., "missing; it has no default", id="missing"),
        pytest.param("levels[0].window_seconds", 0, "must be above 0, is 0", id="zero-length"),
        pytest.param("levels[0].decode_concurrency", -3.5, "must be above 0, is -3.5", id="load"),
        pytest.param("levels[0].requests", 3.5, "a whole number is expected, is 3.5", id="whole"),
        pytest.param("levels[0].requests", -1, "must be at least 0, is -1", id="count"),
        pytest.param("levels[0].repeats", 10**30, None, id="huge-whole"),
        pytest.param(
            "levels[0].server.tpot_ci95",
            [0.2, 0.1],
            "the low end 0.2 is above the high end 0.1",
            id="interval-upside-down",
        ),
        pytest.param(
            "levels[0].server.tpot_ci95", 0.1, "a list is expected, is 0.1", id="interval"
        ),
        pytest.param(
            "levels[0].server.tpot_ci95[0]",
            "low",
            'a number is expected, is "low"',
            id="interval-of-text",
        ),
        pytest.param(
            "levels[0].server.kv_cache_usage_ratio_max",
            1.5,
            "must be at most 1, is 1.5",
            id="share",
        ),
        pytest.param("levels", [], "at least 1 expected, are 0", id="no-levels"),
        pytest.param("levels", {}, "a list is expected, is {}", id="levels-no-list"),
        pytest.param("levels[1]", 7, "an object is expected, is 7", id="level-no-object"),
        pytest.param(
            "levels[0].server.tpot_second",
            0.1,
            "not a key of a baseline; did you mean tpot_seconds?",
            id="misspelt",
        ),
        pytest.param(
            "engine.colour",
            "red",
            "not a key of a baseline; here belong name, version",
            id="unknown-key",
        ),
        pytest.param("engine.name", None, "text is expected, is null", id="null"),
        pytest.param("partial", "yes", 'true or false is expected, is "yes"', id="no-bool"),
        pytest.param(
            "created",
            "2026-11-29T16:04:00",
            "write a time with its zone, as 2026-11-29T16:04:00Z, is",
            id="no-zone",
        ),
        pytest.param("created", "yesterday", "write a time with its zone", id="no-time"),
        pytest.param("method", "guess", "is expected, is", id="method"),
        pytest.param(
            "speculation",
            {"method": "eagle"},
            "a baseline is recorded without speculation: null is expected",
            id="speculation",
        ),
        pytest.param("model", ..., "missing; it has no default", id="no-model"),
        pytest.param("parallelism.tensor", 0, "must be above 0, is 0", id="no-ranks"),
        pytest.param(
            "levels[0].server",
            None,
            "neither server.tpot_seconds nor client.tpot_seconds.mean is given",
            id="no-figure",
        ),
    ],
)
def test_a_fault_is_named_by_its_path_and_what_is_expected(
    path: str, value: object, message: str | None
) -> None:
    """A hand-edited file is refused with one line a fault: file, dotted path, fix."""
    (line,) = refused(changed(path, value))
    place = path.removesuffix(".server") if message and message.startswith("neither") else path
    assert line.startswith(f"b.json: {place}: ")
    assert message is None or message in line


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(json.dumps(document())[:-9], "not JSON", id="truncated"),
        pytest.param("", "not JSON", id="empty"),
        pytest.param("[" * 100_000, "not JSON", id="deep"),
        pytest.param("[1, 2]", "a JSON object is expected, not [1, 2]", id="list"),
        pytest.param('{"a": 1, "a": 2}', "the key 'a' stands twice", id="key-twice"),
        pytest.param('{"a": NaN}', "NaN is no number of a baseline", id="nan"),
        pytest.param('{"a": -Infinity}', "-Infinity is no number", id="infinity"),
        pytest.param("{}", "schema: null is not specgauge.baseline/v1", id="no-schema"),
        pytest.param(
            '{"schema": "specgauge.baseline/v2"}', "upgrade or record", id="other-version"
        ),
        pytest.param(
            '{"mean_tpot_ms": 5.0}', "other tools' results: specgauge baseline import", id="other"
        ),
    ],
)
def test_what_is_no_baseline_is_refused_with_the_fix(text: str, message: str) -> None:
    """Text that is no baseline file of this version says so in one line."""
    (line,) = refused(text)
    assert line.startswith("b.json: ")
    assert message in line
    assert len(line) < 200


def test_a_number_beyond_every_float_is_refused() -> None:
    """1e999 reads as infinity, which is no measurement."""
    text = json.dumps(document()).replace("0.004", "1e999", 1)
    assert refused(text) == (f"b.json: {TPOT}: a finite number is expected, is Infinity",)


def test_all_faults_are_told_at_once() -> None:
    """A file with several faults is mended in one go."""
    bad = document(level(0.0), level(8.0, requests=-1), created="x")
    assert [line.split(": ")[1] for line in refused(json.dumps(bad))] == [
        "created",
        "levels[0].decode_concurrency",
        "levels[1].requests",
    ]


def test_two_levels_of_one_concurrency_are_refused() -> None:
    """Which of two levels of the same name holds cannot be told."""
    text = json.dumps(document(level(1.0, concurrency=4), level(2.0, concurrency=4)))
    assert refused(text) == ("b.json: two levels have the concurrency 4; keep one of them",)


def test_an_interval_has_two_ends() -> None:
    """Of a list that is too short the missing end is named."""
    text = changed("levels[0].server.tpot_ci95", [0.1])
    assert refused(text) == (
        "b.json: levels[0].server.tpot_ci95[1]: missing; a low and a high number are expected",
    )


def test_too_many_levels_are_refused() -> None:
    """No server has a thousand loads worth telling apart."""
    (line,) = refused(json.dumps(document(*[level()] * 1001)))
    assert line == "b.json: levels: at most 1000 expected, are 1001"


def test_a_key_that_is_none_names_those_that_are() -> None:
    """A key that resembles nothing is answered with the keys that belong there."""
    (line,) = refused(json.dumps(document(zzz=1)))
    assert line.startswith("b.json: zzz: not a key of a baseline; here belong schema, created, ")


@pytest.mark.parametrize(
    ("levels", "more", "expected"),
    [
        pytest.param([level(1.0, 0.004), level(8.0, 0.005)], {}, [], id="nothing"),
        pytest.param(
            [level(8.0, 0.005), level(1.0, 0.004)],
            {},
            ["levels: not in order of decode_concurrency; sorted"],
            id="out-of-order",
        ),
        pytest.param(
            [level(8.0, 0.005), level(8.5, 0.005)],
            {},
            ["levels[1]: within 10 % of the load of levels[0]; the two are merged"],
            id="same-load",
        ),
        pytest.param(
            [level(1.0, 4.6), level(8.0, 4.9)],
            {},
            [
                "levels[0]: 4.6 seconds a token; are these milliseconds?",
                "levels[1]: 4.9 seconds a token; are these milliseconds?",
            ],
            id="milliseconds",
        ),
        pytest.param(
            [level(1.0, 0.006), level(8.0, 0.005)],
            {},
            ["levels[1]: a token takes less time than at the lower load of levels[0]; warm-up?"],
            id="faster-under-load",
        ),
        pytest.param(
            [level(1.0, 0.004), level(8.0, 0.1)],
            {},
            ["levels[1]: fewer tokens a second in all than at the lower load of levels[0]"],
            id="collapse",
        ),
        pytest.param(
            [level(1.0, 0.004), level(8.0, 0.005, server={"tpot_ci95": [0.006, 0.007]})],
            {},
            ["levels[1].server.tpot_ci95: does not hold tpot_seconds 0.005"],
            id="interval-beside",
        ),
        pytest.param(
            [level(8.0)],
            {},
            ["levels: only one; what it says of other loads is a guess, record more"],
            id="one-level",
        ),
        pytest.param(
            [level(1.0, 0.004), level(8.0, 0.005)],
            {"partial": True},
            ["partial: the recording was cut short; record it again"],
            id="partial",
        ),
    ],
)
def test_oddities_are_doubts_not_refusals(
    levels: list[Json], more: Json, expected: list[str]
) -> None:
    """What may be right but seldom is gets one line with its place."""
    assert doubts(baseline(*levels, **more)) == tuple(expected)


def test_the_client_speaks_where_the_server_does_not() -> None:
    """A level of client figures alone is a level; the server's go before the client's."""
    client = {"tpot_seconds": {"mean": 0.006, "ci95": [0.005, 0.007]}, "ttft_seconds": {"mean": 1}}
    alone = {"decode_concurrency": 4.0, "window_seconds": 1.0, "client": client}
    found = usable(baseline(alone, level(8.0, client=client)), source="b.json").curve.levels
    assert [(one.tpot, one.tpot_low, one.ttft) for one in found] == [
        (0.006, 0.005, 1.0),
        (0.005, 0.00495, None),
    ]
    assert doubts(baseline(alone, level(8.0, client=client)))[0].startswith("levels[1]: a token")


def test_facts_carry_the_path_of_the_file() -> None:
    """Whose a baseline is goes by the dotted paths that messages use."""
    found = usable(baseline(hardware={"gpu": "NVIDIA H200"}), source="b.json")
    assert found.facts["hardware.gpu"] == "NVIDIA H200"
    assert found.facts["engine.name"] == "vllm"
    assert found.created == datetime(2026, 11, 29, 16, 4, tzinfo=UTC).timestamp()


def test_compose_lists_what_is_not_known() -> None:
    """A file says itself which facts it lacks."""
    levels = [LevelRecord.model_validate(level())]
    now = datetime(2026, 1, 1, tzinfo=UTC)
    found = compose(
        {"model.name": "m", "hardware.gpu": "H200"},
        levels,
        method="from_pages",
        created=now,
        created_by="t",
        missing=["levels.server"],
    )
    assert found.model.name == "m"
    assert "hardware.gpu" not in found.missing
    assert found.missing[-3:] == (
        "workload.temperature",
        "workload.prompts_sha256",
        "levels.server",
    )


def test_compose_refuses_what_no_file_can_hold() -> None:
    """Facts from a command line go by the same rules as a file."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    with pytest.raises(BaselineError) as caught:
        compose({"model.name": 7}, [], method="observed", created=now, created_by="t")
    assert caught.value.problems == (
        "model.name: text is expected, is 7",
        "levels: at least 1 expected, are 0",
    )


figures = st.floats(min_value=1e-9, max_value=1e9)
wholes = st.integers(min_value=0, max_value=10**15)
maybe_text = st.none() | st.text(max_size=20)


@st.composite
def records(draw: st.DrawFn) -> LevelRecord:
    """Any level that a file may hold."""
    low, high = sorted((draw(figures), draw(figures)))
    return LevelRecord(
        decode_concurrency=draw(figures),
        window_seconds=draw(st.none() | figures),
        requests=draw(wholes),
        request_rate=draw(st.none() | figures),
        output_tokens=draw(st.none() | wholes),
        server=ServerFigures(
            tpot_seconds=draw(figures),
            tpot_ci95=draw(st.none() | st.just((low, high))),
            kv_cache_usage_ratio_max=draw(st.none() | st.floats(0.0, 1.0)),
        ),
        notes=tuple(draw(st.lists(st.text(max_size=10), max_size=2))),
    )


@given(
    st.lists(records(), min_size=1, max_size=4),
    st.datetimes(timezones=st.just(UTC)),
    maybe_text,
    st.booleans(),
)
def test_what_is_written_reads_back_the_same(
    levels: list[LevelRecord],
    created: datetime,
    revision: str | None,
    partial: bool,
) -> None:
    """`parse` undoes `dump`, whatever the values."""
    file = compose(
        {"model.name": "m", "model.revision": revision},
        levels,
        method="observed",
        created=created,
        created_by="t",
        partial=partial,
    )
    assert parse(dump(file), source="b.json") == file


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists), st.data())
def test_no_value_anywhere_breaks_the_reader(value: object, data: st.DataObject) -> None:
    """Whatever stands in a file, it is read or refused in lines."""
    paths = ["created", "levels", "levels[0]", TPOT, "levels[0].client", "model.name", "partial"]
    text = changed(data.draw(st.sampled_from(paths)), value)
    try:
        lines = doubts(parse(text, source="b.json"))
    except BaselineError as problem:
        lines = problem.problems
    assert all(isinstance(line, str) for line in lines)


@pytest.mark.parametrize(
    ("document", "place"),
    [
        pytest.param({"model": {"name": "a\ud800"}}, "model.name", id="name"),
        pytest.param({"notes": ["fine", "\udfff"]}, "notes[1]", id="list"),
        pytest.param({"hardware": {"\ud800": 1}}, 'hardware."\\ud800"', id="key"),
        pytest.param(
            {"levels": [{"decode_concurrency": 1.0, "notes": ["\ud800"]}]},
            "levels[0].notes[0]",
            id="level",
        ),
    ],
)
def test_half_a_surrogate_pair_is_refused_with_its_path(document: Any, place: str) -> None:
    """JSON can spell what no text file can hold."""
    with pytest.raises(BaselineError) as caught:
        parse(json.dumps({"schema": SCHEMA, **document}), source="b.json")
    assert caught.value.problems == (f"b.json: {place}: half of a surrogate pair is no text",)


def test_a_whole_surrogate_pair_is_text() -> None:
    """JSON spells characters beyond the first plane so."""
    assert baseline(model={"name": "\U0001f600"}).model.name == "\U0001f600"
