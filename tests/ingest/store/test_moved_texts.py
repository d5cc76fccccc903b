"""Stores and archives of an older version, with long texts inside, are converted within DuckDB's memory limit."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.erasure.erase import erase, finish
from ingest.errors import StoreProblem
from ingest.records.derive import derive
from ingest.store.archive import archive, read_log
from ingest.store.database import CONFIG, Store
from ingest.store.long_texts import LIMIT, PREFIX
from tests.conftest import count
from tests.ingest.backup.kept_state import back_up, make_drive, open_drive, put_back
from tests.ingest.erasure.erased import LATE
from tests.ingest.erasure.planted import folders_below
from tests.ingest.store.long_records import BODIES, LONGEST, STRING, author, files, long_pull
from tests.ingest.stream.frames import ANA, MARA, SOURCE, Frames, at, digest_of, rows, settled, take
from tests.sources import PROJECT
from tests.stores import fresh_store

POISONED = """
import os, random, sys
import duckdb
from ingest.store.database import CONFIG
from tests.ingest.stream.frames import ANA
from tests.ingest.store.long_records import ESCAPED
path, number, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
database = duckdb.connect(path, config=CONFIG | {"memory_limit": "8GB"})
database.execute("update meta set value = '8' where key = 'schema_version'")
database.execute("delete from meta where key = 'long_texts'")
body = '{"contents": "' + ESCAPED * size + '"}'
words = [f"w{random.Random(n).getrandbits(20)}" for n in range(3_000)]
for n in range(number):
    if sys.argv[4] == "checkpointed":
        body = '{"contents": "' + " ".join(random.Random(n).choices(words, k=size // 6)) + '"}'
    database.execute(
        "insert into events select md5(?), ?, 'test', 'commit', ?, 'sh.tangled.string', ?, 'create', ?, 'c', "
        "timestamp '2026-09-21 15:00:00', false, ?, now()::timestamp",
        [str(n), 1000 + n, ANA, f"k{n}", f"rev{n}", body if n % 3 else '{"contents": "short"}'],
    )
    if sys.argv[4] == "letters":
        database.execute(
            "insert into dead_letters values (?, ?, null, null, 'test', 'why', ?, now()::timestamp, null)",
            [str(n), n, body],
        )
if sys.argv[4] == "checkpointed":
    database.execute("force checkpoint")
os._exit(0)
"""


def poisoned(path: Path, number: int, size: int, kind: str) -> None:
    """A store as the version before wrote it, with long texts in its tables, left by a kill."""
    store = fresh_store(path)
    store.bind(SOURCE)
    frames = Frames()
    frames.repository(ANA)
    take(store, frames)
    store.close()
    subprocess.run([sys.executable, "-c", POISONED, str(path), str(number), str(size), kind], cwd=PROJECT, check=True)


def checkpoints(path: Path, memory: str) -> bool:
    """Return whether DuckDB alone writes its log of changes into a file within this memory."""
    database = duckdb.connect(str(path), config=CONFIG | {"memory_limit": memory})
    try:
        database.execute("force checkpoint").fetchall()
    except duckdb.Error:
        return False
    finally:
        database.close()
    return True


def test_a_store_of_the_version_before_that_cannot_be_checkpointed_is_mended(tmp_path: Path) -> None:
    path = tmp_path / "trust.duckdb"
    poisoned(path, count(40, 600), 990_000, "letters")
    assert not checkpoints(path, "160MB")
    store = Store.open(path)
    assert rows(store, "select value from meta where key = 'long_texts'") == [("beside, archived too",)]
    assert rows(store, LONGEST)[0][0] <= LIMIT
    assert rows(store, "select max(strlen(body)), count(*) from dead_letters where event_id is null")[0][0] <= LIMIT
    assert rows(store, "select count(*) from events") == [(count(40, 600) + 1,)]
    bodies = {body for (body,) in rows(store, f"{BODIES} offset 1")}
    assert sorted(len(store.long_texts.read(body)) for body in bodies) == [21, 5_940_016]
    assert rows(store, "select current_setting('memory_limit')") == [("152.5 MiB",)]
    settled(store)
    store.close()
    assert checkpoints(path, "160MB")


def test_a_store_whose_texts_need_more_memory_than_it_may_take_is_opened_once_with_more(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "trust.duckdb"
    poisoned(path, 120, 500_000, "checkpointed")
    store = Store.open(path, memory_mb=14)
    told = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert [" ".join(message.split()[1:4]) for message in told] == ["does not open", "is mended: it"]
    assert "is open within 14 MB" in told[1]
    assert rows(store, "select current_setting('memory_limit')") == [("13.3 MiB",)]
    assert rows(store, LONGEST)[0][0] <= LIMIT
    store.close()


def test_a_store_that_does_not_open_within_its_memory_even_so_is_not_called_mended(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "trust.duckdb"
    poisoned(path, 10, 1_000, "checkpointed")
    with pytest.raises(StoreProblem, match="needs more memory"):
        Store.open(path, memory_mb=1)
    told = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert [" ".join(message.split()[1:4]) for message in told] == ["does not open"]
    store = Store.open(path)
    assert rows(store, "select count(*) > 0 from events") == [(True,)]
    store.close()


def test_an_untouched_store_of_the_version_before_comes_over_row_by_row(store: Store, tmp_path: Path) -> None:
    frames = Frames()
    frames.repository(ANA)
    for number in range(30):
        long_pull(frames, MARA, str(number % 10), "x" * (number * 300), "create" if number < 10 else "update")
    frames.append(b"no frame " * 1_000)
    take(store, frames)
    before = digest_of(store)
    with store.write() as txn:
        for table in ("events", "dead_letters"):
            for (body,) in rows(store, f"select distinct body from {table} where starts_with(body, '{PREFIX}')"):
                txn.execute(f"update {table} set body = ? where body = ?", [store.long_texts.read(body), body])
        txn.execute("delete from meta where key = 'long_texts'")
        txn.execute("update meta set value = '8' where key = 'schema_version'")
    store.checkpoint()
    copied = tmp_path / "copied.duckdb"
    copied.write_bytes(store.path.read_bytes())
    moved = Store.open(copied)
    assert digest_of(moved) == before
    assert files(moved) == files(store)
    take(moved, frames)
    assert digest_of(moved) == before
    moved.close()


def hold_long_texts(path: Path, size: int) -> None:
    """Write an archive file as the version before did: texts of so many bytes in it, in pages of up to 100 MB."""
    table = pq.read_table(path)
    texts = [
        json.dumps({"contents": f"{number} {body} " + "words and more " * (size // 15)})
        for number, body in enumerate(table["body"].to_pylist())
    ]
    table = table.set_column(table.column_names.index("body"), "body", pa.array(texts))
    pq.write_table(table, path, compression="zstd", use_dictionary=False, data_page_size=100_000_000)


def is_readable(path: Path, memory: str) -> bool:
    """Return whether DuckDB alone reads the texts of an archive file within this memory."""
    with duckdb.connect(config=CONFIG | {"memory_limit": memory}) as database:
        try:
            database.execute("select max(strlen(body)) from read_parquet(?)", [str(path)]).fetchall()
        except duckdb.OutOfMemoryException:
            return False
    return True


def test_an_archive_of_the_version_before_with_texts_of_a_megabyte_is_restored_derived_and_erased_within_160_mb(
    tmp_path: Path,
) -> None:
    number, old, new = count(200, 1_000), make_drive(tmp_path / "old"), make_drive(tmp_path / "new")
    store = open_drive(old)
    frames = Frames()
    for place in range(number):
        frames.commit(author(place % 50), STRING, f"k{place}", {"contents": "short"})
    take(store, frames)
    archive(store, old.staging, 30, 0, at(0))
    (segment,) = (old.staging / "events").glob("*.parquet")
    hold_long_texts(segment, 1_000_000)
    assert not is_readable(segment, "160MB")
    with store.write() as txn:
        txn.execute("update meta set value = 'beside' where key = 'long_texts'")
    back_up(store, old, tmp_path / "backup")
    store.close()

    put_back(tmp_path / "backup", new)
    store = open_drive(new)
    assert rows(store, "select current_setting('memory_limit')") == [("152.5 MiB",)]
    (moved,) = (new.staging / "events").glob("*.parquet")
    assert rows(store, "select path, rows from event_segments") == [(str(moved), number)]
    with store.write() as txn:
        txn.execute("update hops set position_seq = 0 where name = 'derive'")
    while derive(store):
        pass
    folders = replace(folders_below(tmp_path / "new"), staging=new.staging)
    erase(store, author(3), "by_request", LATE, folders)
    finish(store, folders)
    frames.clear()
    frames.repository(ANA)
    take(store, frames)
    assert archive(store, new.staging, 30, 0, at(0)) == 1, "which fills the same file up"
    store.checkpoint()
    with store.read() as found:
        left = read_log(found, "select did, body from {events} order by event_seq")
    assert author(3) not in {row["did"] for row in left}
    bodies = [row["body"] for row in left if row["did"] != ANA]
    assert len(bodies) == number - number // 50 == len(files(store))
    assert max(map(len, bodies)) <= LIMIT
    assert len(store.long_texts.read(bodies[0])) > 1_000_000
    store.close()


def test_an_archive_of_which_a_file_is_missing_is_looked_at_again(tmp_path: Path) -> None:
    store = fresh_store(tmp_path / "trust.duckdb")
    store.bind(SOURCE)
    frames = Frames()
    frames.commit(MARA, STRING, "one", {"contents": "short"})
    take(store, frames)
    archive(store, tmp_path / "staging", 30, 0, at(0))
    (segment,) = (tmp_path / "staging" / "events").glob("*.parquet")
    hold_long_texts(segment, 10_000)
    with store.write() as txn:
        txn.execute("update meta set value = 'beside' where key = 'long_texts'")
    store.close()
    segment.rename(tmp_path / "elsewhere")
    Store.open(tmp_path / "trust.duckdb").close()
    (tmp_path / "elsewhere").rename(segment)
    store = Store.open(tmp_path / "trust.duckdb")
    (path,) = (path for (path,) in rows(store, "select path from event_segments"))
    assert (segment.exists(), Path(path).exists(), len(files(store))) == (False, True, 1)
    store.close()
    Store.open(tmp_path / "trust.duckdb").close()
    assert Path(path).exists(), "and once only"
