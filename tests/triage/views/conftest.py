"""A fixture of the tests of contributors' rights."""

from typing import TYPE_CHECKING

import pytest

from tests.ingest.stream.frames import REPO, SEED

if TYPE_CHECKING:
    from triage.models import Person


@pytest.fixture(name="seed")
def seed_fixture() -> "Person":
    """The maintainer of lantern."""
    from triage.models import Maintainer, Person  # a conftest is read before Django is ready

    person = Person.objects.create(did=SEED)
    Maintainer.objects.create(person=person, repo_key=REPO)
    return person
