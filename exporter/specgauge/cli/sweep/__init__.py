"""The `sweep` commands."""
