"""The webhook's preset `unleash` against Unleash's real server, through the writer that writes."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.real.unleash import ADMIN, CLIENT, Unleash, running

from specgauge.guard.flags.protocol import FlagError, WriteResult
from specgauge.guard.flags.webhook import Webhook
from specgauge.guard.flags.webhook_plan import WebhookTerms
from specgauge.guard.flags.writer import Attempt, FlagWriter

pytestmark = pytest.mark.unleash

FLAG = "speculative_decoding_enabled"
WRONG = "*:*.wrongwrongwrongwrong"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Unleash]:
    """Run one Unleash for all tests of this file, with one flag that is off."""
    with running(tmp_path_factory.mktemp("unleash")) as unleash:
        unleash.create(FLAG)
        yield unleash


@pytest.fixture
def unleash(server: Unleash) -> Unleash:
    """Give the server with its flag off in both environments."""
    for environment in ("development", "production"):
        server.ask("POST", f"/{FLAG}/environments/{environment}/off")
    return server


def webhook(
    unleash: Unleash, folder: Path, *, token: str = ADMIN, key: str = FLAG, environment: str = ""
) -> Webhook:
    """Open the backend as a configuration with no more than the preset would."""
    file = folder / "token"
    file.write_text(f"{token}\n")
    terms = WebhookTerms(
        preset="unleash",
        url=unleash.url,
        token_file=str(file),
        environment=environment or "production",
    )
    return Webhook(terms, key=key, timeout=30.0)


class Writing:
    """The real writer, what it said of its attempts, and what it saw others do."""

    def __init__(self, backend: Webhook, *, check_interval: float) -> None:
        self.attempts: asyncio.Queue[Attempt] = asyncio.Queue()
        self.elsewhere: asyncio.Queue[bool | None] = asyncio.Queue()
        self.writer = FlagWriter(
            backend,
            timeout=30.0,
            check_interval=check_interval,
            on_attempt=self.attempts.put_nowait,
            on_changed_elsewhere=self.elsewhere.put_nowait,
        )

    async def want(self, *, on: bool) -> Attempt:
        """Want a value and wait for what comes of it first."""
        self.writer.want(on=on)
        async with asyncio.timeout(60.0):
            return await self.attempts.get()


@asynccontextmanager
async def writing(backend: Webhook, *, check_interval: float = 30.0) -> AsyncIterator[Writing]:
    """Run the writer over a backend."""
    made = Writing(backend, check_interval=check_interval)
    made.writer.start()
    try:
        yield made
    finally:
        await made.writer.close()


async def test_flag_goes_on_and_off_and_is_read_back(unleash: Unleash, tmp_path: Path) -> None:
    """Each wish is written once, confirmed by reading back, and what Unleash says itself."""
    async with writing(webhook(unleash, tmp_path)) as ours:
        assert await ours.writer.look() is False
        for on in (True, False, True):
            attempt = await ours.want(on=on)
            assert (attempt.result, attempt.wrote, attempt.on_the_word) == ("ok", True, False)
            assert unleash.enabled(FLAG, "production") is on
            view = ours.writer.view()
            assert (view.desired, view.confirmed, view.last_error) == (on, on, "")
        assert ours.writer.view().attempts[WriteResult.OK] == 3
    assert not unleash.enabled(FLAG, "development")


async def test_what_is_so_already_is_not_written(unleash: Unleash, tmp_path: Path) -> None:
    """A writer that finds the flag as it is wanted writes nothing; a second write does no harm."""
    backend = webhook(unleash, tmp_path)
    for _ in range(2):
        assert await backend.write(on=True) is None
        assert await backend.read() is True
    async with writing(webhook(unleash, tmp_path)) as ours:
        attempt = await ours.want(on=True)
        assert (attempt.result, attempt.wrote) == (WriteResult.OK, False)
        assert ours.writer.view().confirmed is True
        assert sum(ours.writer.view().attempts.values()) == 0


async def test_one_environment_is_changed(unleash: Unleash, tmp_path: Path) -> None:
    """The flag is one for each environment, and the one that is named is the one that moves."""
    async with writing(webhook(unleash, tmp_path, environment="development")) as ours:
        assert (await ours.want(on=True)).result is WriteResult.OK
    assert unleash.enabled(FLAG, "development")
    assert not unleash.enabled(FLAG, "production")


REFUSALS = [
    pytest.param(WRONG, FLAG, WriteResult.UNAUTHORIZED, id="wrong token"),
    pytest.param(CLIENT, FLAG, WriteResult.FORBIDDEN, id="client token"),
    pytest.param(ADMIN, "no_such_flag", WriteResult.NOT_FOUND, id="unknown flag"),
]


@pytest.mark.parametrize(("token", "key", "result"), REFUSALS)
async def test_refusals_are_told_apart(
    unleash: Unleash, tmp_path: Path, token: str, key: str, result: WriteResult
) -> None:
    """A refusal is counted under its status, names no token, leaves the flag and stays wanted."""
    backend = webhook(unleash, tmp_path, token=token, key=key)
    async with writing(backend) as ours:
        attempt = await ours.want(on=True)
        view = ours.writer.view()
    assert (attempt.result, view.attempts[result], view.desired) == (result, 1, True)
    assert view.confirmed is not True
    assert view.pending_since is not None
    assert token.rpartition(".")[2] not in f"{attempt.detail} {view.last_error} {view.read_error}"
    assert not unleash.enabled(FLAG, "production")


async def test_client_token_cannot_read_back(unleash: Unleash, tmp_path: Path) -> None:
    """The read-back is an admin call as well: a token that may only evaluate is refused."""
    with pytest.raises(FlagError) as caught:
        await webhook(unleash, tmp_path, token=CLIENT).read()
    assert caught.value.result is WriteResult.FORBIDDEN


async def test_a_change_elsewhere_is_told(unleash: Unleash, tmp_path: Path) -> None:
    """Somebody who toggles the flag in Unleash is noticed at the next look, and not fought."""
    async with writing(webhook(unleash, tmp_path), check_interval=0.1) as ours:
        assert (await ours.want(on=True)).result is WriteResult.OK
        unleash.ask("POST", f"/{FLAG}/environments/production/off")
        async with asyncio.timeout(60.0):
            assert await ours.elsewhere.get() is False
        await ours.writer.close()
        assert ours.writer.view().attempts[WriteResult.OK] == 1
    assert not unleash.enabled(FLAG, "production")
