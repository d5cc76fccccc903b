"""Reviews patches that are sent to the API and puts each answer under a key that only its sender has.

The worker reviews such a patch like a pull request's, without an author and without a store.
"""

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from django.conf import settings
from huey import Huey

from ingest.git.apply_check import compare_with_git
from ingest.git.patch import unpack
from ingest.store.database import Store
from scoring.diff.parser import DEFAULT_LIMITS, apply_git_reading, read_bytes
from scoring.review.costs import Call
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
class SentPatch:
    """A patch to review: its bytes, gzipped or not, and the words beside it."""

    diff: bytes
    title: str = ""
    description: str = ""
    discussion: tuple[str, ...] = ()

    def submission(self, knowledge: Knowledge) -> Submission:
        """Return the patch as scanners take it; speakers of the discussion are numbered."""
        discussion = tuple((f"reviewer-{number}", text) for number, text in enumerate(self.discussion, 1))
        text, is_whole, _ = unpack(self.diff, DEFAULT_LIMITS.size)
        change = read_bytes(self.diff)
        change = (
            apply_git_reading(change, compare_with_git(text), text.decode("utf-8", "replace")) if is_whole else change
        )
        return Submission(change, self.title, self.description, discussion, knowledge)


def review_patch(
    artefact: SentPatch, knowledge: Knowledge, reviewer: Reviewer | None = None
) -> tuple[Review, tuple[Finding, ...]]:
    """Return the review and the findings, strongest first; without a `reviewer` the scanners decide alone."""
    submission = artefact.submission(knowledge)
    examined = examine(submission)
    if reviewer is None:
        return review_without_model(submission.change, examined.findings, examined.unfinished), examined.findings
    return reviewer.review(Case.of(submission, examined.findings), Call.CLAUDE, examined.unfinished), examined.findings


def review_json(review: Review, findings: Sequence[Finding]) -> dict[str, Any]:
    """Return the review as JSON for programs: the assessment with findings, coverage and reviewer."""
    shown_fields = ("scanner", "severity", "file", "line", "quote", "explanation")
    return {
        **review.assessment.model_dump(mode="json"),
        "findings": [{name: finding_json(finding)[name] for name in shown_fields} for finding in findings],
        "coverage": review.coverage,
        "reviewer": review.reviewer,
    }


PREFIX = "review"
LOOKED_UP = "found"  # prefix of look-ups for /setup
KEPT_SECONDS = 3600
MOST_WAITING = 50  # patches of at most 1 MB, kept in memory
# Placeholders for an answer. A restart of the worker empties the queue and these with it.
WAITING: Mapping[str, Any] = {"state": "waiting"}
BUSY: Mapping[str, Any] = {"state": "busy"}
FAILED: Mapping[str, Any] = {"state": "failed"}


def new_job(now: float) -> str:
    """Return the name of a new job: the Unix seconds of its arrival and 128 random bits."""
    return f"{int(now)}-{secrets.token_hex(16)}"


def reply_key(job: str, prefix: str = PREFIX) -> str:
    return f"{prefix}:{job}"


def review_sent(store: Store, artefact: Mapping[str, Any], sender: str) -> dict[str, Any]:
    """Review one sent patch and return the JSON. Claude reads it if a key is set and the day's budget allows.

    `sender` is the person or the token, as limits count them, who pays from their share of the day's dollars. The
    author is unknown, so the cost gate treats the patch as one by somebody without trust.
    """
    patch = SentPatch(
        artefact["diff"].encode(), artefact["title"], artefact["description"], tuple(artefact["discussion"])
    )
    ledger = ledger_from_settings(store, sender)
    reviewer = reviewer_from_settings(ledger, time.sleep) if settings.ANTHROPIC_API_KEY else None
    review, findings = review_patch(patch, Knowledge(sensitive_paths=tuple(settings.SENSITIVE_PATHS)), reviewer)
    usage = None if review.usage is None else asdict(review.usage)
    cost = {"dollars": review.dollars, "model": review.model, "tokens": usage}
    return {**review_json(review, findings), "verdict": review.state, "missing": review.reason, "cost": cost}


def drop_old_replies(huey: Huey, now: float) -> None:
    """Delete answers older than KEPT_SECONDS: they quote the sent patch, or list what somebody owns."""
    for key in huey.all_results():
        prefix, _, job = str(key).partition(":")
        sent_at = job.partition("-")[0]
        if prefix in (PREFIX, LOOKED_UP) and sent_at.isdigit() and now - int(sent_at) > KEPT_SECONDS:
            huey.delete(key)
