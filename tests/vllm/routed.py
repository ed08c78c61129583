"""Two real servers, the router before them and a sidecar beside them; and what a client got there.

It may not judge: the tests hold the client's ledger against what log, sidecar and servers say.
"""

import itertools
import json
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from tests.vllm.asking import Answer, Asked, ask
from tests.vllm.engine import Engine
from tests.vllm.episode import NGRAM
from tests.vllm.pages import Page, fetch_until, get
from tests.vllm.router import Router
from tests.vllm.sidecar import Sidecar

TOKEN = "sesame"
LIMIT = "4:3"
RULES: dict[str, Any] = {
    "presets": ["playbook"],
    "rules": [
        {
            "name": "batch",
            "when": {"header": {"name": "X-Traffic", "values": ["batch"]}},
            "pool": "standard",
        },
        {"name": "structured", "when": {"structured_output": True}, "pool": "standard"},
        {
            "name": "code",
            "when": {"patterns": ["code_fence"], "decode_concurrency": {"at_most": 4, "resume": 3}},
            "pool": "speculative",
        },
        {
            "name": "pieces",
            "when": {"routes": ["completions"], "stream": True, "max_tokens": {"at_least": 64}},
            "pool": "speculative",
        },
    ],
    "stale_after": "60s",
}
Key = tuple[str, str]
FIGURES = {
    "requests": "specgauge_class_requests_total",
    "errors": "specgauge_class_errors_total",
    "first_bytes": "specgauge_class_ttft_seconds_count",
    "ends": "specgauge_class_e2e_seconds_count",
    "completion_tokens": "specgauge_class_completion_tokens_total",
    "drafts": "specgauge_class_drafts_total",
    "draft_tokens": "specgauge_class_draft_tokens_total",
    "accepted_tokens": "specgauge_class_accepted_tokens_total",
}


def counted(seen: Iterable[tuple[Asked, Answer]]) -> dict[str, Counter[Key]]:
    """Add up what a client saw, by class and pool; what is 0 is not there."""
    sums: dict[str, Counter[Key]] = {name: Counter() for name in FIGURES}
    for asked, answer in seen:
        key = (answer.traffic_class, answer.pool)
        drafts, proposed, accepted = answer.drafted or (0, 0, 0)
        sums["requests"][key] += 1
        sums["errors"][key] += not answer.whole
        sums["first_bytes"][key] += answer.whole and asked.streams
        sums["ends"][key] += answer.whole
        sums["completion_tokens"][key] += answer.usage.get("completion_tokens", 0)
        sums["drafts"][key] += drafts
        sums["draft_tokens"][key] += proposed
        sums["accepted_tokens"][key] += accepted
    return {name: +one for name, one in sums.items()}


def told(page: Page) -> dict[str, Counter[Key]]:
    """Read the same off the sidecar's page."""
    sums: dict[str, Counter[Key]] = {name: Counter() for name in FIGURES}
    names = {series: name for name, series in FIGURES.items()}
    for sample in page.samples:
        if sample.name in names:
            key = (sample.labels["class"], sample.labels["pool"])
            sums[names[sample.name]][key] += int(sample.value)
    return {name: +one for name, one in sums.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """All four, and everything that went through the router so far."""

    spec: Engine
    plain: Engine
    sidecar: Sidecar
    router: Router
    seen: list[tuple[Asked, Answer]] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    async def ask(self, session: aiohttp.ClientSession, asked: Asked, **more: Any) -> Answer:
        """Send a request through the router and keep what came of it."""
        number = f"asked-{next(self._numbers)}"
        answer = await ask(session, self.router.url, asked, number, **more)
        self.seen.append((asked, answer))
        return answer

    def override(self, mode: str) -> None:
        """Order the guard's flag, as an operator does."""
        connection = HTTPConnection(urlsplit(self.sidecar.url).netloc, timeout=30)
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        body = json.dumps({"mode": mode})
        connection.request("POST", "/api/v1/guard/override", body=body, headers=headers)
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        connection.close()

    def told(self) -> Page:
        """Fetch the sidecar's page once it has read of every request."""
        total = FIGURES["requests"]
        return fetch_until(
            self.sidecar.url, lambda page: page.total(total) >= len(self.seen), seconds=60
        )

    def classes(self) -> dict[str, Any]:
        """Ask the sidecar for its classes."""
        found: dict[str, Any] = json.loads(get(self.sidecar.url, "/api/v1/classes")[1])
        return found


def settled(engine: Engine, tokens: int) -> Page:
    """Fetch an engine's page once it has counted so many tokens: a client can be before it."""
    name = "vllm:generation_tokens_total"
    return fetch_until(engine.url, lambda page: page.total(name) >= tokens, seconds=30)


@contextmanager
def staged(python: Path, log: Path) -> Iterator[Stage]:
    """Start all four, with a guard that judges nothing, and end them whatever happens."""
    with ExitStack() as opened:
        # Not pytest's own folder: where root starts nginx, its workers may not enter that.
        router = Router.make(Path(opened.enter_context(tempfile.TemporaryDirectory())))
        plain = Engine(python=python, log=log / "plain.log")
        opened.callback(plain.kill)
        plain.start()
        spec = Engine(
            python=python,
            log=log / "spec.log",
            speculative=NGRAM.speculative,
            options=("--per-request-spec-decode-metrics", "summary"),
        )
        opened.callback(spec.kill)
        spec.start()
        router.config.write_text(json.dumps(_configuration(spec.url, plain.url, router)))
        sidecar = Sidecar(target=spec.url, log=log / "sidecar.log", config=router.config)
        opened.callback(sidecar.stop)
        sidecar.start()
        opened.callback(router.stop)
        router.start()
        yield Stage(spec=spec, plain=plain, sidecar=sidecar, router=router)


def _configuration(spec: str, plain: str, router: Router) -> Mapping[str, Any]:
    secret = router.folder / "token"
    secret.write_text(TOKEN)
    return {
        "targets": [
            {"name": "spec", "url": spec, "method": "ngram"},
            {"name": "plain", "url": plain, "role": "standard"},
        ],
        "token_file": str(secret),
        "guard": {"startup_grace": "1d"},
        "flag": {"obeyed_by": "the router of this test"},
        "routing": {**router.keys(spec, plain), **RULES},
    }


def by_pool(seen: Sequence[tuple[Asked, Answer]], pool: str) -> list[Answer]:
    """Choose the answers that came from a pool."""
    return [answer for _, answer in seen if answer.pool == pool]
