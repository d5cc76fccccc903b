"""The attack table: every shape at every size against every score, and its summary in a few figures. Pure."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoring.graph import Floats, Integers
from scoring.policy import Policy
from scoring.redteam.attack import Attack, Ground, attack, choose_vouchers
from scoring.redteam.lanes import RECORDS, Lanes, lanes_of
from scoring.redteam.measures import Outcome, half_mass, matched_mark, measure, reached, standing_on_two
from scoring.redteam.rivals import OURS, SCORES, Score
from scoring.redteam.shapes import SHAPES
from scoring.trust import first_passage

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
