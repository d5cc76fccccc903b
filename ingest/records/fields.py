"""Taking single values out of records that anybody wrote: every text is cut, every list bounded, every name checked."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from ingest.atproto.syntax import tid_time
from ingest.clock import parse_time
from ingest.store.long_texts import COLUMN_BYTES

DID = re.compile(r"did:[a-z]{1,32}:[A-Za-z0-9._:%-]{1,2000}")
AT_URI = re.compile(r"at://(did:[a-z]{1,32}:[A-Za-z0-9._:%-]{1,2000})/([A-Za-z0-9.-]{1,317})/([A-Za-z0-9._:~-]{1,512})")
CID = re.compile(r"[A-Za-z0-9]{8,128}")


class Unreadable(Exception):
    """A record that says nothing we can use; the message is the reason."""


class Event(msgspec.Struct, frozen=True):
    """One row of the event log.

    `late`: the stream did not bring it in its turn, so that `rev` decides whether it still counts
    (ingest/records/order.py).
    """

    seq: int
    event_id: str
    source: str
    kind: str
    did: str
    collection: str | None
    rkey: str | None
    operation: str | None
    rev: str | None
    cid: str | None
    seen_at: datetime
    late: bool
    body: str | None

    @property
    def uri(self) -> str:
        """The record's at-uri."""
        return f"at://{self.did}/{self.collection}/{self.rkey}"

    @property
    def is_put(self) -> bool:
        """Return whether it writes a record."""
        return self.kind == "commit" and self.operation != "delete"

    @property
    def witnessed(self) -> bool:
        """Return whether the stream saw it happen; a listing tells only that it is there."""
        return self.source != "backfill"


def decode(body: str | None, what: str) -> Mapping[str, Any]:
    """An object out of JSON text; Unreadable where it is none. `what` names it: 'a record', 'an account event'."""
    try:
        found = msgspec.json.decode(body or "null")
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise Unreadable(f"{what} that is not JSON: {str(error)[:100]}") from error
    if not isinstance(found, dict):
        raise Unreadable(f"{what} that is not an object")
    return found


def text(record: Mapping[str, Any], key: str, limit: int) -> str | None:
    """A text field cut at `limit` characters and at COLUMN_BYTES; None where it is missing or no text."""
    value = record.get(key)
    if not isinstance(value, str):
        return None
    value = value[:limit]
    if len(value) * 4 <= COLUMN_BYTES:  # no character takes more
        return value
    return value.encode(errors="replace")[:COLUMN_BYTES].decode(errors="ignore")


def mapping(record: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """A nested object, empty where it is missing, null or something else."""
    value = record.get(key)
    return value if isinstance(value, dict) else {}


def items(record: Mapping[str, Any], key: str) -> list[Any]:
    """A list field, empty where it is missing, null or something else."""
    value = record.get(key)
    return value if isinstance(value, list) else []


def moment(record: Mapping[str, Any], key: str) -> datetime | None:
    """A self-declared time as naive UTC; None where it cannot be read."""
    return parse_time(text(record, key, 64) or "")


def identifier(pattern: re.Pattern[str], value: object) -> str | None:
    """The value where it is a text of exactly this form, else None; the longest, an at-uri, has 2,900 characters."""
    return value if isinstance(value, str) and len(value) <= 3000 and pattern.fullmatch(value) else None


def did_or_uri(value: object) -> str | None:
    """A DID or an at-uri, the two ways in which records name a repository."""
    return identifier(DID, value) or identifier(AT_URI, value)


def json_text(value: object) -> str:
    """A bounded value as the JSON that a column keeps; Unreadable where it takes more than COLUMN_BYTES."""
    data = msgspec.json.encode(value)
    if len(data) > COLUMN_BYTES:
        raise Unreadable("a record whose lists and texts are too long")
    return data.decode()


def written_at(event: Event, created_at: datetime | None) -> datetime:
    """Return when a record says it was written: its TID, else its own createdAt, never later than it was seen."""
    told = tid_time(event.rkey or "") or created_at or event.seen_at
    return min(told, event.seen_at)
