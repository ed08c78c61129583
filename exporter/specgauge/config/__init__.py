"""The configuration tree: `load` reads it once, everyone below is handed values of it."""

from specgauge.config.address import Address, ListenAddress
from specgauge.config.advice import advice
from specgauge.config.assemble import load
from specgauge.config.checklist_keys import ChecklistKeys
from specgauge.config.describe import effective, schema
from specgauge.config.files import (
    control_token,
    given_secret,
    named_files,
    read_secret,
    request_headers,
    unusable_certificates,
)
from specgauge.config.flag_keys import FlagKeys
from specgauge.config.guard_keys import GuardKeys
from specgauge.config.models import Auth, BaselineKeys, Config, Export, Scrape, Target
from specgauge.config.report_keys import ReportKeys
from specgauge.config.routing_keys import RoutingKeys
from specgauge.config.rules_keys import RulesKeys
from specgauge.config.tls_keys import Tls

__all__ = [
    "Address",
    "Auth",
    "BaselineKeys",
    "ChecklistKeys",
    "Config",
    "Export",
    "FlagKeys",
    "GuardKeys",
    "ListenAddress",
    "ReportKeys",
    "RoutingKeys",
    "RulesKeys",
    "Scrape",
    "Target",
    "Tls",
    "advice",
    "control_token",
    "effective",
    "given_secret",
    "load",
    "named_files",
    "read_secret",
    "request_headers",
    "schema",
    "unusable_certificates",
]
