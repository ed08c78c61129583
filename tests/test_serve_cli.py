"""`specgauge serve` as a process: signals, changed files, exit codes, what it writes where."""

import asyncio
import json
import os
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from tests.baselines import document
from tests.servers import RawServer, answer, serving, silent
from tests.sidecars import LINE, Process, read_samples, specgauge, until
from tests.small_pages import v1_page
from tests.test_watch import mount

from specgauge import __version__

PAGE = answer(v1_page(1000))
QUICK = ("--listen", "127.0.0.1:0", "--interval", "100ms")


@pytest.fixture
async def engine() -> AsyncIterator[RawServer]:
    """Run a server that answers every request with one small page."""
    async with serving(PAGE) as server:
        yield server


async def scrape(url: str) -> dict[str, float]:
    async with aiohttp.ClientSession() as client, client.get(f"{url}/metrics") as response:
        return read_samples(await response.text())


async def stop(made: Process, number: signal.Signals = signal.SIGTERM) -> float:
    """Send a signal; gives the seconds until it had closed everything."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    made.process.send_signal(number)
    await made.line("stopped")
    seconds = loop.time() - began
    assert await made.end() == 0
    return seconds


async def test_a_life_without_a_file(engine: RawServer) -> None:
    """One flag is enough; stdout stays empty, stderr has one line a change, and the end is 0."""
    async with specgauge("serve", "--target", engine.url, *QUICK, "--window", "30s") as made:
        url = await made.listening()
        await made.line("speculation")
        found = await scrape(url)
        name = engine.address
        assert found[f'specgauge_target_up{{target="{name}"}}'] == 1
        assert any(f'version="{__version__}"' in key for key in found)
        engine.script(answer(status=500))
        await made.line("target_down")
        engine.script(PAGE)
        await made.line("target_up", count=2)
        await stop(made)
        assert made.process.stdout is not None
        assert await made.process.stdout.read() == b""
    assert all(LINE.fullmatch(line) for line in made.lines)
    assert [line.split()[2] for line in made.lines] == [
        *("listening", "target_up", "speculation"),
        *("target_down", "target_up", "stopped"),
    ]


IDLE, HALF, WHOLE = b"", b"GET /metrics HTTP/1.1\r\n", b"GET /-/ready HTTP/1.1\r\nHost: x\r\n\r\n"


async def end_amid_work(number: signal.Signals) -> float:
    """Stop a sidecar with a hanging target and three clients; gives the seconds that took."""
    async with serving(silent) as hanging:
        target = ("--target", hanging.url, "--timeout", "60s")
        async with specgauge("serve", *target, *QUICK) as made:
            host, port = (await made.listening()).removeprefix("http://").split(":")
            await until(lambda: hanging.requests, "the request")
            writers = []
            for sent in (IDLE, HALF, WHOLE):
                _, writer = await asyncio.open_connection(host, int(port))
                writer.write(sent)
                await writer.drain()
                writers.append(writer)
            seconds = await stop(made, number)
            for writer in writers:
                writer.close()
            return seconds


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
async def test_signal_ends_it_whatever_goes_on(number: signal.Signals) -> None:
    """It ends within 2 s while a target hangs, a client is idle and another is in mid-request."""
    took: list[float] = []
    while len(took) < 3:  # a machine with other work may be late, but not every time
        took.append(await end_amid_work(number))
        if took[-1] < 2:
            return
    pytest.fail(f"it took {took} seconds")


def config(engine: RawServer, *more: str) -> str:
    target = f'{{name: spec, url: "{engine.url}", auth: {{bearer_file: bearer}}}}'
    lines = [f"targets: [{target}]", 'listen: "127.0.0.1:0"', "scrape: {interval: 100ms}", *more]
    return "\n".join([*lines, ""])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make a folder with a token to send and one to ask for."""
    (tmp_path / "bearer").write_text("first\n")
    (tmp_path / "token").write_text("sesame\n")
    return tmp_path


async def test_reload_by_request(engine: RawServer, folder: Path) -> None:
    """Who has the token may reload; a bad file is refused with every problem."""
    file = folder / "specgauge.yaml"
    file.write_text(config(engine, "token_file: token", "window: 30s"))
    async with (
        specgauge("serve", "--config", str(file)) as made,
        aiohttp.ClientSession(await made.listening()) as client,
    ):
        headers = {"Authorization": "Bearer sesame"}
        async with client.post("/-/reload") as response:
            assert response.status == 401
        async with client.post("/-/reload", headers=headers) as response:
            assert (response.status, await response.text()) == (200, "reloaded\n")
        assert made.told("config_reloaded") == []
        file.write_text(config(engine, "token_file: token", "window: 1", "wondow: 2s"))
        async with client.post("/-/reload", headers=headers) as response:
            problems = await response.text()
            assert response.status == 400
        assert len(problems.splitlines()) == 2
        assert "window" in problems
        assert "wondow" in problems
        assert (await scrape(str(client._base_url)))["specgauge_config_last_reload_success"] == 0
        file.write_text(config(engine, "token_file: token", "window: 40s"))
        async with client.post("/-/reload", headers=headers) as response:
            assert response.status == 200
        await made.line("config_reloaded")


async def test_reload_by_signal(engine: RawServer, folder: Path) -> None:
    """SIGHUP reads the file again, even if nothing shows that it was written."""
    file = folder / "specgauge.yaml"
    file.write_text(config(engine, "window: 30s"))
    async with specgauge("serve", "--config", str(file)) as made:
        await made.listening()
        status = file.stat()
        file.write_text(config(engine, "window: 40s"))
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
        made.process.send_signal(signal.SIGHUP)
        await made.line("config_reloaded")
        await made.line("target_up")
        await stop(made)


async def test_swapped_mount_is_noticed(engine: RawServer, folder: Path) -> None:
    """A ConfigMap is swapped as a whole, through a link; a broken one is refused."""
    file = mount(folder, "..1", config(engine, "window: 30s"))
    async with specgauge("serve", "--config", str(file)) as made:
        url = await made.listening()
        mount(folder, "..2", config(engine, "window: 40s"))
        await made.line("config_reloaded")
        mount(folder, "..3", "targets: 7\n")
        assert "targets" in await made.line("config_refused")
        assert (await scrape(url))["specgauge_config_last_reload_success"] == 0
        await stop(made)


async def test_changed_secret_is_noticed(engine: RawServer, folder: Path) -> None:
    """A new token is sent without a restart, and the totals go on."""
    file = folder / "specgauge.yaml"
    file.write_text(config(engine))
    async with specgauge("serve", "--config", str(file)) as made:
        url = await made.listening()
        await until(lambda: engine.requests and engine.header("Authorization") == "Bearer first")
        engine.script(answer(v1_page(2000)))
        await until(lambda: len(engine.requests) > 2)
        (folder / "bearer").write_text("second\n")
        await made.line("config_reloaded")
        await until(lambda: engine.header("Authorization") == "Bearer second", "the new token")
        drafts = 'specgauge_drafts_total{engine="0",model_name="small",target="spec"}'
        assert (await scrape(url))[drafts] == 1000
        await stop(made)
    assert "first" not in "".join(made.lines)
    assert "second" not in "".join(made.lines)


async def test_demo_is_the_real_sidecar() -> None:
    """The demo serves what the sidecar makes of the recording, under the target `demo`."""
    async with specgauge("demo", "--speed", "20", "--listen", "127.0.0.1:0") as made:
        url = await made.listening()
        await made.line("info speculation")
        found = await scrape(url)
        assert found['specgauge_target_up{target="demo"}'] == 1
        assert any(key.startswith("specgauge_tokens_per_step") for key in found)
        await stop(made)


async def test_port_in_use() -> None:
    """A port that is taken is one line and exit code 2."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = "127.0.0.1:{1}".format(*taken.getsockname())
        async with specgauge("serve", "--target", "http://a:1", "--listen", listen) as made:
            assert await made.end() == 2
    assert made.lines == [
        f"specgauge: listen: {listen}: the address is in use; choose another with --listen"
    ]


@pytest.mark.parametrize(
    ("arguments", "text", "expected"),
    [
        pytest.param([], None, ["targets"], id="nothing"),
        pytest.param(["--target", "ftp://a"], None, ["--target"], id="bad URL"),
        pytest.param(["--config", "missing.yaml"], None, ["missing.yaml"], id="no file"),
        pytest.param(["--config", "."], None, [".: Is a directory"], id="folder"),
        pytest.param(
            ["--config", "c.yaml", "--interval", "soon"],
            "targets: [{url: 'http://a', auth: {bearer_file: none}}]\nwindow: 5\nlisen: x\n",
            ["lisen", "bearer_file", "interval", "window"],
            id="every problem",
        ),
    ],
)
async def test_configuration_that_cannot_be_used(
    tmp_path: Path, arguments: list[str], text: str | None, expected: list[str]
) -> None:
    """Every problem is one line on stderr, the exit code is 2, and nothing was started."""
    if text is not None:
        (tmp_path / "c.yaml").write_text(text)
    placed = [str(tmp_path / one) if one.endswith(".yaml") else one for one in arguments]
    async with specgauge("serve", *placed) as made:
        assert await made.end() == 2
    assert len(made.lines) == len(expected)
    assert all(line.startswith("specgauge: ") for line in made.lines)
    for part in expected:
        assert any(part in line for line in made.lines), made.lines


async def test_environment_counts(engine: RawServer) -> None:
    """A container needs no flags: every key can be set in the environment."""
    env = {
        "SPECGAUGE_TARGETS": engine.url,
        "SPECGAUGE_LISTEN": "127.0.0.1:0",
        "SPECGAUGE_TARGETS_0_AUTH_BEARER": "from-the-environment",
        "SPECGAUGE_TARGETS_0_NAME": "spec",
    }
    async with specgauge("serve", env=env) as made:
        await made.listening()
        assert "target=spec" in await made.line("target_up")
        assert engine.header("Authorization") == "Bearer from-the-environment"
        await stop(made)


async def test_unusable_host() -> None:
    """An address that this machine does not have is refused like one that is taken."""
    listen = "192.0.2.1:0"
    async with specgauge("serve", "--target", "http://a:1", "--listen", listen) as made:
        assert await made.end() == 2
    (line,) = made.lines
    assert line.startswith(f"specgauge: listen: {listen}: ")


async def test_baseline_file_is_followed(engine: RawServer, folder: Path) -> None:
    """A baseline replaced on disk is taken; a bad one is refused whole, and the old one stays."""
    baseline = folder / "base.json"
    baseline.write_text(json.dumps(document(created="2026-01-01T00:00:00Z")))
    file = folder / "specgauge.yaml"
    file.write_text(config(engine, "baseline: {file: base.json}"))
    created = 'specgauge_baseline_created_timestamp_seconds{model_name="small",target="spec"}'

    async def known(url: str, seconds: float) -> None:
        async with asyncio.timeout(30):
            while (await scrape(url)).get(created) != seconds:  # noqa: ASYNC110 - only looking tells
                await asyncio.sleep(0.1)

    async with specgauge("serve", "--config", str(file)) as made:
        url = await made.listening()
        await known(url, 1767225600.0)
        baseline.write_text(json.dumps(document(created="2026-02-01T00:00:00Z")))
        await made.line("config_reloaded")
        await known(url, 1769904000.0)
        baseline.write_text(json.dumps(document(created="never", levels=[])))
        await made.line("config_refused", count=2)
        refused = [line.partition(" problem=")[2] for line in made.told("config_refused")]
        for line, key in zip(refused, ("created", "levels"), strict=True):
            assert f"baseline.file: {baseline}: {key}: " in line
        found = await scrape(url)
        assert found["specgauge_config_last_reload_success"] == 0
        assert found[created] == 1769904000.0
        await stop(made)


async def test_bad_baseline_at_the_start(engine: RawServer, folder: Path) -> None:
    """Every fault of a baseline file is a line under its key, the code is 2, nothing is started."""
    (folder / "base.json").write_text(json.dumps(document(created="never", levels=[])))
    file = folder / "specgauge.yaml"
    file.write_text(config(engine, "baseline: {file: base.json}"))
    async with specgauge("serve", "--config", str(file)) as made:
        assert await made.end() == 2
    start = f"specgauge: baseline.file: {folder / 'base.json'}: "
    assert [line.removeprefix(start).partition(":")[0] for line in made.lines] == [
        "created",
        "levels",
    ]
    assert engine.requests == []
