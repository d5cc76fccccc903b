"""Names of hosts and of accounts, by their syntax alone. Pure."""

import re

from ingest.addresses import is_host

NAMESPACE = "sh.tangled."


_PLC = re.compile(r"did:plc:[a-z2-7]{24}")
_WEB = re.compile(r"did:web:(?P<host>[a-z0-9.-]{1,253})(?:%3[Aa](?P<port>[1-9][0-9]{0,4}))?")


def is_did(text: str) -> bool:
    """Whether a text is a DID of the two methods that AT Protocol knows, did:plc and did:web."""
    if _PLC.fullmatch(text):
        return True
    parts = _WEB.fullmatch(text)
    if parts is None:
        return False
    if parts["port"] is not None:
        return int(parts["port"]) < 65_536 and (is_host(parts["host"]) or parts["host"] == "localhost")
    return is_host(parts["host"])
