"""The keys of `tls`: how a server that is spoken to over TLS is known, and what is shown to it.

Single keys are checked here; no file is opened.
"""

from pydantic import BaseModel, Field

from specgauge.config.fields import File, Name
from specgauge.config.section import SETTINGS


class Tls(BaseModel):
    """How an https server is verified, and the certificate shown to it."""

    model_config = SETTINGS

    ca_file: File = Field(
        default=None, description="PEM file with the authorities to trust instead of the system's."
    )
    cert_file: File = Field(default=None, description="PEM file with the client certificate.")
    key_file: File = Field(
        default=None, description="PEM file with its key, if not in cert_file too."
    )
    server_name: Name = Field(
        default=None, description="Name to expect in the server's certificate, if not the host."
    )
