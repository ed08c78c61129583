"""What the room hands out: one file, as text, and the one way to write YAML."""

from dataclasses import dataclass
from typing import Any

import yaml

_NEVER_FOLD = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedFile:
    """One file below the output folder; `path` is relative, with forward slashes.

    `notes` say what of the configuration the file cannot say.
    """

    path: str
    text: str
    notes: tuple[str, ...] = ()


class _Dumper(yaml.SafeDumper):
    """YAML as people write it: lists indented, texts of several lines as blocks."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, indentless and flow)


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    if not value.replace("\n", "").isprintable():
        style = '"'  # the only one in which a line's end may be of another kind
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def to_yaml(*documents: Any) -> str:
    """Write documents; every text that would be read as something else is quoted."""
    return yaml.dump_all(
        documents,
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=_NEVER_FOLD,
        explicit_start=len(documents) > 1,
    )
