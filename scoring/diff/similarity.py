"""Measures the similarity of two changes' added lines, to recognise a copy of a known bad change.

The added lines become a vector of counts of hashed word 3-grams. scikit-learn's HashingVectorizer does the same, but
takes .9 s to import, and `review_diff` has 1.5 s in all; crc32 is as stable across machines and versions. DuckDB stores
and compares the vectors: 5,000 rows take 10 ms.
"""

import re
from collections.abc import Callable, Iterator
from zlib import crc32

import numpy as np

from ingest.store.transaction import Rows, Transaction
from scoring.diff.change import Change
from scoring.diff.paths import never_fast

DIMENSIONS = 512
WORDS = 20_000  # read from one change
FEWEST = 30  # 3-grams; changes with fewer are similar by chance
LINE_LENGTH = 2_000

Vector = np.ndarray
Likeness = Callable[[Change], tuple[float, str] | None]
_WORD = re.compile(r"[^\W\d_]+|\d+|[^\w\s]")
_NEAREST = """
select pull_uri, array_cosine_similarity(vector, $vector::float[512]) as cosine
from diff_vectors where known_bad and pull_uri is distinct from $own order by cosine desc, pull_uri limit 1
"""


def vector_of(change: Change) -> Vector | None:
    """Return the vector of a change, DIMENSIONS floats of length 1; None if it adds too few words."""
    words = [word for _, word in zip(range(WORDS), _words(change), strict=False)]
    if len(words) < FEWEST + 2:
        return None
    grams = zip(words, words[1:], words[2:], strict=False)
    hashes = np.fromiter((crc32(" ".join(gram).encode("utf-8", "replace")) for gram in grams), np.uint32)
    # The highest bit gives the sign, so that collisions cancel out instead of adding up.
    signs = np.where(hashes >> 31, 1.0, -1.0)
    counts = np.bincount(hashes % DIMENSIONS, weights=signs, minlength=DIMENSIONS)
    length = float(np.linalg.norm(counts))
    return (counts / length).astype(np.float32) if length else None


def cosine(first: Vector, second: Vector) -> float:
    """Return the similarity in [0, 1]: 1 for the same words in the same order; opposite directions count as 0."""
    return float(min(max(float(first @ second), 0.0), 1.0))


def record_vector(txn: Transaction, pull_uri: str, patch_ref: str, change: Change, known_bad: bool) -> bool:
    """Store the vector of one round; a newer judgement replaces an older one. False without a vector."""
    vector = vector_of(change)
    if vector is None:
        return False
    row = {"pull_uri": pull_uri, "patch_ref": patch_ref, "known_bad": known_bad, "vector": vector.tolist()}
    txn.upsert("diff_vectors", [row])
    return True


def nearest_known_bad(rows: Rows, own: str | None = None) -> Likeness:
    """Return a function from a change to (cosine, pull request) of the nearest known bad diff, except `own`."""

    def nearest(change: Change) -> tuple[float, str] | None:
        vector = vector_of(change)
        if vector is None:
            return None
        row = rows.row(_NEAREST, {"vector": vector.tolist(), "own": own})
        return (min(max(row["cosine"], 0.0), 1.0), row["pull_uri"]) if row else None

    return nearest


def _words(change: Change) -> Iterator[str]:
    """Yield words and signs of the added lines in order, in lower case, with all numbers as 0.

    Lock files, CI and similar files are left out: honest people change them in the same words.
    """
    for file in (file for file in change.files if never_fast(file.path) is None):
        for line in file.added():
            for word in _WORD.findall(line.text[:LINE_LENGTH].lower()):
                yield "0" if word.isdigit() else word
