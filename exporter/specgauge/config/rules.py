"""How keys must fit together; each rule looks at the merged values whatever else is wrong there.

Nothing here opens a file, and no rule repeats what the type of a single key already says.
"""

from collections.abc import Iterator
from typing import Any

from specgauge.config.address import default_name
from specgauge.config.keys import KEYS, KeyPath, dotted, template
from specgauge.config.problems import Issue
from specgauge.units import format_duration, parse_duration, quote

_FEWEST_INTERVALS = 2


def inline_secrets(file: dict[str, Any]) -> Iterator[Issue]:
    """Find secrets written into the file itself."""
    for path, _ in leaves(file):
        key = KEYS.get(template(path))
        if key and key.secret:
            variable = key.variable.replace("#", str(path[1]) if len(path) > 1 else "")
            name = path[-1]
            message = f"secrets stay out of the file; use {name}_file or {variable}"
            yield Issue(path=path, message=message)


def broken_rules(document: dict[str, Any]) -> Iterator[Issue]:
    """Find everything that does not fit together."""
    targets = document.get("targets", [])
    if targets == []:
        message = "none given; name one with --target URL, SPECGAUGE_TARGETS or the key targets"
        yield Issue(path=("targets",), message=message)
    yield from _window(document)
    yield from _decision(document)
    yield from _staleness(document)
    yield from one_of(document, (), ("token", "token_file"))
    report = mapping(document.get("report"))
    yield from one_of(report, ("report",), ("token", "token_file"))
    yield from one_of(report, ("report",), ("webhook", "webhook_file"))
    if not isinstance(targets, list):
        return
    yield from _names(targets)
    yield from _sibling(document, targets)
    for index, target in enumerate(targets):
        if isinstance(target, dict):
            path = ("targets", index)
            auth = mapping(target.get("auth"))
            secrets = ("bearer", "bearer_file", "basic", "basic_file")
            yield from one_of(auth, (*path, "auth"), secrets)
            yield from _tls(target, (*path, "tls"))


def leaves(node: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Walk over every single value with its path; an empty list or mapping has none."""
    if isinstance(node, dict):
        for name, value in node.items():
            yield from leaves(value, (*path, name))
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from leaves(value, (*path, index))
    else:
        yield path, node


def _window(document: dict[str, Any]) -> Iterator[Issue]:
    interval = seconds(mapping(document.get("scrape")).get("interval", "1s"))
    window = seconds(document.get("window", "60s"))
    if interval is None or window is None or window >= _FEWEST_INTERVALS * interval:
        return
    least = format_duration(_FEWEST_INTERVALS * interval)
    message = f"must be at least {least}, twice scrape.interval ({format_duration(interval)})"
    yield Issue(path=("window",), message=message)


def _decision(document: dict[str, Any]) -> Iterator[Issue]:
    interval = seconds(mapping(document.get("scrape")).get("interval", "1s"))
    window = seconds(document.get("window", "60s"))
    decision = seconds(document.get("decision_window"))
    if decision is None or interval is None or window is None:
        return
    if decision > window:
        message = f"must not be above window ({format_duration(window)})"
        yield Issue(path=("decision_window",), message=message)
    elif decision < _FEWEST_INTERVALS * interval:
        least = format_duration(_FEWEST_INTERVALS * interval)
        message = f"must be at least {least}, twice scrape.interval ({format_duration(interval)})"
        yield Issue(path=("decision_window",), message=message)


def _staleness(document: dict[str, Any]) -> Iterator[Issue]:
    if "routing" not in document:
        return
    interval = seconds(mapping(document.get("scrape")).get("interval", "1s"))
    stale = seconds(mapping(document.get("routing")).get("stale_after", "5s"))
    if interval is None or stale is None or stale >= _FEWEST_INTERVALS * interval:
        return
    least = format_duration(_FEWEST_INTERVALS * interval)
    message = f"must be at least {least}, twice scrape.interval ({format_duration(interval)})"
    yield Issue(path=("routing", "stale_after"), message=message)


def _sibling(document: dict[str, Any], targets: list[Any]) -> Iterator[Issue]:
    wanted = mapping(document.get("baseline")).get("target")
    if not isinstance(wanted, str):
        return
    for target in targets:
        if isinstance(target, dict) and _name(target) == wanted:
            if target.get("role") != "standard":
                message = f"{quote(wanted)} must have role: standard, to run without speculation"
                yield Issue(path=("baseline", "target"), message=message)
            return
    yield Issue(path=("baseline", "target"), message=f"{quote(wanted)} is the name of no target")


def _names(targets: list[Any]) -> Iterator[Issue]:
    first: dict[str, int] = {}
    for index, target in enumerate(targets):
        name = _name(mapping(target))
        if name is None:
            continue
        if name in first:
            path = ("targets", index, "name")
            message = f"{quote(name)} is also the name of targets[{first[name]}]; name one of them"
            yield Issue(path=path, message=message)
        first.setdefault(name, index)


def chosen_backend(document: dict[str, Any]) -> str:
    """Name the section of `flag` that counts."""
    backend = mapping(document.get("flag")).get("backend", "embedded")
    return backend if isinstance(backend, str) else ""


def one_of(node: dict[str, Any], path: KeyPath, names: tuple[str, ...]) -> Iterator[Issue]:
    """Find keys of which only one may be set."""
    given = [name for name in names if name in node]
    for name in given[1:]:
        message = f"{dotted((*path, given[0]))} is set too; keep one of them"
        yield Issue(path=(*path, name), message=message)


def _tls(target: dict[str, Any], path: KeyPath) -> Iterator[Issue]:
    tls = mapping(target.get("tls"))
    url = target.get("url")
    if tls and isinstance(url, str) and not url.lower().startswith("https://"):
        yield Issue(path=path, message="is for https:// only; change the url or remove tls")
    if "key_file" in tls and "cert_file" not in tls:
        yield Issue(path=(*path, "key_file"), message="is of no use without cert_file; set it too")


def _name(target: dict[str, Any]) -> str | None:
    name, url = target.get("name"), target.get("url")
    if name is not None or not isinstance(url, str):
        return name if isinstance(name, str) else None
    try:
        return default_name(url)
    except ValueError:
        return None


def seconds(value: object) -> float | None:
    """Read a duration; None where it is none, which its type tells."""
    if isinstance(value, float):
        return value
    try:
        return parse_duration(value) if isinstance(value, str) else None
    except ValueError:
        return None


def mapping(value: Any) -> dict[str, Any]:
    """Give a section, empty where something else stands there."""
    return value if isinstance(value, dict) else {}
