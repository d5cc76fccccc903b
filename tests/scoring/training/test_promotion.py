"""The simplest model that is not beaten serves."""

import json

import numpy as np
import pytest

from scoring.training.promotion import Candidate, decide

DRAW = np.random.default_rng(1)
AUTHORS = DRAW.integers(0, 150, 1500)
ODDS = DRAW.normal(0.5, 1.5, 150)[AUTHORS]
CAME = (DRAW.random(1500) < 1 / (1 + np.exp(-ODDS))).astype(float)
FLAT = np.full(1500, CAME.mean())
TRUE = 1 / (1 + np.exp(-ODDS))
NEARLY = 1 / (1 + np.exp(-(ODDS + DRAW.normal(0, 0.05, 1500))))


def test_a_better_model_takes_the_place_of_a_simpler_one() -> None:
    found = decide([Candidate("simple", FLAT), Candidate("complex", TRUE)], CAME, AUTHORS, 200)
    assert (found.serves, found.trials[1].promoted) == ("complex", True)
    assert found.trials[1].gain_low is not None
    assert found.trials[1].gain_low > 0


def test_an_equally_good_one_does_not() -> None:
    found = decide([Candidate("simple", TRUE), Candidate("complex", NEARLY)], CAME, AUTHORS, 200)
    assert (found.serves, found.trials[1].why) == ("simple", "It does not beat simple for sure.")


def test_each_is_tried_against_what_serves_by_then() -> None:
    tried = [Candidate("a", FLAT), Candidate("b", TRUE), Candidate("c", NEARLY)]
    assert [trial.promoted for trial in decide(tried, CAME, AUTHORS, 200).trials] == [True, True, False]


@pytest.mark.parametrize(
    ("worse", "words"),
    [
        (Candidate("complex", TRUE, seeds=(0.70, 0.75, 0.72)), "from seed to seed"),
        (Candidate("complex", TRUE, self_lift=0.03), "lift their own chance by 3.0 %"),
    ],
)
def test_a_better_model_that_is_unstable_or_can_be_lifted_does_not_serve(worse: Candidate, words: str) -> None:
    found = decide([Candidate("simple", FLAT), worse], CAME, AUTHORS, 200)
    assert found.serves == "simple"
    assert words in found.trials[1].why


def test_too_few_cases_or_authors_promote_nothing() -> None:
    few = [Candidate("simple", FLAT[:100]), Candidate("complex", TRUE[:100])]
    assert "too few" in decide(few, CAME[:100], AUTHORS[:100], 50).trials[1].why
    one = decide([Candidate("simple", FLAT), Candidate("complex", TRUE)], CAME, np.zeros(1500, dtype=int), 50)
    assert "1 authors are too few" in one.trials[1].why


def test_a_decision_about_nothing_is_json_all_the_same() -> None:
    none = np.array([])
    found = decide([Candidate("simple", none), Candidate("complex", none)], none, none.astype(int), 50)
    assert json.loads(json.dumps(found.as_dict(), allow_nan=False))["serves"] == "simple"
    with pytest.raises(ValueError, match="no model"):
        decide([], none, none.astype(int))
