"""What one seed set's trust can flow along: how much each vouch passes on, and how far it reaches. Pure NumPy."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scoring.graph import Edges, Floats, Integers, Network, checked_seeds, prepare
from scoring.policy import Parameters


@dataclass(frozen=True, slots=True, eq=False)
class Transfers:
    """What one seed set's trust can flow along: edges out of people fewer than L hops away, sorted, no pair twice.

    `amount` is A_uv in [0, 1]; `distance` has one entry for each person: hops from the nearest seed, 0 for a seed,
    -1 beyond reach.
    """

    voucher: Integers
    subject: Integers
    amount: Floats
    distance: Integers


def find_transfers(edges: Edges, seeds: Integers, size: int, parameters: Parameters) -> Transfers:
    """What each vouch within reach passes on, for one seed set; `transfers_within` tells it of prepared vouches.

    Raises ValueError for an unknown person, a weight outside [0, 1] or no seed.
    """
    return transfers_within(prepare(edges, size), seeds, parameters)


def transfers_within(network: Network, seeds: Integers, parameters: Parameters) -> Transfers:
    """What each vouch within reach passes on: A_uv = w * min(c, B / sum of u's weights), c * w from a seed.

    Vouches for a seed are dropped before the sum. Work grows with what the seeds reach, not with the network. Raises
    ValueError for an unknown seed or none.
    """
    seeds = checked_seeds(seeds, network.size)
    is_seed = np.zeros(network.size, dtype=bool)
    is_seed[seeds] = True
    distance = np.where(is_seed, 0, -1)
    for hop in range(1, parameters.hops):
        met = network.subject[network.places(np.flatnonzero(distance == hop - 1))]
        distance[met[distance[met] < 0]] = hop
    places = _places_out_of(network, distance >= 0, is_seed)
    voucher, subject, weight = network.voucher[places], network.subject[places], network.weight[places]
    met = np.zeros(network.size, dtype=bool)
    met[subject] = True
    distance[met & (distance < 0)] = parameters.hops
    return Transfers(voucher, subject, passed_on(voucher, weight, is_seed, parameters), distance)


def _places_out_of(network: Network, near: NDArray[np.bool_], is_seed: NDArray[np.bool_]) -> NDArray:
    """Which vouches the people `near` give to others than seeds: as a mask where they are most, else as numbers."""
    people = np.flatnonzero(near)
    if 4 * (network.starts[people + 1] - network.starts[people]).sum() > len(network.subject):
        return near[network.voucher] & ~is_seed[network.subject]
    places = network.places(people)
    return places[~is_seed[network.subject[places]]]


def passed_on(voucher: Integers, weight: Floats, unbounded: NDArray[np.bool_], parameters: Parameters) -> Floats:
    """What each edge passes on: A_uv = w * min(c, B / sum of u's weights); c * w if u is `unbounded` (bool[size])."""
    given = np.bincount(voucher, weights=weight, minlength=len(unbounded))
    rate = np.full(len(unbounded), parameters.transfer)
    spends = (given > 0) & ~unbounded
    rate[spends] = np.minimum(parameters.transfer, parameters.budget / given[spends])
    return weight * rate[voucher]


def hops_from(voucher: Integers, subject: Integers, is_seed: NDArray[np.bool_], hops: int) -> Integers:
    """Hops from the nearest seed along the vouches, -1 beyond `hops`."""
    distance = np.where(is_seed, 0, -1)
    for hop in range(1, hops + 1):
        candidates = subject[distance[voucher] == hop - 1]
        distance[candidates[distance[candidates] < 0]] = hop
    return distance
