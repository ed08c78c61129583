"""From the configuration tree to the plain values that the sidecar takes."""

from specgauge.baseline.files import load_dir, load_file
from specgauge.baseline.schema import BaselineFile, usable
from specgauge.config import Address, BaselineKeys, Config, Target, control_token, request_headers
from specgauge.errors import BaselineError, ConfigError
from specgauge.model.baseline import Baseline
from specgauge.model.derived import Hints
from specgauge.model.settings import Settings, TargetSettings


def settings_of(config: Config) -> Settings:
    """Read the secrets that the configuration names and flatten the rest."""
    return Settings(
        targets=tuple(_target(target) for target in config.targets),
        interval=config.scrape.interval,
        timeout=config.scrape.timeout,
        max_bytes=config.scrape.max_bytes,
        window=config.window,
        host=config.listen_address.host,
        port=config.listen_address.port,
        token=control_token(config),
        histograms=config.export.histograms,
        positions=config.export.positions,
        decision_window=min(config.decision_window, config.window),
        baselines=_baselines(config.baseline),
        baseline_target=config.baseline.target,
        margin=config.baseline.margin,
    )


def _baselines(keys: BaselineKeys) -> tuple[Baseline, ...]:
    """Read the baseline file, or those of the folder; raises ConfigError for one that is bad."""
    files: dict[str, BaselineFile] = {}
    problems: list[str] = []
    if keys.file is not None:
        try:
            files[str(keys.file)] = load_file(keys.file)
        except BaselineError as error:
            problems += [f"baseline.file: {line}" for line in error.problems]
    if keys.dir is not None:
        try:
            folder = load_dir(keys.dir)
        except BaselineError as error:
            problems += [f"baseline.dir: {line}" for line in error.problems]
        else:
            files |= {one.source: one.file for one in folder.candidates}
            problems += [f"baseline.dir: {line}" for line in folder.problems]
    if problems:
        raise ConfigError(problems)
    return tuple(usable(file, source=source) for source, file in files.items())


def _target(target: Target) -> TargetSettings:
    tls = target.tls
    return TargetSettings(
        name=target.name,
        url=scrape_url(target.address),
        role=target.role,
        hints=Hints(method=target.method, engines=target.engines),
        headers=request_headers(target.auth),
        ca_file=str(tls.ca_file) if tls.ca_file else None,
        cert_file=str(tls.cert_file) if tls.cert_file else None,
        key_file=str(tls.key_file) if tls.key_file else None,
        server_name=tls.server_name,
    )


def scrape_url(where: Address) -> str:
    """Write an address as the URL that is fetched."""
    return f"http+unix://{where.socket}:{_path(where.url)}" if where.socket else where.url


def _path(url: str) -> str:
    """Give what follows the host of a URL."""
    return "/" + url.partition("://")[2].partition("/")[2]
