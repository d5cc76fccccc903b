"""The words and the curve of the fast lane never round bad ones away and never call an estimate certified."""

from dataclasses import replace
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.certificates.lane_counts import Group, LaneCurve, LanePoint, Offer, Source
from scoring.certificates.sample_size import Need
from scoring.pipeline.lane_history import AGREEMENTS, HAPPENED, Agreement, LaneHistory, LaneRow, LaneSum
from scoring.queries.read import AuditCount, LaneMonth, Person
from tests.triage.charts.test_charts import overlapping
from tests.triage.worlds.drawn_rows import HOSTILE
from triage.charts.lane import lane_plot
from triage.presenters import lane as lane_words

OFFER = Offer(threshold=0.87, source="own", cases=126.0, let_through=43.0, bad=1.0, bad_low=0.041, bad_high=0.0861)
NOW = datetime(2026, 11, 20)


def test_an_offer_is_one_clause_in_plain_words() -> None:
    assert lane_words.opening_words(OFFER) == (
        "Open at 87 %: 4.1\N{EN DASH}8.7 % of what goes through may be bad (last 12 months, estimate), not certified."
    )


@pytest.mark.parametrize(
    ("source", "window"), [("own", "(last 12 months, estimate)"), ("starter", "(other projects, estimate)")]
)
def test_each_share_of_bad_ones_names_its_window_and_its_source(source: Source, window: str) -> None:
    offer = replace(OFFER, source=source)
    for words in (
        lane_words.opening_words(offer),
        lane_words.answer_words(offer),
        lane_words.notice_words(offer, 0.05),
        lane_words.standing_words(offer),
    ):
        assert (words.count(window), " in 10" in words) == (1, False), words


def history(*agreements: Agreement) -> LaneHistory:
    return LaneHistory(tuple(row(one) for one in agreements), NOW)


def test_whether_to_open_a_lane_follows_what_settled_here() -> None:
    few = history("agrees", "wrong", "agrees", "stricter", "unknown")
    words = "Only 4 of its rows settled here so far, and it takes 5 to tell more."
    assert lane_words.watching_advice(few, 0.1) == ("keep watching", words)
    bad = history("agrees", "wrong", "agrees", "agrees", "wrong")
    words = "Of 5 settled here 2 would be wrong, more than your budget of 10 %."
    assert lane_words.watching_advice(bad, 0.1) == ("keep watching", words)
    what, why = lane_words.watching_advice(history(*("agrees",) * 10, "wrong"), 0.1)
    assert (what, "1 would be wrong, so nothing here speaks against" in why) == ("open it", True)
    assert lane_words.watching_advice(history(*("agrees",) * 10, "wrong"), 0.05)[0] == "keep watching"
    doubted = lane_words.watching_advice(history(*("agrees",) * 10), 0.1, hardly_tells=True)
    assert (doubted.action, "hardly tell clean ones from bad" in doubted.why) == ("keep watching", True)
    assert "Of 5 settled here none would be wrong" in lane_words.watching_advice(history(*("agrees",) * 5), 0.1)[1]


@pytest.mark.parametrize(
    ("agreements", "answered", "bad", "what", "why"),
    [
        (
            {"wrong": 1},
            3,
            0,
            "leave it open, and answer its audits",
            "1 settled and 3 audited so far, 1 of them bad: too",
        ),
        ({"agrees": 3}, 2, 1, "leave it open, and answer its audits", "1 of them bad: too few to tell whether"),
        (
            {"agrees": 8},
            7,
            7,
            "close it",
            "7 of them bad: more than your budget of 10 %",
        ),
        ({"agrees": 60, "wrong": 0}, 0, 0, "leave it open", "none of them bad: within your budget of 10 % for sure."),
    ],
)
def test_what_to_do_about_an_open_lane_follows_outcomes_and_audits_together_by_an_interval(
    agreements: dict[Agreement, int], answered: int, bad: int, what: str, why: str
) -> None:
    rows = history(*(name for name, count in agreements.items() for _ in range(count)))
    advice = lane_words.open_advice(rows, AuditCount(answered, answered, bad, 0), 0.1)
    assert advice[0] == what
    assert why in advice[1]
    doubted = lane_words.open_advice(rows, AuditCount(answered, answered, bad, 0), 0.1, hardly_tells=True)
    decided = what in ("close it", "leave it open")
    assert doubted[0] == (what if decided else "close it, or answer each of its audits")
    assert ("we would not open it today" in doubted[1]) is not decided, "proof about the lane itself weighs more"


def test_what_came_of_the_lane_is_said_with_its_bound_and_against_the_budget() -> None:
    assert lane_words.lane_answer((), (0, 0), 0.05) == ("", "")
    good, bad = LaneMonth("2026-01", 96, 1, 0.0, 0.1, 0.228284), LaneMonth("2026-02", 4, 4, 0.0, 1.0, 0.05)
    told = lane_words.lane_answer((good,), (0, 0), 0.228284)
    assert told[0] == "96 settled so far, 1 of them bad: 1.1 %, within 22.9 %, the limit of its lane."
    assert "the true share lies between 0.1 % and" in told[1]
    assert "40.0 %, above 5 %, the limit of its lane." in lane_words.lane_answer((bad,), (6, 0), 0.05)[0]
    assert "22.2 %, the average limit of these lanes." in lane_words.lane_answer((good, bad), (0, 0), 0.2212)[0]
    assert lane_words.lane_answer((), (6, 1), 0.05) == ("6 audited so far, 1 of them bad.", ""), "certified meanwhile"


@pytest.mark.parametrize(
    ("n", "bad", "audited", "said"),
    [
        (1, 1, (0, 0), "1 settled so far, 1 of them bad: too few to judge."),
        (1, 1, (3, 0), "1 settled and 3 audited so far, 1 of them bad: too few to judge."),
        (4, 0, (0, 0), "4 settled so far, none of them bad: too few to judge."),
    ],
)
def test_below_five_known_ones_no_share_is_told_and_the_lane_page_counts_the_same(
    n: int, bad: int, audited: tuple[int, int], said: str
) -> None:
    assert lane_words.lane_answer((LaneMonth("2026-01", n, bad, 0.0, 1.0, 0.05),), audited, 0.05) == (said, "")
    rows = history(*("wrong",) * bad, *("agrees",) * (n - bad))
    assert lane_words.open_advice(rows, AuditCount(5, *audited, 0), 0.05).why == said


def test_of_an_open_lane_above_its_limit_it_is_said_what_shuts_it() -> None:
    assert lane_words.still_open("lantern", 4) == (
        "lantern is open: too few have settled to shut it. It shuts if the next 4 are bad too."
    )
    assert lane_words.still_open(HOSTILE[1], 1).endswith("settled to shut it. It shuts if the next one is bad too.")


def test_an_open_lane_says_what_would_shut_it_now() -> None:
    assert (
        lane_words.in_a_row_words(5, 1)
        == "It shuts if the next 5 outcomes are bad, or if the next audit is answered with no."
    )
    assert (
        lane_words.in_a_row_words(1, 4)
        == "It shuts if the next outcome is bad, or if the next 4 audits are answered with no."
    )


def test_no_word_of_an_estimate_calls_it_certified() -> None:
    said = [
        lane_words.opening_words(OFFER),
        lane_words.answer_words(OFFER),
        lane_words.notice_words(OFFER, 0.05),
        lane_words.standing_words(OFFER),
        lane_words.costs_words(OFFER, 19, 30, 1 / 3),
        lane_words.shutting_words(OFFER, 1 / 3, 0.05),
    ]
    assert not [words for words in said if "certified" in words.replace("not certified", "")]


def test_savings_and_risk_are_told_of_the_rows_that_the_page_lists_and_bad_ones_are_rounded_up() -> None:
    assert lane_words.costs_words(OFFER, 38, 30, 1 / 3) == (
        "In 30 days it would have spared you about 25 full readings of 38. "
        "Of the next 38 about 0.9 may be bad, at worst 3.3."
    )
    assert "about 1 full reading of 1." in lane_words.costs_words(OFFER, 1, 30, 1 / 3)
    assert lane_words.costs_words(OFFER, 0, 30, 1 / 3) == ""


def test_what_shuts_the_lane_and_how_long_that_takes_is_said() -> None:
    told = lane_words.shutting_words(OFFER, 1 / 3, 0.05)
    assert told.startswith("when the audit (1 in 3) or the outcomes show that more than 8.7 % are bad, since so few ")
    assert "so few cases cannot prove less against your budget of 5 %; then only a person opens it again" in told
    assert "your budget" not in lane_words.shutting_words(OFFER, 1 / 3, 0.0861)
    told = lane_words.detection_words(90)
    assert "twice as bad from the start is found after about 13 weeks at this pace (median)" in told
    assert "one that turns bad later takes three to four times as long" in told
    assert [lane_words.detection_words(days).count(words) for days, words in (
        (3.2, "about 4 days"), (400, "about 58 weeks"), (1_000, "about 3 years"),
    )] == [1, 1, 1]  # fmt: skip
    assert "(30 %)" in lane_words.shutting_words(OFFER, 0.3, 0.05)


@pytest.mark.parametrize(
    ("need", "training", "told"),
    [
        (Need(93, 43, 0.87, 12), "", "in about 12 weeks at this pace, at the earliest: it takes 93 settled ones"),
        (Need(93, 43, 0.87), "", "not at this pace, at the earliest"),
        (Need(93, 0), "", "needs 93 settled ones that scored high enough, all of them clean"),
        (None, "", "proof is missing that the share of bad ones is within 5 %"),
        (None, "So many are needed.", "only with your own model. So many are needed."),
    ],
)
def test_when_a_certificate_could_come_is_said_in_weeks(need: Need | None, training: str, told: str) -> None:
    assert told in lane_words.certificate_words(need, 0.05, training)


def test_where_nothing_can_be_offered_the_words_say_what_is_missing() -> None:
    assert "there is no estimate" in lane_words.nothing_words(None, 0.05, 30)
    assert "once 30 have settled" in lane_words.nothing_words(None, 0.05, 30)
    few = replace(curve(), points=(LanePoint(0.9, 20.0, 1.0, 3, 0.0, 0.532),))
    assert lane_words.nothing_words(few, 0.05, 30).startswith(
        "Nothing yet. It rests on 100 pull requests that settled in the last year, all repositories together. "
        "Where at most 5 % of them were bad, too few would go through to be sure: up to 53.2 % of those may be bad, "
        "and a lane needs 30 % or less."
    )
    assert lane_words.nothing_words(few, 0.05, 30).endswith("no budget up to 30 % does now.")
    able = replace(curve(), points=(LanePoint(0.9, 20.0, 2.1, 3, 0.0, 0.28), LanePoint(0.8, 40.0, 5.0, 6, 0.0, 0.29)))
    would = "A budget of 11 % in the settings would let 20 of 100 through, 2 of them bad, up to 28.0 %."
    assert would in lane_words.nothing_words(able, 0.05, 30)
    assert "At every threshold more than 5 % of them were bad." in lane_words.nothing_words(curve("own", 9.0), 0.05, 30)


def test_each_budget_says_what_it_would_let_through_and_which_is_in_force() -> None:
    able = replace(curve(), points=(LanePoint(0.9, 20.0, 2.1, 3, 0.0, 0.28), LanePoint(0.8, 40.0, 5.0, 6, 0.0, 0.29)))
    effects = lane_words.budget_effects(able, 0.11)
    assert [budget for budget, *_ in effects] == ["2 %", "5 %", "10 %", "11 %", "15 %", "20 %", "30 %"]
    assert [budget for budget, _, _, is_present in effects if is_present] == ["11 %"]
    told = {budget: (passed, bad) for budget, passed, bad, _ in effects}
    assert told["10 %"] == ("none", "none")
    assert told["11 %"] == ("20 of 100", "2, up to 28.0 %")
    assert told["15 %"] == ("40 of 100", "5, up to 29.0 %")


def row(agreement: Agreement) -> LaneRow:
    return LaneRow("at://x", NOW, "Mend", 1, Person("did:plc:x", "x"), None, "open", agreement)


def test_rows_are_summed_by_what_they_say_of_the_lane() -> None:
    said: tuple[Agreement, ...] = ("agrees", "wrong", "agrees", "stricter", "agrees_so_far")
    told = LaneHistory(tuple(row(one) for one in said), NOW)
    assert lane_words.sum_words(told) == (
        "5 let through: 2 agree, 1 agrees so far, 1 time you were stricter, 1 would be wrong"
    )
    assert told.settled == 4
    assert lane_words.sum_words(LaneHistory((), None)) == ""


def test_every_state_of_a_row_has_words() -> None:
    assert set(lane_words.HAPPENED) == set(HAPPENED)
    assert set(lane_words.SAYS) == set(lane_words.WAS) == set(lane_words.SUMMED) == set(AGREEMENTS)


def test_a_month_says_the_share_and_what_came_of_it() -> None:
    assert lane_words.month_words(LaneSum(54, 18, 10, 1), would=False) == (
        "let through 18 of 54 in 30 days: 10 stayed clean, 1 turned out bad, 7 not settled"
    )
    assert lane_words.month_words(LaneSum(54, 0, 0, 0), would=True) == ""


def test_what_is_missing_for_a_threshold_is_said_with_how_many_of_how_many_and_when() -> None:
    own = LaneCurve("own", 12.0, 60.0, ())
    assert lane_words.untried_words(own, 0.05, 30, 9.0) == (
        "12 of 30 have settled in the last year, all repositories together; the rest takes about 9 weeks at "
        "this repository's pace alone."
    )
    assert lane_words.untried_words(None, 0.05, 30, 0).endswith("repositories together; none of them in this one.")
    enough = lane_words.untried_words(replace(own, cases=40.0), 0.05, 30, 9.0)
    assert enough == (
        "Of 40 pull requests that settled in the last year, all repositories together, no threshold keeps bad "
        "ones within 5 % with enough of them to tell."
    )


@pytest.mark.parametrize(
    ("model", "serving", "told"),
    [
        ("m7", "m7", "These figures were counted with the scores of model m7."),
        ("", "", "These figures were counted without a trained model."),
        ("m7", "m8", "counted with the scores of model m7, and now model m8 serves: the lane may be better or worse"),
        ("", "m8", "counted without a trained model, and now model m8 serves: the lane may be better or worse"),
        ("m7", "", "the scores of model m7, and now each person's own record serves, without a model: the lane may be"),
    ],
)
def test_an_opening_says_whose_scores_were_counted_and_that_others_serve_now(
    model: str, serving: str, told: str
) -> None:
    assert told in lane_words.model_words(replace(OFFER, model=model), serving)


def test_an_audit_says_how_many_were_drawn_answered_and_not_merged() -> None:
    assert lane_words.audit_words(AuditCount(0, 0, 0, 0)) == "0 of them were audited so far."
    assert lane_words.audit_words(AuditCount(3, 0, 0, 3)) == (
        "The audit drew 3 more: 0 answered, 3 wait for an answer. The list below has none without an answer."
    )
    told = lane_words.audit_words(AuditCount(6, 3, 1, 1))
    assert "3 answered, 1 of these would not be merged as sent, 1 waits for an answer" in told
    assert "2 decided or changed before anybody answered." in told


def curve(source: Source = "own", *bad: float) -> LaneCurve:
    points = tuple(
        LanePoint(0.9 - place / 10, 20.0 * (place + 1), many, 9, 0.0, min(0.1 + many / 100, 1.0))
        for place, many in enumerate(bad or (0.0, 1.0, 4.0))
    )
    return LaneCurve(source, 100.0, 365.0, points)


def test_newcomers_and_everybody_stand_beside_the_offer_where_they_were_counted() -> None:
    everybody = Group(900.0, (310.0,) * 101, (12.0,) * 101)
    newcomers = Group(41.0, (0.0,) * 101, (0.0,) * 101)
    both = replace(curve(), newcomers=newcomers, everybody=everybody)
    assert lane_words.group_words(both, OFFER) == [
        ("Newcomers alone", "none of 41"),
        ("With push access", "310 of 900, 12 of them bad"),
    ]
    assert lane_words.group_words(curve(), OFFER) == []


def test_both_pasts_stand_on_one_pair_of_axes_and_in_the_table_behind_it() -> None:
    plot = lane_plot("curve", curve(), curve("starter", 4.0, 9.0), OFFER, 0.05)
    assert plot is not None
    assert [one.rpartition(", ")[2] for one, *_ in plot.table.rows] == ["your past"] * 3 + ["other projects"] * 2
    assert "Across: share of pull requests that the lane lets through." in plot.note
    assert "Up: share of those that turn out bad." in plot.note
    assert "Dashed: your budget, 5 %." in plot.note
    assert "Dot: an opening today, from 87 % on: up to 8.7 % bad." in plot.note
    assert overlapping(plot) == []
    assert "at 34.1 % let through 2.3 % bad, at most 8.7 %; budget 5 %" in plot.summary


def test_without_an_offer_the_curve_says_that_no_threshold_keeps_the_budget_and_without_a_past_there_is_none() -> None:
    plot = lane_plot("curve", None, curve("starter", 9.0), None, 0.05)
    assert plot is not None
    assert "no threshold keeps bad ones within 5 % with enough of them to tell" in plot.summary
    assert plot.dots == ()
    wide = replace(curve(), points=(LanePoint(0.9, 20.0, 0.0, 3, 0.0, 0.971),))
    drawn = lane_plot("curve", wide, None, None, 0.05)
    assert drawn is not None
    assert "100 %" in [label.words for label in drawn.labels], "the axis holds the whole interval"
    assert lane_plot("curve", None, None, None, 0.05) is None


@given(bad=st.lists(st.floats(0, 20), min_size=1, max_size=8), budget=st.floats(0.001, 0.5))
def test_every_part_of_the_picture_stands_inside_it(bad: list[float], budget: float) -> None:
    found = curve("own", *bad)
    plot = lane_plot("curve", found, None, None, budget)
    assert plot is not None
    spots = [spot.split(",") for stroke in (*plot.strokes, *plot.areas) for spot in stroke.points.split()]
    assert all(0 <= float(x) <= plot.width and 0 <= float(y) <= plot.height for x, y in spots)
