"""Records which run of the outbox a store has: the unique name of the store, and the number of its newest run.

Both tell a store that was rebuilt, or restored from an older backup. They stand in the table of hops, which two replays
of one log need not agree in.
"""

from ingest.store.database import Store
from ingest.store.transaction import Rows

NAME = "outbox of "  # and the store's name


def delivered_run(store: Store) -> tuple[str, int] | None:
    """Return the store's name and the newest run that ended; None where nothing was ever delivered to it."""
    with store.read() as rows:
        return read_run(rows)


def read_run(rows: Rows) -> tuple[str, int] | None:
    """Return the name and newest run of the store that `rows` read, such as a snapshot."""
    row = rows.row("select name, position_seq from hops where starts_with(name, ?)", [NAME])
    return (row["name"].removeprefix(NAME), row["position_seq"]) if row else None


def note_run(store: Store, name: str, run: int) -> None:
    """Record that this run and all before it were delivered."""
    with store.write() as txn:
        txn.execute("delete from hops where starts_with(name, ?)", [NAME])
        txn.execute("insert into hops values (?, ?, ?)", [NAME + name, run, store.wall()])
