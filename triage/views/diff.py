"""Shows the change itself: one round with what was found in its lines, or the difference between two rounds.

It also shows what people did with one pull request, in order, and how it changed since one of them approved it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode

from django.conf import settings
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone

from ingest.store.snapshots import Snapshot
from scoring.formatting import visible
from scoring.queries import read
from scoring.queries.read import ChangedApproval, PastAction, Round, Subject
from triage.access.permissions import Role, SignInNeeded, role_of, sees_thresholds
from triage.access.requests import Request
from triage.access.sign_in import viewing
from triage.diff_page.facts import UNREADABLE, round_words, state_words, why_missing
from triage.diff_page.page import DiffPage, Dismissals, change_page, comparison_page
from triage.models import Person
from triage.presenters import queue as as_shown
from triage.presenters import row_actions
from triage.presenters.lists import hiding_audits
from triage.presenters.pills import pill
from triage.presenters.review import Draft, NoteGroup, NoteView, draft_links, read_draft
from triage.presenters.row_actions import RowActs
from triage.presenters.rows import ForgePlace, forge_place
from triage.presenters.text import action_words
from triage.services import actions
from triage.services.reading_times import note_opened
from triage.views.queue import reading, wants_fragment

ROUNDS_LISTED = 12  # of those that another is compared with, the newest


@dataclass(frozen=True, slots=True)
class DiffQuery:
    """One view of a pull request's change. `since` None: the whole round; `file` 0: all files."""

    found: Round | None
    since: Round | None = None
    file: int = 0
    notes: tuple[str, ...] = ()  # what of the address was left aside

    @property
    def same_patch(self) -> bool:
        """Return whether both rounds were read as one and the same patch."""
        one, other = self.found, self.since
        return bool(one and other and one.patch_id is not None and one.patch_id == other.patch_id)

    def search(self, found: Round | None, since: Round | None = None, file: int = 0) -> str:
        """The query string of another view: of a round, since another, of one file alone."""
        values = {"round": found.key if found and not found.newest else "", "since": since.key if since else ""}
        told = {name: value for name, value in {**values, "file": str(file or "")}.items() if value}
        return f"?{urlencode(told)}" if told else ""


def read_diff(values: Mapping[str, str], rounds: Sequence[Round]) -> DiffQuery:
    """The view that an address names; what cannot be understood is left aside with a note. Never raises."""
    by_key = {one.key: one for one in rounds}
    newest = next((one for one in rounds if one.newest), None)
    notes = []
    found = by_key.get(values.get("round", ""), newest)
    if values.get("round", "") not in ("", *by_key):
        notes.append("This round is not known here. Here is the latest one.")
    since = by_key.get(values.get("since", ""))
    if values.get("since", "") not in ("", *by_key) or (since is not None and since == found):
        notes.append("The other round is not known here. Here is the whole round.")
        since = None
    text = values.get("file", "")
    file = int(text) if text.isascii() and text.isdecimal() and len(text) <= 5 else 0
    if text and not file:
        notes.append("This file is not known here. Here are all files.")
    return DiffQuery(found, since, file, tuple(notes))


@reading
def diff(request: Request, snapshot: Snapshot, uri: str) -> HttpResponse:
    """Show the change of a pull request of a watched repository, also when it is merged or closed."""
    shown = shown_change(request, snapshot, uri, as_shown.pull(snapshot, uri))
    return render(request, "diff/_diff.html" if wants_fragment(request) else "diff/diff.html", shown)


def shown_change(
    request: Request,
    snapshot: Snapshot,
    uri: str,
    row: read.QueueRow | None,
    pane: str = "",
    offered: bool = False,
) -> dict[str, object]:
    """Return what a page shows of a change: the round that the address names, or the newest one.

    `row` is its row where it is open. `pane` is the address of the inbox with this pull request open, "" elsewhere:
    findings link to its forms. A maintainer who has their reading measured begins to read here, unless nobody asked
    for it (`offered`).
    """
    subject, rounds = _subject(snapshot, uri), read.rounds(snapshot, uri)
    query = read_diff(request.GET, rounds)
    row = row if subject.state == "open" else None
    act = _acts(request, snapshot, row, query)
    may = act is not None and act.can_act and not act.is_own
    links = draft_links(pane or reverse("pull", args=[uri]), bool(pane), act.is_approved) if act and may else None
    shared = {"act": act, "item": {"row": subject}, "drafts": links, "next": pane or request.get_full_path()}

    def acts(note: NoteView) -> str:
        group = {"group": NoteGroup((note,)), "filters": pane}
        return render_to_string("judgement/_dismiss.html", shared | group, request)

    is_sealed = row is not None and row.is_sealed  # the audit keeps everything back but the change itself
    page = _page(request, snapshot, subject, query, is_sealed, acts if may else None)
    draft, problem = _draft(request, uri, page.findings) if may else (None, "")
    is_read = not offered and not any(page.missing)
    if is_read and isinstance(request.user, Person) and _may_judge(request, subject):
        note_opened(request.user, uri, timezone.now())
    return shared | {
        "draft": draft,
        "told": problem,
        "subject": subject,
        "query": query,
        "page": page,
        "round": round_words(query.found) if query.found else "",
        "rounds": _choices(query, rounds),
        "others": _others(query, rounds),
        "state": state_words(query.found) if query.found else "",
        "place": _place(snapshot, subject),
        "whole": reverse("diff", args=[uri]) + query.search(query.found, query.since),
        "raw": reverse("raw_patch", args=[uri]) + query.search(query.found) if _may_take(request) else "",
    }


def _draft(request: Request, uri: str, findings: Sequence[NoteView]) -> tuple[Draft | None, str]:
    """Return what the viewer wrote here and took back, or a draft about a finding, as the address asks, or why not."""
    about, person = request.GET.get("about", ""), request.user
    undone = actions.find_undone(person, uri, about) if isinstance(person, Person) else None
    return (Draft(undone.kind, undone.note), "") if undone else read_draft(request.GET, findings)


@reading
def raw_patch(request: Request, snapshot: Snapshot, uri: str) -> HttpResponse:
    """A round's patch as it is kept, as plain text; for whoever is signed in, since it names addresses of e-mail."""
    if not _may_take(request):
        raise SignInNeeded("Sign in to download the original patch.")
    _subject(snapshot, uri)
    query = read_diff(request.GET, read.rounds(snapshot, uri))
    text = _text(query.found)
    if text is None:
        raise Http404(" ".join(_why(query.found)))
    response = HttpResponse(text.encode("utf-8", "replace"), content_type="text/plain; charset=utf-8")
    response["X-Content-Type-Options"] = "nosniff"
    return response


def _place(snapshot: Snapshot, subject: Subject) -> ForgePlace | None:
    home = read.forge_home(snapshot, subject.uri, subject.author.did, subject.repository_key)
    return forge_place(home, settings.APPVIEW_URL)


def _subject(snapshot: Snapshot, uri: str) -> Subject:
    subject = read.subjects(snapshot, [uri]).get(uri)
    if subject is None:
        raise Http404("No pull request of a watched repository has this address.")
    if hidden := read.hidden_because(snapshot, subject.author.did):
        raise Http404(f"The account of its author {hidden}, so it is hidden for now.")
    return subject


def _may_judge(request: Request, subject: Subject) -> bool:
    return subject.state == "open" and viewing(request).role(subject.repository_key) >= Role.MAINTAINER


def _may_take(request: Request) -> bool:
    return viewing(request).highest() >= Role.VIEWER


def _page(
    request: Request,
    snapshot: Snapshot,
    subject: Subject,
    query: DiffQuery,
    is_sealed: bool,
    acts: Callable[[NoteView], str] | None,
) -> DiffPage:
    """Return what is shown: lines, or why there are none."""
    chosen = [query.found] if query.since is None else [query.since, query.found]
    texts = [_text(one) for one in chosen]
    for one, text in zip(chosen, texts, strict=True):
        if one is None or text is None:
            return DiffPage(missing=_why(one))
    told = [text or "" for text in texts]
    masked = not sees_thresholds(viewing(request), subject.repository_key)
    reviews = [_review(snapshot, subject, one) for one in chosen if one]
    if query.since is None:
        words = {} if masked else row_actions.dismissal_words(subject.uri)
        dismissals = Dismissals(chosen[0].patch_id if chosen[0] else None, words)
        return change_page(told[0], reviews[0], masked, is_sealed, query.file, dismissals, acts)
    before, after = told
    return comparison_page(before, after, query.same_patch, reviews, masked, query.file)


def _acts(request: Request, snapshot: Snapshot, row: read.QueueRow | None, query: DiffQuery) -> RowActs | None:
    """Return what the viewer may do to findings: nothing to those of an older round, or of what is not open."""
    if row is None or row.is_sealed or query.since is not None or query.found is None or not query.found.newest:
        return None
    return row_actions.acts_of(request.user, viewing(request), snapshot, [row], timezone.now())[row.uri]


def _text(one: Round | None) -> str | None:
    return read.kept_text(settings.DIFF_CORPUS_DIR, one.sha256) if one and one.bytes else None


def _why(one: Round | None) -> tuple[str, str]:
    why, what = why_missing(one)
    return (why, what) if why else UNREADABLE


def _review(snapshot: Snapshot, subject: Subject, one: Round) -> read.ContentReview | None:
    """Return what was found in a round; of the newest one what its decision rests on."""
    newest = read.content_review(snapshot, subject.uri) if one.newest else None
    return newest or read.round_review(snapshot, subject.uri, one.patch_ref)


def _choices(query: DiffQuery, rounds: tuple[Round, ...]) -> list[tuple[str, str, bool]]:
    """Rounds to look at: words, query string, whether it is the one that is shown."""
    return [(round_words(one), query.search(one), one == query.found) for one in rounds]


def _others(query: DiffQuery, rounds: tuple[Round, ...]) -> list[tuple[str, str, bool]]:
    """Rounds to compare the one that is shown with, likewise; those whose patch is kept."""
    others = [one for one in rounds if one != query.found and one.sha256][-ROUNDS_LISTED:]
    return [(round_words(one), query.search(query.found, one), one == query.since) for one in others]


@reading
def history(request: Request, snapshot: Snapshot, uri: str) -> HttpResponse:
    """Everything that happened to a pull request of a watched repository; of a decided one also its change."""
    subject = read.subjects(snapshot, [uri]).get(uri)
    if subject is None:
        raise Http404("No pull request of a watched repository has this address.")
    changed, past = as_shown.changed_after(snapshot).get(uri), as_shown.past_actions(snapshot, uri)
    may_read_notes = viewing(request).role(subject.repository_key) >= Role.MAINTAINER
    hidden = read.hidden_because(snapshot, subject.author.did)
    has_change = subject.state in ("merged", "closed") and not hidden
    shown = {
        "subject": subject,
        "hidden": hidden,
        "past": past,
        "lines": _timeline(request, snapshot, subject, past, may_read_notes),
        "trouble": read.troubles_in_words(snapshot, [uri]).get(uri),
        "counted": read.outcome_in_words(snapshot, uri),
        "changed": changed,
        "approved_round": approved_round(snapshot, changed) if changed else None,
        "next": reverse("history", args=[uri]),
        **_forms(request, subject),
    }
    change = shown_change(request, snapshot, uri, None) if has_change else {}
    return render(request, "diff/history.html", change | {"has_change": has_change} | shown)


@dataclass(frozen=True, slots=True)
class TimelineLine:
    """One line of the history of a pull request; `action` is None where nobody did it here."""

    at: datetime
    who: str
    what: str
    seen: str = ""
    action: PastAction | None = None


def _timeline(
    request: Request, snapshot: Snapshot, subject: Subject, past: Sequence[PastAction], with_notes: bool
) -> list[TimelineLine]:
    """Return what happened in order, with how it was judged when it was decided.

    While an audit of the author waits for an answer, nobody is told the chance.
    """
    said = {"opened": "opened it", "merged": "merged it", "closed": "closed it", "reopened": "reopened it"}
    lines: list[tuple[datetime, int, TimelineLine]] = []  # with what comes first of what happened at once
    for event in read.events(snapshot, subject.uri):
        who = visible(event.person.name) if event.person else "a hidden account"
        what = said.get(event.what) or f"sent round {(event.round or 0) + 1}"
        lines.append((event.at, 0 if event.round is not None else 3, TimelineLine(event.at, who, what)))
    judged = read.judged_when_decided(snapshot, subject.uri)
    if judged and subject.author.did not in hiding_audits(snapshot, dids=(subject.author.did,)):
        shown = pill(judged.verdict, judged.shadow)
        words = f"judged it: {shown.word}" + (
            f", stays clean {shown.number} ({shown.interval})" if shown.number else ""
        )
        lines.append((judged.as_of, 1, TimelineLine(judged.as_of, "Sunstead", words, f"round {judged.round + 1}")))
    for one in past:
        patch = f", patch {one.seen.patch_id[:12]}" if one.seen.patch_id else ""
        words, seen = visible(action_words(one, with_notes)), f"round {one.seen.round + 1}{patch}"
        lines.append((one.known_from, 2, TimelineLine(one.made_at, visible(one.actor.name), words, seen, one)))
    return [line for *_, line in sorted(lines, key=lambda line: line[:2])]


def _forms(request: Request, subject: Subject) -> dict[str, object]:
    """Return what the page's forms carry, for somebody who may act."""
    if role_of(request.user, subject.repository_key) < Role.MAINTAINER:
        return {}
    stand = actions.standings({subject.uri: subject.seen}, timezone.now())[subject.uri]
    return {
        "act": {"seen": subject.seen, "version": stand.version},
        "shown": {"row": subject},
        "is_approved": stand.approval is not None and subject.state == "open",
    }


def approved_round(snapshot: Snapshot, changed: ChangedApproval) -> str | None:
    """Name the approved patch as the page of the change does; None where it is no longer listed there."""
    seen = changed.seen
    for one in read.rounds(snapshot, changed.uri):
        if one.number == seen.round + 1 and one.patch_id == seen.patch_id and not one.newest:
            return one.key
    return None
