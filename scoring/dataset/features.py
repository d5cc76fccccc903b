"""The columns that features.sql computes for the entries of `scoring.dataset.catalogue`."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ingest.store.transaction import Rows
from scoring.dataset.cases import Cases
from scoring.dataset.catalogue import FEATURES
from scoring.dataset.past_trust import prepare_slices

QUERY = Path(__file__).with_name("features.sql").read_text()
NAMES = tuple(feature.name for feature in FEATURES)
PERSON = tuple(feature.name for feature in FEATURES if feature.of == "person")
QUESTIONS = "create temp table if not exists questions as from cases limit 0"
# A question about a person is answered as if a change of theirs arrived now.
ADD_QUESTIONS = """
create or replace temp table questions as
select concat('person:', author_id, ':', repository_id) as key, author_id, repository_id, $now::timestamp as opened_at,
  exists (from push_holders h where h.repository_id = asked.repository_id and h.contributor_id = asked.author_id
    and coalesce(h.held_from <= $now, true) and coalesce($now < h.held_until, true)) as push_holder, false as is_bot
from (select unnest($people) as author_id, unnest($repositories) as repository_id) asked
"""
# Unknown values become NaN in SQL: NumPy's masked columns would be copied twice, 1.3 s of 9 for 1,000,000 rows.
PLAIN = "coalesce(columns(* exclude (key, place))::double, 'nan'::double)"
OF_CASES = f"select place, {PLAIN} from ({QUERY})"
KEYS = "select key from cases where not is_bot order by rowid"
ANSWERS = f"""
select key, {PLAIN} from ({QUERY})
semi join (select key from questions union all select unnest($changes)) using (key)
"""


def add_features(rows: Rows, cases: Cases) -> Cases:
    """Add a float64 column for each of FEATURES, NaN where unknown; after `build_cases`.

    Trust is that of the slices of `build_slices`; without any it is unknown. `cases` must be those of the
    temporary table `cases`: ValueError where the keys differ.
    """
    prepare_slices(rows)
    rows.rows(QUESTIONS)
    if not np.array_equal(rows.columns(KEYS)["key"], cases.keys):
        raise ValueError("these are not the cases that the features belong to")
    table = rows.columns(OF_CASES)
    order = np.argsort(table["place"])  # a tenth of the CPU that the query needs to sort all columns
    for name in NAMES:
        table[name][:] = table[name][order]
    return replace(cases, features={name: table[name] for name in NAMES})


def read_features(
    rows: Rows, people: Sequence[tuple[int, int]], changes: Sequence[str], now: datetime
) -> tuple[dict[str, NDArray[np.float64]], dict[tuple[int, int] | str, int]]:
    """Read features of people (contributor_id, repository_id) as of now, and of changes (keys) as of their opening.

    Returns the columns, and the place of each person and change in them; features of a change are unknown for a person.
    Call after `build_cases`; trust is that of the newest slice before the moment, unknown where there is none.
    """
    authors, repositories = [list(numbers) for numbers in zip(*people, strict=True)] if people else ([], [])
    prepare_slices(rows)
    rows.rows(ADD_QUESTIONS, {"people": authors, "repositories": repositories, "now": now})
    table = rows.columns(ANSWERS, {"changes": list(changes)})
    return {name: table[name] for name in NAMES}, {
        _parse_key(str(key)): place for place, key in enumerate(table["key"])
    }


def _parse_key(key: str) -> tuple[int, int] | str:
    """Return the person or the change of a row."""
    if not key.startswith("person:"):
        return key
    author, repository = key.split(":")[1:]
    return int(author), int(repository)
