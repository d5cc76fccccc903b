"""CPU that all scanners take for a change of 200 lines of Python: `python -m tests.bench.bench_review`.

One line of JSON each for hunks alone and for the whole file known: milliseconds of CPU, median and worst of ROUNDS. The
file is 2,000 lines of this project's own code; 200 of them are added by 10 hunks. `examine` is all scanners together;
the first review of a process, which imports the parsers, is `first`.
"""

import json
import statistics
import time

from scoring.scanners.run import examine
from scoring.scanners.submission import Submission
from scoring.scanners.whole_files import whole_files
from tests.scoring.diff.patched import change
from tests.sources import PROJECT

ROUNDS, LINES, ADDED, HUNKS = 15, 2_000, 200, 10


def main() -> None:
    """Print the figures."""
    before, after = _texts()
    made = change({"src/app.py": (before, after)})
    kinds = {
        "hunks": Submission(made),
        "whole": Submission(made, whole=whole_files(made, {"src/app.py": before})),
    }
    for name, submission in kinds.items():
        took = [_milliseconds(submission) for _ in range(ROUNDS)]
        figures = {"first": took[0], "median": statistics.median(took[1:]), "worst": max(took[1:])}
        print(json.dumps({"review": name} | {key: round(value) for key, value in figures.items()}))


def _texts() -> tuple[str, str]:
    """Return a file without and with the lines that are added."""
    sources = sorted(PROJECT.glob("ingest/**/*.py"), key=lambda file: file.name)
    lines = [line for file in sources for line in file.read_text().splitlines()][:LINES]
    step, block = LINES // HUNKS, ADDED // HUNKS
    kept = [line for place, line in enumerate(lines) if place % step >= block]
    return "\n".join([*kept, ""]), "\n".join([*lines, ""])


def _milliseconds(submission: Submission) -> float:
    began = time.process_time()
    examine(submission)
    return 1000 * (time.process_time() - began)


if __name__ == "__main__":
    main()
