"""Simulates all attacks on one graph and reports their cost and their reach, as plain values. Pure.

A report holds counts and shares and names nobody, so that it can be kept after people are erased.

The ground of the attacks is the present graph: the site's seeds and all valid vouches.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import numpy as np

from ingest.store.transaction import Rows
from scoring.config.policy import Policy
from scoring.redteam.attack import (
    HALF,
    RECORDS,
    Attack,
    Ground,
    LaneCounts,
    attack,
    choose_regulars,
    choose_vouchers,
    count_lanes,
    people_reached,
    simulate_theft,
    standing_on_two,
)
from scoring.redteam.attacks import (
    SHAPES,
    Plan,
    largest_lift,
    self_lifts,
    simulate_bombing,
    simulate_evidence,
    simulate_farming,
)
from scoring.trust.first_passage import first_passage
from scoring.trust.graph import Edges, Floats, Integers
from scoring.trust.table import read_graph

RANDOM, MOST_TRUSTED = 1.0, 0.05  # vouches are bought from this share of the most trusted people
FARMED = 20  # fakes whose small changes are merged
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Grid:
    """The regions to simulate: numbers of fakes and bought vouches, shares of people to buy from, draws of each."""

    fakes: tuple[int, ...]
    bought: tuple[int, ...]
    tops: tuple[float, ...] = (RANDOM, MOST_TRUSTED)
    draws: int = 1


@dataclass(frozen=True, slots=True)
class Scale:
    """The extent of a run: the grid of regions, and the numbers of rewiring people and of stolen accounts."""

    name: str
    grid: Grid
    people: int
    stolen: int


BRIEF = Scale("brief", Grid(fakes=(100, 1_000), bought=(1, 20)), people=5, stolen=10)
WHOLE = Scale("whole", Grid(fakes=(10, 100, 1_000, 10_000), bought=(1, 5, 20, 50), draws=3), people=50, stolen=50)


@dataclass(frozen=True, slots=True)
class Play:
    """One region of a grid."""

    shape: str
    top: float
    fakes: int
    bought: int
    draw: int


@dataclass(frozen=True, slots=True)
class Cell:
    """The result of a region. `trusted` fakes reach s >= .5; `on_two` of them depend on no single account but a seed.

    `lanes` are the fakes' lanes for each number of farmed clean merges.
    """

    play: Play
    trusted: int
    on_two: int
    lanes: tuple[LaneCounts, ...]


def attack_everything(ground: Ground, scale: Scale, policy: Policy, key: int, tell: Tell) -> dict[str, Any]:
    """Simulate every attack; `key` seeds the draws, `tell` gets progress. Raises ValueError without any trust.

    The values are numbers, strings, lists and dictionaries for JSON; shares and s are in [0, 1].
    """
    return {
        "graph": _graph(ground, policy),
        "scale": {"name": scale.name, **asdict(scale.grid), "people": scale.people, "stolen": scale.stolen, "key": key},
        "parameters": asdict(policy.parameters),
        "regions": _regions(ground, scale.grid, policy, key, tell),
        "rewiring": _rewiring(ground, scale, policy, key, tell),
        "bombing": _bombing(ground, policy, key, tell),
        "farming": _farming(ground, policy, tell),
        "quoting": _quoting(ground, policy, tell),
        "stolen": _stolen(ground, scale, policy, tell),
    }


def regions(ground: Ground, grid: Grid, key: int, policy: Policy, tell: Tell) -> Iterator[tuple[Play, Attack]]:
    """Yield every region of the grid. `key` seeds the draws; `tell` is called for each shape.

    A region has the same bought people at every number of fakes, so that only the fakes differ. At most one vouch a
    fake is bought. Raises ValueError if nobody but seeds can be bought.
    """
    trust = first_passage(ground.edges, ground.seeds, ground.size, policy.parameters).mass
    if not trust.any():
        raise ValueError("no vouch leads from a seed to anybody, so there is nobody whose vouch could be bought")
    for number, (shape, build) in enumerate(SHAPES.items()):
        tell(f"regions: {shape}")
        for play in _plays(shape, grid):
            generator = np.random.default_rng([key, play.draw, number, play.bought, round(play.top * 1000)])
            vouchers = choose_vouchers(trust, ground.seeds, play.bought, play.top, generator)
            yield play, attack(ground, build, vouchers, play.fakes, generator)


def _plays(shape: str, grid: Grid) -> Iterator[Play]:
    for draw in range(grid.draws):
        for top in grid.tops:
            for bought in grid.bought:
                yield from (Play(shape, top, fakes, bought, draw) for fakes in grid.fakes if fakes >= bought)


def judge_fakes(ground: Ground, play: Play, attacked: Attack, policy: Policy) -> Cell:
    """Return the result of a region's fakes.

    A second path is searched only if it could matter, since that takes long.
    """
    trust = first_passage(attacked.edges, ground.seeds, attacked.size, policy.parameters).trust[attacked.fakes]
    passing, everybody = trust >= HALF, np.ones(len(trust), dtype=bool)
    safe = ~everybody
    if passing.any() or count_lanes(trust, everybody, RECORDS[-1], policy).fast:
        safe = standing_on_two(attacked, ground.seeds, policy.parameters)[attacked.fakes]
    lanes = tuple(count_lanes(trust, safe, record, policy) for record in RECORDS)
    return Cell(play, int(passing.sum()), int((passing & safe).sum()), lanes)


def _regions(ground: Ground, grid: Grid, policy: Policy, key: int, tell: Tell) -> list[dict[str, Any]]:
    """Return the worst region for each number of bought vouches and each share of people."""
    worst: dict[tuple[float, int], Cell] = {}
    for play, attacked in regions(ground, grid, key, policy, tell):
        cell, key_of_cell = judge_fakes(ground, play, attacked, policy), (play.top, play.bought)
        worst[key_of_cell] = max(
            worst.get(key_of_cell, cell), cell, key=lambda region: (region.lanes[-1].fast, region.trusted)
        )
    return [asdict(cell) for _, cell in sorted(worst.items(), key=lambda item: (-item[0][0], item[0][1]))]


def _rewiring(ground: Ground, scale: Scale, policy: Policy, key: int, tell: Tell) -> dict[str, Any]:
    """Return `lift`, the largest factor by which a tried person changed their own trust."""
    tell("rewiring one's own vouches")

    def score(edges: Edges, seeds: Integers, size: int) -> Floats:
        return first_passage(edges, seeds, size, policy.parameters).mass

    honest = people_reached(ground)
    people = np.random.default_rng(key).choice(honest, min(scale.people, len(honest)), replace=False)
    lifts = self_lifts(ground, score, people)
    return {"people": len(people), "ways": len(lifts), "lift": largest_lift(lifts)}


def _graph(ground: Ground, policy: Policy) -> dict[str, Any]:
    trust = first_passage(ground.edges, ground.seeds, ground.size, policy.parameters).trust
    honest = people_reached(ground)
    return {
        "people": ground.size,
        "vouches": len(ground.edges.voucher),
        "seeds": len(ground.seeds),
        "reached": len(honest),
        "trusted": int((trust[honest] >= HALF).sum()),
    }


def _bombing(ground: Ground, policy: Policy, key: int, tell: Tell) -> list[dict[str, Any]]:
    tell("denounce bombing")
    plans = [Plan(top=top) for top in (RANDOM, MOST_TRUSTED)]
    strength = policy.denounce_strength
    return [
        asdict(simulate_bombing(ground, plan, policy.parameters, strength, np.random.default_rng(key)))
        for plan in plans
    ]


def _farming(ground: Ground, policy: Policy, tell: Tell) -> dict[str, Any] | None:
    """Return the largest gain of small merges as vouches under the set weights; None if merges do not count."""
    tell("merge farming")
    if policy.merge_weight <= 0:
        return None
    farmed = simulate_farming(ground, FARMED, policy.merge_weight, policy.merge_cap, policy.parameters)[-1]
    return {"fakes": FARMED, **asdict(farmed)}


def _quoting(ground: Ground, policy: Policy, tell: Tell) -> dict[str, Any]:
    """Return the largest gain of small merges as evidence under the set weights; `without`: s without it."""
    tell("quoted merges")
    rows = simulate_evidence(ground, FARMED, policy.vouch_weight, policy.evidence_weight, policy.parameters)
    return {"fakes": FARMED, "without": rows[0].by_trusted, **asdict(rows[-1])}


def _stolen(ground: Ground, scale: Scale, policy: Policy, tell: Tell) -> dict[str, Any]:
    """Return the worst and the median of the tried accounts; `fast`: fakes in the lane by number of farmed merges."""
    tell("stolen accounts")
    results = [
        simulate_theft(ground, int(person), policy).brought
        for person in choose_regulars(ground, policy.parameters, scale.stolen)
    ]
    return {
        "tried": len(results),
        "trusted": max((result.above for result in results), default=0),
        "trusted_median": float(np.median([result.above for result in results])) if results else 0.0,
        "on_two": max((result.on_two for result in results), default=0),
        "fast": [max((result.fast[index] for result in results), default=0) for index in range(len(RECORDS))],
    }


SITE = "select contributor_id from seeds where repository_id = 0"


def present_ground(rows: Rows, now: datetime, policy: Policy) -> Ground:
    """Read the present ground: the site's seeds, vouches and merges that count as such, weighed at `now`."""
    graph = read_graph(rows, now, policy)
    seeds = np.flatnonzero(np.isin(graph.contributor_ids, rows.columns(SITE)["contributor_id"]))
    return Ground(graph.edges, seeds.astype(np.int64), len(graph.contributor_ids))
