"""The pull requests of one contributor with what became of each, in words: what was mined, and what a person marked."""

from collections.abc import Mapping
from typing import Any

from ingest.transaction import Rows
from scoring.answers import PullLine
from scoring.derived import display_name
from scoring.shaping import CLAIMS

SHOWN = 100
SUBJECT = 80  # characters of a commit's subject that are shown
UNMERGED = {"open": "open", "closed": "closed unmerged"}
MARKS = {"clean": "clean", "needed_fix": "needed a fix", "reverted": "reverted"}
PULLS = """
select p.*, coalesce(r.name, r.repo_key) as name,
  case when k.pull_uri is null then l.clean else k.mined_clean end as clean, w.repository_id is not null as watched
from pull_requests p join repositories r using (repository_id) left join labels l using (pull_uri)
left join marks k using (pull_uri) left join watched_repositories w using (repository_id)
where p.author_id = ? order by p.opened_at desc, p.pull_uri limit ?
"""
MARKED = """
select k.pull_uri, k.outcome, k.mined_clean, c.did, c.handle, c.handle_verified
from marks k join contributors c on c.contributor_id = k.actor_id where list_contains(?, k.pull_uri)
"""
# What marked a merge: the commit that took it back, else the first that changed lines of it.
TROUBLE = """
select f.pull_uri, f.kind, f.evidence, c.subject
from pull_followups f join pull_requests p using (pull_uri)
left join commits c on c.repository_id = p.repository_id and c.commit_id = f.evidence
where list_contains(?, f.pull_uri)
qualify row_number() over (
  partition by f.pull_uri order by f.kind = 'reverted' desc, f.happened_at, f.evidence
) = 1
"""
TROUBLES = {"reverted": "reverted by commit", "patched": "its lines changed by commit"}


def pull_lines(rows: Rows, number: int) -> tuple[PullLine, ...]:
    """The newest 100 pull requests of the contributor with this number, newest first."""
    found = rows.rows(PULLS, [number, SHOWN])
    uris = [row["pull_uri"] for row in found]
    marks, troubles = marks_in_words(rows, uris), troubles_in_words(rows, uris)
    return tuple(
        PullLine(
            row["pull_uri"],
            row["title"],
            row["name"],
            row["opened_at"],
            row["state"],
            _both(marks.get(row["pull_uri"]), _outcome(row, troubles.get(row["pull_uri"]))),
            row["watched"],
        )
        for row in found
    )


def marks_in_words(rows: Rows, uris: list[str]) -> dict[str, str]:
    """Who marked these pull requests as what, such as "marked needed a fix by ana.example.com", by address."""
    found = rows.rows(MARKED, [uris]) if uris else []
    return {row["pull_uri"]: f"marked {MARKS[row['outcome']]} by {display_name(row)}" for row in found}


def troubles_in_words(rows: Rows, uris: list[str]) -> dict[str, str]:
    """Name the commit that marked each of these merges, such as 'reverted by commit 1f0c… ("Back")', by address."""
    found = rows.rows(TROUBLE, [uris]) if uris else []
    return {row["pull_uri"]: _trouble(row) for row in found}


def _trouble(row: Mapping[str, Any]) -> str:
    subject = f' ("{row["subject"][:SUBJECT]}")' if row["subject"] else ""
    return f"{TROUBLES[row['kind']]} {row['evidence'][:12]}{subject}"


def outcome_in_words(rows: Rows, uri: str) -> str | None:
    """The mark that stands for one pull request and what was mined of it; None where nobody marked it."""
    mark = marks_in_words(rows, [uri]).get(uri)
    if mark is None:
        return None
    mined = rows.value("select mined_clean from marks where pull_uri = ?", [uri])
    trouble = troubles_in_words(rows, [uri]).get(uri, "not clean")
    return _both(mark, "nothing yet" if mined is None else "clean" if mined else trouble)


def _both(mark: str | None, mined: str) -> str:
    return f"{mark}; mined: {mined}" if mark else mined


def _outcome(row: Mapping[str, Any], trouble: str | None) -> str:
    """Say what became of a pull request, and what marked it."""
    if row["state"] == "merged" and row["merge_proof"] != "verified":
        return "merged by its author, counts for nobody's record"
    if row["state"] == "merged" and row["clean"] is None:
        return "merged, still being watched or in a repository that does not count"
    if row["state"] == "merged":
        return "clean merge" if row["clean"] else f"merged, then {trouble or 'fixed or reverted'}"
    if row["state"] == "abandoned":
        return "record deleted"
    claim = CLAIMS.get(row["merge_proof"])
    return UNMERGED[row["state"]] + (f"; {claim}" if claim else "")
