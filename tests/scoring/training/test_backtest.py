"""The backtest, orders of the queue, features that are rarely known, and the weights of trees."""

import json
import re
import struct
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scoring.dataset.cases import Cases
from scoring.dataset.dataset import Material
from scoring.dataset.labels import outcomes, settled
from scoring.dataset.track_record import CLEAN, settled_record
from scoring.models.estimators import Logistic
from scoring.models.registry import make_estimator
from scoring.queries.queue_order import TURN, Waiting
from scoring.training.backtest import BacktestProblem, Plan, run, steps
from scoring.training.metrics import auc, interval_widths, widths_of
from scoring.training.replays import FIRST, WINDOW, Arrivals, order_figures, replay_lane
from scoring.training.report import MOST_CASES, Weighed, _summary, interval_words, page, summary_plot, table, weighed
from scoring.training.rolling_origin import Clock, Past, calibrate_quarters, score_quarters
from scoring.training.summary import read_backtest, shown_backtest, write_backtest
from scoring.training.train import CHECKS, FEWEST_CHECKED, train, without_rare_checks
from tests.scoring.dataset.people import made_up, material

PLAN = Plan(labels=("label_merge",), quarters=2, draws=20, seed=3)
FIGURES = {"n", "auc", "brier", "log_loss", "ece", "ece_band", "newcomers_n", "newcomers_auc"}
CERTIFICATE = {"lane", "authors", "lane_share", "false_approvals", "rate", "rate_ci", "newcomers", "newcomers_bad"}
LANE = CERTIFICATE | {"n", "plug_in_rate", "quarters_over", "certificate"}

ORDER = {"bad", "tenth", "tenth_bad", "third", "window", "wait", "longest", "first_timer_wait", "first_timer_longest"}


@pytest.fixture(scope="module")
def ran() -> tuple[dict, dict, list[str]]:
    told: list[str] = []
    found, besides = run(material(made_up()), PLAN, told.append)
    return found, besides, told


def test_the_figures_have_the_promised_shape(ran: tuple[dict, dict, list[str]]) -> None:
    label = json.loads(json.dumps(ran[0], allow_nan=False))["labels"]["label_merge"]
    assert set(label["test"]) == {"from", "model"} | FIGURES
    assert set(label["models"]) == {"beta", "logistic", "lightgbm", "blend"}
    assert all(set(figures) == FIGURES for figures in label["models"].values())
    assert set(label["budgets"]) == set(label["without_push_holders"]["budgets"]) == {"0.05", "0.1"}
    assert all(set(lane) == LANE for lane in label["budgets"].values())
    assert all(set(lane["certificate"]) == CERTIFICATE for lane in label["budgets"].values())
    low = label["gate"]["without_push_holders"]["t_low"]
    assert [set(one) for one in low.values()] == [{"n", "months", "sent", "clean_sent", "bad_sent"}] * 2
    assert set(label["repositories"]) == {"one", "two", "three"}
    assert label["newcomers"]["n"] < label["without_push_holders"]["n"] < label["test"]["n"]


def test_newcomers_and_people_who_may_not_push_stand_beside_every_figure(ran: tuple[dict, dict, list[str]]) -> None:
    label = ran[0]["labels"]["label_merge"]
    for part in (label, label["person"], label["gate"]):
        outside = part["without_push_holders"]
        everybody = part["newcomers"]
        assert (everybody["newcomers_n"], everybody["newcomers_auc"]) == (everybody["n"], everybody["auc"])
        assert part["test"]["newcomers_auc"] == everybody["auc"]
        assert outside["newcomers"]["n"] <= everybody["n"] < part["test"]["n"]
    for part in (label, label["without_push_holders"], label["gate"], label["gate"]["without_push_holders"]):
        for lane in part["budgets"].values():
            assert 0 <= lane["newcomers_bad"] <= lane["newcomers"] <= lane["lane"]
            assert lane["newcomers_bad"] <= lane["false_approvals"]
    lines = list(table(ran[0]))
    gate = next(number for number, line in enumerate(lines) if line.startswith("gate: the lower"))
    assert [line[:24].strip() for line in lines[gate + 1 : gate + 4]] == [
        "newcomers",
        "who cannot push",
        "newcomers",
    ]
    assert max(len(line) for line in lines if "budget 10%" in line and not line.startswith("T_LOW")) <= 100


def test_each_order_of_the_queue_stands_in_figures_table_and_page_for_everybody_and_for_those_who_may_not_push(
    ran: tuple[dict, dict, list[str]],
) -> None:
    found, besides, _ = ran
    label = found["labels"]["label_merge"]
    for part in (label, label["without_push_holders"]):
        assert set(part["order"]) == {"need", "oldest", "model", "random", "best"}, "no risk is known of a file"
        assert all(set(one) == ORDER for one in part["order"].values())
    lines = list(table(found))
    assert sum(line.startswith("  as shown") for line in lines) == 2
    assert max(len(line) for line in lines if line.startswith("  by the served model")) <= 100
    (shown,) = shown_backtest(found, besides, datetime(2026, 3, 12)).labels
    for group, part in (("all", label), ("outside", label["without_push_holders"])):
        thirds = {one.name: one.third for one in shown.orders if one.group == group}
        assert thirds == {name: one["third"] for name, one in part["order"].items()}


def test_the_content_risk_of_what_was_read_is_an_order_of_its_own() -> None:
    cases = made_up()
    risk = {str(key): 0.8 for key in cases.keys[::7]}
    found, _ = run(replace(material(cases), risk=risk), replace(PLAN, quarters=1))
    assert "risk" in found["labels"]["label_merge"]["order"]


def test_how_wide_the_intervals_were_stands_in_figures_table_and_page(ran: tuple[dict, dict, list[str]]) -> None:
    found, besides, _ = ran
    label = found["labels"]["label_merge"]
    for part in (label, label["person"]):
        told, newcomers = part["venn_abers"], part["venn_abers"]["newcomers"]
        assert told["n"] == label["test"]["n"]
        assert newcomers["n"] == label["newcomers"]["n"]
        assert 0 < told["mean"] < 1
        assert 0 <= told["wide_share"] <= 1
    words = interval_words(label)
    assert f"mean width {label['venn_abers']['mean']:.3f}" in words
    assert words in "\n".join(table(found))
    assert words in page(found, besides)


def test_the_page_is_told_the_figures_of_the_table(ran: tuple[dict, dict, list[str]], tmp_path: Path) -> None:
    found, besides, _ = ran
    write_backtest(tmp_path, shown_backtest(found, besides, datetime(2026, 3, 12)))
    shown = read_backtest(tmp_path)
    assert shown is not None
    label, (told,) = found["labels"]["label_merge"], shown.labels
    gates = {"outside": label["gate"]["without_push_holders"], "all": label["gate"]}
    assert {
        (one.group, str(one.budget)): (one.n, one.lane, one.bad, one.newcomers, one.newcomers_bad)
        for one in told.budgets
        if one.way == "recipe"
    } == {
        (group, budget): (one["n"], one["lane"], one["false_approvals"], one["newcomers"], one["newcomers_bad"])
        for group, gate in gates.items()
        for budget, one in gate["budgets"].items()
    }


def test_the_page_counts_all_that_was_judged_and_by_whom_it_was_sent(ran: tuple[dict, dict, list[str]]) -> None:
    found, besides, _ = ran
    (told,) = shown_backtest(found, besides, datetime(2026, 3, 12)).labels
    outside, newcomers, everybody = told.groups
    lanes = {one.group: one.n for one in told.budgets}
    assert (outside.n, everybody.n) == (lanes["outside"], lanes["all"])
    assert newcomers.n < outside.n < everybody.n
    assert 0 < outside.bad < everybody.bad < everybody.n
    assert outside.auc is not None
    assert outside.auc > 0.5
    assert sum(one.n for one in told.bins) == outside.n
    assert told.since is not None
    assert told.until is not None
    assert told.since < told.until


def test_the_bar_ends_where_it_said(ran: tuple[dict, dict, list[str]]) -> None:
    assert len(ran[2]) == steps(PLAN, material(made_up()))


def test_table_and_page_hold_every_label_and_fetch_nothing(ran: tuple[dict, dict, list[str]]) -> None:
    found, besides, _ = ran
    found["labels"]["label_merge"]["repositories"]["<script>"] = {}
    text, drawn = "\n".join(table(found)), page(found, besides)
    assert "label_merge" in text
    assert "who cannot push" in text
    assert text.count("as certified  ") == 8  # everybody or not, the change or the gate, two budgets
    assert drawn.count("<svg") == 5
    assert "<script" not in drawn
    assert drawn.count('src="data:image/png;base64,') == 1
    shown = re.sub(r'src="data:image/png;base64,[A-Za-z0-9+/=]+"', "", drawn)
    assert not any(fetching in shown for fetching in ("http:", "https:", "src=", "href=", "url("))


def test_the_same_seed_gives_the_same_figures(ran: tuple[dict, dict, list[str]]) -> None:
    again, _ = run(material(made_up()), PLAN)
    first = {name: part for name, part in ran[0]["labels"]["label_merge"].items() if name != "repositories"}
    second = {name: part for name, part in again["labels"]["label_merge"].items() if name != "repositories"}
    assert first == second


CASES = made_up()
CLOCK = Clock.of(np.datetime64("2022-09-01"), np.datetime64("2023-06-30"))


def scored(cases: Cases, labels: np.ndarray | None = None) -> np.ndarray:
    past = Past(cases, "label_merge")
    if labels is not None:
        for moment in CLOCK.quarters:
            known = past.at(moment)
            past._known[moment] = known._replace(target=labels[known.positions])
    found = score_quarters(past, cases.features, lambda as_of: Logistic({"worth": 0, "noise": 0}), CLOCK, print)
    calibrate_quarters(past, found, CLOCK)
    return found.predicted


def test_what_happens_after_a_month_began_changes_no_score_of_it() -> None:
    moment = np.datetime64("2023-04-01", "us")
    never = np.datetime64("NaT", "us")
    later = {
        name: np.where(getattr(CASES, name) > moment, never, getattr(CASES, name))
        for name in ("merged_at", "refused_at")
    }
    before = CASES.opened_at < np.datetime64("2023-05-01")
    both = [scored(cases)[before] for cases in (CASES, replace(CASES, **later))]
    assert np.array_equal(*both, equal_nan=True)


def test_shuffled_labels_give_an_auc_of_one_half() -> None:
    big = made_up(n=4000, authors=600)
    came = outcomes(big, "label_merge").clean
    told = scored(big, np.random.default_rng(1).permutation((came == 1).astype(np.int8)))
    judged = settled(big) & (came >= 0) & ~np.isnan(told)
    assert auc(told[judged], np.random.default_rng(2).permutation(came[judged]).astype(float)) == pytest.approx(
        0.5, abs=0.03
    )


def test_the_lane_of_a_month_rests_on_earlier_months_only() -> None:
    past = Past(CASES, "label_merge")
    everybody = np.ones(len(CASES), dtype=bool)
    features = {**CASES.features, **settled_record(CASES, "label_merge")}
    found = score_quarters(past, features, lambda as_of: Logistic({"worth": 1}), CLOCK, print)
    calibrate_quarters(past, found, CLOCK)
    lane = replay_lane(past, [found], everybody, CLOCK, 0.1).plug_in
    judged = CASES.opened_at >= CLOCK.judged_from
    assert found.predicted[lane].min() > np.nanmedian(found.predicted[judged])
    assert not lane[~judged].any()


def test_an_interval_rests_on_what_was_settled_before_and_without_that_is_everything() -> None:
    past, everybody = Past(CASES, "label_merge"), np.ones(len(CASES), dtype=bool)
    found = score_quarters(past, CASES.features, lambda as_of: Logistic({"worth": 0, "noise": 0}), CLOCK, print)
    calibrate_quarters(past, found, CLOCK)
    judged = ~np.isnan(found.predicted)
    widths = interval_widths(past, found, CLOCK, everybody)
    assert np.array_equal(np.isnan(widths), ~judged)
    assert 0 < np.median(widths[judged]) < 0.5
    few = everybody & (np.arange(len(CASES)) % 7 == 0)
    told = widths_of(past, found, CLOCK, everybody, few)
    assert told["newcomers"]["n"] == (few & judged).sum()
    assert told["newcomers"]["mean"] == pytest.approx(widths[few & judged].mean(), abs=1e-6)
    assert told["wide_share"] == pytest.approx((widths[judged] > 0.1).mean(), abs=1e-6)
    unknown = replace(found, odds=np.where(CASES.opened_at < CLOCK.judged_from, np.nan, found.odds))
    first = judged & (CASES.opened_at < CLOCK.judged_from + np.timedelta64(28, "D"))
    assert (interval_widths(past, unknown, CLOCK, first)[first] == 1.0).all()


@pytest.mark.parametrize("n", [0, 1])
def test_a_history_with_nothing_settled_is_one_sentence(n: int) -> None:
    young = made_up(n=5)
    young = replace(young, observed_until=young.opened_at).select(np.arange(n))
    with pytest.raises(BacktestProblem, match="nothing can be judged yet"):
        run(material(young), PLAN)


def test_one_author_whose_outcomes_are_all_equal_is_judged_by_the_shrunk_rate() -> None:
    cases = made_up(n=100, authors=1)
    merged = replace(cases, merged_at=cases.opened_at, refused_at=np.full(100, np.datetime64("NaT", "us")))
    found, besides = run(material(merged), replace(PLAN, quarters=1))
    assert found["labels"]["label_merge"]["test"]["model"] == "beta"
    assert any("outcomes are the same" in words for words in besides["label_merge"]["person"]["said"])


DAY = np.timedelta64(1, "D")
START = np.datetime64("2025-01-01", "us")


def arrivals(chance: np.ndarray, first: np.ndarray, days: np.ndarray | None = None, a_day: int = 4) -> Arrivals:
    """`a_day` a day, each decided so many days after it came; bad are those whose chance is below one half."""
    count = len(chance)
    days = np.ones(count) if days is None else days
    opened = START + (np.arange(count) * (86_400_000_000 // a_day)).astype("m8[us]")
    nothing = np.zeros(count, dtype=bool)
    waiting = Waiting(
        chance, np.full(count, np.nan), np.zeros(count), opened, first, nothing, nothing, np.arange(count)
    )
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


NOW = datetime(2026, 1, 1)


@pytest.mark.parametrize(("checked", "kept"), [(0, False), (FEWEST_CHECKED - 1, False), (FEWEST_CHECKED, True)])
def test_ci_is_unknown_to_a_model_until_enough_settled_cases_have_it(checked: int, kept: bool) -> None:
    cases = made_up()
    rates = np.full(len(cases), np.nan)
    rates[np.flatnonzero(settled(cases))[:checked]] = 0.5
    given = {CHECKS: rates, "other": np.ones(len(cases))}
    found = without_rare_checks(cases, given)
    assert np.count_nonzero(~np.isnan(found[CHECKS])) == (checked if kept else 0)
    assert found["other"] is given["other"]


def test_cases_that_are_not_settled_do_not_count() -> None:
    made = made_up()
    cases = replace(made, observed_until=np.where(np.arange(len(made)) < 400, made.opened_at, made.observed_until))
    rates = np.where(settled(cases), np.nan, 0.5)
    assert np.count_nonzero(~np.isnan(rates)) >= FEWEST_CHECKED
    assert np.isnan(without_rare_checks(cases, {CHECKS: rates})[CHECKS]).all()


def test_a_model_trained_on_rare_ci_runs_gives_them_no_weight() -> None:
    cases = made_up()
    rates = np.full(len(cases), np.nan)
    rates[np.flatnonzero(settled(cases))[: FEWEST_CHECKED - 1]] = 0.5
    given = replace(cases, features={**cases.features, CHECKS: rates})
    ours = Material(given, {"worth": 1, CHECKS: 1}, {"worth": 1, CHECKS: 1}, (), {-1: "one", -2: "two", -3: "three"})
    model = train(ours, "label_merge", NOW, 20, 1)["person"].model
    person = {"worth": np.full(3, 0.4), "clean_before": np.full(3, 4.0), "not_clean_before": np.ones(3)}
    told = model.decision_function({**person, CHECKS: np.array([0.0, 1.0, np.nan])})
    assert len(set(told.tolist())) == 1


DIRECTIONS = {CLEAN: 1, "lines_changed": 0, "structural_trust": 1}
ROWS = 900


@pytest.fixture(scope="module")
def found() -> Weighed:
    draw = np.random.default_rng(3)
    columns = {name: draw.random(ROWS) for name in DIRECTIONS}
    columns["lines_changed"][::5] = np.nan
    labels = (draw.random(ROWS) < columns[CLEAN]).astype(np.int8)
    model = make_estimator("lightgbm", DIRECTIONS, rounds=10).fit(columns, labels)
    told = weighed(model, columns, np.arange(ROWS) > 100, seed=1)
    assert told is not None
    return told


def test_of_many_cases_some_are_drawn_and_each_share_has_its_value(found: Weighed) -> None:
    assert found.shares.shape == found.values.shape == (MOST_CASES, len(DIRECTIONS))
    assert found.names == tuple(DIRECTIONS)
    assert abs(found.shares).mean(axis=0).argmax() == 0


def test_without_trees_or_cases_nothing_is_drawn_and_the_page_says_so() -> None:
    assert weighed(None, {}, np.ones(3, dtype=bool), 0) is None
    assert weighed(make_estimator("logistic", DIRECTIONS), {}, np.ones(3, dtype=bool), 0) is None
    assert "No trees could be fitted" in _summary(None)


def test_the_plot_is_an_image_that_is_the_same_each_time_and_moves_nobodys_random_numbers(found: Weighed) -> None:
    before = np.random.get_state()[1].tolist()  # ty: ignore[invalid-argument-type]
    first, second = summary_plot(found), summary_plot(found)
    assert np.random.get_state()[1].tolist() == before  # ty: ignore[invalid-argument-type]
    assert first == second
    assert first.startswith(b"\x89PNG\r\n")
    width, height = struct.unpack(">II", first[16:24])
    assert 400 < width < 1600
    assert 200 < height < 1200
    assert len(first) < 200_000
