"""What a client asks for, as the path that rules see: the same in Python and in a real nginx."""

import pytest
from tests.routers import routing

from specgauge.routing.path import path_of

PATHS = [
    ("/v1/chat/completions", "/v1/chat/completions"),
    ("/v1/embeddings?a=/b", "/v1/embeddings"),
    ("/v1/embeddings#a", "/v1/embeddings"),
    ("/v1/%65mbeddings", "/v1/embeddings"),
    ("/v1/a%2Fb%3fc%23", "/v1/a/b?c#"),
    ("//v1///a", "/v1/a"),
    ("/v1/a/./b", "/v1/a/b"),
    ("/v1/a/../b", "/v1/b"),
    ("/v1/a/%2e%2E/b", "/v1/b"),
    ("/v1/a/..", "/v1/"),
    ("/v1/a/.", "/v1/a/"),
    ("/v1/...", "/v1/..."),
    ("/v1/", "/v1/"),
    ("/a/..", "/"),
    ("/", "/"),
    ("http://other/v1/a", "/v1/a"),
    ("/v1/%E6%97%A5", "/v1/日"),
    ("/v1/%2561", "/v1/%61"),
    ("/..", None),
    ("/%00", None),
    ("/%zz", None),
    ("/%6", None),
    ("*", None),
    ("v1", None),
]


@pytest.mark.parametrize(("target", "path"), PATHS)
def test_path(target: str, path: str | None) -> None:
    """Query and quoting are gone, and what leads nowhere is no path."""
    assert path_of(target) == path


async def test_nginx_reads_the_same() -> None:
    """Every path that is taken falls under a rule over what it is read as, in a real nginx."""
    plain = sorted(
        {path for _, path in PATHS if path and path.isascii() and not {*path} & {*"?#%"}}
    )
    rules = "".join(
        f"    - {{name: p{place}, pool: standard, when: {{paths: ['{path}']}}}}\n"
        for place, path in reversed(list(enumerate(plain)))  # the longer one of two first
    )
    async with routing("  rules:\n" + rules) as front:
        front.tell(flag=True)
        for target, path in PATHS:
            went = await front.say(f"GET {target} HTTP/1.1\r\nHost: r\r\nConnection: close\r\n\r\n")
            assert (" 400 " in went.splitlines()[0]) == (path is None), target
            if path in plain:
                assert f"X-Specgauge-Class: p{plain.index(path)}" in went, target
