"""What bears on a few people, and nothing else: the rest of a store is hidden from one cursor while it asks about them.

Features of one person rest on their own pull requests everywhere and on everybody's in their repository. Of a store of
100,000 pull requests that is a few thousand, so that one need not wait for the history of all.
"""

from collections.abc import Collection, Generator
from contextlib import contextmanager

from ingest.transaction import Rows
from scoring.verdict import Pair

# Of what is kept for each pull request or person, in the order of hiding: the later ones read the first.
KEPT = {
    "pull_requests": "author_id in (select unnest($authors)) or repository_id in (select unnest($repositories))",
    # Three columns tell which: the other thirty are read of those alone.
    "imported_pulls": """rowid in (
      select rowid from imported_pulls
      where author_id in (select unnest($authors)) or repository_id in (select unnest($repositories))
        or repository in (
          select alias from repository_aliases where repository_id in (select unnest($repositories))))""",
    "statuses": "pull_uri in (select pull_uri from pull_requests)",
    "landings": "pull_uri in (select pull_uri from pull_requests)",
    "pull_rounds": "pull_uri in (select pull_uri from pull_requests)",
    "ci_runs": "pull_uri in (select pull_uri from pull_requests)",
    # Which repositories count rests on the trust in their owners.
    "trust": """contributor_id in (select unnest($authors))
      or repository_id = 0 and contributor_id in (select owner_id from repositories)""",
    "signals": "subject in (select did from contributors where contributor_id in (select unnest($authors)))",
}


@contextmanager
def only_around(rows: Rows, people: Collection[Pair]) -> Generator[None]:
    """Within, this cursor sees only what features of these people (contributor_id, repository_id) can rest on.

    `build_cases`, `take_standing` and `ask` give of them, and of their changes in those repositories, what they give of
    a whole store: temporary tables of the same names hide those of the store.
    """
    authors, repositories = ([*{pair[side] for pair in people}] for side in (0, 1))
    told = {"authors": authors, "repositories": repositories}
    made: list[str] = []
    try:
        for table, condition in KEPT.items():
            given = {name: numbers for name, numbers in told.items() if f"${name}" in condition}
            rows.rows(f"create temp table {table} as from {table} where {condition}", given)
            made.append(table)
        yield
    finally:
        for table in made:
            rows.rows(f"drop table temp.{table}")
