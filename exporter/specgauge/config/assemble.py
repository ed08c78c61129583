"""From a file, the environment and the flags to one checked configuration, or to every fault.

The environment is handed in; nothing here reads `os.environ` or starts anything.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from specgauge.config.document import parse_yaml
from specgauge.config.environment import from_environment
from specgauge.config.fields import kind_of
from specgauge.config.files import names_file, unreadable_files
from specgauge.config.guard_rules import broken_guard_rules
from specgauge.config.keys import KeyPath
from specgauge.config.layers import from_flags, merge
from specgauge.config.models import Config
from specgauge.config.problems import issues_of, lines
from specgauge.config.rules import broken_rules, inline_secrets
from specgauge.errors import ConfigError

_LARGEST_FILE = 1 << 20


def load(path: Path | None, *, env: Mapping[str, str], overrides: Mapping[str, object]) -> Config:
    """Build the configuration; flags go before the environment, that before the file.

    `overrides` holds the flags by dotted key (`scrape.interval`), `targets` as a list of URLs; None
    and () are flags not given. Raises ConfigError with every problem there is.
    """
    file = {} if path is None else _read_file(path)
    inline = list(inline_secrets(file))
    assignments, problems = from_environment(env)
    merged = merge(file, assignments, from_flags(overrides))
    issues = [*merged.issues]
    config = None
    try:
        config = Config.model_validate(merged.document)
    except ValidationError as error:
        issues += issues_of(error)
    issues += [*broken_rules(merged.document), *broken_guard_rules(merged.document)]
    issues += unreadable_files(merged.document)
    problems = [*lines(inline, {}), *lines(issues, merged.origins), *problems]
    if problems or config is None:
        raise ConfigError(problems)
    return config


def _read_file(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST_FILE + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError([f"{path}: {reason}"]) from None
    if len(data) > _LARGEST_FILE:
        raise ConfigError([f"{path}: larger than 1MiB; that is no configuration"])
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError([f"{path}:{line}: not UTF-8; save the file as UTF-8"]) from None
    document = parse_yaml(text, source=str(path))
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigError([f"{path}: a mapping of keys is expected, not {kind_of(document)}"])
    anchored: dict[str, Any] = _anchored(document, path.parent)
    return anchored


def _anchored(node: Any, folder: Path, path: KeyPath = ()) -> Any:
    """Relative paths in the file mean files beside it, wherever the program was started."""
    if isinstance(node, list):
        return [_anchored(item, folder, (*path, index)) for index, item in enumerate(node)]
    if isinstance(node, dict):
        return {
            name: value if name == "headers" else _anchored(value, folder, (*path, name))
            for name, value in node.items()
        }
    if path and isinstance(node, str) and node and names_file(path, node):
        found = str(folder / node)
        # A bare name would read as HOST:PORT without its port.
        return f"./{found}" if path[-1] == "socket" and "/" not in found else found
    return node
