"""Decide the order of events on a record that arrive out of order: the last writer by rev wins.

Events that arrive in order (nearly all) need no look at the past. A late one, which the stream reordered, a listing
showed or a dead letter gave back, is compared with the logged events of its record: the highest rev wins; with equal
revs the later number. So a live delete beats an older listed create, and a listed newer version beats an older live
one. A listing's rev is the whole repository's at that time: an upper bound of the record's own.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from ingest.atproto.syntax import IS_TID, PATTERN
from ingest.records.fields import Event
from ingest.store.archive import all_events
from ingest.store.transaction import Transaction

Key = tuple[str, str | None, str | None]  # did, collection, rkey
Version = tuple[str, int]  # rev and number in the log

# Unreadable events wrote nothing. A rev must be a TID; other events are ordered by number alone.
LOGGED = f"""
with wanted as (select unnest($dids) as did, unnest($collections) as collection, unnest($rkeys) as rkey),
logged as (
  select did, collection, rkey, operation <> 'delete' as is_put, cid, seen_at, source <> 'backfill' as witnessed,
    {{'rev': case when {IS_TID} then rev else '' end, 'seq': event_seq}} as version
  from {{events}} semi join wanted using (did, collection, rkey)
  where kind = 'commit' and event_seq <= (select position_seq from hops where name = 'derive')
    and event_seq not in (select event_seq from dead_letters where event_seq is not null union all from unread_events)
)
select did, collection, rkey,
  max(version) as newest, arg_max(is_put, version) as stands, arg_max(seen_at, version) as newest_at,
  max(version) filter (where is_put) as put, arg_max(cid, version) filter (where is_put) as cid,
  max(version) filter (where is_put and witnessed) as witnessed,
  min(seen_at) filter (where is_put and witnessed) as first_witness,
  min(version.rev) filter (where is_put and not witnessed) as first_listed
from logged group by all
"""


class Place(NamedTuple):
    """The effect of an event on the tables.

    `counts`: a put is the newest version or its first sight by the stream; a delete is the last event. `gone`: the time
    of a newer delete. `first`: it was seen before all known events. `witness`: the stream's sight of a version that a
    listing showed. `known`: a listing of the present version.
    """

    late: bool = False
    counts: bool = True
    gone: datetime | None = None
    first: bool = False
    witness: bool = False
    known: bool = False


IN_TURN = Place()


@dataclass(slots=True)
class Past:
    newest: Version
    newest_at: datetime
    stands: bool
    put: Version | None = None
    cid: str | None = None
    witnessed: Version | None = None  # the newest put that the stream brought
    first_witness: datetime | None = None
    first_listed: str | None = None  # lowest rev of a listing

    def take(self, event: Event, version: Version) -> None:
        if version >= self.newest:
            self.newest, self.newest_at, self.stands = version, event.seen_at, event.is_put
        if not event.is_put:
            return
        if self.put is None or version >= self.put:
            self.put, self.cid = version, event.cid
        if event.witnessed:
            self.witnessed = max(self.witnessed or version, version)
            self.first_witness = min(self.first_witness or event.seen_at, event.seen_at)
        else:
            self.first_listed = min(self.first_listed or version[0], version[0])


class Order:
    """The place of each event of a batch; reads the log once, and only if some event is late."""

    def __init__(self, txn: Transaction, events: Iterable[Event]) -> None:
        keys = dict.fromkeys(_record_key(event) for event in events if event.late and event.kind == "commit")
        self._read_past: dict[Key, Past | None] = dict.fromkeys(keys)
        if keys:
            dids, collections, rkeys = zip(*keys, strict=True)
            params = {"dids": list(dids), "collections": list(collections), "rkeys": list(rkeys)}
            for row in txn.rows(LOGGED.replace("{events}", all_events(txn)), params):
                self._read_past[row["did"], row["collection"], row["rkey"]] = _read_past(row)

    def place(self, event: Event) -> Place:
        """Return the place of an event among those before it; call it once for each event, in order of number."""
        key = _record_key(event)
        if key not in self._read_past:
            return IN_TURN
        past, version = self._read_past[key], _event_version(event)
        place = _compare(event, version, past) if event.late and past else IN_TURN
        if past is None:
            past = self._read_past[key] = Past(version, event.seen_at, event.is_put)
        past.take(event, version)
        return place._replace(late=event.late)


def _compare(event: Event, version: Version, past: Past) -> Place:
    is_last = version >= past.newest
    if not event.is_put:
        return Place(counts=is_last)
    is_same_version = event.cid == past.cid and past.put is not None
    if not event.witnessed and is_same_version and (past.stands or not is_last):
        return Place(counts=False, known=True)
    newest = past.put is None or version >= past.put
    witness = (
        not newest and event.witnessed and is_same_version and (past.witnessed is None or version > past.witnessed)
    )
    deleted_at = None if is_last or past.stands else past.newest_at
    return Place(counts=newest or witness, gone=deleted_at, first=_is_first(event, version, past), witness=witness)


def _is_first(event: Event, version: Version, past: Past) -> bool:
    """Tell if the stream saw this before all known events. A listing's time is a claim, so it displaces nothing."""
    if not event.witnessed or (past.first_listed is not None and past.first_listed < version[0]):
        return False
    return past.first_witness is None or event.seen_at < past.first_witness


def _record_key(event: Event) -> Key:
    return event.did, event.collection, event.rkey


def _event_version(event: Event) -> Version:
    return (event.rev if event.rev and PATTERN.fullmatch(event.rev) else "", event.seq)


def _read_past(row: Mapping[str, Any]) -> Past:
    newest = row["newest"]
    return Past(
        newest=(newest["rev"], newest["seq"]),
        newest_at=row["newest_at"],
        stands=row["stands"],
        put=_read_version(row["put"]),
        cid=row["cid"],
        witnessed=_read_version(row["witnessed"]),
        first_witness=row["first_witness"],
        first_listed=row["first_listed"],
    )


def _read_version(version: Mapping[str, Any] | None) -> Version | None:
    return (version["rev"], version["seq"]) if version else None
