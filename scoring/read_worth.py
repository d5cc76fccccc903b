"""Which vouches would be worth making by a maintainer: computed when it is asked for, from each seed set by itself."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ingest.transaction import Rows
from ingest.watch import find_repository
from scoring.answers import VouchesWorth, VouchWorth
from scoring.estimators import shrunk_rate
from scoring.policy import Policy
from scoring.read_trust import THRESHOLD, SeedView, seed_view
from scoring.shaping import People
from scoring.verdict import Person
from scoring.worth import Worthwhile, worth_making

# Merges here, and what became of everything of theirs that settled: who has nothing settled yet is not proposed.
RECORDS = """
select contributor_id, merged_here, clean, clean + not_clean as cases from features
where repository_id = ? and merged_here > 0 and clean + not_clean > 0
"""
NAME = "select coalesce(name, repo_key) from repositories where repository_id = ?"
Record = Mapping[str, int]


def vouches_worth_making(rows: Rows, did: str, repositories: Sequence[str], policy: Policy) -> tuple[VouchesWorth, ...]:
    """The people whom one vouch by this maintainer would bring furthest, as the site's seeds see it and then as those
    of each of `repositories` do: with merges there, P(clean) not below the prior, and s below .5. Seed sets that have
    nobody to propose are left out.
    """
    person = rows.value("select contributor_id from contributors where did = ?", [did])
    found = (_from_seeds(rows, person, name, policy) for name in (None, *repositories)) if person is not None else ()
    return tuple(one for one in found if one is not None)


def _from_seeds(rows: Rows, person: int, repository: str | None, policy: Policy) -> VouchesWorth | None:
    """The proposals from one seed set; None where there are none, or where the repository is unknown."""
    view = seed_view(rows, repository, policy)
    if view is None or person >= len(view.graph.position):
        return None
    number = 0 if repository is None else find_repository(rows, repository)
    records = {int(view.graph.position[row["contributor_id"]]): row for row in _good_records(rows, number, policy)}
    answers = _proposed(view, int(view.graph.position[person]), records)
    ids = view.graph.contributor_ids
    people = People(rows, (ids[answer.person] for answer in answers)).persons
    vouches = [(people[int(ids[one.person])], one, records[one.person]) for one in answers]
    name = None if repository is None else rows.value(NAME, [number])
    return VouchesWorth(name, tuple(_shaped(*vouch) for vouch in vouches)) if vouches else None


def _good_records(rows: Rows, number: int | None, policy: Policy) -> Iterator[Record]:
    """Who had work merged there and whose settled record is no worse than that of somebody unknown."""
    for row in rows.rows(RECORDS, [number]):
        estimate = shrunk_rate(row["clean"], row["cases"] - row["clean"], policy.prior, policy.strength)
        if estimate.probability is not None and estimate.probability >= policy.prior:
            yield row


def _proposed(view: SeedView, maintainer: int, records: Mapping[int, Record]) -> list[Worthwhile]:
    merges = np.zeros(len(view.graph.contributor_ids), dtype=np.int64)
    for place, row in records.items():
        merges[place] = row["merged_here"]
    return worth_making(view.standing, view.graph.vouches, view.graph.denounces, maintainer, merges, THRESHOLD)


def _shaped(person: Person, answer: Worthwhile, record: Record) -> VouchWorth:
    return VouchWorth(
        person=person,
        merges=answer.merges,
        clean=record["clean"],
        cases=record["cases"],
        before=answer.before,
        after=answer.after,
        opens=len(answer.opens),
        exposure=answer.exposure.lanes if answer.exposure else 0,
        threshold=THRESHOLD,
    )
