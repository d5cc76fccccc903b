"""Ways to rewire one's own vouches, and what it brings whoever does it. Pure NumPy.

The attacker alone decides about `own` and any number of fresh accounts; nobody new vouches for them.
"""

from collections.abc import Callable

import numpy as np

from scoring.graph import Edges, Floats, Integers
from scoring.redteam.attack import Ground, Pairs, with_pairs
from scoring.redteam.rivals import Score

FRESH = 1_000  # accounts that cost nothing
CLIQUE = 12  # fakes in the clique: more would only dilute each other
Rewiring = Callable[[int, Integers, Integers], Pairs]  # own id, ids of fresh accounts, people who vouch for me


def _vouches(voucher: Integers | int, subject: Integers | int) -> Pairs:
    """Pairs from two columns, either of which may be one person."""
    return np.column_stack(np.broadcast_arrays(np.atleast_1d(voucher), np.atleast_1d(subject))).astype(np.int64)


def _nothing(own: int, fresh: Integers, vouchers: Integers) -> Pairs:
    return np.empty((0, 2), dtype=np.int64)


def _oneself(own: int, fresh: Integers, vouchers: Integers) -> Pairs:
    return _vouches(own, own)


def _pair(own: int, fresh: Integers, vouchers: Integers) -> Pairs:
    return _star(own, fresh[:1], vouchers)


def _star(own: int, fresh: Integers, vouchers: Integers) -> Pairs:
    return np.concatenate([_vouches(own, fresh), _vouches(fresh, own)])


def _ring(own: int, fresh: Integers, vouchers: Integers) -> Pairs:
    circle = np.concatenate([[own], fresh])
    return _vouches(circle, np.roll(circle, -1))


def _clique(own: int, fresh: Integers, vouchers: Integers) -> Pairs:
    group = np.concatenate([[own], fresh[:CLIQUE]])
    pairs = _vouches(np.repeat(group, len(group)), np.tile(group, len(group)))
    return pairs[pairs[:, 0] != pairs[:, 1]]


def _back(own: int, fresh: Integers, vouchers: Integers) -> Pairs:
    return _vouches(own, vouchers)


def _detour(own: int, fresh: Integers, vouchers: Integers) -> Pairs:
    return np.concatenate([_vouches(own, fresh[:1]), _vouches(fresh[0], vouchers)])


def _praise(own: int, fresh: Integers, vouchers: Integers) -> Pairs:
    return _vouches(fresh, own)


def _everybody(own: int, fresh: Integers, vouchers: Integers) -> Pairs:
    return _vouches(own, np.arange(fresh[0]))


REWIRINGS: dict[str, Rewiring] = {
    "vouch for nobody": _nothing,
    "vouch for yourself": _oneself,
    "vouch for one fake who vouches back": _pair,
    "a star of fakes who vouch back": _star,
    "a ring of fakes": _ring,
    "a clique of fakes": _clique,
    "vouch back for every voucher": _back,
    "a detour from a fake to every voucher": _detour,
    "fakes vouch for you, you for nobody": _praise,
    "vouch for everybody": _everybody,
}


def rewired(ground: Ground, own: int, rewire: Rewiring, fresh: int = FRESH) -> Edges:
    """The ground with all vouches by `own` replaced; the fresh accounts follow the ground's people."""
    kept = ground.edges.voucher != own
    edges = Edges(ground.edges.voucher[kept], ground.edges.subject[kept], ground.edges.weight[kept])
    vouchers = np.unique(edges.voucher[edges.subject == own])
    return with_pairs(edges, rewire(own, np.arange(ground.size, ground.size + fresh), vouchers))


def self_lifts(ground: Ground, score: Score, people: Integers, fresh: int = FRESH) -> dict[str, Floats]:
    """For each way of rewiring, the factor by which it changes the own score of each of `people` (with one above 0)."""
    before = score(ground.edges, ground.seeds, ground.size)
    able = people[before[people] > 0].tolist()
    size = ground.size + fresh
    return {
        name: np.array([score(rewired(ground, own, rewire, fresh), ground.seeds, size)[own] for own in able])
        / before[able]
        for name, rewire in REWIRINGS.items()
    }


def largest_lift(lifts: dict[str, Floats]) -> float:
    """The largest factor of all; 1 where nobody could be tried."""
    return max((float(ratios.max()) for ratios in lifts.values() if len(ratios)), default=1.0)
