"""Approval of several pull requests at once, in two steps: what is about to happen, and that it happens.

Neither needs a script.
"""

from collections.abc import Sequence
from dataclasses import replace

from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone

from ingest.store.snapshots import Snapshot
from scoring.queries import read
from scoring.queries.read import QueueRow
from triage.access.permissions import Role, require
from triage.access.requests import Request
from triage.access.sign_in import safe_next, viewing
from triage.context import present
from triage.forms.actions import read_choice, written_choice
from triage.forms.filters import QueueFilters
from triage.models import Person
from triage.presenters.queue import queue as as_shown
from triage.presenters.queue import row_actions, rows
from triage.presenters.queue.row_lines import CI_BRIEF, pick_of
from triage.services import actions
from triage.services.actions import ActionProblem, Conflict, Wanted
from triage.views.inbox.actions import acting_page, answer_conflict, answer_rows, filters_of


@acting_page
def bulk_approve(request: Request, snapshot: Snapshot) -> HttpResponse:
    """Ask first; with `confirmed` approve all of them or, where one is not what it was, none (409).

    Where none is selected, ask about all that can be approved.
    """
    ticked, is_confirmed = request.POST.getlist("pull"), bool(request.POST.get("confirmed"))
    choices, left = (ticked, {}) if ticked or is_confirmed else _approvable(request, snapshot)
    if not choices and not is_confirmed:
        raise ActionProblem("Nothing in this view can be approved together.")
    wanted = [read_choice(value) for value in choices]
    found = {row.uri: row for row in as_shown.pulls(snapshot, [one.uri for one in wanted])}
    person = _person(request, list(found.values()))
    try:
        actions.check_lane(wanted, found, read.changed_after(snapshot).keys(), str(person.did))
        chosen = [found[one.uri] for one in wanted]
        if not is_confirmed:
            asked = _confirmation(request, snapshot, wanted, chosen) | {"is_all": not ticked, "left": left}
            return render(request, "inbox/bulk.html", asked)
        actions.check_typed(len(wanted), request.POST.get("typed", ""))
        made = actions.act(person, read.decided_subjects(snapshot, found), wanted, timezone.now())
    except Conflict as conflict:
        return answer_conflict(request, snapshot, conflict, timezone.now())
    return answer_rows(request, snapshot, list(found), timezone.now(), row_actions.done_words(made, snapshot))


def _approvable(request: Request, snapshot: Snapshot) -> tuple[list[str], dict[str, int]]:
    """Return what can be selected in the view that the form came from, up to the most that are approved together.

    Beside it stands how many are left out because their CI failed, because the audit drew them, or because something
    of their author was reverted lately.
    """
    query = replace(row_actions.query_of(filters_of(request), require(request, "", Role.VIEWER), snapshot), page=1)
    found = as_shown.queue(snapshot, replace(query, bucket="fast_lane", size=actions.AT_MOST))
    fast = [row for group in found.groups for row in group.rows]
    acts = row_actions.acts_of(request.user, viewing(request), snapshot, fast, timezone.now())
    views = [rows.row_view(row, present(snapshot), QueueFilters()) for row in fast]
    picks = [pick_of(view, acts[view.row.uri]) for view in views]
    open_rows = [row for row in fast if acts[row.uri].can_approve and not acts[row.uri].done]
    audited = sum(bool(row.audited) for row in open_rows)
    failed = sum(row_actions.is_ci_left(row, acts[row.uri]) for row in fast)
    reverted = sum(bool(row.reverted) and row.ci != "failed" and not row.audited for row in open_rows)
    return [one for one in picks if one], {"failed": failed, "audited": audited, "reverted": reverted}


def _person(request: Request, found: Sequence[QueueRow]) -> Person:
    """Return who asks, where they maintain the repositories of all of these; the site for none."""
    for key in {row.repository_key for row in found}:
        require(request, key, Role.MAINTAINER)
    return require(request, "", Role.VIEWER)


def _confirmation(
    request: Request, snapshot: Snapshot, wanted: Sequence[Wanted], chosen: Sequence[QueueRow]
) -> dict[str, object]:
    return {
        "summary": actions.summary(chosen),
        "ci_words": CI_BRIEF,
        "items": [rows.row_view(row, present(snapshot), QueueFilters()) for row in chosen],
        "choices": [written_choice(one.uri, one.seen, one.version) for one in wanted],
        "next": safe_next(request),
    }
