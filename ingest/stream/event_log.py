"""Appending to the event log: which of the arriving events are new, which came late, and their rows as columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.atproto.syntax import IS_TID, ordered
from ingest.store.archive import LAST, all_events
from ingest.store.contributors import EVENT_ID, Hour
from ingest.store.long_texts import shorten
from ingest.store.transaction import Transaction
from ingest.stream.batch import Events

INSERT = f"""
insert into events by name select {EVENT_ID} as event_id, event_seq, ?::varchar as source, kind, did,
  nullif(collection, '') as collection, nullif(rkey, '') as rkey, nullif(operation, '') as operation,
  rev, cid, seen_at, late, nullif(body, '') as body, ?::timestamp as loaded_clock
from incoming
"""
REPEATED = f"""
select place from (select place, {EVENT_ID} as event_id from incoming where place in (select unnest(?)))
semi join (select event_id from {{events}} where {{which}}) using (event_id)
"""
# A listing says how a record stands: nothing new where its newest event in the log left it so.
LISTED = """
select place from (
  select a.place, any_value(a.operation) as operation, any_value(a.cid) as cid,
    arg_max(struct_pack(operation := e.operation, cid := e.cid), row(e.tid, e.event_seq)) as newest,
    bool_or(e.operation = a.operation and e.rev = a.rev) as repeated
  from incoming a join (select *, case when {is_tid} then rev else '' end as tid from {events}) e
    on e.did = a.did and e.collection = a.collection and e.rkey = a.rkey
  where a.place in (select unnest(?)) group by a.place
) where repeated or case when operation = 'delete' then newest.operation = 'delete'
  else newest.operation <> 'delete' and newest.cid = cid end
"""


@dataclass(frozen=True, slots=True)
class Arriving:
    """Events that are to be logged, in order; `listed` where a listing showed them and no stream brought them."""

    source: str
    events: Events
    listed: bool = False


@dataclass(frozen=True, slots=True)
class Appended:
    """The number of new events, and of the accounts whose hours were full so that some of theirs were left out."""

    events: int
    full: frozenset[Hour] = frozenset()


@dataclass(slots=True)
class _Order:
    """The order of arriving events against the revs that were logged before them."""

    ranks: Sequence[str | None]  # the rev where it tells an order
    doubtful: list[int]  # places of events that may be in the log already
    late: np.ndarray
    newest: dict[str, str]  # DID to its highest rev, where that rose


def append_events(
    txn: Transaction,
    arriving: Arriving,
    first_seen: Mapping[str, datetime],
) -> Appended:
    """Append the events that are not in the log, with the people they make known.

    Long texts are written beside the store before this returns. What goes beyond an account's bytes an hour is left
    out (ingest/store/contributors.py).
    """
    events = _not_yet_so(txn, arriving.events) if arriving.listed else arriving.events
    sizes = events.sizes()
    # The id of an event that is no commit follows from its text as the log has it.
    table, texts = shorten(events.table, pc.call_function("invert", [_are_commits(events.table)]))
    events = Events(table)
    order = _put_in_order(txn, events)
    columns = events.numbered().append_column("late", pa.array(order.late))
    known = _known(txn, events, order, columns) if order.doubtful else set()
    fresh = np.delete(np.arange(len(columns)), list(known))
    dids, times_us = events.dids, events.times_us
    refused = txn.intake.refused(fresh.tolist(), dids, times_us, sizes)
    fresh = np.delete(fresh, np.flatnonzero(np.isin(fresh, list(refused))))
    if len(fresh) < len(columns):
        columns = columns.take(pa.array(fresh))
    columns, more = shorten(columns, _are_commits(columns))
    txn.long_texts.write(texts | more)
    txn.register_people({did: seen_at for did, seen_at in first_seen.items() if not txn.arrivals.is_seen(did)})
    last = txn.value(LAST)
    columns = columns.append_column("event_seq", pa.array(np.arange(last + 1, last + 1 + len(columns))))
    txn.arrivals.note_revisions(order.newest)
    with txn.registered(columns):
        txn.execute(INSERT, [arriving.source, txn.wall()])
    return Appended(len(columns), frozenset(refused.values()))


def _are_commits(table: pa.Table) -> pa.ChunkedArray:
    return pc.call_function("equal", [table["kind"], pa.scalar("commit")])


def _put_in_order(txn: Transaction, events: Events) -> _Order:
    # The table of contributors keeps the newest rev of its people only.
    collections = set(events.collections)
    ours, revs = {name for name in collections if txn.registry.is_ours(name)}, events.revs
    if ours != collections:
        revs = [rev if name in ours else None for rev, name in zip(revs, events.collections, strict=True)]
    order = _Order(ordered(revs), [], np.zeros(len(events), bool), {})
    rise, before_batch = order.newest, txn.arrivals.newest_revs()
    for place, (did, rank) in enumerate(zip(events.dids, order.ranks, strict=True)):
        before = rise.get(did) or before_batch.get(did, "")
        if rank is not None and rank > before:
            rise[did] = rank
        else:
            order.doubtful.append(place)
            order.late[place] = rank is not None and rank < before
    return order


def _known(txn: Transaction, events: Events, order: _Order, columns: pa.Table) -> set[int]:
    """Of the doubtful events the places of those that are in the log, or came before within the batch."""
    known, asked = _repeated_within(events, order.doubtful)
    ranked = [rank for place in asked if (rank := order.ranks[place]) is not None]
    unranked = [place for place in asked if order.ranks[place] is None]
    with txn.registered(columns):
        if ranked:
            span = [min(ranked), max(ranked)]
            log = all_events(txn, "low_rev <= ? and high_rev >= ?", span[::-1])
            places = [place for place in asked if order.ranks[place] is not None]
            known |= _places(txn, REPEATED.format(events=log, which="rev between ? and ?"), [places, *span])
        if unranked:
            sql = REPEATED.format(events=all_events(txn, "unordered > 0"), which="true")
            known |= _places(txn, sql, [unranked])
    return known


def _repeated_within(events: Events, doubtful: Sequence[int]) -> tuple[set[int], list[int]]:
    """The doubtful places that repeat an earlier one of the batch, and the others."""
    dids, unsure = {events.dids[place] for place in doubtful}, set(doubtful)
    kinds = events.table["kind"].to_pylist()
    keys = zip(events.dids, events.collections, events.rkeys, events.operations, events.revs, events.cids, strict=True)
    seen, repeated, asked = set(), set[int](), []
    for place, (did, collection, rkey, operation, rev, cid) in enumerate(keys):
        if did in dids:
            key = (did, collection, rkey, operation, rev or cid or kinds[place])
            key = key if collection else (*key, events.body(place))
            if key in seen:
                repeated.add(place)
            elif place in unsure:
                asked.append(place)
            seen.add(key)
    return repeated, asked


def _not_yet_so(txn: Transaction, events: Events) -> Events:
    """The listed records of which the log does not say already what the listing says."""
    with txn.registered(events.numbered()):
        sql = LISTED.format(events=all_events(txn), is_tid=IS_TID)
        return events.without(_places(txn, sql, [list(range(len(events)))]))


def _places(txn: Transaction, sql: str, params: Sequence[object]) -> set[int]:
    return {row["place"] for row in txn.rows(sql, params)}
