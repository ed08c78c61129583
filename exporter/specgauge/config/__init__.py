"""The configuration tree: `load` reads it once, everyone below is handed values of it."""

from specgauge.config.address import Address, ListenAddress
from specgauge.config.assemble import load
from specgauge.config.describe import effective, schema
from specgauge.config.files import control_token, named_files, read_secret, request_headers
from specgauge.config.models import Auth, BaselineKeys, Config, Export, Scrape, Target, Tls

__all__ = [
    "Address",
    "Auth",
    "BaselineKeys",
    "Config",
    "Export",
    "ListenAddress",
    "Scrape",
    "Target",
    "Tls",
    "control_token",
    "effective",
    "load",
    "named_files",
    "read_secret",
    "request_headers",
    "schema",
]
