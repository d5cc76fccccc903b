"""The whole red team on one graph: every attack, ours and the rivals side by side, as plain values. Pure.

A report names nobody: it holds counts and shares, so that it can be kept and shown whatever becomes of the people.

The attack table: every shape at every size against every score, and its summary in a few figures. Pure.

The present graph as the red team's ground: the site's seeds and every vouch that stands.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ingest.store.transaction import Rows
from scoring.config.policy import Policy
from scoring.redteam.attack import Attack, Ground, attack, choose_vouchers
from scoring.redteam.attacks import SHAPES, Plan, bomb, farm, largest_lift, quote, self_lifts
from scoring.redteam.baselines import OURS, SCORES, Score, first_passage_by
from scoring.redteam.fitting import CROWD, fit, regulars, steal
from scoring.redteam.measures import (
    HALF,
    RECORDS,
    Lanes,
    Outcome,
    half_mass,
    lanes_of,
    matched_mark,
    measure,
    reached,
    standing_on_two,
)
from scoring.trust.first_passage import first_passage
from scoring.trust.graph import Floats, Integers
from scoring.trust.table import read_graph

RANDOM, MOST_TRUSTED = 1.0, 0.05  # the share of people, most trusted first, among whom vouches are bought


@dataclass(frozen=True, slots=True)
class Grid:
    """Which attacks are played: numbers of fakes and of bought vouches, who is bought, and draws of each."""

    fakes: tuple[int, ...]
    bought: tuple[int, ...]
    tops: tuple[float, ...] = (RANDOM, MOST_TRUSTED)
    draws: int = 1


QUICK = Grid(fakes=(100, 1_000), bought=(1, 20))
FULL = Grid(fakes=(10, 100, 1_000, 10_000), bought=(1, 5, 20, 50), draws=3)


@dataclass(frozen=True, slots=True)
class Cell:
    """One attack as one score sees it. `on_two`: fakes at s >= .5 for each bought vouch whose trust no single account
    but a seed can end; `lanes`: where the gate sends the fakes, for each number of farmed clean merges. A rival has no
    such rule and no gate: None and ().
    """

    score: str
    shape: str
    top: float
    fakes: int
    bought: int
    draw: int
    outcome: Outcome
    on_two: float | None
    lanes: tuple[Lanes, ...] = ()


def play(
    ground: Ground,
    grid: Grid,
    key: int,
    policy: Policy,
    scores: dict[str, Score] = SCORES,
    tell: Callable[[str], None] = lambda words: None,
) -> list[Cell]:
    """Every attack of the grid by every score and by the gate. `key` seeds the draws; `tell` hears of each shape.

    A region is behind the same bought people at every number of fakes, so that its growth is the fakes' alone. No more
    vouches are bought than there are fakes. ValueError where nobody but seeds can be bought.
    """
    trust = first_passage(ground.edges, ground.seeds, ground.size, policy.parameters).mass
    honest = reached(ground)
    if not trust.any():
        raise ValueError("no vouch leads from a seed to anybody, so there is nobody whose vouch could be bought")
    cells: list[Cell] = []
    for place, (shape, build) in enumerate(SHAPES.items()):
        tell(shape)
        for draw, top, bought, fakes in _plays(grid):
            generator = np.random.default_rng([key, draw, place, bought, round(top * 1000)])
            vouchers = choose_vouchers(trust, ground.seeds, bought, top, generator)
            attacked = attack(ground, build, vouchers, fakes, generator)
            for name, outcome, on_two, lanes in _judged(ground, attacked, honest, policy, scores):
                cells.append(Cell(name, shape, top, fakes, bought, draw, outcome, on_two, lanes))
    return cells


def _plays(grid: Grid) -> Iterable[tuple[int, float, int, int]]:
    """Draw, top, bought, fakes of each attack."""
    for draw in range(grid.draws):
        for top in grid.tops:
            for bought in grid.bought:
                yield from ((draw, top, bought, fakes) for fakes in grid.fakes if fakes >= bought)


def _judged(
    ground: Ground, attacked: Attack, honest: Integers, policy: Policy, scores: dict[str, Score]
) -> Iterable[tuple[str, Outcome, float | None, tuple[Lanes, ...]]]:
    """The outcome by each score, ours first."""
    ours = first_passage(attacked.edges, ground.seeds, attacked.size, policy.parameters)
    mark, trust = half_mass(policy.parameters), ours.trust[attacked.fakes]
    passing = ours.mass[attacked.fakes] >= mark
    safe = _safe(ground, attacked, passing, trust, policy)
    lanes = tuple(lanes_of(trust, safe, record, policy) for record in RECORDS)
    on_two = int((passing & safe).sum()) / attacked.bought
    yield OURS, measure(ours.mass, honest, attacked, mark), on_two, lanes
    count = int((ours.mass[honest] >= mark).sum())
    for name, score in scores.items():
        found = score(attacked.edges, ground.seeds, attacked.size)
        yield name, measure(found, honest, attacked, matched_mark(found, honest, count)), None, ()


def _safe(
    ground: Ground, attacked: Attack, passing: NDArray[np.bool_], trust: Floats, policy: Policy
) -> NDArray[np.bool_]:
    """Which fakes hang on no single account; nobody, unasked, where nobody passes and the lane would take nobody."""
    everybody = np.ones(len(trust), dtype=bool)
    if not (passing.any() or lanes_of(trust, everybody, RECORDS[-1], policy).fast):
        return ~everybody
    return standing_on_two(attacked, ground.seeds, policy.parameters)[attacked.fakes]


def summarize(cells: Sequence[Cell], score: str, top: float) -> dict[str, Any]:
    """The figures of one score where the `top` share was bought, as plain values for a table or JSON."""
    mine = [cell for cell in cells if (cell.score, cell.top) == (score, top)]
    by_shape = {shape: _mean(cell.outcome.auc for cell in mine if cell.shape == shape) for shape in SHAPES}
    worst = min(by_shape, key=lambda shape: by_shape[shape])
    single = [cell.on_two for cell in mine if cell.bought == 1 and cell.on_two is not None]
    above = [cell.outcome.above for cell in mine]
    shares = [cell.outcome.share for cell in mine]
    return {
        "auc": _mean(by_shape.values()),
        "auc_worst": by_shape[worst],
        "worst_shape": worst,
        "auc_by_shape": by_shape,
        "above_mean": _mean(above),
        "above_worst": max(above),
        "on_two_behind_one": max(single, default=None),
        "share_mean": _mean(shares),
        "share_worst": max(shares),
        "growth": growth(mine),
        "lanes": _lanes(mine),
    }


def _lanes(cells: Sequence[Cell]) -> list[dict[str, int]]:
    """For each record the attack with the most fakes in the fast lane; `fast_behind_one`: the most behind one bought
    vouch. Empty for a rival.
    """
    rows = []
    for place in range(len(cells[0].lanes)):
        worst = max((cell.lanes[place] for cell in cells), key=lambda lanes: (lanes.fast, lanes.normal))
        behind_one = max((cell.lanes[place].fast for cell in cells if cell.bought == 1), default=0)
        rows.append(asdict(worst) | {"fast_behind_one": behind_one})
    return rows


def growth(cells: Sequence[Cell]) -> float | None:
    """The largest factor by which the largest region caught more than the one of 100 fakes (of the smallest number
    played, where 100 was not) behind the same bought vouches; None where only one number of fakes was played.
    """
    sizes = sorted({cell.fakes for cell in cells})
    if len(sizes) < 2:
        return None
    small = 100 if 100 in sizes[:-1] else sizes[0]
    caught = {_key(cell): cell.outcome.caught for cell in cells if cell.fakes == sizes[-1]}
    pairs = [(caught[_key(cell)], cell.outcome.caught) for cell in cells if cell.fakes == small]
    return max((large / before for large, before in pairs if before > 0), default=1.0)


def _key(cell: Cell) -> tuple[str, str, float, int, int]:
    return cell.score, cell.shape, cell.top, cell.bought, cell.draw


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))


# (what one merge weighs, what all by one person weigh at most); those of the settings are played beside them
MERGE_WEIGHTS = ((0.01, 0.05), (0.03, 0.09), (0.05, 0.30), (0.10, 1.00))
# (what a vouch weighs without evidence, what each verified pull request adds); the settings' own beside them
EVIDENCE_WEIGHTS = ((1.00, 0.00), (0.90, 0.05), (0.75, 0.125), (0.50, 0.25))
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is played: the grid of the attack table, people who rewire, accounts that are stolen, vouches bought."""

    name: str
    grid: Grid
    people: int
    stolen: int
    bought: tuple[int, ...]


BRIEF = Scale("brief", QUICK, people=5, stolen=10, bought=(5, 20))
WHOLE = Scale("whole", FULL, people=50, stolen=50, bought=(1, 5, 20, 50))


def attack_everything(ground: Ground, scale: Scale, policy: Policy, key: int, tell: Tell) -> dict[str, Any]:
    """Every attack on the ground; `key` seeds the draws, `tell` hears what is played. ValueError without any trust.

    The values are numbers, strings, lists and dictionaries, ready for JSON; shares and s lie in [0, 1].
    """
    return {
        "graph": _graph(ground, policy),
        "scale": {"name": scale.name, **asdict(scale.grid), "people": scale.people, "stolen": scale.stolen, "key": key},
        "parameters": asdict(policy.parameters),
        "scores": _scores(ground, scale, policy, key, tell),
        "bombing": _bombing(ground, policy, key, tell),
        "farming": _farming(ground, policy, tell),
        "quoting": _quoting(ground, policy, tell),
        "fitted": _fitted(ground, scale, policy, key, tell),
        "stolen": _stolen(ground, scale, policy, tell),
    }


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


def _scores(ground: Ground, scale: Scale, policy: Policy, key: int, tell: Tell) -> dict[str, Any]:
    """For each score the largest self-lift and the summaries of the table."""
    cells = play(ground, scale.grid, key, policy, SCORES, lambda shape: tell(f"regions: {shape}"))
    tell("rewiring one's own vouches")
    honest = reached(ground)
    people = np.random.default_rng(key).choice(honest, min(scale.people, len(honest)), replace=False)
    scores = {OURS: first_passage_by(policy.parameters), **SCORES}
    return {
        name: {
            "self_lift": largest_lift(self_lifts(ground, score, people)),
            "random": summarize(cells, name, RANDOM),
            "most_trusted": summarize(cells, name, MOST_TRUSTED),
        }
        for name, score in scores.items()
    }


def _bombing(ground: Ground, policy: Policy, key: int, tell: Tell) -> list[dict[str, Any]]:
    tell("denounce bombing")
    plans = [Plan(top=top) for top in (RANDOM, MOST_TRUSTED)]
    strength = policy.denounce_strength
    return [asdict(bomb(ground, plan, policy.parameters, strength, np.random.default_rng(key))) for plan in plans]


def _farming(ground: Ground, policy: Policy, tell: Tell) -> list[dict[str, Any]]:
    tell("merge farming")
    served = [(policy.merge_weight, policy.merge_cap)] if policy.merge_weight > 0 else []
    played = dict.fromkeys((*MERGE_WEIGHTS, *served))
    return [asdict(row) for each, cap in played for row in farm(ground, 20, each, cap, policy.parameters)]


def _quoting(ground: Ground, policy: Policy, tell: Tell) -> list[dict[str, Any]]:
    tell("quoted merges")
    played = dict.fromkeys((*EVIDENCE_WEIGHTS, (policy.vouch_weight, policy.evidence_weight)))
    return [asdict(row) for base, each in played for row in quote(ground, 20, base, each, policy.parameters)]


def _fitted(ground: Ground, scale: Scale, policy: Policy, key: int, tell: Tell) -> list[dict[str, Any]]:
    tell("cliques fitted to the budget")
    return [
        asdict(fit(ground, bought, top, policy, np.random.default_rng([key, bought])))
        for top in (RANDOM, MOST_TRUSTED)
        for bought in scale.bought
    ]


def _stolen(ground: Ground, scale: Scale, policy: Policy, tell: Tell) -> dict[str, Any]:
    """The worst and the median over the accounts tried; `in_lane` as the gate sorts the fakes, without a record and
    with `record` clean merges each."""
    tell("stolen accounts")
    tried = regulars(ground, policy.parameters, scale.stolen)
    found = [steal(ground, int(person), policy).brought for person in tried]
    fast = [max((one.fast[place] for one in found), default=0) for place in range(len(RECORDS))]
    return {
        "tried": len(found),
        "above": max((one.above for one in found), default=0),
        "above_median": float(np.median([one.above for one in found])) if found else 0.0,
        "on_two": max((one.on_two for one in found), default=0),
        "crowd": CROWD if found else 0,
        "fast": dict(zip(map(str, RECORDS), fast, strict=True)),
        "in_lane": fast[0],
        "record": RECORDS[-1],
        "in_lane_with_record": fast[-1],
        "lane_open": policy.thresholds.t_high is not None,
    }


SITE = "select contributor_id from seeds where repository_id = 0"


def present_ground(rows: Rows, now: datetime, policy: Policy) -> Ground:
    """The vouches, and the merges that count as such, as they weigh at `now`, from the site's seeds; reads only."""
    graph = read_graph(rows, now, policy)
    seeds = np.flatnonzero(np.isin(graph.contributor_ids, rows.columns(SITE)["contributor_id"]))
    return Ground(graph.edges, seeds.astype(np.int64), len(graph.contributor_ids))
