"""The one exception tree; each stage raises its own, with the thing, the place and the fix."""

from collections.abc import Sequence

from specgauge.model.outcome import ExitCode, ScrapeResult


class SpecgaugeError(Exception):
    """Anything a user can be told in one line; `exit_code` is what the command line ends with."""

    exit_code: ExitCode = ExitCode.FAILED


class ConfigError(SpecgaugeError):
    """A configuration that cannot be used; `problems` holds every fault, each with its path."""

    exit_code = ExitCode.USAGE

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class BaselineError(SpecgaugeError):
    """A baseline that cannot be used; `problems` holds every fault, each with its path."""

    exit_code = ExitCode.UNREADABLE

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class RenderError(SpecgaugeError):
    """Rendered text that cannot be handed out; `problems` holds every fault with its file."""

    exit_code = ExitCode.FAILED

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class UsageError(SpecgaugeError):
    """A command line that cannot be obeyed."""

    exit_code = ExitCode.USAGE


class NoVerdictError(SpecgaugeError):
    """Sources that can be read and hold too little for a verdict."""

    exit_code = ExitCode.NO_VERDICT


class SourceError(SpecgaugeError):
    """A page that was not had, or not to be trusted; `result` is the label it is counted under."""

    exit_code = ExitCode.UNREADABLE

    def __init__(self, result: ScrapeResult, detail: str) -> None:
        self.result = result
        self.detail = detail
        super().__init__(f"{result}: {detail}")
