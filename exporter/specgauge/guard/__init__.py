"""From evidence to a flag: thinks in its own files, touches the world only in `flags`."""
