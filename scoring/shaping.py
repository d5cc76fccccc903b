"""From stored rows to the values that pages and JSON are told."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from ingest.store import Rows
from scoring.answers import Person
from scoring.features import display_name
from scoring.gate import Thresholds
from scoring.score import read_reasons
from scoring.verdict import Estimate, Factor, Lane, Verdict

EVIDENCE_COLUMNS = """
  f.clean, f.not_clean, f.merged_here, f.settled_here, f.waiting, t.distance, coalesce(t.path, []) as path,
  coalesce(t.denounced_by_seed, false) as denounced_by_seed, s.contributor_id is not null as is_seed
"""
EVIDENCE_JOINS = """
left join features f on f.contributor_id = c.contributor_id and f.repository_id = c.repository_id
left join trust t on t.contributor_id = c.contributor_id and t.repository_id = c.repository_id
left join seeds s on s.contributor_id = c.contributor_id and s.repository_id = c.repository_id
"""


class People:
    """Names for numbers, asked for together."""

    def __init__(self, rows: Rows, numbers: Iterable[int]) -> None:
        columns = "contributor_id, did, handle, handle_verified"
        sql = f"select {columns} from contributors where contributor_id in (select unnest(?))"
        found = rows.rows(sql, [sorted({int(number) for number in numbers})])
        self.persons = {row["contributor_id"]: Person(row["did"], display_name(row)) for row in found}
        self.names = {number: person.name for number, person in self.persons.items()}

    def path(self, numbers: Sequence[int]) -> tuple[Person, ...]:
        """The people of a trust path."""
        return tuple(self.persons[number] for number in numbers)


def read_verdict(row: Mapping[str, Any]) -> Verdict:
    """The verdict that a row of current_scores or current_decisions stores."""
    factors = tuple(Factor(**item) for item in msgspec.json.decode(row["factors"]))
    return Verdict(Lane(row["lane"]), read_estimate(row), read_reasons(row["reasons"]), factors)


def read_estimate(row: Mapping[str, Any]) -> Estimate:
    """Its estimate of P(clean)."""
    return Estimate(row["probability"], row["low"], row["high"], row["cases"])


def read_thresholds(row: Mapping[str, Any]) -> Thresholds:
    """The thresholds that it was decided by."""
    return Thresholds(**msgspec.json.decode(row["thresholds"]))
