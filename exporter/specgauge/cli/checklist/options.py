"""The options of the checklist, and what they and the configuration make of each other."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from specgauge.cli.checklist.ask import Server
from specgauge.cli.checklist.gather import Sources
from specgauge.cli.guard.place import find_control, find_sidecar
from specgauge.cli.values import READ_BY_US, service_root
from specgauge.config import Config, given_secret
from specgauge.errors import ConfigError, UsageError
from specgauge.preflight.checklist.gates import NAMES

Decorated = Callable[..., Any]
_FILE = click.Path(path_type=Path)


def sidecar_options(command: Decorated) -> Decorated:
    """Add what tells which server it is about, and where its dashboards are."""
    options = (
        click.option("--config", "config_file", type=_FILE, help="The sidecar's configuration."),
        click.option("--url", help="Root of the sidecar; by default as configured."),
        click.option("--target", help="Name of the target that goes live, if there are several."),
        click.option("--model", help="Name of its model, if it serves several."),
        click.option("--dashboards", type=_FILE, help="Folder with the dashboards' files."),
        click.option("--grafana", help="Root of Grafana, to ask for the dashboards instead."),
        click.option("--grafana-token-file", type=_FILE, help="File with a token for it."),
    )
    return _add(command, options)


def evidence_options(command: Decorated) -> Decorated:
    """Add what evidence is given."""
    options = (
        click.option("--recorded", type=_FILE, help="Folder of saved answers, to ask nobody."),
        click.option("--token-file", type=_FILE, help="File with the sidecar's token."),
        click.option("--prometheus", help="Root of Prometheus; by default as configured."),
        click.option("--prometheus-token-file", type=_FILE, help="File with a token for it."),
        click.option("--draft-report", "draft", type=READ_BY_US, help="From draft check --json."),
        click.option("--sweep", type=READ_BY_US, help="From sweep --json."),
        click.option("--compare", type=READ_BY_US, help="From compare --json."),
        click.option("--memory", type=READ_BY_US, help="From memory --json."),
    )
    return _add(command, options)


def _add(command: Decorated, options: Sequence[Callable[[Decorated], Decorated]]) -> Decorated:
    for option in reversed(options):
        command = option(command)
    return command


def sources_of(given: Mapping[str, Any], config: Config | None = None) -> Sources:
    """Put together where evidence is; a token goes only to the server that it is meant for."""
    url, file, recorded = given["url"], given["config_file"], given.get("recorded")
    exercises = bool(given.get("exercises"))
    if recorded is not None and (url is not None or exercises):
        raise UsageError("--recorded asks nobody: leave --url and --exercise out")
    if given["grafana"] is not None and given["dashboards"] is not None:
        raise UsageError("--dashboards and --grafana: give one of them")
    if config is None:
        return Sources(config_file=file, sidecar=Server(url=url or ""))
    return Sources(
        config_file=file,
        sidecar=_sidecar(given, config, exercises=exercises),
        recorded=recorded,
        prometheus=_prometheus(given, config),
        grafana=_grafana(given, config),
        dashboards=given["dashboards"],
        draft=given.get("draft"),
        sweep=given.get("sweep"),
        compare=given.get("compare"),
        memory=given.get("memory"),
        target=given["target"],
        model=given["model"],
        exercises=exercises,
    )


def _sidecar(given: Mapping[str, Any], config: Config, *, exercises: bool) -> Server:
    """Name the sidecar; its token is only taken along for what changes something."""
    url, file = given["url"], given["config_file"]
    if given.get("recorded") is not None:
        return Server(url="http://127.0.0.1")  # asked nothing
    if not exercises:
        return Server(url=find_sidecar(url, file).url)
    if config.guard is None:
        raise UsageError("--exercise: no guard is configured; give --config with the sidecar's")
    place = find_control(url, file, given["token_file"])
    if not place.has_token:
        raise UsageError("--exercise changes the flag; give --token-file, or --config with one")
    token_file = None if place.token_file is None else str(place.token_file)
    return Server(url=place.url, token=place.token, token_file=token_file)


def _prometheus(given: Mapping[str, Any], config: Config) -> Server | None:
    keys = None if config.guard is None else config.guard.prometheus
    url, token_file = given.get("prometheus"), given.get("prometheus_token_file")
    if keys is not None and keys.url is not None and url in {None, keys.url}:
        return Server(
            url=keys.url,
            token_file=_text(token_file or keys.token_file),
            token=None if token_file else given_secret(keys.token),
            ca_file=_text(keys.ca_file),
            tenant=keys.tenant,
        )
    if url is None:
        return None
    return Server(url=service_root("--prometheus", url), token_file=_text(token_file))


def _grafana(given: Mapping[str, Any], config: Config) -> Server | None:
    url, token_file = given["grafana"], given["grafana_token_file"]
    if url is None:
        return None
    url = service_root("--grafana", url)
    keys = None if config.guard is None else config.guard.grafana
    if token_file is None and keys is not None and url == keys.url:
        return Server(url=url, token_file=_text(keys.token_file), token=given_secret(keys.token))
    return Server(url=url, token_file=_text(token_file))


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def waivers(config: Config, skipped: Sequence[str]) -> dict[str, str]:
    """Name the gates that are waived, each with its reason; the command line goes first."""
    for name in config.checklist.waive:
        if name not in NAMES:
            raise ConfigError([f"checklist.waive.{name}: no gate; there are {', '.join(NAMES)}"])
    found = dict(config.checklist.waive)
    for one in skipped:
        name, _, reason = (part.strip() for part in one.partition("="))
        if name not in NAMES:
            raise UsageError(f"--skip {name}: no gate; there are {', '.join(NAMES)}")
        if not reason:
            raise UsageError(f"--skip {name}: give a reason, as --skip {name}='not in this pool'")
        found[name] = reason
    return found
