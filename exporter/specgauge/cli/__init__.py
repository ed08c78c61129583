"""The command line: one file a command, each a thin rim around the rest."""
