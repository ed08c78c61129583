"""How HAProxy speaks to a server, by TLS or without: what stands on its line; knows no rules."""

from specgauge.errors import ConfigError
from specgauge.render.haproxy_rules import quoted
from specgauge.render.router import Trust


def spoken_to(server: str, trust: Trust | None, *, key: str, sni: bool) -> str:
    """Write a server's address and how it is verified, for requests and checks alike.

    With SNI HAProxy makes no second attempt after a certificate of another name. Raises
    ConfigError, naming `key`, where a client's key lies where HAProxy does not look.
    """
    if trust is None:
        return server
    name = trust.name_of(server)
    parts = [
        f"{server} ssl ssl-min-ver TLSv1.2 verify required ca-file {quoted(trust.authorities)}",
        f"verifyhost {name}",
    ]
    if sni:
        parts.append(f"sni str({name}) check-sni {name}")
    if trust.cert is not None:
        if trust.key not in (None, trust.cert, f"{trust.cert}.key"):
            where = f"HAProxy looks for the key in cert_file or in {trust.cert}.key"
            fix = "put it there and name it so"
            raise ConfigError([f"{key}.key_file: {trust.key}: {where}; {fix}"])
        parts.append(f"crt {quoted(trust.cert)}")
    return " ".join(parts)
