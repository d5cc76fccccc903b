"""Dominators: the one account that all of somebody's trust passes through. Pure NumPy, from the trust run's transfers.

The hop limit is part of the definition: `e` dominates `v` when every walk of at most L vouches from a seed to `v`
passes `e`, so that without `e` the trust in `v` is exactly 0. A detour of more than L vouches carries no trust and
saves nobody; the dominators of plain graph theory count it, and would call some people safe whose trust hangs on one.

Everybody who dominates `v` lies on each of its shortest walks, so there is at most one at each distance, and the sets
of two walks are compared distance by distance: L sweeps over the edges find everybody's dominators. They form no tree:
a way round that still reaches somebody may be one vouch too long for whom they vouch for.
"""

import numpy as np
from numpy.typing import NDArray

from scoring.trust.first_passage import Transfers
from scoring.trust.graph import Integers, order_by_subject

NOBODY = -1


def find_dominators(flow: Transfers, hops: int) -> Integers:
    """int64[size, hops]: who dominates each person, by distance from the seeds (0: a seed); -1 where nobody does.

    Nobody dominates a seed, or a person whom no transfer above 0 reaches within `hops`; nobody dominates themselves.
    Linear in the transfers: `hops` sweeps over them, of `hops` columns each.
    """
    size = len(flow.distance)
    # By distance: who is common to all walks there; people stand at their own distance while they are looked at.
    common = [np.full(size, NOBODY, dtype=np.int32) for _ in range(hops)]
    depth = np.where(flow.distance == 0, 0, NOBODY)
    common[0][depth == 0] = np.flatnonzero(depth == 0)
    order = order_by_subject(flow.voucher, flow.subject, size)
    order = order[flow.amount[order] > 0]
    voucher, subject = flow.voucher[order], flow.subject[order]
    for hop in range(1, hops + 1):
        usable = depth[voucher] >= 0
        vouchers, starts = voucher[usable], np.flatnonzero(np.diff(subject[usable], prepend=NOBODY))
        reached = subject[usable][starts]
        depth[reached[depth[reached] < 0]] = hop
        found = [
            _shared(column, place, vouchers, starts, reached, depth) for place, column in enumerate(common[: hop + 1])
        ]
        pairs = list(zip(common, found, strict=False))
        if all(np.array_equal(column[reached], shared) for column, shared in pairs):
            break  # nobody is new and no set has shrunk, so no later hop changes one
        for column, shared in pairs:
            column[reached] = shared
    for place, column in enumerate(common):
        column[depth == place] = NOBODY
    return np.column_stack(common).astype(np.int64)


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


def _shared(
    column: NDArray[np.int32], place: int, voucher: Integers, starts: Integers, reached: Integers, depth: Integers
) -> NDArray[np.int32]:
    """Return what the vouchers of the `reached`, whose edges begin at `starts`, have in common at the distance
    `place`.
    """
    if not len(starts):
        return column[:0]
    offered = column[voucher]
    lowest, highest = np.minimum.reduceat(offered, starts), np.maximum.reduceat(offered, starts)
    shared = np.where(lowest == highest, lowest, np.int32(NOBODY))
    own = depth[reached] == place
    shared[own] = reached[own]
    return shared
