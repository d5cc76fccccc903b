"""JSON for programs. Every operation reads what a page reads, through `scoring.read`, from the request's snapshot."""

import logging
import time
from typing import Annotated, Any, cast

from django.conf import settings
from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.http import Http404, HttpRequest, HttpResponse
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, ValidationError
from ninja.openapi.schema import OpenAPISchema
from ninja.params.functions import Path, Query
from ninja.security import HttpBearer

from ingest.snapshot import Snapshot
from scoring import read
from scoring.policy import policy_from_settings
from triage import gauges
from triage.access import may_read, viewing
from triage.context import dashboard_of, told_dashboard, worker_status
from triage.dids import MalformedDid, parse_did
from triage.middleware import Request
from triage.permissions import SignInNeeded, sees_thresholds
from triage.problems import CHALLENGE, HOW_TO_READ, ApiProblem, mark_private, problem_response
from triage.schemas import (
    EXAMPLE_DID,
    MetricsOut,
    ProblemOut,
    ScoreOut,
    TrustOut,
    leaderboard_out,
    metrics_out,
    score_out,
    trust_out,
)

ABOUT_REPO = (
    "Judge from this watched repository's seeds: its DID, the at-uri of its record, or owner/name. "
    "Without it the site's seeds judge."
)
RETRY_SECONDS = 5  # the worker publishes at most every 2 s once there is something
logger = logging.getLogger(__name__)


class Reader(HttpBearer):
    """Whoever may read pages may read JSON: a signed-in person, a token with scope read, anybody under PUBLIC_READ."""

    def __call__(self, request: HttpRequest) -> bool | None:
        """True where reading is allowed; None is django-ninja's word for 401."""
        return may_read(cast(Request, request)) or None

    def authenticate(self, request: HttpRequest, token: str) -> None:
        """Unused: `may_read` looks at the header itself, for pages and JSON alike."""


class Api(NinjaAPI):
    """django-ninja with our headers on every answer and problem details for every error."""

    def create_response(self, request: HttpRequest, data: object, **how: Any) -> HttpResponse:
        """An answer that no cache gives to another viewer."""
        response = super().create_response(request, data, **how)
        mark_private(response)
        return response

    def get_openapi_schema(self, **how: Any) -> OpenAPISchema:
        """The document, with the media type that errors really have."""
        document = super().get_openapi_schema(**how)
        operations = (operation for path in document["paths"].values() for operation in path.values())
        for operation in operations:
            for status, answer in operation["responses"].items():
                if int(status) >= 400:
                    answer["content"] = {"application/problem+json": answer["content"]["application/json"]}
        return document


api = Api(
    title="Sunstead",
    version="1",
    description="How likely the next contribution of a person is clean, as judged from a repository's seeds, and why.",
    docs_url=None,
    openapi_url="openapi.json",
    auth=Reader(),
)


def answer_problem(request: HttpRequest, exc: Exception | type[Exception]) -> HttpResponse:
    """Any exception as problem details; what is nobody's fault but ours is logged and says nothing of its inside."""
    return problem_response(_as_problem(exc))


for _kind in (ApiProblem, PermissionDenied, HttpError, ValidationError, Http404, Exception):
    api.add_exception_handler(_kind, answer_problem)


def _as_problem(exc: Exception | type[Exception]) -> ApiProblem:
    match exc:
        case ApiProblem():
            return exc
        case AuthenticationError() | SignInNeeded():
            return ApiProblem(401, HOW_TO_READ, CHALLENGE)
        case PermissionDenied():
            return ApiProblem(403, str(exc) or "This is not yours to see or do.")
        case HttpError():
            return ApiProblem(exc.status_code, str(exc))
        case ValidationError():
            said = (f"{error['loc'][-1]}: {error['msg']}" for error in exc.errors)
            return ApiProblem(422, "; ".join(said) + ".")
        case RequestDataTooBig():
            return ApiProblem(413, f"A body may have {settings.DATA_UPLOAD_MAX_MEMORY_SIZE:,} bytes at most.")
        case Http404():
            return ApiProblem(404, "There is nothing at this address.")
    logger.error("The API failed.", exc_info=True)
    return ApiProblem(500, "This is a fault of the site, not of the request; it was logged.")


@api.get(
    "/score/{did}",
    response={200: ScoreOut, **dict.fromkeys((401, 404, 422, 500, 503), ProblemOut)},
    summary="How one contributor is judged",
    operation_id="get_score",
)
def get_score(
    request: Request,
    did: Annotated[str, Path(description="DID of the contributor.", example=EXAMPLE_DID)],
    repo: Annotated[str | None, Query(description=ABOUT_REPO, max_length=2048, example="tangled.sh/core")] = None,
    briefing: Annotated[bool, Query(description="1 adds what is read aloud of it.", example="1")] = False,
) -> ScoreOut:
    """The chance that the contributor's next change is clean, the lane that follows, and why."""
    person = _did(did)
    snapshot = _published(request)
    score = read.score(snapshot, person, repo or None)
    if score is not None:
        return score_out(score, briefing)
    if hidden := read.hidden_because(snapshot, person):
        raise ApiProblem(404, f"The account {person[:200]} {hidden}, so it is not judged here meanwhile.")
    if repo and read.score(snapshot, person) is not None:
        raise ApiProblem(404, f"No watched repository is called {repo[:200]!r}; leave repo out for the site's seeds.")
    raise ApiProblem(404, f"Nobody with the DID {person[:200]} has been seen here.")


@api.get(
    "/trust/{did}",
    response={200: TrustOut, **dict.fromkeys((401, 404, 422, 500, 503), ProblemOut)},
    summary="Why the seeds trust one contributor",
    operation_id="get_trust",
)
def get_trust(
    request: Request,
    did: Annotated[str, Path(description="DID of the contributor.", example=EXAMPLE_DID)],
    repo: Annotated[str | None, Query(description=ABOUT_REPO, max_length=2048, example="tangled.sh/core")] = None,
) -> TrustOut:
    """Up to three ways that share nobody, what they hang on, what each voucher brings, and who hangs on this person."""
    person = _did(did)
    snapshot = _published(request)
    if hidden := read.hidden_because(snapshot, person):
        raise ApiProblem(404, f"The account {person[:200]} {hidden}, so nothing is told of it meanwhile.")
    found = read.explain_trust(snapshot, person, repo or None, policy_from_settings())
    if found is None:
        raise ApiProblem(
            404, f"Nobody with the DID {person[:200]} was seen here, or no watched repository is so called."
        )
    return trust_out(found, sees_thresholds(viewing(request)))


@api.get(
    "/metrics",
    response={200: MetricsOut, **dict.fromkeys((401, 500, 503), ProblemOut)},
    summary="Aggregates over everything",
    operation_id="get_metrics",
)
def get_metrics(request: Request) -> MetricsOut | HttpResponse:
    """The numbers of the dashboard as JSON; as gauges for Prometheus, which ranks text/plain above JSON."""
    if request.get_preferred_type(["application/json", *gauges.MEDIA]) in gauges.MEDIA:
        return _gauges(request)
    snapshot = _published(request)
    return metrics_out(told_dashboard(request, snapshot), snapshot.number, snapshot.published_at)


def _gauges(request: Request) -> HttpResponse:
    """What is known, also before anything was published: that is when somebody wants to know whether a worker runs."""
    snapshot = request.snapshot
    board, published_at = (dashboard_of(snapshot), snapshot.published_at) if snapshot else (None, None)
    told = gauges.exposition(board, published_at, worker_status(), time.time(), settings.STREAM_CLOCK)
    response = HttpResponse(told, content_type=f"{gauges.MEDIA[0]}; charset=utf-8")
    mark_private(response)
    return response


api.add_router("/review", "triage.review_api.router")
api.add_router("", "triage.approved_api.router")


def leaderboard_json(leaderboard: read.Leaderboard) -> dict[str, Any]:
    """A page of the leaderboard as JSON-ready values, for the address that people and programs share."""
    return leaderboard_out(leaderboard).model_dump(mode="json")


def _published(request: Request) -> Snapshot:
    if request.snapshot is None:
        raise ApiProblem(503, "Nothing was published yet; try again shortly.", {"Retry-After": str(RETRY_SECONDS)})
    return request.snapshot


def _did(text: str) -> str:
    try:
        return parse_did(text)
    except MalformedDid as problem:
        raise ApiProblem(422, str(problem)) from problem
