"""Dominators: the one account that all of somebody's trust passes through. Pure NumPy, from the trust run's transfers.

The hop limit is part of the definition: `e` dominates `v` when every walk of at most L vouches from a seed to `v`
passes `e`, so that without `e` the trust in `v` is exactly 0. A detour of more than L vouches carries no trust. The
dominators of plain graph theory count such detours, and would call people safe whose trust depends on one account.

Every dominator of `v` lies on each of its shortest walks, so there is at most one at each distance, and the sets of two
walks are compared distance by distance: L sweeps over the edges find everybody's dominators. Unlike in plain graph
theory they form no tree: a detour that still reaches a person may be one vouch too long for those they vouch for.
"""

import numpy as np
from numpy.typing import NDArray

from scoring.trust.first_passage import Transfers
from scoring.trust.graph import Integers, order_by_subject

NOBODY = -1


def find_dominators(flow: Transfers, hops: int) -> Integers:
    """Return the dominators of each person by distance from the seeds (0: a seed) as int64[size, hops]; -1: none.

    Nobody dominates a seed, or a person whom no transfer above 0 reaches within `hops`; nobody dominates themselves.
    Linear in the transfers: `hops` sweeps over them, of `hops` columns each.
    """
    size = len(flow.distance)
    # By distance the account that all walks share; during the sweeps people stand at their own distance.
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
        shared_columns = [
            _shared(column, place, vouchers, starts, reached, depth) for place, column in enumerate(common[: hop + 1])
        ]
        pairs = list(zip(common, shared_columns, strict=False))
        if all(np.array_equal(column[reached], shared) for column, shared in pairs):
            break  # no person is new and no set has shrunk, so later hops change nothing
        for column, shared in pairs:
            column[reached] = shared
    for place, column in enumerate(common):
        column[depth == place] = NOBODY
    return np.column_stack(common).astype(np.int64)


def immediate_dominators(flow: Transfers, hops: int) -> Integers:
    """Return the nearest account whose loss would cut each person off as int64[size]; -1 where there is none.

    It is a seed where all walks begin at that seed (always, if it is the only one). Seeds and people beyond reach also
    have -1: `distance` tells them apart.
    """
    dominators = find_dominators(flow, hops)
    nearest = dominators[:, 0].copy()
    for column in dominators.T[1:]:
        nearest = np.where(column == NOBODY, nearest, column)
    return nearest


def hangs_on_one(dominator: Integers, distance: Integers) -> np.ndarray:
    """Return the people whose trust can be ended by one account that is not a seed, as bool[size].

    `dominator` comes from `immediate_dominators`. Such people are not fast-laned. Everybody behind a single bought
    vouch is among them, whatever the shape and the number of their fakes.
    """
    return (dominator != NOBODY) & (distance[dominator] != 0)


def _shared(
    column: NDArray[np.int32], place: int, voucher: Integers, starts: Integers, reached: Integers, depth: Integers
) -> NDArray[np.int32]:
    """Return the account at distance `place` that all vouchers of a person share, for each of the `reached`."""
    if not len(starts):
        return column[:0]
    offered = column[voucher]
    lowest, highest = np.minimum.reduceat(offered, starts), np.maximum.reduceat(offered, starts)
    shared = np.where(lowest == highest, lowest, np.int32(NOBODY))
    own = depth[reached] == place
    shared[own] = reached[own]
    return shared
