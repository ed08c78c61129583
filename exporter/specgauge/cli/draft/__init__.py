"""The `draft` commands, thin rims around `preflight.draft`."""
