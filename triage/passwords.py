"""Signing in by name and password, and setting the password. Hashes and rules are those of django.contrib.auth."""

import time

from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.hashers import make_password
from django.contrib.auth.password_validation import password_validators_help_texts, validate_password
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Q
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from triage import throttle
from triage.dids import parse_handle
from triage.models import Person
from triage.permissions import SignInNeeded
from triage.requests import Request

BY_LINK = "signed_in_by_link"  # of the session: whoever has the link may set a new password without the old one
LONGEST = 1_000  # characters
WRONG = "Wrong handle or password. You can also sign in with a one-time link."
TWICE = "The two passwords differ. Type the same one twice."
OLD = "Wrong current password. You can sign in with a one-time link to set a new one."


def find_person(name: str, password: str, now: float) -> Person | None:
    """The active person of this DID or handle, where the password is theirs; None takes as long to say.

    A handle that two people have names nobody. Wrong passwords for an account are counted, and too many shut it for a
    while: what is then tried is not looked at. `now` in Unix seconds.
    """
    person = _named(name)
    if person is None or len(password) > LONGEST or throttle.seconds_to_wait_for(str(person.pk), now):
        make_password(password[:LONGEST])  # the same work, so that nobody learns who has an account
        return None
    if person.check_password(password):
        return person
    throttle.count_failure_for(str(person.pk), now)
    return None


def _named(name: str) -> Person | None:
    handle = parse_handle(name) or ""
    found = Person.objects.filter(Q(did=name.strip()) | (Q(handle__iexact=handle) & ~Q(handle="")), is_active=True)
    people = [person for person in found[:2] if person.has_password]
    return people[0] if len(people) == 1 else None


@never_cache
@sensitive_post_parameters()
@require_http_methods(["GET", "HEAD", "POST"])
def set_password(request: Request) -> HttpResponse:
    """The page on which whoever is signed in sets their password; one that they have is asked for."""
    from triage.access import safe_next

    person = request.user
    if not isinstance(person, Person):
        raise SignInNeeded("Sign in first.")
    problems = _set(request, person) if request.method == "POST" else []
    if request.method == "POST" and not problems:
        return redirect(safe_next(request))
    context = {
        "next": safe_next(request),
        "problems": problems,
        "asks_old": _asks_old(request, person),
        "rules": password_validators_help_texts(),
    }
    return render(request, "password.html", context, status=422 if problems else 200)


def _set(request: Request, person: Person) -> list[str]:
    """Set the password that was typed; sentences on why not, with nothing changed."""
    new = request.POST.get("password", "")
    if _asks_old(request, person) and not _knows_old(request, person):
        return [OLD]
    if new != request.POST.get("again", ""):
        return [TWICE]
    try:
        validate_password(new[: LONGEST + 1], person)
    except ValidationError as problem:
        return list(problem.messages)
    if len(new) > LONGEST:
        return [f"A password has at most {LONGEST:,} characters."]
    _keep(request, person, new)
    return []


def _keep(request: Request, person: Person, new: str) -> None:
    """Set it, whole or not at all: this session goes on, every other one ends."""
    person.set_password(new)
    with transaction.atomic():
        person.save(update_fields=["password"])
        update_session_auth_hash(request, person)
        request.session.pop(BY_LINK, None)
        request.session.keep()


def _asks_old(request: Request, person: Person) -> bool:
    return person.has_password and not request.session.get(BY_LINK)


def _knows_old(request: Request, person: Person) -> bool:
    return find_person(str(person.did), request.POST.get("old", ""), time.time()) is not None
