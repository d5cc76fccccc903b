"""A store that takes in records and is published, as a worker does: `python -m tests.bench.write_beside FOLDER DIR`.

500 follows a second in batches of a second, published every two seconds, until SIGTERM.
"""

import signal
import sys
import threading
import time
from pathlib import Path

from ingest.store.database import Store
from ingest.store.snapshots import publish
from tests.bench.filled_store import MEMORY_MB

RATE, EVERY_SECONDS = 500, 2
TAKEN = """
insert into follows by name
select 'at://did:plc:made/' || ? || '/' || n as uri, 1 as author_id, 'bafy' || n as record_cid,
  'did:plc:made' as subject, now()::timestamp as written_at, now()::timestamp as seen_at,
  now()::timestamp as changed_at, null::timestamp as deleted_at
from range(?) r(n)
"""


def main() -> None:
    """Write and publish until told to stop."""
    folder, snapshots = Path(sys.argv[1]), Path(sys.argv[2])
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    store = Store.open(folder / "trust.duckdb", memory_mb=MEMORY_MB)
    second = 0
    while not stop.wait(1.0):
        with store.write() as txn:
            txn.execute(TAKEN, [str(time.time()), RATE])
        second += 1
        if second % EVERY_SECONDS == 0:
            publish(store, snapshots)
    store.close()


if __name__ == "__main__":
    main()
