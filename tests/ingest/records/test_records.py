"""Records as people wrote them over the years, and as nobody should."""

import copy
import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest.atproto.syntax import tid_time
from ingest.records.dead_letters import LETTER_LIMIT
from ingest.records.fields import Event, Unreadable, moment, written_at
from ingest.records.registry import REGISTRY
from ingest.records.shapes import PullRecord, RepositoryRecord, StatusRecord, VouchRecord
from ingest.store.database import Store
from tests.conftest import count
from tests.ingest import hostile
from tests.ingest.stream.frames import (
    ANA,
    BLOB,
    MARA,
    PULL,
    REPO,
    REPOSITORY,
    STATUS,
    VOUCH,
    digest_of,
    pull_record,
    rows,
    take,
)

SEEN = datetime(2026, 10, 8, 18, 34, 15)
AT_URI = f"at://{ANA}/{REPOSITORY}/lantern"


def event(collection: str, record: object, rkey: str = "3mxf3x7ivft22", body: str | None = None) -> Event:
    text = json.dumps(record) if body is None else body
    return Event(1, "id", "test", "commit", MARA, collection, rkey, "create", "rev", "cid", SEEN, False, text)


def read_pull(**record: object) -> PullRecord:
    found = REGISTRY.read(event(PULL, record))
    assert isinstance(found, PullRecord)
    return found


def read_vouch(record: object, rkey: str = ANA) -> VouchRecord:
    found = REGISTRY.read(event(VOUCH, record, rkey))
    assert isinstance(found, VouchRecord)
    return found


def refs(pull: PullRecord) -> list[tuple[int, str]]:
    return [(one.number, one.patch_ref) for one in pull.rounds]


def test_the_oldest_flat_form_names_its_repository_by_uri_and_carries_the_patch_inline() -> None:
    pull = read_pull(targetRepo=AT_URI, targetBranch="main", pullId=7, title="One", patch="diff --git a b\n")
    assert (pull.form, pull.target, pull.target_branch) == ("flat", AT_URI, "main")
    (only,) = pull.rounds
    assert only.patch_ref.startswith("inline:")
    assert len(only.patch_ref) == len("inline:") + 64


def test_the_second_form_names_a_target_and_a_blob() -> None:
    target = {"repo": AT_URI, "branch": "main"}
    pull = read_pull(target=target, source={"branch": "x", "sha": "1"}, patchBlob={"ref": {"$link": BLOB}})
    assert (pull.form, pull.target, pull.source_branch, refs(pull)) == ("target", AT_URI, "x", [(0, f"blob:{BLOB}")])


def test_a_blob_of_the_oldest_kind_has_a_bare_cid() -> None:
    pull = read_pull(target={"repo": REPO}, patchBlob={"cid": BLOB, "mimeType": "text/x-patch"})
    assert refs(pull) == [(0, f"blob:{BLOB}")]


def test_rounds_are_numbered_and_one_without_a_patch_keeps_its_place() -> None:
    pull = read_pull(**pull_record(blobs=[BLOB, "not a cid", BLOB + "b"]))
    assert refs(pull) == [(0, f"blob:{BLOB}"), (1, "none:"), (2, f"blob:{BLOB}b")]
    assert pull.form == "rounds"


def test_rounds_that_are_null_are_no_rounds() -> None:
    assert read_pull(**pull_record(rounds=None)).rounds == ()


def test_versions_with_empty_rounds_name_the_commits_to_compare() -> None:
    versions = [{"base": "a" * 40, "head": "b" * 40, "createdAt": "2026-10-01T00:00:00Z"}, None]
    pull = read_pull(**pull_record(rounds=[], versions=versions))
    assert (pull.form, refs(pull)) == ("versions", [(0, f"compare:{'a' * 40}..{'b' * 40}"), (1, "none:")])
    assert pull.rounds[0].created_at == datetime(2026, 10, 1)


def test_of_endless_rounds_the_newest_are_read_since_the_last_one_would_be_merged() -> None:
    pull = read_pull(**pull_record(blobs=[f"{BLOB}{number}" for number in range(1000)]))
    assert (len(pull.rounds), refs(pull)[-1], refs(pull)[0][0]) == (200, (999, f"blob:{BLOB}999"), 800)


@pytest.mark.parametrize(
    ("record", "target"),
    [
        ({"target": {"repo": AT_URI, "repoDid": REPO}}, AT_URI),
        ({"target": {"repo": REPO, "repoDid": AT_URI}}, REPO),
        ({"target": {"repo": "https://x", "repoDid": REPO}, "targetRepo": AT_URI}, REPO),
        ({"target": {"repo": AT_URI}, "targetRepo": REPO}, AT_URI),
        ({"target": {"repoDid": 3}, "targetRepo": REPO}, REPO),
    ],
)
def test_the_target_is_the_field_that_the_forge_reads_first_in_whatever_form(record: Any, target: str) -> None:
    assert read_pull(**record).target == target


def test_titles_and_bodies_are_cut() -> None:
    pull = read_pull(**pull_record(title="t" * 9000, body="b" * 90_000))
    assert (len(pull.title), len(pull.body)) == (300, 20_000)


@pytest.mark.parametrize("target", [None, 3, [], {}, {"repo": 3}, {"repo": "did:plc:a b"}, {"repo": "https://x"}])
def test_a_pull_request_without_a_readable_target_says_so(target: object) -> None:
    with pytest.raises(Unreadable, match="without a readable target"):
        read_pull(**pull_record() | {"target": target})


@pytest.mark.parametrize("wrong", [None, 3, 1.5, True, [], {}, "x", [[]], [{}], [3], {"ref": 3}])
@pytest.mark.parametrize("field", ["rounds", "versions", "patchBlob", "patch", "source", "title", "body", "createdAt"])
def test_wrong_types_cost_a_pull_request_only_what_is_wrong(field: str, wrong: object) -> None:
    pull = read_pull(**pull_record() | {field: wrong})
    assert pull.target == REPO


@pytest.mark.parametrize(
    ("record", "kind"), [({}, "vouch"), ({"kind": "vouch"}, "vouch"), ({"kind": "denounce"}, "denounce")]
)
def test_a_missing_kind_means_vouch(record: object, kind: str) -> None:
    assert read_vouch(record).kind == kind


@pytest.mark.parametrize("kind", ["Vouch", "", None, 3, [], {}, ["vouch"], 10**400, "x" * 10_000])
def test_an_unknown_kind_is_unreadable_in_few_words(kind: object) -> None:
    with pytest.raises(Unreadable) as caught:
        read_vouch({"kind": kind})
    assert len(str(caught.value)) < 120


@pytest.mark.parametrize("rkey", ["3mxf3x7ivft22", "did:plc:", "did:plc:a b", "did", "DID:plc:abc"])
def test_a_vouch_whose_key_is_no_did_is_unreadable(rkey: str) -> None:
    with pytest.raises(Unreadable, match="key is not a DID"):
        read_vouch({"kind": "vouch"}, rkey)


def test_a_did_of_the_web_with_a_port_can_be_vouched_for() -> None:
    assert read_vouch({"kind": "vouch"}, "did:web:quill.example.test%3A8080").kind == "vouch"


def test_evidence_is_bounded_and_only_uris_count() -> None:
    vouch = read_vouch({"evidences": ["x", 3, AT_URI, *[AT_URI] * 20], "reason": "r" * 5000})
    assert vouch.evidences == (AT_URI,) * 8
    assert len(vouch.reason or "") == 1000


def test_an_unknown_status_word_is_kept() -> None:
    status = REGISTRY.read(event(STATUS, {"pull": f"at://{MARA}/{PULL}/1", "status": f"{STATUS}.approved"}))
    assert isinstance(status, StatusRecord)
    assert status.status == "approved"


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"pull": 3, "status": "x"},
        {"pull": "https://tangled.org/seed/lantern/pulls/12", "status": "merged"},
        {"pull": f"at://{MARA}/{PULL}/1", "status": ""},
    ],
)
def test_a_status_of_nothing_is_unreadable(record: object) -> None:
    with pytest.raises(Unreadable):
        REGISTRY.read(event(STATUS, record))


def test_a_repository_needs_nothing() -> None:
    assert REGISTRY.read(event(REPOSITORY, {})) == RepositoryRecord(None, "", None, None)


@pytest.mark.parametrize(
    ("told", "upstream"),
    [
        ({"source": "https://github.com/Ana/Lamp.js"}, "ana/lamp.js"),
        ({"website": "https://github.com/ana/lamp/"}, "ana/lamp"),
        ({"source": "https://github.com/ana/lamp.git"}, "ana/lamp"),
        ({"source": "at://did:plc:x/sh.tangled.repo/1", "website": "https://github.com/a-b/c_d"}, "a-b/c_d"),
        ({"source": "https://github.com/one/x", "website": "https://github.com/two/x"}, "one/x"),
        *(
            ({"source": address}, "")
            for address in (
                "http://github.com/ana/lamp",
                "https://www.github.com/ana/lamp",
                "https://github.com.evil.example/ana/lamp",
                "https://evil@github.com/ana/lamp",
                "https://github.com:443/ana/lamp",
                "https://github.com/ana",
                "https://github.com/ana/lamp/issues",
                "https://github.com/ana/lamp?x=1",
                "https://github.com/ana/lamp#x",
                "https://github.com/ana/..",
                "https://github.com/ana/..git",
                "https://github.com/ana/%2e%2e",
                "https://github.com/ana/lamp\n",
                " https://github.com/ana/lamp",
                "https://github.com/-ana/lamp",
                "https://github.com/ana-/lamp",
                "https://github.com/a--b/lamp",
                "https://github.com/" + "a" * 40 + "/lamp",
                "https://github.com/ana/" + "x" * 101,
                "https://github.com/ana/l\u00e4mp",
                "https://gitlab.com/ana/lamp",
                7,
                None,
                ["https://github.com/ana/lamp"],
            )
        ),
    ],
)
def test_an_upstream_is_an_exact_address_of_a_repository_on_github(told: dict[str, Any], upstream: str) -> None:
    record = REGISTRY.read(event(REPOSITORY, told))
    assert isinstance(record, RepositoryRecord)
    assert record.upstream == upstream


@pytest.mark.parametrize("body", ["", "null", "[]", "3", '"x"', "{", '{"a":', '{"a": NaN}', '"\\ud800"', "\x00"])
def test_what_is_no_object_is_unreadable(body: str) -> None:
    with pytest.raises(Unreadable):
        REGISTRY.read(event(PULL, None, body=body))


def test_a_record_is_as_old_as_its_key_says_but_never_newer_than_it_was_seen() -> None:
    of_key = datetime(2026, 10, 8, 18, 34, 11, 319000)
    assert abs(written_at(event(PULL, {}), None) - of_key) < timedelta(milliseconds=1)
    assert written_at(event(PULL, {}), datetime(2020, 1, 1)) < SEEN  # the key counts before createdAt
    assert written_at(event(PULL, {}, rkey="jzzzzzzzzzzzz"), None) == SEEN
    assert written_at(event(PULL, {}, rkey="self"), datetime(2031, 1, 1)) == SEEN
    assert written_at(event(PULL, {}, rkey="self"), datetime(2020, 1, 1)) == datetime(2020, 1, 1)
    assert written_at(event(PULL, {}, rkey="self"), None) == SEEN


@pytest.mark.parametrize("key", ["", "self", "3mxf3x7ivft2", "3mxf3x7ivft222", "zmxf3x7ivft22", "3mxf3x7ivft21"])
def test_a_key_that_is_no_tid_names_no_moment(key: str) -> None:
    assert tid_time(key) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-10-08T21:34:13+03:00", datetime(2026, 10, 8, 18, 34, 13)),
        ("2026-10-08T18:34:13Z", datetime(2026, 10, 8, 18, 34, 13)),
        ("2026-10-08T18:34:13", datetime(2026, 10, 8, 18, 34, 13)),
        ("0001-01-01T00:00:00+14:00", None),
        ("yesterday", None),
        ("", None),
        (1_700_000_000, None),
    ],
)
def test_times_are_read_as_utc(text: object, expected: datetime | None) -> None:
    assert moment({"at": text}, "at") == expected


def test_every_recorded_pull_request_names_its_repository_and_its_patch(shared: Path) -> None:
    lines = (shared / "examples" / "sh.tangled.repo.pull.ndjson").read_text().splitlines()
    pulls = [read_pull(**json.loads(line)["value"]) for line in lines]
    assert {pull.form for pull in pulls} >= {"rounds", "versions"}
    assert all(pull.rounds[-1].patch_ref.startswith(("blob:", "compare:")) for pull in pulls)


RECORDED = ["jetstream/tangled_live_2026-10-08.ndjson", "jetstream/expected_v1.jsonl", "jetstream/golden_v1.jsonl"]
TIMES = st.sampled_from([-1, 0, 1, 10**15, 2**53, 2**63, 2**64, 1e300, float("nan"), "1", None, True])
PLACES = ["did", "kind", "time_us", "commit", "identity", "account"]
INSIDE = ["rev", "operation", "collection", "rkey", "record", "cid", "seq", "active", "status", "handle"]
odd = (
    hostile.values
    | TIMES
    | st.sampled_from(
        ["", "\0", "\ud800", "did:plc:" + "a" * 5000, "../../etc", "'; drop table events --", "{}" * 9999]
    )
)


@pytest.fixture(scope="module", name="real")
def real_fixture(shared: Path) -> list[dict[str, Any]]:
    """A recorded frame of each kind, collection and operation."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for name in RECORDED:
        for line in (shared / "examples" / name).read_text().splitlines():
            frame = json.loads(line)
            commit = frame.get("commit") or {}
            found.setdefault((frame.get("kind"), commit.get("collection"), commit.get("operation")), frame)
    return list(found.values())


def paths(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place inside a value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path for key, one in inner for path in [(*here, key), *paths(one, (*here, key))]]


def bend(data: st.DataObject, frame: dict[str, Any], others: list[dict[str, Any]]) -> bytes | str:
    """The frame with a few things changed, taken away, put in or taken over from another; perhaps no JSON at all."""
    frame = copy.deepcopy(frame)
    for _ in range(data.draw(st.integers(0, 4))):
        found = paths(frame)
        if not found:
            break
        *way, last = data.draw(st.sampled_from(found))
        holder: Any = frame
        for step in way:
            holder = holder[step]
        match data.draw(st.sampled_from(["change", "remove", "add", "swap"])):
            case "change":
                holder[last] = data.draw(odd)
            case "remove":
                del holder[last]
            case "add" if isinstance(holder, dict):
                holder[data.draw(hostile.names | st.sampled_from(PLACES + INSIDE))] = data.draw(odd)
            case _:
                holder[last] = copy.deepcopy(data.draw(st.sampled_from(others)).get("commit", {}))
    text = json.dumps(frame, ensure_ascii=data.draw(st.booleans()))
    raw = bytearray(text.encode("utf-8", "surrogatepass"))
    for _ in range(data.draw(st.sampled_from([0, 0, 0, 1, 3]))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.sampled_from([None, None, None, len(raw) // 2]))
    return text if data.draw(st.booleans()) else bytes(raw[:cut])


@settings(max_examples=count(15, 3000), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_bent_frames_are_taken_in_whole_or_put_aside_and_never_twice(
    scratch: Store, real: list[dict[str, Any]], data: st.DataObject
) -> None:
    chosen = data.draw(st.lists(st.sampled_from(real), min_size=1, max_size=8))
    frames = [bend(data, frame, real) for frame in chosen]
    take(scratch, frames)
    behind = "select max(event_seq) - (select position_seq from hops where name = 'derive') from events"
    assert rows(scratch, behind) in ([(0,)], [(None,)])
    assert (
        rows(scratch, "select * from dead_letters where strlen(body) > ? or strlen(reason) > 300", 4 * LETTER_LIMIT)
        == []
    )
    assert rows(scratch, "select 1 from pull_requests where state = 'merged' and merge_proof is null limit 1") == []
    before = digest_of(scratch)
    take(scratch, frames)
    assert digest_of(scratch) == before
