"""Measures the text scanners beside the folder of real data: `python -m tests.bench.bench_content_secrets`.

One line of JSON a measure: kinds of secret found, attempts and twins of the injection corpus flagged high, real diffs
flagged high, and CPU seconds of a diff of 200 and of 20,000 added lines, the best of three after a first run. Goals:
95 % of the kinds, 90 % of the attempts, at most 5 % of the twins, 1 % of the real diffs, 20 ms and 1 s a scanner.
"""

import json
import random
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from time import process_time

from scoring.scanners import invisible, prompt_injection, secrets
from scoring.scanners.submission import Submission
from scoring.types import Finding, Severity
from tests.scoring.review.injections import CASES
from tests.scoring.scanners.real_diffs import real_submissions
from tests.scoring.scanners.secret_kinds import CARRIERS, KINDS, adding, leak
from tests.sources import PROJECT

SHARED = PROJECT.parent / "shared"
SCANNERS = (secrets, invisible, prompt_injection)
Scan = Callable[[Submission], Iterator[Finding]]


def is_high(scan: Scan, submission: Submission) -> bool:
    return any(finding.severity is Severity.HIGH for finding in scan(submission))


def report(measure: str, **figures: float) -> None:
    print(json.dumps({"measure": measure, **figures}))


def measure_kinds(rounds: int = 10) -> None:
    draw = random.Random(0)
    leaks = [leak(kind, carrier, draw)[0] for _ in range(rounds) for kind in KINDS for carrier in CARRIERS]
    report(
        "secrets of every kind",
        played=len(leaks),
        found=sum(any(secrets.scan(submission)) for submission in leaks),
        high=sum(is_high(secrets.scan, submission) for submission in leaks),
    )


def measure_corpus() -> None:
    for held_out in (False, True):
        cases = [case for case in CASES if case.held_out is held_out]
        report(
            "attempts written after the rules" if held_out else "attempts written with the rules",
            played=len(cases),
            high=sum(is_high(prompt_injection.scan, case.attacked) for case in cases),
            twins_high=sum(is_high(prompt_injection.scan, case.twin) for case in cases),
        )


def measure_real(diffs: int = 12_932) -> None:
    high = dict.fromkeys((scanner.SCANNER for scanner in SCANNERS), 0)
    for _, submission in real_submissions(SHARED, diffs):
        for scanner in SCANNERS:
            high[scanner.SCANNER] += is_high(scanner.scan, submission)
    report("real diffs flagged high", played=diffs, **high)


def measure_speed() -> None:
    lines = [
        line.text
        for _, submission in real_submissions(SHARED, 400)
        for file in submission.change.files
        for line in file.added()
    ]
    for count in (200, 20_000):
        submission = adding("app/real.py", list(islice(cycle(lines), count)))
        for scanner in SCANNERS:
            list(scanner.scan(submission))
            report(
                f"{scanner.SCANNER} on {count} lines", seconds=min(_seconds(scanner.scan, submission) for _ in range(3))
            )


def _seconds(scan: Scan, submission: Submission) -> float:
    started = process_time()
    list(scan(submission))
    return round(process_time() - started, 4)


if __name__ == "__main__":
    measure_kinds()
    measure_corpus()
    measure_real()
    measure_speed()
