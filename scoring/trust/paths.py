"""Trust paths and dominators: the chains that carry trust, and the account that all of it passes through. Pure.

The hop limit is part of the definition of a dominator: `e` dominates `v` when every walk of at most L vouches from a
seed to `v` passes `e`, so that without `e` the trust in `v` is exactly 0. A detour of more than L vouches carries no
trust. The dominators of plain graph theory count such detours, and would call people safe whose trust depends on one
account.

Every dominator of `v` lies on each of its shortest walks, so there is at most one at each distance, and the sets of two
walks are compared distance by distance: L sweeps over the edges find everybody's dominators. Unlike in plain graph
theory they form no tree: a detour that still reaches a person may be one vouch too long for those they vouch for.
"""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from scoring.trust.first_passage import Transfers
from scoring.trust.graph import Floats, Integers, order_by_subject

Path = tuple[int, ...]


def strongest_chains(flow: Transfers, hops: int) -> Integers:
    """Return for each person the path, seed first, with the largest product of transfers, as int64[size, hops + 1].

    A path has at most `hops` vouches and is filled up with -1.

    Dynamic programming over the hops, linear in the vouches within reach. Among equal products the shorter path wins,
    then the smallest voucher at each hop counted from the contributor: equal input in any order gives equal paths.
    """
    length, previous = _strongest(_by_subject(flow), hops)
    chains = np.full((len(length), hops + 1), -1)
    for last in range(hops + 1):
        people = np.flatnonzero(length == last)
        chains[people, last] = people
        for hop in range(last, 0, -1):
            chains[people, hop - 1] = previous[hop - 1][chains[people, hop]]
    return chains


def disjoint_paths(flow: Transfers, person: int, hops: int, count: int = 3) -> list[Path]:
    """Return up to `count` paths to `person`, seed first, that share only seeds; the strongest first, [] beyond reach.

    The first is the strongest of all, each further one the strongest of those left. Where another choice gives more
    paths, that choice is returned: so a single path of two or more vouches is returned exactly where one account
    dominates. Ties are broken as in `strongest_chains`. A seed has the path (seed,). This takes milliseconds, since
    only the vouches that lead to `person` are read.
    """
    if flow.distance[person] == 0:
        return [(person,)]
    leading = _by_subject(_leading_to(flow, person, hops))
    paths: list[Path] = []
    left = leading
    while len(paths) < count and (path := _strongest_to(left, person, hops)):
        paths.append(path)
        left = _without(left, path)
    if 0 < len(paths) < count:
        alternatives = _most_paths(leading, person, hops, count)
        paths = alternatives if len(alternatives) > len(paths) else paths
    return paths


def product_along(flow: Transfers, path: Path) -> float:
    """Return the product of the transfers on a path; 1 for a seed alone. ValueError where a transfer is missing."""
    size, product = len(flow.distance), 1.0
    keys = flow.voucher * size + flow.subject
    for voucher, subject in pairwise(path):
        place = int(np.searchsorted(keys, voucher * size + subject))
        if place == len(keys) or keys[place] != voucher * size + subject:
            raise ValueError(f"no trust flows from {voucher} to {subject}")
        product *= float(flow.amount[place])
    return product


def contributions(flow: Transfers, person: int, hops: int) -> tuple[Integers, Floats]:
    """Return the vouchers of `person` and the share of F that arrives over each vouch; the most first, ties by number.

    The shares sum to F exactly: each walk to `person`, cut at its first arrival, is counted for the voucher that it
    arrives from. A share is not what a withdrawn vouch would cost: its voucher has more for others then. Vouchers who
    pass nothing on are left out; a seed has none. Linear in the transfers.
    """
    if flow.distance[person] == 0:
        return np.zeros(0, dtype=np.int64), np.zeros(0)
    onward = np.where(flow.voucher == person, 0.0, flow.amount)  # a walk ends where it arrives
    arriving = (flow.distance == 0).astype(np.float64)
    present = arriving.copy()
    for _ in range(hops - 1):
        arriving = np.bincount(flow.subject, weights=onward * arriving[flow.voucher], minlength=len(arriving))
        present += arriving
    direct = np.flatnonzero(flow.subject == person)
    voucher, brought = flow.voucher[direct], flow.amount[direct] * present[flow.voucher[direct]]
    order = np.lexsort((voucher, -brought))
    order = order[brought[order] > 0]
    return voucher[order], brought[order]


def _by_subject(flow: Transfers) -> Transfers:
    """Sort transfers by (subject, voucher)."""
    return _select(flow, order_by_subject(flow.voucher, flow.subject, len(flow.distance)))


def _select(flow: Transfers, rows: np.ndarray) -> Transfers:
    return Transfers(flow.voucher[rows], flow.subject[rows], flow.amount[rows], flow.distance)


def _strongest(flow: Transfers, hops: int) -> tuple[Integers, list[Integers]]:
    """Return the length of everybody's strongest path (-1: none), and for each hop the voucher of the best product."""
    product = (flow.distance == 0).astype(np.float64)
    strongest, length = product.copy(), np.where(flow.distance == 0, 0, -1)
    previous: list[Integers] = []
    for hop in range(1, hops + 1):
        product, voucher = _one_more_hop(flow, product)
        previous.append(voucher)
        # A longer path must be strictly stronger, which also keeps paths free of circles.
        better = product > strongest
        strongest[better], length[better] = product[better], hop
    return length, previous


def _one_more_hop(flow: Transfers, product: Floats) -> tuple[Floats, Integers]:
    """Return the best product with one hop more, and the smallest voucher who gives it (-1: nobody)."""
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


def _leading_to(flow: Transfers, person: int, hops: int) -> Transfers:
    """Return the transfers that a walk of at most `hops` from a seed to `person` can use before it arrives."""
    leads = np.zeros(len(flow.distance), dtype=bool)
    leads[person] = True
    useful = (flow.amount > 0) & (flow.voucher != person)
    for _ in range(hops):
        leads[flow.voucher[useful & leads[flow.subject]]] = True
    return _select(flow, np.flatnonzero(useful & leads[flow.subject]))


def _strongest_to(flow: Transfers, person: int, hops: int) -> Path:
    """Return the strongest path to one person, () where none is left."""
    length, previous = _strongest(flow, hops)
    path = [person]
    for hop in range(int(length[person]), 0, -1):
        path.append(int(previous[hop - 1][path[-1]]))
    return tuple(reversed(path)) if length[person] > 0 else ()


def _without(flow: Transfers, path: Path) -> Transfers:
    """Drop the transfers of people between the ends of a path, or the direct vouch that is the path."""
    if len(path) == 2:
        return _select(flow, np.flatnonzero((flow.voucher != path[0]) | (flow.subject != path[1])))
    between = np.array(path[1:-1])
    return _select(flow, np.flatnonzero(~np.isin(flow.voucher, between) & ~np.isin(flow.subject, between)))


def _most_paths(flow: Transfers, person: int, hops: int, count: int) -> list[Path]:
    """Return the largest set of disjoint paths, at most `count`, of transfers that lead to `person`; strongest first.

    A direct vouch of a seed is a path of its own. Any other path of at most 4 hops can be shortened, over people on it,
    to first > last, first > middle > last, or one person who is both, where seeds vouch for `first`, `last` vouches for
    the person, and `middle` does neither. These layers admit no longer path, so the largest flow through them, with one
    path for each head, is the answer (for more than 4 hops that does not hold, and the problem is NP-hard).
    """
    from_seed, arrives = flow.distance[flow.voucher] == 0, flow.subject == person
    paths: list[Path] = []
    paths.extend((seed, person) for seed in flow.voucher[from_seed & arrives][:count].tolist())
    firsts, lasts = np.zeros(len(flow.distance), dtype=bool), np.zeros(len(flow.distance), dtype=bool)
    firsts[flow.subject[from_seed & ~arrives]] = True
    lasts[flow.voucher[arrives & ~from_seed]] = True
    layer = np.where(firsts, np.where(lasts, 0, 1), np.where(lasts, 3, 2))  # 0: first and last at once
    leaves, enters = layer[flow.voucher], layer[flow.subject]
    step = ((leaves == 1) & (enters == 3) & (hops >= 3)) | ((leaves + 1 == enters) & (leaves > 0) & (hops >= 4))
    rows = np.flatnonzero(step & ~from_seed & ~arrives)
    if hops >= 2 and len(paths) < count:
        chains = _flow_between(firsts, lasts, flow.voucher[rows], flow.subject[rows], count - len(paths))
        paths += [(_strongest_voucher(flow, from_seed, chain[0]), *chain, person) for chain in chains]
    return _strongest_first(flow, paths)


def _flow_between(
    firsts: np.ndarray, lasts: np.ndarray, voucher: Integers, subject: Integers, count: int
) -> list[Path]:
    """Return at most `count` chains from `firsts` to `lasts` along the edges, with nobody in two of them."""
    from scipy.sparse import csr_array  # takes .3 s, which commands that judge nobody save
    from scipy.sparse.csgraph import maximum_flow

    size = len(firsts)
    # Each person is entered at their own number and left at size + number, with room for one path between the two.
    source, start, target = 2 * size, 2 * size + 1, 2 * size + 2
    first, last = np.flatnonzero(firsts), np.flatnonzero(lasts)
    people = np.unique(np.concatenate([first, last, voucher, subject]))
    tails = np.concatenate([[source], np.full(len(first), start), people, voucher + size, last + size])
    heads = np.concatenate([[start], first, people + size, subject, np.full(len(last), target)])
    room = np.ones(len(tails), dtype=np.int32)
    room[0] = count
    network = csr_array((room, (tails, heads)), shape=(2 * size + 3, 2 * size + 3))
    used = maximum_flow(network, source, target).flow.tocoo()
    in_use = used.data > 0
    following = dict(zip(used.row[in_use].tolist(), used.col[in_use].tolist(), strict=True))
    chains = []
    for begin in used.col[in_use & (used.row == start)].tolist():
        chain, place = [], begin
        while place != target:
            chain.append(place)
            place = following[place + size]
        chains.append(tuple(chain))
    return chains


def _strongest_voucher(flow: Transfers, among: np.ndarray, subject: int) -> int:
    """Return the voucher of the largest transfer `among` these to `subject`; the smallest number of equals."""
    rows = np.flatnonzero(among & (flow.subject == subject))
    return int(flow.voucher[rows[np.argmax(flow.amount[rows])]])


def _strongest_first(flow: Transfers, paths: list[Path]) -> list[Path]:
    """Sort paths by their product, the largest first; shorter ones and smaller numbers first among equals."""
    ordered = _select(flow, np.lexsort((flow.subject, flow.voucher)))
    return sorted(paths, key=lambda path: (-product_along(ordered, path), len(path), path))


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
