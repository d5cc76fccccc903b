"""Look up the commits of open pull requests' rounds: which keys signed them, and in which quarter of the time zones.

Only a round that names commits can be asked about; a patch carries no signature. Its head is fetched from the target
repository's knot, also for a fork's, and git checks each object against its name, so the knot cannot lie about one. The
objects go to a folder beside the mirror and away again: nobody can fill the mirror with what they offer, and its
branches stay the only place where a change may have been before.
"""

import json
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ingest.errors import FetchProblem
from ingest.git.history import closing, read_objects
from ingest.git.mirror import mirror_path
from ingest.git.process import TRIAL, Git
from ingest.git.signatures import signing_key
from ingest.http.fetcher import Fetcher
from ingest.lookups.engine import THREADS, Due, Found, Kind, Row, Wall, fetch
from ingest.lookups.forge import is_commit, remotes
from ingest.store.database import Store
from ingest.store.transaction import Transaction

MOST_COMMITS = 250  # of one round: at 1 ms a signature a quarter of a second
ROUND_BYTES = 50_000_000  # of one round's objects that the mirror lacks, as much as ten of the largest patches
FETCH_SECONDS = 60.0
ANSWER_BYTES = 1_000_000  # of git's own output

# A quarter of all offsets names no country. The first one begins at UTC-8: of the zones with summer time only Alaska's
# and South Australia's cross an edge then, and their people have both quarters within a year.
BAND_MINUTES, BAND_START = 360, -480
_ZONE = re.compile(rb"> -?[0-9]{1,12} ([+-])([0-9]{2})([0-9]{2})\Z")

DUE_ROUNDS = """
select p.pull_uri || ' ' || p.patch_ref as subject, p.pull_uri, p.patch_ref, r.repository_id, r.knot, r.name,
  o.did as owner_did, coalesce((select min(alias) from repository_aliases a
    where a.repository_id = r.repository_id and alias like 'did:%'), r.repo_key) as repo_did,
  m.refs, coalesce(p.target_branch, m.head) as target, coalesce(x.time_zones, false) as time_zones,
  c.did as payer, 0 as rank, p.seen_at as since, coalesce(f.attempts, 0) as attempts
from pull_requests p
join watched_repositories using (repository_id)
join repositories r using (repository_id)
join mirrors m using (repository_id)
join contributors c on c.contributor_id = p.author_id
left join contributors o on o.contributor_id = r.owner_id
left join repository_settings x using (repository_id)
left join fetches f on f.kind = 'signatures' and f.subject = p.pull_uri || ' ' || p.patch_ref
where (f.subject is null or f.due_clock <= $wall) and p.state = 'open' and p.deleted_at is null
  and p.patch_ref like 'compare:%' and r.knot is not null and m.read_at is not null
"""
# A key that is declared later speaks for the commits that it signed before. Once a commit counts as signed it stays so:
# else a thief would end a habit of signing by deleting the keys.
DECLARE = """
update round_commits set declared = true from pull_requests p, declared_keys k
where not declared and p.pull_uri = round_commits.pull_uri and k.author_id = p.author_id
  and k.fingerprint = round_commits.signed_by
returning round_commits.pull_uri
"""

READ_ROUNDS = "select subject from fetches where kind = 'signatures' union all select pull_uri from round_commits"
# A repository may have switched time zones off while its rounds were read.
FORGET_ZONES = """
update round_commits set zone_band = null where zone_band is not null and pull_uri in (
  select pull_uri from pull_requests left join repository_settings x using (repository_id)
  where pull_uri in (select unnest(?)) and not coalesce(x.time_zones, false)
)
"""


def fetch_signatures(store: Store, fetcher: Fetcher, folder: Path, wall: Wall) -> int:
    """Read the commits of the open rounds that were not read yet; return how many rounds were asked about.

    `folder` holds the mirrors, which no other thread may change at the same time.
    """
    kind = Kind("signatures", Due(DUE_ROUNDS), partial(_read_round, fetcher, folder), _write)
    asked_count = fetch(store, fetcher, wall, kind)
    with store.write() as txn:
        if txn.rows(DECLARE):
            txn.inputs_changed()
    return asked_count


def forget_signatures(store: Store) -> int:
    """Delete the signatures and time zones of all rounds; return how many commits had any.

    Only open rounds are read again: whoever usually signs is not known as such before five more commits.
    """
    with store.read() as rows:
        if not rows.value(f"select count(*) from ({READ_ROUNDS})"):
            return 0
    with store.write() as txn:
        txn.execute("delete from fetches where kind = 'signatures'")
        txn.inputs_changed()
        return len(txn.rows("delete from round_commits returning pull_uri"))


def zone_band(commit: bytes) -> int | None:
    """Return the quarter of the offsets from UTC that a commit's committer wrote; None for an unreadable one.

    The committer made this very commit and signs it, while its author's time may be that of a change taken over.
    """
    head = commit.partition(b"\n\n")[0]
    line = head.partition(b"\ncommitter ")[2].partition(b"\n")[0]
    match = _ZONE.search(line[-40:])
    if match is None:
        return None
    minutes = (int(match[2]) * 60 + int(match[3])) * (-1 if match[1] == b"-" else 1)
    return (minutes - BAND_START) // BAND_MINUTES % 4 if abs(minutes) <= 14 * 60 else None


def _read_round(fetcher: Fetcher, folder: Path, row: Row) -> list[dict[str, object]]:
    """Return the rows of a round's commits. Raises FetchProblem."""
    git = Git(mirror_path(folder, row["repository_id"]), closing(fetcher))
    base, _, head = row["patch_ref"].removeprefix("compare:").partition("..")
    if not is_commit(head):  # git would take an abbreviation for the name of a branch
        raise FetchProblem("the round does not name a whole commit")
    try:
        with tempfile.TemporaryDirectory(prefix=TRIAL, dir=git.folder) as trial:
            index = Path(trial)
            (index / "objects").mkdir()
            if not _has_commit(git, head):
                _fetch_head(git, fetcher, row, head, index)
            commits = _list_commits(git, head, [base, _target(row)], index)
            objects = list(read_objects(git, commits, index))
    except OSError as error:
        raise FetchProblem(f"the round cannot be read beside its mirror: {error.strerror}", retry=True) from None
    return [_commit_row(row, place, name, data) for place, (name, data) in enumerate(objects)]


def _has_commit(git: Git, commit: str) -> bool:
    return git.run("cat-file", "--batch-check", given=[commit]).split()[1:2] == [b"commit"]


def _fetch_head(git: Git, fetcher: Fetcher, row: Row, head: str, index: Path) -> None:
    """Fetch a commit and what it is based on, without what the mirror has. Raises FetchProblem."""
    options = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules")
    room = min(ROUND_BYTES, shutil.disk_usage(git.folder).free // (2 * THREADS))
    absent = FetchProblem("the knot serves no such repository", status=404)
    for remote in remotes(fetcher, row["knot"], row["repo_did"], row["owner_did"], row["name"]):
        command = ("fetch", *options, "--end-of-options", remote.url, head)
        try:
            git.ask(remote, *command, limit=ANSWER_BYTES, seconds=FETCH_SECONDS, file_bytes=room, index=index)
            return
        except FetchProblem as problem:
            if not problem.absent:
                raise
            absent = problem
    raise absent


def _target(row: Row) -> str | None:
    refs: Mapping[str, str] = json.loads(row["refs"])
    return refs.get(row["target"])


def _list_commits(git: Git, head: str, known: Sequence[str | None], index: Path) -> list[str]:
    """Return the commits behind `head` and not behind the known ones, the oldest first. Raises FetchProblem."""
    revisions = [head, *(f"^{commit}" for commit in known if commit and is_commit(commit))]
    options = ("--topo-order", "--reverse", f"--max-count={MOST_COMMITS + 1}", "--ignore-missing", "--stdin")
    commits = git.run("rev-list", *options, given=revisions, index=index).decode("ascii").split()
    if len(commits) > MOST_COMMITS:
        raise FetchProblem(f"the round has more than {MOST_COMMITS} commits", too_large=True)
    return commits


def _commit_row(row: Row, place: int, commit: str, data: bytes) -> dict[str, object]:
    return {
        "pull_uri": row["pull_uri"],
        "patch_ref": row["patch_ref"],
        "commit_id": commit,
        "place": place,
        "signed_by": signing_key(data),
        "declared": False,
        "zone_band": zone_band(data) if row["time_zones"] else None,
    }


def _write(txn: Transaction, results: Sequence[Found[list[dict[str, Any]]]]) -> None:
    rows = [row for result in results if not isinstance(result.answer, FetchProblem) for row in result.answer]
    txn.upsert("round_commits", rows)
    if rows:
        txn.execute(FORGET_ZONES, [list({row["pull_uri"] for row in rows})])
        txn.inputs_changed()
