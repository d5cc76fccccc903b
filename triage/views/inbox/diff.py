"""Show a change: one round with the findings in its lines, or the difference between two rounds.

It also shows the history of one pull request, and how it changed since somebody approved it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from urllib.parse import urlencode

from django.conf import settings
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.template.context_processors import csrf
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone

from ingest.store.snapshots import Snapshot
from scoring.explain.sentences import plain_sentence, told_reasons
from scoring.formatting import visible
from scoring.queries import read
from scoring.queries.read import ChangedApproval, PastAction, Round, Subject
from triage.access.oauth.sessions import held_session
from triage.access.permissions import Role, SignInNeeded, role_of, sees_thresholds
from triage.access.requests import Request
from triage.access.sign_in import viewing
from triage.context import present
from triage.diff_page.facts import UNREADABLE, round_words, state_words, why_missing
from triage.diff_page.page import DiffPage, Dismissals, change_page, comparison_page
from triage.models import AuditAnswer, OwnRecord, Person
from triage.presenters.lists import hiding_audits
from triage.presenters.peers import PeerView, opinion_view
from triage.presenters.queue import queue as as_shown
from triage.presenters.queue import row_actions
from triage.presenters.queue.comments import own_account, sent_views
from triage.presenters.queue.past_actions import action_words
from triage.presenters.queue.pills import pill
from triage.presenters.queue.review import Draft, NoteGroup, NoteView, draft_links, read_draft
from triage.presenters.queue.row_actions import RowActs
from triage.presenters.queue.rows import ForgePlace, forge_place
from triage.presenters.vouching import vouching_shown
from triage.services import actions, snoozing
from triage.services.lane_closures import bad_marks, newest_outcome, opening
from triage.services.objections import naive
from triage.services.own_name import own_records
from triage.services.reading_times import note_opened
from triage.views.inbox.queue import reading, wants_fragment

TAKEN_BACK = "sent to Tangled and taken back"
ROUNDS_LISTED = 12  # the newest rounds offered for comparison


@dataclass(frozen=True, slots=True)
class DiffQuery:
    """One view of a pull request's change. `since` None: the whole round; `file` 0: all files."""

    found: Round | None
    since: Round | None = None
    file: int = 0
    notes: tuple[str, ...] = ()  # notes on ignored parts of the address

    @property
    def same_patch(self) -> bool:
        """Return whether both rounds have the same patch."""
        first, second = self.found, self.since
        return bool(first and second and first.patch_id is not None and first.patch_id == second.patch_id)

    def search(self, found: Round | None, since: Round | None = None, file: int = 0) -> str:
        """Return the query string of another view: a round, a comparison with another, one file."""
        values = {"round": found.key if found and not found.newest else "", "since": since.key if since else ""}
        given = {name: value for name, value in {**values, "file": str(file or "")}.items() if value}
        return f"?{urlencode(given)}" if given else ""


def read_diff(values: Mapping[str, str], rounds: Sequence[Round]) -> DiffQuery:
    """Read the view that an address names; ignore invalid parts with a note. Never raises."""
    by_key = {candidate.key: candidate for candidate in rounds}
    newest = next((candidate for candidate in rounds if candidate.newest), None)
    notes = []
    chosen = by_key.get(values.get("round", ""), newest)
    if values.get("round", "") not in ("", *by_key):
        notes.append("This round is not known here. Here is the latest one.")
    since = by_key.get(values.get("since", ""))
    if values.get("since", "") not in ("", *by_key) or (since is not None and since == chosen):
        notes.append("The other round is not known here. Here is the whole round.")
        since = None
    text = values.get("file", "")
    file = int(text) if text.isascii() and text.isdecimal() and len(text) <= 5 else 0
    if text and not file:
        notes.append("This file is not known here. Here are all files.")
    return DiffQuery(chosen, since, file, tuple(notes))


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
    """Return the page context of a change: the round that the address names, or the newest one.

    `row` is its row where it is open. `pane` is the address of the inbox with this pull request open, "" elsewhere:
    findings link to its forms. For a maintainer who opted in to reading times this starts the clock, except for a row
    that opened by itself (`offered`).
    """
    subject, rounds = _subject(snapshot, uri), read.rounds(snapshot, uri)
    query = read_diff(request.GET, rounds)
    row = row if subject.state == "open" else None
    act = _acts(request, snapshot, row, query)
    may_act = act is not None and act.can_act and not act.is_own
    links = draft_links(pane or reverse("pull", args=[uri]), bool(pane), act.is_approved) if act and may_act else None
    shared = {"act": act, "item": {"row": subject}, "drafts": links, "next": pane or request.get_full_path()}
    # Not the whole context of a page, which asks both databases: a change of 33 notes built it 34 times.
    noted = shared | csrf(request) | {"viewer": request.user, "filters": pane}

    def acts(note: NoteView) -> str:
        return render_to_string("judgement/_dismiss.html", noted | {"group": NoteGroup((note,))})

    is_sealed = row is not None and row.is_sealed  # a pending audit hides everything but the change itself
    page = _page(request, snapshot, subject, query, is_sealed, acts if may_act else None)
    draft, problem = _draft(request, uri, page.findings) if may_act else (None, "")
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
        "since": round_words(query.since) if query.since else "",
        "rounds": _choices(query, rounds),
        "others": _others(query, rounds),
        "state": state_words(query.found) if query.found else "",
        "place": _place(snapshot, subject),
        "whole": reverse("diff", args=[uri]) + query.search(query.found, query.since),
        "raw": reverse("raw_patch", args=[uri]) + query.search(query.found) if _may_take(request) else "",
    }


def _draft(request: Request, uri: str, findings: Sequence[NoteView]) -> tuple[Draft | None, str]:
    """Return the viewer's undone text, or a draft about a finding, as the address asks; else a message."""
    about, person = request.GET.get("about", ""), request.user
    undone = actions.find_undone(person, uri, about) if isinstance(person, Person) else None
    return (Draft(undone.kind, undone.note), "") if undone else read_draft(request.GET, findings)


@reading
def raw_patch(request: Request, snapshot: Snapshot, uri: str) -> HttpResponse:
    """Return a round's stored patch as plain text; only for signed-in people, since it contains e-mail addresses."""
    if not _may_take(request):
        raise SignInNeeded("Sign in to download the original patch.")
    _subject(snapshot, uri)
    query = read_diff(request.GET, read.rounds(snapshot, uri))
    text = _patch_text(query.found)
    if text is None:
        raise Http404(" ".join(_missing_words(query.found)))
    response = HttpResponse(text.encode("utf-8", "replace"), content_type="text/plain; charset=utf-8")
    response["X-Content-Type-Options"] = "nosniff"
    return response


def _place(snapshot: Snapshot, subject: Subject) -> ForgePlace | None:
    home = read.forge_home(snapshot, subject.uri, subject.author.did, subject.repository_key)
    return forge_place(home, settings.FORGE_PAGES)


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
    """Return the lines to show, or why there are none."""
    chosen = [query.found] if query.since is None else [query.since, query.found]
    texts = [_patch_text(shown_round) for shown_round in chosen]
    for shown_round, text in zip(chosen, texts, strict=True):
        if shown_round is None or text is None:
            return DiffPage(missing=_missing_words(shown_round))
    full_texts = [text or "" for text in texts]
    masked = not sees_thresholds(viewing(request), subject.repository_key)
    reviews = [_review(snapshot, subject, shown_round) for shown_round in chosen if shown_round]
    if query.since is None:
        words = {} if masked else row_actions.dismissal_words(subject.uri)
        dismissals = Dismissals(chosen[0].patch_id if chosen[0] else None, words)
        return change_page(full_texts[0], reviews[0], masked, is_sealed, query.file, dismissals, acts)
    before, after = full_texts
    return comparison_page(before, after, query.same_patch, reviews, masked, query.file)


def _acts(request: Request, snapshot: Snapshot, row: read.QueueRow | None, query: DiffQuery) -> RowActs | None:
    """Return the viewer's actions on findings: none for an older round or a closed pull request."""
    if row is None or row.is_sealed or query.since is not None or query.found is None or not query.found.newest:
        return None
    return row_actions.acts_of(request.user, viewing(request), snapshot, [row], timezone.now())[row.uri]


def _patch_text(shown_round: Round | None) -> str | None:
    return read.kept_text(settings.DIFF_CORPUS_DIR, shown_round.sha256) if shown_round and shown_round.bytes else None


def _missing_words(shown_round: Round | None) -> tuple[str, str]:
    why, detail = why_missing(shown_round)
    return (why, detail) if why else UNREADABLE


def _review(snapshot: Snapshot, subject: Subject, shown_round: Round) -> read.ContentReview | None:
    """Return a round's review; for the newest round the one behind its decision."""
    newest = read.content_review(snapshot, subject.uri) if shown_round.newest else None
    return newest or read.round_review(snapshot, subject.uri, shown_round.patch_ref)


def _choices(query: DiffQuery, rounds: tuple[Round, ...]) -> list[tuple[str, str, bool]]:
    """Return rounds to show: words, query string, whether it is the selected one."""
    return [(round_words(choice), query.search(choice), choice == query.found) for choice in rounds]


def _others(query: DiffQuery, rounds: tuple[Round, ...]) -> list[tuple[str, str, bool]]:
    """Return rounds to compare with the selected one: words, query string, whether it is chosen.

    Only those with a stored patch.
    """
    others = [other for other in rounds if other != query.found and other.sha256][-ROUNDS_LISTED:]
    return [(round_words(other), query.search(query.found, other), other == query.since) for other in others]


@reading
def history(request: Request, snapshot: Snapshot, uri: str) -> HttpResponse:
    """Show all events of a pull request of a watched repository; for a decided one also its change."""
    subject = read.subjects(snapshot, [uri]).get(uri)
    if subject is None:
        raise Http404("No pull request of a watched repository has this address.")
    changed, past = as_shown.changed_after(snapshot).get(uri), as_shown.past_actions(snapshot, uri)
    may_read_notes = viewing(request).role(subject.repository_key) >= Role.MAINTAINER
    hidden = read.hidden_because(snapshot, subject.author.did)
    audits = _audit_lines(uri) if may_read_notes else []
    has_change = subject.state in ("merged", "closed") and not hidden
    session = held_session(request)
    shown: dict[str, object] = {
        "subject": subject,
        "hidden": hidden,
        "past": past,
        "snoozed": [
            snoozing.snooze_words(one, with_name=may_read_notes)
            for one in snoozing.in_force(snapshot, timezone.now())
            if one.pull_uri == uri
        ],
        "incidents": {mark.key for mark in opening(bad_marks().filter(pull_uri=uri), snapshot)},
        "lines": _timeline(request, snapshot, subject, past, audits, may_read_notes),
        "has_audits": bool(audits),
        "trouble": read.troubles_in_words(snapshot, [uri]).get(uri),
        "counted": read.outcome_in_words(snapshot, uri),
        "changed": changed,
        "approved_round": approved_round(snapshot, changed) if changed else None,
        "peers": _peers(snapshot, subject) if has_change else (),
        "sent": sent_views(session, uri).values(),
        "account": own_account(session),
        "next": reverse("history", args=[uri]),
        **_forms(request, subject),
    }
    if subject.state == "merged":
        shown |= vouching_shown(session, snapshot, subject.author.did, timezone.now())
    change = shown_change(request, snapshot, uri, None) if has_change else {}
    return render(request, "diff/history.html", change | {"has_change": has_change} | shown)


def _peers(snapshot: Snapshot, subject: Subject) -> list[PeerView]:
    """Return what other sites said of a decided pull request; nothing while an audit of its author waits."""
    if not settings.PEERS or hiding_audits(snapshot, dids=(subject.author.did,)):
        return []
    found = read.peer_opinions(snapshot, [subject.uri], present(snapshot)).get(subject.uri, ())
    return [replace(opinion_view(opinion), effect="") for opinion in found]  # it has none any more


SENT: Mapping[str, str] = {"opened": "opened it", "sent": "sent round {}", "replaced": "replaced the patch of round {}"}


MOST_REASONS = 3  # of a past judgement in one line


@dataclass(frozen=True, slots=True)
class TimelineLine:
    """One line of a pull request's history; `action` is None where it did not happen on this site."""

    at: datetime
    who: str
    what: str
    seen: str = ""
    action: PastAction | None = None


def _timeline(
    request: Request,
    snapshot: Snapshot,
    subject: Subject,
    past: Sequence[PastAction],
    audits: Sequence[TimelineLine],
    with_notes: bool,
) -> list[TimelineLine]:
    """Return the events in order, with the judgement at the decision and the answers of audits.

    While an audit of the author waits for an answer, the chance is hidden from everybody.
    """
    # Told by the patches, not by times: a round that a backfill brings may be older than the approval that it voids.
    voided = {(one.seen.round, one.seen.patch_id) for one in past if one.reason in ("changed_before", "changed_after")}
    before: tuple[int, str | None] | None = None
    lines: list[tuple[datetime, int, TimelineLine]] = []  # the number orders events of the same time
    for event in read.events(snapshot, subject.uri):
        who, words, seen = visible(event.person.name) if event.person else "a hidden account", f"{event.what} it", ""
        if event.round is not None:
            words, seen = SENT[event.what].format(event.round + 1), _seen_words(event.round, event.patch_id)
            words += ", so the approval of the patch before is void" if before in voided else ""
            before = event.round, event.patch_id
        lines.append((event.at, 0 if event.round is not None else 3, TimelineLine(event.at, who, words, seen)))
    judged = read.judged_when_decided(snapshot, [subject.uri]).get(subject.uri)
    if judged and subject.author.did not in hiding_audits(snapshot, dids=(subject.author.did,)):
        shown = pill(judged.verdict, judged.shadow)
        words = f"judged it: {shown.word}" + (
            f", stays clean {shown.number} ({shown.interval})" if shown.number else ""
        )
        why = " ".join(visible(plain_sentence(reason)) for reason in told_reasons(judged.verdict)[:MOST_REASONS])
        words += f". {why}" if why else ""
        lines.append((judged.as_of, 1, TimelineLine(judged.as_of, "Sunstead", words, f"round {judged.round + 1}")))
    lines += [(line.at, 2, line) for line in audits]
    records = own_records.newest_by_action(action.key for action in past)
    for action in past:
        sent = _sent_words(records.get(action.key))
        words = visible(action_words(action, with_notes and sent != TAKEN_BACK, sent))
        seen = _seen_words(action.seen.round, action.seen.patch_id)
        lines.append(
            (action.known_from, 2, TimelineLine(action.made_at, visible(action.actor.name), words, seen, action))
        )
    return [line for *_, line in sorted(lines, key=lambda line: line[:2])]


def _audit_lines(uri: str) -> list[TimelineLine]:
    """Return the answers of audits of a pull request, which only maintainers read."""
    return [
        TimelineLine(
            naive(one.made_at),
            visible(str(one.person)) if one.person else "an erased account",
            f"answered its audit: {'would' if one.would_merge else 'would not'} have merged it as sent. "
            f"{visible(one.because)}",
            _seen_words(one.round, one.patch_id),
        )
        for one in AuditAnswer.objects.filter(pull_uri=uri).select_related("person")
    ]


def _sent_words(record: OwnRecord | None) -> str:
    if record is not None and record.action.undone_at is not None:
        return TAKEN_BACK
    return "sent to Tangled" if record and record.state == OwnRecord.State.WRITTEN else "not sent to Tangled"


def _seen_words(number: int, patch_id: str | None) -> str:
    return f"round {number + 1}, patch {patch_id[:12]}" if patch_id else f"round {number + 1}"


def _forms(request: Request, subject: Subject) -> dict[str, object]:
    """Return the page's form values for somebody who may act."""
    if role_of(request.user, subject.repository_key) < Role.MAINTAINER:
        return {}
    standing = actions.standings({subject.uri: subject.seen}, timezone.now())[subject.uri]
    return {
        "act": {"seen": subject.seen, "version": standing.version},
        "shown": {"row": subject},
        "is_approved": standing.approval is not None and subject.state == "open",
        "outcome": marked.outcome if (marked := newest_outcome(subject.uri)) else "",
    }


def approved_round(snapshot: Snapshot, changed: ChangedApproval) -> str | None:
    """Return the key of the approved patch on the change's page; None where it is no longer listed there."""
    seen = changed.seen
    for candidate in read.rounds(snapshot, changed.uri):
        if candidate.number == seen.round + 1 and candidate.patch_id == seen.patch_id and not candidate.newest:
            return candidate.key
    return None
