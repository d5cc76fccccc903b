"""`GET /approved.json`: what is approved and not merged yet, for whoever merges it."""

from datetime import UTC, datetime

from django.http import HttpRequest
from ninja import Router, Schema

from ingest.snapshot import Snapshot
from scoring import read
from scoring.read import Approved
from triage.problems import ApiProblem
from triage.schemas import ProblemOut

router = Router()
RETRY_SECONDS = 5


class ApprovedOut(Schema):
    """One approval in force: exactly this round of this pull request, and no other, was approved."""

    pull_request: str
    title: str
    repository: str
    repository_name: str
    target_branch: str | None
    author: str
    state: str
    record_cid: str | None
    round: int
    patch_ref: str | None
    patch_id: str | None
    approved_by: str
    approved_at: datetime


class ApprovedListOut(Schema):
    """Approvals in force, oldest first."""

    snapshot: int
    approved: list[ApprovedOut]


@router.get(
    "/approved.json",
    response={200: ApprovedListOut, **dict.fromkeys((401, 500, 503), ProblemOut)},
    summary="What is approved and not merged yet",
    operation_id="get_approved",
)
def get_approved(request: HttpRequest) -> ApprovedListOut:
    """Each names the record, the round and the patch that were approved; what changed since is not among them.

    `state` is "merged" where the forge says so and the patch was not seen on the target branch yet.
    """
    snapshot: Snapshot | None = getattr(request, "snapshot", None)
    if snapshot is None:
        raise ApiProblem(503, "Nothing was published yet; try again shortly.", {"Retry-After": str(RETRY_SECONDS)})
    found = [approved_out(one) for one in read.approved(snapshot)]
    return ApprovedListOut(snapshot=snapshot.number, approved=found)


def approved_out(one: Approved) -> ApprovedOut:
    """One approval as JSON."""
    subject = one.subject
    return ApprovedOut(
        pull_request=subject.uri,
        title=subject.title,
        repository=subject.repository_key,
        repository_name=subject.repository_name,
        target_branch=subject.target_branch,
        author=subject.author.did,
        state=subject.state,
        record_cid=subject.seen.record_cid,
        round=subject.seen.round,
        patch_ref=subject.patch_ref,
        patch_id=subject.seen.patch_id,
        approved_by=one.approver.did,
        approved_at=one.approved_at.replace(tzinfo=UTC),
    )
