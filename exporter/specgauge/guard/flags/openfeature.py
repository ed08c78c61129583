"""Writes the embedded flag as OpenFeature's clients ask for it; it listens nowhere.

OFREP has one more answer, 429; it silences a client for all flags, so it is never given.
"""

import json
from dataclasses import dataclass
from hashlib import sha256
from http import HTTPStatus

from specgauge.guard.flags.embedded import EmbeddedFlag
from specgauge.guard.once import RepeatedKeyError, load_once

_VARIANTS = {True: "on", False: "off"}


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonAnswer:
    """An answer for the web: a status, a body and, where it can be asked for again, its ETag."""

    status: int
    body: bytes
    etag: str | None = None


def evaluate(flag: EmbeddedFlag, key: str, body: bytes) -> JsonAnswer:
    """Answer OFREP's question for one flag; `body` is the question, which may be empty."""
    fault = _fault(body)
    if fault is not None:
        code, details = fault
        return _error(HTTPStatus.BAD_REQUEST, key, code, details)
    if key != flag.key:
        details = f"there is one flag here, {flag.key}"
        return _error(HTTPStatus.NOT_FOUND, key, "FLAG_NOT_FOUND", details)
    if flag.value is None:
        details = "the flag has not been set yet; use the default"
        return _error(HTTPStatus.NOT_FOUND, key, "FLAG_NOT_FOUND", details)
    return _json(
        HTTPStatus.OK,
        {
            "key": key,
            "value": flag.value,
            "reason": "STATIC",
            "variant": _VARIANTS[flag.value],
            "metadata": {"source": "specgauge", "since": flag.since or 0.0},
        },
    )


def unreadable(key: str, details: str, *, too_large: bool = False) -> JsonAnswer:
    """Answer a question for a flag whose body could not even be read."""
    if too_large:
        return _error(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, key, "GENERAL", details)
    return _error(HTTPStatus.BAD_REQUEST, key, "PARSE_ERROR", details)


def flagd_document(flag: EmbeddedFlag, if_none_match: str | None = None) -> JsonAnswer:
    """Write flagd's source of flags, or 304 where the asker has it already."""
    flags = {}
    if flag.value is not None:
        flags[flag.key] = {
            "state": "ENABLED",
            "variants": {"on": True, "off": False},
            "defaultVariant": _VARIANTS[flag.value],
        }
    schema = "https://flagd.dev/schema/v0/flags.json"
    body = json.dumps({"$schema": schema, "flags": flags}).encode() + b"\n"
    etag = f'"{sha256(body).hexdigest()[:32]}"'
    known = {tag.strip().removeprefix("W/") for tag in (if_none_match or "").split(",")}
    if known & {etag, "*"}:
        return JsonAnswer(status=HTTPStatus.NOT_MODIFIED, body=b"", etag=etag)
    return JsonAnswer(status=HTTPStatus.OK, body=body, etag=etag)


def _fault(body: bytes) -> tuple[str, str] | None:
    """Say what is wrong with a question: nothing, or a code of OFREP's with words."""
    try:
        question = load_once(body or b"{}")
    except RepeatedKeyError as error:
        return "PARSE_ERROR", str(error)
    except (ValueError, RecursionError):
        return "PARSE_ERROR", "the body is not JSON"
    if not isinstance(question, dict):
        return "PARSE_ERROR", "the body is no JSON object"
    if not isinstance(question.get("context") or {}, dict):
        return "INVALID_CONTEXT", "context is no JSON object"
    return None


def _error(status: HTTPStatus, key: str, code: str, details: str) -> JsonAnswer:
    return _json(status, {"key": key, "errorCode": code, "errorDetails": details})


def _json(status: HTTPStatus, document: dict[str, object]) -> JsonAnswer:
    return JsonAnswer(status=int(status), body=json.dumps(document).encode())
