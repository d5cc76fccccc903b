"""Who stands around one contributor in the vouch graph: the ways from the seeds to them, and whom they vouch for."""

from dataclasses import dataclass
from heapq import nsmallest

import numpy as np

from ingest.transaction import Rows
from scoring.answers import Person
from scoring.graph import Integers
from scoring.paths import contributions, disjoint_paths
from scoring.policy import Policy
from scoring.read_trust import SeedView, seed_view
from scoring.shaping import People

DRAWN = 40  # people
DIRECT, ONWARD = 14, 8  # of those who vouch for the person, and of those for whom the person does


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Somebody shown, `hops` from the nearest seed, None beyond reach; `onward`: the person vouches for them."""

    person: Person
    hops: int | None
    onward: bool = False


@dataclass(frozen=True, slots=True)
class VouchGraph:
    """People around `person`, who is the first of them, and vouches (voucher, subject) between them by their places.

    `left_out` counts who belongs there too and is not shown.
    """

    people: tuple[Neighbour, ...]
    vouches: tuple[tuple[int, int], ...]
    left_out: int


def vouch_graph(rows: Rows, did: str, policy: Policy) -> VouchGraph | None:
    """The graph around a contributor as the site's seeds see it; None where nobody vouches for them nor they for any.

    Shown are at most 40: the ways that the trust explanation names, then those who vouch for the person by what they
    bring, then those who vouch for these, then whom the person vouches for.
    """
    view = seed_view(rows, None, policy)
    number = rows.value("select contributor_id from contributors where did = ?", [did])
    if view is None or number is None or number >= len(view.graph.position):
        return None
    place = int(view.graph.position[number])
    return _around(rows, view, place) if place >= 0 else None


def _around(rows: Rows, view: SeedView, place: int) -> VouchGraph | None:
    hidden = _hidden(rows, view)
    leading, onward = _leading(view, place) - hidden, _onward(view, place) - hidden
    onward -= leading
    chosen = [one for one in _in_order(view, place, leading) if one not in hidden][
        : DRAWN - 1 - min(ONWARD, len(onward))
    ]
    chosen += sorted(onward)[: DRAWN - 1 - len(chosen)]
    if not chosen:
        return None
    drawn = [place, *chosen]
    ids, distance = view.graph.contributor_ids, view.standing.judged.passage.distance
    named = People(rows, ids[np.array(drawn, dtype=np.int64)]).persons
    people = tuple(
        Neighbour(named[int(ids[one])], int(distance[one]) if distance[one] >= 0 else None, one in onward)
        for one in drawn
    )
    return VouchGraph(people, _between(view, drawn, place, onward), len(leading | onward) - len(chosen))


def _hidden(rows: Rows, view: SeedView) -> set[int]:
    """The places of people who are shown to nobody for now."""
    numbers = [row["contributor_id"] for row in rows.rows("select contributor_id from hidden_people")]
    return {int(view.graph.position[one]) for one in numbers if one < len(view.graph.position)} - {-1}


def _onward(view: SeedView, place: int) -> set[int]:
    vouches = view.graph.vouches
    return set(vouches.subject[vouches.places(np.array([place]))].tolist())


def _direct(view: SeedView, place: int) -> Integers:
    """Who vouches for the person, whatever it is worth."""
    vouches = view.graph.vouches
    return vouches.voucher[vouches.subject == place]


def _leading(view: SeedView, place: int) -> set[int]:
    """Everybody from whom trust can walk to the person, and everybody who vouches for them."""
    flow, hops = view.flow, view.standing.parameters.hops
    leads = np.zeros(len(flow.distance), dtype=bool)
    leads[place] = True
    useful = (flow.amount > 0) & (flow.voucher != place)
    for _ in range(hops if flow.distance[place] else 0):  # to a seed no trust walks
        leads[flow.voucher[useful & leads[flow.subject]]] = True
    leads[_direct(view, place)] = True
    leads[place] = False
    return set(np.flatnonzero(leads).tolist())


def _in_order(view: SeedView, place: int, leading: set[int]) -> list[int]:
    """Those who lead to the person: on the named ways, then by what they bring, then backwards from those shown."""
    flow, hops = view.flow, view.standing.parameters.hops
    ways = disjoint_paths(flow, place, hops) if flow.distance[place] > 0 else []
    brought = contributions(flow, place, hops)[0].tolist()
    first = [one for way in ways for one in way] + (brought + sorted(_direct(view, place).tolist()))[:DIRECT]
    order = list(dict.fromkeys(one for one in first if one in leading))
    for one in order[:DRAWN]:
        behind = np.flatnonzero((flow.subject == one) & (flow.amount > 0))
        strongest = flow.voucher[behind[np.lexsort((flow.voucher[behind], -flow.amount[behind]))]].tolist()
        order += [other for other in strongest[:2] if other in leading and other not in order]
    return order if len(order) >= DRAWN else order + _nearest(view, leading - set(order))


def _nearest(view: SeedView, others: set[int]) -> list[int]:
    """The nearest of these to the seeds, at most as many as are shown; beyond reach is farther than any."""
    distance = view.flow.distance
    return nsmallest(DRAWN, others, key=lambda one: (distance[one] < 0, distance[one], one))


def _between(view: SeedView, drawn: list[int], place: int, onward: set[int]) -> tuple[tuple[int, int], ...]:
    """The vouches between the people shown that lead to the person, and the person's own."""
    vouches, at = view.graph.vouches, {one: index for index, one in enumerate(drawn)}
    rows = vouches.places(np.array(sorted(set(drawn) - onward), dtype=np.int64))
    pairs = zip(vouches.voucher[rows].tolist(), vouches.subject[rows].tolist(), strict=True)
    kept = [(one, other) for one, other in pairs if other in at and (one == place) == (other in onward)]
    return tuple(sorted((at[one], at[other]) for one, other in kept))
