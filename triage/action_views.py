"""Acting on pull requests: POST only, by maintainers of the repository, answered with the row as it stands now."""

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import wraps
from urllib.parse import parse_qsl, urlencode, urlsplit

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render, resolve_url
from django.template.loader import render_to_string
from django.utils import timezone
from django.views.decorators.http import require_POST
from django_htmx.http import HttpResponseClientRedirect

from ingest.snapshot import Snapshot
from scoring import read
from scoring.read import Subject
from triage import acting, actions, as_shown, rows
from triage.access import safe_next, viewing
from triage.act_forms import read_wanted
from triage.actions import ActionProblem, Conflict, Wanted
from triage.context import present, told_dashboard
from triage.forms import QueueFilters, read_queue
from triage.incidents import opened_by
from triage.middleware import Request
from triage.models import Action, Person
from triage.permissions import Role, SignInNeeded, require
from triage.problems import CHALLENGE, mark_private
from triage.views import expanded

TWICE = "Nothing was done: that came so soon that it may be the second of two clicks. Press it again if you mean it."
NO_ROW = "It was not judged yet, or its author's account is not there any more, so nothing was done."
SIGNED_OUT = "You are not signed in any more, so nothing was done. Copy what you wrote, and sign in."
Answer = Callable[[Request, Snapshot], HttpResponse]


def acting_page(page: Answer) -> Callable[[Request], HttpResponse]:
    """A POST that changes something: whoever is not signed in is sent to sign in, and nothing is kept by a cache."""

    @wraps(page)
    def answer(request: Request) -> HttpResponse:
        if request.snapshot is None:
            raise Http404("Nothing was published yet, so there is nothing to act on.")
        try:
            response = page(request, request.snapshot)
        except SignInNeeded:
            response = _signed_out(request) if _wrote(request) else to_sign_in(request, safe_next(request))
        except ActionProblem as problem:
            response = _problem(request, str(problem))
        mark_private(response)
        return response

    return require_POST(answer)


@acting_page
def act(request: Request, snapshot: Snapshot) -> HttpResponse:
    """One action on one pull request: the row with what was done, 409 with the fresh row where it is too late."""
    wanted = read_wanted(request.POST.dict())
    subject = _subject(snapshot, wanted.uri)
    person, now = require(request, subject.repository_key, Role.MAINTAINER), timezone.now()
    if not request.htmx and actions.is_second_click(person, now, uri=subject.uri):
        return _answer_second_click(request)
    try:
        _check_approvable(snapshot, wanted, subject)
        (made,) = actions.act(person, {subject.uri: subject}, [wanted], now)
    except Conflict as conflict:
        return answer_conflict(request, snapshot, conflict, now)
    if incident := opened_by(made):
        return HttpResponseClientRedirect(incident) if request.htmx else HttpResponseRedirect(incident)
    return answer_rows(request, snapshot, [subject.uri], now)


def _check_approvable(snapshot: Snapshot, wanted: Wanted, subject: Subject) -> None:
    """Conflict where no row offers an approval: somebody may have written the form themselves."""
    if wanted.kind != Action.Kind.APPROVE or subject.state != "open":
        return
    row = as_shown.pull(snapshot, wanted.uri)
    if sentence := acting.refused_approval(row) if row else NO_ROW:
        raise Conflict(sentence, [wanted.uri])


@acting_page
def undo(request: Request, snapshot: Snapshot) -> HttpResponse:
    """Undo within 10 s; 409 in words afterwards. A bulk approval is undone as a whole."""
    person, now = request.user, timezone.now()
    if not isinstance(person, Person):
        raise SignInNeeded("Sign in first.")
    key = request.POST.get("key", "")
    if not request.htmx and actions.is_second_click(person, now, key=key):
        return _answer_second_click(request)
    try:
        undone = actions.undo(person, key, now)
    except Conflict as conflict:
        return answer_conflict(request, snapshot, conflict, now)
    return answer_rows(request, snapshot, [action.pull_uri for action in undone], now)


def _answer_second_click(request: Request) -> HttpResponse:
    """The page as it was. Approve and Undo stand in one place, and without scripts nothing else holds a second click.

    With scripts the page itself does (static/js/page.js).
    """
    messages.warning(request, TWICE)
    return HttpResponseRedirect(safe_next(request))


@acting_page
def look(request: Request, snapshot: Snapshot) -> HttpResponse:
    """Say that the person looks at a pull request, for five minutes."""
    subject = _subject(snapshot, request.POST.get("uri", ""))
    person = require(request, subject.repository_key, Role.MAINTAINER)
    actions.look(person, subject, timezone.now())
    return HttpResponse(status=204) if request.htmx else HttpResponseRedirect(safe_next(request))


def answer_rows(request: Request, snapshot: Snapshot, uris: Sequence[str], now: datetime) -> HttpResponse:
    """What htmx swaps: the one row, the tiles and the toast; without scripts, and for several rows, the page again."""
    if not request.htmx:
        return HttpResponseRedirect(safe_next(request))
    if len(uris) != 1 or request.POST.get("whole"):
        return HttpResponseClientRedirect(safe_next(request))
    return render(request, "_fragments/acted.html", _row_context(request, snapshot, uris[0], "", now))


def answer_conflict(request: Request, snapshot: Snapshot, conflict: Conflict, now: datetime) -> HttpResponse:
    """409 with how it stands now: the fresh row as a fragment, or a page of the rows concerned."""
    if request.htmx and len(conflict.uris) == 1 and not request.POST.get("whole"):
        shown = _row_context(request, snapshot, conflict.uris[0], str(conflict), now) | {"wrote": _wrote(request)}
        return render(request, "_fragments/acted.html", shown, status=409)
    found = as_shown.pulls(snapshot, conflict.uris)
    shown = {
        "sentence": str(conflict),
        "wrote": _wrote(request),
        "items": [rows.row_view(row, present(snapshot), False, QueueFilters()) for row in found],
        "acts": acting.acts_of(request.user, viewing(request), snapshot, found, now),
        "next": safe_next(request),
        "filters": QueueFilters(),
    }
    return render(request, "conflict.html", shown, status=409)


def filters_of(request: Request) -> QueueFilters:
    """The view of the queue from which a form was sent, by its `next`."""
    return read_queue(dict(parse_qsl(urlsplit(safe_next(request)).query)))


def _row_context(request: Request, snapshot: Snapshot, uri: str, note: str, now: datetime) -> dict[str, object]:
    """The row as it stands now with the note on it, and the counts; `item` is None where it is not open any more."""
    row, filters = as_shown.pull(snapshot, uri), filters_of(request)
    found = acting.less_in_flight(as_shown.queue(snapshot, filters.query()), snapshot, now)
    opened = row is not None and filters.opened == uri
    more = expanded(request, snapshot, row) if row is not None and opened else rows.NOTHING
    return {
        "item": rows.row_view(row, present(snapshot), opened, filters, more) if row else None,
        "anchor": rows.row_anchor(uri),
        "acts": acting.acts_of(request.user, viewing(request), snapshot, [row] if row else [], now),
        "note": note,
        "filters": filters,
        "tiles": rows.tiles(found),
        "fragment": True,
        "board": told_dashboard(request, snapshot),
        "next": safe_next(request),
    }


def _subject(snapshot: Snapshot, uri: str) -> Subject:
    found = read.decided_subjects(snapshot, [uri]).get(uri)
    if found is None:
        raise Http404("No pull request of a watched repository has this address.")
    return found


def _problem(request: Request, sentence: str) -> HttpResponse:
    shown = {"title": "Nothing was done", "sentence": sentence, "wrote": _wrote(request)}
    return render(request, "error.html", shown, status=400)


def _signed_out(request: Request) -> HttpResponse:
    """401 that gives back what somebody wrote, in place of the row that was acted on or on a page of its own.

    The sign-in makes every older form of this browser void, so the words could not be sent again from where they were.
    """
    shown = {"title": "Nothing was done", "sentence": SIGNED_OUT, "wrote": _wrote(request), "back": safe_next(request)}
    template = "_fragments/signed_out.html" if request.htmx else "error.html"
    response = render(request, template, shown, status=401)
    response["WWW-Authenticate"] = CHALLENGE["WWW-Authenticate"]
    return response


def refused_form(request: HttpRequest, reason: str = "") -> HttpResponse:
    """403 where a form's token is not this browser's; what was written is given back to a form of this site alone."""
    own = request.headers.get("Sec-Fetch-Site") == "same-origin"
    words = render_to_string("403_csrf.html", {"wrote": _wrote(request) if own else ""})
    return HttpResponse(words, status=403)


def _wrote(request: HttpRequest) -> str:
    """The words that somebody sent along, so that a refusal gives them back."""
    return request.POST.get("note") or request.POST.get("because") or ""


def to_sign_in(request: Request, back: str) -> HttpResponse:
    """To the sign-in, and from there to the path `back`."""
    target = f"{resolve_url('sign_in')}?{urlencode({'next': back})}"
    return HttpResponseClientRedirect(target) if request.htmx else HttpResponseRedirect(target)
