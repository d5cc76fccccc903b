"""The stolen account, from the knot to the row: a habit, a silence, another key; and the same without theft."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta, timezone
from pathlib import Path

import pytest

from ingest.erasure.erase import erase
from ingest.git.history import read_history
from ingest.git.mirror import Limits, fetch_mirrors
from ingest.http.fetcher import Fetcher
from ingest.lookups.signatures import fetch_signatures
from scoring.config.repository import RepositorySettings
from scoring.explain.decided import decided
from scoring.explain.sentences import sentence
from scoring.handlers.settings import write_settings
from scoring.pipeline.signing import read_signing
from scoring.queries import read
from scoring.queries.types import Signal
from scoring.thresholds import Thresholds
from scoring.types import Evidence, Lane, Signing
from tests.ingest.erasure.planted import folders_below
from tests.ingest.git.git_world import TEXT, Knot, Work
from tests.ingest.git.signed import KeyFile, make_key, use_key
from tests.ingest.stream.frames import ANA, MARA, REPO, SEED, pull_uri
from tests.pipeline import UNAUDITED, Later, Result, opened
from tests.scoring import small
from tests.scoring.offered import CLEAN, end_lookups, offer
from tests.scoring.small import DAY, MERGED_AT, settled
from tests.waiting import LONG_SECONDS
from triage.presenters.queue.rows import fact_lines

KEYS = "sh.tangled.publicKey"
BEGIN = MERGED_AT + 20 * DAY
LIMITS = Limits(50_000_000, 200_000_000, LONG_SECONDS)
# Every condition holds but the audit; the threshold lets a person with one clean change in.
OPEN = replace(UNAUDITED, thresholds=Thresholds(t_low=0.1, t_high=0.2))
WEST = timezone(timedelta(hours=-5))


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, KeyFile]:
    folder = tmp_path_factory.mktemp("keys")
    return {name: make_key(folder, name=name) for name in ("own", "second", "thief")}


class Forge:
    """Mara, whom seed vouches for, and the repository on whose knot her rounds lie."""

    def __init__(self, result: Result, work: Work, fetcher: Fetcher) -> None:
        self.result, self.work, self.fetcher = result, work, fetcher
        self.now, self.sent = BEGIN, 0
        work.commit("First", {"a.txt": TEXT})
        frames = settled()
        frames.vouch(SEED, MARA)
        result.policy = OPEN
        small.take(result, frames, self.now)
        zones = RepositorySettings(time_zones=True, shadow=False, version=1)
        write_settings(result.store, REPO, zones, self.now)

    def tell(self, frames: Later) -> None:
        """Have it derived; whoever wants it judged says so."""
        self.result.take(frames)

    def declare(self, key: KeyFile, operation: str = "create", did: str = MARA, rkey: str = "") -> None:
        frames = Later(self.now)
        record = {"key": key.declared, "name": "laptop", "createdAt": "2026-01-01T00:00:00Z"}
        frames.commit(did, KEYS, rkey or key.path.name, None if operation == "delete" else record, operation)
        self.tell(frames)

    def send(self, key: KeyFile | None, commits: int = 2, as_patch: bool = False) -> str:
        """A pull request of Mara's with commits signed by this key, looked up, read and judged; its at-uri."""
        self.sent += 1
        rkey, frames = f"sent{self.sent}", Later(self.now)
        self.work.clock = self.now
        use_key(self.work, key)
        changes = [(f"Step {self.sent}.{step}", {"b.txt": f"{self.sent}.{step}\n"}) for step in range(commits)]
        base, head = self.work.propose("HEAD", changes)
        use_key(self.work, None)
        blob, versions = f"bafkrei{'b' * 48}{self.sent:04d}".replace("0", "c"), []
        if not as_patch:
            versions = [{"base": base, "head": head, "createdAt": self.now.isoformat() + "Z"}]
        frames.pull(MARA, rkey, blobs=[blob] if as_patch else [], versions=versions)
        self.tell(frames)
        uri = pull_uri(MARA, rkey)
        ref = self.result.value("select patch_ref from pull_requests where pull_uri = ?", [uri])
        offer(self.result, CLEAN.replace("a.py", f"{rkey}.py"), uri, ref)
        self.look_up()
        return uri

    def judge(self, uri: str) -> str:
        """Have what was sent read and judged."""
        end_lookups(self.result)
        self.result.review()
        small.again(self.result, self.now)
        return uri

    def look_up(self) -> None:
        """Fetch the mirror and the signatures, as the worker does."""
        self.now += timedelta(minutes=5)
        folder, store = self.result.folder / "mirrors", self.result.store
        with store.write() as txn:
            txn.execute("delete from fetches where kind = 'mirror'")
        fetch_mirrors(store, self.fetcher, folder, LIMITS, lambda: self.now, lambda: self.now)
        read_history(store, self.fetcher, folder, lambda: self.now)
        fetch_signatures(store, self.fetcher, folder, lambda: self.now)

    def habit(self, key: KeyFile | None, pulls: int = 3) -> None:
        """Two commits a week for some weeks, then 40 days without a sign."""
        for _ in range(pulls):
            self.send(key)
            self.now += 7 * DAY
        self.now += 33 * DAY

    def lane(self, uri: str) -> Lane:
        row = self.result.pull(uri)
        assert row is not None
        return row.verdict.lane

    def codes(self, uri: str) -> list[str]:
        row = self.result.pull(uri)
        assert row is not None
        known = {"trust_path", "track_record", "threshold_not_certified"}
        return [reason.code for reason in row.verdict.reasons if reason.code not in known]

    def signing(self, uri: str) -> Signing | None:
        with self.result.reading() as rows:
            return read_signing(rows, self.now).get(uri)


def told(forge: Forge, uri: str) -> str:
    """The line about signatures on the page of a pull request; "" without one."""
    with forge.result.reading() as rows:
        return dict(fact_lines(read.change_facts(rows, uri))).get("Signature", "")


@pytest.fixture(name="forge")
def forge_fixture(tmp_path: Path) -> Iterator[Forge]:
    work = Work(tmp_path / "work")
    with opened(tmp_path / "store", OPEN) as result, Knot({REPO: work.folder}) as knot:
        fetcher = Fetcher(knot.origin)
        yield Forge(result, work, fetcher)
        fetcher.close()


def test_a_stolen_account_is_told_of_in_one_sentence_and_the_same_person_without_theft_is_untouched(
    forge: Forge, keys: dict[str, KeyFile]
) -> None:
    forge.declare(keys["own"])
    forge.habit(keys["own"])
    honest = forge.judge(forge.send(keys["own"]))
    assert (forge.lane(honest), forge.codes(honest)) == (Lane.FAST_LANE, [])
    forge.now += 40 * DAY
    forge.declare(keys["thief"])
    forge.work.zone = WEST
    stolen = forge.judge(forge.send(keys["thief"]))
    row = forge.result.pull(stolen)
    assert row is not None
    assert forge.lane(stolen) is Lane.NORMAL_QUEUE
    assert forge.codes(stolen) == ["returned_differently", "signing_key_new"]
    assert decided(row.verdict, Evidence()) == "Back without their key: worth a look"
    assert sentence(row.verdict.reasons[0]) == (
        "Back after 40 days without their earlier key, and from another time zone than before: worth a look."
    )
    assert sentence(row.verdict.reasons[1]) == (
        "They usually sign their commits (8 of the last 8); this is signed with a key that was first seen today. A key "
        "counts after 30 days."
    )
    assert forge.lane(honest) is Lane.FAST_LANE
    assert told(forge, honest) == f"Signed by a key its author declared, first seen {BEGIN.day} {BEGIN:%B %Y}"
    assert told(forge, stolen) == f"Signed by a key its author declared, first seen {forge.now.day} {forge.now:%B %Y}"
    with forge.result.reading() as rows:
        page = read.contributor(rows, MARA)
    assert page is not None
    assert Signal("Signed 10 of the last 10 commits", "checked") in page.signals


@pytest.mark.parametrize(
    ("name", "code"),
    [(None, "signature_missing"), ("thief", "signing_key_unknown"), ("second", "signing_key_new"), ("own", None)],
)
def test_each_way_to_lack_the_usual_signature_has_its_reason_without_a_move(
    forge: Forge, keys: dict[str, KeyFile], name: str | None, code: str | None
) -> None:
    forge.declare(keys["own"])
    forge.habit(keys["own"])
    forge.declare(keys["second"])
    forge.now += 29 * DAY
    uri = forge.judge(forge.send(keys[name] if name else None))
    assert forge.codes(uri) == ([code] if code else [])
    assert forge.lane(uri) is (Lane.NORMAL_QUEUE if code else Lane.FAST_LANE)


def test_a_thief_cannot_end_the_habit_first(forge: Forge, keys: dict[str, KeyFile]) -> None:
    forge.declare(keys["own"])
    forge.habit(keys["own"])
    forge.declare(keys["own"], "delete")
    forge.declare(keys["thief"])
    for _ in range(4):  # eight unsigned commits to two signed ones
        forge.send(None)
        forge.now += 2 * DAY
    assert "signing_key_new" in forge.codes(forge.judge(forge.send(keys["thief"])))
    assert "signing_key_unknown" in forge.codes(forge.judge(forge.send(keys["own"]))), "a deleted key is nobody's"
    forge.declare(keys["thief"], "update", rkey=keys["own"].path.name)
    assert "signing_key_new" in forge.codes(forge.judge(forge.send(keys["thief"]))), (
        "the old record now holds another key"
    )


def test_nobody_without_a_habit_is_measured_by_one(forge: Forge, keys: dict[str, KeyFile]) -> None:
    forge.declare(keys["own"])
    forge.send(keys["own"], commits=4)
    forge.now += 31 * DAY
    assert forge.signing(forge.send(None)) is None, "four commits are no habit"
    forge.habit(None)
    assert forge.signing(forge.send(keys["thief"])) is None, "whoever does not sign is told nothing"


def test_a_key_that_somebody_else_declares_makes_no_habit(forge: Forge, keys: dict[str, KeyFile]) -> None:
    forge.declare(keys["own"], did=ANA)
    forge.habit(keys["own"])
    assert forge.signing(forge.send(None)) is None


def test_a_patch_lacks_nothing_and_a_round_that_was_not_read_yet_waits(forge: Forge, keys: dict[str, KeyFile]) -> None:
    forge.declare(keys["own"])
    forge.habit(keys["own"])
    patch = forge.judge(forge.send(None, as_patch=True))
    assert (forge.signing(patch), forge.lane(patch), told(forge, patch)) == (None, Lane.FAST_LANE, "")
    uri = forge.judge(forge.send(keys["own"]))
    assert forge.lane(uri) is Lane.FAST_LANE
    with forge.result.store.write() as txn:
        txn.execute("update fetches set outcome = 'failed' where kind = 'signatures' and contains(subject, ?)", [uri])
    assert forge.signing(uri) == Signing("unchecked", 6, 6)


def test_another_time_zone_says_nothing_beside_the_usual_key_and_is_forgotten_when_switched_off(
    forge: Forge, keys: dict[str, KeyFile]
) -> None:
    forge.declare(keys["own"])
    forge.habit(keys["own"])
    forge.work.zone = WEST
    uri = forge.judge(forge.send(keys["own"]))
    assert (forge.codes(uri), forge.lane(uri)) == ([], Lane.FAST_LANE)
    forge.now += 40 * DAY
    stolen = forge.judge(forge.send(keys["thief"]))
    assert forge.codes(stolen) == ["signing_key_unknown"], "the person has both quarters now"
    write_settings(forge.result.store, REPO, RepositorySettings(shadow=False, version=2), forge.now)
    assert forge.result.value("select count(zone_band) from round_commits") == 0


def test_the_page_says_how_many_commits_are_signed_and_by_whose_key(forge: Forge, keys: dict[str, KeyFile]) -> None:
    assert told(forge, forge.send(keys["own"])) == "Signed by a key that its author does not declare"
    assert told(forge, forge.send(None)) == "Not signed"
    forge.declare(keys["own"])
    with forge.result.store.write() as txn:
        txn.execute("update round_commits set signed_by = null where place = 1")
    seen = f"first seen {BEGIN.day} {BEGIN:%B %Y}"
    uri = pull_uri(MARA, "sent1")
    assert told(forge, uri) == f"1 of 2 commits signed by a key its author declared, {seen}"
    forge.declare(keys["own"], "delete")
    assert told(forge, uri) == "1 of 2 commits signed by a key that its author does not declare"


def test_an_erased_person_leaves_no_commit_key_or_time_zone(
    forge: Forge, keys: dict[str, KeyFile], tmp_path: Path
) -> None:
    forge.declare(keys["own"])
    uri = forge.send(keys["own"])
    assert forge.result.value("select count(zone_band) from round_commits where pull_uri = ?", [uri]) == 2
    assert forge.result.value("select count(*) from declared_keys") == 1
    forge.result.store.tombstones.key = b"a key of the tests"
    erase(forge.result.store, MARA, "by_request", forge.now, folders_below(tmp_path))
    for table in ("round_commits", "public_keys", "declared_keys"):
        assert forge.result.value(f"select count(*) from {table}") == 0
    assert forge.result.value("select count(*) from fetches where kind = 'signatures'") == 0
