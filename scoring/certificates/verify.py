"""Recomputes a certificate from its bytes, the file before it and a store, and extends it with later outcomes."""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
import numpy as np

from ingest.store.transaction import Rows
from scoring.certificates.certificate import (
    LONGEST_DAYS,
    Case,
    Certificate,
    CertificateProblem,
    CertifiedResult,
    LaterOutcome,
    case_name,
    data_digest,
    decode,
    delta_of_attempt,
    name_of,
    read_certificates,
    to_seconds,
    write_certificate,
)
from scoring.certificates.issue import (
    RULES,
    add_later_outcomes,
    bad_shares,
    find_threshold,
    note_of,
    result_of,
    rule_record,
)
from scoring.dataset.cases import Cases, LabelName
from scoring.dataset.dataset import build_cases, read_cases, read_lane
from scoring.dataset.labels import outcomes


def differences(data: bytes, name: str, now: datetime) -> list[str]:
    """Return the faults of a file as sentences; empty if everything was recomputed. No input makes it raise."""
    try:
        certificate = decode(data)
    except CertificateProblem as problem:
        return [f"{str(problem)[0].upper()}{str(problem)[1:]}."]
    problems = [*_check_name(data, name), *_check_terms(certificate, now), *_check_cases(certificate, now)]
    return (
        [*problems, *_check_threshold(certificate)]
        if certificate.rule == (rule_record(certificate.rule.version) if certificate.rule.version in RULES else None)
        else problems
    )


def differences_to_store(
    certificate: Certificate, facts: Mapping[str, tuple[bool | None, int, bool]]
) -> tuple[list[str], int]:
    """Return the differences between a certificate and a store, and how many of its cases the store has.

    `facts` are (bad, author, push_holder) of the store's pull requests by their keys, as known when the certificate was
    made; `bad` is None if the store does not know. Cases missing from the store are not a difference.
    """
    known_facts = {case_name(certificate.made_at, key): fact for key, fact in facts.items()}
    people: dict[int, int] = {}
    numbers: dict[int, int] = {}
    problems, compared = [], 0
    for case in certificate.cases:
        if case.name in known_facts:
            bad, author, push_holder = known_facts[case.name]
            compared += 1
            number = numbers.setdefault(author, case.author)
            same_author = people.setdefault(case.author, author) == author and number == case.author
            problems += _check_fact(case, bad, push_holder, same_author)
    return problems, compared


def later_differences(certificate: Certificate, outcomes: Mapping[str, tuple[int, float, float]]) -> list[str]:
    """Return the differences between the later outcomes of a certificate and a store.

    `outcomes` are (seconds when known, bad, odds) by key. An outcome missing from the store is not a difference: it may
    have been erased.
    """
    known_outcomes = {
        case_name(certificate.made_at, key): LaterOutcome(case_name(certificate.made_at, key), *outcome)
        for key, outcome in outcomes.items()
    }
    return [
        f"Its later outcome {outcome.name[:12]} is not what the store says."
        for outcome in certificate.later
        if outcome.name in known_outcomes and known_outcomes[outcome.name] != outcome
    ]


def _check_fact(case: Case, bad: bool | None, push_holder: bool, same_author: bool) -> Iterator[str]:
    name = f"Case {case.name[:12]}"
    if bad is not None and case.bad != bad:
        yield f"{name} counts as {_outcome_word(case.bad)}, and the store says {_outcome_word(float(bad))}."
    if push_holder:
        yield f"{name} is by somebody with push access; those never count."
    if not same_author:
        yield f"{name} counts for author {case.author}, who is another one in the store."


def differences_to_previous(certificate: Certificate, previous: Certificate) -> list[str]:
    """Return the faults of a certificate against the file before it.

    A successor may only add outcomes; another attempt must have the next number.
    """
    if certificate.side != previous.side:
        return ["The file before it is of the other threshold."]
    if not certificate.later:
        return (
            []
            if certificate.attempt == previous.attempt + 1
            else ["Its attempt does not follow that of the file before."]
        )
    unchangeable = [field for field in certificate.__struct_fields__ if field not in ("previous", "later")]
    changed = [field for field in unchangeable if getattr(certificate, field) != getattr(previous, field)]
    keeps_outcomes = certificate.later[: len(previous.later)] == previous.later and len(certificate.later) > len(
        previous.later
    )
    return [f"It changed {field} of the certificate that it extends." for field in changed] + (
        [] if keeps_outcomes else ["It does not keep the later outcomes that were there before."]
    )


def _check_name(data: bytes, file_name: str) -> Iterator[str]:
    if name_of(data) != file_name:
        yield "Its name is not the SHA-256 of its bytes."


def _check_terms(certificate: Certificate, now: datetime) -> Iterator[str]:
    if certificate.rule.version not in RULES:
        yield "It names a version of the rule that is not known here."
    elif certificate.rule != rule_record(certificate.rule.version):
        yield "Its rule has other numbers than that version has."
    if certificate.label not in (certificate.definition, "clean_as_sent"):
        yield "It counts by another label than the one that it names."
    if certificate.note != note_of(certificate.side, certificate.label):
        yield "Its note does not say what its label asks for."
    if certificate.delta_spent != delta_of_attempt(certificate.delta, certificate.attempt):
        yield f"It spent {certificate.delta_spent:g} of delta, and attempt {certificate.attempt} may not."
    if certificate.made_at > now:
        yield "It was made in the future."
    if now >= certificate.expires_at:
        yield f"It expired on {certificate.expires_at:%Y-%m-%d}."
    if not timedelta(0) < certificate.expires_at - certificate.made_at <= timedelta(days=LONGEST_DAYS):
        yield f"It lasts for another time than up to {LONGEST_DAYS} days."


def _check_cases(certificate: Certificate, now: datetime) -> Iterator[str]:
    if certificate.data != data_digest(certificate.cases):
        yield "Its data digest is not that of its cases."
    if len({item.name for item in certificate.cases}) != len(certificate.cases):
        yield "It has a case twice."
    first, last = (to_seconds(item) for item in certificate.window)
    if any(not first <= item.opened <= last for item in certificate.cases):
        yield "A case was opened outside its window."
    if certificate.window[1] > certificate.made_at:
        yield "Its window ends after it was made."
    if len({item.name for item in certificate.later}) != len(certificate.later):
        yield "It has a later outcome twice."
    seconds = [item.known for item in certificate.later]
    if seconds and seconds[-1] > to_seconds(now):
        yield "A later outcome of it was known in the future."
    if seconds != sorted(seconds) or (seconds and seconds[0] < to_seconds(certificate.made_at)):
        yield "Its later outcomes do not follow each other after it was made."


def _check_threshold(certificate: Certificate) -> Iterator[str]:
    rule = RULES[certificate.rule.version]
    result = result_of(
        find_threshold(certificate.cases, certificate.side, certificate.budget, certificate.delta_spent, rule)
    )
    recomputed, stated = _figures(result), _figures(certificate.found)
    for name in dict.fromkeys([*recomputed, *stated]):
        values = stated.get(name), recomputed.get(name)
        if not _is_same(*values):
            yield "It says {} = {}; recomputed it is {}.".format(name, *map(_printable, values))


def _figures(found: CertifiedResult) -> dict[str, object]:
    """Return the figures of a result by name; those of what it lacks begin with "need"."""
    figures = msgspec.structs.asdict(found)
    need = figures.pop("need")
    return figures | {f"need {name}": value for name, value in (msgspec.structs.asdict(need) if need else {}).items()}


def _is_same(stated: object, recomputed: object) -> bool:
    """Return whether two values are equal, up to the last decimal of a float."""
    if isinstance(recomputed, float) and isinstance(stated, float):
        return abs(recomputed - stated) <= 2e-6
    return recomputed == stated


def _printable(value: object) -> str:
    """Return a figure as the file writes it."""
    return "nothing" if value is None else json.dumps(value)[:100]


def _outcome_word(bad: float) -> str:
    return {0.0: "clean", 1.0: "bad"}.get(bad, f"{bad:g} bad")


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
        if not certificate.is_valid(now) or to_seconds(now - PAUSE) < (
            certificate.later[-1].known if certificate.later else to_seconds(certificate.made_at)
        ):
            continue
        if later := new_outcomes(rows, certificate, window_days, now):
            written.append(write_certificate(folder, add_later_outcomes(certificate, name, later)))
    return written


def _newest(certificates: dict[str, Certificate]) -> dict[str, Certificate]:
    """Return the certificates that no successor extends."""
    extended = {certificate.previous for certificate in certificates.values() if certificate.later}
    return {name: certificate for name, certificate in certificates.items() if name not in extended}
