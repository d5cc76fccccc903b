"""Which commits of the target branch carry a pull request, and whether that proves that it was merged.

It does only where the change came after it was offered and from nobody else: the commit appeared on the branch after
the round was witnessed, no branch held the same change before, whole or in portions, no other pull request offered it
before, and more than white space changes. So neither a copy of a maintainer's branch, nor of somebody's pull request,
nor an empty change earns a merge. A Change-Id or a title is what its author likes: it finds candidates and proves
nothing.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ingest.commits import INVERSE, read_diffs
from ingest.git import Git
from ingest.history import closing
from ingest.mirror import mirror_path
from ingest.net import Fetcher
from ingest.patches import PatchProblem, load_patch
from ingest.pieces import was_public
from ingest.plain_words import FetchProblem
from ingest.proof import Ground, Match, came_after, is_proven, lay_ground
from ingest.settle import is_incomplete
from ingest.squash import growth, is_squash
from ingest.store import Store
from ingest.transaction import Rows, Transaction

SQUASHES = 2_000  # newest commits of a branch that are looked through for squashes
TRIALS = 50  # of them to which one patch is applied
TITLE = 12  # characters: a shorter title names no commit

MIRRORS = """
select m.* from mirrors m semi join watched_repositories using (repository_id)
where m.read_at is not null order by m.repository_id
"""
# Every round, and its patch where it was read. Whoever deletes a pull request still offered it.
OFFERS = """
select p.pull_uri, coalesce(p.target_branch, $head) as branch, p.title,
  p.merge_proof is not distinct from 'verified' as told, r.round, r.patch_ref, r.seen_at, r.witnessed, k.patch_id,
  k.proves, k.series, k.change_ids, k.sha256, k.added - k.removed as growth
from pull_requests p join pull_rounds r using (pull_uri)
left join patches k on (k.pull_uri, k.patch_ref) = (r.pull_uri, r.patch_ref)
where p.repository_id = $repository
order by p.pull_uri, r.seen_at, r.round, r.patch_ref
"""
CARRIERS = """
select b.branch, c.commit_id, c.patch_id, c.proves, c.change_id, c.subject, b.absent_at, b.appeared_at, c.committed_at
from branch_commits b join commits c using (repository_id, commit_id)
where b.repository_id = $repository
"""
# What any branch may have held when a round was seen.
EARLIER = """
select commit_id from commits where repository_id = $repository and coalesce(absent_at < $seen_at, true)
"""
PROVEN = """
select pull_uri, commit_id from landings l join pull_requests p using (pull_uri)
where l.proven and p.repository_id = $repository
"""
Row = Mapping[str, Any]


def find_landings(store: Store, fetcher: Fetcher, folder: Path, diff_folder: Path) -> int:
    """Fill `landings` for watched repositories in which something changed; returns how many rows are new or other.

    Nothing while a backfill may still list somebody's earlier offer of the same change: what is proven once stays so.
    """
    with store.read() as rows:
        mirrors = [] if is_incomplete(rows) else rows.rows(MIRRORS)
    changed = 0
    for mirror in mirrors:
        with store.read() as rows:
            named = {"repository": mirror["repository_id"], "head": mirror["head"]}
            offers = rows.rows(OFFERS, named)
        mark = _mark(mirror, offers)
        if mark == mirror["landings_mark"] or fetcher.closed:
            continue
        git = Git(mirror_path(folder, mirror["repository_id"]), closing(fetcher))
        try:
            found = _find(store, git, mirror, offers, diff_folder)
        except FetchProblem:  # the mirror is damaged or the worker stops: the mark stays, so this is tried again
            continue
        with store.write() as txn:
            changed += _write(txn, found)
            sql = "update mirrors set landings_mark = ? where repository_id = ?"
            txn.execute(sql, [mark, mirror["repository_id"]])
    return changed


def _mark(mirror: Row, offers: Sequence[Row]) -> str:
    told = [mirror["read_refs"], mirror["head"], *([str(value) for value in offer.values()] for offer in offers)]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()


def _find(store: Store, git: Git, mirror: Row, offers: Sequence[Row], diff_folder: Path) -> list[dict[str, object]]:
    number, readable = mirror["repository_id"], [offer for offer in offers if offer["patch_id"]]
    with store.read() as rows:
        matches = _named(rows, number, readable)
        missing = _missing(readable, matches)
        candidates = _candidates(rows, number, missing)
    matches += _squashes(git, missing, candidates, partial(_patch, diff_folder))
    matches += _claimed(_missing(readable, matches), candidates)
    with store.read() as rows:
        ground = lay_ground(rows, number, offers, matches)
        proven = {(row["pull_uri"], row["commit_id"]) for row in rows.rows(PROVEN, {"repository": number})}

    def is_copy(match: Match) -> bool:
        if (match.offer["pull_uri"], match.commit["commit_id"]) in proven:
            return False
        with store.read() as rows:
            named = {"repository": number, "seen_at": match.offer["seen_at"]}
            earlier = {row["commit_id"] for row in rows.rows(EARLIER, named)}
        return was_public(git, match.commit["commit_id"], earlier)

    return _landing_rows(git, ground, matches, is_copy)


def _patch(folder: Path, offer: Row) -> str | None:
    try:
        return load_patch(folder, offer["sha256"])
    except PatchProblem:
        return None


def _named(rows: Rows, repository: int, offers: Sequence[Row]) -> list[Match]:
    """Commits that carry the patch-id of an offer, or of each mail of it."""
    order = "b.absent_at nulls first, c.committed_at, c.commit_id"
    sql = f"{CARRIERS} and c.patch_id in (select unnest($names)) order by {order}"
    carriers: dict[tuple[str, str], list[Row]] = defaultdict(list)
    names = sorted({name for offer in offers for name in (offer["patch_id"], *offer["series"])})
    for row in rows.rows(sql, {"repository": repository, "names": names}):
        carriers[row["branch"], row["patch_id"]].append(row)
    matches = []
    for offer in offers:
        wholes = [("patch_id", [offer["patch_id"]])]
        if len(offer["series"]) > 1:
            wholes.append(("series", offer["series"]))
        for proof, names in wholes:
            found = [carriers[offer["branch"], name] for name in names]
            if all(found):
                matches += [Match(offer, _best(offer, some), proof) for some in found]
                break
    return matches


def _best(offer: Row, commits: Sequence[Row]) -> Row:
    """The first that appeared after the round was seen, else the first."""
    return next((commit for commit in commits if came_after(offer, commit)), commits[0])


def _missing(offers: Sequence[Row], matches: Iterable[Match]) -> list[Row]:
    """The newest offer of each pull request that no commit carries."""
    found = {match.offer["pull_uri"] for match in matches}
    newest = {offer["pull_uri"]: offer for offer in offers}
    return [offer for uri, offer in newest.items() if uri not in found]


def _candidates(rows: Rows, repository: int, offers: Sequence[Row]) -> Mapping[str, Sequence[Row]]:
    """The newest commits of each branch that offers wait for."""
    sql = f"{CARRIERS} and b.branch = $branch order by b.absent_at desc nulls last, c.committed_at desc, c.commit_id"
    named = {"repository": repository, "limit": SQUASHES}
    branches = {offer["branch"] for offer in offers if offer["branch"]}
    return {branch: rows.rows(f"{sql} limit $limit", {**named, "branch": branch}) for branch in sorted(branches)}


def _squashes(
    git: Git, offers: Sequence[Row], candidates: Mapping[str, Sequence[Row]], patch: Callable[[Row], str | None]
) -> list[Match]:
    """Commits that are exactly what an offer makes of their parent, though git would write that change otherwise."""
    wanted = [(offer, _possible(offer, candidates.get(offer["branch"], ()))) for offer in offers if offer["proves"]]
    commits = list(dict.fromkeys(commit["commit_id"] for _, some in wanted for commit in some))
    grown = growth(git, commits) if commits else {}
    matches = []
    for offer, some in wanted:
        alike = [commit for commit in some if grown.get(commit["commit_id"]) == offer["growth"]][:TRIALS]
        text = patch(offer) if alike else None
        found = (commit for commit in alike if text is not None and is_squash(git, commit["commit_id"], text))
        if commit := next(found, None):
            matches.append(Match(offer, commit, "squash"))
    return matches


def _possible(offer: Row, commits: Sequence[Row]) -> list[Row]:
    """Commits with a change of their own that came after the offer, or may have where a push-holder says it landed."""
    named = (commit for commit in commits if commit["patch_id"])
    return [one for one in named if came_after(offer, one) or (offer["told"] and one["absent_at"] is None)]


def _claimed(offers: Sequence[Row], candidates: Mapping[str, Sequence[Row]]) -> list[Match]:
    """Commits that only claim to carry what a push-holder says was merged: the same Change-Id, or its title alone."""
    matches = []
    for offer in (offer for offer in offers if offer["told"]):
        possible = _possible(offer, candidates.get(offer["branch"], ()))
        named = [commit for commit in possible if commit["change_id"] in offer["change_ids"]]
        titled = [commit for commit in possible if commit["subject"] == offer["title"] and len(offer["title"]) >= TITLE]
        if named:
            matches += [Match(offer, commit, "change_id") for commit in named]
        elif len(titled) == 1:
            matches.append(Match(offer, titled[0], "subject"))
    return matches


def _landing_rows(
    git: Git, ground: Ground, matches: Sequence[Match], is_copy: Callable[[Match], bool]
) -> list[dict[str, object]]:
    groups: dict[tuple[str, int, str], list[Match]] = defaultdict(list)
    for match in matches:
        groups[match.offer["pull_uri"], match.offer["round"], match.offer["patch_ref"]].append(match)
    inverses = dict(read_diffs(git, sorted({match.commit["commit_id"] for match in matches}), *INVERSE))
    rows: dict[tuple[str, str], dict[str, object]] = {}
    for some in groups.values():
        proven = is_proven(ground, some) and not any(is_copy(match) for match in some if match.commit["proves"])
        for match in some:
            key = match.offer["pull_uri"], match.commit["commit_id"]
            diff = inverses.get(match.commit["commit_id"])
            inverse = diff.identity() if diff and diff.sound and diff.files else None
            if proven or not rows.get(key, {}).get("proven"):
                rows[key] = _landing_row(match, proven, inverse)
    return list(rows.values())


def _landing_row(match: Match, proven: bool, inverse: str | None) -> dict[str, object]:
    commit = match.commit
    return {
        "pull_uri": match.offer["pull_uri"],
        "commit_id": commit["commit_id"],
        "branch": commit["branch"],
        "round": match.offer["round"],
        "landed_at": commit["appeared_at"]
        if commit["absent_at"]
        else min(commit["committed_at"], commit["appeared_at"]),
        "proof": match.proof,
        "followed": False,
        "inverse_id": inverse,
        "proven": proven,
    }


def _write(txn: Transaction, found: Sequence[Mapping[str, object]]) -> int:
    """Write what is new or other. What was proven once stays so: a listing that comes later may claim any past."""
    uris = [row["pull_uri"] for row in found]
    stored = txn.rows("select * from landings where pull_uri in (select unnest(?))", [uris])
    known = {(row["pull_uri"], row["commit_id"]): row for row in stored}
    news = [row for row in found if _is_news(known.get((row["pull_uri"], row["commit_id"])), row)]
    txn.upsert("landings", news)
    if news:
        txn.inputs_changed()
    return len(news)


def _is_news(known: Row | None, row: Row) -> bool:
    other = known is None or (row["proven"], row["proof"]) != (known["proven"], known["proof"])
    return other and not (known and known["proven"])
