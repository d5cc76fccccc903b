"""The backtest on a made-up history: its shape, that it repeats itself, and that nothing later leaks into it."""

import json
import re
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from scoring.dataset.cases import Cases
from scoring.dataset.labels import outcomes, settled
from scoring.dataset.track_record import settled_record
from scoring.models.estimators import Logistic
from scoring.training.backtest import BacktestProblem, Plan, run, steps
from scoring.training.metrics import auc, interval_widths, widths_of
from scoring.training.replays import replay_lane
from scoring.training.report import interval_words, page, table
from scoring.training.rolling_origin import Clock, Past, calibrate_quarters, score_quarters
from scoring.training.summary import read_backtest, shown_backtest, write_backtest
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
