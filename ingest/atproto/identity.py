"""Look up identities: ask the PLC directory or a DID's own host for its handle, its data server and its age."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from ingest.atproto.syntax import is_did as is_did
from ingest.clock import parse_time
from ingest.errors import FetchProblem
from ingest.http.fetcher import Fetcher
from ingest.http.sockets import is_fetchable, is_host

AUDIT_LIMIT = 2_000_000  # bytes; an audit log of 1,000 operations is about 1 MB
DOCUMENT_LIMIT = 200_000
CHANGES = 50  # newest changes of one kind that are stored; their numbers count all changes
LINKS, LINK_LENGTH = 5, 500  # other addresses of a document that are read, and characters of each
HANDLE_LIMIT = 2_048  # bytes of a well-known file, which holds one DID
HANDLE_SECONDS = 5.0  # a handle's host is a stranger's: a slow one may not hold a thread for the full timeout

# Top-level domains that no handle may have, by the handle specification.
_NO_HANDLES = ("local", "localhost", "arpa", "invalid", "internal", "example", "alt", "onion")


@dataclass(frozen=True)
class Identity:
    """The claims of a DID's document, read at one time. `handle` is unproven until its own domain names the DID."""

    did: str
    handle: str | None
    pds: str | None  # https origin
    created_at: datetime | None  # naive UTC, of the first operation in the PLC log; None for did:web
    changes: tuple["Change", ...] = ()  # from the PLC log, oldest first within each kind; none for did:web
    tombstoned: bool = False
    signing_key: str | None = None  # the `#atproto` key, which signs the account's records, in multibase
    links: tuple[str, ...] = ()  # https addresses that the document calls the account's own too; unproven


@dataclass(frozen=True)
class Change:
    """A change of an account, at the time that the directory gave it.

    `kind` is 'created_at', 'handle_changes', 'pds_moves', 'key_rotations', 'recoveries' (earlier operations, perhaps a
    tombstone, were reversed) or 'tombstoned'; `number` counts the changes of that kind so far, from 1.
    """

    kind: str
    number: int
    at: datetime


class _Endpoint(msgspec.Struct):
    endpoint: str = ""


class _Operation(msgspec.Struct):
    """A PLC operation; `handle`, `service` and the two single keys are the fields of the oldest form, `create`."""

    type: str
    alsoKnownAs: list[str] = []  # noqa: N815 - the wire's spelling
    services: dict[str, _Endpoint] = {}
    rotationKeys: list[str] = []  # noqa: N815
    verificationMethods: dict[str, str] = {}  # noqa: N815
    recoveryKey: str | None = None  # noqa: N815
    signingKey: str | None = None  # noqa: N815
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
    verificationMethod: Any = None  # noqa: N815


def is_handle(text: str) -> bool:
    """Return True if a text is a handle in lower case: a host name whose top-level domain may carry handles."""
    return is_host(text) and text.rpartition(".")[2] not in _NO_HANDLES


def resolve(fetcher: Fetcher, plc_url: str, did: str) -> Identity:
    """Return the identity from the DID's own record. Raises FetchProblem, with status 410 for a tombstoned DID."""
    identity = read_identity(fetcher, plc_url, did)
    if identity.tombstoned:
        raise FetchProblem(f"{did} was tombstoned", status=410)
    return identity


def read_identity(fetcher: Fetcher, plc_url: str, did: str) -> Identity:
    """Return the identity of a DID; a tombstoned one has no handle and no data server. Raises FetchProblem.

    Source of the shapes: the PLC directory's /log/audit answer and the W3C DID document with AT Protocol's services.
    """
    if not is_did(did):
        raise FetchProblem("not a did:plc or did:web")
    if did.startswith("did:plc:"):
        return _parse_audit_log(did, fetcher.get_json(f"{plc_url}/{did}/log/audit", list[_Entry], AUDIT_LIMIT))
    host = unquote(did.removeprefix("did:web:"))
    if ":" in host and fetcher.stand_in is None:
        raise FetchProblem("a did:web with a port is not looked up")
    document = fetcher.get_json(f"https://{host}/.well-known/did.json", _Document, DOCUMENT_LIMIT)
    if document.id != did:
        raise FetchProblem("the document at the did:web's host is about another DID")
    endpoints = [
        entry.serviceEndpoint for entry in document.service if entry.id in ("#atproto_pds", f"{did}#atproto_pds")
    ]
    pds = origin(endpoints[0]) if endpoints else None
    known_as = document.alsoKnownAs
    key = _document_key(document)
    return Identity(did, _first_handle(known_as), pds, None, signing_key=key, links=_read_links(known_as))


def read_service(fetcher: Fetcher, plc_url: str, did: str) -> str:
    """Return the host that a did:plc without a data server, such as a repository's, names. Raises FetchProblem.

    A repository names its knot. Of several hosts the first by name counts.
    """
    if not (is_did(did) and did.startswith("did:plc:")):
        raise FetchProblem("not a did:plc")
    entries = fetcher.get_json(f"{plc_url}/{did}/log/audit", list[_Entry], AUDIT_LIMIT)
    valid = [entry.operation for entry in entries if not entry.nullified]
    services = sorted(valid[-1].services.items()) if valid else []
    hosts = [host for name, service in services if name != "atproto_pds" and (host := origin(service.endpoint))]
    if not hosts:
        raise FetchProblem(f"the directory knows no host of {did}")
    return hosts[0].removeprefix("https://")


def handle_is_verified(fetcher: Fetcher, handle: str, did: str) -> bool:
    """Tell if the handle's own domain names the DID. Raises FetchProblem only if asking again may change the answer."""
    try:
        return resolve_handle(fetcher, handle) == did
    except FetchProblem as problem:
        if problem.retry:
            raise
        return False


def resolve_handle(fetcher: Fetcher, handle: str) -> str:
    """Return the DID that a handle's domain names, by its TXT record or its well-known file. Raises FetchProblem.

    One of them is enough; if they name different DIDs, neither counts. Source: atproto.com/specs/handle.
    """
    if not is_handle(handle):
        raise FetchProblem("not a handle")
    dids: set[str] = set()
    problems = []
    for look_up in (_ask_texts, _ask_file):
        try:
            dids |= look_up(fetcher, handle)
        except FetchProblem as problem:
            if problem.closed:
                raise
            problems.append(problem)
    if len(dids) > 1:
        raise FetchProblem(f"{handle} names different DIDs")
    did = next(iter(dids), "")
    if is_did(did):
        return did
    raise next(
        (problem_seen for problem_seen in problems if problem_seen.retry), FetchProblem(f"{handle} does not name a DID")
    )


CONNECT = "Connect this machine to the network"


def why_offline(fetcher: Fetcher, plc_url: str) -> str:
    """Say that this machine reaches no server if even the directory of accounts has no address; else ""."""
    try:
        if fetcher.stand_in is None:
            fetcher.addresses(urlsplit(plc_url).hostname or "")
    except FetchProblem as problem:
        return f"No server can be reached from here ({problem})"
    return ""


def why_unresolved(
    fetcher: Fetcher, plc_url: str, handle: str, problem: FetchProblem, did_suffices: bool = False
) -> str:
    """Say why a handle led to no DID, and what to do. Only an answer from the network can mean that it is misspelt.

    `did_suffices`: a DID needs no look-up where the handle was given.
    """
    if offline := why_offline(fetcher, plc_url):
        remedy = f"{CONNECT}, or give the DID." if did_suffices else f"{CONNECT}."
        return f"{offline}, so {handle} was not looked up. {remedy}"
    if problem.retry:
        return f"{handle} could not be looked up: {problem}. Try again in a minute, or give the account's DID."
    return f"{handle} leads to no account: {problem}. Check the spelling, or give the account's DID."


def _ask_texts(fetcher: Fetcher, handle: str) -> set[str]:
    """Return the one DID that the TXT records of a handle name; several are not believed. Raises FetchProblem."""
    records = fetcher.texts(f"_atproto.{handle}")
    return {record.removeprefix("did=").strip() for record in records if record.startswith("did=")}


def _ask_file(fetcher: Fetcher, handle: str) -> set[str]:
    """Return the DID in the well-known file, or an empty set if it holds something else. Raises FetchProblem."""
    text = fetcher.get(f"https://{handle}/.well-known/atproto-did", HANDLE_LIMIT, HANDLE_SECONDS)
    did = text.decode("ascii", "replace").strip()
    return {did} if is_did(did) else set()


def origin(address: object) -> str | None:
    """Return a service address as its https origin in lower case; None unless it is plain https to a named host."""
    if not isinstance(address, str) or len(address) > 300:
        return None
    host = address.lower().removeprefix("https://").removesuffix("/")
    return f"https://{host}" if address.lower().startswith("https://") and is_host(host) else None


def _parse_audit_log(did: str, entries: list[_Entry]) -> Identity:
    valid = [entry for entry in entries if not entry.nullified]
    if not valid:
        raise FetchProblem(f"the directory knows no valid operation of {did}", status=404)
    created_at, changes = parse_time(valid[0].createdAt), _list_changes(entries)
    newest = valid[-1].operation
    if newest.type == "plc_tombstone":
        return Identity(did, None, None, created_at, changes, tombstoned=True)
    return Identity(
        did,
        _claimed_handle(newest),
        origin(_claimed_pds(newest)),
        created_at,
        changes,
        signing_key=_claimed_keys(newest)[1],
        links=_read_links(newest.alsoKnownAs),
    )


def _list_changes(entries: Sequence[_Entry]) -> tuple[Change, ...]:
    """Return what each valid operation changed compared with the one before; skip one without a readable time."""
    by_kind: dict[str, list[Change]] = {}
    previous: _Operation | None = None
    is_fork = False  # True if the directory reversed operations since `before`
    for entry in entries:
        is_fork |= entry.nullified and previous is not None
        if entry.nullified:
            continue
        at, operation = parse_time(entry.createdAt), entry.operation
        recovered, is_fork = ["recoveries"] if is_fork else [], False
        for kind in (*recovered, *_compare_operations(previous, operation)) if at else ():
            listed = by_kind.setdefault(kind, [])
            listed.append(Change(kind, listed[-1].number + 1 if listed else 1, at or datetime.min))
        previous = operation
    return tuple(change for listed in by_kind.values() for change in listed[-CHANGES:])


def _compare_operations(previous: _Operation | None, operation: _Operation) -> list[str]:
    if operation.type == "plc_tombstone":
        return ["tombstoned"]
    if previous is None:
        return ["created_at"]
    if previous.type == "plc_tombstone":  # reversed within the 72 hours that the directory allows
        return ["recoveries"]
    readers = {"handle_changes": _claimed_handle, "pds_moves": _claimed_pds, "key_rotations": _claimed_keys}
    return [kind for kind, read in readers.items() if read(previous) != read(operation)]


def _claimed_handle(operation: _Operation) -> str | None:
    return _first_handle([f"at://{operation.handle}"] if operation.type == "create" else operation.alsoKnownAs)


def _claimed_pds(operation: _Operation) -> str | None:
    endpoint = operation.services.get("atproto_pds", _Endpoint()).endpoint
    return operation.service if operation.type == "create" else endpoint.removesuffix("/")


def _claimed_keys(operation: _Operation) -> tuple[list[str], str | None]:
    """Return the keys that may change the account, and the key that signs its records."""
    if operation.type == "create":
        return [key for key in (operation.recoveryKey, operation.signingKey) if key], operation.signingKey
    return operation.rotationKeys, operation.verificationMethods.get("atproto")


def _document_key(document: _Document) -> str | None:
    """Return the key that a DID document names for the account's records, or None if there is no readable one."""
    methods = document.verificationMethod if isinstance(document.verificationMethod, list) else []
    for method in methods:
        if isinstance(method, dict) and method.get("id") in ("#atproto", f"{document.id}#atproto"):
            key = method.get("publicKeyMultibase")
            return key if isinstance(key, str) else None
    return None


def _first_handle(names: list[str]) -> str | None:
    """Return the first at:// name, if it can be a handle."""
    first = next((name.removeprefix("at://").lower() for name in names if name.startswith("at://")), "")
    return first if is_handle(first) else None


def _read_links(names: list[str]) -> tuple[str, ...]:
    """Return the first https addresses among the names of a document."""
    links = (name for name in names if len(name) <= LINK_LENGTH and is_fetchable(name))
    return tuple(dict.fromkeys(links))[:LINKS]
