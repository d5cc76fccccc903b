"""Reads all that is stored about one contributor, for that contributor: rows that are theirs or refer to them.

Left out and only counted: what others write against them, other people's judgements, and rows in which they are merely
mentioned. Thresholds are nobody's but the maintainers', so reasons are given in words.
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
# Tables that a contributor is told of only by number: what is drawn for audit must not be known before it is decided.
WITHHELD_TABLES = frozenset({"audits", "audit_draws"})
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Stored:
    """Rows by table; `denounces` of others against them, `mentions` in what is not theirs, `files` of theirs."""

    tables: Mapping[str, list[dict[str, Any]]]
    denounces: int
    mentions: int
    files: tuple[dict[str, Any], ...] = ()


def stored(rows: Rows, did: str, store: Path) -> Stored | None:
    """Read what the tables hold; None where nothing is held. `store` is the main file, beside which long texts lie."""
    held = export_tables(rows, did, LongTexts(store))
    return _theirs(did, held, []) if held else None


def stored_whole(rows: Rows, did: str, diffs: Path, folders: Iterable[Path], store: Path) -> Stored | None:
    """The same with archived events and files, which takes as long as reading those folders."""
    held = export(rows, did, diffs, folders, LongTexts(store))
    if held is None:
        return None
    tables = held["tables"] | ({"archived_events": held["archived_events"]} if held["archived_events"] else {})
    return _theirs(did, tables, held["files"])


def offered_to(rows: Rows, did: str) -> frozenset[str]:
    """The keys of the repositories to which somebody offered a pull request."""
    sql = (
        "select distinct r.repo_key from pull_requests p join repositories r using (repository_id) "
        "join contributors c on c.contributor_id = p.author_id where c.did = ?"
    )
    return frozenset(row["repo_key"] for row in rows.rows(sql, [did]))


def offered_by(rows: Rows, pull_uri: str) -> tuple[str, str] | None:
    """The author's DID and the repository's key of a pull request; None where it is not known."""
    row = rows.row(
        "select c.did, r.repo_key from pull_requests p join repositories r using (repository_id) "
        "join contributors c on c.contributor_id = p.author_id where p.pull_uri = ?",
        [pull_uri],
    )
    return (row["did"], row["repo_key"]) if row else None


def offers(rows: Rows, did: str) -> tuple[Subject, ...]:
    """The open pull requests of a contributor in watched repositories, the newest first."""
    sql = (
        "select d.pull_uri from current_decisions d join pull_requests p using (pull_uri) "
        "join contributors c on c.contributor_id = p.author_id where c.did = ? order by p.opened_at desc, d.pull_uri"
    )
    uris = [row["pull_uri"] for row in rows.rows(sql, [did])]
    found = subjects(rows, uris)
    return tuple(found[uri] for uri in uris if uri in found and found[uri].state == "open")


def _theirs(did: str, held: Mapping[str, Iterable[Row]], files: Iterable[Row]) -> Stored:
    kept: dict[str, list[dict[str, Any]]] = {}
    denounces = mentions = 0
    for name, found in held.items():
        for row in found:
            if _is_denounce(name, row, did):
                denounces += name == "vouches" and row.get("superseded_at") is None
            elif name in WITHHELD_TABLES or not _is_theirs(row, did):
                mentions += 1
            else:
                kept.setdefault(name, []).append(_shown(row))
    return Stored(kept, denounces, mentions, tuple(_named(file) for file in files))


def _is_denounce(table: str, row: Row, did: str) -> bool:
    """Return whether a row is what somebody else wrote against them, or an event of which that can no longer be
    told.
    """
    if table == "vouches":
        return row["kind"] == "denounce" and row["voucher_did"] != did
    if row.get("did") == did or "body" not in row:
        return False
    if row.get("collection") == VOUCH:
        return _kind_of(_body(row)) != "vouch"
    return table == "dead_letters" and '"denounce"' in _body(row)


def _body(row: Row) -> str:
    """The text of a row, read where it is long; "" for none."""
    return str(row.get("body") or "")


def _kind_of(body: str) -> object:
    try:
        record = json.loads(body or "null")
    except ValueError:
        return None
    return record.get("kind", "vouch") if isinstance(record, dict) else None


def _is_theirs(row: Row, did: str) -> bool:
    """A judgement of them, a row that they wrote, or one that refers to them or to a record of theirs."""
    if "contributor_did" in row:
        return row["contributor_did"] == did
    texts = [value for name, value in row.items() if isinstance(value, str) and name != "body"]
    if any(value == did or value.startswith(f"at://{did}/") for value in texts):
        return True
    return f'"at://{did}/' in _body(row)


def _shown(row: Row) -> dict[str, Any]:
    told = {name: value for name, value in row.items() if name not in WITHHELD_COLUMNS}
    if isinstance(told.get("reasons"), str):
        told["reasons"] = [own_sentence(reason) for reason in read_reasons(told["reasons"])]
    return told


def _named(file: Row) -> dict[str, Any]:
    """A file without the folders of this machine."""
    return {**file, "path": Path(str(file["path"])).name}
