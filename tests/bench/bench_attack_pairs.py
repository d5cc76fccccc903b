"""Attacks and their benign twins by kind: `python -m tests.bench.bench_attack_pairs`.

One line of JSON for each kind and for all: pairs, bad ones caught, benign ones flagged. `-v` names each pair with the
rules that catch it.
"""

import json
import sys

from tests.scoring.scanners.attack_pairs import by_kind, read_pairs, told
from tests.sources import PROJECT

PAIRS = PROJECT.parent / "shared" / "data" / "attack_diffs"


def main() -> None:
    """Print the table."""
    if not PAIRS.is_dir():
        print(json.dumps({"skipped": "the pairs are not beside this clone"}))
        return
    rows = [told(pair) for pair in read_pairs(PAIRS)]
    if "-v" in sys.argv:
        for one in rows:
            rules = sorted({f"{finding.rule}:{finding.severity}" for finding in one.caught_by})
            print(one.pair.n, one.pair.kind, one.pair.name, rules or "MISSED", "FLAGGED" * one.is_flagged)
    table = by_kind(rows)
    total = tuple(sum(column) for column in zip(*table.values(), strict=True))
    for kind, (pairs, caught, flagged) in {**table, "all": total}.items():
        print(json.dumps({"kind": kind, "pairs": pairs, "caught": caught, "benign_flagged": flagged}))


if __name__ == "__main__":
    main()
