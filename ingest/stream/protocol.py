"""The two ways to ask a Jetstream, chosen by the path of its address, and what a v2 frame says in the words of v1.

v1: `/subscribe`. v2: lexicon network.bsky.jetstream.subscribeEvents; its cursor is the server's
own number of an event, inclusive, and means nothing to another server; from 10^15 on it is a time as in v1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode, urlsplit

import msgspec
from websockets.sync.client import reconnect

from ingest.clock import read_moment, to_microseconds
from ingest.store.database import Store
from ingest.stream.frames import NO_BYTES, Commit, Frame, encode

V2_PATH = "/xrpc/network.bsky.jetstream.subscribeEvents"
KINDS = ("commit", "identity", "account")
LARGEST_SEQ = 10**15 - 1  # above it a number is a time


class _Payload(msgspec.Struct):
    type: str = msgspec.field(name="$type")
    seq: int = 0
    did: str = ""
    time: str = ""
    rev: str | None = None
    operation: str = ""
    collection: str = ""
    rkey: str = ""
    cid: str | None = None
    record: msgspec.Raw = NO_BYTES
    identity: msgspec.Raw = NO_BYTES
    account: msgspec.Raw = NO_BYTES
    name: str = ""
    message: str = ""


class _Message(msgspec.Struct):
    type: str = msgspec.field(name="$type")
    payload: _Payload | None = None
    error: str = ""
    message: str = ""


@dataclass(slots=True)
class Told:
    """The content of a server's frames: v1 frames, the newest of its numbers, and what it says about itself."""

    frames: list[bytes | str]
    seq: int | None = None
    began_late: bool = False  # it keeps less than what it was asked for
    error: str | None = None  # why it ends the stream


_decoder = msgspec.json.Decoder(_Message)


class StraightAndWaiting(reconnect):
    """As `ingest.stream.socket_process.Straight`, without asyncio."""

    def process_redirect(self, exc: Exception) -> Exception:
        return exc


def is_v2(url: str) -> bool:
    """Return whether the address is that of a v2 server."""
    return urlsplit(url).path == V2_PATH


def address(url: str, collections: Sequence[str], cursor: int | None) -> str:
    """The address with a subscription: these collections, account events, from `cursor` or from now on."""
    query = [("collections" if is_v2(url) else "wantedCollections", name) for name in collections]
    query += [("kinds", kind) for kind in KINDS] if is_v2(url) else []
    query += [("cursor", str(cursor))] if cursor is not None else []
    return f"{url}?{urlencode(query)}"


def read_v2(frames: Sequence[bytes | str]) -> Told:
    """v2 frames as v1 frames; what is neither event nor notice stays as it is, which makes it a dead letter."""
    told = Told([])
    for raw in frames:
        try:
            message = _decoder.decode(raw)
            if message.type == "error":
                told.error = f"{message.error}: {message.message}"[:300]
            elif message.payload is not None:
                _read_payload(told, message.payload)
            else:
                told.frames.append(raw)
        except (msgspec.MsgspecError, ValueError, RecursionError, OverflowError):
            told.frames.append(raw)
    return told


def _read_payload(told: Told, payload: _Payload) -> None:
    kind = payload.type.rpartition("#")[2]
    if kind == "info":
        told.began_late = told.began_late or payload.name == "OutdatedCursor"
        return
    if kind in KINDS:
        told.frames.append(_frame(kind, payload))
    if 0 < payload.seq <= LARGEST_SEQ:
        told.seq = max(told.seq or 0, payload.seq)


def _frame(kind: str, payload: _Payload) -> bytes:
    """The v1 frame that says the same. Raises ValueError or OverflowError where its time is not one of RFC 3339."""
    if datetime.fromisoformat(payload.time).utcoffset() is None:
        raise ValueError("a time without its offset")
    time_us = to_microseconds(read_moment(payload.time))
    if kind != "commit":
        return encode(Frame(payload.did, time_us, kind, identity=payload.identity, account=payload.account))
    commit = Commit(payload.operation, payload.collection, payload.rkey, payload.rev, payload.cid, payload.record)
    return encode(Frame(payload.did, time_us, kind, commit))


def last_seq(store: Store, source: str, url: str) -> int | None:
    """The number that this server gave the newest frame handled; None where another one gave that frame."""
    with store.read() as rows:
        told = rows.row("select server_seq, server from ingest_state where source = ?", [source])
    return told["server_seq"] if told is not None and told["server"] == _server(url) else None


def is_same_server(store: Store, source: str, url: str) -> bool:
    """Return whether this server's frames have reached the place to go on at."""
    with store.read() as rows:
        return rows.value("select server from ingest_state where source = ?", [source]) == _server(url)


def keep_seq(store: Store, source: str, url: str, seq: int | None) -> None:
    """Remember a server and its number once what it stands for is stored; None from a server that gives none.

    Without an address no server is remembered.
    """
    server = _server(url) if url else None
    with store.write() as txn:
        txn.execute("update ingest_state set server_seq = ?, server = ? where source = ?", [seq, server, source])


def _server(url: str) -> str:
    return urlsplit(url).netloc[:255]
