"""Messages to the worker arrive once, whatever happens on the way; SQLite says whether there is anything at all."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session
from django.utils import timezone

from ingest.worker.runtime import Runtime
from tests.pipeline import At
from triage import tasks
from triage.models import Lease, OutboxEntry, Person, outbox
from triage.models.accounts import among, is_any
from triage.services.actions import LOOKED_AT
from triage.services.notifying.deliveries import deliver_due

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
RUNTIME = cast(Runtime, SimpleNamespace(clock=At(NOW.replace(tzinfo=None))))  # all that is asked here of the worker


class Taken(list[str]):
    """A taker that remembers the keys it was given."""

    def __call__(self, runtime: Runtime, key: str, payload: Mapping[str, Any]) -> None:
        """Take it."""
        self.append(key)


def test_a_message_is_delivered_once_it_is_due_and_never_again() -> None:
    taken = Taken()
    outbox.put("told", "a", {}, NOW, NOW + timedelta(seconds=10))
    assert deliver_due(RUNTIME, NOW + timedelta(seconds=9.9), {"told": taken}) == 0
    assert deliver_due(RUNTIME, NOW + timedelta(seconds=10), {"told": taken}) == 1
    assert deliver_due(RUNTIME, NOW + timedelta(seconds=11), {"told": taken}) == 0
    assert taken == ["a"]


def test_of_sessions_those_that_ended_go_and_the_others_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_has_tables", lambda: True)
    monkeypatch.setattr(tasks, "close_old_connections", lambda: None)  # it is the one of this test's transaction
    for seconds in (-60, 60):
        session = SessionStore()
        session.set_expiry(seconds)
        session.create()
    tasks.drop_what_ended.call_local()
    assert [one.expire_date > timezone.now() for one in Session.objects.all()] == [True]


def test_the_same_key_twice_is_one_message() -> None:
    outbox.put("told", "a", {"first": True}, NOW)
    outbox.put("told", "a", {"first": False}, NOW)
    assert OutboxEntry.objects.get().payload == {"first": True}


def test_what_was_withdrawn_in_time_never_arrives_and_too_late_is_said() -> None:
    taken = Taken()
    outbox.put("told", "a", {}, NOW)
    assert outbox.withdraw("a")
    outbox.put("told", "b", {}, NOW)
    deliver_due(RUNTIME, NOW, {"told": taken})
    assert not outbox.withdraw("b")
    assert taken == ["b"]


def test_a_message_that_fails_is_kept_with_its_problem_and_holds_no_other_back() -> None:
    def refuse(runtime: Runtime, key: str, payload: Mapping[str, Any]) -> None:
        raise ValueError("no such pull request")

    taken = Taken()
    outbox.put("refused", "a", {}, NOW)
    outbox.put("told", "b", {}, NOW)
    assert deliver_due(RUNTIME, NOW, {"told": taken, "refused": refuse}) == 1
    left = OutboxEntry.objects.get(delivered_at=None)
    assert (left.key, left.tries, left.problem) == ("a", 1, "no such pull request")


def test_a_kill_between_the_taking_and_the_mark_brings_the_same_key_again() -> None:
    def killed(runtime: Runtime, key: str, payload: Mapping[str, Any]) -> None:
        taken(runtime, key, payload)
        raise KeyboardInterrupt

    taken = Taken()
    outbox.put("told", "a", {}, NOW)
    with pytest.raises(KeyboardInterrupt):
        deliver_due(RUNTIME, NOW, {"told": killed})
    assert deliver_due(RUNTIME, NOW, {"told": taken}) == 1
    assert taken == ["a", "a"]


URI = "at://did:plc:aaaaaaaaaaaaaaaaaaaaaaaa/sh.tangled.repo.pull/1"


def test_a_lease_is_found_among_many_until_it_ends() -> None:
    now = timezone.now()
    person = Person.objects.create(did="did:plc:aaaaaaaaaaaaaaaaaaaaaaaa")
    Lease.objects.create(pull_uri=URI, person=person, expires_at=now)
    many = [f"{URI}{number}" for number in range(40_000)]  # more than SQLite takes as parameters
    assert is_any(LOOKED_AT, now - timedelta(microseconds=1), among([*many, URI]))
    assert not is_any(LOOKED_AT, now, among([*many, URI]))
    assert not is_any(LOOKED_AT, now - timedelta(microseconds=1), among(many))


@pytest.mark.parametrize("hostile", ["') or 1=1 --", "%s", '"]', "\\", "\x00", "🙂"])
def test_what_strangers_write_is_a_value_and_never_words_of_the_query(hostile: str) -> None:
    now = timezone.now()
    person = Person.objects.create(did="did:plc:aaaaaaaaaaaaaaaaaaaaaaaa")
    Lease.objects.create(pull_uri=URI, person=person, expires_at=now + timedelta(minutes=1))
    assert not is_any(LOOKED_AT, now, among([hostile]))
