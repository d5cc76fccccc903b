"""The page of the fast lane: what it would let through, one choice, and what came of it once it is open."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from ingest.atproto.syntax import LONGEST_DID
from ingest.store.snapshots import Snapshot
from scoring.certificates.in_force import AlarmRule, bad_to_shut, days_to_shut
from scoring.certificates.lane_counts import Offer
from scoring.certificates.lane_curve import FEWEST_SETTLED
from scoring.explain.sentences import lane_notice
from scoring.formatting import percent_in_full, visible
from scoring.pipeline.lane_history import DAYS, Agreement, LaneHistory
from scoring.queries import read
from scoring.queries.read import LanePast, LaneRow, WatchedRepository
from triage.access.permissions import (
    Role,
    Roles,
    require,
    require_reader,
    role_of,
    roles_of,
    session_roles,
    signed_in,
)
from triage.access.requests import Request
from triage.access.sign_in import safe_next, viewer_did
from triage.charts.lane import lane_plot
from triage.context import present, training_need
from triage.models import EstimatedLane, Person
from triage.presenters import lane as lane_words
from triage.presenters import text as missing
from triage.presenters.lane import State
from triage.presenters.lane_heads import overview, whole_closures
from triage.services import estimated_lanes, reading_times
from triage.services.audit import hiding_audits
from triage.services.lane_closures import banners
from triage.services.reading_times import TimeSaved, time_saved
from triage.services.repository_settings import newest
from triage.views.inbox.actions import acting_page
from triage.views.lanes.lane_offers import (
    figures_of,
    hardly_tells,
    lane_address,
    may_be_opened,
    offer_token,
    past_of,
    standing,
    state_of,
    watched_lane,
)
from triage.views.lanes.lists import for_maintainers

OPENED = (
    "The fast lane is open, estimated. A person still approves each pull request. "
    "The worker decides again within seconds."
)
WATCHES = "Nothing changed: the lane stays shut and keeps watching."
CLOSED = "The fast lane is closed again and keeps watching."
UNDONE = "Undone: within seconds the rows are as before. Audits that were answered stay."
GONE = "Somebody closed it before you did: it stays closed."
CHANGED = "The figures changed since this page was shown, so nothing was opened. Here are the current ones."
TAKEN = "Somebody opened it before you. Here is the current state."
NO_OFFER = "Nothing changed: there is nothing to open here now."
TONES = {"agrees": "fast", "agrees_so_far": "fast", "stricter": "review", "wrong": "flag", "unknown": ""}
PILL_TONES: Mapping[State, str] = {"certified": "fast", "open": "fast", "shut_itself": "flag"}
OPENS_FROM: tuple[State, ...] = ("watching", "shut_itself")
BY_HAND = {"title": "The fast lane is closed by hand", "pill": "Closed", "tone": "flag", "advice": None}
SHOWN = 100  # rows of a table; the sums count all
ShownRow = tuple[LaneRow, str, str, str]  # with what happened, what it says of the lane, and the tone of that


@for_maintainers
def lane(request: Request, snapshot: Snapshot) -> HttpResponse:
    """Show the lane of one repository (`?repository=`), without one see `_find_first`; to others the state of all."""
    key = request.GET.get("repository", "")
    if not key and session_roles(request).highest() < Role.MAINTAINER:
        return render(request, "lane/overview.html", {"lanes": overview(snapshot, present(snapshot))})
    require_reader(request)
    return lane_page(request, snapshot, key)


def lane_page(request: Request, snapshot: Snapshot, key: str, problem: str = "", status: int = 200) -> HttpResponse:
    """Render that page; PermissionDenied for a viewer who does not maintain the repository, 404 where none is watched.

    A name without its owner does where only one that the viewer maintains has it.
    """
    roles = roles_of(request.user)
    names = read.repository_names(snapshot)
    keys = sorted((one for one in names if roles.role(one) >= Role.MAINTAINER), key=lambda one: (names[one], one))
    key = _find_key(snapshot, names, keys, key) if key else _find_first(request, snapshot, keys)
    if key and key not in keys:
        raise PermissionDenied("This needs the role maintainer where the lane is.")
    past = past_of(snapshot, key) if key else None
    page: dict[str, object] = {
        "problem": problem,
        "times_reading": isinstance(request.user, Person) and request.user.times_reading,
        "most_minutes": int(reading_times.MOST.total_seconds() / 60),
        "fewest_measured": reading_times.FEWEST,
        "places": [(one, names[one]) for one in keys],
        **_closures(request, snapshot, roles, [(one, names[one]) for one in keys]),
    }
    shown = page | (
        _lane(request.user, snapshot, past) if past else {"past": None, "title": "Where the fast lane is closed"}
    )
    shown |= BY_HAND if key and {"", key} & whole_closures(snapshot).keys() else {}
    back = lane_address(past.repository.key) if past else reverse("lane")
    return render(request, "lane/lane.html", shown | {"next": back}, status=status)


def _find_key(snapshot: Snapshot, names: Mapping[str, str], mine: Sequence[str], asked: str) -> str:
    if (key := read.repository_key(snapshot, asked)) in names:
        return str(key)
    called = [one for one in mine if names[one] == asked]
    if len(called) == 1:
        return called[0]
    said = f"You maintain {len(called):,} repositories called" if called else "You maintain no repository called"
    raise Http404(f"{said} “{visible(asked[:200])}”. Write OWNER/NAME.")


@acting_page
def open_estimate(request: Request, snapshot: Snapshot) -> HttpResponse:
    """Open the lane on the offer that the form shows, or keep watching; 409 with the present offer where it changed."""
    told = request.POST
    repository = _repository(snapshot, told.get("repository", ""))
    person = require(request, repository.key, estimated_lanes.MAY_OPEN)
    if told.get("choice") == "watch":
        messages.info(request, WATCHES)
        return HttpResponseRedirect(reverse("queue"))
    past = past_of(snapshot, repository.key)
    state = state_of(past, standing(repository.key)) if past else "nothing"
    if past is None or past.offer is None or state not in OPENS_FROM:
        return lane_page(request, snapshot, repository.key, TAKEN if state == "open" else NO_OFFER, 409)
    if told.get("offer", "") != offer_token(past):
        return lane_page(request, snapshot, repository.key, CHANGED, 409)
    estimated_lanes.open_estimated_lane(person, repository, past.offer, timezone.now())
    messages.success(request, OPENED)
    return HttpResponseRedirect(lane_address(repository.key))


@never_cache
@require_POST
def time_reading(request: Request) -> HttpResponse:
    """Begin to measure how long a maintainer reads changes.

    Anybody ends it and deletes what was measured of them, also after their last role was taken.
    """
    person, is_on = signed_in(request), request.POST.get("on") == "1"
    if is_on and session_roles(request).highest() < Role.MAINTAINER:
        raise PermissionDenied("We measure the reading time of maintainers only.")
    reading_times.switch(person, is_on)
    return HttpResponseRedirect(safe_next(request))


@acting_page
def end_estimate(request: Request, snapshot: Snapshot) -> HttpResponse:
    """Close a lane that was opened on an estimate, with `because`; or undo one's own opening within ten minutes."""
    opening = get_object_or_404(EstimatedLane, key=request.POST.get("key", ""))
    repository = _repository(snapshot, opening.repo_key)
    person = require(request, repository.key, estimated_lanes.MAY_OPEN)
    now, because = timezone.now(), request.POST.get("because", "")
    if "undo" in request.POST:
        done, said = estimated_lanes.undo_estimated_lane(person, opening, repository, now), UNDONE
    else:
        done, said = estimated_lanes.end_estimated_lane(person, opening, repository, because, now), CLOSED
    messages.info(request, said if done else GONE)
    return HttpResponseRedirect(lane_address(repository.key))


def _lane(viewer: object, snapshot: Snapshot, past: LanePast) -> dict[str, object]:
    now, opening = present(snapshot), standing(past.repository.key)
    state, watched = state_of(past, opening), watched_lane(snapshot, past.repository)
    offer, delta = past.offer, settings.FALSE_APPROVAL_DELTA
    time = time_saved([row.uri for row in watched.rows])
    can_open = offer is not None and state in OPENS_FROM and may_be_opened()
    basis = figures_of(opening) if opening and state == "open" else offer
    training = "" if past.model else missing.training_words(training_need(snapshot))
    return {
        "past": past,
        "title": lane_words.TITLES[state],
        "pill": lane_words.PILLS[state],
        "tone": PILL_TONES.get(state, ""),
        "lead": _lead(offer, watched, state),
        "advice": lane_words.watching_advice(watched, past.budget, hardly_tells())
        if can_open and state == "watching"
        else None,
        "answer": lane_words.answer_words(offer) if offer else "",
        "groups": lane_words.group_words(past.spoken, offer) if past.spoken and offer else [],
        "record": lane_words.record_words(offer, bool(past.model)) if offer else "",
        "not_again": lane_words.shut_words(past.budget) if state == "shut_itself" else "",
        "nothing": "" if offer else lane_words.nothing_words(past.spoken, past.budget, FEWEST_SETTLED),
        "untried": "" if offer else lane_words.untried_words(past.own, past.budget, FEWEST_SETTLED, past.a_month),
        "plot": lane_plot("lane-curve", past.own, past.starter, offer, past.budget),
        "confidence": percent_in_full(round(1 - delta, 9)),
        "certified": state == "certified",
        "by_hand": state == "by_hand",
        "forbidden": "" if may_be_opened() else estimated_lanes.CERTIFIED_ONLY,
        "can_open": can_open,
        "token": offer_token(past),
        "opening": lane_words.opening_words(offer) if offer else "",
        "audit_share": lane_words.one_in(settings.ESTIMATED_AUDIT_SHARE),
        "facts": _facts(past, basis, state, time),
        "is_open": state == "open",
        **(_ended(snapshot, past, now) if opening is None else {}),
        "computed": _computed(past, basis, state, training),
        "time": lane_words.time_words(time),
        "watched": watched,
        "hidden_authors": hiding_audits(snapshot),
        "watched_sum": lane_words.sum_words(watched),
        "watched_rows": _rows(watched.rows, lane_words.SAYS),
        **(_opened(viewer, snapshot, past, opening, state, now) if opening else {"opened": None}),
    }


def _ended(snapshot: Snapshot, past: LanePast, now: datetime) -> dict[str, object]:
    """Return the lane's last end by a person, and what it had let through."""
    ended = estimated_lanes.last_end(past.repository.key)
    if ended is None:
        return {}
    history, _ = read.opened_lane(snapshot, past, ended.key, now)
    return {"ended": ended, "ended_sum": lane_words.sum_words(history, would=False) if history.rows else ""}


def _lead(offer: Offer | None, watched: LaneHistory, state: State) -> str:
    """Return the first sentence about a lane that only watches."""
    if state not in ("watching", "nothing"):
        return ""
    costs = lane_words.costs_words(offer, len(watched.rows), DAYS, settings.ESTIMATED_AUDIT_SHARE) if offer else ""
    return costs or "It only watches. Nothing would have gone through yet."


def _facts(past: LanePast, offer: Offer | None, state: State, time: TimeSaved) -> list[tuple[str, str]]:
    """List what an opening saves, when it shuts itself, and how it ends."""
    told = [("Your budget", lane_words.budget_words(past.budget))]
    if offer is not None and state not in ("certified", "by_hand"):
        share, minutes = settings.ESTIMATED_AUDIT_SHARE, int(estimated_lanes.UNDO.total_seconds() // 60)
        if time.measured:
            told.append(("You save", lane_words.time_words(time)))
        told.append(("It shuts itself", lane_words.shutting_words(offer, share, past.budget)))
        told.append(("Undo", f"for {minutes} minutes, by whoever opened it"))
        told.append(("Close", "any time, here, with a reason; the lane merges nothing"))
    return told


def _computed(past: LanePast, offer: Offer | None, state: State, training: str) -> list[tuple[str, str]]:
    """Say how late a bad lane shows, and when a certificate could come."""
    if state == "certified":
        return []
    told, share = [], settings.ESTIMATED_AUDIT_SHARE
    if offer is not None and state != "by_hand" and (through_a_month := past.a_month * offer.share) > 0:
        days = days_to_shut(offer.bad_high, through_a_month, share, settings.FALSE_APPROVAL_DELTA)
        told += [] if days is None else [("A bad lane", lane_words.detection_words(days))]
    return [*told, ("A certificate", lane_words.certificate_words(past.need, past.budget, training))]


def _opened(
    viewer: object, snapshot: Snapshot, past: LanePast, opening: EstimatedLane, state: State, now: datetime
) -> dict[str, object]:
    """Return what the page shows of an opening: its figures, its audit and what it let through since, and advice."""
    offer = figures_of(opening)
    history, audit = read.opened_lane(snapshot, past, opening.key, now)
    by = visible(str(opening.person)) if opening.person else "an erased account"
    is_new = timezone.now() <= opening.opened_at + estimated_lanes.UNDO
    shown = {
        "key": opening.key,
        "by": by,
        "since": opening.opened_at.astimezone(UTC).replace(tzinfo=None),
        "start": percent_in_full(offer.threshold),
        "figures": lane_words.standing_words(offer),
        "model": lane_words.model_words(offer, past.model),
        "audit": lane_words.audit_words(audit),
        "rows": _rows(history.rows, lane_words.WAS),
        "sum": lane_words.sum_words(history, would=False),
        "arrived": past.opening == opening.key,
        "shut": visible(lane_notice(past.thresholds)) if state == "shut_itself" else "",
        "undoes": is_new and opening.person == viewer,
    }
    is_open = state == "open"
    if is_open:
        shown["in_a_row"] = _in_a_row(snapshot, past.repository.key, now)
    if not is_open:
        return {"opened": shown}
    return {"opened": shown, "advice": lane_words.open_advice(history, audit, past.budget, hardly_tells())}


def _in_a_row(snapshot: Snapshot, repository: str, now: datetime) -> str:
    """Say what would shut the estimated lane of this repository; "" until the worker has taken its opening."""
    for one in read.estimated_lanes(snapshot, now):
        if one.repository == repository:
            rule = AlarmRule(one.offer.bad_high, settings.FALSE_APPROVAL_DELTA)
            outcomes = bad_to_shut(rule, one.settled, one.settled_bad)
            return lane_words.in_a_row_words(outcomes, bad_to_shut(rule, one.audited, one.audited_bad))
    return ""


def _rows(found: Sequence[LaneRow], says: Mapping[Agreement, str]) -> list[ShownRow]:
    shown = found[:SHOWN]
    return [(one, lane_words.HAPPENED[one.happened], says[one.agreement], TONES[one.agreement]) for one in shown]


def _closures(
    request: Request, snapshot: Snapshot, roles: Roles, places: Sequence[tuple[str, str]]
) -> dict[str, object]:
    """Return the standing closures where the viewer maintains something, and the places where they may close a lane."""
    return {
        "closures": [(one, words, roles.role(one.repository)) for one, words in banners(request, snapshot)],
        "maintainer": Role.MAINTAINER,
        "repositories": places,
        "author": visible(request.GET.get("author", "")[:LONGEST_DID]),
        "may_close_everywhere": role_of(request.user, "") >= Role.MAINTAINER,
    }


def _find_first(request: Request, snapshot: Snapshot, keys: Sequence[str]) -> str:
    """Return the repository to show by default: that of the newest opening that stands or that the viewer just ended.

    Without one, a repository in shadow mode comes before others, by name.
    """
    just_now = timezone.now() - estimated_lanes.UNDO
    ended = EstimatedLane.objects.filter(ended_by__did=viewer_did(request) or "", ended_at__gte=just_now)
    acts = [(one.opened_at, one.repo_key) for one in estimated_lanes.standing_openings() if one.repo_key in keys]
    acts += [(one.ended_at, one.repo_key) for one in ended if one.repo_key in keys]
    if acts:
        return max(acts)[1]
    watched = [one for one in read.watched_repositories(snapshot) if one.key in keys]
    waiting = [one.key for one in watched if newest(one).shadow]
    return next(iter([*waiting, *(one.key for one in watched)]), "")


def _repository(snapshot: Snapshot, key: str) -> WatchedRepository:
    found = read.watched_repository(snapshot, key)
    if found is None:
        raise Http404("No watched repository has this key.")
    return found
