"""What first-passage trust is held against: in-vouch count, PageRank, and EigenTrust as the textbook loop has it. Pure.

Each gives a score for everybody, larger is better; only EigenTrust knows the seeds.
"""

from collections.abc import Callable

import numpy as np

from scoring.config.policy import Parameters
from scoring.trust.first_passage import first_passage
from scoring.trust.graph import Edges, Floats, Integers, matrix_of, strongest

Score = Callable[[Edges, Integers, int], Floats]
OURS = "first passage"
STEPS = 200
TOLERANCE = 1e-9


def in_vouches(edges: Edges, seeds: Integers, size: int) -> Floats:
    """How many people vouch for each, themselves included: what a counter shows."""
    _, subject, _ = strongest(edges.voucher, edges.subject, edges.weight, size)
    return np.bincount(subject, minlength=size).astype(np.float64)


def pagerank(edges: Edges, seeds: Integers, size: int, damping: float = 0.15) -> Floats:
    """Global PageRank: the walk restarts anywhere with probability `damping`, and from who vouches for nobody."""
    voucher, subject, weight = strongest(edges.voucher, edges.subject, edges.weight, size)
    given = np.bincount(voucher, weights=weight, minlength=size)
    onward = matrix_of(voucher, subject, weight / given[voucher], size).T.tocsr()
    walk = home = np.full(size, 1 / size)
    for _ in range(STEPS):
        following = (1 - damping) * (onward @ walk + walk[given == 0].sum() * home) + damping * home
        change = np.abs(following - walk).sum()
        walk = following
        if change <= TOLERANCE:
            break
    return walk


def textbook_eigentrust(edges: Edges, seeds: Integers, size: int, damping: float = 0.15) -> Floats:
    """The loop t = (1 - a) C^T t + a p; t /= sum(t), with a self-vouch counted and idle mass scaled away each step.

    Broken on purpose, as it is found in textbooks: a closed loop soaks trust until most people's idle share is small
    enough. `scoring.trust.eigentrust` mends both.
    """
    voucher, subject, weight = strongest(edges.voucher, edges.subject, edges.weight, size)
    given = np.bincount(voucher, weights=weight, minlength=size)
    onward = matrix_of(voucher, subject, weight / given[voucher], size).T.tocsr()
    home = np.zeros(size)
    home[seeds] = 1 / max(len(seeds), 1)
    walk = home
    for _ in range(STEPS):
        following = (1 - damping) * (onward @ walk) + damping * home
        following /= max(following.sum(), np.finfo(float).tiny)
        change = np.abs(following - walk).sum()
        walk = following
        if change <= TOLERANCE:
            break
    return walk


SCORES: dict[str, Score] = {
    "in-vouch count": in_vouches,
    "PageRank": pagerank,
    "textbook EigenTrust": textbook_eigentrust,
}


def first_passage_by(parameters: Parameters) -> Score:
    """Ours as such a score: the trust mass F, 0 for a seed; s = F / (F + c^2) keeps its order."""
    return lambda edges, seeds, size: first_passage(edges, seeds, size, parameters).mass
