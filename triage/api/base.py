"""What every operation shares: who may read, the snapshot that answers, 304s, and problem details."""

import logging
import sqlite3
from collections.abc import Sequence
from typing import Any, cast

from django.conf import settings
from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.cache import get_conditional_response
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, Throttled, ValidationError
from ninja.openapi.schema import OpenAPISchema
from ninja.security import HttpBearer

from ingest.snapshot import Snapshot
from scoring import read
from triage.access import may_read
from triage.api.bodies import too_large
from triage.api.schemas import ProblemOut
from triage.dids import MalformedDid, parse_did
from triage.middleware import QUEUELESS, UNREADABLE, Request, leave_damaged
from triage.page_state import digest, page_state
from triage.permissions import SignInNeeded
from triage.problems import CHALLENGE, HOW_TO_READ, NOTHING, ApiProblem, mark_private, problem_response
from triage.token_access import held_to
from triage.turning_away import too_many, turned_away

RETRY_SECONDS = 5  # the worker publishes at most every 2 s once there is something
JSON = "application/json; charset=utf-8"
OTHER_REPOSITORY = "This token reads one repository alone: name that one in repo (in /queue: repository)."
PROBLEM = {"$ref": "#/components/schemas/ProblemOut"}
logger = logging.getLogger(__name__)


def problems(*statuses: int) -> dict[int, type[ProblemOut]]:
    """The `response` entries of the errors that an operation can answer: these, and 429, which any can."""
    return dict.fromkeys(sorted({*statuses, 429}), ProblemOut)


class Reader(HttpBearer):
    """Whoever may read pages may read JSON: a signed-in person, a token that reads all, anybody under PUBLIC_READ."""

    def __call__(self, request: HttpRequest) -> bool:
        """True where reading is allowed; else ApiProblem 401, 403 or 429."""
        if not self.allows(cast(Request, request)):
            raise turned_away(cast(Request, request))
        return True

    def allows(self, request: Request) -> bool:
        """Whether this request may be answered."""
        return may_read(request)

    def authenticate(self, request: HttpRequest, token: str) -> None:
        """Unused: `may_read` looks at the header itself, for pages and JSON alike."""


class RepositoryReader(Reader):
    """The same, and tokens for one repository: for operations that ask `held_to` what they may tell."""

    def allows(self, request: Request) -> bool:
        """Whether this request may be answered, in whole or for one repository."""
        return may_read(request) or bool(held_to(request))


def check_reach(request: Request, repo_key: str | None) -> None:
    """ApiProblem 403 where a token for one repository asks about another, or about the site; in one sentence for both.

    `repo_key`: the key of the repository that is asked about; None or "" for the site, or for one that nobody watches.
    """
    if (held := held_to(request)) and repo_key != held:
        raise ApiProblem(403, OTHER_REPOSITORY, code="one_repository")


def check_reach_of(request: Request, repo: str | None) -> None:
    """The same for a repository in any of its names."""
    if held_to(request) and request.snapshot is not None:
        check_reach(request, read.repository_key(request.snapshot, repo) if repo else None)


class NotChanged(Exception):
    """Who asks holds what they would be answered."""

    def __init__(self, response: HttpResponse) -> None:
        super().__init__("not changed")
        self.response = response


class Api(NinjaAPI):
    """django-ninja with our headers on every answer and problem details for every error."""

    def create_response(self, request: HttpRequest, data: object, **how: Any) -> HttpResponse:
        """An answer that no cache gives to another viewer, with the tag under which it may be held."""
        return marked(request, super().create_response(request, data, **how))

    def get_openapi_schema(self, **how: Any) -> OpenAPISchema:
        """The document, with the media type that errors really have."""
        document = super().get_openapi_schema(**how)
        operations = (operation for path in document["paths"].values() for operation in path.values())
        for operation in operations:
            for status, answer in operation["responses"].items():
                told = answer.get("content", {}).get("application/json", {})
                if int(status) >= 400 and told.get("schema") == PROBLEM:
                    answer["content"] = {"application/problem+json": answer["content"]["application/json"]}
        return document


def published(request: Request, *parts: object, by_viewer: bool = True) -> Snapshot:
    """The snapshot that answers; 304 where the answer is already held, 503 before there is one.

    The tag stands for the snapshot, the address, `parts` and, with `by_viewer`, who asks and what people did since. An
    answer to a POST has none.
    """
    snapshot = request.snapshot
    if snapshot is None:
        raise ApiProblem(503, "Nothing was published yet; try again shortly.", {"Retry-After": str(RETRY_SECONDS)})
    if request.method not in ("GET", "HEAD"):  # its answer depends on the body, which no tag here stands for
        return snapshot
    state = page_state(request, snapshot) if by_viewer else (snapshot.number, snapshot.published_at)
    asked = (request.get_full_path(), request.headers.get("Accept"), held_to(request))
    tag = f'"{digest((state, asked, parts))}"'
    request.answer_tag = tag
    held = get_conditional_response(request, etag=tag)
    if held is not None:
        raise NotChanged(held)
    return snapshot


def marked(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    """The response with the headers that every answer carries."""
    mark_private(response)
    response["Content-Security-Policy"] = NOTHING
    tag = getattr(request, "answer_tag", None)
    if tag and response.status_code in (200, 304):
        response["ETag"] = tag
    return response


def answer_bytes(request: Request, body: bytes) -> HttpResponse:
    """JSON that is written already."""
    return marked(request, HttpResponse(body, content_type=JSON))


def read_did(text: str) -> str:
    """The DID in a path or body; 422 where it is none."""
    try:
        return parse_did(text)
    except MalformedDid as problem:
        raise ApiProblem(422, str(problem), code="malformed_did") from problem


def answer_problem(request: HttpRequest, exc: Exception | type[Exception]) -> HttpResponse:
    """Any exception as problem details; what is nobody's fault but ours is logged and says nothing of its inside."""
    if isinstance(exc, NotChanged):
        return marked(request, exc.response)
    if isinstance(exc, Exception) and leave_damaged(request, exc):
        return problem_response(ApiProblem(503, UNREADABLE.strip(), {"Retry-After": str(RETRY_SECONDS)}))
    if isinstance(exc, sqlite3.DatabaseError):  # not Django's, so it is of the queue's file
        logger.error("The queue cannot be used: %s", exc)
        return problem_response(ApiProblem(503, QUEUELESS.strip(), {"Retry-After": str(RETRY_SECONDS)}))
    return problem_response(_as_problem(exc))


HANDLED: Sequence[type[Exception]] = (
    *(NotChanged, ApiProblem, PermissionDenied, HttpError, ValidationError, Http404, Exception),
)


def _as_problem(exc: Exception | type[Exception]) -> ApiProblem:
    match exc:
        case ApiProblem():
            return exc
        case AuthenticationError() | SignInNeeded():
            return ApiProblem(401, HOW_TO_READ, CHALLENGE)
        case PermissionDenied():
            return ApiProblem(403, str(exc) or "This is not yours to see or do.")
        case Throttled():
            return too_many(exc.wait or 1)
        case HttpError() if isinstance(exc.__cause__, ApiProblem):
            return exc.__cause__
        case HttpError():
            return ApiProblem(exc.status_code, str(exc))
        case ValidationError():
            said = (f"{error['loc'][-1]}: {error['msg']}" for error in exc.errors)
            return ApiProblem(422, "; ".join(said) + ".")
        case RequestDataTooBig():
            return too_large(settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
        case Http404():
            return ApiProblem(404, "There is nothing at this address.")
    logger.error("The API failed.", exc_info=True)
    return ApiProblem(500, "This is a fault of the site, not of the request; it was logged.")
