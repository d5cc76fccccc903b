"""The Huey tasks of scoring, review, certificates and training."""

import sys
import time
from collections import deque
from collections.abc import Callable
from threading import Lock
from typing import Any

from django.conf import settings
from huey import crontab

from ingest.store.snapshots import SnapshotReader
from ingest.worker.runtime import current, huey
from scoring.certificates.verify import write_successors
from scoring.config.policy import policy_from_settings
from scoring.pipeline.interventions import settle_approvals
from scoring.pipeline.lane_history import record_shadow
from scoring.pipeline.lane_thresholds import CERTIFICATES
from scoring.pipeline.peers import tally_peers
from scoring.pipeline.score import score
from scoring.review.by_hand import BUSY, FAILED, MOST_WAITING, drop_old_replies, review_sent
from scoring.review.first_rounds import list_files
from scoring.review.pending import review_due
from scoring.review.settings import reviewing_from_settings
from scoring.training.process import TrainingChild

PATIENCE_SECONDS = 1.0  # after that a pass judges without the look-ups that have not ended
POLL_SECONDS = 0.02

_waiting: deque[tuple[dict[str, Any], str, str]] = deque()  # diffs with the keys of their answers and their senders
_reading = Lock()
_training: list[TrainingChild] = []  # of this process, once there is one


def wait_while(condition: Callable[[], bool], seconds: float, sleep: Callable[[float], None] = time.sleep) -> None:
    """Return when the condition is false, or after so many seconds."""
    for _ in range(round(seconds / POLL_SECONDS)):
        if not condition():
            return
        sleep(POLL_SECONDS)


@huey.task()
def score_everyone() -> None:
    """Settle approvals, compare peers with audits, run a scoring pass if anything changed, and record shadow mode.

    Look-ups and reviews under way are waited for a little: a new pull request that is judged before they end needs a
    second pass.
    """
    runtime = current()
    wait_while(runtime.preparing, PATIENCE_SECONDS)
    moved = settle_approvals(runtime.store, runtime.clock.now())
    moved += tally_peers(runtime.store, runtime.clock.now())
    moved += score(runtime.store, runtime.clock, policy_from_settings())
    if record_shadow(runtime.store) + moved:
        runtime.changed("score_everyone")


@huey.task()
def review_pulls() -> None:
    """Review open pull requests, a few at a time, once the stream has caught up; then list other rounds' files."""
    runtime = current()
    if runtime.behind():
        return
    if review_due(runtime.store, reviewing_from_settings(runtime)) or list_files(runtime.store, runtime.diff_folder):
        runtime.changed("review_pulls")


@huey.task()
def review_by_hand(artefact: dict[str, Any], reply: str, sender: str) -> None:
    """Review a diff that `sender` sent to the API; the result is put under `reply` for an hour."""
    if len(_waiting) >= MOST_WAITING:
        huey.put(reply, BUSY)
        return
    _waiting.append((artefact, reply, sender))
    read_sent.call_local()


@huey.task()
def read_sent() -> None:
    """Review the diff that waits longest; one at a time, else a few slow reviews would take all threads."""
    if not _reading.acquire(blocking=False):
        return  # the thread that holds the lock looks again after its release
    try:
        artefact, reply, sender = _waiting.popleft()
        result = FAILED
        try:
            result = review_sent(current().store, artefact, sender)
        finally:
            huey.put(reply, result)
    finally:
        _reading.release()
        if _waiting:
            read_sent()


@huey.periodic_task(crontab(minute="23"))
def extend_certificates() -> None:
    """Every hour write a successor of each certificate with new outcomes; mostly there is none."""
    folder = settings.MODEL_DIR / CERTIFICATES
    if not folder.is_dir():
        return
    runtime = current()
    with runtime.store.read() as rows:
        write_successors(rows, folder, runtime.window_days, runtime.clock.now())


@huey.periodic_task(crontab(minute="*/5"))
def forget_sent() -> None:
    """Every five minutes drop answers that are older than an hour."""
    drop_old_replies(huey, time.time())


@huey.periodic_task(crontab(minute="41"))
def train_again() -> None:
    """Every hour start a training in the background if TRAIN_DAYS have passed since the last one.

    A recording is not trained on: its present differs from that of the files beside it.
    """
    if settings.STREAM_CLOCK:
        return
    with SnapshotReader(settings.SNAPSHOT_DIR).pin() as snapshot:
        if snapshot is None:
            return
    if not _training:
        _training.append(TrainingChild(settings.MODEL_DIR, settings.LOG_DIR / "train.log"))
    limits = ("--seconds", str(settings.TRAIN_SECONDS), "--megabytes", str(settings.TRAIN_MEMORY_MB))
    command = (sys.executable, str(settings.BASE_DIR / "manage.py"), "train", *limits)
    _training[0].follow(command, settings.TRAIN_DAYS, time.time())
