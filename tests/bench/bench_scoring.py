"""Run times of a whole scoring pass: `python -m tests.bench.bench_scoring [PEOPLE]`, with DATA_ROOT a marked folder.

One line of JSON: seconds of the first pass over 20,000 people, 89,000 vouches, 1,800 denounces and 40 watched
repositories with three maintainers each, and of the passes after one new vouch: by a seed, by somebody in the middle,
by somebody whom no seed reaches, and for a new person. `trust_s` is the part of it up to the written `trust` rows,
`written` how many of them changed.
"""

import json
import sys
import tempfile
import time
from datetime import datetime, timedelta
from pathlib import Path

from ingest.store.database import Store
from ingest.store.snapshots import SnapshotReader, publish
from ingest.store.transaction import Keys
from scoring.config.policy import Policy
from scoring.pipeline import evidence
from scoring.pipeline.score import score
from scoring.queries.people.trust import explain_trust
from tests.bench.bench_trust import popular_graph
from tests.pipeline import At
from trustsite.settings import DATA_ROOT

REPOSITORIES, DENOUNCES = 40, 2_000
NOW = datetime(2026, 6, 1, 12)
SETTING = f"""
insert into contributors select 'did:plc:p' || i, i, null, null, false, null, null, 'active', null
  from range(1, $people + 1) t(i);
insert into repositories (repo_key, repository_id, owner_id) select 'did:plc:r' || i, i, i
  from range(1, {REPOSITORIES + 1}) t(i);
insert into watched_repositories select i, 'off', timestamp '2026-01-01' from range(1, {REPOSITORIES + 1}) t(i);
insert into maintainers select i + k * 7, i from range(1, {REPOSITORIES + 1}) t(i), range(1, 4) u(k)
"""
NEW = """
insert into contributors by name select 'did:plc:n' || i as did, i::integer as contributor_id, false as handle_verified,
  'active' as account_status from range(?, ? + 1) t(i)
"""
LATEST = "select coalesce(max(event_seq), 0) from vouches"


def vouch(store: Store, voucher: int, subject: int, seen_at: datetime, kind: str = "vouch") -> None:
    """One more record, and the hop has work."""
    row: dict[str, object] = {
        "voucher_id": voucher,
        "subject_id": subject,
        "kind": kind,
        "reason": None,
        "evidences": "[]",
    }
    row |= {"record_cid": None, "written_at": seen_at, "seen_at": seen_at, "superseded_at": None, "superseded_by": None}
    with store.write() as txn:
        txn.append("vouches", [row | {"event_seq": txn.value(LATEST) + 1}])
        txn.inputs_changed()


def fill(store: Store, people: int) -> None:
    """The graph of bench_trust as records, aged up to three years."""
    edges = popular_graph(people, people * 5)
    pairs = dict.fromkeys(zip((edges.voucher + 1).tolist(), (edges.subject + 1).tolist(), strict=True))
    rows = [
        {
            "voucher_id": voucher,
            "subject_id": subject,
            "kind": "denounce" if number % (people * 5 // DENOUNCES) == 1 else "vouch",
            "reason": None,
            "evidences": "[]",
            "record_cid": None,
            "written_at": NOW - timedelta(hours=number % 26_000),
            "seen_at": NOW - timedelta(hours=number % 26_000),
            "superseded_at": None,
            "superseded_by": None,
            "event_seq": number,
        }
        for number, (voucher, subject) in enumerate(pairs)
    ]
    with store.write() as txn:
        for statement in SETTING.split(";\n"):
            txn.execute(statement, {"people": people} if "$people" in statement else ())
        txn.append("vouches", rows)
        txn.inputs_changed()


def judged(store: Store, minutes: int) -> dict[str, float]:
    """Seconds of one pass, of CPU, and of its part up to `trust`."""
    taken: list[float] = []
    rebuild_trust = evidence._rebuild_trust

    def timed(*arguments: object) -> tuple[object, Keys]:
        started = time.perf_counter()
        written = rebuild_trust(*arguments)  # ty: ignore[invalid-argument-type]
        taken.extend((time.perf_counter() - started, len(written[1]["contributor_id"])))
        return written

    evidence._rebuild_trust = timed  # ty: ignore[invalid-assignment]
    started, busy = time.perf_counter(), time.process_time()
    score(store, At(NOW + timedelta(minutes=minutes)), Policy())
    whole, busy = time.perf_counter() - started, time.process_time() - busy
    evidence._rebuild_trust = rebuild_trust
    seconds = {"pass_s": whole, "cpu_s": busy, "trust_s": taken[0]}
    return {name: round(value, 2) for name, value in seconds.items()} | {"written": int(taken[1])}


def explained(store: Store, people: int) -> dict[str, float]:
    """Seconds of explaining one person: the first time for a seed set, and one like it in a snapshot that is held."""
    publish(store, store.path.parent / "snapshots")
    reader, policy = SnapshotReader(store.path.parent / "snapshots"), Policy()
    taken = []
    with reader.pin() as snapshot:
        for person in (3, people // 50, people // 40):
            started = time.perf_counter()
            assert snapshot is not None
            assert explain_trust(snapshot, f"did:plc:p{person}", None, policy)
            taken.append(round(time.perf_counter() - started, 3))
    reader.close()
    return dict(zip(("first", "second", "third"), taken, strict=True))


def main() -> None:
    """Print the figures."""
    people = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    figures: dict[str, object] = {"people": people}
    with tempfile.TemporaryDirectory(dir=DATA_ROOT) as folder:
        store = Store.open(Path(folder) / "trust.duckdb")
        fill(store, people)
        figures["first"] = judged(store, 0)
        with store.read() as rows:
            figures["rows"] = rows.value("select count(*) from trust")
        with store.write() as txn:
            txn.execute(NEW, [people + 1, people + 2])
        new = ("seed", 3, people - 5), ("middle", people // 50, people - 6), ("stranger", people + 1, 3)
        for minutes, (name, voucher, subject) in enumerate((*new, ("new_person", 3, people + 2)), 1):
            vouch(store, voucher, subject, NOW + timedelta(seconds=minutes * 60 - 1))
            figures[name] = judged(store, minutes)
        figures["explain_s"] = explained(store, people)
        store.close()
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
