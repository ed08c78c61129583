"""A command line of one release as another release takes it, with all that changed on the way."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from specgauge.preflight.flags.check import check_config
from specgauge.preflight.flags.command import Command, Entry
from specgauge.preflight.flags.convert import Conversion
from specgauge.preflight.flags.emit import BLOCK_MANAGER, config_words, lay_out
from specgauge.preflight.flags.finding import (
    Code,
    Finding,
    error,
    has_errors,
    info,
    ordered,
    warning,
)
from specgauge.preflight.flags.gather import CONFIG_FLAGS, Gathered, Part, gather
from specgauge.preflight.flags.methods import meant_method
from specgauge.preflight.flags.release import Release, Span
from specgauge.preflight.flags.surface import Surface
from specgauge.preflight.flags.words import Word, word

_ENGINE_VARIABLE = "VLLM_USE_V1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation:
    """A command line for a release; `command` is None where it cannot be said to it."""

    to: Release
    source: Release | None
    source_span: Span
    command: str | None
    arguments: tuple[str, ...]
    config: Mapping[str, object]
    engine_before: str | None
    engine_after: str
    findings: tuple[Finding, ...]


def translate(
    command: Command,
    surface: Surface,
    to: Release,
    *,
    source: Release | None = None,
    model: str | None = None,
    draft: str | None = None,
) -> Translation:
    """Translate one start of the engine; raises ValueError for what cannot be read.

    `model` and `draft` are the target and the draft where the command line names none.
    """
    gathered = gather(command, surface)
    if draft is not None and "model" not in gathered.config:
        gathered = replace(gathered, config={"model": draft, **gathered.config})
    target = word(model) if model is not None and gathered.model is None else gathered.model
    source = source or command.release
    span = Span(first=source, last=source) if source else gathered.span
    asked = command.environment.get(_ENGINE_VARIABLE) == "1"
    method = meant_method(gathered.config) or ""
    before = _engine_before(surface, span, method, asked_v1=asked)
    conversion = Conversion(
        config=dict(gathered.config),
        surface=surface,
        to=to,
        by_flags=any(by not in CONFIG_FLAGS for by in gathered.said_by.values()),
        sizes=gathered.sizes,
        source_engine=before,
    )
    if gathered.config:
        conversion.run()
    after = surface.engine_of(to, conversion.method, asked_v1=asked)
    findings = [
        *gathered.findings,
        *_flags(gathered, surface, source, to),
        *conversion.findings,
        *_around(command, gathered, surface, to, engines=(before, after), target=target),
    ]
    rest, told = _rest(gathered, surface, to)
    findings += told
    command = _environment(command, to, findings)
    findings += _left(conversion, surface, to)
    found = ordered(findings)
    failed = has_errors(found)
    said = config_words(conversion.config, surface, to, expands=gathered.expands)
    line = lay_out(command, target, (*rest[0], *said, *rest[1]), surface, to)
    return Translation(
        to=to,
        source=source,
        source_span=span,
        command=None if failed else line.text(),
        arguments=() if failed else line.arguments,
        config=conversion.config,
        engine_before=before,
        engine_after=after,
        findings=found,
    )


def _engine_before(surface: Surface, span: Span, method: str, *, asked_v1: bool) -> str | None:
    """Tell which engine ran it, where all releases it may be of agree."""
    if span.is_empty or span.first is None or span.last is None:
        return None
    ends = {surface.engine_of(one, method, asked_v1=asked_v1) for one in (span.first, span.last)}
    return ends.pop() if len(ends) == 1 else None


def _flags(
    gathered: Gathered, surface: Surface, source: Release | None, to: Release
) -> list[Finding]:
    """Tell of each flag of speculation what became of it."""
    found: list[Finding] = []
    for name in gathered.flags:
        flag = surface.flags[name]
        if not flag.existed:
            message = "a flag of no release; taken for what it seems to mean"
            found.append(warning(Code.NEVER_EXISTED, name, message))
            continue
        if source is not None and source not in flag.span:
            message = f"a flag of {flag.span}, and so none of {source}"
            found.append(warning(Code.MIXED_RELEASES, name, message))
        if flag.key and to >= surface.since["config_flag"]:
            found.append(info(Code.RENAMED, name, f"now {flag.key} in --speculative-config"))
        elif name in CONFIG_FLAGS and to not in flag.span and name == "--speculative-config":
            found.append(info(Code.RENAMED, name, f"{to} has flags in its place"))
    if source is None and gathered.span.is_empty:
        message = "no release has all of these flags: the line never started anywhere"
        found.append(warning(Code.MIXED_RELEASES, ", ".join(gathered.flags), message))
    return found


def _around(
    command: Command,
    gathered: Gathered,
    surface: Surface,
    to: Release,
    *,
    engines: tuple[str | None, str],
    target: Word | None,
) -> list[Finding]:
    """Tell what is not about one flag: the engine, the way it is started, what is missing."""
    found: list[Finding] = []
    before, after = engines
    if before is not None and before != after and gathered.config:
        message = (
            f"{before.upper()} becomes {after.upper()}: other metrics, acceptance counted "
            "otherwise, another scheduler"
        )
        found.append(info(Code.ENGINE_CHANGED, "engine", message, "record a new baseline"))
    modern = to >= surface.since["serve_command"]
    if command.entry is Entry.MODULE and modern:
        message = "it is vllm serve now, with the model first"
        found.append(info(Code.RENAMED, "python -m", message))
    elif command.entry is Entry.SERVE and not modern:
        message = f"{to} has no vllm serve yet: python -m instead"
        found.append(info(Code.RENAMED, "vllm serve", message))
    if not gathered.config:
        message = "nothing here turns speculation on"
        fix = "a speculators checkpoint may do so by itself"
        found.append(info(Code.NO_SPECULATION, "command", message, fix))
    if target is None:
        message = "no target model: these are arguments for `vllm serve MODEL`"
        found.append(warning(Code.NO_TARGET, "model", message, "give --model"))
    return found


def _rest(
    gathered: Gathered, surface: Surface, to: Release
) -> tuple[tuple[list[Word], list[Word]], list[Finding]]:
    """Pass on what is not about speculation, without what the release has no more."""
    findings: list[Finding] = []
    sides = []
    for parts in (gathered.before, gathered.behind):
        kept: list[Word] = []
        for part in parts:
            kept += _passed(part, surface, to, findings)
        sides.append(kept)
    return (sides[0], sides[1]), findings


def _passed(part: Part, surface: Surface, to: Release, findings: list[Finding]) -> tuple[Word, ...]:
    neighbour = surface.neighbours.get(part.name)
    if neighbour and to >= neighbour.gone:
        message = f"gone, left out: {neighbour.why}"
        findings.append(warning(Code.VANISHED, part.name, message))
        return ()
    if part.name == BLOCK_MANAGER and to <= surface.since["wants_block_manager"]:
        return ()  # it is written together with the flags of speculation
    flag = surface.flags.get(part.name)
    if flag and to not in flag.span:
        message = f"there {flag.span}, not in {to}"
        findings.append(error(Code.FLAG_NEWER, part.name, message, "take it out"))
        return part.words
    since = surface.switches.get(part.name)
    said = " ".join(one.value for one in part.words).replace("=", " ").split(" ", 1)[1:]
    if since is None or to < since or not said:
        return part.words
    name = part.name if said[0].lower() in {"true", "1"} else f"--no-{part.name[2:]}"
    message = f"a switch now: {name}"
    findings.append(info(Code.VALUE_CHANGED, part.name, message))
    return (word(name),)


def _environment(command: Command, to: Release, findings: list[Finding]) -> Command:
    """Leave out the choice of an engine where there is but one."""
    if _ENGINE_VARIABLE not in command.environment or to < Release((0, 11, 0)):
        return command
    message = f"left out: {to} has V1 alone"
    findings.append(warning(Code.VANISHED, _ENGINE_VARIABLE, message))
    kept = [one for one in command.prefix if not one.value.startswith(f"{_ENGINE_VARIABLE}=")]
    if kept and kept[-1].value in {"export", "env"}:
        kept.pop()
    return replace(command, prefix=tuple(kept))


def _left(conversion: Conversion, surface: Surface, to: Release) -> list[Finding]:
    """Check what came out as the release would, flags or keys."""
    config = conversion.config
    if not config:
        return []
    found = list(check_config(config, surface, to, conversion.sizes))
    if to >= surface.since["config_flag"]:
        return found
    for name in config:
        if name in surface.keys and name != "method" and not surface.flag_of(name, to):
            first = surface.keys[name].span.first
            found.append(error(Code.KEY_NEWER, name, f"{to} has no flag for it ({first} has it)"))
    return [*dict.fromkeys(found)]
