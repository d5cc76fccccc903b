"""A person of whom everything tells, for tests of erasure."""

from datetime import UTC, datetime, timedelta

from ingest.erasure.rows import tables
from ingest.store.database import Store
from tests.ingest.erasure.planted import GONE, HANDLE, MARK, SHORT
from tests.ingest.stream.frames import ANA, MARA, REPO, SEED, Frames, at, pull_uri

LATE = at(10_000)
WORDS = (GONE, GONE.removeprefix("did:plc:"), HANDLE, SHORT)


def story() -> Frames:
    """Somebody who wrote of everything, with others who wrote of them."""
    frames = Frames()
    frames.repository(SEED, repoDid=REPO)
    frames.repository(GONE, "orchard")
    frames.vouch(SEED, GONE, reason=MARK)
    frames.vouch(GONE, ANA)
    frames.pull(GONE, "one", title=MARK)
    frames.status(SEED, pull_uri(GONE, "one"), "merged")
    frames.pull(ANA, "two", body=f"as {GONE} said")
    frames.status(GONE, pull_uri(ANA, "two"), "closed")
    frames.pull(MARA, "three", target=f"at://{GONE}/sh.tangled.repo/orchard")
    frames.account(GONE, active=True)
    return frames


def name_handle(store: Store) -> None:
    with store.write() as txn:
        txn.execute("update contributors set handle = ?, handle_verified = true where did = ?", [HANDLE, GONE])


def days_later() -> datetime:
    """The wall clock of somebody who waited longer than an erasure waits for others."""
    return datetime.now(UTC).replace(tzinfo=None) + timedelta(days=2)


def everything(store: Store) -> str:
    with store.read() as found:
        return str([found.rows(f'from "{table.name}"') for table in tables(found)])
