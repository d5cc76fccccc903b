"""Small histories as the temporary table `cases`, in its own columns."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from ingest.transaction import Rows
from scoring.learning.relation import build_cases

START = datetime(2025, 1, 1)
ANA, MARA, MALLORY = 1, 2, 3
HERE, ELSEWHERE = 10, 11
UNTIL = START + timedelta(days=3650)
Case = dict[str, Any]


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
