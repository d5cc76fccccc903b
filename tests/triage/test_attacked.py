"""The newest attack simulations, as the dashboard tells them."""

from pathlib import Path

import pytest
from django.test import Client
from pytest_django import Settings

from scoring.redteam.render import write_report
from tests.scoring.redteam.test_scenes import RUN
from tests.triage.pages_world import DrawnWorld, draw, sign_in

pytestmark = pytest.mark.django_db


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, settings: Settings, tmp_path: Path, client: Client) -> Path:
    """Where the dashboard of a public site looks for the last run; a maintainer is signed in."""
    sign_in(client, "maintainer")
    settings.PUBLIC_READ = True
    settings.LOG_DIR = tmp_path
    draw(monkeypatch, DrawnWorld())
    return tmp_path


def test_the_dashboard_says_how_to_start_the_red_team_until_it_has_played(client: Client, folder: Path) -> None:
    page = client.get("/dashboard").content.decode()
    assert "Not run yet. The operator starts the simulations" in page
    assert "manage.py redteam" in page


def test_who_is_no_maintainer_is_not_told_what_an_attack_would_bring(client: Client, folder: Path) -> None:
    write_report(folder, RUN)
    client.logout()
    assert "simulated attacks" not in client.get("/dashboard").content.decode()


def test_the_dashboard_shows_the_last_run_with_its_date(client: Client, folder: Path) -> None:
    write_report(folder, RUN)
    page = client.get("/dashboard").content.decode()
    assert "1 of 1 simulated attacks reached the fast lane: a trusted account is stolen." in page
    assert "Simulated on 20 Nov 2026 on 7,440 people, 51,160 vouches, 2 seeds; 15 trusted (0.50 or more)." in page
    assert "Not run yet" not in page


def test_a_damaged_file_reads_as_not_played(client: Client, folder: Path) -> None:
    (folder / "redteam.json").write_bytes(b'{"at": "<script>"}')
    page = client.get("/dashboard").content.decode()
    assert "Not run yet" in page
    assert '<script>"' not in page
