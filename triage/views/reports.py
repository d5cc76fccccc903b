"""Report pages for maintainers: vouches worth making, attack simulations, the backtest.

What a command has not written yet is said to be missing, with the command that writes it; nothing is computed here.
"""

from functools import wraps

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.shortcuts import render

from ingest.store.snapshots import Snapshot
from scoring.config.policy import policy_from_settings
from scoring.formatting import bad_percent, percent_in_full
from scoring.models.serving import LABEL
from scoring.queries import read
from scoring.redteam.render import HEADS, NOT_PLAYED, read_report, say_graph, say_result
from scoring.thresholds import MOST_LIFT
from scoring.training.summary import ShownModel, read_backtest, read_serving
from triage.access.permissions import Role, SignInNeeded, sees_thresholds
from triage.access.requests import Request
from triage.access.sign_in import viewer_did, viewing
from triage.charts import reports
from triage.context import training_need
from triage.http_cache import Page
from triage.presenters import text as missing
from triage.views.incidents import for_maintainers

REPOSITORIES_ASKED = 5  # of those that somebody maintains: each costs what its seeds reach, at most half a second


def for_any_maintainer(page: Page) -> Page:
    """A page for whoever maintains something here: it may name thresholds, and what an attack would bring."""

    @wraps(page)
    def say_result(request: Request, snapshot: Snapshot) -> HttpResponse:
        if not sees_thresholds(viewing(request)):
            if not request.user.is_authenticated:
                raise SignInNeeded("Sign in first.")
            raise PermissionDenied("This needs the role maintainer.")
        return page(request, snapshot)

    return for_maintainers(say_result)


@for_any_maintainer
def vouches(request: Request, snapshot: Snapshot) -> HttpResponse:
    """Return whom the viewer could vouch for, what each vouch would change, and the most that it could be abused
    for.
    """
    did, maintained = viewer_did(request), sorted(viewing(request).keys(Role.MAINTAINER))
    asked = [key for key in maintained if key][:REPOSITORIES_ASKED]
    worth = read.vouches_worth_making(snapshot, did, asked, policy_from_settings()) if did else ()
    known = read.score(snapshot, did) if did and not worth else None
    shown = {
        "worth": worth,
        "why_none": missing.no_vouches(known),
        "left_out": max(0, len(maintained) - len(asked) - 1),
    }
    return render(request, "vouches.html", shown)


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
        shown["lifts"] = [(words, bad_percent(lift)) for words, lift in lifts]
        limit = f"A model above {percent_in_full(MOST_LIFT)} is not used."
        shown["lifts_said"] = f"At most by {bad_percent(largest)}. {limit}"
    else:
        shown["no_lifts"] = missing.no_lifts(name, training_need(snapshot))
    return render(request, "redteam.html", shown)


def _lifts(model: ShownModel) -> tuple[tuple[str, float], ...]:
    """The most by which one person raised each chance alone, under the model that serves."""
    scopes = (("the next pull request of a contributor", model.person), ("one pull request", model.change))
    return tuple((words, scope.self_lift) for words, scope in scopes if scope.self_lift is not None)


@for_any_maintainer
def backtest(request: Request, snapshot: Snapshot) -> HttpResponse:
    """The newest backtest of what a clean pull request is here: order, calibration, the lane, newcomers."""
    found = read_backtest(settings.LOG_DIR)
    label = next((one for one in found.labels if one.label == LABEL), None) if found else None
    shown: dict[str, object] = {"found": found, "label": label, "window": settings.LABEL_WINDOW_DAYS}
    if label is None:
        shown |= {"need": training_need(snapshot)}
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
    return render(request, "backtest.html", shown)
