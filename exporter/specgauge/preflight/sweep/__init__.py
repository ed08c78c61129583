"""Which number of drafted tokens is worth it: servers tried one after another under one load."""
