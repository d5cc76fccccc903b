"""Computes what depends on one person's vouches, and which vouch is worth making. Pure NumPy, from a trust run.

Theorem (what a compromised account can bring). Let q, who is no seed, rewire its vouches at will, into any number of
fresh accounts that nobody else vouches for and that vouch for whomever they like. With d hops from the seeds to q, the
fresh accounts' F sum to at most F(q) * (B + B^2 + ... + B^(L - d)), and none of them has more than
c * F(q) * (1 + B + ... + B^(L - d - 1)). Proof: every walk to them first arrives at q, and what arrives there first is
F(q) whatever q vouches for; on each hop from there the whole grows by at most the factor B, one vouch passes at most
the factor c, and the first arrival leaves at most L - d hops. A lane that also asks for two ways (no dominator) lets
none of them in: q dominates them all.
"""

from dataclasses import dataclass

import numpy as np

from scoring.config.policy import Parameters
from scoring.trust.first_passage import FirstPassage, Transfers, passage_along
from scoring.trust.graph import Edges, Floats, Integers, Network, checked_people
from scoring.trust.incremental import SeedSetTrust, replaced

# A bound is never rounded down by the last bits of a sum.
SLACK = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class BlastRadius:
    """People who fall below a threshold when one account's vouches count no more: the person, s before and s after."""

    person: Integers
    before: Floats
    after: Floats


@dataclass(frozen=True, slots=True)
class Exposure:
    """The most that one compromised account could bring, by the theorem above.

    `trust` bounds the F of all its fresh accounts together, `lanes` counts how many of them could reach the threshold.
    """

    person: int
    trust: float
    lanes: int


@dataclass(frozen=True, slots=True)
class Worthwhile:
    """One vouch that somebody could make: s of `person` `before` and `after`, and what else would come of it.

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
    """Return who keeps s >= `threshold` only through the vouches of `voucher`: the deepest fall first, ties by number.

    `passage` is the trust along `flow`. The account passes nothing on any more, as if it were compromised and all that
    it vouched for in doubt; what others gave it goes to nobody else, and its denounces stay. Its own s does not hang on
    its own vouches. One more run of trust.
    """
    after = passage_along(_silenced(flow, voucher), parameters).trust
    fallen = np.flatnonzero((passage.trust >= threshold) & (after < threshold))
    fallen = fallen[np.argsort(after[fallen] - passage.trust[fallen], kind="stable")]
    return BlastRadius(fallen, passage.trust[fallen], after[fallen])


def exposure_of(passage: FirstPassage, person: int, parameters: Parameters, threshold: float) -> Exposure:
    """The most that `person`, no seed, could bring if compromised; `threshold` in (0, 1), else ValueError."""
    _check_threshold(threshold)
    mass, hops_left = float(passage.mass[person]), parameters.hops - int(passage.distance[person])
    rounds = sum(parameters.budget**hop for hop in range(hops_left)) if mass > 0 else 0.0
    needed = parameters.transfer**2 * threshold / (1 - threshold)
    best, trust = parameters.transfer * mass * rounds, parameters.budget * mass * rounds
    opens = needed > 0 and best >= needed * (1 - SLACK)
    return Exposure(person, trust, int(trust / needed + SLACK) if opens else 0)


def worth_making(
    standing: SeedSetTrust,
    vouches: Network,
    denounces: Network,
    maintainer: int,
    merges: Integers,
    threshold: float,
    limit: int = 5,
) -> list[Worthwhile]:
    """The vouches by `maintainer` that would bring their subjects furthest, at most `limit`: whoever has no path first.

    `standing` comes from `vouches` and `denounces`. Asked are people with `merges` (int[size], verified, here, 0 for
    whose record speaks against them) whose s is below `threshold`, seeds and the maintainer apart. Among those without
    a path, then among the others, the best is who wins most s times merges. Each answer comes from a whole run with
    that vouch made, in the order of what a vouch promises (exact for a seed's), until `limit` are found or 4 * `limit`
    were tried. No vouch is proposed that brings its subject nothing (a seed denounces them, or no trust reaches the
    maintainer), or that takes more s times merges from others, whom a maintainer short of budget vouched for, than it
    brings. ValueError for unknown people or a threshold outside (0, 1).
    """
    _check_threshold(threshold)
    checked_people(np.array([maintainer]), vouches.size, "maintainer")
    if len(merges) != vouches.size:
        raise ValueError(f"merges must have one entry for each of {vouches.size} people, not {len(merges)}")
    passage, answers = standing.judged.passage, []
    promised = merges * _promised_gain(standing, vouches, maintainer)
    asked = np.flatnonzero((promised > 0) & (passage.trust < threshold))
    order = np.lexsort((asked, -promised[asked], passage.trust[asked] > 0))
    for person in asked[order][: 4 * limit].tolist():
        after = standing.after(_with_vouch(vouches, maintainer, person), denounces, np.array([maintainer]))
        if _brings_more_than_it_takes(passage.trust, after.judged.passage.trust, person, merges):
            answers.append(_answer(standing, after, person, merges, threshold))
        if len(answers) == limit:
            break
    return sorted(answers, key=lambda answer: (answer.before > 0, -answer.gain, answer.person))


def _check_threshold(threshold: float) -> None:
    if not 0 < threshold < 1:
        raise ValueError(f"threshold must lie between 0 and 1, not {threshold}")


def _silenced(flow: Transfers, person: int) -> Transfers:
    """The transfers without those of one person."""
    kept = flow.voucher != person
    return Transfers(flow.voucher[kept], flow.subject[kept], flow.amount[kept], flow.distance)


def _promised_gain(standing: SeedSetTrust, vouches: Network, maintainer: int) -> Floats:
    """About how much s one vouch by `maintainer` would bring each person, 0 for seeds; exact by a seed, undenounced."""
    parameters, passage = standing.parameters, standing.judged.passage
    is_seed = passage.distance == 0
    own = vouches.places(np.array([maintainer]))
    given = np.zeros(vouches.size)
    given[vouches.subject[own]] = vouches.weight[own]
    given[is_seed] = 0.0
    rate, arriving = parameters.transfer, 1.0
    if not is_seed[maintainer]:
        rate, arriving = min(rate, parameters.budget / (given.sum() + 1.0)), float(passage.mass[maintainer])
    mass = passage.mass + rate * arriving * (1.0 - given) * standing.judged.keep
    trust = np.divide(mass, mass + parameters.transfer**2, out=np.zeros(vouches.size), where=mass > 0)
    trust[maintainer] = 0.0
    return np.where(is_seed, 0.0, np.maximum(trust - passage.trust, 0.0))


def _with_vouch(vouches: Network, voucher: int, subject: int) -> Network:
    """The same with one vouch of full weight more."""
    own = vouches.places(np.array([voucher]))
    subjects, weights = np.append(vouches.subject[own], subject), np.append(vouches.weight[own], 1.0)
    return replaced(vouches, np.array([voucher]), Edges(np.full(len(subjects), voucher), subjects, weights))


def _brings_more_than_it_takes(old: Floats, new: Floats, person: int, merges: Integers) -> bool:
    """Return whether a vouch raises its subject, and everybody's s times merges together."""
    return bool(new[person] > old[person] and merges @ (new - old) > 0)


def _answer(before: SeedSetTrust, after: SeedSetTrust, person: int, merges: Integers, threshold: float) -> Worthwhile:
    """Return what one vouch would bring, from the standings without and with it."""
    old, new = before.judged.passage.trust, after.judged.passage.trust
    opened = np.flatnonzero((old < threshold) & (new >= threshold)).tolist()
    exposures = [exposure_of(after.judged.passage, other, after.parameters, threshold) for other in opened]
    return Worthwhile(
        person=person,
        merges=int(merges[person]),
        before=float(old[person]),
        after=float(new[person]),
        gain=float(merges[person] * (new[person] - old[person])),
        opens=tuple(other for other in opened if other != person),
        exposure=max(exposures, key=lambda one: (one.lanes, one.trust, -one.person), default=None),
    )
