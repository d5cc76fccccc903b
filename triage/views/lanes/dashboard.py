"""The dashboard, every figure with its denominator, and the reports for maintainers: vouches, attacks, the backtest.

A report that no command has written yet is said to be missing, with the command that writes it; nothing is computed.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from django.conf import settings
from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone

from ingest.store.snapshots import Snapshot
from scoring.certificates.in_force import AlarmRule, bad_to_shut
from scoring.config.policy import policy_from_settings
from scoring.formatting import bad_bound, bad_interval, bad_percent, percent_in_full, weighted
from scoring.models.serving import LABEL
from scoring.queries import read
from scoring.redteam.render import HEADS, NOT_PLAYED, read_report, say_graph, say_result
from scoring.thresholds import MOST_LIFT
from scoring.training.summary import (
    ShownLane,
    ShownModel,
    read_backtest,
    read_graph,
    read_graph_backtest,
    read_serving,
)
from scoring.types import Person
from triage.access.oauth.sessions import held_session
from triage.access.permissions import Role, sees_thresholds
from triage.access.requests import Request
from triage.access.sign_in import viewer_did, viewing
from triage.charts import backlog, histogram, orders, reports
from triage.context import present, runs_beside, told_dashboard, training_need
from triage.forms.filters import read_list
from triage.http_cache import unless_held
from triage.presenters import lane as lane_words
from triage.presenters import lane_heads
from triage.presenters import text as missing
from triage.presenters.graph_model import graph_card
from triage.presenters.lane import FEWEST_TOLD
from triage.presenters.lists import count_lists
from triage.presenters.peers import standing_words
from triage.presenters.queue import row_actions
from triage.presenters.queue.comments import own_account
from triage.presenters.vouching import vouch_forms, vouches_sent
from triage.services.lane_closures import banners
from triage.services.publishing.records import count_records, service_account
from triage.views.inbox.queue import reading
from triage.views.lanes.lists import for_any_maintainer

WEEKS, SHORT_WEEKS = 12, 4  # over which the backlog is shown
BEING_TESTED = ("Being tested now.", "The backtest runs beside these pages for some minutes. Then load this one again.")
REPOSITORIES_ASKED = 5  # of those that somebody maintains: each costs what its seeds reach, at most half a second


@reading
@unless_held
def dashboard(request: Request, snapshot: Snapshot) -> HttpResponse:
    """Return how the score is doing.

    `?repository=` narrows what is open and how long people wait, `?weeks=` the backlog.
    """
    repositories = {one.key: one.name for one in read.watched_repositories(snapshot)}
    wanted = read_list(request.GET).repository
    repository = wanted if wanted in repositories else ""
    period = SHORT_WEEKS if request.GET.get("weeks") == str(SHORT_WEEKS) else WEEKS
    board, now = told_dashboard(request, snapshot), present(snapshot)
    exact, fares = sees_thresholds(viewing(request)), read.fares(snapshot)
    shown = {
        "board": board,
        "closures": banners(request, snapshot),
        "lanes_open": lane_heads.count_open(snapshot),
        "lists": count_lists(request, snapshot),
        "reread": read.reread(snapshot, settings.R_LOW, settings.R_HIGH),
        "attacked": reports.attack_sentences(read_report(settings.LOG_DIR)) if exact else (),
        "newcomers": histogram.newcomers(fares, now),
        "peers": _peers(snapshot),
        "repositories": sorted(repositories.items(), key=lambda one: (one[1], one[0])),
        "repository": repository,
        "is_unknown": wanted != repository,
        "periods": [(weeks, weeks == period) for weeks in (SHORT_WEEKS, WEEKS)],
        **_moving(snapshot, now, repository, period),
        **_lanes(board, _inbox(snapshot)),
        "published": count_records() if service_account() else None,
        "still_open": _still_open(snapshot, repositories, now),
        **_learned(exact, sum(one.decided for one in fares), snapshot),
    }
    return render(request, "dashboard/dashboard.html", shown)


def _moving(snapshot: Snapshot, now: datetime, repository: str, period: int) -> dict[str, object]:
    """Return whether the backlog shrinks, and how long people wait."""
    weeks = read.weeks(snapshot, now, repository)[-period - 1 :]  # and the end of the one before
    found, query = read.answers(snapshot, now, repository), read.QueueQuery(repository=repository, size=1)
    counts = row_actions.open_counts(query, snapshot, timezone.now())
    return {
        "backlog": backlog.backlog(weeks),
        "open_said": row_actions.open_words(counts),
        "backlog_said": backlog.backlog_answer(weeks),
        "trend_from": now + timedelta(weeks=2),
        "waits": backlog.waits(found),
        "waiting_said": backlog.waiting_answer(found),
        "no_waits": backlog.missing_answers(found),
        "longest": backlog.longest_words(found, now),
    }


def _still_open(snapshot: Snapshot, names: Mapping[str, str], now: datetime) -> list[str]:
    """Return a sentence for each open estimated lane that let through more bad ones than its limit."""
    is_open = {one.repository for one in lane_heads.lane_states(snapshot) if one.is_open and not one.shadow}
    return [
        lane_words.still_open(names[one.repository], bad_to_shut(rule, one.settled, one.settled_bad))
        for one in read.estimated_lanes(snapshot, now)
        if one.repository in is_open and one.settled_bad > one.offer.bad_high * one.settled
        for rule in (AlarmRule(one.offer.bad_high, settings.FALSE_APPROVAL_DELTA),)
    ]


def _inbox(snapshot: Snapshot) -> Mapping[read.GroupKey, int]:
    return row_actions.lane_counts(read.QueueQuery(size=1), snapshot, timezone.now())


def _peers(snapshot: Snapshot) -> list[tuple[Person, str]]:
    standings = read.peer_standings(snapshot) if settings.PEERS else ()
    return [(one.peer, standing_words(one)) for one in standings if one.peer.did in settings.PEERS]


def _lanes(board: read.Dashboard, inbox: Mapping[read.GroupKey, int]) -> dict[str, object]:
    """Return the lanes as the `inbox` counts them."""
    return {
        "open": sum(board.lanes.values()),
        "lane_now": histogram.lane_now_words(inbox),
        "histogram": histogram.histogram(board),
        "histogram_table": histogram.histogram_table(board),
        "shares": histogram.lane_shares(inbox),
    }


def _learned(exact: bool, a_year: int, snapshot: Snapshot) -> dict[str, object]:
    """Return what was learned, told with thresholds where `exact`.

    `a_year` pull requests were decided in the last one.
    """
    results, audited, need = read.lane_results(snapshot), read.lane_audits(snapshot), training_need(snapshot)
    name, model = read_serving(settings.MODEL_DIR, LABEL)
    lane = model.lane if model else None
    budget = lane.budget if lane else settings.FALSE_APPROVAL_BUDGET
    drawn = reports.live_budget(results) if results else budget
    past = reports.backtest_of(read_backtest(settings.LOG_DIR), LABEL)
    fewest = missing.fewest_words(budget, settings.FALSE_APPROVAL_DELTA, a_year)
    # The backtest answers, as on its own page: the same recipe, trained anew for each quarter. Until there is one the
    # figures of the training do.
    has_past = past is not None and bool(past.bins)
    is_tried = model is not None and bool(model.change.bins) and not has_past
    bins = past.bins if past and has_past else model.change.bins if model else ()
    bins = bins if sum(one.n for one in bins) >= FEWEST_TOLD else ()
    lowest = reports.lowest_told(bins)
    is_live_told = sum(one.n for one in results) >= FEWEST_TOLD
    return {
        "is_live_told": is_live_told,
        "model": model if is_tried else None,
        "reliability": reports.reliability("reliability", bins),
        "no_reliability": missing.no_reliability(name, model, need),
        "order_words": orders.order_words(past),
        "order_bargain": orders.bargain_sentence(past) if past else "",
        "backtest_lane": reports.lane_sentence(past) if past else (),
        "backtest_of_score": reports.verdict(past) if past else (),
        "approvals": reports.false_approvals("approvals", lane, results if is_live_told else (), drawn),
        "no_approvals": missing.no_false_approvals(name, model, exact, fewest, need),
        "no_live": "" if results else missing.no_live(settings.LABEL_WINDOW_DAYS),
        "lane_said": lane_words.lane_answer(results, audited, drawn),
        "score_said": BEING_TESTED if runs_beside("backtest") and not (bins or past) else reports.score_answer(bins),
        "rarely_tested": reports.rarely_tested_words(lowest, *read.open_below(snapshot, lowest)) if bins else "",
        "lane_words": reports.lane_words(lane, exact) if lane else "",
        "lane_needs": missing.needed(lane) if lane and exact else "",
        "t_low_words": model.t_low if model and exact else "",
        "false_rate": _false_rate(lane),
        "budget": percent_in_full(budget),
    }


def _false_rate(lane: ShownLane | None) -> dict[str, str]:
    """The share of bad ones in the lane of the backtest with its counts and interval; {} where none was let through."""
    if lane is None or lane.n <= 0:
        return {}
    counts = f"{weighted(lane.bad)} of {weighted(lane.n)}"
    return {"rate": bad_percent(lane.bad / lane.n), "counts": counts, "interval": bad_interval(lane.low, lane.high)}


@for_any_maintainer
def vouches(request: Request, snapshot: Snapshot) -> HttpResponse:
    """Show whom the viewer could vouch for, what each vouch would change at best and at worst, and those sent here."""
    did, maintained = viewer_did(request), sorted(viewing(request).keys(Role.MAINTAINER))
    asked = [key for key in maintained if key][:REPOSITORIES_ASKED]
    worth = read.vouches_worth_making(snapshot, did, asked, policy_from_settings()) if did else ()
    known = read.score(snapshot, did) if did and not worth else None
    session, now = held_session(request), timezone.now()
    proposed = {vouch.person.did for group in worth for vouch in group.vouches}
    shown = {
        "worth": worth,
        "forms": vouch_forms(session, snapshot, proposed, now),
        "sent": vouches_sent(session, snapshot, proposed, now),
        "account": own_account(session),
        "why_none": missing.no_vouches(known),
        "left_out": max(0, len(maintained) - len(asked) - 1),
    }
    return render(request, "dashboard/vouches.html", shown)


@for_any_maintainer
def redteam(request: Request, snapshot: Snapshot) -> HttpResponse:
    """Return what was attacked, what came of it, and what is known not to hold."""
    name, model = read_serving(settings.MODEL_DIR, LABEL)
    report = read_report(settings.LOG_DIR)
    shown: dict[str, object] = {"report": report, "heads": HEADS, "not_played": NOT_PLAYED}
    if report:
        shown |= {"answer": say_result(report), "ground": say_graph(report)}
    if model and (lifts := _lifts(model)):
        largest = max(lift for _, lift in lifts)
        shown["lifts"] = [(words, bad_bound(lift)) for words, lift in lifts]
        limit = f"A model above {percent_in_full(MOST_LIFT)} is not used."
        shown["lifts_said"] = f"At most by {bad_bound(largest)}. {limit}"
    else:
        shown["no_lifts"] = missing.no_lifts(name, training_need(snapshot))
    return render(request, "dashboard/redteam.html", shown)


def _lifts(model: ShownModel) -> tuple[tuple[str, float], ...]:
    """The most by which one person raised each chance alone, under the model that serves."""
    scopes = (("the next pull request of a contributor", model.person), ("one pull request", model.change))
    return tuple((words, scope.self_lift) for words, scope in scopes if scope.self_lift is not None)


@for_any_maintainer
def backtest(request: Request, snapshot: Snapshot) -> HttpResponse:
    """The newest backtest of what a clean pull request is here: order, calibration, the lane, newcomers."""
    found = read_backtest(settings.LOG_DIR)
    label = next((one for one in found.labels if one.label == LABEL), None) if found else None
    shown: dict[str, object] = {"found": found, "label": label, "window": settings.LABEL_WINDOW_DAYS, "graph": None}
    if settings.SHOW_GRAPH_MODEL:
        shown["graph"] = graph_card(read_graph(settings.MODEL_DIR, LABEL), read_graph_backtest(settings.LOG_DIR))
    if label is None:
        shown |= {"need": training_need(snapshot), "is_running": runs_beside("backtest")}
    elif label.groups and (outside := label.groups[0]).n:
        shown |= {
            "outside": outside,
            "verdict": reports.verdict(label),
            "order_said": orders.order_sentence(label),
            "bargain": orders.bargain_sentence(label),
            "orders": (table := orders.orders_table(label)),
            "few_orders": orders.few_orders_table(table),
            "score_said": reports.score_answer(label.bins),
            "reliability": reports.reliability("reliability", label.bins),
            "lane_said": reports.lane_sentence(label),
            "lanes": reports.lanes_table(label),
            "lane_notes": reports.lane_notes(label),
            "newcomers_said": reports.newcomers_sentence(label),
            "groups": reports.groups_table(label),
        }
    return render(request, "dashboard/backtest.html", shown)
