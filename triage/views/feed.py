"""The Atom feed of a token: feed readers send no header, so the address itself is the secret."""

import time

from django.conf import settings
from django.http import Http404, HttpResponse
from django.utils import timezone
from django.utils.cache import get_conditional_response
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe

from ingest.store.snapshots import Snapshot
from scoring.queries import read
from scoring.queries.read import QueueQuery
from triage.access import throttle
from triage.access.permissions import roles_of
from triage.access.problems import mark_private
from triage.access.requests import Request
from triage.access.tokens import counted_as, find_token
from triage.context import digest, page_state
from triage.forms.filters import read_queue
from triage.models import ApiToken
from triage.presenters import feed, row_actions

ATOM = "application/atom+xml; charset=utf-8"
PURPOSE = "feed"
SUFFIX = ".atom"
RETRY_SECONDS = 5


@csrf_exempt  # what changes nothing needs no form; a refusal would log the address
def atom_feed(request: Request, name: str) -> HttpResponse:
    """<token>.atom: open pull requests and what happened to the lane, for a token with scope read; 304 where held."""
    request.path = request.path_info = "/feed/"  # what Django logs of a request that it refuses holds no secret
    return _feed(request, name)


@require_safe
def _feed(request: Request, name: str) -> HttpResponse:
    address, now = request.META.get("REMOTE_ADDR", ""), time.time()
    if wait := throttle.seconds_to_wait(PURPOSE, address, now):
        return _unreferred(HttpResponse(status=429, headers={"Retry-After": str(wait)}))
    token, kind = name[: -len(SUFFIX)], name[-len(SUFFIX) :]
    found = find_token(token, "read", timezone.now()) if kind == SUFFIX else None
    if found is None:
        throttle.count_failure(PURPOSE, address, now)
        raise Http404
    if throttle.count("api", counted_as(found), throttle.MINUTE, now) > settings.API_REQUESTS_A_MINUTE:
        wait = throttle.seconds_left(throttle.MINUTE, now)
        return _unreferred(HttpResponse(status=429, headers={"Retry-After": str(wait)}))
    if request.snapshot is None:
        return _unreferred(HttpResponse(status=503, headers={"Retry-After": str(RETRY_SECONDS)}))
    request.roles = roles_of(found.person)
    return _unreferred(_answer(request, request.snapshot, found))


def _answer(request: Request, snapshot: Snapshot, token: ApiToken) -> HttpResponse:
    """The feed, narrowed by `?repository=`, `?q=` and `?mine=1`; a token for one repository gets that one's alone."""
    filters, held = read_queue(request.GET), str(token.repo_key)
    named = read.repository_key(snapshot, filters.repository) if filters.repository else held
    if named is None or held not in ("", named):
        raise Http404("This feed has no such repository.")
    now, origin = timezone.now(), request.build_absolute_uri("/")
    only = row_actions.mine(token.person, snapshot) if filters.mine else None
    query = QueueQuery(repository=named, text=filters.text, only=only)
    tag = f'W/"{digest((page_state(request, snapshot), now.date(), origin, query))}"'
    response = get_conditional_response(request, etag=tag)
    if response is None:
        told = feed.entries(snapshot, request.roles, now, query)
        response = HttpResponse(feed.written(told, request.build_absolute_uri), content_type=ATOM)
    response["ETag"] = tag
    return response


def _unreferred(response: HttpResponse) -> HttpResponse:
    """The response, whose address no other page, no search engine and no shared cache is told."""
    response["Referrer-Policy"] = "no-referrer"
    response["X-Robots-Tag"] = "noindex"
    mark_private(response)
    return response
