"""Objections by link, signed in or by a maintainer: kept, answered, told to those concerned and to nobody else."""

import re
from datetime import timedelta
from pathlib import Path

import pytest
from django.test import Client
from django.utils import timezone

from ingest.http.fetcher import Fetcher
from ingest.store.database import StreamClock
from tests.ingest.stream.frames import ANA, MALLORY, MARA, REPO, SEED, pull_uri
from tests.pipeline import opened
from tests.triage.views.links import HOSTILE, data_address, keeper, link, objecting, text
from tests.triage.worlds.small_site import OFFERED, frames_of_it, play
from triage.access.tokens import DAYS
from triage.models import Change, LeaderboardWish, Maintainer, Objection, OutboxEntry, Person
from triage.services.notifying.deliveries import deliver_due
from triage.services.objections import LONGEST, ObjectionProblem, answer, object_to, wish
from trustsite.worker.handover import make_runtime

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("small")]


def test_an_objection_by_link_has_a_state_a_date_and_an_answer(client: Client, seed: Person) -> None:
    decision, data = link(seed, OFFERED), link(seed)
    saved = objecting(client, decision)
    assert (saved.status_code, saved["Location"]) == (302, f"/c/{MARA}/decision/{decision}")
    found = Objection.objects.get()
    assert (found.state, found.source, found.repo_key, found.did) == ("open", "link", REPO, MARA)
    assert found.due_at - found.made_at == timedelta(days=30)
    maintainer = keeper(Client())
    pane = text(maintainer.get(f"/pull/{OFFERED}"))
    assert f"<q><bdi>{found.text}</bdi></q> A person answers by {found.due_at:%d %b %Y}." in pane
    assert '<a href="/objections">Read it in full, and answer</a>' in pane
    assert f"due {found.due_at.day} {found.due_at:%b %Y}" in text(maintainer.get("/objections"))
    told = {"key": found.key, "state": "accepted", "answer": "You are right."}
    assert maintainer.post("/objections/answer", told).status_code == 302
    assert maintainer.post("/objections/answer", told).status_code == 409
    told_on = f"{timezone.now().day} {timezone.now():%b %Y}"
    assert f"Answer of {told_on}: “<bdi>You are right.</bdi>”" in text(client.get(data_address(link(seed))))
    assert f"Answer of {told_on}: <bdi>You are right." in text(maintainer.get("/objections?all"))
    kinds = list(Change.objects.order_by("pk").values_list("person__did", "what"))
    assert kinds[2:4] == [(None, "objection.made"), (SEED, "objection.accepted")]
    saved = client.post(f"/c/{MARA}/leaderboard", {"link": data, "out": "yes"})
    assert (saved.status_code, saved["Location"]) == (302, data_address(data))
    assert "the contributor, by a private link" in text(maintainer.get("/changes"))
    assert "erased account" not in text(maintainer.get("/changes"))


def test_what_somebody_wrote_is_given_back_where_it_was_not_kept(client: Client, seed: Person) -> None:
    long = "<b>" + "x" * LONGEST
    for refused in (objecting(client, link(seed), long), objecting(client, link(seed, days_ago=DAYS), long)):
        assert refused.status_code in (410, 422)
        assert f"readonly>{long}</textarea>" in text(refused)
        assert "<b>x" not in refused.content.decode()
    objecting(client, link(seed))
    told = {"key": Objection.objects.get().key, "state": "accepted", "answer": "You are right."}
    maintainer = keeper(Client())
    undecided = maintainer.post("/objections/answer", {**told, "state": ""})
    assert (undecided.status_code, "readonly>You are right.</textarea>" in text(undecided)) == (422, True)
    maintainer.post("/objections/answer", told)
    late = maintainer.post("/objections/answer", {**told, "answer": "No, they are not."})
    assert (late.status_code, "readonly>No, they are not.</textarea>" in text(late)) == (409, True)


@pytest.mark.parametrize(
    ("said", "status"), [("", 422), (" \n\x00 ", 422), ("x" * LONGEST, 302), ("x" * (LONGEST + 1), 422)]
)
def test_an_objection_has_words_and_a_bound(client: Client, seed: Person, said: str, status: int) -> None:
    assert objecting(client, link(seed), said).status_code == status
    assert Objection.objects.count() == (status == 302)


def test_a_body_beyond_all_measure_is_refused(client: Client, seed: Person) -> None:
    assert objecting(client, link(seed), "x" * 2_000_000).status_code in (400, 413)


def test_markup_in_an_objection_is_text(client: Client, seed: Person) -> None:
    objecting(client, link(seed), HOSTILE)
    for page in ("/objections", f"/c/{MARA}/rights", f"/c/{MARA}/data"):
        shown = keeper(Client()).get(page).content.decode()
        assert "&lt;script&gt;alert(1)" in shown
        assert "<script>alert" not in shown
        assert "<img src=x" not in shown
        assert "⟨U+202E⟩gpj {{ settings.SECRET_KEY }}" in shown


def test_of_objections_one_to_a_decision_and_a_few_at_all_are_open(client: Client, seed: Person) -> None:
    token = link(seed)
    assert objecting(client, token).status_code == 302
    assert objecting(client, token).status_code == 409
    now = timezone.now()
    for number in range(19):
        object_to(MARA, f"at://{number}", "", "No", "link", None, now)
    with pytest.raises(ObjectionProblem, match="20 objections are already open"):
        object_to(MARA, "", "", "No", "link", None, now)


def test_visitors_learn_neither_who_objected_nor_how_it_was_answered(client: Client, seed: Person) -> None:
    assert objecting(Client(), link(seed)).status_code == 302
    for state in ("open", "rejected"):
        for address in (f"/pull/{OFFERED}", "/digest", "/"):
            shown = text(client.get(address)).lower()
            assert "bject" not in re.sub(r"how to object|you also object|and object|to object", "", shown), address
        assert "objected" in text(keeper(Client()).get(f"/pull/{OFFERED}"))
        if state == "open":
            answer(str(Objection.objects.get().key), None, seed, "rejected", "It stands.", timezone.now())


def test_a_page_that_is_loaded_again_after_the_answer_objects_no_second_time(client: Client, seed: Person) -> None:
    token = link(seed)
    assert objecting(client, token).status_code == 302
    answer(str(Objection.objects.get().key), None, seed, "rejected", "It stands.", timezone.now())
    again = objecting(client, token)
    assert again.status_code == 409
    assert "You said exactly this before, and it was answered." in text(again)
    assert objecting(client, token, "There is more to say.").status_code == 302
    assert Objection.objects.count() == 2


def test_a_link_to_one_decision_objects_to_that_one_alone(client: Client, seed: Person) -> None:
    token = link(seed, OFFERED)
    assert objecting(client, token, pull="").status_code == 403
    assert objecting(client, token, pull=pull_uri(MALLORY, "other")).status_code == 403
    assert client.post(f"/c/{MARA}/leaderboard", {"link": token, "out": "yes"}).status_code == 403
    assert objecting(client, token).status_code == 302


def test_nobody_objects_to_what_the_contributor_never_offered(client: Client, seed: Person) -> None:
    assert objecting(client, link(seed), pull=pull_uri(MALLORY, "other")).status_code == 404
    assert not Objection.objects.exists()


def test_nobody_answers_their_own_objection(client: Client, seed: Person) -> None:
    object_to(SEED, "", REPO, "No", "self", seed, timezone.now())
    told = {"key": Objection.objects.get().key, "state": "rejected", "answer": "Yes"}
    assert keeper(client).post("/objections/answer", told).status_code == 403
    other = Person.objects.create(did=ANA)
    Maintainer.objects.create(person=other, repo_key="", role="maintainer")
    assert keeper(client, ANA).post("/objections/answer", told).status_code == 302


@pytest.mark.parametrize(
    ("back", "page"), [(f"/me/pull/{OFFERED}", f"/me/pull/{OFFERED}"), ("https://elsewhere.example/", "/"), ("", "/me")]
)
def test_whoever_objects_on_their_own_page_stays_there_and_on_this_site(client: Client, back: str, page: str) -> None:
    client.force_login(Person.objects.create(did=MARA))
    told = {"text": "I object.", "pull": OFFERED, "next": back}
    assert client.post(f"/c/{MARA}/objection", told)["Location"] == page


def test_the_contributor_who_is_signed_in_needs_no_link(client: Client) -> None:
    client.force_login(Person.objects.create(did=MARA))
    assert client.get(f"/c/{MARA}/data").status_code == 200
    assert client.get(f"/c/{ANA}/data").status_code == 403
    assert client.post(f"/c/{MARA}/leaderboard", {"out": "yes"}).status_code == 302
    assert client.post(f"/c/{ANA}/leaderboard", {"out": "yes"}).status_code == 403
    assert LeaderboardWish.objects.get().did == MARA


def test_an_objection_and_a_wish_reach_the_worker_and_the_answer_too(tmp_path: Path, seed: Person) -> None:
    now = timezone.now()
    with opened(tmp_path) as world:
        play(world, frames_of_it())
        runtime = make_runtime(world.store, Fetcher(), StreamClock(world.store))
        made = object_to(MARA, OFFERED, REPO, "No", "link", None, now)
        wish(MARA, True, "link", None, now)
        assert deliver_due(runtime, timezone.now()) == 2
        world.judge()
        row = world.pull(OFFERED)
        assert row is not None
        assert row.verdict.reasons[0].code == "objection_open"
        assert world.value("select left_out from leaderboard_wishes")
        answer(str(made.key), None, seed, "rejected", "It stands.", now)
        OutboxEntry.objects.update(delivered_at=None)  # as after a kill: the older message comes again
        deliver_due(runtime, timezone.now())
        world.judge()
        row = world.pull(OFFERED)
        assert row is not None
        assert row.verdict.reasons[0].code != "objection_open"
