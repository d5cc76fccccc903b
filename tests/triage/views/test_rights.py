"""A contributor's link: their own data, for one page, for a time; and what nobody gets with one."""

import json
import logging
import re
import tempfile
from dataclasses import replace
from datetime import datetime, timedelta
from html import unescape
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from ingest.store.snapshots import PerSnapshot
from scoring.queries import read
from scoring.types import Estimate
from tests.ingest.stream.frames import ANA, MALLORY, MARA, REPO, pull_uri
from tests.triage.presenters.test_one_number import read_text
from tests.triage.views.links import HOSTILE, data_address, keeper, link, objecting, text
from tests.triage.worlds.drawn_rows import ANA as PERSON
from tests.triage.worlds.drawn_rows import pull_request
from tests.triage.worlds.small_site import CABIN, HER_REASON, OFFERED, REASON
from triage.access import throttle
from triage.access.tokens import DAYS, SIGNER, secret_hash
from triage.models import Action, Change, ContributorLink, LeaderboardWish, Maintainer, Objection, OutboxEntry, Person
from triage.models.accounts import log_change
from triage.presenters.contributor import RecordRow
from triage.presenters.rights import MARKED, OwnScore, own_pull, steps_of
from triage.services.erasure import forget_account
from triage.services.objections import wish
from triage.views import about
from triage.views.people import contributor

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("small")]


def test_the_link_opens_everything_stored_with_its_source_and_counts_what_others_denounced(
    client: Client, seed: Person
) -> None:
    page = text(client.get(data_address(link(seed))))
    assert "Source: public records from the network's stream" in page
    assert "Source: computed here from public records" in page
    assert 'Warnings about you by others</th><td class="number">2<' in page
    assert "Mend the lamp" in page
    assert "My own words." in page
    assert REASON not in page
    assert HER_REASON not in page


def test_their_own_page_says_first_where_it_is_and_why_and_what_helps_and_last_what_is_stored(
    client: Client, seed: Person
) -> None:
    page = text(client.get(data_address(link(seed)))).partition("<main")[2]
    where = ["Your pull requests", "A maintainer will look at it.", ">Why<", "What helps"]
    rest = [
        "What maintainers see",
        "No score yet: nothing",
        "<h2>Decided<",
        ">Object<",
        "do not score me",
        ">Leaderboard<",
        "Everything stored",
    ]
    places = [page.find(words) for words in where + rest]
    assert -1 not in places
    assert places == sorted(places)
    assert not re.search(r"threshold \d|\brank", page.partition("Everything stored")[0])
    assert "Nobody whom the maintainers trust vouches for you yet." in page
    assert "A vouch by somebody whom the maintainers trust would help." in page
    assert "None of yours has settled in lantern yet." in page
    assert "Nothing is missing" not in page
    assert "No place on the list yet: 0 of 5 changes settled." in page
    read = read_text(page)
    assert not re.search(r"[Yy]ou trust|for them|about them|theirs|[Tt]his contributor|this DID|[a-z]_[a-z]", read)
    assert f" in lantern · {OFFERED[-5:]}, opened " in page, "two of one title are told apart in an objection"
    assert ">Pull requests: 1<" in page
    assert ">Current decisions: 1<" in page


def test_their_own_page_says_its_place_in_the_lane_and_the_steps_on_its_way(
    client: Client, seed: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    for token in (data_address(link(seed)), f"/c/{MARA}/decision/{link(seed, OFFERED)}"):
        page = read_text(text(client.get(token)))
        assert (
            "It is 1st of 1 waiting for a review in lantern. Too few have been answered there yet to say how soon."
            in page
        )
        assert re.search(r"Done: Sent \d+ \w+ Read by scanners Waits for a person Decided", page), "not read yet"
    heard = read.AnswerMonth(datetime(2026, 3, 1), 27, 4.94, 1.0, 9.0)
    monkeypatch.setattr(
        read, "answers", lambda *given: (read.Answers(True, (), heard, 21), read.Answers(False, (), None))
    )
    monkeypatch.setattr(read, "queue_order", lambda *given: (*map(str, range(21)), OFFERED))
    monkeypatch.setattr(about, "_answers", PerSnapshot())
    page = read_text(text(client.get(data_address(link(seed)))))
    assert (
        "22nd of 22 waiting for a review in lantern. Of the 27 first-timers who got an answer there in six months, "
        "half had it within 4.9 days; 21 still wait." in page
    )
    monkeypatch.setattr(read, "queue_order", lambda *given: ())
    assert " waiting for a review in" not in read_text(text(client.get(data_address(link(seed))))), "snoozed, approved"


@pytest.mark.parametrize(("decided", "folded"), [(7, 0), (8, 1), (20, 13)])
def test_their_own_page_shows_seven_that_were_decided_and_folds_the_others(
    client: Client, seed: Person, monkeypatch: pytest.MonkeyPatch, decided: int, folded: int
) -> None:
    line = read.PullLine(
        "at://one", "Mend the lamp", "lantern", datetime(2026, 1, 1), "merged", "clean", result="clean"
    )
    past = (RecordRow(line, "clean", "fast", ""),) * decided
    estimate = Estimate(None, 0.0, 1.0, 0)
    monkeypatch.setattr(contributor.rights, "own_score", lambda page: OwnScore(estimate, "", (), past, ""))
    page = text(client.get(data_address(link(seed)))).partition("<h2>Decided<")[2].partition("</section>")[0]
    shown, _, rest = page.partition("<details>")
    assert (shown.count("Mend the lamp"), rest.count("Mend the lamp")) == (decided - folded, folded)
    assert page.count("<details>") == page.count("</details>") == min(folded, 1)
    assert (f"<summary>{folded} more</summary>" in page) == bool(folded)


def test_steps_say_what_is_done_and_whose_turn_it_is() -> None:
    row = replace(pull_request(1, PERSON, "title", 1, 7), opened_at=datetime(2026, 11, 17), content_risk=0.1)
    now = datetime(2026, 11, 20)

    def told(row: read.QueueRow) -> list[tuple[str, str]]:
        return [(step.words, step.state) for step in steps_of(row, now)]

    sent, decided = ("Sent 17 Nov", "done"), ("Decided", "")
    assert told(row) == [sent, ("Read by scanners", "done"), ("Waits for a person: 3 days", "now"), decided]
    assert told(replace(row, opened_at=datetime(2024, 11, 25)))[0] == ("Sent 25 Nov 2024", "done")
    unread = replace(row, content_risk=None)
    assert told(unread) == [sent, ("Read by scanners", "now"), ("Waits for a person", ""), decided]
    assert told(replace(row, on_author=True))[2] == ("Waits for your answer", "now")
    assert told(replace(unread, is_sealed=True)) == told(row), "what the audit drew looks like any other"


def test_their_author_reads_that_their_own_mark_of_a_merge_decided_its_place_and_what_to_do() -> None:
    row = replace(pull_request(1, PERSON, "title", 1, 7), opened_at=datetime(2026, 11, 17), content_risk=0.1)
    for claim, words in MARKED.items():
        told = own_pull(replace(row, claim=claim), None, datetime(2026, 11, 20))
        assert told.reasons[0] == words
        assert "If it was not merged, mark it as open again on Tangled." in told.helps
    assert not set(MARKED.values()) & set(own_pull(row, None, datetime(2026, 11, 20)).reasons)


@pytest.mark.parametrize("cases", [1, 4, 30])
def test_their_own_page_shows_the_chance_and_interval_that_maintainers_see_however_little_settled(
    client: Client, seed: Person, monkeypatch: pytest.MonkeyPatch, cases: int
) -> None:
    real = read.contributor

    def scored(*asked: Any, **named: Any) -> read.ContributorPage | None:
        found = real(*asked, **named)
        if found is None:
            return None
        verdict = replace(found.score.verdict, estimate=Estimate(0.7391, 0.4213, 0.9581, cases))
        return replace(found, score=replace(found.score, verdict=verdict))

    monkeypatch.setattr(read, "contributor", scored)
    own = text(client.get(data_address(link(seed))))
    theirs = text(keeper(client).get(f"/c/{MARA}"))
    assert "73 %, 95 % interval 42\N{EN DASH}96" in own
    assert ">73 %<" in theirs
    assert ">42\N{EN DASH}96<" in theirs


def test_a_maintainer_reads_it_as_the_contributors_and_nobody_else_may(client: Client, seed: Person) -> None:
    assert "As this contributor sees it" in text(keeper(client).get(f"/c/{MARA}/data"))
    client.force_login(Person.objects.create(did=ANA))
    assert client.get(f"/c/{MARA}/data").status_code == 403


class HeldBriefly:
    """A lock that is free for whoever waits for it."""

    def acquire(self, timeout: float) -> bool:
        return timeout > 0

    def release(self) -> None:
        pass


def test_only_people_with_a_role_wait_for_another_export(
    client: Client, seed: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contributor, "_reading", HeldBriefly())
    stranger = Client()
    stranger.force_login(Person.objects.create(did=ANA))
    for answer_now in (stranger.get("/me"), Client().get(data_address(link(seed)))):
        assert (answer_now.status_code, answer_now["Retry-After"]) == (503, "60")
    assert keeper(client).get(f"/c/{MARA}/data").status_code == 200


def test_one_person_reads_what_is_stored_a_few_times_a_minute(seed: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contributor, "READS_A_MINUTE", 2)
    monkeypatch.setattr(throttle, "MINUTE", 10**10)  # no minute ends during the test
    stranger, other = Client(), Client()
    stranger.force_login(Person.objects.create(did=ANA))
    other.force_login(Person.objects.create(did=MALLORY))
    answers = [stranger.get(address) for address in ("/me", "/me?form=json", "/me")]
    assert [one.status_code for one in answers] == [200, 200, 429]
    assert int(answers[-1]["Retry-After"]) > 0
    assert other.get("/me").status_code == 200


def test_the_whole_of_it_as_json_holds_no_threshold_no_folder_and_no_denounce_of_others(
    client: Client, seed: Person
) -> None:
    answer = client.get(data_address(link(seed)) + "?form=json")
    told = answer.getvalue().decode()
    found = json.loads(told)
    assert "attachment" in answer["Content-Disposition"]
    assert {"events", "contributors", "pull_requests", "vouches", "scores"} <= found["tables"].keys()
    assert found["denounces_by_others"] == 2
    assert found["said_here"]["links"][0]["purpose"] == "data"
    for hidden in (REASON, HER_REASON, "t_low", "thresholds", "secret_hash", f"{tempfile.gettempdir()}/"):
        assert hidden not in told
    people = {row["contributor_did"] for row in found["tables"]["scores"]["rows"]}
    assert people == {MARA}, "other people's judgements are theirs"


@pytest.mark.parametrize("secret", ["", ".", "data~x", "data~x.y.z", "x" * 5_000, "data~\x00", "..%2f..%2fetc"])
def test_what_is_no_link_opens_nothing(client: Client, secret: str) -> None:
    answer = client.get(data_address(secret))
    assert answer.status_code in (302, 403, 404)
    assert "Mend the lamp" not in text(answer)


def test_every_changed_character_of_a_link_makes_it_worthless(client: Client, seed: Person) -> None:
    token = link(seed)
    for place in range(0, len(token), 7):
        other = "A" if token[place] != "A" else "B"
        assert client.get(data_address(token[:place] + other + token[place + 1 :])).status_code == 403
    assert client.get(data_address(token)).status_code == 200


def test_a_link_signed_by_us_that_we_never_handed_out_opens_nothing(client: Client, seed: Person) -> None:
    assert client.get(data_address(SIGNER.sign("data~guessed"))).status_code == 403


def test_a_link_opens_nobody_elses_page_and_no_other_page(client: Client, seed: Person) -> None:
    data, decision = link(seed), link(seed, OFFERED)
    assert client.get(data_address(data, ANA)).status_code == 403
    assert client.get(data_address(decision)).status_code == 403
    assert client.get(f"/c/{MARA}/decision/{data}").status_code == 403
    assert client.get(f"/c/{MARA}/decision/{decision}").status_code == 200
    for page in ("/", f"/c/{MARA}", f"/c/{MARA}/data", "/dashboard"):
        assert client.get(page).status_code == 302, "a link signs nobody in"


def test_a_link_dies_after_thirty_days_or_when_it_is_taken_back(client: Client, seed: Person) -> None:
    assert client.get(data_address(link(seed, days_ago=DAYS - 0.01))).status_code == 200
    old = client.get(data_address(link(seed, days_ago=DAYS)))
    assert (old.status_code, "has expired" in text(old)) == (410, True)
    token = link(seed)
    number = ContributorLink.objects.get(secret_hash=secret_hash(token)).pk
    assert keeper(Client()).post(f"/c/{ANA}/links/{number}/revoke").status_code == 403
    assert keeper(Client()).post(f"/c/{MARA}/links/{number}/revoke").status_code == 302
    taken = client.get(data_address(token))
    assert (taken.status_code, "was revoked" in text(taken)) == (410, True)
    assert client.post(f"/c/{MARA}/objection", {"link": token, "text": "No"}).status_code == 410


def test_no_log_and_no_other_site_learns_a_link(client: Client, seed: Person, caplog: pytest.LogCaptureFixture) -> None:
    token = link(seed)
    with caplog.at_level(logging.DEBUG):
        for kind in ("data", "decision"):
            client.post(f"/c/{MARA}/{kind}/{token}")
            client.get(f"/c/{ANA}/{kind}/{token}")
        Client(enforce_csrf_checks=True).post(f"/c/{MARA}/decision/{token}")
        shown = client.get(data_address(token))
    assert "(hidden)" in caplog.text
    assert token not in caplog.text
    assert "?next=" not in text(shown), "what leads to the sign-in would bear the link in its address"
    assert (shown["Referrer-Policy"], "no-store" in shown["Cache-Control"]) == ("same-origin", True)
    assert token not in repr(list(Change.objects.values_list("details", "subject")))
    assert token not in repr(list(ContributorLink.objects.values_list()))


def test_a_maintainer_hands_a_link_with_an_answer_to_paste_that_names_no_threshold(
    client: Client, seed: Person
) -> None:
    moment = timezone.now() - timedelta(hours=1)
    where = {"person": seed, "pull_uri": OFFERED, "repo_key": REPO, "round": 0, "made_at": moment}
    for kind, note in (("request_changes", "Add a test. " + HOSTILE), ("note", "She may be new.")):
        Action.objects.create(key=kind, kind=kind, note=note, effective_at=moment, **where)
    made = keeper(client).post(f"/c/{MARA}/links", {"pull": OFFERED})
    page = text(made)
    assert "We wrote to you:\n\nAdd a test." in page
    assert "<script>alert" not in made.content.decode()
    assert "She may be new." not in page, "a note is for maintainers"
    assert f"http://testserver/c/{MARA}/decision/decision~" in page
    assert "This is about your pull request “Mend the lamp”." in page
    assert "Sunstead put it into this lane:" in page
    assert not {"0.30", "30 %"} & set(re.findall(r"[\d.]+(?: %)?", page))
    address = page.split('readonly value="http://testserver')[1].split('"')[0]
    shown = text(Client().get(address))
    assert "Mend the lamp" in shown
    assert not {"0.30", "30 %"} & set(re.findall(r"[\d.]+(?: %)?", shown))
    assert Change.objects.get().what == "link.made"
    assert client.post(f"/c/{MARA}/links", {"pull": pull_uri(MARA, "none")}).status_code == 404
    assert client.post(f"/c/{ANA}/links").status_code == 403, "ana offered seed nothing"


def test_the_log_of_changes_says_utc_and_names_a_repository_only_where_one_belongs(
    client: Client, seed: Person
) -> None:
    for pull in ("", OFFERED):
        keeper(client).post(f"/c/{MARA}/links", {"pull": pull})
    lines = re.findall(r"<tr>\s*<td>.*?</tr>", client.get("/changes").content.decode(), re.DOTALL)
    decision, data = (unescape(re.sub(r"<[^>]+>", "|", line)) for line in lines)
    assert "for: one decision" in decision
    assert "|lantern|" in decision
    assert "for: everything stored" in data
    assert "|the whole site|" in data
    assert "lantern" not in data
    assert all(re.search(r"\d\d:\d\d:\d\d UTC\|", line) for line in (decision, data))
    elsewhere = Client()
    elsewhere.force_login(Person.objects.create(did=ANA))
    Maintainer.objects.create(person=Person.objects.get(did=ANA), repo_key=CABIN)
    assert "everything stored" not in text(elsewhere.get("/changes")), "it is still told to its own maintainers alone"


def test_erasing_a_contributor_takes_what_they_were_handed_and_said_and_their_name_out_of_the_log(
    client: Client, seed: Person
) -> None:
    objecting(client, link(seed))
    mara, now = Person.objects.create(did=MARA), timezone.now()
    log_change(mara, "settings.changed", now, REPO, "budget", before=1)
    log_change(seed, "note.made", now, REPO, OFFERED, text=f"ask {MARA}")
    wish(MARA, True, "link", None, now)
    forget_account(MARA, None)
    kinds = (Person, ContributorLink, Objection, LeaderboardWish)
    assert [kind.objects.filter(did=MARA).count() for kind in kinds] == [0, 0, 0, 0]
    assert MARA not in repr(list(Change.objects.values_list())) + repr(list(OutboxEntry.objects.values_list()))
    assert Change.objects.filter(what="settings.changed", person=None).exists(), "that it happened is kept"


@pytest.mark.parametrize("pull", ["\x00", "at://\x00", "x" * 100_000, "'; drop table objections; --", "%s%n"])
def test_a_hostile_address_is_a_pull_request_that_nobody_offered(client: Client, seed: Person, pull: str) -> None:
    assert objecting(client, link(seed), pull=pull).status_code == 404
    assert keeper(client).post(f"/c/{MARA}/links", {"pull": f"{pull}x"}).status_code == 404
    told = {"key": pull, "state": "accepted", "answer": "Yes"}
    assert client.post("/objections/answer", told).status_code == 404


def test_every_page_here_is_whole_with_one_heading_and_no_inline_script_or_style(client: Client, seed: Person) -> None:
    objecting(client, link(seed), HOSTILE)
    Maintainer.objects.update(role="admin")
    shown = keeper(Client())
    pages = [shown.get(page) for page in ("/people", "/changes", "/objections", f"/c/{MARA}/rights")]
    pages += [client.get(data_address(link(seed))), shown.post(f"/c/{MARA}/links")]
    pages += [client.get(f"/c/{MARA}/decision/{link(seed, OFFERED)}"), objecting(client, "data~x")]
    for shown_page in pages:
        page = shown_page.content.decode()
        assert (page.count("<h1>"), page.startswith("<!doctype html>")) == (1, True)
        assert " style=" not in page
        assert "<script>" not in page
        assert " onclick=" not in page
