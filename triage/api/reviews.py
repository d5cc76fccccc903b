"""POST /review/pr: a diff goes to the worker through the queue, and its review comes back, at once or by its job."""

import time
from typing import Annotated, Literal, cast

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest
from ninja import Router, Status
from ninja.params.functions import Body, Path
from ninja.security import HttpBearer
from ninja.utils import check_csrf

from ingest.worker.runtime import huey
from scoring.review.by_hand import BUSY, FAILED, KEPT_SECONDS, WAITING, new_job, reply_key
from scoring.tasks import review_by_hand
from triage.access.permissions import Role, roles_of
from triage.access.problems import HOW_TO_REVIEW, ApiProblem
from triage.access.requests import Request
from triage.access.sign_in import turned_away
from triage.access.tokens import bearer_token
from triage.api.base import Requests, Reviews, caller, problems
from triage.api.schemas import ArtefactIn, JobOut, ReviewOut
from triage.models import Person

STEP_SECONDS = 0.1
PROBLEMS = problems(401, 403, 404, 422, 500, 503)


class MayReview(HttpBearer):
    """Access for a signed-in maintainer with the page's CSRF token, and for a token with scope review."""

    def __call__(self, request: HttpRequest) -> bool:
        """Return True where reviewing is allowed; else raise ApiProblem 401, 403 or 429."""
        who = may_review(cast(Request, request))
        if who == "person" and request.method == "POST" and check_csrf(request) is not None:
            raise ApiProblem(403, "Send the page's CSRF token in X-CSRFToken, or use a token with scope review.")
        if who is None:
            raise turned_away(cast(Request, request), HOW_TO_REVIEW)
        return True

    def authenticate(self, request: HttpRequest, token: str) -> None:
        """Unused: `may_review` looks at the header itself."""


def may_review(request: Request) -> Literal["person", "token"] | None:
    """Return how the caller may request a review: as a signed-in maintainer or by a token with scope review.

    None: not at all.

    A person's token is valid for reviews while they maintain something.
    """
    token = bearer_token(request, "review")
    if token is not None and (token.person is None or _maintains(token.person)):
        return "token"
    return "person" if _maintains(request.user) else None


def _maintains(person: Person | AnonymousUser) -> bool:
    return roles_of(person).highest() >= Role.MAINTAINER


router = Router(auth=MayReview(), tags=["review"])


@router.post(
    "/pr",
    response={200: ReviewOut, 202: JobOut, **PROBLEMS, **problems(400, 413, 415)},
    summary="Review one change's content",
    operation_id="review_pr",
    throttle=[Requests(), Reviews()],
)
def review_pr(request: Request, artefact: Annotated[ArtefactIn, Body()]) -> Status:
    """Return what the scanners, and Claude where the site asks it, say of a diff; a body of at most 1 MB."""
    job = new_job(time.time())
    huey.put(reply_key(job), WAITING)
    review_by_hand(artefact.model_dump(), reply_key(job), caller(request)[0])
    deadline = time.monotonic() + settings.REVIEW_WAIT_SECONDS
    while (answer := _read_reply(job)) == WAITING and time.monotonic() < deadline:
        time.sleep(STEP_SECONDS)
    return _job_status(job, answer)


@router.get(
    "/pr/{job}",
    response={200: ReviewOut, 202: JobOut, **PROBLEMS},
    summary="The answer of a review that took longer",
    operation_id="get_review",
)
def get_review(
    request: Request, job: Annotated[str, Path(description="Name of the job.", pattern="^[0-9]{9,11}-[0-9a-f]{32}$")]
) -> Status:
    """The review, or 202 while it is under way; 404 an hour after it was sent, or after a new start of the worker."""
    is_kept = time.time() - int(job.partition("-")[0]) <= KEPT_SECONDS
    return _job_status(job, _read_reply(job) if is_kept else None)


def _read_reply(job: str) -> dict | None:
    return huey.get(reply_key(job), peek=True)


def _job_status(job: str, answer: dict | None) -> Status:
    if answer is None:
        raise ApiProblem(404, "This review is not stored, or the worker was restarted meanwhile; send the diff again.")
    if answer == BUSY:
        raise ApiProblem(503, "Too many diffs wait to be read; send this one again later.", {"Retry-After": "60"})
    if answer == FAILED:
        raise ApiProblem(500, "The review failed with a program error; see the worker's log.")
    return Status(202, {"job": job, "url": f"/review/pr/{job}"}) if answer == WAITING else Status(200, answer)
