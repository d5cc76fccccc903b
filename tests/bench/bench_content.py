"""Measures what tells good diffs from bad ones, and its cost: `python -m tests.bench.bench_content`.

One line of JSON for each. `paired`: share of the 452 fixes and their reversals (diffs_paired) in which the reversal has
the higher risk, half a point for a tie. `reverted`: area under the curve of the 133 diffs of diffs_reverted. Beside
them stand the shallow baselines: number of changed lines, and whether a change deletes more than it adds. `reviewer`
is the deterministic reviewer's risk; `findings` the floor of the worst finding and, within it, the sum of all weights.
`time`: milliseconds of CPU a diff. `likeness`: quantiles of the cosine of copies with 5 % of their words changed, and
of pairs of different changes.
"""

import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from scoring.diff.change import Change
from scoring.diff.parser import read_change
from scoring.diff.similarity import cosine, vector_of
from scoring.review.deterministic import assess
from scoring.scanners import scanners
from scoring.scanners.submission import Submission
from scoring.types import Finding, Severity
from tests.scoring.diff.test_likeness import changed_words
from tests.sources import PROJECT

FLOOR = {Severity.LOW: 0.10, Severity.MED: 0.40, Severity.HIGH: 0.80}
WEIGHT = {Severity.LOW: 1, Severity.MED: 4, Severity.HIGH: 16}
DATA = PROJECT.parent / "shared" / "data"
QUANTILES = (0.01, 0.05, 0.5, 0.95, 0.99, 0.999)
Measure = Callable[[Change], float]


def findings_of(change: Change) -> list[Finding]:
    """What every scanner finds without title, account or advisories."""
    return [finding for scan in scanners().values() for finding in scan(Submission(change))]


def risk(change: Change) -> float:
    """The floor of the worst finding, and up to .1 more by the sum of all weights."""
    found = [*change.problems, *findings_of(change)]
    floor = max((FLOOR[finding.severity] for finding in found), default=0.0)
    weight = sum(WEIGHT[finding.severity] for finding in found)
    return floor + 0.1 * weight / (weight + 10)


def size(change: Change) -> float:
    """Changed lines."""
    return sum(line.mark != " " for file in change.files for hunk in file.hunks for line in hunk.lines)


def deletes_more(change: Change) -> float:
    """Whether a change takes away more lines than it adds."""
    marks = [line.mark for file in change.files for hunk in file.hunks for line in hunk.lines]
    return float(marks.count("-") > marks.count("+"))


def reviewed(change: Change) -> float:
    """The content risk that the deterministic reviewer gives."""
    return assess(change, findings_of(change)).content_risk


MEASURES: dict[str, Measure] = {"reviewer": reviewed, "findings": risk, "size": size, "deletes_more": deletes_more}


def share_above(bad: Sequence[float], good: Sequence[float]) -> float:
    """Area under the curve: how often one of the bad lies above one of the good, half a point for a tie."""
    wins = [(one > other) + 0.5 * (one == other) for one in bad for other in good]
    return round(float(np.mean(wins)), 3)


def paired() -> dict[str, Any]:
    """Paired accuracy, and the area under the curve over all of them."""
    sides: dict[str, dict[str, Change]] = {}
    for row in rows("diffs_paired"):
        sides.setdefault(row["pair"], {})[row["label"]] = read_change(row["diff"] or "")
    pairs = [side for side in sides.values() if len(side) == 2]
    told: dict[str, Any] = {"pairs": len(pairs)}
    for name, measure in MEASURES.items():
        bad, good = [measure(side["bad"]) for side in pairs], [measure(side["good"]) for side in pairs]
        wins = [(one > other) + 0.5 * (one == other) for one, other in zip(bad, good, strict=True)]
        ties = sum(one == other for one, other in zip(bad, good, strict=True)) / len(pairs)
        told[name] = {"accuracy": round(float(np.mean(wins)), 3), "ties": round(ties, 3), "auc": share_above(bad, good)}
    return told


def reverted() -> dict[str, Any]:
    """Area under the curve of diffs that were really taken back against clean ones of the same size and date."""
    found = [(row["label"], read_change(row["diff"] or "")) for row in rows("diffs_reverted")]
    return {
        name: share_above(
            [measure(change) for label, change in found if label == "bad"],
            [measure(change) for label, change in found if label != "bad"],
        )
        for name, measure in MEASURES.items()
    }


def times(changes: Sequence[Change]) -> dict[str, float]:
    """Milliseconds of CPU a diff, by scanner, and of the vector."""
    told = {}
    for name, scan in scanners().items():
        begun = time.process_time()
        for change in changes:
            list(scan(Submission(change)))
        told[name] = round((time.process_time() - begun) / len(changes) * 1e3, 3)
    begun = time.process_time()
    for change in changes:
        vector_of(change)
    return told | {"vector": round((time.process_time() - begun) / len(changes) * 1e3, 3)}


def severities(changes: Sequence[Change]) -> dict[str, float]:
    """Share of real diffs with a finding of each severity."""
    found = [{finding.severity for finding in findings_of(change)} for change in changes]
    return {one.value: round(sum(one in severity for severity in found) / len(found), 4) for one in Severity}


def likeness(changes: Sequence[Change]) -> dict[str, list[float]]:
    """Quantiles (QUANTILES) of the cosine of mutated copies and of pairs of different changes."""
    draw = random.Random(9)
    kept = [(change, vector) for change in changes if (vector := vector_of(change)) is not None]
    copies = [(vector, vector_of(changed_words(change, 0.05, draw))) for change, vector in kept]
    near = [cosine(vector, copy) for vector, copy in copies if copy is not None]
    whole = np.array([vector for _, vector in kept])
    pairs = (whole @ whole.T)[np.triu_indices(len(kept), 1)]
    return {"copies": quantiles(near), "pairs": quantiles(pairs)}


def quantiles(values: Any) -> list[float]:
    return [round(float(value), 3) for value in np.quantile(values, QUANTILES)]


def rows(name: str) -> list[dict[str, Any]]:
    return pq.read_table(DATA / f"{name}.parquet").to_pylist()


def main(count: int = 1_000) -> None:
    if not Path(DATA).is_dir():
        sys.exit(f"no real data: {DATA} is absent")
    sample = random.Random(5).sample(rows("pr_diffs"), count)
    changes = [read_change(row["diff"] or "") for row in sample]
    findings_of(changes[0])  # libraries are loaded and rules compiled
    measures: dict[str, Callable[[], Any]] = {
        "paired": paired,
        "reverted": reverted,
        "time_ms": lambda: times(changes),
        "share_of_real_diffs": lambda: severities(changes),
        "likeness": lambda: likeness(changes),
    }
    for name, measure in measures.items():
        print(json.dumps({name: measure()}), flush=True)


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:2]))
