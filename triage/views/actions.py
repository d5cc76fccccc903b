"""Views that act on pull requests: POST only, by maintainers of the repository, answered with the present row.

The bulk approval has two steps: a summary, then the approval. Neither needs a script.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import wraps
from urllib.parse import parse_qsl, urlencode, urlsplit

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render, resolve_url
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST
from django_htmx.http import HttpResponseClientRedirect

from ingest.store.snapshots import Snapshot
from scoring.queries import read
from scoring.queries.read import QueueRow, Subject
from triage.access.permissions import Role, SignInNeeded, require, signed_in
from triage.access.problems import CHALLENGE, mark_private
from triage.access.requests import Request
from triage.access.sign_in import safe_next, viewing
from triage.context import present
from triage.forms.actions import read_choice, read_wanted, written_choice
from triage.forms.filters import QueueFilters, read_queue
from triage.models import Action, Person
from triage.presenters import lists, row_actions, rows
from triage.presenters import queue as as_shown
from triage.presenters.pills import row_pill
from triage.presenters.review import Draft, review_notes
from triage.presenters.row_lines import CI_BRIEF, pick_of
from triage.services import actions, snoozing
from triage.services import actions as bulk
from triage.services.actions import ActionProblem, Conflict, Wanted
from triage.services.lane_closures import opened_by
from triage.services.reading_times import note_verdict
from triage.views.inbox import LIST, PANE, ask_again, pane, updated_list
from triage.views.queue import at_address

TWICE = "Looked like a double click, so nothing changed. Press it again if you mean it."
NO_ROW = "Nothing changed. It is not judged yet, or its author's account is gone."
NO_LONGER_FAST = "Nothing changed. This left the fast lane meanwhile."
SAY_WHY = "Nothing changed. It is flagged: say why you approve it anyway."
SAY_WHY_FAILED = "Nothing changed. Its CI failed: say why you approve it anyway."
NO_FINDING = "Nothing changed. The latest round does not have this finding."
SIGNED_OUT = "Nothing changed: you are signed out. Copy your text, then sign in again."
Answer = Callable[[Request, Snapshot], HttpResponse]


def acting_page(page: Answer) -> Callable[[Request], HttpResponse]:
    """Wrap a POST view that changes something.

    People who are not signed in go to the sign-in, and no cache stores the answer.
    """

    @wraps(page)
    def answer(request: Request) -> HttpResponse:
        if request.snapshot is None:
            raise Http404("The worker has published nothing yet, so there is nothing to act on.")
        try:
            response = page(request, request.snapshot)
        except SignInNeeded:
            response = _signed_out(request) if _wrote(request) else to_sign_in(request, safe_next(request))
        except ActionProblem as problem:
            response = _problem_page(request, str(problem))
        mark_private(response)
        return response

    return require_POST(answer)


@acting_page
def act(request: Request, snapshot: Snapshot) -> HttpResponse:
    """Take one action on one pull request and return its row; 409 with the fresh row where it comes too late."""
    wanted = read_wanted(request.POST.dict())
    subject = _subject(snapshot, wanted.uri)
    person, now = require(request, subject.repository_key, Role.MAINTAINER), timezone.now()
    if not request.htmx and actions.is_second_click(person, subject.uri, now):
        return _answer_second_click(request)
    try:
        _check_approvable(snapshot, wanted, subject, request.POST.get("lane", ""))
        wanted = _with_scanner(snapshot, wanted, subject)
        (done,) = actions.act(person, {subject.uri: subject}, [wanted], now)
    except Conflict as conflict:
        return answer_conflict(request, snapshot, conflict, now)
    if done.kind in actions.ENDINGS:
        note_verdict(person, subject.uri, now)
    if incident := opened_by(done):
        return HttpResponseClientRedirect(incident) if request.htmx else HttpResponseRedirect(incident)
    announcement = row_actions.done_words([done], snapshot)
    moves_on = done.kind in actions.ENDINGS and not _goes_on_to_merge(request)
    following = next_uri(request, snapshot, subject.uri, now) if moves_on else subject.uri
    return answer_rows(request, snapshot, [subject.uri], now, announcement, following)


def _goes_on_to_merge(request: Request) -> bool:
    """Return whether "Approve and merge" was pressed: the pull request stays open and shows how to merge it."""
    return request.GET.get("then") == "merge"


def _check_approvable(snapshot: Snapshot, wanted: Wanted, subject: Subject, shown: str) -> None:
    """Raise Conflict where no row allows an approval, or where it left the fast lane in which the form was `shown`."""
    if wanted.kind != Action.Kind.APPROVE or subject.state != "open":
        return
    row = as_shown.pull(snapshot, wanted.uri)
    if sentence := row_actions.refused_approval(row) if row else NO_ROW:
        raise Conflict(sentence, [wanted.uri])
    if row and shown == "fast" and row_pill(row).kind != "fast":
        raise Conflict(NO_LONGER_FAST, [wanted.uri])
    if row and row_pill(row).kind == "flag" and not wanted.note.strip():
        raise Conflict(SAY_WHY, [wanted.uri])
    if row and row_pill(row).kind == "fast" and row.ci == "failed" and not wanted.note.strip():
        raise Conflict(SAY_WHY_FAILED, [wanted.uri])


def _with_scanner(snapshot: Snapshot, wanted: Wanted, subject: Subject) -> Wanted:
    """Add the scanner of the findings, read from the review; raise Conflict for findings that no page offers."""
    if not wanted.findings:
        return wanted
    row, review = as_shown.pull(snapshot, subject.uri), read.content_review(snapshot, subject.uri)
    if row is None or row.is_sealed or review is None:
        raise Conflict(NO_FINDING, [wanted.uri])
    scanners = {note.digest: note.source for note in review_notes(review, subject.seen.patch_id) if note.digest}
    if not set(wanted.findings) <= scanners.keys():
        raise Conflict(NO_FINDING, [wanted.uri])
    return replace(wanted, scanner=scanners[wanted.findings[0]].partition(":")[0][:60])


@acting_page
def undo(request: Request, snapshot: Snapshot) -> HttpResponse:
    """Undo within 10 s; 409 in words afterwards. A bulk approval is undone as a whole.

    A single pull request is opened again afterwards.
    """
    person, now = signed_in(request), timezone.now()
    key = request.POST.get("key", "")
    try:
        snoozed = snoozing.take_back(person, key, now)
        undone = [] if snoozed else actions.undo(person, key, now)
    except Conflict as conflict:
        return answer_conflict(request, snapshot, conflict, now)
    asks_again = ask_again(person, undone)
    uris = snoozed or [action.pull_uri for action in undone]
    wrote = undone[0] if len(undone) == 1 and undone[0].note else None
    draft = Draft(wrote.kind, wrote.note) if wrote else None
    if request.htmx.target == LIST:
        return _answer_list(request, snapshot, uris, "Undone.", draft=draft, asks_again=asks_again)
    if len(uris) == 1 and not request.htmx:
        return HttpResponseRedirect(_return_address(request, uris[0], f"about={key}" if wrote else ""))
    return answer_rows(request, snapshot, uris, now, "Undone.", uris[0], draft=draft)


def _answer_list(request: Request, snapshot: Snapshot, uris: Sequence[str], said: str, **told: object) -> HttpResponse:
    """Return the list that the toast's Undo swaps, with its pull request in the pane where it is open."""
    view = _read_view(request.htmx.current_url or "")
    is_shown = len(uris) == 1 and as_shown.pull(snapshot, uris[0]) is not None
    return updated_list(request, snapshot, view, uris[0] if is_shown else view.opened, said, **told)


def _return_address(request: Request, uri: str, draft: str) -> str:
    """Return the address of the form's page; for the inbox with this pull request open and the focus on its row.

    `draft` asks that page for the form with the undone text.
    """
    back = safe_next(request)
    place = urlsplit(back).path
    if place == reverse("queue"):
        return f"{place}{filters_of(request).opening(uri)}{draft and '&'}{draft}#{rows.row_anchor(uri)}-title"
    return f"{place}?{draft}#pull-title" if draft and place == reverse("pull", args=[uri]) else back


def _answer_second_click(request: Request) -> HttpResponse:
    """Show the page unchanged: the second click on Undo must not approve the row that took its place.

    With scripts the page itself prevents it (static/js/page.js).
    """
    messages.warning(request, TWICE)
    return HttpResponseRedirect(safe_next(request))


@acting_page
def look(request: Request, snapshot: Snapshot) -> HttpResponse:
    """Note that the person looks at a pull request, for five minutes."""
    subject = _subject(snapshot, request.POST.get("uri", ""))
    person = require(request, subject.repository_key, Role.MAINTAINER)
    actions.look(person, subject, timezone.now())
    return HttpResponse(status=204) if request.htmx else HttpResponseRedirect(safe_next(request))


def answer_rows(
    request: Request,
    snapshot: Snapshot,
    uris: Sequence[str],
    now: datetime,
    said: str,
    opened: str | None = None,
    draft: Draft | None = None,
) -> HttpResponse:
    """Answer with what htmx swaps: the pane or the row, the counts, the toast and the announcement.

    Without scripts, and for several rows, the page is reloaded. `opened` is what the pane shows next: "" for nothing,
    None for the row itself; its form begins with `draft`.
    """
    if not request.htmx:
        return HttpResponseRedirect(safe_next(request))
    if len(uris) != 1 or request.POST.get("whole"):
        return HttpResponseClientRedirect(safe_next(request))
    shown = _row_context(request, snapshot, uris[0], now, opened) | {"said": said}
    shown |= {"draft": draft} if draft else {}
    response = render(request, "inbox/_acted.html", shown)
    return at_address(response, bool(shown["in_pane"] or shown["is_beside"]), str(shown["next"]))


def answer_conflict(request: Request, snapshot: Snapshot, conflict: Conflict, now: datetime) -> HttpResponse:
    """Answer 409 with the present state: the fresh pane or row as a fragment, or a page of the rows concerned."""
    if request.htmx.target == LIST:
        response = _answer_list(request, snapshot, conflict.uris, str(conflict), told=str(conflict))
        response.status_code = 409
        return response
    if request.htmx and len(conflict.uris) == 1 and not request.POST.get("whole"):
        shown = _row_context(request, snapshot, conflict.uris[0], now)
        shown |= {"wrote": _wrote(request), "said": str(conflict), "told": str(conflict)}
        shown |= {} if shown["in_pane"] else {"note": str(conflict)}
        return render(request, "inbox/_acted.html", shown, status=409)
    found_rows = as_shown.pulls(snapshot, conflict.uris)
    shown = {
        "sentence": str(conflict),
        "wrote": _wrote(request),
        "items": [rows.row_view(row, present(snapshot), QueueFilters()) for row in found_rows],
        "acts": row_actions.acts_of(request.user, viewing(request), snapshot, found_rows, now),
        "next": safe_next(request),
        "filters": QueueFilters(),
    }
    return render(request, "inbox/conflict.html", shown, status=409)


def filters_of(request: Request) -> QueueFilters:
    """Return the queue view from which a form was sent, by its `next`."""
    return _read_view(safe_next(request))


def _read_view(address: str) -> QueueFilters:
    """Return the queue view at an address, which comes from a browser."""
    return read_queue(dict(parse_qsl(address.partition("?")[2].partition("#")[0])))


def _row_context(
    request: Request, snapshot: Snapshot, uri: str, now: datetime, opened: str | None = None
) -> dict[str, object]:
    """Return the present row, the counts and, for a form of the pane, the pane; `row` is None once closed."""
    row, filters = as_shown.pull(snapshot, uri), filters_of(request)
    query = row_actions.query_of(filters, request.user, snapshot)
    counted = row_actions.less_in_flight(as_shown.queue(snapshot, query), query, snapshot, now)
    bucket = read.lanes(snapshot, [uri], query).get(uri)
    in_pane = request.htmx.target == PANE
    opened_beside = _read_view(request.htmx.current_url or "").opened  # "" in the list on a phone, which stays in view
    is_beside = not in_pane and opened_beside != "" and uri in (opened, opened_beside)
    shown: dict[str, object] = {}
    if in_pane or is_beside:
        filters = replace(filters, opened=uri if opened is None else opened)
        shown = pane(request, snapshot, filters.opened, filters)
    return shown | {
        "in_pane": in_pane,
        "is_beside": is_beside,  # the action was on the row, and the pane shows it again
        "row": rows.row_view(row, present(snapshot), filters) if row else None,
        "is_gone": row is None or uri in as_shown.unsnoozed(snapshot, query).snoozed,
        "anchor": rows.row_anchor(uri),
        "acts": row_actions.acts_of(request.user, viewing(request), snapshot, [row] if row else [], now),
        "filters": filters,
        "tiles": rows.tiles(counted),
        "saved": lists.saved_filters(request.user, filters),
        "lists": lists.count_lists(request, snapshot),
        "bucket": bucket if filters.bucket in ("", bucket) else None,
        "head": "would" if bucket == "fast_lane" and row and row.shadow else bucket,
        "count": _count(counted, bucket, row) if bucket else 0,
        "fragment": True,
        "opens_merge": _goes_on_to_merge(request),
        "next": reverse("queue") + filters.search() if shown else safe_next(request),
    }


def _count(counted: read.Queue, bucket: read.GroupKey, row: read.QueueRow | None) -> int:
    """Return the count of the row's section."""
    return counted.watched if bucket == "fast_lane" and row and row.shadow else rows.count_of(counted, bucket)


def next_uri(request: Request, snapshot: Snapshot, uri: str, now: datetime) -> str:
    """Return the next undecided row below in the list, at its end the one above; "" where there is no other."""
    query = row_actions.query_of(filters_of(request), request.user, snapshot)
    found_rows = [row for group in as_shown.queue(snapshot, query).groups for row in group.rows]
    acts = row_actions.acts_of(request.user, viewing(request), snapshot, found_rows, now)
    listed = [row.uri for row in found_rows if row.uri == uri or not acts[row.uri].is_decided]
    if uri not in listed:
        return listed[0] if listed else ""
    position = listed.index(uri)
    return next(iter([*listed[position + 1 :], *reversed(listed[:position])]), "")


def _subject(snapshot: Snapshot, uri: str) -> Subject:
    subject = read.decided_subjects(snapshot, [uri]).get(uri)
    if subject is None:
        raise Http404("No pull request of a watched repository has this address.")
    return subject


def _problem_page(request: Request, sentence: str) -> HttpResponse:
    shown = {"title": "Nothing was done", "sentence": sentence, "wrote": _wrote(request)}
    return render(request, "error.html", shown, status=400)


def _signed_out(request: Request) -> HttpResponse:
    """Return 401 with the person's text, in place of the row or on a page of its own.

    Signing in invalidates all older forms of this browser, so the text could not be sent again from them.
    """
    shown = {"title": "Nothing was done", "sentence": SIGNED_OUT, "wrote": _wrote(request), "back": safe_next(request)}
    template = "inbox/_signed_out.html" if request.htmx else "error.html"
    response = render(request, template, shown, status=401)
    response["WWW-Authenticate"] = CHALLENGE["WWW-Authenticate"]
    return response


def refused_form(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Return 403 where a form's token is not this browser's; only a form of this site gets the person's text back."""
    own = request.headers.get("Sec-Fetch-Site") == "same-origin"
    words = render_to_string("403_csrf.html", {"wrote": _wrote(request) if own else ""})
    return HttpResponse(words, status=403)


def _wrote(request: HttpRequest) -> str:
    """Return the text that somebody sent, so that a refusal can give it back."""
    return request.POST.get("note") or request.POST.get("because") or ""


def to_sign_in(request: Request, back: str) -> HttpResponse:
    """Redirect to the sign-in, and from there to the path `back`."""
    target = f"{resolve_url('sign_in')}?{urlencode({'next': back})}"
    return HttpResponseClientRedirect(target) if request.htmx else HttpResponseRedirect(target)


@acting_page
def bulk_approve(request: Request, snapshot: Snapshot) -> HttpResponse:
    """Show the summary first; with `confirmed` approve all or, where one has changed, none (409).

    Where none is selected, offer all that can be approved.
    """
    wanted = [read_choice(value) for value in request.POST.getlist("pull")]
    if not wanted and not request.POST.get("confirmed"):
        return render(request, "inbox/bulk_none.html", _approvable(request, snapshot))
    rows_by_uri = {row.uri: row for row in as_shown.pulls(snapshot, [request_of_row.uri for request_of_row in wanted])}
    person = _person(request, list(rows_by_uri.values()))
    try:
        bulk.check_lane(wanted, rows_by_uri, read.changed_after(snapshot).keys(), str(person.did))
        chosen = [rows_by_uri[request_of_row.uri] for request_of_row in wanted]
        if not request.POST.get("confirmed"):
            return render(request, "inbox/bulk.html", _confirmation(request, snapshot, wanted, chosen))
        bulk.check_typed(len(wanted), request.POST.get("typed", ""))
        done = actions.act(person, read.decided_subjects(snapshot, rows_by_uri), wanted, timezone.now())
    except Conflict as conflict:
        return answer_conflict(request, snapshot, conflict, timezone.now())
    return answer_rows(request, snapshot, list(rows_by_uri), timezone.now(), row_actions.done_words(done, snapshot))


def _approvable(request: Request, snapshot: Snapshot) -> dict[str, object]:
    """Return what could be selected in the form's view, up to the limit of one bulk approval."""
    query = replace(row_actions.query_of(filters_of(request), require(request, "", Role.VIEWER), snapshot), page=1)
    shown = as_shown.queue(snapshot, replace(query, bucket="fast_lane", size=bulk.AT_MOST))
    fast = [row for group in shown.groups for row in group.rows]
    acts = row_actions.acts_of(request.user, viewing(request), snapshot, fast, timezone.now())
    views = [rows.row_view(row, present(snapshot), QueueFilters()) for row in fast]
    picks = [pick_of(view, acts[view.row.uri]) for view in views]
    return {
        "choices": [pick for pick in picks if pick],
        "failed": sum(row_actions.is_ci_left(row, acts[row.uri]) for row in fast),
        "next": safe_next(request),
    }


def _person(request: Request, found_rows: Sequence[QueueRow]) -> Person:
    """Return the viewer, who must maintain the repositories of all of these rows."""
    for key in {row.repository_key for row in found_rows}:
        require(request, key, Role.MAINTAINER)
    return require(request, "", Role.VIEWER)


def _confirmation(
    request: Request, snapshot: Snapshot, wanted: Sequence[Wanted], chosen: Sequence[QueueRow]
) -> dict[str, object]:
    return {
        "summary": bulk.summary(chosen),
        "ci_words": CI_BRIEF,
        "items": [rows.row_view(row, present(snapshot), QueueFilters()) for row in chosen],
        "choices": [
            written_choice(request_of_row.uri, request_of_row.seen, request_of_row.version) for request_of_row in wanted
        ],
        "next": safe_next(request),
    }
