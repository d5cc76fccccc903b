"""Keeps the deliveries of a store: its name among all stores that ever were, and the number of the newest run.

A file that was made anew, or put back from an older backup, says so by these two. They stand among the hops, which are
no part of what two replays of one log must agree in.
"""

from ingest.store.database import Store
from ingest.store.transaction import Rows

NAME = "outbox of "  # and the store's name


def delivered_run(store: Store) -> tuple[str, int] | None:
    """The store's name and the newest run that ended; None where nothing was ever delivered to it."""
    with store.read() as rows:
        return held_run(rows)


def held_run(rows: Rows) -> tuple[str, int] | None:
    """The same of a state that is being read, such as a snapshot."""
    row = rows.row("select name, position_seq from hops where starts_with(name, ?)", [NAME])
    return (row["name"].removeprefix(NAME), row["position_seq"]) if row else None


def note_run(store: Store, name: str, run: int) -> None:
    """Note that everything of this run and of those before it is here."""
    with store.write() as txn:
        txn.execute("delete from hops where starts_with(name, ?)", [NAME])
        txn.execute("insert into hops values (?, ?, ?)", [NAME + name, run, store.wall()])
