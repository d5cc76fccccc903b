"""Read an assessment: the lane that one site of Sunstead gave one version of a pull request, told as a public record.

The record key is made from the pull request's address. So a site has one record for each pull request, and whoever
knows both addresses can fetch it without an index; a record under another key is not an assessment.
"""

import hashlib
import re
from base64 import b32encode
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ingest.records.fields import AT_URI, CID, DID, Unreadable, identifier, items, mapping, moment, text

NAME = "assessment"  # the last part of the collection's NSID
FIELDS = "subject patchId repo decision reasons policy evaluator uses outcome supersedes"
DECISIONS = frozenset({"fast_lane", "normal_queue", "needs_human", "withdrawn"})
CODE = re.compile(r"[a-z][a-z0-9_]{0,63}")
DIGEST = re.compile(r"[0-9a-f]{64}")
MOST_REASONS, MOST_USES = 20, 20


@dataclass(frozen=True, slots=True)
class Assessment:
    """The claims of one record; times are the author's own word.

    `uses` are assessments of other sites that it rests on. `certificate` names the file that certified the threshold of
    the lane by its SHA-256. `shadow`: the site only shows the lanes that it would give.
    """

    subject_uri: str
    subject_cid: str | None
    decision: str
    evaluator: str
    patch_id: str | None = None
    repository: str | None = None
    reasons: tuple[str, ...] = ()
    certificate: str | None = None
    budget: int | None = None  # permille of changes in the fast lane that may be bad
    shadow: bool = False
    uses: tuple[str, ...] = ()
    outcome: str | None = None
    decided_at: datetime | None = None  # when it was merged or closed
    created_at: datetime | None = None


def assessment_key(pull_uri: str) -> str:
    """Return the record key of every site's assessment of this pull request."""
    return b32encode(hashlib.sha256(pull_uri.encode()).digest()).decode().lower()[:26]


def read_assessment(record: Mapping[str, Any], rkey: str | None) -> Assessment:
    """Read an assessment; codes and references that are not readable are left out. Raises Unreadable."""
    subject, policy = mapping(record, "subject"), mapping(record, "policy")
    uri, decision, evaluator = identifier(AT_URI, subject.get("uri")), record.get("decision"), record.get("evaluator")
    if uri is None or rkey != assessment_key(uri):
        raise Unreadable("an assessment under another key than that of its pull request")
    if not isinstance(decision, str) or decision not in DECISIONS:
        raise Unreadable("an assessment without a readable decision")
    if not isinstance(evaluator, str) or not evaluator:
        raise Unreadable("an assessment that does not say what judged")
    budget, outcome = policy.get("budget"), mapping(record, "outcome")
    return Assessment(
        subject_uri=uri,
        subject_cid=identifier(CID, subject.get("cid")),
        decision=decision,
        evaluator=evaluator[:128],
        patch_id=text(record, "patchId", 64),
        repository=identifier(DID, record.get("repo")),
        reasons=tuple(code for item in items(record, "reasons")[:MOST_REASONS] if (code := identifier(CODE, item))),
        certificate=identifier(DIGEST, policy.get("certificate")),
        budget=budget if type(budget) is int and 0 <= budget <= 1000 else None,
        shadow=policy.get("shadow") is True,
        uses=tuple(
            used_uri
            for item in items(record, "uses")[:MOST_USES]
            if isinstance(item, dict) and (used_uri := identifier(AT_URI, item.get("uri")))
        ),
        outcome=state if (state := outcome.get("state")) in ("merged", "closed") else None,
        decided_at=moment(outcome, "at"),
        created_at=moment(record, "createdAt"),
    )
