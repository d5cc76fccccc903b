"""Explains somebody's trust and what depends on it, and finds vouches worth making, computed on demand.

All is computed from the same vouches, at the same moment, as the newest scores. What one seed set makes of everybody is
kept while its snapshot is the newest, since a page asks for it again and again: 50 to 150 ms at 20,000 people and
100,000 vouches. Five sixths of that are the graph, which is the same for every seed set.

The vouches that a maintainer would do well to make are computed from each seed set by itself.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from threading import Lock

import numpy as np

from ingest.records.watched import find_repository
from ingest.store.snapshots import PerSnapshot, Snapshot
from ingest.store.transaction import Rows
from scoring.config.policy import Policy
from scoring.formatting import display_name
from scoring.models.registry import shrunk_rate
from scoring.pipeline.stored import People
from scoring.queries.types import Contribution, TrustExplanation, VouchesWorth, VouchWorth
from scoring.trust.denounces import transfers_left
from scoring.trust.first_passage import Transfers
from scoring.trust.graph import Integers
from scoring.trust.incremental import SeedSetTrust
from scoring.trust.paths import NOBODY, contributions, disjoint_paths, hangs_on_one, immediate_dominators
from scoring.trust.table import Graph, read_graph
from scoring.trust.what_if import ProposedVouch, blast_radius, propose_vouches
from scoring.types import Person

THRESHOLD = 0.5  # from this s on the work that somebody takes in may count (scoring/derived.sql)
SHOWN, VOUCHERS = 20, 100
KEPT = 8  # seed sets
RENEWED = 2  # seed sets that are computed anew for each snapshot, asked for or not


@dataclass(frozen=True, slots=True, eq=False)
class SeedView:
    """The trust of everybody by one seed set."""

    graph: Graph
    standing: SeedSetTrust
    flow: Transfers
    dominator: Integers


_kept: OrderedDict[tuple[int, datetime, int, Policy], SeedView] = OrderedDict()
_keeping = Lock()
_graphs = PerSnapshot[Graph](1)


def explain_trust(rows: Rows, did: str, repository: str | None, policy: Policy) -> TrustExplanation | None:
    """Return why the seeds of a repository, or of the site, trust a contributor.

    None where one of the two is unknown.
    """
    view = seed_view(rows, repository, policy)
    person = rows.value("select contributor_id from contributors where did = ?", [did])
    if view is None or person is None or person >= len(view.graph.position):
        return None
    place = int(view.graph.position[person])
    return _explained(rows, view, place) if place >= 0 else None


def seed_view(rows: Rows, repository: str | None, policy: Policy) -> SeedView | None:
    """Return what a seed set makes of everybody, kept for the newest snapshots.

    None for an unknown repository or no seeds.
    """
    number = 0 if repository is None else find_repository(rows, repository)
    return None if number is None else _kept_view(rows, number, policy)


def renew(snapshot: Snapshot, policy: Policy) -> None:
    """Compute for a new snapshot the seed sets that were asked for last, before somebody asks for them again."""
    with _keeping:
        asked = dict.fromkeys(number for *_, number, used in reversed(_kept) if used == policy)
    for number in reversed(list(asked)[:RENEWED]):  # what was asked for last stays the last
        _kept_view(snapshot, number, policy)


def _kept_view(rows: Rows, number: int, policy: Policy) -> SeedView | None:
    if not isinstance(rows, Snapshot):
        return _seed_view(rows, number, policy)
    key = (rows.number, rows.published_at, number, policy)
    with _keeping:
        held = _kept.get(key)
    view = held or _seed_view(rows, number, policy)
    if view is not None:
        with _keeping:
            _kept[key] = view
            _kept.move_to_end(key)
            while len(_kept) > KEPT:
                _kept.popitem(last=False)
    return view


def _seed_view(rows: Rows, number: int, policy: Policy) -> SeedView | None:
    as_of = rows.value("select max(as_of) from current_scores")
    seeds = rows.rows("select contributor_id from seeds where repository_id = ?", [number])
    if as_of is None or not seeds:
        return None
    graph = _graph(rows, as_of, policy)
    start = graph.places([row["contributor_id"] for row in seeds])
    standing = SeedSetTrust.compute(graph.vouches, graph.denounces, start, policy.parameters, policy.denounce_strength)
    flow = transfers_left(graph.vouches, standing.judged, start, policy.parameters)
    dominator = immediate_dominators(flow, policy.parameters.hops)
    alone = np.where(hangs_on_one(dominator, flow.distance), dominator, NOBODY)
    return SeedView(graph, standing, flow, alone)


def _graph(rows: Rows, as_of: datetime, policy: Policy) -> Graph:
    if not isinstance(rows, Snapshot):
        return read_graph(rows, as_of, policy)
    return _graphs.get(rows, policy, lambda: read_graph(rows, as_of, policy))


def _explained(rows: Rows, view: SeedView, place: int) -> TrustExplanation:
    """The explanation of one person; only people who are shown are named as hanging on them."""
    hops, passage = view.standing.parameters.hops, view.standing.judged.passage
    paths = disjoint_paths(view.flow, place, hops)
    voucher, brought = contributions(view.flow, place, hops)
    hanging = _hanging(rows, view, place)
    dominator, distance = int(view.dominator[place]), int(passage.distance[place])
    ids = view.graph.contributor_ids
    named = [*(one for path in paths for one in path), *voucher[:VOUCHERS], *hanging[:SHOWN], max(dominator, 0)]
    people = People(rows, ids[np.array(named, dtype=np.int64)]).persons
    subject = np.full(len(voucher), place)
    merges, evidence = view.graph.merges_behind(voucher, subject), view.graph.evidence_behind(voucher, subject)
    shares = (brought / brought.sum()).tolist() if len(brought) else []
    return TrustExplanation(
        distance=distance if distance >= 0 else None,
        paths=tuple(tuple(people[int(ids[one])] for one in path) for path in paths),
        dominator=people[int(ids[dominator])] if dominator != NOBODY else None,
        vouchers=tuple(
            Contribution(people[int(ids[one])], share, int(merged), int(named))
            for one, share, merged, named in list(zip(voucher, shares, merges, evidence, strict=True))[:VOUCHERS]
        ),
        dependents=tuple(people[int(ids[one])] for one in hanging[:SHOWN]),
        dependents_total=len(hanging),
        threshold=THRESHOLD,
        weights=tuple(_weights(view.graph, path) for path in paths),
    )


def _weights(graph: Graph, path: Sequence[int]) -> tuple[float, ...]:
    vouches, weights = graph.vouches, list[float]()
    for voucher, subject in pairwise(path):
        places = vouches.places(np.array([voucher]))
        weights.append(float(vouches.weight[places[vouches.subject[places] == subject]][0]))
    return tuple(weights)


def _hanging(rows: Rows, view: SeedView, place: int) -> list[int]:
    """Return who keeps the threshold only through this person's vouches, the deepest fall first."""
    if not (view.flow.voucher == place).any():
        return []
    fallen = blast_radius(view.flow, view.standing.judged.passage, view.standing.parameters, place, THRESHOLD).person
    hidden = _places(view, (row["contributor_id"] for row in rows.rows("select contributor_id from hidden_people")))
    return [int(one) for one in fallen if int(one) not in hidden]


def _places(view: SeedView, people: Iterable[int]) -> set[int]:
    return {int(view.graph.position[person]) for person in people if person < len(view.graph.position)}


# Merges here, and what became of everything of theirs that settled: who has nothing settled yet is not proposed.
RECORDS = """
select contributor_id, merged_here, clean, clean + not_clean as cases from features
where repository_id = ? and merged_here > 0 and clean + not_clean > 0
"""
SEEDS_IN_FORCE = """
select distinct c.did, c.handle, c.handle_verified from seeds join contributors c using (contributor_id)
where repository_id = ?
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


def seeds_in_force(rows: Rows, repository: int) -> tuple[Person, ...]:
    found = rows.rows(SEEDS_IN_FORCE, [repository])
    return tuple(sorted((Person(row["did"], display_name(row)) for row in found), key=lambda one: one.name))


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
    """Yield who had work merged there and whose settled record is no worse than that of somebody unknown."""
    for row in rows.rows(RECORDS, [number]):
        estimate = shrunk_rate(row["clean"], row["cases"] - row["clean"], policy.prior, policy.strength)
        if estimate.probability is not None and estimate.probability >= policy.prior:
            yield row


def _proposed(view: SeedView, maintainer: int, records: Mapping[int, Record]) -> list[ProposedVouch]:
    merges = np.zeros(len(view.graph.contributor_ids), dtype=np.int64)
    for place, row in records.items():
        merges[place] = row["merged_here"]
    return propose_vouches(view.standing, view.graph.vouches, view.graph.denounces, maintainer, merges, THRESHOLD)


def _shaped(person: Person, answer: ProposedVouch, record: Record) -> VouchWorth:
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
