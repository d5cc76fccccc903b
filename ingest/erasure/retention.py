"""Drops what is kept for a while only: diffs of pull requests that are closed. Their numbers stay in `patches`."""

from datetime import datetime, timedelta
from pathlib import Path

from ingest.erasure.erase import drop_diffs
from ingest.erasure.files import files_below
from ingest.files import remove_all
from ingest.store.database import Store

# A diff lies in its file before its row is committed; what a kill left without a row is older than this.
YOUNG_SECONDS = 86_400.0
OLD_DIFFS = """
select k.sha256 from patches k left join pull_requests p using (pull_uri) where k.sha256 is not null
group by k.sha256
having bool_and(p.pull_uri is null or p.state <> 'open' and greatest(p.state_at, p.changed_at, p.seen_at) < ?)
"""


def drop_old_diffs(store: Store, folder: Path, now: datetime, days: int) -> int:
    """Drop every diff whose pull requests were all settled more than so many days before `now`; returns how many.

    A diff that several pull requests offered stays while one of them is open or young.
    """
    with store.read() as rows:
        old = {row["sha256"] for row in rows.rows(OLD_DIFFS, [now - timedelta(days=days)])}
    return drop_diffs(store, folder, old)


def drop_stray_diffs(store: Store, folder: Path, wall_seconds: float) -> int:
    """Remove files that no row names, a day old by the clock of the file system; returns how many."""
    with store.read() as rows:
        kept = {row["sha256"] for row in rows.rows("select sha256 from patches where sha256 is not null")}
    return remove_all(
        [
            path
            for path in files_below(folder)
            if path.name.removesuffix(".patch.gz") not in kept and wall_seconds - path.stat().st_mtime > YOUNG_SECONDS
        ]
    )
