"""The files that a configuration names: reading secrets, and seeing that all can be read.

The only place of this folder, beside `load`, that opens files; nothing read here is kept.
"""

import re
import ssl
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from specgauge.config.fields import header_safe, user_password
from specgauge.config.flag_keys import FlagKeys
from specgauge.config.keys import KEYS, KeyPath, template
from specgauge.config.models import Auth, Config
from specgauge.config.problems import Issue
from specgauge.config.routing_keys import RoutingKeys
from specgauge.config.rules import chosen_backend, leaves
from specgauge.config.tls_keys import Tls
from specgauge.errors import ConfigError

_LARGEST_SECRET = 64 << 10
_SOCKET = ("flag", "haproxy", "socket")
_PATHS = frozenset(
    {
        ("baseline", "file"), ("baseline", "dir"), ("flag", "embedded", "file"),
        ("flag", "file", "path"), _SOCKET, ("flag", "nginx", "file"),
        ("flag", "production-stack", "file"), ("flag", "production-stack", "on"),
        ("flag", "production-stack", "off"), ("routing", "access_log"),
    }
)  # fmt: skip
# These are written, or made by somebody else later: the folder is there, the file need not be.
_LATER = frozenset(
    {
        ("guard", "state_file"), ("guard", "audit_file"), ("guard", "freeze_file"),
        ("guard", "lock_file"), ("checklist", "lock_file"),
        ("flag", "embedded", "file"), ("flag", "file", "path"),
        _SOCKET, ("flag", "nginx", "file"),
        ("flag", "production-stack", "file"),
        ("routing", "state_file"), ("routing", "access_log"),
        ("routing", "access_log_state_file"),
    }
)  # fmt: skip
# These are written anew as a whole, so that a device or a pipe would be gone.
_REPLACED = frozenset(
    {
        ("guard", "state_file"), ("flag", "embedded", "file"), ("flag", "file", "path"),
        ("flag", "nginx", "file"), ("flag", "production-stack", "file"),
        ("routing", "state_file"), ("routing", "access_log_state_file"),
    }
)  # fmt: skip
# These are read by the router: the sidecar, which reads the same configuration, may lack them.
_ROUTERS = ("tls", "state_tls")
_CHECKS = {"bearer_file": header_safe, "token_file": header_safe, "basic_file": user_password}


def read_secret(path: Path) -> str:
    """Read the first line of a secret's file, anew on each call."""
    line = _read(path, _LARGEST_SECRET).partition(b"\n")[0].strip()
    if not line:
        raise ConfigError([f"{path}: the first line is empty; the secret belongs there"])
    try:
        return line.decode()
    except UnicodeDecodeError:
        raise ConfigError([f"{path}: not UTF-8"]) from None


def request_headers(auth: Auth) -> dict[str, str]:
    """Build the headers that a request to the target carries; secret files are read anew."""
    headers = dict(auth.headers)
    if bearer := _secret(auth.bearer, auth.bearer_file):
        headers["Authorization"] = f"Bearer {bearer}"
    elif basic := _secret(auth.basic, auth.basic_file):
        headers["Authorization"] = f"Basic {b64encode(basic.encode()).decode()}"
    return headers


def control_token(config: Config) -> str | None:
    """Read the token that routes which change something ask for; its file is read anew."""
    return _secret(config.token, config.token_file)


def given_secret(value: SecretStr | None) -> str | None:
    """Give a secret of the environment, for keys whose file is read anew at each use."""
    return None if value is None else value.get_secret_value()


def named_files(config: Config) -> tuple[Path, ...]:
    """List every file that the configuration is read from, so that a change can be noticed.

    Those that the guard and its flag write are not among them.
    """
    baseline = config.baseline
    files = [config.token_file, baseline.file, baseline.dir]
    if baseline.dir is not None and baseline.dir.is_dir():
        files += sorted(baseline.dir.glob("*.json"))
    for target in config.targets:
        auth, tls = target.auth, target.tls
        files += [auth.bearer_file, auth.basic_file, tls.ca_file, tls.cert_file, tls.key_file]
    if config.guard is not None:
        prometheus, grafana = config.guard.prometheus, config.guard.grafana
        files += [prometheus.token_file, prometheus.ca_file, grafana.token_file]
        flag = config.flag or FlagKeys()
        chosen = getattr(flag, flag.backend.replace("-", "_"))
        files += [getattr(chosen, name, None) for name in ("token_file", "ca_file")]
    return tuple(dict.fromkeys(path for path in files if path is not None))


def unreadable_files(document: dict[str, Any]) -> Iterator[Issue]:
    """Find what is wrong with the files that a merged configuration names."""
    for path, value in leaves(document):
        name = str(path[-1])
        if not names_file(path, value) or template(path) not in KEYS or not _is_path(value):
            continue
        if path[:1] == ("flag",) and path[1] != chosen_backend(document):
            continue
        if path[:1] == ("routing",) and path[-2] in _ROUTERS:
            continue
        try:
            if path in _LATER:
                _later(Path(value), replaced=_is_replaced(path, Path(value)))
            elif name == "dir":
                _folder(Path(value))
            elif check := _CHECKS.get(name):
                _checked(check, Path(value))
            else:
                _read(Path(value), 1)
        except ConfigError as error:
            yield Issue(path=path, message=error.problems[0])


def unusable_certificates(keys: RoutingKeys) -> Iterator[str]:
    """Find what is wrong with the certificates that a router is to read, each under its key."""
    places = {f"pools.{name}.tls": pool.tls for name, pool in keys.pools}
    for place, tls in {**places, "state_tls": keys.state_tls}.items():
        yield from (f"routing.{place}.{fault}" for fault in _unusable(tls))


def _unusable(tls: Tls) -> Iterator[str]:
    files = {"ca_file": tls.ca_file, "cert_file": tls.cert_file, "key_file": tls.key_file}
    named = {name: path for name, path in files.items() if path is not None}
    for name, path in named.items():
        try:
            _read(path, 1)
        except ConfigError as error:
            yield f"{name}: {error.problems[0]}; give a PEM file that can be read here"
            return
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    ca, cert, key = tls.ca_file, tls.cert_file, tls.key_file
    if ca is not None and not _loads(lambda: context.load_verify_locations(ca)):
        yield (
            f"ca_file: {ca}: holds no certificate, or one that cannot be read; "
            "give those to trust as PEM"
        )
    # A key with a passphrase fails instead of asking for it.
    if cert is not None and not _loads(lambda: context.load_cert_chain(cert, key, lambda: "")):
        yield (
            f"cert_file: {cert}: no certificate with the key in {key or cert}; "
            "give both as PEM, the key without a passphrase"
        )


def _loads(load: Callable[[], None]) -> bool:
    try:
        load()
    except OSError:  # that of ssl as well
        return False
    return True


def names_file(path: KeyPath, value: object) -> bool:
    """Tell whether a key holds the path of a file or a folder, and not HOST:PORT instead."""
    if path == _SOCKET and isinstance(value, str) and re.fullmatch(r"[^/]*:[0-9]{1,5}", value):
        return False
    return str(path[-1]).endswith("_file") or path in _PATHS


def _is_replaced(path: KeyPath, file: Path) -> bool:
    """Tell whether a key's file is; a pipe in place of the guard's state is as good as none."""
    return path in _REPLACED and not (path == ("guard", "state_file") and file.is_fifo())


def _later(path: Path, *, replaced: bool) -> None:
    if path.is_dir():
        raise ConfigError([f"{path}: a folder; name a file in it"])
    if replaced and path.exists() and not path.is_file():
        raise ConfigError([f"{path}: a device or a pipe, which would be replaced; name a file"])
    if not path.parent.is_dir():
        raise ConfigError([f"{path}: the folder {path.parent} is not there; make it first"])


def _folder(path: Path) -> None:
    if not path.is_dir():
        raise ConfigError([f"{path}: not a folder"])


def _is_path(value: object) -> bool:
    return isinstance(value, Path) or (isinstance(value, str) and "\0" not in value and value != "")


def _checked(check: Callable[[str], str], path: Path) -> None:
    secret = read_secret(path)
    try:
        check(secret)
    except ValueError as error:
        raise ConfigError([f"{path}: {error}"]) from None


def _secret(value: SecretStr | None, path: Path | None) -> str | None:
    if value is not None:
        return value.get_secret_value()
    return None if path is None else read_secret(path)


def _read(path: Path, size: int) -> bytes:
    try:
        if path.exists() and not path.is_file():
            raise ConfigError([f"{path}: not a regular file"])
        with path.open("rb") as file:
            return file.read(size)
    except OSError as error:
        raise ConfigError([f"{path}: {error.strerror}"]) from None
