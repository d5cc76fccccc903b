"""Reading for pages and JSON: both call these functions, on one pinned snapshot, and nothing else."""

from scoring.answers import (
    Bin,
    ContentReview,
    Contribution,
    ContributorPage,
    ContributorScore,
    Dashboard,
    GroupKey,
    HistoryPoint,
    Leaderboard,
    LeaderboardRow,
    LeaderboardSort,
    Person,
    PullLine,
    Queue,
    QueueGroup,
    QueueQuery,
    QueueRow,
    QueueSort,
    TrustExplanation,
    VouchesWorth,
    VouchLine,
    VouchWorth,
)
from scoring.read_contributors import contributor, hidden_because, leaderboard, score
from scoring.read_queue import dashboard, pull, queue
from scoring.read_repositories import WatchedRepository, watched_repositories, watched_repository
from scoring.read_reviews import content_review
from scoring.read_trial import reread
from scoring.read_trust import explain_trust
from scoring.read_worth import vouches_worth_making
from scoring.review_rows import ShownFinding, ShownFlag
from scoring.shadow import ShadowDay, ShadowReport, shadow_report

__all__ = [
    "Bin",
    "ContentReview",
    "Contribution",
    "ContributorPage",
    "ContributorScore",
    "Dashboard",
    "GroupKey",
    "HistoryPoint",
    "Leaderboard",
    "LeaderboardRow",
    "LeaderboardSort",
    "Person",
    "PullLine",
    "Queue",
    "QueueGroup",
    "QueueQuery",
    "QueueRow",
    "QueueSort",
    "ShadowDay",
    "ShadowReport",
    "ShownFinding",
    "ShownFlag",
    "TrustExplanation",
    "VouchLine",
    "VouchWorth",
    "VouchesWorth",
    "WatchedRepository",
    "content_review",
    "contributor",
    "dashboard",
    "explain_trust",
    "hidden_because",
    "leaderboard",
    "pull",
    "queue",
    "reread",
    "score",
    "shadow_report",
    "vouches_worth_making",
    "watched_repositories",
    "watched_repository",
]
