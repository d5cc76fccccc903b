"""The history: a row of `scores` for every judgement that differs in substance from the last one of the same subject.

Of a person that is the lane, the reasons' codes, the number of cases or P by half a point. Of a pull request it is also
what was judged and anything that its inputs say, but for figures that drift by less than that (`scoring.inputs`). Its
id names the row before it, what was judged and the inputs: judged again from the same inputs there is nothing to write,
and a pass repeated after a kill gives the same ids.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from ingest.transaction import Transaction
from scoring.decisions import Pass, reason_codes, to_json
from scoring.inputs import NOTABLE, differ_notably

SUBSTANCE = ("lane", "record_cid", "round", "patch_id", "model_version", "trust_measure", "cases")
NO_HISTORY = ("own", "fingerprint", "borrowed", "borrowed_from")  # columns of what stands that no decision rests on
JUDGED = ("pull_uri", "record_cid", "round", "patch_id", "inputs")  # null in a row about a person
COMPARED = "lane, model_version, trust_measure, cases, reasons, probability"
PEOPLE = f"""
select contributor_id, repository_id, {COMPARED} from current_scores where contributor_id in (select unnest(?))
"""
STANDING = f"select {', '.join(JUDGED)} from current_decisions"
LAST = f"""
select pull_uri, record_cid, round, patch_id, inputs, score_id, {COMPARED} from scores
where pull_uri in (select unnest(?))
qualify row_number() over (
  partition by pull_uri order by data_version desc nulls last, as_of desc, decided_clock desc) = 1
"""
Row = Mapping[str, Any]


def keep_people(txn: Transaction, one: Pass, people: Sequence[Row]) -> None:
    """Append the scores of people that differ in substance, before the current rows are replaced."""
    changed = _changed_people(txn, people)
    txn.append("scores", [_row(row, one) | {"score_id": _person_id(row, one.position)} for row in changed])


def keep_pulls(txn: Transaction, one: Pass, pulls: Sequence[Row]) -> None:
    """Append the decisions that differ in substance, before the current rows are replaced."""
    changed = _changed_pulls(txn, pulls)
    txn.append("scores", [_row(row, one) | {"score_id": score_id} for row, score_id in changed])


def _changed_people(txn: Transaction, people: Sequence[Row]) -> Iterator[Row]:
    found = txn.rows(PEOPLE, [[row["contributor_id"] for row in people]]) if people else []
    stood = {(row["contributor_id"], row["repository_id"]): row for row in found}
    return (row for row in people if _differs(stood.get((row["contributor_id"], row["repository_id"])), row))


def _changed_pulls(txn: Transaction, pulls: Sequence[Row]) -> Iterator[tuple[Row, str]]:
    """Those to be decided anew, with the new decision's id."""
    standing = {tuple(row.values()) for row in txn.rows(STANDING)}
    others = [row for row in pulls if tuple(row[name] for name in JUDGED) not in standing]
    last = {row["pull_uri"]: row for row in txn.rows(LAST, [[row["pull_uri"] for row in others]])} if others else {}
    for row in others:
        before = last.get(row["pull_uri"])
        if _differs(before, row) or (before and _judged_from_else(before["inputs"], row["inputs"])):
            yield row, decision_id(before["score_id"] if before else None, row)


def decision_id(before: str | None, row: Row) -> str:
    """The id of a decision on a pull request: of the one before it, None for the first, what was judged and inputs."""
    return _digest([before, *(row[name] for name in JUDGED)])


def _person_id(row: Row, position: int) -> str:
    return _digest([position, [str(value) for value in row.values()]])


def _digest(value: object) -> str:
    return hashlib.blake2b(to_json(value).encode(), digest_size=16).hexdigest()


def _row(row: Row, one: Pass) -> dict[str, Any]:
    """A row of `scores` but for its id."""
    kept = dict.fromkeys(JUDGED) | {name: value for name, value in row.items() if name not in NO_HISTORY}
    return kept | {"data_version": one.position, "decided_clock": one.wall}


def _differs(before: Row | None, after: Row) -> bool:
    if before is None:
        return True
    if any(before.get(name) != after.get(name) for name in SUBSTANCE):
        return True
    if before["reasons"] != after["reasons"] and reason_codes(before["reasons"]) != reason_codes(after["reasons"]):
        return True
    return abs((before["probability"] or 0.0) - (after["probability"] or 0.0)) >= NOTABLE


def _judged_from_else(before: str | None, after: str) -> bool:
    """Whether two stored inputs differ notably; a row of an older version has none."""
    if before is None or before == after:
        return before is None
    return differ_notably(msgspec.json.decode(before), msgspec.json.decode(after))
