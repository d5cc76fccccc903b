"""Denounces: each weighs at most the trust in its author. Pure NumPy, no clock, no store.

First pass: F from the vouches alone, so that no denounce feeds back into what a denounce weighs. Then u's denounces
spend the same budget as vouches do, D(v) = sum of A^-_uv F(u) with A^-_uv = w * min(c, B / sum of u's weights), and
v keeps the share keep(v) = clip(1 - strength * D(v) / F(v), 0, 1). Second pass: first passage along A_uv * keep(v):
what flows into v is scaled once. Nobody's trust turns negative, nobody else is denounced along with v, and the people
for whom v vouches lose only what came through v. A denounce by a seed is final: keep(v) = 0.

Theorem (a denounce costs at most what its author was given). With B <= 1, over all people, and without the seeds' own
denounces, the sum of (1 - keep) * F is at most strength * (sum of F over the denouncers), and the sum of F less the sum
of the second pass is at most L times that. Proof: (1 - keep(v)) F(v) <= strength * D(v), and a row of A^- sums to at
most 1. For the second part let every arrival at v be stopped with probability 1 - keep(v). What an arrival that is the
first at v leads on to is at most 1 for each of the at most L hops from there, its own counted; a second arrival at v
(the way back over two hops, R_2(v) of the first) leads on to 1 more, but those R_2(v) were no first arrival anywhere,
so both together stop at most L * (1 - keep(v)) F(v). By the bounded region of `scoring.trust.first_passage` the
denouncers' F is in turn at most L * Phi, however many they are. From somebody with F = 0 a denounce changes no bit.

Corollary. A denounce lifts nobody above the trust they have without it: trust is a sum over walks, and each term can
only fall. One's own vouches do not move the first pass; they can weaken a denounce whose author gets trust from them,
which never lifts anybody above the first pass.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scoring.config.policy import Parameters
from scoring.trust.first_passage import FirstPassage, Transfers, hops_from, passage_along, passed_on, transfers_within
from scoring.trust.graph import Edges, Floats, Integers, Network, prepare

# A denouncer counts as trusted from this s: measured on Bitcoin-OTC, "denounced by anybody with s >= .1" predicts a
# future bad reputation with AUC .652.
TRUSTED = 0.1


@dataclass(frozen=True, slots=True, eq=False)
class Denounced:
    """Trust of everybody from one seed set after denounces, indexed by person.

    `first` is the trust by vouches alone; `weight` is D >= 0 (a seed's denounce adds nothing to it: it is final);
    `keep` in [0, 1] is the share of the in-flow that is left, 1 where nobody with trust denounces; `trusted_denouncers`
    counts people with s >= .1 by vouches alone, seeds included; `by_seed` marks people whom a seed denounces; `passage`
    is the trust that counts, with distances along the vouches that still carry any.
    """

    first: FirstPassage
    weight: Floats
    keep: Floats
    trusted_denouncers: Integers
    by_seed: NDArray[np.bool_]
    passage: FirstPassage


def judge_denounces(
    edges: Edges, denounces: Edges, seeds: Integers, size: int, parameters: Parameters, strength: float = 1.0
) -> Denounced:
    """Compute the trust of `size` people from `seeds` by vouches `edges`, less what `denounces` (in [0, 1]) take.

    Self-denounces and denounces of seeds do not count; of several for one pair the strongest counts; the order of rows
    is irrelevant. `strength` is 0 or more. ValueError for unusable input.
    """
    return judge_within(prepare(edges, size), prepare(denounces, size), seeds, parameters, strength)


def judge_within(
    vouches: Network, denounces: Network, seeds: Integers, parameters: Parameters, strength: float = 1.0
) -> Denounced:
    """Compute `judge_denounces` from vouches and denounces that were prepared once for many seed sets."""
    if not 0 <= strength < np.inf:
        raise ValueError(f"strength must be 0 or more and finite, not {strength}")
    if vouches.size != denounces.size:
        raise ValueError(f"vouches of {vouches.size} people and denounces of {denounces.size} do not fit together")
    flow = transfers_within(vouches, seeds, parameters)
    first = passage_along(flow, parameters)
    weight, trusted, by_seed = weigh(denounces, first, parameters)
    keep = share_left(weight * strength, first.mass)
    keep[by_seed] = 0.0
    passage = first if (keep == 1).all() else passage_along(_scaled(flow, keep, parameters.hops), parameters)
    return Denounced(first, weight, keep, trusted, by_seed, passage)


def transfers_left(vouches: Network, judged: Denounced, seeds: Integers, parameters: Parameters) -> Transfers:
    """Return the transfers that remain after denounces, without zeros; `judged.passage` flows along them."""
    return _scaled(transfers_within(vouches, seeds, parameters), judged.keep, parameters.hops)


def weigh(
    denounces: Network, first: FirstPassage, parameters: Parameters
) -> tuple[Floats, Integers, NDArray[np.bool_]]:
    """Return D, the number of trusted denouncers, and whether a seed denounces, for everybody."""
    is_seed = first.distance == 0
    counts = ~is_seed[denounces.subject]
    denouncer, subject = denounces.voucher[counts], denounces.subject[counts]
    amount = passed_on(denouncer, denounces.weight[counts], is_seed, parameters)
    weight = np.zeros(len(is_seed))
    np.add.at(weight, subject, amount * first.mass[denouncer])
    trusted = np.bincount(subject[first.trust[denouncer] >= TRUSTED], minlength=len(is_seed)).astype(np.int64)
    by_seed = np.zeros_like(is_seed)
    by_seed[subject[is_seed[denouncer]]] = True
    return weight, trusted, by_seed


def share_left(lost: Floats, mass: Floats) -> Floats:
    """Return clip(1 - lost / mass, 0, 1): exactly 1 where nothing is lost, 0 where at least `mass` is, even of 0."""
    partly = (lost > 0) & (lost < mass)
    share = np.where(lost > 0, 0.0, 1.0)
    share[partly] = 1.0 - lost[partly] / mass[partly]
    return share


def _scaled(flow: Transfers, keep: Floats, hops: int) -> Transfers:
    """Scale everybody's in-flow by `keep`, and drop transfers that carry nothing any more."""
    carries = keep[flow.subject] > 0
    voucher, subject = flow.voucher[carries], flow.subject[carries]
    amount = flow.amount[carries] * keep[subject]
    return Transfers(voucher, subject, amount, hops_from(voucher, subject, flow.distance == 0, hops))
