"""Export everything that is stored about one person as one readable document, written piece by piece.

Other people's public records that name them (vouches, statuses on their pull requests) are part of it, with their
authors' DIDs: a person may see the records that judge them. Numbers of people are given as DIDs.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from ingest.erasure.files import files_below, names_in_file
from ingest.erasure.rows import Row, find_names, held_rows, whole_row
from ingest.store.long_texts import LongTexts
from ingest.store.tombstones import PEOPLE, Names
from ingest.store.transaction import Rows

BATCH_ROWS = 2_048  # of an archive file read at once: 8 MB if each has a text of 4 kB
PIECE = 65_536  # characters


def export(rows: Rows, did: str, diffs: Path, others: Iterable[Path], texts: LongTexts) -> dict[str, Any] | None:
    """Return tables, archived events and files about a DID, or None if there are none. `pieces` reads long texts.

    `diffs` is the folder of the diffs; `others` are folders in which files that name the person are listed.
    """
    names, number = find_names(rows, did)
    names = names.with_long_texts(texts)
    rows_by_table = _with_texts(held_rows(rows, names, number), texts)
    archived, listed = _read_files(names, others, texts)
    if not rows_by_table and not archived and not listed:
        return None
    return {
        "did": did,
        "verified_handle": names.handle,
        "tables": _with_dids(rows, rows_by_table),
        "archived_events": archived,
        "files": [*_list_diffs(rows_by_table.get("patches", ()), names, diffs), *listed],
    }


def pieces(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the document as JSON, piece by piece: a long text is in memory only while its piece is."""
    waiting: list[str] = []
    size = 0
    for part in json.JSONEncoder(indent=2, ensure_ascii=False, default=str).iterencode(document):
        waiting.append(part)
        size += len(part)
        if size >= PIECE:
            yield "".join(waiting)
            waiting, size = [], 0
    yield "".join(waiting)


def export_tables(rows: Rows, did: str, texts: LongTexts) -> dict[str, list[dict[str, Any]]]:
    """Return only the table rows about a DID, by table; other people's long texts are not searched."""
    return _with_dids(rows, _with_texts(held_rows(rows, *find_names(rows, did)), texts))


def _with_texts(
    rows_by_table: Iterable[tuple[str, Sequence[Row]]], texts: LongTexts
) -> dict[str, list[dict[str, Any]]]:
    return {name: [whole_row(row, texts) for row in table_rows] for name, table_rows in rows_by_table}


def _with_dids(rows: Rows, rows_by_table: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    numbers = {value for person_rows in rows_by_table.values() for row in person_rows for value in _person_numbers(row)}
    person_rows = rows.rows(
        "select contributor_id, did from contributors where contributor_id in (select unnest(?))", [sorted(numbers)]
    )
    dids = {row["contributor_id"]: row["did"] for row in person_rows}
    return {name: [_replace_numbers(row, dids) for row in table_rows] for name, table_rows in rows_by_table.items()}


def _person_numbers(row: Mapping[str, Any]) -> list[int]:
    person_numbers = [value for name, value in row.items() if name in PEOPLE and value is not None]
    return person_numbers + list(row.get("path") or ())


def _replace_numbers(row: Mapping[str, Any], dids: Mapping[int, str]) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for name, value in row.items():
        if name in PEOPLE:
            shown[name.removesuffix("_id") + "_did"] = dids.get(value)
        elif name == "path" and isinstance(value, list):
            shown[name] = [dids.get(number) for number in value]
        else:
            shown[name] = value
    return shown


def _read_files(
    names: Names, folders: Iterable[Path], texts: LongTexts
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    events: list[dict[str, Any]] = []
    listed: list[dict[str, Any]] = []
    for path in (path for folder in folders for path in files_below(folder)):
        if not names_in_file(path, names):
            continue
        if path.suffix == ".parquet":
            batches = pq.ParquetFile(path).iter_batches(batch_size=BATCH_ROWS)
            for row in (row for batch in batches for row in batch.to_pylist()):
                if any(isinstance(value, str) and names.named_in(value) for value in row.values()):
                    events.append(whole_row(row, texts))
        else:
            listed.append(_describe_file(path))
    return events, listed


def _list_diffs(patches: Sequence[Mapping[str, Any]], names: Names, folder: Path) -> list[dict[str, Any]]:
    own_hashes = {row["sha256"] for row in patches if row["sha256"] and names.referred_by(row["pull_uri"])}
    paths = (folder / digest[:2] / f"{digest}.patch.gz" for digest in sorted(own_hashes))
    return [_describe_file(path) for path in paths if path.is_file()]


def _describe_file(path: Path) -> dict[str, Any]:
    data = path.read_bytes()
    return {"path": str(path), "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
