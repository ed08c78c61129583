"""The status page's files; served as they are."""
