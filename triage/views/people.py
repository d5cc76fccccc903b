"""Roles of people, and the log of what people changed: for admins, and for maintainers of what is theirs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db.models import Q
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from ingest.atproto.syntax import MalformedDid, parse_account, parse_did
from scoring.queries import read
from triage.access.permissions import Role, Roles, SignInNeeded, require, roles_of
from triage.access.requests import Request
from triage.access.roles import LastAdmin, set_role
from triage.access.sign_in import person_for
from triage.models import Change, Maintainer, Person
from triage.presenters.changes import is_everywhere, nobody_words, told_details, what_words

CHANGES_SHOWN = 50  # on one page
ROLES_SHOWN = 500
SITE = "the whole site"
TAKEN = "none"  # what the form says for taking a role


@dataclass(frozen=True, slots=True)
class ChangeView:
    """One line of the log: who, what, where, on what (by its title where it has one), and what it was and is."""

    change: Change
    what: str
    where: str
    subject: str
    told: tuple[str, ...]
    nobody: str  # who did it where no account is named


@require_safe
@never_cache
def people(request: Request) -> HttpResponse:
    """Roles in the repositories that whoever asks is admin of; the form that gives and takes them."""
    return _people(request)


def _people(request: Request, problem: str = "") -> HttpResponse:
    """The page; with a problem, the form as it was sent."""
    roles = _someone(request, Role.ADMIN)
    names = _names(request)
    held = Maintainer.objects.select_related("person").order_by("repo_key", "person__did")
    mine = roles.keys(Role.ADMIN)
    shown = list((held if "" in mine else held.filter(repo_key__in=mine))[:ROLES_SHOWN])
    places = [("", SITE), *sorted(names.items(), key=lambda pair: pair[1])]
    context = {
        "held": [(row, _where(row.repo_key, names)) for row in shown],
        "places": [(key, name) for key, name in places if roles.role(key) >= Role.ADMIN],
        "roles": Maintainer.Role.values,
        "problem": problem,
        "sent": request.POST if problem else {},
    }
    return render(request, "people.html", context, status=422 if problem else 200)


@require_POST
@never_cache
def change_role(request: Request) -> HttpResponse:
    """Give or take a role: `did`, `repo_key` ("" for the site), `role` or "none"; an admin's own doing, logged."""
    repo_key, role = request.POST.get("repo_key", ""), request.POST.get("role", "")
    by = require(request, repo_key, Role.ADMIN)
    if repo_key and repo_key not in _names(request):
        return _people(request, "That repository is not watched here.")
    if role not in (*Maintainer.Role.values, TAKEN):
        return _people(request, "This role does not exist.")
    try:
        did = (parse_did if role == TAKEN else parse_account)(request.POST.get("did", "").strip())
        person = Person.objects.filter(did=did).first() if role == TAKEN else person_for(did, request.snapshot)
        changed = person is not None and set_role(by, person, repo_key, _given(role), timezone.now())
    except (MalformedDid, LastAdmin) as problem:
        return _people(request, str(problem))
    messages.info(request, "Saved." if changed else "Nothing changed: the person already has this role.")
    return redirect("people")


@require_safe
@never_cache
def changes(request: Request) -> HttpResponse:
    """Return what people changed, the newest first: all of it for maintainers of the site, else what is theirs."""
    roles = _someone(request, Role.MAINTAINER)
    mine = roles.keys(Role.MAINTAINER)
    found = Change.objects.select_related("person").order_by("-made_at", "-pk")
    found = found if "" in mine else found.filter(Q(repo_key__in=mine) & ~Q(repo_key=""))
    page = Paginator(found, CHANGES_SHOWN).get_page(request.GET.get("page"))
    return render(request, "changes.html", {"page": page, "lines": _lines(request, page.object_list)})


def _given(role: str) -> str | None:
    return None if role == TAKEN else role


def _someone(request: Request, least: Role) -> Roles:
    """The roles of whoever asks, who must have at least this one somewhere."""
    if not request.user.is_authenticated:
        raise SignInNeeded("Sign in first.")
    roles = roles_of(request.user)
    if roles.highest() < least:
        raise PermissionDenied(f"This needs the role {least.name.lower()}.")
    return roles


def _names(request: Request) -> dict[str, str]:
    """The watched repositories by key."""
    return {found.key: found.name for found in read.watched_repositories(request.snapshot)} if request.snapshot else {}


def _where(repo_key: str, names: dict[str, str]) -> str:
    return names.get(repo_key, repo_key) if repo_key else SITE


def _lines(request: Request, found: Sequence[Any]) -> list[ChangeView]:
    names, uris = _names(request), [change.subject for change in found if change.subject.startswith("at://")]
    titles = {uri: one.title for uri, one in read.subjects(request.snapshot, uris).items()} if request.snapshot else {}
    return [
        ChangeView(
            change,
            what_words(change.what),
            SITE if is_everywhere(change.what, change.details) else _where(change.repo_key, names),
            titles.get(change.subject) or change.subject,
            told_details(change.details),
            nobody_words(change.details),
        )
        for change in found
    ]
