"""Successors: what became known since a certificate was made is added to it in a file of its own."""

from datetime import datetime, timedelta
from pathlib import Path

from ingest.store.transaction import Rows
from scoring.certificates.certificate import Certificate, keep_certificate, read_certificates, to_seconds
from scoring.certificates.issue import succeed
from scoring.certificates.store import new_outcomes

# A successor repeats every case, and alarms read the store anyway: 90 days have 13 of them at most.
PAUSE = timedelta(days=7)


def write_successors(rows: Rows, folder: Path, window_days: int, now: datetime) -> list[Path]:
    """Write the successor of each certificate that is valid now and has new outcomes; returns the files.

    A certificate or its newest successor is added to where PAUSE has passed since the newest outcome that it holds.
    """
    found, _ = read_certificates(folder)
    written = []
    for name, one in sorted(_newest(found).items()):
        if not one.is_valid(now) or to_seconds(now - PAUSE) < _added_until(one):
            continue
        if later := new_outcomes(rows, one, window_days, now):
            written.append(keep_certificate(folder, succeed(one, name, later)))
    return written


def _newest(found: dict[str, Certificate]) -> dict[str, Certificate]:
    """Those that no successor has extended; of two that extend one, both."""
    extended = {one.previous for one in found.values() if one.later}
    return {name: one for name, one in found.items() if name not in extended}


def _added_until(one: Certificate) -> int:
    return one.later[-1].known if one.later else to_seconds(one.made_at)
