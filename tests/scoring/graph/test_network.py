"""The network itself: PyTorch and NumPy agree, certain directions hold, and a fit is the same for a seed."""

import importlib.util
from collections.abc import Mapping

import numpy as np
import pytest

from scoring.dataset.cases import Cases, Vouches
from scoring.graph.estimator import PLACE, Graph, GraphSage, placed
from scoring.graph.neighbours import find_neighbours
from scoring.models.base import FitProblem, Floats, probabilities
from scoring.models.estimators import Lowered
from scoring.training.promotion import largest_lift
from scoring.training.rolling_origin import Past
from tests.conftest import missing
from tests.scoring.dataset.people import made_up
from tests.scoring.graph.nets import DIRECTIONS, SETTINGS, drawn_net, odds_at, odds_of_all, vouches_of, with_columns


@pytest.fixture(scope="module", name="cases")
def cases_fixture() -> Cases:
    return with_columns(made_up())


@pytest.fixture(name="torch")
def torch_fixture() -> None:
    """PyTorch and PyTorch Geometric; a machine without them skips, REQUIRE_TORCH=1 fails."""
    if importlib.util.find_spec("torch_geometric") is None:
        missing("REQUIRE_TORCH", "PyTorch is not installed: pip install -r requirements/gnn.txt")


@pytest.mark.parametrize("seed", range(5))
def test_more_of_a_column_that_never_speaks_against_a_person_lowers_nobody_whatever_was_learned(
    cases: Cases, seed: int
) -> None:
    net = drawn_net(cases, Vouches(), seed)
    for place in range(100, 1_200, 100):
        odds = [odds_at(net, cases, place, worth=value) for value in (-3.0, -1.0, 0.0, 1.0, 3.0)]
        assert odds == sorted(odds)
        against = [odds_at(net, cases, place, repository_open=value) for value in (0.0, 1.0, 30.0)]
        assert against == sorted(against, reverse=True)


def test_a_pair_that_takes_the_lower_chance_lets_nobody_lift_themselves(cases: Cases) -> None:
    without, whole = drawn_net(cases, Vouches(), 1), drawn_net(cases, Vouches(), 2)
    pair = Lowered(without, whole)
    rows = {name: column[600:700] for name, column in placed(cases.features, cases).items()}

    def chance(moved: Mapping[str, Floats]) -> Floats:
        # The model without the columns that a person moves alone does not read them.
        fixed = {**moved, "noise": rows["noise"]}
        return probabilities(np.minimum(without.decision_function(fixed), whole.decision_function(moved)))[:, 1]

    assert pair.name == "graphsage"
    assert largest_lift(lambda moved: whole.predict_proba(moved)[:, 1], rows, ("noise",)) > 0.02
    assert largest_lift(chance, rows, ("noise",), without.predict_proba(rows)[:, 1]) == 0


def test_a_row_is_judged_alone_as_among_others(cases: Cases) -> None:
    net = drawn_net(cases, Vouches(), 3)
    together = odds_of_all(net, cases)
    for place in (0, 7, 900, len(cases) - 1):
        assert odds_at(net, cases, place) == pytest.approx(together[place], abs=1e-5)


@pytest.mark.usefixtures("torch")
def test_numpy_gives_what_pytorch_gives_to_five_digits(cases: Cases) -> None:
    from scoring.graph.net import log_odds

    vouches = vouches_of([(-1, -2, True), (-3, -2, False), (-4, -5, True)], cases.opened_at[300])
    net = drawn_net(cases, vouches, 4)
    told = log_odds(net.inputs(cases.features, net.graph.neighbours), net.weights_, SETTINGS)
    assert np.abs(told - odds_of_all(net, cases)).max() < 1e-5
    assert told.std() > 0.1


@pytest.mark.usefixtures("torch")
def test_a_fit_is_the_same_for_a_seed_and_learns_what_is_there(cases: Cases) -> None:
    first, again, other = (fitted(cases, seed) for seed in (0, 0, 1))
    assert all(np.array_equal(first.weights_[name], again.weights_[name]) for name in first.weights_)
    assert not np.array_equal(first.weights_["turn.weight"], other.weights_["turn.weight"])
    assert np.corrcoef(odds_of_all(first, cases), cases.features["worth"])[0, 1] > 0.8
    assert all((first.weights_[f"{name}.weight"] >= 0).all() for name in ("rise", "reach", "line"))


@pytest.mark.usefixtures("torch")
def test_a_fit_that_goes_on_begins_at_the_weights_of_the_model_before(cases: Cases) -> None:
    before = fitted(cases, 0)
    after = fitted(cases, 0, before)
    steps = [np.abs(after.weights_[name] - before.weights_[name]).max() for name in before.weights_]
    assert 0 < max(steps) < SETTINGS.rate * SETTINGS.again * 2


def test_labels_of_one_kind_teach_nothing(cases: Cases) -> None:
    graph = Graph(cases.features, find_neighbours(cases, Vouches(), 4, settled=False))
    rows = placed(cases.features, cases)
    with pytest.raises(FitProblem, match="all 1,200 outcomes are the same"):
        GraphSage(DIRECTIONS, graph, SETTINGS).fit(rows, np.ones(len(cases), dtype=np.int8))
    assert PLACE in rows


def fitted(cases: Cases, seed: int, start: GraphSage | None = None) -> GraphSage:
    labels = Past(cases, "label_merge").at(cases.opened_at[800])
    graph = Graph(cases.features, find_neighbours(cases, Vouches(), SETTINGS.most, settled=False))
    rows = {name: column[labels.positions] for name, column in placed(cases.features, cases).items()}
    return GraphSage(DIRECTIONS, graph, SETTINGS, seed, start).fit(rows, labels.target, weights=labels.weight)
