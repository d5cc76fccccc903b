"""The Huey tasks of the judging hops."""

import sys
import time
from collections import deque
from collections.abc import Callable
from threading import Lock
from typing import Any

from django.conf import settings
from huey import crontab

from ingest.store.snapshots import SnapshotReader
from ingest.worker.queue import huey
from ingest.worker.runtime import current
from scoring.certificates.store import write_successors
from scoring.config.policy import policy_from_settings
from scoring.pipeline.approvals import settle_approvals
from scoring.pipeline.lane_certificates import CERTIFICATES
from scoring.pipeline.score import score
from scoring.pipeline.shadow import record_shadow
from scoring.review.by_hand import BUSY, FAILED, MOST_WAITING, drop_old_replies, review_sent
from scoring.review.pending import review_due
from scoring.review.settings import reviewing_from_settings
from scoring.training.process import TrainingChild

PATIENCE_SECONDS = 1.0  # what takes longer is judged without it first
LOOK_SECONDS = 0.02

_sent: deque[tuple[dict[str, Any], str, str]] = deque()  # diffs that wait, where answers go, and who sent each
_reading = Lock()
_training: list[TrainingChild] = []  # of this process, once there is one


def wait_while(is_so: Callable[[], bool], seconds: float, sleep: Callable[[float], None] = time.sleep) -> None:
    """Return when it is so no more, or after so many seconds."""
    for _ in range(round(seconds / LOOK_SECONDS)):
        if not is_so():
            return
        sleep(LOOK_SECONDS)


@huey.task()
def score_everyone() -> None:
    """Void or fulfil approvals, then judge anew if anything changed: the gate is told of what was voided.

    What would have been fast lane where nobody is offered one is noted. What is being looked up or read is waited for a
    little: judged before, a new pull request costs two passes, and the second is the one that its row waits for.
    """
    runtime = current()
    wait_while(runtime.preparing, PATIENCE_SECONDS)
    moved = settle_approvals(runtime.store, runtime.clock.now())
    moved += score(runtime.store, runtime.clock, policy_from_settings())
    if record_shadow(runtime.store) + moved:
        runtime.changed("score_everyone")


@huey.task()
def review_pulls() -> None:
    """Read what open pull requests change, a few at a time, once the stream has caught up."""
    runtime = current()
    if not runtime.behind() and review_due(runtime.store, reviewing_from_settings(runtime)):
        runtime.changed("review_pulls")


@huey.task()
def review_by_hand(artefact: dict[str, Any], reply: str, sender: str) -> None:
    """Review a diff that `sender` sent to the API; what came of it is put under `reply` and kept for an hour."""
    if len(_sent) >= MOST_WAITING:
        huey.put(reply, BUSY)
        return
    _sent.append((artefact, reply, sender))
    read_sent.call_local()


@huey.task()
def read_sent() -> None:
    """Review the diff that waits longest; one at a time, else a few slow readings would take every hop's thread."""
    if not _reading.acquire(blocking=False):
        return  # whoever holds it looks again after letting go of it
    try:
        artefact, reply, sender = _sent.popleft()
        answer = FAILED
        try:
            answer = review_sent(current().store, artefact, sender)
        finally:
            huey.put(reply, answer)
    finally:
        _reading.release()
        if _sent:
            read_sent()


@huey.periodic_task(crontab(minute="23"))
def extend_certificates() -> None:
    """Every hour write a successor of each certificate that new outcomes are known of; most hours there is none."""
    folder = settings.MODEL_DIR / CERTIFICATES
    if not folder.is_dir():
        return
    runtime = current()
    with runtime.store.read() as rows:
        write_successors(rows, folder, runtime.window_days, runtime.clock.now())


@huey.periodic_task(crontab(minute="*/5"))
def forget_sent() -> None:
    """Every five minutes forget the answers that are older than an hour."""
    drop_old_replies(huey, time.time())


@huey.periodic_task(crontab(minute="41"))
def train_again() -> None:
    """Once an hour see whether TRAIN_DAYS have passed since the last training, and start another that nobody waits for.

    A recording is not trained on: its present is not that of the files beside it.
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
