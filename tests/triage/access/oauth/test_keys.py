"""The site's keys: published at once, used when every server knows them, kept as long as a session is bound to them."""

import stat
import threading
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from tests.ingest.stream.frames import ANA
from triage.access.oauth import keys
from triage.access.oauth.keys import (
    KeyProblem,
    add_key,
    find_key,
    key_in_use,
    read_keys,
    remove_unbound_keys,
    retire_key,
)
from triage.models import OAuthSession, Person

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
LATER = NOW + keys.PUBLISHED_FOR


@pytest.fixture(autouse=True)
def file(tmp_path: Path, settings: Settings) -> Path:
    """Where the keys of this test are."""
    settings.OAUTH_CLIENT_KEYS = tmp_path / "keys" / "oauth_client.json"
    return settings.OAUTH_CLIENT_KEYS


def bind_session(key_id: str) -> None:
    """A session that was begun with this key."""
    person, _ = Person.objects.get_or_create(did=ANA)
    times = {"made_at": NOW, "last_used_at": NOW, "tokens_expire_at": NOW, "lease_until": NOW}
    OAuthSession.objects.create(person=person, key_id=key_id, sealed=b"", **times)


def test_the_first_key_is_made_once_by_whoever_needs_it_first_and_used_at_once(file: Path) -> None:
    found = list[str]()
    threads = [threading.Thread(target=lambda: found.append(read_keys()[0].key_id)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(found), len(set(found)), len(read_keys())) == (8, 1, 1)
    assert key_in_use(read_keys(), NOW).key_id == found[0]
    assert (stat.S_IMODE(file.stat().st_mode), stat.S_IMODE(file.parent.stat().st_mode)) == (0o600, 0o700)


def test_a_new_key_is_published_at_once_and_used_after_more_than_ten_minutes() -> None:
    first = add_key(NOW - timedelta(days=1)).key_id
    (made_by_itself,) = {key.key_id for key in read_keys()} - {first}
    assert retire_key(made_by_itself, NOW)
    second = add_key(NOW).key_id
    assert {key.key_id for key in read_keys()} == {first, second}
    assert key_in_use(read_keys(), NOW + timedelta(minutes=10)).key_id == first
    assert key_in_use(read_keys(), LATER).key_id == second


def test_a_retired_key_stays_while_a_session_is_bound_to_it() -> None:
    first, second = read_keys()[0].key_id, add_key(NOW).key_id
    bind_session(first)
    assert not retire_key(first, LATER)
    assert key_in_use(read_keys(), LATER).key_id == second
    assert find_key(first) is not None
    assert remove_unbound_keys() == []
    OAuthSession.objects.all().delete()
    assert remove_unbound_keys() == [first]
    assert [key.key_id for key in read_keys()] == [second]


def test_a_key_is_not_retired_before_another_is_known_everywhere() -> None:
    (first,) = read_keys()
    with pytest.raises(KeyProblem, match="No other key is in use yet"):
        retire_key(first.key_id, LATER)
    add_key(NOW)
    with pytest.raises(KeyProblem, match="after 11 minutes"):
        retire_key(first.key_id, LATER - timedelta(seconds=1))
    with pytest.raises(KeyProblem, match="There is no key made-up"):
        retire_key("made-up", LATER)
    assert retire_key(first.key_id, LATER)


@pytest.mark.parametrize(
    "content", [b"", b"{}", b'{"keys": []}', b'{"keys": [{"jwk": "{}", "made_at": "2026-11-20T12:00:00Z"}]}', b"\xff"]
)
def test_a_damaged_file_is_told_in_a_sentence_and_never_overwritten(file: Path, content: bytes) -> None:
    file.parent.mkdir()
    file.write_bytes(content)
    for use in (read_keys, lambda: add_key(NOW)):
        with pytest.raises(KeyProblem, match=r"is damaged or cannot be read: put its backup there") as raised:
            use()
        assert "jwk" not in str(raised.value)
    assert file.read_bytes() == content


def test_the_command_adds_lists_and_retires_and_shows_no_secret(file: Path) -> None:
    def run(*arguments: str) -> str:
        out = StringIO()
        call_command("oauth_key", *arguments, stdout=out)
        return out.getvalue()

    listed = run("--list")
    assert " in use " in listed
    first = listed.split()[0]
    assert "New sign-ins use it in 11 minutes." in run("--add")
    assert [line.split()[4] for line in run("--list").splitlines()] == ["in", "published"]
    with pytest.raises(CommandError, match="No other key is in use yet"):
        run("--retire", first)
    assert len(file.read_text().split('\\"d\\":\\"')) == 3, "two private keys"
    assert all(part.split('\\"')[0] not in run("--list") for part in file.read_text().split('\\"d\\":\\"')[1:])
