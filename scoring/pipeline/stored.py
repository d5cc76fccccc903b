"""From stored rows to the values that pages and JSON are told."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ingest.json_decoding import decode_json
from ingest.store.snapshot_cache import PerSnapshot
from ingest.store.snapshots import Snapshot
from ingest.store.transaction import Rows
from scoring.derived import display_name
from scoring.pipeline.decisions import read_reasons
from scoring.thresholds import Thresholds
from scoring.types import Estimate, Evidence, Factor, Lane, Person, Reason, Verdict

SETTLED = "settled"  # key in `meta`: how many settled pull requests could count towards a certificate, at the last pass
COUNTED = f"select value::integer from meta where key = '{SETTLED}'"
COUNTS = ("merged_here", "settled_here", "waiting", "clean")
# What is said of a merge that is not proven, by pull_requests.merge_proof.
CLAIMS: Mapping[str, str] = {
    "unverified": "author says merged, unconfirmed",
    "contradicted": "author says merged, but the repository says not",
}


# list_contains plans in 0.7 ms, a subquery over unnest in 1.1 ms; 80 of 100,000 people take 6.4 and 1.5 ms.
NAMES = """
select contributor_id, did, handle, handle_verified from contributors
where contributor_id in (select unnest(?::integer[]))
"""
NAMED = 5_000  # people whose names are kept, in 2 MB: those whom a row names stand in the queue, too
_named = PerSnapshot[Person](NAMED)


class People:
    """Names for numbers, asked for together."""

    def __init__(self, rows: Rows, numbers: Iterable[int]) -> None:
        wanted = {int(number) for number in numbers}
        known = _kept_names(rows, wanted) if isinstance(rows, Snapshot) else {}
        self.persons = known | _read_names(rows, wanted - known.keys())

    def path(self, numbers: Sequence[int]) -> tuple[Person, ...]:
        """The people of a trust path."""
        return tuple(self.persons[number] for number in numbers)


def _kept_names(snapshot: Snapshot, numbers: Iterable[int]) -> dict[int, Person]:
    return {number: person for number in numbers if (person := _named.peek(snapshot, number)) is not None}


def _read_names(rows: Rows, numbers: Collection[int]) -> dict[int, Person]:
    """Read them, and keep them where they are a snapshot's."""
    told = rows.rows(NAMES, [sorted(numbers)]) if numbers else ()
    found = {row["contributor_id"]: Person(row["did"], display_name(row)) for row in told}
    if isinstance(rows, Snapshot):
        for number, person in found.items():
            _named.keep(rows, number, person)
    return found


def persons(rows: Rows, dids: Iterable[str]) -> dict[str, Person]:
    """Those of these people who are known here, by DID."""
    sql = "select did, handle, handle_verified from contributors where list_contains(?, did)"
    return {row["did"]: Person(row["did"], display_name(row)) for row in rows.rows(sql, [sorted(set(dids))])}


def dids_of_handles(rows: Rows, handles: Iterable[str]) -> dict[str, str]:
    """The DIDs of those of these handles (lower case) that the network confirms for exactly one person here."""
    sql = (
        "select lower(handle) as handle, min(did) as did from contributors where handle_verified "
        "and list_contains(?, lower(handle)) group by 1 having count(*) = 1"
    )
    return {row["handle"]: row["did"] for row in rows.rows(sql, [sorted(set(handles))])}


def read_verdict(row: Mapping[str, Any]) -> Verdict:
    """The verdict that a row of current_scores or current_decisions stores."""
    factors = decode_json(row["factors"], tuple[Factor, ...])
    return Verdict(Lane(row["lane"]), read_estimate(row), read_reasons(row["reasons"]), factors)


def read_settled(rows: Rows) -> int | None:
    """Return how many settled pull requests could count towards a certificate; None before the first pass."""
    return rows.value(COUNTED)


def with_settled(verdict: Verdict, settled: int | None) -> Verdict:
    """The verdict on a person with that number in the reason that tells of it: it is not kept with each of them."""
    if settled is None:
        return verdict
    reasons = tuple(
        Reason(one.code, {**one.params, "have": settled}) if one.code == "fast_lane_shut" else one
        for one in verdict.reasons
    )
    return Verdict(verdict.lane, verdict.estimate, reasons, verdict.factors)


def read_estimate(row: Mapping[str, Any]) -> Estimate:
    """Its estimate of P(clean)."""
    return Estimate(row["probability"], row["low"], row["high"], row["cases"])


def read_thresholds(row: Mapping[str, Any]) -> Thresholds:
    """The thresholds that it was decided by."""
    return decode_json(row["thresholds"], Thresholds)


def verdict_evidence(row: Mapping[str, Any], verdict: Verdict, path: Sequence[Person]) -> Evidence:
    """Return what a verdict was reached from, as its own reasons tell.

    `row` adds trust and distance, `path` the names.
    """
    told = {reason.code: reason.params for reason in verdict.reasons}
    record = told.get("track_record", {})
    counts = {name: int(record.get(name) or 0) for name in COUNTS}
    return Evidence(
        **counts,
        not_clean=int(record.get("cases") or 0) - counts["clean"],
        structural_trust=row["structural_trust"],
        eigentrust=row["eigentrust"],
        distance=row["distance"],
        path=tuple(person.name for person in path),
        path_merges=tuple(row["path_merges"]),
        one_account="one_account_path" in told,
        is_seed="is_seed" in told,
        denounced_by_seed="denounced_by_seed" in told,
        trusted_denouncers=int(told.get("trusted_denouncers", {}).get("count") or 0),
    )
