"""Clients of the servers around a repository: its knot (git server) and its authors' personal data servers."""

import base64
import hashlib
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import msgspec

from ingest.identity import is_did
from ingest.net import Fetcher, FetchProblem, is_host

HOLDER_PAGES = 10  # of 100: a repository with over 1,000 collaborators is not believed
RECORD_PAGES = 200  # of 100: more records of one kind than anybody on Tangled has
PAGE_LIMIT = 2_000_000  # bytes

_CID = re.compile(r"b[a-z2-7]{20,120}")
_NSID = re.compile(r"[a-z][a-z0-9-]*(\.[a-z0-9-]+)*\.[A-Za-z][A-Za-z0-9]*")
_RAW_SHA256 = b"\x01\x55\x12\x20"  # CIDv1, raw bytes, SHA-256, 32 bytes long


class _Holder(msgspec.Struct):
    subject: str


class _Holders(msgspec.Struct):
    items: list[_Holder] = []
    cursor: str | None = None


class _Record(msgspec.Struct):
    uri: str
    cid: str
    value: dict[str, Any]


class _Records(msgspec.Struct):
    records: list[_Record] = []
    cursor: str | None = None


def push_holders(fetcher: Fetcher, knot: str, repo_did: str) -> list[str]:
    """DIDs that the knot lets push to a repository, without its owner. Raises FetchProblem."""
    if not is_did(repo_did):
        raise FetchProblem("the repository has no DID of its own that its knot could be asked about")
    host = _host(fetcher, knot, "knot")
    start = f"https://{host}/xrpc/sh.tangled.repo.listCollaborators?subject={quote(repo_did, safe='')}&limit=100"
    holders: dict[str, None] = {}
    address, cursors = start, {""}
    for _ in range(HOLDER_PAGES):
        page = fetcher.get_json(address, _Holders, PAGE_LIMIT)
        holders.update(dict.fromkeys(item.subject for item in page.items if is_did(item.subject)))
        if not page.cursor or page.cursor in cursors or not page.items:
            return list(holders)
        cursors.add(page.cursor)
        address = f"{start}&cursor={quote(page.cursor[:500], safe='')}"
    raise FetchProblem(f"{host} lists over {HOLDER_PAGES} pages of collaborators, which is not believed")


def blob(fetcher: Fetcher, pds: str, did: str, cid: str, limit: int) -> bytes:
    """A blob's bytes, proven to be what the CID names. Raises FetchProblem, also for a CID that proves nothing."""
    digest = raw_digest(cid)
    if digest is None or not is_did(did):
        raise FetchProblem("the blob has no CID of raw bytes by SHA-256, so that nothing would prove what it holds")
    host = _host(fetcher, pds.removeprefix("https://"), "data server")
    address = f"https://{host}/xrpc/com.atproto.sync.getBlob?did={quote(did, safe='')}&cid={cid}"
    try:
        data = fetcher.get(address, limit)
    except FetchProblem as problem:
        if problem.status == 400:  # how a data server says RepoNotFound and BlobNotFound
            raise FetchProblem(f"{host} does not have the blob", status=404) from None
        raise
    if hashlib.sha256(data).digest() != digest:
        raise FetchProblem(f"{host} sent other bytes than the CID names")
    return data


def list_records(fetcher: Fetcher, pds: str, did: str, collection: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Every record of a collection as (uri, cid, value), page by page, at most 20,000. Raises FetchProblem."""
    if not is_did(did) or not _NSID.fullmatch(collection):
        raise FetchProblem("not a DID and a collection")
    host = _host(fetcher, pds.removeprefix("https://"), "data server")
    start = (
        f"https://{host}/xrpc/com.atproto.repo.listRecords?repo={quote(did, safe='')}&collection={collection}&limit=100"
    )
    address, cursors, prefix = start, {""}, f"at://{did}/{collection}/"
    for _ in range(RECORD_PAGES):
        page = fetcher.get_json(address, _Records, 4 * PAGE_LIMIT)
        yield from ((entry.uri, entry.cid, entry.value) for entry in page.records if entry.uri.startswith(prefix))
        if not page.cursor or page.cursor in cursors or not page.records:
            return
        cursors.add(page.cursor)
        address = f"{start}&cursor={quote(page.cursor[:500], safe='')}"


def raw_digest(cid: str) -> bytes | None:
    """The SHA-256 that a CIDv1 of raw bytes names; None for any other CID."""
    if not _CID.fullmatch(cid):
        return None
    text = cid[1:].upper()
    try:
        data = base64.b32decode(text + "=" * (-len(text) % 8))
    except ValueError:
        return None
    return data[4:] if len(data) == 36 and data.startswith(_RAW_SHA256) else None


def _host(fetcher: Fetcher, name: str, kind: str) -> str:
    """A server's name in lower case; a port only where a stand-in answers."""
    host = name.lower()
    bare, _, port = host.partition(":")
    if is_host(host) or (fetcher.stand_in and port.isdecimal() and (is_host(bare) or bare == "localhost")):
        return host
    raise FetchProblem(f"the {kind} has no name that may be fetched from")
