"""Score how much prose reads like words to an automated reviewer: a linear model over hashed runs of letters.

The weights are in prose_weights.json, which `python -m scoring.training.prose` writes. A text's score is the sum of the
weights of its runs of SIZES characters, divided by the root of their number, plus the bias.
"""

import base64
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import re2

from scoring.scanners._normalise import Folded

SIZES = (2, 3, 4, 5, 6)  # two only in scripts in which two signs are a word
WORDS_OF_TWO = 0x2E80  # from here on: Chinese, Japanese, Korean
BUCKETS = 1 << 16
PIECE = 240  # characters of a piece at most; a sentence has about 100
WINDOW = 3  # pieces that are read together, for sentences over several comment lines
LETTERS = 14  # least length of a window, in bytes of UTF-8: a shorter one is a name and not a sentence
BATCH = 50_000  # bytes scored at once: each takes 200 bytes of memory
_MIX, _SEED = np.uint64(0x100000001B3), 0x9E3779B1
_WORD = r"[\pL\pN][\pL\pM\pN'\x{2019}-]*"
_BETWEEN = r"[,;:!)\"'\x{2019}\x{bb}]{0,2}[ \t]{1,4}[(\"'\x{ab}\x{201e}-]{0,2}"
# Adjacent words as in a sentence, which ends at a full stop; beyond Latin letters without blanks.
_RUN = re2.compile(rf"{_WORD}(?:{_BETWEEN}{_WORD})+|[^\x00-\x{{24f}}]{{6,}}".encode())
_TOKEN = re2.compile(rb"[\pL\pM]+|\pN")

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Model:
    """A weight for each bucket, and the bias."""

    weights: npt.NDArray[np.float32]
    bias: float


@cache
def shipped_model() -> Model:
    """Read the model from the file beside this module."""
    content = json.loads(Path(__file__).with_name("prose_weights.json").read_text(encoding="utf-8"))
    packed_weights = np.frombuffer(base64.b85decode(content["weights"]), np.int8)
    return Model(packed_weights.astype(np.float32) * np.float32(content["scale"]), content["bias"])


def pieces(line: bytes) -> Iterator[str]:
    """Yield the runs of words in one folded line (UTF-8), with a blank around each word."""
    for run in _RUN.finditer(line):
        words = f" {b' '.join(_TOKEN.findall(run[0])).decode('utf-8', 'replace')} "
        yield from (words[start : start + PIECE] for start in range(0, len(words), PIECE))


def grams(texts: Sequence[str]) -> tuple[Integers, Integers]:
    """Return the bucket of each run of characters and the number of its text; no run crosses two texts."""
    points = np.frombuffer("\0".join([*texts, ""]).encode("utf-32-le", "replace"), np.uint32).astype(np.uint64)
    owners = np.repeat(np.arange(len(texts)), [len(text) + 1 for text in texts])
    ends = np.concatenate([[0], np.cumsum(points == 0)])
    buckets, text_numbers = [], []
    for size in SIZES:
        count = max(len(points) - size + 1, 0)
        hashes = np.full(count, size * _SEED, np.uint64)
        for index in range(size):
            hashes = (hashes ^ points[index : count + index]) * _MIX
            hashes ^= hashes >> np.uint64(29)
        inside = ends[size : count + size] == ends[:count]
        if size == 2:
            inside &= (points[:count] >= WORDS_OF_TWO) & (points[1 : count + 1] >= WORDS_OF_TWO)
        buckets.append((hashes[inside] % np.uint64(BUCKETS)).astype(np.int64))
        text_numbers.append(owners[:count][inside])
    return np.concatenate(buckets), np.concatenate(text_numbers)


def scores(blocks: Sequence[Sequence[str]], model: Model) -> list[Floats]:
    """Score each piece of each block: the highest of the windows that begin with it."""
    texts = [piece for block in blocks for piece in block]
    if not texts:
        return [np.zeros(0) for _ in blocks]
    buckets, owners = grams(texts)
    sums = np.bincount(owners, model.weights[buckets], len(texts))
    counts = np.bincount(owners, minlength=len(texts))
    letters = np.array([len(text.encode()) for text in texts])
    ends = np.repeat(np.cumsum([len(block) for block in blocks]), [len(block) for block in blocks])
    best = np.full(len(texts), -np.inf)
    for size in range(1, WINDOW + 1):
        last = np.minimum(np.arange(len(texts)) + size, ends)
        total, number, length = (_window(values, last) for values in (sums, counts, letters))
        window_scores = np.where(length >= LETTERS, total / np.sqrt(np.maximum(number, 1)) + model.bias, -np.inf)
        best = np.maximum(best, window_scores)
    return np.split(best, np.cumsum([len(block) for block in blocks])[:-1])


def suspects(text: Folded, model: Model) -> Iterator[tuple[int, float]]:
    """Score each source of a text that contains prose, by its number in the text; -inf where it is too short."""
    for blocks in _batches(text):
        block_scores = scores([[piece for _, piece in block] for block in blocks], model)
        for block, values in zip(blocks, block_scores, strict=True):
            best: dict[int, float] = {}
            for (source, _), value in zip(block, values.tolist(), strict=True):
                best[source] = max(best.get(source, value), value)
            yield from best.items()


def _batches(text: Folded) -> Iterator[list[list[tuple[int, str]]]]:
    """Yield the pieces of the text with the numbers of their sources, block by block, about BATCH bytes at once."""
    batch: list[list[tuple[int, str]]] = [[]]
    size = 0
    for source, (start, end) in enumerate(pairwise([*text.starts, len(text.text)])):
        line = text.text[start:end]
        batch[-1] += [(source, piece) for piece in pieces(line)]
        size += len(line)
        if line.endswith(b"\n"):
            batch.append([])
            if size > BATCH:
                yield batch
                batch, size = [[]], 0
    yield batch


def _window(values: npt.NDArray[np.number], last: Integers) -> Floats:
    """Sum the values from each index up to its end, which is excluded."""
    summed = np.concatenate([[0], np.cumsum(values)])
    return summed[last] - summed[:-1]
