"""Regular expressions that compare numbers, for HAProxy has no fractions in its arithmetic.

They read a number as HAProxy's `json_query` writes it: six significant digits, without zeros at
the end, `1e+06` from a million on and `1e-05` below a ten-thousandth. Nothing else is understood.
"""

_DIGITS = 6
_FRACTION = r"(\.[0-9]+)?"
_HUGE = r"[0-9.]+e\+[0-9]+|inf"


def can_compare(bound: float) -> bool:
    """Tell whether a bound, from 0 on, is one that six digits and no exponent can say."""
    return float(_written(bound)) == bound and "e" not in _written(bound)


def above(bound: float) -> str:
    """Match the numbers greater than a bound."""
    return f"^({_greater(bound)})$"


def at_least(bound: float) -> str:
    """Match a bound and the numbers greater than it."""
    equal = "-?0" if bound == 0.0 else _written(bound).replace(".", r"\.")
    return f"^({equal}|{_greater(bound)})$"


def _greater(bound: float) -> str:
    whole, _, fraction = _written(bound).partition(".")
    found = [_HUGE]
    if bound == 0.0:
        found.append(r"[0-9.]+e-[0-9]+")
    found.append(rf"[1-9][0-9]{{{len(whole)},}}{_FRACTION}")
    found += [f"{start}{_FRACTION}" for start in _larger(whole)]
    found += [rf"{whole}\.{start}" for start in _larger(fraction, open_ended=True)]
    found.append(rf"{whole}\.{fraction}[0-9]+")
    return "|".join(found)


def _larger(digits: str, *, open_ended: bool = False) -> list[str]:
    """Match digits that come after these: as many of them, or any number if `open_ended`."""
    made = []
    for place, digit in enumerate(digits):
        if digit == "9":
            continue
        first = str(int(digit) + 1)
        step = "9" if first == "9" else f"[{first}-9]"
        rest = len(digits) - place - 1
        more = "[0-9]*" if open_ended else f"[0-9]{{{rest}}}" if rest else ""
        made.append(f"{digits[:place]}{step}{more}")
    return made


def _written(bound: float) -> str:
    return f"{bound + 0.0:.{_DIGITS}g}"  # the sum has no -0
