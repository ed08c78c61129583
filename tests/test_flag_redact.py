"""What an error may repeat of a server's words: never a secret, however the server writes it."""

import base64
import html
import json
import re
from collections.abc import Callable
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.flag_servers import Asked, Reply, flag_server

from specgauge.guard.flags.etcd import Etcd, EtcdTerms
from specgauge.guard.flags.kubernetes import Kubernetes, KubernetesTerms
from specgauge.guard.flags.protocol import FlagBackend, FlagError
from specgauge.guard.flags.redact import MASK, RUN, WITHHELD, excerpt
from specgauge.guard.flags.webhook import Webhook
from specgauge.guard.flags.webhook_plan import WebhookTerms
from specgauge.guard.settings import PrometheusSettings
from specgauge.serve.fleet_answer import FleetError
from specgauge.serve.fleet_api import PrometheusApi

TOKEN = "tok&\"k9/+aB<'z=%é"

WAYS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "json": json.dumps,
    "json without ascii": lambda text: json.dumps(text, ensure_ascii=False),
    "json of json": lambda text: json.dumps(json.dumps(text)),
    "every letter as json": lambda text: "".join(f"\\u{ord(one):04x}" for one in text),
    "repr": repr,
    "url": lambda text: quote(text, safe=""),
    "url twice": lambda text: quote(quote(text, safe=""), safe=""),
    "every letter as url": lambda text: "".join(f"%{one:02x}" for one in text.encode()),
    "html": html.escape,
    "html in json": lambda text: json.dumps(html.escape(text)),
    "every letter as html": lambda text: "".join(f"&#{ord(one)};" for one in text),
    "every letter as html, hex": lambda text: "".join(f"&#x{ord(one):x};" for one in text),
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 for urls": lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
    "base64 in lines": lambda text: base64.encodebytes(text.encode() * 3).decode(),
    "base64 behind more": lambda text: base64.b64encode(b"id:" + text.encode()).decode(),
    "base64 behind a word": lambda text: base64.b64encode(b"Bearer " + text.encode()).decode(),
    "hex": lambda text: text.encode().hex(),
    "shouted": str.upper,
    "latin": lambda text: text.encode().decode("latin-1"),
    "halves in two lines": lambda text: f"{text[: len(text) // 2]}\n{text[len(text) // 2 :]}",
    "a letter a line": "\r\n".join,
    "threes apart": lambda text: _apart(re.findall(r"[^\W_]{1,3}", text)),
    "cut short": lambda text: text[:-3] if len(text) > RUN + 3 else text,
    "its end": lambda text: text[-RUN:],
    "far behind": lambda text: "x" * 190 + text,
}


def _apart(pieces: list[str]) -> str:
    """Part letters and digits, where there are enough of them to tell anything."""
    return " - ".join(pieces) if len("".join(pieces)) >= RUN else ""


TOKENS = st.text(
    st.characters(min_codepoint=33, max_codepoint=0x24F, exclude_categories=["Cc", "Cf", "Zs"]),
    min_size=8,
    max_size=60,
)
SENT = st.from_regex(r"[A-Za-z0-9._~+/=&<>\"'%-]{8,80}", fullmatch=True)


def runs(secret: str, length: int = RUN) -> set[str]:
    """Give every run of so many characters."""
    return {secret[at : at + length] for at in range(len(secret) - length + 1)}


def leaked(shown: str, secret: str, way: Callable[[str], str]) -> set[str]:
    """Give the runs that are left, of the secret and of how it was written."""
    left = shown.replace(MASK, " ").replace(WITHHELD, " ").strip("x ")
    written = {run for run in runs(way(secret), 12) if run.strip("x")}
    return {run for run in runs(secret) | written if run in left}


@pytest.mark.parametrize("way", [pytest.param(way, id=name) for name, way in WAYS.items()])
def test_no_form_is_repeated(way: Callable[[str], str]) -> None:
    """Whatever the server makes of what it was sent, no run of it is in the error."""

    @settings(max_examples=150, database=None, deadline=None)
    @given(secret=st.one_of(TOKENS, SENT), before=st.sampled_from(["", "bad token: ", '{"err": "']))
    def hold(secret: str, before: str) -> None:
        shown = excerpt(f"{before}{way(secret)} is unknown", {secret})
        assert not leaked(shown, secret, way)

    hold()
    assert not leaked(excerpt(way(TOKEN), {TOKEN}), TOKEN, way)


@pytest.mark.parametrize(
    ("text", "secrets", "shown"),
    [
        pytest.param("no such  flag\n", {TOKEN}, "no such flag", id="nothing of it"),
        pytest.param("bad tok-4711!", {"tok-4711"}, f"bad {MASK}!", id="plain"),
        pytest.param("bad tok-47", {"tok-4711"}, WITHHELD, id="cut short"),
        pytest.param("key ab12, ok", {"ab12"}, f"key {MASK}, ok", id="a short one"),
        pytest.param("key %61b12, ok", {"ab12"}, WITHHELD, id="a short one as a URL has it"),
        pytest.param("bad a%62cdefg", {"abcdefg"}, WITHHELD, id="in doubt"),
        pytest.param("a\x1b[0mb", set(), "a?[0mb", id="control characters"),
        pytest.param("y " * 300, set(), ("y " * 100)[:199] + "…", id="long"),
        pytest.param("\\101bcd\\145fg \\", {"Abcdefg"}, WITHHELD, id="octal"),
        pytest.param("nothing", {""}, "nothing", id="no secret"),
    ],
)
def test_what_is_shown(text: str, secrets: set[str], shown: str) -> None:
    """What is no secret is told, in one short line."""
    assert excerpt(text, secrets) == shown


async def shown_by(backend: FlagBackend) -> str:
    """Give the words of the error that a write raises."""
    with pytest.raises(FlagError) as caught:
        await backend.write(on=False)
    await backend.close()
    return caught.value.detail


@pytest.mark.parametrize("way", [pytest.param(way, id=name) for name, way in WAYS.items()])
@pytest.mark.parametrize("name", ["webhook", "etcd", "kubernetes", "prometheus"])
async def test_no_backend_repeats_its_token(way: Callable[[str], str], name: str) -> None:
    """Errors of whatever speaks HTTP repeat no form of the token, of a header or of a query."""
    token, header, query = "tok-b9x&k3/Zq==", "hdr-Q8&w'7y", "qry-5rT0pL2m"

    def answer(asked: Asked) -> Reply:
        said = " ".join(map(way, sent))
        if name == "prometheus":
            return Reply(document={"status": "error", "errorType": "x", "error": said})
        return Reply(status=500, text=f"denied: {said}")

    sent = (token, header, query) if name == "webhook" else (token,)
    async with flag_server(answer) as server:
        detail = await _failure(name, server.url, token, header, query)
    for secret in sent:
        assert not leaked(detail, secret, way)


async def _failure(name: str, url: str, token: str, header: str, query: str) -> str:
    if name == "prometheus":
        api = PrometheusApi(PrometheusSettings(url=url, token=token))
        with pytest.raises(FleetError) as caught:
            await api.query("up")
        return str(caught.value)
    if name == "etcd":
        return await shown_by(Etcd(EtcdTerms(url=url, key="k", token=token)))
    if name == "kubernetes":
        terms = KubernetesTerms(api=url, configmap="c", token=token)
        return await shown_by(Kubernetes(terms, key="k"))
    made = WebhookTerms(url=f"{url}/f?key={query}", token=token, headers={"X-Api-Key": header})
    return await shown_by(Webhook(made, key="k"))


async def test_values_in_answers_are_quoted_with_care() -> None:
    """A store that holds the token as its value does not have it told either."""
    token = "tok-b9xk3Zq"

    def etcd(_: Asked) -> Reply:
        value = base64.b64encode(token.encode()).decode()
        kvs = [{"value": value, "mod_revision": "3"}]
        return Reply(document={"header": {}, "kvs": kvs})

    def kubernetes(_: Asked) -> Reply:
        return Reply(document={"kind": "ConfigMap", "metadata": {}, "data": {"k": token}})

    for answer in (etcd, kubernetes):
        async with flag_server(answer) as server:
            backend: FlagBackend = Etcd(EtcdTerms(url=server.url, key="k", token=token))
            if answer is kubernetes:
                terms = KubernetesTerms(api=server.url, configmap="c", token=token)
                backend = Kubernetes(terms, key="k")
            with pytest.raises(FlagError) as caught:
                await backend.read()
            assert MASK in caught.value.detail
            assert not leaked(caught.value.detail, token, str)
