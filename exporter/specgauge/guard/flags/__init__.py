"""Where the flag is kept: one file a backend behind one protocol, and the writer that uses it."""
