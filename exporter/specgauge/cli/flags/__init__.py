"""`specgauge flags`: a thin rim over preflight/flags."""
