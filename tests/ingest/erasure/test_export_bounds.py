"""The data held about a person is written piece by piece, with one of their long texts in memory at a time."""

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from ingest.erasure.export import export, pieces
from ingest.store.archive import archive
from ingest.store.database import Store
from ingest.store.long_texts import LongTexts
from tests.ingest.erasure.planted import GONE
from tests.ingest.store.long_records import STRING
from tests.ingest.stream.frames import Frames, at, take

RECORDS, SIZE = 24, 1_000_000


@pytest.fixture(name="held")
def held_fixture(store: Store, tmp_path: Path) -> dict[str, Any]:
    """The data held about somebody with 24 records of a megabyte, a third of them archived."""
    for begin, end in ((0, RECORDS // 3), (RECORDS // 3, RECORDS)):
        frames = Frames([b""] * begin)
        for number in range(begin, end):
            frames.commit(GONE, STRING, f"k{number}", {"contents": "short"})
        take(store, frames[begin:])
        with store.write() as txn:
            for row in txn.rows("select event_id, rkey from events"):
                text = json.dumps({"contents": row["rkey"] + "<" * SIZE})
                txn.execute(
                    "update events set body = ? where event_id = ?", [txn.long_texts.keep(text), row["event_id"]]
                )
        if not begin:
            archive(store, tmp_path / "staging", 30, 0, at(0))
    with store.read() as rows:
        found = export(rows, GONE, tmp_path / "diffs", [tmp_path / "staging"], store.long_texts)
    assert found is not None
    return found


def test_every_text_is_in_the_document_and_never_two_in_memory(held: dict[str, Any]) -> None:
    tracemalloc.start()
    try:
        written = most = 0
        for piece in pieces(held):
            written += len(piece)
            most = max(most, len(piece))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert written > RECORDS * SIZE
    assert most < 2 * SIZE
    assert peak < 8 * SIZE, "a text, the same as JSON and the piece that holds it"


def test_no_text_is_read_before_it_is_written(held: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str | None] = []
    shown = LongTexts.shown

    def counted(texts: LongTexts, value: str | None) -> str | None:
        read.append(value)
        return shown(texts, value)

    monkeypatch.setattr(LongTexts, "shown", counted)
    document = pieces(held)
    for number in range(1, 5):
        next(document)
        assert len(read) == number
    whole = json.loads("".join(pieces(held)))
    told = [*whole["archived_events"], *whole["tables"]["events"]]
    assert len({json.loads(row["body"])["contents"][:-SIZE] for row in told}) == RECORDS
