"""Words of peers: only what their signed repositories show counts, as much as audits agree, and never upwards."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.atproto.record_proof import cid_text, encode
from ingest.erasure.erase import erase
from ingest.lookups.peers import DECIDED, fetch_peer_assessments
from ingest.records.assessment import assessment_key
from ingest.records.pull_state import settle
from ingest.records.registry import build_registry
from scoring.pipeline.peers import MEMORY, STALE, Agreement, tally_peers
from scoring.queries.peers import PeerOpinion, peer_opinions, peer_standings
from scoring.thresholds import PEER_WEIGHT, Thresholds
from scoring.types import Lane
from tests.conftest import count
from tests.ingest.atproto.signed import SignedAccount, SignedNetwork, Signer, link_of
from tests.ingest.erasure.planted import folders_below
from tests.ingest.stream.frames import CREATED, MARA, SEED, Frames, pull_uri
from tests.pipeline import UNAUDITED, Result, prepared
from tests.scoring import small
from tests.scoring.offered import CLEAN, end_lookups, offer
from tests.scoring.small import DAY, MERGED_AT, feed, settled

PEER, OTHER = f"did:plc:{'p' * 24}", f"did:plc:{'q' * 24}"
COLLECTION = "org.sunstead.assessment"
OPEN, REVS = (
    pull_uri(MARA, "second"),
    [f"3mkkkkkkkk{number:03d}".replace("0", "a").replace("1", "b") for number in range(10)],
)
NOW = MERGED_AT + 20 * DAY
HEAVY = Agreement(bad=20, clean=20, flagged_bad=20)
FAST = replace(UNAUDITED, thresholds=Thresholds(t_low=0.1, t_high=0.2, conditions=()))


def fill(result: Result) -> None:
    """Mara, whom seed vouches for and whose first change was clean, offers another, which is in the fast lane."""
    frames = settled()
    frames.vouch(SEED, MARA)
    frames.pull(MARA, "second", blobs=["bafkrei" + "b" * 52])
    result.policy = FAST
    small.take(result, frames, NOW)
    offer(result, CLEAN, OPEN, "blob:bafkrei" + "b" * 52)
    end_lookups(result)
    result.review()
    small.again(result, NOW)


class Peers:
    """That world, in which two accounts are peers, and the network that answers for their repositories."""

    def __init__(self, result: Result) -> None:
        self.result = result
        result.store.registry = build_registry("org.sunstead", [PEER, OTHER])
        self.accounts = {did: SignedAccount(did, Signer(did)) for did in (PEER, OTHER)}
        self.network = SignedNetwork(self.accounts)
        self.now = NOW
        self.frames = 1_000

    def cid(self, uri: str = OPEN) -> str:
        return self.result.value("select record_cid from pull_requests where pull_uri = ?", [uri])

    def publish(self, decision: str = "needs_human", did: str = PEER, told: bool = True, **changes: Any) -> str:
        """A peer writes an assessment; its address. `told`: the stream brings it."""
        record: dict[str, Any] = {"subject": {"uri": OPEN, "cid": self.cid()}, "decision": decision, "evaluator": "1"}
        record |= {"createdAt": CREATED, "reasons": ["high_flag"]} | changes
        key, account = assessment_key(record["subject"]["uri"]), self.accounts[did]
        account.records[f"{COLLECTION}/{key}"] = record
        account.rev = tid(self.frames)
        if told:
            self.tell(did, key, record, account.rev)
        return f"at://{did}/{COLLECTION}/{key}"

    def tell(self, did: str, key: str, record: dict[str, Any] | None, rev: str) -> None:
        self.frames += 1
        frames = Frames([b""] * self.frames)
        part: dict[str, Any] = {
            "rev": rev,
            "operation": "update" if record else "delete",
            "collection": COLLECTION,
            "rkey": key,
        }
        if record:
            part |= {"record": record, "cid": cid_text(link_of(encode(record)))}
        frames.add(did, "commit", part)
        feed(self.result, frames[-1:])

    def merge(self) -> None:
        """Its repository's owner says that it was merged."""
        self.frames += 1
        frames = Frames([b""] * self.frames)
        frames.status(SEED, OPEN, "merged")
        feed(self.result, frames[-1:])
        settle(self.result.store)
        with self.result.store.write() as txn:
            txn.execute("update pull_requests set state_at = ? where pull_uri = ?", [self.now, OPEN])

    def ask(self, hours: float = 0) -> int:
        self.now += timedelta(hours=hours)
        fetcher, now = self.network.fetcher(), self.now
        return fetch_peer_assessments(self.result.store, fetcher, "https://plc.directory", now, lambda: now)

    def weigh(self, agreement: Agreement, did: str = PEER) -> None:
        """As if audits had compared the peer's word so often."""
        told = [(True, True)] * agreement.flagged_bad + [(False, True)] * (agreement.bad - agreement.flagged_bad)
        told += [(True, False)] * agreement.flagged_clean
        self.audited(told + [(False, False)] * (agreement.clean - agreement.flagged_clean), did)

    def weight(self) -> float:
        with self.result.reading() as rows:
            (standing,) = peer_standings(rows)
        return standing.agreement.weight

    def audited(self, told: Sequence[tuple[bool, bool]], did: str = PEER) -> None:
        """As if audits had compared the peer's word in this order: had it flagged one, and was that one bad?"""
        with self.result.store.write() as txn:
            number = txn.person_ids([did])[did]
            txn.execute("delete from peer_outcomes where author_id = ?", [number])
            rows = [
                {"author_id": number, "pull_uri": f"past {place:03}", "flagged": flagged, "bad": bad}
                | {"known_from": NOW - timedelta(hours=len(told) - place)}
                for place, (flagged, bad) in enumerate(told)
            ]
            txn.append("peer_outcomes", rows)
            txn.inputs_changed()

    def lane(self) -> Lane:
        self.result.judge(self.now)
        row = self.result.pull(OPEN)
        assert row is not None
        return row.verdict.lane

    def codes(self) -> list[str]:
        row = self.result.pull(OPEN)
        assert row is not None
        return [reason.code for reason in row.verdict.reasons]

    def opinion(self) -> PeerOpinion | None:
        with self.result.reading() as rows:
            return next(iter(peer_opinions(rows, [OPEN], self.now).get(OPEN, ())), None)

    def answer(self, would_merge: bool, cid: str | None = None) -> int:
        """A person answers the audit of it; how many peers' words were compared."""
        self.now += timedelta(minutes=1)
        row: dict[str, Any] = {
            "audit_key": "a",
            "pull_uri": OPEN,
            "repository_id": 1,
            "record_cid": cid or self.cid(),
            "round": 0,
        }
        row |= {"patch_id": None, "odds": 0.5, "drawn_at": NOW, "would_merge": would_merge, "because": "read"}
        with self.result.store.write() as txn:
            txn.append("audits", [row | {"answered_at": self.now, "known_from": self.now, "actor_id": None}])
        return tally_peers(self.result.store, self.now)


def tid(number: int) -> str:
    letters = "234567abcdefghijklmnopqrstuvwxyz"
    return "3m" + "2" * 8 + letters[number // 1024 % 32] + letters[number // 32 % 32] + letters[number % 32]


@pytest.fixture(name="world")
def world_fixture(tmp_path: Path) -> Iterator[Peers]:
    with prepared(tmp_path, fill) as result:
        result.policy = FAST
        yield Peers(result)


def test_a_proven_flag_of_a_peer_whose_word_audits_confirmed_sends_a_change_to_a_person(world: Peers) -> None:
    assert world.lane() is Lane.FAST_LANE, world.codes()
    uri = world.publish()
    world.weigh(HEAVY)
    assert world.lane() is Lane.FAST_LANE, "nothing is proven yet"
    assert world.ask() == 1
    assert world.lane() is Lane.NEEDS_HUMAN
    assert world.codes()[0] == "peer_flagged"
    found = world.opinion()
    assert found is not None
    assert (found.uri, found.lowers, found.agreement) == (uri, True, HEAVY)
    assert world.ask() == 0
    world.tell(PEER, uri.rsplit("/", 1)[-1], None, tid(world.frames))
    assert world.lane() is Lane.FAST_LANE, "the peer deleted it"
    assert world.opinion() is None


def test_a_peer_that_no_audit_has_tested_only_informs(world: Peers) -> None:
    world.publish()
    world.ask()
    assert world.lane() is Lane.FAST_LANE
    found = world.opinion()
    assert found is not None
    assert (found.lowers, found.agreement.weight) == (False, 0)


def proven(world: Peers) -> int:
    return world.result.value("select count(*) from peer_assessments where proof = 'proven'")


def test_forged_replayed_and_foreign_records_count_nothing(world: Peers) -> None:
    world.weigh(HEAVY)
    account = world.accounts[PEER]
    world.publish("fast_lane")
    older = account.proof()
    world.publish()
    newest = account.proof()
    for name, proof in {
        "signed by another key": account.proof(Signer("another")),
        "of another account": account.proof(did=OTHER),
        "without the record": account.proof(left_out=-1),
        "replayed from before": older,
    }.items():
        world.network.sent[PEER] = proof
        assert world.ask(7) == 1, name
        assert (proven(world), world.lane()) == (0, Lane.FAST_LANE), name
    world.network.sent[PEER] = newest
    assert world.ask(7) == 1
    assert (proven(world), world.lane()) == (1, Lane.NEEDS_HUMAN)
    world.network.sent[PEER] = older
    assert world.ask(7) == 1
    assert (proven(world), world.lane()) == (0, Lane.FAST_LANE), "an older state than the one proven before"


def test_an_assessment_that_the_stream_never_deleted_goes_once_its_repository_lacks_it(world: Peers) -> None:
    world.weigh(HEAVY)
    uri = world.publish()
    world.ask()
    assert world.lane() is Lane.NEEDS_HUMAN
    del world.accounts[PEER].records[uri.split("/", 3)[-1]]
    world.publish(did=OTHER)  # a repository is never empty in these proofs
    world.accounts[PEER].records[f"{COLLECTION}/other"] = {"subject": {}}
    world.ask(7)
    assert world.lane() is Lane.FAST_LANE


def test_a_proof_that_cannot_be_renewed_for_a_week_counts_no_longer(world: Peers) -> None:
    world.weigh(HEAVY)
    world.publish()
    world.ask()
    world.network.down.add(PEER)
    assert world.lane() is Lane.NEEDS_HUMAN
    world.now += STALE
    world.ask()
    small.again(world.result, world.now)
    assert world.lane() is Lane.FAST_LANE


@pytest.mark.parametrize(
    "changes",
    [
        {"uses": [{"uri": f"at://{SEED}/{COLLECTION}/x", "cid": "bafyreixxxxxxx"}]},
        {"subject": {"uri": OPEN, "cid": "bafyreianotherone"}},
        {"decision": "withdrawn"},
        {"decision": "normal_queue"},
    ],
)
def test_what_rests_on_others_or_is_of_another_version_or_no_flag_lowers_nothing(
    world: Peers, changes: dict[str, Any]
) -> None:
    world.weigh(HEAVY)
    world.publish(**changes)
    world.ask()
    assert proven(world) == 1
    assert world.lane() is Lane.FAST_LANE


def test_what_a_peer_says_of_a_decided_pull_request_is_proven_for_30_days_and_weighs_nothing(world: Peers) -> None:
    world.merge()
    uri = world.publish("needs_human")
    assert world.ask() == 1
    found = world.opinion()
    assert found is not None
    assert (found.uri, found.decision, found.is_current) == (uri, "needs_human", True)
    assert world.answer(would_merge=False) == 0, "it may have read how it ended"
    world.now = NOW + DECIDED - DAY
    assert world.ask() == 1
    world.now = NOW + DECIDED + DAY
    world.publish("fast_lane")
    assert world.ask() == 0


def test_an_assessment_of_the_same_patch_counts_though_the_record_was_written_again(world: Peers) -> None:
    world.weigh(HEAVY)
    patch = world.result.value("select patch_id from patches where pull_uri = ?", [OPEN])
    world.publish(subject={"uri": OPEN, "cid": "bafyreianotherone"}, patchId=patch)
    world.ask()
    assert world.lane() is Lane.NEEDS_HUMAN


def said_here(world: Peers, lane: str, *codes: str) -> None:
    """This site decided so some minutes ago."""
    reasons = "[" + ",".join(f'{{"code":"{code}","params":{{}}}}' for code in codes) + "]"
    with world.result.store.write() as txn:
        txn.execute(
            "insert into scores select * replace ('said' as score_id, ? as lane, ? as reasons, ?::timestamp as as_of) "
            "from scores where pull_uri = ? limit 1",
            [lane, reasons, world.now + timedelta(minutes=1), OPEN],
        )
    world.now += timedelta(minutes=2)


def is_own_word(world: Peers) -> bool:
    found = world.opinion()
    assert found is not None
    return found.is_own_word


def test_what_only_repeats_this_site_counts_nothing(world: Peers) -> None:
    said_here(world, "needs_human", "high_flag", "low_probability")
    world.publish()
    world.ask()
    assert not is_own_word(world)
    assert world.answer(would_merge=False) == 0
    world.publish(reasons=["content_risk_high"])
    world.ask(7)
    assert is_own_word(world), "it has a reason of its own"


def test_what_the_audit_hid_cannot_be_repeated(world: Peers) -> None:
    said_here(world, "needs_human", "audit_drawn", "high_flag")
    world.publish()
    world.ask()
    assert is_own_word(world)
    assert world.answer(would_merge=False) == 1


@pytest.mark.parametrize(
    ("would_merge", "tally"), [(False, Agreement(bad=1, flagged_bad=1)), (True, Agreement(clean=1, flagged_clean=1))]
)
def test_an_answered_audit_is_compared_once_with_what_the_peer_had_said_before(
    world: Peers, would_merge: bool, tally: Agreement
) -> None:
    uri = world.publish()
    world.ask()
    assert world.answer(would_merge) == 1
    assert tally_peers(world.result.store, world.now) == 0
    with world.result.reading() as rows:
        (standing,) = peer_standings(rows)
    assert (standing.agreement, standing.proven) == (tally, 1)
    world.tell(PEER, uri.rsplit("/", 1)[-1], None, tid(world.frames))
    with world.result.reading() as rows:
        (standing,) = peer_standings(rows)
    assert (standing.agreement, standing.proven) == (tally, 0), "a peer cannot take back its misses"


def test_a_word_given_or_changed_after_the_answer_or_of_another_version_is_not_compared(world: Peers) -> None:
    world.publish("fast_lane")
    world.ask()
    world.publish()
    world.now += timedelta(hours=7)
    assert world.answer(would_merge=False) == 0, "the rewritten one is not proven yet"
    world.ask()
    assert tally_peers(world.result.store, world.now) == 0, "and now it comes too late"


@pytest.mark.parametrize("how", ["delete", "withdraw", "change", "refer", "another version"])
def test_a_peer_that_takes_back_its_word_before_the_answer_keeps_its_miss(world: Peers, how: str) -> None:
    """People's comments and a merge are public: they tell a peer how the answer of an audit will be."""
    uri = world.publish()
    world.ask()
    assert tally_peers(world.result.store, world.now) == 0
    if how == "delete":
        world.tell(PEER, uri.rsplit("/", 1)[-1], None, tid(world.frames))
    elif how == "refer":
        world.publish(uses=[{"uri": f"at://{OTHER}/{COLLECTION}/x", "cid": world.cid()}])
    elif how == "another version":
        world.publish(subject={"uri": OPEN, "cid": "bafyreianotherone"})
    else:
        world.publish({"withdraw": "withdrawn", "change": "fast_lane"}[how])
    world.ask(7)
    assert world.answer(would_merge=True) == 1
    with world.result.reading() as rows:
        (standing,) = peer_standings(rows)
    assert standing.agreement == Agreement(clean=1, flagged_clean=1)


@given(st.integers(0, 60), st.integers(0, 60), st.data())
def test_a_weight_lies_below_1_and_is_0_for_a_peer_that_flags_everything_or_nothing(
    bad: int, clean: int, data: st.DataObject
) -> None:
    assert Agreement(bad, clean, bad, clean).weight == pytest.approx(0)
    assert Agreement(bad, clean).weight == 0
    flagged_bad, flagged_clean = data.draw(st.integers(0, bad)), data.draw(st.integers(0, clean))
    found = Agreement(bad, clean, flagged_bad, flagged_clean)
    assert 0 <= found.weight < 1
    assert found.weight <= max(0, flagged_bad / (bad or 1) - flagged_clean / (clean or 1)) + 1e-9, "shrunk towards 0"


def test_a_peer_that_was_right_and_then_flags_everything_soon_only_informs_and_ends_at_0(world: Peers) -> None:
    one_in_twenty_is_bad = [place % 20 == 0 for place in range(400)]
    world.audited([(bad, bad) for bad in one_in_twenty_is_bad])
    assert (weight := world.weight()) > PEER_WEIGHT
    weights = []
    for more in (50, 100, 150, 200, MEMORY):
        world.audited(
            [(bad, bad) for bad in one_in_twenty_is_bad] + [(True, bad) for bad in one_in_twenty_is_bad[:more]]
        )
        weights.append(world.weight())
    assert weights == sorted(weights, reverse=True)
    assert weight > PEER_WEIGHT > weights[2], "150 audits, told in docs/records.md"
    assert weights[-1] == pytest.approx(0)


MOST_PEERS = [f"did:plc:{letter * 24}" for letter in "abcdefghijklmnopqrst"]


def random_record(dice: Random, cid: str) -> dict[str, Any]:
    """What a peer may write, of any version, with any lane and any words."""
    lanes, codes = ["fast_lane", "normal_queue", "needs_human", "withdrawn"], ["high_flag", "is_seed", "trust_path", ""]
    other = {"uri": f"at://{MARA}/{COLLECTION}/x", "cid": cid}
    return {
        "subject": {"uri": OPEN, "cid": dice.choice([cid, cid, "bafyreianotherone"])},
        "decision": dice.choice(lanes),
        "reasons": dice.sample(codes, dice.randint(0, 4)),
        "evaluator": dice.choice(["1", "x" * 500]),
        "uses": dice.choice([[], [], [other], None, 7]),
        "policy": dice.choice([None, {"budget": dice.randint(-9, 2000), "certificate": "a" * 64, "shadow": True}]),
        "patchId": dice.choice([None, "", "p" * 100]),
        "outcome": dice.choice([None, {"state": "merged"}, "merged"]),
    }


@pytest.mark.parametrize(
    ("lane", "thresholds"),
    [
        (Lane.FAST_LANE, FAST.thresholds),
        (Lane.NORMAL_QUEUE, replace(FAST.thresholds, t_high=0.99)),
        (Lane.NEEDS_HUMAN, replace(FAST.thresholds, r_low=0.0, r_high=0.001)),
    ],
)
def test_no_record_of_any_peer_lifts_a_lane(world: Peers, lane: Lane, thresholds: Thresholds) -> None:
    dice = Random(lane)
    world.result.policy = replace(FAST, thresholds=thresholds)
    world.result.store.registry = build_registry("org.sunstead", MOST_PEERS)
    world.accounts |= {did: SignedAccount(did, Signer(did)) for did in MOST_PEERS}
    small.again(world.result, world.now)
    assert world.lane() is lane
    lanes, cid = set(), world.cid()
    for _ in range(count(1, 170)):  # of twenty peers in three lanes: 10,200 records under `make prove`
        for did in MOST_PEERS:
            world.publish(did=did, **random_record(dice, cid))
            world.weigh(dice.choice([HEAVY, Agreement(), Agreement(5, 100, 5, 100)]), did)
        world.ask(7)
        lanes.add(world.lane())
    assert all(list(Lane).index(found) <= list(Lane).index(lane) for found in lanes)
    assert Lane.NEEDS_HUMAN in lanes, "some of them lowered it"


def test_an_erasure_takes_what_peers_said_of_the_persons_work_and_how_that_compared(
    world: Peers, tmp_path: Path
) -> None:
    world.publish()
    world.ask()
    assert world.answer(would_merge=False) == 1
    world.result.store.tombstones.key = b"a key of the tests"
    erase(world.result.store, MARA, "by_request", world.now, folders_below(tmp_path))
    for table in ("peer_assessments", "peer_words", "peer_outcomes"):
        assert world.result.value(f"select count(*) from {table}") == 0, table
    sql = "select count(*) from events where did = ? and body is not null"
    assert world.result.value(sql, [PEER]) == 0
