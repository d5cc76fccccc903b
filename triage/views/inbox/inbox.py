"""The inbox: open pull requests by lane on the left, the open one on the right; also its separate page.

Once a week it asks a maintainer about the outcomes of changes merged two weeks ago.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice

from django.conf import settings
from django.db import transaction
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone

from ingest.store.snapshots import PerSnapshot, Snapshot
from scoring.config.policy import policy_from_settings
from scoring.formatting import visible
from scoring.models.serving import LABEL
from scoring.queries import read
from scoring.queries.lists import merge_place
from scoring.queries.read import Subject
from scoring.training.summary import ShownLane, read_backtest, read_serving
from triage.access.oauth.sessions import held_session
from triage.access.permissions import Role, Roles, sees_thresholds
from triage.access.requests import Request
from triage.access.sign_in import viewing
from triage.charts import reports
from triage.context import present
from triage.diff_page.page import flag_quotes
from triage.forms.actions import read_choice, written_choice
from triage.forms.filters import QueueFilters, is_in_view, read_queue
from triage.http_cache import unless_held
from triage.models import Action, Person
from triage.presenters import lane_heads, lists
from triage.presenters.graph_model import graph_words
from triage.presenters.queue import queue as as_shown
from triage.presenters.queue import row_actions, rows
from triage.presenters.queue.comments import (
    comment_views,
    not_on_forge,
    own_account,
    sent_views,
    text_for_author,
)
from triage.presenters.queue.row_lines import pick_of
from triage.presenters.queue.rows import forge_place
from triage.presenters.text import place_words
from triage.presenters.vouching import vouching_shown
from triage.services import actions, objections
from triage.services.actions import ActionProblem
from triage.services.lane_closures import banners
from triage.services.own_name import own_records
from triage.services.own_name.merging import merged_here, unclear_attempt
from triage.views.inbox.diff import approved_round, shown_change
from triage.views.inbox.queue import at_address, reading, wants_fragment
from triage.views.lanes import lane_offers

PANE = "open"  # the id of the pane that a row opens in
LIST = "results"  # the id of the rows by lane
FIRST = "first"  # the id of the element that requests the first row while the pane is empty
EVERY = timedelta(days=7)
BACK = timedelta(days=28)  # how long a merge is asked about once it is old enough
LOOKED_AT = 200
MOST = 5  # pull requests in one question; the newest come first, since people remember them best
GONE = "Nothing changed: somebody answered for one of these before you. Load the page again."
_due = PerSnapshot[dict[str, datetime]]()


@reading
@unless_held
def queue(request: Request, snapshot: Snapshot) -> HttpResponse:
    """Show open pull requests of watched repositories by lane, and beside them the one in `?open=`.

    Without it the pane requests the first row once it is in view: phones never do, and the list arrives sooner.
    """
    filters = read_queue(request.GET)
    address, fragment = reverse("queue") + filters.search(), wants_fragment(request)
    shown: dict[str, object] = {"filters": filters, "next": address, "fragment": fragment}
    if fragment and request.htmx.target == PANE:
        offered = request.htmx.trigger == FIRST
        shown |= pane(request, snapshot, filters.opened, filters, offered) if filters.opened else {}
        return at_address(render(request, "inbox/_pane.html", shown), not offered, address)
    shown |= _lists(request, snapshot, filters)
    if fragment:
        return at_address(render(request, "inbox/_queue_update.html", shown), True, address)
    shown |= _beside(request, snapshot)
    shown |= pane(request, snapshot, filters.opened, filters) if filters.opened else {}
    return render(request, "inbox/queue.html", shown)


def _lists(request: Request, snapshot: Snapshot, filters: QueueFilters) -> dict[str, object]:
    """Return the groups of rows with the parts above and below them, and the first undecided row where none is open."""
    query, now, roles = row_actions.query_of(filters, request.user, snapshot), timezone.now(), viewing(request)
    shown_queue = as_shown.queue(snapshot, query)
    listed = [row for group in shown_queue.groups for row in group.rows]
    _, model = read_serving(settings.MODEL_DIR, LABEL)
    lane: ShownLane | None = model.lane if model else None
    past = reports.backtest_of(read_backtest(settings.LOG_DIR), LABEL)
    fast = [row for group in shown_queue.groups if group.key == "fast_lane" for row in group.rows if not row.shadow]
    counted = row_actions.less_in_flight(shown_queue, query, snapshot, now)
    acts = row_actions.acts_of(request.user, roles, snapshot, listed, now)
    groups = rows.group_views(counted, filters, present(snapshot))
    shown: dict[str, object] = {
        "found": shown_queue,
        "groups": groups,
        "is_beyond": filters.page > max((group.pages for group in groups), default=1),
        "tiles": rows.tiles(counted),
        "closures": banners(request, snapshot),
        "acts": acts,
        "is_bulk_offered": any(pick_of(view, acts[view.row.uri]) for group in groups for view in group.rows),
        "approvable": row_actions.approvable_words(fast, acts),
        "approved": _approved(snapshot, filters, query),
        "saved": lists.saved_filters(request.user, filters),
        "lane_head": lane_heads.lane_head(snapshot, roles, filters.repository, present(snapshot)),
        "lane_offer": lane_offers.offered(snapshot, roles, filters.repository),
        "like_these": reports.like_these(lane),
        "hardly_tells": past is not None and not reports.tells_apart(past),
        "quiet": 0 if filters.narrowed else len(lists.quiet_pulls(snapshot, roles, present(snapshot))),
    }
    first = next((row for row in listed if not acts[row.uri].is_decided), None)
    if first and not filters.opened:
        shown |= {"first": filters.opening(first.uri), "first_row": rows.row_anchor(first.uri)}
    return shown


def _approved(snapshot: Snapshot, filters: QueueFilters, query: read.QueueQuery) -> tuple[read.Approved, ...]:
    """Return what is approved and not merged yet; it is shown only below the unfiltered lanes."""
    if replace(filters, mine=False).narrowed:
        return ()
    return tuple(approval for approval in as_shown.approved(snapshot) if is_in_view(approval.subject, query))


def _beside(request: Request, snapshot: Snapshot) -> dict[str, object]:
    """Return the sizes of the lists beside the inbox, and the merges whose outcome this viewer is asked about."""
    person, now = request.user, timezone.now()
    is_person = isinstance(person, Person)
    merges = question_for(person, viewing(request), snapshot, present(snapshot), now) if is_person else ()
    return {"lists": lists.count_lists(request, snapshot), "asked": merges, "days": settings.LABEL_WINDOW_DAYS}


def updated_list(
    request: Request, snapshot: Snapshot, view: QueueFilters, opened: str, said: str, **told: object
) -> HttpResponse:
    """Return an open page's list anew, with `opened` in the pane, `said` announced, and `told` added to the context.

    Where the page's `view` opens nothing, a phone keeps showing its list.
    """
    filters, offered = replace(view, opened=opened), not view.opened
    address = reverse("queue") + filters.search()
    shown = _lists(request, snapshot, filters) | {"filters": filters, "next": address, "fragment": True, "said": said}
    shown |= _beside(request, snapshot)
    shown |= pane(request, snapshot, opened, filters, offered) if opened else {}
    return at_address(render(request, "inbox/_queue_update.html", shown | told), not offered, address)


def pane(
    request: Request, snapshot: Snapshot, uri: str, filters: QueueFilters, offered: bool = False
) -> dict[str, object]:
    """Return the pane's context for one pull request; `item` is None where it is not open here.

    `offered`: the row opened by itself. Then only wide screens show it, others do not learn of it, and no reading is
    timed.
    """
    row = as_shown.pull(snapshot, uri)
    if row is None:
        return {"item": None}
    row = as_shown.as_listed(snapshot, row_actions.query_of(filters, request.user, snapshot), row)
    address = reverse("queue") + filters.search() if filters.opened else ""
    change = shown_change(request, snapshot, uri, row, address, offered)
    now = timezone.now()
    act = row_actions.acts_of(request.user, viewing(request), snapshot, [row], now)[uri]
    more, changed = expanded(request, snapshot, row), as_shown.changed_after(snapshot).get(uri)
    session, told = held_session(request), more.facts.comments if more.facts else ()
    records = own_records.records_of(act.notes)
    merge_commands = row_actions.merge_commands(row, act, request.user)
    notes, sent = not_on_forge(told, act.notes, records), sent_views(session, uri)
    comments = comment_views(told, notes, records, session, sent)
    with_comments = {one.sent for one in comments}
    merged = merged_here(uri) if act.can_act and act.is_approved and session else None
    return change | {
        "item": rows.row_view(row, present(snapshot), filters, more),
        "act": act,
        "approved_round": approved_round(snapshot, changed) if changed else None,
        "account": own_account(session),
        "comments": comments,
        "sent": [one for one in sent.values() if one not in with_comments],
        "for_author": text_for_author(row, notes, records, act.is_asked),
        "beside": rows.beside_words(more.facts),
        "place_said": place_words(row.place) if row.place else "",
        "comment_count": row.comments + len(notes),
        "merge_commands": merge_commands,
        "merge_place": merge_place(snapshot, uri) if merge_commands and session and not merged else None,
        "publishable": row_actions.publishable_approval(act, session.person, uri) if session else None,
        "merged_here": visible(str(merged.person)) if merged else "",
        **(vouching_shown(session, snapshot, row.author.did, now) if merged else {}),
        "unclear": unclear_attempt(uri, now) if merge_commands and session else None,
        "label": own_records.label_to_offer(session.person, snapshot, uri, now) if session else None,
        "offered": offered,
        "graph_said": graph_words(row) if settings.SHOW_GRAPH_MODEL else "",
        "next": reverse("queue") + filters.opening("") if offered else address or reverse("pull", args=[uri]),
    }


@reading
@unless_held
def pull(request: Request, snapshot: Snapshot, uri: str) -> HttpResponse:
    """Show one open pull request on a page of its own."""
    shown = pane(request, snapshot, uri, QueueFilters())
    if shown["item"] is None:
        return _settled_pull(snapshot, uri)
    return render(request, "inbox/pull.html", shown)


def _settled_pull(snapshot: Snapshot, uri: str) -> HttpResponse:
    """Redirect to the history of a pull request that left the inbox; 404 for an unknown address."""
    subject = read.subjects(snapshot, [uri]).get(uri)
    if subject is None or subject.state not in ("merged", "closed"):
        raise Http404("No open pull request of a watched repository has this address; it may be merged or closed.")
    return redirect("history", uri=uri)


def expanded(request: Request, snapshot: Snapshot, row: read.QueueRow) -> rows.Expanded:
    """Return the data read only for the open pull request, without what a pending audit hides."""
    home = read.forge_home(snapshot, row.uri, row.author.did, row.repository_key)
    place = forge_place(home, settings.FORGE_PAGES)
    if row.is_sealed:
        public = read.ChangeFacts(read.ci_run(snapshot, row.uri), (), 0, read.comments(snapshot, row.uri))
        return rows.Expanded(place=place, facts=public)
    explained = read.explain_trust(snapshot, row.author.did, row.repository_key, policy_from_settings())
    exact = sees_thresholds(viewing(request), row.repository_key)
    is_author = isinstance(request.user, Person) and request.user.did == row.author.did
    said = (
        objections.spoken_about(row.author.did, row.uri, row.repository_key, row.repository_name)
        if exact or is_author  # nobody else learns who objected, or how it was answered
        else ()
    )
    review = read.content_review(snapshot, row.uri)
    snoozed, approved = as_shown.as_it_stands(snapshot, read.QueueQuery()).snoozed, as_shown.approved(snapshot)
    left_out = [*snoozed, *(one.subject.uri for one in approved)]  # by the inbox, where the count leads to
    quotes, facts = flag_quotes(snapshot, row.uri, review), read.change_facts(snapshot, row.uri, left_out)
    dismissed = row_actions.dismissal_words(row.uri) if exact else {}
    peers = read.peer_opinions(snapshot, [row.uri], present(snapshot)) if settings.PEERS else {}
    upstream = read.upstream_facts(snapshot, row.repository_key)
    opinions = peers.get(row.uri, ())
    return rows.Expanded(explained, review, exact, said, place, quotes, facts, dismissed, opinions, upstream)


@dataclass(frozen=True, slots=True)
class AskedMerge:
    """A merged pull request in the question, with its form's value."""

    subject: Subject
    merged_at: datetime
    choice: str


def question_for(
    person: Person, roles: Roles, snapshot: Snapshot, stream: datetime, now: datetime
) -> tuple[AskedMerge, ...]:
    """Return the merges to ask this person about; none where they answered within the week or maintain nothing.

    `stream` is the present time of the data, `now` the wall clock.
    """
    if person.outcomes_asked_at is not None and now < person.outcomes_asked_at + EVERY:
        return ()
    due = _merges_due(person, roles, snapshot, stream)
    subjects = read.subjects(snapshot, due) if due else {}
    versions = actions.versions(subjects)
    return tuple(
        AskedMerge(subjects[uri], merged_at, written_choice(uri, subjects[uri].seen, versions[uri]))
        for uri, merged_at in due.items()
        if uri in subjects
    )


def mark_fine(
    person: Person, roles: Roles, snapshot: Snapshot, chosen: Sequence[str], stream: datetime, now: datetime
) -> list[Action]:
    """Mark these merges as clean and ask again in a week; `chosen` are the question's form values.

    Raises ActionProblem or Conflict, with nothing marked.
    """
    wanted = [replace(read_choice(choice), kind=Action.Kind.OUTCOME, outcome=Action.Outcome.CLEAN) for choice in chosen]
    uris = {choice.uri for choice in wanted}
    if not uris or len(uris) != len(wanted) or not uris <= _merges_due(person, roles, snapshot, stream).keys():
        raise ActionProblem(GONE)
    with transaction.atomic():
        done = actions.act(person, read.decided_subjects(snapshot, uris), wanted, now)
        ask_next_week(person, now)
    return done


def ask_next_week(person: Person, now: datetime) -> None:
    """Ask this person nothing for a week."""
    Person.objects.filter(pk=person.pk).update(outcomes_asked_at=now)


def ask_again(person: Person, undone: Sequence[Action]) -> bool:
    """Ask this person anew where `undone` was the answer to the weekly question; return whether it was."""
    if person.outcomes_asked_at not in {one.made_at for one in undone if one.kind == Action.Kind.OUTCOME}:
        return False
    person.outcomes_asked_at = None
    person.save(update_fields=["outcomes_asked_at"])
    return True


def _merges_due(person: Person, roles: Roles, snapshot: Snapshot, stream: datetime) -> dict[str, datetime]:
    """Return the merge times of recent merges that are old enough and unmarked, by at-uri."""
    keys = roles.keys(Role.MAINTAINER)
    if not keys:
        return {}
    before = stream - timedelta(days=settings.LABEL_WINDOW_DAYS)
    span = (before - BACK, before)
    key = (person.did, keys, before.date())
    merges = _due.get(snapshot, key, lambda: read.unmarked_merges(snapshot, str(person.did), keys, *span, LOOKED_AT))
    marks = Action.objects.filter(kind=Action.Kind.OUTCOME, undone_at=None, pull_uri__in=list(merges))
    marked = set(marks.values_list("pull_uri", flat=True))  # the worker may not know of them yet
    return dict(islice((merge for merge in merges.items() if merge[0] not in marked), MOST))
