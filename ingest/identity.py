"""Who a DID is: its handle, its data server and its age, asked from the PLC directory or the DID's own host."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

import msgspec

from ingest.net import Fetcher, FetchProblem, is_host

AUDIT_LIMIT = 2_000_000  # bytes; an audit log of 1,000 operations is about 1 MB
DOCUMENT_LIMIT = 200_000
HANDLE_LIMIT = 2_048  # bytes of a well-known file, which holds one DID
HANDLE_SECONDS = 5.0  # a handle's host is a stranger's: a slow one may not hold a thread for the full timeout

_PLC = re.compile(r"did:plc:[a-z2-7]{24}")
_WEB = re.compile(r"did:web:(?P<host>[a-z0-9.-]{1,253})(?:%3[Aa](?P<port>[1-9][0-9]{0,4}))?")
# Top-level domains that no handle may have, by the handle specification.
_NO_HANDLES = ("local", "localhost", "arpa", "invalid", "internal", "example", "alt", "onion")


@dataclass(frozen=True)
class Identity:
    """What a DID's document claims, read at one moment. `handle` is unproven until its own domain names the DID."""

    did: str
    handle: str | None
    pds: str | None  # https origin
    created_at: datetime | None  # naive UTC, of the first operation in the PLC log; None for did:web


class _Endpoint(msgspec.Struct):
    endpoint: str = ""


class _Operation(msgspec.Struct):
    """A PLC operation; `handle` and `service` are the fields of the oldest form, `create`."""

    type: str
    alsoKnownAs: list[str] = []  # noqa: N815 - the wire's spelling
    services: dict[str, _Endpoint] = {}
    handle: str | None = None
    service: str | None = None


class _Entry(msgspec.Struct):
    operation: _Operation
    createdAt: str  # noqa: N815
    nullified: bool = False


class _Service(msgspec.Struct):
    id: str
    serviceEndpoint: Any = None  # noqa: N815


class _Document(msgspec.Struct):
    id: str
    alsoKnownAs: list[str] = []  # noqa: N815
    service: list[_Service] = []


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


def is_handle(text: str) -> bool:
    """Whether a text is a handle in lower case: a host name whose top-level domain may carry handles."""
    return is_host(text) and text.rpartition(".")[2] not in _NO_HANDLES


def resolve(fetcher: Fetcher, plc_url: str, did: str) -> Identity:
    """What the DID's own record says. Raises FetchProblem, with status 410 for a tombstoned DID.

    Source of the shapes: the PLC directory's /log/audit answer and the W3C DID document with AT Protocol's services.
    """
    if not is_did(did):
        raise FetchProblem("not a did:plc or did:web")
    if did.startswith("did:plc:"):
        return _from_audit_log(did, fetcher.get_json(f"{plc_url}/{did}/log/audit", list[_Entry], AUDIT_LIMIT))
    host = unquote(did.removeprefix("did:web:"))
    if ":" in host and fetcher.stand_in is None:
        raise FetchProblem("a did:web with a port is not looked up")
    document = fetcher.get_json(f"https://{host}/.well-known/did.json", _Document, DOCUMENT_LIMIT)
    if document.id != did:
        raise FetchProblem("the document at the did:web's host is about another DID")
    endpoints = [
        entry.serviceEndpoint for entry in document.service if entry.id in ("#atproto_pds", f"{did}#atproto_pds")
    ]
    return Identity(did, _claimed(document.alsoKnownAs), origin(endpoints[0]) if endpoints else None, None)


def handle_is_verified(fetcher: Fetcher, handle: str, did: str) -> bool:
    """Whether the handle's own domain names the DID. Raises FetchProblem only where asking again may change that."""
    try:
        return resolve_handle(fetcher, handle) == did
    except FetchProblem as problem:
        if problem.retry:
            raise
        return False


def resolve_handle(fetcher: Fetcher, handle: str) -> str:
    """The DID that a handle's domain names in its well-known file. Raises FetchProblem."""
    if not is_handle(handle):
        raise FetchProblem("not a handle")
    text = fetcher.get(f"https://{handle}/.well-known/atproto-did", HANDLE_LIMIT, HANDLE_SECONDS)
    did = text.decode("ascii", "replace").strip()
    if not is_did(did):
        raise FetchProblem(f"{handle} does not name a DID")
    return did


def origin(address: object) -> str | None:
    """A service address cut to its https origin in lower case; None unless it is plain https to a named host."""
    if not isinstance(address, str) or len(address) > 300:
        return None
    host = address.lower().removeprefix("https://").removesuffix("/")
    return f"https://{host}" if address.lower().startswith("https://") and is_host(host) else None


def _from_audit_log(did: str, entries: list[_Entry]) -> Identity:
    standing = [entry for entry in entries if not entry.nullified]
    if not standing:
        raise FetchProblem(f"the directory knows no valid operation of {did}", status=404)
    newest = standing[-1].operation
    if newest.type == "plc_tombstone":
        raise FetchProblem(f"{did} was tombstoned", status=410)
    if newest.type == "create":
        handle, pds = _claimed([f"at://{newest.handle}"]), newest.service
    else:
        handle, pds = _claimed(newest.alsoKnownAs), newest.services.get("atproto_pds", _Endpoint()).endpoint
    return Identity(did, handle, origin(pds), _moment(standing[0].createdAt))


def _claimed(names: list[str]) -> str | None:
    """The first at:// name, if it can be a handle."""
    first = next((name.removeprefix("at://").lower() for name in names if name.startswith("at://")), "")
    return first if is_handle(first) else None


def _moment(text: str) -> datetime | None:
    """An ISO time as naive UTC; None where it is none."""
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
    except (ValueError, OverflowError):
        return None
