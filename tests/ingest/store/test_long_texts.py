"""Records of any length are logged, read, searched, erased, archived and backed up; no checkpoint reads their texts."""

import hashlib
import json
import subprocess
import sys
from datetime import timedelta
from itertools import product
from pathlib import Path
from random import Random

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.erasure.erase import erase, finish
from ingest.erasure.export import export
from ingest.erasure.rows import tables
from ingest.errors import StoreProblem
from ingest.records.derive import derive
from ingest.records.registry import REGISTRY
from ingest.store import long_texts
from ingest.store.archive import archive, read_log
from ingest.store.contributors import BYTES_AN_HOUR
from ingest.store.database import Store
from ingest.store.long_texts import COLUMN_BYTES, LIMIT, PREFIX, LongTexts, TextLost, bytes_of
from ingest.stream.load import Listed, load, load_listing
from ingest.stream.reread_letters import retry_dead_letters
from tests.conftest import count
from tests.ingest.backup.kept_state import back_up, make_drive, open_drive, put_back
from tests.ingest.erasure.erased import LATE
from tests.ingest.erasure.planted import GONE, KEY, MARK, folders_below, traces
from tests.ingest.store.long_records import BODIES, ESCAPED, LONGEST, STRING, angle_brackets, author, files, long_pull
from tests.ingest.stream.frames import (
    ANA,
    FIRST_US,
    MARA,
    PULL,
    SOURCE,
    Frames,
    at,
    digest_of,
    letters,
    pull_uri,
    rows,
    settled,
    take,
)
from tests.sources import PROJECT
from tests.stores import fresh_store


def test_records_of_a_megabyte_leave_a_store_that_checkpoints_and_opens(tmp_path: Path) -> None:
    path = tmp_path / "trust.duckdb"
    store = fresh_store(path)
    store.bind(SOURCE)
    for number in range(count(40, 1_000)):
        load(store, SOURCE, [angle_brackets(author(number // 2), number)])
    while derive(store):
        pass
    store.checkpoint()
    store.close()
    store = Store.open(path)
    assert rows(store, "select count(*) from events") == [(count(40, 1_000),)]
    assert rows(store, LONGEST)[0][0] <= LIMIT
    assert store.long_texts.read(rows(store, BODIES)[0][0]) == f'{{"contents": "{ESCAPED * 990_000}"}}'
    store.close()


# The lengths next to the bound, and texts that look like what stands in place of a long one.
TEXTS = st.one_of(
    st.builds(lambda size, sign: sign * size, st.integers(LIMIT // 4 - 40, LIMIT + 40), st.sampled_from('a<é🦊\\"')),
    st.text(max_size=60).map(lambda text: PREFIX + text),
)


@settings(max_examples=count(30, 1_000))
@given(st.lists(TEXTS, min_size=1, max_size=6))
def test_whatever_a_record_says_is_read_back_as_it_came(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> None:
    store = fresh_store(tmp_path_factory.mktemp("any") / "trust.duckdb")
    store.bind(SOURCE)
    frames = Frames()
    for number, text in enumerate(texts):
        frames.commit(ANA, STRING, str(number), text if number % 2 else {"contents": text})
    load(store, SOURCE, frames)
    load(store, SOURCE, [*frames, PREFIX + texts[0]])
    found = [body for (body,) in rows(store, BODIES)]
    ((letter,),) = rows(store, "select body from dead_letters")
    assert max(len(text.encode()) for text in [*found, letter]) <= LIMIT
    assert [json.loads(store.long_texts.read(body)) for body in found] == [
        text if number % 2 else {"contents": text} for number, text in enumerate(texts)
    ]
    assert [bytes_of(body) for body in found] == [len(store.long_texts.read(body).encode()) for body in found]
    assert store.long_texts.read(letter) == PREFIX + texts[0]
    store.close()


def test_the_stream_gives_the_same_tables_whatever_its_batches(tmp_path: Path) -> None:
    frames = Frames()
    frames.repository(ANA)
    for number in range(12):
        long_pull(frames, MARA, str(number % 4), "x" * (number * 1_000), "create" if number < 4 else "update")
    frames.delete(MARA, PULL, "1")
    digests = []
    for size in (1, 5, len(frames)):
        store = fresh_store(tmp_path / str(size) / "trust.duckdb")
        store.bind(SOURCE)
        for begin in range(0, len(frames), size):
            take(store, frames[max(begin - 2, 0) : begin + size])  # a stream repeats itself
        digests.append((digest_of(store), files(store)))
        store.close()
    assert digests[0] == digests[1] == digests[2]


def test_a_long_account_event_is_known_again_and_read(store: Store) -> None:
    frames = Frames()
    frames.vouch(MARA, ANA)
    frames.account(MARA, active=False, status="deactivated", note="x" * 10_000)
    for batch in (frames, frames[1:], frames):
        take(store, batch)
    ((body,),) = rows(store, "select body from events where kind = 'account'")
    assert json.loads(store.long_texts.read(body))["note"] == "x" * 10_000
    assert rows(store, "select account_status from contributors where did = ?", MARA) == [("deactivated",)]


def test_an_account_beyond_its_bytes_an_hour_is_told_once_and_can_still_take_back(store: Store) -> None:
    frames = Frames()
    for number in range(40):
        frames.commit(MARA, STRING, str(number), {"contents": "x" * 999_000})
    frames.vouch(MARA, ANA)
    frames.delete(MARA, STRING, "0")
    frames.commit(ANA, STRING, "0", {"contents": "x" * 999_000})
    for _ in range(2):  # a stream repeats itself
        for raw in frames:
            load(store, SOURCE, [raw])
    told = letters(store)
    assert [reason.split(" in the hour")[0] for reason in told] == ["its account wrote more than 16 MB"]
    assert rows(store, "select body, strlen(body) < 100 from dead_letters") == [(MARA, True)]
    logged = rows(store, "select did, operation, count(*) from events group by all order by all")
    assert logged == [(ANA, "create", 1), (MARA, "create", 17), (MARA, "delete", 1)]
    kept = sum(bytes_of(body) for (body,) in rows(store, f"{BODIES[:-19]} and did = '{MARA}'"))
    assert BYTES_AN_HOUR - 1_000_000 < kept <= BYTES_AN_HOUR
    assert rows(store, "select count(*) from vouches") == [(0,)]
    assert retry_dead_letters(store).applied == 0


def count_and_fail(store: Store) -> None:
    """A transaction that counts all that ana may write in this hour, and is undone."""
    with store.write() as txn:
        txn.intake.refused([0], [ANA], [FIRST_US], [BYTES_AN_HOUR])
        txn.execute("select error('undone')")


def test_the_bound_is_kept_over_a_restart_and_is_free_again_in_the_next_hour(tmp_path: Path) -> None:
    def strings(begin: int, size: int, hour: int = 0) -> list[bytes]:
        frames = Frames([b""] * (begin + 3_600 * hour))
        for number in range(begin, begin + size):
            frames.commit(MARA, STRING, str(number), {"contents": "x" * 990_000})
        return frames[begin + 3_600 * hour :]

    store = fresh_store(tmp_path / "trust.duckdb")
    store.bind(SOURCE)
    assert load(store, SOURCE, strings(0, 10)).events == 10
    store.close()
    store = Store.open(tmp_path / "trust.duckdb")
    assert load(store, SOURCE, strings(10, 10)).events == 6
    with pytest.raises(duckdb.Error):
        count_and_fail(store)
    assert load(store, SOURCE, strings(30, 10, hour=1)).events == 10
    assert load(store, SOURCE, [angle_brackets(ANA, 40)]).events == 1
    assert len(letters(store)) == 1
    store.close()


def test_a_listing_is_bounded_too(store: Store) -> None:
    body = json.dumps({"contents": "x" * 999_000}).encode()
    listed = [Listed(MARA, STRING, str(n), "create", f"c{n}", f"r{n}", at(0), body) for n in range(20)]
    assert load_listing(store, listed) == 16
    assert [letter.startswith("its account wrote more than") for letter in letters(store)] == [True]


def test_nothing_is_left_of_an_erased_person_in_long_texts_of_theirs_and_of_others(tmp_path: Path) -> None:
    store = fresh_store(tmp_path / "store" / "trust.duckdb", key=KEY)
    store.bind(SOURCE)
    filler = "and so on " * 1_000
    frames = Frames()
    frames.repository(ANA)
    for rkey in ("archived", "young"):
        long_pull(frames, GONE, rkey, f"{MARK} {filler}{rkey}")
        long_pull(frames, ANA, rkey, f"as {GONE} says: {filler}{rkey}")
        long_pull(frames, MARA, rkey, f"nobody is named: {filler}{rkey}")
        if rkey == "archived":
            take(store, frames)
            frames.append(f"no frame, by {GONE}: {filler}".encode())
            archive(store, tmp_path / "staging", 30, 0, at(0))
    take(store, frames)
    folders = folders_below(tmp_path)
    with store.read() as found:
        held = export(found, GONE, folders.diffs, [folders.staging], store.long_texts)
    assert held is not None
    told = [*held["archived_events"], *held["tables"]["events"], *held["tables"]["dead_letters"]]
    assert sorted(filler in str(row["body"]) for row in told) == [True] * 5
    erase(store, GONE, "by_request", LATE, folders)
    finish(store, folders)
    assert len(files(store)) == 2
    with store.read() as found:
        left = read_log(
            found,
            "select did, body is null as is_gone from {events} where collection = $name order by 1, 2",
            {"name": PULL},
        )
    assert [tuple(row.values()) for row in left] == [(ANA, True)] * 2 + [(MARA, False)] * 2
    store.close()
    assert traces(tmp_path, (GONE, GONE.removeprefix("did:plc:"), MARK)) == []


def test_an_erasure_reads_each_long_text_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = fresh_store(tmp_path / "store" / "trust.duckdb", key=KEY)
    store.bind(SOURCE)
    frames = Frames()
    frames.repository(ANA)
    for number in range(5):
        long_pull(frames, MARA, f"of{number}", f"{GONE if number % 2 else 'nobody'} {number} " * 2_000)
    take(store, frames)
    read: list[Path] = []
    unpack = long_texts._unpack

    def counted(path: Path) -> bytes:
        read.append(path)
        return unpack(path)

    monkeypatch.setattr(long_texts, "_unpack", counted)
    erase(store, GONE, "by_request", LATE, folders_below(tmp_path))
    assert len(read) == len(set(read)) == 5
    assert len(files(store)) == 3
    store.close()


def test_the_text_of_a_replaced_record_goes_after_a_month(store: Store, tmp_path: Path) -> None:
    frames = Frames()
    frames.repository(ANA)
    long_pull(frames, MARA, "one", "first" * 2_000)
    long_pull(frames, MARA, "one", "second" * 2_000, "update")
    take(store, frames)
    archive(store, tmp_path / "staging", 90, 1_000_000, at(10) + timedelta(days=29))
    assert len(files(store)) == 2
    archive(store, tmp_path / "staging", 90, 1_000_000, at(10) + timedelta(days=31))
    assert len(files(store)) == 1
    assert ["second" in store.long_texts.read(body or "") for (body,) in rows(store, f"{BODIES} offset 1")] == [
        False,
        True,
    ]


def test_a_backup_holds_the_long_texts_and_a_restore_brings_them(tmp_path: Path) -> None:
    places, other = make_drive(tmp_path / "a"), make_drive(tmp_path / "b")
    store = open_drive(places)
    frames = Frames()
    frames.repository(ANA)
    long_pull(frames, MARA, "one", "first " * 2_000)
    take(store, frames)
    back_up(store, places, tmp_path / "backup")
    before = digest_of(store)
    long_pull(frames, MARA, "two", "second " * 2_000)
    take(store, frames)
    store.close()
    for drive in (places, other):
        put_back(tmp_path / "backup", drive, replace=True)
        store = open_drive(drive)
        assert digest_of(store) == before
        assert len(files(store)) == 1
        assert "first first" in store.long_texts.read(rows(store, BODIES)[1][0])
        store.close()


# Texts as long as any column takes and longer, in characters of one to four bytes, and some that JSON writes at length.
URI, WEB_DID = f"at://{MARA}/app.test/{'k' * 500}", f"did:web:{'w' * 1_900}"
WIDE = ["🦊" * 25_000, "\x01" * 25_000, URI, WEB_DID, "https://a.test/" + "é" * 1_500]
PAIRS = [{"key": text[:3_000], "value": text[:1_000]} for text in WIDE]
LISTS: list[object] = [[text[:2_500] for text in WIDE] * 6, PAIRS * 20, {"enum": ["🦊" * 200] * 100}]


def test_no_record_makes_a_long_text_in_any_table(store: Store) -> None:
    frames = Frames()
    for collection in sorted(REGISTRY.kinds):
        fields = sorted(REGISTRY.kinds[collection].fields)
        readable = dict.fromkeys(fields, URI) | {"kind": "vouch", "target": {"repo": WEB_DID}, "subject": {"uri": URI}}
        for number, (field, text) in enumerate(product(fields, [*WIDE, *LISTS])):
            rkey = (f"k{number}", f"did:web:{'n' * 400}{number}", "knot.example.test")[number % 3]
            frames.commit(author(len(frames)), collection, rkey, readable | {field: text})
    for begin in range(0, len(frames), 50):
        take(store, frames[begin : begin + 50])
    with store.read() as found:
        texts = {(table.name, name) for table in tables(found) for name in (*table.texts, *table.text_lists)}
        sql = 'select max(strlen("{}"::varchar)) from "{}"'
        longest = {(table, name): found.value(sql.format(name, table)) for table, name in texts}
    assert {name: size for name, size in longest.items() if (size or 0) > COLUMN_BYTES} == {}


FULL = {
    "events": "place::varchar as event_id, place as event_seq, 'test' as source, 'commit' as kind, 'd' as did, "
    "false as late, now()::timestamp as seen_at, now()::timestamp as loaded_clock",
    "comments": "place::varchar as uri, 1 as author_id, 'feed' as form, 'd' as subject_uri, now()::timestamp as "
    "written_at, now()::timestamp as seen_at, now()::timestamp as changed_at",
}


@pytest.mark.parametrize(
    ("table", "length", "few", "many"), [("events", LIMIT, 6_000, 130_000), ("comments", COLUMN_BYTES, 2_500, 20_000)]
)
def test_rows_that_are_full_of_the_longest_texts_are_checkpointed_and_read(
    store: Store, table: str, length: int, few: int, many: int
) -> None:
    draw = Random(1)
    words = [f"{draw.getrandbits(30):x}" for _ in range(3_000)]
    for begin in range(0, count(few, many), 500):
        texts = [" ".join(draw.choices(words, k=length // 5))[:length] for _ in range(500)]
        with store.write() as txn, txn.registered(pa.table({"place": range(begin, begin + 500), "body": texts})):
            txn.execute(f"insert into {table} by name select {FULL[table]}, body from incoming")
    store.checkpoint()
    assert rows(store, f"select count(*), max(strlen(body)) from {table}") == [(count(few, many), length)]


KILLED = """
import os, sys
from pathlib import Path
from ingest.stream.load import load
from ingest.store.database import Store
from tests.ingest.stream.frames import SOURCE
from tests.ingest.store.long_records import angle_brackets, author
store = Store.open(Path(sys.argv[1]))
store.bind(SOURCE)
load(store, SOURCE, [angle_brackets(author(1), 1)])
try:
    with store.write() as txn:
        txn.long_texts.keep("never committed " * 1000)
        (store.long_texts.folder / "ab").mkdir(exist_ok=True)
        (store.long_texts.folder / "ab" / ".draft-x").write_text("half")
        os._exit(9)
finally:
    os._exit(1)
"""


def test_a_kill_loses_no_text_that_was_committed_and_leaves_no_other(tmp_path: Path) -> None:
    path = tmp_path / "trust.duckdb"
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], cwd=PROJECT, check=False)
    assert done.returncode == 9
    assert len(list(LongTexts(path).folder.glob("??/*"))) == 3
    store = Store.open(path)
    ((body,),) = rows(store, BODIES)
    assert len(store.long_texts.read(body)) == bytes_of(body) > 5_900_000
    assert len(files(store)) == 1
    store.close()


def test_a_text_whose_file_is_damaged_or_gone_is_a_dead_letter_until_it_is_back(store: Store) -> None:
    frames = Frames()
    frames.repository(ANA)
    for name in ("whole", "damaged", "gone"):
        long_pull(frames, MARA, name, name * 2_000)
    load(store, SOURCE, frames)
    _, damaged, gone = (store.long_texts._path(body) for (body,) in rows(store, f"{BODIES} offset 1"))
    kept = {path: path.read_bytes() for path in (damaged, gone)}
    damaged.write_bytes(kept[damaged][:-9] + b"123456789")
    gone.unlink()
    settled(store)
    assert rows(store, "select pull_uri from pull_requests") == [(pull_uri(MARA, "whole"),)]
    assert [" ".join(reason.split()[:5]) for reason in letters(store)] == ["the file of its text"] * 2
    for path, data in kept.items():
        path.write_bytes(data)
    assert retry_dead_letters(store).left == 0
    assert rows(store, "select count(*) from pull_requests") == [(3,)]


TEXT = "y" * 5_000


def hash_folder(texts: LongTexts) -> Path:
    """The folder that TEXT's file belongs to."""
    texts.folder.mkdir()
    return texts.folder / hashlib.sha256(TEXT.encode()).hexdigest()[:2]


@pytest.mark.parametrize("place", ["hash folder", "whole folder"])
def test_a_link_in_place_of_a_folder_is_neither_swept_nor_read_nor_written_through(tmp_path: Path, place: str) -> None:
    outside, texts = LongTexts(tmp_path / "other.duckdb"), LongTexts(tmp_path / "trust.duckdb")
    outside.keep(TEXT)
    folder = hash_folder(texts)
    (outside.folder / folder.name / "precious.txt").write_text("keep me")
    if place == "hash folder":
        folder.symlink_to(outside.folder / folder.name)
    else:
        texts.folder.rmdir()
        texts.folder.symlink_to(outside.folder)
    before = sorted(outside.folder.glob("??/*"))
    assert texts.is_empty()
    assert texts.files() == frozenset()
    assert texts.sweep([]) == 0
    with pytest.raises(StoreProblem, match="is not a plain folder, so no long text can be stored in it: move it away"):
        texts.keep(TEXT)
    assert sorted(outside.folder.glob("??/*")) == before
    assert len(before) == 2


def test_a_sweep_removes_only_plain_files_with_the_names_of_long_texts(tmp_path: Path) -> None:
    texts = LongTexts(tmp_path / "trust.duckdb")
    texts.keep(TEXT)
    (folder,) = texts.folder.iterdir()
    (folder / ".draft-abcd1234").write_bytes(b"cut")
    (folder / "notes.txt").write_text("of somebody else")
    (folder / "sub").mkdir()
    (folder / f"{'0' * 64}.zst").symlink_to(folder / "notes.txt")
    (texts.folder / "ff.txt").write_text("beside")
    assert texts.sweep([]) == 2
    assert sorted(path.name for path in folder.iterdir()) == [f"{'0' * 64}.zst", "notes.txt", "sub"]
    assert texts.is_empty()


def test_a_file_in_place_of_a_folder_or_a_folder_in_place_of_a_file_is_told_in_a_sentence(tmp_path: Path) -> None:
    texts = LongTexts(tmp_path / "trust.duckdb")
    folder = hash_folder(texts)
    folder.write_text("a file")
    assert texts.sweep([]) == 0
    with pytest.raises(StoreProblem, match=f"{folder} is not a plain folder"):
        texts.keep(TEXT)
    folder.unlink()
    reference = texts.keep(TEXT)
    (path,) = folder.iterdir()
    path.unlink()
    path.mkdir()
    assert texts.sweep([]) == 0
    with pytest.raises(TextLost, match=str(path)):
        texts.read(reference)
    with pytest.raises(StoreProblem, match=f"{path} is a folder where the file of a long text belongs"):
        texts.keep(TEXT)


@pytest.mark.parametrize("damage", ["empty", "cut", "garbage", "another text", "link"])
def test_a_damaged_file_is_healed_when_its_text_arrives_again(tmp_path: Path, damage: str) -> None:
    texts = LongTexts(tmp_path / "trust.duckdb")
    reference = texts.keep(TEXT)
    (path,) = texts.folder.glob("??/*")
    whole = path.read_bytes()
    path.unlink()
    if damage == "link":
        path.symlink_to(tmp_path / "elsewhere")
        (tmp_path / "elsewhere").write_bytes(b"mine")
    else:
        other = bytes(pa.compress(b"z" * 5_000, codec="zstd", asbytes=True))
        path.write_bytes({"empty": b"", "cut": whole[:-3], "garbage": b"garbage", "another text": other}[damage])
    with pytest.raises(TextLost):
        texts.read(reference)
    assert texts.keep(TEXT) == reference
    assert texts.read(reference) == TEXT
    assert not path.is_symlink()
    assert damage != "link" or (tmp_path / "elsewhere").read_bytes() == b"mine"
