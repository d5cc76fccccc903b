"""Nine shapes that a region of fakes can take. Pure: the generator is passed in.

Each gets the ground, the region and a generator, and returns the bought vouches and all vouches by fakes as pairs
(voucher, subject). Where a shape says nothing else, the i-th bought vouch lands on the i-th fake, round and round.
"""

import numpy as np

from scoring.graph import Integers
from scoring.redteam.attack import Generator, Ground, Pairs, Region, Shape

WIDEST = 50  # vouches that one fake gives in a clique: 10,000 fakes already give 500,000
SPRAYED = 10  # honest people for whom each fake of a spray vouches
PIECE = 100  # people whose vouches a mimic copies; a larger region is made of such copies


def clique(ground: Ground, region: Region, draw: Generator) -> Pairs:
    """Everybody vouches for everybody; beyond 51 fakes each for the next 50 in the round."""
    return _joined(_landing(region), _next_in_round(region, WIDEST))


def star(ground: Ground, region: Region, draw: Generator) -> Pairs:
    """All bought vouches land on one hub, which vouches for every other fake, and each of them vouches back."""
    hub, others = region.fakes[0], region.fakes[1:]
    return _joined(_all_to(region.vouchers, hub), _all_from(hub, others), _all_to(others, hub))


def fan(ground: Ground, region: Region, draw: Generator) -> Pairs:
    """Each fake that was vouched for vouches for every one that was not; those vouch for nobody."""
    entries, others = region.fakes[: region.entries], region.fakes[region.entries :]
    return _joined(_landing(region), _each_to_each(entries, others))


def chain(ground: Ground, region: Region, draw: Generator) -> Pairs:
    """A line behind each bought vouch: every fake vouches for one more."""
    step = region.entries
    return _joined(_landing(region), _pairs(region.fakes[:-step], region.fakes[step:]))


def two_loops(ground: Ground, region: Region, draw: Generator) -> Pairs:
    """Pairs who vouch for each other (loops of two), every bought vouch on a pair of its own while there are pairs."""
    half = region.count // 2
    one, other = region.fakes[:half], region.fakes[half : 2 * half]
    return _joined(_landing(region), _pairs(one, other), _pairs(other, one))


def mimic(ground: Ground, region: Region, draw: Generator) -> Pairs:
    """Copies of a piece of the honest graph: the 100 people whom vouches reach first from a random voucher."""
    piece = _piece_of(ground, draw, min(PIECE, region.count))
    place = np.full(ground.size, -1)
    place[piece] = np.arange(len(piece))
    voucher, subject = place[ground.edges.voucher], place[ground.edges.subject]
    copied = (voucher >= 0) & (subject >= 0)
    starts = np.arange(0, region.count, len(piece))[:, None]
    copies = np.column_stack([(starts + voucher[copied]).ravel(), (starts + subject[copied]).ravel()])
    return _joined(_landing(region), region.first + copies[(copies < region.count).all(axis=1)])


def spray(ground: Ground, region: Region, draw: Generator) -> Pairs:
    """Each fake vouches for the next 10 in the round and for 10 random honest people, to look well connected."""
    praised = draw.integers(0, ground.size, (region.count, SPRAYED))
    outward = np.column_stack([np.repeat(region.fakes, SPRAYED), praised.ravel()])
    return _joined(_landing(region), _next_in_round(region, SPRAYED), outward)


def reciprocated(ground: Ground, region: Region, draw: Generator) -> Pairs:
    """A round in which neighbours vouch for each other, and every fake vouches back for who was bought for it."""
    landing, onward = _landing(region), _next_in_round(region, 1)
    return _joined(landing, landing[:, ::-1], onward, onward[:, ::-1])


def diamond(ground: Ground, region: Region, draw: Generator) -> Pairs:
    """The bought vouches land on different fakes, who all vouch for one; that one, on many paths, for the rest."""
    entries = region.fakes[: min(region.entries, region.count - 1)]
    if not len(entries):
        return _landing(region)
    point, rest = region.fakes[len(entries)], region.fakes[len(entries) + 1 :]
    landing = _pairs(region.vouchers, entries[np.arange(len(region.vouchers)) % len(entries)])
    return _joined(landing, _all_to(entries, point), _all_from(point, rest))


SHAPES: dict[str, Shape] = {
    "clique": clique,
    "star": star,
    "fan": fan,
    "chain": chain,
    "two loops": two_loops,
    "mimic": mimic,
    "spray": spray,
    "reciprocated": reciprocated,
    "diamond": diamond,
}


def _landing(region: Region) -> Pairs:
    """The bought vouches, each on another fake as far as there are."""
    return _pairs(region.vouchers, region.fakes[np.arange(len(region.vouchers)) % region.count])


def _next_in_round(region: Region, width: int) -> Pairs:
    """Each fake vouches for the next `width` in the round, as far as there are others."""
    steps = np.arange(1, min(width, region.count - 1) + 1)
    local = np.arange(region.count)
    subject = (local[:, None] + steps) % region.count
    return region.first + np.column_stack([np.repeat(local, len(steps)), subject.ravel()])


def _piece_of(ground: Ground, draw: Generator, count: int) -> Integers:
    """Up to `count` people in the order in which vouches reach them from a random voucher; at least one."""
    start = int(draw.choice(ground.edges.voucher)) if len(ground.edges.voucher) else 0
    piece, seen = [start], {start}
    order = np.argsort(ground.edges.voucher, kind="stable")
    vouchers, subjects = ground.edges.voucher[order], ground.edges.subject[order]
    for person in piece:  # grows while it is walked through
        low, high = np.searchsorted(vouchers, [person, person + 1])
        fresh = [other for other in dict.fromkeys(subjects[low:high].tolist()) if other not in seen]
        seen.update(fresh[: count - len(piece)])
        piece += fresh[: count - len(piece)]
    return np.array(piece, dtype=np.int64)


def _pairs(vouchers: Integers, subjects: Integers) -> Pairs:
    return np.column_stack([vouchers, subjects]).astype(np.int64)


def _all_to(vouchers: Integers, subject: int) -> Pairs:
    return _pairs(vouchers, np.full(len(vouchers), subject))


def _all_from(voucher: int, subjects: Integers) -> Pairs:
    return _pairs(np.full(len(subjects), voucher), subjects)


def _each_to_each(vouchers: Integers, subjects: Integers) -> Pairs:
    return _pairs(np.repeat(vouchers, len(subjects)), np.tile(subjects, len(vouchers)))


def _joined(*parts: Pairs) -> Pairs:
    return np.concatenate(parts)
