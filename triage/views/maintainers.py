"""Maintainers' work for contributors: hand out and take back links, answer objections, see who is late."""

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

from scoring.explain.sentences import own_sentence
from scoring.queries import read
from triage.access.permissions import Role, Roles, handled_from, require, signed_in
from triage.access.requests import Request
from triage.access.sign_in import viewing
from triage.access.tokens import DAYS, make_link, may_revoke, revoke_link
from triage.models import ContributorLink, Objection, Person
from triage.presenters import queue as as_shown
from triage.presenters import rights as rights_words
from triage.presenters.pills import lane_word
from triage.services.objections import ObjectionProblem, answer, speaker_words
from triage.views.contributor import did_of, objection_choices, open_offers, refused

SHOWN = 200  # objections on the page, and links of one contributor


@dataclass(frozen=True, slots=True)
class ObjectionView:
    """An objection as shown; `late` where nobody answered in time. The text is the contributor's."""

    key: str
    did: str
    pull_uri: str
    repo_key: str
    text: str
    spoken_by: str  # who spoke, as the beginning of a sentence
    made_at: datetime
    due_at: datetime
    state: str
    answer: str
    late: bool
    may_answer: bool = False


@require_safe
@never_cache
def rights(request: Request, did: str) -> HttpResponse:
    """The links of a contributor, their objections, and the forms that hand a link or write for them."""
    person = did_of(did)
    by, _ = _handler(request, person)
    roles = viewing(request)
    links = ContributorLink.objects.filter(did=person).select_related("made_by").order_by("-made_at")[:SHOWN]
    held = [(one, may_revoke(one, by, roles)) for one in links]
    found = [_offered_to(roles, one) for one in _objections(request, None) if one.did == person]
    told = {"did": person, "links": held, "objections": found, "now": timezone.now()}
    told["links_to"] = open_offers(request, person)
    return render(request, "rights/rights.html", _with_titles(request, told | objection_choices(request, person)))


@require_POST
@never_cache
def hand_link(request: Request, did: str) -> HttpResponse:
    """Make a link to everything, or with `pull` to that decision; shown once, with an answer to paste."""
    person, pull_uri, now = did_of(did), request.POST.get("pull", "").strip(), timezone.now()
    by, repo_key = _handler(request, person)
    row = as_shown.pull(request.snapshot, pull_uri) if pull_uri and request.snapshot else None
    if pull_uri and (row is None or row.author.did != person):
        return refused(request, 404, "This contributor has no such open pull request here.")
    if row is not None:
        if row.is_sealed:
            return refused(request, 409, "This is a random audit: answer its question first, then create the link.")
        require(request, row.repository_key, Role.MAINTAINER)
    token = make_link(by, person, row.repository_key if row else repo_key, pull_uri, now)
    name = "decision_by_link" if row else "data_by_link"
    address, until = request.build_absolute_uri(reverse(name, args=[person, token])), now + timedelta(days=DAYS)
    text = rights_words.data_answer(address, until) if row is None else _decision_answer(row, address, until)
    return render(request, "rights/link_made.html", {"did": person, "address": address, "until": until, "answer": text})


@require_POST
@never_cache
def take_link(request: Request, did: str, number: int) -> HttpResponse:
    """Take back a link that was handed out for a repository that whoever asks maintains, or by themselves."""
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
    """Objections to what whoever asks maintains: those still open, the most urgent first, or with `?all` every one."""
    _, roles = _maintainer(request)
    state = None if "all" in request.GET else Objection.State.OPEN
    shown = [_offered_to(roles, one) for one in _objections(request, state) if _concerns(request, roles, one)]
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
    found = next((one for one in _objections(request, None) if one.key == key), None)
    if found is None:
        raise Http404("This objection does not exist; it may have been withdrawn.")
    if not _may_answer(roles, found):
        where = "of the pull request's repository" if found.repo_key else "of the whole site"
        raise PermissionDenied(f"This needs the role maintainer {where}.")
    if by.did == found.did:
        raise PermissionDenied("Somebody else must answer your own objection.")
    try:
        answer(
            key, _records(request).get(key), by, _posted(request, "state"), _posted(request, "answer"), timezone.now()
        )
    except ObjectionProblem as problem:
        return refused(request, problem.status, str(problem), _posted(request, "answer"))
    messages.info(request, "The answer is saved. The contributor reads it on their own page.")
    return redirect("objections")


def _handler(request: Request, did: str) -> tuple[Person, str]:
    """Whoever asks, and the key of the repository as whose maintainer they may speak with this contributor."""
    person, roles = _maintainer(request)
    repo_key = handled_from(roles, request.snapshot, did)
    if repo_key is None:
        raise PermissionDenied("This contributor has no pull request in a repository that you maintain.")
    return person, repo_key


def _maintainer(request: Request) -> tuple[Person, Roles]:
    person, roles = signed_in(request), viewing(request)
    if roles.highest() < Role.MAINTAINER:
        raise PermissionDenied("This needs the role maintainer.")
    return person, roles


def _concerns(request: Request, roles: Roles, one: ObjectionView) -> bool:
    """Return whether somebody may read an objection: it holds a pull request in a repository of theirs."""
    return _may_answer(roles, one) or not (one.repo_key or handled_from(roles, request.snapshot, one.did) is None)


def _may_answer(roles: Roles, one: ObjectionView) -> bool:
    """Return whether somebody maintains all that an objection holds: the whole site where it names no repository."""
    return roles.role(one.repo_key) >= Role.MAINTAINER


def _offered_to(roles: Roles, one: ObjectionView) -> ObjectionView:
    return replace(one, may_answer=_may_answer(roles, one))


def _objections(request: Request, state: str | None) -> list[ObjectionView]:
    """Objections of pages and records together, the earliest due first."""
    now = timezone.now()
    kept = Objection.objects.filter(Q() if state is None else Q(state=state)).order_by("due_at", "pk")
    records = _records(request)
    answered = dict(Objection.objects.filter(source=Objection.Source.RECORD).values_list("key", "record_cid"))
    fresh = [one for one in records.values() if answered.get(one.uri) != (one.record_cid or "")]
    names = read.repository_names(request.snapshot) if request.snapshot else {}
    shown = [_kept_view(one, names, now) for one in kept if one.key not in {each.uri for each in fresh}]
    return sorted([*shown, *(_record_view(one, now) for one in fresh)], key=lambda one: one.due_at)


def _records(request: Request) -> Mapping[str, read.RecordObjection]:
    return {one.uri: one for one in read.record_objections(request.snapshot)} if request.snapshot else {}


def _kept_view(one: Any, names: Mapping[str, str], now: datetime) -> ObjectionView:
    same = ("key", "did", "pull_uri", "repo_key", "text", "made_at", "due_at", "state", "answer")
    late = one.state == Objection.State.OPEN and one.due_at < now
    spoken_by = speaker_words(one.source, names.get(one.repo_key, one.repo_key))
    return ObjectionView(**{name: getattr(one, name) for name in same}, spoken_by=spoken_by, late=late)


def _record_view(one: read.RecordObjection, now: datetime) -> ObjectionView:
    made_at, due_at = one.seen_at.replace(tzinfo=UTC), one.due_at.replace(tzinfo=UTC)
    return ObjectionView(
        key=one.uri,
        did=one.did,
        pull_uri=one.pull_uri or "",
        repo_key=one.repo_key,
        text=one.text,
        spoken_by=speaker_words(Objection.Source.RECORD, ""),
        made_at=made_at,
        due_at=due_at,
        state=Objection.State.OPEN,
        answer="",
        late=due_at < now,
    )


def _decision_answer(row: read.QueueRow, address: str, until: datetime) -> str:
    reasons = [own_sentence(reason) for reason in row.verdict.reasons]
    return rights_words.decision_answer(row.title, lane_word(row.verdict), reasons, address, until)


def _with_titles(request: Request, told: dict[str, Any]) -> dict[str, Any]:
    """The context with the pull requests that its objections name."""
    uris = [one.pull_uri for one in told["objections"] if one.pull_uri]
    return told | {"subjects": read.subjects(request.snapshot, uris) if request.snapshot and uris else {}}


def _posted(request: Request, name: str) -> str:
    return request.POST.get(name, "")
