"""Routing for Alertmanager: who gets what, what is told together, and what silences what."""

from collections.abc import Iterator

from specgauge.render.files import RenderedFile
from specgauge.render.options import Options
from specgauge.render.quoting import go_string
from specgauge.render.rules import HEAD
from specgauge.render.templating import fill
from specgauge.units import format_duration

_LEVELS = ("critical", "warning")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n"}
_TOGETHER = 10.0


def alertmanager(options: Options) -> Iterator[RenderedFile]:
    """Make the whole configuration, with a webhook for each team and severity."""
    severities = tuple(options.levels[level] for level in _LEVELS)
    teams = tuple(dict.fromkeys((options.team, *options.teams.values())))
    text = fill(
        "stack/alertmanager.yaml",
        options,
        severities=severities,
        teams=teams,
        receivers=tuple(dict.fromkeys(receiver(t, s) for s in severities for t in teams)),
        receiver=receiver,
        matcher=matcher,
        same_server=("instance", "target", *options.keep_labels),
        interval=format_duration(_TOGETHER * options.evaluation_interval),
    )
    yield RenderedFile(path="rules/alertmanager.yaml", text=HEAD + text)


def receiver(team: str, severity: str) -> str:
    """Name the receiver of a team's alerts of one severity."""
    return f"{team}/{severity}"


def matcher(label: str, value: str) -> str:
    """Write a matcher as YAML; Alertmanager knows three escapes and takes the rest as it is."""
    text = f'{label}="' + "".join(_ESCAPES.get(one, one) for one in value) + '"'
    if text.isprintable():
        return "'" + text.replace("'", "''") + "'"
    return go_string(text)
