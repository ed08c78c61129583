"""The `specgauge` command: picks a command and turns our errors into one line and an exit code."""

import contextlib
import errno
import os
import sys
from collections.abc import Sequence

import click

from specgauge import __version__
from specgauge.cli.advise import advise
from specgauge.cli.baseline.group import baseline_group
from specgauge.cli.checklist.group import checklist_group
from specgauge.cli.compare.command import compare
from specgauge.cli.config import config_group
from specgauge.cli.demo import demo
from specgauge.cli.doctor.command import doctor
from specgauge.cli.draft.group import draft_group
from specgauge.cli.flags.group import flags_group
from specgauge.cli.guard.group import guard_group
from specgauge.cli.inspect import inspect
from specgauge.cli.memory import memory
from specgauge.cli.render import render_files
from specgauge.cli.report.command import report
from specgauge.cli.route.group import route_group
from specgauge.cli.serve import serve
from specgauge.cli.sweep.group import sweep_group
from specgauge.cli.values import plain
from specgauge.cli.verdict import verdict
from specgauge.errors import SpecgaugeError
from specgauge.model.outcome import ExitCode


@click.group(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="\b\nExample:\n  specgauge serve --target http://127.0.0.1:8000",
)
@click.version_option(__version__, prog_name="specgauge")
def cli() -> None:
    """Tell whether speculative decoding pays on a vLLM server.

    \b
    Exit codes: 0 fine, 1 a check failed, 2 usage or configuration,
    3 a source could not be read, 4 no verdict possible.
    """  # noqa: D301 - click's mark for text kept as it is


cli.add_command(serve)
cli.add_command(inspect)
cli.add_command(verdict)
cli.add_command(compare)
cli.add_command(baseline_group)
cli.add_command(guard_group)
cli.add_command(config_group)
cli.add_command(checklist_group)
cli.add_command(render_files)
cli.add_command(report)
cli.add_command(route_group)
cli.add_command(demo)
cli.add_command(doctor)
cli.add_command(flags_group)
cli.add_command(draft_group)
cli.add_command(sweep_group)
cli.add_command(memory)
cli.add_command(advise)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; gives the exit code."""
    try:
        code = cli.main(args=argv, prog_name="specgauge", standalone_mode=False)
        sys.stdout.flush()
    except SpecgaugeError as error:
        for line in str(error).splitlines():
            click.echo(f"specgauge: {plain(line)}", err=True)
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return ExitCode.USAGE
    except click.Abort:
        return 130
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        return _unwritten()
    except SystemExit:
        return ExitCode.OK  # so click and rich end where nobody reads the output, as with `head`
    return code if isinstance(code, int) else ExitCode.OK


def _unwritten() -> ExitCode:
    """Say that the output had no room; what is left of it would be tried again at the end."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    click.echo("specgauge: the output could not be written: no space is left; free some", err=True)
    return ExitCode.UNREADABLE
