"""What the recorded server goes through in the demo, and when; no clock and no I/O.

Drafts pay along the load ramp. Then the draft stops fitting the traffic: drafts of a model that
was trained for something else, recorded at eight requests at a time. Whoever obeys the flag makes
the server do without drafts; some time after that the draft is mended, and a probe finds it good.
Then it begins again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from specgauge.serve.demo.recording import Recording, RecordingName
from specgauge.serve.demo.replay_page import Reel
from specgauge.serve.demo.splice import Splice


class Act(StrEnum):
    """What the server does."""

    FITTING = "the draft fits"
    UNFIT = "the draft does not fit"
    WITHOUT = "without drafts"


RECORDED: Mapping[Act, RecordingName] = {
    Act.FITTING: RecordingName.SPECULATIVE,
    Act.UNFIT: RecordingName.POOR,
    Act.WITHOUT: RecordingName.STANDARD,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """When things happen, in recorded seconds.

    The draft stops fitting so long after the flag last went on, and is mended so long after it
    went off.
    """

    spoils_after: float = 150.0
    mended_after: float = 120.0


class Story:
    """The recorded server at every moment; `flag` is what it was told last."""

    def __init__(self, recordings: Mapping[RecordingName, Recording], plot: Plot) -> None:
        self._plot = plot
        reels = {str(act): Reel(recordings[name]) for act, name in RECORDED.items()}
        self._splice = Splice(reels, str(Act.FITTING))
        self.flag = True
        self.fits = True
        self._since = 0.0
        self._unfit_since = 0.0

    @property
    def act(self) -> Act:
        """What it does now."""
        return Act(self._splice.playing)

    def obey(self, flag: bool, now: float) -> None:
        """Be told the flag, at `now` recorded seconds."""
        if flag is not self.flag:
            self._move(now)
            self.flag, self._since = flag, now
        self._move(now)

    def page_at(self, elapsed: float) -> str:
        """Write the page at `elapsed` recorded seconds."""
        self._move(elapsed)
        return self._splice.page_at(self._place(elapsed))

    def _move(self, now: float) -> None:
        """Let happen what is due: the draft stops fitting, or is mended."""
        if self.flag and self.fits and now - self._since >= self._plot.spoils_after:
            self.fits = False
        elif not self.flag and not self.fits and now - self._since >= self._plot.mended_after:
            self.fits = True
        act = Act.WITHOUT if not self.flag else Act.FITTING if self.fits else Act.UNFIT
        if act is not self.act:
            before = self._place(now)
            if act is Act.UNFIT:
                self._unfit_since = now
            self._splice.turn(str(act), before, now - self._begin(act))

    def _place(self, now: float) -> float:
        return now - self._begin(self.act)

    def _begin(self, act: Act) -> float:
        """Say when an act's recording began."""
        # The ramps are of the same arrivals and keep step; the other begins when it is played.
        return self._unfit_since if act is Act.UNFIT else 0.0
