"""Reads stored rows as the values that pages and JSON show."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ingest.json_decoding import decode_json
from ingest.store.snapshots import PerSnapshot, Snapshot
from ingest.store.transaction import Rows
from scoring.formatting import display_name
from scoring.thresholds import Thresholds
from scoring.types import Estimate, Evidence, Factor, Lane, Person, Reason, Verdict

SETTLED = "settled"  # key in `meta`: how many settled pull requests could count towards a certificate, at the last pass
SETTLED_COUNT = f"select value::integer from meta where key = '{SETTLED}'"
COUNTS = ("merged_here", "settled_here", "waiting", "clean")
# The words for a merge that is not proven, by pull_requests.merge_proof.
CLAIMS: Mapping[str, str] = {
    "unverified": "author says merged, unconfirmed",
    "contradicted": "author says merged, but a maintainer or the repository says not",
}


# list_contains plans in 0.7 ms, a subquery over unnest in 1.1 ms; 80 of 100,000 people take 6.4 and 1.5 ms.
NAMES = """
select contributor_id, did, handle, handle_verified from contributors
where contributor_id in (select unnest(?::integer[]))
"""
CACHED_PEOPLE = 50_000  # in some 15 MB: most trust paths lead over the same people
_cached_people = PerSnapshot[Person](CACHED_PEOPLE)


class People:
    """The people with these numbers, read together."""

    def __init__(self, rows: Rows, numbers: Iterable[int]) -> None:
        wanted = {int(number) for number in numbers}
        cached: dict[int, Person] = {}
        if isinstance(rows, Snapshot):
            cached = {number: person for number in wanted if (person := _cached_people.peek(rows, number)) is not None}
        self.persons = cached | _read_people(rows, wanted - cached.keys())

    def path(self, numbers: Sequence[int]) -> tuple[Person, ...]:
        return tuple(self.persons[number] for number in numbers)


def _read_people(rows: Rows, numbers: Collection[int]) -> dict[int, Person]:
    """Read people, and cache those of a snapshot."""
    named = rows.rows(NAMES, [sorted(numbers)]) if numbers else ()
    people = {row["contributor_id"]: Person(row["did"], display_name(row)) for row in named}
    if isinstance(rows, Snapshot):
        for number, person in people.items():
            _cached_people.keep(rows, number, person)
    return people


def persons(rows: Rows, dids: Iterable[str]) -> dict[str, Person]:
    """Read the people with these DIDs; a DID that is not known here is left out."""
    sql = "select did, handle, handle_verified from contributors where list_contains(?, did)"
    return {row["did"]: Person(row["did"], display_name(row)) for row in rows.rows(sql, [sorted(set(dids))])}


def dids_of_handles(rows: Rows, handles: Iterable[str]) -> dict[str, str]:
    """Return the DID of each handle (lower case) that the network confirms for exactly one person here."""
    sql = (
        "select lower(handle) as handle, min(did) as did from contributors where handle_verified "
        "and list_contains(?, lower(handle)) group by 1 having count(*) = 1"
    )
    return {row["handle"]: row["did"] for row in rows.rows(sql, [sorted(set(handles))])}


def read_reasons(stored: str) -> tuple[Reason, ...]:
    return decode_json(stored, tuple[Reason, ...])


def reason_codes(stored: str) -> tuple[str, ...]:
    return tuple(reason.code for reason in read_reasons(stored))


def read_verdict(row: Mapping[str, Any]) -> Verdict:
    factors = decode_json(row["factors"], tuple[Factor, ...])
    return Verdict(Lane(row["lane"]), read_estimate(row), read_reasons(row["reasons"]), factors)


def read_settled(rows: Rows) -> int | None:
    """Return how many settled pull requests could count towards a certificate; None before the first pass."""
    return rows.value(SETTLED_COUNT)


def with_settled(verdict: Verdict, settled: int | None) -> Verdict:
    """Add the number of settled pull requests to the reason that shows it: it is not stored with each person."""
    if settled is None:
        return verdict
    reasons = tuple(
        Reason(reason.code, {**reason.params, "have": settled}) if reason.code == "fast_lane_shut" else reason
        for reason in verdict.reasons
    )
    return Verdict(verdict.lane, verdict.estimate, reasons, verdict.factors)


def read_estimate(row: Mapping[str, Any]) -> Estimate:
    return Estimate(row["probability"], row["low"], row["high"], row["cases"])


def read_thresholds(row: Mapping[str, Any]) -> Thresholds:
    return decode_json(row["thresholds"], Thresholds)


def verdict_evidence(row: Mapping[str, Any], verdict: Verdict, path: Sequence[Person]) -> Evidence:
    """Return the evidence behind a verdict, from its reasons; `row` adds trust and distance, `path` the names."""
    params = {reason.code: reason.params for reason in verdict.reasons}
    record = params.get("track_record", {})
    counts = {name: int(record.get(name) or 0) for name in COUNTS}
    return Evidence(
        **counts,
        not_clean=int(record.get("cases") or 0) - counts["clean"],
        structural_trust=row["structural_trust"],
        eigentrust=row["eigentrust"],
        distance=row["distance"],
        path=tuple(person.name for person in path),
        path_merges=tuple(row["path_merges"]),
        one_account="one_account_path" in params,
        is_seed="is_seed" in params,
        denounced_by_seed="denounced_by_seed" in params,
        trusted_denouncers=int(params.get("trusted_denouncers", {}).get("count") or 0),
    )
