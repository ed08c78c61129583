"""`specgauge guard`: replay the guard, ask the sidecar's about itself, overrule it."""
