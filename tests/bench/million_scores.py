"""A published store with a million people and their scores: `python -m tests.bench.million_scores FOLDER [PEOPLE]`."""

import sys
from pathlib import Path

from ingest.store.database import Store
from ingest.store.snapshots import publish
from tests.bench.filled_store import LETTERS, MEMORY_MB
from tests.pipeline import run
from trustsite.world import build_world

PEOPLE = 1_000_000
OWN = "(1 - (x.number % 999983) / 1e8)"
# Every person of the simulated network again and again, under other names, with their trust, their record and their
# score, whose figures are nobody else's: what says the same of two is worded once, which must not help here.
COPIED = f"""
create temp table people as select contributor_id, row_number() over (order by contributor_id) - 1 as place
from current_scores where repository_id = 0;
create temp table copied as
select n::integer + (select max(contributor_id) from contributors) as number, p.contributor_id,
  'did:plc:' || {LETTERS.format(of="'copy' || n", length=24)} as did
from range(1, $people + 1) r(n) join people p on p.place = n % (select count(*) from people);
insert into contributors by name
select c.* replace (x.did as did, x.number as contributor_id, replace(handle, '.', x.number || '.') as handle)
from contributors c join copied x using (contributor_id);
insert into current_scores by name select s.* replace (
  x.number as contributor_id, probability * {OWN} as probability, low * {OWN} as low, high * {OWN} as high,
  eigentrust * {OWN} as eigentrust)
from current_scores s join copied x using (contributor_id) where s.repository_id = 0;
insert into trust by name select t.* replace (x.number as contributor_id)
from trust t join copied x using (contributor_id) where t.repository_id = 0;
insert into features by name select f.* replace (x.number as contributor_id)
from features f join copied x using (contributor_id) where f.repository_id = 0
"""


def fill(folder: Path, people: int = PEOPLE, snapshots: Path | None = None) -> Path:
    """Publish the store; the folder of its snapshots. Some two minutes for a million."""
    published = snapshots or folder / "snapshots"
    world = build_world()
    with run(world.recording, folder, world.watched.values(), [world.cast["ana"]], world.stages):
        pass
    store = Store.open(folder / "trust.duckdb", memory_mb=MEMORY_MB)
    with store.write() as txn:
        for statement in COPIED.split(";\n"):
            txn.execute(statement, {"people": people} if "$people" in statement else {})
    publish(store, published)
    store.close()
    return published


if __name__ == "__main__":
    print(fill(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else PEOPLE))
