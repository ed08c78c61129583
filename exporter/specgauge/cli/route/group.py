"""`specgauge route`: where requests go, and why."""

import click

from specgauge.cli.route.explain import explain


@click.group("route", epilog="\b\nExample:\n  specgauge route explain request.json --load 3")
def route_group() -> None:
    """Tell which pool would serve a request."""


route_group.add_command(explain)
