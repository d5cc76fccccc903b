"""Identity and account events of one batch: how accounts stand, and whose DID documents are to be looked at again."""

from ingest.archive import all_events
from ingest.reading import Event, Unreadable, decode, text
from ingest.transaction import Transaction

# Of what a dead letter gave back only the newest word on an account counts.
OVERTAKEN = "select 1 from {events} where kind = 'account' and did = ? and event_seq > ? limit 1"


class Accounts:
    """What the events of one batch say of accounts."""

    def __init__(self, txn: Transaction) -> None:
        self._txn = txn
        self._status: dict[str, str | None] = {}

    def take(self, event: Event) -> None:
        """Note an event; Unreadable where an account event does not say how the account stands."""
        status = _read(event.body) if event.kind == "account" else None
        if (
            status
            and event.late
            and self._txn.value(OVERTAKEN.format(events=all_events(self._txn)), [event.did, event.seq])
        ):
            return
        self._status[event.did] = status or self._status.get(event.did)

    def write(self) -> None:
        """Have the DIDs asked about again and say how those accounts stand."""
        if not self._status:
            return
        dids = list(self._status)
        self._txn.execute("delete from fetches where kind = 'identity' and subject in (select unnest(?))", [dids])
        known = {did: status for did, status in self._status.items() if status}
        if known:
            self._txn.execute(
                "update contributors set account_status = n.status "
                "from (select unnest(?) as did, unnest(?) as status) n where n.did = contributors.did",
                [list(known), list(known.values())],
            )


def _read(body: str | None) -> str:
    """How an account stands: 'active', or why not."""
    account = decode(body, "an account event")
    active = account.get("active")
    if not isinstance(active, bool):
        raise Unreadable("an account event that does not say whether the account is active")
    return "active" if active else text(account, "status", 32) or "inactive"
