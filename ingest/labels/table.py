"""Read labels from the accounts' SQLite file, each with a valid signature.

Labels are written without one, and signed when they are first sent; so the key is used in one process alone, and after
a rotation a label is signed anew like a new one.
"""

import logging
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ingest.labels.keys import read_key
from ingest.labels.signing import Label, SigningKey

BUSY_SECONDS = 1.0  # the server waits for nobody longer: it has other clients
COLUMNS = "seq, uri, cid, val, neg, exp, signer, sig"
LAST = "\U0010ffff"  # sorts after every character
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SignedLabel:
    seq: int
    fields: dict[str, Any]
    signature: bytes


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
        return self._read("seq > ?", [seq], limit)

    def find(self, patterns: Sequence[str], after: int, now: int, limit: int) -> list[SignedLabel]:
        """Return labels in force on the URIs that match: each pattern is a URI, or ends with * for a prefix."""
        conditions, values = list[str](), list[object]([after, now])
        for pattern in patterns:
            prefix = pattern.removesuffix("*")
            conditions.append("uri = ?" if prefix == pattern else "uri >= ? and uri < ?")
            values += [pattern] if prefix == pattern else [prefix, prefix + LAST]
        matches = " or ".join(f"({condition})" for condition in conditions)
        return self._read(f"seq > ? and exp > ? and not neg and ({matches})", values, limit)

    def _read(self, where: str, values: Sequence[object], limit: int) -> list[SignedLabel]:
        sql = f"select {COLUMNS} from triage_label where {where} order by seq limit ?"
        rows = self._file.execute(sql, [*values, limit]).fetchall()
        return self._sign(rows, read_key(self._key_path)) if rows else []

    def _sign(self, rows: Iterable[tuple[Any, ...]], key: SigningKey) -> list[SignedLabel]:
        """Return the labels with their stored signatures, and new ones where another key or name signed."""
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
