"""Reviews diffs that are sent to the API, and answers under a name that only their sender has.

The worker reviews a diff as it would a pull request's, without an author and without a store.
"""

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from django.conf import settings
from huey import Huey

from ingest.git.apply_check import compare_with_git
from ingest.git.patches import unpack
from ingest.store.database import Store
from scoring.diff.parser import DEFAULT_LIMITS, compared, read_bytes
from scoring.review.cost_gate import Call
from scoring.review.deterministic import review_without_model
from scoring.review.payload import Case
from scoring.review.reviewer import Reviewer
from scoring.review.schema import Review
from scoring.review.settings import ledger_from_settings, reviewer_from_settings
from scoring.review.store import finding_json
from scoring.scanners.run import examine
from scoring.scanners.submission import Knowledge, Submission
from scoring.types import Finding


@dataclass(frozen=True, slots=True)
class Artefact:
    """A patch to review: its bytes, gzipped or not, and the words beside it."""

    diff: bytes
    title: str = ""
    description: str = ""
    discussion: tuple[str, ...] = ()

    def submission(self, knowledge: Knowledge) -> Submission:
        """As the scanners are given it; who speaks in a discussion is not asked."""
        discussion = tuple((f"reviewer-{number}", text) for number, text in enumerate(self.discussion, 1))
        text, is_whole, _ = unpack(self.diff, DEFAULT_LIMITS.size)
        change = read_bytes(self.diff)
        change = compared(change, compare_with_git(text), text.decode("utf-8", "replace")) if is_whole else change
        return Submission(change, self.title, self.description, discussion, knowledge)


def review_artefact(
    artefact: Artefact, knowledge: Knowledge, reviewer: Reviewer | None = None
) -> tuple[Review, tuple[Finding, ...]]:
    """The review and the findings, strongest first; by the scanners alone where there is no `reviewer`."""
    submission = artefact.submission(knowledge)
    examined = examine(submission)
    if reviewer is None:
        return review_without_model(submission.change, examined.findings, examined.unfinished), examined.findings
    return reviewer.review(Case.of(submission, examined.findings), Call.CLAUDE, examined.unfinished), examined.findings


def told(review: Review, findings: Sequence[Finding]) -> dict[str, Any]:
    """Return what programs are told: the schema's object, and findings, coverage and reviewer beside it."""
    shown_fields = ("scanner", "severity", "file", "line", "quote", "explanation")
    return {
        **review.assessment.model_dump(mode="json"),
        "findings": [{name: finding_json(finding)[name] for name in shown_fields} for finding in findings],
        "coverage": review.coverage,
        "reviewer": review.reviewer,
    }


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
    patch = Artefact(
        artefact["diff"].encode(), artefact["title"], artefact["description"], tuple(artefact["discussion"])
    )
    ledger = ledger_from_settings(store, sender)
    reviewer = reviewer_from_settings(ledger, time.sleep) if settings.ANTHROPIC_API_KEY else None
    review, findings = review_artefact(patch, Knowledge(sensitive_paths=tuple(settings.SENSITIVE_PATHS)), reviewer)
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
