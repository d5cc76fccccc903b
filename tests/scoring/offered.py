"""Patches of pull requests, as if they had been fetched."""

from ingest.git.apply_check import compare_with_git
from ingest.git.patch import read_patch, store_patch
from tests.pipeline import Result
from tests.scoring.small import OFFERED, settled, take

ENDED = """
insert or replace into fetches
select 'identity', did, 'found', null, 0, null, $wall from contributors
union all select 'push_holders', repo_key, 'found', null, 0, null, $wall from repositories
"""
CLEAN = "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1,2 @@\n print(1)\n+print(2)\n"


def offer(result: Result, diff: str = CLEAN, uri: str = OFFERED, ref: str = "blob:one", limit: int = 100_000) -> None:
    """This patch is the newest round of the pull request, fetched and kept."""
    patch, reading = read_patch(diff.encode(), limit), compare_with_git(diff.encode())
    row = {
        "pull_uri": uri,
        "patch_ref": ref,
        "patch_id": patch.patch_id,
        "sha256": store_patch(result.folder / "diffs", patch.text),
        "bytes": len(diff),
        "files": patch.files,
        "added": patch.added,
        "removed": patch.removed,
        "state": patch.state,
        "proves": patch.proves,
        "series": list(patch.series),
        "change_ids": [],
        "git_reading": reading.state if reading else None,
        "git_line": reading.line if reading else None,
    }
    with result.store.write() as txn:
        txn.upsert("patches", [row])
        txn.execute("update pull_requests set patch_ref = ? where pull_uri = ?", [ref, uri])
        txn.inputs_changed()


def one_open(result: Result) -> None:
    """One open pull request of mara's to seed's watched repository, with a small clean patch."""
    take(result, settled("open"))
    offer(result)


def end_lookups(result: Result) -> None:
    """As if everybody had been asked about and every answer had come."""
    with result.store.write() as txn:
        txn.execute(ENDED, {"wall": result.store.wall()})
        txn.inputs_changed()
