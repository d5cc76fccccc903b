"""The Atom feed of a token: feed readers send no header, so the address itself is the secret."""

import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

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
from triage.presenters.queue import queue as as_shown
from triage.presenters.queue import row_actions
from triage.presenters.queue.pills import row_pill
from triage.services import lane_closures
from triage.services import names as naming
from triage.services.lane_closures import bad_marks, opening

MOST_PULLS = 50
MOST_OTHERS = 50  # incidents, and as many closures
SPAN = timedelta(days=30)
OUTCOMES = {Action.Outcome.NEEDED_FIX: "needed a fix", Action.Outcome.REVERTED: "was reverted"}
_NO_XML = re.compile("[\ufffe\uffff]")  # characters that XML forbids and `visible` keeps
EVERYTHING = QueueQuery()
Absolute = Callable[[str], str]  # returns the absolute address of a path
ATOM = "application/atom+xml; charset=utf-8"
PURPOSE = "feed"
SUFFIX = ".atom"
RETRY_SECONDS = 5


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry: `said` is plain text, `updated_at` is not before `made_at`.

    `key` distinguishes entries with one path.
    """

    title: str
    path: str
    said: str
    made_at: datetime
    updated_at: datetime
    key: str = ""
    by: str = ""


def entries(snapshot: Snapshot, roles: Roles, now: datetime, query: QueueQuery = EVERYTHING) -> tuple[Entry, ...]:
    """Return all entries for somebody with these roles, newest first; closures and incidents of the last 30 days.

    `query` narrows pull requests and incidents as it narrows the queue; its repository narrows closures too.

    Closures that name a person, and all incidents, are for maintainers of their repository.
    """
    since = now - SPAN
    all_entries = [
        *_pull_entries(snapshot, query),
        *_closure_entries(snapshot, roles, since, query.repository),
        *_incident_entries(snapshot, roles, since, query),
    ]
    return tuple(sorted(all_entries, key=lambda entry: (entry.updated_at, entry.title), reverse=True))


def written(told: Iterable[Entry], absolute: Absolute) -> str:
    """Return the feed as Atom; it does not contain its own address, which is a secret."""
    feed = Atom1Feed("Sunstead", absolute(reverse("queue")), "Open pull requests and changes of the fast lane.")
    for entry in told:
        link = absolute(entry.path)
        feed.add_item(
            title=_printable(entry.title),
            link=link,
            description=f"<p>{escape(_printable(entry.said))}</p>",
            author_name=_printable(entry.by) or None,
            unique_id=get_tag_uri(f"{link}#{entry.key}" if entry.key else link, entry.made_at),
            pubdate=entry.made_at,
            updateddate=entry.updated_at,
        )
    return feed.writeString("utf-8")


def _printable(text: str) -> str:
    """Return other people's text without invisible characters and those that XML forbids."""
    return _NO_XML.sub(lambda match: f"⟨U+{ord(match[0]):04X}⟩", visible(text))


def _pull_entries(snapshot: Snapshot, query: QueueQuery) -> list[Entry]:
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
        # for a drawn pull request not even the time of its judgement is shown
        updated_at=opened if row.is_sealed else max(opened, judged),
        by=row.author.name,
    )


def _closure_entries(snapshot: Snapshot, roles: Roles, since: datetime, only: str) -> Iterator[Entry]:
    closures = (
        LaneClosure.objects.select_related("person", "opened_by").filter(**_repository_filter(only)).order_by("-pk")
    )
    recent = closures.filter(
        Q(closed_at__gte=since) | Q(opened_at__gte=since), Q(author="", voucher="") | _maintained_filter(roles)
    )
    shown = list(recent[:MOST_OTHERS])
    names = naming.names(snapshot, (did for closure in shown for did in (closure.author, closure.voucher)))
    names |= read.repository_names(snapshot)
    for closure in shown:
        closed = f"{lane_closures.closure_words(lane_closures.as_closure(closure, names), names)}."
        if closure.closed_at >= since:
            yield _lane_entry(closed, closure.because, closure.closed_at, f"{closure.key}-closed")
        if closure.opened_at and closure.opened_at >= since:
            by = visible_name(str(closure.opened_by)) if closure.opened_by else lane_closures.ERASED
            yield _lane_entry(
                f"{by} opened the fast lane again. {closed}", closure.opened_because, closure.opened_at, closure.key
            )


def _repository_filter(only: str) -> dict[str, str]:
    """Return the filter on one repository, so that others do not fill up the limit."""
    return {"repo_key": only} if only else {}


def _maintained_filter(roles: Roles) -> Q:
    """Return the filter on repositories that they maintain, so that others do not fill up the limit."""
    keys = roles.keys(Role.MAINTAINER)
    return Q() if "" in keys else Q(repo_key__in=keys)


def _lane_entry(title: str, because: str, moment: datetime, key: str) -> Entry:
    return Entry(title, reverse("lane"), f"Because: {because}", moment, moment, key)


def _incident_entries(snapshot: Snapshot, roles: Roles, since: datetime, query: QueueQuery) -> Iterator[Entry]:
    kept = bad_marks().filter(_maintained_filter(roles), made_at__gte=since, **_repository_filter(query.repository))
    marks = list(opening(kept, snapshot).order_by("-pk")[:MOST_OTHERS])
    subjects = read.subjects(snapshot, [mark.pull_uri for mark in marks]) if marks else {}
    for mark in marks:
        subject = subjects.get(mark.pull_uri)
        if subject and subject.state == "merged" and is_in_view(subject, query):
            title = f"A merged pull request {OUTCOMES[mark.outcome]} in {subject.repository_name}: {subject.title}"
            summary = "What was known then, what would have held it, and similar pull requests."
            path = reverse("incident", args=[mark.key])
            yield Entry(title, path, summary, mark.made_at, mark.made_at, by=subject.author.name)


@csrf_exempt  # a page that changes nothing needs no form token; a refusal would log the address
def atom_feed(request: Request, name: str) -> HttpResponse:
    """Serve <token>.atom: open pull requests and lane events, for a token with scope read; 304 where unchanged."""
    # Django logs the path of a refused request, which must not contain the secret
    request.path = request.path_info = "/feed/"
    return _feed(request, name)


@require_safe
def _feed(request: Request, name: str) -> HttpResponse:
    secret, kind = name[: -len(SUFFIX)], name[-len(SUFFIX) :]
    return answer_token(request, secret if kind == SUFFIX else "", _answer)


def answer_token(
    request: Request, secret: str, answer: Callable[[Request, Snapshot, ApiToken], HttpResponse]
) -> HttpResponse:
    """Return the answer to whoever holds this token with scope read; 404 for any other, 429 for guessing."""
    address, now = request.META.get("REMOTE_ADDR", ""), time.time()
    if wait := throttle.seconds_to_wait(PURPOSE, address, now):
        return _keep_private(HttpResponse(status=429, headers={"Retry-After": str(wait)}))
    known_token = find_token(secret, "read", timezone.now()) if secret else None
    if known_token is None:
        throttle.count_failure(PURPOSE, address, now)
        raise Http404
    if throttle.count("api", counted_as(known_token), throttle.MINUTE, now) > settings.API_REQUESTS_A_MINUTE:
        wait = throttle.seconds_left(throttle.MINUTE, now)
        return _keep_private(HttpResponse(status=429, headers={"Retry-After": str(wait)}))
    if request.snapshot is None:
        return _keep_private(HttpResponse(status=503, headers={"Retry-After": str(RETRY_SECONDS)}))
    return _keep_private(answer(request, request.snapshot, known_token))


def _answer(request: Request, snapshot: Snapshot, token: ApiToken) -> HttpResponse:
    """Return the feed, narrowed by `?repository=`, `?q=` and `?mine=1`.

    A token for one repository gets only that one.
    """
    request.roles = roles_of(token.person)
    filters, own_key = read_queue(request.GET), str(token.repo_key)
    repository_key = read.repository_key(snapshot, filters.repository) if filters.repository else own_key
    if repository_key is None or own_key not in ("", repository_key):
        raise Http404("This feed has no such repository.")
    now, origin = timezone.now(), request.build_absolute_uri("/")
    only = row_actions.mine(token.person, snapshot) if filters.mine else None
    query = QueueQuery(repository=repository_key, text=filters.text, only=only)
    tag = f'W/"{digest((page_state(request, snapshot), now.date(), origin, query))}"'
    response = get_conditional_response(request, etag=tag)
    if response is None:
        told = entries(snapshot, request.roles, now, query)
        response = HttpResponse(written(told, request.build_absolute_uri), content_type=ATOM)
    response["ETag"] = tag
    return response


def _keep_private(response: HttpResponse) -> HttpResponse:
    """Return the response with headers that keep its address from other pages, search engines and shared caches."""
    response["Referrer-Policy"] = "no-referrer"
    response["X-Robots-Tag"] = "noindex"
    mark_private(response)
    return response
