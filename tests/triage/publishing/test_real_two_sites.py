"""Two sites, each with a data server of its own: what one publishes the other proves and shows, until an erasure."""

import gzip
import html
import json
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone
from pytest_django import Settings

from ingest.erasure.erase import erase
from ingest.http.fetcher import Fetcher
from ingest.lookups.people import fetch_identities
from ingest.lookups.rounds import fetch_patches
from ingest.oauth.dpop import DpopSender
from ingest.records.assessment import assessment_key
from ingest.records.pull_state import settle
from ingest.store.database import StreamClock
from ingest.store.snapshots import SnapshotReader
from scoring.handlers.settings import switch_shadow
from scoring.queries.public_lanes import DELAY
from scoring.types import Lane
from tests.ingest.erasure.planted import folders_below
from tests.ingest.stream.frames import CREATED, PULL, REPOSITORY, STATUS, VOUCH
from tests.peers.network import RELAY_HOST, Account, RealNetwork
from tests.pipeline import PATCH_LIMIT, PLC, At, Result, opened
from tests.scoring.offered import CLEAN, end_lookups
from tests.scoring.pipeline.test_peers import FAST
from tests.triage.morning.real_site import RealSite, started_site
from tests.triage.worlds.publishing_site import ASSESSMENT, choose, records_of
from tests.waiting import LONG_SECONDS, wait_for
from triage import tasks
from triage.services.erasure import forget_account
from triage.services.publishing.service_account import connect_password

pytestmark = pytest.mark.django_db
SECOND_HOST = "pds.second.test"
SOUND, LEAKING = (CLEAN.replace("print(2)", line) for line in ("print(3)", 'key = "AKIAIOSFODNN7EXAMPLF"'))
RECORD = timedelta(days=20)  # the contributor's first change was merged so long ago, and counts as clean by now
TOLD = "select subject_uri, decision from peer_assessments where proof = 'proven' order by decision"


@dataclass(slots=True)
class FirstSite:
    """The site of a repository, which publishes as `account`, at the second data server; its people are at the first.

    `taken` counts what it has taken in of what owner and contributor wrote.
    """

    network: RealNetwork
    result: Result
    fetcher: Fetcher
    account: Account
    owner: Account
    contributor: Account
    repository: str = ""
    taken: int = 0

    def begin(self) -> None:
        """The owner vouches for the contributor and merges their first change; then the repository publishes."""
        store = self.result.store
        made = {"name": "lantern", "knot": "knot.example.test", "createdAt": CREATED}
        self.repository = self.owner.create(REPOSITORY, made)
        self.owner.create(VOUCH, {"kind": "vouch", "createdAt": CREATED}, self.contributor.did)
        self.merge(self.offer(CLEAN))
        self.take(4, before=RECORD)
        self.result.watch([self.repository], [self.owner.did])
        switch_shadow(store, self.repository, False, self.now())
        choose(store, self.repository, "delayed", self.now())
        connect_password(self.account.did, self.account.app_password(), DpopSender(self.fetcher), timezone.now())

    def now(self) -> datetime:
        return StreamClock(self.result.store).now()

    def offer(self, diff: str) -> str:
        """The contributor sends a pull request; returns its address."""
        blob = self.contributor.upload(gzip.compress(diff.encode()))
        record = {"title": "Mend the lamp", "createdAt": CREATED, "rounds": [{"patchBlob": blob, "createdAt": CREATED}]}
        return self.contributor.create(PULL, record | {"target": {"repo": self.repository, "branch": "main"}})

    def merge(self, pull: str) -> None:
        """The owner says on the network that it was merged."""
        self.owner.create(STATUS, {"pull": pull, "status": f"{STATUS}.merged", "createdAt": CREATED})

    def take(self, count: int, before: timedelta = timedelta()) -> None:
        """Take in the next records of owner and contributor from the stream, as if they had come so long before."""
        wait_for(lambda: len(self._written()) >= self.taken + count, what="the records on the stream")
        earlier = before // timedelta(microseconds=1)
        news = [one | {"time_us": one["time_us"] - earlier} for one in self._written()[self.taken :]]
        self.taken += len(news)
        self.result.take([json.dumps(one).encode() for one in news])
        settle(self.result.store)

    def _written(self) -> list[dict[str, Any]]:
        dids = (self.owner.did, self.contributor.did)
        return [one for one in list(self.network.shim.frames) if one["did"] in dids and one["kind"] == "commit"]

    def judge(self) -> None:
        """Ask the directory and the data server, and have the changes read."""
        store = self.result.store
        fetch_identities(store, self.fetcher, PLC, store.wall)
        fetch_patches(store, self.fetcher, self.result.folder / "diffs", PATCH_LIMIT, store.wall)
        end_lookups(self.result)
        self.result.judge()
        self.result.review()

    def lane(self, pull: str) -> Lane:
        row = self.result.pull(pull)
        assert row is not None
        return row.verdict.lane

    def publish(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The worker's hop, once the delay of open pull requests is over."""
        clock = At(self.now() + DELAY)
        runtime = SimpleNamespace(store=self.result.store, clock=clock, fetcher=self.fetcher)
        monkeypatch.setattr(tasks, "current", lambda: runtime)
        monkeypatch.setattr(tasks, "close_old_connections", lambda: None)  # it is the one of this test's transaction
        monkeypatch.setattr(tasks, "_publishers", [])
        tasks.publish_assessments.call_local()

    def erase_contributor(self) -> None:
        """Erase everything about the contributor, who asked for it."""
        self.result.store.tombstones.key = b"a key of the tests"
        folders = replace(
            folders_below(self.result.folder), forget_account=lambda names: forget_account(names.did, names.handle)
        )
        erase(self.result.store, self.contributor.did, "by_request", self.now(), folders)


@pytest.fixture
def second(
    real_network: RealNetwork, peer_modules: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealNetwork]:
    """Another data server in the same directory, on the same stream."""
    with RealNetwork(peer_modules, tmp_path_factory.mktemp("second"), SECOND_HOST, real_network) as network:
        yield network


@pytest.fixture
def first(real_network: RealNetwork, second: RealNetwork, settings: Settings, tmp_path: Path) -> Iterator[FirstSite]:
    settings.STAND_IN_ORIGIN, settings.OAUTH_KEY = real_network.origin, "5e" * 32
    number = time.time_ns() % 10**9
    people = second.join(f"site{number}"), real_network.join(f"own{number}"), real_network.join(f"con{number}")
    with opened(tmp_path / "first", FAST) as result, closing(Fetcher(real_network.origin)) as fetcher:
        made = FirstSite(real_network, result, fetcher, *people)
        made.begin()
        yield made


@pytest.fixture
def other(real_network: RealNetwork, first: FirstSite, tmp_path: Path) -> Iterator[RealSite]:
    """Another site as processes of its own, with the first one as its peer, that watches the repository too."""
    root = tmp_path / "other"
    root.mkdir()
    with started_site(
        root,
        real_network.origin,
        JETSTREAM_URLS=real_network.shim.url,
        BACKFILL_HOSTS=f"https://{RELAY_HOST}",
        PEERS=first.account.did,
        PUBLIC_READ="true",
    ) as site:
        site.start_worker()
        site.fork("add_maintainer", first.owner.did, "--repo", first.repository)
        assert site.said().startswith("http"), "a link to sign in: it watches the repository"
        site.web = site.fork("web")
        yield site


def read_page(site: RealSite, pull: str) -> str:
    """What somebody who is not signed in reads about a decided pull request."""
    with urllib.request.urlopen(f"{site.address}/pull/{pull}", timeout=LONG_SECONDS) as answer:  # noqa: S310
        return html.unescape(answer.read().decode())


def read_peers(site: RealSite, pull: str) -> list[tuple[str, str, str]]:
    """What a site answers about its peers' words on an open pull request: who, the record, the decision."""
    address = f"{site.address}/pull?uri={quote(pull, safe='')}"
    with urllib.request.urlopen(address, timeout=LONG_SECONDS) as answer:  # noqa: S310
        return [(one["name"], one["uri"], one["decision"]) for one in json.load(answer)["peers"]]


def told(site: RealSite) -> list[tuple[str, str]]:
    """What the newest snapshot of a site's tables holds of its peers' words."""
    with closing(SnapshotReader(site.root / "snapshots")) as reader, reader.pin() as snapshot:
        found = snapshot.rows(TOLD) if snapshot is not None else []
    return [(row["subject_uri"], row["decision"]) for row in found]


def verify(uri: str) -> str:
    """What `manage.py verify_assessment` prints."""
    said = StringIO()
    call_command("verify_assessment", uri, stdout=said)
    return said.getvalue()


def test_what_one_site_publishes_the_other_proves_and_shows_until_an_erasure_ends_it_on_both(
    first: FirstSite,
    other: RealSite,
    second: RealNetwork,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fast, leaking = first.offer(SOUND), first.offer(LEAKING)
    first.take(2)
    first.judge()
    assert (first.lane(fast), first.lane(leaking)) == (Lane.FAST_LANE, Lane.NEEDS_HUMAN)
    first.merge(fast)
    first.take(1)

    first.publish(monkeypatch)
    began = time.monotonic()
    records = records_of(second, first.account.did, ASSESSMENT)
    assert {key: one["decision"] for key, one in records.items()} == {
        assessment_key(fast): "fast_lane",
        assessment_key(leaking): "needs_human",
    }
    expected = [(fast, "fast_lane"), (leaking, "needs_human")]
    wait_for(lambda: told(other) == expected, what="the proof of both at the other site")
    read_after = time.monotonic() - began

    uris = {pull: f"at://{first.account.did}/{ASSESSMENT}/{assessment_key(pull)}" for pull in (fast, leaking)}
    link = f"/verify?uri={quote(uris[fast], safe='')}"
    line = f'<a href="{link}"><bdi>{first.account.handle}</bdi></a> says that it is in the fast lane.'
    wait_for(lambda: line in read_page(other, fast), what=line)
    wait_for(lambda: read_peers(other, leaking) == [(first.account.handle, uris[leaking], "needs_human")])

    settings.PEERS = [first.account.did]
    said = verify(uris[fast])
    assert said.startswith(f"{first.account.handle} says that it is in the fast lane.\n")
    assert f"Pull request: {fast}\n" in said
    assert f"Version: {records[assessment_key(fast)]['subject']['cid']}\n" in said
    assert f"{first.account.handle} ({first.account.did}). It is one of the peers that this site reads." in said
    assert "Proof: yes." in said
    assert "Version: yes. It is about the version that stands" in said

    first.erase_contributor()
    first.publish(monkeypatch)
    began = time.monotonic()
    assert records_of(second, first.account.did, ASSESSMENT) == {}
    car = f"https://{SECOND_HOST}/xrpc/com.atproto.sync.getRepo?did={first.account.did}"
    assert first.contributor.did.encode() not in first.fetcher.get(car, 1_000_000)
    wait_for(lambda: told(other) == [], what="the end of both at the other site")
    gone_after = time.monotonic() - began
    wait_for(lambda: "Other sites" not in read_page(other, fast), what="the end of both on the page")
    wait_for(lambda: read_peers(other, leaking) == [], what="the end of both in answers")
    for pull in (fast, leaking):
        with pytest.raises(CommandError, match="holds no such record"):
            verify(uris[pull])
    with capsys.disabled():
        print(f"\nread {read_after:.1f} s after they were published, gone {gone_after:.1f} s after")  # noqa: T201
