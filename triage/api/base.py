"""What every operation shares: who may read, the snapshot that answers, 304s, and problem details."""

import logging
import re
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, cast

from django.conf import settings
from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.cache import get_conditional_response
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, Throttled, ValidationError
from ninja.openapi.schema import OpenAPISchema
from ninja.params.functions import Query
from ninja.security import HttpBearer

from ingest.snapshot import Snapshot
from scoring import read
from scoring.figures import visible
from triage.access import may_read
from triage.api.bodies import too_large
from triage.api.schemas import EXAMPLE_DID, ProblemOut
from triage.dids import MalformedDid, parse_did, parse_handle
from triage.forms import TEXT_LIMIT, URI_LIMIT
from triage.middleware import QUEUELESS, UNREADABLE, leave_damaged
from triage.page_state import digest, page_state
from triage.permissions import SignInNeeded
from triage.problems import CHALLENGE, HOW_TO_READ, NOTHING, ApiProblem, mark_private, problem_response
from triage.requests import Request
from triage.token_access import bearer_secret, held_to, token_of
from triage.turning_away import too_many, turned_away

RETRY_SECONDS = 5  # the worker publishes at most every 2 s once there is something
JSON = "application/json; charset=utf-8"
OTHER_REPOSITORY = "This token reads one repository only: name it in repo (in /queue: repository)."
PROBLEM = {"$ref": "#/components/schemas/ProblemOut"}
ABOUT_REPOSITORY = "A watched repository: its DID, the at-uri of its record, or owner/name; empty for all."
ABOUT_TEXT = "Words in title, repository or handle, or a DID."
RepositoryFilter = Annotated[str, Query(description=ABOUT_REPOSITORY, max_length=URI_LIMIT)]
TextFilter = Annotated[str, Query(description=ABOUT_TEXT, max_length=TEXT_LIMIT)]
ABOUT_MINE = "1: assigned to the token's person, approved by them, or changed after they approved it."
MineFilter = Annotated[bool, Query(description=ABOUT_MINE, example="1")]
# What is wrong with a value, by pydantic's name for it; the rest of what it may say is `INVALID`.
WRONG: Mapping[str, str] = {
    "missing": "is missing",
    "string_too_long": "may have {max_length:,} characters at most",
    "string_too_short": "needs {min_length:,} or more characters",
    "too_long": "may have {max_length:,} entries at most",
    "too_short": "needs {min_length:,} or more entries",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "int_parsing": "must be a whole number",
    "bool_parsing": "must be 1 or 0",
    "datetime_from_date_parsing": "must be a time such as 2026-11-20T12:00:00Z",
    "string_type": "must be text",
    "list_type": "must be a list",
    "extra_forbidden": "is not known here",
}
INVALID = "has a value that is not allowed"
logger = logging.getLogger(__name__)


def problems(*statuses: int) -> dict[int, type[ProblemOut]]:
    """The `response` entries of the errors that an operation can answer: these, and 429, which any can."""
    return dict.fromkeys(sorted({*statuses, 429}), ProblemOut)


class Reader(HttpBearer):
    """Whoever may read pages may read JSON: a signed-in person, a token that reads all, anybody under PUBLIC_READ."""

    def __call__(self, request: HttpRequest) -> bool:
        """True where reading is allowed; else ApiProblem 401, 403 or 429.

        A wrong token without a session is refused also where anybody may read: a program is to learn that it ended.
        """
        asked = cast(Request, request)
        is_wrong = bool(bearer_secret(asked)) and token_of(asked) is None and not asked.user.is_authenticated
        if is_wrong or not self.allows(asked):
            raise turned_away(asked)
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


def repository_key(snapshot: Snapshot, repository: str) -> str:
    """Return the key of a repository in any of its names; ApiProblem 404, since no rows would read as nothing to do."""
    if key := read.repository_key(snapshot, repository):
        return key
    detail = f"No watched repository is called {repository[:200]!r}; leave repository out for all."
    raise ApiProblem(404, detail, code="unknown_repository")


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
    tag = f'W/"{digest((state, asked, parts))}"'
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
    """Return the DID in a path or body; ApiProblem 422, which names what is none, and says so of a handle."""
    try:
        return parse_did(text)
    except MalformedDid as problem:
        said = "is a handle: send the DID of its account" if parse_handle(text) else "is not a DID"
        detail = f"“{visible(text[:100])}” {said}. A DID looks like {EXAMPLE_DID}."
        raise ApiProblem(422, detail, code="malformed_did") from problem


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
            return ApiProblem(403, str(exc) or "You don't have access.")
        case Throttled():
            return too_many(exc.wait or 1)
        case HttpError() if isinstance(exc.__cause__, ApiProblem):
            return exc.__cause__
        case HttpError():
            return ApiProblem(exc.status_code, str(exc))
        case ValidationError():
            return ApiProblem(422, "; ".join(map(_invalid, exc.errors)) + ".")
        case RequestDataTooBig():
            return too_large(settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
        case Http404():
            return ApiProblem(404, "There is nothing at this address.")
    logger.error("The API failed.", exc_info=True)
    return ApiProblem(500, "This is a fault of the site, not of the request; it was logged.")


def _invalid(error: Mapping[str, Any]) -> str:
    """Say what is wrong with one value of a request, such as "limit must be at most 100"."""
    place, *names = error["loc"]
    if place == "body":
        names = names[1:]  # the first is ours, of the whole body
    told = error.get("ctx", {})
    if error["type"] == "literal_error":
        *known, last = (word or "empty" for word in re.findall(r"'([^']*)'", told["expected"]))
        wrong = f"must be {', '.join(known)} or {last}"
    else:
        wrong = WRONG.get(error["type"], INVALID).format(**told)
    named = ", ".join(f"entry {name + 1}" if isinstance(name, int) else str(name) for name in names)
    return f"{named or 'the body'} {wrong}"
