"""A lane that a maintainer opens on an estimate, until the bet shuts it and somebody opens it anew."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.exceptions import PermissionDenied
from django.db import DatabaseError
from django.test import Client
from pytest_django import Settings

from ingest.store.database import StreamClock
from scoring.certificates.in_force import thresholds_from
from scoring.config.repository import read_settings
from scoring.pipeline import lane_thresholds
from scoring.pipeline.lane_thresholds import read_outcomes
from scoring.queries import read
from scoring.thresholds import Thresholds
from tests.ingest.stream.frames import REPO
from tests.triage.worlds.acting_site import ActingSite
from tests.triage.worlds.estimated_site import CABIN, ELSEWHERE, MANY, OFFER, OWN, estimated_site
from triage.forms.actions import written_choice
from triage.models import Action, AuditAnswer, Change, EstimatedLane, OutboxEntry, Person, RepositoryChoice
from triage.services import estimated_lanes
from triage.services.actions import ActionProblem
from triage.services.audit import WITHDRAWN
from triage.services.erasure import forget_account
from triage.services.estimated_lanes import end_estimated_lane, open_estimated_lane, undo_estimated_lane

pytestmark = pytest.mark.django_db
BEN, EVE = "did:plc:" + "3" * 24, "did:plc:" + "5" * 24


@pytest.fixture
def site(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[ActingSite]:
    with estimated_site(tmp_path, settings, monkeypatch) as made:
        made.maintainer(BEN, "ben.example")
        yield made


def person(did: str = BEN) -> Person:
    return Person.objects.get(did=did)


def repository(site: ActingSite, key: str = REPO) -> read.WatchedRepository:
    with site.result.reading() as rows:
        found = read.watched_repository(rows, key)
    assert found is not None
    return found


def open_lane(site: ActingSite, did: str = BEN) -> EstimatedLane:
    """Open the lane as ben, and let the worker take the opening."""
    made = open_estimated_lane(person(did), repository(site), OFFER, site.now)
    site.work()
    return made


def decided(site: ActingSite) -> dict[str, tuple[str, str]]:
    """Each open pull request's lane and the codes of its reasons."""
    found = site.result.rows("select pull_uri, lane, reasons from current_decisions")
    return {row["pull_uri"]: (row["lane"], row["reasons"]) for row in found}


def drawn(site: ActingSite) -> list[str]:
    found = site.result.rows("select pull_uri from audit_draws where drawn and estimated order by pull_uri")
    return [row["pull_uri"] for row in found]


def answer(site: ActingSite, uri: str, said: str) -> None:
    form = {**site.form(uri=uri), "answer": said, "because": "I read it"}
    client = site.maintainer(BEN, "ben.example")
    assert client.post("/audit", {name: value for name, value in form.items() if value is not None}).status_code == 302


def state(site: ActingSite, key: str = REPO) -> read.LaneState:
    with site.result.reading() as rows:
        return next(one for one in read.lane_states(rows) if one.repository == key)


def test_before_anybody_opens_it_the_lane_is_shut_in_both_repositories(site: ActingSite) -> None:
    assert {lane for lane, _ in decided(site).values()} == {"normal_queue"}
    assert (state(site).basis, state(site).because) == ("shut", "fast_lane_shut")


def test_in_shadow_mode_decisions_say_what_the_lane_would_do_and_nothing_is_drawn(
    site: ActingSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane_thresholds, "present_offer", lambda *asked: OFFER)
    site.result.policy = replace(site.result.policy, lane_traffic=51)  # the offer is counted anew
    site.result.judge()
    found = decided(site)
    assert {found[uri][0] for uri in (*MANY, *ELSEWHERE)} == {"fast_lane"}
    assert all('"code":"threshold_estimated"' in found[uri][1] for uri in MANY)
    assert site.result.value("select count(*) from audit_draws") == 0
    assert site.result.value("select count(*) from waved_through") == 0, "people still read each of them"
    assert (state(site).basis, state(site).shadow, state(site).bad) == ("estimated", True, (0.02, 0.09))


def test_an_opened_lane_lets_through_says_estimated_and_is_audited_one_in_three(site: ActingSite) -> None:
    made = open_lane(site)
    found = decided(site)
    assert {found[uri][0] for uri in MANY} == {"fast_lane", "needs_human"}
    assert all('"code":"threshold_estimated"' in found[uri][1] for uri in MANY)
    odds = site.result.rows("select distinct odds from audit_draws where pull_uri in (select unnest(?))", [MANY])
    assert [row["odds"] for row in odds] == [pytest.approx(1 / 3)]
    assert 5 <= len(drawn(site)) <= 15
    assert {uri for uri in MANY if found[uri][0] == "needs_human"} == set(drawn(site))
    told = state(site)
    assert (told.is_open, told.basis, told.shadow, told.bad) == (True, "estimated", False, (0.02, 0.09))
    assert told.notice == (
        "The fast lane's threshold 60 % is estimated: of past pull requests like these 2.0\N{EN DASH}9.0 % needed "
        "work. It is not certified."
    )
    assert not any(letter.isdigit() for letter in told.plain)
    assert made.person == person()
    assert (Change.objects.get(what="lane.estimated").repo_key, made.repo_key) == (REPO, REPO)


def test_json_and_the_digest_say_estimated_and_name_the_threshold_to_maintainers_alone(site: ActingSite) -> None:
    open_lane(site)
    ben, reader = site.maintainer(BEN, "ben.example"), Client()
    told = {one["repository"]: one for one in ben.get("/lanes").json()["lanes"]}
    here, elsewhere = told[REPO], told[CABIN]
    assert (here["state"], here["shadow"], here["threshold"]) == ("estimated", False, 0.60)
    assert (here["bad"], here["reason"]) == ({"low": 0.02, "high": 0.09}, None)
    assert (here["audited"], here["audited_bad"], here["since"]) == (0, 0, "2026-11-20T12:00:00Z")
    assert (elsewhere["state"], elsewhere["reason"], elsewhere["since"]) == ("shut", "fast_lane_shut", None)
    (shown,) = [one for one in reader.get("/lanes").json()["lanes"] if one["repository"] == REPO]
    assert (shown["state"], shown["threshold"]) == ("estimated", None)
    assert "60" not in shown["notice"]
    for answer in (reader.get("/metrics").json()["lane_notice"], reader.get("/digest").content.decode()):
        assert "estimated" in answer
    site.maintainer(BEN, "ben.example", CABIN)
    open_estimated_lane(person(), repository(site, CABIN), replace(OFFER, threshold=0.70), site.now)
    site.work()
    for answer in (ben.get("/metrics").json()["lane_notice"], ben.get("/digest").content.decode()):
        assert "threshold 60 % is estimated" in answer
        assert "cabin: The fast lane's threshold 70 % is estimated" in answer, "the second lane hides the first nowhere"
    plain = reader.get("/metrics").json()["lane_notice"]
    assert (plain.count("estimated"), "cabin" in plain.partition(":")[0]) == (1, True), "one sentence names both"
    shut(site)
    (shown,) = [one for one in ben.get("/lanes").json()["lanes"] if one["repository"] == REPO]
    assert (shown["state"], shown["reason"], shown["audited_bad"]) == ("shut", "estimated_lane_closed", 5)


def test_push_holders_are_never_in_it_and_another_repository_is_untouched(site: ActingSite) -> None:
    before = decided(site)
    open_lane(site)
    after = decided(site)
    assert {uri: after[uri] for uri in ELSEWHERE} == {uri: before[uri] for uri in ELSEWHERE}
    assert (state(site, CABIN).basis, repository(site, CABIN).settings.shadow) == ("shut", True)
    assert site.result.value("select count(*) from audit_draws where pull_uri = ?", [OWN]) == 0
    assert site.result.value("select own from current_decisions where pull_uri = ?", [OWN])


def shut(site: ActingSite) -> list[str]:
    """Answer no to what the audit drew until the bet shuts the lane; returns the pull requests answered."""
    said = []
    for uri in drawn(site):
        answer(site, uri, "no")
        site.work()
        said.append(uri)
        if not state(site).is_open:
            return said
    raise AssertionError("the lane stayed open")


def test_bad_answers_shut_it_with_the_reason_and_only_a_person_opens_it_anew(site: ActingSite) -> None:
    open_lane(site)
    said = shut(site)
    assert len(said) == 5, "each doubles a bet against 9 in 100 that is won at 20"
    told = state(site)
    assert (told.basis, told.because) == ("shut", "estimated_lane_closed")
    assert told.notice == (
        "The estimated fast lane shut itself in this repository: 5 of 5 audited pull requests "
        "were bad. Its limit was 9 %. A person can open it again."
    )
    waiting = [uri for uri in MANY if uri not in drawn(site)]
    assert {decided(site)[uri][0] for uri in waiting} == {"normal_queue"}
    site.after(86_400)
    site.work()
    assert not state(site).is_open, "it does not open by itself"
    site.after(60)
    open_lane(site)
    assert (state(site).is_open, state(site).basis) == (True, "estimated")
    with site.result.reading() as rows:
        (lane,) = read.estimated_lanes(rows, StreamClock(site.result.store).now())
    assert (lane.opener and lane.opener.did, lane.offer) == (BEN, OFFER)
    first, second = EstimatedLane.objects.order_by("pk")
    assert (first.ended_at, second.ended_at) == (second.opened_at, None)


def test_the_bet_of_a_new_opening_counts_only_what_became_known_since(site: ActingSite) -> None:
    opened = StreamClock(site.result.store).now()
    open_lane(site)
    answered = shut(site)
    site.after(60)
    open_lane(site)
    with site.result.reading() as rows:
        (lane,) = read.estimated_lanes(rows, opened)
        its = read_outcomes(rows, "", read_settings(rows), 0, opened)
    assert (lane.audited, lane.audited_bad, len(answered)) == (0, 0, 5)
    assert its.audited == (), "the audit of an estimated lane says nothing of a certified one"
    answer(site, next(uri for uri in drawn(site) if uri not in answered), "no")
    site.work()
    with site.result.reading() as rows:
        (lane,) = read.estimated_lanes(rows, opened)
    assert (lane.audited, lane.audited_bad, state(site).is_open) == (1, 1, True)


def test_a_certificate_outranks_it_and_the_opening_stands_again_after_it(site: ActingSite) -> None:
    from scoring.certificates.issue import certify
    from tests.scoring.certificates.certified_cases import MODEL, NOW, TERMS, settled

    open_lane(site)
    now = StreamClock(site.result.store).now()
    with site.result.reading() as rows:
        found = read_outcomes(rows, MODEL, read_settings(rows), 0, now)
    certificate = certify(settled(), TERMS, {}, NOW)
    policy = Thresholds(budget=0.10)
    number = repository(site).number
    held = thresholds_from([certificate], policy, found, NOW + timedelta(days=1))[number]
    assert (held.certified, held.t_high, held.estimated, held.budget) == (True, 0.95, None, 0.10)
    later = thresholds_from([certificate], policy, found, NOW + timedelta(days=93))[number]
    assert (later.certified, later.t_high, later.estimated, later.budget) == (False, 0.60, (0.02, 0.09), 0.09)


def test_undo_restores_shadow_mode_and_leaves_nothing_open(site: ActingSite) -> None:
    before = decided(site)
    made = open_lane(site)
    assert not repository(site).settings.shadow
    site.after(30)
    assert undo_estimated_lane(person(), made, repository(site), site.now)
    assert not undo_estimated_lane(person(), made, repository(site), site.now), "once is enough"
    site.work()
    assert repository(site).settings.shadow
    assert state(site).basis == "shut"
    assert (drawn(site), decided(site)) == ([], before), "no row stays drawn because of a mistake"
    assert site.result.value("select count(*) from waved_through") == 0


def test_undo_keeps_the_audits_that_were_answered_and_takes_no_answer_to_those_it_withdraws(site: ActingSite) -> None:
    made = open_lane(site)
    answered, waiting, *_ = taken = drawn(site)
    answer(site, answered, "no")
    site.after(30)
    assert undo_estimated_lane(person(), made, repository(site), site.now)
    form = {**site.form(uri=waiting), "answer": "yes", "because": "I read it"}
    form = {name: value for name, value in form.items() if value is not None}
    ben = site.maintainer(BEN, "ben.example")
    for is_known in (False, True):
        refused = ben.post("/audit", form)
        assert (refused.status_code, AuditAnswer.objects.count()) == (409, 1)
        assert WITHDRAWN in refused.content.decode(), f"the worker knows: {is_known}"
        site.work()
    assert drawn(site) == [answered]
    assert site.result.value("select count(*) from audits") == 1
    assert not OutboxEntry.objects.exclude(problem="").exists()
    assert ben.get("/audits").content.decode().count("Would you have merged it as sent?") == 0
    open_lane(site)
    assert drawn(site) == taken, "whoever opens it anew gets no other draw"


def test_a_lane_that_is_ended_with_a_reason_keeps_its_audit(site: ActingSite) -> None:
    made = open_lane(site)
    taken = drawn(site)
    assert end_estimated_lane(person(), made, repository(site), estimated_lanes.UNDONE, site.now)
    site.work()
    assert drawn(site) == taken != []


def end(site: ActingSite, made: EstimatedLane) -> None:
    end_estimated_lane(person(), made, repository(site), "it let a bad one in", site.now)


def undo(site: ActingSite, made: EstimatedLane) -> None:
    undo_estimated_lane(person(), made, repository(site), site.now)


def undo_outside_shadow_mode(site: ActingSite, made: EstimatedLane) -> None:
    made.was_shadow = False
    undo(site, made)


def watch(site: ActingSite, made: EstimatedLane) -> None:
    form = {"repository": REPO, "shadow": "on", "version": str(repository(site).settings.version)}
    answer = site.maintainer(BEN, "ben.example").post("/settings/shadow", form)
    assert (answer.status_code, EstimatedLane.objects.get().ended_because) == (302, "a maintainer shut the lane")


@pytest.mark.parametrize("shut_by_hand", [end, undo, undo_outside_shadow_mode, watch])
def test_a_lane_that_a_person_shuts_is_shut_on_every_surface_before_the_worker_knows(
    site: ActingSite, shut_by_hand: Callable[[ActingSite, EstimatedLane], None]
) -> None:
    made, ben = open_lane(site), site.maintainer(BEN, "ben.example")
    fast = next(uri for uri in MANY if uri not in drawn(site))
    with site.reader.pin() as shown:
        assert shown is not None
        chosen = {"pull": [written_choice(fast, read.subjects(shown, [fast])[fast].seen, 0)], "confirmed": "yes"}
    queue, before = ben.get("/?bucket=fast_lane"), ben.get("/lanes")
    assert 'class="pick"' in queue.content.decode()
    shut_by_hand(site, made)

    page = ben.get("/?bucket=fast_lane", headers={"If-None-Match": queue["ETag"]}).content.decode()
    assert 'class="pick"' not in page
    assert re.search(r'href="/\?bucket=would_be_fast_lane"[^>]*>\d+ would be fast lane</a>', page)
    page = ben.get("/?bucket=would_be_fast_lane").content.decode()
    assert 'class="pick"' not in page
    assert '<h2 id="group-would_be_fast_lane">Would be fast lane</h2>' in page
    assert "estimated, lane shut" in page
    assert 'class="pill fast"' not in ben.get(f"/pull/{fast}").content.decode()
    (here,) = [
        one
        for one in ben.get("/lanes", headers={"If-None-Match": before["ETag"]}).json()["lanes"]
        if one["repository"] == REPO
    ]
    assert here["shadow"]
    assert ben.get("/pull", {"uri": fast}, headers={"Accept": "application/json"}).json()["shadow"]
    assert ben.get("/queue?bucket=fast_lane").json()["total"] == 0
    would = ben.get("/queue?bucket=would_be_fast_lane").json()["pull_requests"]
    assert fast in {one["uri"] for one in would}
    assert all(one["shadow"] for one in would)
    assert "The fast lane's threshold" not in ben.get("/digest").content.decode()
    assert ben.post("/act/bulk", chosen).status_code == 409
    alone = ben.post("/act", site.form(uri=fast, lane="fast"))
    assert alone.status_code == 409
    assert "This left the fast lane meanwhile." in alone.content.decode()
    assert not Action.objects.exists()
    assert state(site).is_open, "the worker was not told yet"


def test_a_lane_that_a_person_opens_lets_nothing_through_before_the_worker_drew_its_audit(
    site: ActingSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane_thresholds, "present_offer", lambda *asked: OFFER)
    site.result.policy = replace(site.result.policy, lane_traffic=51)
    site.result.judge()
    site.publish()
    open_estimated_lane(person(), repository(site), OFFER, site.now)
    ben = site.maintainer(BEN, "ben.example")
    page = ben.get("/").content.decode()
    assert 'class="pick"' not in page
    assert "estimated, just opened: waiting for the worker" in page
    site.work()
    page = ben.get("/").content.decode()
    assert 'class="pick"' in page
    assert "waiting for the worker" not in page


def test_only_whoever_opened_it_takes_it_back_and_only_at_once(site: ActingSite) -> None:
    made = open_lane(site)
    site.maintainer(EVE, "eve.example")
    with pytest.raises(ActionProblem, match="Somebody else"):
        undo_estimated_lane(person(EVE), made, repository(site), site.now)
    site.after(601)
    with pytest.raises(ActionProblem, match="10 minutes"):
        undo_estimated_lane(person(), made, repository(site), site.now)
    with pytest.raises(ActionProblem, match="Give a reason"):
        end_estimated_lane(person(EVE), made, repository(site), " ", site.now)
    assert end_estimated_lane(person(EVE), made, repository(site), "we wait for a certificate", site.now)
    site.work()
    assert (state(site).basis, repository(site).settings.shadow) == ("shut", True)
    assert Change.objects.get(what="lane.estimate_ended").details["because"] == "we wait for a certificate"


def test_the_page_shows_first_the_lane_that_is_open_or_was_just_ended(site: ActingSite) -> None:
    ben = site.maintainer(BEN, "ben.example", CABIN)

    def shown() -> tuple[list[str], str]:
        page = ben.get("/lane").content.decode().partition('id="lane-repository"')[2].partition("</select>")[0]
        return re.findall(r'value="([^"]+)"', page), "".join(re.findall(r'value="([^"]+)" selected', page))

    order, first = shown()
    other = next(key for key in order if key != first)
    made = open_estimated_lane(person(), repository(site, other), OFFER, site.now)
    assert shown() == (order, other)
    site.work()
    assert shown() == (order, other), "the list keeps its order"
    site.after(60)
    opened = open_estimated_lane(person(), repository(site, first), OFFER, site.now)
    assert shown() == (order, first), "the newest of two"
    site.after(60)
    ben.post("/lane/estimate/end", {"key": made.key, "undo": "1"})
    assert shown() == (order, other), "it was just ended"
    site.after(601)
    assert shown() == (order, first), "that was long ago"
    eve = site.maintainer(EVE, "eve.example", other)
    assert 'aria-labelledby="choice"' in eve.get("/lane").content.decode(), "not a lane of somebody else's"
    ben.post("/lane/estimate/end", {"key": opened.key, "because": "It was a trial."})
    assert shown() == (order, first), "it was just ended"


def test_a_maintainer_of_another_repository_opens_and_ends_nothing_here(site: ActingSite) -> None:
    site.maintainer(EVE, "eve.example", CABIN)
    with pytest.raises(PermissionDenied):
        open_estimated_lane(person(EVE), repository(site), OFFER, site.now)
    made = open_lane(site)
    with pytest.raises(PermissionDenied):
        end_estimated_lane(person(EVE), made, repository(site), "no", site.now)
    assert EstimatedLane.objects.get().ended_at is None
    assert open_estimated_lane(person(EVE), repository(site, CABIN), OFFER, site.now)


@pytest.mark.parametrize(
    "wrong", [{"bad_high": 0.0}, {"bad_high": 1.0}, {"threshold": 1.5}, {"bad_low": 0.2}, {"let_through": 90.0}]
)
def test_figures_that_no_lane_can_be_opened_on_open_none(site: ActingSite, wrong: dict[str, float]) -> None:
    with pytest.raises(ActionProblem, match="No lane can be opened"):
        open_estimated_lane(person(), repository(site), replace(OFFER, **wrong), site.now)
    assert not OutboxEntry.objects.exists()


def test_where_the_operator_asks_for_a_certificate_none_opens(site: ActingSite, settings: Settings) -> None:
    settings.LANE_CONDITIONS = ["certificate", "audit"]
    with pytest.raises(ActionProblem, match="asks for a certificate"):
        open_estimated_lane(person(), repository(site), OFFER, site.now)


def test_a_kill_between_the_steps_of_opening_leaves_all_or_nothing(
    site: ActingSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*asked: object) -> None:
        raise DatabaseError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(estimated_lanes, "save", killed)
        with pytest.raises(DatabaseError):
            open_estimated_lane(person(), repository(site), OFFER, site.now)
    assert not EstimatedLane.objects.exists()
    assert not OutboxEntry.objects.exists()
    assert not RepositoryChoice.objects.exists()


def test_messages_that_come_twice_or_in_another_order_end_the_same_way(site: ActingSite) -> None:
    first = open_lane(site)
    site.after(60)
    second = open_lane(site)
    site.after(60)
    end_estimated_lane(person(), second, repository(site), "a slip", site.now)
    site.work()
    with site.result.store.write() as txn:
        txn.execute("delete from estimated_lanes")
        txn.execute("delete from estimated_ends")
    entries = OutboxEntry.objects.filter(kind__startswith="lane.")
    entries.update(delivered_at=None)
    entries.filter(key=first.key).update(due_at=site.now.replace(year=2027))
    assert site.work() == 2
    OutboxEntry.objects.update(delivered_at=None, due_at=site.now)
    site.work()
    assert site.result.value("select count(*) from estimated_lanes") == 2
    assert site.result.value("select count(*) from estimated_ends") == 1
    assert state(site).basis == "shut", "the newest one was ended, whatever came last"


def test_an_answer_keeps_that_its_lane_was_estimated_in_a_store_made_anew(site: ActingSite) -> None:
    open_lane(site)
    uri = drawn(site)[0]
    answer(site, uri, "no")
    site.work()
    with site.result.store.write() as txn:
        txn.execute("delete from audits")
        txn.execute("delete from audit_draws")
    OutboxEntry.objects.filter(kind="audit.answered").update(delivered_at=None)
    site.work()
    assert site.result.rows("select estimated, odds from audits") == [{"estimated": True, "odds": pytest.approx(1 / 3)}]


def test_an_erased_openers_lane_stays_open_without_their_name(site: ActingSite) -> None:
    open_lane(site)
    forget_account(BEN, None)
    assert EstimatedLane.objects.get().person is None
    assert BEN not in str(list(OutboxEntry.objects.values_list("payload", flat=True)))
    with site.result.store.write() as txn:
        txn.execute("delete from estimated_lanes")
    OutboxEntry.objects.filter(kind="lane.estimated").update(delivered_at=None)
    site.work()
    assert site.result.rows("select actor_id from estimated_lanes") == [{"actor_id": None}]
    assert state(site).basis == "estimated"


def test_the_dashboard_tells_backlog_and_waiting_of_one_repository(site: ActingSite) -> None:
    ben = site.maintainer(BEN, "ben.example")

    def told(key: str) -> str:
        return ben.get("/dashboard", {"repository": key}).content.decode()

    whole, cabin = told(""), told(CABIN)
    assert f"{len(MANY) + len(ELSEWHERE)} from first-timers still wait" in whole
    assert f"{len(ELSEWHERE)} from first-timers still wait" in cabin
    assert f"{len(ELSEWHERE)} are open" in cabin
    assert f'<option value="{CABIN}" selected>' in cabin
    assert "The first two cards are of one repository" in cabin
    hostile = told("<script>alert(1)</script>")
    assert "No such repository is watched here. All are shown." in hostile
    assert "alert(1)" not in hostile
    assert f"{len(MANY) + len(ELSEWHERE)} from first-timers still wait" in hostile
