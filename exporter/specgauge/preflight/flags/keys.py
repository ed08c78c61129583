"""Keys and values of a speculative_config, one by one, against a release."""

from collections.abc import Mapping
from difflib import get_close_matches

from specgauge.preflight.flags.finding import Code, Finding, error, warning
from specgauge.preflight.flags.kinds import check_value
from specgauge.preflight.flags.methods import family
from specgauge.preflight.flags.release import Release
from specgauge.preflight.flags.surface import Key, Surface
from specgauge.units import quote


def flag_key(name: str, surface: Surface) -> str | None:
    """Give the key that is meant by the name of an old flag used as a key."""
    flag = surface.flags.get("--" + name.replace("_", "-"))
    return flag.key if flag else None


def check_key(
    name: str, value: object, method: str, surface: Surface, release: Release
) -> list[Finding]:
    """Check that a release takes a key and its value; `method` may be empty."""
    key = surface.keys.get(name)
    if key is None:
        return [_unknown(name, surface, release)]
    if missing := _availability(key, surface, release):
        return [missing]
    if key.instead:
        return [error(Code.WRONG_KEY, name, "refused here", f"write {key.instead}")]
    found = check_value(key, value)
    if key.kind == "choice":
        found += _choice(key, value, surface, release)
    if value is not None and not found:
        found += _effect(key, value, method, surface, release)
    return found


def _unknown(name: str, surface: Surface, release: Release) -> Finding:
    if name in surface.internal:
        return error(Code.UNKNOWN_KEY, name, "the engine fills it in itself", "take it out")
    if meant := flag_key(name, surface):
        return error(Code.UNKNOWN_KEY, name, "the name of an old flag", f"write {meant}")
    near = get_close_matches(name, [key.name for key in surface.keys_of(release)], n=1)
    fix = f"did you mean {near[0]}?" if near else "take it out"
    return error(Code.UNKNOWN_KEY, name, "a key of no release", fix)


def _availability(key: Key, surface: Surface, release: Release) -> Finding | None:
    if key.span.is_newer_than(release):
        if surface.flag_of(key.name, release):
            return None
        return error(Code.KEY_NEWER, key.name, f"there from {key.span.first}, not in {release}")
    if key.span.is_gone_by(release):
        why = surface.gone.get(key.name, "it is gone")
        fix = surface.refuse.get(key.name, "take it out")
        return error(
            Code.KEY_GONE, key.name, f"{key.span.last} was the last to have it: {why}", fix
        )
    return None


def _choice(key: Key, value: object, surface: Surface, release: Release) -> list[Finding]:
    if value is None:
        return []
    spans = surface.choices[key.name]
    there = [name for name, span in spans.items() if release in span]
    if value in there:
        return []
    if isinstance(value, str) and value in spans:
        message = f"{quote(value)} is a value {spans[value]}, not in {release}"
    else:
        message = f"{quote(value)} is no value of it"
    return [error(Code.VALUE_UNKNOWN, key.name, message, f"one of {', '.join(there)}")]


def _effect(
    key: Key, value: object, method: str, surface: Surface, release: Release
) -> list[Finding]:
    """Tell of a key that does nothing for the method or the engine in use."""
    if value is False or value == key.default:
        return []
    if key.v0_only and surface.engine_of(release, method, asked_v1=False) == "v1":
        message = f"{release} takes it and V1 does nothing with it"
        return [warning(Code.WITHOUT_EFFECT, key.name, message, _instead(key, surface))]
    kind = family(method, surface)
    if kind not in surface.methods or key.methods is None or kind in key.methods:
        return []
    names = ", ".join(sorted(key.methods))
    if key.refused_elsewhere:
        return [error(Code.WRONG_METHOD, key.name, f"only with method {names}, not {method}")]
    message = f"does nothing with method {method}; it is for {names}"
    return [warning(Code.WITHOUT_EFFECT, key.name, message, "take it out")]


def _instead(key: Key, surface: Surface) -> str:
    return surface.gone.get(key.name, "take it out")


def underscored(config: Mapping[str, object]) -> dict[str, object]:
    """Write keys with underscores."""
    return {name.replace("-", "_"): value for name, value in config.items()}
