"""Asks the sidecar, Prometheus and Grafana, and reads files; what is not to be had is a Trouble.

Every call ends within its timeout; no redirect is followed, and no answer is taken beyond its size.
"""

import errno
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from specgauge.errors import UsageError
from specgauge.guard.flags.http import FlagHttp, HttpTerms
from specgauge.guard.flags.protocol import FlagError, WriteResult
from specgauge.preflight.checklist.case import Answer, Shown
from specgauge.preflight.checklist.evidence import Given, Kind, read_evidence
from specgauge.preflight.checklist.lock import hash_dashboard
from specgauge.preflight.checklist.reading import at, parse_object
from specgauge.preflight.checklist.result import Reason, Trouble
from specgauge.render.dashboards import NAMES
from specgauge.serve.fleet_api import tenant_headers

SECONDS = 10.0
_MOST_BYTES = 16 << 20
_AUDIT_BYTES = 1 << 20
_STATUS = "/api/v1/status"
_GUARD = "/api/v1/guard"
_RULES = "/api/v1/rules"


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server to ask: its root, and the file with the token for it."""

    url: str
    token_file: str | None = None
    token: str | None = None
    ca_file: str | None = None
    tenant: str | None = None

    def open(self, option: str) -> FlagHttp:
        """Give a client; raises UsageError where the URL is none."""
        terms = HttpTerms(
            url=self.url,
            timeout=SECONDS,
            headers=tenant_headers(self.tenant),
            token_file=self.token_file,
            token=self.token,
            ca_file=self.ca_file,
            max_bytes=_MOST_BYTES,
        )
        try:
            return FlagHttp(terms)
        except ValueError as error:
            raise UsageError(f"{option}: {error}") from None


async def ask_status(http: FlagHttp) -> Answer | Trouble:
    """Ask the sidecar what it sees."""
    return await _ask(http, _STATUS, fix="start the sidecar, or give --url")


async def ask_guard(http: FlagHttp) -> Answer | Trouble:
    """Ask the sidecar how its guard stands."""
    return await _ask(http, _GUARD, fix="start the sidecar, or give --url")


async def ask_rules(http: FlagHttp) -> Answer | Trouble:
    """Ask Prometheus which rules it has."""
    return await _ask(http, _RULES, fix="see that --prometheus is its root and answers")


async def _ask(http: FlagHttp, path: str, *, fix: str) -> Answer | Trouble:
    source = f"{http.place.rstrip('/')}{path}"
    try:
        answer = await http.call("GET", path)
        return Answer(source=source, body=parse_object(answer.body))
    except FlagError as error:
        return Trouble(source=source, reason=_reason(error), detail=error.detail, fix=fix)
    except ValueError as error:
        detail = f"{source}: {error}"
        return Trouble(source=source, reason=Reason.UNREADABLE, detail=detail, fix=fix)


def _reason(error: FlagError) -> Reason:
    unread = error.result is WriteResult.UNREADABLE
    return Reason.UNREADABLE if unread else Reason.UNREACHABLE


async def ask_dashboards(http: FlagHttp) -> Shown | Trouble:
    """Ask Grafana for each dashboard by its uid."""
    source = http.place
    hashes: dict[str, str | None] = {}
    for name in NAMES:
        uid = f"specgauge-{name}"
        path = f"/api/dashboards/uid/{uid}"
        try:
            answer = await http.call("GET", path, expect=(HTTPStatus.OK, HTTPStatus.NOT_FOUND))
            found = None if answer.status == HTTPStatus.NOT_FOUND else answer.json()
        except FlagError as error:
            fix = "see that --grafana is its root, and --grafana-token-file may read dashboards"
            return Trouble(source=source, reason=_reason(error), detail=error.detail, fix=fix)
        shown = at(found, "dashboard")
        hashes[uid] = hash_dashboard(shown) if isinstance(shown, Mapping) else None
    return Shown(source=source, hashes=hashes)


def find_dashboards(folder: Path) -> Shown | Trouble:
    """Look for the files of the dashboards in a folder, or in `dashboards` below it."""
    hashes: dict[str, str | None] = {}
    for name in NAMES:
        try:
            shown = _find(folder, f"{name}.json")
        except (OSError, ValueError) as error:
            detail = f"{folder}: {name}.json: {getattr(error, 'strerror', None) or error}"
            return Trouble(source=str(folder), reason=Reason.UNREADABLE, detail=detail)
        hashes[f"specgauge-{name}"] = None if shown is None else hash_dashboard(shown)
    return Shown(source=str(folder), hashes=hashes)


def _find(folder: Path, name: str) -> Mapping[str, Any] | None:
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    places = (folder / name, folder / "dashboards" / name)
    place = next((one for one in places if one.exists()), None)
    return None if place is None else parse_object(read_bytes(place))


def read_given(kind: Kind, path: Path | None) -> Given:
    """Read a document of another command; None where none was given."""
    if path is None:
        return None
    try:
        data = read_bytes(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        fix = f"make it with {kind.command} --json"
        return Trouble(
            source=str(path), reason=Reason.UNREADABLE, detail=f"{path}: {reason}", fix=fix
        )
    return read_evidence(kind, data, str(path))


def read_answer(path: Path) -> Answer | Trouble:
    """Read an answer that was recorded."""
    try:
        return Answer(source=str(path), body=parse_object(read_bytes(path)))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        detail = f"{path}: {reason}"
        return Trouble(source=str(path), reason=Reason.UNREADABLE, detail=detail)


def read_bytes(path: Path) -> bytes:
    """Read a whole file; raises OSError or ValueError where it is none, or too large."""
    if path.exists() and not path.is_file():
        raise ValueError("not a regular file")
    with path.open("rb") as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise ValueError(f"larger than {_MOST_BYTES >> 20} MiB")
    return data


def read_audit(path: Path | None) -> tuple[Mapping[str, Any], ...]:
    """Read the end of the guard's record; lines that are none are passed over."""
    if path is None:
        return ()
    try:
        with path.open("rb") as file:
            file.seek(max(path.stat().st_size - _AUDIT_BYTES, 0))
            lines = file.read(_AUDIT_BYTES).splitlines()
    except OSError:
        return ()
    return tuple(_objects(lines))


def _objects(lines: Iterable[bytes]) -> Iterable[Mapping[str, Any]]:
    for line in lines:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            yield found
