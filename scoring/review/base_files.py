"""Reads the files that a pull request touches from its target branch in the mirror."""

import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path

from ingest.errors import FetchProblem
from ingest.git.base_files import read_files
from ingest.git.mirror import mirror_path
from ingest.git.process import Git
from ingest.store.transaction import Rows
from scoring.diff.change import Change

log = logging.getLogger(__name__)
TARGET = """
select m.repository_id, coalesce(p.target_branch, m.head) as branch, m.refs
from mirrors m join pull_requests p using (repository_id) where p.pull_uri = ?
"""


def base_files_in(rows: Rows, folder: Path, pull_uri: str) -> Callable[[Change], Mapping[str, str]]:
    """Return a function from a change to the old texts of its files by path; {} without a mirror of the branch."""
    row = rows.row(TARGET, [pull_uri])
    commit = json.loads(row["refs"]).get(row["branch"]) if row else None

    def read_base_files(change: Change) -> Mapping[str, str]:
        if row is None or commit is None:
            return {}
        paths = [file.old_path for file in change.files if file.kind != "added" and file.hunks]
        try:
            return read_files(Git(mirror_path(folder, row["repository_id"])), str(commit), paths)
        except FetchProblem as problem:
            log.warning("the files of %s cannot be read from its mirror: %s", pull_uri, problem)
            return {}

    return read_base_files
