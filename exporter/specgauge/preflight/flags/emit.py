"""A command line written out for a release; decides nothing about its contents."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from specgauge.preflight.flags.command import MODULE, Command, Entry
from specgauge.preflight.flags.kinds import is_variable
from specgauge.preflight.flags.release import Release
from specgauge.preflight.flags.surface import Surface
from specgauge.preflight.flags.words import Word, spell, word

_LONGEST_LINE = 100
BLOCK_MANAGER = "--use-v2-block-manager"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A start of the engine for a release: what stands before, in and behind it."""

    starter: str
    words: tuple[Word, ...]
    prefix: str = ""
    begins_line: bool = False
    tail: str = ""

    @property
    def arguments(self) -> tuple[str, ...]:
        """What the engine is handed, as an operating system hands it over."""
        return tuple(one.value for one in self.words)

    def text(self) -> str:
        """Write it for a shell: on one line, or where that grows long a line a flag."""
        raws = [one.raw for one in self.words]
        gap = "\n" if self.begins_line else " "
        head = gap.join(part for part in (self.prefix, self.starter) if part)
        behind = self.tail if self.tail.startswith("\n") or not self.tail else f" {self.tail}"
        whole = " ".join(part for part in (head, *raws) if part)
        if len(whole) <= _LONGEST_LINE:
            return whole + behind
        lines = [head] if head else []
        for one in self.words:
            starts = one.value.startswith("-") and not one.value[1:2].isdigit()
            if starts or not lines:
                lines.append(one.raw)
            else:
                lines[-1] += f" {one.raw}"
        return " \\\n  ".join(lines) + behind


def config_words(
    config: Mapping[str, object], surface: Surface, release: Release, *, expands: bool
) -> list[Word]:
    """Write a configuration as flags of a release; what no flag says is left to the check."""
    if not config:
        return []
    if release >= surface.since["config_flag"]:
        text = json.dumps(config, ensure_ascii=False)
        text = text if text.isprintable() else json.dumps(config)
        text = _filled_in(text, config, surface) if expands else text
        return [
            word("--speculative-config"),
            Word(value=text, raw=spell(text, expands=expands), expands=expands),
        ]
    old = dict(config)
    out: list[Word] = []
    if release <= surface.since["wants_block_manager"]:
        out.append(word(BLOCK_MANAGER))
    if old.pop("method", None) == "ngram":
        old["model"] = "[ngram]"
    for key, value in old.items():
        flag = surface.flag_of(key, release)
        if flag is None or (flag.takes != "value" and not value):
            continue
        out.append(word(flag.name))
        if flag.takes == "value":
            text = str(value)
            out.append(Word(value=text, raw=spell(text, expands=expands), expands=expands))
    return out


def _filled_in(text: str, config: Mapping[str, object], surface: Surface) -> str:
    """Have numbers that a shell fills in stand without quotes, as numbers do."""
    for name, value in config.items():
        key = surface.keys.get(name)
        if is_variable(value) and key is not None and key.kind not in {"text", "choice"}:
            text = text.replace(f'"{name}": "{value}"', f'"{name}": {value}')
    return text


def lay_out(
    command: Command, model: Word | None, words: Iterable[Word], surface: Surface, to: Release
) -> Line:
    """Put the starter, the model and the arguments together as a release wants them."""
    named: tuple[Word, ...] = () if model is None else (word("--model"), model)
    if command.entry is Entry.IMAGE:
        starter = f"{command.program}:v{to}"
    elif command.entry is Entry.ARGUMENTS and model is None:
        starter = ""
    elif to >= surface.since["serve_command"]:
        starter, named = f"{_vllm(command)} serve", named[1:]
    else:
        starter = f"{_python(command)} -m {MODULE}"
    return Line(
        starter=starter,
        words=(*named, *words),
        prefix=_joined(command.prefix),
        begins_line=command.begins_line,
        tail=command.tail,
    )


def _joined(words: Iterable[Word]) -> str:
    """Write the words before the starter; a new line of theirs stays one."""
    out = ""
    for one in words:
        out += ("\n" if one.begins_line and out else " " if out else "") + one.raw
    return out


def _vllm(command: Command) -> str:
    if command.entry is Entry.SERVE:
        return command.program
    folder, slash, _ = command.program.rpartition("/")
    return f"{folder}{slash}vllm" if "$" not in folder else "vllm"


def _python(command: Command) -> str:
    if command.entry is Entry.MODULE:
        return command.program
    folder, slash, _ = command.program.rpartition("/")
    return f"{folder}{slash}python"
