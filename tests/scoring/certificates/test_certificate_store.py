"""A certificate is compared with the cases that a store has, as they were known when it was made."""

from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from ingest.store.snapshots import SnapshotReader
from scoring.certificates.certificate import Certificate, Label, write_certificate
from scoring.certificates.issue import Settled, bad_shares, certify
from scoring.certificates.verify import compare_with_store
from scoring.dataset.dataset import build_cases, read_cases, read_lane
from tests.scoring.certificates.certified_cases import NOW, TERMS

MADE = NOW.replace(year=NOW.year + 1)
CASES = """
select l.pull_uri, l.author_id, l.clean, p.seen_at as opened_at, o.contributor_id is not null as push_holder
from labels l join pull_requests p using (pull_uri)
left join own_people o on o.repository_id = p.repository_id and o.contributor_id = p.author_id order by l.pull_uri
"""


@pytest.fixture(scope="module")
def rows(demo_folder: Path) -> list[dict[str, Any]]:
    """What the demo's store has settled."""
    with SnapshotReader(demo_folder / "snapshots").pin() as snapshot:
        assert snapshot is not None
        return snapshot.rows(CASES)


def certificate(rows: list[dict[str, Any]], label: Label = "label_clean", **changes: Any) -> Certificate:
    """One attempt on these, just after the newest became known."""
    columns: dict[str, Any] = {
        "keys": [row["pull_uri"] for row in rows],
        "scores": np.full(len(rows), 0.9),
        "bad": np.array([float(not row["clean"]) for row in rows]),
        "odds": np.ones(len(rows)),
        "authors": np.array([row["author_id"] for row in rows]),
        "opened_at": np.full(len(rows), np.datetime64(NOW, "us") + np.timedelta64(90, "D")),
        "push_holder": np.array([row["push_holder"] for row in rows]),
        "recorded": np.ones(len(rows), dtype=bool),
    }
    return certify(Settled(**columns | changes), replace(TERMS, label=label), {}, MADE)


def compared(demo_folder: Path, told: Certificate) -> tuple[list[str], int]:
    with SnapshotReader(demo_folder / "snapshots").pin() as snapshot:
        assert snapshot is not None
        return compare_with_store(snapshot, told, 14, told.made_at)


def test_the_store_agrees_with_what_came_from_it(demo_folder: Path, rows: list[dict[str, Any]]) -> None:
    told = certificate(rows)
    assert len(told.cases) >= 3
    assert compared(demo_folder, told) == ([], len(told.cases))


def of_label(demo_folder: Path, label: Label) -> tuple[list[dict[str, Any]], np.ndarray]:
    """What the store says of the pull requests of people who may not push, and what is bad of them under a label."""
    with SnapshotReader(demo_folder / "snapshots").pin() as snapshot:
        assert snapshot is not None
        build_cases(snapshot, MADE, 14)
        cases, audited = read_cases(snapshot), read_lane(snapshot, MADE).audited
    bad = bad_shares(cases, "label_clean" if label == "clean_as_sent" else label, label, audited, MADE)
    which = ~cases.push_holder & np.isin(bad, (0.0, 1.0))
    rows = [
        {"pull_uri": key, "author_id": author, "push_holder": False, "clean": not wrong}
        for key, author, wrong in zip(cases.keys[which], cases.authors[which].tolist(), bad[which], strict=True)
    ]
    return rows, bad[which]


@pytest.mark.parametrize("label", ["label_clean", "label_clean_fix", "label_merge", "clean_as_sent"])
def test_an_outcome_that_was_changed_is_found_under_the_label_of_the_certificate(
    demo_folder: Path, label: Label
) -> None:
    rows, bad = of_label(demo_folder, label)
    honest = certificate(rows, label)
    assert len(honest.cases) == len(rows) >= 3
    assert compared(demo_folder, honest) == ([], len(rows))
    found, count = compared(demo_folder, certificate(rows, label, bad=1 - bad))
    assert (len(found), count) == (len(rows), len(rows))


def test_push_holders_who_were_let_in_are_found(demo_folder: Path, rows: list[dict[str, Any]]) -> None:
    told = certificate(rows, push_holder=np.zeros(len(rows), dtype=bool))
    found, _ = compared(demo_folder, told)
    assert len(found) == sum(row["push_holder"] for row in rows)


def test_the_command_reads_the_newest_snapshot(
    demo_folder: Path, rows: list[dict[str, Any]], settings: Settings, tmp_path: Path
) -> None:
    settings.SNAPSHOT_DIR = demo_folder / "snapshots"
    honest, out = certificate(rows), StringIO()
    as_of = honest.made_at.isoformat()
    call_command("verify_certificate", str(write_certificate(tmp_path, honest)), "--as-of", as_of, stdout=out)
    assert out.getvalue().startswith(f"{len(honest.cases)} of its {len(honest.cases)} cases are in the store.\n")
    forged = write_certificate(tmp_path, certificate(rows, bad=np.zeros(len(rows)), authors=np.arange(len(rows))))
    with pytest.raises(CommandError, match="the store says"):
        call_command("verify_certificate", str(forged), "--as-of", as_of, stdout=out)
