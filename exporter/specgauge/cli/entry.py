"""Where the process begins: signals are safe from here on, before anything slow is imported."""

import signal
import sys
from types import FrameType


def entry() -> None:
    """Leave with the exit code of the command line that the process was given."""
    if sys.argv[1:2] == ["serve"]:
        _wait_for_the_sidecar()
    from specgauge.cli.main import main  # noqa: PLC0415 - it takes half a second

    sys.exit(main())


def _wait_for_the_sidecar() -> None:
    """Until the sidecar has its own handlers: nothing to reload yet, and nothing to lose."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _leave)


def _leave(_number: int, _frame: FrameType | None) -> None:
    sys.exit(0)
