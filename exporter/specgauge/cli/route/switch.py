"""From the section `flag` to the switch that a rendered HAProxy has."""

from pathlib import Path

from specgauge.config import Config
from specgauge.render.switch import Switch


def switch_of(config: Config) -> Switch | None:
    """Name the server that the guard drains; None where its flag lies elsewhere."""
    if config.flag is None or config.flag.backend != "haproxy":
        return None
    keys = config.flag.haproxy
    assert keys.socket is not None  # loading a configuration has seen to all three
    assert keys.backend is not None
    assert keys.server is not None
    # HAProxy runs elsewhere than this program, and takes a path for one by its first character.
    socket = str(Path(keys.socket).absolute()) if "/" in keys.socket else keys.socket
    return Switch(socket=socket, backend=keys.backend, server=keys.server)
