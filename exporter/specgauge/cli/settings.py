"""From the configuration tree to the plain values that the sidecar takes."""

from specgauge.config import Address, Config, Target, control_token, request_headers
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
    )


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
