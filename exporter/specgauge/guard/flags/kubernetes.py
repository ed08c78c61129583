"""Keeps a flag in a ConfigMap, or as the weights of a Gateway API HTTPRoute; it creates neither.

Every change holds only for the object as it was read: a ConfigMap by its resourceVersion, a route
by test operations on the names and weights. The token is read anew at each call, because
Kubernetes replaces it.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from specgauge.errors import ConfigError
from specgauge.guard.flags.http import FlagHttp, HttpAnswer, HttpTerms
from specgauge.guard.flags.protocol import FlagError, WriteResult
from specgauge.guard.flags.spelling import read_value

_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
_MAX_ANSWER = 4 * 1024 * 1024  # a ConfigMap may hold one, and who manages its fields comes on top
_TRIES = 3
_WHOLE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesTerms:
    """The keys of `flag.kubernetes`: one ConfigMap, or one HTTPRoute with its two services.

    Without `api` it is the API server, the token and the CA that every pod is given.
    """

    api: str | None = None
    namespace: str = "default"
    configmap: str | None = None
    httproute: str | None = None
    rule: int = 0
    speculative_service: str | None = None
    standard_service: str | None = None
    token_file: str | None = None
    token: str | None = field(default=None, repr=False)
    ca_file: str | None = None


def in_cluster(terms: KubernetesTerms, environment: Mapping[str, str]) -> KubernetesTerms:
    """Fill in what a pod is given where no API server is named; a named one gets no such token."""
    host = environment.get("KUBERNETES_SERVICE_HOST", "")
    if terms.api is not None or not host:
        return terms
    port = environment.get("KUBERNETES_SERVICE_PORT", "443")
    return replace(
        terms,
        api=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        token_file=terms.token_file or (None if terms.token else f"{_ACCOUNT}/token"),
        ca_file=terms.ca_file or f"{_ACCOUNT}/ca.crt",
    )


def faults(terms: KubernetesTerms) -> tuple[str, ...]:
    """Find what is wrong with the terms, each fault with its path in the configuration."""
    found = []
    if terms.api is None:
        found.append("flag.kubernetes.api: it is not set, and this is no pod; name the API server")
    if (terms.configmap is None) == (terms.httproute is None):
        found.append("flag.kubernetes: set one of configmap and httproute")
    if terms.httproute is not None:
        services = (terms.speculative_service, terms.standard_service)
        if None in services or len(set(services)) < len(services):
            found.append("flag.kubernetes: name a speculative_service and another standard_service")
    if terms.rule < 0:
        found.append(f"flag.kubernetes.rule: {terms.rule} is no place; the first rule is 0")
    return tuple(found)


class Kubernetes:
    """One flag in one object of one API server."""

    name = "kubernetes"
    can_read = True

    def __init__(self, terms: KubernetesTerms, *, key: str, timeout: float = 5.0) -> None:
        found = faults(terms)
        if found:
            raise ConfigError(found)
        self._kept = _Route(terms) if terms.httproute is not None else _ConfigMap(terms, key)
        self._timeout = timeout
        self._http = FlagHttp(
            HttpTerms(
                url=terms.api or "",
                timeout=timeout,
                token_file=terms.token_file,
                token=terms.token,
                ca_file=terms.ca_file,
                max_bytes=_MAX_ANSWER,
            )
        )

    @property
    def place(self) -> str:
        """The object and its API server."""
        return f"{self._kept.place} at {self._http.place}"

    async def read(self) -> bool | None:
        """Read the object; None where it says neither, FlagError where that cannot be."""
        answer = await self._http.call("GET", self._kept.path)
        return self._kept.value(answer)

    async def write(self, on: bool) -> bool | None:
        """Patch the object, anew where only other parts of it changed; give what it says now."""
        try:
            async with asyncio.timeout(self._timeout):
                return await self._write(on=on)
        except TimeoutError as error:
            detail = f"{self.place}: no end within {self._timeout:g} s"
            raise FlagError(WriteResult.TIMEOUT, detail) from error

    async def close(self) -> None:
        """Give up connections."""
        await self._http.close()

    async def _write(self, *, on: bool) -> bool | None:
        first: object = None
        said = ""
        for attempt in range(_TRIES):
            before = await self._http.call("GET", self._kept.path)
            seen = self._kept.seen(before)
            if attempt and seen != first:
                said = "the flag was changed by another at the same time"
                break
            first = seen
            answer = await self._http.call(
                "PATCH",
                self._kept.path,
                headers={"Content-Type": self._kept.content_type},
                body=json.dumps(self._kept.patch(before, on=on)).encode(),
                expect=(HTTPStatus.OK, *self._kept.conflicts),
            )
            if answer.status == HTTPStatus.OK:
                return self._kept.value(answer)
            said = str(_object(answer).get("message", ""))
        detail = f"{self.place}: {self._http.quote(said)}"
        raise FlagError(WriteResult.CONFLICT, detail)


class _ConfigMap:
    """The flag as the text true or false under one key."""

    content_type = "application/merge-patch+json"
    conflicts = (HTTPStatus.CONFLICT,)

    def __init__(self, terms: KubernetesTerms, key: str) -> None:
        self._key = key
        namespace, name = terms.namespace, terms.configmap or ""
        self.place = f"{key} in configmap {namespace}/{name}"
        self.path = f"/api/v1/namespaces/{quote(namespace, '')}/configmaps/{quote(name, '')}"

    def seen(self, answer: HttpAnswer) -> object:
        """Give what must not change under a write."""
        data = _object(answer).get("data") or {}
        return data.get(self._key) if isinstance(data, dict) else None

    def value(self, answer: HttpAnswer) -> bool | None:
        text = self.seen(answer)
        value = read_value(text)
        if text is not None and value is None:
            detail = f"{self._key} holds {answer.quote(str(text)[:40])!r}; write true or false"
            raise answer.unreadable(detail)
        return value

    def patch(self, answer: HttpAnswer, *, on: bool) -> object:
        version = _object(answer).get("metadata", {}).get("resourceVersion")
        return {
            "metadata": {"resourceVersion": version},
            "data": {self._key: "true" if on else "false"},
        }


class _Route:
    """The flag as the weights of two services: all to one, or all to the other.

    A route that shares requests between them, as a fresh one does, says neither.
    """

    content_type = "application/json-patch+json"
    # 422 is what the API server answers where a test operation fails.
    conflicts = (HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY)

    def __init__(self, terms: KubernetesTerms) -> None:
        self._rule = terms.rule
        self._services = (terms.speculative_service or "", terms.standard_service or "")
        namespace, name = terms.namespace, terms.httproute or ""
        self.place = f"rule {terms.rule} of httproute {namespace}/{name}"
        group = f"/apis/gateway.networking.k8s.io/v1/namespaces/{quote(namespace, '')}"
        self.path = f"{group}/httproutes/{quote(name, '')}"

    def seen(self, answer: HttpAnswer) -> object:
        """Give the two weights, which must not change under a write."""
        return tuple(weight for _, _, weight in self._find(answer))

    def value(self, answer: HttpAnswer) -> bool | None:
        speculative, standard = (weight > 0 for _, _, weight in self._find(answer))
        return speculative if speculative is not standard else None

    def patch(self, answer: HttpAnswer, *, on: bool) -> object:
        found = self._find(answer)
        whole = sum(weight for _, _, weight in found) or _WHOLE
        tests, changes = [], []
        for (index, one, weight), wanted in zip(found, (on, not on), strict=True):
            place = f"/spec/rules/{self._rule}/backendRefs/{index}"
            tests.append({"op": "test", "path": f"{place}/name", "value": one["name"]})
            if "weight" in one:
                tests.append({"op": "test", "path": f"{place}/weight", "value": weight})
            share = whole if wanted else 0
            changes.append({"op": "add", "path": f"{place}/weight", "value": share})
        return tests + changes

    def _find(self, answer: HttpAnswer) -> list[tuple[int, dict[str, Any], int]]:
        """Find both services in the rule: where each stands, what stands there, its weight."""
        try:
            listed = _object(answer)["spec"]["rules"][self._rule]["backendRefs"]
            names = [one["name"] for one in listed]
            weights = [int(one.get("weight", 1)) for one in listed]
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            detail = f"the route has no backendRefs in rule {self._rule}; correct rule"
            raise FlagError(WriteResult.NOT_FOUND, f"{answer.place}: {detail}") from error
        for service in self._services:
            if names.count(service) != 1:
                detail = f"rule {self._rule} names {service} {names.count(service)} times, not once"
                had = f"it has {answer.quote(', '.join(map(str, names))) or 'no service'}"
                raise FlagError(WriteResult.NOT_FOUND, f"{answer.place}: {detail}; {had}")
        places = [names.index(service) for service in self._services]
        return [(place, listed[place], weights[place]) for place in places]


def _object(answer: HttpAnswer) -> dict[str, Any]:
    """Read an object of Kubernetes; every one has a kind."""
    found = answer.json()
    if not isinstance(found, dict) or not isinstance(found.get("metadata"), dict):
        raise answer.unreadable("the answer is no object of Kubernetes; is the URL right?")
    return found
