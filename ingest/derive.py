"""From the event log to typed tables, in the order of arrival: the hop `derive`.

A batch of events, the rows it leads to and the hop's position are one transaction, so a crash repeats it and a replay
of the log gives the same tables. Rows that a batch touches are read once, changed in memory and written once.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ingest.load import add_letters, letter
from ingest.records import (
    DID,
    NO_PATCH,
    PULL,
    REGISTRY,
    REPOSITORY,
    STATUS,
    VOUCH,
    Event,
    PullRecord,
    Record,
    RepositoryRecord,
    StatusRecord,
    Unreadable,
    VouchRecord,
    identifier,
    read,
    text,
    written_at,
)
from ingest.repositories import Repositories, names_in
from ingest.store import Rows, Store, Transaction
from ingest.vouches import Vouches

BATCH = 10_000
BATCH_BYTES = 64_000_000  # of record text: 10,000 records of 1 MB would not fit into memory
# Records of collections that lead to no rows stay in the table unread.
READ_EVENTS = """
with position as (select position_seq from hops where name = 'derive'), wanted as (
  select *, kind <> 'commit' or collection in (select unnest($collections)) as is_read
  from events where event_seq > (from position)
), next as (
  select event_seq, case when is_read then coalesce(strlen(body), 0) else 0 end as size
  from wanted order by event_seq limit $rows
), fitting as (
  select event_seq, sum(size) over (order by event_seq) - size as before from next
)
select event_seq as seq, event_id, source, kind, did, collection, rkey, operation, cid, seen_at,
  case when is_read then body end as body
from wanted where event_seq <= (select max(event_seq) from fitting where before < $bytes) order by event_seq
"""


def derive(store: Store, rows: int = BATCH, size: int = BATCH_BYTES) -> int:
    """Work off the events that are not derived yet, at most so many and so many bytes; returns how many."""
    with store.write() as txn:
        params = {"collections": list(REGISTRY), "rows": rows, "bytes": size}
        events = [Event(**row) for row in txn.rows(READ_EVENTS, params)]
        if not events:
            return 0
        batch = DeriveBatch(txn, events)
        batch.apply()
        batch.write(store)
        txn.execute(
            "update hops set position_seq = ?, ran_clock = ? where name = 'derive'", [events[-1].seq, store.wall()]
        )
        txn.inputs_changed()
    return len(events)


def has_underived(rows: Rows) -> bool:
    """Whether the log holds events that are not derived yet."""
    sql = "select coalesce(max(event_seq), 0) > (select position_seq from hops where name = 'derive') from events"
    return bool(rows.value(sql))


class DeriveBatch:
    """The rows that one batch of events touches."""

    def __init__(self, txn: Transaction, events: Sequence[Event]) -> None:
        self.txn = txn
        self.letters: list[dict[str, object]] = []
        self.work: list[tuple[Event, Record | None]] = []  # None for a delete, an identity or an account event
        for event in events:
            self._read(event)
        self.people = txn.person_ids(dict.fromkeys(did for event, _ in self.work for did in _people(event)))
        uris = [event.uri for event, _ in self.work if event.kind == "commit"]
        self.pulls = _keyed(txn, "pull_requests", "pull_uri", uris)
        self.statuses = _keyed(txn, "statuses", "status_uri", uris)
        self.repositories = Repositories(txn, names_in(self.work))
        self.vouches = Vouches(txn, (self._pair(event) for event, _ in self.work if _is_vouch(event)))
        self.rounds: dict[tuple[str, int, str], Mapping[str, Any]] = {}
        self._account_status: dict[str, str | None] = {}

    def _read(self, event: Event) -> None:
        """Take an event that leads to rows; what cannot be understood becomes a dead letter."""
        if event.kind == "commit" and event.collection not in REGISTRY:
            return
        try:
            is_put = event.kind == "commit" and event.operation != "delete"
            self.work.append((event, read(event) if is_put else None))
        except Unreadable as reason:
            self.letters.append(letter(event.source, str(reason), event.event_id, event.body or ""))

    def apply(self) -> None:
        """Take the events into account, one after the other."""
        for event, record in self.work:
            if event.kind != "commit":
                self._apply_account(event)
            elif record is None:
                self._delete(event)
            else:
                self._put(event, record)

    def _put(self, event: Event, record: Record) -> None:
        if isinstance(record, RepositoryRecord):
            self.repositories.put(event, record, self.people[event.did])
        elif isinstance(record, PullRecord):
            self._put_pull(event, record)
        elif isinstance(record, StatusRecord):
            self._put_status(event, record)
        elif isinstance(record, VouchRecord):
            self.vouches.put(event, self._pair(event), record)

    def _delete(self, event: Event) -> None:
        if _is_vouch(event):
            self.vouches.end(event, self._pair(event), "delete")
        elif event.collection == PULL and (pull := self.pulls.get(event.uri)):
            pull["deleted_at"] = event.seen_at
        elif event.collection == STATUS and (status := self.statuses.get(event.uri)):
            status["deleted_at"] = event.seen_at
        elif event.collection == REPOSITORY:
            self.repositories.delete(event, self.people[event.did])

    def _put_pull(self, event: Event, record: PullRecord) -> None:
        target = self.repositories.find(record.target, event.seen_at)
        newest = record.rounds[-1] if record.rounds else None
        before = self.pulls.get(event.uri) or _new_pull(event, record, target)
        # A change stays where it was first offered: else its author could carry a merge to where it counts for more,
        # or a rejection to where it counts for nothing.
        self.pulls[event.uri] = before | {
            "author_id": self.people[event.did],
            "title": record.title,
            "body": record.body,
            "target_branch": record.target_branch,
            "source_branch": record.source_branch,
            "record_form": record.form,
            "record_cid": event.cid,
            "round": newest.number if newest else 0,
            "round_count": newest.number + 1 if newest else 0,
            "patch_ref": newest.patch_ref if newest and newest.patch_ref != NO_PATCH else None,
            "changed_at": event.seen_at,
            "deleted_at": None,
        }
        for one in record.rounds:
            key = (event.uri, one.number, one.patch_ref)
            self.rounds.setdefault(key, _round_row(key, event, one.created_at))

    def _put_status(self, event: Event, record: StatusRecord) -> None:
        self.statuses[event.uri] = {
            "status_uri": event.uri,
            "pull_uri": record.pull_uri,
            "actor_id": self.people[event.did],
            "status": record.status,
            # The forge's own migration writes old states under the pull request's key (facts/tangled.md, trap 2).
            "back_written": event.rkey == record.pull_uri.rsplit("/", 1)[-1],
            "written_at": written_at(event, record.created_at),
            "seen_at": event.seen_at,
            "deleted_at": None,
            "authority": "stranger",
            "event_seq": event.seq,
        }

    def _pair(self, event: Event) -> tuple[int, int]:
        return self.people[event.did], self.people[event.rkey or ""]

    def _apply_account(self, event: Event) -> None:
        """An identity event asks for a new look at the DID's document; an account event says how the account stands."""
        status = None
        if event.kind == "account":
            try:
                status = _read_account(event.body or "")
            except Unreadable as reason:
                self.letters.append(letter(event.source, str(reason), event.event_id, event.body or ""))
        self._account_status[event.did] = status or self._account_status.get(event.did)

    def write(self, store: Store) -> None:
        """Write every touched row."""
        for pull in self.pulls.values():
            pull["repository_id"] = self.repositories.current(pull["repository_id"])
        self.repositories.write()
        self.txn.upsert("pull_requests", list(self.pulls.values()))
        self.txn.upsert("statuses", list(self.statuses.values()))
        self.txn.append_new("pull_rounds", list(self.rounds.values()))
        self.vouches.write()
        self._write_accounts()
        add_letters(self.txn, self.letters, store.wall())

    def _write_accounts(self) -> None:
        if not self._account_status:
            return
        dids = list(self._account_status)
        self.txn.execute("delete from fetches where kind = 'identity' and subject in (select unnest(?))", [dids])
        known = {did: status for did, status in self._account_status.items() if status}
        if known:
            self.txn.execute(
                "update contributors set account_status = n.status "
                "from (select unnest(?) as did, unnest(?) as status) n where n.did = contributors.did",
                [list(known), list(known.values())],
            )


def _is_vouch(event: Event) -> bool:
    return event.collection == VOUCH and identifier(DID, event.rkey) is not None


def _people(event: Event) -> tuple[str, ...]:
    """DIDs whose numbers the event's rows carry."""
    if event.kind != "commit":
        return ()
    return (event.did, event.rkey or "") if _is_vouch(event) else (event.did,)


def _read_account(body: str) -> str:
    """How an account stands: 'active', or why not; Unreadable where it does not say."""
    try:
        account = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise Unreadable(f"an account event that is not JSON: {str(error)[:100]}") from error
    active = account.get("active") if isinstance(account, dict) else None
    if not isinstance(active, bool):
        raise Unreadable("an account event that does not say whether the account is active")
    return "active" if active else text(account, "status", 32) or "inactive"


def _keyed(txn: Transaction, table: str, key: str, uris: Sequence[str]) -> dict[str, dict[str, Any]]:
    found = txn.rows(f"select * from {table} where {key} in (select unnest(?))", [list(uris)]) if uris else []
    return {row[key]: row for row in found}


def _new_pull(event: Event, record: PullRecord, repository_id: int) -> dict[str, Any]:
    """What stays as the first version said it, and the state of one that nobody has judged."""
    return {
        "pull_uri": event.uri,
        "repository_id": repository_id,
        "opened_at": written_at(event, record.created_at),
        "seen_at": event.seen_at,
        "state": "open",
        "state_at": None,
        "merged_at": None,
        "merge_verified": False,
    }


def _round_row(key: tuple[str, int, str], event: Event, created_at: object) -> Mapping[str, Any]:
    uri, number, patch_ref = key
    return {
        "pull_uri": uri,
        "round": number,
        "patch_ref": patch_ref,
        "record_cid": event.cid,
        "created_at": created_at,
        "seen_at": event.seen_at,
    }
