"""Pairs of a bad change and its benign twin, and which of them the scanners tell apart.

A bad one is caught by a finding of weight on an added line, of a rule that its twin does not break; a benign one is
flagged where its risk alone would keep it out of the fast lane, or a review is recommended.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from scoring.config.policy import Policy
from scoring.diff.parser import read_change
from scoring.review.deterministic import assess
from scoring.scanners.run import examine
from scoring.scanners.submission import Submission
from scoring.types import Finding, Severity

WEIGHTY = (Severity.HIGH, Severity.MED)


@dataclass(frozen=True)
class Pair:
    """One pair, as patches; `n` is its number in the index."""

    n: int
    kind: str
    name: str
    bad: str
    good: str


@dataclass(frozen=True)
class Told:
    """How one pair was read: findings of weight by which the bad one is caught, and whether the benign one is held."""

    pair: Pair
    caught_by: tuple[Finding, ...]
    is_flagged: bool


def read_pairs(folder: Path) -> Iterator[Pair]:
    """Yield the pairs of a folder with `index.json`, `bad/` and `good/`, in order of their numbers."""
    for row in json.loads((folder / "index.json").read_text()):
        name = f"{row['n']:02}_{row['name']}.diff"
        bad, good = ((folder / side / name).read_text() for side in ("bad", "good"))
        yield Pair(row["n"], row["kind"], row["name"], bad, good)


def told(pair: Pair) -> Told:
    """Read both sides of a pair."""
    bad, good = (_findings(text) for text in (pair.bad, pair.good))
    known = {(one.scanner, one.rule) for one in good}
    weighty = (one for one in bad if _is_weighty(one) and (one.scanner, one.rule) not in known)
    return Told(pair, tuple(weighty), _is_flagged(pair.good, good))


def by_kind(pairs: Iterable[Told]) -> dict[str, tuple[int, int, int]]:
    """Count for each kind: pairs, bad ones caught, benign ones flagged."""
    rows = list(pairs)
    all_of, caught = Counter(one.pair.kind for one in rows), Counter(one.pair.kind for one in rows if one.caught_by)
    flagged = Counter(one.pair.kind for one in rows if one.is_flagged)
    return {kind: (count, caught[kind], flagged[kind]) for kind, count in all_of.items()}


def _is_weighty(finding: Finding) -> bool:
    return finding.severity in WEIGHTY and finding.line is not None and not finding.removed


def _findings(text: str) -> tuple[Finding, ...]:
    return examine(Submission(read_change(text))).findings


def _is_flagged(text: str, findings: tuple[Finding, ...]) -> bool:
    assessment = assess(read_change(text), findings)
    return assessment.review_recommended or assessment.content_risk > Policy().thresholds.r_low
