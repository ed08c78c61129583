"""From options to the files that an SRE imports: text in memory, never on a disk."""
