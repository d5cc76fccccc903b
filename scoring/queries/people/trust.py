"""Explain somebody's trust and what depends on it, and find vouches worth making, computed on demand.

It uses the vouches and the time of the newest scores. The trust of everybody by one seed set is cached while its
snapshot is the newest, since pages ask for it repeatedly: 50 to 150 ms at 20,000 people and 100,000 vouches. Five
sixths of that are the graph, which all seed sets share.

The vouches worth making for a maintainer are computed separately for each seed set.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from threading import Lock, RLock
from typing import Any, TypeVar

import numpy as np

from ingest.records.watched import find_repository
from ingest.store.snapshots import PerSnapshot, Snapshot
from ingest.store.transaction import Rows
from scoring.config.policy import Policy
from scoring.formatting import display_name
from scoring.models.registry import shrunk_rate
from scoring.pipeline.stored import People
from scoring.queries.types import Contribution, TrustExplanation, VouchesWorth, VouchWorth
from scoring.trust.bounded import Incoming, prepare_incoming
from scoring.trust.denounces import transfers_left
from scoring.trust.first_passage import Transfers
from scoring.trust.graph import Floats, Integers
from scoring.trust.incremental import SeedSetTrust
from scoring.trust.paths import NOBODY, contributions, disjoint_paths, hangs_on_one, immediate_dominators
from scoring.trust.table import Graph, few_columns, needs_share, read_graph, trust_columns
from scoring.trust.what_if import ProposedVouch, blast_radius, propose_vouches
from scoring.types import Person

Value = TypeVar("Value")
AS_OF = "select max(as_of) from current_scores"
SEEDS_OF = "select contributor_id from seeds where repository_id = ? order by contributor_id"
SHARES = """
select contributor_id, eigentrust from trust where repository_id = 0 and contributor_id in (select unnest(?::integer[]))
"""
THRESHOLD = 0.5  # trust s at which a person's merges may count (scoring/derived.sql)
SHOWN, VOUCHERS = 20, 100
KEPT = 8  # seed sets
RENEWED = 2  # seed sets that are recomputed for each new snapshot


@dataclass(frozen=True, slots=True, eq=False)
class SeedView:
    """The trust of everybody by one seed set."""

    graph: Graph
    standing: SeedSetTrust
    flow: Transfers
    dominator: Integers


_incoming = PerSnapshot[Incoming](1)
_kept: OrderedDict[tuple[int, datetime, int, Policy], SeedView] = OrderedDict()
_views_lock = Lock()
_graphs = PerSnapshot[Graph](1)
_making = RLock()  # of graphs and what is sorted of them, which threads wait for rather than make twice


def explain_trust(rows: Rows, did: str, repository: str | None, policy: Policy) -> TrustExplanation | None:
    """Return why the seeds of a repository, or of the site, trust a contributor; None where either is unknown."""
    view = seed_view(rows, repository, policy)
    person = rows.value("select contributor_id from contributors where did = ?", [did])
    if view is None or person is None or person >= len(view.graph.position):
        return None
    place = int(view.graph.position[person])
    return _explanation(rows, view, place) if place >= 0 else None


def read_trust(rows: Rows, repository: int, people: Collection[int], policy: Policy) -> dict[int, dict[str, Any]]:
    """Return rows as in the table `trust` for these people, whether or not it holds them; nobody beyond reach.

    People's share of the site's walk is in the rows that the last pass stored of the site.
    The table holds rows of a repository only for those who offered something there. They are computed as of the newest
    scores; the graph is cached while its snapshot is the newest.
    """
    as_of = rows.value(AS_OF)
    seeds = [row["contributor_id"] for row in rows.rows(SEEDS_OF, [repository])]
    if as_of is None or not seeds or not people:
        return {}
    graph = _graph(rows, as_of, policy)
    known = [person for person in people if person < len(graph.position) and graph.position[person] >= 0]
    share = _read_share(rows, graph, known) if needs_share(repository, policy) else None
    passage = few_columns(graph, _prepare(rows, graph, policy), seeds, known, policy)
    table = trust_columns(graph, repository, seeds, passage, share, policy, known)
    return {row["contributor_id"]: row for row in table.to_pylist()}


def _read_share(rows: Rows, graph: Graph, people: Sequence[int]) -> Floats:
    """Return the stored shares of these people by index, 0 for all others."""
    stored, share = rows.columns(SHARES, [list(people)]), np.zeros(len(graph.contributor_ids))
    share[graph.position[stored["contributor_id"]]] = stored["eigentrust"]
    return share


def _prepare(rows: Rows, graph: Graph, policy: Policy) -> Incoming:
    def make() -> Incoming:
        return prepare_incoming(graph.vouches, graph.denounces, policy.parameters)

    return _of_snapshot(_incoming, rows, policy, make)


def seed_view(rows: Rows, repository: str | None, policy: Policy) -> SeedView | None:
    """Return the trust of everybody by one seed set, cached for the newest snapshots.

    None for an unknown repository or no seeds.
    """
    number = 0 if repository is None else find_repository(rows, repository)
    return None if number is None else _cached_view(rows, number, policy)


def renew(snapshot: Snapshot, policy: Policy) -> None:
    """Compute the most recently used seed sets for a new snapshot before somebody asks for them again.

    The same for what `read_trust` prepares for every seed set, if it was used.
    """
    with _views_lock:
        numbers = dict.fromkeys(number for *_, number, used in reversed(_kept) if used == policy)
    for number in reversed(list(numbers)[:RENEWED]):  # the most recently used stays the last
        _cached_view(snapshot, number, policy)
    if _incoming.holds(policy) and (as_of := snapshot.value(AS_OF)) is not None:
        _prepare(snapshot, _graph(snapshot, as_of, policy), policy)


def _cached_view(rows: Rows, number: int, policy: Policy) -> SeedView | None:
    if not isinstance(rows, Snapshot):
        return _seed_view(rows, number, policy)
    key = (rows.number, rows.published_at, number, policy)
    with _views_lock:
        cached = _kept.get(key)
    view = cached or _seed_view(rows, number, policy)
    if view is not None:
        with _views_lock:
            _kept[key] = view
            _kept.move_to_end(key)
            while len(_kept) > KEPT:
                _kept.popitem(last=False)
    return view


def _seed_view(rows: Rows, number: int, policy: Policy) -> SeedView | None:
    as_of = rows.value(AS_OF)
    seeds = rows.rows(SEEDS_OF, [number])
    if as_of is None or not seeds:
        return None
    graph = _graph(rows, as_of, policy)
    start = graph.places([row["contributor_id"] for row in seeds])
    standing = SeedSetTrust.compute(graph.vouches, graph.denounces, start, policy.parameters, policy.denounce_strength)
    flow = transfers_left(graph.vouches, standing.judged, start, policy.parameters)
    dominator = immediate_dominators(flow, policy.parameters.hops)
    sole_dominator = np.where(hangs_on_one(dominator, flow.distance), dominator, NOBODY)
    return SeedView(graph, standing, flow, sole_dominator)


def _graph(rows: Rows, as_of: datetime, policy: Policy) -> Graph:
    return _of_snapshot(_graphs, rows, policy, lambda: read_graph(rows, as_of, policy))


def _of_snapshot(cached: PerSnapshot[Value], rows: Rows, key: Hashable, make: Callable[[], Value]) -> Value:
    """Return the value for a snapshot, made once; for a store that is written to it is made each time."""
    if not isinstance(rows, Snapshot):
        return make()
    if (value := cached.peek(rows, key)) is not None:
        return value
    with _making:
        return cached.get(rows, key, make)


def _explanation(rows: Rows, view: SeedView, position_of_person: int) -> TrustExplanation:
    """Return the explanation of one person; dependents who are hidden are not named."""
    hops, passage = view.standing.parameters.hops, view.standing.judged.passage
    paths = disjoint_paths(view.flow, position_of_person, hops)
    voucher, amounts = contributions(view.flow, position_of_person, hops)
    hanging = _dependents(rows, view, position_of_person)
    dominator, distance = int(view.dominator[position_of_person]), int(passage.distance[position_of_person])
    ids = view.graph.contributor_ids
    named_positions = [
        *(member for path in paths for member in path),
        *voucher[:VOUCHERS],
        *hanging[:SHOWN],
        max(dominator, 0),
    ]
    people = People(rows, ids[np.array(named_positions, dtype=np.int64)]).persons
    subject = np.full(len(voucher), position_of_person)
    merges, evidence = view.graph.merges_behind(voucher, subject), view.graph.evidence_behind(voucher, subject)
    shares = (amounts / amounts.sum()).tolist() if len(amounts) else []
    return TrustExplanation(
        distance=distance if distance >= 0 else None,
        paths=tuple(tuple(people[int(ids[member])] for member in path) for path in paths),
        dominator=people[int(ids[dominator])] if dominator != NOBODY else None,
        vouchers=tuple(
            Contribution(people[int(ids[member])], share, int(merged), int(named_positions))
            for member, share, merged, named_positions in list(zip(voucher, shares, merges, evidence, strict=True))[
                :VOUCHERS
            ]
        ),
        dependents=tuple(people[int(ids[member])] for member in hanging[:SHOWN]),
        dependents_total=len(hanging),
        threshold=THRESHOLD,
        weights=tuple(_weights(view.graph, path) for path in paths),
    )


def _weights(graph: Graph, path: Sequence[int]) -> tuple[float, ...]:
    vouches, weights = graph.vouches, list[float]()
    for voucher, subject in pairwise(path):
        edges = vouches.places(np.array([voucher]))
        weights.append(float(vouches.weight[edges[vouches.subject[edges] == subject]][0]))
    return tuple(weights)


def _dependents(rows: Rows, view: SeedView, position_of_person: int) -> list[int]:
    """Return people who keep the threshold only through this person's vouches, largest fall first."""
    if not (view.flow.voucher == position_of_person).any():
        return []
    losing = blast_radius(
        view.flow, view.standing.judged.passage, view.standing.parameters, position_of_person, THRESHOLD
    ).person
    hidden = _positions(view, (row["contributor_id"] for row in rows.rows("select contributor_id from hidden_people")))
    return [int(dependent) for dependent in losing if int(dependent) not in hidden]


def _positions(view: SeedView, people: Iterable[int]) -> set[int]:
    return {int(view.graph.position[person]) for person in people if person < len(view.graph.position)}


# Merges here and settled outcomes everywhere; people with nothing settled are not proposed.
RECORDS = """
select contributor_id, merged_here, clean, clean + not_clean as cases from features
where repository_id = ? and merged_here > 0 and clean + not_clean > 0
  and contributor_id not in (select contributor_id from current_decisions where lane = 'needs_human')
"""
SEEDS_IN_FORCE = """
select distinct c.did, c.handle, c.handle_verified from seeds join contributors c using (contributor_id)
where repository_id = ?
"""
NAME = "select coalesce(name, repo_key) from repositories where repository_id = ?"
Record = Mapping[str, int]


def vouches_worth_making(rows: Rows, did: str, repositories: Sequence[str], policy: Policy) -> tuple[VouchesWorth, ...]:
    """Return the people for whom one vouch by this maintainer would do the most.

    First as seen by the site's seeds, then by those of each of `repositories`. The people have merges there, P(clean)
    not below the prior, s below .5, and nothing open that is flagged. Seed sets without a proposal are omitted.
    """
    person = rows.value("select contributor_id from contributors where did = ?", [did])
    by_seed_set = (
        (_from_seeds(rows, person, name, policy) for name in (None, *repositories)) if person is not None else ()
    )
    return tuple(proposals for proposals in by_seed_set if proposals is not None)


def seeds_in_force(rows: Rows, repository: int) -> tuple[Person, ...]:
    seeds = rows.rows(SEEDS_IN_FORCE, [repository])
    return tuple(
        sorted((Person(row["did"], display_name(row)) for row in seeds), key=lambda seed: (seed.name, seed.did))
    )


def _from_seeds(rows: Rows, person: int, repository: str | None, policy: Policy) -> VouchesWorth | None:
    """Return the proposals from one seed set; None where there are none, or where the repository is unknown."""
    view = seed_view(rows, repository, policy)
    if view is None or person >= len(view.graph.position):
        return None
    number = 0 if repository is None else find_repository(rows, repository)
    records = {int(view.graph.position[row["contributor_id"]]): row for row in _good_records(rows, number, policy)}
    proposals = _proposals(view, int(view.graph.position[person]), records)
    ids = view.graph.contributor_ids
    people = People(rows, (ids[proposal.person] for proposal in proposals)).persons
    vouches = [
        (people[int(ids[each_proposal.person])], each_proposal, records[each_proposal.person])
        for each_proposal in proposals
    ]
    name = None if repository is None else rows.value(NAME, [number])
    return VouchesWorth(name, tuple(_vouch_worth(*vouch) for vouch in vouches)) if vouches else None


def _good_records(rows: Rows, number: int | None, policy: Policy) -> Iterator[Record]:
    """Yield people with merges there whose settled record is no worse than the prior for somebody unknown."""
    for row in rows.rows(RECORDS, [number]):
        estimate = shrunk_rate(row["clean"], row["cases"] - row["clean"], policy.prior, policy.strength)
        if estimate.probability is not None and estimate.probability >= policy.prior:
            yield row


def _proposals(view: SeedView, maintainer: int, records: Mapping[int, Record]) -> list[ProposedVouch]:
    merges = np.zeros(len(view.graph.contributor_ids), dtype=np.int64)
    for position, row in records.items():
        merges[position] = row["merged_here"]
    return propose_vouches(view.standing, view.graph.vouches, view.graph.denounces, maintainer, merges, THRESHOLD)


def _vouch_worth(person: Person, proposal: ProposedVouch, record: Record) -> VouchWorth:
    return VouchWorth(
        person=person,
        merges=proposal.merges,
        clean=record["clean"],
        cases=record["cases"],
        before=proposal.before,
        after=proposal.after,
        opens=len(proposal.opens),
        exposure=proposal.exposure.lanes if proposal.exposure else 0,
        threshold=THRESHOLD,
    )
