"""Find the commits of the target branch that carry a pull request, and decide if they prove its merge.

They prove it only if the change appeared after it was offered and came from nobody else: the commit appeared on the
branch after the round was witnessed, no branch held the same change before, whole or in portions, no other pull request
offered it before, and it changes more than white space. So a copy of a maintainer's branch, a copy of another pull
request and an empty change earn no merge. The author chooses a Change-Id or a title: these find candidates and prove
nothing.

Earlier public commits may have made a change together, in any portions: a person may copy a branch of several commits
and offer it as one change that no single commit makes. But each line that several commits add or remove together was
added or removed by one of them. If that holds for all lines of a change, it may be a copy.

A commit is proven if applying the mails of a series to its parent gives exactly this commit.
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

READ_LIMIT = 256_000_000  # bytes of earlier diffs for one change: beyond it the origin is unknown
READ_SECONDS = 120.0
LINE_LIMIT = 1_000_000
PATHS = 500  # a change of more files, or with longer names in all, is looked for in whole commits
PATH_BYTES = 50_000  # of a command line
# As git stores them: a rename removes one file and adds another; a merge is compared with each of its parents.
PIECES = (*DIFF, "-p", "-U0", "-m", "--no-renames", "--full-index", "--src-prefix=a/", "--dst-prefix=b/")

_HUNK = re.compile(rb"@@ -[0-9]+(?:,([0-9]+))? \+[0-9]+(?:,([0-9]+))? @@")
_INDEX = re.compile(rb"index ([0-9a-f]+)\.\.([0-9a-f]+)")

Piece = tuple[bytes, bytes]  # '+' or '-', and a line without white space or the name of a binary object; a new mode


def was_public(git: Git, commit: str, earlier: Collection[str]) -> bool:
    """Return True if earlier commits made every line change of this commit, or if nobody can tell.

    For ancestors, the same files are read (a change may be reverted and come again); for other commits, which lie on
    other branches, all files are read, because a file may have another name since. Raises FetchProblem only if the
    fetcher was closed.
    """
    try:
        ancestors = set(reachable(git, [commit]))
        unexplained = set(_stream_pieces(git, [commit]))
        unexplained -= _find_made_pieces(
            git, sorted(earlier_commit for earlier_commit in earlier if earlier_commit not in ancestors), unexplained
        )
        if unexplained:
            unexplained -= _find_made_pieces(
                git,
                sorted(
                    earlier_commit
                    for earlier_commit in earlier
                    if earlier_commit in ancestors and earlier_commit != commit
                ),
                unexplained,
                commit,
            )
        return not unexplained
    except FetchProblem as problem:
        if problem.closed:
            raise
        return True


def _find_made_pieces(
    git: Git, commits: Sequence[str], wanted: set[Piece], like_commit: str | None = None
) -> set[Piece]:
    """Return the wanted pieces that these commits made; with `like_commit` read only the files that it changes."""
    made_pieces: set[Piece] = set()
    for piece in _stream_pieces(git, commits, _changed_paths(git, like_commit) if like_commit else ()):
        if piece in wanted:
            made_pieces.add(piece)
            if len(made_pieces) == len(wanted):
                break
    return made_pieces


def _changed_paths(git: Git, commit: str) -> list[str]:
    """Return the files that a commit changes, or none if they are too many to list."""
    answer = git.run(*DIFF, "-z", "--no-commit-id", "--name-only", "--no-renames", given=[commit])
    paths = [path.decode("utf-8", "surrogateescape") for path in answer.split(b"\0") if path]
    return paths if len(paths) <= PATHS and len(answer) <= PATH_BYTES else []


def _stream_pieces(git: Git, commits: Sequence[str], paths: Sequence[str] = ()) -> Iterator[Piece]:
    if commits:
        with git.stream(*PIECES, "--", *paths, given=commits, seconds=READ_SECONDS) as out:
            yield from _read_pieces(out)


def _read_pieces(out: IO[bytes]) -> Iterator[Piece]:
    """Yield the pieces of a stream of diffs without context. Raises FetchProblem where it is too long."""
    lines_left = size = 0  # lines left in the current hunk; bytes read
    index = (b"", b"")
    while line := out.readline(LINE_LIMIT):
        size += len(line)
        if size > READ_LIMIT or len(line) == LINE_LIMIT:
            raise FetchProblem("earlier commits change more than is read", too_large=True)
        if lines_left and line[:1] in b"+-":
            lines_left -= 1
            if text := line[1:].translate(None, b" \t\n\v\f\r"):
                yield line[:1], text
        elif hunk := _HUNK.match(line):
            lines_left = sum(int(count) if count is not None else 1 for count in hunk.groups())
        elif index_match := _INDEX.match(line):
            index = index_match[1], index_match[2]
        elif line.startswith(b"Binary files "):
            yield from zip((b"-", b"+"), index, strict=True)
        elif line.startswith(b"new mode "):
            yield b"m", line


EVER = datetime.min  # an unwitnessed round may have been offered at any time before

# The time from which a change may have been on any branch, under any commit.
FIRST_HELD = """
select patch_id, min(coalesce(absent_at, timestamp '0001-01-01')) as since from commits
where repository_id = $repository and patch_id in (select unnest($names)) group by patch_id
"""
Row = Mapping[str, Any]
Claim = tuple[str, datetime]  # a pull request, and the time since which it offers something


@dataclass(frozen=True)
class Match:
    """A commit that carries an offer, alone or with others; `proof` as in the table `landings`."""

    offer: Row
    commit: Row
    proof: str

    def names(self) -> set[str]:
        """Return the changes that must be new. For a squash these include the mails that it was made of."""
        offer = self.offer
        return {self.commit["patch_id"], *((offer["patch_id"], *offer["series"]) if self.proof == "squash" else ())}


@dataclass(frozen=True)
class MergeEvidence:
    offered: Mapping[str, Sequence[Claim]]  # change to the pull requests that offered it, with times
    carried: Mapping[str, Sequence[Claim]]  # commit to the pull requests that it was matched with, with times
    held: Mapping[str, datetime]  # change to the time since which a branch may have held it
    rounds: Mapping[str, Sequence[datetime]]  # pull request to the times at which its rounds were seen


def gather_evidence(rows: Rows, repository: int, offers: Iterable[Row], matches: Sequence[Match]) -> MergeEvidence:
    """Gather the facts by which the matches of a repository are judged; `offers` are all rounds, read or not."""
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
    first_held = rows.rows(FIRST_HELD, {"repository": repository, "names": names})
    return MergeEvidence(offered, carried, {row["patch_id"]: row["since"] for row in first_held}, rounds)


def _claim(offer: Row) -> Claim:
    return offer["pull_uri"], offer["seen_at"] if offer["witnessed"] else EVER


def came_after(offer: Row, commit: Row) -> bool:
    """Return True if a fetch after the round found the branch without this commit."""
    return commit["absent_at"] is not None and commit["absent_at"] >= offer["seen_at"]


def is_proven(evidence: MergeEvidence, matches: Sequence[Match]) -> bool:
    """Return True if these commits, which carry one offer together, prove that it was merged."""
    offer = matches[0].offer
    proving = [match for match in matches if match.commit["proves"]]
    if matches[0].proof not in ("patch_id", "series", "squash") or not (offer["witnessed"] and offer["proves"]):
        return False
    fresh = all(came_after(offer, match.commit) and _is_newest(evidence, match) for match in matches)
    return fresh and bool(proving) and all(_is_own(evidence, match) for match in proving)


def _is_newest(evidence: MergeEvidence, match: Match) -> bool:
    """Return True if no later round was seen before the commit: a superseded round cannot be the merged one."""
    seen_at, appeared_at = match.offer["seen_at"], match.commit["appeared_at"]
    return not any(seen_at < other_seen_at <= appeared_at for other_seen_at in evidence.rounds[match.offer["pull_uri"]])


def _is_own(evidence: MergeEvidence, match: Match) -> bool:
    """Return True if no branch held this change, and no other pull request offered it, when this round was seen."""
    offer, names = match.offer, match.names()
    if any(name in evidence.held and evidence.held[name] < offer["seen_at"] for name in names):
        return False
    claims = [claim for name in names for claim in evidence.offered.get(name, ())]
    claims_of_commit = [*claims, *evidence.carried[match.commit["commit_id"]]]
    return not any(uri != offer["pull_uri"] and since <= offer["seen_at"] for uri, since in claims_of_commit)


_STAT = re.compile(r" \d+ files? changed(?:, (\d+) insertions?\(\+\))?(?:, (\d+) deletions?\(-\))?")


def growth(git: Git, commits: Sequence[str]) -> dict[str, int]:
    """Return lines added minus removed of each readable commit, equal for series and squash. Raises FetchProblem."""
    growth_by_commit: dict[str, int] = {}
    current = ""
    with git.stream(*DIFF, "--shortstat", "--no-renames", given=commits, seconds=DIFF_SECONDS) as out:
        for line in iter(lambda: out.readline(1_000), b""):
            text = line.decode("ascii", "replace").rstrip("\n")
            if match := _STAT.match(text):
                growth_by_commit[current] = int(match[1] or 0) - int(match[2] or 0)
            else:
                current = text
    return growth_by_commit


def is_squash(git: Git, commit: str, patch: str) -> bool:
    """Tell if this patch, applied to the commit's first parent, gives the commit's tree. The mirror stays unchanged."""
    try:
        commit_tree = git.run("rev-parse", "--verify", "--end-of-options", f"{commit}^{{tree}}")
        with tempfile.TemporaryDirectory(prefix=TRIAL, dir=git.folder) as folder:
            index = Path(folder)
            (index / "objects").mkdir()
            git.run("read-tree", f"{commit}^1", index=index)
            for mail in split_mails(patch):
                if any(line.startswith(("diff --git ", "--- ")) for line in mail):  # a cover letter changes nothing
                    git.run("apply", "--cached", "--whitespace=nowarn", "-", given=mail, index=index)
            return git.run("write-tree", index=index) == commit_tree
    except FetchProblem as problem:
        if problem.closed:
            raise
        return False


SQUASHES = 2_000  # newest commits of a branch among which squashes are sought
TRIALS = 50  # commits among these that one patch is tried on
TITLE = 12  # characters: a shorter title does not identify a commit

MIRRORS = """
select m.* from mirrors m semi join watched_repositories using (repository_id)
where m.read_at is not null order by m.repository_id
"""
# Every round, and its patch if it was read. A deleted pull request still counts as an offer.
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
# Commits that any branch may have held when a round was seen.
EARLIER = """
select commit_id from commits where repository_id = $repository and coalesce(absent_at < $seen_at, true)
"""
PROVEN = """
select pull_uri, commit_id from landings l join pull_requests p using (pull_uri)
where l.proven and p.repository_id = $repository
"""


def find_landings(store: Store, fetcher: Fetcher, folder: Path, diff_folder: Path) -> int:
    """Fill `landings` for watched repositories in which something changed; return how many rows are new or changed.

    Do nothing while a backfill may still find an earlier offer of the same change by somebody: a proof is never
    withdrawn.
    """
    with store.read() as reader:
        mirrors = [] if is_incomplete(reader) else reader.rows(MIRRORS)
    changed = 0
    for mirror in mirrors:
        with store.read() as reader:
            parameters = {"repository": mirror["repository_id"], "head": mirror["head"]}
            offers = reader.rows(OFFERS, parameters)
        inputs = [mirror["read_refs"], mirror["head"], *([str(value) for value in offer.values()] for offer in offers)]
        mark = hashlib.sha256(json.dumps(inputs).encode()).hexdigest()
        if mark == mirror["landings_mark"] or fetcher.closed:
            continue
        git = Git(mirror_path(folder, mirror["repository_id"]), closing(fetcher))
        try:
            landing_rows = _find_matches(store, git, mirror, offers, diff_folder)
        except FetchProblem:  # the mirror is damaged or the worker stops: the mark stays, so this is tried again
            continue
        with store.write() as txn:
            changed += _write(txn, landing_rows)
            sql = "update mirrors set landings_mark = ? where repository_id = ?"
            txn.execute(sql, [mark, mirror["repository_id"]])
    return changed


def _find_matches(
    store: Store, git: Git, mirror: Row, offers: Sequence[Row], diff_folder: Path
) -> list[dict[str, object]]:
    number, readable = mirror["repository_id"], [offer for offer in offers if offer["patch_id"]]
    with store.read() as reader:
        matches = _match_by_patch_id(reader, number, readable)
        missing = _unmatched_offers(readable, matches)
        candidates = _candidates(reader, number, missing)
    matches += _match_squashes(git, missing, candidates, partial(_load_offered_patch, diff_folder))
    matches += _match_claims(_unmatched_offers(readable, matches), candidates)
    with store.read() as reader:
        evidence = gather_evidence(reader, number, offers, matches)
        proven = {(row["pull_uri"], row["commit_id"]) for row in reader.rows(PROVEN, {"repository": number})}

    def is_copy(match: Match) -> bool:
        if (match.offer["pull_uri"], match.commit["commit_id"]) in proven:
            return False
        with store.read() as reader:
            parameters = {"repository": number, "seen_at": match.offer["seen_at"]}
            earlier = {row["commit_id"] for row in reader.rows(EARLIER, parameters)}
        return was_public(git, match.commit["commit_id"], earlier)

    return _landing_rows(git, evidence, matches, is_copy)


def _load_offered_patch(folder: Path, offer: Row) -> str | None:
    try:
        return load_patch(folder, offer["sha256"])
    except PatchProblem:
        return None


def _match_by_patch_id(rows: Rows, repository: int, offers: Sequence[Row]) -> list[Match]:
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
            carriers_by_part = [carriers[offer["branch"], name] for name in names]
            if all(carriers_by_part):
                matches += [Match(offer, _choose_commit(offer, candidates), proof) for candidates in carriers_by_part]
                break
    return matches


def _choose_commit(offer: Row, candidates: Sequence[Row]) -> Row:
    """Return the first commit that appeared after the round was seen, or else the first one."""
    return next((commit for commit in candidates if came_after(offer, commit)), candidates[0])


def _unmatched_offers(offers: Sequence[Row], matches: Iterable[Match]) -> list[Row]:
    matched = {match.offer["pull_uri"] for match in matches}
    newest = {offer["pull_uri"]: offer for offer in offers}
    return [offer for uri, offer in newest.items() if uri not in matched]


def _candidates(rows: Rows, repository: int, offers: Sequence[Row]) -> Mapping[str, Sequence[Row]]:
    sql = f"{CARRIERS} and b.branch = $branch order by b.absent_at desc nulls last, c.committed_at desc, c.commit_id"
    parameters = {"repository": repository, "limit": SQUASHES}
    branches = {offer["branch"] for offer in offers if offer["branch"]}
    return {branch: rows.rows(f"{sql} limit $limit", {**parameters, "branch": branch}) for branch in sorted(branches)}


def _match_squashes(
    git: Git, offers: Sequence[Row], candidates: Mapping[str, Sequence[Row]], patch: Callable[[Row], str | None]
) -> list[Match]:
    """Match commits that equal an offer applied to their parent, though git would write that change otherwise."""
    possible_commits = [
        (offer, _possible_commits(offer, candidates.get(offer["branch"], ()))) for offer in offers if offer["proves"]
    ]
    commits = list(dict.fromkeys(commit["commit_id"] for _, possible in possible_commits for commit in possible))
    growth_by_commit = growth(git, commits) if commits else {}
    matches = []
    for offer, possible in possible_commits:
        same_growth = [commit for commit in possible if growth_by_commit.get(commit["commit_id"]) == offer["growth"]][
            :TRIALS
        ]
        text = patch(offer) if same_growth else None
        squashes = (commit for commit in same_growth if text is not None and is_squash(git, commit["commit_id"], text))
        if commit := next(squashes, None):
            matches.append(Match(offer, commit, "squash"))
    return matches


def _possible_commits(offer: Row, commits: Sequence[Row]) -> list[Row]:
    """Return commits with changes that came after the offer, or that may have, if a push-holder recorded the merge."""
    changing = (commit for commit in commits if commit["patch_id"])
    return [
        candidate
        for candidate in changing
        if came_after(offer, candidate) or (offer["told"] and candidate["absent_at"] is None)
    ]


def _match_claims(offers: Sequence[Row], candidates: Mapping[str, Sequence[Row]]) -> list[Match]:
    """Match commits that only claim, by Change-Id or title, to carry an offer that a push-holder marked as merged."""
    matches = []
    for offer in (offer for offer in offers if offer["told"]):
        possible = _possible_commits(offer, candidates.get(offer["branch"], ()))
        by_change_id = [commit for commit in possible if commit["change_id"] in offer["change_ids"]]
        by_title = [
            commit for commit in possible if commit["subject"] == offer["title"] and len(offer["title"]) >= TITLE
        ]
        if by_change_id:
            matches += [Match(offer, commit, "change_id") for commit in by_change_id]
        elif len(by_title) == 1:
            matches.append(Match(offer, by_title[0], "subject"))
    return matches


def _landing_rows(
    git: Git, evidence: MergeEvidence, matches: Sequence[Match], is_copy: Callable[[Match], bool]
) -> list[dict[str, object]]:
    groups: dict[tuple[str, int, str], list[Match]] = defaultdict(list)
    for match in matches:
        groups[match.offer["pull_uri"], match.offer["round"], match.offer["patch_ref"]].append(match)
    inverses = dict(read_diffs(git, sorted({match.commit["commit_id"] for match in matches}), *INVERSE))
    rows: dict[tuple[str, str], dict[str, object]] = {}
    for group in groups.values():
        proven = is_proven(evidence, group) and not any(is_copy(match) for match in group if match.commit["proves"])
        for match in group:
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


def _write(txn: Transaction, landing_rows: Sequence[Mapping[str, object]]) -> int:
    """Write the new and the changed rows. A proof is never withdrawn: a later listing may claim any past."""
    uris = [row["pull_uri"] for row in landing_rows]
    stored = txn.rows("select * from landings where pull_uri in (select unnest(?))", [uris])
    stored_by_key = {(row["pull_uri"], row["commit_id"]): row for row in stored}
    changed = [row for row in landing_rows if _is_changed(stored_by_key.get((row["pull_uri"], row["commit_id"])), row)]
    txn.upsert("landings", changed)
    if changed:
        txn.inputs_changed()
    return len(changed)


def _is_changed(stored: Row | None, row: Row) -> bool:
    differs = stored is None or (row["proven"], row["proof"]) != (stored["proven"], stored["proof"])
    return differs and not (stored and stored["proven"])
