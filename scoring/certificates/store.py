"""Compares certificates with a store, and writes successors with the outcomes that became known later."""

from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

from ingest.store.transaction import Rows
from scoring.certificates.certificate import (
    Certificate,
    LaterOutcome,
    case_name,
    read_certificates,
    to_seconds,
    write_certificate,
)
from scoring.certificates.issue import add_later_outcomes, bad_shares
from scoring.certificates.verify import differences_to_store, later_differences
from scoring.dataset.cases import Cases, LabelName
from scoring.dataset.dataset import build_cases, read_cases, read_lane
from scoring.dataset.labels import outcomes

# A successor repeats all cases of its certificate. With this pause a certificate of 90 days has 13 of them at most.
PAUSE = timedelta(days=7)
Fact = tuple[bool | None, int, bool]  # (bad or None where nobody knows, author, push_holder)
Outcome = tuple[int, float, float]  # (seconds when it became known, 1 for bad or 0, odds)
# Pull requests that a low P(clean), alone or with other reasons, sent to a person, without push-holders' own.
FLAGGED = """
select distinct s.pull_uri from scores s join pull_requests p using (pull_uri)
anti join own_people o on o.repository_id = p.repository_id and o.contributor_id = p.author_id
where s.as_of <= $now and s.lane = 'needs_human' and contains(s.reasons, '{"code":"low_probability"')
"""


def compare_with_store(rows: Rows, certificate: Certificate, window_days: int, now: datetime) -> tuple[list[str], int]:
    """Return the differences between a certificate and the store, and how many of its cases the store has.

    Outcomes follow the certificate's label and the facts known when it was made; later outcomes those known by `now`.
    """
    build_cases(rows, certificate.made_at, window_days)
    differences, compared = differences_to_store(certificate, _facts_of_cases(rows, read_cases(rows), certificate))
    return [
        *differences,
        *(
            later_differences(certificate, later_outcomes(rows, certificate, window_days, now))
            if certificate.later
            else ()
        ),
    ], compared


def later_outcomes(rows: Rows, certificate: Certificate, window_days: int, now: datetime) -> dict[str, Outcome]:
    """Return the outcomes that became known between a certificate and `now`, by address.

    For the fast lane only audited ones count: silence about the others does not make them clean. For T_LOW all that a
    low P(clean) sent to a person count, since people look at each of them.
    """
    outcomes_by_key = (
        _audited_outcomes(rows, now)
        if certificate.side == "high"
        else _flagged_outcomes(rows, certificate.definition, window_days, now)
    )
    return {key: outcome for key, outcome in outcomes_by_key.items() if outcome[0] >= to_seconds(certificate.made_at)}


def new_outcomes(rows: Rows, certificate: Certificate, window_days: int, now: datetime) -> list[LaterOutcome]:
    """Return the later outcomes that a certificate does not have yet, in order.

    Outcomes older than the newest that it holds are left out: the list may only grow at its end.
    """
    names = {outcome.name for outcome in certificate.later}
    last = max((outcome.known for outcome in certificate.later), default=0)
    by_name = {
        case_name(certificate.made_at, key): outcome
        for key, outcome in later_outcomes(rows, certificate, window_days, now).items()
    }
    added = [LaterOutcome(name, *new) for name, new in by_name.items() if name not in names and new[0] >= last]
    return sorted(added, key=lambda outcome: (outcome.known, outcome.name))


def _audited_outcomes(rows: Rows, now: datetime) -> dict[str, Outcome]:
    audited = read_lane(rows, now).audited
    return {key: (to_seconds(answer.known_from), float(answer.bad), answer.odds) for key, answer in audited.items()}


def _flagged_outcomes(rows: Rows, definition: LabelName, window_days: int, now: datetime) -> dict[str, Outcome]:
    flagged = {row["pull_uri"] for row in rows.rows(FLAGGED, {"now": now})}
    if not flagged:  # saves building the cases
        return {}
    build_cases(rows, now, window_days)
    cases = read_cases(rows)
    labelled = outcomes(cases, definition, window_days)
    seconds = labelled.known_from.astype("datetime64[s]").astype(np.int64)
    return {
        str(key): (int(seconds[position]), float(labelled.clean[position] == 0), 1.0)
        for position, key in enumerate(cases.keys)
        if key in flagged and labelled.clean[position] >= 0
    }


def _facts_of_cases(rows: Rows, cases: Cases, certificate: Certificate) -> dict[str, Fact]:
    audited = read_lane(rows, certificate.made_at).audited
    bad = bad_shares(cases, certificate.definition, certificate.label, audited, certificate.made_at)
    return {
        str(key): (
            bool(bad[position]) if bad[position] in (0.0, 1.0) else None,
            int(cases.authors[position]),
            bool(cases.push_holder[position]),
        )
        for position, key in enumerate(cases.keys)
    }


def write_successors(rows: Rows, folder: Path, window_days: int, now: datetime) -> list[Path]:
    """Write a successor of each valid certificate with new outcomes; return the files.

    PAUSE must have passed since the newest outcome that the certificate, or its newest successor, holds.
    """
    certificates, _ = read_certificates(folder)
    written = []
    for name, certificate in sorted(_newest(certificates).items()):
        if not certificate.is_valid(now) or to_seconds(now - PAUSE) < _added_until(certificate):
            continue
        if later := new_outcomes(rows, certificate, window_days, now):
            written.append(write_certificate(folder, add_later_outcomes(certificate, name, later)))
    return written


def _newest(certificates: dict[str, Certificate]) -> dict[str, Certificate]:
    """Return the certificates that no successor extends."""
    extended = {certificate.previous for certificate in certificates.values() if certificate.later}
    return {name: certificate for name, certificate in certificates.items() if name not in extended}


def _added_until(certificate: Certificate) -> int:
    return certificate.later[-1].known if certificate.later else to_seconds(certificate.made_at)
