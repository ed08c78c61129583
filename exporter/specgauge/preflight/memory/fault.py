"""What goes wrong when a model's folder is read; nothing is read here."""

from specgauge.errors import SpecgaugeError
from specgauge.model.outcome import ExitCode


class FolderError(SpecgaugeError):
    """A model's folder that cannot be used: the file, what is wrong with it, and the fix."""

    exit_code = ExitCode.UNREADABLE
