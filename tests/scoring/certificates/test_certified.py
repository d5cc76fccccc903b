"""Thresholds in force by certificates, outcomes, estimates and the operator, as values and in a pass."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
import numpy as np
import pytest

from scoring.certificates.certificate import write_certificate
from scoring.certificates.in_force import LaneFacts, LaneOutcome, Opening, RepositoryOutcomes, thresholds_from
from scoring.certificates.issue import certify
from scoring.certificates.lane_counts import Offer
from scoring.config.policy import Policy
from scoring.config.repository import DEFAULTS, thresholds_under
from scoring.explain.sentences import lane_notice, plain_sentence, sentence
from scoring.gate.decide import decide_person
from scoring.handlers.settings import write_settings
from scoring.models.serving import LABEL
from scoring.models.storage import save_model, serve
from scoring.pipeline.decisions import to_json
from scoring.pipeline.lane_thresholds import CERTIFICATES
from scoring.pipeline.score import score
from scoring.pipeline.stored import read_thresholds
from scoring.thresholds import Thresholds
from scoring.types import Estimate, Evidence, Lane
from tests.ingest.stream.frames import REPO
from tests.pipeline import At, Result
from tests.scoring.certificates.certified_cases import MODEL, NOW, TERMS, settled
from tests.scoring.models.test_serving import made_up_model
from tests.scoring.pipeline.offered_world import offered_world

CERTIFICATE = certify(settled(), TERMS, {}, NOW)
POLICY = Thresholds(budget=0.10, delta=0.05)
BY_HAND = replace(POLICY, t_high=0.99)
QUIET = RepositoryOutcomes(settled=120)
LATER = NOW + timedelta(days=10)


def outcomes(bad: int, clean: int, first: datetime = NOW) -> tuple[LaneOutcome, ...]:
    """So many bad ones and then clean ones, an hour apart."""
    return tuple(LaneOutcome(first + timedelta(hours=at), at < bad) for at in range(bad + clean))


def held(
    its: RepositoryOutcomes = QUIET,
    policy: Thresholds = POLICY,
    audited: tuple[LaneOutcome, ...] = (),
    now: datetime = LATER,
    model: str = MODEL,
) -> Thresholds:
    known = LaneFacts(model, 50, {7: its}, audited)
    return thresholds_from([CERTIFICATE], policy, known, now)[7]


def code(thresholds: Thresholds) -> str | None:
    assert thresholds.t_high is None
    assert not thresholds.certified
    return thresholds.shut.code if thresholds.shut else None


def test_a_certificate_opens_the_lane_wherever_nothing_speaks_against_it() -> None:
    found = held()
    assert (found.t_high, found.certified, found.budget, found.shut) == (0.95, True, 0.10, None)
    assert lane_notice(found) == ""
    assert thresholds_under(found, 0.10) == found


def test_a_certificate_stands_before_a_threshold_that_was_set_by_hand() -> None:
    assert (held(policy=BY_HAND).t_high, held(policy=BY_HAND).certified) == (0.95, True)


def test_it_expires() -> None:
    late = held(now=NOW + timedelta(days=93))
    assert code(late) == "certificate_expired"
    assert lane_notice(late) == ("The fast lane is shut: its certificate expired 3 days ago, and there is no new one.")
    by_hand = held(policy=BY_HAND, now=NOW + timedelta(days=93))
    assert (by_hand.t_high, by_hand.certified) == (0.99, False)


def test_an_attempt_that_was_refused_says_what_is_missing_and_when_it_comes() -> None:
    refused = certify(settled(40, bad=np.zeros(40)), TERMS, {}, NOW)
    (found,) = thresholds_from([refused], POLICY, LaneFacts(MODEL, 50, {7: QUIET}), LATER).values()
    assert code(found) == "certificate_refused"
    assert lane_notice(found) == (
        "The fast lane is shut: 61 settled pull requests at 95 % or above are needed, 40 so far, about 3 weeks."
    )


def test_a_lane_that_held_only_in_parts_of_the_window_is_told_so() -> None:
    unsteady = certify(settled(bad=(np.arange(300) >= 285).astype(float)), TERMS, {}, NOW)
    (found,) = thresholds_from([unsteady], POLICY, LaneFacts(MODEL, 50, {7: QUIET}), LATER).values()
    assert code(found) == "lane_unsteady"
    assert lane_notice(found).endswith("keeps the budget of 10 % over the whole window, but not in every part of it.")


def test_it_does_not_count_before_it_was_made() -> None:
    assert code(held(now=NOW - timedelta(days=1))) is None


def test_it_speaks_for_no_other_model() -> None:
    assert code(held(model="cd" * 32)) is None


def test_it_speaks_for_its_budget_and_every_larger_one() -> None:
    assert held(replace(QUIET, budget=0.20)).certified
    assert held(replace(QUIET, budget=0.20)).budget == 0.20
    assert code(held(replace(QUIET, budget=0.02))) is None


def test_a_repository_with_too_little_traffic_is_gated() -> None:
    gated = held(RepositoryOutcomes(settled=49))
    assert code(gated) == "too_little_traffic"
    assert "49 pull requests settled here in a year. A lane needs 50," in lane_notice(gated)
    assert held(RepositoryOutcomes(settled=50)).certified


def test_a_repositorys_own_outcomes_close_it_there_and_nowhere_else() -> None:
    known = LaneFacts(MODEL, 50, {7: replace(QUIET, lane=outcomes(6, 2)), 8: QUIET})
    found = thresholds_from([CERTIFICATE], POLICY, known, LATER)
    assert code(found[7]) == "closed_by_outcomes"
    assert found[8].certified
    assert lane_notice(found[7]).startswith("The fast lane is shut in this repository: 5 of 5 of its high-scored")


def test_a_repositorys_own_outcomes_never_open_it() -> None:
    known = LaneFacts(MODEL, 50, {7: replace(QUIET, lane=outcomes(0, 500))})
    assert code(thresholds_from([], POLICY, known, LATER)[7]) is None


def test_the_audit_shuts_the_lane_everywhere_also_one_that_was_set_by_hand() -> None:
    for policy in (POLICY, BY_HAND):
        shut = held(policy=policy, audited=outcomes(8, 0))
        assert code(shut) == "lane_alarm"
        assert lane_notice(shut).endswith("The budget is 10 %.")


def test_outcomes_from_before_the_certificate_are_in_it_already() -> None:
    assert held(audited=outcomes(8, 0, NOW - timedelta(days=30))).certified


def test_the_newest_of_the_largest_fitting_budget_counts() -> None:
    small = certify(settled(bad=np.zeros(300), scores=np.full(300, 0.97)), replace(TERMS, budget=0.05), {}, NOW)
    newer = certify(settled(scores=np.full(300, 0.96)), TERMS, {}, NOW + timedelta(days=5))
    known = LaneFacts(MODEL, 50, {7: QUIET, 8: replace(QUIET, budget=0.05)})
    found = thresholds_from([small, CERTIFICATE, newer], POLICY, known, LATER)
    assert (found[7].t_high, found[8].t_high) == (0.96, 0.97)


def test_a_certified_threshold_is_never_below_t_low() -> None:
    assert held(policy=replace(POLICY, t_low=0.97)).t_high == 0.97


@pytest.mark.parametrize(
    "shut", [held(now=NOW + timedelta(days=93)), held(RepositoryOutcomes()), held(audited=outcomes(8, 0))], ids=code
)
def test_the_gate_gives_the_reason_and_a_row_keeps_it(shut: Thresholds) -> None:
    _, reasons = decide_person(Evidence(), Estimate(0.99, 0.9, 1.0, 90), shut)
    assert shut.shut in reasons
    assert read_thresholds({"thresholds": to_json(shut)}) == shut
    for reason in reasons:
        assert sentence(reason)
    assert shut.shut is not None
    assert not any(letter.isdigit() for letter in plain_sentence(shut.shut))


def test_rows_from_before_there_were_certificates_are_still_read() -> None:
    old = {name: value for name, value in msgspec.json.decode(to_json(POLICY)).items() if name != "shut"}
    assert read_thresholds({"thresholds": to_json(old)}) == POLICY


OFFER = Offer(threshold=0.87, source="own", cases=90.0, let_through=30.0, bad=2.0, bad_low=0.011, bad_high=0.091)
OPENED = replace(QUIET, opening=Opening(OFFER, LATER))


def uncertified(its: RepositoryOutcomes, policy: Thresholds = POLICY) -> Thresholds:
    return thresholds_from([], policy, LaneFacts(MODEL, 50, {7: its}), LATER)[7]


def test_without_a_certificate_an_opening_stands_with_its_own_threshold_and_budget_and_says_estimated() -> None:
    found = uncertified(OPENED)
    assert (found.t_high, found.certified, found.budget, found.since) == (0.87, False, 0.091, LATER)
    assert found.estimated == (0.011, 0.091)
    assert lane_notice(found) == (
        "The fast lane's threshold 87 % is estimated: of past pull requests like these 1.1\N{EN DASH}9.1 % needed "
        "work. It is not certified."
    )
    assert thresholds_under(found, 0.02) == found, "the budget is that of the opening"
    assert uncertified(OPENED, BY_HAND) == found, "it stands before one that was set by hand"
    assert uncertified(OPENED, replace(POLICY, t_low=0.9)).t_high == 0.9


def test_a_valid_certificate_outranks_an_opening_and_one_that_opens_nothing_here_does_not() -> None:
    assert (held(OPENED).t_high, held(OPENED).estimated) == (0.95, None)
    assert held(replace(OPENED, settled=10)).estimated == (0.011, 0.091), "too little settles here for a certified lane"
    assert held(OPENED, now=NOW + timedelta(days=93)).t_high == 0.87


@pytest.mark.parametrize("by", ["audited", "outcomes"])
def test_the_bet_against_the_budget_of_an_opening_shuts_it_there_and_nowhere_else(by: str) -> None:
    opening = Opening(OFFER, LATER, **{by: outcomes(6, 0, LATER)})
    known = LaneFacts(MODEL, 50, {7: replace(QUIET, opening=opening), 8: OPENED})
    found = thresholds_from([], POLICY, known, LATER)
    assert code(found[7]) == "estimated_lane_closed"
    assert found[7].since == LATER + timedelta(hours=4), "the fifth bad one"
    assert found[7].estimated is None
    assert lane_notice(found[7]).endswith("Its limit was 9.1 %. A person can open it again.")
    assert "5 of 5" in lane_notice(found[7])
    assert found[8].t_high == 0.87
    assert thresholds_from([CERTIFICATE], POLICY, known, LATER)[7].certified, "it says nothing of a certified lane"


def test_what_went_wrong_before_anybody_opened_it_does_not_shut_an_opening() -> None:
    known = LaneFacts(MODEL, 50, {7: replace(OPENED, lane=outcomes(8, 0))}, outcomes(8, 0))
    assert thresholds_from([], POLICY, known, LATER)[7].t_high == 0.87


def test_in_shadow_mode_the_threshold_is_that_of_the_offer_unless_something_stands_before_it() -> None:
    offered = replace(QUIET, offer=OFFER)
    found = uncertified(offered)
    assert (found.t_high, found.estimated, found.budget, found.since) == (0.87, (0.011, 0.091), 0.10, None)
    assert held(offered).certified
    assert uncertified(offered, BY_HAND).t_high == 0.99
    shut = thresholds_from([], POLICY, LaneFacts(MODEL, 50, {7: offered}, outcomes(8, 0)), LATER)[7]
    assert code(shut) == "lane_alarm"


LOW = certify(
    settled(scores=np.where(np.arange(300) % 20 == 3, 0.2, 0.95)), replace(TERMS, side="low", budget=0.10), {}, NOW
)
LOW_POLICY = replace(POLICY, low_budget=0.10)


def held_low(
    clean: tuple[LaneOutcome, ...] = (), elsewhere: tuple[LaneOutcome, ...] = (), policy: Thresholds = LOW_POLICY
) -> Thresholds:
    repositories = {7: replace(QUIET, clean=clean), 8: replace(QUIET, clean=elsewhere)}
    return thresholds_from([LOW], policy, LaneFacts(MODEL, 50, repositories), LATER)[7]


def test_a_certified_t_low_stands_before_one_that_was_set_by_hand_and_opens_no_lane() -> None:
    found = held_low()
    assert (found.t_low, found.low_certified, found.low_budget) == (0.5, True, 0.10)
    assert (found.t_high, found.certified) == (None, False)
    assert held_low(policy=replace(LOW_POLICY, t_high=0.4)).t_high == 0.5, "one by hand is never below it"
    assert (held_low(policy=POLICY).t_low, held_low(policy=POLICY).low_certified) == (0.30, False)


@pytest.mark.parametrize(("budget", "t_low"), [(0.05, 0.30), (0.10, 0.5), (0.20, 0.5), (None, 0.5)])
def test_a_repository_may_bear_fewer_false_alarms_than_the_site(budget: float | None, t_low: float) -> None:
    repositories = {7: replace(QUIET, alarm_budget=budget), 8: QUIET}
    found = thresholds_from([LOW], LOW_POLICY, LaneFacts(MODEL, 50, repositories), LATER)
    assert (found[7].t_low, found[7].low_certified) == (t_low, t_low == 0.5)
    assert (found[8].t_low, found[8].low_certified) == (0.5, True)


def test_t_low_expires_and_the_operators_own_stands_again() -> None:
    late = thresholds_from([LOW], LOW_POLICY, LaneFacts(MODEL, 50, {7: QUIET}), NOW + timedelta(days=91))[7]
    assert (late.t_low, late.low_certified) == (0.30, False)


@pytest.mark.parametrize("where", ["here", "elsewhere"])
def test_where_too_much_clean_work_was_sent_to_people_a_low_p_sends_nobody(where: str) -> None:
    told = outcomes(12, 3)
    found = held_low(clean=told) if where == "here" else held_low(elsewhere=told)
    assert (found.t_low, found.low_certified) == (0.0, False)
    lane, reasons = decide_person(Evidence(not_clean=9), Estimate(0.01, 0.0, 0.02, 9), found)
    assert lane is not Lane.NEEDS_HUMAN
    assert "low_probability" not in {reason.code for reason in reasons}


def test_few_clean_ones_among_many_that_were_left_alone_are_within_the_budget() -> None:
    assert held_low(clean=outcomes(3, 97)).low_certified


def test_whoever_is_sent_to_a_person_is_told_what_the_certificate_promises() -> None:
    lane, reasons = decide_person(Evidence(not_clean=9), Estimate(0.2, 0.1, 0.3, 9), held_low())
    assert lane is Lane.NEEDS_HUMAN
    assert sentence(reasons[0]) == "Stays clean: 20 %, below 50 %, where at most 10 % of all clean work is."
    assert not any(letter.isdigit() for letter in plain_sentence(reasons[0]))


def test_newcomers_are_never_sent_to_a_person_for_lack_of_history_whatever_is_certified() -> None:
    lane, reasons = decide_person(Evidence(), Estimate(0.2, 0.0, 0.9, 0), held_low())
    assert lane is Lane.NORMAL_QUEUE
    assert "not_enough_evidence" in {reason.code for reason in reasons}


def test_neither_side_speaks_for_the_other() -> None:
    only_high = thresholds_from([CERTIFICATE], LOW_POLICY, LaneFacts(MODEL, 50, {7: QUIET}), LATER)[7]
    assert (only_high.certified, only_high.low_certified, only_high.t_low) == (True, False, 0.30)
    both = thresholds_from([CERTIFICATE, LOW], LOW_POLICY, LaneFacts(MODEL, 50, {7: QUIET}), LATER)[7]
    assert (both.t_low, both.t_high, both.certified, both.low_certified) == (0.5, 0.95, True, True)


NEXT_DAY = NOW + timedelta(days=1)
Shown = dict[int, tuple[float | None, bool, str | None]]
Judge = Callable[..., Shown]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Result]:
    with offered_world(tmp_path / "store") as result:
        yield result


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """A folder with a model that serves and a certificate of its scores, for a budget of 10 %."""
    folder = tmp_path / "models"
    name = save_model(folder, made_up_model(1), "")
    serve(folder, LABEL, name)
    write_certificate(folder / CERTIFICATES, certify(settled(), replace(TERMS, model=name), {}, NOW))
    return folder


@pytest.fixture
def judge(world: Result, models: Path) -> Judge:
    """Runs a pass and returns the thresholds by which people were judged, by repository (0: the site)."""

    def judged(now: datetime = NEXT_DAY, traffic: int = 0, budget: float = 0.10) -> Shown:
        policy = Policy(models=models, lane_traffic=traffic, thresholds=Thresholds(budget=budget))
        score(world.store, At(now), policy)
        with world.store.read() as rows:
            found = rows.rows("select repository_id, any_value(thresholds) as told from current_scores group by all")
        told = {row["repository_id"]: json.loads(row["told"]) for row in found}
        return {
            number: (one["t_high"], one["certified"], one["shut"] and one["shut"]["code"])
            for number, one in told.items()
        }

    return judged


def test_it_opens_the_lane_of_the_site_and_of_every_repository(judge: Judge) -> None:
    assert set(judge().values()) == {(0.95, True, None)}


def test_it_says_nothing_for_a_smaller_budget(judge: Judge, world: Result) -> None:
    assert set(judge(budget=0.05).values()) == {(None, False, None)}


def test_a_repository_with_a_smaller_budget_stays_shut_beside_others_that_open(judge: Judge, world: Result) -> None:
    judge()
    write_settings(world.store, REPO, replace(DEFAULTS, version=2, shadow=False, budget=0.02), NOW)
    found = judge()
    assert found.pop(0) == (0.95, True, None)
    assert (None, False, None) in found.values()


def test_where_little_settles_it_opens_nothing(judge: Judge) -> None:
    found = judge(traffic=1000)
    assert found.pop(0) == (0.95, True, None)
    assert set(found.values()) == {(None, False, "too_little_traffic")}


def test_the_certificate_of_a_folder_expires(judge: Judge) -> None:
    judge()
    found = judge(NOW + timedelta(days=91))
    assert set(found.values()) == {(None, False, "certificate_expired")}


def test_one_that_was_changed_does_not_count(judge: Judge, models: Path) -> None:
    (path,) = (models / CERTIFICATES).iterdir()
    path.write_bytes(path.read_bytes().replace(b'"budget":0.1', b'"budget":0.2'))
    assert set(judge().values()) == {(None, False, None)}


def test_one_of_another_model_does_not_count(judge: Judge, models: Path) -> None:
    serve(models, LABEL, save_model(models, made_up_model(2), ""))
    assert set(judge().values()) == {(None, False, None)}


def test_a_new_one_is_found_by_the_next_pass(judge: Judge, models: Path) -> None:
    (path,) = (models / CERTIFICATES).iterdir()
    kept = path.read_bytes()
    path.unlink()
    assert set(judge().values()) == {(None, False, None)}
    path.write_bytes(kept)
    assert set(judge().values()) == {(None, False, None)}, "nothing else asks for a pass"
    assert set(judge(NEXT_DAY + timedelta(days=1)).values()) == {(0.95, True, None)}


def test_a_certified_t_low_is_found_by_a_pass_and_judged_by(judge: Judge, models: Path, world: Result) -> None:
    high = next(iter((models / CERTIFICATES).iterdir()))
    model = json.loads(high.read_bytes())["model"]
    write_certificate(models / CERTIFICATES, certify(settled(), replace(TERMS, model=model, side="low"), {}, NOW))
    policy = Policy(models=models, lane_traffic=0, thresholds=Thresholds(budget=0.10, low_budget=0.10))
    score(world.store, At(NEXT_DAY), policy)
    with world.store.read() as rows:
        told = {json.loads(row["thresholds"])["t_low"] for row in rows.rows("select thresholds from current_scores")}
    assert told == {0.5}
    write_settings(world.store, REPO, replace(DEFAULTS, version=2, shadow=False, alarm_budget=0.05), NOW)
    score(world.store, At(NEXT_DAY), policy)
    sql = "select repository_id = 0 as site, thresholds from current_scores"
    with world.store.read() as rows:
        found = {(row["site"], json.loads(row["thresholds"])["t_low"]) for row in rows.rows(sql)}
    assert found == {(True, 0.5), (False, 0.30)}, "there a smaller share of false alarms is borne"
