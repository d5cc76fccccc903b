"""The bulk approval's two steps: what is about to happen, and that it happens. Neither needs a script."""

from collections.abc import Sequence

from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone

from ingest.snapshot import Snapshot
from scoring import read
from scoring.read import QueueRow
from triage import acting, actions, as_shown, bulk, rows
from triage.access import safe_next
from triage.act_forms import read_choice, written_choice
from triage.action_views import acting_page, answer_conflict, answer_rows
from triage.actions import Conflict, Wanted
from triage.context import present
from triage.forms import QueueFilters
from triage.models import Person
from triage.permissions import Role, require
from triage.requests import Request


@acting_page
def bulk_approve(request: Request, snapshot: Snapshot) -> HttpResponse:
    """Ask first; with `confirmed` approve all of them or, where one is not what it was, none (409)."""
    wanted = [read_choice(value) for value in request.POST.getlist("pull")]
    found = {row.uri: row for row in as_shown.pulls(snapshot, [one.uri for one in wanted])}
    person = _person(request, list(found.values()))
    try:
        bulk.check_lane(wanted, found, read.changed_after(snapshot).keys(), str(person.did))
        chosen = [found[one.uri] for one in wanted]
        if not request.POST.get("confirmed"):
            return render(request, "bulk.html", _confirmation(request, snapshot, wanted, chosen))
        bulk.check_typed(len(wanted), request.POST.get("typed", ""))
        made = actions.act(person, read.decided_subjects(snapshot, found), wanted, timezone.now())
    except Conflict as conflict:
        return answer_conflict(request, snapshot, conflict, timezone.now())
    return answer_rows(request, snapshot, list(found), timezone.now(), acting.done_words(made, snapshot))


def _person(request: Request, found: Sequence[QueueRow]) -> Person:
    """Who asks, where they maintain the repositories of all of these; the site for none."""
    for key in {row.repository_key for row in found}:
        require(request, key, Role.MAINTAINER)
    return require(request, "", Role.VIEWER)


def _confirmation(
    request: Request, snapshot: Snapshot, wanted: Sequence[Wanted], chosen: Sequence[QueueRow]
) -> dict[str, object]:
    return {
        "summary": bulk.summary(chosen),
        "items": [rows.row_view(row, present(snapshot), QueueFilters()) for row in chosen],
        "choices": [written_choice(one.uri, one.seen, one.version) for one in wanted],
        "next": safe_next(request),
    }
