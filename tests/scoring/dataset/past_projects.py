"""Small histories as the temporary table `cases`, in its own columns."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from ingest.store.transaction import Rows
from scoring.dataset.dataset import build_cases, prepare_slices
from tests.stores import fresh_store

START = datetime(2025, 1, 1)
ANA, MARA, MALLORY = 1, 2, 3
HERE, ELSEWHERE = 10, 11
UNTIL = START + timedelta(days=3650)
Case = dict[str, Any]
EMPTY = "create or replace temp table questions as from cases limit 0"  # nobody is asked about as of now


def day(number: float) -> datetime:
    """So many days after the beginning."""
    return START + timedelta(days=number)


def case(opened: float, author: int = ANA, repository: int = HERE, **columns: Any) -> Case:
    """A pull request of 10 lines in 2 files, opened on that day; times of `columns` are days too."""
    times = {name: day(value) for name, value in columns.items() if name.endswith("_at")}
    usual: Case = {"additions": 8, "deletions": 2, "files_touched": 2, "state": "open", "is_bot": False, "as_sent": -1}
    usual |= {"push_holder": False, "checks_known": False, "observed_until": UNTIL}
    named = {"author_id": author, "repository_id": repository, "opened_at": day(opened)}
    return usual | columns | named | times


def place(rows: Rows, cases: Sequence[Case]) -> None:
    """Let these be the cases of this cursor, named p0, p1, … in the order given."""
    build_cases(rows, UNTIL, 14)
    names = dict.fromkeys(name for one in cases for name in one)
    columns = {name: [one.get(name) for one in cases] for name in names}
    columns["key"] = [f"p{number}" for number in range(len(cases))]
    told = ", ".join(f"unnest(${name}) as {name}" for name in columns)
    rows.rows(f"insert into cases by name select {told}", columns)
    rows.rows("create or replace temp table cases as from cases order by opened_at, key")


@contextmanager
def known_people(folder: Path) -> Generator[Rows]:
    """A cursor of a store in which a few things are known of ana (1) and mara (2)."""
    store = fresh_store(folder / "trust.duckdb")
    with store.write() as txn:
        for number, name in ((ANA, "ana"), (MARA, "mara")):
            txn.execute(
                "insert into contributors select $did, $number, null, null, false, null, $began, 'active', null",
                {"did": f"did:plc:{name}", "number": number, "began": day(-100) if name == "ana" else None},
            )
        for source, key, value, known in (
            ("bluesky", "followers", "30", 0),
            ("bluesky", "follows", "12", 0),
            ("bluesky", "followers", "50", 20),
            ("bluesky", "created_at", "2024-12-02 00:00:00", 0),
            ("plc", "handle_changes", "2", 5),
            ("plc", "pds_moves", "1", 5),
            ("plc", "key_rotations", "3", 5),
        ):
            txn.execute(
                "insert into signals select 'did:plc:ana', $source, $key, $value, $known, $known, null, null, null",
                {"source": source, "key": key, "value": value, "known": day(known)},
            )
    try:
        with store.read() as found:
            prepare_slices(found)
            yield found
    finally:
        store.close()


hours = st.integers(0, 24 * 500).map(lambda number: number / 24)
outcomes = st.one_of(st.none(), hours)


@st.composite
def histories(draw: st.DrawFn) -> list[Case]:
    """Up to 40 pull requests of three people in two repositories, with whatever may become of one."""
    found = []
    for _ in range(draw(st.integers(1, 40))):
        opened, merged, refused = draw(hours), draw(outcomes), draw(outcomes)
        times = {"merged_at": merged, "refused_at": refused, "failed_at": draw(outcomes)}
        if merged is not None:
            times |= {name: draw(outcomes) for name in ("reverted_at", "patched_at", "patched_fix_at")}
        told = {name: opened + value for name, value in times.items() if value is not None}
        who = draw(st.sampled_from((ANA, MARA, MALLORY))), draw(st.sampled_from((HERE, ELSEWHERE)))
        found.append(case(opened, *who, checks_known=draw(st.booleans()), additions=draw(st.integers(0, 900)), **told))
    return found
