"""The read functions for pages and the JSON API.

They read one pinned snapshot, and the web reads through nothing else.
"""

# ruff: noqa: F401 - every name is for those who read

from ingest.erasure.export import pieces
from scoring.config.repository import WatchedRepository, watched_repositories, watched_repository
from scoring.pipeline.interventions import Closure, RecordObjection, closed_because, is_left_out, record_objections
from scoring.pipeline.lane_history import (
    LaneHistory,
    LaneRow,
    LaneSum,
    ShadowDay,
    ShadowReport,
    lane_sum,
    shadow_report,
)
from scoring.pipeline.lane_thresholds import CERTIFICATES, EstimatedLane, estimated_lanes, opening_keys
from scoring.pipeline.peers import Agreement
from scoring.pipeline.signing import RoundSignatures
from scoring.pipeline.stored import dids_of_handles, persons
from scoring.queries.audited import hide_row
from scoring.queries.changes import (
    ChangeFacts,
    CiRun,
    Comment,
    FileOwner,
    change_facts,
    ci_run,
    comments,
    content_review,
    reread,
    round_review,
    standing_findings,
)
from scoring.queries.dashboard import AnswerMonth, Answers, Week, answers, dashboard, open_below, weeks
from scoring.queries.events import PastJudgement, PullEvent, events, judged_when_decided
from scoring.queries.lanes import (
    AuditCount,
    Basis,
    Fare,
    LaneMonth,
    LanePast,
    LaneState,
    Standing,
    fares,
    lane_audits,
    lane_past,
    lane_results,
    lane_states,
    opened_lane,
    standings,
    watched_lane,
)
from scoring.queries.lists import (
    Approved,
    ChangedApproval,
    PastAction,
    Quiet,
    RowState,
    Seen,
    Settled,
    SettledOutcome,
    SettledQuery,
    SettledRow,
    Subject,
    approved,
    changed_after,
    decided_subjects,
    due_audits,
    past_actions,
    quiet,
    row_states,
    settled,
    settled_outcomes,
    subjects,
    taken_keys,
    unmarked_merges,
)
from scoring.queries.past_decisions import (
    BudgetState,
    Hold,
    Incident,
    LikeIt,
    Shared,
    find_let_through,
    find_voided,
    incident,
)
from scoring.queries.peers import PeerOpinion, PeerStanding, peer_opinions, peer_standings
from scoring.queries.people.contributors import (
    clean_to_reach,
    contributor,
    estimate_after,
    hide_chance,
    leaderboard,
    merged_work,
    outcome_in_words,
    place_of,
    troubles_in_words,
    vouched_for,
)
from scoring.queries.people.scores import (
    hidden_among,
    hidden_because,
    hidden_words,
    hide_score,
    score,
    score_at,
    scores,
)
from scoring.queries.people.signals import upstream_facts
from scoring.queries.people.stored_data import Stored, offered_by, offered_to, offers, pushes_to, stored, stored_whole
from scoring.queries.people.trust import explain_trust, renew, seeds_in_force, vouches_worth_making
from scoring.queries.progress import FirstReading, TrainingNeed, first_reading, training_need
from scoring.queries.public_lanes import (
    DELAY,
    KEPT,
    PUBLIC_LANES,
    PUBLIC_REASONS,
    Outcome,
    PublicLane,
    public_lanes,
    publishes,
)
from scoring.queries.queue import (
    labels,
    lanes,
    longest_waiting,
    opened_since,
    pull,
    pulls,
    queue,
    queue_order,
    repository_key,
    repository_names,
    unsealed,
)
from scoring.queries.rounds import (
    FEWEST_OF_TITLE,
    ForgeHome,
    Here,
    RepositoryHome,
    Round,
    forge_home,
    here,
    kept_text,
    newest_patch,
    pull_at,
    pulls_at,
    repository_at,
    repository_homes,
    rounds,
)
from scoring.queries.types import (
    AuditAnswer,
    Bin,
    ContentReview,
    Contribution,
    ContributorPage,
    ContributorScore,
    Dashboard,
    DueAudit,
    GroupKey,
    HistoryPoint,
    Leaderboard,
    LeaderboardRow,
    LeaderboardSort,
    MergedWork,
    Place,
    PullLine,
    PullResult,
    Queue,
    QueueGroup,
    QueueQuery,
    QueueRow,
    QueueSort,
    Record,
    Signal,
    TrustExplanation,
    VouchesWorth,
    VouchLine,
    VouchWorth,
)
from scoring.review.store import ShownFlag
from scoring.types import Person, ShownFinding
