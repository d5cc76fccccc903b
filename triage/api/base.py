"""The common parts of every operation: access, snapshot, 304s, problem details, bodies, paging and limits.

Bodies are JSON in UTF-8 that says it is JSON, of a size that its address needs. A list goes on at an opaque word that
survives what comes and goes between two pages.

Limits for one caller are throttles of django-ninja: fixed windows, counted in Django's cache. django-ninja's own
SimpleRateThrottle keeps the times of all requests of a window: 50 µs a request at 1,200 a minute, where a count takes
9, and one object holds them for all threads.
"""

import json
import logging
import re
import sqlite3
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import wraps
from typing import Annotated, Any, cast, get_args, get_type_hints

import msgspec
from django.conf import settings
from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.cache import get_conditional_response
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, Throttled, ValidationError
from ninja.openapi.schema import OpenAPISchema
from ninja.params.functions import Query
from ninja.params.models import Query as QueryParam
from ninja.parser import Parser
from ninja.security import HttpBearer
from ninja.throttling import BaseThrottle

from ingest.atproto.syntax import MalformedDid, parse_did, parse_handle
from ingest.store.snapshots import Snapshot
from scoring.formatting import visible
from scoring.queries import read
from triage.access import throttle
from triage.access.permissions import SignInNeeded, is_invited
from triage.access.problems import CHALLENGE, HOW_TO_READ, NOTHING, ApiProblem, mark_private, problem_response
from triage.access.requests import Request
from triage.access.sign_in import may_read, too_many, turned_away
from triage.access.tokens import bearer_secret, counted_as, held_to, token_of
from triage.api.schemas import EXAMPLE_DID, ProblemOut
from triage.context import digest, page_state
from triage.forms.filters import TEXT_LIMIT, URI_LIMIT
from triage.middleware import QUEUELESS, UNREADABLE, leave_damaged

SMALL = 65_536  # bytes: 100 DIDs take 4 kB, those of did:web some more
LIMITS = {"/score": SMALL, "/pulls": SMALL}  # elsewhere Django's own limit holds, DATA_UPLOAD_MAX_MEMORY_SIZE
NO_JSON = "The body must be JSON in UTF-8, with finite numbers of at most 4,300 digits and no deep nesting."


class StrictParser(Parser):
    """JSON as RFC 8259 has it; django-ninja wraps what this raises, and `triage.api.base` takes it out again."""

    def parse_body(self, request: HttpRequest) -> Any:
        """The value; ApiProblem 400, 413 or 415."""
        if request.content_type != "application/json":
            raise ApiProblem(415, "Send Content-Type: application/json.")
        limit = LIMITS.get(request.path_info)
        if limit and len(request.body) > limit:
            raise too_large(limit)
        try:
            return json.loads(request.body.decode(), parse_constant=_refuse)
        except (ValueError, RecursionError) as problem:
            raise ApiProblem(400, NO_JSON) from problem


def too_large(limit: int) -> ApiProblem:
    """413, which names the limit."""
    return ApiProblem(413, f"A body may have {limit:,} bytes at most.")


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not a number in JSON")


LONGEST_NAME = 100  # characters of a name that a caller sends, as it is compared and told
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
    """Whoever may read pages may read JSON: a person with a role, a token that reads all, anybody under PUBLIC_READ."""

    def __call__(self, request: HttpRequest) -> bool:
        """True where reading is allowed; else ApiProblem 401, 403 or 429.

        A wrong token without a session is refused also where anybody may read: a program is to learn that it ended.
        """
        asked = cast(Request, request)
        is_wrong = bool(bearer_secret(asked)) and token_of(asked) is None and not is_invited(asked)
        if is_wrong or not self.allows(asked):
            raise turned_away(asked)
        return True

    def allows(self, request: Request) -> bool:
        """Return whether this request may be answered."""
        return may_read(request)

    def authenticate(self, request: HttpRequest, token: str) -> None:
        """Unused: `may_read` looks at the header itself, for pages and JSON alike."""


class RepositoryReader(Reader):
    """The same, and tokens for one repository: for operations that ask `held_to` what they may tell."""

    def allows(self, request: Request) -> bool:
        """Return whether this request may be answered, in whole or for one repository."""
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
    raise unknown_repository(repository, "leave repository out for all")


def unknown_repository(name: str, otherwise: str) -> ApiProblem:
    """Build the problem of a name that no watched repository has, with the names that it could have."""
    forms = "Send OWNER/NAME, the repository's DID or the at-uri of its record"
    return ApiProblem(
        404, f"No watched repository is called {name[:200]!r}. {forms}, or {otherwise}.", code="unknown_repository"
    )


def refuse_unknown(operation: Callable[..., Any]) -> Callable[..., Any]:
    """Answer an operation's callers with ApiProblem 422 where they send a query parameter that it does not have.

    A mistyped filter would else be left out, and its answer read as if it were filtered.
    """
    hints = get_type_hints(operation, include_extras=True)
    known = sorted(
        name for name, hint in hints.items() if any(isinstance(one, QueryParam) for one in get_args(hint)[1:])
    )

    @wraps(operation)
    def answer(request: HttpRequest, *given: Any, **values: Any) -> Any:
        if unknown := sorted(request.GET.keys() - set(known)):
            raise _unknown_parameter(unknown[0], known)
        return operation(request, *given, **values)

    return answer


def _unknown_parameter(name: str, known: Sequence[str]) -> ApiProblem:
    if near := get_close_matches(name[:LONGEST_NAME], known, 1):
        hint = f"Did you mean {near[0]}?"
    else:
        hint = f"Known here: {', '.join(known)}." if known else "This address has none."
    return ApiProblem(422, f"There is no parameter “{visible(name[:LONGEST_NAME])}”. {hint}", code="unknown_parameter")


class NotChanged(Exception):
    """Raised when the caller already holds the answer."""

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
    if error["type"] == "missing" and place == "query":
        return f"Add the parameter {named} to the address, as in ?{named}=…"
    return f"{named or 'the body'} {wrong}"


LONGEST = 2_048  # characters; an at-uri has 300 or so


class MalformedCursor(ValueError):
    """No cursor of ours; the message is a sentence for who sent it."""


def write_cursor(last: str, told: int) -> str:
    """The word after an item."""
    return urlsafe_b64encode(msgspec.json.encode([last, told])).decode().rstrip("=")


def first_after(items: Sequence[str], cursor: str) -> int:
    """Return where in `items` the page after `cursor` begins ("": at the first); MalformedCursor where it is none.

    Where its item stands now, whatever came before it meanwhile; where it is gone, after as many as were told.
    """
    if not cursor:
        return 0
    last, told = _read(cursor)
    try:
        return items.index(last) + 1
    except ValueError:
        return min(told, len(items))


def _read(cursor: str) -> tuple[str, int]:
    try:
        raw = urlsafe_b64decode(cursor[:LONGEST] + "=" * (-len(cursor) % 4))
        last, told = msgspec.json.decode(raw, type=tuple[str, int])
    except (ValueError, RecursionError) as problem:
        raise MalformedCursor("This cursor is not valid. Take it from `next` of the previous page.") from problem
    if told < 0:
        raise MalformedCursor("This cursor is not valid. Take it from `next` of the previous page.")
    return last, told


def caller(request: Request) -> tuple[str, bool]:
    """Return who is counted and whether they are known: the person, else the token, else the network address.

    A person's tokens count with their pages, so that making and revoking tokens begins no new count. Whoever has no
    role counts by address: anybody can sign in with any number of accounts.

    The address is the server's word. X-Forwarded-For is never read: waitress puts a trusted proxy's into REMOTE_ADDR.
    """
    if is_invited(request):
        return f"person:{request.user.pk}", True
    if (token := token_of(request)) is not None:
        return counted_as(token), True
    return throttle.network_of(request.META.get("REMOTE_ADDR", "")), False


class Requests(BaseThrottle):
    """API_REQUESTS_A_MINUTE of a person or a lone token, API_ANONYMOUS_A_MINUTE of an address, each `times` over."""

    def __init__(self, purpose: str = "api", times: int = 1) -> None:
        self.purpose = purpose
        self.times = times

    def allow_request(self, request: HttpRequest) -> bool:
        whom, known = caller(cast(Request, request))
        limit = settings.API_REQUESTS_A_MINUTE if known else settings.API_ANONYMOUS_A_MINUTE
        return throttle.count(self.purpose, whom, throttle.MINUTE, time.time()) <= limit * self.times

    def wait(self) -> float:
        return throttle.seconds_left(throttle.MINUTE, time.time())


class Reviews(BaseThrottle):
    """REVIEWS_AN_HOUR of a person or a lone token: each may cost money."""

    def allow_request(self, request: HttpRequest) -> bool:
        whom, _ = caller(cast(Request, request))
        return throttle.count("review", whom, throttle.HOUR, time.time()) <= settings.REVIEWS_AN_HOUR

    def wait(self) -> float:
        return throttle.seconds_left(throttle.HOUR, time.time())
