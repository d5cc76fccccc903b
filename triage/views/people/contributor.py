"""Pages on which contributors answer, see their data and object: through a maintainer's link, or signed in."""

import threading
import time
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from ingest.atproto.syntax import MalformedDid, parse_did
from ingest.store.snapshots import Snapshot
from scoring.queries import read
from triage.access import throttle
from triage.access.permissions import (
    Role,
    SignInNeeded,
    handled_from,
    has_admin,
    is_invited,
    offered_roles,
    session_roles,
    signed_in,
    spoken_for,
)
from triage.access.requests import Request
from triage.access.sign_in import person_of, safe_next
from triage.access.tokens import LinkProblem, open_link
from triage.context import present
from triage.models import Action, ContributorLink, Objection, Person, RoleRequest
from triage.presenters import rights
from triage.presenters.queue import queue as as_shown
from triage.presenters.queue import row_actions
from triage.presenters.queue.review import NoteGroup, group_notes, review_notes, with_dismissals
from triage.presenters.queue.rows import forge_place
from triage.services import role_requests
from triage.services.audit import hiding_audits
from triage.services.author_answers import AnswerProblem, answer_maintainers, exchange, find_waiting
from triage.services.erasure import account_of, said_by
from triage.services.objections import ONLY_THE_CONTRIBUTOR, ObjectionProblem, object_to, wish
from triage.views.about import first_answer

DATA, DECISION = ContributorLink.Purpose.DATA, ContributorLink.Purpose.DECISION
# Reading every table for one person takes seconds in a large store: one export at a time leaves the pages their
# threads. Only people with a role wait for it: anybody can sign in, and eight who wait would hold every thread.
_reading = threading.Lock()
WAIT_SECONDS = 5.0
READS_A_MINUTE = 20  # of one person
SHOWN = 20  # open pull requests on a contributor's own page
WRITTEN_SHOWN = 20  # of the texts that maintainers wrote about one, each 2,000 characters at most
AnyResponse = TypeVar("AnyResponse", bound=HttpResponseBase)
AUDIT_FIRST = "An audit hides a chance that is shown here. It opens once the audit of this person's change is answered."
ONLY_ITS_AUTHOR = "Only its author answers what maintainers asked."
ANSWERED = "Your answer is saved. The maintainers read it beside your pull request, and it is their turn now."
ONLY_EVERYWHERE = "Only the contributor or a maintainer of the whole site can change this."


@dataclass(frozen=True, slots=True)
class Speaker:
    """The person who speaks for a contributor: the holder of `link`, the contributor signed in, or a maintainer.

    `source` names which of these it is.
    """

    source: str
    person: Person | None
    link: ContributorLink | None = None


@require_safe
@never_cache
def data_by_link(request: Request, did: str, token: str) -> HttpResponseBase:
    """Show everything stored about the contributor whose link this is."""
    try:
        link = open_link(token, did_of(did), DATA, timezone.now())
    except LinkProblem as problem:
        return refused(request, problem.status, str(problem))
    return _data(request, str(link.did), token)


@require_safe
@never_cache
def own_data(request: Request, did: str) -> HttpResponseBase:
    """Show what is stored to the signed-in contributor, and to maintainers who got a pull request from them."""
    speaker_of(request, did_of(did), "")
    snapshot = request.snapshot
    if snapshot and hiding_audits(snapshot, person_of(request), (did_of(did),)):
        return refused(request, 409, AUDIT_FIRST, title="Not yet")
    return _data(request, did_of(did), "")


@require_safe
@never_cache
def me(request: Request) -> HttpResponseBase:
    """Show signed-in people their own pull requests, what is stored about them, and what they may ask for."""
    return _data(request, str(signed_in(request).did), "")


@require_safe
@never_cache
def own_decision(request: Request, uri: str) -> HttpResponse:
    """Show signed-in people where a pull request of theirs waits, why, and what waits for their answer.

    This address stands in public comments: all others are led to what anybody may know of it, in the same words for
    what is not here.
    """
    by = read.offered_by(request.snapshot, uri) if request.snapshot else None
    if by is None or not _is_self(request, by[0]):
        return redirect(f"{reverse('find')}?{urlencode({'q': uri})}")
    return _decision(request, by[0], uri, "")


@require_POST
@never_cache
def ask_to_maintain(request: Request) -> HttpResponse:
    """Ask an admin to become maintainer of `repo_key`, to which the signed-in person may push."""
    person, repo_key = signed_in(request), request.POST.get("repo_key", "")
    is_new = role_requests.ask(person, repo_key, request.snapshot, timezone.now())
    messages.info(request, "An admin of this site is asked." if is_new else "You asked before.")
    return redirect("me")


@require_safe
@never_cache
def decision_by_link(request: Request, did: str, token: str) -> HttpResponse:
    """Show one decision's reasons in words to the contributor whose link this is."""
    try:
        link = open_link(token, did_of(did), DECISION, timezone.now())
    except LinkProblem as problem:
        return refused(request, problem.status, str(problem))
    return _decision(request, str(link.did), str(link.pull_uri), token)


def _decision(request: Request, did: str, uri: str, token: str) -> HttpResponse:
    shown_pulls = _own_pulls(request.snapshot, did, [uri]) if request.snapshot else []
    context = _spoken(request, did, token) | {"own_pulls": shown_pulls, "pull_uri": uri}
    context["objections"] = [one for one in said_by(did)["objections"] if one["pull_uri"] == uri]
    return _unlisted(render(request, "rights/decision_data.html", context))


@require_POST
@never_cache
def send_objection(request: Request, did: str) -> HttpResponse:
    """Save an objection: `text`, `pull`, and `link` where it comes through one.

    `pull` is a pull request, or "" for being scored at all. For a maintainer it is a pull request in a repository that
    they maintain, or that repository's key for everything sent there; "" where there is only one repository.
    """
    person, pull_uri, text = did_of(did), request.POST.get("pull", ""), request.POST.get("text", "")
    try:
        speaker = speaker_of(request, person, pull_uri)
        subject_of = _in_their_name if speaker.source == Objection.Source.MAINTAINER else _own
        pull_uri, key = subject_of(request, person, pull_uri)
        objection = object_to(person, pull_uri, key, text, speaker.source, speaker.person, timezone.now())
    except (LinkProblem, ObjectionProblem) as problem:
        return refused(request, problem.status, str(problem), text)
    sentence = (
        f"Your objection is saved. A person answers it by {objection.due_at:%d %b %Y}; until then a person decides."
    )
    return _saved(request, person, speaker, sentence)


@require_POST
@never_cache
def send_answer(request: Request, did: str) -> HttpResponse:
    """Save the author's answer: `text` about `pull`, and `link` where it comes through one. Nobody answers for them."""
    author, uri, text = did_of(did), request.POST.get("pull", ""), request.POST.get("text", "")
    try:
        speaker = speaker_of(request, author, uri)
        if speaker.source == Objection.Source.MAINTAINER:
            raise PermissionDenied(ONLY_ITS_AUTHOR)
        if request.snapshot is None:
            raise AnswerProblem(409, "The worker has published nothing yet.")
        answer_maintainers(author, uri, text, speaker.link is not None, request.snapshot, timezone.now())
    except (LinkProblem, AnswerProblem) as problem:
        return refused(request, problem.status, str(problem), text)
    messages.info(request, ANSWERED)
    return redirect(_page_of(author, uri, request.POST.get("link", ""), speaker.link))


@require_POST
@never_cache
def send_wish(request: Request, did: str) -> HttpResponse:
    """Save whether to be left out of the leaderboard: `out` yes or no, and `link` where it comes through one.

    The leaderboard belongs to the whole site, so only its maintainers may choose in a contributor's name.
    """
    person, out = did_of(did), request.POST.get("out", "")
    try:
        speaker = speaker_of(request, person, "")
    except LinkProblem as problem:
        return refused(request, problem.status, str(problem))
    if speaker.source == Objection.Source.MAINTAINER and not _may_wish(request, person):
        raise PermissionDenied(ONLY_EVERYWHERE)
    if out not in ("yes", "no"):
        return refused(request, 422, "Say yes or no.")
    wish(person, out == "yes", speaker.source, speaker.person, timezone.now())
    result = "left out of the leaderboard" if out == "yes" else "listed on the leaderboard again"
    subject = "This contributor is" if speaker.source == Objection.Source.MAINTAINER else "You are"
    return _saved(request, person, speaker, f"{subject} {result} within seconds.")


def _saved(request: Request, did: str, speaker: Speaker, sentence: str) -> HttpResponse:
    """Show the page of the form again, which says that it is saved."""
    messages.info(request, sentence)
    if speaker.link is None and request.POST.get("next"):
        return redirect(safe_next(request))
    if speaker.source == Objection.Source.MAINTAINER:
        return redirect("rights", did)
    return redirect(_page_of(did, "", request.POST.get("link", ""), speaker.link))


def _page_of(did: str, uri: str, token: str, link: ContributorLink | None) -> str:
    """Return the address of a contributor's own page: their link's, or of all or one (`uri`) where they signed in."""
    if link is None:
        return reverse("own_decision", args=[uri]) if uri else reverse("me")
    return reverse("decision_by_link" if link.purpose == DECISION else "data_by_link", args=[did, token])


def _may_wish(request: Request, did: str) -> bool:
    """Return whether somebody without a link may choose for the leaderboard: the contributor or a site maintainer."""
    return _is_self(request, did) or session_roles(request).role("") >= Role.MAINTAINER


def speaker_of(request: Request, did: str, pull_uri: str) -> Speaker:
    """Return who speaks for a contributor; raise LinkProblem, SignInNeeded or PermissionDenied where they may not.

    A link to one decision is valid for that decision only.
    """
    if token := request.POST.get("link", ""):
        purpose = DECISION if token.startswith(f"{DECISION}~") else DATA
        link = open_link(token, did, purpose, timezone.now())
        if link.purpose == DECISION and link.pull_uri != pull_uri:
            raise LinkProblem(403, "This link opens one decision only.")
        return Speaker(Objection.Source.LINK, None, link)
    person = request.user
    if not isinstance(person, Person):
        raise SignInNeeded("Sign in first, or use the link that a maintainer sent you.")
    if person.did == did:
        return Speaker(Objection.Source.SELF, person)
    if handled_from(session_roles(request), request.snapshot, did) is None:
        raise PermissionDenied(
            "You don't have access. Only the contributor and the maintainers they sent pull requests to have it."
        )
    return Speaker(Objection.Source.MAINTAINER, person)


def did_of(text: str) -> str:
    """Return the DID of an address; 404 where it is malformed."""
    try:
        return parse_did(text)
    except MalformedDid as problem:
        raise Http404(str(problem)) from problem


def refused(
    request: Request, status: int, sentence: str, wrote: str = "", title: str = "Nothing was changed"
) -> HttpResponse:
    """Return an error page in words, with the person's text on it."""
    shown = {"title": title, "sentence": sentence, "wrote": wrote}
    return _unlisted(render(request, "error.html", shown, status=status))


def _put_off(request: Request, status: int, sentence: str, seconds: int) -> HttpResponse:
    response = refused(request, status, sentence)
    response["Retry-After"] = str(seconds)
    return response


def _own(request: Request, did: str, pull_uri: str) -> tuple[str, str]:
    """Return the pull request that a contributor objects to and its repository's key.

    "" and "" for being scored at all.
    """
    return (pull_uri, _repository_of(request, did, pull_uri)) if pull_uri else ("", "")


def _in_their_name(request: Request, did: str, about: str) -> tuple[str, str]:
    """Return the pull request ("" for all) and the repository's key about which a maintainer may object."""
    repositories = spoken_for(session_roles(request), request.snapshot, did)
    if not about and len(repositories) == 1:
        return "", next(iter(repositories))
    if about in repositories:
        return "", about
    if not about:
        raise ObjectionProblem(422, ONLY_THE_CONTRIBUTOR)
    key = _repository_of(request, did, about)
    if key not in repositories:
        raise PermissionDenied("You can object only to pull requests in your own repositories.")
    return about, key


def _repository_of(request: Request, did: str, pull_uri: str) -> str:
    """Return the key of the repository of this contributor's pull request; raise ObjectionProblem for any other."""
    author_and_key = read.offered_by(request.snapshot, pull_uri) if request.snapshot else None
    if author_and_key is None or author_and_key[0] != did:
        raise ObjectionProblem(404, "This contributor has no such pull request here.")
    return author_and_key[1]


def _data(request: Request, did: str, token: str) -> HttpResponseBase:
    whole, now = request.GET.get("form") == "json", time.time()
    reader = str(request.user.did) if isinstance(request.user, Person) else did
    if throttle.count("data", reader, throttle.MINUTE, now) > READS_A_MINUTE:
        wait = throttle.seconds_left(throttle.MINUTE, now)
        return _put_off(request, 429, f"You opened this page too often. Try again in {wait} seconds.", wait)
    if not _reading.acquire(timeout=WAIT_SECONDS if is_invited(request) else 0):
        return _put_off(request, 503, "Another export is running. Try again in a minute.", throttle.MINUTE)
    try:
        stored = _stored(request, did, whole)
    finally:
        _reading.release()
    statements, account = said_by(did), account_of(did)
    if whole:
        return _unlisted(_document(did, stored, statements, account))
    context = _spoken(request, did, token) | {
        "stored": rights.stored_view(stored),
        "said": statements,
        "account": account,
    }
    context |= objection_choices(request, did, by_link=bool(token))
    context["may_wish"] = bool(token) or _may_wish(request, did)
    context |= _open_pulls(request.snapshot, did) if request.snapshot else {}
    context |= _own_account(request, did) if not token else {}
    return _unlisted(render(request, "rights/contributor_data.html", context))


def _open_pulls(snapshot: Snapshot, did: str) -> dict[str, Any]:
    """Return a contributor's open pull requests, and what maintainers see of them.

    Nothing that only readers may see.
    """
    uris = [offer.uri for offer in read.offers(snapshot, did)]
    page, own_pulls = read.contributor(snapshot, did), _own_pulls(snapshot, did, uris)
    return {
        "name": page.score.person.name if page and not page.score.person.name.startswith("did:") else "",
        "own_pulls": own_pulls,
        "asked_count": sum(bool(own.asked) for own in own_pulls),
        "own_score": rights.own_score(page) if page else None,
        "left_out": read.is_left_out(snapshot, did),
        "listed": rights.listed_words(read.place_of(snapshot, did, hiding_audits(snapshot).keys() - {did})),
    }


def _own_pulls(snapshot: Snapshot, did: str, uris: list[str]) -> list[rights.OwnPull]:
    """Return these open pull requests: what waits for an answer first, then as given; SHOWN at most."""
    asked = find_waiting(did, snapshot, timezone.now())
    listed = sorted(uris, key=lambda uri: uri not in asked)[:SHOWN]
    rows_by_uri = {row.uri: row for row in as_shown.own_pulls(snapshot, listed)}
    return [_own_pull(snapshot, rows_by_uri[uri], asked.get(uri, ())) for uri in listed if uri in rows_by_uri]


def _own_pull(snapshot: Snapshot, row: read.QueueRow, asked: tuple[Action, ...]) -> rights.OwnPull:
    """Return one pull request with its place in its lane, and with what maintainers wrote to its author.

    A drawn one has no place, nor one that waits for its author.
    """
    said = exchange(row.uri, timezone.now())
    is_answered = row.on_author and not asked and _is_news(snapshot, said.first())
    row = replace(row, on_author=row.on_author and not is_answered)
    order: tuple[str, ...] = ()
    if not (row.is_sealed or row.own or row.on_author or is_answered):
        query = as_shown.as_it_stands(snapshot, read.QueueQuery(repository=row.repository_key))
        bucket = read.lanes(snapshot, [row.uri], query).get(row.uri)
        order = read.queue_order(snapshot, replace(query, bucket=bucket))
    heard = first_answer(snapshot, row.repository_key, " there", row.first_timer)
    place = rights.Place(order.index(row.uri) + 1, len(order), heard) if row.uri in order else None
    home = forge_place(read.forge_home(snapshot, row.uri, row.author.did, row.repository_key), settings.FORGE_PAGES)
    others = said.exclude(pk__in=[one.pk for one in asked])
    return replace(
        rights.own_pull(row, place, present(snapshot), asked, _open_notes(snapshot, row)),
        heard=heard,
        page=home,
        written=tuple(others[:WRITTEN_SHOWN]),
        written_count=others.count(),
    )


def _open_notes(snapshot: Snapshot, row: read.QueueRow) -> tuple[NoteGroup, ...]:
    """Return what was found in a change, without what a maintainer called a false alarm."""
    review = read.content_review(snapshot, row.uri)
    if review is None:
        return ()
    notes = with_dismissals(review_notes(review, row.patch_id), row_actions.dismissal_words(row.uri))
    return group_notes(note for note in notes if not note.dismissed)


def _is_news(snapshot: Snapshot, newest: Action | None) -> bool:
    """Return whether the last word here is the author's answer, and the worker has not read it yet."""
    is_answer = newest is not None and newest.kind == Action.Kind.ANSWER
    return is_answer and not read.taken_keys(snapshot, [newest.key])


def _stored(request: Request, did: str, whole: bool) -> read.Stored | None:
    if request.snapshot is None:
        return None
    if not whole:
        return read.stored(request.snapshot, did, settings.DUCKDB_PATH)
    folders = (settings.STAGING_DIR, settings.MODEL_DIR, settings.PYG_ROOT, settings.LOG_DIR)
    return read.stored_whole(request.snapshot, did, settings.DIFF_CORPUS_DIR, folders, settings.DUCKDB_PATH)


def _document(
    did: str, found: read.Stored | None, said: dict[str, Any], account: dict[str, Any] | None
) -> StreamingHttpResponse:
    document = rights.document(did, found) | {"said_here": said, "account": account}
    headers = {"Content-Disposition": 'attachment; filename="stored.json"'}
    return StreamingHttpResponse(read.pieces(document), content_type="application/json; charset=utf-8", headers=headers)


def _own_account(request: Request, did: str) -> dict[str, Any]:
    """Return what only the signed-in contributor is told: roles to ask for, and whether the site has an admin."""
    if not _is_self(request, did):
        return {}
    offered = offered_roles(session_roles(request), request.snapshot, did)
    asked = {one.repo_key: one for one in RoleRequest.objects.filter(person__did=did)}
    return {
        "offered": [(key, name, asked.get(key)) for key, name in sorted(offered.items(), key=lambda pair: pair[1])],
        "has_admin": has_admin() or bool(settings.STAGED),  # a demo asks nobody to begin it
    }


def _spoken(request: Request, did: str, token: str) -> dict[str, Any]:
    if token:
        here = reverse("data_by_link", args=[did, token])
    else:
        here = reverse("me") if _is_self(request, did) else reverse("own_data", args=[did])
    return {"did": did, "link": token, "here": here, "may_answer": bool(token) or _is_self(request, did)}


def _is_self(request: Request, did: str) -> bool:
    return isinstance(request.user, Person) and request.user.did == did


def open_offers(request: Request, did: str) -> tuple[read.Subject, ...]:
    """Return a contributor's open pull requests in watched repositories, which a form may name."""
    return read.offers(request.snapshot, did) if request.snapshot else ()


def objection_choices(request: Request, did: str, by_link: bool = False) -> dict[str, Any]:
    """Return the choices of an objection's form; a maintainer gets their repositories and the pull requests in them."""
    offers = open_offers(request, did)
    if by_link or _is_self(request, did):
        return {"offers_of": offers, "may_object_at_all": True}
    repositories = spoken_for(session_roles(request), request.snapshot, did)
    own_offers = tuple(offer for offer in offers if offer.repository_key in repositories)
    return {"offers_of": own_offers, "may_object_at_all": False, "spoken_for": tuple(repositories.items())}


def _unlisted(response: AnyResponse) -> AnyResponse:
    """Return the response with a header that keeps it out of search engines.

    The site's usual `Referrer-Policy: same-origin` hides a link from other sites. With a stricter one browsers send
    `Origin: null` with the page's own forms, which are then refused.
    """
    response["X-Robots-Tag"] = "noindex"
    return response
