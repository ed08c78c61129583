"""Baselines: the file, where it comes from, whose it is. Only `load` and `record` do I/O."""
