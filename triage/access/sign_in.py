"""Sign people in and out, also by name and password, and decide who may read.

Password hashes and rules are those of django.contrib.auth. A program that may not read is told how to get access, or
that it tried too often.
"""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import wraps
from urllib.parse import urlencode

from django.conf import settings
from django.contrib.auth import login, logout, update_session_auth_hash
from django.contrib.auth.hashers import make_password
from django.contrib.auth.password_validation import password_validators_help_texts, validate_password
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import transaction
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render, resolve_url
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST
from django_htmx.http import HttpResponseClientRedirect

from ingest.atproto.syntax import LONGEST_DID, parse_handle
from ingest.store.snapshots import Snapshot
from scoring.queries import read
from triage.access import throttle
from triage.access.admission import SignInProblem, let_in
from triage.access.oauth.client import is_here, sign_in_origin
from triage.access.oauth.sessions import end_sessions_of
from triage.access.permissions import (
    NOT_INVITED,
    NotInvited,
    Role,
    Roles,
    has_admin,
    is_invited,
    roles_of,
    session_roles,
    signed_in,
)
from triage.access.problems import CHALLENGE, HOW_TO_READ, ApiProblem, mark_private, prefers_json, problem_response
from triage.access.requests import Request, is_local
from triage.access.tokens import (
    bearer_secret,
    bearer_token,
    count_refused,
    held_to,
    new_secret,
    same_hash,
    secret_hash,
    token_of,
)
from triage.models import Person, SignInMethod
from triage.models.push import forget_browser

CLAIM = "first_admin"  # session key: the hash of the first admin's code, typed before signing in
BY_LINK = "signed_in_by_link"  # session key: the link's holder may set a new password without the old one
SINCE = "signed_in_at"  # session key: when, in Unix seconds
FRESH_SECONDS = 900  # after signing in: later a thief of the session would set a password, and stay in with it
LONGEST = 1_000  # characters
WRONG = "Wrong handle or password. You can also sign in with a one-time link."
TWICE = "The two passwords differ. Type the same one twice."
LATE = "You signed in too long ago to set a password. Sign out, sign in again, and set it within 15 minutes."
OLD = "Wrong current password. You can sign in with a one-time link to set a new one."


def find_person(name: str, password: str, now: float) -> Person | None:
    """Return the active person with this DID or handle and this password; a None takes equally long.

    A handle shared by two people matches nobody. Wrong passwords for an account are counted, and too many lock it for a
    while: further attempts are not checked. `now` in Unix seconds.
    """
    person = _find_by_name(name)
    if person is None or len(password) > LONGEST or throttle.seconds_to_wait_for(str(person.pk), now):
        make_password(password[:LONGEST])  # equal work, so that timing does not reveal who has an account
        return None
    if person.check_password(password):
        return person
    throttle.count_failure_for(str(person.pk), now)
    return None


def _find_by_name(name: str) -> Person | None:
    handle = parse_handle(name) or ""
    matching = Person.objects.filter(Q(did=name.strip()) | (Q(handle__iexact=handle) & ~Q(handle="")), is_active=True)
    people = [person for person in matching[:2] if person.has_password]
    return people[0] if len(people) == 1 else None


@never_cache
@sensitive_post_parameters()
@require_http_methods(["GET", "HEAD", "POST"])
def set_password(request: Request) -> HttpResponse:
    """Show the page on which signed-in people set their password; an existing password is asked for."""
    person = signed_in(request)
    is_late = not _asks_old(request, person) and not _is_fresh(request)
    problems = [LATE] if is_late else _set_password(request, person) if request.method == "POST" else []
    if request.method == "POST" and not problems:
        return redirect(safe_next(request))
    context = {
        "next": safe_next(request),
        "problems": problems,
        "is_late": is_late,
        "asks_old": _asks_old(request, person),
        "rules": password_validators_help_texts(),
    }
    status = 422 if problems and request.method == "POST" else 200
    return render(request, "sign_in/password.html", context, status=status)


def _set_password(request: Request, person: Person) -> list[str]:
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
    _save_password(request, person, new)
    return []


def _save_password(request: Request, person: Person, new: str) -> None:
    """Set the password in one transaction: this session continues, all others end."""
    person.set_password(new)
    with transaction.atomic():
        person.save(update_fields=["password"])
        update_session_auth_hash(request, person)
        request.session.pop(BY_LINK, None)
        request.session.keep()


def _asks_old(request: Request, person: Person) -> bool:
    return person.has_password and not (request.session.get(BY_LINK) and _is_fresh(request))


def _is_fresh(request: Request) -> bool:
    return 0 <= time.time() - request.session.get(SINCE, 0) < FRESH_SECONDS


def _knows_old(request: Request, person: Person) -> bool:
    return find_person(str(person.did), request.POST.get("old", ""), time.time()) is not None


ONE_REPOSITORY = (
    "This token reads one repository only, and this address covers others too. "
    "Ask /queue, /pull, /approved.json, /score or /trust with repo."
)


def turned_away(request: Request, how: str = HOW_TO_READ) -> ApiProblem:
    """Return 401 with `how` for callers without a valid token, 403 for a token of one repository; 429 after too many.

    The use of a revoked token is counted, so that its owner sees that somebody still has it.
    """
    if how == HOW_TO_READ and held_to(request):
        return ApiProblem(403, ONE_REPOSITORY, code="one_repository")
    if how == HOW_TO_READ and isinstance(request.user, Person) and not bearer_secret(request):
        return ApiProblem(403, NOT_INVITED)
    network, now = throttle.network_of(request.META.get("REMOTE_ADDR", "")), time.time()
    if throttle.count("refused", network, throttle.MINUTE, now) > settings.API_ANONYMOUS_A_MINUTE:
        return too_many(throttle.seconds_left(throttle.MINUTE, now))
    if secret := bearer_secret(request):
        count_refused(secret)
        how = how if token_of(request) else f"The token that was sent is unknown, revoked or expired. {how}"
    return ApiProblem(401, how, CHALLENGE)


def too_many(seconds: int) -> ApiProblem:
    """Return 429 until the window ends."""
    return ApiProblem(429, f"Too many requests; try again in {seconds} seconds.", {"Retry-After": str(seconds)})


ASK_AGAIN = "Ask the operator of this site for a new one."


# --- Reading ---------------------------------------------------------------------------------------------------------


def may_read(request: Request) -> bool:
    """Return whether the caller may see pages and all scores.

    Anybody may if PUBLIC_READ, a signed-in person with a role, and a token that reads all.
    """
    if settings.PUBLIC_READ or is_invited(request):
        return True
    token = bearer_token(request, "read")
    return token is not None and not token.repo_key


def viewing(request: Request) -> Roles:
    """Return the reader's roles: of the signed-in person, else of the token's person; looked up once for a request.

    A signed-in person without a role reads as an anonymous visitor does, also with a token.
    """
    roles = getattr(request, "roles", None)
    if roles is None:
        roles = request.roles = _roles(request)
    return roles


def _roles(request: Request) -> Roles:
    """Return the reader's roles; a token for one repository has its person's role only there."""
    token = None if is_invited(request) else bearer_token(request, "read")
    if token is None:
        return session_roles(request)
    roles = roles_of(token.person)
    return roles.within(str(token.repo_key)) if token.repo_key else roles


def person_of(request: Request) -> Person | None:
    """Return the signed-in person who reads here, else the token's person."""
    if isinstance(request.user, Person) and is_invited(request):
        return request.user
    token = bearer_token(request, "read")
    return token.person if token else None


def viewer_did(request: Request) -> str | None:
    """Return the DID of the signed-in person who reads here; None for a token and for anonymous readers."""
    return str(request.user.did) if isinstance(request.user, Person) and is_invited(request) else None


def reader_required(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Wrap a view for people who may read; others go to the sign-in, and programs get 401."""

    @wraps(view)
    def guarded(request: Request, *args: object, **kwargs: object) -> HttpResponse:
        return view(request, *args, **kwargs) if may_read(request) else refuse_reading(request)

    return guarded


def refuse_reading(request: Request) -> HttpResponse:
    """Redirect a browser to the sign-in and back; return 401, 403 or 429 to a program.

    Signed-in people without a role are led from the inbox and from a fragment to their own page; elsewhere NotInvited.
    """
    if prefers_json(request) or "Authorization" in request.headers:
        return problem_response(turned_away(request))
    if isinstance(request.user, Person):
        if request.htmx:
            return HttpResponseClientRedirect(resolve_url("me"))
        if request.path == resolve_url("queue"):
            return redirect("me")
        raise NotInvited(NOT_INVITED)
    page = request.htmx.current_url_abs_path if request.htmx else request.get_full_path()
    target = f"{resolve_url(settings.LOGIN_URL)}?{urlencode({'next': page or '/'})}"
    # htmx would follow a plain redirect and swap the sign-in page into a fragment of this one.
    response = HttpResponseClientRedirect(target) if request.htmx else HttpResponseRedirect(target)
    mark_private(response)
    return response


# --- One-time links --------------------------------------------------------------------------------------------------


def person_for(did: str, snapshot: Snapshot | None, handle: str | None = None) -> Person:
    """Return the account of a DID, created if there is none, with `handle` or else the verified one in the snapshot.

    `handle` is known to be theirs now, so others lose it. One from the snapshot may be old: nobody loses it by that.
    """
    score = read.score(snapshot, did) if snapshot else None
    shown_handle = handle or (parse_handle(score.person.name) if score else None)
    person, _ = Person.objects.get_or_create(did=did)
    others = Person.objects.filter(handle__iexact=shown_handle or "").exclude(Q(pk=person.pk) | Q(handle=""))
    if handle:
        others.update(handle="")
    if shown_handle and person.handle != shown_handle and not others.exists():
        person.handle = shown_handle
        person.save(update_fields=["handle"])
    return person


def issue_link(person: Person, minutes: int = 15, now: datetime | None = None) -> str:
    """Return a token that signs `person` in once within `minutes`; only its hash is stored."""
    token = new_secret()
    made_at = now or timezone.now()
    SignInMethod.objects.create(
        person=person,
        kind=SignInMethod.Kind.LINK,
        secret_hash=secret_hash(token),
        made_at=made_at,
        expires_at=made_at + timedelta(minutes=minutes),
    )
    return token


def check_link(token: str, now: datetime) -> SignInMethod:
    """Return the link of this token at `now`; SignInProblem 403 if there is none, 410 if it is used or expired."""
    hashed = secret_hash(token)
    link = SignInMethod.objects.select_related("person").filter(kind="link", secret_hash=hashed).first()
    if link is None or not same_hash(link.secret_hash, hashed) or not link.person.is_active:
        raise SignInProblem(403, f"This sign-in link is not one of ours. {ASK_AGAIN}")
    if link.used_at is not None:
        raise SignInProblem(410, f"This sign-in link was already used. {ASK_AGAIN}")
    if link.expires_at is not None and link.expires_at <= now:
        raise SignInProblem(410, f"This sign-in link has expired. {ASK_AGAIN}")
    return link


def use_link(token: str, now: datetime) -> Person:
    """Spend the link and return its person; of two simultaneous calls one gets SignInProblem 410."""
    link = check_link(token, now)
    spent = SignInMethod.objects.filter(pk=link.pk, used_at=None).update(used_at=now, last_used_at=now)
    if not spent:
        raise SignInProblem(410, f"This sign-in link was already used. {ASK_AGAIN}")
    return link.person


# --- Pages -----------------------------------------------------------------------------------------------------------


@never_cache
@sensitive_post_parameters()
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in(request: Request) -> HttpResponse:
    """Show the sign-in page.

    A POST with `name` and `password`, or with `link`, a sign-in link or its token, signs in.
    """
    if request.method != "POST":
        return (
            redirect(safe_next(request))
            if request.user.is_authenticated
            else _render_page(request, "sign_in/sign_in.html")
        )
    if "password" in request.POST:
        return _enter_by_password(request)
    address, _, _ = request.POST.get("link", "").strip().partition("?")
    return _enter(request, address.rstrip("/").rpartition("/")[2], "sign_in/sign_in.html")


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in_link(request: Request, token: str) -> HttpResponse:
    """Open a one-time link: GET asks for a click, since mail scanners and previews open links too; POST signs in."""
    if request.method == "POST":
        return _enter(request, token, "sign_in/sign_in_link.html")
    try:
        with count_failures(request):
            link = check_link(token, timezone.now())
    except SignInProblem as problem:
        return _render_page(request, "sign_in/sign_in_link.html", problem)
    return _render_page(request, "sign_in/sign_in_link.html", invited=link.person)


@require_POST
def sign_out(request: Request) -> HttpResponse:
    """End the session, with it the one at the person's own server, and the notifications in this browser."""
    end_sessions_of(request.session, timezone.now())
    forget_browser(request.session)
    logout(request)
    return redirect("/")


def demo_sign_in(request: Request) -> HttpResponse:
    """Sign in as the demo's maintainer, or `as` its contributor; only in the demo, from this machine, by POST."""
    did = settings.DEMO_CONTRIBUTOR if request.POST.get("as") == "contributor" else settings.DEMO_MAINTAINER
    if did is None:
        raise Http404("This site does not run the demo.")
    return _demo_sign_in(request, did)


@never_cache
@require_POST
def _demo_sign_in(request: Request, did: str) -> HttpResponse:
    if not is_local(request):
        raise PermissionDenied("The demo's sign-in works only on the machine that runs it.")
    sign_in_account(request, did)
    return redirect(safe_next(request))


def safe_next(request: HttpRequest) -> str:
    """Return where to go after signing in: the path in `next` if it is on this site, else the queue."""
    target = request.POST.get("next") or request.GET.get("next") or ""
    local = target.startswith("/") and url_has_allowed_host_and_scheme(target, allowed_hosts=None)
    return target if local else "/"


def _enter(request: Request, token: str, template: str) -> HttpResponse:
    try:
        with count_failures(request), transaction.atomic():  # a link is not spent where its person does not get in
            person = use_link(token, timezone.now())
            _admit(request, person, by_link=True)
    except SignInProblem as problem:
        return _render_page(request, template, problem)
    if person.has_password or roles_of(person).highest() < Role.MAINTAINER:
        return redirect(safe_next(request))
    return redirect(f"{resolve_url('set_password')}?{urlencode({'next': safe_next(request)})}")


def _enter_by_password(request: Request) -> HttpResponse:
    try:
        with count_failures(request):
            person = find_person(request.POST.get("name", ""), request.POST["password"], time.time())
            if person is None:
                raise SignInProblem(403, WRONG)
        _admit(request, person)
    except SignInProblem as problem:
        return _render_page(request, "sign_in/sign_in.html", problem)
    return redirect(safe_next(request))


def sign_in_account(request: Request, did: str, proven_handle: str | None = None) -> Person:
    """Sign in the person who proved to hold this DID; raise SignInProblem, with no account made, if they may not enter.

    `proven_handle` was confirmed for the DID just now, both ways.
    """
    with transaction.atomic():
        person = person_for(did, request.snapshot, proven_handle)
        _admit(request, person, proven_handle)
    return person


def _admit(request: Request, person: Person, proven_handle: str | None = None, by_link: bool = False) -> None:
    """Sign in, in one transaction, under a new session key: nobody can have planted it."""
    code_hash = request.session.pop(CLAIM, "")
    with transaction.atomic():
        let_in(person, request.snapshot, timezone.now(), proven_handle, code_hash)
        forget_browser(request.session, keep=person)
        login(request, person)
        for asked_before in ("session_roles", "roles"):  # of whoever was signed in until now
            request.__dict__.pop(asked_before, None)
        request.session[SINCE] = time.time()
        request.session.pop(BY_LINK, None)
        if by_link:
            request.session[BY_LINK] = True
        request.session.keep()


@contextmanager
def count_failures(request: HttpRequest) -> Generator[None]:
    """Count failures inside against the visitor's address; raise SignInProblem 429 after too many."""
    address, now = request.META.get("REMOTE_ADDR", ""), time.time()
    wait = throttle.seconds_to_wait("sign-in", address, now)
    if wait:
        raise SignInProblem(429, f"Too many sign-in attempts from your address. Try again in {wait} seconds.", wait)
    try:
        yield
    except SignInProblem:
        throttle.count_failure("sign-in", address, now)
        raise


def show_problem(request: Request, problem: SignInProblem) -> HttpResponse:
    """Show the sign-in page with the reason why this sign-in was refused."""
    return _render_page(request, "sign_in/sign_in.html", problem)


def _render_page(
    request: Request, template: str, problem: SignInProblem | None = None, invited: Person | None = None
) -> HttpResponse:
    account_origin = sign_in_origin(request)
    context = {
        "next": safe_next(request),
        "problem": problem.sentence if problem else "",
        "name": request.POST.get("name", "")[:LONGEST_DID],
        "handle": request.POST.get("handle", "")[:LONGEST_DID],
        "account_here": is_here(account_origin, request),
        "account_origin": account_origin,
        "invited": invited,
        "claims": CLAIM in request.session,
        "has_admin": has_admin() or bool(settings.STAGED),  # a demo asks nobody to begin it
        "demo": settings.DEMO_MAINTAINER is not None and is_local(request),
        "demo_contributor": settings.DEMO_CONTRIBUTOR is not None and is_local(request),
    }
    response = render(request, template, context, status=problem.status if problem else 200)
    if problem and problem.wait:
        response["Retry-After"] = str(problem.wait)
    return response
