"""Aggregates, the leaderboard, and questions about thresholds."""

from datetime import datetime
from typing import Annotated, Literal

from django.conf import settings
from django.utils import timezone
from ninja import Field, Router, Schema
from ninja.params.functions import Query

from scoring.certificates.threshold_queries import QuestionProblem, answer_query
from scoring.queries import read
from triage.access.permissions import sees_thresholds
from triage.access.problems import ApiProblem
from triage.access.requests import Request
from triage.access.sign_in import viewing
from triage.api.base import problems, published
from triage.api.schemas import LeaderboardOut, MetricsOut, Share, leaderboard_out, metrics_out
from triage.context import told_dashboard
from triage.forms.filters import PAGE_LIMIT
from triage.presenters import lane_heads, people, row_actions

router = Router(tags=["site"])
ABOUT_QUERY = "maximum|minimum STATISTIC at STATISTIC <=|>= NUMBER, as `manage.py thresholds` takes it."
EXAMPLE_QUERY = "maximum lane share at false-approval rate <= 0.05"


class ThresholdsOut(Schema):
    """The threshold that answers a question, on settled pull requests; the best of many thresholds has no promise."""

    query: str = Field(description="The question as it was understood.", examples=[EXAMPLE_QUERY])
    threshold: Share | None = Field(description="From this chance on; null where no threshold fulfils it.")
    statistics: dict[str, float] = Field(description="Results of that threshold by name of the statistic.")
    model: str = Field(description="The model that scored them: the SHA-256 of its file.")
    label: str = Field(description="Definition of clean that was counted.", examples=["label_clean"])
    window: tuple[datetime, datetime] = Field(description="When these were opened: from and before; RFC 3339, UTC.")
    pull_requests: float = Field(ge=0, description="How many settled pull requests (weights) it is answered from.")
    delta: Share = Field(description="The chance that one bound among the statistics is exceeded.")


@router.get(
    "/metrics",
    response={200: MetricsOut, 304: None, **problems(401, 403, 500, 503)},
    summary="Aggregates over everything",
    operation_id="get_metrics",
)
def get_metrics(request: Request) -> MetricsOut:
    """The numbers of the dashboard; Prometheus scrapes /ops/metrics."""
    snapshot = published(request)
    counts = row_actions.open_counts(read.QueueQuery(size=1), snapshot, timezone.now())
    board, lanes_open = told_dashboard(request, snapshot), lane_heads.count_open(snapshot)
    return metrics_out(board, counts, lanes_open, snapshot.number, snapshot.published_at)


@router.get(
    "/leaderboard",
    response={200: LeaderboardOut, 304: None, **problems(401, 403, 422, 500, 503)},
    summary="Contributors in order",
    operation_id="get_leaderboard",
)
def get_leaderboard(
    request: Request,
    sort: Annotated[read.LeaderboardSort, Query(description="By what.")] = "score",
    order: Annotated[Literal["up", "down"], Query(description="Smallest or largest first.")] = "down",
    page: Annotated[int, Query(description="From 1; the last one where there are fewer.", ge=1, le=PAGE_LIMIT)] = 1,
) -> LeaderboardOut:
    """One page of everyone scored at the site, for who ranks JSON above HTML; a browser is shown the page."""
    snapshot = published(request)
    found = people.leaderboard(request, snapshot, sort, order == "down", page)
    scores = read.scores(snapshot, [row.person.did for row in found.rows if not row.hidden_by])
    return leaderboard_out(found, scores)


@router.get(
    "/thresholds",
    response={200: ThresholdsOut, **problems(401, 403, 404, 422, 500)},
    summary="Results of a threshold on past pull requests",
    operation_id="get_thresholds",
)
def get_thresholds(
    request: Request,
    query: Annotated[str, Query(description=ABOUT_QUERY, min_length=1, max_length=200, example=EXAMPLE_QUERY)],
) -> ThresholdsOut:
    """The answer from the settled pull requests that the serving model scored at opening; for maintainers."""
    if not sees_thresholds(viewing(request)):
        raise ApiProblem(403, "Exact thresholds are for maintainers; ask one of them, or the site's operator.")
    try:
        told = answer_query(settings.MODEL_DIR, query, settings.FALSE_APPROVAL_DELTA)
    except QuestionProblem as problem:
        raise ApiProblem(422, str(problem), code="no_such_question") from problem
    return ThresholdsOut(**{name: getattr(told, name) for name in ThresholdsOut.model_fields})
