"""The flag's keys as values: which backend holds it, and the section of each backend.

Single keys are checked here; what a backend needs is checked by `guard_rules`.
"""

from pydantic import BaseModel, Field

from specgauge.config.fields import BearerSecret, Duration, File, Headers, Interval
from specgauge.config.guard_fields import (
    Backend,
    Command,
    Content,
    DrainMode,
    FlagName,
    FlagPath,
    Label,
    Minimum,
    ObjectName,
    OptionalLabel,
    OptionalObjectName,
    PlaceTemplate,
    ReadVerb,
    Root,
    ServiceTemplate,
    Statuses,
    Value,
    Verb,
    WebhookPreset,
    Words,
)
from specgauge.config.section import SETTINGS, secret_key

_CA = "PEM file with the authorities to trust instead of the system's."
_TOKEN = "The token itself; from the environment only."  # noqa: S105 - names no secret


class Embedded(BaseModel):
    """The flag in the sidecar itself, which applications ask."""

    model_config = SETTINGS

    file: File = Field(
        default=None, description="File in which it survives a restart; by default in memory only."
    )


class Webhook(BaseModel):
    """The flag behind a URL; texts are templates with << flag >> and << enabled >>."""

    model_config = SETTINGS

    preset: WebhookPreset = Field(
        default=None,
        description="playbook, unleash, launchdarkly, growthbook or consul; fills in what is not "
        "written here.",
    )
    url: ServiceTemplate = Field(
        default=None, description="Where the flag is changed; with a preset the server's root."
    )
    method: Verb = Field(default=None, description="Method; by default the preset's, or POST.")
    headers: Headers = Field(
        default_factory=dict,
        description="Further request headers; never Authorization.",
        repr=False,
    )
    body: Content = Field(
        default=None,
        description="Template of the body, over flag, enabled, reason, project and environment; "
        "'' is none.",
    )
    expect_status: Statuses = Field(
        default=None,
        description="Statuses that mean success; by default the preset's, or 200, 201, 202, 204.",
    )
    read_url: PlaceTemplate = Field(
        default=None, description="Where the flag is read back; / begins a path below url."
    )
    read_method: ReadVerb = Field(default=None, description="Method for that; by default GET.")
    read_value: Content = Field(
        default=None, description="Dotted path to the flag in the JSON answer; '' is all of it."
    )
    token_file: File = Field(default=None, description="File with the token to send.")
    token_header: OptionalLabel = Field(
        default=None,
        description="Header that carries it; by default the preset's, or Authorization.",
    )
    token_scheme: Content = Field(
        default=None, description="Word before it; by default the preset's, or Bearer; '' is none."
    )
    project: Label = Field(default="default", description="Project of the flag, for presets.")
    environment: Label = Field(default="production", description="Its environment, for presets.")
    ca_file: File = Field(default=None, description=_CA)
    token: BearerSecret = secret_key(_TOKEN)


class FileKeys(BaseModel):
    """The flag in a file, replaced as a whole."""

    model_config = SETTINGS

    path: File = Field(default=None, description="The file.")
    on: Value = Field(default="true", description="Its text while the flag is on.")
    off: Value = Field(default="false", description="Its text while the flag is off.")


class ExecKeys(BaseModel):
    """The flag behind commands, each a list of arguments that no shell sees."""

    model_config = SETTINGS

    on: Command = Field(default=(), description="Command that turns the flag on.")
    off: Command = Field(default=(), description="Command that turns it off.")
    read: Command = Field(
        default=(), description="Command that prints on, off, true or false; [] reads nothing back."
    )


class Etcd(BaseModel):
    """The flag as a key of etcd, through its v3 JSON gateway."""

    model_config = SETTINGS

    url: Root = Field(default=None, description="Where it is, as http://etcd:2379.")
    key: FlagPath = Field(default=None, description="The key; by default flag.key.")
    token_file: File = Field(default=None, description="File with the token to send.")
    on: Value = Field(default="true", description="Its value while the flag is on.")
    off: Value = Field(default="false", description="Its value while the flag is off.")
    ca_file: File = Field(default=None, description=_CA)
    token: BearerSecret = secret_key(_TOKEN)


class Kubernetes(BaseModel):
    """The flag in a ConfigMap, or as the weights of an HTTPRoute; one of the two."""

    model_config = SETTINGS

    api: Root = Field(
        default=None, description="The API server; by default the one of this cluster."
    )
    namespace: ObjectName = Field(default="default", description="Namespace of the object.")
    configmap: OptionalObjectName = Field(
        default=None, description="ConfigMap that holds the flag under flag.key."
    )
    httproute: OptionalObjectName = Field(
        default=None, description="HTTPRoute whose weights are the flag."
    )
    rule: Minimum = Field(default=0, description="Which of its rules, from 0.")
    speculative_service: OptionalObjectName = Field(
        default=None, description="Service in that rule that gets the traffic while it is on."
    )
    standard_service: OptionalObjectName = Field(
        default=None, description="Service in that rule that gets it while it is off."
    )
    token_file: File = Field(
        default=None, description="File with the token to send; by default the pod's."
    )
    ca_file: File = Field(
        default=None, description="PEM file with the authorities to trust; by default the pod's."
    )
    token: BearerSecret = secret_key(_TOKEN)


class Haproxy(BaseModel):
    """The flag as the state of a server of HAProxy, through its runtime socket."""

    model_config = SETTINGS

    socket: Words = Field(
        default=None, description="The stats socket's path or HOST:PORT, with level admin."
    )
    backend: OptionalLabel = Field(default=None, description="Backend the server is in.")
    server: OptionalLabel = Field(
        default=None, description="The speculative server; others in the backend take over."
    )
    mode: DrainMode = Field(default="drain", description="drain it, or set its weight to 0.")


class Nginx(BaseModel):
    """The flag as an include file of nginx; taken back if nginx refuses it."""

    model_config = SETTINGS

    file: File = Field(default=None, description="The include file; it is replaced as a whole.")
    on: Content = Field(default=None, description="Its whole text while the flag is on.")
    off: Content = Field(default=None, description="Its whole text while the flag is off.")
    test: Command = Field(default=("nginx", "-t"), description="Command that tests it.")
    reload: Command = Field(
        default=("nginx", "-s", "reload"), description="Command that puts it in force."
    )


class ProductionStack(BaseModel):
    """The flag as the dynamic configuration that a production-stack router watches."""

    model_config = SETTINGS

    file: File = Field(default=None, description="The file that the router watches.")
    on: File = Field(default=None, description="File that takes its place while the flag is on.")
    off: File = Field(default=None, description="File that takes its place while it is off.")


class FlagKeys(BaseModel):
    """Where the flag lies that the guard moves."""

    model_config = SETTINGS

    backend: Backend = Field(
        default="embedded",
        description="embedded, webhook, file, exec, etcd, kubernetes, haproxy, nginx or "
        "production-stack; the section of that name has its keys.",
    )
    key: FlagName = Field(default="speculative_decoding_enabled", description="Name of the flag.")
    timeout: Duration = Field(
        default=5.0,
        description="How long one call of the backend may take.",
        json_schema_extra={"default": "5s"},
    )
    check_interval: Interval = Field(
        default=30.0,
        description="Time from one reading back to the next; at least 100ms.",
        json_schema_extra={"default": "30s"},
    )
    obeyed_by: Words = Field(
        default=None,
        description="What moves traffic or the engine when the flag changes, in your own words.",
    )
    embedded: Embedded = Field(default_factory=Embedded, description="In the sidecar itself.")
    webhook: Webhook = Field(default_factory=Webhook, description="Behind a URL.")
    file: FileKeys = Field(default_factory=FileKeys, description="In a file.")
    exec: ExecKeys = Field(default_factory=ExecKeys, description="Behind commands.")
    etcd: Etcd = Field(default_factory=Etcd, description="In etcd.")
    kubernetes: Kubernetes = Field(
        default_factory=Kubernetes, description="In an object of Kubernetes."
    )
    haproxy: Haproxy = Field(default_factory=Haproxy, description="In HAProxy.")
    nginx: Nginx = Field(default_factory=Nginx, description="In nginx.")
    production_stack: ProductionStack = Field(
        default_factory=ProductionStack,
        alias="production-stack",
        description="In a production-stack router.",
    )
