"""Maintainers' work for contributors: create and revoke links, answer objections, see late answers."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db.models import Q
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from ingest.store.snapshots import Snapshot
from scoring.explain.sentences import own_sentence
from scoring.queries import read
from triage.access.permissions import Role, Roles, handled_from, require, require_reader
from triage.access.requests import Request
from triage.access.sign_in import person_of, viewing
from triage.access.tokens import DAYS, make_link, may_revoke, revoke_link
from triage.models import ContributorLink, Objection, Person
from triage.presenters import rights as rights_words
from triage.presenters.queue import queue as as_shown
from triage.presenters.queue.pills import lane_word
from triage.services.actions import TO_AUTHOR
from triage.services.audit import hiding_audits
from triage.services.author_answers import exchange, find_waiting
from triage.services.objections import ObjectionProblem, answer, speaker_words, unanswered_records
from triage.views.people.contributor import AUDIT_FIRST, did_of, objection_choices, open_offers, refused

SHOWN = 200  # objections on the page, and links of one contributor


@dataclass(frozen=True, slots=True)
class ObjectionView:
    """An objection for display; `late` where nobody answered in time. The text is the contributor's."""

    key: str
    did: str
    pull_uri: str
    repo_key: str
    text: str
    spoken_by: str  # the speaker, as the beginning of a sentence
    made_at: datetime
    due_at: datetime
    state: str
    answer: str
    late: bool
    answered_at: datetime | None = None
    may_answer: bool = False


@require_safe
@never_cache
def rights(request: Request, did: str) -> HttpResponse:
    """Show a contributor's links and objections, and the forms that create a link or object in their name."""
    person = did_of(did)
    by, _ = _handler(request, person)
    roles = viewing(request)
    links = ContributorLink.objects.filter(did=person).select_related("made_by").order_by("-made_at", "-pk")[:SHOWN]
    links_with_rights = [(item, may_revoke(item, by, roles)) for item in links]
    objections_of = [_with_permission(roles, item) for item in _objections(request, None) if item.did == person]
    context = {"did": person, "links": links_with_rights, "objections": objections_of, "now": timezone.now()}
    context["links_to"] = open_offers(request, person)
    return render(request, "rights/rights.html", _with_titles(request, context | objection_choices(request, person)))


@require_POST
@never_cache
def hand_link(request: Request, did: str) -> HttpResponse:
    """Create a link to everything, or with `pull` to that decision; it is shown once, with an answer to paste."""
    person, pull_uri, now = did_of(did), request.POST.get("pull", "").strip(), timezone.now()
    by, repo_key = _handler(request, person)
    row = as_shown.pull(request.snapshot, pull_uri) if pull_uri and request.snapshot else None
    if pull_uri and (row is None or row.author.did != person):
        return refused(request, 404, "This contributor has no such open pull request here.")
    if row is not None:
        if row.is_sealed:
            return refused(request, 409, "This is a random audit: answer its question first, then create the link.")
        require(request, row.repository_key, Role.MAINTAINER)
    elif request.snapshot and hiding_audits(request.snapshot, person_of(request), (person,)):
        return refused(request, 409, AUDIT_FIRST)
    token = make_link(by, person, row.repository_key if row else repo_key, pull_uri, now)
    name = "decision_by_link" if row else "data_by_link"
    address, until = request.build_absolute_uri(reverse(name, args=[person, token])), now + timedelta(days=DAYS)
    text = _decision_answer(row, address, until) if row else _data_answer(request.snapshot, person, address, until)
    shown = {
        "did": person,
        "handle": row.author.name if row else person,
        "pull_uri": pull_uri,
        "address": address,
        "until": until,
        "answer": text,
    }
    return render(request, "rights/link_made.html", shown)


@require_POST
@never_cache
def take_link(request: Request, did: str, number: int) -> HttpResponse:
    """Revoke a link that the viewer created, or that belongs to a repository that they maintain."""
    person = did_of(did)
    by, _ = _handler(request, person)
    link = get_object_or_404(ContributorLink, pk=number, did=person)
    if not may_revoke(link, by, viewing(request)):
        raise PermissionDenied("Only a maintainer of its repository can revoke this link.")
    revoke_link(link, by, timezone.now())
    messages.info(request, "The link is revoked.")
    return redirect("rights", did=person)


@require_safe
@never_cache
def objections(request: Request) -> HttpResponse:
    """List objections in the viewer's repositories: open ones, most urgent first, or with `?all` every one."""
    _, roles = _maintainer(request)
    state = None if "all" in request.GET else Objection.State.OPEN
    shown = [
        _with_permission(roles, objection)
        for objection in _objections(request, state)
        if _may_read(request, roles, objection)
    ]
    return render(
        request,
        "rights/objections.html",
        _with_titles(request, {"objections": shown[:SHOWN], "everything": state is None}),
    )


@require_POST
@never_cache
def answer_objection(request: Request) -> HttpResponse:
    """Accept or reject an objection: `key`, `state`, `answer`; never one's own."""
    by, roles = _maintainer(request)
    key = request.POST.get("key", "")
    objection = next((candidate for candidate in _objections(request, None) if candidate.key == key), None)
    if objection is None:
        raise Http404("This objection does not exist; it may have been withdrawn.")
    if not _may_answer(roles, objection):
        where = "of the pull request's repository" if objection.repo_key else "of the whole site"
        raise PermissionDenied(f"This needs the role maintainer {where}.")
    if by.did == objection.did:
        raise PermissionDenied("Somebody else must answer your own objection.")
    try:
        answer(
            key,
            unanswered_records(request.snapshot).get(key),
            by,
            _posted(request, "state"),
            _posted(request, "answer"),
            timezone.now(),
        )
    except ObjectionProblem as problem:
        return refused(request, problem.status, str(problem), _posted(request, "answer"))
    messages.info(request, "The answer is saved. The contributor reads it on their own page.")
    return redirect("objections")


def _handler(request: Request, did: str) -> tuple[Person, str]:
    """Return the viewer, and the key of the repository as whose maintainer they may contact this contributor."""
    person, roles = _maintainer(request)
    repo_key = handled_from(roles, request.snapshot, did)
    if repo_key is None:
        raise PermissionDenied("This contributor has no pull request in a repository that you maintain.")
    return person, repo_key


def _maintainer(request: Request) -> tuple[Person, Roles]:
    person, roles = require_reader(request), viewing(request)
    if roles.highest() < Role.MAINTAINER:
        raise PermissionDenied("This needs the role maintainer.")
    return person, roles


def _may_read(request: Request, roles: Roles, objection: ObjectionView) -> bool:
    """Return whether somebody may read an objection: it covers a pull request in a repository of theirs."""
    return _may_answer(roles, objection) or not (
        objection.repo_key or handled_from(roles, request.snapshot, objection.did) is None
    )


def _may_answer(roles: Roles, objection: ObjectionView) -> bool:
    """Return whether somebody maintains everything that an objection covers.

    That is the whole site where it names no repository.
    """
    return roles.role(objection.repo_key) >= Role.MAINTAINER


def _with_permission(roles: Roles, objection: ObjectionView) -> ObjectionView:
    return replace(objection, may_answer=_may_answer(roles, objection))


def _objections(request: Request, state: str | None) -> list[ObjectionView]:
    """Return the objections of pages and records together, earliest due first."""
    now = timezone.now()
    stored = Objection.objects.filter(Q() if state is None else Q(state=state)).order_by("due_at", "pk")
    unanswered = unanswered_records(request.snapshot)
    names = read.repository_names(request.snapshot) if request.snapshot else {}
    shown = [_stored_view(objection, names, now) for objection in stored if objection.key not in unanswered]
    return sorted(
        [*shown, *(_record_view(record, now) for record in unanswered.values())], key=lambda objection: objection.due_at
    )


def _stored_view(objection: Any, names: Mapping[str, str], now: datetime) -> ObjectionView:
    shared_fields = (
        "key",
        "did",
        "pull_uri",
        "repo_key",
        "text",
        "made_at",
        "due_at",
        "state",
        "answer",
        "answered_at",
    )
    late = objection.state == Objection.State.OPEN and objection.due_at < now
    spoken_by = speaker_words(objection.source, names.get(objection.repo_key, objection.repo_key))
    return ObjectionView(**{name: getattr(objection, name) for name in shared_fields}, spoken_by=spoken_by, late=late)


def _record_view(record: read.RecordObjection, now: datetime) -> ObjectionView:
    made_at, due_at = record.seen_at.replace(tzinfo=UTC), record.due_at.replace(tzinfo=UTC)
    return ObjectionView(
        key=record.uri,
        did=record.did,
        pull_uri=record.pull_uri or "",
        repo_key=record.repo_key,
        text=record.text,
        spoken_by=speaker_words(Objection.Source.RECORD, ""),
        made_at=made_at,
        due_at=due_at,
        state=Objection.State.OPEN,
        answer="",
        late=due_at < now,
    )


def _decision_answer(row: read.QueueRow, address: str, until: datetime) -> str:
    reasons = [own_sentence(reason) for reason in row.verdict.reasons]
    written = [one.note for one in exchange(row.uri, timezone.now()) if one.kind in TO_AUTHOR][::-1]
    return rights_words.decision_answer(row.title, lane_word(row.verdict), reasons, written, address, until)


def _data_answer(snapshot: Snapshot | None, did: str, address: str, until: datetime) -> str:
    waiting = find_waiting(did, snapshot, timezone.now()) if snapshot else {}
    subjects = read.subjects(snapshot, waiting) if snapshot and waiting else {}
    return rights_words.data_answer(address, until, [subjects[uri].title for uri in waiting if uri in subjects])


def _with_titles(request: Request, context: dict[str, Any]) -> dict[str, Any]:
    """Add the pull requests that the objections name to the context."""
    uris = [objection.pull_uri for objection in context["objections"] if objection.pull_uri]
    return context | {"subjects": read.subjects(request.snapshot, uris) if request.snapshot and uris else {}}


def _posted(request: Request, name: str) -> str:
    return request.POST.get(name, "")
