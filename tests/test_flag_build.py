"""From settings to the backend they name, through the configuration and without."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.flag_servers import Reply, always, flag_server

from specgauge.cli.settings import guard_of
from specgauge.config import load
from specgauge.errors import ConfigError
from specgauge.guard.flags.build import make_backend
from specgauge.guard.flags.embedded import Embedded
from specgauge.guard.flags.protocol import FlagBackend
from specgauge.guard.settings import FlagSettings

FLAGS = {
    "embedded": "{}",
    "webhook": "{url: 'http://flags:8080/speculation'}",
    "file": "{path: flag}",
    "exec": "{on: ['true'], off: ['false']}",
    "etcd": "{url: 'http://etcd:2379'}",
    "kubernetes": "{configmap: flags, api: 'https://api:6443', namespace: serving}",
    "haproxy": "{socket: /run/haproxy.sock, backend: vllm, server: spec, mode: weight}",
    "nginx": "{file: pool.conf, 'on': 'set $pool a;', 'off': 'set $pool b;'}",
    "production-stack": "{file: router.json, 'on': spec.json, 'off': plain.json}",
}


def settings(folder: Path, backend: str, section: str, more: str = "") -> FlagSettings:
    """Read the flag's settings out of a configuration file."""
    for name in ("spec.json", "plain.json"):
        (folder / name).write_text("{}" if name == "spec.json" else '{"a": 1}')
    (folder / "specgauge.yaml").write_text(
        'targets: [{name: spec, url: "http://engine:8000"}]\nguard: {}\n'
        f"flag: {{backend: {backend}, {backend}: {section}{more}}}\n"
    )
    guard = guard_of(load(folder / "specgauge.yaml", env={}, overrides={}))
    assert guard is not None
    return guard.flag


@pytest.mark.parametrize("backend", FLAGS)
async def test_every_backend_of_the_configuration(tmp_path: Path, backend: str) -> None:
    """Each backend is made from its own section, contacts nothing, and says where the flag is."""
    (tmp_path / "token").write_text("x")
    section = FLAGS[backend]
    if backend == "kubernetes":
        section = section.replace("}", f", token_file: {tmp_path / 'token'}}}")
    made = make_backend(settings(tmp_path, backend, section))
    assert made.name == backend
    assert made.place
    assert isinstance(made.can_read, bool)
    await made.close()


def place(backend: FlagBackend) -> str:
    return backend.place


async def test_terms_arrive(tmp_path: Path) -> None:
    """What the section says is what the backend does."""
    flag = settings(tmp_path, "file", "{path: flag, 'on': yes please, 'off': no thanks}")
    made = make_backend(flag)
    await made.write(on=False)
    assert (tmp_path / "flag").read_text() == "no thanks\n"
    assert place(made) == str(tmp_path / "flag")


async def test_key_of_the_served_flag(tmp_path: Path) -> None:
    """The served flag goes by the configured key."""
    made = make_backend(settings(tmp_path, "embedded", "{}", more=", key: spec.on"))
    assert isinstance(made, Embedded)
    assert made.flag.key == "spec.on"


async def test_reason_reaches_a_webhook(tmp_path: Path) -> None:
    """A webhook sends along why, as it is when it writes."""
    reasons = iter(["first", "second"])
    async with flag_server(always(Reply())) as server:
        section = (
            f"{{url: '{server.url}/f', body: '[<< enabled | tojson >>, << reason | tojson >>]'}}"
        )
        flag = settings(tmp_path, "webhook", section)
        made = make_backend(flag, reason=lambda: next(reasons))
        await made.write(on=False)
        await made.write(on=True)
    assert [one.json() for one in server.asked] == [[False, "first"], [True, "second"]]


@pytest.mark.parametrize(
    ("environment", "fault"),
    [
        pytest.param({}, r"flag\.kubernetes\.api", id="outside a cluster"),
        pytest.param(
            {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"},
            None,
            id="inside",
        ),
    ],
)
def test_kubernetes_finds_its_cluster(environment: Mapping[str, str], fault: str | None) -> None:
    """In a pod the environment says where the API is; elsewhere it has to be configured."""
    terms = {"configmap": "flags", "namespace": "serving"}
    flag = FlagSettings(backend="kubernetes", terms=terms)
    if fault is None:
        assert "10.0.0.1" in make_backend(flag, environment=environment).place
        return
    with pytest.raises(ConfigError, match=fault):
        make_backend(flag, environment=environment)


@pytest.mark.parametrize(
    ("backend", "terms", "fault"),
    [
        pytest.param("file", {"path": ""}, r"flag\.file\.path", id="file"),
        pytest.param("exec", {"on": (), "off": ("x",)}, r"flag\.exec\.on", id="exec"),
        pytest.param(
            "webhook", {"url": "ftp://x"}, r"flag\.webhook\..*'ftp://x' is no URL", id="webhook"
        ),
        pytest.param("etcd", {"url": "", "key": "k"}, r"flag\.etcd: '' is no URL", id="etcd"),
        pytest.param(
            "haproxy",
            {"socket": "/s", "backend": "b", "server": "s", "mode": "stop"},
            r"flag\.haproxy: 'stop' is not a valid",
            id="haproxy",
        ),
    ],
)
def test_terms_that_cannot_be(backend: str, terms: dict[str, object], fault: str) -> None:
    """Faults are told with their path in the configuration."""
    with pytest.raises(ConfigError, match=fault):
        make_backend(FlagSettings(backend=backend, terms=terms))


def test_token_of_the_environment_does_not_show(tmp_path: Path) -> None:
    """A secret among the terms is in no text that is made of them."""
    (tmp_path / "specgauge.yaml").write_text(
        'targets: [{name: spec, url: "http://engine:8000"}]\nguard: {}\n'
        "flag: {backend: etcd, etcd: {url: 'http://etcd:2379'}}\n"
    )
    env = {"SPECGAUGE_FLAG_ETCD_TOKEN": "secret-4711"}
    guard = guard_of(load(tmp_path / "specgauge.yaml", env=env, overrides={}))
    assert guard is not None
    assert guard.flag.terms["token"] == "secret-4711"
    made = make_backend(guard.flag)
    assert "secret" not in f"{guard!r} {made!r} {made.place}"
