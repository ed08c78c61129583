"""Findings and settings as text for a person."""

from collections.abc import Iterable

import click

from specgauge.cli.values import plain
from specgauge.preflight.flags.finding import Finding
from specgauge.preflight.flags.show import Shown, default_of


def tell(findings: Iterable[Finding], *, err: bool) -> None:
    """Print findings, worst first: how bad, of what, what it is, and below it the fix."""
    for one in findings:
        line = f"{one.severity:<8}{one.subject}: {one.message} [{one.code}]"
        click.echo(plain(line), err=err)
        if one.fix:
            click.echo(plain(f"{'':<8}{one.fix}"), err=err)


def tell_shown(shown: Shown) -> None:
    """Print a command line with why each key is there, and what else can be set."""
    click.echo(shown.command)
    click.echo(f"\nruns on {shown.engine.upper()} of vLLM {shown.release}; the keys:")
    for name, why in shown.why.items():
        click.echo(f"  {name:<24}{why}")
    click.echo("can be set besides:")
    for setting in shown.settings:
        default = default_of(setting)
        told = f" (default {default})" if default else ""
        click.echo(f"  {setting.name:<39}{setting.help}{told}")
