"""What goes wrong when a model is read; nothing is read here."""

from specgauge.errors import SpecgaugeError
from specgauge.model.outcome import ExitCode


class ModelError(SpecgaugeError):
    """A model that cannot be read: the folder or name, what is wrong, and what to do."""

    exit_code = ExitCode.UNREADABLE

    def __init__(self, message: str) -> None:
        super().__init__("".join(one if one.isprintable() else ascii(one)[1:-1] for one in message))
