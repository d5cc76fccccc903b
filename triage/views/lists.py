"""Lists of what left the queue or waits beside it: settled pull requests, incidents, audits, snoozed rows."""

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db.models import Q
from django.http import Http404, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils import timezone
from django_htmx.http import HttpResponseClientRedirect

from ingest.store.snapshots import Snapshot
from scoring.formatting import visible
from scoring.queries import read
from triage.access.permissions import Role, SignInNeeded, require
from triage.access.requests import Request
from triage.access.sign_in import safe_next, viewing
from triage.context import present
from triage.forms.actions import read_seen
from triage.forms.filters import QueueFilters, read_list
from triage.http_cache import unless_held
from triage.models import AuditAnswer, Person, Snooze
from triage.presenters import lists, rows
from triage.presenters import queue as as_shown
from triage.services import snoozing
from triage.services.actions import Conflict
from triage.services.lane_closures import handle, incidents_of
from triage.views import outcome_prompt
from triage.views.actions import acting_page, answer_conflict, answer_rows, filters_of, next_uri
from triage.views.inbox import PANE
from triage.views.incidents import find_mark
from triage.views.queue import reading
from triage.views.reports import for_any_maintainer

PAGE = 50  # rows
NOT_OPEN = "No open pull request of a watched repository has this address."


@reading
@unless_held
def settled(request: Request, snapshot: Snapshot) -> HttpResponse:
    """Merged and closed pull requests of watched repositories, the newest first."""
    filters = read_list(request.GET)
    return render(request, "settled.html", {"filters": filters, "found": read.settled(snapshot, filters.query())})


@for_any_maintainer
def incidents(request: Request, snapshot: Snapshot) -> HttpResponse:
    """Incidents in the repositories that the viewer maintains, open ones first."""
    filters = read_list(request.GET)
    found = incidents_of(viewing(request)).filter(pull_uri__startswith=filters.by_author)
    page = Paginator(found, PAGE).get_page(filters.page)
    subjects = read.subjects(snapshot, [mark.pull_uri for mark in page])
    lines = [(mark, subjects.get(mark.pull_uri)) for mark in page]
    return render(request, "incidents.html", {"filters": filters, "page": page, "lines": lines})


@acting_page
def handle_incident(request: Request, snapshot: Snapshot) -> HttpResponse:
    """Say that nothing is left to do about an incident, or open it again with `handled=0`."""
    _signed_in(request)
    mark = find_mark(request.POST.get("key", ""))
    person = require(request, mark.repo_key, Role.MAINTAINER)
    is_handled = request.POST.get("handled") != "0"
    handle(person, mark, is_handled, timezone.now())
    messages.info(request, "Incident handled." if is_handled else "The incident is open again.")
    return HttpResponseRedirect(safe_next(request))


@for_any_maintainer
def audits(request: Request, snapshot: Snapshot) -> HttpResponse:
    """Audits due and answered in the repositories that the viewer maintains."""
    filters, roles = read_list(request.GET), viewing(request)
    due = [one for one in lists.audits_due(snapshot, roles) if one.uri.startswith(filters.by_author)]
    keys = roles.keys(Role.MAINTAINER)
    mine = Q() if "" in keys else Q(repo_key__in=keys)
    given = (
        AuditAnswer.objects.filter(mine, pull_uri__startswith=filters.by_author)
        .select_related("person")
        .order_by("-made_at", "-pk")
    )
    page = Paginator(given, PAGE).get_page(filters.page)
    subjects = read.subjects(snapshot, [one.pull_uri for one in page])
    answered = [(one, subjects.get(one.pull_uri)) for one in page]
    shown = {"filters": filters, "due": due[:PAGE], "due_total": len(due), "page": page, "answered": answered}
    return render(request, "audits.html", shown)


@reading
def snoozed(request: Request, snapshot: Snapshot) -> HttpResponse:
    """Rows that somebody hid from the queue, each with until when and by whom."""
    filters = read_list(request.GET)
    found = [one for one in snoozing.in_force(snapshot, timezone.now()) if one.pull_uri.startswith(filters.by_author)]
    page, roles = Paginator(found, PAGE).get_page(filters.page), viewing(request)
    shown = {row.uri: row for row in as_shown.pulls(snapshot, [one.pull_uri for one in page])}
    items = [
        (one, _row_of(snapshot, row), snoozing.snooze_words(one), roles.role(one.repo_key) >= Role.MAINTAINER)
        for one in page
        if (row := shown.get(one.pull_uri))
    ]
    flagged = snoozing.count_flagged(found)
    return render(request, "snoozed.html", {"filters": filters, "page": page, "items": items, "flagged": flagged})


def _row_of(snapshot: Snapshot, row: read.QueueRow) -> rows.RowView:
    return rows.row_view(row, present(snapshot), QueueFilters())


@acting_page
def snooze(request: Request, snapshot: Snapshot) -> HttpResponse:
    """Hide a row from the queue until a day or until it changes; 409 where it changed since it was shown."""
    row = as_shown.pull(snapshot, request.POST.get("uri", ""))
    if row is None:
        raise Http404(NOT_OPEN)
    person, now = require(request, row.repository_key, Role.MAINTAINER), timezone.now()
    following = next_uri(request, snapshot, row.uri, now)
    until = snoozing.read_until(request.POST.get("until", ""), request.POST.get("day", ""), now)
    try:
        snoozing.snooze(person, snapshot, row, read_seen(request.POST.dict()), until, now)
    except Conflict as conflict:
        return answer_conflict(request, snapshot, conflict, now)
    if request.htmx.target == PANE:
        return answer_rows(request, snapshot, [row.uri], now, f"Snoozed {visible(row.label)}.", following)
    return _to(request, reverse("queue") + filters_of(request).opening(""))


def _to(request: Request, address: str) -> HttpResponse:
    return HttpResponseClientRedirect(address) if request.htmx else HttpResponseRedirect(address)


@acting_page
def show_now(request: Request, snapshot: Snapshot) -> HttpResponse:
    """Put a snoozed row back into the queue."""
    _signed_in(request)
    found = get_object_or_404(Snooze, key=request.POST.get("key", ""))
    snoozing.show_now(require(request, found.repo_key, Role.MAINTAINER), found, timezone.now())
    messages.info(request, "It is in the inbox again.")
    return _to(request, safe_next(request))


@acting_page
def save_filter(request: Request, snapshot: Snapshot) -> HttpResponse:
    """Keep the view from which the form was sent under a name, for the viewer alone."""
    lists.save_filter(_signed_in(request), request.POST.get("name", ""), filters_of(request))
    return _to(request, safe_next(request))


@acting_page
def drop_filter(request: Request, snapshot: Snapshot) -> HttpResponse:
    """Delete a filter that the viewer saved."""
    lists.drop_filter(_signed_in(request), request.POST.get("name", ""))
    return _to(request, safe_next(request))


def _signed_in(request: Request) -> Person:
    if not isinstance(request.user, Person):
        raise SignInNeeded("Sign in first.")
    return request.user


@acting_page
def answer_outcomes(request: Request, snapshot: Snapshot) -> HttpResponse:
    """Answer the weekly question: all of these merges turned out fine, or ask again next week."""
    person, roles = require(request, "", Role.VIEWER), viewing(request)
    if roles.highest() < Role.MAINTAINER:
        raise PermissionDenied("Only maintainers set outcomes.")
    now = timezone.now()
    if request.POST.get("answer") != "fine":
        outcome_prompt.ask_next_week(person, now)
        return _to(request, safe_next(request))
    chosen = request.POST.getlist("pull")
    try:
        outcome_prompt.mark_fine(person, roles, snapshot, chosen, present(snapshot), now)
    except Conflict as conflict:
        return answer_conflict(request, snapshot, conflict, now)
    return _to(request, safe_next(request))
