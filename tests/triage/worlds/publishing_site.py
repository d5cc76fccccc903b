"""A site that publishes into a real data server: for tests of publishing, of reading peers and of labels.

`PublishingSite(site, network, account)` connects the site's service account by an app password; `choose` sets what the
repository tells, `tell` does what the worker's hop does, and `records` is what stands on the server. The site is that
of `tests.triage.worlds.acting_site`, with its store in `site.result.store`. `lane` makes up what may be told, without a
store. The fixtures in `tests/triage/publishing/conftest.py` make one; import them where another folder needs it.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

from ingest.atproto.identity import resolve
from ingest.atproto.record_proof import Proven, prove_record
from ingest.http.fetcher import Fetcher
from ingest.oauth.dpop import DpopSender
from ingest.oauth.scopes import published_collections
from ingest.store.database import Store
from scoring.config.repository import Publish, watched_repository
from scoring.handlers.settings import write_settings
from scoring.queries.read import Outcome, PublicLane
from tests.ingest.stream.frames import REPO
from tests.peers.network import PDS_HOST, Account, RealNetwork
from tests.triage.worlds.acting_site import ActingSite
from triage.models import PublishedRecord, ServiceAccount
from triage.services.publishing.public_lanes import public_lanes, published_mode
from triage.services.publishing.publisher import Publisher
from triage.services.publishing.records import note_lanes
from triage.services.publishing.service_account import connect_password

PLC = "https://plc.directory"
OWN = "org.sunstead"
ASSESSMENT, SERVICE = published_collections(OWN)
DECIDED = datetime(2026, 11, 1, 9)
CID = "bafyreib2rxk3rybk3aobmv5cjuql3bm2twh4jo5uxgf5kpqcsgz7soitae"


def lane(number: int, name: Any = "needs_human", **changes: Any) -> PublicLane:
    """A pull request that may be told, by somebody made up; its number makes its at-uri."""
    author = f"did:plc:{'a' * 20}{number % 4 + 2}{number % 3 + 2}{number % 5 + 2}2"
    made = PublicLane(
        uri=f"at://{author}/sh.tangled.repo.pull/{number}",
        cid=CID,
        round=0,
        patch_id="ab" * 20,
        repository=REPO,
        repo=REPO,
        author=author,
        lane=name,
        reasons=("high_flag",) if name == "needs_human" else (),
        certificate="c" * 64 if name == "fast_lane" else None,
        budget=50,
        shadow=False,
        evaluator="sunstead gate/1 review/3",
        outcome=Outcome("merged", DECIDED),
        since=DECIDED,
    )
    return replace(made, **changes)


@dataclass
class PublishingSite:
    """The site, its account at the data server, and the worker's publisher."""

    site: ActingSite
    network: RealNetwork
    account: Account
    password: str = ""
    publisher: Publisher = field(init=False)

    def __post_init__(self) -> None:
        self.fetcher = Fetcher(self.network.origin)
        self.sender = DpopSender(self.fetcher)
        self.password = self.account.app_password()
        connect_password(self.account.did, self.password, self.sender, self.site.now)
        self.restart()

    def restart(self) -> None:
        """As a new worker, which compares first."""
        self.publisher = Publisher(self.sender, lambda: self.site.now)

    def choose(self, publish: Publish, now: datetime = datetime(2026, 1, 2)) -> None:
        """Have the repository publish this, as its maintainers would."""
        choose(self.site.result.store, REPO, publish, now)

    def told(self, now: datetime | None = None) -> tuple[PublicLane, ...]:
        """What may be told."""
        with self.site.result.store.read() as rows:
            return public_lanes(rows, now or self.site.now.replace(tzinfo=None))

    def tell(self, now: datetime | None = None) -> int:
        """Write down and send what the store says; returns how many records were sent."""
        with self.site.result.store.read() as rows:
            publishes = published_mode(rows)
        note_lanes(self.told(now), publishes, self.site.now)
        return self.publisher.send_waiting()

    def tell_these(self, lanes: Iterable[PublicLane]) -> int:
        """The same with lanes that are made up."""
        note_lanes(lanes, "decided", self.site.now)
        return self.publisher.send_waiting()

    def records(self, collection: str = ASSESSMENT) -> dict[str, dict[str, Any]]:
        """What stands on the server, by key."""
        return records_of(self.network, self.account.did, collection)

    def table(self, collection: str = ASSESSMENT) -> dict[str, dict[str, Any]]:
        """What should stand there."""
        rows = PublishedRecord.objects.filter(collection=collection, record__isnull=False)
        return {row.rkey: {"$type": collection, **row.record} for row in rows}

    def said(self) -> str:
        """What the operator is told."""
        return str(ServiceAccount.objects.get().problem)

    def prove(self, rkey: str, collection: str = ASSESSMENT) -> Proven:
        """Prove one record by the key that the directory names now."""
        return prove(self.network, self.fetcher, self.account.did, collection, rkey)

    def car(self) -> bytes:
        """The whole repository, as anybody can fetch it."""
        url = f"https://{PDS_HOST}/xrpc/com.atproto.sync.getRepo?did={self.account.did}"
        return self.fetcher.get(url, 20_000_000)

    def after(self, **span: float) -> None:
        self.site.now += timedelta(**span)

    def close(self) -> None:
        self.fetcher.close()


def choose(store: Store, key: str, publish: Publish, now: datetime) -> None:
    """Have a repository publish this, as its maintainers would."""
    with store.read() as rows:
        watched = watched_repository(rows, key)
    assert watched is not None
    chosen = replace(watched.settings, publish=publish, version=watched.settings.version + 1)
    write_settings(store, key, chosen, now)


def records_of(network: RealNetwork, did: str, collection: str) -> dict[str, dict[str, Any]]:
    """Every record of a collection as the server lists it."""
    found: dict[str, dict[str, Any]] = {}
    cursor: Sequence[tuple[str, str]] = ()
    while True:
        page = network.query(
            "com.atproto.repo.listRecords", repo=did, collection=collection, limit="100", **dict(cursor)
        )
        found |= {one["uri"].rpartition("/")[2]: one["value"] for one in page["records"]}
        if not page.get("cursor"):
            return found
        cursor = [("cursor", page["cursor"])]


def prove(network: RealNetwork, fetcher: Fetcher, did: str, collection: str, rkey: str, key_of: str = "") -> Proven:
    """Fetch the proof of a record and check it against the account's key in the directory, or that of another one.

    Raises ProofProblem.
    """
    query = f"did={did}&collection={collection}&rkey={quote(rkey)}"
    car = fetcher.get(f"https://{PDS_HOST}/xrpc/com.atproto.sync.getRecord?{query}", 1_000_000)
    key = resolve(fetcher, PLC, key_of or did).signing_key
    assert key is not None
    return prove_record(car, did, collection, rkey, key)


def as_text(values: object) -> str:
    """JSON, for what is searched by value."""
    return json.dumps(values, sort_keys=True, default=str)
