"""Follows approvals: a later round voids one; a merge fulfils it, or turns out to be a merge of another change.

The target branch has the last word: where the approved change is found on it later, it was merged as approved. Nobody
can approve their own pull request: such an approval, which older versions accepted, never counts.

Readers also compare rounds themselves (`current_approvals`): a snapshot may show a round that this hop has not met yet.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ingest.store.database import Store
from ingest.store.transaction import Rows

IN_FORCE, VOIDED, RELEASED = "in force", "voided", "released"
MERGED, MERGED_ELSE = "merged as approved", "merged something else"
OWN = "own"  # why one is void: its author sent the pull request
NOT_READ = "not_read"  # why it counts as another change: git reads more from the patch than was read here

# The newest round of pull requests, as an approval names it.
NEWEST = """
select p.pull_uri, p.repository_id, p.author_id, p.title, p.state, p.state_at, p.target_branch, p.opened_at,
  p.merge_proof, p.record_cid, p.round, p.patch_ref, t.patch_id, t.sha256, t.files, t.added, t.removed
from pull_requests p left join patches t on (t.pull_uri, t.patch_ref) = (p.pull_uri, p.patch_ref)
"""
ROUND_KEY = ("record_cid", "round", "patch_id")
IS_NEWEST = (
    "n.record_cid is not distinct from a.record_cid and n.round = a.round "
    "and n.patch_id is not distinct from a.patch_id"
)
# Approvals that may bear on a pull request that is not settled. They are joined with the newest rounds in Python: one
# statement of both takes DuckDB 5 ms to plan, two take 3.
UNSETTLED = f"""
select a.*, m.actor_id, m.made_at from approvals a join maintainer_actions m using (action_key)
where a.state = '{IN_FORCE}' or a.reason in ('changed_before', 'changed_after') order by a.approved_at, a.action_key
"""
# Landings of pull requests with an approval, of the approved change or of another one. Every mail of a series must have
# landed, since two rounds may share some. Of a squash only the round is known, so it counts where that round had a
# single patch. A text from which git reads anything else than was read here may have brought more than the approved
# change, whichever commit carries it.
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
# Marked as merged, and the mirror was read since: the approved change is not on the target branch.
NOT_ON_BRANCH = f"""
select a.action_key from approvals a join pull_requests p using (pull_uri)
join mirrors m on m.repository_id = a.repository_id
where a.state = '{IN_FORCE}' and p.state = 'merged' and m.read_at > p.state_at
"""
# Approvals of one's own pull request, in any state.
OWN_WORK = f"""
select a.action_key from approvals a join maintainer_actions m using (action_key)
join pull_requests p on p.pull_uri = a.pull_uri and p.author_id = m.actor_id
where a.state <> '{RELEASED}' and a.reason is distinct from '{OWN}'
"""
# Approvals in force of a round that is not the newest any more, or of a pull request that is gone or closed.
OVERTAKEN = f"""
select a.action_key, case when n.pull_uri is null or m.action_key is null then 'gone'
  when not ({IS_NEWEST}) then 'changed_after' else 'closed' end as reason
from approvals a left join ({NEWEST}) n on n.pull_uri = a.pull_uri
left join maintainer_actions m on m.action_key = a.action_key
where a.state = '{IN_FORCE}'
  and (n.pull_uri is null or m.action_key is null or not ({IS_NEWEST}) or n.state not in ('open', 'merged'))
"""


def settle_approvals(store: Store, now: datetime) -> int:
    """Void or fulfil approvals; return how many changed. A merge comes before a later round.

    Work is first looked for outside the writer's transaction, since mostly there is none.
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
    """Return the new state of approvals by action key; the first rule that applies to one counts."""
    if not rows.value("select count(*) from approvals"):
        return {}
    moves: dict[str, Move] = {row["action_key"]: (VOIDED, OWN, None) for row in rows.rows(OWN_WORK)}
    landed = [row for row in rows.rows(LANDED) if row["same"] or row["after"]]
    for row in sorted(landed, key=lambda row: (not row["same"], row["commit_id"])):
        if row["same"] and row["whole"]:
            moves.setdefault(row["action_key"], (MERGED, None, row["commit_id"]))
        elif row["in_force"]:
            moves.setdefault(row["action_key"], (MERGED_ELSE, NOT_READ if row["same"] else None, row["commit_id"]))
    for row in rows.rows(NOT_ON_BRANCH):
        moves.setdefault(row["action_key"], (MERGED_ELSE, None, None))
    for row in rows.rows(OVERTAKEN):
        moves.setdefault(row["action_key"], (VOIDED, row["reason"], None))
    return moves


def current_approvals(rows: Rows) -> tuple[list[Row], list[Row]]:
    """Return (approvals in force of the newest round, approvals that a later round voided), one for each pull request.

    A row holds the columns of `approvals`, `actor_id` and `made_at`, and as "newest" the row of NEWEST. Of the first
    kind the earliest counts, until the merge is seen; of the second the latest, while the pull request is open.
    """
    approvals = rows.rows(UNSETTLED)
    if not approvals:
        return [], []
    uris = sorted({row["pull_uri"] for row in approvals})
    rounds = {row["pull_uri"]: row for row in rows.rows(f"{NEWEST} where list_contains(?, p.pull_uri)", [uris])}
    in_force: dict[str, Row] = {}
    outdated: dict[str, Row] = {}
    for row in approvals:
        newest = rounds.get(row["pull_uri"])
        if newest is None or row["actor_id"] == newest["author_id"]:
            continue
        if all(row[name] == newest[name] for name in ROUND_KEY):
            if row["state"] == IN_FORCE and newest["state"] in ("open", "merged"):
                in_force.setdefault(row["pull_uri"], row | {"newest": newest})
        elif newest["state"] == "open":
            outdated[row["pull_uri"]] = row | {"newest": newest}
    return list(in_force.values()), [row for uri, row in outdated.items() if uri not in in_force]


def read_outdated_pulls(rows: Rows) -> set[str]:
    """Return open pull requests that changed after an approval: these are never fast lane.

    An approval of the newest round ends that.
    """
    return {row["pull_uri"] for row in current_approvals(rows)[1]}
