"""Where every open pull request stands, as everybody may know it: for who is told of what changes."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from ingest.transaction import Rows
from scoring.audit_answers import SEALED
from scoring.decisions import reason_codes
from scoring.explain import lane_reason, sentence
from scoring.explain_plain import plain_sentence
from scoring.read_queue import KEY
from scoring.read_repositories import in_shadow
from scoring.rules import Thresholds
from scoring.shaping import read_thresholds

# The key of its group in the queue, not its lane: what the audit drew stands with what waits for a review.
OPEN = f"""
select c.pull_uri, c.repository_id, r.repo_key, c.round, {KEY} as lane, {SEALED} as is_sealed, c.reasons
from current_decisions c join repositories r using (repository_id) semi join watched_repositories using (repository_id)
where not c.own
"""
LANES = """
select r.repo_key, any_value(c.thresholds) as thresholds, coalesce(any_value(x.shadow), true) as shadow
from current_decisions c join repositories r using (repository_id)
semi join watched_repositories using (repository_id)
left join repository_settings x using (repository_id) group by r.repo_key order by r.repo_key
"""
DUE = f"""
select c.pull_uri from current_decisions c join pull_requests p on p.pull_uri = c.pull_uri
semi join watched_repositories w on w.repository_id = c.repository_id
where {SEALED} order by p.opened_at, c.pull_uri
"""
DRAWN_ONLY = ("audit_drawn",)


@dataclass(frozen=True, slots=True)
class Standing:
    """An open pull request of a watched repository, push-holders' own apart.

    `lane` is the group of the queue in which it is shown, `codes` are those of its reasons; of what the audit drew and
    nobody answered both say only that. `shadow`: the lane is what it would be.
    """

    uri: str
    repository: str  # repo_key
    round: int
    lane: str
    is_sealed: bool
    shadow: bool
    reasons: str  # as stored; not to be told of what is sealed

    @property
    def codes(self) -> tuple[str, ...]:
        """Why it stands there."""
        return DRAWN_ONLY if self.is_sealed else reason_codes(self.reasons)


Basis = Literal["certified", "estimated", "by_hand", "shut"]


@dataclass(frozen=True, slots=True)
class LaneState:
    """The gate's fast lane in one repository; with `shadow`, as it would be outside shadow mode.

    `because` is the code of what shut it, "" where it is open; `bad` the 95 % interval of the share of bad ones where
    it is estimated, else None. `since` is naive UTC, None where nobody knows. `notice` says all this in one sentence
    with exact figures, `plain` without a threshold; both are "" where a certificate holds.
    """

    repository: str  # repo_key
    is_open: bool
    because: str
    basis: Basis = "shut"
    shadow: bool = False
    t_high: float | None = None
    bad: tuple[float, float] | None = None
    since: datetime | None = None
    notice: str = ""
    plain: str = ""
    budget: float = 0.0  # the share of bad ones that may go through; an estimated lane has that of its opening


def standings(rows: Rows) -> tuple[Standing, ...]:
    """All of them, in one statement."""
    shadowed = in_shadow(rows)
    return tuple(
        Standing(
            uri=row["pull_uri"],
            repository=row["repo_key"],
            round=row["round"] or 0,
            lane=row["lane"],
            is_sealed=row["is_sealed"],
            shadow=row["repository_id"] in shadowed,
            reasons=row["reasons"],
        )
        for row in rows.rows(OPEN)
    )


def lane_states(rows: Rows) -> tuple[LaneState, ...]:
    """The gate's fast lane in every watched repository that has something open, by what that was decided by."""
    return tuple(_lane_state(row["repo_key"], row["shadow"], read_thresholds(row)) for row in rows.rows(LANES))


def _lane_state(repository: str, shadow: bool, thresholds: Thresholds) -> LaneState:
    reason = lane_reason(thresholds)
    is_open = thresholds.t_high is not None
    return LaneState(
        repository,
        is_open,
        "" if is_open or reason is None else reason.code,
        basis_of(thresholds),
        shadow,
        thresholds.t_high,
        thresholds.estimated,
        thresholds.since,
        sentence(reason) if reason else "",
        plain_sentence(reason) if reason else "",
        thresholds.budget,
    )


def basis_of(thresholds: Thresholds) -> Basis:
    """Return what the fast lane is open on, or "shut"."""
    if thresholds.t_high is None:
        return "shut"
    if thresholds.certified:
        return "certified"
    return "by_hand" if thresholds.estimated is None else "estimated"


def audits_due(rows: Rows) -> tuple[str, ...]:
    """The at-uris of what the audit drew and nobody answered, the oldest first."""
    return tuple(row["pull_uri"] for row in rows.rows(DUE))
