"""Reviews the newest round of each open pull request of a watched repository once.

A query finds the pull requests that are due. A review runs outside any lock and ends in one row, which exists as
'running' before the reading begins: content that crashes the program is tried TRIES times and then has no verdict.

Reviewers get the stored change and the words beside it, without names of people.

A new prompt or model is on trial first: it reads the last 200 changes again before it may open a lane. Until then its
readings are shown and raise the risk, but count as no content verdict. A reading that fails for a temporary reason
does not count, so an outage does not end a trial.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any

from ingest.git.apply_check import GitReading, compare_with_git
from ingest.git.patch import PatchProblem, load_patch
from ingest.store.database import Store
from ingest.store.migrate import drop_superseded
from ingest.store.transaction import Rows, Transaction
from scoring.config.repository import Mode
from scoring.diff.change import Change
from scoring.diff.parser import apply_git_reading, read_change
from scoring.diff.paths import is_sensitive
from scoring.diff.similarity import record_vector
from scoring.review.costs import Call, GateFacts, decide
from scoring.review.first_rounds import touched_row
from scoring.review.payload import Case
from scoring.review.schema import TEMPORARY_REASONS, Review
from scoring.review.store import RUNNING, follow_known_bad, review_columns
from scoring.review.store import UNFINISHED as EMPTY
from scoring.scanners.run import REVIEW_VERSION, examine
from scoring.scanners.submission import Account, Knowledge, Submission
from scoring.scanners.whole_files import whole_files
from scoring.thresholds import Thresholds
from scoring.types import Finding, Severity

COMMENTS = 30  # of other people, the newest
DISCUSSION = """
select author_id, body from comments where subject_uri = ? and author_id <> ? and deleted_at is null
order by seen_at desc, uri limit ?
"""
# People besides the author whose names are scrubbed: the owner, push-holders and commenters.
OTHERS = """
select did, handle from contributors where contributor_id in (
  select contributor_id from push_holders where repository_id = $repository
  union select owner_id from repositories where repository_id = $repository
  union select author_id from comments where subject_uri = $pull
)
"""
Row = Mapping[str, Any]


def load_change(row: Row, folder: Path) -> tuple[Change, str]:
    """Load the stored change and git's reading of its text ('unknown' if git could not be asked).

    A change counts as not wholly read if its patch was cut, is gone, or git reads it differently.
    """
    try:
        text = load_patch(folder, row["sha256"])
    except PatchProblem:
        missing_patch = Finding("reading", "not-kept", "oversized", Severity.MED, "The patch is no longer stored.")
        return Change((), (), (missing_patch,), 0.0), row["git_reading"] or "unknown"
    change = read_change(text)
    if row["patch_state"] == "oversized":
        return _mark_as_cut(change, text, row), row["git_reading"] or "unknown"
    state = row["git_reading"]
    reading = GitReading(state, row["git_line"]) if state else compare_with_git(text.encode())
    return apply_git_reading(change, reading, text), reading.state if reading else "unknown"


def _mark_as_cut(change: Change, text: str, row: Row) -> Change:
    size = len(text.encode())
    cut_finding = Finding(
        "reading", "cut", "oversized", Severity.MED, f"Only the first {size:,} bytes of the patch were fetched."
    )
    share = min(change.coverage, size / max(row["bytes"], size + 1))
    return replace(change, problems=(*change.problems, cut_finding), coverage=share)


def case_of_pull(rows: Rows, row: Row, change: Change, knowledge: Knowledge) -> tuple[Case, tuple[str, ...]]:
    """Return the case of a pull request and the ids of scanners that did not finish."""
    submission = _submission(rows, row, change, knowledge)
    people = rows.rows(OTHERS, {"repository": row["repository_id"], "pull": row["pull_uri"]})
    other_names = [name for person in people for name in person.values() if name]
    examined = examine(submission)
    return Case.of(submission, examined.findings, other_names), examined.unfinished


def _submission(rows: Rows, row: Row, change: Change, knowledge: Knowledge) -> Submission:
    person = rows.row("select did, handle from contributors where contributor_id = ?", [row["author_id"]])
    account = Account(person["did"], person["handle"]) if person else None
    comments = rows.rows(DISCUSSION, [row["pull_uri"], row["author_id"], COMMENTS])
    roles = {
        author: f"reviewer-{number}"
        for number, author in enumerate(dict.fromkeys(comment["author_id"] for comment in comments), 1)
    }
    return Submission(
        change=change,
        title=row["title"],
        description=row["body"],
        discussion=tuple((roles[comment["author_id"]], comment["body"]) for comment in reversed(comments)),
        knowledge=replace(knowledge, account=knowledge.account or account),
        whole=whole_files(change, knowledge.base_files(change)),
    )


READ_AGAIN = 200
GIVEN_UP = 5  # tries of one change, if another was read since: an unreadable diff must not block a trial
# The newest changes with a stored patch that an earlier prompt or model has read and today's has not. Readings by the
# screening model do not count: it opens no lane, since it replaces only readings that trust alone would skip.
LEFT = f"""
with today as (
  select * from reviews where pull_uri is not null and prompt_version = $version and list_contains($models, model)
), tried as (
  select pull_uri, max(started_clock) as tried_clock,
    count(*) filter (not coalesce(reason in ('over_budget', 'over_repository_budget'), false)) as tries,
    bool_or(
      state = 'content verdict' or (state = 'no content verdict' and not list_contains($passing, reason))
    ) as is_read
  from today group by pull_uri
), old as (
  select pull_uri, max(started_clock) as read_at from reviews
  where pull_uri is not null and state = 'content verdict' and model <> $screen
    and not (prompt_version = $version and list_contains($models, model))
  group by pull_uri order by read_at desc, pull_uri limit {READ_AGAIN}
)
select p.pull_uri, p.patch_ref, p.round, p.record_cid, p.author_id, p.repository_id, p.title, p.body, w.review,
  md5(concat_ws(chr(31), p.title, p.body)) as said, k.sha256, k.bytes, k.state as patch_state, 0.0 as structural_trust,
  k.git_reading, k.git_line,
  n.tried_clock
from old
join pull_requests p on p.pull_uri = old.pull_uri
join watched_repositories w on w.repository_id = p.repository_id and w.review = 'claude'
join patches k on k.pull_uri = p.pull_uri and k.patch_ref = p.patch_ref and k.sha256 is not null
left join tried n on n.pull_uri = old.pull_uri
where not coalesce(n.is_read, false) and not coalesce(n.tries >= {GIVEN_UP} and n.tried_clock < (
  select max(started_clock) from today where state = 'content verdict'
), false)
order by coalesce(n.tries, 0), old.read_at desc, p.pull_uri
"""
LEFT_OPEN = [
    *TEMPORARY_REASONS,
    "over_budget",
    "over_repository_budget",
    "abandoned",
]  # with these reasons the change was not read


def left_to_read(rows: Rows, prompt_version: str, models: Sequence[str], screen: str = "") -> list[dict[str, Any]]:
    """Return the changes that today's prompt and models must still read for their trial, least tried first.

    `models` read in full, `screen` only screens. `tried_clock` is the moment of a change's last try, None without one.
    """
    parameters = {"version": prompt_version, "models": list(models), "screen": screen, "passing": LEFT_OPEN}
    return rows.rows(LEFT, parameters)


def note_try(txn: Transaction, pull_uri: str, prompt_version: str, review: Review) -> None:
    """Record a try that cost nothing: the ledger held the answer, or no call reached a model."""
    now = txn.wall()
    try_key = f"{pull_uri} {prompt_version} {review.model}"
    txn.upsert(
        "reviews",
        [
            {
                "review_id": f"{try_key} {now.isoformat()}",
                "cache_key": try_key,
                "content_hash": "",
                "prompt_version": prompt_version,
                "model": review.model,
                "pull_uri": pull_uri,
                "state": review.state,
                "reason": review.reason,
                "verdict": "{}",
                "coverage": review.coverage,
                "input_tokens": 0,
                "output_tokens": 0,
                "cache_write_tokens": 0,
                "cache_read_tokens": 0,
                "dollars": 0.0,
                "started_clock": now,
                "ended_clock": now,
            }
        ],
    )


# A turn ends after so many reviews or seconds, so that finished ones are scored and published before the rest. Such a
# pass costs as much as ten reviews by scanners.
BATCH, TURN_SECONDS = 200, 5.0
GROUP = (
    20  # reviews by scanners between two transactions; a model may read for minutes, so those are written one by one
)
TRIES = 2
TRIED_AGAIN = timedelta(hours=1)
AGAIN = 5  # times that a failed reading is repeated; the wait grows by an hour each time
# Open pull requests without a review by these rules, or for which the cost gate would now choose another reader; newest
# first, since somebody waits for those. Readings without a budget wait until there is one.
# The author of a comparison of two commits chose its base: where that is not on the target branch, a merge brings more
# than the patch.
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
REVIEW_BEFORE = "from content_reviews where pull_uri = ? and patch_ref = ? and said = ? and rules = ?"
MODE = "select review from watched_repositories where repository_id = ?"

ReviewCase = Callable[[Case, Call, tuple[str, ...], str], Review]


@dataclass(frozen=True, slots=True)
class Reviewing:
    """The means and limits of reviews.

    `spent` and `spent_by_repository` give this day's cost so far, `budget` and `repository_budget` the limits for the
    site and for one repository, in dollars. `review` is `Reviewer.review`; `knowledge` reads the facts about the pull
    request at an address from the rows.
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
    learn: Callable[[Change], object] = lambda change: None  # looks up what a change names, where allowed
    clock: Callable[[], float] = monotonic
    version: str = ""  # of the prompt
    models: tuple[str, ...] = ()  # that may read in full
    screen: str = ""  # the model that only screens


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result for one due pull request: the columns of its row, and the change if it was read."""

    pull: Row
    columns: Mapping[str, Any]
    change: Change | None = None


def review_due(store: Store, reviewing: Reviewing) -> int:
    """Review the due pull requests, or one more for a trial if none is due; return the number of reviews."""
    parameters = _due_parameters(reviewing) | {"now": store.wall(), "limit": BATCH}
    with store.write() as txn:
        follow_known_bad(txn)
        left_to_try = _left_to_try(txn, reviewing)
        due_pulls = txn.rows(DUE, {**parameters, "trying": bool(left_to_try)})
    if left_to_try and not due_pulls:
        return _try_again(store, left_to_try, reviewing)
    deadline, reviewed = reviewing.clock() + TURN_SECONDS, 0
    for group in _group_for_writing(due_pulls, 1 if reviewing.has_key else GROUP):
        _review_group(store, group, reviewing)
        reviewed += len(group)
        if reviewing.clock() > deadline:
            break
    return reviewed


def _due_parameters(reviewing: Reviewing) -> dict[str, Any]:
    spent = reviewing.spent_by_repository()
    return {
        "rules": REVIEW_VERSION,
        "passing": list(TEMPORARY_REASONS),
        "most": AGAIN,
        "has_key": reviewing.has_key,
        "has_dollars": reviewing.has_key and reviewing.spent() < reviewing.budget,
        "spent_out": [number for number, dollars in spent.items() if dollars >= reviewing.repository_budget],
        "t_high": reviewing.thresholds.t_high,
    }


def _group_for_writing(due_pulls: Sequence[Row], size: int) -> Iterator[Sequence[Row]]:
    """Yield groups that are begun and written together; then, one by one, those that an earlier turn did not end."""
    first_tries = [row for row in due_pulls if not row["attempts"]]
    yield from (first_tries[begin : begin + size] for begin in range(0, len(first_tries), size))
    yield from ([row] for row in due_pulls if row["attempts"])


def _review_group(store: Store, group: Sequence[Row], reviewing: Reviewing) -> None:
    """Review a group and write the outcomes; a pull request that crashed the program each time gets no verdict."""
    if group[0]["attempts"] >= TRIES:
        failed = {"state": "no content verdict", "missing": "review_failed", "asked": "missing", "recommended": True}
        failed["git_reading"] = group[0]["git_reading"] or "unknown"
        columns = {
            **_columns_while_reading(group[0]),
            **failed,
            "asked_because": "review_failed",
            "reviewed_clock": store.wall(),
        }
        _write_outcomes(store, [Outcome(group[0], columns)])
        return
    _write_outcomes(
        store, [Outcome(row, {**_columns_while_reading(row), "attempts": row["attempts"] + 1}) for row in group]
    )
    _write_outcomes(store, [_review_pull(store, row, reviewing) for row in group])


def _columns_while_reading(row: Row) -> Mapping[str, Any]:
    """Return the columns during a reading: none, so that earlier flags stay, or those of an unfinished review."""
    return {} if row["has_review"] else EMPTY


def _review_pull(store: Store, row: Row, reviewing: Reviewing) -> Outcome:
    change, git_reading = load_change(row, reviewing.folder)
    if row["review"] != "off":
        reviewing.learn(change)
    with store.read() as rows:
        case, unfinished = case_of_pull(rows, row, change, reviewing.knowledge(rows, row["pull_uri"]))
        is_trial = bool(_left_to_try(rows, reviewing))
        mode: Mode = rows.value(MODE, [row["repository_id"]]) or "off"  # it may be switched off by now
    ask = _gate_facts(row, mode, case.sent, reviewing)
    call, call_reason = decide(ask, reviewing.thresholds.t_low, reviewing.thresholds.t_high)
    review = reviewing.review(case, call, unfinished, row["pull_uri"])
    if call is Call.MISSING:
        review = replace(review, reason=call_reason)
    if is_trial and review.model and review.state == "content verdict":
        review = replace(review, state="no content verdict", reason="on_trial")
    if not row["base_stands"]:
        review = replace(review, state="no content verdict", reason="base_elsewhere")
    columns = {
        "git_reading": git_reading,
        "asked": str(call),
        "asked_because": call_reason,
        "reviewed_clock": store.wall(),
        "attempts": 0,
    }
    columns["failures"] = row["failures"] + (review.reason in TEMPORARY_REASONS)
    return Outcome(row, review_columns(review, case.findings) | columns, change)


def _left_to_try(rows: Rows, reviewing: Reviewing) -> list[dict[str, Any]]:
    if not reviewing.has_key:
        return []
    return left_to_read(rows, reviewing.version, reviewing.models, reviewing.screen)


def _try_again(store: Store, left_to_try: Sequence[Row], reviewing: Reviewing) -> int:
    """Have today's models read one change for their trial, an hour after its last try; 0 if none is ready."""
    latest = store.wall() - TRIED_AGAIN
    row = next(
        (
            candidate
            for candidate in left_to_try
            if candidate["tried_clock"] is None or candidate["tried_clock"] < latest
        ),
        None,
    )
    if row is None or reviewing.spent() >= reviewing.budget:
        return 0
    with store.read() as rows:
        change, _ = load_change(row, reviewing.folder)
        case, unfinished = case_of_pull(rows, row, change, reviewing.knowledge(rows, row["pull_uri"]))
    review = reviewing.review(case, Call.CLAUDE, unfinished, row["pull_uri"])
    with store.write() as txn:
        if _is_still_left(row, _left_to_try(txn, reviewing)):
            note_try(txn, row["pull_uri"], reviewing.version, review)
    return int(review.state == "content verdict")


def _is_still_left(row: Row, left_to_try: Sequence[Row]) -> bool:
    """Return whether this try left no record of a reading."""
    return any(
        (candidate["pull_uri"], candidate["tried_clock"]) == (row["pull_uri"], row["tried_clock"])
        for candidate in left_to_try
    )


def _gate_facts(row: Row, mode: Mode, submission: Submission, reviewing: Reviewing) -> GateFacts:
    patterns = submission.knowledge.sensitive_paths
    return GateFacts(
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


def _write_outcomes(store: Store, outcomes: Sequence[Outcome]) -> None:
    """Write rows of `content_reviews`, vectors and touched files of the reviewed changes in one transaction."""
    with store.write() as txn:
        txn.upsert("content_reviews", [_review_row(txn, outcome) for outcome in outcomes])
        if any(outcome.columns.get("state", RUNNING) != RUNNING for outcome in outcomes):
            txn.inputs_changed()
            drop_superseded(txn, [outcome.pull["pull_uri"] for outcome in outcomes])
        for outcome in outcomes:
            if outcome.change is not None:
                record_vector(txn, outcome.pull["pull_uri"], outcome.pull["patch_ref"], outcome.change, known_bad=False)
        changes = {(one.pull["pull_uri"], one.pull["patch_ref"]): one.change for one in outcomes if one.change}
        txn.upsert("touched_files", [touched_row(*round_key, change) for round_key, change in changes.items()])


def _review_row(txn: Transaction, outcome: Outcome) -> dict[str, Any]:
    names = ("pull_uri", "patch_ref", "said", "repository_id", "record_cid", "round")
    key = [outcome.pull["pull_uri"], outcome.pull["patch_ref"], outcome.pull["said"], REVIEW_VERSION]
    first_values = {"attempts": 0, "failures": 0, "begun_clock": txn.wall(), "reviewed_clock": None}
    earlier = {**first_values, **(txn.row(REVIEW_BEFORE, key) or {})}
    return {**earlier, **{name: outcome.pull[name] for name in names}, "rules": REVIEW_VERSION, **outcome.columns}
