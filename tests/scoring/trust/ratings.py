"""Signed ratings, weighted by what their authors are trusted: the yardstick for denounces on real data. Pure NumPy.

Bitcoin-OTC has what vouches and denounces have, in degrees: ratings of -10 to 10. Trust flows along the positive ones
alone, so that no negative rating feeds back into what a rating weighs.
"""

import numpy as np

from scoring.config.policy import Parameters
from scoring.trust.first_passage import FirstPassage, first_passage
from scoring.trust.graph import Edges, Floats, Integers

HIGHEST = 10.0  # a rating of 10 is a vouch of weight 1


def trust_by_ratings(ratings: Edges, seeds: Integers, size: int, parameters: Parameters) -> FirstPassage:
    """First-passage trust along the positive ratings, weight rating / 10. `ratings` hold -10..10 as their weight."""
    return first_passage(positive(ratings), seeds, size, parameters)


def positive(ratings: Edges) -> Edges:
    """The positive ratings as vouches of weight rating / 10."""
    kept = ratings.weight > 0
    return Edges(ratings.voucher[kept], ratings.subject[kept], ratings.weight[kept] / HIGHEST)


def negative(ratings: Edges) -> Edges:
    """The negative ratings as denounces of weight -rating / 10."""
    kept = ratings.weight < 0
    return Edges(ratings.voucher[kept], ratings.subject[kept], -ratings.weight[kept] / HIGHEST)


def trusted_mean(ratings: Edges, trust: Floats) -> Floats:
    """The mean rating of everybody, each rater weighted by their own `trust` in [0, 1]; 0 where no trusted one rated.

    Indexed by person as `trust`. A rater without trust changes nothing, so fakes cannot move anybody's mean.
    """
    weight = trust[ratings.voucher]
    total = np.bincount(ratings.subject, weights=weight, minlength=len(trust))
    summed = np.bincount(ratings.subject, weights=weight * ratings.weight, minlength=len(trust))
    return np.divide(summed, total, out=np.zeros(len(trust)), where=total > 0)


def zeroed(trust: Floats, denounces: Edges) -> Floats:
    """The plain rule that does not hold: whoever is denounced by anybody at all has trust 0."""
    left = trust.copy()
    left[denounces.subject] = 0.0
    return left
