"""Find later commits that revert a merge, and commits that change its lines within some days.

Only merges that are proven, or that a person with push rights recorded, are followed, on the branch where they landed.
Each finding names the commit that shows it. A message is only a claim, unless the commit landed from a pull request of
somebody who may push: a squash, or a merge that was not recognised, may carry a stranger's text. Moves, renames,
re-indentation and lines beside the merged ones do not count. A commit that takes the whole merge back is a revert, not
a fix.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from ingest.errors import FetchProblem
from ingest.git.history import INVERSE, Graph, closing, read_diffs, read_graph
from ingest.git.landings import MIRRORS
from ingest.git.mirror import mirror_path
from ingest.git.process import Git
from ingest.git.reverts import (
    MOST,
    NEARLY_ALL,
    Branch,
    Fate,
    FileChange,
    OwnLines,
    Step,
    Tracker,
    adds_little,
    changed_paths,
    read_changes,
    share_undone,
    texts,
)
from ingest.http.fetcher import Fetcher
from ingest.store.database import Store
from ingest.store.transaction import Transaction

SECONDS = 600.0  # for the diffs of one branch
BETWEEN_SECONDS = 60.0  # for the difference between a merge and a commit that may revert it
CHUNK = 2_000  # commits that one git process reads
RULES = 2  # raise it when the rules for reverts change: every merge is then checked again

LANDINGS = """
select l.*, c.patch_id, c.proves, not exists (
    from push_holders h where h.repository_id = p.repository_id and h.contributor_id = p.author_id
      and coalesce(h.held_from <= l.landed_at, true) and coalesce(l.landed_at < h.held_until, true)) as by_stranger
from landings l
join pull_requests p using (pull_uri)
join commits c on c.repository_id = p.repository_id and c.commit_id = l.commit_id
where p.repository_id = ? and (l.proven or p.merge_proof = 'verified')
order by l.pull_uri, l.commit_id
"""
COMMITS = """
select c.commit_id, c.patch_id, c.reverts,
  case when b.absent_at is null then least(c.committed_at, b.appeared_at) else b.appeared_at end as moment
from branch_commits b join commits c using (repository_id, commit_id)
where b.repository_id = ? and b.branch = ?
"""
REVERTED = "select pull_uri, evidence from pull_followups where kind = 'reverted' and pull_uri in (select unnest(?))"
NOT_REVERTED = "delete from pull_followups where kind = 'reverted' and pull_uri = ? and evidence = ?"
OWN_DAYS = "select repository_id, window_days from repository_settings where window_days is not null"
Row = Mapping[str, Any]


@dataclass
class Findings:
    """Present rows of `pull_followups`, and the (pull request, commit) pairs that no longer revert."""

    rows: list[dict[str, object]] = field(default_factory=list)
    stale: set[tuple[str, str]] = field(default_factory=set)


@dataclass
class Merge:
    number: int
    pull_uri: str
    landings: Sequence[Row]
    fate: Fate

    @property
    def landed_at(self) -> datetime:
        return max(row["landed_at"] for row in self.landings)

    @property
    def followed(self) -> bool:
        return all(row["followed"] for row in self.landings)


def mine_followups(store: Store, fetcher: Fetcher, folder: Path, now: Callable[[], datetime], window_days: int) -> int:
    """Fill `pull_followups` for watched repositories in which something changed; return how many rows changed.

    A merge is followed for `window_days`, or for as long as the maintainers of its repository chose.
    """
    with store.read() as reader:
        mirrors = reader.rows(MIRRORS)
        own_days = {row["repository_id"]: row["window_days"] for row in reader.rows(OWN_DAYS)}
    changed = 0
    for mirror in mirrors:
        with store.read() as reader:
            landings = reader.rows(LANDINGS, [mirror["repository_id"]])
        days = own_days.get(mirror["repository_id"], window_days)
        mark = _describe_inputs(mirror, landings, days)
        if mark == mirror["followups_mark"] or fetcher.closed:
            continue
        git = Git(mirror_path(folder, mirror["repository_id"]), closing(fetcher))
        try:
            findings = _mine_mirror(store, git, mirror, _still_followed(mirror, landings, days), timedelta(days=days))
        except FetchProblem:  # the mirror is damaged or the worker stops: the mark stays, so this is tried again
            continue
        with store.write() as txn:
            changed += _write(txn, findings, now())
            cutoff = now() - timedelta(days=days)
            expired = [row["pull_uri"] for row in landings if row["landed_at"] < cutoff]
            txn.execute("update landings set followed = true where pull_uri in (select unnest(?))", [expired])
            sql = "update mirrors set followups_mark = ? where repository_id = ?"
            txn.execute(sql, [mark, mirror["repository_id"]])
    return changed


def _describe_inputs(mirror: Row, landings: Sequence[Row], window_days: int) -> str:
    """Return the number of days for which merges are followed, with a hash of the inputs and rules of this search."""
    columns = ("pull_uri", "commit_id", "by_stranger")
    inputs = [RULES, mirror["read_refs"], window_days, *([row[name] for name in columns] for row in landings)]
    return f"{window_days} {hashlib.sha256(json.dumps(inputs).encode()).hexdigest()}"


def _still_followed(mirror: Row, landings: Sequence[Row], days: int) -> Sequence[Row]:
    """Return the landings. Follow all of them again if they were followed for fewer days before."""
    followed_days, _, digest = (mirror["followups_mark"] or "").partition(" ")
    if not digest or int(followed_days) >= days:  # a mark without days is an older version's
        return landings
    return [{**row, "followed": False} for row in landings]


def _mine_mirror(store: Store, git: Git, mirror: Row, landings: Sequence[Row], window: timedelta) -> Findings:
    refs = json.loads(mirror["read_refs"])
    carried = {row["commit_id"]: row["pull_uri"] for row in landings}
    findings = Findings()
    for branch in sorted({row["branch"] for row in landings} & refs.keys()):
        graph = read_graph(git, refs[branch])  # git may take a minute, and no erasure waits for a reader that long
        branch_landings = [row for row in landings if row["branch"] == branch and row["commit_id"] in graph.places]
        with store.read() as reader:
            commits = reader.rows(COMMITS, [mirror["repository_id"], branch])
            reverted = reader.rows(REVERTED, [sorted({row["pull_uri"] for row in branch_landings})])
        miner = _Miner(git, graph, commits, _find_holders_messages(graph, landings))
        rows_now = miner.mine(branch_landings, window) if branch_landings else []
        findings.rows += [{**row, "carried_by": _find_carrier(carried, row)} for row in rows_now]
        findings.stale |= {(row["pull_uri"], row["evidence"]) for row in reverted if row["evidence"] in miner.commits}
    findings.stale -= {(row["pull_uri"], row["evidence"]) for row in findings.rows if row["kind"] == "reverted"}
    return findings


def _find_holders_messages(graph: Graph, landings: Sequence[Row]) -> set[str]:
    """Return the commits whose message was written by somebody who may push, as far as landed pull requests show it."""

    def brought(by_stranger: bool) -> set[str]:
        # The message of a merge commit often repeats the title and text of its pull request.
        landed = {row["commit_id"] for row in landings if row["by_stranger"] is by_stranger}
        return landed | {graph.brought_by[commit] for commit in landed if commit in graph.brought_by}

    return brought(by_stranger=False) - brought(by_stranger=True)


def _find_carrier(carried: Mapping[str, str], row: Mapping[str, Any]) -> str | None:
    uri = carried.get(row["evidence"])
    return uri if uri != row["pull_uri"] else None


def _write(txn: Transaction, findings: Findings, now: datetime) -> int:
    for pull_uri, commit in sorted(findings.stale):
        txn.execute(NOT_REVERTED, [pull_uri, commit])
    added = txn.append_new("pull_followups", [{**row, "known_from": now} for row in findings.rows])
    if added or findings.stale:
        txn.inputs_changed()
    return added + len(findings.stale)


class _Miner:
    def __init__(self, git: Git, graph: Graph, commit_rows: Sequence[Row], holders_words: Collection[str]) -> None:
        self.git = git
        self.graph = graph
        self.holders_words = holders_words
        self.commits = {row["commit_id"]: row for row in commit_rows if row["commit_id"] in self.graph.places}
        self._changes: dict[str, list[FileChange]] = {}
        self._undone: dict[tuple[str, str], tuple[float, bool]] = {}
        self._first_parents = self.graph.first_parents

    def mine(self, landings: Sequence[Row], window: timedelta) -> list[dict[str, object]]:
        """Return rows of `pull_followups`, without the time from which they are known."""
        merges = self._group_by_pull(landings)
        places = self.graph.places
        branch = Branch(
            Step(commit, places[commit], row["patch_id"], row["reverts"]) for commit, row in self.commits.items()
        )
        for merge in merges:
            branch.follow(merge.fate, partial(self._takes_back, merge))
        reverted = [
            self._followup_row(merge, "reverted", commit) for merge in merges for commit in merge.fate.reverters
        ]
        return reverted + self._find_patches([merge for merge in merges if not merge.followed], window)

    def _group_by_pull(self, landings: Sequence[Row]) -> list[Merge]:
        by_pull: dict[str, list[Row]] = defaultdict(list)
        for row in landings:
            by_pull[row["pull_uri"]].append(row)
        return [Merge(number, uri, rows, self._build_fate(rows)) for number, (uri, rows) in enumerate(by_pull.items())]

    def _build_fate(self, landings: Sequence[Row]) -> Fate:
        landed = [row["commit_id"] for row in landings]
        carriers = {
            *landed,
            *(self.graph.brought_by[commit_id] for commit_id in landed if commit_id in self.graph.brought_by),
        }
        proving = [row for row in landings if row["proves"]]
        carriers |= self._find_twins(proving)
        inverses = {row["inverse_id"] for row in proving if row["inverse_id"]}
        inverses |= self._find_series_inverse(landed)
        places = {commit: self.graph.places[commit] for commit in carriers}
        return Fate(places, inverses, {row["patch_id"] for row in proving if row["patch_id"]})

    def _find_twins(self, landings: Sequence[Row]) -> set[str]:
        """Return commits that carry the same change again: it was reverted and merged again between two fetches."""
        landed_at = {row["patch_id"]: row["landed_at"] for row in landings if row["patch_id"]}
        candidates = ((commit_id, landed_at.get(row["patch_id"])) for commit_id, row in self.commits.items())
        return {
            commit_id
            for commit_id, moment in candidates
            if moment is not None and self._landed_time(commit_id) >= moment
        }

    def _find_series_inverse(self, landed: Sequence[str]) -> set[str]:
        """Return the patch-id that reverts a series in one commit, if its commits follow one another directly."""
        chain = sorted(landed, key=self.graph.places.__getitem__)
        parents = [self.graph.parents[commit] for commit in chain]
        linked = all(after == [before] for before, after in zip(chain, parents[1:], strict=False))
        if len(chain) < 2 or not linked or not parents[0]:
            return set()
        # A commit is compared with the parent that is named beside it.
        diffs = read_diffs(self.git, [chain[-1]], *INVERSE, against={chain[-1]: parents[0][0]})
        return {diff.identity() for _, diff in diffs if diff and diff.sound and diff.files and diff.proves}

    def _takes_back(self, merge: Merge, commit: str, others: Collection[str], by_message: bool) -> bool:
        if not self.graph.parents[commit]:
            return False
        landed = {row["commit_id"] for row in merge.landings}
        for other in others:
            # A state may bring several pull requests: only the commits that this one landed are compared.
            brought = landed.intersection(self.graph.brings.get(other, ()))
            is_claim = by_message and commit not in self.holders_words
            if any(self._undoes(commit, own_commit, is_claim) for own_commit in brought or {other}):
                return True
        return False

    def _undoes(self, commit: str, other: str, is_claim: bool) -> bool:
        if (commit, other) not in self._undone:
            self._undone[commit, other] = self._compare(commit, other)
        share, is_only_that = self._undone[commit, other]
        return share > NEARLY_ALL and is_only_that if is_claim else share > MOST

    def _compare(self, commit: str, other: str) -> tuple[float, bool]:
        """Return the share of `other` that `commit` undoes, and True if it adds little else. This is slow."""
        own_lines, change, before = (
            OwnLines.of(self._read_change(other)),
            self._read_change(commit),
            self.graph.parents[commit][0],
        )
        if own_lines.kind == "none":
            return self._share_restored(commit, other), True
        if not own_lines.may_go(change):  # two states are compared only where it may matter
            return 0.0, False
        try:
            between = dict(read_changes(self.git, [before], {before: other}, BETWEEN_SECONDS))[before]
        except FetchProblem as problem:
            if problem.closed:
                raise
            return 0.0, False  # git could not compare two states in time: go on with the rest of the repository
        other_change = self._read_change(other)
        return share_undone(change, between, other_change), adds_little(change, between, other_change)

    def _share_restored(self, commit: str, other: str) -> float:
        """Return the share of files of `other`, a commit without lines (modes, renames, binary), that `commit` sets
        back.
        """
        if not self.graph.parents[other]:
            return 0.0
        parent = self.graph.parents[other][0]
        own_paths = changed_paths(self.git, parent, other)
        restored = own_paths & changed_paths(self.git, self.graph.parents[commit][0], commit)
        return len(restored - changed_paths(self.git, parent, commit)) / len(own_paths) if own_paths else 0.0

    def _read_change(self, commit: str) -> list[FileChange]:
        if commit not in self._changes:
            self._changes |= dict(read_changes(self.git, [commit], self._first_parents, SECONDS))
        return self._changes[commit]

    def _followup_row(self, merge: Merge, kind: str, commit: str) -> dict[str, object]:
        return {"pull_uri": merge.pull_uri, "kind": kind, "happened_at": self._landed_time(commit), "evidence": commit}

    def _landed_time(self, commit: str) -> datetime:
        return self.commits[commit]["moment"] if commit in self.commits else datetime.max

    def _find_patches(self, merges: Sequence[Merge], window: timedelta) -> list[dict[str, object]]:
        landing: dict[str, list[tuple[Merge, str]]] = defaultdict(list)
        for merge in merges:
            for commit in merge.fate.carriers:
                if len(self.graph.parents[commit]) < 2:
                    landing[self.graph.brought_by[commit]].append((merge, commit))
        start = next((place for place, state in enumerate(self.graph.states) if state in landing), None)
        if start is None:
            return []
        by_number = {merge.number: merge for merge in merges}
        tracker, rows = Tracker(), dict[tuple[str, str], dict[str, object]]()
        for state, change in self._read_states(self.graph.states[start:]):
            lost = tracker.apply(change, self._claim_lines(landing.get(state, ())))
            expired = {number for number in lost if self._landed_time(state) > by_number[number].landed_at + window}
            tracker.forget(expired)
            for number in lost.keys() - expired:
                merge = by_number[number]
                if evidence := self._find_evidence(state, merge, lost[number], landing.get(state, ())):
                    rows[merge.pull_uri, evidence] = self._followup_row(merge, "patched", evidence)
        return list(rows.values())

    def _read_states(self, states: Sequence[str]) -> Iterable[tuple[str, list[FileChange]]]:
        for start in range(0, len(states), CHUNK):
            yield from read_changes(self.git, states[start : start + CHUNK], self._first_parents, SECONDS)

    def _claim_lines(self, landed: Sequence[tuple[Merge, str]]) -> Callable[[bytes], int | None]:
        """Return a function from an added line to the merge that owns it.

        Where a state brings several things, the text in the commits of each merge decides.
        """
        owners = {merge.number for merge, _ in landed}
        if not owners:
            return lambda _: None
        state = self.graph.brought_by[landed[0][1]]
        others = set(self.graph.brings.get(state, ())) - {commit for _, commit in landed}
        if len(owners) == 1 and not others:
            (owner,) = owners
            return lambda _: owner
        owner_by_text = {
            text: merge.number
            for merge, own_commit in reversed(landed)
            for text in texts(self._read_change(own_commit), "new")
        }
        return owner_by_text.get

    def _find_evidence(
        self, state: str, merge: Merge, lost: Collection[bytes], landed: Sequence[tuple[Merge, str]]
    ) -> str | None:
        """Return the commit that changed these lines, or None if it was the merge itself or its revert."""
        own_commits = {*merge.fate.carriers, *merge.fate.reverters}
        if state in own_commits or any(merge is other for other, _ in landed):
            return None
        brought = [
            commit for commit in self.graph.brings.get(state, ()) if texts(self._read_change(commit), "old") & set(lost)
        ]
        others = [commit for commit in brought if commit not in own_commits]
        if brought and not others:
            return None
        return min(others, key=self.graph.places.__getitem__) if others else state
