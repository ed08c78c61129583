"""Which folder of the package may import which, read from the source without running it."""

import ast
import sys
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "exporter" / "specgauge"

# The rooms of the package and what of ours each may import, besides itself.
# A new folder gets a line here; `__init__` and `__main__` are the doors.
MAY_IMPORT: dict[str, set[str]] = {
    "model": set(),
    "errors": {"model"},
    "units": set(),
    "engines": {"model", "errors"},
    "derive": {"model", "errors"},
    "config": {"model", "errors", "units", "routing"},
    "guard": {"model", "errors"},
    "routing": {"model", "errors"},
    "render": {"model", "errors", "units", "engines", "routing"},
    "report": {"model", "derive", "__init__"},
    "baseline": {"model", "errors", "engines", "derive", "__init__"},
    "preflight": {"model", "errors", "units", "engines", "derive", "baseline", "__init__"},
    "serve": {
        "model", "errors", "units", "engines", "derive", "guard", "baseline", "routing",
        "__init__",
    },
    "cli": {
        "model", "errors", "units", "engines", "derive", "config", "guard", "baseline", "serve",
        "render", "preflight", "routing", "report", "__init__",
    },
    "__init__": set(),
    "__main__": {"cli"},
}  # fmt: skip

# These think and never touch the world: no clock, no await, no file, no socket, no chance.
PURE = ("model", "engines", "derive", "guard", "baseline", "render", "routing", "report")
# Modules of other rooms that think, too.
THINKING = {f"serve/classes/{name}.py" for name in ("document", "line", "totals")}
# Where recording touches the world, and the file format's library and times with a zone.
RECORDING = (
    "brake", "exchange", "files", "level", "load", "prompts", "record", "trial", "twin",
)  # fmt: skip
# Where the guard touches it, beside the backends of its flag.
GUARDING = ("annotate", "audit", "chronicle", "freeze", "lock", "store")
RIM = {f"baseline/{name}.py" for name in RECORDING} | {f"guard/{name}.py" for name in GUARDING}
RIM_FOLDERS = ("guard/flags/",)
ALSO_PURE = {
    "baseline": {"array", "datetime", "difflib", "hashlib", "http", "pydantic", "random"},
    "render": {"jinja2", "yaml"},
    "report": {"datetime", "jinja2"},
}
PURE_MODULES = {
    "abc", "bisect", "collections", "dataclasses", "decimal", "enum", "fractions", "functools",
    "heapq", "itertools", "json", "math", "operator", "re", "statistics", "string", "types",
    "typing",
}  # fmt: skip
IMPURE_NAMES = {"__import__", "breakpoint", "eval", "exec", "input", "open", "print"}

# Packages whose types are part of a dependency's own interface.
BROUGHT_ALONG = {"multidict": "aiohttp", "pydantic-core": "pydantic", "yarl": "aiohttp"}

# Modules over 300 lines; the docstring of each gives the reason.
LONG_MODULES: set[str] = {"guard/flags/writer.py", "serve/guardian.py"}

MODULES = sorted(PACKAGE.rglob("*.py"))
MODULE_IDS = [str(module.relative_to(PACKAGE)) for module in MODULES]
every_module = pytest.mark.parametrize("module", MODULES, ids=MODULE_IDS)


def room_of(module: Path) -> str:
    """Return the folder a module lives in, or its own name where it lives at the top."""
    return module.relative_to(PACKAGE).with_suffix("").parts[0]


@cache
def read_tree(module: Path) -> ast.Module:
    """Parse a module, once for all that is asked of it."""
    return ast.parse(module.read_text())


@cache
def imports(module: Path) -> Sequence[tuple[int, str]]:
    """Find every import of a module, in functions and under TYPE_CHECKING as well."""
    package = ["specgauge", *module.parent.parts[len(PACKAGE.parts) :]]
    found: list[tuple[int, str]] = []
    for node in ast.walk(read_tree(module)):
        if isinstance(node, ast.Import):
            found += ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*start, *filter(None, [node.module])])
            names = [alias.name for alias in node.names] if source == "specgauge" else [""]
            found += ((node.lineno, f"{source}.{name}".rstrip(".")) for name in names)
    return found


@pytest.fixture(scope="module")
def distributions() -> Mapping[str, list[str]]:
    """Ask once which installed distribution brings which package."""
    return packages_distributions()


def room_imported(name: str) -> str:
    """Return the room of an imported `specgauge…` name; the package's own names are `__init__`."""
    rooms = name.split(".")[1:]
    return rooms[0] if rooms and rooms[0] in MAY_IMPORT else "__init__"


def test_every_room_is_in_the_table() -> None:
    """A new folder says what it may import, and a folder that went leaves the table."""
    assert set(MAY_IMPORT) == {room_of(module) for module in MODULES}


@every_module
def test_imports_stay_within_the_table(module: Path) -> None:
    """A room imports only what lies above it, so that data flows one way."""
    room = room_of(module)
    allowed = {room, *MAY_IMPORT.get(room, set())}
    wrong = [
        f"line {line}: {room} may not import {name}"
        for line, name in imports(module)
        if name.split(".")[0] == "specgauge" and room_imported(name) not in allowed
    ]
    assert wrong == []


@every_module
def test_third_party_imports_are_declared(
    module: Path, distributions: Mapping[str, list[str]]
) -> None:
    """Whatever the package imports from elsewhere is a dependency that its wheel asks for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    asked = [*project["dependencies"], *extras["preflight"], *extras["gpu"]]
    declared = {requirement.split(">")[0] for requirement in asked}
    declared |= {name for name, bringer in BROUGHT_ALONG.items() if bringer in declared}
    wrong = [
        f"line {line}: {name} comes from none of the dependencies in pyproject.toml"
        for line, name in imports(module)
        if (top := name.split(".")[0]) not in sys.stdlib_module_names | {"specgauge"}
        and not declared & {d.lower().replace("_", "-") for d in distributions.get(top, [])}
    ]
    assert wrong == []


@every_module
def test_pure_rooms_do_not_touch_the_world(module: Path) -> None:
    """Code that thinks about numbers gets time and text as arguments."""
    room = room_of(module)
    name = module.relative_to(PACKAGE).as_posix()
    if (room not in PURE and name not in THINKING) or name in RIM or name.startswith(RIM_FOLDERS):
        return
    allowed = PURE_MODULES | {"specgauge"} | ALSO_PURE.get(room, set())
    wrong = [
        f"line {line}: {name} is not on the list of pure modules"
        for line, name in imports(module)
        if name.split(".")[0] not in allowed
    ]
    for node in ast.walk(read_tree(module)):
        if isinstance(node, ast.AsyncFunctionDef | ast.AsyncFor | ast.AsyncWith | ast.Await):
            wrong.append(f"line {node.lineno}: nothing is awaited in a pure room")
        if isinstance(node, ast.Name) and node.id in IMPURE_NAMES:
            wrong.append(f"line {node.lineno}: {node.id} touches the world")
    assert wrong == []


@every_module
def test_modules_keep_no_state(module: Path) -> None:
    """No module holds an empty container to be filled later, and no function a `global`."""
    tree = read_tree(module)
    wrong = [
        f"line {node.lineno}: global {', '.join(node.names)}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Global)
    ]
    wrong += [
        f"line {node.lineno}: an empty container that something is to fill"
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and is_empty_container(node.value)
    ]
    assert wrong == []


def is_empty_container(value: ast.expr | None) -> bool:
    """Tell whether a module-level value is `[]`, `{}`, `set()` or the like."""
    if isinstance(value, ast.List | ast.Set):
        return not value.elts
    if isinstance(value, ast.Dict):
        return not value.keys
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
        fillable = {"Counter", "OrderedDict", "defaultdict", "deque", "dict", "list", "set"}
        return value.func.id in {"defaultdict", "deque"} or (
            value.func.id in fillable and not value.args and not value.keywords
        )
    return False


@every_module
def test_module_says_what_it_is_for_and_stays_short(module: Path) -> None:
    """Every module has a docstring and at most 300 lines, or a reason for more in it."""
    text = module.read_text()
    name = str(module.relative_to(PACKAGE))
    assert ast.get_docstring(read_tree(module))
    assert (name in LONG_MODULES) == (len(text.splitlines()) > 300)


def test_exporter_is_never_imported() -> None:
    """`exporter.specgauge` would load everything a second time under another name."""
    folders = (PACKAGE, ROOT / "tests", ROOT / "benchmarks")
    wrong = [
        f"{source.relative_to(ROOT)}:{line}: {name}"
        for folder in folders
        for source in folder.rglob("*.py")
        for line, name in imports(source)
        if name.split(".")[0] == "exporter"
    ]
    assert wrong == []
