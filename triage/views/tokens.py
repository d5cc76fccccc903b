"""Tokens on a page: a person makes, sees and revokes their own; an admin of the site sees and revokes everybody's."""

from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from scoring.queries import read
from triage.access.permissions import Role, Roles, SignInNeeded
from triage.access.requests import Request
from triage.access.sign_in import viewing
from triage.access.tokens import SCOPES, create_token, revoke_token
from triage.models import ApiToken, Person

SHOWN = 200
MOST = 50  # tokens that one person has at once
LONGEST_NAME = 100
EVERYTHING = "all repositories"
MEANINGS = {
    "read": "read: scores, the inbox and why, as you see them",
    "review": "review: have the content of a change read, which may cost money",
}


@dataclass(frozen=True, slots=True)
class TokenView:
    """A token as shown: whose it is ("" for the operator's), and the name of the repository that it reads."""

    token: ApiToken
    person: str
    scopes: str
    where: str


@require_safe
@never_cache
def tokens(request: Request) -> HttpResponse:
    """The tokens that whoever is signed in may revoke, and the form that makes one."""
    return _page(request, _person(request))


@require_POST
@never_cache
def make_token(request: Request) -> HttpResponse:
    """Make a token: `name`, `scopes`, `repo_key` ("" for all); its secret is in this answer and nowhere else."""
    person, roles = _person(request), viewing(request)
    name, scopes = request.POST.get("name", "").strip(), request.POST.getlist("scopes")
    repo_key = request.POST.get("repo_key", "")
    if problem := _problem(person, name, scopes) or _refusal(scopes, repo_key, roles, _places(request, roles)):
        return _page(request, person, problem=problem)
    return _page(request, person, secret=create_token(name, scopes, timezone.now(), person, repo_key))


@require_POST
@never_cache
def end_token(request: Request, number: int) -> HttpResponse:
    """Revoke a token of one's own, or as an admin of the site anybody's; others are not found."""
    person = _person(request)
    mine = {} if _sees_all(viewing(request)) else {"person": person}
    revoke_token(get_object_or_404(ApiToken, pk=number, **mine), person, timezone.now())
    messages.info(request, "The token was revoked. It no longer works.")
    return redirect("tokens")


def _person(request: Request) -> Person:
    if not isinstance(request.user, Person):
        raise SignInNeeded("Sign in first.")
    return request.user


def _sees_all(roles: Roles) -> bool:
    return roles.role("") >= Role.ADMIN


def _problem(person: Person, name: str, scopes: list[str]) -> str:
    """Return what is wrong with what was typed; "" for nothing."""
    if not 0 < len(name) <= LONGEST_NAME or not name.isprintable():
        return f"A token needs a name of 1 to {LONGEST_NAME} characters, which says what it is for."
    if not scopes or not set(scopes) <= set(SCOPES):
        return "Say what the token may do."
    if ApiToken.objects.filter(person=person, revoked_at=None).count() >= MOST:
        return f"You have {MOST} tokens: revoke one first."
    return ""


def _refusal(scopes: list[str], repo_key: str, roles: Roles, places: dict[str, str]) -> str:
    """Return what this person may not give away; "" for nothing."""
    if "review" in scopes and roles.highest() < Role.MAINTAINER:
        return "Only a maintainer's token may have changes reviewed."
    return "" if not repo_key or repo_key in places else "You have no role in that repository."


def _names(request: Request) -> dict[str, str]:
    """The watched repositories by key."""
    return {found.key: found.name for found in read.watched_repositories(request.snapshot)} if request.snapshot else {}


def _places(request: Request, roles: Roles) -> dict[str, str]:
    """Of those the ones that somebody has a role in."""
    named = _names(request)
    return named if "" in roles.held else {key: name for key, name in named.items() if key in roles.held}


def _page(request: Request, person: Person, problem: str = "", secret: str = "") -> HttpResponse:
    roles, names = viewing(request), _names(request)
    kept = ApiToken.objects.select_related("person").order_by("-made_at", "-pk")
    found = kept if _sees_all(roles) else kept.filter(person=person)
    context = {
        "tokens": [_shown(token, names) for token in found[:SHOWN]],
        "everybodys": _sees_all(roles),
        "scopes": [(name, MEANINGS[name]) for name in SCOPES if name == "read" or roles.highest() >= Role.MAINTAINER],
        "places": [("", EVERYTHING), *sorted(_places(request, roles).items(), key=lambda pair: pair[1])],
        "problem": problem,
        "secret": secret,
        "sent": request.POST if problem else {},
    }
    return render(request, "tokens.html", context, status=422 if problem else 200)


def _shown(token: Any, names: dict[str, str]) -> TokenView:
    where = names.get(token.repo_key, token.repo_key) if token.repo_key else EVERYTHING
    return TokenView(token, str(token.person or ""), ", ".join(token.scopes), where)
