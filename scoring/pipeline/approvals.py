"""Follows approvals: a later round voids one, and a merge fulfils it or turns out to be of something else.

The target branch has the last word: where the approved change is found on it later, it was merged as approved.
Nobody approves what they sent: such an approval, which older versions took, counts nowhere whatever became of it.

Readers compare for themselves as well (`current`): a snapshot may show a round that this hop has not met yet.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ingest.store.database import Store
from ingest.store.transaction import Rows

IN_FORCE, VOIDED, RELEASED = "in force", "voided", "released"
MERGED, MERGED_ELSE = "merged as approved", "merged something else"
OWN = "own"  # why one is void: its author sent the pull request
NOT_READ = "not_read"  # why it is something else: git reads more from the patch than was read here

# The newest round of pull requests, as an approval names it.
NEWEST = """
select p.pull_uri, p.repository_id, p.author_id, p.title, p.state, p.state_at, p.target_branch, p.opened_at,
  p.merge_proof, p.record_cid, p.round, p.patch_ref, t.patch_id, t.sha256, t.files, t.added, t.removed
from pull_requests p left join patches t on (t.pull_uri, t.patch_ref) = (p.pull_uri, p.patch_ref)
"""
SEEN = ("record_cid", "round", "patch_id")
SAME = (
    "n.record_cid is not distinct from a.record_cid and n.round = a.round "
    "and n.patch_id is not distinct from a.patch_id"
)
# Approvals that may say something of a pull request that is not settled. They meet the newest rounds in Python: one
# statement of both takes DuckDB 5 ms to plan, two take 3.
MADE = f"""
select a.*, m.actor_id, m.made_at from approvals a join maintainer_actions m using (action_key)
where a.state = '{IN_FORCE}' or a.reason in ('changed_before', 'changed_after') order by a.approved_at, a.action_key
"""
# What the mirror shows of approved changes: which were carried to the target branch, and what else of the same pull
# request was. Of a series every mail must have landed, since two rounds may share some. Of a squash only the round is
# known, so it counts where that round had one patch alone. A text from which git reads anything else than was read here
# may have brought more than the approved change, whichever commit carries that.
LANDED = f"""
select a.action_key, l.commit_id, a.state = '{IN_FORCE}' and l.landed_at >= a.approved_at as after,
  case l.proof when 'patch_id' then c.patch_id is not distinct from a.patch_id
    when 'series' then list_has_all((
      select list(d.patch_id) from landings o join commits d using (commit_id)
      where o.pull_uri = a.pull_uri and o.branch = l.branch and d.repository_id = a.repository_id), t.series)
    else l.round = a.round and (
      select count(distinct k.patch_id) from pull_rounds r join patches k using (pull_uri, patch_ref)
      where r.pull_uri = a.pull_uri and r.round = a.round) = 1 end as same,
  (select coalesce(bool_and(coalesce(k.git_reading, '') = 'same'), false) from patches k
    where k.pull_uri = a.pull_uri and k.patch_id = a.patch_id) as whole, a.state = '{IN_FORCE}' as in_force
from approvals a join landings l on l.pull_uri = a.pull_uri
left join commits c on c.repository_id = a.repository_id and c.commit_id = l.commit_id
left join patches t on t.pull_uri = a.pull_uri and t.patch_id = a.patch_id
where l.proof in ('patch_id', 'series', 'squash')
  and (a.state in ('{IN_FORCE}', '{MERGED_ELSE}') or a.reason = 'closed')
"""
# Said to be merged, and the mirror was read since: whatever landed does not carry the approved change.
ELSEWHERE = f"""
select a.action_key from approvals a join pull_requests p using (pull_uri)
join mirrors m on m.repository_id = a.repository_id
where a.state = '{IN_FORCE}' and p.state = 'merged' and m.read_at > p.state_at
"""
# Of one's own pull request, whatever was said of it before.
OWN_WORK = f"""
select a.action_key from approvals a join maintainer_actions m using (action_key)
join pull_requests p on p.pull_uri = a.pull_uri and p.author_id = m.actor_id
where a.state <> '{RELEASED}' and a.reason is distinct from '{OWN}'
"""
# In force, though what it names does not stand any more.
FALLEN = f"""
select a.action_key, case when n.pull_uri is null or m.action_key is null then 'gone'
  when not ({SAME}) then 'changed_after' else 'closed' end as reason
from approvals a left join ({NEWEST}) n on n.pull_uri = a.pull_uri
left join maintainer_actions m on m.action_key = a.action_key
where a.state = '{IN_FORCE}'
  and (n.pull_uri is null or m.action_key is null or not ({SAME}) or n.state not in ('open', 'merged'))
"""


def settle_approvals(store: Store, now: datetime) -> int:
    """Move every approval on whose time has come; returns how many. A merge comes before a later round.

    Work is read outside the writer's transaction, since mostly there is none.
    """
    with store.read() as rows:
        moves = _moves(rows)
    if not moves:
        return 0
    with store.write() as txn:
        moves = _moves(txn)
        for key, (state, reason, evidence) in moves.items():
            txn.execute(
                "update approvals set state = ?, reason = ?, evidence = ?, state_at = ? where action_key = ?",
                [state, reason, evidence, now, key],
            )
        if moves:
            txn.inputs_changed()
    return len(moves)


Move = tuple[str, str | None, str | None]  # state, reason, evidence
Row = dict[str, Any]


def _moves(rows: Rows) -> Mapping[str, Move]:
    """Return what to do, by action key; the first rule that applies to an approval."""
    if not rows.value("select count(*) from approvals"):
        return {}
    moves: dict[str, Move] = {row["action_key"]: (VOIDED, OWN, None) for row in rows.rows(OWN_WORK)}
    landed = [row for row in rows.rows(LANDED) if row["same"] or row["after"]]
    for row in sorted(landed, key=lambda row: (not row["same"], row["commit_id"])):
        if row["same"] and row["whole"]:
            moves.setdefault(row["action_key"], (MERGED, None, row["commit_id"]))
        elif row["in_force"]:
            moves.setdefault(row["action_key"], (MERGED_ELSE, NOT_READ if row["same"] else None, row["commit_id"]))
    for row in rows.rows(ELSEWHERE):
        moves.setdefault(row["action_key"], (MERGED_ELSE, None, None))
    for row in rows.rows(FALLEN):
        moves.setdefault(row["action_key"], (VOIDED, row["reason"], None))
    return moves


def current(rows: Rows) -> tuple[list[Row], list[Row]]:
    """(approvals in force of what is still newest, approvals that a later round voided), one for each pull request.

    A row holds the columns of `approvals`, `actor_id` and `made_at`, and as "newest" the row of NEWEST. Of the first
    kind the earliest counts and stands until the merge is seen, of the second the latest, while the request is open.
    """
    made = rows.rows(MADE)
    uris = sorted({row["pull_uri"] for row in made})
    newest = (
        {row["pull_uri"]: row for row in rows.rows(f"{NEWEST} where list_contains(?, p.pull_uri)", [uris])}
        if made
        else {}
    )
    standing: dict[str, Row] = {}
    changed: dict[str, Row] = {}
    for row in made:
        found = newest.get(row["pull_uri"])
        if found is None or row["actor_id"] == found["author_id"]:
            continue
        whole = row | {"newest": found}
        if all(row[name] == found[name] for name in SEEN):
            if row["state"] == IN_FORCE and found["state"] in ("open", "merged"):
                standing.setdefault(row["pull_uri"], whole)
        elif found["state"] == "open":
            changed[row["pull_uri"]] = whole
    return list(standing.values()), [row for uri, row in changed.items() if uri not in standing]


def voided(rows: Rows) -> set[str]:
    """Open pull requests that changed after somebody approved them: these are never fast lane.

    A later approval of what stands now ends it.
    """
    return {row["pull_uri"] for row in current(rows)[1]}
