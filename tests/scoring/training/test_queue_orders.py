"""Figures of queue orders: shares and waits on arrivals whose answer is known by counting."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from scoring.queries.queue_order import TURN, Waiting
from scoring.training.replays import FIRST, WINDOW, Arrivals, order_figures

DAY = np.timedelta64(1, "D")
START = np.datetime64("2025-01-01", "us")


def arrivals(chance: np.ndarray, first: np.ndarray, days: np.ndarray | None = None, a_day: int = 4) -> Arrivals:
    """`a_day` a day, each decided so many days after it came; bad are those whose chance is below one half."""
    count = len(chance)
    days = np.ones(count) if days is None else days
    opened = START + (np.arange(count) * (86_400_000_000 // a_day)).astype("m8[us]")
    nothing = np.zeros(count, dtype=bool)
    waiting = Waiting(chance, np.full(count, np.nan), np.zeros(count), opened, first, nothing, nothing)
    return Arrivals(waiting, chance, chance < 0.5, opened + (days * 86_400_000_000).astype("m8[us]"))


@pytest.fixture(scope="module")
def mixed() -> Arrivals:
    """600 over 150 days, three in ten bad, four in ten first-timers, a third answered only after a hundred days."""
    draw = np.random.default_rng(5)
    bad, first = draw.random(600) < 0.3, draw.random(600) < 0.4
    chance = np.where(bad, draw.uniform(0, 0.49, 600), draw.uniform(0.5, 1, 600))
    return arrivals(chance, first, np.where(draw.random(600) < 0.33, 100.0, 1.0))


@pytest.fixture(scope="module")
def figures(mixed: Arrivals) -> dict[str, dict[str, Any]]:
    return order_figures(mixed, seed=1)


def test_the_best_order_holds_every_bad_one_that_fits_and_random_a_share_of_its_length(
    mixed: Arrivals, figures: dict[str, Any]
) -> None:
    bad = mixed.bad.sum()
    assert figures["best"]["tenth"] == pytest.approx(60 / bad, abs=1e-6)
    assert (figures["best"]["tenth_bad"], figures["best"]["third"]) == (1.0, 1.0)
    assert figures["random"]["third"] == pytest.approx(1 / 3, abs=0.1)
    assert figures["oldest"]["tenth"] == pytest.approx(mixed.bad[:60].sum() / bad, abs=1e-6)


def test_a_model_that_is_right_is_as_good_as_the_best_and_the_rules_cost_some_of_it(figures: dict[str, Any]) -> None:
    for name in ("tenth", "third", "window"):
        assert figures["model"][name] == figures["best"][name]
        assert figures["random"][name] < figures["need"][name] <= figures["best"][name]


def test_the_windows_are_all_runs_of_thirty_arrivals(mixed: Arrivals, figures: dict[str, Any]) -> None:
    bad = [mixed.bad[start : start + WINDOW].sum() for start in range(len(mixed.bad) - WINDOW + 1)]
    assert figures["best"]["window"] == pytest.approx(np.minimum(bad, FIRST).mean(), abs=1e-6)


def test_oldest_first_lets_everybody_wait_alike_and_others_starve_first_timers(figures: dict[str, Any]) -> None:
    """All orders give the same verdicts a day, so what one saves another waits for."""
    assert figures["oldest"]["longest"] < figures["model"]["longest"]
    assert figures["model"]["first_timer_longest"] > figures["oldest"]["first_timer_longest"]
    assert figures["need"]["first_timer_longest"] < figures["oldest"]["first_timer_longest"]


def test_a_first_timer_waits_three_verdicts_for_each_who_came_before() -> None:
    """One verdict a day, ten regulars who are needier, and two first-timers of the first day: the second is sixth."""
    chance = np.array([0.9, 0.9, *([0.1] * 10)])
    first = np.arange(12) < 2
    found = order_figures(arrivals(chance, first, np.arange(12.0), a_day=24), seed=0)
    assert TURN * 2 - 1 <= found["need"]["first_timer_longest"] <= TURN * 2
    assert found["model"]["first_timer_longest"] > 11


def test_the_content_risk_is_an_order_only_where_it_is_known(mixed: Arrivals, figures: dict[str, Any]) -> None:
    assert "risk" not in figures
    known = replace(mixed, waiting=replace(mixed.waiting, risk=np.where(mixed.bad, 0.8, np.nan)))
    assert order_figures(known, 1)["risk"]["third"] == 1.0


def test_of_nothing_there_is_nothing_to_say() -> None:
    found = order_figures(arrivals(np.zeros(0), np.zeros(0, dtype=bool)), 0)["need"]
    assert found["third"] == 0.0
    assert [found[name] for name in ("tenth_bad", "window", "wait", "first_timer_longest")] == [None] * 4
