"""From a frame to its row: a real worker and a real web on loopback, one frame, many at once, and kills in between."""

import random
import statistics
import time
from pathlib import Path

import pytest

from ingest.store.snapshots import SnapshotReader
from tests.conftest import Count
from tests.trustsite.decided import check_decisions
from tests.trustsite.demo.live_site import check_settled, decided, live_site, release, start_worker
from tests.trustsite.demo.live_worker import recording_with_news
from tests.waiting import LONG_SECONDS, wait_for
from trustsite import drive

PEOPLE, PULLS = 8, 8


def check_published(root: Path) -> None:
    """Assert what holds of decisions of the newest snapshot."""
    with SnapshotReader(root / "snapshots").pin() as snapshot:
        assert snapshot is not None
        assert check_decisions(snapshot)


@pytest.mark.repeats("the kills below, after which every frame is a row of a published snapshot too")
def test_a_frame_is_a_row_with_its_review_within_seconds_and_a_burst_within_a_minute(
    tmp_path: Path, count: Count, prove: bool
) -> None:
    """The seconds themselves are measured under PROVE=1, on a machine that does nothing else."""
    single, burst = count(1, 20), count(8, 200)
    with live_site(tmp_path / "site", PEOPLE, PULLS + single + burst, single + burst) as site:
        taken = [site.seconds_until_shown(number) for number in range(single)]
        assert statistics.median(taken) <= (5 if prove else LONG_SECONDS)
        site.release(single + burst)
        wait_for(lambda: decided(site.root, site.uris) == single + burst, 60 if prove else LONG_SECONDS)
        check_published(site.root)


def test_kills_between_event_and_decision_leave_every_pull_request_decided_once(tmp_path: Path, count: Count) -> None:
    kills, each, root, draw = count(1, 20), 2, tmp_path / "site", random.Random(6)
    root.mkdir()
    drive.mark(root)
    news = kills * each
    pulls = max(PULLS, news)  # the news are the last of these over again
    recording, uris = recording_with_news(PEOPLE, pulls, news)
    for killed in range(kills):
        worker = start_worker(root, PEOPLE, pulls, news, news - killed * each)
        check_settled(root, worker)
        release(worker, len(recording.frames) - news + (killed + 1) * each)
        time.sleep(draw.uniform(0, 1))  # the event is stored, derived, judged, reviewed or published by then
        worker.kill()
        worker.communicate()
    worker = start_worker(root, PEOPLE, pulls, news, 0)
    try:
        wait_for(lambda: decided(root, uris) == news)
    finally:
        worker.kill()
        worker.communicate()
    check_published(root)
