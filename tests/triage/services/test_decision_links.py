"""One decision's link tells a contributor reasons in words, never a threshold, and nothing that is audited."""

import re
from pathlib import Path

import pytest
from django.test import Client
from pytest_django import Settings

from tests.ingest.stream.frames import MARA, REPO
from tests.triage.acting_site import ActingSite
from tests.triage.lane_site import NEXT, lane_site
from triage.access.tokens import make_link
from triage.models import Person
from triage.presenters.rights import SEALED

pytestmark = pytest.mark.django_db
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
