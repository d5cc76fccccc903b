"""What the red team found last, as the dashboard says it."""

from pathlib import Path

import pytest
from django.test import Client
from msgspec.structs import replace
from pytest_django import Settings

from scoring.redteam.render import keep
from tests.scoring.test_redteam_last_run import RUN
from tests.triage.pages_world import DrawnWorld, draw, sign_in
from triage.charts.reports import NOT_YET, attack_sentences

pytestmark = pytest.mark.django_db


@pytest.fixture
def path(monkeypatch: pytest.MonkeyPatch, settings: Settings, tmp_path: Path, client: Client) -> Path:
    """Where the dashboard of a public site looks for the last run; a maintainer is signed in."""
    sign_in(client, "maintainer")
    settings.PUBLIC_READ = True
    settings.REDTEAM_PATH = tmp_path / "redteam.json"
    draw(monkeypatch, DrawnWorld())
    return settings.REDTEAM_PATH


def test_the_dashboard_says_how_to_start_the_red_team_until_it_has_played(client: Client, path: Path) -> None:
    page = client.get("/dashboard").content.decode()
    assert "Not run yet. The operator starts the simulations" in page
    assert "manage.py redteam" in page


def test_who_is_no_maintainer_is_not_told_what_an_attack_would_bring(client: Client, path: Path) -> None:
    keep(path, RUN)
    client.logout()
    assert "compromised" not in client.get("/dashboard").content.decode()


def test_the_dashboard_shows_the_last_run_with_its_date(client: Client, path: Path) -> None:
    keep(path, RUN)
    page = client.get("/dashboard").content.decode()
    assert "21 Nov 2026: the worst of 10 compromised regulars would have brought 80 fakes to a" in page
    assert "It would have brought 0 fakes into the fast lane with 20 clean merges each, 0 without a record; " in page
    assert "up to 20 bought vouches would have brought 7 with that record." in page
    assert "Simulated on 7,440 people, 51,160 vouches." in page
    assert "Not run yet" not in page


def test_a_damaged_file_reads_as_not_played(client: Client, path: Path) -> None:
    path.write_bytes(b'{"at": "<script>"}')
    page = client.get("/dashboard").content.decode()
    assert "Not run yet" in page
    assert '<script>"' not in page


def test_a_shut_lane_a_single_fake_and_nobody_worth_stealing_have_their_own_words() -> None:
    assert attack_sentences(None) == (NOT_YET,)
    assert attack_sentences(replace(RUN, lane_open=False))[1].startswith("The fast lane was shut, so 0 fakes")
    assert attack_sentences(replace(RUN, bought=0))[1].endswith("each, 0 without a record.")
    assert "would have brought 1 fake to" in attack_sentences(replace(RUN, above=1))[0]
    alone = attack_sentences(replace(RUN, tried=0))
    assert len(alone) == 1
    assert "no regular's account was worth stealing" in alone[0]
