"""Derive typed tables from the event log, in the order of arrival: the hop `derive`.

A batch of events, its rows and the hop's position are one transaction, so a crash repeats it and a replay of the log
gives equal tables. Rows that a batch touches are read once, changed in memory and written once.

Identity and account events give the status of accounts, and mark the DID documents that must be read again.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ingest.records.dead_letters import UnknownShapes, add_letters, letter
from ingest.records.fields import Event, Unreadable, decode, text
from ingest.records.order import Order
from ingest.records.registry import Record, Registry
from ingest.records.repositories import Repositories, names_in
from ingest.records.rows import AssessmentRows, PullRows, RepositoryRows, SmallRows, StatusRows, Vouches, Writer
from ingest.store.archive import all_events
from ingest.store.database import Store
from ingest.store.long_texts import BYTES, TextLost
from ingest.store.transaction import Rows, Transaction

BATCH = 10_000
BATCH_BYTES = 64_000_000  # of record text: 10,000 records of 1 MB would not fit into memory
# Records of collections without a table stay in the log unread.
READ_EVENTS = f"""
with position as (select position_seq from hops where name = 'derive'), wanted as (
  select *, kind <> 'commit' or collection in (select unnest($collections)) as is_read
  from events where event_seq > (from position)
), next as (
  select event_seq, case when is_read and body is not null then {BYTES.format(column="body")} else 0 end as size
  from wanted order by event_seq limit $rows
), fitting as (
  select event_seq, sum(size) over (order by event_seq) - size as before from next
)
select event_seq as seq, event_id, source, kind, did, collection, rkey, operation, rev, cid, seen_at, late,
  case when is_read then body end as body
from wanted where event_seq <= (select max(event_seq) from fitting where before < $bytes) order by event_seq
"""
Work = tuple[Event, Record | None, str]  # the record, None for a delete, and its table


def derive(store: Store, rows: int = BATCH, size: int = BATCH_BYTES) -> int:
    """Derive the next events, at most `rows` and `size` bytes; return how many."""
    with store.write() as txn:
        params = {"collections": list(store.registry.kinds), "rows": rows, "bytes": size}
        events = [Event(**row) for row in txn.rows(READ_EVENTS, params)]
        if not events:
            return 0
        batch = DeriveBatch(txn, events, store.registry)
        batch.write()
        add_letters(txn, [_letter_for(event, reason) for event, reason in batch.unreadable], store.wall())
        batch.shapes.write()
        txn.execute(
            "update hops set position_seq = ?, ran_clock = ? where name = 'derive'", [events[-1].seq, store.wall()]
        )
        txn.inputs_changed()
    return len(events)


def has_underived(rows: Rows) -> bool:
    sql = "select coalesce(max(event_seq), 0) > (select position_seq from hops where name = 'derive') from events"
    return bool(rows.value(sql))


class DeriveBatch:
    """Events and the rows that they lead to; `unreadable` holds the unreadable events, each with the reason."""

    def __init__(self, txn: Transaction, events: Sequence[Event], registry: Registry) -> None:
        self.txn, self.registry = txn, registry
        self.unreadable: list[tuple[Event, str]] = []
        self.shapes = UnknownShapes(txn)
        self._accounts = Accounts(txn)
        self._work: list[Work] = []
        for event in events:
            self._read_status(event)

    def _read_status(self, event: Event) -> None:
        """Read an event that leads to rows; set it aside if it cannot be read."""
        try:
            if event.kind != "commit":
                self._accounts.take(event, self._read_text(event))
            elif kind := self.registry.kinds.get(event.collection or ""):
                record = None
                if event.is_put and event.body is None:  # it was about an erased account
                    return
                if event.is_put:
                    parsed = decode(self._read_text(event), "a record")
                    self.shapes.note_record(event, parsed, kind)
                    record = kind.read(parsed, event)
                self._work.append((event, record, kind.table))
            else:
                self.shapes.note_collection(event)
        except Unreadable as reason:
            self.unreadable.append((event, str(reason)))

    def _read_text(self, event: Event) -> str | None:
        """Return the event's text, also if it is long: only one long text is in memory at a time."""
        try:
            return self.txn.long_texts.read(event.body) if event.body else event.body
        except TextLost as lost:
            raise Unreadable(str(lost)) from lost

    def write(self) -> None:
        """Apply the events one after the other, and write every touched row."""
        order = Order(self.txn, [event for event, _, _ in self._work])
        writers = self._open_writers()
        for event, record, table in self._work:
            place = order.place(event)
            if record is None:
                writers[table].delete(event, place)
            else:
                writers[table].put(event, record, place)
        for writer in writers.values():
            writer.write()
        self._accounts.write()
        note_returns(self.txn, [event for event, _, _ in self._work])

    def _open_writers(self) -> Mapping[str, Writer]:
        """Return the writer of each table that this batch touches; repositories are written first."""
        if not self._work:
            return {}
        txn, people = self.txn, self._number_people()
        repositories = Repositories(txn, names_in((event, record) for event, record, _ in self._work))
        events: dict[str, list[Event]] = {"repositories": []}  # a pull request may need their numbers
        for event, _, table in self._work:
            events.setdefault(table, []).append(event)
        special_writers: Mapping[str, Callable[[list[Event]], Writer]] = {
            "repositories": lambda _: RepositoryRows(repositories, people),
            "pull_requests": lambda table_events: PullRows(txn, _uris(table_events), people, repositories),
            "statuses": lambda table_events: StatusRows(txn, _uris(table_events), people),
            "peer_assessments": lambda table_events: AssessmentRows(txn, _uris(table_events), people),
            "vouches": lambda table_events: Vouches(txn, table_events, people),
        }
        return {
            table: special_writers[table](table_events)
            if table in special_writers
            else SmallRows(txn, table, _uris(table_events), people)
            for table, table_events in events.items()
        }

    def _number_people(self) -> dict[str, int]:
        people_named = self.registry.people_named
        dids = (
            did
            for event, _, _ in self._work
            for did in people_named(event.did, event.collection or "", event.rkey or "")
        )
        return self.txn.person_ids(dict.fromkeys(dids))


def _uris(events: Sequence[Event]) -> list[str]:
    return list(dict.fromkeys(event.uri for event in events))


def _letter_for(event: Event, reason: str) -> dict[str, object]:
    return letter(event.source, reason, event.body or "", event.event_id, event.seq)


Row = Mapping[str, Any]
# An account with one of these statuses is gone; other statuses ('throttled') never hide it (hidden_people).
GONE = frozenset({"deactivated", "takendown", "suspended", "deleted", "inactive", "erasing"})
KNOWN = "select did, contributor_id, account_status from contributors where did in (select unnest(?))"
# An event from a dead letter counts only if no newer event is about the account.
OVERTAKEN = "select 1 from {events} where kind = 'account' and did = ? and event_seq > ? limit 1"


class Accounts:
    def __init__(self, txn: Transaction) -> None:
        self._txn = txn
        self._status: dict[str, str | None] = {}
        self._events: list[tuple[Event, str | None]] = []

    def take(self, event: Event, body: str | None) -> None:
        """Note an event with its text. Raises Unreadable if an account event has no status."""
        status = _read_status(body) if event.kind == "account" else None
        if (
            status
            and event.late
            and self._txn.value(OVERTAKEN.format(events=all_events(self._txn)), [event.did, event.seq])
        ):
            return
        self._status[event.did] = status or self._status.get(event.did)
        self._events.append((event, status))

    def write(self) -> None:
        """Make the DIDs due for a look-up, and write the status of those accounts."""
        if not self._status:
            return
        dids = list(self._status)
        people = {row["did"]: row for row in self._txn.rows(KNOWN, [dids])}
        self._txn.append_new(
            "account_changes", list({tuple(row.values()): row for row in self._list_changes(people)}.values())
        )
        self._txn.execute("delete from fetches where kind = 'identity' and subject in (select unnest(?))", [dids])
        new_statuses = {did: status for did, status in self._status.items() if status}
        if new_statuses:
            self._txn.execute(
                "update contributors set account_status = n.status "
                "from (select unnest(?) as did, unnest(?) as status) n where n.did = contributors.did",
                [list(new_statuses), list(new_statuses.values())],
            )

    def _list_changes(self, people: Mapping[str, Row]) -> Iterator[Row]:
        """Yield rows of `account_changes`: returned accounts, and changes of a did:web, which no directory logs."""
        status = {did: row["account_status"] for did, row in people.items()}
        for event, new_status in self._events:
            if event.did not in people:
                continue
            kind = None
            if new_status is None and event.did.startswith("did:web:"):
                kind = "identity"
            if new_status is not None:
                kind = "returns" if new_status not in GONE and status[event.did] in GONE else None
                status[event.did] = new_status
            if kind:
                yield _change_row(people[event.did]["contributor_id"], kind, event)


def note_returns(txn: Transaction, events: Sequence[Event]) -> None:
    """Note that erased people who wrote again came back; once, by the first such event."""
    first_events = {event.did: event for event in reversed(events) if txn.tombstones.erased_at(event.did) is not None}
    if not first_events:
        return
    people = txn.rows(KNOWN, [list(first_events)])
    stored = txn.rows("select contributor_id from account_changes where kind = 'returns'")
    returned_before = {row["contributor_id"] for row in stored}
    newly_returned = [row for row in people if row["contributor_id"] not in returned_before]
    txn.append_new(
        "account_changes",
        [_change_row(row["contributor_id"], "returns", first_events[row["did"]]) for row in newly_returned],
    )


def _change_row(number: int, kind: str, event: Event) -> Row:
    return {"contributor_id": number, "kind": kind, "seen_at": event.seen_at}


def _read_status(body: str | None) -> str:
    """Return the status of an account: 'active', or the reason why not."""
    account = decode(body, "an account event")
    active = account.get("active")
    if not isinstance(active, bool):
        raise Unreadable("an account event that does not say whether the account is active")
    return "active" if active else text(account, "status", 32) or "inactive"
