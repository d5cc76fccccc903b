"""The Atom feed of a token: feed readers send no header, so the address itself is the secret."""

import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import islice

from django.conf import settings
from django.db.models import Q
from django.http import Http404, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.cache import get_conditional_response
from django.utils.feedgenerator import Atom1Feed, get_tag_uri
from django.utils.html import escape
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe

from ingest.store.snapshots import Snapshot
from scoring.formatting import visible, visible_name
from scoring.queries import read
from scoring.queries.read import QueueQuery, QueueRow
from triage.access import throttle
from triage.access.permissions import Role, Roles, roles_of
from triage.access.problems import mark_private
from triage.access.requests import Request
from triage.access.tokens import counted_as, find_token
from triage.context import digest, page_state
from triage.forms.filters import is_in_view, read_queue
from triage.models import Action, ApiToken, LaneClosure
from triage.presenters import queue as as_shown
from triage.presenters import row_actions
from triage.presenters.pills import row_pill
from triage.services import lane_closures
from triage.services import names as naming
from triage.services.lane_closures import BAD, opened_by

MOST_PULLS = 50
MOST_OTHERS = 50  # incidents, and as many closures
SPAN = timedelta(days=30)
OUTCOMES = {Action.Outcome.NEEDED_FIX: "needed a fix", Action.Outcome.REVERTED: "was reverted"}
_NO_XML = re.compile("[\ufffe\uffff]")  # all that XML refuses and `visible` leaves
EVERYTHING = QueueQuery()
Absolute = Callable[[str], str]  # the address of a path here
ATOM = "application/atom+xml; charset=utf-8"
PURPOSE = "feed"
SUFFIX = ".atom"
RETRY_SECONDS = 5


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry: `said` is plain text, `updated_at` is not before `made_at`; `key` tells apart what shares a path."""

    title: str
    path: str
    said: str
    made_at: datetime
    updated_at: datetime
    key: str = ""
    by: str = ""


def entries(snapshot: Snapshot, roles: Roles, now: datetime, query: QueueQuery = EVERYTHING) -> tuple[Entry, ...]:
    """All of them for somebody with these roles, the newest first; of closures and incidents those since `now` - 30 d.

    `query` narrows pull requests and incidents as it narrows the queue, and its repository closures too.

    What names a person as the reason of a closure, and every incident, is told to maintainers of its repository.
    """
    since = now - SPAN
    found = [
        *_pulls(snapshot, query),
        *_closures(snapshot, roles, since, query.repository),
        *_incidents(snapshot, roles, since, query),
    ]
    return tuple(sorted(found, key=lambda one: (one.updated_at, one.title), reverse=True))


def written(told: Iterable[Entry], absolute: Absolute) -> str:
    """The feed as Atom; it does not name its own address, which is a secret."""
    feed = Atom1Feed("Sunstead", absolute(reverse("queue")), "Open pull requests and changes of the fast lane.")
    for one in told:
        link = absolute(one.path)
        feed.add_item(
            title=_plain(one.title),
            link=link,
            description=f"<p>{escape(_plain(one.said))}</p>",
            author_name=_plain(one.by) or None,
            unique_id=get_tag_uri(f"{link}#{one.key}" if one.key else link, one.made_at),
            pubdate=one.made_at,
            updateddate=one.updated_at,
        )
    return feed.writeString("utf-8")


def _plain(text: str) -> str:
    """Text of others without anything that hides or that XML refuses."""
    return _NO_XML.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", visible(text))


def _pulls(snapshot: Snapshot, query: QueueQuery) -> list[Entry]:
    shown = as_shown.queue(snapshot, replace(query, sort="newest", size=MOST_PULLS))
    rows = sorted((row for group in shown.groups for row in group.rows), key=lambda row: row.opened_at, reverse=True)
    return [_pull(row) for row in rows[:MOST_PULLS]]


def _pull(row: QueueRow) -> Entry:
    opened, judged = (moment.replace(tzinfo=UTC) for moment in (row.opened_at, row.as_of))
    return Entry(
        title=f"{'By a maintainer' if row.own else row_pill(row).word} · {row.label}: {row.title}",
        path=reverse("pull", args=[row.uri]),
        said=f"{row.sentence}.",
        made_at=opened,
        # of what the audit drew nothing is told, nor when it was judged
        updated_at=opened if row.is_sealed else max(opened, judged),
        by=row.author.name,
    )


def _closures(snapshot: Snapshot, roles: Roles, since: datetime, only: str) -> Iterator[Entry]:
    known = LaneClosure.objects.select_related("person", "opened_by").filter(**_where(only)).order_by("-pk")
    recent = known.filter(
        Q(closed_at__gte=since) | Q(opened_at__gte=since), Q(author="", voucher="") | _maintained(roles)
    )
    found = list(recent[:MOST_OTHERS])
    names = naming.names(snapshot, (did for one in found for did in (one.author, one.voucher)))
    names |= read.repository_names(snapshot)
    for one in found:
        closed = f"{lane_closures.closure_words(lane_closures.as_closure(one, names), names)}."
        if one.closed_at >= since:
            yield _lane_entry(closed, one.because, one.closed_at, f"{one.key}-closed")
        if one.opened_at and one.opened_at >= since:
            by = visible_name(str(one.opened_by)) if one.opened_by else lane_closures.ERASED
            yield _lane_entry(f"{by} opened the fast lane again. {closed}", one.opened_because, one.opened_at, one.key)


def _where(only: str) -> dict[str, str]:
    """Return what chooses the rows of the one repository, so that others do not use up the room."""
    return {"repo_key": only} if only else {}


def _maintained(roles: Roles) -> Q:
    """Return what chooses the rows of repositories that they maintain: rows of others would use up the room."""
    keys = roles.keys(Role.MAINTAINER)
    return Q() if "" in keys else Q(repo_key__in=keys)


def _lane_entry(title: str, because: str, moment: datetime, key: str) -> Entry:
    return Entry(title, reverse("lane"), f"Because: {because}", moment, moment, key)


def _incidents(snapshot: Snapshot, roles: Roles, since: datetime, query: QueueQuery) -> Iterator[Entry]:
    bad = {"kind": Action.Kind.OUTCOME, "outcome__in": BAD, "undone_at": None, "made_at__gte": since}
    marks = Action.objects.filter(_maintained(roles), **bad, **_where(query.repository)).order_by("-pk").iterator()
    found = list(islice(((mark, path) for mark in marks if (path := opened_by(mark))), MOST_OTHERS))
    subjects = read.subjects(snapshot, [mark.pull_uri for mark, _ in found]) if found else {}
    for mark, path in found:
        subject = subjects.get(mark.pull_uri)
        if subject and subject.state == "merged" and is_in_view(subject, query):
            title = f"An approved pull request {OUTCOMES[mark.outcome]} in {subject.repository_name}: {subject.title}"
            said = "What was known then, what would have held it, and similar pull requests."
            yield Entry(title, path, said, mark.made_at, mark.made_at, by=subject.author.name)


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
        told = entries(snapshot, request.roles, now, query)
        response = HttpResponse(written(told, request.build_absolute_uri), content_type=ATOM)
    response["ETag"] = tag
    return response


def _unreferred(response: HttpResponse) -> HttpResponse:
    """The response, whose address no other page, no search engine and no shared cache is told."""
    response["Referrer-Policy"] = "no-referrer"
    response["X-Robots-Tag"] = "noindex"
    mark_private(response)
    return response
