"""The attack table of the tests: trust beside what it is held against, under the same attacks.

The rivals are in-vouch count, PageRank, and EigenTrust as the textbook loop has it: each gives a score for everybody,
larger is better; only EigenTrust knows the seeds. Trust is judged at s = .5. A rival has no such scale: it is judged at
the score that as many honest people reach under the same attack as reach s = .5, so that all are equally open.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scoring.config.policy import Parameters, Policy
from scoring.redteam.attack import (
    Attack,
    Generator,
    Ground,
    Pairs,
    choose_vouchers,
    each_to_each,
    half_mass,
    largest_gains,
    most_passing,
    people_reached,
    play_cliques,
)
from scoring.redteam.attacks import SHAPES, Score
from scoring.redteam.report import Cell, Grid, Play, judge_fakes, regions
from scoring.trust.first_passage import first_passage
from scoring.trust.graph import Edges, Floats, Integers, matrix_of, strongest

OURS = "first passage"
STEPS = 200
TOLERANCE = 1e-9


def in_vouches(edges: Edges, seeds: Integers, size: int) -> Floats:
    """How many people vouch for each, themselves included: what a counter shows."""
    _, subject, _ = strongest(edges.voucher, edges.subject, edges.weight, size)
    return np.bincount(subject, minlength=size).astype(np.float64)


def pagerank(edges: Edges, seeds: Integers, size: int, damping: float = 0.15) -> Floats:
    """Global PageRank: the walk restarts anywhere with probability `damping`, and from who vouches for nobody."""
    voucher, subject, weight = strongest(edges.voucher, edges.subject, edges.weight, size)
    given = np.bincount(voucher, weights=weight, minlength=size)
    onward = matrix_of(voucher, subject, weight / given[voucher], size).T.tocsr()
    walk = home = np.full(size, 1 / size)
    for _ in range(STEPS):
        following = (1 - damping) * (onward @ walk + walk[given == 0].sum() * home) + damping * home
        change = np.abs(following - walk).sum()
        walk = following
        if change <= TOLERANCE:
            break
    return walk


def textbook_eigentrust(edges: Edges, seeds: Integers, size: int, damping: float = 0.15) -> Floats:
    """The loop t = (1 - a) C^T t + a p; t /= sum(t), with a self-vouch counted and idle mass scaled away each step.

    Broken on purpose, as it is found in textbooks: a closed loop soaks trust until most people's idle share is small
    enough. `scoring.trust.first_passage` mends both.
    """
    voucher, subject, weight = strongest(edges.voucher, edges.subject, edges.weight, size)
    given = np.bincount(voucher, weights=weight, minlength=size)
    onward = matrix_of(voucher, subject, weight / given[voucher], size).T.tocsr()
    home = np.zeros(size)
    home[seeds] = 1 / max(len(seeds), 1)
    walk = home
    for _ in range(STEPS):
        following = (1 - damping) * (onward @ walk) + damping * home
        following /= max(following.sum(), np.finfo(float).tiny)
        change = np.abs(following - walk).sum()
        walk = following
        if change <= TOLERANCE:
            break
    return walk


SCORES: dict[str, Score] = {
    "in-vouch count": in_vouches,
    "PageRank": pagerank,
    "textbook EigenTrust": textbook_eigentrust,
}


def first_passage_by(parameters: Parameters) -> Score:
    """Ours as such a score: the trust mass F, 0 for a seed; s = F / (F + c^2) keeps its order."""
    return lambda edges, seeds, size: first_passage(edges, seeds, size, parameters).mass


@dataclass(frozen=True, slots=True)
class Outcome:
    """One score under one attack.

    `auc`: the chance that a random honest person whom the seeds reach outranks a random fake, ties half; `above`:
    fakes at or above the mark for each bought vouch; `caught`: the sum of the fakes' scores, `share` of everybody's
    sum in [0, 1].
    """

    auc: float
    above: float
    caught: float
    share: float


def measure(found: Floats, honest: Integers, attack: Attack, mark: float) -> Outcome:
    """What the score `found` (one for each person) says of the fakes and of the `honest`, judged at `mark`."""
    fakes = found[attack.fakes]
    total = float(found.sum())
    caught = float(fakes.sum())
    above = int((fakes >= mark).sum()) / attack.bought
    return Outcome(auc(found[honest], fakes), above, caught, caught / total if total > 0 else 0.0)


def auc(higher: Floats, lower: Floats) -> float:
    """The chance that a random one of `higher` exceeds a random one of `lower`, ties half; .5 where one is empty."""
    if not len(higher) or not len(lower):
        return 0.5
    ranked = np.sort(lower)
    below = np.searchsorted(ranked, higher, "left") + np.searchsorted(ranked, higher, "right")
    return float(below.mean() / 2 / len(ranked))


def matched_mark(found: Floats, honest: Integers, passing: int) -> float:
    """The score that the best `passing` of the honest reach; infinite where nobody should."""
    if not passing:
        return float("inf")
    return float(np.sort(found[honest])[-passing])


@dataclass(frozen=True, slots=True)
class Row:
    """One region as one score sees it; `cell` is what the gate says of the fakes, None for a rival."""

    score: str
    play: Play
    outcome: Outcome
    cell: Cell | None


def play(ground: Ground, grid: Grid, key: int, policy: Policy, rivals: dict[str, Score] = SCORES) -> list[Row]:
    """Every region of the grid by trust and by each rival."""
    return [
        row
        for played, attacked in regions(ground, grid, key, policy, lambda words: None)
        for row in _judged(ground, played, attacked, policy, rivals)
    ]


def _judged(ground: Ground, played: Play, attacked: Attack, policy: Policy, rivals: dict[str, Score]) -> Iterator[Row]:
    honest, mark = people_reached(ground), half_mass(policy.parameters)
    mass = first_passage(attacked.edges, ground.seeds, attacked.size, policy.parameters).mass
    yield Row(OURS, played, measure(mass, honest, attacked, mark), judge_fakes(ground, played, attacked, policy))
    passing = int((mass[honest] >= mark).sum())
    for name, score in rivals.items():
        found = score(attacked.edges, ground.seeds, attacked.size)
        yield Row(name, played, measure(found, honest, attacked, matched_mark(found, honest, passing)), None)


def summarize(rows: Sequence[Row], score: str, top: float) -> dict[str, Any]:
    """AUC by the mean and the worst shape, and the largest share of all trust that fakes caught."""
    mine = [row for row in rows if (row.score, row.play.top) == (score, top)]
    by_shape = [_mean(row.outcome.auc for row in mine if row.play.shape == shape) for shape in SHAPES]
    return {
        "auc": _mean(by_shape),
        "auc_worst": min(by_shape),
        "share_worst": max(row.outcome.share for row in mine),
    }


def growth(rows: Sequence[Row]) -> float:
    """The largest factor by which the largest region caught more than the one of 100 fakes behind the same vouches."""
    most = max(row.play.fakes for row in rows)
    caught = {_place(row): row.outcome.caught for row in rows if row.play.fakes == most}
    small = [(_place(row), row.outcome.caught) for row in rows if row.play.fakes == 100]
    return max(caught[place] / before for place, before in small if before > 0)


def _place(row: Row) -> tuple[str, float, int, int]:
    return row.play.shape, row.play.top, row.play.bought, row.play.draw


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))


@dataclass(frozen=True, slots=True)
class Fitted:
    """The best clique behind `bought` vouches from the `top` share; `above` and `on_two` for each bought vouch."""

    top: float
    bought: int
    above: float
    on_two: float
    fast: tuple[int, ...]


def fit(ground: Ground, bought: int, top: float, policy: Policy, draw: Generator) -> Fitted:
    """The best clique behind `bought` vouches from the `top` share: all on one hub, or each on another fake."""
    mass = first_passage(ground.edges, ground.seeds, ground.size, policy.parameters).mass
    vouchers = choose_vouchers(mass, ground.seeds, bought, top, draw)

    def on_hub(fakes: Integers) -> Pairs:
        return each_to_each(vouchers, fakes[:1])

    def spread(fakes: Integers) -> Pairs:
        return np.column_stack([vouchers, fakes[np.arange(len(vouchers)) % len(fakes)]])

    limit = most_passing(mass[vouchers] * policy.parameters.transfer, policy.parameters)
    plays = [one for entering in (on_hub, spread) for one in play_cliques(ground, entering, limit, policy)]
    found = largest_gains(plays)
    count = max(len(vouchers), 1)
    return Fitted(top, bought, found.above / count, found.on_two / count, found.fast)
