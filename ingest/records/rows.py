"""The rows that one batch of events touches, table by table: read once, changed in memory, written once.

All smaller kinds of records go through SmallRows. Three tables follow rules of their own: repositories
(ingest/records/repositories.py), pull requests with their rounds, and vouches.

Every version of a vouch or denounce is stored; at most one stands between two people.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from ingest.records.assessment import Assessment
from ingest.records.fields import DID, Event, identifier, is_back_written, json_text, written_at
from ingest.records.order import Place
from ingest.records.repositories import Repositories
from ingest.records.shapes import NO_PATCH, PullRecord, RepositoryRecord, StatusRecord, VouchRecord
from ingest.store.transaction import Transaction

People = Mapping[str, int]
# The stream's own sight of a round sets its time, whatever a listing showed before.
WITNESS_ROUNDS = """
update pull_rounds r set witnessed = true, seen_at = n.seen_at, record_cid = n.record_cid, created_at = n.created_at
from (
  select unnest(?) as pull_uri, unnest(?) as round, unnest(?) as patch_ref, unnest(?) as record_cid,
    unnest(?) as created_at, unnest(?) as seen_at
) n
where (r.pull_uri, r.round, r.patch_ref) = (n.pull_uri, n.round, n.patch_ref)
  and (not r.witnessed or n.seen_at < r.seen_at)
"""

ROUND_COLUMNS = ("pull_uri", "round", "patch_ref", "record_cid", "created_at", "seen_at")

FORGET_TEXT = """
update events set body = null where body is not null and (did, collection, rkey) in (
  select (did, collection, rkey) from (select unnest(?) as did, unnest(?) as collection, unnest(?) as rkey)
)
"""
UNPROVEN: Mapping[str, Any] = dict.fromkeys(
    (
        *("checked_cid", "proof", "reason", "proven_rev", "subject_cid", "patch_id", "decision", "reasons"),
        *("second_hand", "evaluator", "certificate", "since", "checked_at"),
    )
)


class Writer(Protocol):
    def put(self, event: Event, record: Any, place: Place) -> None:
        """Take a record that was written."""

    def delete(self, event: Event, place: Place) -> None:
        """Note that a record was deleted."""

    def write(self) -> None:
        """Write what has changed."""


class SmallRows:
    """Rows of any kind whose entry in the registry names their columns."""

    def __init__(self, txn: Transaction, table: str, uris: Sequence[str], people: People) -> None:
        self._txn, self._table, self._people = txn, table, people
        sql = f"select uri, seen_at from {table} where uri in (select unnest(?))"
        self._known: dict[str, datetime] = {row["uri"]: row["seen_at"] for row in txn.rows(sql, [list(uris)])}
        self._puts: dict[str, dict[str, Any]] = {}
        self._ended: dict[str, datetime] = {}  # deletion times of rows with unchanged contents
        self._dated: dict[str, datetime] = {}

    def put(self, event: Event, record: Any, place: Place) -> None:
        """Take a record; a row keeps the time when it was first seen."""
        uri, row = event.uri, self._puts.get(event.uri)
        seen_at = row["seen_at"] if row else self._known.get(uri, event.seen_at)
        seen_at = event.seen_at if place.first else seen_at
        if place.counts:
            self._puts[uri] = {
                "uri": uri,
                "author_id": self._people[event.did],
                "record_cid": event.cid,
                **record.values,
                "written_at": written_at(event, record.created_at),
                "seen_at": seen_at,
                "changed_at": event.seen_at,
                "deleted_at": place.gone,
            }
        elif row:
            row["seen_at"] = seen_at
        elif uri in self._known:
            self._known[uri] = self._dated[uri] = seen_at

    def delete(self, event: Event, place: Place) -> None:
        if not place.counts:
            return
        if row := self._puts.get(event.uri):
            row["deleted_at"] = event.seen_at
        elif event.uri in self._known:
            self._ended[event.uri] = event.seen_at

    def write(self) -> None:
        """Write the rows: those with new contents whole, of the others only the changed columns."""
        self._txn.upsert(self._table, list(self._puts.values()))
        self._set("deleted_at", self._ended)
        self._set("seen_at", self._dated)

    def _set(self, column: str, changes: Mapping[str, datetime]) -> None:
        remaining = {uri: moment for uri, moment in changes.items() if uri not in self._puts}
        if remaining:
            self._txn.execute(
                f"update {self._table} t set {column} = n.moment "
                "from (select unnest(?) as uri, unnest(?) as moment) n where n.uri = t.uri",
                [list(remaining), list(remaining.values())],
            )


class RepositoryRows:
    """Repositories of one batch; a late record does not show who came first."""

    def __init__(self, repositories: Repositories, people: People) -> None:
        self._repositories, self._people = repositories, people

    def put(self, event: Event, record: RepositoryRecord, place: Place) -> None:
        """Take a record, unless a newer one or a newer delete stands."""
        if place.counts and not place.witness and place.gone is None:
            self._repositories.put(event, record, self._people[event.did])

    def delete(self, event: Event, place: Place) -> None:
        if place.counts:
            self._repositories.delete(event, self._people[event.did])

    def write(self) -> None:
        self._repositories.write()


class AssessmentRows:
    """Assessments by peers: pointers to what is proven later (ingest/lookups/peers.py); a deleted one goes at once."""

    def __init__(self, txn: Transaction, uris: Sequence[str], people: People) -> None:
        self._txn, self._people = txn, people
        self._rows = keyed(txn, "peer_assessments", "uri", uris)
        self._deleted: dict[str, Event] = {}

    def put(self, event: Event, record: Assessment, place: Place) -> None:
        """Take a version; what was proven of an older one stays beside it until this one is proven."""
        if not place.counts or place.witness or place.gone is not None:
            return
        row = {**UNPROVEN, **self._rows.get(event.uri, {})}
        names = {"uri": event.uri, "author_id": self._people[event.did], "subject_uri": record.subject_uri}
        newest = {"record_cid": event.cid, "rev": event.rev, "learned_at": event.seen_at}
        self._rows[event.uri] = row | names | newest
        self._deleted.pop(event.uri, None)

    def delete(self, event: Event, place: Place) -> None:
        if place.counts:
            self._rows.pop(event.uri, None)
            self._deleted[event.uri] = event

    def write(self) -> None:
        """Write the rows; the log forgets the text of what its author deleted."""
        self._txn.upsert("peer_assessments", list(self._rows.values()))
        if self._deleted:
            deletes = self._deleted.values()
            self._txn.execute("delete from peer_assessments where uri in (select unnest(?))", [list(self._deleted)])
            self._txn.execute(
                FORGET_TEXT,
                [
                    list(keys)
                    for keys in zip(*((event.did, event.collection, event.rkey) for event in deletes), strict=True)
                ],
            )


class StatusRows:
    def __init__(self, txn: Transaction, uris: Sequence[str], people: People) -> None:
        self._txn, self._people = txn, people
        self._rows = keyed(txn, "statuses", "status_uri", uris)

    def put(self, event: Event, record: StatusRecord, place: Place) -> None:
        """Take a person's status; its weight is settled later (ingest/records/pull_state.py)."""
        if place.counts:
            self._rows[event.uri] = {
                "status_uri": event.uri,
                "pull_uri": record.pull_uri,
                "actor_id": self._people[event.did],
                "status": record.status,
                "back_written": is_back_written(event, record.pull_uri),
                "written_at": written_at(event, record.created_at),
                "seen_at": event.seen_at,
                "deleted_at": place.gone,
                "authority": "stranger",
                "event_seq": event.seq,
            }

    def delete(self, event: Event, place: Place) -> None:
        if place.counts and (row := self._rows.get(event.uri)):
            row["deleted_at"] = event.seen_at

    def write(self) -> None:
        self._txn.upsert("statuses", list(self._rows.values()))


class PullRows:
    """Pull requests in their newest version, and every round of them that was ever seen."""

    def __init__(self, txn: Transaction, uris: Sequence[str], people: People, repositories: Repositories) -> None:
        self._txn, self._people, self._repositories = txn, people, repositories
        self._rows = keyed(txn, "pull_requests", "pull_uri", uris)
        self._rounds: dict[tuple[str, int, str], Mapping[str, Any]] = {}

    def put(self, event: Event, record: PullRecord, place: Place) -> None:
        """Take a version; from an older one only its rounds, and the time of the first offer."""
        if place.known:
            return
        target = self._repositories.find(record.target, event.seen_at)
        row = self._rows.get(event.uri) or (_new_pull(event, record, target) if place.counts else None)
        if row is None:
            return
        if place.first:
            row |= _offer_columns(event, record, target)
        if place.counts:
            row |= self._content_columns(event, record, place)
        self._rows[event.uri] = row
        self._add_rounds(event, record)

    def _content_columns(self, event: Event, record: PullRecord, place: Place) -> dict[str, Any]:
        newest = record.rounds[-1] if record.rounds else None
        return {
            "author_id": self._people[event.did],
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
            "deleted_at": place.gone,
        }

    def _add_rounds(self, event: Event, record: PullRecord) -> None:
        for pull_round in record.rounds:
            key = (event.uri, pull_round.number, pull_round.patch_ref)
            stored = self._rounds.get(key)
            if stored is None or (event.witnessed and (not stored["witnessed"] or event.seen_at < stored["seen_at"])):
                self._rounds[key] = _round_row(key, event, pull_round.created_at)

    def delete(self, event: Event, place: Place) -> None:
        if place.counts and (row := self._rows.get(event.uri)):
            row["deleted_at"] = event.seen_at

    def write(self) -> None:
        """Write pull requests, under the repositories' present numbers, and rounds."""
        for row in self._rows.values():
            row["repository_id"] = self._repositories.current(row["repository_id"])
        self._txn.upsert("pull_requests", list(self._rows.values()))
        rounds = list(self._rounds.values())
        self._txn.append_new("pull_rounds", rounds)
        witnessed = [row for row in rounds if row["witnessed"]]
        if witnessed:
            self._txn.execute(WITNESS_ROUNDS, [[row[name] for row in witnessed] for name in ROUND_COLUMNS])


def keyed(txn: Transaction, table: str, key: str, uris: Sequence[str]) -> dict[str, dict[str, Any]]:
    rows = txn.rows(f"select * from {table} where {key} in (select unnest(?))", [list(uris)]) if uris else []
    return {row[key]: row for row in rows}


def _new_pull(event: Event, record: PullRecord, repository_id: int) -> dict[str, Any]:
    """Return a row that nobody has judged."""
    state = {"state": "open", "state_at": None, "merged_at": None, "merge_proof": None}
    return {"pull_uri": event.uri, **_offer_columns(event, record, repository_id), **state}


def _offer_columns(event: Event, record: PullRecord, repository_id: int) -> dict[str, Any]:
    """Return the columns that stay as in the first version.

    A change stays in the repository where it was first offered: otherwise its author could move a merge to where it
    counts for more, or a rejection to where it counts for nothing.
    """
    opened = written_at(event, record.created_at)
    return {
        "repository_id": repository_id,
        "opened_title": record.title,
        "opened_at": opened,
        "seen_at": event.seen_at,
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
        "witnessed": event.witnessed,
    }


Pair = tuple[int, int]  # voucher, subject

STANDING = """
select event_seq, voucher_id, subject_id, record_cid, seen_at from vouches
join (select unnest(?) as voucher_id, unnest(?) as subject_id) using (voucher_id, subject_id)
where superseded_at is null
"""
END = """
update vouches set superseded_at = n.ended_at, superseded_by = n.how
from (select unnest(?) as event_seq, unnest(?) as ended_at, unnest(?) as how) n where n.event_seq = vouches.event_seq
"""
WITNESS = """
update vouches set seen_at = n.seen_at, written_at = n.written_at
from (select unnest(?) as event_seq, unnest(?) as seen_at, unnest(?) as written_at) n
where n.event_seq = vouches.event_seq
"""


class Vouches:
    """The vouches between these pairs; read once and written once, since one account can delete 10,000 in a batch."""

    def __init__(self, txn: Transaction, events: Iterable[Event], people: Mapping[str, int]) -> None:
        self._txn, self._people = txn, people
        unique = list(dict.fromkeys(self._pair(event) for event in events if identifier(DID, event.rkey)))
        params = [[voucher for voucher, _ in unique], [subject for _, subject in unique]]
        self._stored = txn.rows(STANDING, params) if unique else []
        self._standing = {(row["voucher_id"], row["subject_id"]): row for row in self._stored}
        self._new: list[dict[str, Any]] = []

    def _pair(self, event: Event) -> Pair:
        return self._people[event.did], self._people[event.rkey or ""]

    def put(self, event: Event, record: VouchRecord, place: Place) -> None:
        """Take a vouch in place of the one that stands between the two.

        A late one that no longer counts is stored as a version that never stood: nobody could have acted on it.
        """
        if place.known:
            return
        pair = self._pair(event)
        if place.witness:
            self._set_witnessed_time(event, record, pair)
            return
        row = _vouch_row(event, record, pair)
        self._new.append(row)
        if not place.counts:
            row |= {"superseded_at": event.seen_at, "superseded_by": "put"}
        elif place.gone is not None:
            row |= {"superseded_at": max(place.gone, event.seen_at), "superseded_by": "delete"}
        else:
            self._end_standing(event, pair, "put")
            self._standing[pair] = row

    def _set_witnessed_time(self, event: Event, record: VouchRecord, pair: Pair) -> None:
        """Set the time of a listed vouch by the stream's own sight of it."""
        row = self._standing.get(pair)
        if row and row["record_cid"] == event.cid:
            row |= {"seen_at": event.seen_at, "written_at": _written_at(event, record)}

    def delete(self, event: Event, place: Place) -> None:
        """End the vouch that stands between the two, whether it came in this batch or before."""
        if place.counts and identifier(DID, event.rkey):
            self._end_standing(event, self._pair(event), "delete")

    def _end_standing(self, event: Event, pair: Pair, reason: str) -> None:
        if row := self._standing.pop(pair, None):
            # A listed version has the time of its key, which may be before the replaced one was seen.
            row |= {"superseded_at": max(event.seen_at, row["seen_at"]), "superseded_by": reason}

    def write(self) -> None:
        self._set(END, ("event_seq", "superseded_at", "superseded_by"))
        self._set(WITNESS, ("event_seq", "seen_at", "written_at"))
        self._txn.append("vouches", self._new)

    def _set(self, sql: str, names: Sequence[str]) -> None:
        changed = [row for row in self._stored if all(name in row for name in names)]
        if changed:
            self._txn.execute(sql, [[row[name] for row in changed] for name in names])


def _written_at(event: Event, record: VouchRecord) -> datetime:
    return min(record.created_at or event.seen_at, event.seen_at)


def _vouch_row(event: Event, record: VouchRecord, pair: Pair) -> dict[str, Any]:
    return {
        "voucher_id": pair[0],
        "subject_id": pair[1],
        "kind": record.kind,
        "reason": record.reason,
        "evidences": json_text(record.evidences),
        "record_cid": event.cid,
        "written_at": _written_at(event, record),
        "seen_at": event.seen_at,
        "superseded_at": None,
        "superseded_by": None,
        "event_seq": event.seq,
    }
