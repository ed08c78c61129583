"""The commands of `specgauge route`."""
