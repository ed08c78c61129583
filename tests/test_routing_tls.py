"""The rendered routers before servers that speak TLS: whom they trust, and who serves else."""

import asyncio
import json
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import trustme
from tests.calm import Measured, calmly
from tests.flag_servers import trusted
from tests.haproxies import proxying
from tests.routers import DEADLINE, Front, Server, open_to_all, routing
from tests.servers import answer, serving

from specgauge.cli.main import main
from specgauge.cli.route.settings import router_of
from specgauge.config import advice, load
from specgauge.errors import ConfigError
from specgauge.render.haproxy import haproxy
from specgauge.render.haproxy_tls import spoken_to
from specgauge.render.nginx import nginx
from specgauge.render.options import Options
from specgauge.render.router import BUNDLE, Trust

NAME = "engine.internal"
CHAT = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 500}
STREAM = CHAT | {"stream": True}
BOTH = pytest.mark.parametrize("kind", ["nginx", "haproxy"])


@asynccontextmanager
async def fronting(
    kind: str, folder: Path, speculative: Server, standard: Server
) -> AsyncIterator[Front]:
    """Run one of both routers before two pools."""
    servers = speculative, standard
    if kind == "nginx":
        async with routing("", state="", servers=servers) as front:
            yield front
    else:
        rules = "  haproxy: {sni: true}\n" if kind == "haproxy with sni" else ""
        async with proxying(folder, rules, servers=servers) as proxied:
            yield proxied.front


def secured(folder: Path, name: str, *, holds: str = NAME, expired: bool = False) -> Server:
    """Make a server, with a certificate of an authority of its own."""
    place = folder / f"{name}-tls"
    place.mkdir()
    tls, ca_file = trusted(place, name=holds, expired=expired)
    return Server(name=name, tls=tls, keys=f"ca_file: {ca_file}, server_name: {NAME}")


@pytest.mark.parametrize("kind", ["nginx", "haproxy", "haproxy with sni"])
async def test_both_pools_by_tls(kind: str, tmp_path: Path) -> None:
    """Requests arrive over connections that are kept, and chunk by chunk a stream comes back."""
    spec, plain = secured(tmp_path, "speculative"), secured(tmp_path, "standard")
    named: list[str | None] = []
    assert spec.tls is not None
    spec.tls.sni_callback = lambda _, name, __: named.append(name)

    async def scenario() -> list[Measured]:
        url, arrived = f"{front.url}/v1/chat/completions", []
        async with front.client.post(url, data=json.dumps(STREAM)) as response:
            async for chunk in response.content.iter_any():
                arrived += [time.monotonic()] * chunk.count(b'"at"')
        lags = [there - here for here, there in zip(spec.sent, arrived, strict=True)]
        return [Measured(name="any chunk", value=max(lags), low=-0.001, high=0.05)]

    async with fronting(kind, tmp_path, spec, plain) as front:
        for _ in range(20):
            went = await front.ask(CHAT)
            assert (went.status, went.server, went.pool) == (200, "speculative", "speculative")
        assert len(spec.connections) <= 3  # HAProxy's checks have one of their own
        assert (1, 1) in spec.versions
        assert set(named) == {None if kind == "haproxy" else NAME}
        await calmly(scenario)
        await spec.stop()
        assert {(await front.ask(CHAT)).server for _ in range(5)} == {"standard"}
        assert len(plain.connections) <= 3


def expired(folder: Path) -> Server:
    """Make a server whose certificate held until yesterday."""
    return secured(folder, "speculative", expired=True)


def another(folder: Path) -> Server:
    """Make a server whose certificate is somebody else's."""
    return secured(folder, "speculative", holds="other.internal")


def unknown(folder: Path) -> Server:
    """Make a server whose authority nobody knows."""
    server = secured(folder, "speculative")
    trustme.CA().cert_pem.write_to_path(str(folder / "speculative-tls" / "ca.pem"))
    return server


def unvouched(folder: Path) -> Server:
    """Make a server whose authority the system does not know; none is named."""
    server = secured(folder, "speculative")
    server.keys = f"server_name: {NAME}"
    return server


def plain_http(folder: Path) -> Server:
    """Make a server that speaks no TLS where the router expects it."""
    server = secured(folder, "speculative")
    server.tls = None
    return server


def wary(folder: Path) -> Server:
    """Make a server that wants a certificate of its clients, who show none."""
    server = secured(folder, "speculative")
    assert server.tls is not None
    server.tls.verify_mode = ssl.CERT_REQUIRED
    return server


@BOTH
@pytest.mark.parametrize("made", [expired, another, unknown, unvouched, plain_http, wary])
async def test_a_server_that_cannot_be_trusted_is_as_good_as_dead(
    kind: str, made: object, tmp_path: Path
) -> None:
    """No request fails, none reaches it, and the plain standard pool serves them all."""
    assert callable(made)
    spec = made(tmp_path)
    async with fronting(kind, tmp_path, spec, Server(name="standard")) as front:
        went = [await front.ask(body) for body in (CHAT, STREAM, CHAT, b"x" * 2_000_000)]
        went += await asyncio.gather(*(front.ask(CHAT) for _ in range(16)))
        assert {(one.status, one.server, one.pool) for one in went} == {
            (200, "standard", "standard")
        }
        assert spec.asked == 0
        (line, *_) = await front.log(20)
        assert (line["pool"], line["served_pool"]) == ("speculative", "standard")


@BOTH
@pytest.mark.parametrize("turned", [expired, another, unknown])
async def test_a_certificate_turns_bad_under_way(kind: str, turned: object, tmp_path: Path) -> None:
    """The requests that find it out are served by the standard pool, all at once as well."""
    assert callable(turned)
    (tmp_path / "bad").mkdir()
    spec, bad = secured(tmp_path, "speculative"), turned(tmp_path / "bad")
    ours, theirs = (one / "speculative-tls" / "ca.pem" for one in (tmp_path, tmp_path / "bad"))
    ours.write_bytes(ours.read_bytes() + theirs.read_bytes())
    async with fronting(kind, tmp_path, spec, Server(name="standard")) as front:
        async with asyncio.timeout(DEADLINE):
            while (await front.ask(CHAT)).server != "speculative":
                pass  # a check has yet to pass
        asked, good = spec.asked, spec.tls
        await spec.stop()
        spec.tls = bad.tls
        await spec.start()
        went = await asyncio.gather(*(front.ask(CHAT) for _ in range(10)))
        assert {(one.status, one.server) for one in went} == {(200, "standard")}
        assert spec.asked == asked
        if turned is not another:
            return
        await spec.stop()
        spec.tls = good
        await spec.start()
        async with asyncio.timeout(DEADLINE):
            while (await front.ask(CHAT)).server != "speculative":  # noqa: ASYNC110 - asking tells
                await asyncio.sleep(0.05)
        assert b"[DONE]" in (await front.ask(STREAM)).body


@BOTH
async def test_a_plain_pool_fails_over_to_one_by_tls(kind: str, tmp_path: Path) -> None:
    """The schemes of the pools have nothing to do with each other."""
    spec = Server(name="speculative")
    async with fronting(kind, tmp_path, spec, secured(tmp_path, "standard")) as front:
        assert (await front.ask(CHAT)).server == "speculative"
        spec.mode = "slam"
        assert {(await front.ask(CHAT)).server for _ in range(5)} == {"standard"}


@BOTH
@pytest.mark.parametrize("apart", [True, False], ids=["key apart", "key within"])
async def test_a_client_certificate_is_shown(kind: str, *, apart: bool, tmp_path: Path) -> None:
    """A server that wants to know its clients is shown the certificate, and serves."""
    spec, authority = secured(tmp_path, "speculative"), trustme.CA()
    assert spec.tls is not None
    authority.configure_trust(spec.tls)
    spec.tls.verify_mode = ssl.CERT_REQUIRED
    mine, file = authority.issue_cert("router.internal"), tmp_path / "router.pem"
    mine.cert_chain_pems[0].write_to_path(str(file))
    mine.private_key_pem.write_to_path(
        str(tmp_path / "router.pem.key") if apart else str(file), append=not apart
    )
    key = f", key_file: {file}.key" if apart else ""
    spec.keys += f", cert_file: {file}{key}"
    async with fronting(kind, tmp_path, spec, Server(name="standard")) as front:
        assert (await front.ask(CHAT)).server == "speculative"


def told(*, flag: bool) -> bytes:
    """Say what the sidecar says."""
    state = {"flag": flag, "loads": {"4:3": flag}, "age": 0.0}
    return answer(json.dumps(state).encode(), "Cache-Control: max-age=1, stale-if-error=5")


async def test_nginx_obeys_a_sidecar_by_tls(tmp_path: Path) -> None:
    """A flag that is told over TLS is obeyed within three seconds."""
    tls, ca_file = trusted(tmp_path, name=NAME)
    trust = f"  state_tls: {{ca_file: {ca_file}, server_name: {NAME}}}\n"

    async def scenario() -> list[Measured]:
        async with (
            serving(told(flag=True), tls=tls) as sidecar,
            routing(trust, state=sidecar.url) as front,
        ):
            assert (await front.ask(CHAT)).server == "speculative"
            assert sidecar.header("Host") == NAME
            sidecar.script(told(flag=False))
            begun = time.monotonic()
            while (await front.ask(CHAT)).server != "standard":  # noqa: ASYNC110 - asking tells
                await asyncio.sleep(0.02)
            taken = time.monotonic() - begun
            assert (await front.log(1))[-1]["reason"] == "flag_off"
            return [Measured(name="obeyed", value=taken, low=0.0, high=3.0)]

    await calmly(scenario)


async def test_nginx_does_not_hear_a_sidecar_that_is_not_to_be_trusted(tmp_path: Path) -> None:
    """What somebody else says of the flag is as if nothing had been said; requests are served."""
    tls, ca_file = trusted(tmp_path, name="other.internal")
    trust = f"  state_tls: {{ca_file: {ca_file}, server_name: {NAME}}}\n"
    async with (
        serving(told(flag=True), tls=tls) as sidecar,
        routing(trust, state=sidecar.url) as front,
    ):
        assert (await front.ask(CHAT)).server == "standard"
        assert [line["reason"] for line in await front.log(1)] == ["flag_unknown"]
        assert sidecar.requests == []


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        pytest.param(NAME, "fallback", id="it"),
        pytest.param("other.internal", "load_unknown", id="no"),
    ],
)
async def test_haproxy_asks_by_tls(name: str, reason: str, tmp_path: Path) -> None:
    """The load is told over TLS as well; who is not to be trusted knows no load."""
    open_to_all(tmp_path)
    tls, ca_file = trusted(tmp_path, name=NAME)
    async with serving(told(flag=True), tls=tls) as sidecar:
        rules = (
            "  decode_concurrency: {at_most: 4, resume: 3}\n"
            f"  state_url: {sidecar.url}\n"
            f"  state_tls: {{ca_file: {ca_file}, server_name: {name}}}\n"
        )
        async with proxying(tmp_path, rules) as proxied, asyncio.timeout(DEADLINE):
            lines, found = 0, ""
            while found != reason or (name == NAME and not sidecar.requests):
                await proxied.front.ask(CHAT)
                lines += 1
                found = (await proxied.front.log(lines))[-1]["reason"]
            if name == NAME:
                assert sidecar.header("Host") == NAME


FAULTS = {
    "missing": ("ca_file: none.pem", "ca_file: {folder}/none.pem: No such file or directory; give"),
    "no certificate": (
        "ca_file: empty.pem",
        "ca_file: {folder}/empty.pem: holds no certificate, or",
    ),
    "no client": (
        "cert_file: empty.pem",
        "cert_file: {folder}/empty.pem: no certificate with the key in {folder}/empty.pem; give",
    ),
    "another key": (
        "cert_file: mine.pem, key_file: other.pem",
        "cert_file: {folder}/mine.pem: no certificate with the key in {folder}/other.pem; give",
    ),
}


@pytest.mark.parametrize("command", ["check", "nginx", "haproxy"])
@pytest.mark.parametrize(("keys", "says"), FAULTS.values(), ids=FAULTS.keys())
def test_files_that_cannot_be_used(
    command: str, keys: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each is one line with its key, its place and what to do; the sidecar does not mind."""
    authority, file = trustme.CA(), tmp_path / "specgauge.yaml"
    (tmp_path / "empty.pem").write_text("nothing\n")
    for name in ("mine", "other"):
        pem = authority.issue_cert(f"{name}.internal").private_key_and_cert_chain_pem
        pem.write_to_path(str(tmp_path / f"{name}.pem"))
    for place, text in (
        (
            "pools.standard.tls",
            f"pools: {{standard: {{servers: ['https://a:1'], tls: {{{keys}}}}}}}",
        ),
        ("state_tls", f"state_url: 'https://a:1', state_tls: {{{keys}}}"),
    ):
        file.write_text(f"targets: [{{url: 'http://127.0.0.1:1'}}]\nrouting: {{{text}}}\n")
        load(file, env={}, overrides={})
        render = ["render", command, "--config", str(file), "--output", str(tmp_path)]
        code = main(["config", "check", str(file)] if command == "check" else render)
        said = capsys.readouterr()
        (line,) = said.err.splitlines()
        assert f"routing.{place}.{says.format(folder=tmp_path)}" in line
        assert (code, said.out) == (2, "")


def test_names_of_a_pool(tmp_path: Path) -> None:
    """HAProxy looks for each server's own name; nginx knows but one, and says so."""
    file = tmp_path / "specgauge.yaml"
    file.write_text(
        "targets: [{url: 'http://127.0.0.1:1'}]\nrouting:\n  pools:\n"
        "    speculative: {servers: ['https://a.internal:1', 'https://b.internal:1']}\n"
        "    standard: {servers: ['https://c.internal:1', 'https://c.internal:2']}\n"
    )
    config = load(file, env={}, overrides={})
    options = Options(router=router_of(config))
    (made,) = haproxy(options)
    bundle = f"ca-file '{BUNDLE}'"
    for name in "abc":
        told = f"ssl ssl-min-ver TLSv1.2 verify required {bundle} verifyhost {name}.internal"
        assert f" {name}.internal:1 {told} " in made.text
    with pytest.raises(ConfigError, match=r"speculative\.tls\.server_name: .* a\.internal, b\."):
        tuple(nginx(options))
    (line,) = (one for one in advice(config) if "server_name" in one)
    assert line.startswith("routing.pools.speculative.tls.server_name: none, and its servers have")


def test_where_haproxy_looks_for_a_key() -> None:
    """A client's key that lies where HAProxy does not look is an error, not a surprise."""
    trust = Trust(name="a", cert="/c.pem", key="/k.pem")
    assert spoken_to("a:1", replace(trust, key="/c.pem.key"), key="tls", sni=False).endswith(
        "crt '/c.pem'"
    )
    with pytest.raises(ConfigError, match=r"tls\.key_file: /k\.pem: .* /c\.pem\.key; put it there"):
        spoken_to("a:1", trust, key="tls", sni=False)


@pytest.mark.parametrize(
    ("apart", "able", "unable"),
    [
        ("servers: ['https://a.internal:1', 'https://b.internal:1']", "haproxy", "nginx"),
        (
            "servers: ['https://a.internal:1'], tls: {cert_file: c.pem, key_file: k.pem}",
            "nginx",
            "haproxy",
        ),
    ],
    ids=["several names", "key elsewhere"],
)
def test_what_only_one_router_can_do(
    apart: str, able: str, unable: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A router is made whatever the other one cannot do, and so is all that is no router."""
    mine = trustme.CA().issue_cert("client.internal")
    mine.cert_chain_pems[0].write_to_path(tmp_path / "c.pem")
    mine.private_key_pem.write_to_path(tmp_path / "k.pem")
    file = tmp_path / "specgauge.yaml"
    file.write_text(f"routing: {{pools: {{speculative: {{{apart}}}}}}}\n")

    def rendered(kind: str) -> int:
        return main(["render", kind, "--config", str(file), "--output", str(tmp_path / kind)])

    assert [rendered(able), rendered("rules")] == [0, 0], capsys.readouterr().err
    assert rendered(unable) == 2
    assert not (tmp_path / unable).exists()
