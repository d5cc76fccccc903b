"""Trust of one seed set, kept fresh while vouches and denounces come and go. Pure NumPy.

What many seed sets share is prepared once (`scoring.graph.prepare`), and a change is worked into it without sorting
anew (`replaced`). A seed set looks only at vouches of people fewer than L hops from it and at denounces of people whom
it trusts: a change elsewhere leaves its standing as it is, without any work. A change within is a new run over what the
seeds reach. At 20,000 people / 100,000 vouches that is 11 ms a seed set on the mean and 31 ms at worst, where a vouch
reached nine of ten seed sets (`tests.bench.bench_trust`; the goal is 50 ms). Mending single sums would have to keep
four waves, two returns and the transposed network for each seed set, to save a part of 11 ms: so it is not done.
"""

from dataclasses import dataclass

import numpy as np

from scoring.denounces import Denounced, judge_within
from scoring.graph import Edges, Integers, Network, checked_people, prepare, row_starts
from scoring.policy import Parameters


@dataclass(frozen=True, slots=True, eq=False)
class Standing:
    """What one seed set makes of everybody, and what it was made from. Bits equal those of `judge_denounces`."""

    seeds: Integers
    parameters: Parameters
    strength: float
    judged: Denounced

    @classmethod
    def of(
        cls, vouches: Network, denounces: Network, seeds: Integers, parameters: Parameters, strength: float = 1.0
    ) -> "Standing":
        """The standing from prepared vouches and denounces; ValueError for an unknown seed."""
        return cls(seeds, parameters, strength, judge_within(vouches, denounces, seeds, parameters, strength))

    def after(
        self, vouches: Network, denounces: Network, vouchers: Integers, denouncers: Integers | None = None
    ) -> "Standing":
        """The standing after `vouchers` and `denouncers` changed what they say; itself where that is out of reach.

        `vouches` and `denounces` are the new networks; everybody whose row differs from the old one must be named.
        """
        if len(self.judged.first.distance) == vouches.size:
            changed = np.zeros(0, dtype=np.int64) if denouncers is None else denouncers
            if not (self._hears_vouches_of(vouchers) or self._hears_denounces_of(changed)):
                return self
        return Standing.of(vouches, denounces, self.seeds, self.parameters, self.strength)

    def _hears_vouches_of(self, people: Integers) -> bool:
        """Whether one of `people` is fewer than L hops away: vouches of others are not read."""
        distance = self.judged.first.distance[people]
        return bool(((distance >= 0) & (distance < self.parameters.hops)).any())

    def _hears_denounces_of(self, people: Integers) -> bool:
        """Whether one of `people` is a seed or has trust: denounces of others weigh nothing."""
        first = self.judged.first
        return bool(((first.distance[people] == 0) | (first.mass[people] > 0)).any())


def replaced(network: Network, people: Integers, edges: Edges) -> Network:
    """The network after `people` vouch as in `edges` and no longer as before: linear, nothing is sorted anew.

    ValueError for unknown people, for weights outside [0, 1], and for an edge by somebody else than `people`.
    """
    people = checked_people(people, network.size, "voucher")
    fresh = prepare(edges, network.size)
    theirs = np.zeros(network.size, dtype=bool)
    theirs[people] = True
    if not theirs[fresh.voucher].all():
        raise ValueError("a vouch is given for somebody who is not among those whose vouches are replaced")
    kept = ~theirs[network.voucher]
    old = [column[kept] for column in (network.voucher, network.subject, network.weight)]
    # Whole rows are exchanged, so a place among the vouchers is enough, and rows stay sorted within.
    places = np.searchsorted(old[0], fresh.voucher)
    columns = zip(old, (fresh.voucher, fresh.subject, fresh.weight), strict=True)
    voucher, subject, weight = (np.insert(before, places, added) for before, added in columns)
    return Network(voucher, subject, weight, row_starts(voucher, network.size))


def changed_vouchers(before: Network, after: Network) -> Integers:
    """Everybody whose vouches differ between two networks of one size, in order."""
    rows = np.diff(before.starts) != np.diff(after.starts)
    same = [~rows[network.voucher] for network in (before, after)]
    differs = (before.subject[same[0]] != after.subject[same[1]]) | (before.weight[same[0]] != after.weight[same[1]])
    rows[before.voucher[same[0]][differs]] = True
    return np.flatnonzero(rows)
