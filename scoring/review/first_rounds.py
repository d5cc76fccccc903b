"""Lists the files of the rounds that pull requests began with, for models to learn from.

Rounds that are reviewed have their files from the review; here the others get theirs: whatever was merged or refused
before it was reviewed. Their texts are only parsed, by no scanner and no reviewer.
"""

from pathlib import Path
from typing import Any

from ingest.git.patch import PatchProblem, load_patch
from ingest.store.database import Store
from scoring.diff.change import Change
from scoring.diff.parser import read_change
from scoring.diff.paths import touched_files

BATCH = 500  # texts between two transactions: .3 ms each
WAITING = """
select pull_uri, patch_ref, u.sha256 from unread_rounds u anti join (
  select pull_uri, patch_ref from pull_requests where state = 'open'
) using (pull_uri, patch_ref)
where u.sha256 is not null order by seen_at desc, pull_uri limit ?
"""


def list_files(store: Store, folder: Path) -> int:
    """List the files of the next stored first rounds that no review reads; return how many rounds that were.

    A text that is gone has no files, and its list counts as incomplete.
    """
    with store.read() as rows:
        waiting = rows.rows(WAITING, [BATCH])
    listed = [touched_row(row["pull_uri"], row["patch_ref"], _load(row["sha256"], folder)) for row in waiting]
    if listed:
        with store.write() as txn:
            txn.upsert("touched_files", listed)
            txn.inputs_changed()
    return len(listed)


def _load(sha256: str, folder: Path) -> Change:
    try:
        return read_change(load_patch(folder, sha256))
    except PatchProblem:
        return Change((), (), (), 0.0)


def touched_row(pull_uri: str, patch_ref: str, change: Change) -> dict[str, Any]:
    """Return the row of `touched_files` of a round with this change."""
    touched = touched_files(change)
    columns = {"pull_uri": pull_uri, "patch_ref": patch_ref, "whole": touched.whole}
    return columns | {"kinds": list(touched.kinds), "paths": list(touched.paths)}
