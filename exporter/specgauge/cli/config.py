"""`specgauge config`: describe, check and show configuration files; nothing is started."""

import json
import os
from pathlib import Path

import click

from specgauge.cli.route.settings import router_of
from specgauge.cli.settings import guard_of, settings_of
from specgauge.config import Config, advice, effective, load, schema
from specgauge.errors import ConfigError
from specgauge.serve.appoint import check_guard

_FILE = click.argument("file", type=click.Path(path_type=Path))


@click.group("config", epilog="\b\nExample:\n  specgauge config check specgauge.yaml")
def config_group() -> None:
    """Describe, check and show configuration files."""


@config_group.command(
    "schema", epilog="\b\nExample:\n  specgauge config schema > specgauge.schema.json"
)
def print_schema() -> None:
    """Print the JSON Schema of the configuration file, for editors."""
    click.echo(json.dumps(schema(), indent=2))


@config_group.command("check", epilog="\b\nExample:\n  specgauge config check specgauge.yaml")
@_FILE
def check(file: Path) -> None:
    """Check FILE together with the environment; name every problem, and what may surprise."""
    config = _load(file, whole=True)
    for line in advice(config):
        click.echo(f"{file}: warning: {line}", err=True)
    names = ", ".join(target.name for target in config.targets)
    click.echo(f"{file}: OK, {len(config.targets)} target(s): {names}")


@config_group.command("show", epilog="\b\nExample:\n  specgauge config show specgauge.yaml")
@_FILE
def show(file: Path) -> None:
    """Print the values in effect for FILE and the environment, without secrets."""
    click.echo(effective(_load(file)), nl=False)


def _load(file: Path, *, whole: bool = False) -> Config:
    """Read FILE, and if asked for the whole of it the secrets and baselines that it names."""
    try:
        config = load(file, env=os.environ, overrides={})
        if whole:
            _use(config)
    except ConfigError as error:
        for problem in error.problems:
            placed = problem.startswith((f"{file}:", "SPECGAUGE_"))
            click.echo(problem if placed else f"{file}: {problem}", err=True)
        raise click.exceptions.Exit(error.exit_code) from None
    return config


def _use(config: Config) -> None:
    """Make of it what `serve` and `render` do; raises ConfigError with every fault."""
    problems: list[str] = []
    for make in (settings_of, lambda config: check_guard(guard_of(config)), router_of):
        try:
            make(config)
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))
