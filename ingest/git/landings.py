"""Finds the commits of the target branch that carry a pull request, and decides whether they prove its merge.

They prove it only where the change came after it was offered and from nobody else: the commit appeared on the branch
after the round was witnessed, no branch held the same change before, whole or in portions, no other pull request
offered it before, and more than white space changes. So neither a copy of a maintainer's branch, nor of somebody's pull
request, nor an empty change earns a merge. A Change-Id or a title is what its author likes: it finds candidates and
proves nothing.

Commits that were public before may have made a change between them, in whatever portions. Who copies a branch of
several commits as one offers a change that no single commit makes. But each line that commits add or take away between
them was added or taken away by one of them: where all lines of a change were, it may be a copy.

A commit that is exactly what a series of mails makes of its parent is proven by applying them.
"""

import hashlib
import json
import re
import tempfile
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import IO, Any

from ingest.errors import FetchProblem
from ingest.git.history import DIFF, DIFF_SECONDS, INVERSE, closing, reachable, read_diffs
from ingest.git.mirror import mirror_path
from ingest.git.patch import PatchProblem, load_patch, split_mails
from ingest.git.process import TRIAL, Git
from ingest.http.fetcher import Fetcher
from ingest.records.pull_state import is_incomplete
from ingest.store.database import Store
from ingest.store.transaction import Rows, Transaction

READ_LIMIT = 256_000_000  # bytes of earlier diffs for one change: beyond it nobody can say
READ_SECONDS = 120.0
LINE_LIMIT = 1_000_000
PATHS = 500  # a change of more files, or with longer names in all, is sought in whole commits
PATH_BYTES = 50_000  # of a command line
# As git stores them: a rename takes a file away and brings another; a merge is compared with each of its parents.
PIECES = (*DIFF, "-p", "-U0", "-m", "--no-renames", "--full-index", "--src-prefix=a/", "--dst-prefix=b/")

_HUNK = re.compile(rb"@@ -[0-9]+(?:,([0-9]+))? \+[0-9]+(?:,([0-9]+))? @@")
_INDEX = re.compile(rb"index ([0-9a-f]+)\.\.([0-9a-f]+)")

Piece = tuple[bytes, bytes]  # '+' or '-', and a line without white space or the name of a binary object; a new mode


def was_public(git: Git, commit: str, earlier: Collection[str]) -> bool:
    """Return whether every line that a commit changes was changed so by one of the earlier ones, or nobody can say.

    Of those behind it (what was taken back and is brought again) the same files are looked at; of the others, which
    lie on other branches, all: a file may be called otherwise since. Raises FetchProblem only where this was stopped.
    """
    try:
        behind = set(reachable(git, [commit]))
        rest = set(_pieces(git, [commit]))
        rest -= _made(git, sorted(one for one in earlier if one not in behind), rest)
        if rest:
            rest -= _made(git, sorted(one for one in earlier if one in behind and one != commit), rest, commit)
        return not rest
    except FetchProblem as problem:
        if problem.closed:
            raise
        return True


def _made(git: Git, commits: Sequence[str], wanted: set[Piece], alike: str | None = None) -> set[Piece]:
    """Return which of the wanted pieces these commits made; only in the files that the commit `alike` changes."""
    found: set[Piece] = set()
    for piece in _pieces(git, commits, _paths(git, alike) if alike else ()):
        if piece in wanted:
            found.add(piece)
            if len(found) == len(wanted):
                break
    return found


def _paths(git: Git, commit: str) -> list[str]:
    """The files that a commit changes; none where they are too many to be named."""
    answer = git.run(*DIFF, "-z", "--no-commit-id", "--name-only", "--no-renames", given=[commit])
    paths = [path.decode("utf-8", "surrogateescape") for path in answer.split(b"\0") if path]
    return paths if len(paths) <= PATHS and len(answer) <= PATH_BYTES else []


def _pieces(git: Git, commits: Sequence[str], paths: Sequence[str] = ()) -> Iterator[Piece]:
    if commits:
        with git.stream(*PIECES, "--", *paths, given=commits, seconds=READ_SECONDS) as out:
            yield from _read(out)


def _read(out: IO[bytes]) -> Iterator[Piece]:
    """The pieces of a stream of diffs without context. Raises FetchProblem where it is too long to be read."""
    left = size = 0  # lines that the running hunk still has; bytes read
    index = (b"", b"")
    while line := out.readline(LINE_LIMIT):
        size += len(line)
        if size > READ_LIMIT or len(line) == LINE_LIMIT:
            raise FetchProblem("earlier commits change more than is read", too_large=True)
        if left and line[:1] in b"+-":
            left -= 1
            if text := line[1:].translate(None, b" \t\n\v\f\r"):
                yield line[:1], text
        elif hunk := _HUNK.match(line):
            left = sum(int(count) if count is not None else 1 for count in hunk.groups())
        elif named := _INDEX.match(line):
            index = named[1], named[2]
        elif line.startswith(b"Binary files "):
            yield from zip((b"-", b"+"), index, strict=True)
        elif line.startswith(b"new mode "):
            yield b"m", line


EVER = datetime.min  # an unwitnessed round may have been offered at any time before

# When a change may first have been on any branch, whatever the commit is called.
FIRST_HELD = """
select patch_id, min(coalesce(absent_at, timestamp '0001-01-01')) as since from commits
where repository_id = $repository and patch_id in (select unnest($names)) group by patch_id
"""
Row = Mapping[str, Any]
Claim = tuple[str, datetime]  # a pull request, and since when it offers something


@dataclass(frozen=True)
class Match:
    """A commit that carries an offer, alone or with others; `proof` as in the table `landings`."""

    offer: Row
    commit: Row
    proof: str

    def names(self) -> set[str]:
        """The changes that nobody may have had before. A squash is also the mails that it was made of."""
        offer = self.offer
        return {self.commit["patch_id"], *((offer["patch_id"], *offer["series"]) if self.proof == "squash" else ())}


@dataclass(frozen=True)
class Ground:
    offered: Mapping[str, Sequence[Claim]]  # by whom and since when each change was offered
    carried: Mapping[str, Sequence[Claim]]  # the same of each commit, by whatever it was matched
    held: Mapping[str, datetime]  # since when a branch may have held each change
    rounds: Mapping[str, Sequence[datetime]]  # when each pull request's rounds were seen


def lay_ground(rows: Rows, repository: int, offers: Iterable[Row], matches: Sequence[Match]) -> Ground:
    """Gather what the matches of a repository are judged by; `offers` are all rounds, read or not."""
    offered: dict[str, list[Claim]] = defaultdict(list)
    carried: dict[str, list[Claim]] = defaultdict(list)
    rounds: dict[str, list[datetime]] = defaultdict(list)
    for offer in offers:
        rounds[offer["pull_uri"]].append(offer["seen_at"])
        for name in {offer["patch_id"], *(offer["series"] or ())} - {None}:
            offered[name].append(_claim(offer))
    for match in matches:
        carried[match.commit["commit_id"]].append(_claim(match.offer))
    names = sorted({name for match in matches for name in match.names() if name})
    held = rows.rows(FIRST_HELD, {"repository": repository, "names": names})
    return Ground(offered, carried, {row["patch_id"]: row["since"] for row in held}, rounds)


def _claim(offer: Row) -> Claim:
    return offer["pull_uri"], offer["seen_at"] if offer["witnessed"] else EVER


def came_after(offer: Row, commit: Row) -> bool:
    """Return whether the branch was seen without this commit after the round was seen."""
    return commit["absent_at"] is not None and commit["absent_at"] >= offer["seen_at"]


def is_proven(ground: Ground, matches: Sequence[Match]) -> bool:
    """Return whether these commits, which together carry one offer, prove that it was merged."""
    offer = matches[0].offer
    telling = [match for match in matches if match.commit["proves"]]
    if matches[0].proof not in ("patch_id", "series", "squash") or not (offer["witnessed"] and offer["proves"]):
        return False
    fresh = all(came_after(offer, match.commit) and _is_newest(ground, match) for match in matches)
    return fresh and bool(telling) and all(_is_own(ground, match) for match in telling)


def _is_newest(ground: Ground, match: Match) -> bool:
    """Return whether no later round had been seen when the commit was: what was superseded was not what was merged."""
    seen, appeared = match.offer["seen_at"], match.commit["appeared_at"]
    return not any(seen < other <= appeared for other in ground.rounds[match.offer["pull_uri"]])


def _is_own(ground: Ground, match: Match) -> bool:
    """Return whether no branch held this change, and no other pull request offered it, when this round was seen."""
    offer, names = match.offer, match.names()
    if any(name in ground.held and ground.held[name] < offer["seen_at"] for name in names):
        return False
    claims = [claim for name in names for claim in ground.offered.get(name, ())]
    others = [*claims, *ground.carried[match.commit["commit_id"]]]
    return not any(uri != offer["pull_uri"] and since <= offer["seen_at"] for uri, since in others)


_STAT = re.compile(r" \d+ files? changed(?:, (\d+) insertions?\(\+\))?(?:, (\d+) deletions?\(-\))?")


def growth(git: Git, commits: Sequence[str]) -> dict[str, int]:
    """Lines added less removed of the readable commits: a series and its squash agree. Raises FetchProblem."""
    found: dict[str, int] = {}
    current = ""
    with git.stream(*DIFF, "--shortstat", "--no-renames", given=commits, seconds=DIFF_SECONDS) as out:
        for line in iter(lambda: out.readline(1_000), b""):
            text = line.decode("ascii", "replace").rstrip("\n")
            if stat := _STAT.match(text):
                found[current] = int(stat[1] or 0) - int(stat[2] or 0)
            else:
                current = text
    return found


def is_squash(git: Git, commit: str, patch: str) -> bool:
    """Tell if this patch, applied to the commit's first parent, gives the commit's tree. The mirror stays as it is."""
    try:
        wanted = git.run("rev-parse", "--verify", "--end-of-options", f"{commit}^{{tree}}")
        with tempfile.TemporaryDirectory(prefix=TRIAL, dir=git.folder) as folder:
            index = Path(folder)
            (index / "objects").mkdir()
            git.run("read-tree", f"{commit}^1", index=index)
            for mail in split_mails(patch):
                if any(line.startswith(("diff --git ", "--- ")) for line in mail):  # a cover letter changes nothing
                    git.run("apply", "--cached", "--whitespace=nowarn", "-", given=mail, index=index)
            return git.run("write-tree", index=index) == wanted
    except FetchProblem as problem:
        if problem.closed:
            raise
        return False


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
        told = [mirror["read_refs"], mirror["head"], *([str(value) for value in offer.values()] for offer in offers)]
        mark = hashlib.sha256(json.dumps(told).encode()).hexdigest()
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
    found = {match.offer["pull_uri"] for match in matches}
    newest = {offer["pull_uri"]: offer for offer in offers}
    return [offer for uri, offer in newest.items() if uri not in found]


def _candidates(rows: Rows, repository: int, offers: Sequence[Row]) -> Mapping[str, Sequence[Row]]:
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
