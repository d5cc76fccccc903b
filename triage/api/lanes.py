"""The fast lane of each repository: on what it is open, or why it is shut."""

from datetime import UTC, datetime

from ninja import Field, Router
from pydantic import BaseModel

from scoring.formatting import visible_name
from scoring.queries import read
from scoring.queries.read import Basis
from triage.access.permissions import sees_thresholds
from triage.access.requests import Request
from triage.access.sign_in import viewing
from triage.access.tokens import held_to
from triage.api.base import RepositoryReader, problems, published
from triage.api.schemas import Count, Share, rounded
from triage.context import present
from triage.presenters.lane_heads import lane_states

router = Router(tags=["site"])


class BadShareOut(BaseModel):
    """The 95 % interval of the share of bad ones among past pull requests that a lane would have let through."""

    low: Share = Field(description="Lower end, in [0, 1].")
    high: Share = Field(description="Upper end, in [0, 1]: once it is open, the lane shuts itself above this.")


class LaneOut(BaseModel):
    """The fast lane of one repository, as its newest decisions were made."""

    repository: str = Field(description="Key of the repository.")
    repository_name: str = Field(description="Its name, as in /queue; escape it where shown.")
    state: Basis = Field(
        description="certified: a certificate holds. estimated: a maintainer opened it on past outcomes, or could, and "
        "nothing is certified. by_hand: the operator set the threshold. shut: nothing is let through."
    )
    shadow: bool = Field(
        description="The lane is shut and only watched: state is what it would be, and nothing is let through."
    )
    threshold: Share | None = Field(
        description="Chance to stay clean from which it lets through; null: it is shut, or you do not maintain it."
    )
    bad: BadShareOut | None = Field(
        description="The estimate on which the lane was or can be opened; null where it is not estimated."
    )
    since: datetime | None = Field(
        description="When the certificate was made, the lane was opened or was shut; RFC 3339, UTC; null where unknown."
    )
    reason: str | None = Field(
        description="Why it is shut, as a code that never changes its meaning; null: it is open."
    )
    notice: str = Field(description="The same in a sentence; empty where a certificate holds.")
    audited: Count | None = Field(description="Answers of the audit since an estimated lane was opened; else null.")
    audited_bad: Count | None = Field(description="Answers among them that say no: not merged as sent; else null.")


class LanesStateOut(BaseModel):
    """Every watched repository that has something open."""

    lanes: list[LaneOut]
    snapshot: int = Field(ge=0, description="Number of the snapshot that everything here was read from.", examples=[42])


@router.get(
    "/lanes",
    response={200: LanesStateOut, 304: None, **problems(401, 403, 500, 503)},
    summary="The fast lane of each repository",
    operation_id="get_lanes",
    auth=RepositoryReader(),
)
def get_lanes(request: Request) -> LanesStateOut:
    """On what the fast lane of each watched repository with something open rests, or why it is shut.

    A lane that a person shut only watches at once; one that a person opened opens with the next decisions. What
    people closed by hand since is in `/queue` and on the page. A token for one repository gets its lane alone.
    """
    snapshot = published(request)
    roles, only = viewing(request), held_to(request)
    opened = {one.repository: one for one in read.estimated_lanes(snapshot, present(snapshot))}
    found = [one for one in lane_states(snapshot) if not only or one.repository == only]
    names = read.repository_names(snapshot)
    return LanesStateOut(
        lanes=[
            _out(one, names.get(one.repository, ""), opened.get(one.repository), sees_thresholds(roles, one.repository))
            for one in found
        ],
        snapshot=snapshot.number,
    )


def _out(state: read.LaneState, name: str, opened: read.EstimatedLane | None, exact: bool) -> LaneOut:
    return LaneOut(
        repository=state.repository,
        repository_name=visible_name(name),
        state=state.basis,
        shadow=state.shadow,
        threshold=state.t_high if exact else None,
        bad=BadShareOut(low=rounded(state.bad[0]), high=rounded(state.bad[1])) if state.bad else None,
        since=state.since.replace(tzinfo=UTC) if state.since else None,
        reason=state.because or None,
        notice=state.notice if exact else state.plain,
        audited=opened.audited if opened else None,
        audited_bad=opened.audited_bad if opened else None,
    )
