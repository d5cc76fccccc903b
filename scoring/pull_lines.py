"""The pull requests of one contributor with what became of each, in words: what was mined, and what a person marked."""

from collections.abc import Mapping, Sequence
from typing import Any

from ingest.transaction import Rows
from scoring.answers import PullLine, Record
from scoring.derived import display_name
from scoring.shaping import CLAIMS

SHOWN = 100
SUBJECT = 80  # characters of a commit's subject that are shown
# A person's mark counts before what was mined, as in the record that a score rests on.
RESULT = """
case when p.state = 'abandoned' then 'deleted' when p.state = 'open' then 'open'
  when p.state <> 'merged' then 'unmerged'
  when p.merge_proof is distinct from 'verified' then 'uncounted'
  when k.pull_uri is not null then if(k.outcome = 'clean', 'clean', 'bad')
  when l.clean is null then 'watching' when l.clean then 'clean' else 'bad' end
"""
UNMERGED = {"open": "open", "closed": "not merged"}
MARKS = {"clean": "clean", "needed_fix": "needed a fix", "reverted": "reverted"}
PULLS = f"""
select p.*, coalesce(r.name, r.repo_key) as name, h.number, x.added, x.removed,
  case when k.pull_uri is null then l.clean else k.mined_clean end as clean, w.repository_id is not null as watched,
  {RESULT} as result
from pull_requests p join repositories r using (repository_id) left join labels l using (pull_uri)
left join marks k using (pull_uri) left join watched_repositories w using (repository_id)
left join pull_pages h using (pull_uri)
left join patches x on x.pull_uri = p.pull_uri and x.patch_ref = p.patch_ref and x.state = 'read'
where p.author_id = ? order by p.opened_at desc, p.pull_uri limit ?
"""
COUNTED = f"""
select {RESULT} as result, count(*) as pulls, min(p.opened_at) as first_at, max(p.opened_at) as newest_at
from pull_requests p left join labels l using (pull_uri) left join marks k using (pull_uri)
where p.author_id = ? group by 1
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
    outcomes = outcomes_in_words(rows, found)
    return tuple(
        PullLine(
            row["pull_uri"],
            row["title"],
            row["name"],
            row["opened_at"],
            row["state"],
            outcomes[row["pull_uri"]],
            row["watched"],
            row["result"],
            f"{row['name']} #{row['number']}" if row["number"] else f"{row['name']} · {row['pull_uri'][-5:]}",
            row["added"],
            row["removed"],
        )
        for row in found
    )


def outcomes_in_words(rows: Rows, found: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Say what became of each of these pull requests, rows of PULLS, by address."""
    uris = [row["pull_uri"] for row in found]
    marks, troubles = marks_in_words(rows, uris), troubles_in_words(rows, uris)
    return {uri: _both(marks.get(uri), _outcome(row, troubles.get(uri))) for uri, row in zip(uris, found, strict=True)}


def record_of(rows: Rows, number: int) -> Record:
    """How many pull requests of the contributor with this number came to which result."""
    found = rows.rows(COUNTED, [number])
    return Record(
        {row["result"]: row["pulls"] for row in found},
        min((row["first_at"] for row in found), default=None),
        max((row["newest_at"] for row in found), default=None),
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
    """The mark of one pull request, which counts, and what Git shows of it; None where nobody marked it."""
    mark = marks_in_words(rows, [uri]).get(uri)
    if mark is None:
        return None
    mined = rows.value("select mined_clean from marks where pull_uri = ?", [uri])
    trouble = troubles_in_words(rows, [uri]).get(uri, "not clean")
    if mined is None:
        return f"{mark}; Git shows no revert yet"
    return f"{mark}; Git shows {'it clean' if mined else trouble}"


def _both(mark: str | None, mined: str) -> str:
    return f"{mark}; {mined}" if mark else mined


def _outcome(row: Mapping[str, Any], trouble: str | None) -> str:
    """Say what became of a pull request, and what marked it."""
    if row["state"] == "merged" and row["merge_proof"] != "verified":
        return "author says merged, unconfirmed"
    if row["state"] == "merged" and row["clean"] is None:
        return "merged, not counted yet"
    if row["state"] == "merged":
        return "clean merge" if row["clean"] else f"merged, then {trouble or 'fixed or reverted'}"
    if row["state"] == "abandoned":
        return "record deleted"
    claim = CLAIMS.get(row["merge_proof"])
    return UNMERGED[row["state"]] + (f"; {claim}" if claim else "")
