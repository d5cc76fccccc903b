"""Fixtures of the tests of pages: a maintainer of lantern, and the folder of models and reports."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.ingest.stream.frames import REPO, SEED

if TYPE_CHECKING:
    from django.test import Client
    from pytest_django import Settings

    from triage.models import Person


@pytest.fixture(name="seed")
def seed_fixture() -> "Person":
    """The maintainer of lantern."""
    from triage.models import Maintainer, Person  # a conftest is read before Django is ready

    person = Person.objects.create(did=SEED)
    Maintainer.objects.create(person=person, repo_key=REPO)
    return person


@pytest.fixture(name="folder")
def folder_fixture(monkeypatch: pytest.MonkeyPatch, settings: "Settings", tmp_path: Path, client: "Client") -> Path:
    """Where models and reports of a public site lie; a maintainer of a drawn world is signed in."""
    from tests.triage.worlds.pages_world import DrawnWorld, draw, sign_in  # a conftest is read before Django is ready

    sign_in(client, "maintainer", "did:plc:core")
    settings.PUBLIC_READ = True
    settings.LOG_DIR = settings.MODEL_DIR = tmp_path
    draw(monkeypatch, DrawnWorld())
    return tmp_path
