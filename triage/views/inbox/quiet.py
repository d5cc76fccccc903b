"""Open pull requests on which nothing happened for half a year, and snoozing several of them at once."""

from django.conf import settings
from django.core.paginator import Paginator
from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone

from ingest.store.snapshots import Snapshot
from scoring.queries import read
from triage.access.permissions import Role, require
from triage.access.requests import Request
from triage.access.sign_in import viewing
from triage.context import present
from triage.forms.actions import read_choice, written_choice
from triage.forms.filters import QueueFilters, read_list
from triage.presenters import lists
from triage.presenters.queue import queue as as_shown
from triage.presenters.queue import rows
from triage.presenters.queue.row_lines import CI_BRIEF
from triage.services import snoozing
from triage.services.actions import ActionProblem, Conflict
from triage.views.inbox.actions import acting_page, answer_conflict
from triage.views.lanes.lists import PAGE, for_any_maintainer

NOT_QUIET = "Nothing was snoozed: some of these changed, or somebody snoozed them, since you opened the list."


@for_any_maintainer
def quiet(request: Request, snapshot: Snapshot) -> HttpResponse:
    """List what nobody touched for half a year, the longest first; flagged ones and unanswered audits are not there."""
    filters = read_list(request.GET)
    page = Paginator(lists.quiet_pulls(snapshot, viewing(request), present(snapshot)), PAGE).get_page(filters.page)
    states = read.row_states(snapshot, [one.uri for one in page])
    shown = {row.uri: row for row in as_shown.pulls(snapshot, list(states))}
    items = [
        (
            rows.row_view(shown[one.uri], present(snapshot), QueueFilters()),
            one.last_at,
            written_choice(one.uri, states[one.uri].seen, 0),
        )
        for one in page
        if one.uri in shown
    ]
    return render(
        request,
        "lists/quiet.html",
        {"filters": filters, "page": page, "items": items, "ci_words": CI_BRIEF, "recorded": settings.STREAM_CLOCK},
    )


@acting_page
def snooze_quiet(request: Request, snapshot: Snapshot) -> HttpResponse:
    """Snooze the ticked rows until they change, all or none; 409 where one changed since it was displayed."""
    person, now = require(request, "", Role.VIEWER), timezone.now()
    wanted = {one.uri: one.seen for one in map(read_choice, request.POST.getlist("pull")[: PAGE + 1])}
    if not 0 < len(wanted) <= PAGE:
        raise ActionProblem(f"Tick 1 to {PAGE} pull requests first. Nothing was snoozed.")
    found = [(row, wanted[row.uri]) for row in as_shown.pulls(snapshot, list(wanted))]
    for key in {row.repository_key for row, _ in found}:
        require(request, key, Role.MAINTAINER)
    try:
        offered = {one.uri for one in lists.quiet_pulls(snapshot, viewing(request), present(snapshot))}
        if not wanted.keys() <= offered:
            raise Conflict(NOT_QUIET, [*wanted.keys() - offered])
        snoozing.snooze(person, snapshot, found, None, now)
    except Conflict as conflict:
        return answer_conflict(request, snapshot, conflict, now)
    return HttpResponseRedirect(reverse("quiet"))
