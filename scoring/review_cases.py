"""A pull request as reviewers are given it: its change as it is kept here, the words beside it, nobody's name."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ingest.git_reading import GitReading, compare_with_git
from ingest.patches import PatchProblem, load_patch
from ingest.transaction import Rows
from scoring.content.change import Change
from scoring.content.examine import examine
from scoring.content.finding import Finding, Severity
from scoring.content.reading import compared, read_change
from scoring.content.submission import Account, Knowledge, Submission
from scoring.content.whole_files import whole_files
from scoring.rendering import Case

COMMENTS = 30  # of other people, the newest
DISCUSSION = """
select author_id, body from comments where subject_uri = ? and author_id <> ? and deleted_at is null
order by seen_at desc, uri limit ?
"""
# Whose names a reviewer must not read: owners, push-holders and all who spoke.
OTHERS = """
select did, handle from contributors where contributor_id in (
  select contributor_id from push_holders where repository_id = $repository
  union select owner_id from repositories where repository_id = $repository
  union select author_id from comments where subject_uri = $pull
)
"""
Row = Mapping[str, Any]


def kept_change(row: Row, folder: Path) -> tuple[Change, str]:
    """The change as it is kept, and how git reads its text ('unknown' where git cannot be asked).

    One whose patch was cut, is not kept any more or is read otherwise by git was not read whole.
    """
    try:
        text = load_patch(folder, row["sha256"])
    except PatchProblem:
        gone = Finding("reading", "not-kept", "oversized", Severity.MED, "The patch is no longer stored.")
        return Change((), (), (gone,), 0.0), row["git_reading"] or "unknown"
    change = read_change(text)
    if row["patch_state"] == "oversized":
        return _cut(change, text, row), row["git_reading"] or "unknown"
    state = row["git_reading"]
    reading = GitReading(state, row["git_line"]) if state else compare_with_git(text.encode())
    return compared(change, reading, text), reading.state if reading else "unknown"


def _cut(change: Change, text: str, row: Row) -> Change:
    size = len(text.encode())
    cut = Finding(
        "reading", "cut", "oversized", Severity.MED, f"Only the first {size:,} bytes of the patch were fetched."
    )
    share = min(change.coverage, size / max(row["bytes"], size + 1))
    return replace(change, problems=(*change.problems, cut), coverage=share)


def case_of_pull(rows: Rows, row: Row, change: Change, knowledge: Knowledge) -> tuple[Case, tuple[str, ...]]:
    """What reviewers are handed of a pull request, and the ids of scanners that were cut off."""
    submission = _submission(rows, row, change, knowledge)
    named = rows.rows(OTHERS, {"repository": row["repository_id"], "pull": row["pull_uri"]})
    others = [name for person in named for name in person.values() if name]
    examined = examine(submission)
    return Case.of(submission, examined.findings, others), examined.unfinished


def _submission(rows: Rows, row: Row, change: Change, knowledge: Knowledge) -> Submission:
    person = rows.row("select did, handle from contributors where contributor_id = ?", [row["author_id"]])
    account = Account(person["did"], person["handle"]) if person else None
    said = rows.rows(DISCUSSION, [row["pull_uri"], row["author_id"], COMMENTS])
    roles = {
        author: f"reviewer-{place}" for place, author in enumerate(dict.fromkeys(one["author_id"] for one in said), 1)
    }
    return Submission(
        change=change,
        title=row["title"],
        description=row["body"],
        discussion=tuple((roles[one["author_id"]], one["body"]) for one in reversed(said)),
        knowledge=replace(knowledge, account=knowledge.account or account),
        whole=whole_files(change, knowledge.base_files(change)),
    )
