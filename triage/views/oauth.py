"""Signing in with an AT Protocol account: what this site publishes about itself, the way out and back, and sessions."""

import logging
import time
import uuid
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import messages
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render, resolve_url
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST, require_safe

from ingest.atproto.syntax import LONGEST_DID, NAMESPACE
from ingest.errors import OAuthRefused
from ingest.oauth.dpop import DpopSender
from ingest.oauth.records import COMMENT, LABEL, STATUS, VOUCH
from ingest.oauth.scopes import IDENTITY, Act, act_scope, missing_scopes, scope_to_ask
from triage.access import throttle
from triage.access.oauth.attempts import (
    AWAITED,
    Departure,
    begin_attempt,
    describe_browser,
    find_attempt,
    finish_attempt,
    give_back,
)
from triage.access.oauth.client import TooBusy, Waiting, client_for, sign_in_place
from triage.access.oauth.keys import KeyProblem
from triage.access.oauth.published import keys_document, metadata_document
from triage.access.oauth.sessions import IN_BROWSER, begin_session, end_sessions, held_session, surplus_sessions
from triage.access.permissions import Role, require, require_reader, role_of, signed_in
from triage.access.problems import NOTHING, ApiProblem, problem_response
from triage.access.requests import Request
from triage.access.sign_in import SignInProblem, safe_next, show_problem, sign_in_account
from triage.models import OAuthRequest, OAuthSession, Person
from triage.presenters.queue.comments import own_account
from triage.services.own_name import own_records
from triage.services.publishing.service_account import ConnectProblem, connect_grant, needed_scope

COOKIE = "oauth_browser"
BUSY_SECONDS = 10
WIDE_LIMIT = 5 * throttle.LIMIT  # starts of a whole IPv4 /24 or IPv6 /48, which one tenant may have
SERVICE = "service"  # the purpose of an attempt that connects the account as which this site publishes
SERVICE_WORDS = "write, change and delete what this site publishes in it"
GRANTS = {
    Act.MERGE: (
        f"ask a repository's knot to merge for you ({NAMESPACE}repo.merge), and write that a pull request is merged "
        f"({STATUS}) into your repository"
    ),
    Act.APPROVE: "write that you approved a version of a pull request into your repository",
    Act.TAKE_BACK_APPROVAL: "delete from your repository that you approved a version of a pull request",
    Act.LABEL: f"put labels on pull requests ({LABEL}) in your name",
    Act.TAKE_BACK_LABEL: f"delete your labels on pull requests ({LABEL}) from your repository",
    Act.VOUCH: f"write and change your vouches ({VOUCH}) in your repository",
    Act.TAKE_BACK_VOUCH: f"delete your vouches ({VOUCH}) from your repository",
    Act.COMMENT: f"write comments on pull requests ({COMMENT}) into your repository",
    Act.TAKE_BACK_COMMENT: f"delete your comments on pull requests ({COMMENT}) from your repository",
    Act.CLOSE: f"write that a pull request is closed or merged ({STATUS}) into your repository",
    Act.TAKE_BACK_CLOSE: f"delete that a pull request is closed or merged ({STATUS}) from your repository",
}
log = logging.getLogger(__name__)


@require_safe
def metadata(request: HttpRequest) -> HttpResponse:
    """Answer with the document that names this site to authorization servers; the same for everybody."""
    return _publish(lambda: metadata_document(settings.PUBLIC_ORIGIN))


@require_safe
def jwks(request: HttpRequest) -> HttpResponse:
    """Answer with the public keys of this site, also retired ones to which a session is bound."""
    return _publish(keys_document)


@never_cache
@require_POST
def start(request: Request) -> HttpResponse:
    """Look up the account of `handle` and show where its person goes next; the page's link leads there.

    A redirect would not: the policy of our pages lets forms lead to this site alone.
    """
    try:
        _count_start(request)
        with _explained(), sign_in_place(Waiting.START, _wide_network(request)) as sender:
            departure = _depart(request, sender, request.POST.get("handle", "")[:LONGEST_DID], IDENTITY)
    except SignInProblem as problem:
        return show_problem(request, problem)
    return _leave(request, departure)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def grant(request: Request) -> HttpResponse:
    """Say what one act (`act`) writes and where; a POST leads on to the person's server, which asks for just that."""
    require_reader(request)
    session = held_session(request)
    if session is None:
        messages.warning(request, "Sign in with your AT Protocol account first.")
        return redirect(f"{resolve_url('sign_in')}?{urlencode({'next': safe_next(request)})}")
    act = _read_act(request.POST.get("act") or request.GET.get("act", ""))
    shown = {"act": act.name.lower(), "words": GRANTS[act], "account": own_account(session), "next": safe_next(request)}
    shown["scopes"] = missing_scopes(session.scope, act_scope(act, settings.LEXICON_AUTHORITY))
    if request.method != "POST":
        return render(request, "sign_in/grant.html", shown)
    try:
        _count_start(request)
        scope = scope_to_ask(session.scope, act, settings.LEXICON_AUTHORITY)
        with _explained(), sign_in_place(Waiting.ACT, f"person:{session.person.pk}") as sender:
            departure = _depart(request, sender, str(session.person.did), scope)
    except SignInProblem as problem:
        return render(request, "sign_in/grant.html", shown | {"problem": problem.sentence}, status=problem.status)
    return _leave(request, departure, GRANTS[act])


def _read_act(name: str) -> Act:
    acts: dict[str, Act] = {act.name.lower(): act for act in GRANTS}
    if name not in acts:
        raise Http404("There is no such act.")
    return acts[name]


def _leave(request: Request, departure: Departure, words: str = "") -> HttpResponse:
    """Show the link that leads to the person's server; `words` say what is asked for besides who they are."""
    response = render(
        request, "sign_in/leaving.html", {"departure": departure, "words": words, "back": safe_next(request)}
    )
    # Lax: it comes with the way back, which begins on another site.
    response.set_cookie(COOKIE, departure.browser, max_age=AWAITED, httponly=True, samesite="Lax")
    return response


@never_cache
@require_POST
def connect_service(request: Request) -> HttpResponse:
    """Lead an admin on to the server of the account as which this site shall publish."""
    require(request, "", Role.ADMIN)
    scope = needed_scope(with_schemas=request.POST.get("schemas") == "yes")
    try:
        _count_start(request)
        with _explained(), sign_in_place(Waiting.START, _wide_network(request)) as sender:
            departure = _depart(request, sender, request.POST.get("handle", "")[:LONGEST_DID], scope, SERVICE)
    except SignInProblem as problem:
        messages.error(request, problem.sentence)
        return redirect("publishing")
    return _leave(request, departure, SERVICE_WORDS)


@never_cache
@require_GET
def callback(request: Request) -> HttpResponse:
    """Sign in the person whose server sent this browser back; always lead on, so that no page has this address."""
    try:
        with _explained():  # an answer to no attempt takes no place, and one that finds no place can be sent again
            attempt = find_attempt(request.GET.get("state", ""), request.COOKIES.get(COOKIE, ""), timezone.now())
            with sign_in_place(Waiting.RETURN, _wide_network(request)) as sender:
                target = _arrive(request, attempt, sender)
    except SignInProblem as problem:
        messages.error(request, problem.sentence)
        return redirect("sign_in")
    return redirect(target)


@require_safe
@never_cache
def sessions(request: Request) -> HttpResponse:
    """List the sessions of the signed-in person, each with what it may do, and a button that ends it."""
    person = signed_in(request)
    live = OAuthSession.objects.filter(person=person, ended_at=None).order_by("-made_at", "-pk")
    context = {"sessions": live, "this": request.session.get(IN_BROWSER, "")}
    return render(request, "sign_in/sessions.html", context)


@never_cache
@require_POST
def end(request: Request) -> HttpResponse:
    """End one session of one's own (`session`), and sign out the browser that has it."""
    person = signed_in(request)
    try:
        session = uuid.UUID(request.POST.get("session", ""))
    except ValueError:
        raise Http404("There is no such session.") from None
    is_own = OAuthSession.objects.filter(pk=session, person=person).exists()
    if not is_own:
        raise Http404("There is no such session.")
    end_sessions([session], OAuthSession.Ended.PERSON, timezone.now())
    if request.session.get(IN_BROWSER) == str(session):
        request.session.flush()
        return redirect("sign_in")
    messages.info(request, "The session was ended, and its browser is signed out.")
    return redirect("oauth_sessions")


def _publish(document: Callable[[], dict[str, Any]]) -> HttpResponse:
    """Answer with a document about this site's client; 404 where the site has no public address to be asked at."""
    if not settings.PUBLIC_ORIGIN:
        return problem_response(ApiProblem(404, "This site has no public address: PUBLIC_ORIGIN is not set."))
    try:
        response = JsonResponse(document())
    except KeyProblem as problem:
        log.error("the keys of this site cannot be published: %s", problem)
        return problem_response(ApiProblem(503, "This site cannot read its keys just now. Tell its operator."))
    response["Cache-Control"], response["Content-Security-Policy"] = "public, max-age=300", NOTHING
    return response


def _wide_network(request: HttpRequest) -> str:
    return throttle.network_of(request.META.get("REMOTE_ADDR", ""), is_wide=True)


def _count_start(request: HttpRequest) -> None:
    """Count a start against the visitor's network: each asks servers that a stranger names. Raises SignInProblem."""
    now, window = time.time(), throttle.WINDOW_SECONDS
    network = throttle.network_of(request.META.get("REMOTE_ADDR", ""))
    narrow, wide = (throttle.count("oauth", name, window, now) for name in (network, _wide_network(request)))
    if narrow > throttle.LIMIT or wide > WIDE_LIMIT:
        wait = throttle.seconds_left(window, now)
        raise SignInProblem(429, f"Too many sign-in attempts from your address. Try again in {wait} seconds.", wait)


@contextmanager
def _explained() -> Generator[None]:
    """Turn what stands in the way of a sign-in into one sentence for the person. Raises SignInProblem."""
    try:
        yield
    except OAuthRefused as problem:
        sentence = str(problem)
        raise SignInProblem(403, f"{sentence[:1].upper()}{sentence[1:]}.") from None
    except KeyProblem as problem:
        log.error("nobody can sign in with an account: %s", problem)
        raise SignInProblem(503, "This site cannot prove itself to your server just now. Tell its operator.") from None
    except TooBusy:
        raise SignInProblem(
            503, "Too many people are signing in just now. Try again in a minute.", BUSY_SECONDS
        ) from None


def _depart(request: Request, sender: DpopSender, name: str, scope: str, purpose: str = "") -> Departure:
    now = timezone.now()
    client = client_for(request, now)
    if client is None:
        raise SignInProblem(404, "Nobody can sign in with an account at this address.")
    browser = request.COOKIES.get(COOKIE, "")
    return begin_attempt(name, client, safe_next(request), browser, sender, now, scope, purpose)


def _arrive(request: Request, attempt: OAuthRequest, sender: DpopSender) -> str:
    """Finish the attempt that this browser began; return where it leads."""
    now = timezone.now()
    if attempt.purpose == SERVICE:
        return _connect(request, attempt, sender)
    grant, client = finish_attempt(attempt, request.GET.dict(), sender)
    browser = describe_browser(request.headers.get("User-Agent", ""))
    before = request.session.get(IN_BROWSER)
    try:
        with transaction.atomic():
            person = sign_in_account(request, grant.did, grant.handle)
            if grant.handle is None and person.handle != (grant.claimed_handle or ""):
                Person.objects.filter(pk=person.pk).update(handle="")  # the account gave it up
            session = begin_session(grant, client, person, browser, now)
            if before:  # what waits to be sent goes on with the new session
                own_records.hand_on(person, uuid.UUID(before), session)
            request.session[IN_BROWSER] = str(session.pk)
            request.session.keep()
    except SignInProblem:
        give_back(grant, client, sender)
        raise
    left = [*surplus_sessions(person), *([uuid.UUID(before)] if before else [])]
    end_sessions(left, OAuthSession.Ended.PERSON, now)
    return str(attempt.next)


def _connect(request: Request, attempt: OAuthRequest, sender: DpopSender) -> str:
    """Publish as the account that an admin connected; the admin stays signed in as whoever they are."""
    by = request.user
    if not isinstance(by, Person) or role_of(by, "") < Role.ADMIN:
        raise SignInProblem(403, "Only an admin of this site connects its account. Sign in as one, then connect it.")
    try:
        grant, client = finish_attempt(attempt, request.GET.dict(), sender)
        try:
            connect_grant(grant, client, by, timezone.now())
        except ConnectProblem as problem:
            give_back(grant, client, sender)
            raise OAuthRefused(str(problem)) from None
    except OAuthRefused as problem:
        messages.error(request, f"Not connected: {problem}.")
    return resolve_url("publishing")
