"""What most would write first: parse the whole page with the library, export all of it again.

It stands beside the sidecar in the benchmark and is of no other use: it derives nothing.

    python benchmarks/naive_exporter.py http://127.0.0.1:8000/metrics
"""

import argparse
import http.client
import time
from collections.abc import Iterable, Sequence
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry, Metric, start_http_server
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector


class Mirror(Collector):
    """Gives back the families that were parsed last."""

    def __init__(self) -> None:
        self.families: Sequence[Metric] = ()

    def collect(self) -> Iterable[Metric]:
        """Give every family of the page."""
        return self.families


def fetch(url: str) -> str:
    """Fetch a page over a fresh connection."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=3.0)
    try:
        connection.request("GET", parts.path)
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def main() -> None:
    """Scrape once a second and serve what came; prints its own URL."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("url", help="page to mirror")
    parser.add_argument("--port", type=int, default=0, help="where to listen; 0 takes a free one")
    arguments = parser.parse_args()
    registry, mirror = CollectorRegistry(auto_describe=False), Mirror()
    registry.register(mirror)
    server, _ = start_http_server(arguments.port, "127.0.0.1", registry=registry)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    while True:
        mirror.families = list(text_string_to_metric_families(fetch(arguments.url)))
        time.sleep(1.0)


if __name__ == "__main__":
    main()
