"""`specgauge guard override`: an operator's word goes before any evidence, for a while or for good.

It asks the sidecar; the flag is written by the sidecar alone.
"""

from pathlib import Path

import click

from specgauge.cli.guard.client import send_override
from specgauge.cli.guard.place import config_option, find_control, url_option
from specgauge.cli.values import span_seconds
from specgauge.errors import UsageError
from specgauge.guard.words import span_in_words

_TOLD = {
    "on": "The flag is to be on, whatever the evidence says,",
    "off": "The flag is to be off, whatever the evidence says,",
}


@click.command(
    epilog="\b\nExamples:\n"
    "  specgauge guard override off --for 30m --reason maintenance --config /etc/specgauge.yaml\n"
    "  specgauge guard override auto --config /etc/specgauge.yaml"
)
@click.argument("mode", type=click.Choice(["on", "off", "auto"]))
@click.option("--for", "span", metavar="DURATION", help="How long; without it until `auto`.")
@click.option("--reason", metavar="TEXT", default="", help="Why; it goes into the record.")
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    help="File with the sidecar's token, if not as configured.",
)
@url_option
@config_option
def override(
    mode: str,
    span: str | None,
    reason: str,
    token_file: Path | None,
    url: str | None,
    file: Path | None,
) -> None:
    """Have the flag on or off, or leave it to the evidence again (auto), which also unlatches.

    Exit code 0: it is accepted; 1: no guard is configured, or another process guards the flag and
    has to be asked; 2: configuration, or the token is missing or wrong; 3: the sidecar does not
    answer.
    """
    seconds = _seconds(mode, span)
    wish = {"mode": mode, "for": span, "reason": reason or None}
    sent = {name: value for name, value in wish.items() if value is not None}
    send_override(find_control(url, file, token_file), sent)
    click.echo(_tell(mode, seconds))


def _seconds(mode: str, span: str | None) -> float | None:
    """Read the time it lasts; raises UsageError for one that is none."""
    if span is None:
        return None
    if mode == "auto":
        raise UsageError("--for is of no use with auto, which lasts until the next override")
    return span_seconds("--for", span)


def _tell(mode: str, seconds: float | None) -> str:
    if mode == "auto":
        return "The guard decides again, from the next scrape on."
    until = "until an override of auto" if seconds is None else f"for {span_in_words(seconds)}"
    return f"{_TOLD[mode]} {until}."
