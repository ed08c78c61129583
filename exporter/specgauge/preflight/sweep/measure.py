"""One server under the sweep's loads: found out about once, then measured level by level.

Drives the recorder's own generator and levels; starts no server and keeps no file.
"""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from specgauge.baseline.brake import Brake, Why
from specgauge.baseline.facts import facts_of, served
from specgauge.baseline.figures import Measured, level_record
from specgauge.baseline.level import Level, Live, Surroundings
from specgauge.baseline.load import Ask, Generator, Terms
from specgauge.baseline.plan import Load, draw_lengths, draw_order
from specgauge.baseline.prompts import PromptSet
from specgauge.baseline.record import Order
from specgauge.baseline.trial import try_server
from specgauge.baseline.twin import Pages, Twin
from specgauge.errors import BaselineError, SourceError, UsageError
from specgauge.model.derived import Derived
from specgauge.preflight.sweep.order import Visit
from specgauge.preflight.sweep.schema import Repeat, Run, Server, Speculation
from specgauge.preflight.sweep.server import CandidateError, StoppedError

MOST_FAILED = 0.1
"""A run in which more of the requests failed measured something else."""

_TEMPLATE_TOKENS = 64
_CHARACTERS_PER_TOKEN = 2
_FIELDS = (
    "num_speculative_tokens",
    "acceptance_ratio",
    "acceptance_length",
    "draft_length",
    "draft_coverage_ratio",
    "tokens_per_step",
    "drafts",
    "position_acceptance_ratio",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A server that answers, and everything its levels share."""

    generator: Generator
    twin: Twin
    terms: Terms
    prompts: PromptSet
    server: Server


async def open_site(order: Order, pages: Pages, generator: Generator, brake: Brake) -> Site:
    """Find out whom we are talking to and what it understands; CandidateError where that fails."""
    clock = asyncio.get_running_loop().time
    models = await pages.fetch_json("/v1/models")
    names = served(models)
    model = order.model or next(iter(names), None)
    if model is None or (names and model not in names):
        told = f"no model {order.model!r}" if names else "/v1/models names no model"
        raise CandidateError(f"{told}; name one that is served with --model")
    twin = Twin(pages, model, clock)
    wish = Terms(
        endpoint=order.endpoint,
        model=model,
        temperature=order.temperature,
        headers=order.headers,
    )
    try:
        _, terms = await try_server(generator, wish, order.prompts.prompts[0], brake)
        await pages.fetch()
        look = await twin.look()  # after the first request: until then a page may be bare
    except SourceError as problem:
        raise CandidateError(f"no page to measure by: {problem.detail}") from None
    except BaselineError as problem:
        _raise_if_stopped(brake)
        raise CandidateError(problem.problems[0]) from None
    version = await pages.fetch_version()
    name = twin.name_on(look.page)
    facts = facts_of(look.page, name, version=version, models=models)
    blocks = facts.get("hardware.kv_blocks")
    if order.temperature > 0.0:
        terms = replace(terms, extras={**terms.extras, "seed": order.plan.seed})
    return Site(
        generator=generator,
        twin=twin,
        terms=terms,
        prompts=_fitting(order, facts.get("model.max_model_len")),
        server=Server(
            engine_version=version,
            model_name=model,
            engines=len(look.page.layout.engines.get(name, ())) or None,
            kv_blocks=blocks if isinstance(blocks, int) else None,
        ),
    )


async def measure(
    site: Site,
    visit: Visit,
    order: Order,
    brake: Brake,
    *,
    salt: str,
    speculative: bool,
    report: Callable[[Live], None],
) -> Run:
    """Measure one candidate at one load; what measured nothing is a run with its failure."""
    around = Surroundings(
        plan=order.plan,
        terms=site.terms,
        asks=asks(order, site.prompts, f"{salt}-{visit.concurrency}-{visit.round}"),
        generator=site.generator,
        twin=site.twin,
        brake=brake,
        clock=asyncio.get_running_loop().time,
        report=report,
        speculative=speculative,
        poll=order.poll,
        drain=order.drain,
    )
    measured = await Level(Load(concurrency=visit.concurrency), around).run()
    _raise_if_stopped(brake)
    try:
        return run_of(measured, visit, order, brake)
    except (BaselineError, ValueError) as problem:  # of which pydantic's is one
        reason = " ".join(str(problem).split())
        return _failed(visit, f"the server tells no sense: {reason}")


def asks(order: Order, prompts: PromptSet, mark: str) -> Iterator[Ask]:
    """Give requests without end: the same for every candidate, none that a cache knows."""
    lengths = draw_lengths(order.plan.lengths, order.plan.seed)
    for number, place in enumerate(draw_order(len(prompts.prompts), order.plan.seed)):
        prompt = prompts.prompts[place]
        tokens = prompt.tokens or next(lengths)
        yield Ask(prompt=prompt.marked(f"[{mark}-{number}]"), tokens=tokens)


def run_of(measured: Measured | None, visit: Visit, order: Order, brake: Brake) -> Run:
    """Sum a level up, or say why it measured nothing."""
    if measured is None:
        return _failed(visit, brake.reason if brake.pulled else "nothing was measured")
    level = level_record(measured, order.plan)
    found = [one.decode for one in measured.pieces]
    repeats = [one for one in found if one is not None and one[0] > 0.0]
    if brake.pulled and brake.why is Why.FAILING:
        return _failed(visit, brake.reason)
    if level is None or measured.whole is None or len(repeats) < order.plan.repeats:
        told = f"{len(repeats)} of {order.plan.repeats} repeats have a time per token"
        return _failed(visit, f"{told}; a longer --window helps")
    if level.failed_requests > MOST_FAILED * level.requests:
        return _failed(visit, f"{level.failed_requests} of {level.requests} requests failed")
    return Run(
        candidate=visit.candidate,
        concurrency=visit.concurrency,
        round=visit.round,
        repeats=tuple(Repeat(decode_seconds=s, decode_tokens=t) for s, t in repeats),
        level=level,
        speculation=speculation(measured.whole),
    )


def speculation(derived: Derived) -> Speculation:
    """Keep what a page said of its drafts over a window."""
    values = {name: derived.values[name] for name in _FIELDS if name in derived.values}
    absent = {name: str(derived.absent[name]) for name in _FIELDS if name in derived.absent}
    return Speculation.model_validate(
        {**values, "state": str(derived.speculation), "absent": absent}
    )


def _failed(visit: Visit, why: str) -> Run:
    return Run(
        candidate=visit.candidate, concurrency=visit.concurrency, round=visit.round, failure=why
    )


def _fitting(order: Order, most: object) -> PromptSet:
    """Leave out the prompts that do not fit the model's context together with an answer."""
    if not isinstance(most, int):
        return order.prompts
    room = most - _TEMPLATE_TOKENS
    kept = order.prompts.fitting(room, order.plan.lengths.high, _CHARACTERS_PER_TOKEN)
    if not kept.prompts:
        told = f"--output-tokens {order.plan.lengths}: no prompt fits beside so many"
        raise UsageError(f"{told} in the model's {most}; ask for fewer, or give shorter --prompts")
    return kept


def _raise_if_stopped(brake: Brake) -> None:
    if brake.pulled and brake.why is Why.STOPPED:
        raise StoppedError("stopped by the user")
