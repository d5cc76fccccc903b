"""Pages for incidents: the one that went wrong, closing and opening the lane, the audit's answers. For maintainers."""

from collections.abc import Mapping
from functools import wraps

from django.contrib import messages
from django.http import Http404, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone

from ingest.atproto.syntax import parse_handle
from ingest.store.snapshots import Snapshot
from scoring.explain import sentences as explain
from scoring.formatting import visible
from scoring.queries import read
from scoring.queries.read import Seen
from triage.access.permissions import Role, SignInNeeded, require, role_of
from triage.access.requests import Request
from triage.access.sign_in import safe_next
from triage.context import present
from triage.forms.actions import read_seen
from triage.http_cache import Page
from triage.models import Action, LaneClosure, Person
from triage.presenters import pills
from triage.presenters import queue as as_shown
from triage.presenters import text as incident_words
from triage.services import audit, lane_closures
from triage.services.actions import ActionProblem, Conflict
from triage.services.lane_closures import BAD, banners
from triage.services.reading_times import note_verdict
from triage.views.actions import acting_page, answer_conflict, to_sign_in
from triage.views.queue import reading

# Which of a form's fields name what is closed, by its button; without one all of them.
SCOPES: Mapping[str, tuple[str, ...]] = {
    "": ("repo_key", "author", "voucher"),
    "repository": ("repo_key",),
    "author": ("repo_key", "author"),
    "voucher": ("repo_key", "voucher"),
    "everywhere": ("author",),
}
NO_INCIDENT = "No incident has this address, or somebody undid its mark."
NEVER_MERGED = "This pull request was not merged, so it cannot be an incident."
NEVER_APPROVED = (
    "No approval of this pull request has taken effect here, so the lane did nothing wrong. "
    "If it was approved seconds ago, load this page again."
)


def for_maintainers(page: Page) -> Page:
    """A page that sends whoever is not signed in to sign in."""

    @wraps(page)
    def answer(request: Request, snapshot: Snapshot, **arguments: str) -> HttpResponse:
        try:
            return page(request, snapshot, **arguments)
        except SignInNeeded:
            return to_sign_in(request, request.get_full_path())

    return reading(answer)


@for_maintainers
def incident(request: Request, snapshot: Snapshot, key: str) -> HttpResponse:
    """Return what was known when an approved pull request that was marked bad was approved, and what follows."""
    mark = find_mark(key)
    require(request, mark.repo_key, Role.MAINTAINER)
    found, subject = as_shown.incident(snapshot, mark.pull_uri, present(snapshot)), _subject(snapshot, mark.pull_uri)
    if subject.state != "merged":
        raise Http404(NEVER_MERGED)
    if found is None:
        raise Http404(NEVER_APPROVED)
    newest = Action.objects.filter(pull_uri=mark.pull_uri, kind=Action.Kind.OUTCOME, undone_at=None).latest("pk")
    page = {
        "incident": found,
        "subject": subject,
        "mark": mark,
        "trouble": read.troubles_in_words(snapshot, [mark.pull_uri]).get(mark.pull_uri),
        "corrected": newest if newest.outcome not in BAD else None,
        "lane": pills.lane_word(found.verdict),
        "reasons": [visible(explain.sentence(reason)) for reason in explain.told_reasons(found.verdict)],
        "would_hold": [incident_words.tightened_words(one) for one in found.would_hold],
        "like_it": [(one, [incident_words.SHARE_WORDS[name] for name in one.shares]) for one in found.like_it],
        "shared": [(words, found.shared[name]) for name, words in incident_words.SHARE_WORDS.items()],
        "budget": incident_words.budget_words(found.budget),
        "may_close_everywhere": role_of(request.user, "") >= Role.MAINTAINER,
        "standing": [one for one in banners(request, snapshot) if one[0].repository in ("", mark.repo_key)],
        "next": reverse("incident", args=[key]),
    }
    return render(request, "incident.html", page)


@acting_page
def close(request: Request, snapshot: Snapshot) -> HttpResponse:
    """Close the lane at once."""
    told = request.POST
    scope = _scope(snapshot, told)
    person = require(request, scope.repo_key, Role.MAINTAINER)
    if scope.repo_key and scope.repo_key not in read.repository_names(snapshot):
        raise ActionProblem("Nothing changed: no watched repository has this name.")
    made, is_new = lane_closures.close_lane(person, scope, told.get("because", ""), timezone.now())
    closure = lane_closures.as_closure(made, {})
    words = lane_closures.closure_words(closure, lane_closures.names_in(snapshot, [closure]))
    messages.info(request, f"{visible(words)}{'.' if is_new else ' before you did: it stays closed.'}")
    return HttpResponseRedirect(safe_next(request))


@acting_page
def reopen(request: Request, snapshot: Snapshot) -> HttpResponse:
    """Open the lane again where it was closed."""
    if not isinstance(request.user, Person):
        raise SignInNeeded("Sign in first.")
    closure = get_object_or_404(LaneClosure, key=request.POST.get("key", ""))
    person = require(request, closure.repo_key, Role.MAINTAINER)
    opened = lane_closures.open_lane(person, closure, request.POST.get("because", ""), timezone.now())
    messages.info(request, "The fast lane is open again." if opened else "Somebody opened it before you did.")
    return HttpResponseRedirect(safe_next(request))


@acting_page
def answer_audit(request: Request, snapshot: Snapshot) -> HttpResponse:
    """Answer the audit's question and see the rest; 409 where it changed or somebody answered before."""
    told = request.POST
    row = as_shown.pull(snapshot, told.get("uri", ""))
    if row is None:
        raise Http404("No open pull request of a watched repository has this address.")
    person = require(request, row.repository_key, Role.MAINTAINER)
    wanted = {"yes": True, "no": False}.get(told.get("answer", ""))
    if wanted is None:
        raise ActionProblem("Answer yes or no. Not saved.")
    seen: Seen = read_seen(told.dict())
    now = timezone.now()
    try:
        audit.answer(person, row, seen, wanted, told.get("because", ""), now)
    except Conflict as conflict:
        return answer_conflict(request, snapshot, conflict, now)
    note_verdict(person, row.uri, now)
    return redirect("pull", uri=row.uri)


def _scope(snapshot: Snapshot, told: Mapping[str, str]) -> lane_closures.Scope:
    """Return what a form names, people by handle or DID; with `scope` the part of it that its button is about."""
    names = SCOPES.get(told.get("scope", ""))
    if names is None:
        raise ActionProblem("Nothing changed: this button does not exist.")
    repo_key, *people = (told.get(name, "") if name in names else "" for name in SCOPES[""])
    return lane_closures.read_scope(repo_key, *(_did_of(snapshot, text) for text in people))


def _did_of(snapshot: Snapshot, text: str) -> str:
    """Return the DID of a handle, anything else as it is; ActionProblem for a handle of nobody here."""
    handle = parse_handle(text)
    if handle is None:
        return text
    known = read.dids_of_handles(snapshot, {handle})
    if handle not in known:
        raise ActionProblem(f"Nothing was closed. Nobody seen here has the handle “{handle}”. Write their DID.")
    return known[handle]


def find_mark(key: str) -> Action:
    """The mark that opened the incident at this address; 404 where there is none."""
    found = Action.objects.filter(key=key, kind=Action.Kind.OUTCOME, outcome__in=BAD, undone_at=None)
    mark = found.select_related("person").first()
    if mark is None:
        raise Http404(NO_INCIDENT)
    return mark


def _subject(snapshot: Snapshot, uri: str) -> read.Subject:
    subject = read.subjects(snapshot, [uri]).get(uri)
    if subject is None:
        raise Http404("This pull request is gone.")
    return subject
