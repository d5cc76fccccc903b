"""The page of the fast lane with its one choice and the outcomes, and the queue's notice of it."""

import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from django.test import Client
from pytest_django import Settings

from ingest.store.snapshots import PerSnapshot, Snapshot
from scoring.certificates import lane_curve
from scoring.queries import read
from tests.ingest.stream.frames import REPO, SEED
from tests.pipeline import Later
from tests.scoring.small import DAY, MERGED_AT, again, feed
from tests.triage.worlds.acting_site import ActingSite, acting_site, invited, signed_in
from tests.triage.worlds.lane_site import lane_site
from tests.triage.worlds.watching_site import MERGED, OPEN, PEOPLE, watching_site
from triage.models import EstimatedLane
from triage.views.lanes import lane_offers

pytestmark = pytest.mark.django_db
SITE = watching_site
BEN, EVA, READER = ("did:plc:" + digit * 24 for digit in "345")


@pytest.fixture
def reader(site: ActingSite) -> Client:
    """Somebody who is signed in and maintains nothing."""
    return signed_in(invited(READER, "reader.example"))


def words_of(page: bytes) -> str:
    """The words of a page below its frame, without its tags."""
    main = page.decode().partition("<main")[2].partition(">")[2]
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", main))).replace(" ,", ",")


def text(client: Client, path: str = "/lane") -> str:
    answer = client.get(path)
    assert answer.status_code == 200
    return words_of(answer.content)


def form(client: Client) -> dict[str, str]:
    """Return the hidden fields of the form with the choice."""
    inside = client.get("/lane").content.decode().partition('action="/lane/estimate"')[2].partition("</form>")[0]
    return dict(re.findall(r'name="(repository|offer)" value="([^"]+)"', inside))


def opened(client: Client, site: ActingSite) -> EstimatedLane:
    """Open the lane as the form offers it, and let the worker take the opening."""
    answer = client.post("/lane/estimate", form(client) | {"choice": "open"})
    assert (answer.status_code, answer["Location"]) == (302, f"/lane?repository={REPO.replace(':', '%3A')}")
    site.work()
    return EstimatedLane.objects.get(ended_at=None)


def test_a_lane_that_watches_is_told_with_its_figures_and_one_choice(ben: Client) -> None:
    page = text(ben)
    assert "Open the fast lane? Estimated, shut" in page
    assert "42 of 74 pull requests that settled in the last year, all repositories together. 2 of the 42 were" in page
    assert "bad: 4.8 %, 0.1\N{EN DASH}23.9 % as far as these can tell (last 12 months, estimate)." in page
    assert "Open at 60 %: 0.1\N{EN DASH}23.9 % of what goes through may be bad (last 12 months, estimate)" in page
    assert "The audit draws 1 in 3 at random, from the first one" in page
    assert "Open the lane Keep watching" in page
    assert (
        "it would have spared you about 13 full readings of 20. Of the next 20 about 1.0 may be bad, at worst 4.8."
        in page
    )
    assert "Our advice: keep watching. Of 10 settled here 1 would be wrong, more than your budget of 5 %." in page
    assert "20 let through: " in page, "the page has one volume"
    assert "You save" not in page, "no minutes are measured, and the first sentence has the readings"
    assert "only with your own model. A model learns from settled pull requests of anybody" in page
    assert "certified." not in page.replace("not certified.", "")


def test_where_nothing_can_be_opened_or_somebody_closed_the_lane_no_advice_says_otherwise(
    ben: Client, site: ActingSite, settings: Settings
) -> None:
    assert "Our advice" in text(ben)
    conditions = settings.LANE_CONDITIONS
    settings.LANE_CONDITIONS = (*conditions, "certificate")
    assert "Our advice" not in text(ben), "an estimate opens nothing there"
    settings.LANE_CONDITIONS = conditions
    opened(ben, site)
    assert "Our advice: leave it open" in text(ben)
    ben.post("/lane/close", {"repo_key": REPO, "because": "we look into it"})
    page = text(ben)
    assert "The fast lane is closed by hand" in page
    assert "Our advice" not in page


def test_the_last_thirty_days_are_told_row_by_row_with_what_became_of_each(ben: Client) -> None:
    page = text(ben)
    assert "20 let through: 8 agree, 1 time you were stricter, 1 would be wrong, 10 not known yet" in page
    assert "66 % 95 % interval 30\N{EN DASH}94 merged as sent agrees" in page
    assert "\N{EN DASH}94 changed, then merged you were stricter" in page
    assert "\N{EN DASH}94 closed would be wrong" in page
    assert "\N{EN DASH}94 still open not known yet" in page
    assert re.search(r"Time saved: not measured\.", page)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("update labels set clean = false where pull_uri = $uri", "merged, then reverted or fixed would be wrong"),
        ("delete from labels where pull_uri = $uri", "merged as sent agrees so far"),
        ("update pull_requests set state = 'abandoned' where pull_uri = $uri", "withdrawn by its author not known yet"),
        (
            "update pull_requests set state = 'open', round = 7 where pull_uri = $uri",
            "changed, still open not known yet",
        ),
        ("update pull_requests set state = 'closed', round = 7 where pull_uri = $uri", "changed, then closed would be"),
    ],
)
def test_whatever_becomes_of_a_row_is_told_in_words(ben: Client, site: ActingSite, change: str, told: str) -> None:
    with site.result.store.write() as txn:
        txn.execute(change, {"uri": MERGED[0]})
    site.publish()
    assert f"\N{EN DASH}94 {told}" in text(ben)


def test_who_is_hidden_stands_in_no_row(ben: Client, site: ActingSite) -> None:
    with site.result.store.write() as txn:
        txn.execute("update contributors set account_status = 'deleted' where did = ?", [PEOPLE[0]])
    site.publish()
    assert "19 let through: 7 agree" in text(ben)


def test_the_curve_stands_beside_a_table_of_the_own_past_and_the_starters(ben: Client) -> None:
    page = text(ben)
    assert "60 %, your past 42 74 56.8 % 2 4.8 % 0.1\N{EN DASH}23.9 % 32" in page
    assert "88 %, other projects 49 9,040 0.5 % 1 2.0 % 0.0\N{EN DASH}22.2 % 9" in page
    assert "share of pull requests that the lane lets through" in page
    assert "Dashed: your budget, 5 %." in page


def test_what_was_shown_is_what_is_opened(ben: Client, site: ActingSite) -> None:
    opening = opened(ben, site)
    assert (opening.threshold, opening.let_through, opening.bad, opening.source) == (0.6, 42.0, 2.0, "own")
    with site.reader.pin() as snapshot:
        assert snapshot is not None
        (state,) = read.lane_states(snapshot)
    assert (state.basis, state.shadow, state.t_high) == ("estimated", False, 0.6)


def test_an_offer_that_changed_meanwhile_opens_nothing_and_the_present_one_is_shown(
    ben: Client, site: ActingSite
) -> None:
    shown = form(ben)
    frames = Later(MERGED_AT + 62 * DAY)
    frames.status(SEED, OPEN[0], "merged", rkey="late")
    feed(site.result, frames)
    later = Later(MERGED_AT + 80 * DAY)
    later.vouch(SEED, PEOPLE[0], "update")
    feed(site.result, later)
    again(site.result)
    site.publish()
    answer = ben.post("/lane/estimate", shown | {"choice": "open"})
    assert answer.status_code == 409
    assert "The figures changed since this page was shown, so nothing was opened." in words_of(answer.content)
    assert not EstimatedLane.objects.exists()


def test_whoever_comes_second_is_told_that_it_is_open(ben: Client, site: ActingSite) -> None:
    shown = form(ben)
    opened(ben, site)
    answer = ben.post("/lane/estimate", shown | {"choice": "open"})
    assert answer.status_code == 409
    assert "Somebody opened it before you." in words_of(answer.content)
    assert EstimatedLane.objects.count() == 1


def test_a_form_that_was_made_up_opens_nothing(ben: Client, site: ActingSite) -> None:
    for offer in ("", "0" * 32):
        assert ben.post("/lane/estimate", {"repository": REPO, "offer": offer, "choice": "open"}).status_code == 409
    assert ben.post("/lane/estimate", {"repository": "did:plc:nobody", "choice": "open"}).status_code == 404
    assert not EstimatedLane.objects.exists()


def test_keep_watching_changes_nothing(ben: Client) -> None:
    answer = ben.post("/lane/estimate", form(ben) | {"choice": "watch"}, follow=True)
    assert "Nothing changed: the lane stays shut and keeps watching." in words_of(answer.content)
    assert not EstimatedLane.objects.exists()


def test_only_who_maintains_the_repository_sees_and_opens_its_lane(
    ben: Client, reader: Client, client: Client, site: ActingSite
) -> None:
    told = form(ben) | {"choice": "open"}
    assert reader.post("/lane/estimate", told).status_code == 403
    assert reader.get(f"/lane?repository={REPO}").status_code == 403
    with site.reader.pin() as shown:
        assert shown is not None
        name = read.repository_names(shown)[REPO]
    assert text(ben, f"/lane?repository={name}") == text(ben, f"/lane?repository={REPO}")
    assert reader.get(f"/lane?repository={name}").status_code == 404, "it is not among theirs"
    unknown = reader.get("/lane?repository=nowhere%3Cb%3E")
    assert unknown.status_code == 404
    assert "You maintain no repository called “nowhere&lt;b&gt;”. Write OWNER/NAME." in unknown.content.decode()
    assert client.post("/lane/estimate", told).status_code in (302, 403)
    assert not EstimatedLane.objects.exists()
    assert "Open at" not in text(reader)


def test_who_maintains_nothing_reads_the_state_of_every_lane_and_no_threshold(
    reader: Client, client: Client, settings: Settings
) -> None:
    settings.PUBLIC_READ = True
    for page in (text(reader), text(client)):
        assert re.search(r"lantern Shut\. Would have let through \d+ of \d+ in 30 days", page)
        assert "Only maintainers open or close a lane." in page
        assert "%" not in page


def test_after_an_opening_the_page_says_since_when_by_whom_and_what_it_let_through(
    ben: Client, site: ActingSite
) -> None:
    opened(ben, site)
    page = text(ben)
    assert "The fast lane is open, estimated Estimated, open" in page
    assert "Open since 20 Nov 2026, by ben.example" in page
    assert "It starts at 60 %, estimated, not certified: the lowest chance that passes" in page
    assert "more than 23.9 % are bad, since so few cases cannot prove less against your budget of 5 %" in page
    for others in ("How much would go through", "spared you", "What it would have done in the last 30 days"):
        assert others not in page, "an open lane shows its own figures alone"
    drawn = site.result.rows("select count(distinct pull_uri) as n from audit_draws where drawn")[0]["n"]
    assert 0 < drawn < len(OPEN)
    assert f"The audit drew {drawn} more: 0 answered, {drawn} wait for an answer." in page
    assert re.search(
        r"It shuts if the next \d+ outcomes are bad, or if the next \d+ audits are answered with no\.", page
    )
    assert "Our advice: leave it open, and answer its audits. Nothing is known of it since it was opened." in page
    assert f"{len(OPEN) - drawn} let through: {len(OPEN) - drawn} not known yet" in page


def test_what_the_audit_drew_stands_in_no_list_before_somebody_answered(ben: Client, site: ActingSite) -> None:
    opened(ben, site)
    page = ben.get("/lane").content.decode()
    drawn = {row["pull_uri"] for row in site.result.rows("select distinct pull_uri from audit_draws where drawn")}
    assert drawn < set(OPEN)
    assert not [uri for uri in drawn if f"/history/{uri}" in page]
    assert all(f"/history/{uri}" in page for uri in set(OPEN) - drawn)


def test_a_lane_is_closed_with_a_reason_and_watches_again(ben: Client, site: ActingSite) -> None:
    key = opened(ben, site).key
    answer = ben.post("/lane/estimate/end", {"key": key, "because": ""})
    assert answer.status_code in (400, 422)
    let_through = re.search(r"\d+ let through: \d+ not known yet", text(ben))
    assert let_through is not None
    ben.post("/lane/estimate/end", {"key": key, "because": "It was a trial."})
    site.work()
    page = text(ben)
    assert f"It was a trial. {let_through[0]}." in page, "what it had let through stays beside the choice"
    assert "Open the fast lane? Estimated, shut" in page
    assert "was closed by ben.example" in page
    assert "It was a trial." in page
    assert "No lane is closed by hand." not in page


def test_whoever_opened_it_takes_it_back_without_a_reason_and_nobody_else_is_offered_that(
    ben: Client, site: ActingSite
) -> None:
    key = opened(ben, site).key
    eva = site.maintainer(EVA, "eva.example")
    assert "Close the lane Undo" in text(ben)
    assert "Undo for 10 minutes, by whoever opened it Close any time, here, with a reason" in text(ben)
    assert "Undo What it costs" not in text(eva)
    assert 'name="undo"' not in eva.get("/lane").content.decode()
    answer = ben.post("/lane/estimate/end", {"key": key, "undo": "1"}, follow=True)
    assert "Undone: within seconds the rows are as before." in words_of(answer.content)


def answered_badly(site: ActingSite, count: int, odds: float = 1 / 3) -> None:
    """Add so many answers of the audit that the open lane's pull requests should not have been merged."""
    with site.result.store.write() as txn:
        now = txn.value("select max(known_from) from estimated_lanes")
        number = txn.value("select any_value(repository_id) from estimated_lanes")
        at = site.now.replace(tzinfo=None)
        for uri in OPEN[:count]:
            txn.execute(
                "insert into audits values (?, ?, ?, '', 0, '', ?, ?, false, 'no', null, ?, ?, true)",
                [uri, uri, number, odds, now, at, now],
            )
        txn.inputs_changed()
    site.work()


def test_a_lane_that_shut_itself_says_why_in_the_inbox_and_on_its_page(ben: Client, site: ActingSite) -> None:
    opened(ben, site)
    answered_badly(site, 6)
    page = text(ben)
    assert "The estimated fast lane shut itself Estimated, shut" in page
    assert "shut itself in this repository: 5 of 5 audited pull requests were bad" in page
    assert "You can't open it again yet." in page
    assert "no threshold keeps your budget of 5 % there" in page
    assert "Open the lane" not in page
    assert "Approve several" not in text(ben, "/")
    assert "The estimated fast lane shut itself in this repository" in text(ben, "/")


def test_after_it_shut_itself_a_person_opens_it_anew_on_what_is_known_now(
    ben: Client, site: ActingSite, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.FALSE_APPROVAL_BUDGET = 0.25
    monkeypatch.setattr(lane_curve, "WORST_BAD_HIGH", 0.4)  # 7 bad ones of 47 could be more than .3
    first = opened(ben, site)
    answered_badly(site, 5, odds=1.0)
    assert "7 of the 47 were bad" in text(ben)
    site.after(60)
    ben.post("/lane/estimate", form(ben) | {"choice": "open"})
    page = text(ben)
    assert "The fast lane is open, estimated" in page, "before the worker took it over too"
    assert "shut itself" not in page.partition("Open since")[2]
    site.work()
    second = EstimatedLane.objects.get(ended_at=None)
    assert (second.let_through, second.bad) == (47.0, 7.0)
    assert second.bad_high > first.bad_high
    assert "The fast lane is open, estimated" in text(ben)


def test_the_queue_says_that_the_lane_only_watches_and_advises_as_the_lane_page_does(
    ben: Client, reader: Client
) -> None:
    page, advice = text(ben, "/"), "Of 10 settled here 1 would be wrong, more than your budget of 5 %."
    assert re.search(rf"The fast lane is shut\. Keep watching ?: {advice}", page)
    assert f"Our advice: keep watching. {advice}" in text(ben)
    assert "Open the lane…" not in page
    for other in ("/dashboard", "/lane"):
        assert "The fast lane is shut." not in text(ben, other), "the inbox alone says so above a page"
    head = "Would be fast lane 10 lane shut estimated, lane shut"
    assert head in page
    assert "would have let through 20 of 20 in 30 days: 9 stayed clean, 1 turned out bad, 10 not settled" in page
    told = text(reader, "/")
    assert head in told
    assert "Open the lane…" not in told
    assert "16.3" not in told


@pytest.fixture
def larger_budget(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """A budget that the settled rows keep; what was computed under the other one is forgotten."""
    settings.FALSE_APPROVAL_BUDGET = 0.11
    monkeypatch.setattr(lane_offers, "_pasts", PerSnapshot())


@pytest.mark.usefixtures("larger_budget")
def test_the_queue_offers_to_open_the_lane_where_that_is_the_advice(ben: Client) -> None:
    page = text(ben, "/")
    assert "The fast lane is shut. Open the lane… It would have let through " in page
    assert "(last 12 months, estimate). Your budget is 11 %." in page
    assert "Our advice: open it. Of 10 settled here 1 would be wrong, so nothing here speaks against" in text(ben)


def test_approving_several_says_how_many_the_audit_keeps_apart(ben: Client, site: ActingSite) -> None:
    opened(ben, site)
    drawn = site.result.value("select min(pull_uri) from audit_draws where drawn and estimated")
    form = {**site.form(uri=drawn), "answer": "yes", "because": "I read it"}
    ben.post("/audit", {name: value for name, value in form.items() if value is not None})
    site.work()
    page = ben.post("/act/bulk", {"next": "/"}).content.decode()
    assert "1 audited: not part of this, approve it one by one." in page


def test_the_queue_says_on_what_an_open_lane_rests(ben: Client, reader: Client, site: ActingSite) -> None:
    opened(ben, site)
    page, told = text(ben, "/"), text(reader, "/")
    assert re.search(
        r"Fast lane \d estimated .*estimated: 4.8 % bad \(last 12 months, estimate\) · let through \d of 20 in 30 days",
        page,
    )
    assert "Fast lane, estimated." in page
    assert "The fast lane's threshold 60 % is estimated" in page
    assert re.search(r"Fast lane \d estimated .*estimated · let through", told)
    assert "4.8 %" not in told
    assert not re.search(r"(from|at|below|threshold) (0\.60|60 %)", told)
    assert "The fast lane's threshold is estimated, not certified." in told
    for other in ("/lane", "/settled"):
        assert "The fast lane's threshold" not in text(ben, other)
    assert "lane is shut" not in told


def test_the_queue_says_what_a_certificate_promises(
    ben: Client, site: ActingSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    def certified(snapshot: Snapshot) -> tuple[read.LaneState, ...]:
        return tuple(replace(one, basis="certified", budget=0.1, bad=None) for one in states(snapshot))

    opened(ben, site)
    states = read.lane_states
    monkeypatch.setattr(read, "lane_states", certified)
    assert re.search(
        r"Fast lane \d certified .*certified: at most 10 % · let through \d of 20 in 30 days: \d", text(ben, "/")
    )


def test_the_shadow_report_offers_nothing_where_the_advice_is_to_watch(ben: Client) -> None:
    assert "of what goes through may be bad" not in text(ben, f"/settings/repository?repository={REPO}")


@pytest.mark.usefixtures("larger_budget")
def test_the_shadow_report_offers_to_open_the_lane_where_that_is_the_advice(ben: Client, reader: Client) -> None:
    address, offer = f"/settings/repository?repository={REPO}", "of what goes through may be bad (last 12 months"
    page = text(ben, address)
    assert "Our advice: open it. Of 10 settled here 1 would be wrong" in page
    assert offer in page
    assert offer not in text(reader, address)


def test_without_a_settled_history_the_page_says_what_is_missing(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.BORROW_ORDER = False
    with acting_site(tmp_path / "other", settings, monkeypatch) as other:
        page = text(other.maintainer(EVA, "eva.example"))
    assert "The fast lane is shut Shut" in page
    assert "No pull request by people with a record has settled yet, so there is no estimate." in page
    assert "Rows appear here once a lane can be tried. 0 of 30 have settled in the last year, all" in page
    assert "Open the lane" not in page


def test_a_lane_whose_threshold_was_set_by_hand_offers_nothing_and_says_so(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lane_site(tmp_path / "other", settings, monkeypatch) as other:
        ben = other.maintainer(BEN, "ben.example")
        page, queue = text(ben), text(ben, "/")
    assert "The fast lane's threshold is set by hand Set by hand" in page
    assert "The operator set the threshold by hand with T_HIGH. That takes precedence over an estimate." in page
    assert "Keep watching" not in page
    assert "Fast lane 3 set by hand set by hand, not certified" in queue
