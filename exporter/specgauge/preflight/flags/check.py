"""Whether a release would take a speculative_config, found out without the engine.

It changes nothing and knows only names: what depends on a model's own config is said so.
"""

from collections.abc import Mapping

from specgauge.preflight.flags.combine import Case, check_combinations
from specgauge.preflight.flags.finding import Code, Finding, error, ordered
from specgauge.preflight.flags.gather import Gathered
from specgauge.preflight.flags.keys import check_key, underscored
from specgauge.preflight.flags.methods import check_method, meant_method
from specgauge.preflight.flags.release import Release
from specgauge.preflight.flags.surface import Surface


def check_config(
    raw: Mapping[str, object],
    surface: Surface,
    release: Release,
    sizes: Mapping[str, int] | None = None,
) -> tuple[Finding, ...]:
    """Say what a release makes of a configuration; `sizes` are flags of the server around it."""
    around = sizes or {}
    found = _dashes(raw, surface, release)
    config = underscored(raw)
    method = meant_method(config) or ""
    found += check_method(config, surface, release)
    for name, value in config.items():
        if name != "method":
            found += check_key(name, value, method, surface, release)
    case = Case(
        config=config,
        method=method,
        surface=surface,
        release=release,
        tensor_parallel=around.get("--tensor-parallel-size", 1 if sizes is not None else None),
        data_parallel=around.get("--data-parallel-size"),
    )
    return ordered([*found, *check_combinations(case)])


def check_flags(gathered: Gathered, surface: Surface, release: Release) -> list[Finding]:
    """Say which flags of a command line a release would refuse."""
    found: list[Finding] = []
    for name in gathered.flags:
        flag = surface.flags[name]
        if not flag.existed:
            found.append(error(Code.NEVER_EXISTED, name, "a flag of no release"))
        elif flag.span.is_newer_than(release):
            found.append(error(Code.FLAG_NEWER, name, f"there from {flag.span.first} on"))
        elif flag.span.is_gone_by(release):
            message = f"{flag.span.last} was the last to have it: unrecognized arguments"
            fix = f"write {flag.key} in --speculative-config"
            found.append(error(Code.FLAG_GONE, name, message, fix))
    for part in (*gathered.before, *gathered.behind):
        neighbour = surface.neighbours.get(part.name)
        if neighbour and release >= neighbour.gone:
            message = f"gone by {neighbour.gone}: unrecognized arguments"
            found.append(error(Code.FLAG_GONE, part.name, message, neighbour.why))
    return found


def check_carrier(surface: Surface, release: Release) -> list[Finding]:
    """Say whether a release takes a configuration at all, and not single flags alone."""
    if release >= (since := surface.since["config_flag"]):
        return []
    name = "--speculative-config"
    fix = f"specgauge flags translate --to {release} writes it as flags"
    return [error(Code.FLAG_NEWER, name, f"there from {since} on", fix)]


def _dashes(raw: Mapping[str, object], surface: Surface, release: Release) -> list[Finding]:
    since = surface.since["dashes_in_keys"]
    if release >= since:
        return []
    return [
        error(
            Code.DASH_IN_KEY,
            name,
            f"a dash in a key is read from {since} on",
            f"write {name.replace('-', '_')}",
        )
        for name in raw
        if "-" in name
    ]
