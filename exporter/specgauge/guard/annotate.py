"""Marks every change of the flag in Grafana, once each; it does not try again."""

from collections.abc import Mapping

from specgauge.guard.explain import explain
from specgauge.guard.flags.http import FlagHttp, HttpTerms
from specgauge.guard.settings import GrafanaSettings
from specgauge.model.guard import Decision

_PATH = "/api/annotations"
_TAGS = ("specgauge", "speculative-decoding")


def annotation(decision: Decision, *, unix: float, target: str) -> dict[str, object]:
    """Write a change as Grafana's annotation; its time is in milliseconds."""
    return {
        "time": round(unix * 1000),
        "tags": [*_TAGS, f"target:{target}", f"state:{decision.state}"],
        "text": f"{target}: {explain(decision)}",
    }


class Annotator:
    """Posts annotations to one Grafana."""

    def __init__(self, settings: GrafanaSettings, *, timeout: float = 5.0) -> None:
        self._http = FlagHttp(
            HttpTerms(
                url=settings.url,
                timeout=timeout,
                token=settings.token,
                token_file=settings.token_file,
            )
        )

    async def post(self, document: Mapping[str, object]) -> None:
        """Post one; raises FlagError."""
        await self._http.call("POST", _PATH, document=document)
