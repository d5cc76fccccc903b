"""Operations on contributors: their scores, and why the seeds trust them."""

import threading
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Literal

from django.http import HttpResponse
from ninja import Field, Router, Schema
from ninja.params.functions import Body, Path, Query

from ingest.store.snapshots import PerSnapshot, Snapshot
from scoring.config.policy import policy_from_settings
from scoring.queries import read
from triage.access.permissions import sees_thresholds
from triage.access.problems import ApiProblem
from triage.access.requests import Request
from triage.access.sign_in import person_of, viewing
from triage.api.base import (
    RepositoryReader,
    answer_bytes,
    check_reach_of,
    problems,
    published,
    read_did,
    unknown_repository,
)
from triage.api.schemas import EXAMPLE_DID, ScoreOut, TrustOut, score_out, trust_out
from triage.services.audit import hiding_audits

ABOUT_REPO = (
    "Judge from this watched repository's seeds: its DID, the at-uri of its record, or owner/name. "
    "Without it the site's seeds judge."
)
MOST_DIDS = 100
MOST_KEPT = 20_000  # answers of one snapshot: about 2 kB each
_waiting: set[tuple[object, str]] = set()  # for one score each, with what else the answers have to share
_turn, _turn_ended = threading.Lock(), threading.Condition()
router = Router(tags=["people"])
Did = Annotated[str, Path(description="DID of the contributor.", example=EXAMPLE_DID)]
Repo = Annotated[str | None, Query(description=ABOUT_REPO, max_length=2048, example="tangled.sh/core")]
_written = PerSnapshot[bytes](MOST_KEPT)


class ScoresIn(Schema):
    """The contributors to judge, and the repository whose seeds count."""

    dids: list[str] = Field(
        description=f"One to {MOST_DIDS} DIDs.", min_length=1, max_length=MOST_DIDS, examples=[[EXAMPLE_DID]]
    )
    repo: Annotated[str, Field(max_length=2048)] | None = Field(None, description=ABOUT_REPO)
    briefing: bool = Field(False, description="True adds what is read aloud of each.")


class UnknownOut(Schema):
    """An entry without a score."""

    did: str = Field(description="The entry as it was sent, or its DID.")
    code: Literal["malformed_did", "unknown_contributor"] = Field(description="The same for programs.")
    why: str = Field(description="Why there is no score, in one sentence.")


class ScoresOut(Schema):
    """The scores of those who are known, and the entries without one, each in the order asked for."""

    scores: list[ScoreOut]
    unknown: list[UnknownOut]


@router.get(
    "/score/{did}",
    response={200: ScoreOut, 304: None, **problems(401, 403, 404, 422, 500, 503)},
    summary="How one contributor is judged",
    operation_id="get_score",
    auth=RepositoryReader(),
)
def get_score(
    request: Request,
    did: Did,
    repo: Repo = None,
    briefing: Annotated[bool, Query(description="1 adds what is read aloud of it.", example="1")] = False,
    as_of: Annotated[
        datetime | None, Query(description="Use the newest score from before this time; RFC 3339.")
    ] = None,
) -> HttpResponse | ScoreOut:
    """The chance that the contributor's next change is clean, the lane that follows, and why."""
    person = read_did(did)
    check_reach_of(request, repo)
    hidden = _hidden(request, [person])
    snapshot = published(request, hidden, by_viewer=False)
    if as_of is not None:
        return _score_at(snapshot, person, repo or None, as_of, hidden)
    if hidden:
        body = _write_scores(snapshot, [person], hidden, repo or None, briefing).get(person)
    else:
        body = _write_together(snapshot, person, repo or None, briefing)
    if body is None:
        (missing,) = _explain_missing(snapshot, {person: None}, repo or None)
        raise ApiProblem(404, missing.why, code=missing.code)
    return answer_bytes(request, body)


@router.post(
    "/score",
    response={200: ScoresOut, **problems(400, 401, 403, 404, 413, 415, 422, 500, 503)},
    summary=f"How up to {MOST_DIDS} contributors are judged",
    operation_id="get_scores",
    auth=RepositoryReader(),
)
def get_scores(request: Request, asked: Annotated[ScoresIn, Body()]) -> HttpResponse:
    """The same for many at once; an entry that is not a DID, unknown or hidden gets a reason instead of a score."""
    check_reach_of(request, asked.repo)
    people: dict[str, ApiProblem | None] = {}
    for item in asked.dids:
        try:
            people[read_did(item)] = None
        except ApiProblem as problem:
            people[item.encode(errors="replace").decode()] = problem  # half of a surrogate pair is no UTF-8
    snapshot = published(request, by_viewer=False)
    dids = [did for did, problem in people.items() if not problem]
    bodies = _write_scores(snapshot, dids, _hidden(request, people), asked.repo or None, asked.briefing)
    missing = {did: problem for did, problem in people.items() if did not in bodies}
    unknown = _explain_missing(snapshot, missing, asked.repo or None)
    unknown_json = b",".join(item.model_dump_json().encode() for item in unknown)
    return answer_bytes(request, b'{"scores":[%b],"unknown":[%b]}' % (b",".join(bodies.values()), unknown_json))


@router.get(
    "/trust/{did}",
    response={200: TrustOut, 304: None, **problems(401, 403, 404, 422, 500, 503)},
    summary="Why the seeds trust one contributor",
    operation_id="get_trust",
    auth=RepositoryReader(),
)
def get_trust(request: Request, did: Did, repo: Repo = None) -> TrustOut:
    """Up to three independent paths, what they hang on, what each voucher brings, and who hangs on this person."""
    person = read_did(did)
    check_reach_of(request, repo)
    snapshot = published(request)
    if hidden := read.hidden_because(snapshot, person):
        detail = f"The account {person[:200]} {hidden}, so it is hidden for now."
        raise ApiProblem(404, detail, code="unknown_contributor")
    explanation = read.explain_trust(snapshot, person, repo or None, policy_from_settings())
    if explanation is None:
        (missing,) = _explain_missing(snapshot, {person: None}, repo or None)
        raise ApiProblem(404, missing.why, code=missing.code)
    return trust_out(explanation, sees_thresholds(viewing(request)))


def _hidden(request: Request, dids: Collection[str]) -> dict[str, read.DueAudit]:
    """Return which of these people's chances are hidden from this viewer, each with its audit."""
    return hiding_audits(request.snapshot, person_of(request), dids) if request.snapshot else {}


def _write_together(snapshot: Snapshot, person: str, repo: str | None, briefing: bool) -> bytes | None:
    """Return the JSON of one score, read by one statement with those that other requests wait for; None without one.

    A statement about one person takes .5 ms and one about eight 1 ms, and threads that each run their own take the
    interpreter from each other: 210 scores in the time of 450. Databases call this group commit.
    """
    way, own = (snapshot.number, snapshot.published_at, repo, briefing), (person, repo, briefing)
    if (body := _written.peek(snapshot, own)) is not None:
        return body
    _waiting.add((way, person))
    with _turn_ended:
        ended = _turn_ended.wait_for(lambda: _written.peek(snapshot, own) or _turn.acquire(blocking=False))
    try:
        if isinstance(ended, bytes):
            return ended
        people = list({person} | {other for other_way, other in _waiting.copy() if other_way == way})
        try:
            return _write_scores(snapshot, people, {}, repo, briefing).get(person)
        except Exception:  # any kind of error: it may be about another one of them
            if len(people) == 1:
                raise
            return _write_scores(snapshot, [person], {}, repo, briefing).get(person)
    finally:
        _waiting.discard((way, person))
        if ended is True:
            with _turn_ended:
                _turn.release()
                _turn_ended.notify_all()


def _write_scores(
    snapshot: Snapshot, people: Sequence[str], hidden: Mapping[str, read.DueAudit], repo: str | None, briefing: bool
) -> dict[str, bytes]:
    """Return the JSON of those of these people who have a score, in their order.

    It is written once for a snapshot, except where the chance is `hidden`, which depends on the viewer.
    """
    cached = {did: None if did in hidden else _written.peek(snapshot, (did, repo, briefing)) for did in people}
    bodies = {did: body for did, body in cached.items() if body is not None}
    missing = [did for did in people if did not in bodies]
    for did, score in read.scores(snapshot, missing, repo).items() if missing else ():
        shown = read.hide_score(score, hidden[did]) if did in hidden else score
        bodies[did] = score_out(shown, briefing).model_dump_json().encode()
        if did not in hidden:
            _written.keep(snapshot, (did, repo, briefing), bodies[did])
    return {did: bodies[did] for did in people if did in bodies}


def _explain_missing(
    snapshot: Snapshot, missing: Mapping[str, ApiProblem | None], repo: str | None
) -> list[UnknownOut]:
    """Return why these people have no score; `missing` holds the problem of an entry that is not a DID.

    Raises ApiProblem 404 where no watched repository has this name.
    """
    if missing and repo and read.repository_key(snapshot, repo) is None:
        raise unknown_repository(repo, "leave repo out for the site's seeds")
    hidden = read.hidden_among(snapshot, [did for did, problem in missing.items() if not problem])
    return [
        UnknownOut(did=did, code="malformed_did", why=problem.detail)
        if problem
        else UnknownOut(did=did, code="unknown_contributor", why=_missing_words(did, hidden.get(did)))
        for did, problem in missing.items()
    ]


def _missing_words(did: str, hidden: str | None) -> str:
    if hidden:
        return f"The account {did[:200]} {hidden}, so it is not judged for now."
    return f"Nobody with the DID {did[:200]} has been seen here."


def _score_at(
    snapshot: Snapshot, did: str, repo: str | None, moment: datetime, hidden: Mapping[str, read.DueAudit]
) -> ScoreOut:
    score = read.score_at(snapshot, did, _in_utc(moment), repo)
    if score is None:
        raise ApiProblem(404, f"No score of {did[:200]} from before that moment is kept here.", code="no_earlier_score")
    return score_out(read.hide_score(score, hidden[did]) if did in hidden else score)


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
    except OverflowError as problem:  # the first and last hours of a datetime, in another zone
        raise ApiProblem(422, "as_of must be a time in the years 1 to 9999 in UTC.") from problem
