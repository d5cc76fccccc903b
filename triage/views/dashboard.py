"""The dashboard, each figure with its denominator, and reports for maintainers: vouches, attacks, the backtest.

A report that no command has written yet is shown as missing, with the command that writes it; nothing is computed.
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
from scoring.formatting import bad_interval, bad_percent, percent_in_full
from scoring.models.serving import LABEL
from scoring.queries import read
from scoring.redteam.render import HEADS, NOT_PLAYED, read_report, say_graph, say_result
from scoring.thresholds import MOST_LIFT
from scoring.training.summary import ShownLane, ShownModel, read_backtest, read_serving
from scoring.types import Lane
from triage.access.permissions import Role, sees_thresholds
from triage.access.requests import Request
from triage.access.sign_in import viewer_did, viewing
from triage.charts import backlog, histogram, reports
from triage.context import present, told_dashboard, training_need
from triage.forms.filters import read_list
from triage.http_cache import unless_held
from triage.presenters import lane_heads, row_actions
from triage.presenters import text as missing
from triage.presenters.lane import FEWEST_TOLD
from triage.presenters.lists import count_lists
from triage.services.lane_closures import banners
from triage.views.lists import for_any_maintainer
from triage.views.queue import reading

WEEKS, SHORT_WEEKS = 12, 4  # periods of the backlog
# maintained repositories for proposals: each takes at most half a second, by the reach of its seeds
REPOSITORIES_ASKED = 5


@reading
@unless_held
def dashboard(request: Request, snapshot: Snapshot) -> HttpResponse:
    """Show how the score is doing.

    `?repository=` narrows what is open and how long people wait, `?weeks=` the backlog.
    """
    repositories = {item.key: item.name for item in read.watched_repositories(snapshot)}
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
        "repositories": sorted(repositories.items(), key=lambda item: (item[1], item[0])),
        "repository": repository,
        "is_unknown": wanted != repository,
        "periods": [(weeks, weeks == period) for weeks in (SHORT_WEEKS, WEEKS)],
        **_backlog_and_waits(snapshot, now, repository, period),
        **_lane_counts(board, read.actable(snapshot), _inbox(snapshot)),
        "still_open": _still_open(snapshot, repositories, now),
        **_training_results(
            exact, sum(item.decided for item in fares), read.lane_results(snapshot), training_need(snapshot)
        ),
    }
    return render(request, "dashboard/dashboard.html", shown)


def _backlog_and_waits(snapshot: Snapshot, now: datetime, repository: str, period: int) -> dict[str, object]:
    """Return whether the backlog shrinks, and how long people wait."""
    weeks = read.weeks(snapshot, now, repository)[-period - 1 :]  # and the end of the week before
    answers, query = read.answers(snapshot, now, repository), read.QueueQuery(repository=repository, size=1)
    counts = row_actions.open_counts(query, snapshot, timezone.now())
    return {
        "backlog": backlog.backlog(weeks),
        "open_said": row_actions.open_words(counts),
        "backlog_said": backlog.backlog_answer(weeks),
        "trend_from": now + timedelta(weeks=2),
        "waits": backlog.waits(answers),
        "waiting_said": backlog.waiting_answer(answers),
        "no_waits": backlog.missing_answers(answers),
        "longest": backlog.longest_words(answers, now),
    }


def _still_open(snapshot: Snapshot, names: Mapping[str, str], now: datetime) -> list[str]:
    """Return a sentence for each open estimated lane that let through more bad ones than its limit."""
    is_open = {lane.repository for lane in lane_heads.lane_states(snapshot) if lane.is_open and not lane.shadow}
    return [
        reports.still_open(names[lane.repository], bad_to_shut(rule, lane.settled, lane.settled_bad))
        for lane in read.estimated_lanes(snapshot, now)
        if lane.repository in is_open and lane.settled_bad > lane.offer.bad_high * lane.settled
        for rule in (AlarmRule(lane.offer.bad_high, settings.FALSE_APPROVAL_DELTA),)
    ]


def _inbox(snapshot: Snapshot) -> Mapping[Lane, int]:
    return row_actions.lane_counts(read.QueueQuery(size=1), snapshot, timezone.now())


def _lane_counts(board: read.Dashboard, actable: int, inbox: Mapping[Lane, int]) -> dict[str, object]:
    """Return the lanes with the counts of `inbox`; `actable` of its fast-lane rows are in open lanes."""
    fast = inbox.get(Lane.FAST_LANE, 0)
    actable = min(actable, fast)
    return {
        "open": sum(board.lanes.values()),
        "lane_now": histogram.lane_now_words(actable, fast - actable, sum(inbox.values())),
        "histogram": histogram.histogram(board),
        "histogram_table": histogram.histogram_table(board),
        "shares": histogram.lane_shares(inbox),
    }


def _training_results(
    exact: bool, a_year: int, results: tuple[read.LaneMonth, ...], need: read.TrainingNeed
) -> dict[str, object]:
    """Return the results of training, with thresholds where `exact`.

    `a_year` pull requests were decided in the last year.
    """
    name, model = read_serving(settings.MODEL_DIR, LABEL)
    lane = model.lane if model else None
    budget = lane.budget if lane else settings.FALSE_APPROVAL_BUDGET
    drawn = reports.live_budget(results) if results else budget
    past = reports.backtest_of(read_backtest(settings.LOG_DIR), LABEL)
    fewest = missing.fewest_words(budget, settings.FALSE_APPROVAL_DELTA, a_year)
    # Without a tested model its backtest is used: the same recipe, trained anew for each quarter.
    is_tried = model is not None and bool(model.change.bins)
    bins = model.change.bins if model and is_tried else past.bins if past else ()
    bins = bins if sum(counted.n for counted in bins) >= FEWEST_TOLD else ()
    is_live_told = sum(counted.n for counted in results) >= FEWEST_TOLD
    return {
        "is_live_told": is_live_told,
        "model": model if is_tried else None,
        "reliability": reports.reliability("reliability", bins),
        "no_reliability": missing.no_reliability(name, model, need),
        "order_words": reports.order_words(past),
        "backtest_lane": reports.lane_sentence(past) if past else (),
        "backtest_of_score": reports.verdict(past)[1] if past else "",
        "approvals": reports.false_approvals("approvals", lane, results if is_live_told else (), drawn),
        "no_approvals": missing.no_false_approvals(name, model, exact, fewest, need),
        "no_live": "" if results else missing.no_live(settings.LABEL_WINDOW_DAYS),
        "lane_said": reports.lane_answer(results),
        "score_said": reports.score_answer(bins),
        "lane_words": reports.lane_words(lane, exact) if lane else "",
        "lane_needs": missing.needed(lane) if lane and exact else "",
        "t_low_words": model.t_low if model and exact else "",
        "false_rate": _false_rate(lane),
        "budget": percent_in_full(budget),
    }


def _false_rate(lane: ShownLane | None) -> dict[str, str]:
    """Return the backtest lane's share of bad ones with its counts and interval; {} where none was let through."""
    if lane is None or lane.n <= 0:
        return {}
    counts = f"{lane.bad:,.6g} of {lane.n:,.6g}"
    return {"rate": bad_percent(lane.bad / lane.n), "counts": counts, "interval": bad_interval(lane.low, lane.high)}


@for_any_maintainer
def vouches(request: Request, snapshot: Snapshot) -> HttpResponse:
    """Show whom the viewer could vouch for, the effect of each vouch, and the most that it could be abused for."""
    did, maintained = viewer_did(request), sorted(viewing(request).keys(Role.MAINTAINER))
    repositories = [key for key in maintained if key][:REPOSITORIES_ASKED]
    worth = read.vouches_worth_making(snapshot, did, repositories, policy_from_settings()) if did else ()
    score = read.score(snapshot, did) if did and not worth else None
    shown = {
        "worth": worth,
        "why_none": missing.no_vouches(score),
        "left_out": max(0, len(maintained) - len(repositories) - 1),
    }
    return render(request, "dashboard/vouches.html", shown)


@for_any_maintainer
def redteam(request: Request, snapshot: Snapshot) -> HttpResponse:
    """Show the simulated attacks, their results, and known weaknesses."""
    name, model = read_serving(settings.MODEL_DIR, LABEL)
    report = read_report(settings.LOG_DIR)
    shown: dict[str, object] = {"report": report, "heads": HEADS, "not_played": NOT_PLAYED}
    if report:
        shown |= {"answer": say_result(report), "ground": say_graph(report)}
    if model and (lifts := _lifts(model)):
        largest = max(lift for _, lift in lifts)
        shown["lifts"] = [(words, bad_percent(lift)) for words, lift in lifts]
        limit = f"A model above {percent_in_full(MOST_LIFT)} is not used."
        shown["lifts_said"] = f"At most by {bad_percent(largest)}. {limit}"
    else:
        shown["no_lifts"] = missing.no_lifts(name, training_need(snapshot))
    return render(request, "dashboard/redteam.html", shown)


def _lifts(model: ShownModel) -> tuple[tuple[str, float], ...]:
    """Return the most by which one person raised each chance alone, under the serving model."""
    scopes = (("the next pull request of a contributor", model.person), ("one pull request", model.change))
    return tuple((words, scope.self_lift) for words, scope in scopes if scope.self_lift is not None)


@for_any_maintainer
def backtest(request: Request, snapshot: Snapshot) -> HttpResponse:
    """Show the newest backtest of the site's label: order, calibration, the lane, newcomers."""
    report = read_backtest(settings.LOG_DIR)
    label = next((candidate for candidate in report.labels if candidate.label == LABEL), None) if report else None
    shown: dict[str, object] = {"found": report, "label": label, "window": settings.LABEL_WINDOW_DAYS}
    if label is None:
        shown |= {"need": training_need(snapshot), "is_running": settings.REPORTS_BESIDE}
    elif label.groups and (outside := label.groups[0]).n:
        shown |= {
            "outside": outside,
            "verdict": reports.verdict(label),
            "order_said": reports.order_sentence(label),
            "orders": (orders := reports.orders_table(label)),
            "few_orders": reports.few_orders_table(orders),
            "score_said": reports.score_answer(label.bins),
            "reliability": reports.reliability("reliability", label.bins),
            "lane_said": reports.lane_sentence(label),
            "lanes": reports.lanes_table(label),
            "newcomers_said": reports.newcomers_sentence(label),
            "groups": reports.groups_table(label),
        }
    return render(request, "dashboard/backtest.html", shown)
