"""Reads the URLs of flags and writes them for people; it opens no connection."""

from yarl import URL


def check_url(url: str) -> URL:
    """Read a URL as written, or raise ValueError with one line that names no credentials."""
    try:
        parsed = URL(url, encoded=url.isascii())
        usable = parsed.scheme in {"http", "https"} and bool(parsed.host)
        usable = usable and url.isprintable() and " " not in url
    except ValueError:
        usable = False
    if not usable:
        raise ValueError(f"{_shorn(url)!r} is no URL; write http://HOST:PORT/PATH or https://…")
    return parsed


def split(url: str) -> tuple[str, str]:
    """Cut a URL into its server's root, credentials included, and the path with its query."""
    parsed = check_url(url)
    return f"{parsed.scheme}://{parsed.raw_authority}", parsed.raw_path_qs


def show(url: URL) -> str:
    """Write a URL for people: without credentials, query and fragment."""
    return str(url.with_user(None).with_query(None).with_fragment(None))


def _shorn(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    return f"{scheme}{separator}{rest.partition('?')[0].rpartition('@')[2]}"
