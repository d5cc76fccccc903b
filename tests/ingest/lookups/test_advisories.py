"""OSV records into the store: JSON and YAML, folders and zip files, honest and hostile."""

import json
import os
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ingest.lookups.osv import ImportProblem, OsvProblem, base_score, import_osv, read_record
from ingest.store.database import Store
from tests.ingest.lookups.osv_records import folder_of, record, zip_of
from tests.ingest.stream.frames import rows

YAML = b"""id: PYSEC-2023-1
modified: 2023-01-24T00:00:00Z
details: |
  It breaks
  at *once*.
affected:
- package:
    name: Some.Thing
    ecosystem: PyPI
  ranges:
  - type: GIT
    repo: https://forge.example/thing
    events:
    - introduced: "0"
  - type: ECOSYSTEM
    events:
    - introduced: "0"
    - fixed: 1.10
  versions:
  - 1.0
  - "1.9"
aliases: [CVE-2023-1]
"""


def all_rows(store: Store) -> list[list[tuple[Any, ...]]]:
    """The four tables without the wall clock."""
    columns = {"advisories": "advisory_id, summary, severity, modified_at"}
    tables = ("advisories", "advisory_aliases", "advisory_ranges", "advisory_versions")
    return [rows(store, f"select {columns.get(table, '*')} from {table} order by all") for table in tables]


def test_a_folder_is_taken_and_taking_it_again_changes_nothing(store: Store, tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "osv", [record(), record("GHSA-1", aliases=["PYSEC-1"], versions=["1.0"])])
    (folder / "deeper").mkdir()
    (folder / "deeper" / "three.yaml").write_bytes(YAML)
    (folder / "README.md").write_text("no record")
    done = import_osv(store, folder)
    assert (done.read, done.kept, done.unusable) == (3, 3, 0)
    first = all_rows(store)
    assert [row[0] for row in first[0]] == ["GHSA-1", "PYSEC-1", "PYSEC-2023-1"]
    import_osv(store, folder)
    assert all_rows(store) == first


def test_yaml_is_read_with_its_versions_as_they_are_written() -> None:
    found = read_record(YAML, is_yaml=True)
    assert found.advisory == {
        "advisory_id": "PYSEC-2023-1",
        "summary": "It breaks at *once*.",
        "severity": None,
        "modified_at": datetime(2023, 1, 24),
    }
    assert [(row["name"], row["event"], row["version"]) for row in found.ranges] == [
        ("some-thing", "introduced", "0"),
        ("some-thing", "fixed", "1.10"),
    ]
    assert found.versions[0]["versions"] == ["1.0", "1.9"]
    assert found.aliases[0]["alias"] == "CVE-2023-1"


def test_a_changed_record_replaces_the_old_and_a_withdrawn_one_goes(store: Store, tmp_path: Path) -> None:
    import_osv(store, folder_of(tmp_path / "a", [record("A-1", versions=["1.0"]), record("B-1")]))
    changed = [record("A-1", events=[{"introduced": "3"}]), record("B-1", withdrawn="2026-01-01T00:00:00Z")]
    done = import_osv(store, folder_of(tmp_path / "b", changed))
    assert (done.kept, done.withdrawn) == (1, 1)
    assert rows(store, "select advisory_id, event, version from advisory_ranges") == [("A-1", "introduced", "3")]
    assert rows(store, "select * from advisory_versions") == []
    assert rows(store, "select advisory_id from advisories") == [("A-1",)]


def test_what_a_replacing_import_does_not_name_goes(store: Store, tmp_path: Path) -> None:
    import_osv(store, folder_of(tmp_path / "a", [record("A-1"), record("B-1", versions=["1"], aliases=["C-1"])]))
    done = import_osv(store, folder_of(tmp_path / "b", [record("A-1")]), replace=True)
    assert done.removed == 1
    assert {row[0] for table in all_rows(store) for row in table} == {"A-1"}


def test_the_last_of_two_records_of_one_id_counts(store: Store, tmp_path: Path) -> None:
    members = {
        "1.json": json.dumps(record("A-1", summary="one")).encode(),
        "2.json": json.dumps(record("A-1", summary="two")).encode(),
    }
    import_osv(store, zip_of(tmp_path / "all.zip", members))
    assert rows(store, "select summary from advisories") == [("two",)]


def test_a_zip_file_is_taken_without_unpacking_any_path(store: Store, tmp_path: Path) -> None:
    members = {
        "../../escape.json": json.dumps(record("A-1")).encode(),
        "/etc/passwd.yaml": YAML,
        "nested.zip": b"PK",
        "folder/": b"",
    }
    done = import_osv(store, zip_of(tmp_path / "all.zip", members))
    assert (done.kept, done.read) == (2, 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all.zip", "store"]


def test_a_bomb_is_left_out_and_the_rest_taken(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingest.lookups.osv.RECORD_LIMIT", 10_000)
    members = {"bomb.json": b" " * 5_000_000, "good.json": json.dumps(record()).encode()}
    done = import_osv(store, zip_of(tmp_path / "all.zip", members))
    assert (done.kept, done.unusable) == (1, 1)
    assert "'bomb.json'" in done.problems[0]


@pytest.mark.parametrize("limit", ["FILES", "TOTAL"])
def test_too_much_at_once_is_refused_in_words(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(f"ingest.lookups.osv.{limit}", 1)
    with pytest.raises(ImportProblem, match="import it in parts"):
        import_osv(store, folder_of(tmp_path / "osv", [record("A-1"), record("B-1")]))


def test_links_and_pipes_in_a_folder_are_left_out(store: Store, tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "osv", [record()])
    (folder / "link.json").symlink_to(folder / "0.json")
    os.mkfifo(folder / "pipe.json")
    done = import_osv(store, folder)
    assert (done.kept, done.unusable) == (1, 2)


def test_what_is_neither_folder_nor_zip_file_is_refused_in_words(store: Store, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no")
    (tmp_path / "cut.zip").write_bytes(
        zip_of(tmp_path / "whole.zip", {"a.json": b"{}" * 900})[:0] if False else b"PK\x05"
    )
    for name in ("text", "cut.zip"):
        with pytest.raises(ImportProblem, match="neither a folder nor a zip file"):
            import_osv(store, tmp_path / name)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[1]",
        b"{}",
        b'{"id": 7}',
        b'{"id": "../../x"}',
        b'{"id": "A-1", "affected": 7}',
        json.dumps(record(name="")).encode(),
        json.dumps(record(name="x" * 999)).encode(),
        b"[" * 100_000,
        b"\xff\xfe",
    ],
)  # fmt: skip
def test_what_is_no_record_is_a_problem(data: bytes) -> None:
    with pytest.raises(OsvProblem):
        read_record(data)


def test_a_yaml_that_would_unfold_is_refused() -> None:
    names = "abcdefghi"
    lines = [f"{this}: &{this} [*{before}, *{before}]" for before, this in pairwise(names)]
    bomb = "\n".join(["a: &a [x, x]", *lines]).encode()
    with pytest.raises(OsvProblem, match="alias"):
        read_record(b"id: A-1\n" + bomb, is_yaml=True)


def test_a_record_of_more_than_can_be_looked_up_is_refused() -> None:
    many = record(versions=[str(number) for number in range(20_001)])
    with pytest.raises(OsvProblem, match="more than 20000 versions"):
        read_record(json.dumps(many).encode())
    with pytest.raises(OsvProblem, match="more than 5000 events"):
        read_record(json.dumps(record(events=[{"introduced": "0"}] * 5_001)).encode())


def test_records_of_other_ecosystems_are_counted_and_not_kept(store: Store, tmp_path: Path) -> None:
    done = import_osv(
        store, folder_of(tmp_path / "osv", [record(ecosystem="Debian:12"), {"id": "A-2", "affected": None}])
    )
    assert (done.others, done.kept) == (2, 0)
    assert all_rows(store) == [[], [], [], []]


@pytest.mark.parametrize(
    ("more", "severity"),
    [
        ({"id": "MAL-2026-1"}, "malware"),
        ({"database_specific": {"severity": "MODERATE"}}, "moderate"),
        ({"severity": [{"type": "CVSS_V3", "score": "CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:C/C:H/I:H/A:H"}]}, "critical"),
        ({"severity": [{"type": "CVSS_V3", "score": "CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:N/I:N/A:L"}]}, "moderate"),
        ({"severity": [{"type": "CVSS_V4", "score": "CVSS:4.0/AV:N/AC:L"}]}, None),
        ({"database_specific": {"severity": ["HIGH"]}}, None),
        ({}, None),
    ],
)
def test_the_severity_is_the_databases_word_or_follows_from_the_score(more: dict[str, Any], severity: str) -> None:
    found = read_record(json.dumps({**record(), **more}).encode())
    assert found.advisory is not None
    assert found.advisory["severity"] == severity


@pytest.mark.parametrize(
    ("vector", "score"),
    [
        ("CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:H/I:H/A:H", 9.8),
        ("CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:C/C:H/I:H/A:H", 10.0),
        ("CVSS:3.1/AV:N/AC:L/PR:N/UI:R/S:C/C:L/I:L/A:N", 6.1),
        ("CVSS:3.0/AV:L/AC:H/PR:H/UI:R/S:U/C:L/I:N/A:N", 1.8),
        ("CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:N/I:N/A:N", 0.0),
        ("CVSS:2.0/AV:N", None),
        ("CVSS:3.1/AV:N/AC:L", None),
        ("CVSS:3.1/AV:X/AC:L/PR:N/UI:N/S:U/C:H/I:H/A:H", None),
        ("", None),
    ],
)
def test_the_base_score_is_that_of_the_specification(vector: str, score: float | None) -> None:
    assert base_score(vector) == score


PLAIN = some.none() | some.booleans() | some.integers() | some.text(max_size=8)
VALUES = some.recursive(
    PLAIN, lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=9), inner, max_size=3)
)


@given(some.dictionaries(some.sampled_from([*record(), "aliases", "severity", "withdrawn"]), VALUES))
def test_whatever_a_record_holds_it_is_read_or_refused(changes: dict[str, Any]) -> None:
    data = json.dumps({**record(), **changes}).encode()
    for is_yaml in (False, True):
        try:
            assert read_record(data, is_yaml).advisory_id
        except OsvProblem:
            continue
