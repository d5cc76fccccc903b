"""Identity and account events of one batch: how accounts stand, and whose DID documents are to be looked at again."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ingest.records.fields import Event, Unreadable, decode, text
from ingest.store.archive import all_events
from ingest.store.transaction import Transaction

Row = Mapping[str, Any]
# Words of an account event after which an account is there again; others ('throttled') never hid it (hidden_people).
GONE = frozenset({"deactivated", "takendown", "suspended", "deleted", "inactive", "erasing"})
KNOWN = "select did, contributor_id, account_status from contributors where did in (select unnest(?))"
# Of what a dead letter gave back only the newest word on an account counts.
OVERTAKEN = "select 1 from {events} where kind = 'account' and did = ? and event_seq > ? limit 1"


class Accounts:
    """The state of accounts by the events of one batch."""

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
