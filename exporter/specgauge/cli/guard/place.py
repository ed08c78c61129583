"""Where the sidecar answers and by which token: from options, the configuration, the environment.

Asks nobody anything; `client` does.
"""

from dataclasses import dataclass, field
from pathlib import Path

import click

from specgauge.cli.guard.configuration import read_config
from specgauge.cli.values import service_root
from specgauge.config import ListenAddress, control_token
from specgauge.errors import UsageError

_EVERYWHERE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104 - read, not bound


url_option = click.option(
    "--url", metavar="URL", help="Root of the sidecar.  [http://127.0.0.1:9843]"
)
config_option = click.option(
    "--config",
    "file",
    type=click.Path(path_type=Path),
    help="The sidecar's own configuration: its address, and its token.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The root of a sidecar, and the token for what changes something; never shown."""

    url: str
    token: str | None = field(default=None, repr=False)
    token_file: Path | None = None

    @property
    def has_token(self) -> bool:
        """Whether there is a token to send."""
        return self.token is not None or self.token_file is not None


def find_sidecar(url: str | None, file: Path | None) -> Place:
    """Say where to ask; options go before the environment, that before the file."""
    if url is not None:
        return Place(url=service_root("--url", url))
    return Place(url=_root(read_config(file).listen_address))


def find_control(url: str | None, file: Path | None, token_file: Path | None) -> Place:
    """Say where to ask for a change, and by which token."""
    url = None if url is None else service_root("--url", url)
    if url is not None and token_file is not None:
        return Place(url=url, token_file=token_file)
    config = read_config(file)
    root = url or _root(config.listen_address)
    if token_file is not None:
        return Place(url=root, token_file=token_file)
    return Place(url=root, token=control_token(config))


def _root(listen: ListenAddress) -> str:
    """Turn the address that is listened on into one that can be called."""
    if listen.port == 0:
        raise UsageError("listen names no port; give --url, for the port is chosen at its start")
    host = _EVERYWHERE.get(listen.host, listen.host)
    shown = f"[{host}]" if ":" in host and not host.startswith("[") else host
    return f"http://{shown}:{listen.port}"
