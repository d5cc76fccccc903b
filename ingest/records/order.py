"""The order of words on a record, where they arrive out of it: the last writer by rev wins.

Events that arrive in their turn (nearly all) need no look at the past. A late one, which the stream reordered, a
listing told or a dead letter gave back, is held against what was logged of the same record: the highest rev wins, of
two with the same rev the later number. So a live delete beats an older listed create, and a listed newer version
beats an older live one. A listing's rev is the whole repository's at that moment: an upper bound of the record's own.
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

# Events that could not be understood wrote nothing. What is no TID is no rev, and orders by number alone.
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

    `counts`: a put is the newest version, or the stream's own sight of it; a delete is the last word. `gone`: a newer
    delete stands, since then. `first`: it was seen before whatever is known. `witness`: the stream's sight of the
    version that a listing told. `known`: a listing of what stands already.
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
    """The place of each event of a batch; asks the log once, and only where some event is late."""

    def __init__(self, txn: Transaction, events: Iterable[Event]) -> None:
        keys = dict.fromkeys(_key(event) for event in events if event.late and event.kind == "commit")
        self._past: dict[Key, Past | None] = dict.fromkeys(keys)
        if keys:
            dids, collections, rkeys = zip(*keys, strict=True)
            params = {"dids": list(dids), "collections": list(collections), "rkeys": list(rkeys)}
            for row in txn.rows(LOGGED.replace("{events}", all_events(txn)), params):
                self._past[row["did"], row["collection"], row["rkey"]] = _past(row)

    def place(self, event: Event) -> Place:
        """Return its place among those before it; to be asked for once each, in order of number."""
        key = _key(event)
        if key not in self._past:
            return IN_TURN
        past, version = self._past[key], _version(event)
        place = _place(event, version, past) if event.late and past else IN_TURN
        if past is None:
            past = self._past[key] = Past(version, event.seen_at, event.is_put)
        past.take(event, version)
        return place._replace(late=event.late)


def _place(event: Event, version: Version, past: Past) -> Place:
    last = version >= past.newest
    if not event.is_put:
        return Place(counts=last)
    same = event.cid == past.cid and past.put is not None
    if not event.witnessed and same and (past.stands or not last):
        return Place(counts=False, known=True)
    newest = past.put is None or version >= past.put
    witness = not newest and event.witnessed and same and (past.witnessed is None or version > past.witnessed)
    gone = None if last or past.stands else past.newest_at
    return Place(counts=newest or witness, gone=gone, first=_is_first(event, version, past), witness=witness)


def _is_first(event: Event, version: Version, past: Past) -> bool:
    """Tell if the stream saw this before all that is known. A listing, whose time is a claim, displaces nothing."""
    if not event.witnessed or (past.first_listed is not None and past.first_listed < version[0]):
        return False
    return past.first_witness is None or event.seen_at < past.first_witness


def _key(event: Event) -> Key:
    return event.did, event.collection, event.rkey


def _version(event: Event) -> Version:
    return (event.rev if event.rev and PATTERN.fullmatch(event.rev) else "", event.seq)


def _past(row: Mapping[str, Any]) -> Past:
    newest = row["newest"]
    return Past(
        newest=(newest["rev"], newest["seq"]),
        newest_at=row["newest_at"],
        stands=row["stands"],
        put=_told(row["put"]),
        cid=row["cid"],
        witnessed=_told(row["witnessed"]),
        first_witness=row["first_witness"],
        first_listed=row["first_listed"],
    )


def _told(version: Mapping[str, Any] | None) -> Version | None:
    return (version["rev"], version["seq"]) if version else None
