"""Asks a Prometheus, or another server with its API, and gives whole answers or FleetError."""

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlencode

from specgauge.guard.flags.http import FlagHttp, HttpTerms
from specgauge.guard.flags.protocol import FlagError
from specgauge.guard.settings import PrometheusSettings
from specgauge.serve.fleet_answer import FleetError, Sample, read_matrix, read_vector
from specgauge.serve.fleet_queries import milliseconds

MAX_BYTES = 16 << 20
_TENANT = ("X-Scope-OrgID", "THANOS-TENANT")
_FORM = {"Content-Type": "application/x-www-form-urlencoded"}
_AS_ASKED = {"nocache": "1"}
"""Else VictoriaMetrics moves the points of a range, and answers as of half a minute ago.

https://github.com/VictoriaMetrics/VictoriaMetrics/issues/241; no other server knows it.
"""


def tenant_headers(tenant: str | None) -> dict[str, str]:
    """Name the tenant whose series are asked for, as Mimir and Thanos each read it."""
    return {} if tenant is None else dict.fromkeys(_TENANT, tenant)


class PrometheusApi:
    """One server; every call ends within the timeout and changes nothing there."""

    def __init__(self, settings: PrometheusSettings) -> None:
        self._timeout = settings.timeout
        self._http = FlagHttp(
            HttpTerms(
                url=settings.url,
                timeout=settings.timeout,
                token_file=settings.token_file,
                token=settings.token,
                ca_file=settings.ca_file,
                headers=tenant_headers(settings.tenant),
                max_bytes=MAX_BYTES,
            )
        )

    @property
    def place(self) -> str:
        """Where it is, for people."""
        return self._http.place

    async def query(self, query: str) -> list[Sample]:
        """Evaluate a query as of now."""
        with self.quoting():
            return read_vector(await self._ask("api/v1/query", {"query": query}))

    async def query_range(
        self, query: str, *, start: float, end: float, step: float
    ) -> dict[float, list[Sample]]:
        """Evaluate a query every `step` seconds from `start` to `end`, in Unix seconds."""
        span = {"start": f"{start:.3f}", "end": f"{end:.3f}", "step": f"{step:.3f}"}
        with self.quoting():
            return read_matrix(await self._ask("api/v1/query_range", {"query": query} | span))

    @contextmanager
    def quoting(self) -> Iterator[None]:
        """Let no error out that repeats a secret which the server put into its answer."""
        try:
            yield
        except FleetError as error:
            raise FleetError(error.reason, self._http.quote(error.detail)) from None

    async def _ask(self, path: str, parameters: dict[str, str]) -> object:
        """Send the query in the body: it may be longer than servers let a URL be."""
        form = parameters | _AS_ASKED | {"timeout": milliseconds(self._timeout)}
        try:
            answer = await self._http.call(
                "POST", path, headers=_FORM, body=urlencode(form).encode()
            )
            return answer.json()
        except FlagError as error:
            raise FleetError(str(error.result), error.detail) from None
