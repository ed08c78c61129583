"""Which method of drafting a configuration names or means, and whether a release has it.

It reads names only; weights and configs of models are another check's.
"""

from collections.abc import Mapping
from difflib import get_close_matches

from specgauge.preflight.flags.finding import Code, Finding, error, info, warning
from specgauge.preflight.flags.release import Release, Span
from specgauge.preflight.flags.surface import Surface
from specgauge.units import quote

_LOOKUP_NAMES = frozenset({"ngram", "[ngram]"})
# What a draft's name tells; the first that fits counts.
_TOLD_BY_NAME = (
    ("eagle3", "eagle3"),
    ("eagle-3", "eagle3"),
    ("eagle", "eagle"),
    ("dflash", "dflash"),
    ("dspark", "dspark"),
    ("medusa", "medusa"),
    ("accelerator", "mlp_speculator"),
    ("mlp-speculator", "mlp_speculator"),
    ("mlp_speculator", "mlp_speculator"),
)


def meant_method(config: Mapping[str, object]) -> str | None:
    """Name the method a configuration asks for or, where it does not, the one it comes to."""
    named, model = config.get("method"), config.get("model")
    if isinstance(named, str) and named:
        return "ngram" if named in _LOOKUP_NAMES else named
    if not isinstance(model, str) or not model:
        return None
    if model in _LOOKUP_NAMES:
        return "ngram"
    return told_by_name(model) or ("custom_class" if _is_import_path(model) else "draft_model")


def told_by_name(model: str) -> str | None:
    """Guess the method from a draft's name, as the engine does where none is given."""
    name = model.rstrip("/").rpartition("/")[2].lower()
    return next((method for mark, method in _TOLD_BY_NAME if mark in name), None)


def is_eagle3_named(config: Mapping[str, object]) -> bool:
    """Tell whether method eagle is asked for with what calls itself an EAGLE-3 head."""
    model = config.get("model")
    return (
        config.get("method") == "eagle"
        and isinstance(model, str)
        and told_by_name(model) == "eagle3"
    )


def _is_import_path(model: str) -> bool:
    parts = model.split(".")
    return len(parts) > 1 and all(part.isidentifier() for part in parts)


def family(method: str, surface: Surface) -> str:
    """Give the method that a name became: the model-specific MTP ones are `mtp`."""
    return "mtp" if method in surface.mtp_names else method


def check_method(config: Mapping[str, object], surface: Surface, release: Release) -> list[Finding]:
    """Check that a release has the method that is asked for, and what it needs."""
    named = config.get("method")
    if named is not None and not isinstance(named, str):
        return [error(Code.VALUE_TYPE, "method", f"{quote(named)} is no text")]
    method = meant_method(config)
    if method is None:
        return [error(Code.MODEL_MISSING, "method", "neither a method nor a model is named")]
    found = [] if named else [_inferred(method)]
    if named == "[ngram]" and release >= surface.since["closed_methods"]:
        found.append(error(Code.VALUE_UNKNOWN, "method", "[ngram] is refused", "write ngram"))
    found += _availability(method, surface, release)
    if is_eagle3_named(config):
        message = f"{quote(config['model'])} is an EAGLE-3 head by its name"
        found.append(error(Code.EAGLE3_HEAD, "method", message, "write method eagle3"))
    needs = surface.methods[method].needs if method in surface.methods else "nothing"
    if needs != "nothing" and not config.get("model"):
        what = "an import path" if needs == "path" else "a draft"
        found.append(
            error(Code.MODEL_MISSING, "model", f"method {method} needs {what}", "add model")
        )
    return found


def _inferred(method: str) -> Finding:
    return info(
        Code.METHOD_INFERRED, "method", f"none is named; taken for {method}", f"write {method}"
    )


def _availability(method: str, surface: Surface, release: Release) -> list[Finding]:
    shown = quote(method)
    if method in surface.mtp_names:
        found = _within((surface.mtp_names[method],), shown, release)
        if not found and release >= surface.since["mtp_name"]:
            message = f"{shown} is read as mtp, with a warning"
            found = [info(Code.METHOD_RENAMED, "method", message, "write mtp")]
        return found
    if method in surface.methods:
        return _within(surface.methods[method].spans, shown, release)
    names = [*surface.methods, *surface.mtp_names]
    near = get_close_matches(method, names, n=1)
    fix = f"did you mean {near[0]}?" if near else f"one of {', '.join(surface.methods)}"
    return [error(Code.METHOD_UNKNOWN, "method", f"{shown} is a method of no release", fix)]


def _within(spans: tuple[Span, ...], shown: str, release: Release) -> list[Finding]:
    if any(release in span for span in spans):
        return []
    told = " and ".join(map(str, spans))
    if spans[0].is_unsure_of(release):
        message = f"{shown} came after {spans[0].absent}, by {spans[0].first} at the latest"
        return [warning(Code.METHOD_UNSURE, "method", message, f"try it on {release}")]
    if spans[0].is_newer_than(release):
        return [error(Code.METHOD_NEWER, "method", f"{shown} is there from {spans[0].first}")]
    fix = "take another method or another release"
    return [error(Code.METHOD_GONE, "method", f"{shown} is there {told}, not in {release}", fix)]
