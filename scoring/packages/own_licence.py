"""The licence of a watched repository, read from its mirror, to hold what a change brings in against."""

import json
import re
from functools import lru_cache
from pathlib import Path

from ingest.errors import FetchProblem
from ingest.git.mirror import mirror_path
from ingest.git.process import Git
from ingest.store.transaction import Rows

LARGEST = 200_000  # bytes of a licence file
NAMES = ("LICENSE", "LICENCE", "COPYING", "UNLICENSE")
HEAD = """
select m.repository_id, m.head, m.refs from mirrors m join pull_requests p using (repository_id) where p.pull_uri = ?
"""
# Words that stand in one licence and in no other, once white space is one blank; the first that fits is meant.
TELLING: tuple[tuple[str, str], ...] = (
    ("AGPL-3.0-only", r"gnu affero general public license version 3"),
    ("LGPL-3.0-only", r"gnu lesser general public license version 3"),
    ("LGPL-2.1-only", r"gnu lesser general public license version 2\.1"),
    ("GPL-3.0-only", r"gnu general public license version 3"),
    ("GPL-2.0-only", r"gnu general public license version 2"),
    ("Apache-2.0", r"apache license version 2\.0"),
    ("MPL-2.0", r"mozilla public license,? version 2\.0"),
    ("EPL-2.0", r"eclipse public license - v 2\.0"),
    ("EUPL-1.2", r"european union public licence v\. 1\.2"),
    ("Unlicense", r"free and unencumbered software released into the public domain"),
    (
        "BSD-3-Clause",
        r"redistribution and use in source and binary forms.*(neither the name|names of its contributors)",
    ),
    ("BSD-2-Clause", r"redistribution and use in source and binary forms"),
    ("ISC", r"permission to use, copy, modify, and/?(or)? distribute this software for any purpose"),
    ("MIT", r"permission is hereby granted, free of charge, to any person obtaining a copy"),
)


def own_licence(rows: Rows, folder: Path, pull_uri: str) -> str | None:
    """The SPDX id of the target repository's licence file; None without a mirror or a licence that is known here."""
    row = rows.row(HEAD, [pull_uri])
    commit = json.loads(row["refs"]).get(row["head"]) if row else None
    return (
        None if row is None or commit is None else _licence_at(mirror_path(folder, row["repository_id"]), str(commit))
    )


def licence_of_text(text: str) -> str | None:
    """The SPDX id of the licence that this text is; None where it is none that is known here."""
    words = " ".join(text.lower().split())[:LARGEST]
    return next((name for name, pattern in TELLING if re.search(pattern, words)), None)


@lru_cache(maxsize=256)
def _licence_at(mirror: Path, commit: str) -> str | None:
    git = Git(mirror)
    try:
        names = git.run("ls-tree", "--name-only", "-z", commit, limit=LARGEST).decode("utf-8", "replace").split("\0")
        licence_files = [name for name in sorted(names) if name.upper().startswith(NAMES)]
        text = git.run("cat-file", "blob", f"{commit}:{licence_files[0]}", limit=LARGEST) if licence_files else b""
        return licence_of_text(text.decode("utf-8", "replace"))
    except FetchProblem:
        return None
