"""Writing: what already stands is left as it is, and what changed is told."""

from ingest.store import Store
from tests.ingest.stream import rows

SEEDS = "select contributor_id, repository_id, role from seeds order by all"
ROLES = "select unnest([1, 1, 2]), unnest([7, 8, 7]), unnest($roles)"


def test_a_table_made_to_hold_a_query_is_written_where_it_differs_and_tells_where(store: Store) -> None:
    keys = ("repository_id", "contributor_id")

    def hold(query: str, *roles: str) -> list[tuple[int, int]]:
        with store.write() as txn:
            changed = txn.hold("seeds", query, {"roles": list(roles)} if roles else {}, keys)
        return sorted(zip(changed["contributor_id"].tolist(), changed["repository_id"].tolist(), strict=True))

    assert hold(ROLES, "owner", "owner", "maintainer") == [(7, 1), (7, 2), (8, 1)]
    assert hold(ROLES, "owner", "push_holder", "maintainer") == [(8, 1)]
    assert hold(ROLES, "owner", "push_holder", "maintainer") == []
    assert rows(store, SEEDS) == [(7, 1, "owner"), (7, 2, "maintainer"), (8, 1, "push_holder")]
    assert hold("select 1, 7, 'owner'") == [(7, 2), (8, 1)]
    assert rows(store, SEEDS) == [(7, 1, "owner")]
    assert hold("from seeds limit 0") == [(7, 1)]
