"""Giving and taking roles, on pages and by command: who may, what is logged, and what the worker holds of it."""

import re
import shutil
from collections.abc import Iterator
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from ingest.http.fetcher import Fetcher
from ingest.store.database import StreamClock
from tests.ingest.stream.frames import ANA, MARA, REPO, SEED
from tests.pipeline import Result, opened
from tests.triage.worlds.acting_site import invited
from tests.triage.worlds.small_site import CABIN, OF_SEED, REASON, frames_of_it, play
from triage.access.permissions import LastAdmin, Role, role_of, roles_of, set_role
from triage.models import Change, Maintainer, OutboxEntry, Person, SignInMethod
from triage.models.accounts import log_change
from triage.services.notifying.deliveries import deliver_due
from trustsite.worker.handover import make_runtime

pytestmark = pytest.mark.django_db


@pytest.fixture(name="world")
def world_fixture(tmp_path: Path) -> Iterator[Result]:
    with opened(tmp_path) as result:
        play(result, frames_of_it())
        yield result


def admin(client: Client, repo_key: str = "") -> Person:
    person = Person.objects.create(did=SEED)
    Maintainer.objects.create(person=person, repo_key=repo_key, role="admin")
    client.force_login(person)
    return person


def give(client: Client, did: str, role: str, repo_key: str = REPO) -> Any:
    return client.post("/people/role", {"did": did, "role": role, "repo_key": repo_key})


def deliver(world: Result) -> int:
    return deliver_due(make_runtime(world.store, Fetcher(), StreamClock(world.store)), timezone.now())


def seeds(world: Result, repo_key: str = REPO) -> set[str]:
    world.judge()
    sql = (
        "select did from seeds join contributors using (contributor_id) join repositories using (repository_id) "
        "where repo_key = ? and role = 'maintainer'"
    )
    return {row["did"] for row in world.rows(sql, [repo_key])}


def test_giving_and_taking_a_role_is_logged_with_who_when_and_what_it_was(client: Client, small: Path) -> None:
    by = admin(client)
    assert give(client, MARA, "viewer").status_code == 302
    assert give(client, MARA, "maintainer").status_code == 302
    assert give(client, MARA, "none").status_code == 302
    told = list(Change.objects.order_by("pk").values_list("person__did", "what", "repo_key", "subject", "details"))
    steps = [(None, "viewer"), ("viewer", "maintainer"), ("maintainer", None)]
    assert told == [(by.did, "role.changed", REPO, MARA, {"before": b, "since": s}) for b, s in steps]
    assert role_of(Person.objects.get(did=MARA), REPO) is Role.NOBODY


def test_the_same_role_again_changes_and_tells_nothing(client: Client, small: Path) -> None:
    admin(client)
    give(client, MARA, "viewer")
    give(client, MARA, "viewer")
    assert (Change.objects.count(), OutboxEntry.objects.count()) == (1, 1)


def test_a_viewer_is_no_seed_and_a_maintainer_is(world: Result) -> None:
    person, now = Person.objects.create(did=MARA), timezone.now()
    set_role(None, person, REPO, "viewer", now)
    deliver(world)
    assert MARA not in seeds(world)
    set_role(None, person, REPO, "maintainer", now)
    deliver(world)
    assert MARA in seeds(world)
    set_role(None, person, REPO, "viewer", now)
    deliver(world)
    assert MARA not in seeds(world)
    assert MARA not in seeds(world, CABIN)


def test_messages_that_arrive_late_or_twice_end_with_what_stands(world: Result) -> None:
    person, now = Person.objects.create(did=MARA), timezone.now()
    set_role(None, person, REPO, "maintainer", now)
    set_role(None, person, REPO, None, now)
    first, second = OutboxEntry.objects.order_by("pk")
    OutboxEntry.objects.filter(pk=second.pk).update(due_at=first.due_at, made_at=first.made_at)
    for _ in range(2):
        deliver(world)
        OutboxEntry.objects.update(delivered_at=None)
    assert MARA not in seeds(world)


def test_a_role_somewhere_that_is_not_known_stays_with_its_problem(world: Result) -> None:
    set_role(None, Person.objects.create(did=MARA), "did:plc:nowhere", "maintainer", timezone.now())
    assert deliver(world) == 0
    assert "is not known yet" in OutboxEntry.objects.get().problem


def test_the_sites_last_admin_stays(client: Client, small: Path) -> None:
    by = admin(client)
    answer = give(client, SEED, "none", "")
    assert answer.status_code == 422
    assert "only admin" in answer.content.decode()
    other = Person.objects.create(did=ANA)
    set_role(by, other, "", "admin", timezone.now())
    assert give(client, SEED, "viewer", "").status_code == 302
    with pytest.raises(LastAdmin):
        set_role(None, other, "", None, timezone.now())


def test_a_role_that_cannot_be_given_leaves_the_form_as_it_was_sent(client: Client, small: Path) -> None:
    admin(client)
    answer = give(client, "did:plc:<b>", "maintainer")
    page = answer.content.decode()
    assert answer.status_code == 422
    assert 'value="did:plc:&lt;b&gt;"' in page
    assert f'<option value="{REPO}" selected>' in page
    assert '<option value="maintainer" selected>' in page
    assert "Nothing was changed." in page
    assert not Change.objects.exists()


@pytest.mark.parametrize(("repo_key", "status"), [(REPO, 302), (CABIN, 403), ("", 403), ("did:plc:nowhere", 403)])
def test_an_admin_of_a_repository_gives_roles_there_alone(
    client: Client, small: Path, repo_key: str, status: int
) -> None:
    admin(client, REPO)
    assert give(client, MARA, "admin", repo_key).status_code == status
    assert roles_of(Person.objects.filter(did=MARA).first()).keys(Role.ADMIN) == ({REPO} if status == 302 else set())


@pytest.mark.parametrize(
    ("did", "role", "repo_key"),
    [
        ("mara", "viewer", REPO),
        ("did:plc:foo", "viewer", REPO),
        (MARA, "owner", REPO),
        (MARA, "", REPO),
        (MARA, "viewer", "did:plc:nowhere"),
    ],
)
def test_what_cannot_be_given_is_refused_in_words(
    client: Client, small: Path, did: str, role: str, repo_key: str
) -> None:
    admin(client)
    answer = give(client, did, role, repo_key)
    assert answer.status_code == 422
    assert "Nothing was changed." in answer.content.decode()
    assert not Change.objects.exists()


def test_maintainers_read_the_log_of_what_is_theirs_and_nothing_in_it_is_markup(client: Client, small: Path) -> None:
    by, now = admin(client, REPO), timezone.now()
    log_change(by, "settings.changed", now, REPO, "<b>budget</b>", before="<script>1</script>", since=0.02)
    log_change(by, "settings.changed", now, CABIN, "the-others-business")
    log_change(by, "role.changed", now, "", "the-sites-business")
    page = client.get("/changes").content.decode().replace("<wbr>", "")  # where addresses may break over lines
    assert "&lt;b&gt;budget&lt;/b&gt;" in page
    assert "before: &lt;script&gt;1&lt;/script&gt;" in page
    assert "business" not in page


def test_an_admin_page_shows_only_the_roles_that_its_reader_gives(client: Client, small: Path) -> None:
    admin(client, REPO)
    other = Person.objects.create(did=ANA)
    Maintainer.objects.create(person=other, repo_key=CABIN)
    page = client.get("/people").content.decode()
    assert SEED in page
    assert ANA not in page
    assert CABIN not in page


def test_the_did_stands_beside_a_handle_and_not_beside_itself(client: Client, small: Path) -> None:
    by = admin(client, REPO)
    Maintainer.objects.create(person=Person.objects.create(did=ANA, handle="ana.example"), repo_key=REPO)
    told = re.findall(r'<th scope="row">(.*?)</th>', client.get("/people").content.decode())
    assert sorted(told) == sorted(
        [f'<bdi>ana.example</bdi> <span class="mono quiet">{ANA}</span>', f"<bdi>{by.did}</bdi>"]
    )


def test_a_row_without_a_role_has_the_usual_one_and_a_switched_off_account_has_none() -> None:
    person = Person.objects.create(did=MARA)
    Maintainer.objects.create(person=person, repo_key=REPO)
    assert (role_of(person, REPO), role_of(person, CABIN)) == (Role.MAINTAINER, Role.VIEWER)
    Maintainer.objects.create(person=person, repo_key="")
    assert role_of(person, CABIN) is Role.ADMIN
    person.is_active = False
    assert role_of(person, REPO) is Role.NOBODY


def command(name: str, *arguments: str) -> str:
    printed = StringIO()
    call_command(name, *arguments, stdout=printed, stderr=StringIO())
    return printed.getvalue()


def test_the_operator_adds_a_viewer_without_the_worker_and_lowers_a_maintainer(small: Path) -> None:
    assert "/sign-in/" in command("add_maintainer", MARA, "--repo", f"{SEED}/lantern", "--role", "viewer")
    assert role_of(Person.objects.get(did=MARA), REPO) is Role.VIEWER
    assert Maintainer.objects.get().role == "viewer"
    with pytest.raises(CommandError, match="is not watched here"):
        command("add_maintainer", MARA, "--repo", f"{SEED}/shed", "--role", "viewer")


def test_a_sign_in_link_gives_no_role(small: Path) -> None:
    Person.objects.create(did=MARA)
    assert "/sign-in/" in command("sign_in_link", MARA)
    assert not Maintainer.objects.exists()
    with pytest.raises(CommandError, match="has no account here"):
        command("sign_in_link", ANA)


@pytest.mark.parametrize(
    ("viewer", "heard"),
    [
        (None, set()),
        ("did:plc:" + "x" * 24, set()),
        (MARA, set()),  # whom they are about
        (SEED, {REASON}),  # trusts ana
        (ANA, {REASON}),  # wrote one
        ("did:plc:stranger".ljust(32, "a"), {"I dislike her."}),  # for whom mallory vouches
    ],
)
def test_a_denounce_is_shown_to_its_authors_circle_alone(
    client: Client, small: Path, viewer: str | None, heard: set[str]
) -> None:
    if viewer:
        client.force_login(invited(viewer))
    pages = [f"/c/{MARA}", f"/score/{MARA}", f"/trust/{MARA}", "/", "/leaderboard", f"/c/{MARA}/data"]
    if viewer is None:
        pages = ["/sign-in"]
    shown = "".join(client.get(page).content.decode() for page in pages)
    assert {reason for reason in (REASON, "I dislike her.") if reason in shown} == heard


@pytest.mark.parametrize(("viewer", "hears"), [(SEED, False), (ANA, True), (None, False)])
def test_nobody_hears_what_is_said_against_themselves_not_even_a_seed(
    client: Client, small: Path, settings: Settings, viewer: str | None, hears: bool
) -> None:
    settings.PUBLIC_READ = True
    if viewer:
        client.force_login(invited(viewer))
    assert (OF_SEED in client.get(f"/c/{SEED}").content.decode()) is hears


NEWCOMER = "did:plc:ana222222222222222222222"


def add(*arguments: str) -> str:
    return command("add_maintainer", *arguments)


@pytest.fixture
def store(small: Path, tmp_path: Path, settings: Settings) -> None:
    """The command writes into a copy of the small world's store."""
    settings.DUCKDB_PATH = Path(shutil.copy(small / "trust.duckdb", tmp_path))


@pytest.mark.usefixtures("store")
def test_a_maintainer_of_the_site_gets_a_link_that_signs_in(client: Client) -> None:
    link = add(NEWCOMER)
    assert link.startswith("http://127.0.0.1:8000/sign-in/")
    assert link.count("\n") == 1
    assert client.post(link.strip().removeprefix("http://127.0.0.1:8000")).status_code == 302
    assert client.session["_auth_user_id"] == str(Person.objects.get(did=NEWCOMER).pk)
    assert list(Maintainer.objects.values_list("person__did", "repo_key")) == [(NEWCOMER, "")]


@pytest.mark.usefixtures("store")
def test_behind_a_proxy_the_link_is_one_of_the_public_name(settings: Settings) -> None:
    settings.CSRF_TRUSTED_ORIGINS = ["https://sunstead.example"]
    assert add(NEWCOMER).startswith("https://sunstead.example/sign-in/")


@pytest.mark.usefixtures("store")
def test_adding_someone_again_changes_nothing_but_makes_a_new_link() -> None:
    assert add(NEWCOMER) != add(NEWCOMER)
    assert (Person.objects.count(), Maintainer.objects.count(), SignInMethod.objects.count()) == (1, 1, 2)


@pytest.mark.usefixtures("store")
def test_without_a_network_a_handle_is_not_called_misspelt(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(host: str) -> list[str]:
        raise OSError("no network")

    offline = partial(Fetcher, resolver=nobody, texts=lambda name: [])
    monkeypatch.setattr("trustsite.management.commands.add_maintainer.Fetcher", offline)
    with pytest.raises(CommandError, match=r"No server can be reached from here \(plc\.directory .* or give the DID\."):
        add("ana.example.com")
    assert not Person.objects.exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["ana"], "'ana' is not a handle"),
        (["did:plc:"], "This is not a DID"),
        (["did:plc:foo"], "did:plc: needs 24 characters"),
        (["did:key:z6MkhaXgBZD"], "This is not a DID"),
        ([NEWCOMER, "--repo", "lantern"], "'lantern' is not a repository"),
        ([NEWCOMER, "--repo", "at://ana.example"], "is not a repository"),
        (
            [NEWCOMER, "--repo", "did:plc:rrrr"],
            "name it as OWNER/NAME or by the at-uri of its record: anybody can claim a DID",
        ),
        ([NEWCOMER, "--repo", f"{ANA}/lantern", "did:plc:rrrr"], "'did:plc:rrrr' is a repository's bare DID"),
    ],
)
def test_a_refusal_is_one_sentence_and_makes_no_account(arguments: list[str], sentence: str) -> None:
    with pytest.raises(CommandError, match=sentence):
        add(*arguments)
    assert not Person.objects.exists()
