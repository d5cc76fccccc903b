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
    certificates, _ = read_certificates(folder)
    written = []
    for name, certificate in sorted(_newest(certificates).items()):
        if not certificate.is_valid(now) or to_seconds(now - PAUSE) < _added_until(certificate):
            continue
        if later := new_outcomes(rows, certificate, window_days, now):
            written.append(keep_certificate(folder, succeed(certificate, name, later)))
    return written


def _newest(certificates: dict[str, Certificate]) -> dict[str, Certificate]:
    """Those that no successor has extended; of two that extend one, both."""
    extended = {certificate.previous for certificate in certificates.values() if certificate.later}
    return {name: certificate for name, certificate in certificates.items() if name not in extended}


def _added_until(certificate: Certificate) -> int:
    return certificate.later[-1].known if certificate.later else to_seconds(certificate.made_at)
