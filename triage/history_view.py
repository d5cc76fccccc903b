"""What people did with one pull request, in order, and how it changed since one of them approved it."""

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone

from ingest.snapshot import Snapshot
from scoring import read
from scoring.read import ChangedApproval, Subject
from triage import actions, as_shown
from triage.access import viewing
from triage.permissions import Role, role_of
from triage.requests import Request
from triage.views import reading


@reading
def history(request: Request, snapshot: Snapshot, uri: str) -> HttpResponse:
    """Every action on a pull request of a watched repository, also when it is merged or closed."""
    subject = read.subjects(snapshot, [uri]).get(uri)
    if subject is None:
        raise Http404("No pull request of a watched repository has this address.")
    changed = as_shown.changed_after(snapshot).get(uri)
    shown = {
        "subject": subject,
        "past": as_shown.past_actions(snapshot, uri),
        "trouble": read.troubles_in_words(snapshot, [uri]).get(uri),
        "counted": read.outcome_in_words(snapshot, uri),
        "changed": changed,
        "approved_round": _approved_round(snapshot, changed) if changed else None,
        "next": reverse("history", args=[uri]),
        "may_read_notes": viewing(request).role(subject.repository_key) >= Role.MAINTAINER,
        **_forms(request, subject),
    }
    return render(request, "history.html", shown)


def _forms(request: Request, subject: Subject) -> dict[str, object]:
    """What the page's forms carry, for somebody who may act."""
    if role_of(request.user, subject.repository_key) < Role.MAINTAINER:
        return {}
    stand = actions.standings({subject.uri: subject.seen}, timezone.now())[subject.uri]
    return {
        "act": {"seen": subject.seen, "version": stand.version},
        "shown": {"row": subject},
        "is_approved": stand.approval is not None and subject.state == "open",
    }


def _approved_round(snapshot: Snapshot, changed: ChangedApproval) -> str | None:
    """Name the approved patch as the page of the change does; None where it is no longer listed there."""
    seen = changed.seen
    for one in read.rounds(snapshot, changed.uri):
        if one.number == seen.round + 1 and one.patch_id == seen.patch_id and not one.newest:
            return one.key
    return None
