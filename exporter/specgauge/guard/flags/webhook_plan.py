"""Works out the calls of a webhook from its terms and finds their faults; it makes no call."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from jinja2 import Template

from specgauge.guard.flags.presets import GENERIC, PRESETS, Preset
from specgauge.guard.flags.template import Values, compile_template, fill, fill_url
from specgauge.guard.flags.urls import split

_OPENING = re.compile("<[<%#]")
_TEXTS = ("url", "body", "read_url", "read_value")


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookTerms:
    """The keys of `flag.webhook`; None takes the preset's, or without one what the docs say.

    `url` is the server's root where there is a preset, else the whole address. `headers` are sent
    beside the preset's and replace those of the same name. An empty `body` is none at all, an empty
    `read_value` says that the whole answer is the value. `read_url` is whole or begins with `/`,
    then it lies below `url`; wherever it points, it is asked with the same headers and token.
    """

    preset: str | None = None
    url: str = ""
    method: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str | None = None
    expect_status: tuple[int, ...] | None = None
    read_url: str | None = None
    read_method: str | None = None
    read_value: str | None = None
    token_file: str | None = None
    token: str | None = field(default=None, repr=False)
    token_header: str | None = None
    token_scheme: str | None = None
    project: str = "default"
    environment: str = "production"
    ca_file: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One call: `root` is the server, `path` what is asked of it, already quoted."""

    method: str
    root: str
    path: str
    body: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything a webhook does, worked out; `value_path` leads to the flag in an answer."""

    preset: Preset
    values: Values
    url: Template
    body: Template
    read_url: Template | None
    value_path: tuple[str, ...]

    def writing(self, *, on: bool, reason: str = "") -> Request:
        """Give the call that sets the flag; raise ValueError where a template fails."""
        values = replace(self.values, enabled=on, reason=reason)
        root, path = split(fill_url(self.url, values))
        body = fill(self.body, values).encode()
        return Request(method=self.preset.method, root=root, path=path, body=body or None)

    def reading(self) -> Request | None:
        """Give the call that reads the flag, None where there is none."""
        if self.read_url is None:
            return None
        root, path = split(fill_url(self.read_url, self.values))
        return Request(method=self.preset.read_method, root=root, path=path)


def plan(terms: WebhookTerms, key: str) -> Plan:
    """Work the calls out and try each once; raise ValueError with one line per fault."""
    faults = _unusable(terms)
    if faults:
        raise ValueError("\n".join(faults))
    preset = _chosen(terms)
    values = Values(flag=key, enabled=False, project=terms.project, environment=terms.environment)
    read_url = preset.read_path
    if read_url is not None and read_url.startswith("/"):
        read_url = terms.url.rstrip("/") + read_url
    compiled: dict[str, Template] = {}
    texts = {
        "url": _address(terms.url, preset.path),
        "body": preset.body,
        "read_url": read_url or "",
        "read_value": preset.read_value or "",
    }
    for name in _TEXTS:
        try:
            compiled[name] = compile_template(texts[name])
        except ValueError as error:
            faults.append(f"{name}: {error}")
    if faults:
        raise ValueError("\n".join(faults))
    made = Plan(
        preset=preset,
        values=values,
        url=compiled["url"],
        body=compiled["body"],
        read_url=compiled["read_url"] if read_url else None,
        value_path=_value_path(preset.read_value, values),
    )
    _try_out(made)
    return made


def _unusable(terms: WebhookTerms) -> list[str]:
    faults = []
    if not terms.url:
        faults.append("url: not set; write where the flag is changed")
    if terms.preset is not None and terms.preset not in PRESETS:
        faults.append(f"preset: {terms.preset!r} is none of {', '.join(PRESETS)}")
    if terms.preset is not None and "?" in terms.url:
        faults.append("url: a preset adds its path to it, so it may hold no query")
    faults += [
        f"{name}: the server may be no template; only path and query may"
        for name, url in (("url", terms.url), ("read_url", terms.read_url))
        if _OPENING.search(_server(url or ""))
    ]
    for name in ("method", "read_method"):
        method = getattr(terms, name)
        if method is not None and not (method.isascii() and method.isalpha()):
            faults.append(f"{name}: {method!r} is no HTTP method")
    for name, value in terms.headers.items():
        if not value.isprintable():
            faults.append(f"headers.{name}: holds control characters")
    return faults


def _server(url: str) -> str:
    """Cut off path and query, as written; what begins with `/` names no server."""
    scheme, separator, rest = url.partition("://")
    return scheme + separator + re.split(r"[/?]", rest)[0] if separator else url.partition("/")[0]


def _chosen(terms: WebhookTerms) -> Preset:
    """Put what was configured in the place of what the preset says."""
    preset = GENERIC if terms.preset is None else PRESETS[terms.preset]
    said = {
        "method": terms.method and terms.method.upper(),
        "body": terms.body,
        "expect_status": terms.expect_status,
        "read_path": terms.read_url,
        "read_method": terms.read_method and terms.read_method.upper(),
        "read_value": terms.read_value,
        "auth_header": terms.token_header,
        "auth_scheme": terms.token_scheme,
    }
    changes = {name: value for name, value in said.items() if value is not None}
    theirs = {name.lower() for name in terms.headers}
    headers = {name: text for name, text in preset.headers.items() if name.lower() not in theirs}
    return replace(preset, headers=headers | dict(terms.headers), **changes)  # type: ignore[arg-type]


def _address(url: str, path: str) -> str:
    """Add the preset's path, unless the URL was written with it."""
    url = url.rstrip("/") if path else url
    return url if path and url.endswith(path) else url + path


def _value_path(text: str | None, values: Values) -> tuple[str, ...]:
    if not text:
        return ()
    return tuple(fill(compile_template(piece), values) for piece in text.split("."))


def _try_out(made: Plan) -> None:
    """Make both requests once, so that what cannot work is found before it is needed."""
    off, on = made.writing(on=False, reason="try"), made.writing(on=True, reason="try")
    if off == on:
        raise ValueError("body: the calls for on and off are the same; use << enabled | tojson >>")
    kind = next((v for k, v in made.preset.headers.items() if k.lower() == "content-type"), "")
    if "json" in kind.lower():
        for body in (off.body, on.body):
            try:
                json.loads(body or b"null")
            except ValueError as error:
                fix = "use | tojson, or name another Content-Type in headers"
                raise ValueError(f"body: gives no JSON: {error}; {fix}") from error
    made.reading()
