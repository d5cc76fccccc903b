"""Our own kinds of records: what each says, and under whose authority."""

import json
from datetime import datetime
from typing import Any

import pytest

from ingest.records import registry as records
from ingest.records.assessment import Assessment, assessment_key, read_assessment
from ingest.records.fields import Event, SmallRecord, Unreadable
from ingest.records.registry import REGISTRY
from ingest.store.database import Store
from tests.ingest.records.test_kinds import PULL_URI, STRONG
from tests.ingest.stream.frames import ANA, CREATED, MARA, Frames, at, pull_uri, rows, take

OWN = "org.sunstead"
SEEN = datetime(2026, 10, 8, 18, 34, 15)


def own(name: str, record: object, rkey: str) -> SmallRecord:
    body = json.dumps(record)
    told = Event(1, "i", "t", "commit", MARA, f"{OWN}.{name}", rkey, "create", "r", "c", SEEN, False, body)
    found = REGISTRY.read(told)
    assert isinstance(found, SmallRecord)
    return found


def test_a_jurisdiction_is_about_its_author_whatever_else_it_says() -> None:
    found = own("jurisdiction", {"country": "CH", "region": "CH-ZH", "note": "n" * 5000, "subject": ANA}, "self")
    assert found.values["kind"] == "jurisdiction"
    assert found.values["subject"] is None
    assert json.loads(found.values["value"]) == {"country": "CH", "region": "CH-ZH", "note": "n" * 1000}


@pytest.mark.parametrize("country", ["ch", "Switzerland", "C1", None, 3, ["CH"]])
def test_a_jurisdiction_needs_a_country_code(country: object) -> None:
    with pytest.raises(Unreadable, match="without a readable country"):
        own("jurisdiction", {"country": country}, "self")


def test_an_objection_names_what_it_disputes_or_its_author_altogether() -> None:
    assert own("objection", {"text": "No", "subject": PULL_URI}, "o").values["subject"] == PULL_URI
    assert own("objection", {"text": "No"}, "o").values["subject"] is None
    with pytest.raises(Unreadable, match="without a readable text"):
        own("objection", {"subject": PULL_URI}, "o")


def test_an_opt_out_is_one_record_of_its_author() -> None:
    assert own("leaderboardOptOut", {}, "self").values == {
        "kind": "leaderboard_opt_out",
        "subject": None,
        "value": "{}",
    }
    with pytest.raises(Unreadable, match="under another key"):
        own("leaderboardOptOut", {}, "another")


def assessed(key: str = assessment_key(PULL_URI), **changes: object) -> Assessment:
    record = {"subject": STRONG, "decision": "needs_human", "evaluator": "1", "createdAt": CREATED}
    return read_assessment(record | changes, key)


def test_an_assessment_pins_a_version_and_what_it_rests_on() -> None:
    policy = {"certificate": "a" * 64, "budget": 50, "shadow": True}
    uses = [STRONG, {"uri": "not one"}, "nor this"]
    found = assessed(reasons=["high_flag", 3, "Not a code", "b" * 100], policy=policy, uses=uses, patchId="p" * 100)
    assert (found.subject_uri, found.subject_cid, found.patch_id) == (PULL_URI, STRONG["cid"], "p" * 64)
    assert (found.reasons, found.uses) == (("high_flag",), (PULL_URI,))
    assert (found.certificate, found.budget, found.shadow) == ("a" * 64, 50, True)


@pytest.mark.parametrize(
    "changes",
    [
        {"key": "3mxf3x7ivft22"},
        {"key": assessment_key(pull_uri(MARA, "offered"))},
        {"subject": PULL_URI},
        {"decision": "merge_now"},
        {"decision": ["fast_lane"]},
        {"evaluator": ""},
    ],
)
def test_an_assessment_under_another_key_or_without_a_lane_is_none(changes: dict[str, Any]) -> None:
    with pytest.raises(Unreadable, match="an assessment"):
        assessed(**changes)


def test_only_assessments_by_peers_are_stored_and_make_their_author_known(store: Store) -> None:
    store.registry = records.build_registry(OWN, [MARA])
    record = {"subject": STRONG, "decision": "needs_human", "evaluator": "1", "createdAt": CREATED}
    frames = Frames()
    for author in (MARA, ANA):
        frames.commit(author, f"{OWN}.assessment", assessment_key(PULL_URI), record)
    frames.identity(ANA)
    take(store, frames)
    key = f"{OWN}.assessment/{assessment_key(PULL_URI)}"
    assert rows(store, "select uri, subject_uri, proof from peer_assessments") == [
        (f"at://{MARA}/{key}", PULL_URI, None)
    ]
    assert rows(store, "select did from contributors") == [(MARA,)]
    assert rows(store, "select did from events") == [(MARA,)]
    frames.delete(MARA, f"{OWN}.assessment", assessment_key(PULL_URI))
    take(store, frames[-1:])
    assert rows(store, "select uri from peer_assessments") == []
    assert rows(store, "select operation, body from events order by event_seq") == [("create", None), ("delete", None)]


def test_declarations_are_kept_and_make_their_author_known(store: Store) -> None:
    frames = Frames()
    frames.commit(MARA, f"{OWN}.leaderboardOptOut", "self", {"createdAt": CREATED})
    frames.commit(ANA, "com.somebody.leaderboardOptOut", "self", {"createdAt": CREATED})
    take(store, frames)
    assert rows(store, "select kind, deleted_at from declarations") == [("leaderboard_opt_out", None)]
    assert rows(store, "select did, first_seen_at from contributors") == [(MARA, at(0))]


def test_the_operator_chooses_the_authority_of_our_records() -> None:
    registry = records.build_registry("com.example")
    assert registry.wanted_collections()[:2] == ["sh.tangled.*", "com.example.approval"]
    assert registry.is_ours("com.example.objection")
    assert not registry.is_ours(f"{OWN}.objection")


@pytest.mark.parametrize(
    "name", ["", "com", "com.", "Com.Example", "com..example", "sh.tangled", "a b.c", "com.x*", "c." * 200]
)
def test_what_is_no_domain_of_ones_own_is_no_authority(name: str) -> None:
    with pytest.raises(ValueError, match="not a domain of yours"):
        records.build_registry(name)
