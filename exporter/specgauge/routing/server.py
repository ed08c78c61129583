"""A server as a pool names it: host:port, an IPv6 host in brackets, perhaps with its scheme."""


def host_of(server: str) -> str:
    """Cut out its host, without brackets."""
    return server.rpartition("//")[2].rpartition(":")[0].strip("[]")
