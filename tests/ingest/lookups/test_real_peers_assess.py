"""A second site reads and proves what a real account on a real data server assesses, by stream and by backfill."""

import time
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from ingest.backfill.runs import begin_peers
from ingest.clock import wall_now
from ingest.http.fetcher import Fetcher
from ingest.lookups.peers import fetch_peer_assessments
from ingest.records.assessment import assessment_key
from ingest.records.derive import derive
from ingest.records.registry import build_registry
from ingest.records.watched import add_maintainer
from ingest.store.database import Store
from ingest.stream.jetstream import Listener, Subscription
from tests.ingest.backfill.backfilled import finish, run_backfill, sources
from tests.ingest.conftest import Open
from tests.ingest.stream.frames import CREATED, PULL, REPOSITORY, SOURCE, rows, settled
from tests.peers.network import Account, RealNetwork
from tests.waiting import wait_for

COLLECTION = "org.sunstead.assessment"
STATE = "select proof, decision, reasons from peer_assessments"


class RealPeer:
    """A site's account that assesses a contributor's pull request, and a stranger that does the same."""

    def __init__(self, network: RealNetwork) -> None:
        number = time.time_ns() % 1_000_000_000
        self.network = network
        self.site, self.stranger, self.owner, self.contributor = (
            network.join(f"{name}{number}") for name in ("sit", "str", "own", "con")
        )
        record = {"name": "lantern", "knot": "knot.example.test", "createdAt": CREATED}
        self.repository = self.owner.create(REPOSITORY, record)
        target = {"repo": self.repository, "branch": "main"}
        self.pull = self.contributor.create(
            PULL, {"title": "Mend", "createdAt": CREATED, "target": target, "rounds": []}
        )
        self.key = assessment_key(self.pull)
        self.uri = f"at://{self.site.did}/{COLLECTION}/{self.key}"

    def assess(self, decision: str, account: Account | None = None) -> None:
        account = account or self.site
        _, _, did, collection, rkey = self.pull.split("/")
        cid = self.network.query("com.atproto.repo.getRecord", repo=did, collection=collection, rkey=rkey)["cid"]
        record: dict[str, Any] = {"subject": {"uri": self.pull, "cid": cid}, "decision": decision, "evaluator": "1"}
        account.put(
            f"at://{account.did}/{COLLECTION}/{self.key}", record | {"reasons": ["high_flag"], "createdAt": CREATED}
        )

    def prove(self, store: Store) -> None:
        while derive(store):
            pass
        fetcher = Fetcher(self.network.origin)
        fetch_peer_assessments(store, fetcher, "https://plc.directory", wall_now(), wall_now)
        fetcher.close()


@pytest.fixture(name="peer")
def peer_fixture(real_network: RealNetwork) -> RealPeer:
    return RealPeer(real_network)


@pytest.fixture(name="listening")
def listening_fixture(real_network: RealNetwork, peer: RealPeer, open_store: Open) -> Iterator[Store]:
    """A second site that has this peer and follows the firehose's shim."""
    store = open_store("second")
    store.registry = build_registry("org.sunstead", [peer.site.did])
    wanted = ("sh.tangled.*", *store.registry.own)
    listener = Listener(store, Subscription(SOURCE, (real_network.shim.url,), wanted), lambda: None)
    listener.start()
    yield store
    listener.stop()


def test_a_second_site_reads_a_peers_assessments_from_its_stream_and_forgets_the_deleted(
    peer: RealPeer, listening: Store, settings: Settings
) -> None:
    def has_seen_pull() -> bool:
        settled(listening)
        return rows(listening, "select count(*) from pull_requests where pull_uri = ?", peer.pull) == [(1,)]

    def reads(expected: list[tuple[Any, ...]]) -> bool:
        peer.prove(listening)
        return rows(listening, STATE) == expected

    wait_for(has_seen_pull, what="the pull request")
    add_maintainer(listening, peer.owner.did, [peer.repository], wall_now())
    peer.assess("needs_human")
    wait_for(lambda: reads([("proven", "needs_human", ["high_flag"])]), what="the peer's assessment")
    peer.assess("fast_lane", peer.stranger)
    peer.assess("normal_queue")
    wait_for(lambda: reads([("proven", "normal_queue", ["high_flag"])]), what="the newer one")
    settings.STAND_IN_ORIGIN = peer.network.origin
    told = StringIO()
    call_command("verify_assessment", peer.uri, stdout=told)
    assert f"{peer.site.handle} says that it needs a review." in told.getvalue()
    assert "Version: yes. It is about the version that stands" in told.getvalue()
    peer.site.delete(peer.uri)
    wait_for(lambda: reads([]), what="its deletion")
    sql = "select count(*) from events where did = ? and body is not null"
    assert rows(listening, sql, peer.site.did) == [(0,)]
    assert rows(listening, "select count(*) from events where did = ?", peer.stranger.did) == [(0,)]
    with pytest.raises(CommandError, match="holds no such record"):
        call_command("verify_assessment", peer.uri)


def test_a_new_peers_repository_is_read_once_and_a_former_ones_word_goes(
    peer: RealPeer, real_network: RealNetwork, open_store: Open, tmp_path: Path
) -> None:
    peer.assess("needs_human")
    store = open_store("late")

    def begin_with(*peers: str) -> list[tuple[Any, ...]]:
        store.registry = build_registry("org.sunstead", peers)
        begin_peers(store)
        begin_peers(store)
        finish(store, sources(real_network.origin, tmp_path, wall_now(), collections=tuple(store.registry.kinds)))
        peer.prove(store)
        return rows(store, STATE)

    run_backfill(store, sources(real_network.origin, tmp_path, wall_now()), dids=[peer.owner.did, peer.contributor.did])
    add_maintainer(store, peer.owner.did, [peer.repository], wall_now())
    assert begin_with(peer.site.did) == [("proven", "needs_human", ["high_flag"])]
    assert begin_with() == [(None, None, None)]
    assert begin_with(peer.site.did) == [("proven", "needs_human", ["high_flag"])]
