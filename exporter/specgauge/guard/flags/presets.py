"""How flag systems want to be asked, as data; it asks none of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

ANY_SUCCESS = (200, 201, 202, 204)
_JSON: Mapping[str, str] = MappingProxyType({"Content-Type": "application/json"})
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class Says(StrEnum):
    """What the body of an answer to a write is good for."""

    VALUE = "value"  # it holds the flag at `read_value`
    SUCCESS = "success"  # it is `true` where the write was taken
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """One way to write a flag over HTTP and to read it back; texts are templates.

    `path` and `read_path` lie below the configured URL; `read_value` is the dotted path into the
    JSON answer, None where the body is the value. `unset` is the status that a flag has which was
    never set.
    """

    path: str = ""
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=lambda: _JSON)
    body: str = (
        '{"flag": << flag | tojson >>, "enabled": << enabled | tojson >>, '
        '"reason": << reason | tojson >>}'
    )
    expect_status: tuple[int, ...] = ANY_SUCCESS
    says: Says = Says.VALUE
    read_path: str | None = None
    read_method: str = "GET"
    read_value: str | None = None
    base64: bool = False
    unset: int | None = None
    auth_header: str = "Authorization"
    auth_scheme: str = "Bearer"


_UNLEASH = "/api/admin/projects/<< project >>/features/<< flag >>/environments/<< environment >>"
_LAUNCHDARKLY = "/api/v2/flags/<< project >>/<< flag >>"
_GROWTHBOOK = "/api/v2/features/<< flag >>"

GENERIC = Preset()
PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "playbook": Preset(
            path="/api/v1/flags",
            body="{<< flag | tojson >>: << enabled | tojson >>}",
            read_value="<< flag >>",
        ),
        "unleash": Preset(
            path=_UNLEASH + "/<< 'on' if enabled else 'off' >>",
            headers=_NO_HEADERS,
            body="",
            expect_status=(200,),
            says=Says.NOTHING,
            read_path=_UNLEASH,
            read_value="enabled",
            auth_scheme="",
        ),
        "launchdarkly": Preset(
            path=_LAUNCHDARKLY,
            method="PATCH",
            headers=MappingProxyType(
                {"Content-Type": "application/json; domain-model=launchdarkly.semanticpatch"}
            ),
            body='{"environmentKey": << environment | tojson >>, "comment": << reason | tojson >>, '
            '"instructions": [{"kind": "<< \'turnFlagOn\' if enabled else \'turnFlagOff\' >>"}]}',
            expect_status=(200,),
            read_path=_LAUNCHDARKLY + "?env=<< environment >>",
            read_value="environments.<< environment >>.on",
            auth_scheme="",
        ),
        "growthbook": Preset(
            path=_GROWTHBOOK + "/toggle",
            body='{"reason": << reason | tojson >>, '
            '"environments": {<< environment | tojson >>: << enabled | tojson >>}}',
            expect_status=(200,),
            read_path=_GROWTHBOOK,
            read_value="feature.environments.<< environment >>.enabled",
        ),
        "consul": Preset(
            path="/v1/kv/<< flag >>",
            method="PUT",
            headers=_NO_HEADERS,
            body="<< enabled | tojson >>",
            expect_status=(200,),
            says=Says.SUCCESS,
            read_path="/v1/kv/<< flag >>",
            read_value="0.Value",
            base64=True,
            unset=404,
            auth_header="X-Consul-Token",
            auth_scheme="",
        ),
    }
)
