"""`GET /briefing`: the morning in sentences to be read aloud, for maintainers."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated

from django.utils import timezone
from ninja import Field, Router, Schema

from ingest.store.snapshots import Snapshot
from triage.access.permissions import Role, Roles
from triage.access.problems import ApiProblem
from triage.access.requests import Request
from triage.access.sign_in import person_of, viewing
from triage.access.tokens import held_to
from triage.api.base import RepositoryFilter, RepositoryReader, check_reach, problems, published, repository_key
from triage.context import current_freshness, present
from triage.presenters.briefing import MOST_SECONDS, NEW, Line, read_morning, speech_seconds, write_lines, write_ssml

router = Router(tags=["site"])
EXAMPLES = ["In the inbox: 3 flagged, 41 to review and 12 in the fast lane.", "2 random audits are due."]
Sentence = Annotated[str, Field(max_length=300)]


class BriefingOut(Schema):
    """The morning as the pages show it to the caller, in counts, ages and names of repositories."""

    sentences: list[Sentence] = Field(
        min_length=1,
        max_length=10,
        description="Read one after the other; without words of others.",
        examples=[EXAMPLES],
    )
    ssml: str = Field(max_length=6_000, description="The same as SSML 1.1.", examples=["<speak>…</speak>"])
    seconds: float = Field(ge=0, le=MOST_SECONDS, description="At most so long, at 170 words a minute.")
    new_since: datetime = Field(
        description="From when on a pull request counts as new: the caller's last visit to the page, else a day ago; "
        "RFC 3339, UTC."
    )
    snapshot: int = Field(ge=0, description="Number of the snapshot that everything here was read from.", examples=[42])


def briefing_lines(
    snapshot: Snapshot, roles: Roles, repository: str, visited: datetime | None, clock: datetime
) -> tuple[Line, ...]:
    """Return the sentences for a maintainer: of one repository by its key, or of all with "".

    `visited` and `clock` are of the wall clock; a recording has its own.
    """
    now = present(snapshot)
    since = None if visited is None else now - max(clock - visited, timedelta())
    is_stale = current_freshness(snapshot).tone == "stopped"
    return write_lines(read_morning(snapshot, roles, repository, now, since, is_stale))


@router.get(
    "/briefing",
    response={200: BriefingOut, 304: None, **problems(401, 403, 404, 422, 500, 503)},
    summary="The morning, to be read aloud",
    operation_id="get_briefing",
    auth=RepositoryReader(),
)
def get_briefing(request: Request, repository: RepositoryFilter = "") -> BriefingOut:
    """Return at most 90 seconds of speech at 170 words a minute: how many are in each lane, what is new since the
    caller's last visit, what waits longest, audits due, lanes that are shut, incidents.

    Titles, names of people and other words of strangers are not in it. For maintainers; a browser is shown the page. A
    token for one repository is told of that one alone.
    """
    if viewing(request).highest() < Role.MAINTAINER:
        raise ApiProblem(403, "The briefing is for maintainers; ask one of them to make you one.")
    clock, person = timezone.now(), person_of(request)
    visited = person.last_visit(clock) if person else None
    minute = int(clock.timestamp() // 60)  # ages move with the clock
    snapshot = published(request, minute, visited)
    key = repository_key(snapshot, repository) if repository else held_to(request)
    check_reach(request, key)
    said = [line.said for line in briefing_lines(snapshot, viewing(request), key, visited, clock)]
    return briefing_out(said, visited or clock - NEW, snapshot.number)


def briefing_out(said: Sequence[str], since: datetime, number: int) -> BriefingOut:
    """Return the answer of these sentences."""
    return BriefingOut(
        sentences=list(said),
        ssml=write_ssml(said),
        seconds=round(speech_seconds(said), 1),
        new_since=since.astimezone(UTC),
        snapshot=number,
    )
