"""Read labels from the accounts' SQLite file, each with a valid signature.

Labels are written without one, and signed when they are first sent; so the key is used in one process alone, and after
a rotation a label is signed anew like a new one.
"""

import logging
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ingest.labels.keys import read_key
from ingest.labels.signing import Label

BUSY_SECONDS = 1.0  # the server waits for nobody longer: it has other clients
COLUMNS = "seq, uri, cid, val, neg, exp, signer, sig"
FIRST, LAST = "\x01", "\U0010ffff"  # sort before and after every character of a URI
IN_FORCE = f"""
select {COLUMNS} from triage_label
where uri between ? and ? and not neg and exp > ? order by uri limit ?
"""
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SignedLabel:
    seq: int
    fields: dict[str, Any]
    signature: bytes


def _first_of(pattern: str) -> str:
    return pattern.removesuffix("*")


class LabelTable:
    """The table `triage_label` of one file; methods raise sqlite3.Error, and LabelKeyProblem where they sign."""

    def __init__(self, database: Path, source: str, key_path: Path) -> None:
        """Open the file; `source` is the DID in whose name labels are signed."""
        self._source, self._key_path = source, key_path
        address = f"file:{quote(str(database))}?mode=rw"
        self._file = sqlite3.connect(address, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
        # As every other connection to this file has it; a lost signature is made again.
        self._file.execute("pragma synchronous=normal").fetchall()

    def close(self) -> None:
        self._file.close()

    def newest(self) -> int:
        """Return the newest seq, 0 if there is none."""
        return self._file.execute("select coalesce(max(seq), 0) from triage_label").fetchone()[0]

    def read_after(self, seq: int, limit: int) -> list[SignedLabel]:
        """Return the next labels and negations after this one."""
        sql = f"select {COLUMNS} from triage_label where seq > ? order by seq limit ?"
        return self._sign(self._file.execute(sql, [seq, limit]).fetchall())

    def find(self, patterns: Sequence[str], after: str, now: int, limit: int) -> list[SignedLabel]:
        """Return labels in force on the URIs that match, by URI: each pattern is a URI, or ends with * for a prefix.

        Each pattern is a range of the index of URIs, of which no more than a page is read: in the order of seq SQLite
        would read the whole table where few labels match.
        """
        found: dict[str, tuple[Any, ...]] = {}
        for pattern in sorted(patterns, key=_first_of):
            first = _first_of(pattern)
            if len(found) >= limit and first > sorted(found)[limit - 1]:
                break  # the page is full of URIs before this range
            last = first if first == pattern else first + LAST
            rows = self._file.execute(IN_FORCE, [max(first, after + FIRST), last, now, limit])
            found |= {row[1]: row for row in rows}
        return self._sign([found[uri] for uri in sorted(found)[:limit]])

    def _sign(self, rows: Sequence[tuple[Any, ...]]) -> list[SignedLabel]:
        """Return the labels with their stored signatures, and new ones where another key or name signed."""
        if not rows:
            return []
        key = read_key(self._key_path)
        signer, labels, made = f"{self._source}#{key.public}", [], []
        for *values, neg, expires, signed_by, signature in rows:
            label = Label(*values, bool(neg), expires)
            if signed_by != signer:
                signature = label.sign(self._source, key)
                made.append((signer, signature, label.seq))
            labels.append(SignedLabel(label.seq, label.fields(self._source), signature))
        if made:
            self._keep(made)
        return labels

    def _keep(self, made: Sequence[tuple[str, bytes, int]]) -> None:
        """Store new signatures; while somebody else writes they are left out, and made again next time."""
        try:
            self._file.execute("begin immediate")
            self._file.executemany("update triage_label set signer = ?, sig = ? where seq = ?", made)
            self._file.execute("commit")
        except sqlite3.OperationalError as problem:
            if self._file.in_transaction:
                self._file.execute("rollback")
            log.info("%d signatures of labels are made again next time: %s", len(made), problem)
