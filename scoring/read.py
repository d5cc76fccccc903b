"""Reading for pages and JSON: both call these functions, on one pinned snapshot, and nothing else."""

from scoring.answers import (
    Bin,
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
    VouchLine,
)
from scoring.read_contributors import contributor, leaderboard, score
from scoring.read_queue import dashboard, pull, queue

__all__ = [
    "Bin",
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
    "VouchLine",
    "contributor",
    "dashboard",
    "leaderboard",
    "pull",
    "queue",
    "score",
]
