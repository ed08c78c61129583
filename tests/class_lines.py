"""Lines of an access log as the router writes them, with values of a test's own.

No two lines are the same, as no two of a router's are: each has an id of its own.
"""

import itertools
import json
from typing import Any

LINE: dict[str, Any] = {
    "time": 1790000000.123,
    "id": "5f0c",
    "class": "chat",
    "pool": "speculative",
    "reason": "rule:chat",
    "status": 200,
    "upstream": "127.0.0.1:8000",
    "upstream_status": "200",
    "seconds": 2.5,
    "first_byte_seconds": "0.5",
    "bytes": 4096,
    "stream": "1",
    "served_pool": "speculative",
    "completion_tokens": "101",
    "prompt_tokens": "900",
    "drafts": "40",
    "draft_tokens": "120",
    "accepted_tokens": "60",
}

_IDS = itertools.count()


def written(*left_out: str, **other: object) -> bytes:
    """Write a line without its end; keys in `other` replace those of the usual one."""
    usual = {**LINE, "id": f"{next(_IDS):032x}"}
    found = {key: value for key, value in {**usual, **other}.items() if key not in left_out}
    return json.dumps(found, separators=(",", ":")).encode()


def of_class(name: str, **other: object) -> bytes:
    """Write a line of a class."""
    return written(**{"class": name, **other})
