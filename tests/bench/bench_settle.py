"""Run times of settling 100,000 pull requests: `python -m tests.bench.bench_settle`, with DATA_ROOT a marked folder.

One line of JSON: seconds of the first settling, of one that finds nothing to do, and of one after a thousand new words.
"""

import json
import tempfile
import time
from pathlib import Path

from ingest.records.pull_state import settle
from ingest.store.database import Store
from trustsite.settings import DATA_ROOT

PULLS, REPOSITORIES, PEOPLE = 100_000, 2_000, 20_000
WORLD = f"""
insert into contributors select 'did:plc:p' || i, i, null, null, false, null, null, 'active', null
  from range(1, {PEOPLE + 1}) t(i);
insert into repositories (repo_key, repository_id, owner_id) select 'did:plc:r' || i, i, 1 + i % {PEOPLE}
  from range(1, {REPOSITORIES + 1}) t(i);
insert into push_holders select i, 1 + (i * 7 + k * 13) % {PEOPLE}, 'collaborator', 'knot',
  timestamp '2026-01-01' + to_minutes(k), case when k = 3 then timestamp '2026-03-01' end
  from range(1, {REPOSITORIES + 1}) t(i), range(4) u(k);
insert into pull_requests (pull_uri, author_id, repository_id, title, body, record_form, round, round_count, opened_at,
  seen_at, changed_at, state) select 'at://p' || i, 1 + i % {PEOPLE}, 1 + i % {REPOSITORIES}, '', '', 'rounds', 0, 1,
  timestamp '2026-02-01' + to_seconds(i), timestamp '2026-02-01' + to_seconds(i), timestamp '2026-02-01', 'open'
  from range({PULLS}) t(i);
insert into landings select 'at://p' || i, 'c' || i, 'main', 0, timestamp '2026-05-01', 'patch_id', i % 3 > 0
  from range(0, {PULLS}, 5) t(i);
insert into mirrors select i, 'fetched', null, 0, timestamp '2026-06-01', '{{"main": "c0ffee"}}'
  from range(1, 41) t(i);
"""
WORDS = """
insert into statuses select 'at://s' || (i + {first}), 'at://p' || (i * 2 // 3),
  case i % 4 when 0 then 1 + i * 2 // 3 % 20000 when 1 then 1 + i % 20000 else 2 + (i * 2 // 3) % 2000 end,
  case i % 3 when 0 then 'closed' else 'merged' end, false, timestamp '2026-02-02' + to_seconds(i),
  timestamp '2026-02-02' + to_seconds(i + {first}), null, 'stranger', i + {first}
from range({count}) t(i)
"""


def seconds(store: Store) -> float:
    started = time.perf_counter()
    settle(store)
    return round(time.perf_counter() - started, 3)


def main() -> None:
    """Print the figures."""
    with tempfile.TemporaryDirectory(dir=DATA_ROOT) as folder:
        store = Store.open(Path(folder) / "trust.duckdb")
        with store.write() as txn:
            for statement in WORLD.split(";\n"):
                if statement.strip():
                    txn.execute(statement)
            txn.execute(WORDS.format(first=0, count=PULLS * 3 // 2))
        figures = {"pulls": PULLS, "first_s": seconds(store), "nothing_s": min(seconds(store) for _ in range(3))}
        with store.write() as txn:
            txn.execute(WORDS.format(first=PULLS * 2, count=1000))
        figures["thousand_words_s"] = seconds(store)
        with store.read() as rows:
            proofs = rows.rows("select state, merge_proof, count(*) as n from pull_requests group by all order by all")
        figures["states"] = {f"{row['state']} {row['merge_proof']}": row["n"] for row in proofs}
        store.close()
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
