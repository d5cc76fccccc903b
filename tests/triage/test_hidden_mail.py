"""A trusted person's patch with a second mail that only git reads: the row, the change's page and the merge say so."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django import Settings

from ingest.git import process
from tests.scoring.diff.hidden_mails import behind
from tests.scoring.offered import CLEAN, offer
from tests.triage.worlds.acting_site import ActingSite
from tests.triage.worlds.lane_site import NEXT, lane_site, lanes

pytestmark = pytest.mark.django_db


@pytest.fixture
def site(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[ActingSite]:
    with lane_site(tmp_path, settings, monkeypatch) as made:
        yield made


def no_git() -> str:
    raise AssertionError("the web process asks git nothing")


@pytest.mark.parametrize("way", ["the header twice", "the type twice", "a tab"])
def test_a_mail_that_only_git_reads_keeps_a_trusted_change_from_the_fast_lane_and_is_shown(
    site: ActingSite, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    assert lanes(site)[NEXT] == "fast_lane"
    offer(site.result, behind(CLEAN, way), NEXT, "blob:hidden")
    site.result.review()
    site.publish()
    monkeypatch.setattr(process, "program", no_git)
    client = site.maintainer("did:plc:" + "3" * 24, "ben.example")
    assert lanes(site)[NEXT] == "normal_queue"
    (row,) = [row for row in client.get("/queue").json()["pull_requests"] if row["uri"] == NEXT]
    assert row["decision"] == "normal_queue"
    assert "Patch not fully readable" in client.get("/").content.decode()
    page = client.get(f"/diff/{NEXT}").content.decode()
    assert "git reads another change from this text" in page
    assert "See line 18 of the patch&#x27;s text." in page
