"""Aggregates, the leaderboard, questions about thresholds, and the fast lane of each repository."""

from datetime import UTC, datetime
from typing import Annotated, Literal

from django.conf import settings
from django.utils import timezone
from ninja import Field, Router, Schema
from ninja.params.functions import Query
from pydantic import BaseModel

from scoring.certificates.threshold_queries import QuestionProblem, answer_query
from scoring.formatting import visible_name
from scoring.queries import read
from scoring.queries.read import Basis
from triage.access.permissions import sees_thresholds
from triage.access.problems import ApiProblem
from triage.access.requests import Request
from triage.access.sign_in import viewing
from triage.access.tokens import held_to
from triage.api.base import RepositoryReader, problems, published
from triage.api.schemas import Count, LeaderboardOut, MetricsOut, Share, leaderboard_out, metrics_out, rounded
from triage.context import present, told_dashboard
from triage.forms.filters import PAGE_LIMIT
from triage.presenters import lane_heads, lists
from triage.presenters.lane_heads import lane_states
from triage.presenters.queue import row_actions

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
    board = lists.leaderboard(request, snapshot, sort, order == "down", page)
    scores = read.scores(snapshot, [row.person.did for row in board.rows if not row.hidden_by])
    return leaderboard_out(board, scores)


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
        answer = answer_query(settings.MODEL_DIR, query, settings.FALSE_APPROVAL_DELTA)
    except QuestionProblem as problem:
        raise ApiProblem(422, str(problem), code="no_such_question") from problem
    return ThresholdsOut(**{name: getattr(answer, name) for name in ThresholdsOut.model_fields})


class BadShareOut(BaseModel):
    """The 95 % interval of the share of bad ones among past pull requests that a lane would have let through."""

    low: Share = Field(description="Lower end, in [0, 1].")
    high: Share = Field(description="Upper end, in [0, 1]: once it is open, the lane shuts itself above this.")


class LaneOut(BaseModel):
    """The fast lane of one repository, as its newest decisions were made."""

    repository: str = Field(description="Key of the repository.")
    repository_name: str = Field(description="Its name, as in /queue; escape it where shown.")
    state: Basis = Field(
        description="certified: a certificate holds. estimated: a maintainer opened it on past outcomes, or could, and "
        "nothing is certified. by_hand: the operator set the threshold. shut: nothing is let through."
    )
    shadow: bool = Field(
        description="The lane is shut and only watched: state is what it would be, and nothing is let through."
    )
    threshold: Share | None = Field(
        description="Chance to stay clean from which it lets through; null: it is shut, or you do not maintain it."
    )
    bad: BadShareOut | None = Field(
        description="The estimate on which the lane was or can be opened; null where it is not estimated."
    )
    since: datetime | None = Field(
        description="When the certificate was made, the lane was opened or was shut; RFC 3339, UTC; null where unknown."
    )
    reason: str | None = Field(
        description="Why it is shut, as a code that never changes its meaning; null: it is open."
    )
    notice: str = Field(description="The same in a sentence; empty where a certificate holds.")
    audited: Count | None = Field(description="Answers of the audit since an estimated lane was opened; else null.")
    audited_bad: Count | None = Field(description="Answers among them that say no: not merged as sent; else null.")


class LanesStateOut(BaseModel):
    """Every watched repository that has something open."""

    lanes: list[LaneOut]
    snapshot: int = Field(ge=0, description="Number of the snapshot that everything here was read from.", examples=[42])


@router.get(
    "/lanes",
    response={200: LanesStateOut, 304: None, **problems(401, 403, 500, 503)},
    summary="The fast lane of each repository",
    operation_id="get_lanes",
    auth=RepositoryReader(),
)
def get_lanes(request: Request) -> LanesStateOut:
    """On what the fast lane of each watched repository with something open rests, or why it is shut.

    A lane that a person shut only watches at once, and one that a person closed by hand is shut at once, with the
    reason `lane_closed`; one that a person opened opens with the next decisions. What is closed for single people is
    in `/queue`. A token for one repository gets its lane alone.
    """
    snapshot = published(request)
    roles, only = viewing(request), held_to(request)
    opened = {lane.repository: lane for lane in read.estimated_lanes(snapshot, present(snapshot))}
    states = [lane for lane in lane_states(snapshot) if not only or lane.repository == only]
    names = read.repository_names(snapshot)
    return LanesStateOut(
        lanes=[
            _lane_out(
                lane,
                names.get(lane.repository, ""),
                opened.get(lane.repository),
                sees_thresholds(roles, lane.repository),
            )
            for lane in states
        ],
        snapshot=snapshot.number,
    )


def _lane_out(state: read.LaneState, name: str, opened: read.EstimatedLane | None, exact: bool) -> LaneOut:
    return LaneOut(
        repository=state.repository,
        repository_name=visible_name(name),
        state=state.basis,
        shadow=state.shadow,
        threshold=state.t_high if exact else None,
        bad=BadShareOut(low=rounded(state.bad[0]), high=rounded(state.bad[1])) if state.bad else None,
        since=state.since.replace(tzinfo=UTC) if state.since else None,
        reason=state.because or None,
        notice=state.notice if exact else state.plain,
        audited=opened.audited if opened else None,
        audited_bad=opened.audited_bad if opened else None,
    )
