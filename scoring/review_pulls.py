"""The review hop: the newest round of each open pull request of a watched repository is read once.

What is due is found by asking the tables; a review happens outside any lock and ends in one row. The row is there, as
'running', before the reading begins: content on which the program dies is begun TRIES times and then has no verdict.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any

from ingest.review_bounds import drop_superseded
from ingest.store import Store
from ingest.transaction import Rows, Transaction
from scoring.assessment import Review
from scoring.claude_answers import PASSING
from scoring.content.change import Change
from scoring.content.examine import REVIEW_VERSION
from scoring.content.likeness import record_vector
from scoring.content.paths import is_sensitive
from scoring.content.submission import Knowledge, Submission
from scoring.content.touched import touched_files
from scoring.cost_gate import Ask, Call, decide
from scoring.known_bad import follow_known_bad
from scoring.rendering import Case
from scoring.repository_settings import Mode
from scoring.review_cases import case_of_pull, kept_change
from scoring.review_rows import BEGUN as EMPTY
from scoring.review_rows import RUNNING, review_columns
from scoring.rules import Thresholds
from scoring.trial import left_to_read, note_try

# A turn ends after so many, or so long: what was reviewed is scored and published before the rest, and each such pass
# costs as much as ten reviews by scanners.
BATCH, TURN_SECONDS = 200, 5.0
GROUP = 20  # that scanners read between two transactions; what a model may read, for minutes, is written one by one
TRIES = 2
TRIED_AGAIN = timedelta(hours=1)
AGAIN = 5  # times that a reading is tried anew, each an hour later than the one before
# What stands now and was not read by these rules, or would be read by somebody else if it were asked today; newest
# first, since that is what somebody is waiting for. What the site or the repository had no dollars for waits until
# there are some.
# Of two commits its author chose the base: where that is not on the target branch, a merge brings more than the patch.
DUE = """
with compared as (
  select pull_uri, p.repository_id, coalesce(p.target_branch, m.head) as branch,
    split_part(substr(p.patch_ref, 9), '..', 1) as commit_id
  from pull_requests p left join mirrors m using (repository_id)
  where p.state = 'open' and p.patch_ref like 'compare:%'
), elsewhere as (
  select pull_uri from compared anti join branch_commits using (repository_id, branch, commit_id)
)
select p.pull_uri, p.patch_ref, p.round, p.record_cid, p.author_id, p.repository_id, p.title, p.body, w.review,
  md5(concat_ws(chr(31), p.title, p.body)) as said, k.sha256, k.bytes, k.state as patch_state,
  k.git_reading, k.git_line, p.pull_uri not in (select pull_uri from elsewhere) as base_stands,
  coalesce(t.structural_trust, 0) as structural_trust, coalesce(r.attempts, 0) as attempts,
  coalesce(r.failures, 0) as failures, coalesce(r.state, 'running') <> 'running' as has_review
from pull_requests p
join watched_repositories w using (repository_id)
join patches k on (k.pull_uri, k.patch_ref) = (p.pull_uri, p.patch_ref)
left join trust t on (t.repository_id, t.contributor_id) = (p.repository_id, p.author_id)
left join content_reviews r on (r.pull_uri, r.patch_ref, r.rules) = (p.pull_uri, p.patch_ref, $rules)
  and r.said = md5(concat_ws(chr(31), p.title, p.body))
where p.state = 'open' and k.sha256 is not null
  and (r.state is null or r.state = 'running' or (r.missing = 'on_trial' and not $trying) or (
    list_contains($passing, r.missing) and r.failures <= $most and r.reviewed_clock < $now - to_hours(r.failures)
  ) or (
    r.missing in ('over_budget', 'over_repository_budget') and $has_dollars
    and not list_contains($spent_out, p.repository_id) and r.reviewed_clock < $now - to_hours(1)
  ) or (
    r.asked_because = 'review_off' and w.review <> 'off'
  ) or k.git_reading <> coalesce(r.git_reading, 'same') or (
    r.missing is distinct from 'review_failed' and base_stands = (r.missing is not distinct from 'base_elsewhere')
  ) or ($has_key and w.review = 'claude' and (
    r.asked_because in ('claude_off', 'no_key')
    or (r.asked_because = 'trusted' and coalesce(t.structural_trust < $t_high, true))
  )))
order by p.seen_at desc, p.pull_uri limit $limit
"""
EARLIER = "from content_reviews where pull_uri = ? and patch_ref = ? and said = ? and rules = ?"
MODE = "select review from watched_repositories where repository_id = ?"
Row = Mapping[str, Any]
ReviewCase = Callable[[Case, Call, tuple[str, ...], str], Review]


@dataclass(frozen=True, slots=True)
class Reviewing:
    """How changes are reviewed here.

    `spent` and `spent_by_repository` are what this day's readings cost so far, `budget` and `repository_budget` what
    those of the site and of one repository may cost, in dollars. `review` is `Reviewer.review`; `knowledge` answers
    from these rows for the pull request of that address.
    """

    thresholds: Thresholds
    folder: Path
    knowledge: Callable[[Rows, str], Knowledge]
    review: ReviewCase
    has_key: bool = False
    screens: bool = False
    budget: float = 0.0
    spent: Callable[[], float] = lambda: 0.0
    repository_budget: float = inf
    spent_by_repository: Callable[[], Mapping[int, float]] = dict
    learn: Callable[[Change], object] = lambda change: None  # asks outside about what a change names, where allowed
    clock: Callable[[], float] = monotonic
    version: str = ""  # of the prompt
    models: tuple[str, ...] = ()  # that may read in full
    screen: str = ""  # the model that only screens


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one pull request that was due: columns of its row, and the change where it was read."""

    pull: Row
    columns: Mapping[str, Any]
    change: Change | None = None


def review_due(store: Store, reviewing: Reviewing) -> int:
    """One turn: review what is due, else one more for a trial; returns how many were read, 0 where nothing is due."""
    known = _known(reviewing) | {"now": store.wall(), "limit": BATCH}
    with store.write() as txn:
        follow_known_bad(txn)
        left = _left_to_try(txn, reviewing)
        due = txn.rows(DUE, {**known, "trying": bool(left)})
    if left and not due:
        return _try(store, left, reviewing)
    ends, read_now = reviewing.clock() + TURN_SECONDS, 0
    for group in _groups(due, 1 if reviewing.has_key else GROUP):
        _review(store, group, reviewing)
        read_now += len(group)
        if reviewing.clock() > ends:
            break
    return read_now


def _known(reviewing: Reviewing) -> dict[str, Any]:
    """What decides, beside the tables, whether a review is due."""
    spent = reviewing.spent_by_repository()
    return {
        "rules": REVIEW_VERSION,
        "passing": list(PASSING),
        "most": AGAIN,
        "has_key": reviewing.has_key,
        "has_dollars": reviewing.has_key and reviewing.spent() < reviewing.budget,
        "spent_out": [number for number, dollars in spent.items() if dollars >= reviewing.repository_budget],
        "t_high": reviewing.thresholds.t_high,
    }


def _groups(due: Sequence[Row], size: int) -> Iterator[Sequence[Row]]:
    """What is begun and written together; last and one by one what was begun before and did not end."""
    fresh = [row for row in due if not row["attempts"]]
    yield from (fresh[begin : begin + size] for begin in range(0, len(fresh), size))
    yield from ([row] for row in due if row["attempts"])


def _review(store: Store, group: Sequence[Row], reviewing: Reviewing) -> None:
    """Review these and write what came of it; of one that ended the program each time, that nobody reads it."""
    if group[0]["attempts"] >= TRIES:
        failed = {"state": "no content verdict", "missing": "review_failed", "asked": "missing", "recommended": True}
        failed["git_reading"] = group[0]["git_reading"] or "unknown"
        told = {**_meanwhile(group[0]), **failed, "asked_because": "review_failed", "reviewed_clock": store.wall()}
        _write(store, [Outcome(group[0], told)])
        return
    _write(store, [Outcome(row, {**_meanwhile(row), "attempts": row["attempts"] + 1}) for row in group])
    _write(store, [_reviewed(store, row, reviewing) for row in group])


def _meanwhile(row: Row) -> Mapping[str, Any]:
    """What stands while a change is read: what was said of it before, else nothing. No flag is lost on the way."""
    return {} if row["has_review"] else EMPTY


def _reviewed(store: Store, row: Row, reviewing: Reviewing) -> Outcome:
    change, git_reading = kept_change(row, reviewing.folder)
    if row["review"] != "off":
        reviewing.learn(change)
    with store.read() as rows:
        case, unfinished = case_of_pull(rows, row, change, reviewing.knowledge(rows, row["pull_uri"]))
        is_trial = bool(_left_to_try(rows, reviewing))
        mode: Mode = rows.value(MODE, [row["repository_id"]]) or "off"  # it may have been switched off since
    ask = _ask(row, mode, case.sent, reviewing)
    call, because = decide(ask, reviewing.thresholds.t_low, reviewing.thresholds.t_high)
    review = reviewing.review(case, call, unfinished, row["pull_uri"])
    if call is Call.MISSING:
        review = replace(review, reason=because)
    if is_trial and review.model and review.state == "content verdict":
        review = replace(review, state="no content verdict", reason="on_trial")
    if not row["base_stands"]:
        review = replace(review, state="no content verdict", reason="base_elsewhere")
    asked = {
        "git_reading": git_reading,
        "asked": str(call),
        "asked_because": because,
        "reviewed_clock": store.wall(),
        "attempts": 0,
    }
    asked["failures"] = row["failures"] + (review.reason in PASSING)
    return Outcome(row, review_columns(review, case.findings) | asked, change)


def _left_to_try(rows: Rows, reviewing: Reviewing) -> list[dict[str, Any]]:
    if not reviewing.has_key:
        return []
    return left_to_read(rows, reviewing.version, reviewing.models, reviewing.screen)


def _try(store: Store, left: Sequence[Row], reviewing: Reviewing) -> int:
    """Have today's models read one more that earlier ones read, an hour after its last try; 0 where there is none."""
    latest = store.wall() - TRIED_AGAIN
    row = next((one for one in left if one["tried_clock"] is None or one["tried_clock"] < latest), None)
    if row is None or reviewing.spent() >= reviewing.budget:
        return 0
    with store.read() as rows:
        change, _ = kept_change(row, reviewing.folder)
        case, unfinished = case_of_pull(rows, row, change, reviewing.knowledge(rows, row["pull_uri"]))
    review = reviewing.review(case, Call.CLAUDE, unfinished, row["pull_uri"])
    with store.write() as txn:
        if _is_untold(row, _left_to_try(txn, reviewing)):
            note_try(txn, row["pull_uri"], reviewing.version, review)
    return int(review.state == "content verdict")


def _is_untold(row: Row, left: Sequence[Row]) -> bool:
    """Whether no reading of it was kept by this try."""
    return any((one["pull_uri"], one["tried_clock"]) == (row["pull_uri"], row["tried_clock"]) for one in left)


def _ask(row: Row, mode: Mode, submission: Submission, reviewing: Reviewing) -> Ask:
    patterns = submission.knowledge.sensitive_paths
    return Ask(
        mode=mode,
        structural_trust=row["structural_trust"],
        sensitive=any(is_sensitive(file, patterns) for file in submission.change.files),
        has_key=reviewing.has_key,
        screens=reviewing.screens,
        spent=reviewing.spent(),
        budget=reviewing.budget,
        repository_spent=reviewing.spent_by_repository().get(row["repository_id"], 0.0),
        repository_budget=reviewing.repository_budget,
        base_stands=row["base_stands"],
    )


def _write(store: Store, outcomes: Sequence[Outcome]) -> None:
    """Write rows of `content_reviews`, and the vectors of the changes that were read, in one transaction."""
    with store.write() as txn:
        txn.upsert("content_reviews", [_row(txn, one) for one in outcomes])
        if any(one.columns.get("state", RUNNING) != RUNNING for one in outcomes):
            txn.inputs_changed()
            drop_superseded(txn, [one.pull["pull_uri"] for one in outcomes])
        for one in outcomes:
            if one.change is not None:
                record_vector(txn, one.pull["pull_uri"], one.pull["patch_ref"], one.change, known_bad=False)
        txn.upsert(
            "touched_files", list({_key(one): _touched(one, one.change) for one in outcomes if one.change}.values())
        )


def _key(one: Outcome) -> tuple[str, str]:
    return one.pull["pull_uri"], one.pull["patch_ref"]


def _touched(one: Outcome, change: Change) -> dict[str, Any]:
    touched = touched_files(change)
    named = {"pull_uri": one.pull["pull_uri"], "patch_ref": one.pull["patch_ref"], "whole": touched.whole}
    return named | {"kinds": list(touched.kinds), "paths": list(touched.paths)}


def _row(txn: Transaction, one: Outcome) -> dict[str, Any]:
    names = ("pull_uri", "patch_ref", "said", "repository_id", "record_cid", "round")
    key = [one.pull["pull_uri"], one.pull["patch_ref"], one.pull["said"], REVIEW_VERSION]
    begun = {"attempts": 0, "failures": 0, "begun_clock": txn.wall(), "reviewed_clock": None}
    kept = {**begun, **(txn.row(EARLIER, key) or {})}
    return {**kept, **{name: one.pull[name] for name in names}, "rules": REVIEW_VERSION, **one.columns}
