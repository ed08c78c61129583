"""How the keys of the guard and its flag must fit together, beside what `rules` says.

Nothing here opens a file; paths are only followed to see whether two lead to one. No rule repeats
what the type of a single key already says.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from specgauge.config.keys import KeyPath
from specgauge.config.problems import Issue
from specgauge.config.rules import chosen_backend, mapping, one_of, seconds
from specgauge.units import format_duration

PLAYBOOK_WINDOW = 60.0

# What each backend cannot do without, and how it is written.
_NEEDED: dict[str, dict[str, str]] = {
    "webhook": {"url": "http://flags:8080"},
    "file": {"path": "/run/flags/speculation"},
    "exec": {"on": "[systemctl, start, spec]", "off": "[systemctl, stop, spec]"},
    "etcd": {"url": "http://etcd:2379"},
    "haproxy": {"socket": "/run/haproxy/admin.sock", "backend": "vllm", "server": "spec"},
    "nginx": {
        "file": "/etc/nginx/pool.conf",
        "on": '"set $pool spec;"',
        "off": '"set $pool plain;"',
    },
    "production-stack": {"file": "router.json", "on": "spec.json", "off": "plain.json"},
}
_ROUTE = {"speculative_service": "vllm-spec", "standard_service": "vllm-plain"}
_CONFIGMAP_KEY = re.compile(r"[A-Za-z0-9_.\-]+")
_DIFFERENT = {"file": ("true", "false"), "etcd": ("true", "false"), "exec": (None, None)}
_WRITTEN = ("state_file", "audit_file", "lock_file")
_WRITTEN_BY = {"embedded": "file", "file": "path", "nginx": "file", "production-stack": "file"}
_DIFFERENT |= {"nginx": (None, None), "production-stack": (None, None)}


def broken_guard_rules(document: dict[str, Any]) -> Iterator[Issue]:
    """Find everything about guard and flag that does not fit together."""
    guard = document.get("guard")
    if "flag" in document and guard is None:
        message = "is of no use without the guard; add guard: {} or remove flag"
        yield Issue(path=("flag",), message=message)
    if isinstance(guard, dict):
        yield from _pool(document, guard)
        yield from _evidence(guard)
        yield from _times(document, guard)
        for name in ("prometheus", "grafana"):
            yield from one_of(mapping(guard.get(name)), ("guard", name), ("token", "token_file"))
    yield from _files(document, mapping(guard))
    if isinstance(flag := document.get("flag"), dict):
        yield from _backend(flag, chosen_backend(document))


def _files(document: dict[str, Any], guard: dict[str, Any]) -> Iterator[Issue]:
    """Find files that would be written and that are named a second time, for something else."""
    backend = chosen_backend(document)
    section = mapping(mapping(document.get("flag")).get(backend))
    own = _WRITTEN_BY.get(backend, "")
    written: list[tuple[tuple[str, ...], object]] = [
        (("guard", name), guard.get(name)) for name in _WRITTEN
    ]
    written.append((("flag", backend, own), section.get(own)))
    routing = mapping(document.get("routing"))
    states = ("state_file", "access_log_state_file")
    written += [(("routing", name), routing.get(name)) for name in states]
    read: list[tuple[tuple[str, ...], object]] = [
        (("guard", "freeze_file"), guard.get("freeze_file")),
        (("guard", "prometheus", "token_file"), mapping(guard.get("prometheus")).get("token_file")),
        (("guard", "grafana", "token_file"), mapping(guard.get("grafana")).get("token_file")),
        (("baseline", "file"), mapping(document.get("baseline")).get("file")),
        (("token_file",), document.get("token_file")),
        (("flag", backend, "token_file"), section.get("token_file")),
        (("routing", "access_log"), routing.get("access_log")),
    ]
    if backend == "production-stack":
        read += [(("flag", backend, name), section.get(name)) for name in ("on", "off")]
    taken: dict[Path, str] = {}
    for path, file in (*written, *read):
        if not isinstance(file, str) or not file:
            continue
        place = _place(file)
        if place in taken:
            message = f"is the same file as {taken[place]}; each needs one of its own"
            yield Issue(path=path, message=message)
        elif (path, file) in written:
            taken[place] = ".".join(path)


def _place(file: str) -> Path:
    """Follow a path to where it leads, as far as that can be seen."""
    try:
        return Path(file).resolve()
    except (OSError, RuntimeError, ValueError):  # a loop of links, or no path at all
        return Path(file)


def _pool(document: dict[str, Any], guard: dict[str, Any]) -> Iterator[Issue]:
    if guard.get("source", "sidecar") == "prometheus":
        if "url" not in mapping(guard.get("prometheus")):
            message = "missing; guard.source: prometheus needs it, as http://prometheus:9090"
            yield Issue(path=("guard", "prometheus", "url"), message=message)
        return
    targets = document.get("targets")
    if not isinstance(targets, list) or not targets or guard.get("source", "sidecar") != "sidecar":
        return
    roles = [mapping(target).get("role", "speculative") for target in targets]
    if (number := roles.count("speculative")) != 1:
        message = (
            f"needs exactly one target with role: speculative, not {number}; run a sidecar beside "
            "each server, or judge the pool with guard.source: prometheus"
        )
        yield Issue(path=("guard",), message=message)


def _evidence(guard: dict[str, Any]) -> Iterator[Issue]:
    latency = mapping(guard.get("signals")).get("latency", "off")
    wanted = latency is True or latency in ("on", "dry_run")
    if wanted and not mapping(guard.get("objective")) and guard.get("preset") != "playbook":
        message = "needs a latency to hold the server to; set guard.objective.tpot, ttft or e2e"
        yield Issue(path=("guard", "signals", "latency"), message=message)


def _times(document: dict[str, Any], guard: dict[str, Any]) -> Iterator[Issue]:
    cooldown = seconds(guard.get("cooldown", "5m"))
    most = seconds(mapping(guard.get("backoff")).get("max", "1h"))
    if cooldown is not None and most is not None and most < cooldown:
        message = f"must not be below guard.cooldown ({format_duration(cooldown)})"
        yield Issue(path=("guard", "backoff", "max"), message=message)
    window = seconds(document.get("window", "60s"))
    if guard.get("preset") == "playbook" and window is not None and window < PLAYBOOK_WINDOW:
        message = f"must be at least {format_duration(PLAYBOOK_WINDOW)} for guard.preset: playbook"
        yield Issue(path=("window",), message=message)


def _backend(flag: dict[str, Any], backend: str) -> Iterator[Issue]:
    section, path = mapping(flag.get(backend)), ("flag", backend)
    for name, example in _NEEDED.get(backend, {}).items():
        if section.get(name) in (None, [], ""):
            message = f"missing; flag.backend: {backend} needs it, as {example}"
            yield Issue(path=(*path, name), message=message)
    if backend in _DIFFERENT:
        on, off = _DIFFERENT[backend]
        on, off = section.get("on", on), section.get("off", off)
        if on == off and on not in (None, [], ""):
            message = f"must differ from flag.{backend}.on, else nothing would change"
            yield Issue(path=(*path, "off"), message=message)
    yield from one_of(section, path, ("token", "token_file"))
    if backend == "webhook":
        yield from _webhook(section)
    if backend == "kubernetes":
        yield from _kubernetes(section, path, flag.get("key"))


def _webhook(webhook: dict[str, Any]) -> Iterator[Issue]:
    if "read_method" in webhook and not {"preset", "read_url"} & set(webhook):
        message = "is of no use without flag.webhook.read_url; set it too"
        yield Issue(path=("flag", "webhook", "read_method"), message=message)
    url = webhook.get("url")
    if "preset" in webhook and isinstance(url, str) and "?" in url:
        message = "holds a query; a preset adds its path to it, so write the server's root"
        yield Issue(path=("flag", "webhook", "url"), message=message)


def _kubernetes(section: dict[str, Any], path: KeyPath, key: object) -> Iterator[Issue]:
    yield from one_of(section, path, ("configmap", "httproute"))
    if "configmap" not in section and "httproute" not in section:
        message = "needs the object that holds the flag; set configmap or httproute in it"
        yield Issue(path=path, message=message)
    if "configmap" in section and isinstance(key, str) and not _CONFIGMAP_KEY.fullmatch(key):
        message = "a key of a ConfigMap holds letters, digits and . _ - only"
        yield Issue(path=("flag", "key"), message=message)
    if "httproute" not in section:
        return
    for name, example in _ROUTE.items():
        if name not in section:
            message = f"missing; flag.kubernetes.httproute needs it, as {example}"
            yield Issue(path=(*path, name), message=message)
    one, other = (section.get(name) for name in _ROUTE)
    if one is not None and one == other:
        message = "must differ from flag.kubernetes.speculative_service"
        yield Issue(path=(*path, "standard_service"), message=message)
