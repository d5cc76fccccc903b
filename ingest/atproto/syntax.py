"""Check the syntax of names in the AT Protocol: hosts, DIDs, handles and timestamp identifiers. Pure.

TIDs are the sortable record keys of the protocol (atproto.com/specs/tid).
"""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta

from ingest.clock import from_microseconds
from ingest.http.sockets import is_host

NAMESPACE = "sh.tangled."

_PLC = re.compile(r"did:plc:[a-z2-7]{24}")
_WEB = re.compile(r"did:web:(?P<host>[a-z0-9.-]{1,253})(?:%3[Aa](?P<port>[1-9][0-9]{0,4}))?")


def is_did(text: str) -> bool:
    """Return True if a text is a DID of one of AT Protocol's two methods, did:plc and did:web."""
    if _PLC.fullmatch(text):
        return True
    parts = _WEB.fullmatch(text)
    if parts is None:
        return False
    if parts["port"] is not None:
        return int(parts["port"]) < 65_536 and (is_host(parts["host"]) or parts["host"] == "localhost")
    return is_host(parts["host"])


ALPHABET = "234567abcdefghijklmnopqrstuvwxyz"
EPOCH = datetime(1970, 1, 1)
PATTERN = re.compile(r"[234567abcdefghij][234567abcdefghijklmnopqrstuvwxyz]{12}")
IS_TID = f"regexp_full_match(rev, '{PATTERN.pattern}')"  # in SQL, of the column `rev`


def tid_time(key: str) -> datetime | None:
    """Return the time in a TID as naive UTC, else None. Its author chooses it, so clamp it before use."""
    if not PATTERN.fullmatch(key):
        return None
    number = 0
    for letter in key:
        number = number * 32 + ALPHABET.index(letter)
    return from_microseconds(number >> 10)


def make_tid(moment: datetime, clock: int) -> str:
    """Return the TID of a time (naive UTC) and a clock number below 1,024."""
    number = round((moment - EPOCH) / timedelta(microseconds=1)) << 10 | clock
    return "".join(ALPHABET[number >> shift & 31] for shift in range(60, -1, -5))


def ordered(texts: Sequence[str | None]) -> Sequence[str | None]:
    """Return the texts that are TIDs, in their places, and None for the others, which have no order."""
    texts_given = [text for text in texts if text]
    if len(texts_given) == len(texts) and _are_tids(texts_given):
        return texts
    return [text if text and PATTERN.fullmatch(text) else None for text in texts]


def _are_tids(texts: Sequence[str]) -> bool:
    """Test each text against `PATTERN`, in a few passes over all of them."""
    others = "".join(texts).encode().translate(None, ALPHABET.encode())
    return set(map(len, texts)) <= {13} and not others and max(texts, default="") < "k"


LONGEST_DID = 2048
_DID = re.compile(r"did:[a-z]+:(?:[A-Za-z0-9._:-]|%[0-9A-Fa-f]{2})+")
_WEB_PORT = re.compile(r"(did:web:[^:%]+):([0-9]{1,5})")
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_HANDLE = re.compile(rf"(?:{_LABEL}\.)+[a-z](?:[a-z0-9-]{{0,61}}[a-z0-9])?")


class MalformedDid(ValueError):
    """The text is not a DID; the message is a sentence for the person who sent it."""


def parse_did(text: str) -> str:
    """Return the DID in `text` in its canonical form. Raises MalformedDid if it is not a DID.

    A web server decodes the path of a request, so the port of a did:web arrives as ":" and is changed back to "%3A".
    The AT Protocol has no did:web with a path, so digits after the host can only be a port.
    """
    if len(text) > LONGEST_DID or not _DID.fullmatch(text) or text.endswith(":"):
        raise MalformedDid("This is not a DID. A DID looks like did:plc:ewvi7nxzyoun6zhxrhs64oiz.")
    port = _WEB_PORT.fullmatch(text)
    return f"{port[1]}%3A{port[2]}" if port else text.replace("%3a", "%3A")


def parse_account(text: str) -> str:
    """Return the DID of a person who gets a role or a mark here. Raises MalformedDid if no account can have it.

    Elsewhere a DID from the network may have any method and form (`parse_did`): it is stored as it came.
    """
    did = parse_did(text)
    if not is_did(did):
        raise MalformedDid("This is not a DID: did:plc: needs 24 characters from a to z and 2 to 7.")
    return did


def parse_handle(text: str) -> str | None:
    """Return the handle in `text`, lower case and without a leading "@", or None if it is not a handle."""
    handle = text.strip().removeprefix("@").lower()
    return handle if len(handle) <= 253 and _HANDLE.fullmatch(handle) else None
