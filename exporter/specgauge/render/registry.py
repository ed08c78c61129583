"""The kinds of files that can be rendered; a new kind is one line here and one function."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from specgauge.render.files import RenderedFile
from specgauge.render.native import native_rules
from specgauge.render.options import Options
from specgauge.render.rules import rules
from specgauge.render.verify import PromqlParser, verify

Kind = Callable[[Options], Iterable[RenderedFile]]

KINDS: Mapping[str, Kind] = {
    "rules": rules,
    "native-rules": native_rules,
}


def render(
    kinds: Iterable[str], options: Options, *, parse: PromqlParser | None = None
) -> tuple[RenderedFile, ...]:
    """Make the files of some kinds, all where none is named; raises RenderError with every fault.

    What one kind records another may ask for, so all are made and checked together.
    """
    wanted = tuple(kinds) or tuple(KINDS)
    made = {name: tuple(kind(options)) for name, kind in KINDS.items()}
    verify(_all(made.values()), parse=parse)
    return tuple(_all(made[name] for name in KINDS if name in wanted))


def _all(parts: Iterable[tuple[RenderedFile, ...]]) -> Iterator[RenderedFile]:
    for part in parts:
        yield from part
