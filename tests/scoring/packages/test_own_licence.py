"""The licence of a watched repository is read from its mirror, known by its words, guessed by nothing."""

import json
from pathlib import Path

import pytest

from ingest.git.mirror import mirror_path
from scoring.packages.licences import licence_of_text, own_licence
from tests.ingest.git.git_world import Work
from tests.pipeline import Result
from tests.scoring.small import OFFERED, settled, take

MIT = "The MIT License\n\nPermission is hereby granted, free of\ncharge, to any person obtaining a copy of this …"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (MIT, "MIT"),
        (
            "                    GNU GENERAL PUBLIC LICENSE\n                       Version 3, 29 June 2007",
            "GPL-3.0-only",
        ),
        ("GNU AFFERO GENERAL PUBLIC LICENSE\n   Version 3", "AGPL-3.0-only"),
        ("GNU LESSER GENERAL PUBLIC LICENSE\n Version 2.1, February 1999", "LGPL-2.1-only"),
        ("Apache License\n  Version 2.0, January 2004", "Apache-2.0"),
        ("Mozilla Public License Version 2.0", "MPL-2.0"),
        ("Redistribution and use in source and binary forms … Neither the name of", "BSD-3-Clause"),
        ("Redistribution and use in source and binary forms, with or without", "BSD-2-Clause"),
        ("Permission to use, copy, modify, and/or distribute this software for any purpose", "ISC"),
        ("All rights reserved.", None),
        ("", None),
    ],
)
def test_a_licence_is_known_by_its_words(text: str, name: str | None) -> None:
    assert licence_of_text(text) == name


def mirrored(result: Result, folder: Path, files: dict[str, str | None]) -> str | None:
    """What is found where the target repository's mirror holds these files."""
    take(result, settled("open"))
    number = result.value("select repository_id from pull_requests where pull_uri = ?", [OFFERED])
    work = Work(folder / "work")
    commit = work.commit("First", files)
    work.git("clone", "-q", "--bare", str(work.folder), str(mirror_path(folder, number)))
    row = {"repository_id": number, "state": "fetched", "bytes": 1, "head": "main", "read_refs": "{}"}
    with result.store.write() as txn:
        txn.append("mirrors", [{**row, "refs": json.dumps({"main": commit})}])
    with result.store.read() as rows:
        return own_licence(rows, folder, OFFERED)


def test_the_file_on_the_branch_of_the_mirror_tells(result: Result, tmp_path: Path) -> None:
    assert mirrored(result, tmp_path, {"a.py": "x\n", "LICENSE.md": MIT}) == "MIT"


def test_a_repository_without_a_licence_file_has_none(result: Result, tmp_path: Path) -> None:
    assert mirrored(result, tmp_path, {"a.py": f"# {MIT}\n"}) is None


def test_without_a_mirror_nothing_is_known(result: Result, tmp_path: Path) -> None:
    take(result, settled("open"))
    with result.store.read() as rows:
        assert own_licence(rows, tmp_path, OFFERED) is None


def test_a_mirror_that_is_gone_is_no_crash(result: Result, tmp_path: Path) -> None:
    take(result, settled("open"))
    number = result.value("select repository_id from pull_requests where pull_uri = ?", [OFFERED])
    row = {"repository_id": number, "state": "fetched", "bytes": 1, "head": "main", "read_refs": "{}"}
    with result.store.write() as txn:
        txn.append("mirrors", [{**row, "refs": json.dumps({"main": "0" * 40})}])
    with result.store.read() as rows:
        assert own_licence(rows, tmp_path, OFFERED) is None
