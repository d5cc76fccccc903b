"""Records of a megabyte at full speed, through a real socket and a real worker at its default memory."""

import json
import os
import signal
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import cast, overload

import pytest

from ingest.store.archive import read_log
from ingest.store.contributors import BYTES_AN_HOUR
from ingest.store.long_texts import LIMIT, LongTexts, bytes_of
from ingest.store.snapshots import SnapshotReader
from ingest.worker.status import read_status
from tests.conftest import count
from tests.ingest.stream.frames import ANA, FIRST_US
from tests.trustsite import runs
from tests.waiting import wait_for
from trustsite import drive
from trustsite.standins import jetstream
from trustsite.standins.recording import Recording

ACCOUNTS = count(5, 50)  # each writes six such records or more, of which an hour takes two
APART_US = 10_000  # between two frames: 10,000 fit into an hour, and a worker that begins again rewinds by 500
STRING = "sh.tangled.string"
BRACKETS = '"contents": "' + "\\u003c" * 990_000 + '"}'  # 990 kB of `<` as Go's JSON writes it: 5.9 MB


def long_record(place: int) -> str:
    return f'{{"number": {place}, {BRACKETS}'


class Attack(Sequence[bytes]):
    """Frames of 5.9 MB, made when they are sent: a vouch first, one behind each hundredth, and one at the end."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    @overload
    def __getitem__(self, place: int) -> bytes: ...
    @overload
    def __getitem__(self, place: slice) -> list[bytes]: ...
    def __getitem__(self, place: int | slice) -> bytes | list[bytes]:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(self.size))]
        did, part = self.told(place)
        head = json.dumps({"did": did, "time_us": FIRST_US + place * APART_US, "kind": "commit", "commit": part})
        record = '{"kind": "vouch"}' if self.is_honest(place) else long_record(place)
        return f'{head[:-2]}, "record": {record}}}}}'.encode()

    def is_honest(self, place: int) -> bool:
        return place % 100 == 0 or place == self.size - 1

    def told(self, place: int) -> tuple[str, dict[str, str]]:
        did, rkey, collection = f"did:plc:{place % ACCOUNTS:024d}", f"k{place}", STRING
        if self.is_honest(place):
            did, rkey, collection = ANA, f"did:plc:{place:024d}", "sh.tangled.graph.vouch"
        change = {"rev": f"rev{place}", "operation": "create", "collection": collection, "rkey": rkey}
        return did, change | {"cid": f"cid{place}"}

    def recording(self) -> Recording:
        told = [self.told(place) for place in range(self.size)]
        times = [FIRST_US + place * APART_US for place in range(self.size)]
        collections: list[str | None] = [part["collection"] for _, part in told]
        return Recording(cast(list[bytes], self), times, collections, [did for did, _ in told], {}, (), (), "attack")


def cursor_of(root: Path) -> int:
    told = read_status(root / "status.json")
    return told.cursor_us if told else 0


def published_cursor(root: Path) -> int:
    with closing(SnapshotReader(root / "snapshots")) as reader, reader.pin() as snapshot:
        return (snapshot.value("select max(cursor_us) from ingest_state") or 0) if snapshot else 0


def test_a_flood_of_records_of_a_megabyte_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jetstream, "BATCH", 4)  # 24 MB a write
    attack, patience = Attack(count(32, 10_000)), count(90, 3_600)
    half = attack.size // 2
    root = tmp_path / "drive"
    root.mkdir()
    drive.mark(root)
    with jetstream.Jetstream(attack.recording(), hold_after=half) as peer:
        for released in (half, attack.size):
            worker = runs.start("worker", DATA_ROOT=root, JETSTREAM_URLS=peer.url)
            try:
                peer.release(released)
                newest = FIRST_US + (released - 1) * APART_US
                wait_for(lambda newest=newest: cursor_of(root) == newest, patience, "the stream")
                wait_for(lambda newest=newest: published_cursor(root) == newest, patience, "publishing")
                status, _, err = runs.run("backup", root / f"backup-{released}", DATA_ROOT=root)
                assert status == 0, err
                if released == half:
                    os.kill(worker.pid, signal.SIGKILL)
            finally:
                worker.send_signal(signal.SIGTERM)
                status, _, err = runs.finish(worker, timeout=runs.STOP_SECONDS)
        assert status == 0, err
    assert_within_bounds(root, attack)


def assert_within_bounds(root: Path, attack: Attack) -> None:
    """Assert that every honest record counts, that no text is long, and that no account wrote more than it may."""
    honest = sum(map(attack.is_honest, range(attack.size)))
    texts = LongTexts(root / "duckdb" / "trust.duckdb")
    with closing(SnapshotReader(root / "snapshots")) as reader, reader.pin() as snapshot:
        assert snapshot is not None
        assert snapshot.value("select count(*) from vouches") == honest
        # The worker moves what is old, as these frames are, to files.
        strings = read_log(snapshot, "select did, rkey, body from {events} where collection = $name", {"name": STRING})
        letters = snapshot.rows("select body from dead_letters where source = 'intake'")
    assert max(len(row["body"]) for row in strings) <= LIMIT
    spent: dict[str, int] = {}
    for row in strings:
        spent[row["did"]] = spent.get(row["did"], 0) + bytes_of(row["body"])
    assert len(spent) == ACCOUNTS
    # The second worker does not count what the first one's had moved to files (ingest/store/contributors.py).
    assert max(spent.values()) <= 2 * BYTES_AN_HOUR
    assert all(texts.read(row["body"]) == long_record(int(row["rkey"][1:])) for row in strings)
    full = {row["body"] for row in letters}
    assert full == set(spent), "each account is told once that it wrote too much"
