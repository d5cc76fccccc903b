"""Views that act on pull requests: POST only, by maintainers of the repository, answered with the row as it stands."""

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

from ingest.lookups.forge import Outcome
from ingest.oauth.scopes import Act
from ingest.store.snapshots import Snapshot
from scoring.queries import read
from scoring.queries.read import QueueRow, Subject
from triage.access.oauth.client import TooBusy, acting_place
from triage.access.oauth.keys import KeyProblem
from triage.access.oauth.sessions import held_session
from triage.access.permissions import Role, SignInNeeded, require, require_reader
from triage.access.problems import CHALLENGE, mark_private
from triage.access.requests import Request
from triage.access.sign_in import safe_next, viewing
from triage.context import present
from triage.forms.actions import read_wanted
from triage.forms.filters import QueueFilters, read_queue
from triage.models import Action
from triage.presenters import lists
from triage.presenters.queue import queue as as_shown
from triage.presenters.queue import row_actions, rows
from triage.presenters.queue.pills import row_pill
from triage.presenters.queue.review import Draft, review_notes
from triage.services import actions, snoozing
from triage.services.actions import ActionProblem, Conflict, Wanted
from triage.services.lane_closures import opened_by
from triage.services.own_name import merging, own_records
from triage.services.reading_times import note_verdict
from triage.views.inbox.inbox import LIST, PANE, ask_again, pane, updated_list
from triage.views.inbox.queue import at_address

TWICE = "Looked like a double click, so nothing changed. Press it again if you mean it."
NO_ROW = "Nothing changed. It is not judged yet, or its author's account is gone."
NO_LONGER_FAST = "Nothing changed. This left the fast lane meanwhile."
SAY_WHY = "Nothing changed. It is flagged: say why you approve it anyway."
SAY_WHY_FAILED = "Nothing changed. Its CI failed: say why you approve it anyway."
SAY_WHY_FOUND = "Nothing changed. Its review found something: say why you approve it anyway."
NO_CLAIM = "Nothing changed: its author does not say any more that it was merged. Here is the current state."
NO_FINDING = "Nothing changed. The latest round does not have this finding."
NO_ACCOUNT = "Nothing was sent: sign in with your AT Protocol account first. Your text is kept here."
NO_ACCOUNT_TO_MERGE = "Nothing was merged: sign in with your AT Protocol account first."
NOT_OFFERED = "Nothing was merged: the newest round is not approved yet, or its CI failed or still runs."
NO_ACCOUNT_TO_SEND = "Nothing was sent: sign in with your AT Protocol account first."
NO_PLACE_TO_SEND = "Nothing was sent: this site cannot ask your server just now. Try again in a minute."
NO_LABEL = "Nothing was sent: this pull request's lane may not be told now, or you said it already."
NO_PLACE = "Nothing was merged: this site cannot ask your server just now. Try again in a minute."
SIGNED_OUT = "Nothing changed: you are signed out. Copy your text, then sign in again."
Answer = Callable[[Request, Snapshot], HttpResponse]


def acting_page(page: Answer) -> Callable[[Request], HttpResponse]:
    """A POST that changes something: whoever is not signed in is sent to sign in, and nothing is kept by a cache."""

    @wraps(page)
    def answer(request: Request) -> HttpResponse:
        if request.snapshot is None:
            raise Http404("The worker has published nothing yet, so there is nothing to act on.")
        try:
            require_reader(request)  # before the page looks anything up: a 404 would tell what is here
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
    if not request.htmx and actions.is_second_click(person, subject.uri, now):
        return _answer_second_click(request)
    try:
        _check_approvable(snapshot, wanted, subject, request.POST.get("lane", ""))
        _check_claimed(snapshot, wanted)
        wanted = _with_scanner(snapshot, wanted, subject)
        (made,) = actions.act(person, {subject.uri: subject}, [wanted], now)
    except Conflict as conflict:
        return answer_conflict(request, snapshot, conflict, now)
    if made.kind in actions.ENDINGS:
        note_verdict(person, subject.uri, now)
    if "send" in request.GET and (page := _send(request, subject, made, now)):
        return page
    if incident := opened_by(made, snapshot):
        return HttpResponseClientRedirect(incident) if request.htmx else HttpResponseRedirect(incident)
    said = row_actions.done_words([made], snapshot)
    goes_on = made.kind in actions.ENDINGS and not _goes_on_to_merge(request)
    following = next_uri(request, snapshot, subject.uri, now) if goes_on else subject.uri
    return answer_rows(request, snapshot, [subject.uri], now, said, following)


@acting_page
def send(request: Request, snapshot: Snapshot) -> HttpResponse:
    """Send what was kept here (`key`): a record in one's own name, 10 s from now."""
    person, now = require_reader(request), timezone.now()
    kept = Action.objects.filter(person=person, key=request.POST.get("key", "")).first()
    if kept is None:
        raise ActionProblem(own_records.NOT_YOURS)
    subject = _subject(snapshot, kept.pull_uri)
    require(request, subject.repository_key, Role.MAINTAINER)
    return _send(request, subject, kept, now) or HttpResponseRedirect(safe_next(request))


@acting_page
def take_back_sent(request: Request, snapshot: Snapshot) -> HttpResponse:
    """Take back what one sent in one's own name (`key`), 10 s from now."""
    require_reader(request)
    session = held_session(request)
    if session is None:
        raise ActionProblem(NO_ACCOUNT_TO_SEND)
    try:
        with acting_place(session.person.pk) as sender:
            own_records.take_back(session, request.POST.get("key", ""), sender, timezone.now)
    except own_records.ScopeNeeded as needed:
        return to_grant(request, needed.act)
    except (TooBusy, KeyProblem) as problem:
        raise ActionProblem(NO_PLACE_TO_SEND) from problem
    return HttpResponseRedirect(safe_next(request))


@acting_page
def label(request: Request, snapshot: Snapshot) -> HttpResponse:
    """Put the lane of a pull request (`uri`) on it as a label of Tangled in one's own name, 10 s from now."""
    subject, now = _subject(snapshot, request.POST.get("uri", "")), timezone.now()
    require(request, subject.repository_key, Role.MAINTAINER)
    session = held_session(request)
    if session is None:
        raise ActionProblem(NO_ACCOUNT_TO_SEND)
    lane = own_records.label_to_offer(session.person, snapshot, subject.uri, now)
    if lane is None:
        raise ActionProblem(NO_LABEL)
    try:
        own_records.send_label(session, lane, now)
    except own_records.ScopeNeeded as needed:
        return to_grant(request, needed.act)
    return HttpResponseRedirect(safe_next(request))


def _send(request: Request, subject: Subject, action: Action, now: datetime) -> HttpResponse | None:
    """Have the record of an action sent; return the way to allow it where it is not allowed yet. The text stays."""
    session = held_session(request)
    if session is None:
        raise ActionProblem(NO_ACCOUNT)
    if subject.state != "open":
        raise ActionProblem(f"Nothing was sent: it is already {subject.state}.")
    try:
        own_records.send_action(action, session, now)
    except own_records.ScopeNeeded as needed:
        return to_grant(request, needed.act)
    return None


@acting_page
def merge(request: Request, snapshot: Snapshot) -> HttpResponse:
    """Merge an approved pull request (`uri`) on its knot in one's own name, after one click on a form that says so."""
    subject, now = _subject(snapshot, request.POST.get("uri", "")), timezone.now()
    require(request, subject.repository_key, Role.MAINTAINER)
    session, row = held_session(request), as_shown.pull(snapshot, subject.uri)
    if session is None:
        raise ActionProblem(NO_ACCOUNT_TO_MERGE)
    if row is None or not _offers_merge(request, snapshot, row, now):
        raise ActionProblem(NOT_OFFERED)
    seen = request.POST.get("seen", "")
    try:
        with acting_place(session.person.pk) as sender:
            merged = merging.merge_as(session, snapshot, subject.uri, seen, sender, timezone.now)
    except own_records.ScopeNeeded as needed:
        return to_grant(request, needed.act)
    except (TooBusy, KeyProblem) as problem:
        raise ActionProblem(NO_PLACE) from problem
    tell = messages.info if merged.outcome is Outcome.MERGED else messages.warning
    tell(request, merged.sentence)
    return HttpResponseRedirect(safe_next(request))


def _offers_merge(request: Request, snapshot: Snapshot, row: QueueRow, now: datetime) -> bool:
    act = row_actions.acts_of(request.user, viewing(request), snapshot, [row], now)[row.uri]
    return bool(row_actions.merge_commands(row, act, request.user))


def to_grant(request: Request, act: Act) -> HttpResponse:
    """To the page that says what an act writes and where, and from there back to where one was."""
    target = f"{reverse('oauth_grant')}?{urlencode({'act': act.name.lower(), 'next': safe_next(request)})}"
    return HttpResponseClientRedirect(target) if request.htmx else HttpResponseRedirect(target)


def _goes_on_to_merge(request: Request) -> bool:
    """Return whether "Approve and merge" was pressed: the pull request stays open and shows how to merge it."""
    return request.GET.get("then") == "merge"


def _check_approvable(snapshot: Snapshot, wanted: Wanted, subject: Subject, shown: str) -> None:
    """Conflict where no row offers an approval, or where it left the fast lane that the form was `shown` in."""
    if wanted.kind != Action.Kind.APPROVE or subject.state != "open":
        return
    row = as_shown.pull(snapshot, wanted.uri)
    if sentence := row_actions.refused_approval(row) if row else NO_ROW:
        raise Conflict(sentence, [wanted.uri])
    if row and shown == "fast" and row_pill(row).kind != "fast":
        raise Conflict(NO_LONGER_FAST, [wanted.uri])
    if row and row_pill(row).kind == "flag" and not wanted.note.strip():
        raise Conflict(SAY_WHY, [wanted.uri])
    if row and row.asks_reason and not wanted.note.strip():
        raise Conflict(SAY_WHY_FAILED if row.ci == "failed" else SAY_WHY_FOUND, [wanted.uri])


def _check_claimed(snapshot: Snapshot, wanted: Wanted) -> None:
    """Conflict where no row offers to say whether it was merged: nobody claims it, or an audit hides the claim."""
    if wanted.kind not in actions.ON_CLAIM:
        return
    row = as_shown.pull(snapshot, wanted.uri)
    if row is None or row.is_sealed or not row.claim:
        raise Conflict(NO_CLAIM, [wanted.uri])


def _with_scanner(snapshot: Snapshot, wanted: Wanted, subject: Subject) -> Wanted:
    """The same with the scanner of its findings, read from the review; Conflict for what no page offers."""
    if not wanted.findings:
        return wanted
    row, review = as_shown.pull(snapshot, subject.uri), read.content_review(snapshot, subject.uri)
    if row is None or row.is_sealed or review is None:
        raise Conflict(NO_FINDING, [wanted.uri])
    known = {note.digest: note.source for note in review_notes(review, subject.seen.patch_id) if note.digest}
    if not set(wanted.findings) <= known.keys():
        raise Conflict(NO_FINDING, [wanted.uri])
    return replace(wanted, scanner=known[wanted.findings[0]].partition(":")[0][:60])


@acting_page
def undo(request: Request, snapshot: Snapshot) -> HttpResponse:
    """Undo within 10 s, also at once; 409 in words afterwards. A bulk approval is undone as a whole.

    A single pull request is open again afterwards.
    """
    person, now = require_reader(request), timezone.now()
    key = request.POST.get("key", "")
    try:
        withdrawn = own_records.withdraw_record(person, key, now)
        if withdrawn:
            back = safe_next(request)
            return HttpResponseClientRedirect(back) if request.htmx else HttpResponseRedirect(back)
        snoozed = snoozing.take_back(person, key, now)
        undone = [] if snoozed else actions.undo(person, key, now)
    except Conflict as conflict:
        return answer_conflict(request, snapshot, conflict, now)
    asks_again = ask_again(person, undone)
    uris = snoozed or [one.pull_uri for one in undone]
    wrote = undone[0] if len(undone) == 1 and undone[0].note else None
    draft = Draft(wrote.kind, wrote.note) if wrote else None
    if request.htmx.target == LIST:
        return _answer_list(request, snapshot, uris, "Undone.", draft=draft, asks_again=asks_again)
    if len(uris) == 1 and not request.htmx:
        return HttpResponseRedirect(_reopened(request, uris[0], f"about={key}" if wrote else ""))
    return answer_rows(request, snapshot, uris, now, "Undone.", uris[0], draft=draft)


def _answer_list(request: Request, snapshot: Snapshot, uris: Sequence[str], said: str, **told: object) -> HttpResponse:
    """The list that the toast's Undo swaps, with the one pull request concerned in the pane where it is open."""
    view = _read_view(request.htmx.current_url or "")
    is_shown = len(uris) == 1 and as_shown.pull(snapshot, uris[0]) is not None
    return updated_list(request, snapshot, view, uris[0] if is_shown else view.opened, said, **told)


def _reopened(request: Request, uri: str, draft: str) -> str:
    """The page that a form was sent from; of the inbox with this pull request open and the focus on its row.

    `draft` asks for the form with what was written, where that page has it.
    """
    back = safe_next(request)
    place = urlsplit(back).path
    if place == reverse("queue"):
        return f"{place}{filters_of(request).opening(uri)}{draft and '&'}{draft}#{rows.row_anchor(uri)}-title"
    return f"{place}?{draft}#pull-title" if draft and place == reverse("pull", args=[uri]) else back


def _answer_second_click(request: Request) -> HttpResponse:
    """The page as it was: the second click on an Undo approves nothing that came into its place.

    With scripts the page itself holds it (static/js/page.js).
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


def answer_rows(
    request: Request,
    snapshot: Snapshot,
    uris: Sequence[str],
    now: datetime,
    said: str,
    opened: str | None = None,
    draft: Draft | None = None,
) -> HttpResponse:
    """Answer with what htmx swaps: the pane or the row, the counts, the toast and what is said aloud.

    Without scripts, and for several rows, the page is shown again. `opened` is what the pane goes on to: "" for
    nothing, None for the row itself; its form begins with `draft`.
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
    """Answer 409 with how it stands now: the fresh pane or row as a fragment, or a page of the rows concerned."""
    if request.htmx.target == LIST:
        answer = _answer_list(request, snapshot, conflict.uris, str(conflict), told=str(conflict))
        answer.status_code = 409
        return answer
    if request.htmx and len(conflict.uris) == 1 and not request.POST.get("whole"):
        shown = _row_context(request, snapshot, conflict.uris[0], now)
        shown |= {"wrote": _wrote(request), "said": str(conflict), "told": str(conflict)}
        shown |= {} if shown["in_pane"] else {"note": str(conflict)}
        return render(request, "inbox/_acted.html", shown, status=409)
    found = as_shown.pulls(snapshot, conflict.uris)
    shown = {
        "sentence": str(conflict),
        "wrote": _wrote(request),
        "items": [rows.row_view(row, present(snapshot), QueueFilters()) for row in found],
        "acts": row_actions.acts_of(request.user, viewing(request), snapshot, found, now),
        "next": safe_next(request),
        "filters": QueueFilters(),
    }
    return render(request, "inbox/conflict.html", shown, status=409)


def filters_of(request: Request) -> QueueFilters:
    """The view of the queue from which a form was sent, by its `next`."""
    return _read_view(safe_next(request))


def _read_view(address: str) -> QueueFilters:
    """The view of the queue at an address, which comes from a browser."""
    return read_queue(dict(parse_qsl(address.partition("?")[2].partition("#")[0])))


def _row_context(
    request: Request, snapshot: Snapshot, uri: str, now: datetime, opened: str | None = None
) -> dict[str, object]:
    """Return the row as it is now, the counts and, for a form of the pane, the pane; `row` is None once closed."""
    row, filters = as_shown.pull(snapshot, uri), filters_of(request)
    query = row_actions.query_of(filters, request.user, snapshot)
    row = as_shown.as_listed(snapshot, query, row) if row else None
    found = row_actions.less_in_flight(as_shown.queue(snapshot, query), query, snapshot, now)
    bucket = read.lanes(snapshot, [uri], as_shown.as_it_stands(snapshot, query)).get(uri)
    in_pane = request.htmx.target == PANE
    beside = _read_view(request.htmx.current_url or "").opened  # "" in the list of a phone, which stays in view
    is_beside = not in_pane and beside != "" and uri in (opened, beside)
    shown: dict[str, object] = {}
    if in_pane or is_beside:
        filters = replace(filters, opened=uri if opened is None else opened)
        shown = pane(request, snapshot, filters.opened, filters)
    return shown | {
        "in_pane": in_pane,
        "is_beside": is_beside,  # the row was acted on, and the pane shows it again
        "row": rows.row_view(row, present(snapshot), filters) if row else None,
        "is_gone": row is None or uri in as_shown.as_it_stands(snapshot, query).snoozed,
        "anchor": rows.row_anchor(uri),
        "acts": row_actions.acts_of(request.user, viewing(request), snapshot, [row] if row else [], now),
        "filters": filters,
        "tiles": rows.tiles(found),
        "saved": lists.saved_filters(request.user, filters),
        "lists": lists.count_lists(request, snapshot),
        "bucket": bucket if filters.bucket in ("", bucket) else None,
        "count": rows.count_of(found, bucket) if bucket else 0,
        "fragment": True,
        "opens_merge": _goes_on_to_merge(request),
        "next": reverse("queue") + filters.search() if shown else safe_next(request),
    }


def next_uri(request: Request, snapshot: Snapshot, uri: str, now: datetime) -> str:
    """Return the one below in the list that nobody decided, at its end the one above; "" where there is no other."""
    query = row_actions.query_of(filters_of(request), request.user, snapshot)
    found_rows = [one for group in as_shown.queue(snapshot, query).groups for one in group.rows]
    acts = row_actions.acts_of(request.user, viewing(request), snapshot, found_rows, now)
    listed = [one.uri for one in found_rows if one.uri == uri or not acts[one.uri].is_decided]
    if uri not in listed:
        return listed[0] if listed else ""
    place = listed.index(uri)
    return next(iter([*listed[place + 1 :], *reversed(listed[:place])]), "")


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
    template = "inbox/_signed_out.html" if request.htmx else "error.html"
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
