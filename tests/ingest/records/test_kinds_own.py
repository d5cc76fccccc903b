"""Our own kinds of records: what each says, and under whose authority."""

import json
from datetime import datetime

import pytest

from ingest.records import registry as records
from ingest.records.fields import Event, SmallRecord, Unreadable
from ingest.records.registry import REGISTRY
from ingest.store.database import Store
from tests.ingest.records.test_kinds import PULL_URI, STRONG
from tests.ingest.stream.frames import ANA, CREATED, MARA, Frames, at, rows, take

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


def test_an_assessment_pins_a_version_and_holds_no_chance() -> None:
    record = {"subject": STRONG, "decision": "fast_lane", "evaluator": "1", "clean": 912, "uses": [STRONG]}
    found = own("assessment", record | {"reasons": ["a", 3, "b" * 100]}, "x").values
    assert found["subject"] == PULL_URI
    value = {"subject_cid": "bafyreicccc", "decision": "fast_lane", "reasons": ["a", "b" * 64]}
    assert json.loads(found["value"]) == value | {"evaluator": "1"}


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
