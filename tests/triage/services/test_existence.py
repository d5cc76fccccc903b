"""Asking whether there is anything at all."""

from datetime import timedelta

import pytest
from django.utils import timezone

from triage.models import Lease, Person
from triage.models.accounts import among, is_any
from triage.services.actions import LOOKED_AT

pytestmark = pytest.mark.django_db
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
