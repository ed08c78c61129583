"""`specgauge report` on the command line: each stage in a module of its own."""
