"""Dominators: the one account that all of somebody's trust passes through. Pure NumPy, from the trust run's transfers.

The hop limit is part of the definition: `e` dominates `v` when every walk of at most L vouches from a seed to `v`
passes `e`, so that without `e` the trust in `v` is exactly 0. A detour of more than L vouches carries no trust and
saves nobody; the dominators of plain graph theory count it, and would call some people safe whose trust hangs on one.

Everybody who dominates `v` lies on each of its shortest walks, so there is at most one at each distance, and the sets
of two walks are compared distance by distance: L sweeps over the edges find everybody's dominators. They form no tree:
a way round that still reaches somebody may be one vouch too long for whom they vouch for.
"""

import numpy as np

from scoring.graph import Integers
from scoring.transfers import Transfers

NOBODY = -1


def find_dominators(flow: Transfers, hops: int) -> Integers:
    """int64[size, hops]: who dominates each person, by distance from the seeds (0: a seed); -1 where nobody does.

    Nobody dominates a seed, or a person whom no transfer above 0 reaches within `hops`; nobody dominates themselves.
    Linear in the transfers: `hops` sweeps over them, of `hops` columns each.
    """
    size = len(flow.distance)
    common = np.full((size, hops + 1), NOBODY)
    depth = np.where(flow.distance == 0, 0, NOBODY)
    seeds = np.flatnonzero(depth == 0)
    common[seeds, 0] = seeds
    live = np.flatnonzero(flow.amount > 0)
    live = live[np.argsort(flow.subject[live], kind="stable")]
    voucher, subject = flow.voucher[live], flow.subject[live]
    for hop in range(1, hops + 1):
        usable = depth[voucher] >= 0
        reached, shared = _shared_by_vouchers(common, voucher[usable], subject[usable])
        depth[reached[depth[reached] < 0]] = hop
        shared[np.arange(len(reached)), depth[reached]] = reached
        if np.array_equal(common[reached], shared):
            break  # nobody is new and no set has shrunk, so no later hop changes one
        common[reached] = shared
    everybody = np.flatnonzero(depth >= 0)
    common[everybody, depth[everybody]] = NOBODY
    return common[:, :hops]


def immediate_dominators(flow: Transfers, hops: int) -> Integers:
    """int64[size]: the nearest account whose loss would cut each person off; -1 where there is none.

    A seed is named where all walks begin at it (always, if it is the only one). -1 also stands for seeds and for people
    beyond reach: `distance` tells them apart.
    """
    found = find_dominators(flow, hops)
    nearest = found[:, 0].copy()
    for column in found.T[1:]:
        nearest = np.where(column == NOBODY, nearest, column)
    return nearest


def hangs_on_one(dominator: Integers, distance: Integers) -> np.ndarray:
    """bool[size]: whose trust one account that is no seed can end, from `immediate_dominators`; such stay out of lanes.

    Whoever stands behind a single bought vouch is among them, whatever the shape and the number of their fakes.
    """
    return (dominator != NOBODY) & (distance[dominator] != 0)


def _shared_by_vouchers(common: Integers, voucher: Integers, subject: Integers) -> tuple[Integers, Integers]:
    """The subjects, each once, and what all their vouchers have in common, from edges sorted by subject."""
    starts = np.flatnonzero(np.diff(subject, prepend=NOBODY))
    if not len(starts):
        return subject, common[:0].copy()
    offered = common[voucher]
    lowest = np.minimum.reduceat(offered, starts, axis=0)
    highest = np.maximum.reduceat(offered, starts, axis=0)
    return subject[starts], np.where(lowest == highest, lowest, NOBODY)
