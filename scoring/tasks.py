"""The Huey tasks of the judging hops."""

import time
from typing import Any

from ingest.queue import huey
from ingest.runtime import current
from scoring.policy import policy_from_settings
from scoring.review_pulls import review_due
from scoring.review_settings import reviewing_from_settings
from scoring.score import score


@huey.task()
def score_everyone() -> None:
    """Judge anew if anything changed."""
    runtime = current()
    if score(runtime.store, runtime.clock, policy_from_settings()):
        runtime.changed("score_everyone")


@huey.task()
def review_pulls() -> None:
    """Read what open pull requests change, a few at a time, once the stream has caught up."""
    runtime = current()
    if not runtime.behind() and review_due(runtime.store, reviewing_from_settings(runtime)):
        runtime.changed("review_pulls")


@huey.task()
def review_by_hand(artefact: dict[str, Any], reply: str) -> None:
    """Review a diff that somebody sent to the API; what came of it is put under `reply` and kept for an hour."""
    from scoring.review_jobs import drop_old_replies, review_sent

    huey.put(reply, review_sent(current().store, artefact))
    drop_old_replies(huey, time.time())
