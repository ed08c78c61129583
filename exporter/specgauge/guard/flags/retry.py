"""Says how long to wait after a failure; it waits for nothing."""

FIRST = 1.0
CAP = 60.0
SHORTEST = 0.5
LONGEST_ASKED = 300.0
_DOUBLINGS = 6  # the cap is reached by then


def wait_after(failures: int, retry_after: float | None, jitter: float) -> float:
    """Give the seconds to wait after that many failures in a row; `jitter` is from 0 to 1.

    The ceiling doubles up to the cap and the wait is anywhere below it, but never so short that
    attempts crowd. What the server asked for is honoured within reason.
    """
    ceiling = min(CAP, FIRST * 2.0 ** min(max(failures, 1) - 1, _DOUBLINGS))
    wait = max(SHORTEST, ceiling * jitter)
    return max(wait, min(retry_after or 0.0, LONGEST_ASKED))
