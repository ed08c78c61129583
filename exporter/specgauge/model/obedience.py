"""Whether anything follows a flag by itself, for those who have to ask what obeys it."""

_HOLDERS = frozenset({"embedded", "webhook", "file", "etcd"})


def moves_traffic(backend: str, httproute: object) -> bool:
    """Tell whether a flag moves something by itself; one that is only held waits to be asked for.

    `httproute` names the route whose weights are the flag, in Kubernetes; a ConfigMap only holds.
    """
    return bool(httproute) if backend == "kubernetes" else backend not in _HOLDERS
