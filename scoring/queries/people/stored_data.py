"""Read everything stored about one contributor, for that contributor: rows that are theirs or refer to them.

Omitted and only counted: what others write against them, judgements of other people, and rows that merely mention them.
Thresholds are for maintainers only, so reasons are given in words.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ingest.erasure.export import export, export_tables
from ingest.records.registry import VOUCH
from ingest.store.long_texts import LongTexts
from ingest.store.transaction import Rows
from scoring.explain.sentences import own_sentence
from scoring.pipeline.stored import read_reasons
from scoring.queries.lists import Subject, subjects

WITHHELD_COLUMNS = frozenset({"thresholds", "inputs"})
# Tables of which a contributor learns only row counts: they must not know what is drawn for audit before it is decided.
WITHHELD_TABLES = frozenset({"audits", "audit_draws"})
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Stored:
    """Rows by table; `denounces` against them, `mentions` in other people's rows, and their `files`."""

    tables: Mapping[str, list[dict[str, Any]]]
    denounces: int
    mentions: int
    files: tuple[dict[str, Any], ...] = ()


def stored(rows: Rows, did: str, store: Path) -> Stored | None:
    """Return what the tables hold; None where they hold nothing. `store` is the main file; long texts are beside it."""
    tables = export_tables(rows, did, LongTexts(store))
    return _split_rows(did, tables, []) if tables else None


def stored_whole(rows: Rows, did: str, diffs: Path, folders: Iterable[Path], store: Path) -> Stored | None:
    """Return what `stored` does plus archived events and files, which takes as long as reading those folders."""
    exported = export(rows, did, diffs, folders, LongTexts(store))
    if exported is None:
        return None
    tables = exported["tables"] | (
        {"archived_events": exported["archived_events"]} if exported["archived_events"] else {}
    )
    return _split_rows(did, tables, exported["files"])


def offered_to(rows: Rows, did: str) -> frozenset[str]:
    """Return the keys of the repositories to which somebody offered a pull request."""
    sql = (
        "select distinct r.repo_key from pull_requests p join repositories r using (repository_id) "
        "join contributors c on c.contributor_id = p.author_id where c.did = ?"
    )
    return frozenset(row["repo_key"] for row in rows.rows(sql, [did]))


def pushes_to(rows: Rows, did: str) -> frozenset[str]:
    """Return the keys of the watched repositories to which somebody may push: owners and who their knot lists."""
    sql = (
        "select distinct r.repo_key from push_holders h join contributors c using (contributor_id) "
        "join repositories r using (repository_id) semi join watched_repositories w using (repository_id) "
        "where c.did = ? and h.held_until is null"
    )
    return frozenset(row["repo_key"] for row in rows.rows(sql, [did]))


def offered_by(rows: Rows, pull_uri: str) -> tuple[str, str] | None:
    """Return the author's DID and the repository's key of a pull request; None where it is unknown."""
    row = rows.row(
        "select c.did, r.repo_key from pull_requests p join repositories r using (repository_id) "
        "join contributors c on c.contributor_id = p.author_id where p.pull_uri = ?",
        [pull_uri],
    )
    return (row["did"], row["repo_key"]) if row else None


def offers(rows: Rows, did: str) -> tuple[Subject, ...]:
    """Return the open pull requests of a contributor in watched repositories, newest first."""
    sql = (
        "select d.pull_uri from current_decisions d join pull_requests p using (pull_uri) "
        "join contributors c on c.contributor_id = p.author_id where c.did = ? order by p.opened_at desc, d.pull_uri"
    )
    uris = [row["pull_uri"] for row in rows.rows(sql, [did])]
    by_uri = subjects(rows, uris)
    return tuple(by_uri[uri] for uri in uris if uri in by_uri and by_uri[uri].state == "open")


def _split_rows(did: str, tables: Mapping[str, Iterable[Row]], files: Iterable[Row]) -> Stored:
    own_rows: dict[str, list[dict[str, Any]]] = {}
    denounces = mentions = 0
    for name, table_rows in tables.items():
        for row in table_rows:
            if _is_denounce(name, row, did):
                denounces += name == "vouches" and row.get("superseded_at") is None
            elif name in WITHHELD_TABLES or not _is_theirs(row, did):
                mentions += 1
            else:
                own_rows.setdefault(name, []).append(_shown_columns(row))
    return Stored(own_rows, denounces, mentions, tuple(_without_folders(file) for file in files))


def _is_denounce(table: str, row: Row, did: str) -> bool:
    """Return whether a row is somebody else's denounce of them, or an event that may be one."""
    if table == "vouches":
        return row["kind"] == "denounce" and row["voucher_did"] != did
    if row.get("did") == did or "body" not in row:
        return False
    if row.get("collection") == VOUCH:
        return _record_kind(_body(row)) != "vouch"
    return table == "dead_letters" and '"denounce"' in _body(row)


def _body(row: Row) -> str:
    """Return the text of a row, read from its file where it is long; "" for none."""
    return str(row.get("body") or "")


def _record_kind(body: str) -> object:
    try:
        record = json.loads(body or "null")
    except ValueError:
        return None
    return record.get("kind", "vouch") if isinstance(record, dict) else None


def _is_theirs(row: Row, did: str) -> bool:
    """Return whether a row judges them, was written by them, or refers to them or to a record of theirs."""
    if "contributor_did" in row:
        return row["contributor_did"] == did
    texts = [value for name, value in row.items() if isinstance(value, str) and name != "body"]
    if any(value == did or value.startswith(f"at://{did}/") for value in texts):
        return True
    return f'"at://{did}/' in _body(row)


def _shown_columns(row: Row) -> dict[str, Any]:
    columns = {name: value for name, value in row.items() if name not in WITHHELD_COLUMNS}
    if isinstance(columns.get("reasons"), str):
        columns["reasons"] = [own_sentence(reason) for reason in read_reasons(columns["reasons"])]
    return columns


def _without_folders(file: Row) -> dict[str, Any]:
    """Return a file row without the folders of this machine."""
    return {**file, "path": Path(str(file["path"])).name}
