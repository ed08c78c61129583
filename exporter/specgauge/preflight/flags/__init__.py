"""The command line of speculation by release: read, translated, explained and checked."""
