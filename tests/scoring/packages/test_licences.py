"""Licences: what a change brings in is held against the licence of the repository, read from its mirror."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ingest.git.mirror import mirror_path
from scoring.packages.licences import Demand, licence_of_text, may_come_in, own_licence, parse_licence
from scoring.scanners.licences import scan
from scoring.types import Severity
from tests.ingest.git.git_world import Work
from tests.pipeline import Result
from tests.scoring.diff.patched import submission
from tests.scoring.small import OFFERED, settled, take

LOW, MED, HIGH = Severity.LOW, Severity.MED, Severity.HIGH
GPL = "# This program is free software under the terms of the GNU General\n# Public License as published\nx = 1\n"


def told(path: str, before: str, after: str, own: str | None = "MIT") -> list[tuple[str, Severity]]:
    return [(one.rule, one.severity) for one in scan(submission({path: (before, after)}, licence=own))]


@pytest.mark.parametrize(
    ("text", "demand"),
    [
        ("MIT", Demand.PERMISSIVE),
        ("mpl-2.0", Demand.WEAK),
        ("LGPL-3.0-or-later", Demand.WEAK),
        ("GPL-2.0+", Demand.STRONG),
        ("AGPL-3.0", Demand.NETWORK),
        ("SSPL-1.0", Demand.RESTRICTED),
        ("BUSL-1.1", Demand.RESTRICTED),
        ("BSL-1.0", Demand.PERMISSIVE),
        ("CC-BY-4.0", Demand.PERMISSIVE),
        ("CC-BY-NC-SA-4.0", Demand.RESTRICTED),
        ("CC-BY-SA-4.0", Demand.STRONG),
        ("MIT OR AGPL-3.0-only", Demand.PERMISSIVE),
        ("MIT AND AGPL-3.0-only", Demand.NETWORK),
        ("MIT AND Strange-1.0", None),
        ("GPL-2.0-only WITH Classpath-exception-2.0", Demand.WEAK),
        ("Strange-1.0", None),
        ("", None),
        ("(((", None),
    ],
)
def test_an_expression_asks_what_its_parts_ask(text: str, demand: Demand | None) -> None:
    assert parse_licence(text).demand == demand


@pytest.mark.parametrize(
    ("incoming", "own", "allowed"),
    [
        ("MIT", "GPL-3.0-only", True),
        ("GPL-3.0-only", "MIT", False),
        ("GPL-3.0-or-later", "AGPL-3.0-or-later", True),
        ("AGPL-3.0-only", "GPL-3.0-only", False),
        ("Apache-2.0", "GPL-2.0-only", False),
        ("Apache-2.0", "GPL-2.0-or-later", True),
        ("GPL-3.0-only", "GPL-2.0-only", False),
        ("MPL-2.0", "MIT", False),
        ("MIT OR GPL-3.0-only", "MIT", True),
        ("SSPL-1.0", "AGPL-3.0-only", False),
        ("SSPL-1.0", "SSPL-1.0", True),
        ("MIT", "LicenseRef-Proprietary", True),
        ("GPL-3.0-only", "LicenseRef-Proprietary", False),
        ("Strange-1.0", "MIT", None),
    ],
)
def test_what_asks_for_more_than_the_repository_gives_may_not_come_in(
    incoming: str, own: str, allowed: bool | None
) -> None:
    assert may_come_in(parse_licence(incoming), parse_licence(own)) is allowed


@pytest.mark.parametrize(
    "text", ["()", "( )", "MIT AND ()", "(()())", "((", ")(", "(MIT", "MIT OR", "NOT MIT", "(" * 500]
)
def test_an_expression_that_no_parser_takes_is_an_unreadable_licence(text: str) -> None:
    assert not parse_licence(text).readable
    assert told("src/a.py", "", f"# SPDX-License-Identifier: {text}\n") == [("unknown_identifier", Severity.LOW)]


@given(some.text("()ANDORWITHMITGPL-2.0+ /", max_size=40))
def test_any_text_is_read_and_the_same_licence_always_may_come_in(text: str) -> None:
    licence = parse_licence(text)
    assert may_come_in(licence, licence) is True


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("# SPDX-License-Identifier: MIT", []),
        ("/* SPDX-License-Identifier: Apache-2.0 */", []),
        ("<!-- SPDX-License-Identifier: BSD-3-Clause -->", []),
        ("# SPDX-License-Identifier: AGPL-3.0-only", [("licence_conflict", HIGH)]),
        ("// spdx-license-identifier: SSPL-1.0", [("licence_conflict", HIGH)]),
        ("# SPDX-License-Identifier: MPL-2.0", [("licence_conflict", MED)]),
        ("# SPDX-License-Identifier: MIT OR GPL-3.0-only", []),
        ("# SPDX-License-Identifier: MITT", [("unknown_identifier", LOW)]),
        ("# SPDX-License-Identifier: see LICENSE file", [("unknown_identifier", LOW)]),
        ("# SPDX-License-Identifier: LicenseRef-ours", []),
    ],
)
def test_an_identifier_is_held_against_the_repositorys_licence(line: str, expected: list[tuple[str, Severity]]) -> None:
    assert told("src/x.py", "x = 1\n", f"{line}\nx = 1\n") == expected


def test_an_identifier_that_changes_or_goes_is_said() -> None:
    line = "# SPDX-License-Identifier: {}\nx = 1\n"
    assert told("x.py", line.format("MIT"), line.format("Apache-2.0")) == [("identifier_changed", MED)]
    assert told("x.py", line.format("MIT"), "x = 1\n") == [("identifier_changed", MED)]
    assert told("x.py", line.format("MIT"), "y = 1\n" + line.format("MIT")) == []
    assert told("x.py", line.format("MIT"), "") == []


@pytest.mark.parametrize(
    ("text", "own", "expected"),
    [
        (GPL, "MIT", [("licence_conflict", HIGH)]),
        (GPL, "GPL-3.0-or-later", []),
        (GPL, None, [("demanding_licence", MED)]),
        ("// Licensed under the Business Source License 1.1\n", "Apache-2.0", [("licence_conflict", HIGH)]),
        ("/* Proprietary and confidential. */\n", "MIT", [("licence_conflict", HIGH)]),
        ("# Mozilla Public License, v. 2.0\n", "MIT", [("licence_conflict", MED)]),
        ("# Licensed under the MIT license\n", "MIT", []),
        ("licence = read(path)\n", "MIT", []),
    ],
)
def test_a_header_is_known_by_its_phrases(text: str, own: str | None, expected: list[tuple[str, Severity]]) -> None:
    assert told("src/x.c", "", text, own) == expected


def test_prose_may_name_any_licence() -> None:
    assert told("docs/licences.md", "", GPL) == []


def test_the_text_of_a_licence_that_changes_is_said_and_new_years_weigh_little() -> None:
    text = "MIT License\n\nCopyright (c) 2024 Ana\n\nPermission is granted\n"
    assert told("LICENSE", text, text.replace("2024", "2024-2026")) == [("licence_years", LOW)]
    assert told("LICENSE.txt", text, text.replace("granted", "denied")) == [("licence_file", MED)]
    assert told("COPYING", text, "") == [("licence_file", MED)]
    assert told("vendor/x/LICENSE", "", GPL) == [("licence_file", LOW), ("licence_conflict", HIGH)]


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("package.json", '{{"license": "{}"}}\n'),
        ("pyproject.toml", '[project]\nlicense = "{}"\n'),
        ("pyproject.toml", '[project]\nlicense = {{text = "{}"}}\n'),
        ("Cargo.toml", '[package]\nlicense = "{}"\n'),
        ("setup.py", "setup(license='{}')\n"),
        ("x.gemspec", 'spec.license = "{}"\n'),
    ],
)
def test_a_declared_licence_that_changes_is_said(path: str, line: str) -> None:
    assert told(path, line.format("MIT"), line.format("Apache-2.0")) == [("declared_licence", MED)]
    assert told(path, line.format("MIT"), line.format("MIT") + "\n") == []
    assert told(path, "", line.format("AGPL-3.0-only")) == [("licence_conflict", HIGH)]


def test_a_declaration_that_moves_to_another_manifest_is_no_finding() -> None:
    gone = ("setup(license='MIT')\n", "setup()\n")
    moved = {"setup.py": gone, "pyproject.toml": ("[project]\n", '[project]\nlicense = "MIT"\n')}
    assert list(scan(submission(moved, licence="MIT"))) == []
    assert [one.rule for one in scan(submission({"setup.py": gone}, licence="MIT"))] == ["declared_licence"]


def test_a_dependency_under_a_demanding_licence_weighs_less_than_code() -> None:
    lock = '{"packages": {"node_modules/x": {"version": "1.0.0",\n"license": "AGPL-3.0"}}}\n'
    assert told("package-lock.json", "{}\n", lock) == [("licence_conflict", MED)]
    assert told("package-lock.json", "{}\n", lock.replace("AGPL-3.0", "MIT")) == []


def test_a_copyright_line_that_goes_is_said_and_one_that_moves_or_ages_is_not() -> None:
    text = "# Copyright (c) 2020 Ana Berg\nx = 1\n"
    (found,) = scan(submission({"x.py": (text, "x = 1\n")}))
    assert (found.rule, found.severity, found.line, found.removed) == ("copyright_removed", MED, 1, True)
    assert told("x.py", text, text.replace("2020", "2020-2026")) == []
    assert told("x.py", text, "") == []
    assert (
        list(
            scan(submission({"x.py": (text, "x = 1\n"), "y.py": ("y = 1\n", "# Copyright 2020 (c) Ana Berg\ny = 1\n")}))
        )
        == []
    )


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
