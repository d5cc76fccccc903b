"""A maintainer speaks in a contributor's name about their own repository, and every page says who spoke."""

import random
import re
from collections.abc import Iterator
from datetime import UTC
from html import unescape
from importlib import import_module
from pathlib import Path

import pytest
from django.apps import apps
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from ingest.http.fetcher import Fetcher
from ingest.records.registry import DEFAULT_AUTHORITY
from ingest.store import snapshots
from ingest.store.database import StreamClock
from ingest.store.snapshots import publish
from scoring.explain.sentences import sentence
from scoring.pipeline.interventions import RecordObjection, record_objections
from tests.conftest import Count
from tests.ingest.stream.frames import ANA, CREATED, MALLORY, MARA, REPO, SEED, STRANGER, Frames, pull_uri
from tests.pipeline import Result, prepared
from tests.scoring.small import feed
from tests.triage.worlds.acting_site import ActingSite, maintainer
from tests.triage.worlds.lane_site import NEXT, lane_site
from tests.triage.worlds.small_site import CABIN, OFFERED, frames_of_it, play
from triage.access.tokens import make_link
from triage.models import Maintainer, Objection, OutboxEntry, Person
from triage.models.accounts import log_change
from triage.presenters.rights import SEALED
from triage.services.notifying.deliveries import deliver_due
from triage.services.objections import AT_ONCE, ObjectionProblem, answer, object_to
from trustsite.worker.handover import make_runtime

pytestmark = pytest.mark.django_db
IN_CABIN, TOLD = pull_uri(MARA, "cabin"), {"text": "She asked me to."}


def two_repositories(result: Result) -> None:
    """Mara has an open pull request in lantern, which seed keeps, and one in cabin, which ana keeps."""
    frames = frames_of_it()
    frames.pull(MARA, "cabin", target=CABIN)
    frames.pull(MALLORY, "cabin", target=CABIN)
    play(result, frames)
    publish(result.store, result.folder / "snapshots")


@pytest.fixture(name="world")
def world_fixture(tmp_path: Path, settings: Settings) -> Iterator[Result]:
    with prepared(tmp_path, two_repositories) as result:
        settings.PUBLIC_READ, settings.DEMO_MAINTAINER, settings.STREAM_CLOCK = False, None, True
        settings.SNAPSHOT_DIR = tmp_path / "snapshots"
        yield result


def deliver(world: Result) -> None:
    """Have what was said judged and published."""
    deliver_due(make_runtime(world.store, Fetcher(), StreamClock(world.store)), timezone.now())
    world.judge()
    publish(world.store, world.folder / "snapshots")


def held(world: Result) -> dict[str, str]:
    """Pull requests that wait for a person because of an objection, with its sentence, once all was delivered."""
    deliver(world)
    found = {uri: world.pull(uri) for uri in (OFFERED, IN_CABIN)}
    return {
        uri: sentence(reason)
        for uri, row in found.items()
        if row is not None
        for reason in row.verdict.reasons
        if reason.code == "objection_open"
    }


def world_records(world: Result) -> tuple[RecordObjection, ...]:
    with world.reading() as rows:
        return record_objections(rows)


def text(client: Client, address: str) -> str:
    return unescape(client.get(address).content.decode()).replace("<bdi>", "").replace("</bdi>", "")


def test_an_empty_objection_by_a_maintainer_of_cabin_holds_nothing_in_lantern(world: Result) -> None:
    """The attack: it was one "to being scored at all", and every pull request of mara's waited for a person."""
    ana, seed = maintainer(ANA, CABIN), maintainer(SEED, REPO)
    assert ana.post(f"/c/{MARA}/objection", {**TOLD, "pull": ""}).status_code == 302
    found = held(world)
    assert found.keys() == {IN_CABIN}
    assert "maintainer of this repository objects in the contributor's name" in found[IN_CABIN]
    spoken = "A maintainer of cabin, in the contributor's name, objected"
    assert f"{spoken} on" in text(ana, f"/pull/{IN_CABIN}")
    assert "objected" not in text(ana, f"/pull/{OFFERED}")
    assert f"{spoken} to everything they sent there" in text(ana, "/objections")
    assert "She asked me to." not in text(seed, "/objections")
    key = Objection.objects.get().key
    told = {"key": key, "state": "rejected", "answer": "No"}
    assert seed.post("/objections/answer", told).status_code == 403
    assert ana.post("/objections/answer", told).status_code == 302
    assert held(world) == {}


def test_an_open_objection_is_counted_wherever_work_is_for_those_who_may_answer_it(
    world: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "LOOK_SECONDS", 0.0)  # a reader looks for a newer one twice a second
    ana, seed, mara = maintainer(ANA, CABIN), maintainer(SEED, REPO), maintainer(MARA, CABIN)
    assert mara.post(f"/c/{MARA}/objection", {**TOLD, "pull": IN_CABIN}).status_code == 302
    frames = Frames()
    frames.extend([b""] * world.value("select count(*) from events"))  # so that its revision is a later one
    sent = {"text": "No", "createdAt": CREATED, "subject": IN_CABIN}
    frames.commit(MARA, f"{DEFAULT_AUTHORITY}.objection", "one", sent)
    feed(world, frames[-1:])
    deliver(world)
    by_record = next(one.uri for one in world_records(world))
    due = Objection.objects.get().due_at
    assert "Filters, lists, 2 to handle<" in text(ana, "/")
    for address in ("/", "/dashboard"):
        assert "Objections (2 open)" in text(ana, address)
        assert "Objections (" not in text(seed, address), "a maintainer of another repository answers neither"
        assert "Objections (" not in text(mara, address), "nobody answers their own"
    first = min(due, next(iter(world_records(world))).due_at.replace(tzinfo=UTC))
    assert f"Open objections: 2, the first to be answered by {first.day} {first:%B %Y}." in text(ana, "/digest")
    assert "Open objections: 2" in text(ana, f"/digest?repository={CABIN}")
    assert "No objection is open." in text(ana, f"/digest?repository={REPO}")
    for left, key in ((1, by_record), (0, Objection.objects.get().key)):
        ana.post("/objections/answer", {"key": key, "state": "rejected", "answer": "No"})
        assert (f"Filters, lists, {left} to handle<" in text(ana, "/")) == bool(left)


def test_nor_does_one_that_names_a_pull_request_or_the_repository_of_others(world: Result) -> None:
    ana = maintainer(ANA, CABIN)
    assert ana.post(f"/c/{MARA}/objection", {**TOLD, "pull": OFFERED}).status_code == 403
    assert ana.post(f"/c/{MARA}/objection", {**TOLD, "pull": REPO}).status_code == 404
    assert not Objection.objects.exists()
    assert ana.post(f"/c/{MARA}/objection", {**TOLD, "pull": IN_CABIN}).status_code == 302
    assert held(world).keys() == {IN_CABIN}


def test_whoever_maintains_several_says_which(world: Result) -> None:
    both = maintainer(ANA, CABIN, REPO)
    refused = both.post(f"/c/{MARA}/objection", {**TOLD, "pull": ""})
    assert (
        refused.status_code,
        "Only the contributor can ask not to be scored" in unescape(refused.content.decode()),
    ) == (422, True)
    assert both.post(f"/c/{MARA}/objection", {**TOLD, "pull": REPO}).status_code == 302
    assert held(world).keys() == {OFFERED}


def test_a_maintainer_of_the_site_speaks_for_a_repository_too(world: Result) -> None:
    site = maintainer(SEED, "")
    assert site.post(f"/c/{MARA}/objection", {**TOLD, "pull": ""}).status_code == 422
    assert site.post(f"/c/{MARA}/objection", {**TOLD, "pull": CABIN}).status_code == 302
    assert held(world).keys() == {IN_CABIN}


@pytest.mark.parametrize("by_link", [True, False])
def test_the_contributor_objects_to_being_scored_at_all_by_their_link_or_signed_in(
    world: Result, by_link: bool
) -> None:
    ana = maintainer(ANA, CABIN)
    link = make_link(Person.objects.get(did=ANA), MARA, CABIN, "", timezone.now()) if by_link else ""
    client = Client() if by_link else maintainer(MARA)
    assert client.post(f"/c/{MARA}/objection", {**TOLD, "pull": "", "link": link}).status_code == 302
    found = held(world)
    assert found.keys() == {OFFERED, IN_CABIN}
    assert all("he contributor objects" in words for words in found.values())
    spoken = "The contributor, by their private link, objected" if by_link else "The contributor objected"
    assert f"{spoken} on" in text(ana, f"/pull/{IN_CABIN}")
    assert "objected" not in text(ana, f"/pull/{OFFERED}"), "she maintains nothing there"
    assert f"{spoken} to being scored (everything)" in text(ana, "/objections")


def test_the_form_offers_a_maintainer_their_own_repository_and_the_contributor_everything(world: Result) -> None:
    ana, mara = maintainer(ANA, CABIN), maintainer(MARA)
    for address in (f"/c/{MARA}/rights", f"/c/{MARA}/data"):
        form = text(ana, address).partition('id="objection-pull"')[2].partition("</select>")[0]
        assert "everything they sent to cabin" in form
        assert "do not score me" not in form
        assert OFFERED not in form
        assert IN_CABIN in form
    form = text(mara, f"/c/{MARA}/data").partition('id="objection-pull"')[2].partition("</select>")[0]
    assert "everything: do not score me" in form
    assert OFFERED in form
    assert "everything they sent" not in form


def test_what_maintainers_say_takes_nothing_of_what_a_contributor_may_say(world: Result) -> None:
    now = timezone.now()
    for number in range(AT_ONCE):
        object_to(MARA, f"at://{number}", CABIN, "No", "maintainer", None, now)
    object_to(MARA, IN_CABIN, REPO, "No", "maintainer", None, now)
    with pytest.raises(ObjectionProblem, match="20 objections are already open"):
        object_to(MARA, IN_CABIN, CABIN, "No", "maintainer", None, now)
    object_to(MARA, IN_CABIN, CABIN, "No", "link", None, now)
    with pytest.raises(ObjectionProblem, match="is already open"):
        object_to(MARA, IN_CABIN, CABIN, "No", "self", None, now)
    with pytest.raises(ObjectionProblem, match="Only the contributor"):
        object_to(MARA, "", "", "No", "maintainer", None, now)


def test_no_word_of_a_maintainer_holds_anything_outside_their_repositories(world: Result) -> None:
    """Every form that a maintainer of cabin can send, by itself and together."""
    ana, seed = maintainer(ANA, CABIN), maintainer(SEED, REPO)
    for words in ("", CABIN, REPO, OFFERED, IN_CABIN, "at://made-up", " ", "''"):
        ana.post(f"/c/{MARA}/objection", {**TOLD, "pull": words})
    assert held(world).keys() == {IN_CABIN}
    seed.post(f"/c/{MARA}/objection", {**TOLD, "pull": ""})
    assert held(world).keys() == {OFFERED, IN_CABIN}


# Every open pull request: who offered it, and where.
OPEN = {OFFERED: (MARA, REPO), IN_CABIN: (MARA, CABIN), pull_uri(MALLORY, "cabin"): (MALLORY, CABIN)}


def lanes(world: Result) -> dict[str, tuple[str, frozenset[str]]]:
    """The lane of each open pull request, and the reasons for it."""
    found = {uri: row.verdict for uri in OPEN if (row := world.pull(uri))}
    return {uri: (str(verdict.lane), frozenset(one.code for one in verdict.reasons)) for uri, verdict in found.items()}


def test_nobody_moves_a_row_outside_their_repositories_whoever_they_are_and_whatever_they_send(
    world: Result, count: Count
) -> None:
    """People with any roles speak about anybody, about each pull request, each repository and nothing at all."""
    draw = random.Random(7)
    site = Person.objects.create(did="did:plc:site")
    before, moved = lanes(world), set()
    for number in range(count(30, 600)):
        Maintainer.objects.all().delete()
        keys = draw.choice([(), (CABIN,), (REPO,), (CABIN, REPO), ("",)])
        speaker, about = draw.choice([ANA, SEED, STRANGER, MARA, MALLORY]), draw.choice([MARA, MALLORY, STRANGER])
        client, words = maintainer(speaker, *keys), draw.choice(["", CABIN, REPO, "at://made-up", *OPEN])
        status = client.post(f"/c/{about}/objection", {**TOLD, "text": f"No {number}", "pull": words}).status_code
        deliver(world)
        changed = {uri for uri, lane in lanes(world).items() if lane != before[uri]}
        theirs = {
            uri for uri, (by, key) in OPEN.items() if by == about and (about == speaker or key in keys or "" in keys)
        }
        assert changed <= theirs, (number, speaker, keys, about, words, status)
        assert status == 302 or not changed
        moved |= changed
        for one in Objection.objects.filter(state="open"):
            answer(one.key, None, site, "rejected", "No", timezone.now())
        deliver(world)
        assert lanes(world) == before
    assert moved == OPEN.keys()


def written_before(by: Person | None, name: str) -> Objection:
    """A maintainer's objection to mara's being scored at all, as an older version kept it."""
    now = timezone.now()
    made = {"key": f"page:{name}", "did": MARA, "source": "maintainer", "text": "No", "made_at": now, "due_at": now}
    log_change(by, "objection.made", now, "", MARA, source="maintainer")
    return Objection.objects.create(**made)


def test_what_an_older_version_kept_is_limited_to_the_repositories_of_who_wrote_it(world: Result) -> None:
    maintainer(ANA, CABIN)
    site, gone = Person.objects.create(did=SEED), None
    Maintainer.objects.create(person=site, repo_key="")
    written_before(Person.objects.get(did=ANA), "one")
    unknown = [written_before(site, "two"), written_before(gone, "three")]
    migration = import_module("triage.migrations.0013_objections_of_maintainers")
    migration.limit_to_their_repositories(apps, None)
    assert list(Objection.objects.order_by("pk").values_list("repo_key", flat=True)) == [CABIN, "", ""]
    assert OutboxEntry.objects.filter(kind="objection").count() == 3
    Objection.objects.filter(pk__in=[one.pk for one in unknown]).update(state="rejected", answered_at=timezone.now())
    found = held(world)
    assert found.keys() == {IN_CABIN}
    assert "maintainer of this repository objects in the contributor's name" in found[IN_CABIN]


def test_of_somebody_who_maintains_several_it_counts_in_each(world: Result) -> None:
    maintainer(ANA, CABIN, REPO)
    written_before(Person.objects.get(did=ANA), "one")
    migration = import_module("triage.migrations.0013_objections_of_maintainers")
    migration.limit_to_their_repositories(apps, None)
    assert sorted(Objection.objects.values_list("repo_key", flat=True)) == sorted([CABIN, REPO])
    assert held(world).keys() == {OFFERED, IN_CABIN}


BEN = "did:plc:" + "3" * 24


def told(site: ActingSite) -> str:
    """What the holder of a link to the decision on `NEXT` reads, below the frame."""
    site.maintainer(BEN, "ben.example")
    token = make_link(Person.objects.get(did=BEN), MARA, REPO, NEXT, site.now)
    page = Client().get(f"/c/{MARA}/decision/{token}").content.decode()
    return page.partition("<h1>")[2]


def test_no_threshold_is_told(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    with lane_site(tmp_path, settings, monkeypatch) as site:
        page = told(site)
        assert "The fast lane" in page
        assert not re.search(r"threshold \d", page)


def test_what_the_audit_drew_is_not_told_before_its_answer_nor_handed_as_an_answer_to_paste(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lane_site(tmp_path, settings, monkeypatch, audited=True) as site:
        page = told(site)
        assert SEALED in page
        assert "audit" not in page.lower()
        assert 'class="pill' not in page
        ben = site.maintainer(BEN, "ben.example")
        refused = ben.post(f"/c/{MARA}/links", {"pull": NEXT})
        assert refused.status_code == 409
        assert "This is a random audit" in refused.content.decode()


def test_what_the_audit_drew_is_not_told_on_their_own_page_either(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lane_site(tmp_path, settings, monkeypatch, audited=True) as site:
        site.maintainer(BEN, "ben.example")
        token = make_link(Person.objects.get(did=BEN), MARA, REPO, "", site.now)
        page = Client().get(f"/c/{MARA}/data/{token}").content.decode()
        own = page.partition("<h1>")[2].partition(">Decided<")[0]
        assert "A person reads it before anything is said about it." in own
        assert "audit" not in own.lower()
