"""Trust paths: the chain of vouches that carries most trust from a seed to a contributor. Pure NumPy."""

import numpy as np

from scoring.graph import Edges, Floats, Integers
from scoring.trust import Parameters, Transfers, find_transfers


def strongest_paths(edges: Edges, seeds: Integers, size: int, parameters: Parameters) -> list[tuple[int, ...]]:
    """For each person the path, seed first, whose product of transfers is largest; () beyond reach, (seed,) for a seed.

    Dynamic programming over the hops, linear in the vouches within reach. Among equal products the shorter path wins,
    then the smallest voucher at each hop counted from the contributor: equal input in any order gives equal paths.
    """
    flow = find_transfers(edges, seeds, size, parameters)
    order = np.lexsort((flow.voucher, flow.subject))
    flow = Transfers(flow.voucher[order], flow.subject[order], flow.amount[order], flow.distance)
    product = (flow.distance == 0).astype(np.float64)
    strongest, length = product.copy(), np.where(flow.distance == 0, 0, -1)
    previous: list[Integers] = []
    for hop in range(1, parameters.hops + 1):
        product, voucher = _one_more_hop(flow, product)
        previous.append(voucher)
        # A longer path must be really stronger, which also keeps every path free of circles.
        better = product > strongest
        strongest[better], length[better] = product[better], hop
    return _walk_back(length, previous)


def _one_more_hop(flow: Transfers, product: Floats) -> tuple[Floats, Integers]:
    """The best product with one hop more, and the smallest voucher who gives it (-1: nobody)."""
    size = len(product)
    best, voucher = np.zeros(size), np.full(size, -1)
    if not len(flow.subject):
        return best, voucher
    offered = flow.amount * product[flow.voucher]
    starts = np.flatnonzero(np.append(True, flow.subject[1:] != flow.subject[:-1]))
    best[flow.subject[starts]] = np.maximum.reduceat(offered, starts)
    winners = np.flatnonzero((offered == best[flow.subject]) & (offered > 0))[::-1]
    # Of repeated places NumPy keeps the last value written; backwards that is the smallest voucher.
    voucher[flow.subject[winners]] = flow.voucher[winners]
    return best, voucher


def _walk_back(length: Integers, previous: list[Integers]) -> list[tuple[int, ...]]:
    """The paths of everybody, from the length of each and the voucher of every hop."""
    paths: list[tuple[int, ...]] = [()] * len(length)
    for hops in range(len(previous) + 1):
        people = np.flatnonzero(length == hops)
        chain = [people]
        for hop in range(hops, 0, -1):
            chain.append(previous[hop - 1][chain[-1]])
        columns = [column.tolist() for column in reversed(chain)]
        for person, path in zip(people.tolist(), zip(*columns, strict=True), strict=True):
            paths[person] = path
    return paths
