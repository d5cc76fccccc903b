"""Reads the cases of a certificate from a store, as they were known when the certificate was made."""

from datetime import datetime

import numpy as np

from ingest.store.transaction import Rows
from scoring.certificates.certificate import Certificate, Later, case_name, to_seconds
from scoring.certificates.issue import bad_shares
from scoring.certificates.verify import differences_to_store, later_differences
from scoring.dataset.cases import Cases, LabelName
from scoring.dataset.dataset import build_cases, read_cases, read_lane
from scoring.dataset.labels import outcomes

Fact = tuple[bool | None, int, bool]  # (bad or None where nobody knows, author, push_holder)
Outcome = tuple[int, float, float]  # (seconds when it became known, 1 for bad or 0, odds)
# Whom a low P(clean) alone, or beside other reasons, sent to a person; the push-holders' own are in no count.
FLAGGED = """
select distinct s.pull_uri from scores s join pull_requests p using (pull_uri)
anti join own_people o on o.repository_id = p.repository_id and o.contributor_id = p.author_id
where s.as_of <= $now and s.lane = 'needs_human' and contains(s.reasons, '{"code":"low_probability"')
"""


def compare_with_store(rows: Rows, certificate: Certificate, window_days: int, now: datetime) -> tuple[list[str], int]:
    """In what a certificate differs from the store as of `now`, and how many of its cases the store has.

    Outcomes are those of the label that the certificate counts by, from nothing but what was known when it was made.
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
    """Return what became known after a certificate was made, until `now`, by address.

    Of the fast lane only what was audited: that nobody said anything of the others does not make them clean. Of T_LOW
    all that a low P(clean) sent to a person, since people look at each of them.
    """
    outcomes_by_key = (
        _audited_outcomes(rows, now)
        if certificate.side == "high"
        else _flagged_outcomes(rows, certificate.definition, window_days, now)
    )
    return {key: outcome for key, outcome in outcomes_by_key.items() if outcome[0] >= to_seconds(certificate.made_at)}


def new_outcomes(rows: Rows, certificate: Certificate, window_days: int, now: datetime) -> list[Later]:
    """The later outcomes that a certificate does not have yet, as its successor adds them.

    One that was late in coming stands after those that a successor has already: they have to follow each other.
    """
    names, last = (
        {outcome.name for outcome in certificate.later},
        max((outcome.known for outcome in certificate.later), default=0),
    )
    by_name = {
        case_name(certificate.made_at, key): outcome
        for key, outcome in later_outcomes(rows, certificate, window_days, now).items()
    }
    added = [Later(name, *outcome) for name, outcome in by_name.items() if name not in names and outcome[0] >= last]
    return sorted(added, key=lambda outcome: (outcome.known, outcome.name))


def _audited_outcomes(rows: Rows, now: datetime) -> dict[str, Outcome]:
    audited = read_lane(rows, now).audited
    return {key: (to_seconds(answer.known_from), float(answer.bad), answer.odds) for key, answer in audited.items()}


def _flagged_outcomes(rows: Rows, definition: LabelName, window_days: int, now: datetime) -> dict[str, Outcome]:
    flagged = {row["pull_uri"] for row in rows.rows(FLAGGED, {"now": now})}
    if not flagged:  # nothing has to be derived
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
