"""From the event log to typed tables, in the order of arrival: the hop `derive`.

A batch of events, the rows it leads to and the hop's position are one transaction, so a crash repeats it and a replay of
the log gives the same tables. Rows that a batch touches are read once, changed in memory and written once.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from ingest.load import LETTER_LIMIT, add_letters
from ingest.records import (
    PULL,
    REGISTRY,
    REPOSITORY,
    STATUS,
    VOUCH,
    Event,
    PullRecord,
    RepositoryRecord,
    StatusRecord,
    Unreadable,
    VouchRecord,
    read,
    written_at,
)
from ingest.repositories import Repositories
from ingest.store import Store, Transaction

BATCH = 10_000
READ_EVENTS = """
select event_seq as seq, event_id, source, kind, did, collection, rkey, operation, cid, seen_at, body
from events where event_seq > (select position_seq from hops where name = 'derive') order by event_seq limit ?
"""
STATUS_COLUMNS = (
    "status_uri, pull_uri, actor_id, status, back_written, written_at, seen_at, deleted_at, authority, event_seq"
)


def derive(store: Store) -> int:
    """Work off the events that are not derived yet, at most one batch; returns how many."""
    with store.write() as txn:
        events = [Event(**row) for row in txn.rows(READ_EVENTS, [BATCH])]
        if not events:
            return 0
        batch = DeriveBatch(txn, events)
        for event in events:
            batch.apply(event)
        batch.write(store)
        txn.execute(
            "update hops set position_seq = ?, ran_clock = ? where name = 'derive'", [events[-1].seq, store.wall()]
        )
        txn.inputs_changed()
    return len(events)


class DeriveBatch:
    """The rows that one batch of events touches."""

    def __init__(self, txn: Transaction, events: Sequence[Event]) -> None:
        self.txn = txn
        self.people = txn.person_ids(dict.fromkeys(did for event in events for did in _people(event)))
        uris = [event.uri for event in events if event.kind == "commit"]
        self.pulls = _keyed(txn, "select * from pull_requests where pull_uri in (select unnest(?))", uris, "pull_uri")
        self.statuses = _keyed(
            txn, f"select {STATUS_COLUMNS} from statuses where status_uri in (select unnest(?))", uris, "status_uri"
        )
        self.repositories = Repositories(txn)
        self.rounds: dict[tuple[str, int, str], dict[str, Any]] = {}
        self.vouches: list[dict[str, Any]] = []
        self.standing: dict[tuple[int, int], dict[str, Any]] = {}
        self.letters: list[dict[str, object]] = []
        self._reread: set[str] = set()
        self._account_status: dict[str, str] = {}

    def apply(self, event: Event) -> None:
        """Take one event into account; what cannot be understood becomes a dead letter."""
        if event.kind != "commit":
            self._apply_account(event)
        elif event.collection in REGISTRY:
            try:
                self._apply_commit(event)
            except Unreadable as reason:
                self.letters.append(_letter(event, str(reason)))

    def _apply_commit(self, event: Event) -> None:
        if event.operation == "delete":
            self._delete(event)
            return
        record = read(event)
        if isinstance(record, RepositoryRecord):
            self.repositories.put(event, record, self.people[event.did])
        elif isinstance(record, PullRecord):
            self._put_pull(event, record)
        elif isinstance(record, StatusRecord):
            self._put_status(event, record)
        elif isinstance(record, VouchRecord):
            self._put_vouch(event, record)

    def _delete(self, event: Event) -> None:
        if event.collection == VOUCH:
            self._supersede(event, "delete")
        elif event.collection == PULL and (pull := self.pulls.get(event.uri)):
            pull["deleted_at"] = event.seen_at
        elif event.collection == STATUS and (status := self.statuses.get(event.uri)):
            status["deleted_at"] = event.seen_at
        elif event.collection == REPOSITORY:
            self.repositories.delete(event, self.people[event.did])

    def _put_pull(self, event: Event, record: PullRecord) -> None:
        before = self.pulls.get(event.uri)
        opened = before["opened_at"] if before else written_at(event, record.created_at)
        newest = len(record.rounds) - 1
        self.pulls[event.uri] = {
            "pull_uri": event.uri,
            "author_id": self.people[event.did],
            "repository_id": self.repositories.find(record.target, event.seen_at),
            "title": record.title,
            "body": record.body,
            "target_branch": record.target_branch,
            "source_branch": record.source_branch,
            "record_form": record.form,
            "record_cid": event.cid,
            "round": max(newest, 0),
            "round_count": len(record.rounds),
            "patch_ref": record.rounds[newest].patch_ref if record.rounds else None,
            "opened_at": opened,
            "seen_at": before["seen_at"] if before else event.seen_at,
            "changed_at": event.seen_at,
            "deleted_at": None,
            "state": before["state"] if before else "open",
            "state_at": before["state_at"] if before else None,
            "merged_at": before["merged_at"] if before else None,
            "merge_verified": before["merge_verified"] if before else False,
        }
        for number, one in enumerate(record.rounds):
            key = (event.uri, number, one.patch_ref)
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

    def _put_vouch(self, event: Event, record: VouchRecord) -> None:
        self._supersede(event, "put")
        pair = self._pair(event)
        row = {
            "voucher_id": pair[0],
            "subject_id": pair[1],
            "kind": record.kind,
            "reason": record.reason,
            "evidences": msgspec.json.encode(record.evidences).decode(),
            "record_cid": event.cid,
            "written_at": min(record.created_at or event.seen_at, event.seen_at),
            "seen_at": event.seen_at,
            "superseded_at": None,
            "superseded_by": None,
            "event_seq": event.seq,
        }
        self.vouches.append(row)
        self.standing[pair] = row

    def _pair(self, event: Event) -> tuple[int, int]:
        return self.people[event.did], self.people[event.rkey or ""]

    def _supersede(self, event: Event, how: str) -> None:
        """End whatever vouch stands between the two, whether it came in this batch or before."""
        if event.rkey not in self.people:
            return
        pair = self._pair(event)
        if row := self.standing.pop(pair, None):
            row |= {"superseded_at": event.seen_at, "superseded_by": how}
        else:
            self.txn.execute(
                "update vouches set superseded_at = ?, superseded_by = ? "
                "where voucher_id = ? and subject_id = ? and superseded_at is null",
                [event.seen_at, how, *pair],
            )

    def _apply_account(self, event: Event) -> None:
        self._reread.add(event.did)
        if event.kind == "account":
            try:
                account = msgspec.json.decode(event.body or "null")
            except (msgspec.DecodeError, RecursionError) as error:
                self.letters.append(_letter(event, f"an account event that is not JSON: {str(error)[:100]}"))
                return
            account = account if isinstance(account, dict) else {}
            status = account.get("status") or ("active" if account.get("active") else "inactive")
            self._account_status[event.did] = str(status)[:32]

    def write(self, store: Store) -> None:
        """Write every touched row."""
        self.repositories.write()
        for pull in self.pulls.values():
            pull["repository_id"] = self.repositories.joined.get(pull["repository_id"], pull["repository_id"])
        self.txn.upsert("pull_requests", list(self.pulls.values()))
        self.txn.upsert("statuses", list(self.statuses.values()))
        self.txn.append("vouches", self.vouches)
        self._write_rounds()
        add_letters(self.txn, self.letters, store.wall())
        for did, status in self._account_status.items():
            self.txn.execute("update contributors set account_status = ? where did = ?", [status, did])
        for did in self._reread:
            self.txn.execute("delete from fetches where kind = 'identity' and subject = ?", [did])

    def _write_rounds(self) -> None:
        uris = list({uri for uri, _, _ in self.rounds})
        sql = "select pull_uri, round, patch_ref from pull_rounds where pull_uri in (select unnest(?))"
        known = {(row["pull_uri"], row["round"], row["patch_ref"]) for row in self.txn.rows(sql, [uris])}
        self.txn.append("pull_rounds", [row for key, row in self.rounds.items() if key not in known])


def _people(event: Event) -> tuple[str, ...]:
    """DIDs whose numbers the event's rows carry; only registered collections lead to rows."""
    if event.kind != "commit" or event.collection not in REGISTRY:
        return ()
    return (event.did, event.rkey or "") if event.collection == VOUCH and _is_subject(event.rkey) else (event.did,)


def _is_subject(rkey: str | None) -> bool:
    return rkey is not None and rkey.startswith("did:")


def _keyed(txn: Transaction, sql: str, keys: Sequence[str], key: str) -> dict[str, dict[str, Any]]:
    return {row[key]: row for row in txn.rows(sql, [list(keys)])} if keys else {}


def _round_row(key: tuple[str, int, str], event: Event, created_at: object) -> dict[str, Any]:
    uri, number, patch_ref = key
    return {
        "pull_uri": uri,
        "round": number,
        "patch_ref": patch_ref,
        "record_cid": event.cid,
        "created_at": created_at,
        "seen_at": event.seen_at,
    }


def _letter(event: Event, reason: str) -> dict[str, object]:
    body = (event.body or "")[:LETTER_LIMIT]
    return {"event_id": event.event_id, "source": event.source, "reason": reason, "body": body}
