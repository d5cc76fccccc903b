"""What people did with one pull request, in order, and how it changed since one of them approved it."""

from django.conf import settings
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone

from ingest.snapshot import Snapshot
from scoring import read
from scoring.interdiff import Difference, difference
from scoring.read import ChangedApproval, Subject
from triage import actions, as_shown
from triage.access import viewing
from triage.middleware import Request
from triage.permissions import Role, role_of
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
        "difference": _difference(snapshot, subject, changed) if changed else None,
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


def _difference(snapshot: Snapshot, subject: Subject, changed: ChangedApproval) -> Difference:
    approved = changed.seen.patch_id and read.kept_patch(snapshot, subject.uri, changed.seen.patch_id)
    return difference(settings.DIFF_CORPUS_DIR, approved or None, subject.sha256)
