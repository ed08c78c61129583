"""The kubernetes backend against a stub that answers as Kubernetes' documentation says.

The stub keeps two objects and knows merge patch, JSON patch with test operations (422 where one
fails), resourceVersion (409 where it is old), bearer tokens (401) and missing objects (404). It is
no real API server.
"""

import asyncio
import copy
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiohttp import web
from tests.servers import answer, serving, silent

from specgauge.errors import ConfigError
from specgauge.guard.flags.kubernetes import Kubernetes, KubernetesTerms, faults, in_cluster
from specgauge.guard.flags.protocol import FlagError, WriteResult

KEY = "speculative_decoding_enabled"
CONFIGMAP = "/api/v1/namespaces/llm/configmaps/flags"
ROUTE = "/apis/gateway.networking.k8s.io/v1/namespaces/llm/httproutes/chat"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"


def refs(*weights: int | None) -> list[dict[str, Any]]:
    """Write the backendRefs of one rule: a third service, then the two of the flag."""
    names = ("canary", "spec", "standard")
    return [
        {"name": name, "port": 8000, **({} if weight is None else {"weight": weight})}
        for name, weight in zip(names, weights, strict=True)
    ]


def stand_still() -> None:
    """Change nothing."""


@dataclass(slots=True, kw_only=True)
class Cluster:
    """An API server with a ConfigMap and a route; `before_patch` acts before each patch."""

    url: str = ""
    token: str = "first-token-of-the-pod"
    version: int = 7
    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    patches: list[tuple[str, Any]] = field(default_factory=list)
    before_patch: Callable[[], None] = stand_still

    def __post_init__(self) -> None:
        self.objects[CONFIGMAP] = {"kind": "ConfigMap", "data": {"other": "kept"}}
        rules = [{"backendRefs": []}, {"backendRefs": refs(10, 90, 0)}]
        self.objects[ROUTE] = {"kind": "HTTPRoute", "spec": {"rules": rules}}
        for one in self.objects.values():
            one["metadata"] = {"resourceVersion": str(self.version)}

    @property
    def flag(self) -> str | None:
        """The text of the flag in the ConfigMap."""
        found: str | None = self.objects[CONFIGMAP]["data"].get(KEY)
        return found

    @property
    def weights(self) -> list[int]:
        """The weights in the route's second rule."""
        return [one["weight"] for one in self.backends]

    @property
    def backends(self) -> list[dict[str, Any]]:
        """The backendRefs of the route's second rule."""
        found: list[dict[str, Any]] = self.objects[ROUTE]["spec"]["rules"][1]["backendRefs"]
        return found

    def touch(self, path: str) -> None:
        """Make an object a newer one."""
        self.version += 1
        self.objects[path]["metadata"]["resourceVersion"] = str(self.version)

    def set_flag(self, text: str) -> None:
        """Write the flag as another would."""
        self.objects[CONFIGMAP]["data"][KEY] = text
        self.touch(CONFIGMAP)

    async def handle(self, request: web.Request) -> web.Response:
        """Answer one request."""
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            return status(401, "Unauthorized")
        if request.path not in self.objects:
            return status(404, f"{request.path.split('/')[-2]} not found")
        if request.method == "PATCH":
            self.before_patch()
            kind = request.headers["Content-Type"]
            patch = await request.json()
            self.patches.append((kind, patch))
            apply = {MERGE: self.merge, JSON_PATCH: self.patch}.get(kind)
            refusal = status(415, kind) if apply is None else apply(request.path, patch)
            if refusal is not None:
                return refusal
        return web.json_response(self.objects[request.path])

    def merge(self, path: str, patch: Any) -> web.Response | None:
        """Apply a merge patch if its resourceVersion is the present one."""
        version = patch["metadata"]["resourceVersion"]
        if version != self.objects[path]["metadata"]["resourceVersion"]:
            return status(409, "the object has been modified; please apply your changes to it")
        self.objects[path].setdefault("data", {}).update(patch["data"])
        self.touch(path)
        return None

    def patch(self, path: str, patch: Any) -> web.Response | None:
        """Apply a JSON patch, or nothing of it."""
        after = copy.deepcopy(self.objects[path])
        for one in patch:
            *parents, last = one["path"].strip("/").split("/")
            place: Any = after
            for step in parents:
                place = place[int(step) if isinstance(place, list) else step]
            if one["op"] == "test" and place.get(last) != one["value"]:
                return status(422, f"testing value {one['path']} failed")
            if one["op"] == "add":
                place[last] = one["value"]
        self.objects[path] = after
        self.touch(path)
        return None


def status(code: int, message: str) -> web.Response:
    """Answer as Kubernetes words its failures."""
    document = {"kind": "Status", "metadata": {}, "status": "Failure", "message": message}
    return web.json_response({**document, "code": code}, status=code)


@asynccontextmanager
async def serving_cluster(tls: ssl.SSLContext | None = None) -> AsyncIterator[Cluster]:
    """Run an API server."""
    made = Cluster()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", made.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    port = runner.addresses[0][1]
    made.url = f"http://127.0.0.1:{port}" if tls is None else f"https://127.0.0.1:{port}"
    try:
        yield made
    finally:
        await runner.cleanup()


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    """Run an API server."""
    async with serving_cluster() as made:
        yield made


@pytest.fixture
def token(tmp_path: Path) -> Path:
    """Lay the pod's token down."""
    file = tmp_path / "token"
    file.write_text(f"{Cluster().token}\n")
    return file


def in_configmap(cluster: Cluster, token: Path, *, configmap: str = "flags") -> Kubernetes:
    """Make a flag in the ConfigMap."""
    terms = KubernetesTerms(
        api=cluster.url, namespace="llm", configmap=configmap, token_file=str(token)
    )
    return Kubernetes(terms, key=KEY)


def in_route(
    cluster: Cluster, token: Path, *, rule: int = 1, standard: str = "standard"
) -> Kubernetes:
    """Make a flag in the route."""
    terms = KubernetesTerms(
        api=cluster.url,
        namespace="llm",
        httproute="chat",
        rule=rule,
        speculative_service="spec",
        standard_service=standard,
        token_file=str(token),
    )
    return Kubernetes(terms, key=KEY)


def renew(token: Path, text: str) -> None:
    """Replace the token as Kubernetes does."""
    token.write_text(f"{text}\n")


async def failure(flag: Kubernetes, *, write: bool | None = None) -> FlagError:
    """Read or write what must fail."""
    with pytest.raises(FlagError) as found:
        await (flag.read() if write is None else flag.write(on=write))
    return found.value


async def test_a_configmap_holds_both_values(cluster: Cluster, token: Path) -> None:
    """Unset at first; each value reads as written, twice the same, and other keys stay."""
    flag = in_configmap(cluster, token)
    assert await flag.read() is None
    for value in (False, True, True, False, False, True):
        assert await flag.write(on=value) is value
        assert await flag.read() is value
        assert cluster.flag == ("true" if value else "false")
    assert cluster.objects[CONFIGMAP]["data"]["other"] == "kept"
    assert {kind for kind, _ in cluster.patches} == {MERGE}
    assert flag.place == f"{KEY} in configmap llm/flags at {cluster.url}"
    assert (flag.name, flag.can_read) == ("kubernetes", True)
    await flag.close()


async def test_a_configmap_without_data_is_unset(cluster: Cluster, token: Path) -> None:
    """A fresh ConfigMap has no data at all."""
    del cluster.objects[CONFIGMAP]["data"]
    flag = in_configmap(cluster, token)
    assert await flag.read() is None
    assert await flag.write(on=False) is False


async def test_a_foreign_text_is_named_and_can_be_replaced(cluster: Cluster, token: Path) -> None:
    """A text that is neither value is no value, and a decision replaces it."""
    cluster.set_flag("perhaps")
    flag = in_configmap(cluster, token)
    error = await failure(flag)
    assert (error.result, "holds 'perhaps'" in error.detail) == (WriteResult.UNREADABLE, True)
    assert await flag.write(on=False) is False


async def test_a_change_of_another_key_is_read_again(cluster: Cluster, token: Path) -> None:
    """A conflict over what is not the flag costs a second look and no failure."""
    changes = iter([CONFIGMAP])

    def change() -> None:
        for path in changes:
            cluster.touch(path)

    cluster.before_patch = change
    assert await in_configmap(cluster, token).write(on=False) is False
    assert len(cluster.patches) == 2


async def test_a_change_of_the_flag_is_a_conflict(cluster: Cluster, token: Path) -> None:
    """Where another set the flag meanwhile nothing is written over."""
    cluster.set_flag("false")
    cluster.before_patch = lambda: cluster.set_flag("true")
    error = await failure(in_configmap(cluster, token), write=False)
    assert error.result is WriteResult.CONFLICT
    assert "the flag was changed by another at the same time" in error.detail
    assert cluster.flag == "true"


async def test_conflicts_without_end_are_given_up(cluster: Cluster, token: Path) -> None:
    """An object that never stands still is a conflict with the server's words."""
    cluster.before_patch = lambda: cluster.touch(CONFIGMAP)
    error = await failure(in_configmap(cluster, token), write=False)
    assert error.result is WriteResult.CONFLICT
    assert "the object has been modified" in error.detail
    assert len(cluster.patches) == 3


async def test_a_route_gives_all_to_one_service(cluster: Cluster, token: Path) -> None:
    """Weights move as a whole between the two and leave a third as it is."""
    flag = in_route(cluster, token)
    assert await flag.read() is True
    for value in (False, True, True, False, False, True):
        assert await flag.write(on=value) is value
        assert await flag.read() is value
        assert cluster.weights == ([10, 90, 0] if value else [10, 0, 90])
    tests = [one["path"].rpartition("/")[2] for one in cluster.patches[0][1] if one["op"] == "test"]
    assert tests == ["name", "weight", "name", "weight"]
    assert flag.place == f"rule 1 of httproute llm/chat at {cluster.url}"


@pytest.mark.parametrize(
    ("weights", "after"),
    [
        ((1, 50, 50), [1, 0, 100]),
        ((1, 0, 0), [1, 0, 100]),
        ((1, None, None), [1, 0, 2]),
    ],
    ids=["shared", "none", "unwritten"],
)
async def test_a_route_that_shares_is_neither(
    cluster: Cluster,
    token: Path,
    weights: tuple[int | None, int | None, int | None],
    after: list[int],
) -> None:
    """Both or none with traffic reads as unset, and a decision gives all to one."""
    cluster.backends[:] = refs(*weights)
    flag = in_route(cluster, token)
    assert await flag.read() is None
    assert await flag.write(on=False) is False
    assert cluster.weights == after


async def test_a_route_whose_services_moved_is_read_again(cluster: Cluster, token: Path) -> None:
    """A test operation that fails keeps the weights of others untouched."""
    turns = iter([True])

    def move() -> None:
        if next(turns, False):
            cluster.backends.reverse()

    cluster.before_patch = move
    assert await in_route(cluster, token).write(on=False) is False
    assert cluster.weights == [90, 0, 10]
    assert len(cluster.patches) == 2


async def test_a_change_of_the_weights_is_a_conflict(cluster: Cluster, token: Path) -> None:
    """Where another set the weights meanwhile nothing is written over."""
    cluster.before_patch = lambda: cluster.backends.__setitem__(slice(None), refs(10, 45, 45))
    error = await failure(in_route(cluster, token), write=False)
    assert error.result is WriteResult.CONFLICT
    assert cluster.weights == [10, 45, 45]


@pytest.mark.parametrize(
    ("rule", "standard", "words"),
    [
        (1, "nope", "rule 1 names nope 0 times, not once; it has canary, spec, standard"),
        (0, "standard", "rule 0 names spec 0 times, not once; it has no service"),
        (5, "standard", "no backendRefs in rule 5; correct rule"),
    ],
)
async def test_a_wrong_name_in_a_route_is_told(
    cluster: Cluster, token: Path, rule: int, standard: str, words: str
) -> None:
    """A service or rule that is not there is told with those that are."""
    flag = in_route(cluster, token, rule=rule, standard=standard)
    for error in (await failure(flag), await failure(flag, write=False)):
        assert (error.result, words in error.detail) == (WriteResult.NOT_FOUND, True)
    assert cluster.patches == []


async def test_an_object_that_is_missing_is_not_found(cluster: Cluster, token: Path) -> None:
    """Nothing is created."""
    flag = in_configmap(cluster, token, configmap="nope")
    for error in (await failure(flag), await failure(flag, write=True)):
        assert error.result is WriteResult.NOT_FOUND
        assert "/configmaps/nope" in error.detail


async def test_the_token_is_read_anew_at_each_call(cluster: Cluster, token: Path) -> None:
    """A token that Kubernetes replaced is used from the next call on, and never told."""
    flag = in_configmap(cluster, token)
    await flag.write(on=True)
    cluster.token = "second-token-of-the-pod"
    error = await failure(flag)
    assert error.result is WriteResult.UNAUTHORIZED
    assert "token-of-the-pod" not in str(error)
    renew(token, cluster.token)
    assert await flag.read() is True


async def test_a_pod_finds_its_own_api_server(tmp_path: Path, token: Path) -> None:
    """Host, port, token and CA of the pod are enough, over TLS."""
    authority = trustme.CA()
    ca_file = tmp_path / "ca.crt"
    authority.cert_pem.write_to_path(str(ca_file))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    async with serving_cluster(context) as cluster:
        _, host, port = cluster.url.replace("//", "").split(":")
        environment = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
        terms = in_cluster(KubernetesTerms(namespace="llm", configmap="flags"), environment)
        assert terms.api == cluster.url
        terms = replace(terms, token_file=str(token), ca_file=str(ca_file))
        assert await Kubernetes(terms, key=KEY).write(on=False) is False
        other = trustme.CA()
        other.cert_pem.write_to_path(str(ca_file))
        assert (await failure(Kubernetes(terms, key=KEY))).result is WriteResult.TLS


@pytest.mark.parametrize(
    ("environment", "api"),
    [
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "https://10.0.0.1:443"),
        (
            {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"},
            "https://[fd00::1]:6443",
        ),
        ({}, None),
    ],
    ids=["v4", "v6", "no pod"],
)
def test_in_cluster_values(environment: dict[str, str], api: str | None) -> None:
    """A pod's environment names the server; the account's files lie where they always lie."""
    terms = in_cluster(KubernetesTerms(configmap="flags"), environment)
    account = "/var/run/secrets/kubernetes.io/serviceaccount"
    assert terms.api == api
    assert terms.token_file == (api and f"{account}/token")
    assert terms.ca_file == (api and f"{account}/ca.crt")


def test_a_token_of_ones_own_comes_before_the_pods() -> None:
    """A token that was given is the one that is sent."""
    terms = KubernetesTerms(configmap="flags", token="mine")
    assert in_cluster(terms, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}).token_file is None


def test_another_api_server_never_gets_the_pods_token() -> None:
    """Where an API server is named, only a named token is sent to it."""
    terms = KubernetesTerms(api="http://127.0.0.1:8001", configmap="flags")
    assert in_cluster(terms, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}) == terms


async def test_an_api_server_that_never_answers_is_given_up() -> None:
    """Both calls end within the timeout."""
    async with serving(silent) as hanging:
        terms = KubernetesTerms(api=hanging.url, configmap="flags")
        flag = Kubernetes(terms, key=KEY, timeout=0.2)
        assert (await failure(flag)).result is WriteResult.TIMEOUT
        assert (await failure(flag, write=True)).result is WriteResult.TIMEOUT


async def test_many_slow_answers_end_within_one_timeout() -> None:
    """The timeout covers a write as a whole, not each of its calls."""

    async def slow(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.3)
        body = json.dumps({"kind": "ConfigMap", "metadata": {}}).encode()
        writer.write(answer(body, content_type="application/json"))

    async with serving(slow) as sluggish:
        terms = KubernetesTerms(api=sluggish.url, configmap="flags")
        error = await failure(Kubernetes(terms, key=KEY, timeout=0.5), write=True)
    assert error.result is WriteResult.TIMEOUT


@pytest.mark.parametrize("body", [b"[]", b"{}", b"<html>login</html>"])
async def test_an_answer_of_another_kind_is_unreadable(body: bytes) -> None:
    """What is no object of Kubernetes is never taken for an unset flag."""
    async with serving(answer(body, content_type="application/json")) as odd:
        terms = KubernetesTerms(api=odd.url, configmap="flags")
        error = await failure(Kubernetes(terms, key=KEY))
    assert error.result is WriteResult.UNREADABLE


@pytest.mark.parametrize(
    ("terms", "path"),
    [
        (KubernetesTerms(configmap="flags"), "flag.kubernetes.api"),
        (KubernetesTerms(api="http://k"), "flag.kubernetes"),
        (KubernetesTerms(api="http://k", configmap="f", rule=-1), "flag.kubernetes.rule"),
        (KubernetesTerms(api="http://k", httproute="r"), "flag.kubernetes"),
        (
            KubernetesTerms(
                api="http://k", httproute="r", speculative_service="a", standard_service="a"
            ),
            "flag.kubernetes",
        ),
    ],
    ids=["no api", "neither", "rule", "no services", "one service"],
)
def test_faults_are_named_with_their_path(terms: KubernetesTerms, path: str) -> None:
    """What cannot work is found before anything is asked."""
    (line,) = faults(terms)
    assert line.startswith(f"{path}: ")
    with pytest.raises(ConfigError):
        Kubernetes(terms, key=KEY)
