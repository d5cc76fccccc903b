"""A drawn pull request shows no lane and no score until somebody said whether they would have merged it."""

import json
import re
from functools import partial
from pathlib import Path

import pytest
from django.test import Client
from pytest_django import Settings

from scoring.queries import read
from tests.ingest.stream.frames import ANA, MARA
from tests.pipeline import Later
from tests.scoring.offered import CLEAN, offer
from tests.scoring.small import DAY, MERGED_AT, feed
from tests.triage.worlds.acting_site import ActingSite, invited, signed_in
from tests.triage.worlds.lane_site import MORE, NEXT, OTHER, lane_site
from tests.triage.worlds.pages_world import reader
from triage.access.tokens import create_token
from triage.models import Action, AuditAnswer, Change, Delivery, Person, ToldState
from triage.services.notifying.webhooks import note_changes

pytestmark = pytest.mark.django_db
SITE = partial(lane_site, audited=True)
BEN, CLARA = "did:plc:" + "3" * 24, "did:plc:" + "4" * 24
HOSTILE = "<img src=x onerror=alert(1)> \u202egnp"
TELLING = (
    "Stays clean",
    "fast lane now",
    "60 %",
    "0.6",
    "Flagged is below",
    "Content not reviewed",
    "Trust from the seeds",
)


def answer(client: Client, site: ActingSite, said: str = "yes", uri: str = NEXT, **changes: str) -> int:
    form = {**site.form(uri=uri), "answer": said, "because": "small and tested", **changes}
    return client.post("/audit", {name: value for name, value in form.items() if value is not None}).status_code


def row_of(client: Client, title: str = "Mend the gate") -> str:
    """The row of the queue with this title."""
    page = client.get("/").content.decode()
    return next(part.split("</li>")[0] for part in page.split('<li id="pull-') if title in part)


def test_the_row_of_a_drawn_one_has_a_neutral_pill_and_no_number(site: ActingSite, ben: Client) -> None:
    row = row_of(ben)
    assert 'class="lane audit"' in row
    assert "Audit</div>" in row
    assert "Random audit" in row
    assert [word for word in (*TELLING, "vouched", "Flagged", "Approve") if word in row] == []


def test_no_heading_and_no_count_tells_its_lane(site: ActingSite, ben: Client) -> None:
    groups = ben.get("/").content.decode().split('<section class="group"')[1:]
    assert [("Needs review" in group, "Mend the gate" in group) for group in groups] == [(True, True)]
    assert "Mend the gate" in ben.get("/?bucket=normal_queue").content.decode()
    for bucket in ("needs_human", "fast_lane"):
        assert "Mend the gate" not in ben.get(f"/?bucket={bucket}").content.decode()
    lanes = Client().get("/metrics").json()["lanes"]
    assert (lanes["needs_human"], lanes["normal_queue"], lanes["fast_lane"]) == (0, 3, 0)
    answer(ben, site)
    site.work()
    assert "Mend the gate" not in ben.get("/?bucket=normal_queue").content.decode(), "it is read, so it waits no more"
    assert "<strong>A maintainer read this and would merge</strong>" in ben.get("/?bucket=fast_lane").content.decode()


@pytest.mark.parametrize("ci", ["passed", "never_ran", None])
def test_an_audit_that_passed_offers_an_approval_first_only_where_ci_passed_too(
    site: ActingSite, ben: Client, ci: str | None
) -> None:
    if ci:
        site.run_ci({NEXT: ci})
    answer(ben, site)
    site.work()
    page = ben.get(f"/?open={NEXT}").content.decode()
    assert "<strong>A maintainer read this and would merge</strong>" in page
    assert "<span>A maintainer read this and would merge;" in page, "the pane says the same"
    assert "Fast lane, audited" in page
    assert "read it as if nothing were known" not in page, "it was read"
    assert "Nothing: it is a random audit" not in page
    assert not re.search("merge it|ready to merge", page)
    main = [name for _, name in re.findall(r'class="button primary" data-key="(.)"[^>]*>(Approve|Comment)', page)]
    assert main == ["Approve" if ci == "passed" else "Comment"]
    assert "Approve anyway" not in page
    assert 'name="pull"' not in row_of(ben), "it was read one by one, so nobody approves it with others"
    assert 'data-why="Audited ones are approved one by one."' in page, "the answer to x"


def test_whose_tests_fail_waits_for_a_review_until_they_pass_and_keeps_its_draw(site: ActingSite, ben: Client) -> None:
    site.run_ci({NEXT: "failed"})
    site.work()
    page = ben.get(f"/?open={NEXT}").content.decode()
    assert "Its tests fail." in page
    assert "Would you have merged it as sent?" not in page
    assert "Mend the gate" in ben.get("/?bucket=normal_queue").content.decode()
    site.run_ci({NEXT: "passed"})
    site.work()
    assert "Would you have merged it as sent?" in ben.get(f"/?open={NEXT}").content.decode(), "the draw is for good"


def test_its_page_says_in_words_why_and_tells_nothing_of_the_decision(site: ActingSite, ben: Client) -> None:
    _, _, page = ben.get(f"/pull/{NEXT}").content.decode().partition('<h1 class="unseen">')
    assert "This is a random audit." in page
    assert "Only these: the record of its author and the lanes of their other pull requests are shown." in page
    assert "Would you have merged it as sent?" in page
    assert [word for word in (*TELLING, "vouched", "Why this lane", "No trust path") if word in page] == []
    assert f"/c/{MARA}" not in page, "there stands the score of its author"


def test_the_score_of_its_author_does_not_carry_its_lane(site: ActingSite) -> None:
    told = signed_in(invited(MARA)).get(f"/score/{MARA}").json()
    assert told["decision"] != "needs_human"
    assert "audit" not in str(told)


@pytest.mark.parametrize("is_maintainer", [True, False], ids=["who has to answer", "who is signed out"])
def test_nobody_is_told_the_authors_chance_anywhere_until_it_is_answered(
    site: ActingSite, ben: Client, is_maintainer: bool
) -> None:
    """Nor by its place on the leaderboard, by an older score, or by a tag that was held before the answer."""
    ben = ben if is_maintainer else Client()
    told = ben.get(f"/score/{MARA}?briefing=1")
    shown = told.json()
    assert (shown["hidden_by"], shown["calibrated_prob"], shown["decision"]) == (MORE, None, "needs_human")
    assert (shown["top_factors"], shown["content_risk"], shown["interval"]) == ([], None, {"low": 0.0, "high": 1.0})
    assert shown["briefing"] == f"{shown['explanation']}." == f"Hidden until the audit of {label(site)} is answered."
    many = ben.post("/score", {"dids": [MARA, ANA]}, "application/json").json()["scores"]
    assert [one["hidden_by"] for one in many] == [MORE, OTHER]
    past = ben.get(f"/score/{MARA}?as_of={site.now + DAY:%Y-%m-%dT%H:%M:%SZ}").json()
    assert (past["hidden_by"], past["calibrated_prob"]) == (MORE, None)
    listed = ben.get("/leaderboard", headers={"Accept": "application/json"}).json()["rows"]
    assert {row["did"]: (row["rank"], row["calibrated_prob"]) for row in listed if row["hidden_by"]} == dict.fromkeys(
        (MARA, ANA), (None, None)
    )
    for address in (f"/c/{MARA}", "/leaderboard"):
        page = ben.get(address).content.decode()
        assert f'Hidden until the audit of <a href="/pull/{MORE}">{label(site)}</a> is answered' in page
    person = ben.get(f"/c/{MARA}").content.decode().partition("<main")[2]
    assert [word for word in ("95 % interval", "How this was computed", "What would change it") if word in person] == []
    assert "1 clean" in person, "the record stays"


def test_no_count_of_low_chances_holds_those_of_somebody_whose_audit_is_due(site: ActingSite) -> None:
    with site.result.reading() as rows:
        asked = "select contributor_id from contributors where did in (?, ?)"
        hidden = [row["contributor_id"] for row in rows.rows(asked, [MARA, ANA])]
        others = (
            "select count(probability) from current_decisions where not own and not list_contains(?, contributor_id)"
        )
        shown, everybody = rows.value(others, [hidden]), rows.value(others, [[]])
        assert shown < everybody
        assert read.open_below(rows, 1.1) == (shown, shown)


def test_another_row_of_its_author_shows_its_lane_and_no_chance_until_all_are_answered(
    site: ActingSite, ben: Client
) -> None:
    answer(ben, site, uri=MORE)
    for client in (ben, reader()):
        row, pane = row_of(client, "Paint the fence"), client.get(f"/pull/{MORE}").content.decode()
        assert "hidden" in row
        assert [word for word in ("Stays clean:", 'name="pull"', "95 % interval") if word in row] == []
        assert f"Hidden until the audit of {label(site, NEXT)} is answered." in pane
        place = client.get(f"/?open={MORE}").content.decode().partition("<strong>Why this place:</strong>")[2]
        assert "from its chance" not in place.partition("</p>")[0]
        _, _, side = pane.partition('<aside class="who-side"')
        assert [word for word in ("About ", "changes like theirs stay clean", "No settled pull") if word in side] == []
        told = client.get(f"/pull?uri={MORE}&briefing=1").json()
        assert (told["hidden_by"], told["calibrated_prob"], told["low"], told["cases"]) == (NEXT, None, 0, 0)
        assert told["briefing"] == f"Hidden until the audit of {label(site, NEXT)} is answered."
    own = signed_in(invited(MARA)).get(f"/c/{MARA}/data").content.decode()
    assert "95 % interval" in own, "their own chance is theirs to read"
    answer(ben, site)
    assert "Stays clean" in row_of(ben, "Paint the fence")


def test_what_is_stored_about_the_author_waits_for_the_answers_and_a_maintainer_reads_it_after_them(
    site: ActingSite, ben: Client
) -> None:
    answer(ben, site, uri=MORE)
    for form in ("", "?form=json"):
        put_off = ben.get(f"/c/{MARA}/data{form}")
        assert put_off.status_code == 409
        assert "It opens once the audit of this person" in put_off.content.decode()
        assert [
            word for word in ("95 % interval", '"probability"', "current_decisions") if word in str(put_off.content)
        ] == []
    assert ben.post(f"/c/{MARA}/links").status_code == 409, "nor by a private link of one's own making"
    answer(ben, site)
    assert ben.post(f"/c/{MARA}/links").status_code == 200
    assert "As this contributor sees it" in ben.get(f"/c/{MARA}/data").content.decode()


def test_the_chance_is_shown_once_each_of_them_is_answered(site: ActingSite, ben: Client) -> None:
    mara = signed_in(invited(MARA))
    known, held = mara.get(f"/score/{MARA}").json(), ben.get(f"/score/{MARA}")["ETag"]
    assert known["hidden_by"] is None
    assert known["calibrated_prob"] > 0.5
    answer(ben, site, uri=MORE)
    assert ben.get(f"/score/{MARA}").json()["hidden_by"] == NEXT
    answer(ben, site)
    after = ben.get(f"/score/{MARA}", headers={"If-None-Match": held})
    assert (after.status_code, after.json()) == (200, known)
    assert "95 % interval" in ben.get(f"/c/{MARA}").content.decode()


def test_a_token_is_told_what_its_person_is_told(site: ActingSite, ben: Client) -> None:
    tokens = [
        create_token("desk", ["read"], site.now, person=person)
        for person in (Person.objects.get(did=BEN), invited(MARA), None)
    ]
    for token, hidden in zip(tokens, (MORE, None, MORE), strict=True):
        told = Client().get(f"/score/{MARA}", headers={"Authorization": f"Bearer {token}"}).json()
        assert told["hidden_by"] == hidden


def label(site: ActingSite, uri: str = MORE) -> str:
    with site.reader.pin() as snapshot:
        assert snapshot is not None
        return read.labels(snapshot, [uri])[uri]


def test_the_order_of_the_queue_does_not_tell_its_score(site: ActingSite) -> None:
    with site.reader.pin() as snapshot:
        assert snapshot is not None
        by_score = [row.uri for group in read.queue(snapshot, read.QueueQuery()).groups for row in group.rows]
        by_age = [
            row.uri for group in read.queue(snapshot, read.QueueQuery(sort="oldest")).groups for row in group.rows
        ]
    assert by_score == by_age
    assert len(by_score) == 3


def test_nobody_approves_it_before_the_question_is_answered(site: ActingSite, ben: Client) -> None:
    refused = ben.post("/act", site.form(uri=NEXT))
    assert refused.status_code == 409
    assert "answer its question first" in refused.content.decode()
    assert not Action.objects.exists()


def test_an_answer_shows_the_rest_at_once_and_to_everybody(site: ActingSite, ben: Client) -> None:
    assert answer(ben, site) == 302
    assert "small and tested" in ben.get(f"/pull/{NEXT}").content.decode()
    assert answer(ben, site, uri=MORE) == 302, "their author's chance stays hidden before"
    for client in (ben, reader()):
        page = client.get(f"/pull/{NEXT}").content.decode()
        assert "Why this lane" in page
        assert "they would have merged it as sent" in page
        assert "small and tested" in page
        assert "Stays clean" in row_of(client)
        assert "audited" in row_of(client)
    assert "Stays clean" not in row_of(ben, "&lt;b&gt;Sweep&lt;/b&gt; the yard"), "the other still waits"
    site.work()
    assert "Stays clean" in row_of(reader())


def test_a_decided_one_tells_its_lane_and_chance_only_once_its_audit_and_that_of_its_author_are_answered(
    site: ActingSite, ben: Client
) -> None:
    answer(ben, site)
    site.work()
    for uri in (NEXT, OTHER):
        site.merge(uri)
    drawn = Client().get(f"/history/{OTHER}").content.decode()
    assert "merged it" in drawn
    assert "judged it" not in drawn, "nobody answered, so nobody is told"
    for client in (Client(), ben):
        assert "judged it" not in client.get(f"/history/{NEXT}").content.decode(), "another audit of its author is due"
    assert "60 %" not in ben.get("/settled").text
    answer(ben, site, uri=MORE)
    for client in (Client(), ben):
        assert "judged it: For a person, stays clean 60 %" in client.get(f"/history/{NEXT}").content.decode()
    site.work()
    assert re.search(r"60 % .*For a person", ben.get("/settled").text)


def test_the_history_has_the_answer_of_an_audit_for_maintainers_alone(site: ActingSite, ben: Client) -> None:
    answer(ben, site)
    site.work()
    words = "answered its audit: would have merged it as sent."
    assert words in ben.get(f"/history/{NEXT}").content.decode()
    assert words not in Client().get(f"/history/{NEXT}").content.decode()


def test_the_answer_is_kept_with_its_odds(site: ActingSite, ben: Client) -> None:
    answer(ben, site, "no")
    site.work()
    (row,) = site.result.rows("select * from audits")
    assert (row["pull_uri"], row["would_merge"], row["because"], row["odds"]) == (NEXT, False, "small and tested", 1.0)
    assert row["drawn_at"] == site.result.value("select drawn_at from audit_draws where pull_uri = ?", [NEXT])
    person = site.result.value("select did from contributors where contributor_id = ?", [row["actor_id"]])
    assert person == BEN
    logged = Change.objects.get(what="audit.answered")
    assert (logged.person.did, logged.subject, logged.details["would_merge"]) == (BEN, NEXT, False)


def test_a_message_that_comes_twice_is_one_answer(site: ActingSite, ben: Client) -> None:
    from triage.models import OutboxEntry

    answer(ben, site)
    site.work()
    OutboxEntry.objects.update(delivered_at=None)
    site.work()
    assert site.result.value("select count(*) from audits") == 1


def test_the_second_answer_comes_too_late(site: ActingSite, ben: Client) -> None:
    assert answer(ben, site) == 302
    assert answer(site.maintainer(CLARA, "clara.example"), site, "no") == 409
    assert AuditAnswer.objects.get().would_merge


def test_a_new_round_takes_the_answer_back_and_is_asked_about_anew(site: ActingSite, ben: Client) -> None:
    old = site.form(uri=NEXT)
    answer(ben, site)
    frames = Later(MERGED_AT + 21 * DAY)
    frames.pull(MARA, "next", "update", blobs=["bafkrei" + letter * 52 for letter in "ab"], title="Mend the gate")
    feed(site.result, frames)
    offer(site.result, CLEAN.replace("print(2)", "print(3)"), NEXT, "blob:two")
    site.result.review()
    site.work()
    assert "Random audit" in row_of(ben)
    assert "Stays clean" not in row_of(ben)
    late = ben.post("/audit", {**old, "answer": "yes", "because": "as before"})
    assert late.status_code == 409
    assert answer(ben, site, "no") == 302
    site.work()
    said = site.result.rows("select round, would_merge from audits order by round")
    assert [row["would_merge"] for row in said] == [True, False]
    assert "A maintainer read this, would not merge" in ben.get("/?bucket=needs_human").content.decode()


def test_only_maintainers_of_the_repository_answer(site: ActingSite) -> None:
    assert answer(Client(), site) == 401, "what was written is given back"
    viewer = signed_in(invited(CLARA))
    elsewhere = site.maintainer("did:plc:" + "5" * 24, "eve.example", "did:plc:" + "6" * 24)
    assert [answer(client, site) for client in (viewer, elsewhere)] == [403, 403]
    assert "Would you have merged" not in viewer.get(f"/pull/{NEXT}").content.decode()
    assert not AuditAnswer.objects.exists()


def test_what_is_no_answer_or_has_no_reason_is_not_kept(site: ActingSite, ben: Client) -> None:
    assert answer(ben, site, "perhaps") == 400
    assert answer(ben, site, because=" ") == 400
    assert answer(ben, site, because="x" * 501) == 400
    assert answer(ben, site, uri=MORE, round="-1") == 400
    assert ben.get("/audit").status_code == 405
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(Person.objects.get(did=BEN))
    assert answer(strict, site) == 403
    assert not AuditAnswer.objects.exists()


def test_a_hostile_reason_is_shown_and_never_obeyed(site: ActingSite, ben: Client) -> None:
    answer(ben, site, because=HOSTILE)
    page = ben.get(f"/pull/{NEXT}").content.decode()
    assert "&lt;img src=x onerror=alert(1)&gt; ⟨U+202E⟩gnp" in page


def test_what_was_not_drawn_is_asked_nothing(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lane_site(tmp_path, settings, monkeypatch) as site:
        ben = site.maintainer(BEN, "ben.example")
        assert answer(ben, site) == 409
        assert not AuditAnswer.objects.exists()


def test_the_webhook_tells_that_it_is_due_and_nothing_of_its_lane(site: ActingSite) -> None:
    ToldState.objects.create(kind="begun", key="", value="")
    assert note_changes(site.result.store, site.now) == 6
    told = [json.loads(one.body) for one in Delivery.objects.all()]
    assert [one["type"] for one in told].count("audit.due") == 3
    assert {one["data"].get("to", "normal_queue") for one in told} == {"normal_queue"}
    assert [one for one in told if one["data"].get("reasons", ["audit_drawn"]) != ["audit_drawn"]] == []


def test_an_answer_moves_nothing_that_the_webhook_would_tell(site: ActingSite, ben: Client) -> None:
    note_changes(site.result.store, site.now)
    answer(ben, site)
    site.work()
    assert note_changes(site.result.store, site.now) == 0


def test_neither_feed_nor_digest_tells_of_its_lane(site: ActingSite) -> None:
    token = create_token("reader", ["read"], site.now)
    told = (Client().get(f"/feed/{token}.atom").content + Client().get("/digest").content).decode()
    assert "Audit · " in told
    assert "Random audits due: 3." in told
    assert [word for word in (*TELLING, "vouched", "Fast lane", "Flagged · ", "Review · ") if word in told] == []
    assert "0 flagged, 3 to review, 0 fast lane" in told
