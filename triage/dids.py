"""The syntax of DIDs and handles, as the AT Protocol defines it. Pure."""

import re

from ingest.dids import is_did

LONGEST_DID = 2048
_DID = re.compile(r"did:[a-z]+:(?:[A-Za-z0-9._:-]|%[0-9A-Fa-f]{2})+")
_WEB_PORT = re.compile(r"(did:web:[^:%]+):([0-9]{1,5})")
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_HANDLE = re.compile(rf"(?:{_LABEL}\.)+[a-z](?:[a-z0-9-]{{0,61}}[a-z0-9])?")


class MalformedDid(ValueError):
    """Not a DID; the message is a sentence for the person who sent it."""


def parse_did(text: str) -> str:
    """The DID in `text` in its canonical form; MalformedDid if there is none.

    A web server decodes the path of a request, so the port of a did:web arrives as ":" and is put back to "%3A".
    The AT Protocol has no did:web with a path, so digits after the host can only be a port.
    """
    if len(text) > LONGEST_DID or not _DID.fullmatch(text) or text.endswith(":"):
        raise MalformedDid("This is not a DID. A DID looks like did:plc:ewvi7nxzyoun6zhxrhs64oiz.")
    port = _WEB_PORT.fullmatch(text)
    return f"{port[1]}%3A{port[2]}" if port else text.replace("%3a", "%3A")


def parse_account(text: str) -> str:
    """The DID of somebody who is to be given something here; MalformedDid where no account can have it.

    Of what the network names, a DID of any method and form is taken (`parse_did`): it is stored as it came.
    """
    did = parse_did(text)
    if not is_did(did):
        raise MalformedDid("This is not a DID: did:plc: needs 24 characters from a to z and 2 to 7.")
    return did


def parse_handle(text: str) -> str | None:
    """The handle in `text`, lower case and without a leading "@"; None if it is not one."""
    handle = text.strip().removeprefix("@").lower()
    return handle if len(handle) <= 253 and _HANDLE.fullmatch(handle) else None
