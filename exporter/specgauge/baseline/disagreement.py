"""Why a client's time per token is not the server's: an explanation only where it is large enough.

Looks at figures alone; changes none of them.
"""

import math
from collections.abc import Sequence

from specgauge.baseline.stream import Request

MOST_DIFFERENCE = 0.05
"""Relative difference of client and server TPOT above which the level's notes say so."""

MOST_LATE = 0.001
"""Seconds that the generator may add to a chunk at p99 before it calls itself the bottleneck."""

_COALESCED = 1.05


def difference(
    server: float, client: float, ended: Sequence[Request], late: float | None
) -> list[str]:
    """Explain a client's TPOT that is not the server's by what is large enough, or warn.

    A late loop moves the first chunk of a request and the last, a stream of several tokens a
    chunk does by all but one of them; both are spread over all tokens of the request.
    """
    share = client / server - 1.0
    if abs(share) <= MOST_DIFFERENCE:
        return []
    tokens = sum(one.tokens or 0 for one in ended if one.arrivals)
    chunks = sum(len(one.arrivals) for one in ended if one.tokens)
    decoded = [one.decode_tokens for one in ended if one.tpot is not None and one.decode_tokens]
    each = sum(decoded) / len(decoded) if decoded else math.inf
    rest = abs(share) - MOST_DIFFERENCE
    if late is not None and late > MOST_LATE and late / (each * server) >= rest:
        why = "explained by the load generator, which was the bottleneck"
    elif chunks and tokens > _COALESCED * chunks and (tokens / chunks - 1.0) / each >= rest:
        why = f"explained by the stream, which holds {tokens / chunks:.2f} tokens a chunk"
    else:
        why = "not explained: is the metrics page that of this server alone?"
    return [f"client TPOT is {share:+.1%} off the server's, {why}"]
