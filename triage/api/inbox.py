"""`GET /inbox`: the inbox in brief, and the repositories to which it belongs, for programs beside the forge's pages."""

from datetime import timedelta

from django.utils import timezone
from ninja import Field, Router, Schema

from scoring.formatting import visible_name
from scoring.queries import read
from scoring.queries.read import QueueQuery, RepositoryHome
from triage.access.requests import Request
from triage.access.tokens import held_to
from triage.api.base import RepositoryReader, problems, published
from triage.api.pulls import PullOut, pulls_out
from triage.api.schemas import EXAMPLE_DID, Count, LanesOut
from triage.context import present
from triage.presenters.queue import queue as as_shown
from triage.presenters.queue import row_actions

router = Router(tags=["pull requests"])
NEW = timedelta(hours=24)


class WatchedOut(Schema):
    """One watched repository, by all that its address on the forge can begin with."""

    repository: str = Field(description="Key of the repository.")
    name: str = Field(description="Its name, as in its address; escape it where shown.")
    owner: str | None = Field(description="DID of its owner; null: unknown.", examples=[EXAMPLE_DID])
    handle: str | None = Field(description="Verified handle of its owner; null: none is verified.")


class InboxOut(Schema):
    """The inbox in brief."""

    lanes: LanesOut = Field(description="Pull requests in it by lane, as at the head of the page.")
    new: Count = Field(description="Those that came within 24 hours, approved ones too.")
    oldest: PullOut | None = Field(description="The one that waits longest; null: none waits.")
    repositories: list[WatchedOut] = Field(description="The watched repositories, by name.")
    only: str | None = Field(description="Key of the one repository that the token reads; null: it reads all.")
    snapshot: int = Field(ge=0, description="Number of the snapshot that everything here was read from.", examples=[42])


@router.get(
    "/inbox",
    response={200: InboxOut, 304: None, **problems(401, 403, 500, 503)},
    summary="The inbox in brief, and which repositories are watched",
    operation_id="get_inbox",
    auth=RepositoryReader(),
)
def get_inbox(request: Request) -> InboxOut:
    """Counts by lane and what waits longest, without those by people with push access, and what is watched.

    A token for one repository gets its part. Ages move with the clock, so there is a new answer each minute.
    """
    snapshot = published(request, int(present(request.snapshot).timestamp() // 60) if request.snapshot else 0)
    held = held_to(request)
    query = QueueQuery(repository=held)
    oldest = as_shown.longest_waiting(snapshot, query)
    return InboxOut(
        lanes=LanesOut(**row_actions.lane_counts(query, snapshot, timezone.now())),
        new=read.opened_since(snapshot, present(snapshot) - NEW, as_shown.as_it_stands(snapshot, query)),
        oldest=pulls_out(request, snapshot, [oldest])[0] if oldest else None,
        repositories=[_watched_out(home) for home in read.repository_homes(snapshot) if held in ("", home.key)],
        only=held or None,
        snapshot=snapshot.number,
    )


def _watched_out(home: RepositoryHome) -> WatchedOut:
    name = visible_name(home.name or "")
    return WatchedOut(repository=home.key, name=name, owner=home.owner, handle=home.handle)
