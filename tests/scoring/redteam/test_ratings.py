"""Bitcoin-OTC: what weighing ratings by trust tells of cheats, beside the plain rules."""

from pathlib import Path

import numpy as np
import pytest

from scoring.config.policy import Parameters
from scoring.trust.first_passage import eigentrust
from tests.scoring.redteam.attack_table import auc
from tests.scoring.trust.graphs import edges_of, people
from tests.scoring.trust.market import Market, bitcoin_otc
from tests.scoring.trust.ratings import negative, positive, trust_by_ratings, trusted_mean, zeroed

DEFAULTS = Parameters()


@pytest.fixture(scope="module")
def market(shared: Path) -> Market:
    """Bitcoin-OTC without the ratings that give its labels away."""
    return bitcoin_otc(shared)


@pytest.fixture(scope="module")
def trust(market: Market) -> np.ndarray:
    """Everybody's structural trust by positive ratings."""
    return trust_by_ratings(market.ratings, market.seeds, market.size, DEFAULTS).trust


def separates(market: Market, score: np.ndarray) -> float:
    """The chance that a random honest trader outranks a random cheat."""
    return auc(score[market.honest], score[market.cheats])


def test_the_ratings_that_give_the_labels_away_are_gone(market: Market) -> None:
    assert market.dropped == 844
    assert len(market.seeds) == 36
    assert len(market.honest) + len(market.cheats) == 280


def test_ratings_weighted_by_trust_tell_cheats_best(market: Market, trust: np.ndarray) -> None:
    assert separates(market, trusted_mean(market.ratings, trust)) >= 0.945


def test_the_rules_beside_it_do_worse(market: Market, trust: np.ndarray) -> None:
    vouches = positive(market.ratings)
    assert separates(market, trusted_mean(market.ratings, np.ones(market.size))) == pytest.approx(0.934, abs=0.001)
    assert separates(market, zeroed(trust, negative(market.ratings))) == pytest.approx(0.770, abs=0.001)
    walk = eigentrust(vouches, market.seeds, market.size)
    assert separates(market, walk) == pytest.approx(0.895, abs=0.005)
    assert separates(market, trust) == pytest.approx(0.896, abs=0.001)


def test_raters_without_trust_move_no_mean_and_nobody_rated_by_them_alone_has_one() -> None:
    trust = np.array([1.0, 0.5, 0.0, 0.0, 0.0])
    ratings = [(0, 3, 10.0), (1, 3, -2.0)]
    assert trusted_mean(edges_of(ratings), trust)[3] == pytest.approx((10 - 1) / 1.5)
    bombed = edges_of([*ratings, (2, 3, -10.0), (2, 4, 10.0)])
    assert trusted_mean(bombed, trust).tolist() == trusted_mean(edges_of(ratings), trust).tolist()


def test_negative_ratings_carry_no_trust() -> None:
    ratings = edges_of([(0, 1, 10.0), (1, 2, -10.0), (0, 3, 5.0), (0, 4, 0.0)])
    found = trust_by_ratings(ratings, people(0), 5, DEFAULTS)
    assert found.mass == pytest.approx([0.0, 0.1, 0.0, 0.05, 0.0])
    assert negative(ratings).weight.tolist() == [1.0]
    assert zeroed(found.trust, negative(ratings))[2] == 0
