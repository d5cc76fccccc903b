"""The small world of the scoring hop: seed owns a watched repository; ana, mara and mallory come to it."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from ingest.records.derive import derive
from ingest.stream.load import load
from tests.ingest.stream.frames import MARA, REPO, SEED, SOURCE, Frames, at, pull_uri
from tests.pipeline import Result

OFFERED = pull_uri(MARA, "offered")
MERGED_AT = at(2)  # when the status of the small world was seen; its record claims an earlier time
DAY = timedelta(days=1)


def settled(word: str = "merged", actor: str = SEED) -> Frames:
    """A repository of seed's, a pull request of mara's, and what became of it."""
    frames = Frames()
    frames.repository(SEED, repoDid=REPO)
    frames.pull(MARA, "offered")
    frames.status(actor, OFFERED, word)
    return frames


def feed(result: Result, frames: Sequence[bytes]) -> None:
    """Load the frames and work off the log."""
    load(result.store, SOURCE, frames)
    while derive(result.store):
        pass


def take(result: Result, frames: Sequence[bytes], now: datetime | None = None) -> int:
    """Feed the frames, watch seed's repository, judge at `now`; returns how many people were scored."""
    feed(result, frames)
    result.watch([REPO], [SEED])
    return result.judge(now)


def again(result: Result, now: datetime | None = None) -> int:
    """Judge once more, as if an input had changed."""
    with result.store.write() as txn:
        txn.inputs_changed()
    return result.judge(now)


def counts(result: Result, did: str) -> tuple[int, ...]:
    """At the site: clean, not clean, merged, settled, waiting."""
    sql = (
        "select clean, not_clean, merged_here, settled_here, waiting from features "
        "join contributors using (contributor_id) where did = ? and repository_id = 0"
    )
    return tuple(result.rows(sql, [did])[0].values())
