"""Puts a case together from what the command line names; what is not looked at gets its reason."""

import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from yarl import URL

from specgauge.baseline.files import load_file
from specgauge.baseline.schema import BaselineFile, usable
from specgauge.cli.baseline.reading import counted
from specgauge.cli.doctor.files import expressions_of, left_out, log_lines, requests_of
from specgauge.cli.doctor.look import Seen, look
from specgauge.cli.doctor.models import models_of, probe_of
from specgauge.errors import UsageError
from specgauge.model.derived import Hints
from specgauge.preflight.doctor.case import Case, Gpu, Model
from specgauge.preflight.doctor.codes import Symptom
from specgauge.preflight.doctor.gpu import read_gpus
from specgauge.preflight.doctor.logs import Log, read_log
from specgauge.preflight.doctor.names import Server, known_release
from specgauge.preflight.doctor.queries import Expression, Query, judge_names
from specgauge.preflight.doctor.setup import Setup, of_arguments, of_command, of_config

_HERE = frozenset({"localhost", "127.0.0.1", "::1"})


async def gather(pages: tuple[Path, ...], options: dict[str, Any]) -> Case:
    """Look at everything that is named; UsageError where that is nothing."""
    if not pages and not any(options[n] for n in _SOURCES):
        raise UsageError(
            "give something to look at: pages, --url, --timeline, --log, --command, --rules, ..."
        )
    log = _log(options["logs"])
    setup = _setup(options, log)
    segmented = requests_of(options["requests"]) if options["requests"] is not None else None
    baseline = load_file(options["baseline"]) if options["baseline"] is not None else None
    asked = _expressions(options)
    looked = await look(pages, options)
    seen = looked or Seen()
    release = _release(options["release"], seen, log)
    dialect = seen.moments[-1].page.layout.dialect if seen.moments else None
    names = frozenset(name for page in seen.pages for name in page.names)
    hints = Hints(method=setup.method if setup is not None else None)
    gpus, no_gpus = _gpus(options["url"])
    return Case(
        symptom=Symptom(options["symptom"]) if options["symptom"] else None,
        models=_models(seen, baseline, hints),
        dialect=dialect,
        release=release,
        failure=seen.failure,
        looked=looked is not None,
        still=_still(seen),
        pages=seen.pages,
        log=log,
        setup=setup,
        segmented=segmented,
        queries=_queries(asked, Server(dialect=dialect, release=release, names=names)),
        gpus=gpus,
        probe=probe_of(seen, hints),
        probe_failed=bool(seen.probe_failure),
        not_measured=_not_measured(options, looked, setup, release, no_gpus),
    )


Asked = list[tuple[str, list[Expression]]]


def _expressions(options: Mapping[str, Any]) -> Asked:
    """Read the queries of every rule file and dashboard."""
    named = [(option, path) for option in ("rules", "dashboard") for path in options[option]]
    return [(str(path), expressions_of(path, f"--{option}")) for option, path in named]


def _queries(asked: Asked, server: Server) -> tuple[Query, ...] | None:
    """Hold every name against the server; None where no file was given."""
    found = [query for file, read in asked for query in judge_names(read, file, server)]
    return tuple(found) if asked else None


def _models(seen: Seen, baseline: BaselineFile | None, hints: Hints) -> tuple[Model, ...]:
    """Derive the models, and judge them where there is a baseline."""
    if baseline is None:
        return models_of(seen.moments, None, hints, blocks=None, now=time.time())
    return models_of(
        seen.moments,
        usable(baseline, source="--baseline"),
        hints,
        blocks=baseline.hardware.kv_blocks,
        now=time.time(),
    )


_SOURCES = ("url", "timeline", "logs", "command", "config", "rules", "dashboard", "requests")


def _log(paths: tuple[Path, ...]) -> Log | None:
    """Read logs, with a count on a terminal where that takes a while."""
    return read_log(counted(log_lines(paths), "log lines read")) if paths else None


def _release(told: str | None, seen: Seen, log: Log | None) -> str | None:
    """Give the release by whoever tells it: the command line, the server, the log."""
    if told is not None and known_release(told) is None:
        raise UsageError(f"--release {told}: no release; write 0.25.1")
    for text in (told, seen.release, log.release if log is not None else None):
        release = known_release(text)
        if release is not None:
            return release
    return None


def _setup(options: Mapping[str, Any], log: Log | None) -> Setup | None:
    """Read how the server was started: as told, or as its log has it."""
    if options["command"] is not None and options["config"] is not None:
        raise UsageError("--command and --speculative-config: give one of them")
    for option, read, text in (
        ("--command", of_command, options["command"]),
        ("--speculative-config", of_config, options["config"]),
    ):
        if text is not None:
            try:
                return read(text)
            except ValueError as problem:
                raise UsageError(f"{option}: {problem}") from None
    return of_arguments(log.arguments) if log is not None and log.arguments else None


def _still(seen: Seen) -> bool:
    """Tell whether nothing differs from page to page."""
    if len(seen.moments) < 2:  # noqa: PLR2004 - one against another
        return False
    first = seen.moments[0].page.values
    return all(moment.page.values == first for moment in seen.moments)


def _gpus(url: str | None) -> tuple[tuple[Gpu, ...] | None, str]:
    """Read this machine's cards where the server is on it."""
    host = None
    if url is not None:
        try:
            host = URL(url).host
        except ValueError:
            host = None
    if host not in _HERE:
        return None, "the server is not known to be on this machine"
    return read_gpus()


def _not_measured(
    options: Mapping[str, Any],
    seen: Seen | None,
    setup: Setup | None,
    release: str | None,
    no_gpus: str,
) -> dict[str, str]:
    """Say what was not looked at, and why."""
    reasons: dict[str, str] = defaultdict(str)
    if seen is None:
        reasons["page"] = "no page, --timeline or --url"
    elif len(seen.moments) == 1:
        reasons["window"] = "only one page: its figures are since the engine started"
    reasons |= _unread(options)
    if setup is None:
        reasons["flags"] = "no --command, --speculative-config or log with the arguments"
    if release is None:
        reasons["release"] = "no server or log tells it, and no --release"
    if not options["probe"]:
        reasons["probe"] = "no --probe"
    elif seen is not None and seen.probe_failure:
        reasons["probe"] = seen.probe_failure
    if no_gpus:
        reasons["gpu"] = no_gpus
    return dict(reasons)


def _unread(options: Mapping[str, Any]) -> dict[str, str]:
    """Say which files were not given, or not read whole."""
    log = left_out(options["logs"]) if options["logs"] else "no --log"
    baseline = "" if options["baseline"] is not None else "no --baseline"
    return {name: why for name, why in (("baseline", baseline), ("log", log)) if why}
