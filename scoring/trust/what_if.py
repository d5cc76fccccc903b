"""Computes what depends on one person's vouches, and proposes vouches. Pure NumPy, from a trust run.

Theorem (the reach of a compromised account). Let q, which is not a seed, rewire its vouches at will, into any number of
fresh accounts that nobody else vouches for and that vouch for anybody they like. With d hops from the seeds to q, the
fresh accounts' F sum to at most F(q) * (B + B^2 + ... + B^(L - d)), and none of them has more than
c * F(q) * (1 + B + ... + B^(L - d - 1)). Proof: every walk to them first arrives at q, and F(q) arrives there first
whatever q vouches for; on each hop from there the sum grows by at most the factor B, one vouch passes at most the
factor c, and the first arrival leaves at most L - d hops. A lane that also asks for two ways (no dominator) lets none
of them in: q dominates them all.
"""

from dataclasses import dataclass

import numpy as np

from scoring.config.policy import Parameters
from scoring.trust.first_passage import FirstPassage, Transfers, passage_along
from scoring.trust.graph import Edges, Floats, Integers, Network, checked_people
from scoring.trust.incremental import SeedSetTrust, replace_vouches

# A bound is never rounded down by the last bits of a sum.
SLACK = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class BlastRadius:
    """People who fall below a threshold without one account's vouches, with their s before and after."""

    person: Integers
    before: Floats
    after: Floats


@dataclass(frozen=True, slots=True)
class Exposure:
    """The most trust that one compromised account could give to fresh accounts, by the theorem above.

    `trust` bounds the F of all its fresh accounts together, `lanes` counts how many of them could reach the threshold.
    """

    person: int
    trust: float
    lanes: int


@dataclass(frozen=True, slots=True)
class ProposedVouch:
    """A vouch that somebody could make, with s of `person` `before` and `after`, and its other effects.

    `opens` are the others who reach the threshold with it; `gain` is the s that `person` wins times their merges;
    `exposure` is the largest one of those who reach the threshold, None where nobody does.
    """

    person: int
    merges: int
    before: float
    after: float
    gain: float
    opens: tuple[int, ...]
    exposure: Exposure | None


def blast_radius(
    flow: Transfers, passage: FirstPassage, parameters: Parameters, voucher: int, threshold: float
) -> BlastRadius:
    """Return the people who keep s >= `threshold` only by vouches of `voucher`: the deepest fall first, ties by number.

    `passage` is the trust along `flow`. The account then passes nothing on, as if it were compromised; the trust that
    others give it goes to nobody else, and its denounces stay. Its own s does not depend on its own vouches. This takes
    one more run of trust.
    """
    after = passage_along(_silenced(flow, voucher), parameters).trust
    fallen = np.flatnonzero((passage.trust >= threshold) & (after < threshold))
    fallen = fallen[np.argsort(after[fallen] - passage.trust[fallen], kind="stable")]
    return BlastRadius(fallen, passage.trust[fallen], after[fallen])


def exposure_of(passage: FirstPassage, person: int, parameters: Parameters, threshold: float) -> Exposure:
    """Bound the trust that `person`, not a seed, could give if compromised; ValueError: `threshold` outside (0, 1)."""
    _check_threshold(threshold)
    mass, hops_left = float(passage.mass[person]), parameters.hops - int(passage.distance[person])
    rounds = sum(parameters.budget**hop for hop in range(hops_left)) if mass > 0 else 0.0
    needed = parameters.transfer**2 * threshold / (1 - threshold)
    best, trust = parameters.transfer * mass * rounds, parameters.budget * mass * rounds
    opens = needed > 0 and best >= needed * (1 - SLACK)
    return Exposure(person, trust, int(trust / needed + SLACK) if opens else 0)


def propose_vouches(
    standing: SeedSetTrust,
    vouches: Network,
    denounces: Network,
    maintainer: int,
    merges: Integers,
    threshold: float,
    limit: int = 5,
) -> list[ProposedVouch]:
    """Return the at most `limit` vouches by `maintainer` that raise their subjects most; people without a path first.

    `standing` comes from `vouches` and `denounces`. Candidates are people with `merges` (int[size], verified, in this
    repository, 0 where the record speaks against them) and an s below `threshold`, but not seeds or the maintainer.
    People without a path come first, then the others, each by the gain of s times merges. Every proposal comes from a
    whole run with that vouch, tried in the order of the estimated gain (exact for a seed), until `limit` are found or
    4 * `limit` were tried. A vouch is not proposed where it raises its subject by nothing (a seed denounces the
    subject, or no trust reaches the maintainer), or where it takes more s times merges from others for whom the
    maintainer vouched than it brings. ValueError for unknown people or a threshold outside (0, 1).
    """
    _check_threshold(threshold)
    checked_people(np.array([maintainer]), vouches.size, "maintainer")
    if len(merges) != vouches.size:
        raise ValueError(f"merges must have one entry for each of {vouches.size} people, not {len(merges)}")
    passage, proposals = standing.judged.passage, []
    promised = merges * _promised_gain(standing, vouches, maintainer)
    candidates = np.flatnonzero((promised > 0) & (passage.trust < threshold))
    order = np.lexsort((candidates, -promised[candidates], passage.trust[candidates] > 0))
    for person in candidates[order][: 4 * limit].tolist():
        after = standing.after(_with_vouch(vouches, maintainer, person), denounces, np.array([maintainer]))
        if _brings_more_than_it_takes(passage.trust, after.judged.passage.trust, person, merges):
            proposals.append(_proposal(standing, after, person, merges, threshold))
        if len(proposals) == limit:
            break
    return sorted(proposals, key=lambda proposal: (proposal.before > 0, -proposal.gain, proposal.person))


def _check_threshold(threshold: float) -> None:
    if not 0 < threshold < 1:
        raise ValueError(f"threshold must lie between 0 and 1, not {threshold}")


def _silenced(flow: Transfers, person: int) -> Transfers:
    """Return the transfers without those of one person."""
    others = flow.voucher != person
    return Transfers(flow.voucher[others], flow.subject[others], flow.amount[others], flow.distance)


def _promised_gain(standing: SeedSetTrust, vouches: Network, maintainer: int) -> Floats:
    """Estimate how much s a vouch by `maintainer` brings each person, 0 for seeds; exact for a seed's, undenounced."""
    parameters, passage = standing.parameters, standing.judged.passage
    is_seed = passage.distance == 0
    own = vouches.places(np.array([maintainer]))
    own_weights = np.zeros(vouches.size)
    own_weights[vouches.subject[own]] = vouches.weight[own]
    own_weights[is_seed] = 0.0
    rate, arriving = parameters.transfer, 1.0
    if not is_seed[maintainer]:
        rate, arriving = min(rate, parameters.budget / (own_weights.sum() + 1.0)), float(passage.mass[maintainer])
    mass = passage.mass + rate * arriving * (1.0 - own_weights) * standing.judged.keep
    trust = np.divide(mass, mass + parameters.transfer**2, out=np.zeros(vouches.size), where=mass > 0)
    trust[maintainer] = 0.0
    return np.where(is_seed, 0.0, np.maximum(trust - passage.trust, 0.0))


def _with_vouch(vouches: Network, voucher: int, subject: int) -> Network:
    """Return the network with one more vouch of full weight."""
    own = vouches.places(np.array([voucher]))
    subjects, weights = np.append(vouches.subject[own], subject), np.append(vouches.weight[own], 1.0)
    return replace_vouches(vouches, np.array([voucher]), Edges(np.full(len(subjects), voucher), subjects, weights))


def _brings_more_than_it_takes(old: Floats, new: Floats, person: int, merges: Integers) -> bool:
    """Return whether a vouch raises its subject, and the sum of everybody's s times merges."""
    return bool(new[person] > old[person] and merges @ (new - old) > 0)


def _proposal(
    before: SeedSetTrust, after: SeedSetTrust, person: int, merges: Integers, threshold: float
) -> ProposedVouch:
    """Return one proposed vouch, from the trust without and with it."""
    old, new = before.judged.passage.trust, after.judged.passage.trust
    opened = np.flatnonzero((old < threshold) & (new >= threshold)).tolist()
    exposures = [
        exposure_of(after.judged.passage, opened_person, after.parameters, threshold) for opened_person in opened
    ]
    return ProposedVouch(
        person=person,
        merges=int(merges[person]),
        before=float(old[person]),
        after=float(new[person]),
        gain=float(merges[person] * (new[person] - old[person])),
        opens=tuple(opened_person for opened_person in opened if opened_person != person),
        exposure=max(exposures, key=lambda risk: (risk.lanes, risk.trust, -risk.person), default=None),
    )
