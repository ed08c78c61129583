"""`specgauge report`: the past of a deployment as a page for people, or as JSON."""

from time import time
from typing import Any

import click

from specgauge.cli.guard.configuration import read_config
from specgauge.cli.report.ask import ask
from specgauge.cli.report.deliver import deliver
from specgauge.cli.report.options import report_options
from specgauge.cli.report.plan import Plan, plan_of
from specgauge.cli.report.schedule import scheduled
from specgauge.errors import NoVerdictError
from specgauge.guard.flags.urls import check_url, show
from specgauge.model.outcome import ExitCode
from specgauge.report.document import About, document, moment
from specgauge.report.figures import Figures, figures
from specgauge.report.questions import COUNTERS


@click.command(
    epilog="\b\nExamples:\n"
    "  specgauge report --prometheus http://prometheus:9090 --compare-to 7d\n"
    "  specgauge report --prometheus http://prometheus:9090 -o week-{date}.html\n"
    "  specgauge report --prometheus http://prometheus:9090 --schedule systemd"
)
@report_options
def report(**given: Any) -> int:
    """Sum up what speculation did, as a Prometheus remembers it, and say what follows.

    Exit code 0 whatever it says; 2: configuration; 3: Prometheus or the webhook did not answer
    in full; 4: there is nothing to report on.
    """
    config = read_config(given["config_file"])
    plan = plan_of(given, config, now=time())
    if given["schedule"] is not None:
        click.echo(scheduled(given["schedule"], given, plan), nl=False)
        return ExitCode.OK
    now, *before = [figures(one, plan.terms) for one in ask(plan)]
    if now.empty:
        raise NoVerdictError(_nothing(now, plan))
    about = About(
        source=show(check_url(plan.server.url)),
        selector=plan.server.selector or "",
        created=time(),
    )
    deliver(document(now, before[0] if before else None, plan.terms, about), plan)
    return ExitCode.OK


def _nothing(now: Figures, plan: Plan) -> str:
    """Say what is missing and what may help."""
    when = f"from {moment(now.period.start)} to {moment(now.period.end)}"
    where = f" with {plan.server.selector}" if plan.server.selector else ""
    if now.groups:
        step = f"{now.period.step:g} s"
        return f"too few values {when}: each cell of {step} needs one; see report.step"
    series = COUNTERS["generated"][0]
    return f"no {series}{where} {when}: is the sidecar scraped, and the past kept for so long?"
