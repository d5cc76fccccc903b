"""Diffs that are sent to the API: reviewed by the worker, answered under a name that only their sender has."""

import secrets
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from django.conf import settings
from huey import Huey

from ingest.store import Store
from scoring.content.submission import Knowledge
from scoring.review_diff import Artefact, review_artefact, told
from scoring.review_settings import ledger_from_settings, reviewer_from_settings

PREFIX = "review"
FOUND = "found"  # of what was looked up for /setup
KEPT_SECONDS = 3600
MOST_WAITING = 50  # diffs of 1 MB at most, held in memory
# What stands in place of an answer. A start of the worker empties the queue, these words with it.
WAITING: Mapping[str, Any] = {"state": "waiting"}
BUSY: Mapping[str, Any] = {"state": "busy"}
FAILED: Mapping[str, Any] = {"state": "failed"}


def new_job(now: float) -> str:
    """The name of a job: when it was sent (Unix seconds) and 128 random bits."""
    return f"{int(now)}-{secrets.token_hex(16)}"


def reply_key(job: str, prefix: str = PREFIX) -> str:
    """Under which the answer of a job is put."""
    return f"{prefix}:{job}"


def review_sent(store: Store, artefact: Mapping[str, Any], sender: str) -> dict[str, Any]:
    """The review of one sent artefact, as told to programs. Claude reads it where a key is set and the day has room.

    `sender` names the person or the token, as limits count them, whose share of the day's dollars pays for it.

    Nobody is known to have written it, so the cost gate asks as for somebody without trust.
    """
    sent = Artefact(
        artefact["diff"].encode(), artefact["title"], artefact["description"], tuple(artefact["discussion"])
    )
    ledger = ledger_from_settings(store, sender)
    reviewer = reviewer_from_settings(ledger, time.sleep) if settings.ANTHROPIC_API_KEY else None
    review, findings = review_artefact(sent, Knowledge(sensitive_paths=tuple(settings.SENSITIVE_PATHS)), reviewer)
    usage = None if review.usage is None else asdict(review.usage)
    cost = {"dollars": review.dollars, "model": review.model, "tokens": usage}
    return {**told(review, findings), "verdict": review.state, "missing": review.reason, "cost": cost}


def drop_old_replies(huey: Huey, now: float) -> None:
    """Forget answers of an hour ago: they quote what was sent, or say what somebody owns."""
    for key in huey.all_results():
        prefix, _, job = str(key).partition(":")
        sent_at = job.partition("-")[0]
        if prefix in (PREFIX, FOUND) and sent_at.isdigit() and now - int(sent_at) > KEPT_SECONDS:
            huey.delete(key)
