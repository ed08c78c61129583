"""What the models of all sections share: how strict they are, and keys that hold a secret.

No key of the configuration is described here.
"""

from typing import Any

from pydantic import ConfigDict, Field

SETTINGS = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


def secret_key(description: str) -> Any:
    """Describe a key that only the environment may set and that is never shown."""
    return Field(default=None, description=description, repr=False, exclude=True)
