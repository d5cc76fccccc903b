"""From the event log to typed tables, in the order of arrival: the hop `derive`.

A batch of events, the rows it leads to and the hop's position are one transaction, so a crash repeats it and a replay
of the log gives the same tables. Rows that a batch touches are read once, changed in memory and written once.
"""

from collections.abc import Callable, Mapping, Sequence

from ingest.records.accounts import Accounts, note_returns
from ingest.records.dead_letters import add_letters, letter
from ingest.records.fields import Event, Unreadable, decode
from ingest.records.order import Order
from ingest.records.registry import Record, Registry
from ingest.records.repositories import Repositories, names_in
from ingest.records.rows import PullRows, RepositoryRows, SmallRows, StatusRows, Vouches, Writer
from ingest.records.unknown import UnknownShapes
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
    """Return whether the log holds events that are not derived yet."""
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
        """The number of everybody whose number a row carries."""
        named = self.registry.people_named
        dids = (did for event, _, _ in self._work for did in named(event.did, event.collection or "", event.rkey or ""))
        return self.txn.person_ids(dict.fromkeys(dids))


def _uris(events: Sequence[Event]) -> list[str]:
    return list(dict.fromkeys(event.uri for event in events))


def _letter(event: Event, reason: str) -> dict[str, object]:
    return letter(event.source, reason, event.body or "", event.event_id, event.seq)
