"""Everything that is held about one person, as one document that a person can read, written piece by piece.

The public records of others that name them (vouches, statuses on their pull requests) are part of it, with their
authors' DIDs: whoever is judged by them may see them. Numbers of people are given as DIDs.
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

BATCH_ROWS = 2_048  # of an archive file that are read at once: 8 MB where each has a text of 4 kB
PIECE = 65_536  # characters


def export(rows: Rows, did: str, diffs: Path, others: Iterable[Path], texts: LongTexts) -> dict[str, Any] | None:
    """Tables, archived events and files about a DID; None where nothing is held. Long texts are read by `pieces`.

    `diffs` is the folder of the diffs; `others` are folders of files, of which those that name the person are listed.
    """
    names, number = find_names(rows, did)
    names = names.with_long_texts(texts)
    held = _with_texts(held_rows(rows, names, number), texts)
    archived, listed = _from_files(names, others, texts)
    if not held and not archived and not listed:
        return None
    return {
        "did": did,
        "verified_handle": names.handle,
        "tables": _with_dids(rows, held),
        "archived_events": archived,
        "files": [*_diffs(held.get("patches", ()), names, diffs), *listed],
    }


def pieces(document: Mapping[str, Any]) -> Iterator[str]:
    """The document as JSON, piece by piece: a long text is in memory only while its piece is."""
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
    """Only the rows of the tables that tell of a DID, by table; a long text of somebody else's is not searched."""
    return _with_dids(rows, _with_texts(held_rows(rows, *find_names(rows, did)), texts))


def _with_texts(held: Iterable[tuple[str, Sequence[Row]]], texts: LongTexts) -> dict[str, list[dict[str, Any]]]:
    return {name: [whole_row(row, texts) for row in told] for name, told in held}


def _with_dids(rows: Rows, held: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    numbers = {value for found in held.values() for row in found for value in _numbers(row)}
    found = rows.rows(
        "select contributor_id, did from contributors where contributor_id in (select unnest(?))", [sorted(numbers)]
    )
    dids = {row["contributor_id"]: row["did"] for row in found}
    return {name: [_readable(row, dids) for row in told] for name, told in held.items()}


def _numbers(row: Mapping[str, Any]) -> list[int]:
    own = [value for name, value in row.items() if name in PEOPLE and value is not None]
    return own + list(row.get("path") or ())


def _readable(row: Mapping[str, Any], dids: Mapping[int, str]) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for name, value in row.items():
        if name in PEOPLE:
            shown[name.removesuffix("_id") + "_did"] = dids.get(value)
        elif name == "path" and isinstance(value, list):
            shown[name] = [dids.get(number) for number in value]
        else:
            shown[name] = value
    return shown


def _from_files(
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
            listed.append(_listing(path))
    return events, listed


def _diffs(patches: Sequence[Mapping[str, Any]], names: Names, folder: Path) -> list[dict[str, Any]]:
    own = {row["sha256"] for row in patches if row["sha256"] and names.referred_by(row["pull_uri"])}
    paths = (folder / digest[:2] / f"{digest}.patch.gz" for digest in sorted(own))
    return [_listing(path) for path in paths if path.is_file()]


def _listing(path: Path) -> dict[str, Any]:
    data = path.read_bytes()
    return {"path": str(path), "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
