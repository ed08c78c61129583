"""The flag that is served here: durable, and understood by OpenFeature's real clients."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from openfeature import api
from openfeature.contrib.provider.flagd import FlagdProvider
from openfeature.contrib.provider.flagd.config import ResolverType
from openfeature.contrib.provider.ofrep import OFREPProvider
from openfeature.exception import ErrorCode
from openfeature.flag_evaluation import FlagEvaluationDetails, Reason
from tests.flag_servers import Asked, Reply, flag_server

from specgauge.guard.flags.embedded import Embedded, EmbeddedFlag, EmbeddedTerms, dump, parse
from specgauge.guard.flags.openfeature import evaluate, flagd_document
from specgauge.guard.flags.protocol import FlagError

KEY = "speculative_decoding_enabled"


def embedded(file: Path | None = None, *, time: float = 1000.0) -> Embedded:
    terms = EmbeddedTerms(file=None if file is None else str(file))
    return Embedded(terms, key=KEY, clock=lambda: time)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def test_in_memory() -> None:
    """Without a file the flag is unset until it is written, and then what was written."""
    backend = embedded()
    assert (await backend.read(), backend.flag) == (None, EmbeddedFlag(key=KEY))
    await backend.write(on=False)
    assert await backend.read() is False
    assert backend.flag == EmbeddedFlag(key=KEY, value=False, since=1000.0)
    await backend.close()
    assert (backend.name, backend.place, backend.can_read) == ("embedded", "memory", True)


async def test_survives_a_restart(tmp_path: Path) -> None:
    """With a file the flag and the time it has been so since come back."""
    file = tmp_path / "flag.json"
    first = embedded(file)
    assert (first.warning, await first.read()) == ("", None)
    await first.write(on=False)
    again = embedded(file, time=2000.0)
    await again.write(on=False)
    assert again.flag == first.flag == EmbeddedFlag(key=KEY, value=False, since=1000.0)
    assert (again.warning, again.place) == ("", str(file))
    assert names_in(tmp_path) == ["flag.json"]


DAMAGED = "is damaged"
GOOD = dump(EmbeddedFlag(key=KEY, value=True, since=5.0))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("", DAMAGED, id="empty"),
        pytest.param(GOOD[:-9], DAMAGED, id="cut"),
        pytest.param("[" * 60_000, DAMAGED, id="nested"),
        pytest.param("\x00" * 40, DAMAGED, id="zeros"),
        pytest.param(GOOD.replace("true", '"true"'), DAMAGED, id="text for a boolean"),
        pytest.param(GOOD.replace("true", "null"), DAMAGED, id="no value"),
        pytest.param(GOOD.replace("5.0", "NaN"), DAMAGED, id="no time"),
        pytest.param(GOOD.replace("5.0", '"x"'), DAMAGED, id="text for a time"),
        pytest.param("[]", "is no specgauge.flag/v1", id="list"),
        pytest.param(GOOD.replace("v1", "v2"), "is no specgauge.flag/v1", id="future"),
        pytest.param(GOOD.replace(KEY, "other"), "holds another flag than", id="another flag"),
    ],
)
async def test_damaged_file(tmp_path: Path, text: str, words: str) -> None:
    """A file that cannot be trusted is as good as none, with a warning, and is written over."""
    file = tmp_path / "flag.json"
    file.write_text(text)
    backend = embedded(file)
    assert await backend.read() is None
    assert backend.warning.startswith(f"{file} {words}")
    assert backend.warning.endswith("; the flag counts as never set")
    await backend.write(on=True)
    assert parse(file.read_bytes(), KEY) == (backend.flag, "")


async def test_file_that_cannot_be_read(tmp_path: Path) -> None:
    """A file that cannot even be opened is no reason not to start."""
    backend = embedded(tmp_path)
    assert "cannot be read: Is a directory" in backend.warning
    assert await backend.read() is None


async def test_disk_that_refuses(tmp_path: Path) -> None:
    """The flag is served at once, but it is not confirmed until the disk has it."""
    backend = embedded(tmp_path / "missing" / "flag.json")
    with pytest.raises(FlagError, match=r"^io: .*create the folder"):
        await backend.write(on=False)
    assert backend.flag.value is False
    assert await backend.read() is None
    (tmp_path / "missing").mkdir()
    await backend.write(on=False)
    assert await backend.read() is False


KILLED = """
import asyncio, sys
from specgauge.guard.flags.embedded import Embedded, EmbeddedTerms
async def main():
    backend, on = Embedded(EmbeddedTerms(file=sys.argv[1]), key="k"), False
    while True:
        on = not on
        await backend.write(on)
        print(on, flush=True)
asyncio.run(main())
"""


def test_kill_at_any_instant(tmp_path: Path) -> None:
    """Killed while it writes, the file holds the last value that was confirmed or the next one."""
    for lines in (1, 2, 3, 10, 40):
        file = tmp_path / f"{lines}.json"
        with subprocess.Popen(
            [sys.executable, "-c", KILLED, str(file)], stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            for _ in range(lines):
                process.stdout.readline()
            process.kill()
        flag, fault = parse(file.read_bytes(), "k")
        assert fault == ""
        assert flag.value is not None


ON = EmbeddedFlag(key=KEY, value=True, since=5.0)
OFF = EmbeddedFlag(key=KEY, value=False, since=5.0)
UNSET = EmbeddedFlag(key=KEY)


@pytest.mark.parametrize(
    ("flag", "key", "body", "status", "document"),
    [
        pytest.param(
            ON,
            KEY,
            b'{"context": {"targetingKey": "user-1"}}',
            200,
            {"key": KEY, "value": True, "reason": "STATIC", "variant": "on"},
            id="on",
        ),
        pytest.param(
            OFF,
            KEY,
            b'{"context": {}}',
            200,
            {"key": KEY, "value": False, "reason": "STATIC", "variant": "off"},
            id="off",
        ),
        pytest.param(OFF, KEY, b"", 200, {"value": False}, id="no body"),
        pytest.param(OFF, KEY, b'{"context": null}', 200, {"value": False}, id="no context"),
        pytest.param(
            ON, "other", b"{}", 404, {"key": "other", "errorCode": "FLAG_NOT_FOUND"}, id="unknown"
        ),
        pytest.param(UNSET, KEY, b"{}", 404, {"errorCode": "FLAG_NOT_FOUND"}, id="never set"),
        pytest.param(ON, KEY, b"{", 400, {"errorCode": "PARSE_ERROR", "key": KEY}, id="cut"),
        pytest.param(ON, KEY, b"\xff", 400, {"errorCode": "PARSE_ERROR"}, id="bytes"),
        pytest.param(ON, KEY, b"[" * 60_000, 400, {"errorCode": "PARSE_ERROR"}, id="nested"),
        pytest.param(ON, KEY, b"[]", 400, {"errorCode": "PARSE_ERROR"}, id="list"),
        pytest.param(
            ON, KEY, b'{"context": "x"}', 400, {"errorCode": "INVALID_CONTEXT"}, id="bad context"
        ),
    ],
)
def test_ofrep(
    flag: EmbeddedFlag, key: str, body: bytes, status: int, document: dict[str, object]
) -> None:
    """OFREP's question gets key, value, reason and variant, or a code of OFREP's."""
    answer = evaluate(flag, key, body)
    assert answer.status == status
    assert document.items() <= json.loads(answer.body).items()


def test_flagd_document() -> None:
    """Flagd's source holds the flag with both variants, and its ETag changes with it alone."""
    on, off = flagd_document(ON), flagd_document(OFF)
    assert json.loads(off.body)["flags"] == {
        KEY: {"state": "ENABLED", "variants": {"on": True, "off": False}, "defaultVariant": "off"}
    }
    assert on.etag != off.etag
    assert flagd_document(EmbeddedFlag(key=KEY, value=True, since=9.0)).etag == on.etag
    assert json.loads(flagd_document(UNSET).body)["flags"] == {}


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ("{}", 304),
        ('"x", {}', 304),
        ("W/{}", 304),
        ("*", 304),
        ('"x"', 200),
        ("", 200),
        (None, 200),
    ],
)
def test_etag(asked: str | None, status: int) -> None:
    """Who has the document already is told so."""
    etag = flagd_document(ON).etag or ""
    header = None if asked is None else asked.format(etag)
    answer = flagd_document(ON, header)
    assert (answer.status, answer.etag) == (status, etag)
    assert (answer.body == b"") is (status == 304)


@pytest.fixture
def clean_sdk() -> Iterator[None]:
    """Leave the SDK, which is one for the whole process, as it was."""
    yield
    api.shutdown()
    api.clear_providers()


async def ask_ofrep(
    url: str, key: str = KEY, *, default: bool = True
) -> FlagEvaluationDetails[bool]:
    """Ask as an application does: through the SDK and its OFREP provider."""

    def ask() -> FlagEvaluationDetails[bool]:
        api.set_provider(OFREPProvider(url))
        return api.get_client().get_boolean_details(key, default)

    return await asyncio.to_thread(ask)


@pytest.mark.usefixtures("clean_sdk")
async def test_openfeature_sdk_over_ofrep() -> None:
    """The real SDK sees the flag move, and gets its own default where there is none."""
    backend = embedded()

    def serve(asked: Asked) -> Reply:
        answer = evaluate(backend.flag, asked.path.rpartition("/")[2], asked.body)
        headers = {"Content-Type": "application/json"}
        return Reply(status=answer.status, text=answer.body.decode(), headers=headers)

    async with flag_server(serve) as server:
        unset = await ask_ofrep(server.url)
        assert (unset.value, unset.error_code) == (True, ErrorCode.FLAG_NOT_FOUND)
        for on in (False, True):
            await backend.write(on)
            details = await ask_ofrep(server.url, default=not on)
            assert (details.value, details.reason) == (on, Reason.STATIC)
            assert details.variant == ("on" if on else "off")
            assert details.flag_metadata["source"] == "specgauge"
        other = await ask_ofrep(server.url, "other", default=False)
        assert (other.value, other.error_code) == (False, ErrorCode.FLAG_NOT_FOUND)
        assert server.calls()[0] == f"POST /ofrep/v1/evaluate/flags/{KEY}"


@pytest.mark.usefixtures("clean_sdk")
@pytest.mark.parametrize("flag", [ON, OFF], ids=["on", "off"])
async def test_openfeature_sdk_over_flagd_file(tmp_path: Path, flag: EmbeddedFlag) -> None:
    """The real reader of flagd's files understands the document."""
    file = tmp_path / "flags.json"
    file.write_bytes(flagd_document(flag).body)

    def ask() -> FlagEvaluationDetails[bool]:
        provider = FlagdProvider(
            resolver_type=ResolverType.FILE, offline_flag_source_path=str(file)
        )
        api.set_provider_and_wait(provider)
        return api.get_client().get_boolean_details(KEY, not flag.value)

    details = await asyncio.to_thread(ask)
    assert (details.value, details.error_code) == (flag.value, None)
