"""Records a baseline: asks who the server is, tries it, runs the levels, keeps what it has.

Refuses a server that speculates or that somebody else uses. Loses nothing: after every level the
file so far is handed on, marked as partial until the last one.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from specgauge import __version__
from specgauge.baseline.brake import Brake, Why
from specgauge.baseline.facts import compose, contradictions, facts_of, served
from specgauge.baseline.faults import is_text
from specgauge.baseline.figures import level_record
from specgauge.baseline.level import Level, Live, Surroundings
from specgauge.baseline.load import Ask, Endpoint, Generator, Terms, came
from specgauge.baseline.plan import Plan, doubts, draw_lengths, draw_order
from specgauge.baseline.prompts import PromptSet
from specgauge.baseline.schema import BaselineFile, LevelRecord
from specgauge.baseline.stream import Outcome
from specgauge.baseline.trial import TRIAL_TOKENS, try_server
from specgauge.baseline.twin import Look, Pages, Twin
from specgauge.errors import BaselineError, SourceError, UsageError
from specgauge.model.outcome import ScrapeResult

FORMULA = (
    "TPOT of a request = (last chunk - first chunk) / (output tokens - tokens of the first chunk)"
)

UNCACHED = "every prompt begins with a mark of its own, so that no prefix cache helps it"

_SILENT = frozenset({ScrapeResult.UNREACHABLE, ScrapeResult.TIMEOUT, ScrapeResult.TLS})
"""Results of a fetch after which there is no point in asking for anything else."""

_OPTIONED = 4
"""One request of so many asks for usage in every chunk, which makes a busy server slower."""

_TEMPLATE_TOKENS = 64
_CHARACTERS_PER_TOKEN = 2
"""Fewer characters a token than any tokenizer needs for plain English."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is to be recorded; `facts` are what no page tells, by their path in the file."""

    plan: Plan
    prompts: PromptSet
    endpoint: Endpoint = "completions"
    model: str | None = None
    temperature: float = 0.0
    headers: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, object] = field(default_factory=dict)
    shared: bool = False
    poll: float = 1.0
    drain: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """The file, and why it does not hold every level; None if it does.

    A file that ends where the server's limit lies is whole; any other early end makes it partial.
    `stopped` says that the early end was the user's wish.
    """

    file: BaselineFile
    ended: str | None
    stopped: bool = False


class Recorder:
    """Runs one recording; `brake` may be pulled from outside to end it with what there is."""

    def __init__(
        self,
        order: Order,
        pages: Pages,
        generator: Generator,
        *,
        brake: Brake,
        now: Callable[[], datetime],
        save: Callable[[BaselineFile], None],
        report: Callable[[Live | LevelRecord], None],
    ) -> None:
        self._order = order
        self._pages = pages
        self._generator = generator
        self._brake = brake
        self._created = now()
        self._save = save
        self._report = report
        self._clock = asyncio.get_running_loop().time
        self._facts: dict[str, object] = {}
        self._notes = [FORMULA, UNCACHED, *doubts(order.plan)]
        self._levels: list[LevelRecord] = []

    async def record(self) -> Recording:
        """Record every level; raises SpecgaugeError where there is nothing to show for it."""
        async with self._generator.running():
            model = await self._ask_who()
            twin, first = await self._open(model)
            if twin is not None and first is not None and not self._order.shared:
                await self._require_quiet(twin, first)
            terms = await self._try(model, twin)
            prompts = self._fitting()
            left_out = len(self._order.prompts.prompts) - len(prompts.prompts)
            if left_out:
                self._notes.append(f"{left_out} prompts left out: too long for the model's context")
            around = Surroundings(
                plan=self._order.plan,
                terms=terms,
                asks=self._asks(prompts),
                generator=self._generator,
                twin=twin,
                brake=self._brake,
                clock=self._clock,
                report=self._report,
                shared=self._order.shared,
                poll=self._order.poll,
                drain=self._order.drain,
            )
            await self._run(around)
        ended = self._brake.reason if self._brake.pulled else None
        if ended is not None:
            self._notes.append(f"ended early: {ended}")
        if not self._levels:
            raise BaselineError([f"nothing was recorded: {ended or 'no level has a TPOT'}"])
        file = self._file(partial=ended is not None and self._brake.why is not Why.LIMIT)
        self._save(file)
        stopped = ended is not None and self._brake.why is Why.STOPPED
        return Recording(file=file, ended=ended, stopped=stopped)

    async def _run(self, around: Surroundings) -> None:
        for load in self._order.plan.levels:
            if self._brake.pulled:
                return
            measured = await Level(load, around).run()
            try:
                record = level_record(measured, around.plan) if measured is not None else None
            except BaselineError as problem:
                self._brake.pull(Why.FAILING, f"the server tells no sense: {problem.problems[0]}")
                return
            if record is None:
                self._notes.append(f"{load}: nothing that could be kept")
                continue
            self._levels.append(record)
            self._report(record)
            self._save(self._file(partial=True))

    def _file(self, *, partial: bool) -> BaselineFile:
        order = self._order
        closed = order.plan.levels[0].concurrency is not None
        facts = {
            **order.facts,
            **self._facts,
            "workload.name": order.prompts.name,
            "workload.prompts_sha256": order.prompts.sha256,
            "workload.temperature": order.temperature,
            "workload.output_tokens": str(order.plan.lengths),
        }
        return compose(
            facts,
            self._levels,
            method="closed_loop" if closed else "open_loop",
            created=self._created,
            created_by=f"specgauge {__version__}",
            notes=self._notes,
            partial=partial,
        )

    async def _ask_who(self) -> str:
        """Find out which model is served."""
        models = await self._pages.fetch_json("/v1/models")
        names, wanted = served(models), self._order.model
        if wanted and names and wanted not in names:
            raise UsageError(f"--model: no model {wanted!r}; there is {', '.join(names)}")
        model = wanted or next(iter(names), None)
        if model is None:
            await self._require_answer()
            told = "/v1/models names no model; name it with --model"
            raise BaselineError([f"{told}, and give --api-key-file if the server wants a key"])
        version = await self._pages.fetch_version()
        self._facts = {"model.name": model, "engine.name": "unknown"}
        if version is not None and is_text(version):
            self._facts["engine.version"] = version
        self._require_agreement()
        self._models = models
        return model

    async def _require_answer(self) -> None:
        """Let a server that is not there be told by its failure; any answer of its own will do."""
        try:
            await self._pages.fetch()
        except SourceError as problem:
            if problem.result in _SILENT:
                raise

    async def _open(self, model: str) -> tuple[Twin | None, Look | None]:
        """Look at the server's page for the first time; a server without one is no obstacle."""
        twin = Twin(self._pages, model, self._clock)
        try:
            look = await twin.look()
        except SourceError as problem:
            self._notes.append(f"no figures of the server's own: {problem.detail}")
            return None, None
        self._learn(twin, look)
        return twin, look

    def _learn(self, twin: Twin, look: Look) -> None:
        version = self._facts.get("engine.version")
        name = twin.name_on(look.page)
        self._facts |= facts_of(
            look.page,
            name,
            version=version if isinstance(version, str) else None,
            models=self._models,
        )
        self._require_agreement()

    def _require_agreement(self) -> None:
        """Refuse facts on the command line that the server contradicts."""
        if against := contradictions(self._facts, self._order.facts):
            raise UsageError("\n".join(against))

    async def _require_quiet(self, twin: Twin, first: Look) -> None:
        """Refuse a server that somebody else uses."""
        await came(self._brake.event, self._order.poll)
        try:
            found = twin.between(first, await twin.look())
        except SourceError:
            return  # it was there a moment ago; trying the server will show
        if found is None:
            return
        busy = found.running + found.waiting
        told = f"requests under way: {busy:g}"
        if not busy and ((found.generated or 0.0) > 0.0 or found.prompted > 0.0):
            told, busy = "its token counters move", 1.0
        if busy:
            told = f"the server has other traffic: {told}; stop it, or record with --shared"
            raise BaselineError([told])

    async def _try(self, model: str, twin: Twin | None) -> Terms:
        """Send single requests to find out what the server understands and whether it drafts."""
        before = await twin.look() if twin is not None else None
        order = self._order
        wish = Terms(
            endpoint=order.endpoint,
            model=model,
            temperature=order.temperature,
            headers=order.headers,
        )
        first = self._fitting().prompts[0]
        request, terms = await try_server(self._generator, wish, first, self._brake)
        if request.outcome is Outcome.MORE_THAN_ASKED:
            self._notes.append(f"{request.detail}: no TPOT of the client's own")
        elif request.tokens is None:
            self._notes.append("the server sends no usage: no TPOT of the client's own")
        elif request.first_tokens is None:
            self._notes.append("tokens of a stream's first chunk are not told; taken as one")
        if not terms.extras or (request.tokens or TRIAL_TOKENS) < TRIAL_TOKENS:
            self._notes.append("ignore_eos is not understood: outputs may be shorter than asked")
        if twin is None or before is None:
            if request.tokens is None:
                raise BaselineError(["neither the stream nor a metrics page counts tokens"])
            return replace(terms, optioned=_OPTIONED)
        await came(self._brake.event, min(1.0, self._order.poll))
        after = await twin.look()
        self._learn(twin, after)
        found = twin.between(before, after)
        if found is not None and found.speculates is not None:
            told = f"the server speculates: {found.speculates}; a baseline is recorded without"
            raise BaselineError([f"{told} speculation: start it without --speculative-config"])
        return replace(terms, optioned=_OPTIONED)

    def _fitting(self) -> PromptSet:
        """Leave out the prompts that do not fit the model's context together with an answer."""
        order, most = self._order, self._facts.get("model.max_model_len")
        if not isinstance(most, int):
            return order.prompts
        room = most - _TEMPLATE_TOKENS
        kept = order.prompts.fitting(room, order.plan.lengths.high, _CHARACTERS_PER_TOKEN)
        if not kept.prompts:
            raise UsageError(
                f"--output-tokens {order.plan.lengths}: no prompt fits beside so many in the "
                f"model's {most}; ask for fewer, or give shorter --prompts"
            )
        return kept

    def _asks(self, prompts: PromptSet) -> Iterator[Ask]:
        """Give requests without end; each begins like no other, so that no cache helps it."""
        plan = self._order.plan
        lengths = draw_lengths(plan.lengths, plan.seed)
        salt = f"{int(self._created.timestamp()):x}"
        for number, place in enumerate(draw_order(len(prompts.prompts), plan.seed)):
            prompt = prompts.prompts[place]
            tokens = prompt.tokens or next(lengths)
            yield Ask(prompt=prompt.marked(f"[{salt}-{number}]"), tokens=tokens)
