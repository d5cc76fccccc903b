"""The Huey task of the scoring hop."""

from ingest.queue import huey
from ingest.runtime import current
from scoring.policy import policy_from_settings
from scoring.score import score


@huey.task()
def score_everyone() -> None:
    """Judge anew if anything changed."""
    runtime = current()
    if score(runtime.store, runtime.clock, policy_from_settings()):
        runtime.changed("score_everyone")
