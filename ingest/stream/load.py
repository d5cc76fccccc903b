"""Load frames and listings into the event log: the rows and the cursor in one transaction, each event once.

An event is identified by (did, collection, record key, rev or cid, operation), never by its time: a stream delivers at
least once, every reconnect goes back a little, and another server gives the same event another time. Revs are TIDs that
only grow within a repository, so an event with a higher rev than any logged one of its DID is surely new; only other
events are looked up. A frame that cannot be read becomes a dead letter.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import accumulate

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.atproto.syntax import IS_TID, ordered
from ingest.clock import from_microseconds, to_microseconds
from ingest.records.dead_letters import add_letters, count_dropped, letter
from ingest.records.registry import ACCOUNT_CLAIM, VOUCH, Registry
from ingest.store.archive import LAST, all_events
from ingest.store.contributors import EVENT_ID, Hour, sentence
from ingest.store.database import Store
from ingest.store.long_texts import BYTES, shorten
from ingest.store.tombstones import Tombstones
from ingest.store.transaction import Transaction
from ingest.stream.batch import Batch, Events, events_of, read_batch
from ingest.stream.early import MOST_WAITING, MOST_WAITING_BYTES, Early
from ingest.stream.frames import LATEST_US, Commit, Frame, Unread, as_commit, check, check_account, read_frames, unread

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
# A listing shows the state of a record: it is not new if its newest event in the log left it in this state.
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
    """Events to be logged, in order; `listed` if a listing showed them and no stream brought them."""

    source: str
    events: Events
    listed: bool = False


@dataclass(frozen=True, slots=True)
class Appended:
    """The number of new events, and the accounts whose hours were full so that some of their events were left out."""

    events: int
    full: frozenset[Hour] = frozenset()


@dataclass(slots=True)
class _Order:
    """The order of arriving events against the revs that were logged before them."""

    ranks: Sequence[str | None]  # the rev if it gives an order
    doubtful: list[int]  # places of events that may be in the log already
    late: np.ndarray
    newest: dict[str, str]  # DID to its highest rev, if that rose


def append_events(
    txn: Transaction,
    arriving: Arriving,
    first_seen: Mapping[str, datetime],
) -> Appended:
    """Append the events that are not in the log, with the people they make known.

    Long texts are written beside the store before this returns. Events beyond an account's bytes an hour are left out
    (ingest/store/contributors.py).
    """
    events = _without_others_assessments(txn.registry, arriving.events)
    events = _without_strangers_claims(txn, events, first_seen, arriving.listed)
    events = _without_unchanged(txn, events) if arriving.listed else events
    sizes = events.sizes()
    # An event that is not a commit has an id made from its text in the log.
    table, texts = shorten(events.table, pc.call_function("invert", [_are_commits(events.table)]))
    events = Events(table)
    order = _put_in_order(txn, events)
    columns = events.numbered().append_column("late", pa.array(order.late))
    in_log = _find_logged(txn, events, order, columns) if order.doubtful else set()
    fresh = np.delete(np.arange(len(columns)), list(in_log))
    dids, times_us = events.dids, events.times_us
    refused = txn.intake.refused(fresh.tolist(), dids, times_us, sizes)
    fresh = np.delete(fresh, np.flatnonzero(np.isin(fresh, list(refused))))
    if len(fresh) < len(columns):
        columns = columns.take(pa.array(fresh))
    columns, commit_texts = shorten(columns, _are_commits(columns))
    txn.long_texts.write(texts | commit_texts)
    txn.register_people({did: seen_at for did, seen_at in first_seen.items() if txn.arrivals.seen_since(did) is None})
    last_seq = txn.value(LAST)
    columns = columns.append_column("event_seq", pa.array(np.arange(last_seq + 1, last_seq + 1 + len(columns))))
    txn.arrivals.note_revisions(order.newest)
    with txn.registered(columns):
        txn.execute(INSERT, [arriving.source, txn.wall()])
    return Appended(len(columns), frozenset(refused.values()))


def _without_others_assessments(registry: Registry, events: Events) -> Events:
    """Return the events without assessments by accounts that are not peers: anybody can write those, of anything."""
    if registry.assessments not in events.collections:
        return events
    named = enumerate(zip(events.dids, events.collections, strict=True))
    return events.without([place for place, names in named if not registry.is_stored(*names)])


def _without_strangers_claims(
    txn: Transaction, events: Events, first_seen: Mapping[str, datetime], listed: bool
) -> Events:
    """Return the events without claims on accounts by people who are not known here.

    On the stream an earlier record has to make them known, however it is cut into batches; a listing shows at once all
    that somebody ever wrote.
    """
    if ACCOUNT_CLAIM not in events.collections:
        return events

    def is_strangers(did: str, time_us: int) -> bool:
        since = txn.arrivals.seen_since(did) or first_seen.get(did)
        return since is None or (not listed and to_microseconds(since) > time_us)

    named = enumerate(zip(events.collections, events.dids, events.times_us, strict=True))
    return events.without([place for place, (name, *rest) in named if name == ACCOUNT_CLAIM and is_strangers(*rest)])


def _are_commits(table: pa.Table) -> pa.ChunkedArray:
    return pc.call_function("equal", [table["kind"], pa.scalar("commit")])


def _put_in_order(txn: Transaction, events: Events) -> _Order:
    # The table of contributors holds only the newest rev of its people.
    collections = set(events.collections)
    own_collections, revs = {name for name in collections if txn.registry.is_ours(name)}, events.revs
    if own_collections != collections:
        revs = [rev if name in own_collections else None for rev, name in zip(revs, events.collections, strict=True)]
    order = _Order(ordered(revs), [], np.zeros(len(events), bool), {})
    rise, before_batch = order.newest, txn.arrivals.newest_revs()
    for place, (did, rank) in enumerate(zip(events.dids, order.ranks, strict=True)):
        previous = rise.get(did) or before_batch.get(did, "")
        if rank is not None and rank > previous:
            rise[did] = rank
        else:
            order.doubtful.append(place)
            order.late[place] = rank is not None and rank < previous
    return order


def _find_logged(txn: Transaction, events: Events, order: _Order, columns: pa.Table) -> set[int]:
    """Return the places of the doubtful events that are in the log or came earlier in the batch."""
    in_log, unsure_places = _find_repeats(events, order.doubtful)
    ranked = [rank for place in unsure_places if (rank := order.ranks[place]) is not None]
    unranked = [place for place in unsure_places if order.ranks[place] is None]
    with txn.registered(columns):
        if ranked:
            span = [min(ranked), max(ranked)]
            log = all_events(txn, "low_rev <= ? and high_rev >= ?", span[::-1])
            places = [place for place in unsure_places if order.ranks[place] is not None]
            in_log |= _query_places(txn, REPEATED.format(events=log, which="rev between ? and ?"), [places, *span])
        if unranked:
            sql = REPEATED.format(events=all_events(txn, "unordered > 0"), which="true")
            in_log |= _query_places(txn, sql, [unranked])
    return in_log


def _find_repeats(events: Events, doubtful: Sequence[int]) -> tuple[set[int], list[int]]:
    """Return the doubtful places that repeat an earlier one of the batch, and the other doubtful places."""
    dids, doubtful_places = {events.dids[place] for place in doubtful}, set(doubtful)
    kinds = events.table["kind"].to_pylist()
    keys = zip(events.dids, events.collections, events.rkeys, events.operations, events.revs, events.cids, strict=True)
    seen_keys, repeated, unsure_places = set(), set[int](), []
    for place, (did, collection, rkey, operation, rev, cid) in enumerate(keys):
        if did in dids:
            key = (did, collection, rkey, operation, rev or cid or kinds[place])
            key = key if collection else (*key, events.body(place))
            if key in seen_keys:
                repeated.add(place)
            elif place in doubtful_places:
                unsure_places.append(place)
            seen_keys.add(key)
    return repeated, unsure_places


def _without_unchanged(txn: Transaction, events: Events) -> Events:
    """Return the listed records whose state in the log differs from the listing."""
    with txn.registered(events.numbered()):
        sql = LISTED.format(events=all_events(txn), is_tid=IS_TID)
        return events.without(_query_places(txn, sql, [list(range(len(events)))]))


def _query_places(txn: Transaction, sql: str, params: Sequence[object]) -> set[int]:
    return {row["place"] for row in txn.rows(sql, params)}


LISTING = "backfill"  # the source of listed records
EARLY = "its time is over 5 minutes ahead of this machine's clock: it is read again automatically at that time"
INTAKE = "intake"  # the source of letters about records that were not stored: there is nothing to read again
# Early frames of a source beyond the bounds; those that are due last go.
TOO_MANY_EARLY = f"""
delete from dead_letters where letter_id in (
  select letter_id from dead_letters where source = ? and due_clock is not null
  window waiting as (order by due_clock, letter_seq rows between unbounded preceding and current row)
  qualify row_number() over waiting > ? or sum({BYTES.format(column="body")}) over waiting > ?
) returning letter_id
"""
Key = tuple[int, str, str, str, int]  # a commit's place, DID, collection, record key and time_us
_decode_json = msgspec.json.Decoder(msgspec.Raw).decode


@dataclass(frozen=True, slots=True)
class Loaded:
    events: int
    letters: int
    cursor_us: int
    resume_us: int


@dataclass(frozen=True, slots=True)
class Listed:
    """A record in a listing: present, as a `create` with its CID and body, or deleted since, as a `delete`."""

    did: str
    collection: str
    rkey: str
    operation: str
    cid: str | None  # None for a delete
    rev: str  # the repository's when it was listed
    seen_at: datetime  # naive UTC
    body: bytes  # JSON; empty for a delete


@dataclass(slots=True)
class Admitted:
    frames: list[Frame] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)
    strangers: int = 0  # identity and account events of people who never wrote here
    first_seen: dict[str, datetime] = field(default_factory=dict)  # people whom the records make known


def load(store: Store, source: str, raws: Sequence[bytes | str]) -> Loaded:
    """Read a batch of frames and store it as `store_batch` does."""
    return store_batch(store, source, read_batch(raws))


def store_batch(
    store: Store,
    source: str,
    batch: Batch,
    early: Sequence[Early] = (),
    until_us: int = LATEST_US,
    moves_cursor: bool = True,
) -> Loaded:
    """Store a batch of frames and move the source's cursor, all or nothing; early frames wait as dead letters.

    The next connection starts at the cursor or at `until_us`, whichever is earlier, and never further back than before.
    The cursor stays for frames that come from no connection: a connection may yet bring older ones.
    """
    commits = batch.commits
    items = read_frames(batch.raws) if commits is None else []
    with store.write() as txn:
        cursor = txn.value("select cursor_us from ingest_state where source = ?", [source])
        waiting = _add_early(txn, source, early)
        if commits is not None and not _mention_erased(txn.tombstones, commits):
            newest = max(cursor, max(commits.times_us)) if moves_cursor else cursor
            resume = _move_cursor(txn, source, newest, until_us, 0)
            appended = _append_commits(txn, store, Arriving(source, commits))
            return Loaded(appended.events, waiting + _add_full_hours(txn, appended.full), newest, resume)
        items = items if commits is None else commits.frames()
        newest = max([cursor, *(item.time_us for item in items)]) if moves_cursor else cursor
        admitted = _admit(store, batch.raws or [b""] * len(items), items, cursor)
        resume = _move_cursor(txn, source, newest, until_us, admitted.strangers)
        letters = waiting + _add_unread(txn, source, admitted.unread)
        appended = _append_admitted(txn, source, admitted)
        return Loaded(appended.events, letters + _add_full_hours(txn, appended.full), newest, resume)


def start_at(store: Store, source: str, time_us: int) -> None:
    """Let a stream without handled frames begin at this time instead of at the oldest frame that its server has."""
    with store.write() as txn:
        sql = "update ingest_state set cursor_us = ? where source = ? and cursor_us = 0"
        txn.execute(sql, [time_us, source])


def _move_cursor(txn: Transaction, source: str, cursor_us: int, until_us: int, strangers: int) -> int:
    """Move the cursor; return the time from which a server is asked to continue."""
    previous_us = txn.value("select coalesce(resume_us, cursor_us) from ingest_state where source = ?", [source])
    resume_us = max(previous_us, min(cursor_us, until_us))
    txn.execute(
        "update ingest_state set cursor_us = $cursor, resume_us = nullif($resume, $cursor), "
        "dropped_strangers = dropped_strangers + $strangers, "
        "moved_clock = case when $cursor > cursor_us then $wall else moved_clock end where source = $source",
        {"cursor": cursor_us, "resume": resume_us, "strangers": strangers, "wall": txn.wall(), "source": source},
    )
    return resume_us


def load_listing(store: Store, listed: Sequence[Listed]) -> int:
    """Log the listed records that the log lacks; return how many events that were. No cursor moves.

    A record is logged unless its newest event in the log (highest rev, then the last to arrive) left it with this CID;
    a deleted record, unless its newest event deleted it. A record that cannot be read becomes a dead letter.
    """
    admitted = Admitted()
    for record in listed:
        try:
            admitted.frames.append(_as_frame(record))
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            text = f"at://{record.did}/{record.collection}/{record.rkey} {record.body.decode(errors='replace')}"
            admitted.unread.append(Unread(f"a listed record that cannot be read: {str(error)[:200]}", text, 0))
    with store.write() as txn:
        first_named = _find_first_named(store, map(_record_key, enumerate(admitted.frames)))
        admitted.first_seen = {did: seen_at for did, (_, seen_at) in first_named.items()}
        appended = _append_admitted(txn, LISTING, admitted)
        _add_unread(txn, LISTING, admitted.unread)
        _add_full_hours(txn, appended.full)
    return appended.events


def _append_commits(txn: Transaction, store: Store, arriving: Arriving) -> Appended:
    events = arriving.events
    seen_since, people = store.people.seen_since, zip(events.dids, events.collections, strict=True)
    naming_places = [place for place, (did, name) in enumerate(people) if name == VOUCH or did not in seen_since]
    keys = (
        (
            naming_place,
            events.dids[naming_place],
            events.collections[naming_place],
            events.rkeys[naming_place],
            events.times_us[naming_place],
        )
        for naming_place in naming_places
    )
    first_named = _find_first_named(store, keys)
    return append_events(txn, arriving, {did: seen_at for did, (_, seen_at) in first_named.items()})


def _mention_erased(tombstones: Tombstones, events: Events) -> bool:
    """Return True if any of these events is by, about or mentions somebody who was ever erased."""
    return not tombstones.empty and (
        any(tombstones.erased_at(did) for did in set(events.dids))
        or tombstones.are_named("\n".join(events.rkeys))
        or any(tombstones.are_named(text) for text in events.bodies())
    )


def _append_admitted(txn: Transaction, source: str, admitted: Admitted) -> Appended:
    """Append the new events, without those that erased accounts wrote before their erasure."""
    living = events_of(_without_erased(txn.tombstones, admitted.frames))
    people = txn.tombstones.without_erased_people(admitted.first_seen)
    first_seen = {did: seen_at for did, seen_at in people.items() if seen_at is not None}
    return append_events(txn, Arriving(source, living, listed=source == LISTING), first_seen)


def _without_erased(tombstones: Tombstones, frames: Sequence[Frame]) -> Sequence[Frame]:
    """Return the frames without those of erased accounts, and without mentions of the erased in others."""
    if tombstones.empty:
        return frames
    rows = [
        {
            "did": frame.did,
            "rkey": as_commit(frame).rkey,
            "seen_at": from_microseconds(frame.time_us),
            "body": bytes(as_commit(frame).record).decode(),
            "frame": frame,
        }
        for frame in frames
    ]
    return [_with_body(row["frame"], row["body"]) for row in tombstones.without_erased(rows)]


def _with_body(frame: Frame, body: str | None) -> Frame:
    raw = msgspec.Raw((body or "").encode())
    if frame.commit is not None:
        return msgspec.structs.replace(frame, commit=msgspec.structs.replace(frame.commit, record=raw))
    return msgspec.structs.replace(frame, **{frame.kind: raw})


def _add_unread(txn: Transaction, source: str, unread: Iterable[Unread]) -> int:
    rows = [letter(source, item.reason, item.text) for item in unread]
    return add_letters(txn, txn.tombstones.without_erased_letters(rows), txn.wall())


def _add_early(txn: Transaction, source: str, early: Sequence[Early]) -> int:
    if not early:
        return 0
    rows = [
        letter(source, EARLY, early_frame.text)
        | {"body": early_frame.text, "due_clock": from_microseconds(early_frame.time_us)}
        for early_frame in early
    ]
    added = add_letters(txn, txn.tombstones.without_erased_letters(rows), txn.wall())
    dropped = txn.rows(TOO_MANY_EARLY, [source, MOST_WAITING, MOST_WAITING_BYTES])
    if dropped:
        count_dropped(txn, len(dropped))
    return added - len(dropped)


def _add_full_hours(txn: Transaction, full: Iterable[Hour]) -> int:
    """Add one dead letter for each account and hour in which records were left out; return how many are new."""
    return add_letters(txn, [letter(INTAKE, sentence(hour), hour[0]) for hour in sorted(full)], txn.wall())


def _as_frame(record: Listed) -> Frame:
    """Return the frame that would have brought a listed record. Raises an error if the stream would not carry it."""
    if record.operation not in ("create", "delete"):
        raise ValueError(f"its operation {record.operation[:40]!r} is unknown")
    body = _decode_json(record.body) if record.operation == "create" else msgspec.Raw(b"")
    bytes(body).decode()
    commit = Commit(record.operation, record.collection, record.rkey, record.rev, record.cid, body)
    frame = Frame(record.did, to_microseconds(record.seen_at), "commit", commit)
    check(frame, len(record.body))
    return frame


def _admit(store: Store, raws: Sequence[bytes | str], items: Sequence[Frame | Unread], cursor: int) -> Admitted:
    """Sort the frames that were read; count a stranger unless that was done before the stream was rewound."""
    commits = [(place, item) for place, item in enumerate(items) if isinstance(item, Frame) and item.kind == "commit"]
    first_named = _find_first_named(store, map(_record_key, commits))
    admitted = Admitted(first_seen={did: seen_at for did, (_, seen_at) in first_named.items()})
    newest_before = accumulate((item.time_us for item in items), max, initial=cursor)
    for place, (raw, item, newest_us) in enumerate(zip(raws, items, newest_before, strict=False)):
        if isinstance(item, Unread):
            admitted.unread.append(item)
        elif item.kind == "commit":
            admitted.frames.append(item)
        elif not _is_known(store, first_named, place, item):
            admitted.strangers += item.time_us > newest_us
        elif problem := check_account(item):
            admitted.unread.append(unread(raw, problem))
        else:
            admitted.frames.append(item)
    return admitted


def _is_known(store: Store, first_named: Mapping[str, tuple[int, datetime]], place: int, frame: Frame) -> bool:
    """Return True if a record of or about this account came before this frame.

    Compared by the stream's time, not by the store: a rewind brings again frames that were dropped when the account was
    still a stranger.
    """
    seen_at = store.seen_since(frame.did)
    if seen_at is None and frame.did in first_named and first_named[frame.did][0] < place:
        seen_at = first_named[frame.did][1]
    return seen_at is not None and seen_at < from_microseconds(frame.time_us)


def _find_first_named(store: Store, commits: Iterable[Key]) -> dict[str, tuple[int, datetime]]:
    """Return everyone new whom these records make known, with the place and time of the first such record."""
    seen_since = store.people.seen_since
    first_named: dict[str, tuple[int, datetime]] = {}
    for place, did, collection, rkey, time_us in commits:
        # Only a vouch names another person than its author, in its key.
        if collection == ACCOUNT_CLAIM or (did in seen_since and (collection != VOUCH or rkey in seen_since)):
            continue
        for person in store.registry.people_named(did, collection, rkey):
            if person not in seen_since and person not in first_named:
                first_named[person] = place, from_microseconds(time_us)
    return first_named


def _record_key(placed: tuple[int, Frame]) -> Key:
    place, frame = placed
    commit = as_commit(frame)
    return place, frame.did, commit.collection, commit.rkey, frame.time_us
