"""`python -m specgauge` is the command line."""

from specgauge.cli.main import entry

entry()
