"""Read a /metrics page by the reference parser, so that our own reader is held against it.

It may not import anything of specgauge.
"""

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection
from urllib.parse import urlsplit

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page: its text and its samples."""

    text: str
    samples: tuple[Sample, ...]

    def has(self, name: str) -> bool:
        """Tell whether any sample of that name is on the page."""
        return any(sample.name == name for sample in self.samples)

    def total(self, name: str, **labels: str) -> float:
        """Add up all samples of that name with these labels."""
        return sum(
            sample.value
            for sample in self.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    def by(self, name: str, label: str) -> dict[str, float]:
        """Add up the samples of that name for each value of one label."""
        sums: dict[str, float] = {}
        for sample in self.samples:
            if sample.name == name:
                value = sample.labels[label]
                sums[value] = sums.get(value, 0.0) + sample.value
        return sums

    def state(self, name: str, label: str) -> str | None:
        """Name the state that a state set is in, if it is on the page and in exactly one."""
        current = [state for state, value in self.by(name, label).items() if value == 1]
        return current[0] if len(current) == 1 else None


def read(text: str) -> Page:
    """Read a page."""
    families = text_string_to_metric_families(text)
    return Page(
        text=text, samples=tuple(sample for family in families for sample in family.samples)
    )


def get(url: str, path: str, body: str | None = None) -> tuple[int, str]:
    """Ask the server at a root URL for a path; return the status and the body.

    What has a body is posted, as JSON.
    """
    with closing(HTTPConnection(urlsplit(url).netloc, timeout=30)) as connection:
        headers = {} if body is None else {"Content-Type": "application/json"}
        connection.request("GET" if body is None else "POST", path, body=body, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def fetch(url: str) -> Page:
    """Fetch the page of the server at a root URL and read it."""
    status, text = get(url, "/metrics")
    assert status == HTTPStatus.OK, f"{url}/metrics answered {status}"
    return read(text)


def fetch_until(url: str, accept: Callable[[Page], bool], *, seconds: float) -> Page:
    """Fetch until a page is acceptable, and no longer than that; return the last page anyhow."""
    deadline = time.monotonic() + seconds
    while True:
        page = fetch(url)
        if accept(page) or time.monotonic() > deadline:
            return page
        time.sleep(0.25)
