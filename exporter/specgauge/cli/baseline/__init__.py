"""`specgauge baseline`: record, learn, import, look at and compare baselines; a file a command."""
