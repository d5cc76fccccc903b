"""Once a week a maintainer is asked whether what was merged two weeks ago turned out fine."""

from datetime import timedelta

import pytest
from django.test import Client

from tests.ingest.stream.frames import ANA as SENDER
from tests.ingest.stream.frames import MARA, pull_uri
from tests.triage.worlds.acting_site import ANA, ActingSite, maintainer, signed_in
from tests.triage.worlds.lane_site import NEXT, lane_site
from triage.models import Action, Person
from triage.services.erasure import account_of

pytestmark = pytest.mark.django_db
SITE = lane_site
# Both were merged 20 days before the present of the world.
MERGED = {pull_uri(MARA, "offered"), pull_uri(SENDER, "first")}
ASKED = "14 days: "
ONE = "1 merge has had its 14 days: is it fine?"
TWO, FIVE = (f"{count} merges have had their 14 days: all fine?" for count in (2, 5))
HOSTILE = "<script>alert(1)</script>"


def page_of(client: Client) -> str:
    return client.get("/").content.decode()


def choices(page: str) -> list[str]:
    """What the question's form would send."""
    form = page.partition('action="/outcomes"')[2].partition("</form>")[0]
    return [part.partition('"')[0] for part in form.split('name="pull" value="')[1:]]


def test_one_click_marks_all_of_them_as_clean_and_it_asks_again_only_next_week(site: ActingSite, ben: Client) -> None:
    page = page_of(ben)
    assert TWO in page
    assert all(f"/history/{uri}#outcome" in page for uri in MERGED)
    question = page.partition('class="question"')[2].partition("</section>")[0]
    assert question.index("<details>") < question.index("<form"), "nobody answers for a list that they do not see"
    assert question.partition("All 2 are fine")[0].count(", merged <time") == 2
    sent = choices(page)
    assert ben.post("/outcomes", {"answer": "fine", "pull": sent}).status_code == 302
    marks = Action.objects.filter(kind="outcome", outcome="clean")
    assert {mark.pull_uri for mark in marks} == MERGED
    assert len({mark.batch for mark in marks}) == 1, "one undo takes both back"
    assert ASKED not in page_of(ben)
    site.after(11)
    site.work()
    with site.reader.pin() as pinned:
        assert pinned is not None
        taken = pinned.rows("select pull_uri, outcome from maintainer_actions")
    assert {(row["pull_uri"], row["outcome"]) for row in taken} == {(uri, "clean") for uri in MERGED}


def test_all_of_them_are_undone_together_and_asked_about_again(site: ActingSite, ben: Client) -> None:
    ben.post("/outcomes", {"answer": "fine", "pull": choices(page_of(ben))})
    batch = Action.objects.latest("pk").batch
    assert ASKED not in page_of(ben)
    site.after(2)
    ben.post("/act/undo", {"key": batch})
    assert not Action.objects.filter(undone_at=None).exists()
    assert TWO in page_of(ben)
    site.after(2)
    ben.post("/outcomes", {"answer": "later"})
    ben.post("/act/undo", {"key": batch})
    assert ASKED not in page_of(ben), "a second click on the same undo takes back no later answer"


def test_what_one_maintainer_answered_nobody_else_is_asked(site: ActingSite, ana: Client, ben: Client) -> None:
    assert TWO in page_of(ana)
    ben.post("/outcomes", {"answer": "fine", "pull": choices(page_of(ben))})
    assert ASKED not in page_of(ana)


def test_one_that_was_not_fine_leaves_the_question_and_the_rest_are_fine(site: ActingSite, ben: Client) -> None:
    bad = pull_uri(MARA, "offered")
    ben.post("/act", site.form("outcome", bad, outcome="needed_fix", patch_id=""))
    page = page_of(ben)
    assert ONE in page
    ben.post("/outcomes", {"answer": "fine", "pull": choices(page)})
    told = dict(Action.objects.values_list("pull_uri", "outcome"))
    assert told == {bad: "needed_fix", pull_uri(SENDER, "first"): "clean"}


def test_put_off_it_asks_again_in_a_week(site: ActingSite, ben: Client) -> None:
    ben.post("/outcomes", {"answer": "later"})
    assert not Action.objects.exists()
    site.now += timedelta(days=7, seconds=-1)
    assert ASKED not in page_of(ben)
    site.after(1)
    assert ASKED in page_of(ben)


def test_nobody_marks_what_the_question_does_not_name(site: ActingSite, ben: Client) -> None:
    sent = choices(page_of(ben))
    for forged in (["made up"], [], [sent[0], sent[0]], [sent[0].replace(sent[0].split("|")[0], NEXT)], sent * 50):
        assert ben.post("/outcomes", {"answer": "fine", "pull": forged}).status_code == 400
    ben.post("/act", site.form("outcome", pull_uri(MARA, "offered"), outcome="clean", patch_id=""))
    assert ben.post("/outcomes", {"answer": "fine", "pull": sent}).status_code == 400, "somebody was first"
    assert Action.objects.count() == 1


def test_strangers_viewers_maintainers_elsewhere_and_authors_are_not_asked(site: ActingSite, ben: Client) -> None:
    sent = choices(page_of(ben))
    viewer = signed_in(Person.objects.create(did=f"did:plc:{'s' * 24}"))
    elsewhere = maintainer(f"did:plc:{'w' * 24}", "did:plc:" + "e" * 24)
    for client, status in ((Client(), 302), (viewer, 403), (elsewhere, 400)):
        assert ASKED not in page_of(client)
        assert client.post("/outcomes", {"answer": "fine", "pull": sent}).status_code == status
    author = site.maintainer(MARA, "mara.example")
    assert ONE in page_of(author), "not of her own"
    assert author.post("/outcomes", {"answer": "fine", "pull": sent}).status_code == 400
    assert not Action.objects.exists()


def test_the_question_escapes_titles(site: ActingSite, ben: Client) -> None:
    with site.result.store.write() as txn:
        txn.execute("update pull_requests set title = ? where state = 'merged'", [HOSTILE])
    site.publish()
    page = page_of(ben)
    assert ASKED in page
    assert HOSTILE not in page


def test_thousands_of_merges_are_asked_about_five_at_a_time(site: ActingSite, ben: Client) -> None:
    with site.result.store.write() as txn:
        txn.execute(
            "insert into pull_requests by name select p.* replace (p.pull_uri || '-' || n as pull_uri) "
            "from pull_requests p, range(1, 3000) r(n) where p.pull_uri = ?",
            [pull_uri(MARA, "offered")],
        )
    site.publish()
    page = page_of(ben)
    assert FIVE in page
    assert len(choices(page)) == 5


def test_the_account_is_told_when_it_last_answered(site: ActingSite, ben: Client) -> None:
    ben.post("/outcomes", {"answer": "later"})
    told = account_of("did:plc:" + "3" * 24)
    assert told is not None
    assert told["outcomes_asked_at"] == site.now
    assert account_of(ANA) is None
