"""Which pool serves a request: rules over its shape, the guard's flag and the live load."""
