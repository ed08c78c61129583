"""`python -m specgauge` is the command line."""

from specgauge.cli.entry import entry

entry()
