"""The fate of merged lines: commits that take a merge back, and commits that change its lines within some days.

Only merges that are proven or that a push-holder tells of are followed, on the branch where they landed. Each finding
names the commit that shows it. A message is a claim unless the commit landed from a pull request of somebody who may
push: anybody's text may have come with a squash or a merge that was not recognised. Moves, renames, re-indentation and
lines beside the merged ones are no finding; what takes the whole merge back is a revert and no fix.
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
BETWEEN_SECONDS = 60.0  # for the difference between a merge and what may take it back
CHUNK = 2_000  # commits of one child
RULES = 2  # raised where other commits count as reverts than before: every merge is looked at again

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
    """Rows of `pull_followups` as the branches show them now, and (pull request, commit) that no longer revert."""

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
    """Fill `pull_followups` for watched repositories in which something changed; returns how many rows changed.

    A merge is followed for `window_days`, or for as long as the maintainers of its repository chose.
    """
    with store.read() as rows:
        mirrors = rows.rows(MIRRORS)
        own_days = {row["repository_id"]: row["window_days"] for row in rows.rows(OWN_DAYS)}
    changed = 0
    for mirror in mirrors:
        with store.read() as rows:
            landings = rows.rows(LANDINGS, [mirror["repository_id"]])
        days = own_days.get(mirror["repository_id"], window_days)
        mark = _mark(mirror, landings, days)
        if mark == mirror["followups_mark"] or fetcher.closed:
            continue
        git = Git(mirror_path(folder, mirror["repository_id"]), closing(fetcher))
        try:
            found = _mine(store, git, mirror, _still_followed(mirror, landings, days), timedelta(days=days))
        except FetchProblem:  # the mirror is damaged or the worker stops: the mark stays, so this is tried again
            continue
        with store.write() as txn:
            changed += _write(txn, found, now())
            over = now() - timedelta(days=days)
            gone = [row["pull_uri"] for row in landings if row["landed_at"] < over]
            txn.execute("update landings set followed = true where pull_uri in (select unnest(?))", [gone])
            sql = "update mirrors set followups_mark = ? where repository_id = ?"
            txn.execute(sql, [mark, mirror["repository_id"]])
    return changed


def _mark(mirror: Row, landings: Sequence[Row], window_days: int) -> str:
    """Return the days for which merges were followed, with a hash of the inputs and rules of that search."""
    named = ("pull_uri", "commit_id", "by_stranger")
    told = [RULES, mirror["read_refs"], window_days, *([row[name] for name in named] for row in landings)]
    return f"{window_days} {hashlib.sha256(json.dumps(told).encode()).hexdigest()}"


def _still_followed(mirror: Row, landings: Sequence[Row], days: int) -> Sequence[Row]:
    """The landings; where merges were followed for fewer days before, all of them are followed again."""
    before, _, rest = (mirror["followups_mark"] or "").partition(" ")
    if not rest or int(before) >= days:  # a mark without days is an older version's
        return landings
    return [{**row, "followed": False} for row in landings]


def _mine(store: Store, git: Git, mirror: Row, landings: Sequence[Row], window: timedelta) -> Findings:
    refs = json.loads(mirror["read_refs"])
    carried = {row["commit_id"]: row["pull_uri"] for row in landings}
    found = Findings()
    for branch in sorted({row["branch"] for row in landings} & refs.keys()):
        graph = read_graph(git, refs[branch])  # git may take a minute, and no erasure waits for a reader that long
        own = [row for row in landings if row["branch"] == branch and row["commit_id"] in graph.places]
        with store.read() as rows:
            known = rows.rows(COMMITS, [mirror["repository_id"], branch])
            before = rows.rows(REVERTED, [sorted({row["pull_uri"] for row in own})])
        miner = _Miner(git, graph, known, _holders_words(graph, landings))
        rows_now = miner.mine(own, window) if own else []
        found.rows += [{**row, "carried_by": _carrier(carried, row)} for row in rows_now]
        found.stale |= {(row["pull_uri"], row["evidence"]) for row in before if row["evidence"] in miner.commits}
    found.stale -= {(row["pull_uri"], row["evidence"]) for row in found.rows if row["kind"] == "reverted"}
    return found


def _holders_words(graph: Graph, landings: Sequence[Row]) -> set[str]:
    """Return the commits whose message is by somebody who may push, as far as landed pull requests show it."""

    def brought(by_stranger: bool) -> set[str]:
        # The message of a merge commit often repeats the title and text of its pull request.
        landed = {row["commit_id"] for row in landings if row["by_stranger"] is by_stranger}
        return landed | {graph.brought_by[one] for one in landed if one in graph.brought_by}

    return brought(by_stranger=False) - brought(by_stranger=True)


def _carrier(carried: Mapping[str, str], row: Mapping[str, Any]) -> str | None:
    uri = carried.get(row["evidence"])
    return uri if uri != row["pull_uri"] else None


def _write(txn: Transaction, found: Findings, now: datetime) -> int:
    for pull_uri, commit in sorted(found.stale):
        txn.execute(NOT_REVERTED, [pull_uri, commit])
    new = txn.append_new("pull_followups", [{**row, "known_from": now} for row in found.rows])
    if new or found.stale:
        txn.inputs_changed()
    return new + len(found.stale)


class _Miner:
    def __init__(self, git: Git, graph: Graph, known: Sequence[Row], holders_words: Collection[str]) -> None:
        self.git = git
        self.graph = graph
        self.holders_words = holders_words
        self.commits = {row["commit_id"]: row for row in known if row["commit_id"] in self.graph.places}
        self._changes: dict[str, list[FileChange]] = {}
        self._undone: dict[tuple[str, str], tuple[float, bool]] = {}
        self._first_parents = self.graph.first_parents

    def mine(self, landings: Sequence[Row], window: timedelta) -> list[dict[str, object]]:
        """Rows of `pull_followups` without the moment from which they are known."""
        merges = self._merges(landings)
        places = self.graph.places
        branch = Branch(Step(one, places[one], row["patch_id"], row["reverts"]) for one, row in self.commits.items())
        for merge in merges:
            branch.follow(merge.fate, partial(self._takes_back, merge))
        reverted = [self._row(merge, "reverted", one) for merge in merges for one in merge.fate.reverters]
        return reverted + self._patched([merge for merge in merges if not merge.followed], window)

    def _merges(self, landings: Sequence[Row]) -> list[Merge]:
        by_pull: dict[str, list[Row]] = defaultdict(list)
        for row in landings:
            by_pull[row["pull_uri"]].append(row)
        return [Merge(number, uri, rows, self._fate(rows)) for number, (uri, rows) in enumerate(by_pull.items())]

    def _fate(self, landings: Sequence[Row]) -> Fate:
        landed = [row["commit_id"] for row in landings]
        carriers = {*landed, *(self.graph.brought_by[one] for one in landed if one in self.graph.brought_by)}
        telling = [row for row in landings if row["proves"]]
        carriers |= self._twins(telling)
        inverses = {row["inverse_id"] for row in telling if row["inverse_id"]}
        inverses |= self._whole_inverse(landed)
        places = {commit: self.graph.places[commit] for commit in carriers}
        return Fate(places, inverses, {row["patch_id"] for row in telling if row["patch_id"]})

    def _twins(self, landings: Sequence[Row]) -> set[str]:
        """Commits that carry the same change since: what was taken back and brought again between two fetches."""
        since = {row["patch_id"]: row["landed_at"] for row in landings if row["patch_id"]}
        alike = ((one, since.get(row["patch_id"])) for one, row in self.commits.items())
        return {one for one, moment in alike if moment is not None and self._moment(one) >= moment}

    def _whole_inverse(self, landed: Sequence[str]) -> set[str]:
        """The patch-id that takes a series back in one commit, where its commits stand one behind the other."""
        chain = sorted(landed, key=self.graph.places.__getitem__)
        parents = [self.graph.parents[commit] for commit in chain]
        linked = all(after == [before] for before, after in zip(chain, parents[1:], strict=False))
        if len(chain) < 2 or not linked or not parents[0]:
            return set()
        # A commit is compared with the parent that is named beside it.
        found = read_diffs(self.git, [chain[-1]], *INVERSE, against={chain[-1]: parents[0][0]})
        return {diff.identity() for _, diff in found if diff and diff.sound and diff.files and diff.proves}

    def _takes_back(self, merge: Merge, commit: str, others: Collection[str], is_said: bool) -> bool:
        if not self.graph.parents[commit]:
            return False
        landed = {row["commit_id"] for row in merge.landings}
        for other in others:
            # A state may bring several pull requests: of it only what this one landed is taken back or not.
            brought = landed.intersection(self.graph.brings.get(other, ()))
            is_claim = is_said and commit not in self.holders_words
            if any(self._undoes(commit, one, is_claim) for one in brought or {other}):
                return True
        return False

    def _undoes(self, commit: str, other: str, is_claim: bool) -> bool:
        if (commit, other) not in self._undone:
            self._undone[commit, other] = self._compare(commit, other)
        share, is_only_that = self._undone[commit, other]
        return share > NEARLY_ALL and is_only_that if is_claim else share > MOST

    def _compare(self, commit: str, other: str) -> tuple[float, bool]:
        """The share of the changes of `other` that `commit` takes back, and whether it adds little else. Slow."""
        own, change, before = OwnLines.of(self._change(other)), self._change(commit), self.graph.parents[commit][0]
        if own.kind == "none":
            return self._restores(commit, other), True
        if not own.may_go(change):  # two states are compared only where it may matter
            return 0.0, False
        try:
            between = dict(read_changes(self.git, [before], {before: other}, BETWEEN_SECONDS))[before]
        except FetchProblem as problem:
            if problem.closed:
                raise
            return 0.0, False  # two states that git cannot compare in time must not stop the mining of the repository
        brought = self._change(other)
        return share_undone(change, between, brought), adds_little(change, between, brought)

    def _restores(self, commit: str, other: str) -> float:
        """The share of the files of a commit without own lines (modes, renames, binary) that are as before it."""
        if not self.graph.parents[other]:
            return 0.0
        first = self.graph.parents[other][0]
        own = changed_paths(self.git, first, other)
        back = own & changed_paths(self.git, self.graph.parents[commit][0], commit)
        return len(back - changed_paths(self.git, first, commit)) / len(own) if own else 0.0

    def _change(self, commit: str) -> list[FileChange]:
        if commit not in self._changes:
            self._changes |= dict(read_changes(self.git, [commit], self._first_parents, SECONDS))
        return self._changes[commit]

    def _row(self, merge: Merge, kind: str, commit: str) -> dict[str, object]:
        return {"pull_uri": merge.pull_uri, "kind": kind, "happened_at": self._moment(commit), "evidence": commit}

    def _moment(self, commit: str) -> datetime:
        return self.commits[commit]["moment"] if commit in self.commits else datetime.max

    def _patched(self, merges: Sequence[Merge], window: timedelta) -> list[dict[str, object]]:
        landing: dict[str, list[tuple[Merge, str]]] = defaultdict(list)
        for merge in merges:
            for commit in merge.fate.carriers:
                if len(self.graph.parents[commit]) < 2:
                    landing[self.graph.brought_by[commit]].append((merge, commit))
        first = next((place for place, state in enumerate(self.graph.states) if state in landing), None)
        if first is None:
            return []
        by_number = {merge.number: merge for merge in merges}
        tracker, found = Tracker(), dict[tuple[str, str], dict[str, object]]()
        for state, change in self._walk(self.graph.states[first:]):
            lost = tracker.apply(change, self._claims(landing.get(state, ())))
            over = {number for number in lost if self._moment(state) > by_number[number].landed_at + window}
            tracker.forget(over)
            for number in lost.keys() - over:
                merge = by_number[number]
                if evidence := self._evidence(state, merge, lost[number], landing.get(state, ())):
                    found[merge.pull_uri, evidence] = self._row(merge, "patched", evidence)
        return list(found.values())

    def _walk(self, states: Sequence[str]) -> Iterable[tuple[str, list[FileChange]]]:
        for start in range(0, len(states), CHUNK):
            yield from read_changes(self.git, states[start : start + CHUNK], self._first_parents, SECONDS)

    def _claims(self, landed: Sequence[tuple[Merge, str]]) -> Callable[[bytes], int | None]:
        """Return the owners of lines that a state adds: of a merge of several things, each by its commits' text."""
        owners = {merge.number for merge, _ in landed}
        if not owners:
            return lambda _: None
        state = self.graph.brought_by[landed[0][1]]
        others = set(self.graph.brings.get(state, ())) - {commit for _, commit in landed}
        if len(owners) == 1 and not others:
            (owner,) = owners
            return lambda _: owner
        named = {text: merge.number for merge, one in reversed(landed) for text in texts(self._change(one), "new")}
        return named.get

    def _evidence(
        self, state: str, merge: Merge, lost: Collection[bytes], landed: Sequence[tuple[Merge, str]]
    ) -> str | None:
        """The commit that changed these lines; None where that was the merge itself, or what took it back."""
        mine = {*merge.fate.carriers, *merge.fate.reverters}
        if state in mine or any(merge is other for other, _ in landed):
            return None
        brought = [one for one in self.graph.brings.get(state, ()) if texts(self._change(one), "old") & set(lost)]
        others = [one for one in brought if one not in mine]
        if brought and not others:
            return None
        return min(others, key=self.graph.places.__getitem__) if others else state
