"""A pool that is to be compared: who it is, what it understands, whether it speculates.

Asks and tries the server; puts no load on it and refuses nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from specgauge.baseline.brake import Brake
from specgauge.baseline.exchange import Address
from specgauge.baseline.facts import served
from specgauge.baseline.load import Generator, Terms
from specgauge.baseline.prompts import Prompt
from specgauge.baseline.trial import try_server
from specgauge.baseline.twin import Between, Look, Pages, Twin
from specgauge.errors import BaselineError, SourceError, UsageError
from specgauge.model.derived import Speculation
from specgauge.model.outcome import ScrapeResult
from specgauge.preflight.compare.bouts import Side
from specgauge.preflight.compare.fields import all_facts

_SILENT = frozenset({ScrapeResult.UNREACHABLE, ScrapeResult.TIMEOUT, ScrapeResult.TLS})


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """How a pool is reached; `name` stands in messages."""

    side: Side
    name: str
    address: Address
    pages: Pages
    generator: Generator
    clock: Callable[[], float]
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A pool that answers; `speculates` is None where its page does not tell.

    `configured` says that it was started with speculation, though nothing was drafted.
    """

    door: Door
    model: str
    terms: Terms
    twin: Twin | None
    facts: Mapping[str, object]
    speculates: bool | None
    configured: bool
    why: str
    notes: tuple[str, ...] = ()


async def open_pool(
    door: Door, wish: Terms, prompt: Prompt, brake: Brake, *, model: str | None
) -> Pool:
    """Ask a server who it is and try it; SpecgaugeError where it does not answer."""
    models = await door.pages.fetch_json("/v1/models")
    name = await _name(door, models, model)
    version = await door.pages.fetch_version()
    info = await door.pages.fetch_json("/server_info")
    twin, look, notes = await _look(door, name)
    wish = Terms(
        endpoint=wish.endpoint, model=name, temperature=wish.temperature, headers=door.headers
    )
    try:
        request, terms = await try_server(door.generator, wish, prompt, brake)
    except BaselineError as problem:
        raise BaselineError([f"{door.name}: {line}" for line in problem.problems]) from None
    if request.tokens is None:
        notes.append(f"{door.side}: the server sends no usage; there is no time per token")
    found, page, shown = None, None, name
    if twin is not None and look is not None:
        after = await twin.look()
        found, page, shown = twin.between(look, after), after.page, twin.name_on(after.page)
        if found is not None and (busy := found.running + found.waiting):
            told = f"{busy:g} requests under way that are not ours"
            notes.append(f"{door.side}: the pool has other traffic, {told}")
    speculates, why = _speculation(found)
    facts = all_facts(page, shown, version=version, models=models, server_info=info)
    return Pool(
        door=door,
        model=name,
        terms=terms,
        twin=twin,
        facts=facts,
        speculates=speculates,
        configured=found is not None and found.derived.speculation is Speculation.INACTIVE,
        why=why,
        notes=tuple(notes),
    )


async def _name(door: Door, models: object, wanted: str | None) -> str:
    names = served(models)
    if wanted and names and wanted not in names:
        there = ", ".join(names)
        raise UsageError(f"--model: no model {wanted!r} at {door.name}; there is {there}")
    name = wanted or next(iter(names), None)
    if name is not None:
        return name
    try:
        await door.pages.fetch()
    except SourceError as problem:
        if problem.result in _SILENT:
            raise
    told = "/v1/models names no model; name it with --model"
    raise BaselineError([f"{door.name}: {told}, and give --api-key-file if it wants a key"])


async def _look(door: Door, name: str) -> tuple[Twin | None, Look | None, list[str]]:
    twin = Twin(door.pages, name, door.clock)
    try:
        return twin, await twin.look(), []
    except SourceError as problem:
        if problem.result in _SILENT:
            raise
        told = f"{door.side}: no figures of the server's own: {problem.detail}"
        return None, None, [f"{told}; whether it speculates was not checked"]


def _speculation(found: Between | None) -> tuple[bool | None, str]:
    """Tell whether a trial was answered with drafts, and how that is known."""
    if found is None:
        return None, "its page does not tell"
    if found.speculates is not None:
        return True, found.speculates
    state = found.derived.speculation
    if state in {Speculation.ABSENT, Speculation.NOT_SPECULATIVE}:
        return False, "its page has no series of speculation"
    if state is Speculation.INACTIVE:
        reason = found.derived.speculation_reason or "unknown"
        return None, f"it is started with speculation but drafted nothing ({reason})"
    return None, "its page does not tell"
