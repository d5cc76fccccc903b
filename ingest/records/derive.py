"""From the event log to typed tables, in the order of arrival: the hop `derive`.

A batch of events, the rows it leads to and the hop's position are one transaction, so a crash repeats it and a replay
of the log gives the same tables. Rows that a batch touches are read once, changed in memory and written once.

Identity and account events say how accounts stand, and whose DID documents are to be looked at again.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ingest.records.dead_letters import UnknownShapes, add_letters, letter
from ingest.records.fields import Event, Unreadable, decode, text
from ingest.records.order import Order
from ingest.records.registry import Record, Registry
from ingest.records.repositories import Repositories, names_in
from ingest.records.rows import PullRows, RepositoryRows, SmallRows, StatusRows, Vouches, Writer
from ingest.store.archive import all_events
from ingest.store.database import Store
from ingest.store.long_texts import BYTES, TextLost
from ingest.store.transaction import Rows, Transaction

BATCH = 10_000
BATCH_BYTES = 64_000_000  # of record text: 10,000 records of 1 MB would not fit into memory
# Records of collections that lead to no rows stay in the table unread.
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
    """Work off the events that are not derived yet, at most so many and so many bytes; returns how many."""
    with store.write() as txn:
        params = {"collections": list(store.registry.kinds), "rows": rows, "bytes": size}
        events = [Event(**row) for row in txn.rows(READ_EVENTS, params)]
        if not events:
            return 0
        batch = DeriveBatch(txn, events, store.registry)
        batch.write()
        add_letters(txn, [_letter(event, reason) for event, reason in batch.unreadable], store.wall())
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
    """Events and the rows they lead to; `unreadable` are those that say nothing, each with the reason."""

    def __init__(self, txn: Transaction, events: Sequence[Event], registry: Registry) -> None:
        self.txn, self.registry = txn, registry
        self.unreadable: list[tuple[Event, str]] = []
        self.shapes = UnknownShapes(txn)
        self._accounts = Accounts(txn)
        self._work: list[Work] = []
        for event in events:
            self._read(event)

    def _read(self, event: Event) -> None:
        """Take an event that leads to rows; what cannot be understood is put aside."""
        try:
            if event.kind != "commit":
                self._accounts.take(event, self._text(event))
            elif kind := self.registry.kinds.get(event.collection or ""):
                record = None
                if event.is_put and event.body is None:  # it told of an erased account
                    return
                if event.is_put:
                    told = decode(self._text(event), "a record")
                    self.shapes.note_record(event, told, kind)
                    record = kind.read(told, event)
                self._work.append((event, record, kind.table))
            else:
                self.shapes.note_collection(event)
        except Unreadable as reason:
            self.unreadable.append((event, str(reason)))

    def _text(self, event: Event) -> str | None:
        """The event's text, read where it is long: only one such text is in memory at a time."""
        try:
            return self.txn.long_texts.read(event.body) if event.body else event.body
        except TextLost as lost:
            raise Unreadable(str(lost)) from lost

    def write(self) -> None:
        """Take the events into account, one after the other, and write every touched row."""
        order = Order(self.txn, [event for event, _, _ in self._work])
        writers = self._writers()
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

    def _writers(self) -> Mapping[str, Writer]:
        """Return who takes the records of each table that this batch touches; repositories are written first."""
        if not self._work:
            return {}
        txn, people = self.txn, self._people()
        repositories = Repositories(txn, names_in((event, record) for event, record, _ in self._work))
        events: dict[str, list[Event]] = {"repositories": []}  # whose numbers a pull request may need
        for event, _, table in self._work:
            events.setdefault(table, []).append(event)
        special: Mapping[str, Callable[[list[Event]], Writer]] = {
            "repositories": lambda _: RepositoryRows(repositories, people),
            "pull_requests": lambda found: PullRows(txn, _uris(found), people, repositories),
            "statuses": lambda found: StatusRows(txn, _uris(found), people),
            "vouches": lambda found: Vouches(txn, found, people),
        }
        return {
            table: special[table](found) if table in special else SmallRows(txn, table, _uris(found), people)
            for table, found in events.items()
        }

    def _people(self) -> dict[str, int]:
        named = self.registry.people_named
        dids = (did for event, _, _ in self._work for did in named(event.did, event.collection or "", event.rkey or ""))
        return self.txn.person_ids(dict.fromkeys(dids))


def _uris(events: Sequence[Event]) -> list[str]:
    return list(dict.fromkeys(event.uri for event in events))


def _letter(event: Event, reason: str) -> dict[str, object]:
    return letter(event.source, reason, event.body or "", event.event_id, event.seq)


Row = Mapping[str, Any]
# Words of an account event after which an account is there again; others ('throttled') never hid it (hidden_people).
GONE = frozenset({"deactivated", "takendown", "suspended", "deleted", "inactive", "erasing"})
KNOWN = "select did, contributor_id, account_status from contributors where did in (select unnest(?))"
# Of what a dead letter gave back only the newest word on an account counts.
OVERTAKEN = "select 1 from {events} where kind = 'account' and did = ? and event_seq > ? limit 1"


class Accounts:
    def __init__(self, txn: Transaction) -> None:
        self._txn = txn
        self._status: dict[str, str | None] = {}
        self._told: list[tuple[Event, str | None]] = []

    def take(self, event: Event, body: str | None) -> None:
        """Note an event with its text; Unreadable where an account event does not say how the account stands."""
        status = _read(body) if event.kind == "account" else None
        if (
            status
            and event.late
            and self._txn.value(OVERTAKEN.format(events=all_events(self._txn)), [event.did, event.seq])
        ):
            return
        self._status[event.did] = status or self._status.get(event.did)
        self._told.append((event, status))

    def write(self) -> None:
        """Have the DIDs asked about again and say how those accounts stand."""
        if not self._status:
            return
        dids = list(self._status)
        known = {row["did"]: row for row in self._txn.rows(KNOWN, [dids])}
        self._txn.append_new(
            "account_changes", list({tuple(row.values()): row for row in self._changes(known)}.values())
        )
        self._txn.execute("delete from fetches where kind = 'identity' and subject in (select unnest(?))", [dids])
        news = {did: status for did, status in self._status.items() if status}
        if news:
            self._txn.execute(
                "update contributors set account_status = n.status "
                "from (select unnest(?) as did, unnest(?) as status) n where n.did = contributors.did",
                [list(news), list(news.values())],
            )

    def _changes(self, known: Mapping[str, Row]) -> Iterator[Row]:
        """Rows of `account_changes`: accounts that came back, and changes of a did:web, of which nobody keeps a log."""
        status = {did: row["account_status"] for did, row in known.items()}
        for event, told in self._told:
            if event.did not in known:
                continue
            kind = None
            if told is None and event.did.startswith("did:web:"):
                kind = "identity"
            if told is not None:
                kind = "returns" if told not in GONE and status[event.did] in GONE else None
                status[event.did] = told
            if kind:
                yield _change(known[event.did]["contributor_id"], kind, event)


def note_returns(txn: Transaction, events: Sequence[Event]) -> None:
    """Note of everybody who was erased and wrote again that they came back; told once, by the first such event."""
    back = {event.did: event for event in reversed(events) if txn.tombstones.erased_at(event.did) is not None}
    if not back:
        return
    numbers = txn.rows(KNOWN, [list(back)])
    noted = txn.rows("select contributor_id from account_changes where kind = 'returns'")
    before = {row["contributor_id"] for row in noted}
    new = [row for row in numbers if row["contributor_id"] not in before]
    txn.append_new("account_changes", [_change(row["contributor_id"], "returns", back[row["did"]]) for row in new])


def _change(number: int, kind: str, event: Event) -> Row:
    return {"contributor_id": number, "kind": kind, "seen_at": event.seen_at}


def _read(body: str | None) -> str:
    """Return how an account stands: 'active', or why not."""
    account = decode(body, "an account event")
    active = account.get("active")
    if not isinstance(active, bool):
        raise Unreadable("an account event that does not say whether the account is active")
    return "active" if active else text(account, "status", 32) or "inactive"
