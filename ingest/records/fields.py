"""Take values out of records that anybody wrote: every text is cut, every list bounded, every name checked.

A column is a function from a record to a value for a table; the registry's entries consist of them. A required column
raises Unreadable with the reason; every other is None or empty if a record lacks the value or has a wrong one.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from ingest.atproto.syntax import tid_time
from ingest.clock import parse_time
from ingest.store.long_texts import COLUMN_BYTES, fitting

DID = re.compile(r"did:[a-z]{1,32}:[A-Za-z0-9._:%-]{1,2000}")
AT_URI = re.compile(r"at://(did:[a-z]{1,32}:[A-Za-z0-9._:%-]{1,2000})/([A-Za-z0-9.-]{1,317})/([A-Za-z0-9._:~-]{1,512})")
CID = re.compile(r"[A-Za-z0-9]{8,128}")


class Unreadable(Exception):
    """The record has nothing usable; the message is the reason."""


class Event(msgspec.Struct, frozen=True):
    """One row of the event log.

    `late`: the stream did not bring it in order, so `rev` decides if it still counts (ingest/records/order.py).
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
        return f"at://{self.did}/{self.collection}/{self.rkey}"

    @property
    def is_put(self) -> bool:
        return self.kind == "commit" and self.operation != "delete"

    @property
    def witnessed(self) -> bool:
        """Return True if the stream saw it happen; a listing shows only that it exists."""
        return self.source != "backfill"


def decode(body: str | None, what: str) -> Mapping[str, Any]:
    """Decode JSON text to an object. Raises Unreadable with `what` as its name: 'a record', 'an account event'."""
    try:
        parsed = msgspec.json.decode(body or "null")
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise Unreadable(f"{what} that is not JSON: {str(error)[:100]}") from error
    if not isinstance(parsed, dict):
        raise Unreadable(f"{what} that is not an object")
    return parsed


def text(record: Mapping[str, Any], key: str, limit: int) -> str | None:
    """Return a text field cut at `limit` characters and at COLUMN_BYTES, or None if it is missing or not text."""
    value = record.get(key)
    if not isinstance(value, str):
        return None
    value = value[:limit]
    if len(value) * 4 <= COLUMN_BYTES:  # no character takes more than 4 bytes
        return value
    return value.encode(errors="replace")[:COLUMN_BYTES].decode(errors="ignore")


def mapping(record: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return a nested object; empty if it is missing, null or not an object."""
    value = record.get(key)
    return value if isinstance(value, dict) else {}


def items(record: Mapping[str, Any], key: str) -> list[Any]:
    """Return a list field; empty if it is missing, null or not a list."""
    value = record.get(key)
    return value if isinstance(value, list) else []


def moment(record: Mapping[str, Any], key: str) -> datetime | None:
    """Return a self-declared time as naive UTC, or None if it cannot be read."""
    return parse_time(text(record, key, 64) or "")


def identifier(pattern: re.Pattern[str], value: object) -> str | None:
    """Return the value if it is a text of exactly this form, else None; the longest is an at-uri (2,900 characters)."""
    return value if isinstance(value, str) and len(value) <= 3000 and pattern.fullmatch(value) else None


def did_or_uri(value: object) -> str | None:
    """Return a DID or an at-uri, the two ways in which records name a repository."""
    return identifier(DID, value) or identifier(AT_URI, value)


def json_text(value: object) -> str:
    """Return a bounded value as JSON for a column. Raises Unreadable if it takes more than COLUMN_BYTES."""
    data = msgspec.json.encode(value)
    if len(data) > COLUMN_BYTES:
        raise Unreadable("a record whose lists and texts are too long")
    return data.decode()


def written_at(event: Event, created_at: datetime | None) -> datetime:
    """Return the claimed time of writing: the TID of the record key, else createdAt, never later than it was seen."""
    claimed = tid_time(event.rkey or "") or created_at or event.seen_at
    return min(claimed, event.seen_at)


def last_word(name: str) -> str:
    """Return the last segment of a dotted name, cut at 32 characters: states have such names."""
    return name.rsplit(".", 1)[-1][:32]


def is_back_written(event: Event, subject_uri: str) -> bool:
    """Tell if the forge's migration wrote it later, under the key of its subject, so that its time is invalid."""
    return event.rkey == subject_uri.rsplit("/", 1)[-1]


Column = Callable[[Mapping[str, Any], Event], Any]

HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,253}[A-Za-z0-9])?(:[0-9]{1,5})?")
HANDLE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)+")
WEB_LINK = re.compile(r"https://[^\s/?#@\\]{1,255}([/?#][^\s\\]{0,1500})?")
MOST_ROUNDS = 1_000_000


@dataclass(frozen=True, slots=True)
class SmallRecord:
    """A record of one of the smaller kinds: its own columns, and its claimed time of writing."""

    values: Mapping[str, Any]
    created_at: datetime | None


def reader(dated: tuple[str, ...], columns: Mapping[str, Column]) -> Callable[[Mapping[str, Any], Event], SmallRecord]:
    """Return a reader that reads a record column by column; the first readable field in `dated` gives its own time."""
    pairs = tuple(columns.items())

    def read(record: Mapping[str, Any], event: Event) -> SmallRecord:
        created = next((created_at for name in dated if (created_at := moment(record, name))), None)
        return SmallRecord({name: column(record, event) for name, column in pairs}, created)

    return read


def needed(column: Column, reason: str) -> Column:
    """Return a required column: without it the record leads to no row."""

    def read(record: Mapping[str, Any], event: Event) -> object:
        value = column(record, event)
        if value is None or value == "":
            raise Unreadable(reason)
        return value

    return read


def first(*columns: Column) -> Column:
    """Return the first of these columns that has a value."""
    return lambda record, event: next(
        (value for column in columns if (value := column(record, event)) is not None), None
    )


def inside(name: str, column: Column) -> Column:
    """Return a column of a nested object."""
    return lambda record, event: column(mapping(record, name), event)


def always(value: object) -> Column:
    return lambda record, event: value


def words(name: str, limit: int, otherwise: str | None = None) -> Column:
    """Return a column with a cut text."""

    def read(record: Mapping[str, Any], event: Event) -> str | None:
        value = text(record, name, limit)
        return otherwise if value is None else value

    return read


def matching(name: str, pattern: re.Pattern[str]) -> Column:
    return lambda record, event: identifier(pattern, record.get(name))


def whole(name: str, limit: int) -> Column:
    """Return a column with a text that is useless once cut: None if it is longer."""

    def read(record: Mapping[str, Any], event: Event) -> str | None:
        value = record.get(name)
        return value if isinstance(value, str) and len(value.encode(errors="replace")) <= limit else None

    return read


def did(name: str) -> Column:
    return matching(name, DID)


def uri(name: str) -> Column:
    """Return a column with an at-uri, bare or in a strongRef."""

    def read(record: Mapping[str, Any], event: Event) -> str | None:
        value = record.get(name)
        return identifier(AT_URI, value.get("uri") if isinstance(value, dict) else value)

    return read


def named_repository(*names: str) -> Column:
    return lambda record, event: next(
        (repository for name in names if (repository := did_or_uri(record.get(name)))), None
    )


def number(name: str) -> Column:
    """Return a column with an integer from 0; a boolean does not count."""

    def read(record: Mapping[str, Any], event: Event) -> int | None:
        value = record.get(name)
        return value if type(value) is int and 0 <= value <= MOST_ROUNDS else None

    return read


def flag(name: str) -> Column:
    return lambda record, event: record.get(name) is True


def state(name: str) -> Column:
    """Return a column with the last word of a state's dotted name; an unknown word stays."""

    def read(record: Mapping[str, Any], event: Event) -> str | None:
        value = text(record, name, 200)
        return last_word(value) if value else None

    return read


def back_written(name: str) -> Column:
    """Return a column: True if a state was written long after its event."""
    return lambda record, event: is_back_written(event, text(record, name, 3000) or "")


def withdrawn(name: str) -> Column:
    """Return a column: 'retracted' if a record has this field, whatever is in it."""
    return lambda record, event: "retracted" if record.get(name) is not None else None


def key_matching(pattern: re.Pattern[str]) -> Column:
    """Return a column with the record key if it has this form."""
    return lambda record, event: identifier(pattern, event.rkey)


def author(record: Mapping[str, Any], event: Event) -> str:
    return event.did


def listed(name: str, most: int, pattern: re.Pattern[str]) -> Column:
    """Return a column with the first `most` items of a list that have this form, as JSON."""
    return lambda record, event: json_text(
        fitting(item for item in items(record, name)[:most] if identifier(pattern, item) is not None)
    )


def pairs(name: str, most: int) -> Column:
    """Return a column with a list of {key, value} texts, as JSON; other items are left out."""

    def read(record: Mapping[str, Any], event: Event) -> str:
        maps = [item for item in items(record, name)[:most] if isinstance(item, dict)]
        key_values = [(text(item, "key", 3000), text(item, "value", 1000)) for item in maps]
        return json_text(fitting({"key": key, "value": value or ""} for key, value in key_values if key))

    return read


def value_type(record: Mapping[str, Any], event: Event) -> str:
    """Return the values that a label may take, as JSON."""
    definition = mapping(record, "valueType")
    enum = fitting(word[:200] for word in items(definition, "enum")[:100] if isinstance(word, str))
    return json_text({"type": text(definition, "type", 40), "format": text(definition, "format", 40), "enum": enum})


def markdown(record: Mapping[str, Any], event: Event) -> str:
    """Return the text of a comment: a plain text in the older kinds, an object with `text` in today's."""
    limit = 20_000
    return text(record, "body", limit) or text(mapping(record, "body"), "text", limit) or ""
