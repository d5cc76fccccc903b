"""Words of other sites on the page of a pull request, in JSON and in sum; never before an audit is answered."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import Client
from pytest_django import Settings

from ingest.store import snapshots
from ingest.store.snapshots import publish
from tests.pipeline import prepared
from tests.scoring.pipeline.test_peers import FAST, HEAVY, OPEN, PEER, Peers, fill
from tests.triage.axe import violations
from tests.triage.conftest import OpenPage
from tests.triage.worlds.pages_world import reader

pytestmark = pytest.mark.django_db


@pytest.fixture(name="world")
def world_fixture(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Peers]:
    monkeypatch.setattr(snapshots, "LOOK_SECONDS", 0.0)  # a reader looks for a newer one twice a second
    settings.PUBLIC_READ, settings.STREAM_CLOCK, settings.PEERS = True, True, [PEER]
    settings.SNAPSHOT_DIR = tmp_path / "snapshots"
    with prepared(tmp_path, fill) as result:
        result.policy = FAST
        world = Peers(result)
        with result.store.write() as txn:
            number = txn.person_ids([PEER])[PEER]
            txn.execute(
                "update contributors set handle = ?, handle_verified = true where contributor_id = ?",
                ["triage.other.example", number],
            )
        yield world


def shown(world: Peers) -> str:
    world.result.judge(world.now)
    publish(world.result.store, world.result.folder / "snapshots")
    return reader().get(f"/pull/{OPEN}").content.decode()


def test_a_peers_word_is_shown_with_its_name_and_a_link_that_verifies_its_record(world: Peers) -> None:
    assert "Other sites" not in shown(world)
    uri = world.publish()
    world.ask()
    told = shown(world)
    assert (
        "triage.other.example</bdi></a> says that it needs a person. Only shown. Weight 0: no audit here has tested"
        in told
    )
    assert "/verify?uri=at%3A%2F%2F" in told
    world.weigh(HEAVY)
    told = shown(world)
    assert "So a person decides here. Weight 66 %, from 40 audits (20 bad)." in told
    assert "Another site that reads this forge sends it to a person." in told
    pull = json.loads(Client().get("/pull", {"uri": OPEN}).content)
    (peer,) = pull["peers"]
    assert (peer["did"], peer["uri"], peer["decision"]) == (PEER, uri, "needs_human")
    assert (peer["lowers"], peer["current"], peer["own_word"], peer["audits"]) == (True, True, True, 40)
    assert pull["reasons"][0]["code"] == "peer_flagged"
    (row,) = json.loads(Client().get("/queue").content)["pull_requests"]
    assert row["peers"] == pull["peers"]
    board = Client().get("/dashboard").content.decode()
    assert "What do other sites say?" in board
    assert "1 assessment; weight 66 %, from 40 audits (20 bad)" in board


def test_the_history_of_a_decided_pull_request_tells_what_peers_say_of_it(world: Peers) -> None:
    world.merge()
    world.publish("fast_lane")
    world.ask()
    world.result.judge(world.now)
    publish(world.result.store, world.result.folder / "snapshots")
    told = Client().get(f"/pull/{OPEN}", follow=True).content.decode()
    assert "triage.other.example</bdi></a> says that it is in the fast lane.</li>" in told
    assert "/verify?uri=at%3A%2F%2F" in told


def test_nothing_of_peers_is_told_of_what_the_audit_drew_until_it_is_answered(world: Peers) -> None:
    world.publish()
    world.ask()
    world.weigh(HEAVY)
    world.result.judge(world.now)
    with world.result.store.write() as txn:
        drawn = '[{"code":"audit_drawn","params":{"odds":0.5}},{"code":"peer_flagged","params":{}}]'
        txn.execute("update current_decisions set lane = 'needs_human', reasons = ?", [drawn])
    publish(world.result.store, world.result.folder / "snapshots")
    told = reader().get(f"/pull/{OPEN}").content.decode()
    assert "Would you" in told or "audit" in told
    assert "triage.other.example" not in told
    pull = json.loads(Client().get("/pull", {"uri": OPEN}).content)
    assert (pull["sealed"], pull["peers"]) == (True, [])
    assert "peer_flagged" not in json.dumps(pull)


def test_on_a_phone_the_line_fits_and_reads(world: Peers, open_page: OpenPage) -> None:
    world.publish()
    world.ask()
    world.weigh(HEAVY)
    shown(world)
    page = open_page(390, reader())
    page.goto(f"/pull/{OPEN}#part-checks")
    page.get_by_role("heading", name="Other sites").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert violations(page) == []
    page.get_by_role("link", name="triage.other.example").click()
    page.get_by_role("button", name="Verify").wait_for()
