"""Report pages and the dashboard's learned figures: for maintainers, honest where none is written yet."""

import html
import re
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from django.test import Client
from pytest_django import Settings

from scoring.certificates.certificate import NeedRecord
from scoring.queries import read
from scoring.queries.read import TrainingNeed
from scoring.redteam.render import ShownAttack, write_report
from scoring.training.summary import (
    FILE,
    ShownBacktest,
    ShownBudget,
    ShownGroup,
    ShownLane,
    ShownMonth,
    ShownOrder,
    ShownScope,
    ShownShare,
    write_backtest,
    write_figures,
)
from tests.scoring.certificates.certified_cases import MODEL
from tests.scoring.redteam.test_scenes import RUN
from tests.scoring.training.test_shown import SCOPE, backtest, shown
from tests.triage.explained import unexplained
from tests.triage.worlds.drawn_rows import HOSTILE, MARA, NOW
from tests.triage.worlds.pages_world import DrawnWorld, draw
from triage.charts import reports
from triage.presenters import text as missing

pytestmark = pytest.mark.django_db
REPORTS = ("/vouches", "/redteam", "/backtest")
MONTHS = (ShownMonth("2026-01", 40, 1, 0.001, 0.13), ShownMonth("2026-02", 31, 4, 0.04, 0.3))
LANE = ShownLane(True, 0.93, 0.05, 71, 5, 0.02, 0.16, None, NOW, NOW + timedelta(days=90), MONTHS)
EVERY_LANE = msgspec.structs.replace(
    LANE, review=ShownShare(212, 30, 0.1, 0.19), flagged=ShownShare(40, 22.5, 0.39, 0.7)
)
NEED = NeedRecord(128, 31, 0.93, 12, False)


def text(client: Client, path: str) -> str:
    response = client.get(path)
    assert response.status_code == 200, path
    return response.content.decode()


def serve(folder: Path, lane: ShownLane | None = None, scope: ShownScope = SCOPE) -> None:
    write_figures(folder, msgspec.structs.replace(shown(), lane=lane, change=scope))
    (folder / "label_clean_fix.serving").write_text(MODEL)


def test_every_figure_of_every_page_has_its_meaning_in_words_beside_it(
    client: Client, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = DrawnWorld(results=(read.LaneMonth("2026-02", 9, 1, 0.02, 0.44, 0.05),))
    draw(monkeypatch, world)
    serve(folder, LANE, msgspec.structs.replace(SCOPE, self_lift=0.01))
    write_report(folder, RUN)
    write_backtest(folder, whole_backtest())
    counted = {}
    for path in ("/dashboard", f"/c/{MARA.did}", "/leaderboard", *REPORTS):
        page = text(client, path)
        counted[path], bare = unexplained(page)
        assert bare == [], path
        assert all(card.count('<details class="help">') <= 1 for card in page.split('class="card')), path
    assert counted["/dashboard"] >= 9
    assert min(counted.values()) >= 1, counted


def test_what_was_never_played_says_which_command_plays_it(client: Client, folder: Path) -> None:
    assert "manage.py redteam" in text(client, "/redteam")
    assert "0 of 1 run." in text(client, "/redteam")
    page = text(client, "/backtest")
    assert "manage.py backtest" in page
    assert "194 days" in page
    assert '<svg class="chart' not in page


def test_the_attack_page_says_in_one_table_what_each_attack_cost_reached_and_what_stops_it(
    client: Client, folder: Path
) -> None:
    odd = ShownAttack(HOSTILE[0], HOSTILE[1], "12 accounts trusted, 0 in the fast lane", "Two paths")
    write_report(folder, msgspec.structs.replace(RUN, attacks=(*RUN.attacks, odd), lane_open=False))
    serve(folder, LANE)
    page = text(client, "/redteam")
    assert "1 of 2 simulated attacks reached the fast lane: a trusted account is stolen. It is shut; they met" in page
    assert page.count('<td data-label="What it reached"><strong>') == 1, "what gets through stands out"
    assert page.count('data-label="What stops it"') == len(RUN.attacks) + 1, "each cell is named where the table stacks"
    assert "on 7,440 people, 51,160 vouches, 2 seeds; 15 trusted (0.50 or more)." in page
    assert "A seed that is bought or hacked" in page
    assert "At most by 0.0 %. A model above 2 % is not used." in page
    assert "the next pull request of a contributor" in page
    assert not any(mark in page for mark in ("<script>alert", "<img", "s &gt;=", "s >="))


@contextmanager
def beside(command: str) -> Generator[dict[str, subprocess.Popen[bytes]]]:
    """A command that runs beside the pages until the block ends."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        yield {command: child}
    finally:
        child.kill()
        child.wait()


def whole_backtest() -> ShownBacktest:
    """With every part filled."""
    orders = tuple(
        ShownOrder(group, name, 0.2, 0.7, third, 6.0, 1.4, 0.7, 29.2, 900.0)
        for group, more in (("outside", 0.0), ("all", 0.1))
        for name, third in (("need", 0.567), ("oldest", 0.33), ("model", 0.606))
        for third in (third + more,)
    )
    lanes = (
        ShownBudget("outside", "recipe", 0.05, 212, 1_060, 9, 35, 0.033, (0.0, 0.08), 7, 2),
        ShownBudget("outside", "certificate", 0.05, 212, 0, 0, 0, None, (None, None), 0, 0),
        ShownBudget("all", "recipe", 0.05, 300, 1_250, 12, 41, 0.033, (0.0, 0.08), 7, 2),
    )
    run = backtest()
    (label,) = run.labels
    return msgspec.structs.replace(run, labels=(msgspec.structs.replace(label, budgets=lanes, orders=orders),))


def test_each_part_of_the_backtest_answers_one_question_in_a_sentence_with_its_table(
    client: Client, folder: Path
) -> None:
    write_backtest(folder, whole_backtest())
    page = text(client, "/backtest")
    for words in (
        "<strong>Hardly.</strong> Of 12 past pull requests a clean one scored above a bad one in 75 of 100 pairs; ",
        "12 past pull requests by people without push access, opened from 2 Jan 2024 to 30 Dec 2025.",
        "3 went bad: refused, reverted, or fixed within 14 days.",
        '<th scope="row">By the chance alone</th><td class="number">60.6 %</td><td class="number">1.4 days</td>'
        '<td class="number">29.2 days</td></tr>',
        "Where it said 90.0 %, 95.0 % stayed clean; honest scores give 80.0\N{EN DASH}100.0 % there. No bin lies",
        "<strong>0 of 4 first pull requests went bad.</strong> That is 0.0 %; of everybody&#x27;s 25.0 %. The lane "
        "would have let 7 of them through, 2 bad.",
        "<strong>1,060 of 212.</strong> 35 of them went bad, 3.3 %. That is within 5 %, the smallest budget",
        '<th scope="row">5 %, certified</th><td class="number">0</td>',
        '<td class="number">1,250, 41</td>',
        '<td class="number">56.7 %</td><td class="number">66.7 %</td><td class="number">1.4 days</td>',
        '<th scope="row">newcomers among them, their first</th>',
    ):
        assert words in page, words
    assert not any(word in page for word in ("none", "recipe", "label_", "AUC", "ECE", "beta"))
    assert page.index("Hardly.") < page.index('class="card')
    folded = page.count('<details class="help">') + page.count(", and what it means</summary>")
    assert folded == page.count('class="card ') == 4


def test_the_backtest_says_what_the_order_of_the_inbox_costs_and_what_it_buys(client: Client, folder: Path) -> None:
    run = backtest()

    def page(bad: int, longest: float) -> str:
        orders = (
            ShownOrder("outside", "need", 0.2, 0.7, 0.411, 6.0, 54.4, 0.7, longest, 900.0, bad),
            ShownOrder("outside", "model", 0.2, 0.7, 0.444, 6.0, 3.4, 0.7, 1949.6, 2034.4, bad),
            ShownOrder("outside", "oldest", 0.2, 0.7, 0.294, 6.0, 53.5, 0.7, 180.9, 180.9, bad),
        )
        write_backtest(
            folder, msgspec.structs.replace(run, labels=(msgspec.structs.replace(run.labels[0], orders=orders),))
        )
        return text(client, "/backtest")

    assert (
        "Played through on past arrivals, no first-timer would have waited over 173.3 days in the order of the inbox, "
        "and 1,949.6 days in that of the chance alone. The price: half would have waited up to 54.4 days instead of "
        "3.4 days, and the first third would have held 41.1 % of the bad ones instead of 44.4 %."
    ) in page(613, 173.3)
    assert "would have waited over 173.3 days in the order of the inbox" in text(client, "/dashboard")
    assert "Its turns for first-timers bought nothing here" in page(613, 1949.6)
    assert "bargain" not in page(99, 173.3), "with too few bad ones no order is compared"


@pytest.mark.parametrize(
    ("counts", "notes"),
    [
        ((56, 49, 31, 61), (reports.OWN_RULE, reports.OWN_THRESHOLD)),
        ((49, 56, 49, 61), ()),
        ((0, 0, 104, 145), ()),
        ((56, 49, 60, 61), (reports.OWN_RULE,)),
        ((49, 56, 49, 55), (reports.OWN_THRESHOLD,)),
    ],
)
def test_counts_of_the_lanes_that_look_wrong_are_explained(
    client: Client, folder: Path, counts: tuple[int, int, int, int], notes: tuple[str, ...]
) -> None:
    run, groups = backtest(), (("outside", 0.05), ("outside", 0.1), ("all", 0.05), ("all", 0.1))
    budgets = tuple(
        ShownBudget(group, "recipe", budget, 212, count, 9, 3, 0.033, (0.0, 0.08), 7, 2)
        for (group, budget), count in zip(groups, counts, strict=True)
    )
    label = msgspec.structs.replace(run.labels[0], budgets=budgets)
    assert reports.lane_notes(label) == notes
    write_backtest(folder, msgspec.structs.replace(run, labels=(label,)))
    page = html.unescape(text(client, "/backtest"))
    assert tuple(note for note in (reports.OWN_RULE, reports.OWN_THRESHOLD) if note in page) == notes


def test_a_past_in_which_nothing_settled_says_how_many_and_when(
    client: Client, folder: Path, settings: Settings
) -> None:
    run = backtest()
    nobody = tuple(msgspec.structs.replace(one, n=0, bad=0, auc=None) for one in run.labels[0].groups)
    empty = msgspec.structs.replace(run.labels[0], since=None, until=None, groups=nobody, bins=())
    write_backtest(folder, msgspec.structs.replace(run, labels=(empty,)))
    page = text(client, "/backtest")
    assert "0 of 30 past pull requests can be judged yet." in page
    assert "194 days after it was opened" in page
    write_backtest(folder, msgspec.structs.replace(run, labels=()))
    assert "Not run yet. 12 pull requests could be judged now." in text(client, "/backtest")
    with beside("backtest") as settings.BESIDE:  # as in the demo and the replay
        assert "It runs now, over 12 pull requests." in text(client, "/backtest")
    assert "Not run yet. 12 pull requests could be judged now." in text(client, "/backtest"), (
        "it ended without a report"
    )


def test_a_dashboard_that_a_browser_holds_is_built_anew_once_the_backtest_that_runs_beside_it_is_written(
    client: Client, folder: Path, settings: Settings
) -> None:
    settings.STREAM_CLOCK = True
    with beside("backtest") as settings.BESIDE:
        assert "Being tested now." in text(client, "/dashboard")
        held = {"If-None-Match": client.get("/dashboard")["ETag"]}
        assert client.get("/dashboard", headers=held).status_code == 304
        write_backtest(folder, whole_backtest())
        page = client.get("/dashboard", headers=held)
        assert page.status_code == 200
        assert "Being tested now." not in page.content.decode()
    (folder / FILE).unlink()
    assert "Not tested yet." in text(client, "/dashboard")


def test_the_dashboard_has_its_false_approvals_with_counts_budget_and_interval(client: Client, folder: Path) -> None:
    serve(folder, LANE)
    page = text(client, "/dashboard")
    assert "budget 5 %, 5 of 71, 95 % interval 2.0\N{EN DASH}16.0 %" in page
    assert "Backtest: what the certified threshold would have let through at 93 % or above" in page
    assert '<th scope="row">Feb 2026, backtest</th><td class="number">31</td><td class="number">4</td>' in page
    assert "Backtest (dots): 1 of 2 months above the budget" in page
    assert "Live: 0 outcomes of the fast lane are known so far" in page
    assert "21 settled pull requests in 1 bin" in page


def test_the_dashboard_says_in_one_line_how_well_the_queues_order_did(client: Client, folder: Path) -> None:
    assert "manage.py backtest measures it on past pull requests" in text(client, "/dashboard")
    run = whole_backtest()
    thirds = {"need": 0.567, "oldest": 0.33, "model": 0.606}

    def dashboard(bad: int) -> str:
        orders = tuple(
            ShownOrder("outside", name, 0.2, 0.7, third, 6.0, 1.4, 0.7, 29.2, 900.0, bad)
            for name, third in thirds.items()
        )
        (label,) = run.labels
        write_backtest(folder, msgspec.structs.replace(run, labels=(msgspec.structs.replace(label, orders=orders),)))
        return text(client, "/dashboard")

    page = dashboard(2122).replace("\N{EN DASH}", "-")
    assert "Of 2,122 past pull requests that were refused, reverted or fixed, the first third of the inbox" in page
    assert "would have held 56.7 % (54-59); oldest first 33.0 % (31-36), the model alone 60.6 % (58-63)." in page
    assert "half would have waited up to 1.4 days for one, no first-timer more than 29.2." in page
    few = dashboard(19)
    assert "needs at least 100 past pull requests that were refused, reverted or fixed; there are 19." in few
    assert "56.7 %" not in few, "with ten cases such a figure says nothing"


def test_the_dashboard_and_the_backtest_say_the_same_of_the_scores(client: Client, folder: Path) -> None:
    serve(folder)
    assert "Model of" in text(client, "/dashboard")
    write_backtest(folder, whole_backtest())
    dashboard, past = text(client, "/dashboard"), text(client, "/backtest")
    assert "Model of" not in dashboard
    said = "Where it said 90.0 %, 95.0 % stayed clean"
    assert (said in dashboard, said in past) == (True, True)


def test_a_finished_backtest_answers_where_no_model_serves(client: Client, folder: Path) -> None:
    write_backtest(folder, whole_backtest())
    page = text(client, "/dashboard")
    assert "<strong>Yes, so far.</strong> Where it said 90.0 %, 95.0 % stayed clean" in page
    assert "Of 12 past pull requests a clean one scored above a bad one in 75 of 100 pairs" in page
    assert "In the backtest: 1,060 of 212. 35 of them went bad, 3.3 %." in page
    assert "The backtest, each scored before its outcome was known." in page
    answers = re.findall(r'<p class="answer">(.*?)</p>', page)
    assert len(answers) == 5, "a card answers in one sentence, after a word at most, and folds the rest"
    assert not [
        told for told in answers if re.search(r"[.] [A-Z].*[.] [A-Z]", re.sub("<strong>.*?</strong>", "", told))
    ]
    assert '<thead><tr><th scope="col">Lane</th>' in page
    answered = page.split("What did the lane let through")[1].split("Is anything broken?")[0]
    assert not [words for words in ("trained model", "Too early", 'class="empty"') if words in answered]


@pytest.mark.parametrize(
    ("auc", "n", "bad", "word"),
    [(0.67, 1314, 613, "Yes, in part."), (0.51, 1314, 613, "Hardly."), (0.4, 1314, 613, "No."), (None, 9, 0, "Too")],
)
def test_the_verdict_of_a_backtest_heeds_chance(auc: float | None, n: int, bad: int, word: str) -> None:
    (label,) = backtest().labels
    told = reports.verdict(msgspec.structs.replace(label, groups=(ShownGroup("outside", n, bad, auc),)))
    assert told[0].startswith(word)
    assert ("pairs; chance gives 50." in told[1]) == (auc is not None)


@pytest.mark.parametrize(
    ("auc", "n", "bad", "without"),
    [
        (0.51, 1314, 613, True),
        (0.67, 1314, 613, False),
        (0.7, 30, 3, False),
        (None, 500, 0, False),
        (0.5, 20, 10, True),
    ],
)
def test_only_a_backtest_with_enough_of_both_finds_chances_without_order(
    auc: float | None, n: int, bad: int, without: bool
) -> None:
    (label,) = backtest().labels
    judged = msgspec.structs.replace(label, groups=(ShownGroup("outside", n, bad, auc),))
    assert reports.is_without_order(judged) is without


@pytest.mark.parametrize(("auc", "hardly"), [(0.98, False), (0.75, True), (0.3, True), (None, True)])
def test_chances_that_hardly_order_stand_faint_and_the_inbox_says_so(
    client: Client, folder: Path, auc: float | None, hardly: bool
) -> None:
    assert "hardly tells" not in text(client, "/"), "no backtest, no word"
    run = whole_backtest()
    outside = msgspec.structs.replace(run.labels[0].groups[0], auc=auc)
    label = msgspec.structs.replace(run.labels[0], groups=(outside, *run.labels[0].groups[1:]))
    write_backtest(folder, msgspec.structs.replace(run, labels=(label,)))
    page = text(client, "/")
    told = '<p><a href="/dashboard#honest" title="This chance hardly tells yet">stays clean?</a></p>'
    assert (told in page, 'class="group faint"' in page) == (hardly, hardly)
    assert 'id="honest"' in text(client, "/dashboard")


def test_the_header_of_each_lane_says_what_the_backtest_says_of_such_rows(client: Client, folder: Path) -> None:
    assert "In the backtest" not in text(client, "/")
    serve(folder, LANE)
    page, interval = text(client, "/"), "needed a fix (95 % interval {}\N{EN DASH}{} %).".format
    assert page.count(f"In the backtest 5 of 71 like these {interval(2.0, '16.0')}") == 1
    assert page.count("In the backtest") == 1, "a file of before the others were counted says nothing of them"
    serve(folder, EVERY_LANE)
    told = re.findall(r"id=\"group-(\w+)\".*?<p>In the backtest (.*?)</p>", text(client, "/"), re.S)
    assert told == [
        ("needs_human", f"23 of 40 with such scores {interval(39.0, '70.0')}"),
        ("normal_queue", f"30 of 212 with such scores {interval(10.0, '19.0')}"),
        ("fast_lane", f"5 of 71 like these {interval(2.0, '16.0')}"),
    ]


def test_a_lane_in_which_the_backtest_had_nothing_has_no_sentence() -> None:
    assert reports.like_these(None) == {}
    nothing = ShownShare(0, 0, 0.0, 1.0)
    empty = msgspec.structs.replace(LANE, months=(), n=0, bad=0, review=nothing, flagged=nothing)
    assert reports.like_these(empty) == {}


def test_who_maintains_nothing_is_told_rates_and_no_threshold(client: Client, folder: Path) -> None:
    client.logout()
    serve(folder, msgspec.structs.replace(LANE, certified=False, need=NEED))
    page = text(client, "/dashboard")
    assert "5 of 71" in page
    assert not {"0.93", "93 %"} & set(re.findall(r"[\d.]+(?: %)?", page))
    assert "are needed" not in page
    serve(folder, msgspec.structs.replace(LANE, certified=False, need=NEED, months=(), n=0, bad=0))
    assert "too few pull requests have settled" in text(client, "/dashboard")


def test_without_a_model_the_dashboard_says_what_makes_one_and_what_it_needs(client: Client, folder: Path) -> None:
    page = text(client, "/dashboard")
    assert "For now the chance is each person&#x27;s own record" in page
    assert (
        "A certificate for 5 % needs at least 59 settled ones in the lane, all clean; at the pace of the last" in page
    )
    assert "that takes at least 438 weeks." in page
    enough = (
        "A model learns from settled pull requests of anybody that were opened at least 194 days ago: 12 by 3 authors "
        "so far, 200 by 30 are needed. The worker trains next"
    )
    due = f"{(NOW + timedelta(days=2)):%b %Y after %H:%M} UTC"
    for path in ("/redteam", "/dashboard"):
        page = text(client, path)
        assert enough in page
        assert "The worker trains next on " in page
        assert due in page
    assert "Nothing that a lane let through has settled yet." in page
    assert "Not tested yet." in page
    (folder / "label_clean_fix.serving").write_text(MODEL)
    assert "The model has no figures for this page" in text(client, "/dashboard")


def test_each_thing_that_is_missing_has_its_own_words() -> None:
    need = TrainingNeed(1, 1, 7, None)
    assert missing.no_reliability(MODEL, shown(), need) == ""
    empty = msgspec.structs.replace(shown(), change=msgspec.structs.replace(SCOPE, bins=()))
    assert "0 settled pull requests have tested the model" in missing.no_reliability(MODEL, empty, need)
    assert "No threshold was tried" in missing.no_false_approvals(MODEL, shown(), True, "", need)
    failed = msgspec.structs.replace(LANE, certified=False, need=NEED, months=())
    told = missing.no_false_approvals(MODEL, msgspec.structs.replace(shown(), lane=failed), True, "", need)
    assert told == (
        "Nothing is certified: 128 settled pull requests at 93 % or above are needed, 31 so far, about 12 weeks."
    )
    assert "in every part of the last year" in missing.needed(msgspec.structs.replace(failed, need=None))
    assert missing.needed(LANE) == ""
    assert "194 days ago: 1 by 1 author so far, 200 by 30 are needed. The worker" in missing.training_words(need)
    enough = TrainingNeed(2_847, 787, 0, None)
    assert "2,847 by 787 authors so far, 200 by 30 are needed. That is enough. The" in missing.training_words(enough)
    assert missing.next_training(need) == "The worker trains within the hour; manage.py train does it at once."
    assert missing.next_training(TrainingNeed(1, 1, 0, NOW)).startswith("The worker does not train here;")
    beside = missing.training_words(TrainingNeed(2_847, 787, 0, None, is_training=True))
    assert beside.endswith("That is enough. A model is trained beside these pages, which takes some minutes.")
    assert missing.fewest_words(0.05, 0.05, 0).endswith("in the last year none was merged or closed here.")
    assert missing.fewest_words(0.05, 0.05, 10_000).endswith("that takes at least 1 week.")


def test_whom_nobody_knows_and_whom_no_trust_reaches_is_told_so(
    client: Client, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read, "vouches_worth_making", lambda *given: ())
    page = text(client, "/vouches")
    assert "No record of yours has reached this site" in page
    mara = DrawnWorld().contributor(None, "did:plc:maramaramaramaramaramara")
    assert mara is not None
    assert "0 people to propose" in missing.no_vouches(mara.score)
    unreached = replace(mara.score, structural_trust=0.0, distance=None)
    assert "No trust reaches you yet" in missing.no_vouches(unreached)


def test_the_dashboard_says_how_to_start_the_red_team_until_it_has_played(client: Client, folder: Path) -> None:
    page = client.get("/dashboard").content.decode()
    assert "Not run yet. The operator starts the simulations" in page
    assert "manage.py redteam" in page


def test_who_is_no_maintainer_is_not_told_what_an_attack_would_bring(client: Client, folder: Path) -> None:
    write_report(folder, RUN)
    client.logout()
    assert "simulated attacks" not in client.get("/dashboard").content.decode()


def test_the_dashboard_shows_the_last_run_with_its_date(client: Client, folder: Path) -> None:
    write_report(folder, RUN)
    page = client.get("/dashboard").content.decode()
    assert "1 of 1 simulated attacks reached the fast lane: a trusted account is stolen." in page
    assert "Simulated on 20 Nov 2026 on 7,440 people, 51,160 vouches, 2 seeds; 15 trusted (0.50 or more)." in page
    assert "Not run yet" not in page


def test_a_damaged_file_reads_as_not_played(client: Client, folder: Path) -> None:
    (folder / "redteam.json").write_bytes(b'{"at": "<script>"}')
    page = client.get("/dashboard").content.decode()
    assert "Not run yet" in page
    assert '<script>"' not in page
