"""Writing: what already stands is left as it is, and what changed is told."""

import subprocess
import sys
from pathlib import Path

from ingest.store.database import Store
from ingest.store.transaction import PARSED, PARSED_CHARACTERS
from tests.ingest.conftest import Open
from tests.ingest.stream.frames import rows
from tests.sources import PROJECT
from tests.waiting import LONG_SECONDS

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


def test_a_text_is_parsed_once_and_means_what_each_store_holds(open_store: Open) -> None:
    here, there, sql = open_store("here"), open_store("there"), "select value || $1 from meta where key = $2"
    for store in (here, there):
        with store.write() as txn:
            txn.upsert("meta", [{"key": "name", "value": store.path.parent.name}])
    with here.read() as first, there.read() as second:
        assert [rows.value(sql, [sign, "name"]) for rows, sign in ((first, "!"), (second, "?"))] == ["here!", "there?"]
    assert PARSED[sql].query == sql


def test_a_text_that_was_parsed_before_a_column_was_added_shows_the_column(store: Store) -> None:
    with store.write() as txn:
        txn.execute("create temp table told as select 1 as a")
        assert txn.rows("from told") == [{"a": 1}]
        txn.execute("alter table told add column b varchar default 'new'")
        assert txn.rows("from told") == [{"a": 1, "b": "new"}]


def test_however_many_texts_are_executed_few_are_kept_parsed(store: Store) -> None:
    with store.read() as found:
        for number in range(300):
            assert found.value(f"select {number}, '{'x' * 1_000}'") == number
    assert sum(map(len, PARSED)) <= PARSED_CHARACTERS


def test_several_statements_in_one_text_are_all_executed(store: Store) -> None:
    with store.write() as txn:
        txn.execute("insert into meta values ('a', '1'); insert into meta values ('b', '2')")
        assert txn.value("select count(*) from meta where key in ('a', 'b')") == 2


INTERRUPTED = """
import os, signal, sys, threading, time
from pathlib import Path
from ingest.store.database import Store

store = Store.open(Path(sys.argv[1]))
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    with store.read() as rows:
        rows.value("select sum(hash(a.i * b.i)) from range(1000000) a(i), range(1000000) b(i)")
except KeyboardInterrupt:
    with store.read() as rows:
        print("stopped by hand, and read again:", rows.value("select 1"))
store.close()
"""


def test_a_ctrl_c_within_a_query_is_a_ctrl_c(tmp_path: Path) -> None:
    command = [sys.executable, "-c", INTERRUPTED, str(tmp_path / "trust.duckdb")]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=LONG_SECONDS, check=False)
    assert (done.returncode, done.stdout) == (0, "stopped by hand, and read again: 1\n"), done.stderr
