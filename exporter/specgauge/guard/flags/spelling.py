"""Reads a flag's value however a store spells it; it asks no store."""

_ON = frozenset({"true", "on", "1"})
_OFF = frozenset({"false", "off", "0"})


def read_value(found: object) -> bool | None:
    """Take true/false, on/off, 1/0, as JSON or as text; None where it is none of them."""
    word = str(found).strip().lower()
    if word in _ON:
        return True
    return False if word in _OFF else None
