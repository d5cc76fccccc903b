"""Takes values out of records that anybody wrote: every text is cut, every list bounded, every name checked.

A column is a function from a record to what a table keeps of it; the registry's entries are made of them. A column that
must say something raises Unreadable with the reason; every other is None or empty where a record is silent or wrong.
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
        return f"at://{self.did}/{self.collection}/{self.rkey}"

    @property
    def is_put(self) -> bool:
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


def last_word(name: str) -> str:
    """The last segment of a dotted name, cut at 32 characters: states are named so."""
    return name.rsplit(".", 1)[-1][:32]


def is_back_written(event: Event, subject_uri: str) -> bool:
    """Tell if the forge's migration wrote it long afterwards, under the key of its subject: its time is void."""
    return event.rkey == subject_uri.rsplit("/", 1)[-1]


Column = Callable[[Mapping[str, Any], Event], Any]

HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,253}[A-Za-z0-9])?(:[0-9]{1,5})?")
HANDLE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)+")
WEB_LINK = re.compile(r"https://[^\s/?#@\\]{1,255}([/?#][^\s\\]{0,1500})?")
MOST_ROUNDS = 1_000_000


@dataclass(frozen=True, slots=True)
class SmallRecord:
    """A record of one of the smaller kinds: its own columns, and when it says it was written."""

    values: Mapping[str, Any]
    created_at: datetime | None


def reader(dated: tuple[str, ...], columns: Mapping[str, Column]) -> Callable[[Mapping[str, Any], Event], SmallRecord]:
    """Reads a record column by column; `dated` are the fields that may hold its own time, the first readable one is."""
    pairs = tuple(columns.items())

    def read(record: Mapping[str, Any], event: Event) -> SmallRecord:
        created = next((told for name in dated if (told := moment(record, name))), None)
        return SmallRecord({name: column(record, event) for name, column in pairs}, created)

    return read


def needed(column: Column, reason: str) -> Column:
    """A column without which the record is no row."""

    def read(record: Mapping[str, Any], event: Event) -> object:
        value = column(record, event)
        if value is None or value == "":
            raise Unreadable(reason)
        return value

    return read


def first(*columns: Column) -> Column:
    """The first of these columns that says something."""
    return lambda record, event: next((told for column in columns if (told := column(record, event)) is not None), None)


def inside(name: str, column: Column) -> Column:
    """A column of a nested object."""
    return lambda record, event: column(mapping(record, name), event)


def always(value: object) -> Column:
    return lambda record, event: value


def words(name: str, limit: int, otherwise: str | None = None) -> Column:
    """A text, cut."""

    def read(record: Mapping[str, Any], event: Event) -> str | None:
        found = text(record, name, limit)
        return otherwise if found is None else found

    return read


def matching(name: str, pattern: re.Pattern[str]) -> Column:
    return lambda record, event: identifier(pattern, record.get(name))


def whole(name: str, limit: int) -> Column:
    """A text that means nothing once it is cut: None where it is longer."""

    def read(record: Mapping[str, Any], event: Event) -> str | None:
        value = record.get(name)
        return value if isinstance(value, str) and len(value.encode(errors="replace")) <= limit else None

    return read


def did(name: str) -> Column:
    return matching(name, DID)


def uri(name: str) -> Column:
    """An at-uri, bare or in a strongRef."""

    def read(record: Mapping[str, Any], event: Event) -> str | None:
        value = record.get(name)
        return identifier(AT_URI, value.get("uri") if isinstance(value, dict) else value)

    return read


def named_repository(*names: str) -> Column:
    return lambda record, event: next((found for name in names if (found := did_or_uri(record.get(name)))), None)


def number(name: str) -> Column:
    """An integer from 0; a truth value is none."""

    def read(record: Mapping[str, Any], event: Event) -> int | None:
        value = record.get(name)
        return value if type(value) is int and 0 <= value <= MOST_ROUNDS else None

    return read


def flag(name: str) -> Column:
    return lambda record, event: record.get(name) is True


def state(name: str) -> Column:
    """The last word of a state's dotted name; an unknown one is kept."""

    def read(record: Mapping[str, Any], event: Event) -> str | None:
        value = text(record, name, 200)
        return last_word(value) if value else None

    return read


def back_written(name: str) -> Column:
    """Return whether a state was written long after what it tells."""
    return lambda record, event: is_back_written(event, text(record, name, 3000) or "")


def key_matching(pattern: re.Pattern[str]) -> Column:
    """The record key, where it has this form."""
    return lambda record, event: identifier(pattern, event.rkey)


def author(record: Mapping[str, Any], event: Event) -> str:
    return event.did


def listed(name: str, most: int, pattern: re.Pattern[str]) -> Column:
    """The first `most` items of a list, those of this form, as JSON."""
    return lambda record, event: json_text(
        fitting(item for item in items(record, name)[:most] if identifier(pattern, item) is not None)
    )


def pairs(name: str, most: int) -> Column:
    """A list of {key, value} with texts, as JSON; what is no such pair is left out."""

    def read(record: Mapping[str, Any], event: Event) -> str:
        maps = [item for item in items(record, name)[:most] if isinstance(item, dict)]
        found = [(text(item, "key", 3000), text(item, "value", 1000)) for item in maps]
        return json_text(fitting({"key": key, "value": value or ""} for key, value in found if key))

    return read


def value_type(record: Mapping[str, Any], event: Event) -> str:
    """Return what values a label may take, as JSON."""
    told = mapping(record, "valueType")
    enum = fitting(word[:200] for word in items(told, "enum")[:100] if isinstance(word, str))
    return json_text({"type": text(told, "type", 40), "format": text(told, "format", 40), "enum": enum})


def markdown(record: Mapping[str, Any], event: Event) -> str:
    """The text of a comment: a plain text in the older kinds, an object with `text` in today's."""
    limit = 20_000
    return text(record, "body", limit) or text(mapping(record, "body"), "text", limit) or ""
