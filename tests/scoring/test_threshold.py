"""How many clean cases a budget asks for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta

from scoring.threshold import items_needed

PUBLISHED = [
    (0.01, 0.05, 299),
    (0.02, 0.05, 149),
    (0.05, 0.05, 59),
    (0.05, 0.10, 45),
    (0.10, 0.05, 29),
    (0.10, 0.10, 22),
]


@pytest.mark.parametrize(("budget", "delta", "needed"), PUBLISHED)
def test_the_counts_are_the_published_ones(budget: float, delta: float, needed: int) -> None:
    assert items_needed(budget, delta) == needed


@given(st.floats(0.005, 0.5), st.floats(0.005, 0.5))
def test_one_case_fewer_would_not_certify(budget: float, delta: float) -> None:
    needed = items_needed(budget, delta)
    assert beta.ppf(1 - delta, 1, needed) <= budget * (1 + 1e-6)
    if needed > 1:
        assert beta.ppf(1 - delta, 1, needed - 1) > budget * (1 - 1e-6)


def test_a_quotient_that_is_a_whole_number_is_not_rounded_up() -> None:
    assert items_needed(0.1, 0.729) == 3
    assert items_needed(0.5, 0.25) == 2


@pytest.mark.parametrize("wrong", [(0.0, 0.05), (1.0, 0.05), (0.05, 0.0), (0.05, 1.0), (float("nan"), 0.05)])
def test_a_budget_that_can_never_or_always_be_kept_is_refused(wrong: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="must lie between 0 and 1"):
        items_needed(*wrong)
