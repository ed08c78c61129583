"""What a webhook sends, what it takes for an answer, and which terms it refuses."""

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from tests.flag_servers import Asked, Reply, always, by_method, flag_server, in_turn

from specgauge.errors import ConfigError
from specgauge.guard.flags.presets import PRESETS
from specgauge.guard.flags.protocol import FlagError, WriteResult
from specgauge.guard.flags.template import Values, compile_template, fill, fill_url
from specgauge.guard.flags.webhook import Webhook, faults
from specgauge.guard.flags.webhook_plan import WebhookTerms

KEY = "speculative_decoding_enabled"


def webhook(url: str, *, key: str = KEY, reason: str = "it costs", **terms: Any) -> Webhook:
    """Open a webhook on these terms."""
    return Webhook(WebhookTerms(url=url, **terms), key=key, timeout=5.0, reason=lambda: reason)


Document = Callable[[bool], object]
CALLS: Mapping[str, tuple[str, str, Document]] = {
    "playbook": ("POST /api/v1/flags", "POST /api/v1/flags", lambda on: {KEY: on}),
    "unleash": (
        f"POST /api/admin/projects/p/features/{KEY}/environments/e/on",
        f"POST /api/admin/projects/p/features/{KEY}/environments/e/off",
        lambda _: None,
    ),
    "launchdarkly": (
        f"PATCH /api/v2/flags/p/{KEY}",
        f"PATCH /api/v2/flags/p/{KEY}",
        lambda on: {
            "environmentKey": "e",
            "comment": "it costs",
            "instructions": [{"kind": "turnFlagOn" if on else "turnFlagOff"}],
        },
    ),
    "growthbook": (
        f"POST /api/v2/features/{KEY}/toggle",
        f"POST /api/v2/features/{KEY}/toggle",
        lambda on: {"reason": "it costs", "environments": {"e": on}},
    ),
    "consul": (f"PUT /v1/kv/{KEY}", f"PUT /v1/kv/{KEY}", lambda on: on),
}
TOKENS = {
    "playbook": ("Authorization", "Bearer t0ken"),
    "unleash": ("Authorization", "t0ken"),
    "launchdarkly": ("Authorization", "t0ken"),
    "growthbook": ("Authorization", "Bearer t0ken"),
    "consul": ("X-Consul-Token", "t0ken"),
}


@pytest.mark.parametrize("on", [True, False], ids=["on", "off"])
@pytest.mark.parametrize("preset", PRESETS)
async def test_preset_writes(tmp_path: Any, preset: str, on: bool) -> None:
    """Each preset makes the one call of its system, with the token where that looks for it."""
    token = tmp_path / "token"
    token.write_text("t0ken\n")
    async with flag_server(always(Reply(document=preset == "consul" or None))) as server:
        backend = webhook(
            server.url, preset=preset, project="p", environment="e", token_file=str(token)
        )
        await backend.write(on)
        await backend.close()
        asked = server.asked[0]
    on_call, off_call, document = CALLS[preset]
    assert f"{asked.method} {asked.path}" == (on_call if on else off_call)
    assert (asked.json() if asked.body else None) == document(on)
    header, value = TOKENS[preset]
    assert asked.headers[header] == value


async def test_playbook_body_to_the_byte() -> None:
    """The playbook's endpoint gets its own body and nothing else."""
    async with flag_server(always(Reply())) as server:
        await webhook(server.url, preset="playbook").write(on=False)
        asked = server.asked[0]
    assert asked.body == b'{"speculative_decoding_enabled": false}'
    assert asked.headers["Content-Type"] == "application/json"


async def test_launchdarkly_semantic_patch() -> None:
    """A semantic patch is one by its content type."""
    async with flag_server(always(Reply())) as server:
        await webhook(server.url, preset="launchdarkly").write(on=False)
        kind = server.asked[0].headers["Content-Type"]
    assert kind == "application/json; domain-model=launchdarkly.semanticpatch"


def consul_value(text: str) -> object:
    return [{"Key": KEY, "Value": base64.b64encode(text.encode()).decode(), "ModifyIndex": 7}]


@pytest.mark.parametrize(
    ("preset", "path", "document", "value"),
    [
        pytest.param(
            "unleash",
            f"/api/admin/projects/p/features/{KEY}/environments/a%2Fb",
            {"name": KEY, "enabled": False},
            False,
            id="unleash",
        ),
        pytest.param(
            "launchdarkly",
            f"/api/v2/flags/p/{KEY}?env=a%2Fb",
            {"key": KEY, "environments": {"a/b": {"on": True}}},
            True,
            id="launchdarkly",
        ),
        pytest.param(
            "growthbook",
            f"/api/v2/features/{KEY}",
            {"feature": {"environments": {"a/b": {"enabled": False}}}},
            False,
            id="growthbook",
        ),
        pytest.param("consul", f"/v1/kv/{KEY}", consul_value("true"), True, id="consul"),
        pytest.param("consul", f"/v1/kv/{KEY}", consul_value("off\n"), False, id="consul text"),
        pytest.param("consul", f"/v1/kv/{KEY}", [{"Value": None}], None, id="consul empty"),
    ],
)
async def test_preset_reads(preset: str, path: str, document: object, value: bool | None) -> None:
    """Each preset reads back where its system holds the value, names with a slash included."""
    async with flag_server(always(Reply(document=document))) as server:
        backend = webhook(server.url, preset=preset, project="p", environment="a/b")
        assert backend.can_read
        assert await backend.read() is value
        assert server.calls() == [f"GET {path}"]


async def test_consul_key_that_was_never_set() -> None:
    """A key that Consul does not know was never set; elsewhere an unknown flag is an error."""
    async with flag_server(always(Reply(status=404))) as server:
        assert await webhook(server.url, preset="consul").read() is None
        with pytest.raises(FlagError, match=r"^404"):
            await webhook(server.url, preset="unleash").read()


async def test_consul_says_no() -> None:
    """Consul answers 200 and `false` where it did not take the value."""
    async with flag_server(always(Reply(document=False))) as server:
        with pytest.raises(FlagError, match=r"refused: PUT .* did not take it"):
            await webhook(server.url, preset="consul").write(on=True)


async def test_consul_raw() -> None:
    """A preset's reading can be replaced: here by the raw value."""
    async with flag_server(always(Reply(text="false"))) as server:
        backend = webhook(
            server.url, preset="consul", read_url="/v1/kv/<< flag >>?raw", read_value=""
        )
        assert await backend.read() is False
        assert server.calls() == [f"GET /v1/kv/{KEY}?raw"]


async def test_preset_fields_can_be_replaced() -> None:
    """Whatever a preset says gives way to what was configured."""
    async with flag_server(always(Reply(status=299, document={"x": True}))) as server:
        backend = webhook(
            server.url,
            preset="playbook",
            method="put",
            headers={"content-type": "application/vnd.flags+json", "X-Team": "a"},
            body='{"v": << enabled | tojson >>}',
            expect_status=(299,),
            read_url=f"{server.url}/state?of=<< flag >>",
            read_method="post",
            read_value="a.b",
        )
        assert await backend.write(on=True) is None
        with pytest.raises(FlagError, match=r"^unreadable: .*answered 299"):
            await backend.read()
    write, read = server.asked
    assert (write.method, write.path, write.body) == ("PUT", "/api/v1/flags", b'{"v": true}')
    assert write.headers.getall("Content-Type") == ["application/vnd.flags+json"]  # type: ignore[attr-defined]
    assert write.headers["X-Team"] == "a"
    assert (read.method, read.path) == ("POST", f"/state?of={KEY}")


async def test_url_with_the_path_of_the_preset() -> None:
    """Who writes the whole address beside a preset is understood."""
    async with flag_server(always(Reply())) as server:
        backend = webhook(f"{server.url}/api/v1/flags", preset="playbook")
        await backend.write(on=True)
        assert server.calls() == ["POST /api/v1/flags"]
    assert backend.place == f"{server.url}/api/v1/flags"


async def test_webhook_of_ones_own() -> None:
    """Without a preset URL and body are templates, and a value cannot change the URL's shape."""
    async with flag_server(always(Reply())) as server:
        backend = webhook(
            f"{server.url}/x/<< flag >>/<% if enabled %>start<% else %>stop<% endif %>?t=secret",
            key="a/b?c",
            body="",
        )
        await backend.write(on=False)
        assert server.calls() == ["POST /x/a%2Fb%3Fc/stop?t=secret"]
        assert server.asked[0].body == b""
        assert not backend.can_read
        assert "secret" not in backend.place


async def test_body_without_a_template() -> None:
    """Who names a URL alone gets a plain document."""
    async with flag_server(always(Reply())) as server:
        await webhook(server.url, key='q"', reason="a\n<b>").write(on=True)
        assert server.asked[0].json() == {"flag": 'q"', "enabled": True, "reason": "a\n<b>"}


# What a 200 is worth: (write answer, read answer or None, stated or failure, read or failure)
STILL_ON = Reply(document={KEY: True})
NOW_OFF = Reply(document={KEY: False})


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        pytest.param(
            Reply(text="<html>ok</html>", headers={"Content-Type": "text/html"}),
            WriteResult.UNREADABLE,
            id="html",
        ),
        pytest.param(Reply(text="<html>"), WriteResult.UNREADABLE, id="html without its name"),
        pytest.param(STILL_ON, WriteResult.UNVERIFIED, id="answers that nothing changed"),
        pytest.param(Reply(document={}), None, id="says nothing"),
        pytest.param(Reply(document={"other": True}), None, id="another flag"),
        pytest.param(Reply(status=204), None, id="no content"),
        pytest.param(Reply(text="OK"), None, id="a word"),
        pytest.param(NOW_OFF, False, id="answers the new value"),
        pytest.param(Reply(document={KEY: "off"}), False, id="in words"),
        pytest.param(
            Reply(status=301, headers={"Location": "https://flags.invalid/api/v1/flags"}),
            WriteResult.REDIRECT,
            id="redirect",
        ),
    ],
)
async def test_answer_to_a_write(reply: Reply, outcome: WriteResult | bool | None) -> None:
    """A good status is not enough: an answer may say that it is none."""
    async with flag_server(always(reply)) as server:
        backend = webhook(server.url, preset="playbook")
        if isinstance(outcome, WriteResult):
            with pytest.raises(FlagError) as caught:
                await backend.write(on=False)
            assert caught.value.result is outcome
        else:
            assert await backend.write(on=False) is outcome


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        pytest.param(Reply(document={}), "holds no speculative_decoding_enabled", id="absent"),
        pytest.param(Reply(document=[]), "holds no speculative_decoding_enabled", id="a list"),
        pytest.param(Reply(document={KEY: "maybe"}), "none of true, false", id="no boolean"),
        pytest.param(Reply(document={KEY: {}}), "none of true, false", id="an object"),
        pytest.param(Reply(text="<html>"), "HTML", id="html"),
        pytest.param(Reply(text="off"), "not JSON", id="a word"),
    ],
)
async def test_reading_fails(reply: Reply, words: str) -> None:
    """What cannot be understood is not taken for a value."""
    async with flag_server(always(reply)) as server:
        backend = webhook(server.url, preset="playbook", read_url="/api/v1/flags")
        with pytest.raises(FlagError, match=r"^unreadable") as caught:
            await backend.read()
    assert words in caught.value.detail


async def test_consul_value_that_is_no_base64() -> None:
    """A value that was not encoded as the store says is not guessed at."""
    async with flag_server(always(Reply(document=[{"Value": "true!"}]))) as server:
        with pytest.raises(FlagError, match=r"not base64"):
            await webhook(server.url, preset="consul").read()


async def test_reading_without_a_url() -> None:
    """A webhook that has nothing to read from says so."""
    with pytest.raises(FlagError, match=r"^refused: .*no read_url"):
        await webhook("http://127.0.0.1:1", preset="playbook").read()


async def test_reason_changes_at_each_write() -> None:
    """The words of the decision of the moment go into the body."""
    reasons = ["first", "second", "third"]
    async with flag_server(always(Reply())) as server:
        terms = WebhookTerms(
            url=server.url,
            body="<< reason >> << enabled >>",
            headers={"Content-Type": "text/plain"},
        )
        backend = Webhook(terms, key=KEY, reason=lambda: reasons.pop(0))
        await backend.write(on=True)
        await backend.write(on=False)
        assert [one.body for one in server.asked] == [b"first True", b"second False"]


@pytest.mark.parametrize(
    ("terms", "fault"),
    [
        pytest.param({"url": ""}, "url: not set", id="no url"),
        pytest.param({"url": "flags/x"}, "'flags/x' is no URL", id="bad url"),
        pytest.param({"preset": "flipt"}, "preset: 'flipt' is none of playbook,", id="preset"),
        pytest.param({"preset": "consul", "url": "http://h?dc=a"}, "may hold no query", id="query"),
        pytest.param({"method": "PO ST"}, "method: 'PO ST' is no HTTP method", id="method"),
        pytest.param({"headers": {"X": "a\nb"}}, "headers.X: holds control", id="header"),
        pytest.param({"body": "same"}, "for on and off are the same", id="same"),
        pytest.param({"body": "{<< enabled >>}"}, "gives no JSON", id="no JSON"),
        pytest.param({"body": "<< nabled >>"}, "body: line 1: 'nabled' is none of", id="name"),
        pytest.param(
            {"body": "<% for x in flag %>"}, "body: the template cannot be read", id="open"
        ),
        pytest.param({"read_url": "ftp://h/"}, "'ftp://h/' is no URL", id="read_url"),
        pytest.param({"read_value": "a.<< b >>"}, "'b' is none of", id="read_value"),
        pytest.param(
            {"url": "http://<< 'a' if enabled else 'b' >>/"}, "url: the server may be no", id="host"
        ),
        pytest.param({"url": "http://<< flag >>.b/x"}, "url: the server may be no", id="domain"),
        pytest.param({"url": "http://h:<< flag >>/x"}, "url: the server may be no", id="port"),
        pytest.param({"url": "http://<< flag >>@h/x"}, "url: the server may be no", id="user"),
        pytest.param({"url": "http://h<< '/a' >>"}, "url: the server may be no", id="end of it"),
        pytest.param({"url": "http://<% if 1 %>h/"}, "url: the server may be no", id="block"),
        pytest.param({"url": "http://<# a #>h/"}, "url: the server may be no", id="comment"),
        pytest.param({"url": "<< flag >>://h/"}, "url: the server may be no", id="scheme"),
        pytest.param({"url": "<< flag >>"}, "url: the server may be no", id="all of it"),
        pytest.param(
            {"read_url": "http://<< flag >>/x"}, "read_url: the server may be no", id="read host"
        ),
        pytest.param({"body": "<< enabled | upper >>"}, "cannot be filled", id="filter's type"),
    ],
)
def test_faults(terms: dict[str, Any], fault: str) -> None:
    """What cannot work is found before it is needed, with its path."""
    given = WebhookTerms(**{"url": "http://flags.invalid/x", **terms})
    found = faults(given, KEY)
    assert found[0].startswith("flag.webhook.")
    assert fault in found[0]
    with pytest.raises(ConfigError):
        Webhook(given, key=KEY)


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_are_without_fault(preset: str) -> None:
    """Each preset works with a URL alone."""
    assert faults(WebhookTerms(preset=preset, url="http://flags.invalid"), KEY) == ()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("<< range(10**9) >>", id="range"),
        pytest.param("<% for i in [1,2] %><< i >><% endfor %>", id="loop"),
        pytest.param("<< flag * 9999999999 >>", id="repeat"),
        pytest.param("<< 9 ** 9 ** 9 >>", id="power"),
        pytest.param("<< flag.__class__.__mro__ >>", id="attribute"),
        pytest.param("<< flag['__class__'] >>", id="item"),
        pytest.param("<< ''.join(flag) >>", id="call"),
        pytest.param("<< flag|attr('__class__') >>", id="attr filter"),
        pytest.param("<< flag|center(999999999) >>", id="padding"),
        pytest.param("<< '%999999999d' % 1 >>", id="formatting"),
        pytest.param("<% include 'passwd' %>", id="include"),
        pytest.param("<% import 'os' as os %>", id="import"),
        pytest.param("<% set x = flag %>", id="assignment"),
        pytest.param("<% macro m() %><< m() >><% endmacro %><< m() >>", id="recursion"),
        pytest.param("<% block a %><% endblock %>", id="block"),
        pytest.param("<< self >>", id="self"),
        pytest.param("<< cycler >>", id="global"),
        pytest.param("<< flag is defined >>", id="test"),
        pytest.param("<< [flag, flag] >>", id="list"),
        pytest.param("<< flag" + "|tojson" * 4 + " >>", id="doubling"),
        pytest.param("<< ((flag|tojson ~ '')|tojson ~ '')|tojson|tojson >>", id="doubling, hidden"),
        pytest.param("<< flag|tojson(indent=99999999) >>", id="filter's argument"),
        pytest.param("<< " + "(" * 9000 + "flag" + ")" * 9000 + " >>", id="too long"),
        pytest.param("<< " + "(" * 4000 + "flag" + ")" * 4000 + " >>", id="nested"),
    ],
)
def test_hostile_template(text: str) -> None:
    """A template that could hang, grow or look around is refused when it is read."""
    with pytest.raises(ValueError, match=r"template|none of|filters in a row"):
        compile_template(text)


def test_template_that_grows() -> None:
    """What a template may do cannot make much of little."""
    template = compile_template("<< flag | tojson | tojson >>" * 500)
    with pytest.raises(ValueError, match="longer than 65536"):
        fill(template, Values(flag='"' * 100, enabled=True))


def test_template_values() -> None:
    """Texts are put in as they are, and quoted where they go into a URL or into JSON."""
    values = Values(flag="a/b c", enabled=True, reason="r" * 999, project='"', environment="ü")
    text = "<< flag >> << project | tojson >> << environment | urlencode | lower >> <# no #>"
    assert fill(compile_template(text), values) == 'a/b c "\\"" %c3%bc '
    assert fill_url(compile_template("/<< flag >>/<< enabled >>"), values) == "/a%2Fb%20c/True"
    assert fill(compile_template("<< 'x' | base64 >>"), values) == "eA=="
    assert len(fill(compile_template("<< reason >>"), values)) == 500
    body = "<% if enabled and not (project == 'x' or flag == 'y') %>a<% else %>b<% endif %>"
    assert fill(compile_template(body), values) == "a"


async def test_body_that_outgrows_itself() -> None:
    """A reason that makes the body too large fails that write, and sends nothing."""
    body = "<< enabled >>" + "<< reason | tojson | tojson | tojson >>" * 20
    async with flag_server(always(Reply())) as server:
        headers = {"Content-Type": "text/plain"}
        backend = webhook(server.url, body=body, headers=headers, reason='"' * 500)
        with pytest.raises(FlagError, match=r"^refused: .*longer than 65536"):
            await backend.write(on=True)
        assert server.asked == []


async def test_answers_in_turn() -> None:
    """A store that is slow to show a change shows it in the end."""

    def store(asked: Asked) -> Reply:
        return Reply(document={KEY: json.loads(asked.body)[KEY]})

    handler = by_method(POST=store, GET=in_turn(STILL_ON, NOW_OFF))
    async with flag_server(handler) as server:
        backend = webhook(server.url, preset="playbook", read_url="/api/v1/flags")
        assert await backend.write(on=False) is False
        assert [await backend.read(), await backend.read()] == [True, False]


@pytest.mark.parametrize(
    "terms",
    [
        pytest.param({"url": "http://h/<< flag >>?on=<< enabled >>"}, id="path and query"),
        pytest.param({"url": "http://h?on=<< enabled >>"}, id="query"),
        pytest.param({"read_url": "/<< flag >>"}, id="read below url"),
        pytest.param({"preset": "consul", "url": "http://h/<< environment >>"}, id="preset"),
    ],
)
def test_path_and_query_may_be_templates(terms: dict[str, Any]) -> None:
    """Only the server has to be written out."""
    assert faults(WebhookTerms(**{"url": "http://flags.invalid/x", **terms}), KEY) == ()
