"""Text cut into about what a tokenizer makes of it, where there is none at hand.

A word with the blank before it in pieces of seven letters, digits in threes, runs of other blanks,
and every other character for itself. Lookup needs equal text to be cut equally, which this does.
"""

import re

_PIECE = re.compile(r"[^\W\d_]{1,7}| [^\W\d_]{1,7}|\d{1,3}|\s+(?= [^\W\d_])|\s+|.", re.DOTALL)

STATED = "up to 7 letters a token"
"""What to call it."""


def cut(text: str) -> list[str]:
    """Cut a text into pieces, which together are the text."""
    return _PIECE.findall(text)
