"""Lists of pull requests outside the queue: settled, incidents, audits, snoozed rows.

For maintainers also the page of one incident, closing and opening the lane, and answers to audits.
"""

from collections.abc import Mapping
from functools import wraps

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db.models import Q
from django.http import Http404, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils import timezone
from django_htmx.http import HttpResponseClientRedirect

from ingest.atproto.syntax import parse_handle
from ingest.store.snapshots import Snapshot
from scoring.explain import sentences as explain
from scoring.formatting import visible
from scoring.queries import read
from scoring.queries.read import Seen
from triage.access.permissions import Role, SignInNeeded, require, require_reader, role_of, sees_thresholds
from triage.access.requests import Request
from triage.access.sign_in import safe_next, viewing
from triage.context import present
from triage.forms.actions import read_seen
from triage.forms.filters import QueueFilters, read_list
from triage.http_cache import Page, unless_held
from triage.models import Action, AuditAnswer, LaneClosure, Snooze
from triage.presenters import lists
from triage.presenters import text as incident_words
from triage.presenters.queue import pills, row_actions, rows
from triage.presenters.queue import queue as as_shown
from triage.services import audit, lane_closures, snoozing
from triage.services.actions import ActionProblem, Conflict
from triage.services.audit import hiding_audits
from triage.services.estimated_lanes import is_undone_since
from triage.services.lane_closures import (
    BAD,
    bad_marks,
    banners,
    handle,
    incidents_of,
    newest_outcome,
    read_reason,
    reopen_incident,
)
from triage.services.reading_times import note_verdict
from triage.views.inbox import inbox
from triage.views.inbox.actions import acting_page, answer_conflict, answer_rows, filters_of, next_uri, to_sign_in
from triage.views.inbox.inbox import PANE
from triage.views.inbox.queue import reading

# Form fields that define the scope of a closure, by button; without a button all of them.
SCOPES: Mapping[str, tuple[str, ...]] = {
    "": ("repo_key", "author", "voucher"),
    "repository": ("repo_key",),
    "author": ("repo_key", "author"),
    "voucher": ("repo_key", "voucher"),
    "everywhere": ("author",),
}
NO_INCIDENT = "No incident has this address, or somebody undid its mark."
NO_CONCLUSION = "Say in a few words how it ended."
CONCLUSIONS = ("Fixed since", "Taken back", "Accepted as it is")  # one click each
NEVER_MERGED = "This pull request was not merged, so it cannot be an incident."
NOT_LET_THROUGH = (
    "No approval here and no open fast lane let this pull request through as it was merged, so it is no incident. "
    "If it was approved seconds ago, load this page again."
)
PAGE = 50  # rows
NOT_OPEN = "No open pull request of a watched repository has this address."


def for_maintainers(page: Page) -> Page:
    """Wrap a page so that people who are not signed in go to the sign-in."""

    @wraps(page)
    def answer(request: Request, snapshot: Snapshot, **arguments: str) -> HttpResponse:
        try:
            return page(request, snapshot, **arguments)
        except SignInNeeded:
            return to_sign_in(request, request.get_full_path())

    return reading(answer)


def for_any_maintainer(page: Page) -> Page:
    """Wrap a page for people who maintain something here: it may show thresholds and the effects of attacks."""

    @wraps(page)
    def say_result(request: Request, snapshot: Snapshot) -> HttpResponse:
        if not sees_thresholds(viewing(request)):
            if not request.user.is_authenticated:
                raise SignInNeeded("Sign in first.")
            raise PermissionDenied("This needs the role maintainer.")
        return page(request, snapshot)

    return for_maintainers(say_result)


@for_maintainers
def incident(request: Request, snapshot: Snapshot, key: str) -> HttpResponse:
    """Show the facts known when a pull request was let through that was later marked bad, and the consequences."""
    mark = find_mark(key)
    require(request, mark.repo_key, Role.MAINTAINER)
    details, subject = as_shown.incident(snapshot, mark.pull_uri, present(snapshot)), _subject(snapshot, mark.pull_uri)
    if subject.state != "merged":
        raise Http404(NEVER_MERGED)
    if details is None:
        raise Http404(NOT_LET_THROUGH)
    newest = newest_outcome(mark.pull_uri) or mark
    hidden = hiding_audits(snapshot, dids=(details.author.did,))
    reasons = [item for item in explain.told_reasons(details.verdict) if not (hidden and "probability" in item.params)]
    page = {
        "incident": details,
        "subject": subject,
        "mark": mark,
        "is_open": incidents_of(viewing(request), snapshot).filter(pk=mark.pk, is_open=True).exists(),
        "handled": getattr(mark, "handled", None),
        "conclusions": CONCLUSIONS,
        "trouble": read.troubles_in_words(snapshot, [mark.pull_uri]).get(mark.pull_uri),
        "corrected": newest if newest.outcome not in BAD else None,
        "lane": pills.lane_word(details.verdict),
        "reasons": [visible(explain.sentence(reason)) for reason in reasons],
        "hidden_authors": hidden,
        "would_hold": [
            incident_words.hold_words(item) for item in details.would_hold if incident_words.is_worth_setting(item.rule)
        ],
        "like_it": [(item, [incident_words.SHARE_WORDS[name] for name in item.shares]) for item in details.like_it],
        "shared": [(words, details.shared[name]) for name, words in incident_words.SHARE_WORDS.items()],
        "budget": incident_words.budget_words(details.budget),
        "may_close_everywhere": role_of(request.user, "") >= Role.MAINTAINER,
        "standing": [item for item in banners(request, snapshot) if item[0].repository in ("", mark.repo_key)],
        "next": reverse("incident", args=[key]),
    }
    return render(request, "lists/incident.html", page)


@acting_page
def close(request: Request, snapshot: Snapshot) -> HttpResponse:
    """Close the lane at once."""
    form = request.POST
    scope = _scope(snapshot, form)
    person = require(request, scope.repo_key, Role.MAINTAINER)
    if scope.repo_key and scope.repo_key not in read.repository_names(snapshot):
        raise ActionProblem("Nothing changed: no watched repository has this name.")
    closure_row, is_new = lane_closures.close_lane(person, scope, form.get("because", ""), timezone.now())
    closure = lane_closures.as_closure(closure_row, {})
    words = lane_closures.closure_words(closure, lane_closures.names_in(snapshot, [closure]))
    messages.info(request, f"{visible(words)}{'.' if is_new else ' before you did: it stays closed.'}")
    return HttpResponseRedirect(safe_next(request))


@acting_page
def reopen(request: Request, snapshot: Snapshot) -> HttpResponse:
    """Open the lane again where it was closed."""
    closure = get_object_or_404(LaneClosure, key=request.POST.get("key", ""))
    person = require(request, closure.repo_key, Role.MAINTAINER)
    opened = lane_closures.open_lane(person, closure, request.POST.get("because", ""), timezone.now())
    messages.info(request, "The fast lane is open again." if opened else "Somebody opened it before you did.")
    return HttpResponseRedirect(safe_next(request))


@acting_page
def answer_audit(request: Request, snapshot: Snapshot) -> HttpResponse:
    """Save the answer to an audit and show the rest; 409 where the change differs or somebody answered before."""
    form = request.POST
    row = as_shown.pull(snapshot, form.get("uri", ""))
    if row is None:
        raise Http404("No open pull request of a watched repository has this address.")
    person = require(request, row.repository_key, Role.MAINTAINER)
    would_merge = {"yes": True, "no": False}.get(form.get("answer", ""))
    if would_merge is None:
        raise ActionProblem("Answer yes or no. Not saved.")
    seen: Seen = read_seen(form.dict())
    now = timezone.now()
    try:
        if row.is_sealed and is_undone_since(snapshot, row.repository_key):
            raise Conflict(audit.WITHDRAWN, [row.uri])
        audit.answer(person, row, seen, would_merge, form.get("because", ""), now)
    except Conflict as conflict:
        return answer_conflict(request, snapshot, conflict, now)
    note_verdict(person, row.uri, now)
    announcement = f"Audit of {row_actions.named_pull(row.uri, snapshot)} answered."
    return answer_rows(request, snapshot, [row.uri], now, announcement, row.uri)


def _scope(snapshot: Snapshot, form: Mapping[str, str]) -> lane_closures.Scope:
    """Return the scope that a form names, people by handle or DID; with `scope` only its button's fields."""
    names = SCOPES.get(form.get("scope", ""))
    if names is None:
        raise ActionProblem("Nothing changed: this button does not exist.")
    repo_key, *people = (form.get(name, "") if name in names else "" for name in SCOPES[""])
    return lane_closures.read_scope(repo_key, *(_did_of(snapshot, text) for text in people))


def _did_of(snapshot: Snapshot, text: str) -> str:
    """Return the DID of a handle, anything else unchanged; raise ActionProblem for an unknown handle."""
    handle = parse_handle(text)
    if handle is None:
        return text
    dids = read.dids_of_handles(snapshot, {handle})
    if handle not in dids:
        raise ActionProblem(f"Nothing was closed. Nobody seen here has the handle “{handle}”. Write their DID.")
    return dids[handle]


def find_mark(key: str) -> Action:
    """Return the mark that opened the incident at this address; 404 where there is none."""
    mark = bad_marks().filter(key=key).select_related("person").first()
    if mark is None:
        raise Http404(NO_INCIDENT)
    return mark


def _subject(snapshot: Snapshot, uri: str) -> read.Subject:
    subject = read.subjects(snapshot, [uri]).get(uri)
    if subject is None:
        raise Http404("This pull request is gone.")
    return subject


@reading
@unless_held
def settled(request: Request, snapshot: Snapshot) -> HttpResponse:
    """List merged and closed pull requests of watched repositories, newest first."""
    filters = read_list(request.GET)
    found = read.settled(snapshot, filters.query())
    shown = {"filters": filters, "found": found, "are_judged": any(row.judged for row in found.rows)}
    return render(request, "lists/settled.html", shown)


@for_any_maintainer
def incidents(request: Request, snapshot: Snapshot) -> HttpResponse:
    """List incidents in the viewer's repositories, open ones first."""
    filters = read_list(request.GET)
    incident_marks = incidents_of(viewing(request), snapshot).filter(pull_uri__startswith=filters.by_author)
    page = Paginator(incident_marks, PAGE).get_page(filters.page)
    subjects = read.subjects(snapshot, [mark.pull_uri for mark in page])
    lines = [(mark, subjects.get(mark.pull_uri), getattr(mark, "handled", None)) for mark in page]
    shown = {"filters": filters, "page": page, "lines": lines, "conclusions": CONCLUSIONS}
    return render(request, "lists/incidents.html", shown)


@acting_page
def handle_incident(request: Request, snapshot: Snapshot) -> HttpResponse:
    """Mark an incident as handled with its `conclusion`, or open it again with `handled=0`."""
    mark = find_mark(request.POST.get("key", ""))
    person = require(request, mark.repo_key, Role.MAINTAINER)
    if request.POST.get("handled") == "0":
        reopen_incident(person, mark, timezone.now())
        messages.info(request, "The incident is open again.")
    else:
        conclusion = read_reason(request.POST.get("conclusion", ""), NO_CONCLUSION)
        is_new = handle(person, mark, conclusion, timezone.now())
        messages.info(request, "Incident handled." if is_new else "Nothing changed: somebody handled it before you.")
    return HttpResponseRedirect(safe_next(request))


@for_any_maintainer
def audits(request: Request, snapshot: Snapshot) -> HttpResponse:
    """List due and answered audits in the viewer's repositories."""
    filters, roles = read_list(request.GET), viewing(request)
    due = [
        audit_answer
        for audit_answer in lists.audits_due(snapshot, roles)
        if audit_answer.uri.startswith(filters.by_author)
    ]
    keys = roles.keys(Role.MAINTAINER)
    maintained = Q() if "" in keys else Q(repo_key__in=keys)
    answers = (
        AuditAnswer.objects.filter(maintained, pull_uri__startswith=filters.by_author)
        .select_related("person")
        .order_by("-made_at", "-pk")
    )
    page = Paginator(answers, PAGE).get_page(filters.page)
    subjects = read.subjects(snapshot, [audit_answer.pull_uri for audit_answer in page])
    answered = [(audit_answer, subjects.get(audit_answer.pull_uri)) for audit_answer in page]
    shown = {"filters": filters, "due": due[:PAGE], "due_total": len(due), "page": page, "answered": answered}
    return render(request, "lists/audits.html", shown)


@reading
def snoozed(request: Request, snapshot: Snapshot) -> HttpResponse:
    """List snoozed rows, each with its end; its maintainers read who snoozed it."""
    filters = read_list(request.GET)
    snoozes = [
        hidden_row
        for hidden_row in snoozing.in_force(snapshot, timezone.now())
        if hidden_row.pull_uri.startswith(filters.by_author)
    ]
    page, roles = Paginator(snoozes, PAGE).get_page(filters.page), viewing(request)
    shown = {row.uri: row for row in as_shown.pulls(snapshot, [hidden_row.pull_uri for hidden_row in page])}
    items = [
        (
            hidden_row,
            rows.row_view(row, present(snapshot), QueueFilters()),
            snoozing.snooze_words(hidden_row, with_name=may),
            may,
        )
        for hidden_row in page
        if (row := shown.get(hidden_row.pull_uri))
        for may in (roles.role(hidden_row.repo_key) >= Role.MAINTAINER,)
    ]
    flagged = snoozing.count_flagged(snoozes)
    return render(request, "lists/snoozed.html", {"filters": filters, "page": page, "items": items, "flagged": flagged})


@acting_page
def snooze(request: Request, snapshot: Snapshot) -> HttpResponse:
    """Snooze a row until a day or until it changes; 409 where it changed since it was displayed."""
    row = as_shown.pull(snapshot, request.POST.get("uri", ""))
    if row is None:
        raise Http404(NOT_OPEN)
    person, now = require(request, row.repository_key, Role.MAINTAINER), timezone.now()
    following = next_uri(request, snapshot, row.uri, now)
    until = snoozing.read_until(request.POST.get("until", ""), request.POST.get("day", ""), now)
    try:
        snoozing.snooze(person, snapshot, [(row, read_seen(request.POST.dict()))], until, now)
    except Conflict as conflict:
        return answer_conflict(request, snapshot, conflict, now)
    if request.htmx.target == PANE:
        return answer_rows(request, snapshot, [row.uri], now, f"Snoozed {visible(row.label)}.", following)
    return _redirect(request, reverse("queue") + filters_of(request).opening(""))


def _redirect(request: Request, target: str) -> HttpResponse:
    return HttpResponseClientRedirect(target) if request.htmx else HttpResponseRedirect(target)


@acting_page
def show_now(request: Request, snapshot: Snapshot) -> HttpResponse:
    """Put a snoozed row back into the queue."""
    hidden_row = get_object_or_404(Snooze, key=request.POST.get("key", ""))
    snoozing.show_now(require(request, hidden_row.repo_key, Role.MAINTAINER), hidden_row, timezone.now())
    messages.info(request, "It is in the inbox again.")
    return _redirect(request, safe_next(request))


@acting_page
def save_filter(request: Request, snapshot: Snapshot) -> HttpResponse:
    """Save the form's view under a name, for the viewer alone."""
    lists.save_filter(require_reader(request), request.POST.get("name", ""), filters_of(request))
    return _redirect(request, safe_next(request))


@acting_page
def drop_filter(request: Request, snapshot: Snapshot) -> HttpResponse:
    """Delete a saved filter of the viewer."""
    lists.drop_filter(require_reader(request), request.POST.get("name", ""))
    return _redirect(request, safe_next(request))


@acting_page
def answer_outcomes(request: Request, snapshot: Snapshot) -> HttpResponse:
    """Save the answer to the weekly question: all of these merges turned out fine, or ask again next week."""
    person, roles = require(request, "", Role.VIEWER), viewing(request)
    if roles.highest() < Role.MAINTAINER:
        raise PermissionDenied("Only maintainers set outcomes.")
    now = timezone.now()
    if request.POST.get("answer") != "fine":
        inbox.ask_next_week(person, now)
        announcement = "You are asked again in a week."
    else:
        done = inbox.mark_fine(person, roles, snapshot, request.POST.getlist("pull"), present(snapshot), now)
        announcement = row_actions.done_words(done, snapshot)
    if not request.htmx:
        return HttpResponseRedirect(safe_next(request))
    shown = {
        "said": announcement,
        "fragment": True,
        "lists": lists.count_lists(request, snapshot),
        "next": safe_next(request),
    }
    return render(request, "inbox/_said.html", shown)
