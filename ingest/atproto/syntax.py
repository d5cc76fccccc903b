"""Checks the syntax of names in the AT Protocol: hosts, DIDs, handles and timestamp identifiers. Pure.

TIDs are the sortable record keys of the protocol (atproto.com/specs/tid).
"""

import re
from collections.abc import Sequence
from datetime import datetime

from ingest.clock import from_microseconds
from ingest.http.sockets import is_host

NAMESPACE = "sh.tangled."

_PLC = re.compile(r"did:plc:[a-z2-7]{24}")
_WEB = re.compile(r"did:web:(?P<host>[a-z0-9.-]{1,253})(?:%3[Aa](?P<port>[1-9][0-9]{0,4}))?")


def is_did(text: str) -> bool:
    """Return whether a text is a DID of the two methods that AT Protocol knows, did:plc and did:web."""
    if _PLC.fullmatch(text):
        return True
    parts = _WEB.fullmatch(text)
    if parts is None:
        return False
    if parts["port"] is not None:
        return int(parts["port"]) < 65_536 and (is_host(parts["host"]) or parts["host"] == "localhost")
    return is_host(parts["host"])


ALPHABET = "234567abcdefghijklmnopqrstuvwxyz"
PATTERN = re.compile(r"[234567abcdefghij][234567abcdefghijklmnopqrstuvwxyz]{12}")
IS_TID = f"regexp_full_match(rev, '{PATTERN.pattern}')"  # in SQL, of the column `rev`


def tid_time(key: str) -> datetime | None:
    """The moment a TID names, naive UTC, else None. Its author chooses it, so clamp it before use."""
    if not PATTERN.fullmatch(key):
        return None
    number = 0
    for letter in key:
        number = number * 32 + ALPHABET.index(letter)
    return from_microseconds(number >> 10)


def ordered(texts: Sequence[str | None]) -> Sequence[str | None]:
    """The texts that are TIDs, in their places; None for the others, which tell no order."""
    told = [text for text in texts if text]
    if len(told) == len(texts) and _are_tids(told):
        return texts
    return [text if text and PATTERN.fullmatch(text) else None for text in texts]


def _are_tids(texts: Sequence[str]) -> bool:
    """As `PATTERN` for each text, in a few passes over them all."""
    others = "".join(texts).encode().translate(None, ALPHABET.encode())
    return set(map(len, texts)) <= {13} and not others and max(texts, default="") < "k"


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
