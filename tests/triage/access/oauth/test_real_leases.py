"""A session whose tokens expired is refreshed by one of all who need it, and outlives whatever happens to that one."""

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from uuid import UUID

import pytest
from django.conf import settings as configured
from django.contrib.sessions.models import Session
from django.db import connection
from django.utils import timezone
from pytest_django import Settings

from ingest.errors import OAuthRefused
from ingest.http.fetcher import Fetcher
from ingest.oauth.client import Client
from ingest.oauth.dpop import DpopSender
from ingest.oauth.flow import Grant, refresh
from tests.conftest import Count
from tests.ingest.stream.frames import ANA, MALLORY
from tests.peers.network import Account
from tests.triage.access.oauth.conftest import Site
from tests.triage.worlds.killed import forking
from triage.access.oauth import sessions
from triage.access.oauth.client import web_sender
from triage.access.oauth.keys import KeyProblem
from triage.access.oauth.sessions import (
    LEASE,
    SessionEnded,
    begin_session,
    current_grant,
    end_sessions,
    end_unused,
    revoke_ended,
)
from triage.access.requests import SessionStore
from triage.models import OAuthSession, Person
from trustsite.worker import handover

pytestmark = pytest.mark.django_db(transaction=True)
AT_ONCE = 50
Refreshed = list[Grant]


@pytest.fixture
def session(oauth_site: Site, join: Callable[[str], Account]) -> UUID:
    """A person's session, of which the tokens have expired."""
    oauth_site.sign_in(oauth_site.browser(), join("ana"))
    return expire()


@pytest.fixture
def refreshed(monkeypatch: pytest.MonkeyPatch) -> Refreshed:
    """Every refresh that was asked of the data server, with the session that it was asked for."""
    asked: Refreshed = []

    def noted(sender: object, plc: object, client: object, grant: Grant) -> Grant:
        asked.append(grant)
        return refresh(sender, plc, client, grant)  # ty: ignore[invalid-argument-type]

    monkeypatch.setattr(sessions, "refresh", noted)
    return asked


def expire() -> UUID:
    OAuthSession.objects.update(tokens_expire_at=timezone.now())
    return OAuthSession.objects.get().id


def ask(session: UUID) -> Grant | SessionEnded:
    """What one request gets, in a thread of its own."""
    try:
        return current_grant(session, web_sender())
    except SessionEnded as ended:
        return ended
    finally:
        connection.close()


def ask_at_once(session: UUID) -> list[Grant | SessionEnded]:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(ask, [session] * AT_ONCE))


def test_fifty_who_need_an_expired_session_at_once_refresh_it_once(session: UUID, refreshed: Refreshed) -> None:
    for turn in (1, 2):  # the second time with what the first one stored
        found = ask_at_once(session)
        assert len(refreshed) == turn
        (grant,) = {one for one in found if isinstance(one, Grant)}
        assert len([one for one in found if one == grant]) == AT_ONCE
        assert grant.access_token != refreshed[-1].access_token
        expire()
    assert OAuthSession.objects.get().lease == ""


def test_a_token_that_the_data_server_refused_is_read_again_before_it_is_refreshed(
    session: UUID, refreshed: Refreshed
) -> None:
    fresh = current_grant(session, web_sender())
    again = current_grant(session, web_sender(), refused=refreshed[0].access_token)
    assert (again.access_token, len(refreshed)) == (fresh.access_token, 1)
    assert current_grant(session, web_sender(), refused=fresh.access_token).access_token != fresh.access_token
    assert len(refreshed) == 2


def test_a_session_that_ended_at_its_server_asks_to_sign_in_again_and_is_not_asked_for_twice(
    session: UUID, refreshed: Refreshed
) -> None:
    before = current_grant(session, web_sender())
    row = OAuthSession.objects.get()
    sealed = bytes(row.sealed)
    expire()
    current_grant(session, web_sender())
    OAuthSession.objects.update(sealed=sealed)  # as from a copy of the file: its refresh token was used since
    assert refreshed[-1].refresh_token == before.refresh_token
    expire()
    found = ask_at_once(session)
    assert {str(one) for one in found} == {"Your sign-in at your own server has ended. Sign in again."}
    assert len(refreshed) == 3
    assert OAuthSession.objects.get().ended_because == "server"
    assert revoke_ended(web_sender(), timezone.now()) == 1


def test_a_key_file_that_cannot_be_read_holds_no_lease_and_the_session_goes_on_once_it_can(
    session: UUID, refreshed: Refreshed
) -> None:
    content = configured.OAUTH_CLIENT_KEYS.read_bytes()
    configured.OAUTH_CLIENT_KEYS.write_text("damaged")
    with pytest.raises(KeyProblem):
        current_grant(session, web_sender())
    row = OAuthSession.objects.get()
    assert (row.lease, row.lease_until <= timezone.now(), row.ended_at, refreshed) == ("", True, None, [])
    configured.OAUTH_CLIENT_KEYS.write_bytes(content)
    assert current_grant(session, web_sender()).did == str(row.person.did)
    assert len(refreshed) == 1


def test_a_server_that_does_not_answer_ends_no_session(
    session: UUID, refreshed: Refreshed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*asked: object) -> Grant:
        raise OAuthRefused("pds.example.test took too long to answer; try again in a minute", retry=True)

    with monkeypatch.context() as patch:
        patch.setattr(sessions, "refresh", fail)
        with pytest.raises(OAuthRefused, match="try again in a minute"):
            current_grant(session, web_sender())
    assert OAuthSession.objects.get().ended_at is None
    assert current_grant(session, web_sender()).did
    assert len(refreshed) == 1


def test_a_session_that_is_ended_while_it_is_refreshed_stays_ended_and_its_new_tokens_die(
    session: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh = list[Grant]()

    def refresh_late(sender: object, plc: object, client: object, grant: Grant) -> Grant:
        fresh.append(refresh(sender, plc, client, grant))  # ty: ignore[invalid-argument-type]
        end_sessions([session], OAuthSession.Ended.PERSON, timezone.now())
        return fresh[0]

    monkeypatch.setattr(sessions, "refresh", refresh_late)
    row = OAuthSession.objects.get()
    client = sessions.bound_client(row.client_id, row.key_id)
    with pytest.raises(SessionEnded):
        current_grant(session, web_sender())
    assert revoke_ended(web_sender(), timezone.now()) == 1
    assert client is not None
    with pytest.raises(OAuthRefused) as refused:
        refresh(web_sender(), configured.PLC_URL, client, fresh[0])
    assert refused.value.ended


def test_a_lease_is_kept_while_it_lasts_and_taken_over_after(session: UUID, refreshed: Refreshed) -> None:
    now = timezone.now()
    OAuthSession.objects.update(lease="somebody", lease_until=now + LEASE)
    waiting = threading.Thread(target=ask, args=[session])
    waiting.start()
    waiting.join(0.5)
    assert (waiting.is_alive(), refreshed) == (True, [])
    OAuthSession.objects.update(lease_until=now)
    waiting.join()
    assert len(refreshed) == 1


def test_a_session_without_a_browser_or_whose_person_is_switched_off_ends_and_is_revoked(
    session: UUID, oauth_site: Site, join: Callable[[str], Account]
) -> None:
    browser = oauth_site.browser()
    oauth_site.sign_in(browser, join("ben"))
    assert end_unused(timezone.now()) == 0
    Person.objects.filter(oauth_sessions=session).update(is_active=False)
    browser.session.flush()
    assert end_unused(timezone.now()) == 2
    assert {str(row.ended_because) for row in OAuthSession.objects.all()} == {"account", "person"}
    assert revoke_ended(web_sender(), timezone.now()) == 2


def test_browsers_are_read_before_the_transaction_that_ends_a_session_and_one_that_changed_its_key_within_it(
    session: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    within, decode = list[bool](), Session.get_decoded

    def note(row: Session) -> dict[str, object]:
        within.append(connection.in_atomic_block)
        decoded = decode(row)
        if len(within) == 1:  # its password is changed in this moment
            SessionStore(str(row.pk)).cycle_key()
        return decoded

    monkeypatch.setattr(Session, "get_decoded", note)
    assert end_sessions([session], OAuthSession.Ended.PERSON, timezone.now()) == 1
    assert within == [False, True]
    assert not Session.objects.exists(), "the browser is signed out"
    assert end_sessions([session], OAuthSession.Ended.PERSON, timezone.now()) == 0
    assert len(within) == 2, "nothing is read where nothing ends"


def test_a_server_that_cannot_be_told_is_told_again_for_a_day(session: UUID, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*asked: object) -> bool:
        raise OAuthRefused("pds.example.test could not be connected to; try again in a minute", retry=True)

    now: datetime = timezone.now()
    end_sessions([session], OAuthSession.Ended.PERSON, now)
    monkeypatch.setattr(sessions, "revoke", fail)
    assert revoke_ended(web_sender(), now + timedelta(days=1)) == 0
    assert revoke_ended(web_sender(), now + timedelta(days=1, seconds=1)) == 1
    assert not OAuthSession.objects.exists()


def test_a_damaged_key_file_keeps_nobody_from_being_erased_and_is_waited_for(session: UUID) -> None:
    now, keys = timezone.now(), configured.OAUTH_CLIENT_KEYS.read_bytes()
    configured.OAUTH_CLIENT_KEYS.write_text("damaged")
    handover._revoke_sessions(Person.objects.get().did)
    end_sessions([session], OAuthSession.Ended.PERSON, now)
    assert revoke_ended(web_sender(), now) == 0
    configured.OAUTH_CLIENT_KEYS.write_bytes(keys)
    assert revoke_ended(web_sender(), now) == 1


def test_one_person_with_a_slow_server_does_not_hold_up_the_revocation_of_others(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.OAUTH_KEY, now, told = "5e" * 32, timezone.now(), list[str]()

    def end_one(did: str, issuer: str) -> None:
        grant = Grant(did, None, issuer, issuer, "atproto", "a", "r", now.replace(tzinfo=None), "key", "")
        client, person = Client("http://localhost", "", "atproto", None), Person.objects.get_or_create(did=did)[0]
        row, later = begin_session(grant, client, person, "Firefox", now), OAuthSession.objects.count()
        end_sessions([row.id], OAuthSession.Ended.PERSON, now + timedelta(seconds=later))

    def revoke(_: object, client: Client, grant: Grant) -> bool:
        told.append(grant.did)
        if grant.did != ANA:
            raise OAuthRefused("this server took too long to answer", retry=True)
        return True

    def run(minutes: int) -> list[str]:
        told.clear()
        sessions.revoke_ended(DpopSender(Fetcher()), now + timedelta(minutes=minutes))
        return sorted(told)

    monkeypatch.setattr(sessions, "revoke", revoke)
    monkeypatch.setattr(sessions, "REVOKED_AT_ONCE", 4)
    for did in (MALLORY, MALLORY, MALLORY, ANA):
        end_one(did, f"https://{'slow' if did == MALLORY else 'own'}.example.org")
    assert run(0) == [ANA, MALLORY, MALLORY], "two of one server, and whoever comes after them"
    for number in range(6):
        end_one(MALLORY, f"https://slow{number}.example.org")
    end_one(ANA, "https://own.example.org")
    assert [run(minute).count(ANA) for minute in (1, 2)] == [0, 1], "those that were never tried come first"
    assert OAuthSession.objects.filter(lease_until__lte=sessions.FREE).count() == 0, "each was tried by then"


def test_a_kill_at_any_moment_of_a_refresh_leaves_the_session_whole_or_asks_to_sign_in_again(
    session: UUID, oauth_site: Site, count: Count
) -> None:
    draws, did, handle = random.Random(22), Person.objects.get().did, Person.objects.get().handle
    with forking() as processes:
        for _ in range(count(3, 20)):
            assert processes.run("refresh", str(session), seconds=draws.uniform(0.0, 0.4))
            OAuthSession.objects.update(lease_until=timezone.now(), tokens_expire_at=timezone.now())
            found = ask(session)
            assert isinstance(found, SessionEnded) or found.did == did
            if isinstance(found, SessionEnded):
                oauth_site.sign_in(oauth_site.browser(), Account(oauth_site.network, did, handle, ""))
                session = OAuthSession.objects.get(ended_at=None).id
