"""Reports the attack simulations on one graph: what each attack costs and what it reaches, as plain values. Pure.

A report names nobody: it holds counts and shares, so that it can be kept and shown whatever becomes of the people.

The ground of the attacks is the present graph: the site's seeds and every vouch that stands.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import numpy as np

from ingest.store.transaction import Rows
from scoring.config.policy import Policy
from scoring.redteam.attack import Attack, Ground, attack, choose_vouchers
from scoring.redteam.attacks import SHAPES, Plan, bomb, farm, largest_lift, quote, self_lifts
from scoring.redteam.fitting import regulars, steal
from scoring.redteam.measures import HALF, RECORDS, Lanes, lanes_of, reached, standing_on_two
from scoring.trust.first_passage import first_passage
from scoring.trust.graph import Edges, Floats, Integers
from scoring.trust.table import read_graph

RANDOM, MOST_TRUSTED = 1.0, 0.05  # the share of people, most trusted first, among whom vouches are bought
FARMED = 20  # fakes whose small changes are merged
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Grid:
    """The regions to play: numbers of fakes and of bought vouches, the people who are bought, and draws of each."""

    fakes: tuple[int, ...]
    bought: tuple[int, ...]
    tops: tuple[float, ...] = (RANDOM, MOST_TRUSTED)
    draws: int = 1


@dataclass(frozen=True, slots=True)
class Scale:
    """The extent of a run: the grid of regions, people who rewire their vouches, accounts that are stolen."""

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
    """A region that was played. `trusted` fakes reach s >= .5, `on_two` of them hang on no single account but a seed;
    `lanes`: where the gate sends the fakes, for each number of farmed clean merges.
    """

    play: Play
    trusted: int
    on_two: int
    lanes: tuple[Lanes, ...]


def attack_everything(ground: Ground, scale: Scale, policy: Policy, key: int, tell: Tell) -> dict[str, Any]:
    """Every attack on the ground; `key` seeds the draws, `tell` hears what is played. ValueError without any trust.

    The values are numbers, strings, lists and dictionaries, ready for JSON; shares and s lie in [0, 1].
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
    """Every region of the grid. `key` seeds the draws; `tell` hears of each shape.

    A region is behind the same bought people at every number of fakes, so that its growth is the fakes' alone. No more
    vouches are bought than there are fakes. ValueError where nobody but seeds can be bought.
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
    """Return how far the fakes of a region come.

    A second path is sought only where it could matter, for it takes long.
    """
    trust = first_passage(attacked.edges, ground.seeds, attacked.size, policy.parameters).trust[attacked.fakes]
    passing, everybody = trust >= HALF, np.ones(len(trust), dtype=bool)
    safe = ~everybody
    if passing.any() or lanes_of(trust, everybody, RECORDS[-1], policy).fast:
        safe = standing_on_two(attacked, ground.seeds, policy.parameters)[attacked.fakes]
    lanes = tuple(lanes_of(trust, safe, record, policy) for record in RECORDS)
    return Cell(play, int(passing.sum()), int((passing & safe).sum()), lanes)


def _regions(ground: Ground, grid: Grid, policy: Policy, key: int, tell: Tell) -> list[dict[str, Any]]:
    """The worst region for each number of bought vouches and each way to choose whose are bought."""
    worst: dict[tuple[float, int], Cell] = {}
    for play, attacked in regions(ground, grid, key, policy, tell):
        cell, key_of_cell = judge_fakes(ground, play, attacked, policy), (play.top, play.bought)
        worst[key_of_cell] = max(worst.get(key_of_cell, cell), cell, key=lambda region: (region.lanes[-1].fast, region.trusted))
    return [asdict(cell) for _, cell in sorted(worst.items(), key=lambda item: (-item[0][0], item[0][1]))]


def _rewiring(ground: Ground, scale: Scale, policy: Policy, key: int, tell: Tell) -> dict[str, Any]:
    """`lift`: the largest factor by which anybody who was tried changed their own trust."""
    tell("rewiring one's own vouches")

    def score(edges: Edges, seeds: Integers, size: int) -> Floats:
        return first_passage(edges, seeds, size, policy.parameters).mass

    honest = reached(ground)
    people = np.random.default_rng(key).choice(honest, min(scale.people, len(honest)), replace=False)
    lifts = self_lifts(ground, score, people)
    return {"people": len(people), "ways": len(lifts), "lift": largest_lift(lifts)}


def _graph(ground: Ground, policy: Policy) -> dict[str, Any]:
    trust = first_passage(ground.edges, ground.seeds, ground.size, policy.parameters).trust
    honest = reached(ground)
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
    return [asdict(bomb(ground, plan, policy.parameters, strength, np.random.default_rng(key))) for plan in plans]


def _farming(ground: Ground, policy: Policy, tell: Tell) -> dict[str, Any] | None:
    """The most that small merges bring as vouches, by the weights that are set; None where merges do not count so."""
    tell("merge farming")
    if policy.merge_weight <= 0:
        return None
    farmed = farm(ground, FARMED, policy.merge_weight, policy.merge_cap, policy.parameters)[-1]
    return {"fakes": FARMED, **asdict(farmed)}


def _quoting(ground: Ground, policy: Policy, tell: Tell) -> dict[str, Any]:
    """The most that small merges bring as evidence on a vouch, by the weights that are set; `without`: s without it."""
    tell("quoted merges")
    rows = quote(ground, FARMED, policy.vouch_weight, policy.evidence_weight, policy.parameters)
    return {"fakes": FARMED, "without": rows[0].by_trusted, **asdict(rows[-1])}


def _stolen(ground: Ground, scale: Scale, policy: Policy, tell: Tell) -> dict[str, Any]:
    """The worst and the median over the accounts tried; `fast`: how many fakes the gate lets into the lane, for each
    number of clean merges that were farmed for each."""
    tell("stolen accounts")
    results = [steal(ground, int(person), policy).brought for person in regulars(ground, policy.parameters, scale.stolen)]
    return {
        "tried": len(results),
        "trusted": max((result.above for result in results), default=0),
        "trusted_median": float(np.median([result.above for result in results])) if results else 0.0,
        "on_two": max((result.on_two for result in results), default=0),
        "fast": [max((result.fast[index] for result in results), default=0) for index in range(len(RECORDS))],
    }


SITE = "select contributor_id from seeds where repository_id = 0"


def present_ground(rows: Rows, now: datetime, policy: Policy) -> Ground:
    """The vouches, and the merges that count as such, as they weigh at `now`, from the site's seeds; reads only."""
    graph = read_graph(rows, now, policy)
    seeds = np.flatnonzero(np.isin(graph.contributor_ids, rows.columns(SITE)["contributor_id"]))
    return Ground(graph.edges, seeds.astype(np.int64), len(graph.contributor_ids))
