"""Coming in by a proven DID: as nobody, as the first admin, as a push-holder; and what strangers do not get by it."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from django.test import Client, RequestFactory
from django.utils import timezone
from pytest_django import Settings

from ingest.store.snapshots import SnapshotReader
from scoring.queries import read
from tests.ingest.stream.frames import ANA, MALLORY, MARA, REPO, SEED, STRANGER, pull_uri
from tests.triage.access.people import admin, enter, is_in, somebody, text
from tests.triage.worlds.small_site import CABIN, OFFERED
from triage.access import admission, tokens
from triage.access.admission import (
    SignInProblem,
    erased_subject,
)
from triage.access.permissions import Role, role_of, roles_of, set_role
from triage.access.requests import SessionStore
from triage.access.sign_in import find_person, issue_link, person_for, sign_in_account
from triage.access.tokens import create_token
from triage.models import Change, LeaderboardWish, Maintainer, Objection, Person, RoleRequest
from triage.models.accounts import log_change
from triage.services.erasure import account_of, forget_account

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("small", "nothing_counted")]
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
PASSWORD = "seven lanterns at noon"


# --- Nobody ----------------------------------------------------------------------------------------------------------


def test_a_stranger_who_comes_in_is_led_to_a_page_of_their_own_and_reads_nothing_else() -> None:
    stranger = enter(STRANGER)
    assert stranger.get("/")["Location"] == "/me"
    page = text(stranger.get("/me"))
    assert STRANGER in page
    assert MARA not in page
    assert OFFERED not in page
    assert 'href="/dashboard"' not in page, "no way to what they may not read"
    refused = stranger.get(f"/pull/{OFFERED}")
    assert refused.status_code == 403
    assert "nobody invited you to read here" in text(refused)
    assert 'href="/me"' in text(refused)


def test_a_fragment_and_a_program_are_told_so_too() -> None:
    stranger = enter(STRANGER)
    fragment = stranger.get("/leaderboard", headers={"hx-request": "true"})
    assert fragment["HX-Redirect"] == "/me"
    told = stranger.get("/queue", headers={"accept": "application/json"})
    assert (told.status_code, told.json()["code"]) == (403, "not_allowed")
    assert MARA not in text(told)


def test_what_a_post_answers_does_not_tell_a_stranger_what_is_here() -> None:
    stranger = enter(STRANGER)
    answers = {
        stranger.post(address, {"uri": uri, "kind": "approve", "until": "week"}).status_code
        for uri in (OFFERED, pull_uri(MARA, "made-up"))
        for address in ("/act", "/snooze", "/act/look")
    }
    assert answers == {403}
    for uri in (OFFERED, pull_uri(MARA, "made-up")):
        theirs = stranger.get(f"/me/pull/{uri}")
        assert (theirs.status_code, theirs["Location"]) == (302, f"/find?{urlencode({'q': uri})}"), "what anybody finds"


def test_a_role_that_ends_takes_pages_tags_tokens_and_feeds_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "BELIEVED", timedelta(0))
    person, now = somebody(ANA), timezone.now()
    set_role(None, person, REPO, "viewer", now)
    reader, secret = enter(ANA), create_token("mine", ["read"], now, person)
    program = Client(headers={"authorization": f"Bearer {secret}"})
    addresses = ("/leaderboard", "/live", f"/score/{MARA}", "/queue")
    tags = {address: reader.get(address)["ETag"] for address in addresses}
    feed = f"/feed/{secret}.atom"
    feed_tag = program.get(feed)["ETag"]
    assert all(reader.get(at, headers={"if-none-match": tag}).status_code == 304 for at, tag in tags.items())
    assert program.get(f"/score/{MARA}").status_code == 200
    set_role(None, person, REPO, None, now)
    for at, tag in tags.items():
        answer = reader.get(at, headers={"if-none-match": tag})
        assert (answer.status_code, "ETag" in answer) == (403, False), at
        assert program.get(at, headers={"if-none-match": tag}).status_code == 401, at
    assert Client().get(feed, headers={"if-none-match": feed_tag}).status_code == 404
    set_role(None, person, REPO, "viewer", now)
    assert program.get(f"/score/{MARA}").status_code == 200


def test_with_a_valid_token_nobody_reads_what_the_token_reads() -> None:
    secret = create_token("the wall", ["read"], timezone.now())
    stranger = enter(STRANGER)
    assert stranger.get(f"/score/{MARA}", headers={"authorization": f"Bearer {secret}"}).status_code == 200
    assert stranger.get(f"/score/{MARA}", headers={"authorization": "Bearer made-up"}).status_code == 401


def test_a_contributor_needs_no_link_for_their_page_their_objection_and_their_wish() -> None:
    mara = enter(MARA)
    page = text(mara.get("/me"))
    for words in ("Mend the lamp", "Why", "What helps", "Everything stored", "Leave me out"):
        assert words in page
    assert "Mend the lamp" in text(mara.get(f"/me/pull/{OFFERED}"))
    assert mara.post(f"/c/{MARA}/objection", {"text": "Read it again.", "pull": OFFERED}).status_code == 302
    assert mara.post(f"/c/{MARA}/leaderboard", {"out": "yes"}).status_code == 302
    assert (Objection.objects.get().source, LeaderboardWish.objects.get().left_out) == ("self", True)
    assert "Read it again." in text(mara.get("/me"))
    assert '"did":' in text(mara.get("/me?form=json"))
    assert mara.get(f"/pull/{OFFERED}").status_code == 403
    assert mara.get(f"/c/{STRANGER}/data").status_code == 403
    assert mara.post(f"/c/{STRANGER}/leaderboard", {"out": "yes"}).status_code == 403


# --- Who may come in -------------------------------------------------------------------------------------------------


def test_where_only_the_invited_sign_in_others_are_refused_in_one_sentence(settings: Settings) -> None:
    settings.SIGN_IN = "invited"
    stranger, link = somebody(STRANGER), issue_link(somebody(STRANGER))
    browser = Client()
    refused = browser.post(f"/sign-in/{link}")
    assert (refused.status_code, is_in(browser)) == (403, False)
    assert re.findall(r'role="alert">(.*?)</p>', text(refused)) == [admission.NOT_ADMITTED]
    stranger.set_password(PASSWORD)
    stranger.save()
    refused = browser.post("/sign-in", {"name": STRANGER, "password": PASSWORD})
    assert (refused.status_code, is_in(browser)) == (403, False)
    set_role(None, stranger, CABIN, "viewer", timezone.now())
    assert browser.post(f"/sign-in/{link}").status_code == 302, "the link was not spent"
    assert is_in(browser)


def by_account(settings: Settings, did: str, handle: str | None = None) -> Person:
    """Come in as the callback of a sign-in elsewhere does, which proved the DID."""
    request: Any = RequestFactory().get("/")
    request.session = SessionStore()
    with SnapshotReader(settings.SNAPSHOT_DIR).pin() as request.snapshot:
        return sign_in_account(request, did, handle)


def test_a_refused_account_leaves_nothing_behind(settings: Settings) -> None:
    settings.SIGN_IN = "invited"
    with pytest.raises(SignInProblem, match="Only people with a role"):
        by_account(settings, STRANGER, "stranger.example")
    assert not Person.objects.exists()
    settings.SIGN_IN = "anyone"
    person = by_account(settings, STRANGER, "stranger.example")
    assert (person.handle, roles_of(person).highest()) == ("stranger.example", Role.NOBODY)


def test_a_handle_goes_to_whoever_proved_it_and_its_former_holder_loses_it(settings: Settings) -> None:
    for did, password in ((MALLORY, "nine lanterns at dusk"), (ANA, PASSWORD)):
        person = by_account(settings, did, "ana.example.com")
        person.set_password(password)
        person.save()
    assert find_person("ana.example.com", PASSWORD, 0) == somebody(ANA)
    assert [person.handle for person in (somebody(MALLORY), somebody(ANA))] == ["", "ana.example.com"]
    with SnapshotReader(settings.SNAPSHOT_DIR).pin() as snapshot:
        assert snapshot is not None
        score = read.score(snapshot, MARA)
        assert score is not None
        by_account(settings, ANA, score.person.name)
        assert person_for(MARA, snapshot).handle == "", "a name in the snapshot may be old"
        assert person_for(MARA, snapshot, score.person.name).handle == score.person.name


def test_an_account_that_is_switched_off_does_not_come_in(settings: Settings) -> None:
    somebody(STRANGER, is_active=False)
    with pytest.raises(SignInProblem, match="switched off"):
        by_account(settings, STRANGER)


# --- Push-holders ----------------------------------------------------------------------------------------------------


def ask(client: Client, repo_key: str = REPO) -> int:
    return client.post("/me/maintain", {"repo_key": repo_key}).status_code


def answer(client: Client, word: str, number: int | None = None) -> Any:
    number = number or RoleRequest.objects.get().pk
    return client.post("/people/request", {"number": number, "answer": word})


def test_a_push_holder_asks_and_an_admin_accepts() -> None:
    seed, boss = enter(SEED), admin()
    assert "Ask to maintain it" in text(seed.get("/me"))
    assert ask(seed) == 302
    assert "You asked on" in text(seed.get("/me"))
    assert seed.get("/queue").status_code == 403, "a request gives nothing"
    assert SEED in text(boss.get("/people"))
    assert answer(boss, "accept").status_code == 302
    assert (role_of(somebody(SEED), REPO), role_of(somebody(SEED), CABIN)) == (Role.MAINTAINER, Role.VIEWER)
    told = Change.objects.order_by("pk").values_list("person__did", "what", "repo_key", "subject")
    assert list(told) == [(SEED, "role.asked", REPO, SEED), ("did:plc:" + "k" * 24, "role.changed", REPO, SEED)]
    assert "Requests to maintain" not in text(boss.get("/people"))
    assert "Repositories you may push to" not in text(seed.get("/me"))
    answer(boss, "decline")
    assert role_of(somebody(SEED), REPO) is Role.MAINTAINER, "it was answered before"


def test_whoever_may_not_push_is_not_offered_it_and_cannot_ask() -> None:
    mara = enter(MARA)
    assert "Ask to maintain it" not in text(mara.get("/me"))
    assert [ask(mara, key) for key in (REPO, CABIN, "", "did:plc:nowhere")] == [403] * 4
    assert not RoleRequest.objects.exists()


def test_a_declined_push_holder_is_told_and_does_not_ask_again() -> None:
    seed, boss = enter(SEED), admin()
    ask(seed)
    answer(boss, "decline")
    assert "An admin declined on" in text(seed.get("/me"))
    assert ask(seed) == 302
    assert RoleRequest.objects.get().accepted is False
    assert "Requests to maintain" not in text(boss.get("/people"))


def test_only_an_admin_of_that_repository_sees_and_answers_a_request() -> None:
    ask(enter(SEED))
    number = RoleRequest.objects.get().pk
    elsewhere = admin("did:plc:" + "e" * 24, CABIN)
    Maintainer.objects.create(person=somebody("did:plc:" + "m" * 24), repo_key=REPO, role="maintainer")
    maintainer, own = enter("did:plc:" + "m" * 24), enter(SEED)
    assert SEED not in text(elsewhere.get("/people"))
    assert [answer(one, "accept", number).status_code for one in (elsewhere, maintainer, own)] == [403, 403, 403]
    here = admin("did:plc:" + "h" * 24, REPO)
    assert answer(here, "maybe", number).status_code == 422
    assert [here.post("/people/request", {"number": "٣"}).status_code, answer(here, "accept", 10**30).status_code] == [
        404,
        404,
    ]
    assert role_of(somebody(SEED), REPO) is Role.NOBODY
    assert answer(here, "accept", number).status_code == 302
    assert role_of(somebody(SEED), REPO) is Role.MAINTAINER


def test_a_right_to_push_that_ended_before_the_answer_gives_no_role() -> None:
    person = somebody(MARA)  # who may push nowhere by now
    RoleRequest.objects.create(person=person, repo_key=REPO, made_at=timezone.now())
    refused = answer(admin(), "accept")
    assert refused.status_code == 422
    assert "may not push there any more" in text(refused)
    assert role_of(person, REPO) is Role.NOBODY
    assert RoleRequest.objects.get().accepted is None


def test_where_the_operator_says_so_push_holders_maintain_from_their_first_sign_in(settings: Settings) -> None:
    settings.ACCEPT_PUSH_HOLDERS, settings.SIGN_IN = True, "invited"
    assert is_in(enter(SEED))
    assert roles_of(somebody(SEED)).held == {REPO: Role.MAINTAINER}
    assert not is_in(enter(MARA))
    now, boss = timezone.now(), somebody("did:plc:" + "k" * 24)
    set_role(boss, somebody(SEED), REPO, None, now)
    assert not is_in(enter(SEED)), "what an admin took is not given back"
    set_role(boss, somebody(ANA), CABIN, "viewer", now)
    enter(ANA)
    assert role_of(somebody(ANA), CABIN) is Role.VIEWER


def test_a_refusal_outlives_the_erasure_of_its_person_without_a_word_of_who_it_was(settings: Settings) -> None:
    settings.ACCEPT_PUSH_HOLDERS = True
    enter(SEED)
    forget_account(SEED, None)
    assert role_of(somebody(SEED), REPO) is Role.NOBODY
    enter(SEED)
    assert role_of(somebody(SEED), REPO) is Role.MAINTAINER, "nobody refused it"
    boss = admin()
    set_role(somebody("did:plc:" + "k" * 24), somebody(SEED), REPO, None, timezone.now())
    for _ in range(2):
        forget_account(SEED, None)
        assert SEED not in repr(list(Change.objects.values()))
        enter(SEED)
        assert role_of(somebody(SEED), REPO) is Role.NOBODY
    shown = text(boss.get("/changes"))
    assert "an erased account" in shown
    assert "erased:" not in shown
    enter(ANA)
    assert roles_of(somebody(ANA)).highest() is Role.MAINTAINER, "it is about nobody else"
    settings.TOMBSTONE_KEY = "another key"
    enter(SEED)
    assert role_of(somebody(SEED), REPO) is Role.MAINTAINER, "without the key a hash says nothing"


@pytest.mark.parametrize(
    ("what", "details", "kept"),
    [
        ("role.declined", {}, True),
        ("role.changed", {"before": "maintainer", "since": None}, True),
        ("role.changed", {"before": None, "since": "viewer"}, True),
        ("role.changed", {"before": None, "since": "maintainer"}, False),
        ("role.asked", {}, False),
    ],
)
def test_what_is_kept_of_an_erased_person_is_the_last_word_that_refused(
    what: str, details: dict[str, Any], kept: bool
) -> None:
    own = f"at://{SEED}/sh.tangled.repo/lantern"
    for key in (REPO, own):
        log_change(None, "role.declined", NOON, key, SEED)
        log_change(None, what, NOON, key, SEED, **details)
    was_asked = what == "role.asked"
    forget_account(SEED, None)
    hashed = Change.objects.filter(subject=erased_subject(SEED)).values_list("repo_key", "details")
    assert sorted(hashed) == ([("", {}), (REPO, {})] if kept or was_asked else [])
    assert SEED not in repr(list(Change.objects.values()))


def test_erasing_a_person_takes_their_request_and_the_export_has_it() -> None:
    ask(enter(SEED))
    kept = account_of(SEED)
    assert kept is not None
    assert [one["repo_key"] for one in kept["role_requests"]] == [REPO]
    forget_account(SEED, None)
    assert not RoleRequest.objects.exists()


# --- Settings --------------------------------------------------------------------------------------------------------


def test_a_token_of_somebody_else_gives_a_stranger_no_role_of_theirs() -> None:
    """A token reads; what acts or exports goes by who is signed in alone."""
    boss = somebody("did:plc:" + "k" * 24)
    Maintainer.objects.create(person=boss, repo_key="", role="maintainer")
    headers = {"authorization": f"Bearer {create_token('wall', ['read'], timezone.now(), boss)}"}
    stranger = enter(STRANGER)
    assert stranger.get(f"/c/{MARA}/data?form=json", headers=headers).status_code == 403
    sent = {"text": "Not by Mara.", "pull": OFFERED}
    assert stranger.post(f"/c/{MARA}/objection", sent, headers=headers).status_code == 403
    assert stranger.post(f"/c/{MARA}/leaderboard", {"out": "yes"}, headers=headers).status_code == 403
    assert not Objection.objects.exists()
    assert not LeaderboardWish.objects.exists()


def test_a_role_that_was_taken_for_the_whole_site_comes_back_by_no_push_right(settings: Settings) -> None:
    settings.ACCEPT_PUSH_HOLDERS = True
    now, boss, seed = timezone.now(), somebody("did:plc:" + "k" * 24), somebody(SEED)
    set_role(boss, seed, "", "maintainer", now)
    set_role(boss, seed, "", None, now)
    enter(SEED)
    assert role_of(somebody(SEED), REPO) is Role.NOBODY


def test_images_on_another_site_lock_nobody_out_of_signing_in() -> None:
    person = somebody(ANA)
    person.set_password(PASSWORD)
    person.save()
    visitor = Client()
    for number in range(20):
        visitor.get(f"/oauth/callback?state={number}", headers={"sec-fetch-site": "cross-site"})
    assert visitor.post("/sign-in", {"name": ANA, "password": PASSWORD}).status_code == 302


def test_the_page_of_a_one_time_link_names_whom_it_signs_in() -> None:
    person = somebody(ANA, handle="ana.example.com")
    assert "ana.example.com" in text(Client().get(f"/sign-in/{issue_link(person)}"))
