"""OSV records into the store: JSON and YAML, folders and zip files, honest and hostile."""

import json
import os
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ingest.http.fetcher import Fetcher
from ingest.lookups.advisories import Wanted, fetch_advisories
from ingest.lookups.osv import ImportProblem, OsvProblem, base_score, import_osv, read_record
from ingest.store.database import Store
from tests.ingest.lookups.advisory_services import AdvisoryServices
from tests.ingest.lookups.osv_records import folder_of, record, zip_of
from tests.ingest.peer import Start, response
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


NOW = datetime(2026, 11, 20, 12)
FLASK, REQUESTS = Wanted("PyPI", "flask", "1.0"), Wanted("PyPI", "requests", "2.0")


class Asked:
    """A store, the two services, and a clock that a test moves."""

    def __init__(self, store: Store, start: Start) -> None:
        self.store, self.now = store, NOW
        self.services = AdvisoryServices([record("PYSEC-1"), record("PYSEC-2", "other")])
        self.fetcher = Fetcher(start(self.services.answer).origin)

    def advisories(self, *packages: Wanted) -> int:
        return fetch_advisories(self.store, self.fetcher, packages, lambda: self.now)

    def held(self) -> list[tuple[Any, ...]]:
        return rows(self.store, "select advisory_id from advisories order by all")

    def outcomes(self) -> list[tuple[Any, ...]]:
        return rows(self.store, "select kind, subject, outcome, attempts, due_clock from fetches order by all")


def test_a_name_that_no_package_can_have_is_not_asked_about(asked: Asked) -> None:
    assert asked.advisories(Wanted("Go", "github.com/a/", "1.2.3"), Wanted("npm", "@a/", "1.0"), FLASK) == 1
    assert [row[1] for row in asked.outcomes()] == ["pkg:pypi/flask@1.0"]


@pytest.fixture(name="asked")
def asked_fixture(store: Store, peer: Start) -> Iterator[Asked]:
    """A world to ask in."""
    world = Asked(store, peer)
    yield world
    world.fetcher.close()


def test_packages_are_asked_about_at_once_and_their_records_kept(asked: Asked) -> None:
    assert asked.advisories(FLASK, REQUESTS, FLASK) == 2
    assert asked.held() == [("PYSEC-1",)]
    assert asked.services.asked == ["POST /v1/querybatch", "GET /v1/vulns/PYSEC-1"]
    subjects = ("pkg:pypi/flask@1.0", "pkg:pypi/requests@2.0")
    assert asked.outcomes() == [("advisories", subject, "found", 0, NOW + timedelta(days=1)) for subject in subjects]


def test_what_was_asked_today_is_not_asked_again_and_tomorrow_only_what_changed_is_fetched(asked: Asked) -> None:
    asked.advisories(FLASK)
    assert asked.advisories(FLASK) == 0
    asked.now += timedelta(days=1)
    assert asked.advisories(FLASK) == 1
    assert asked.services.asked[2:] == ["POST /v1/querybatch"]
    asked.services.records[0] |= {"modified": "2026-06-01T00:00:00Z", "summary": "It breaks more"}
    asked.now += timedelta(days=1)
    asked.advisories(FLASK)
    assert rows(asked.store, "select summary from advisories") == [("It breaks more",)]


def test_further_pages_are_asked_for_and_no_more_than_a_few(asked: Asked) -> None:
    asked.services.records = [record(f"PYSEC-{number}") for number in range(4)]
    asked.services.page = 1
    assert asked.advisories(FLASK) == 1
    assert len(asked.held()) == 4
    asked.services.records += [record(f"PYSEC-{number}") for number in range(4, 9)]
    asked.now += timedelta(days=1)
    assert asked.advisories(FLASK) == 0
    assert asked.outcomes()[0][2] == "failed"


def test_more_records_than_one_go_takes_are_due_again_soon(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingest.lookups.advisories.RECORDS", 2)
    asked.services.records = [record(f"PYSEC-{number}") for number in range(3)]
    asked.advisories(FLASK)
    assert len(asked.held()) == 2
    asked.now += timedelta(minutes=1)
    asked.advisories(FLASK)
    assert len(asked.held()) == 3


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_failure_is_noted_and_asked_again_later_each_time(asked: Asked, status: int) -> None:
    asked.services.faults["api.osv.dev"] = status
    assert asked.advisories(FLASK) == 0
    assert asked.outcomes() == [("advisories", "pkg:pypi/flask@1.0", "failed", 1, NOW + timedelta(minutes=1))]
    assert asked.held() == []


def test_a_record_of_another_id_and_one_that_is_gone_are_not_kept(asked: Asked) -> None:
    asked.services.records.append(record("PYSEC-3"))
    asked.services.swapped = {"PYSEC-1": "PYSEC-2", "PYSEC-3": "none"}
    assert asked.advisories(FLASK) == 1
    assert asked.held() == []


@pytest.mark.parametrize(
    "results", [[], [{}, {}], [{"vulns": [{"id": "../../x"}]}], [{"vulns": [{"id": "A" * 500}]}], None, [{"vulns": 7}]]
)
def test_an_answer_that_does_not_fit_brings_nothing(store: Store, peer: Start, results: object) -> None:
    fetcher = Fetcher(peer(lambda _: response(json.dumps({"results": results}).encode())).origin)
    fetch_advisories(store, fetcher, [FLASK], lambda: NOW)
    assert rows(store, "select * from advisories") == []
    fetcher.close()
