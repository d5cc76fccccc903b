"""Operations on contributors: their scores, and why the seeds trust them.

Scores requested while one is being read are read by the next statement together. A DuckDB statement about one person
takes .4 ms and one about eight 1 ms, and each lets other threads run 15 times. Databases call this group commit.
"""

import threading
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Generic, Literal, TypeVar

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
from triage.api.schemas import EXAMPLE_DID, PersonOut, ScoreOut, TrustOut, person_out, score_out, trust_out
from triage.presenters import lists as as_shown
from triage.services.audit import hiding_audits

MOST = 100  # in one look-up, as in `POST /score`
Value = TypeVar("Value")
ABOUT_REPO = (
    "Judge from this watched repository's seeds: its DID, the at-uri of its record, or owner/name. "
    "Without it the site's seeds judge."
)
MOST_DIDS = 100
MOST_KEPT = 20_000  # answers of one snapshot: about 2 kB each
MOST_ALIKE = 2_000
router = Router(tags=["people"])
Did = Annotated[str, Path(description="DID of the contributor.", example=EXAMPLE_DID)]
Repo = Annotated[str | None, Query(description=ABOUT_REPO, max_length=2048, example="tangled.sh/core")]
_written = PerSnapshot[bytes](MOST_KEPT)
_rest_cache = PerSnapshot[bytes](MOST_ALIKE)  # the JSON after did and handle


@dataclass(slots=True, eq=False)
class _Batch(Generic[Value]):
    keys: list[str] = field(default_factory=list)
    done: threading.Event = field(default_factory=threading.Event)
    found: Mapping[str, Value] | None = None


class Gathering(Generic[Value]):
    """Combines look-ups of several threads into one, for equal `way`s."""

    def __init__(self) -> None:
        self._open: dict[Hashable, _Batch[Value]] = {}
        self._lock = threading.Lock()
        self._turn = threading.Lock()

    def ask(self, way: Hashable, key: str, look_up: Callable[[Sequence[str]], Mapping[str, Value]]) -> Value | None:
        """Return the value that `look_up` finds under `key`, None where there is none.

        `way`: callers with equal ways may share one `look_up`, which must not call `ask` itself. Where a shared look-up
        fails, each caller repeats it alone, so that each gets only its own errors.
        """
        batch, is_leader = self._join(way, key)
        if is_leader:
            self._lead(way, batch, look_up)
        else:
            batch.done.wait()
        values = look_up([key]) if batch.found is None else batch.found
        return values.get(key)

    def _join(self, way: Hashable, key: str) -> tuple[_Batch[Value], bool]:
        """Return the batch that takes the key, and whether the key is its first."""
        with self._lock:
            batch = self._open.get(way)
            if batch is None or len(batch.keys) >= MOST:
                batch = self._open[way] = _Batch()
            batch.keys.append(key)
            return batch, len(batch.keys) == 1

    def _lead(
        self, way: Hashable, batch: _Batch[Value], look_up: Callable[[Sequence[str]], Mapping[str, Value]]
    ) -> None:
        """Look up the batch once the present look-up is done; later callers join it until then."""
        try:
            with self._turn:
                with self._lock:
                    if self._open.get(way) is batch:
                        del self._open[way]
                batch.found = look_up(list(dict.fromkeys(batch.keys)))
        except Exception:  # any kind of error: it may be about another caller's key
            if len(batch.keys) == 1:
                raise
        finally:
            batch.done.set()


_gathering = Gathering[bytes]()


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
    if hidden and (body := _hidden_bodies(snapshot, hidden, repo or None, briefing).get(person)):
        return answer_bytes(request, body)
    return answer_bytes(request, _one(snapshot, person, repo or None, briefing))


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
    bodies = _read_bodies(
        snapshot, [did for did, problem in people.items() if not problem], asked.repo or None, asked.briefing
    )
    hidden = _hidden(request, bodies)
    bodies |= _hidden_bodies(snapshot, hidden, asked.repo or None, asked.briefing) if hidden else {}
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
        raise ApiProblem(404, f"The account {person[:200]} {hidden}, so it is hidden for now.")
    explanation = read.explain_trust(snapshot, person, repo or None, policy_from_settings())
    if explanation is None:
        raise ApiProblem(
            404, f"Nobody with the DID {person[:200]} was seen here, or no watched repository has this name."
        )
    return trust_out(explanation, sees_thresholds(viewing(request)))


def _hidden(request: Request, dids: Collection[str]) -> dict[str, read.DueAudit]:
    """Return which of these people's chances are hidden from this viewer, each with its audit."""
    return hiding_audits(request.snapshot, person_of(request), dids) if request.snapshot else {}


def _hidden_bodies(
    snapshot: Snapshot, hidden: Mapping[str, read.DueAudit], repo: str | None, briefing: bool
) -> dict[str, bytes]:
    """Return the JSON of people whose chance is hidden; it depends on the viewer, so it is not cached."""
    scores = as_shown.scores(snapshot, list(hidden), hidden, repo)
    return {did: _body(snapshot, score, briefing) for did, score in scores.items()}


def _one(snapshot: Snapshot, person: str, repo: str | None, briefing: bool) -> bytes:
    """Return the JSON of one score, looked up together with simultaneous requests; ApiProblem 404 without one."""
    body = _written.peek(snapshot, (person, repo, briefing))
    if body is None:
        way = (snapshot.number, snapshot.published_at, repo, briefing)
        body = _gathering.ask(way, person, lambda people: _write(snapshot, people, repo, briefing))
    if body is None:
        told = _explain_missing(snapshot, {person: None}, repo)[0]
        raise ApiProblem(404, told.why, code=told.code)
    return body


def _read_bodies(snapshot: Snapshot, people: list[str], repo: str | None, briefing: bool) -> dict[str, bytes]:
    """Return the JSON of those of these people who have a score, in their order, built once for a snapshot."""
    bodies = {did: body for did in people if (body := _written.peek(snapshot, (did, repo, briefing)))}
    if missing := [did for did in people if did not in bodies]:
        bodies |= _write(snapshot, missing, repo, briefing)
    return {did: bodies[did] for did in people if did in bodies}


def _write(snapshot: Snapshot, people: Sequence[str], repo: str | None, briefing: bool) -> dict[str, bytes]:
    """Return the JSON of these people's scores, and cache it."""
    bodies = {did: _body(snapshot, score, briefing) for did, score in read.scores(snapshot, people, repo).items()}
    for did, body in bodies.items():
        _written.keep(snapshot, (did, repo, briefing), body)
    return bodies


def _body(snapshot: Snapshot, score: read.ContributorScore, briefing: bool) -> bytes:
    """Return the JSON of one score, identical to the byte whether or not it comes from the cache of equal scores."""
    if score.likeness is None:
        return score_out(score, briefing).model_dump_json().encode()
    rest = _rest_cache.get(snapshot, (score.likeness, briefing), lambda: _rest(score, briefing))
    return person_out(score.person).model_dump_json().encode()[:-1] + b"," + rest


def _rest(score: read.ContributorScore, briefing: bool) -> bytes:
    return score_out(score, briefing).model_dump_json(exclude=set(PersonOut.model_fields)).encode()[1:]


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
    score = as_shown.score_at(snapshot, did, _in_utc(moment), hidden, repo)
    if score is None:
        raise ApiProblem(404, f"No score of {did[:200]} from before that moment is kept here.", code="no_earlier_score")
    return score_out(score)


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
    except OverflowError as problem:  # the first and last hours of a datetime, in another zone
        raise ApiProblem(422, "as_of must be a time in the years 1 to 9999 in UTC.") from problem
