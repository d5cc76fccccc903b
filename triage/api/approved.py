"""`GET /approved.json`: what is approved and not merged yet, for whoever merges it."""

from datetime import UTC, datetime

from ninja import Field, Router, Schema

from scoring.queries import read
from scoring.queries.read import Approved
from triage.access.requests import Request
from triage.access.tokens import held_to
from triage.api.base import RepositoryReader, problems, published
from triage.api.schemas import EXAMPLE_DID

router = Router(tags=["pull requests"])


class ApprovedOut(Schema):
    """One approval in force: exactly this round of this pull request, and no other, was approved."""

    pull_request: str = Field(description="at-uri of its record.")
    title: str = Field(description="Title, as its author wrote it; escape it where shown.")
    repository: str = Field(description="Key of the repository.")
    repository_name: str = Field(description="Name of the repository.")
    target_branch: str | None = Field(description="Branch that it wants to change; null: the record names none.")
    author: str = Field(description="DID of the author.", examples=[EXAMPLE_DID])
    state: str = Field(description="State on the forge: open or merged.", examples=["open"])
    record_cid: str | None = Field(description="CID of the record that was approved.")
    round: int = Field(ge=1, description="The round that was approved, from 1 as on the pages.", examples=[1])
    patch_ref: str | None = Field(description="Name of its patch; null: none is known.")
    patch_id: str | None = Field(description="Hash of the patch that was approved; null: it was not read.")
    approved_by: str = Field(description="DID of who approved it.", examples=[EXAMPLE_DID])
    approved_at: datetime = Field(description="When it took effect; RFC 3339, UTC.")


class ApprovedListOut(Schema):
    """Approvals in force, oldest first."""

    snapshot: int = Field(ge=0, description="Number of the snapshot that everything here was read from.", examples=[42])
    approved: list[ApprovedOut]


@router.get(
    "/approved.json",
    response={200: ApprovedListOut, 304: None, **problems(401, 500, 503)},
    summary="Approved pull requests that are not merged yet",
    operation_id="get_approved",
    auth=RepositoryReader(),
)
def get_approved(request: Request) -> ApprovedListOut:
    """Each names the record, the round and the patch that were approved; what changed since is not among them.

    `state` is "merged" where the forge says so and the patch was not seen on the target branch yet. A token for one
    repository gets that one's.
    """
    snapshot = published(request)
    held = held_to(request)
    found = [approved_out(one) for one in read.approved(snapshot) if held in ("", one.subject.repository_key)]
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
        round=subject.seen.round + 1,
        patch_ref=subject.patch_ref,
        patch_id=subject.seen.patch_id,
        approved_by=one.approver.did,
        approved_at=one.approved_at.replace(tzinfo=UTC),
    )
