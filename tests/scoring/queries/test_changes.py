"""Facts about an open change that move no lane: its CI run, owners of its files, and its labels."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pytest_django import Settings

from scoring.queries import changes, read
from scoring.queries.read import ChangeFacts
from tests.conftest import count
from tests.ingest.stream.frames import ANA, CREATED, MALLORY, MARA, REPO, SEED, Frames, at, pull_uri
from tests.pipeline import Result, opened
from tests.scoring.pipeline.offered_world import SECOND, THIRD, offered_world
from tests.scoring.small import OFFERED, feed, take
from tests.triage.worlds.acting_site import BEN, ActingSite, acting_site
from tests.triage.worlds.lane_site import NEXT, OTHER, lane_site
from triage.presenters.queue.rows import beside_words, fact_lines

TOUCHED = """
insert or replace into touched_files
select pull_uri, patch_ref, [], $paths, true from pull_requests where pull_uri = $uri
"""
RAN = """
insert or replace into ci_runs
select pull_uri, patch_ref, '', $state, $flows, $now from pull_requests where pull_uri = $uri
"""
NAMED = "did:plc:anaaaa\N{HORIZONTAL ELLIPSIS}aaaa"  # how a page names whose handle it does not know
MERGED = "update pull_requests set state = 'merged', merge_proof = $proof where pull_uri = $uri"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Result]:
    with offered_world(tmp_path) as result:
        touch(result, OFFERED, "a.py", "b.py")
        touch(result, SECOND, "b.py")
        touch(result, THIRD, "c.py", "a.py")
        yield result


def touch(result: Result, uri: str, *paths: str) -> None:
    with result.store.write() as txn:
        txn.execute(TOUCHED, {"uri": uri, "paths": list(paths)})


def merge(result: Result, uri: str, proof: str = "verified") -> None:
    with result.store.write() as txn:
        txn.execute(MERGED, {"uri": uri, "proof": proof})


def ran(result: Result, state: str, uri: str = OFFERED, **workflows: str) -> None:
    flows = json.dumps([{"name": name, "status": status} for name, status in workflows.items()])
    with result.store.write() as txn:
        txn.execute(RAN, {"uri": uri, "state": state, "flows": flows, "now": result.store.wall()})


def facts(result: Result) -> ChangeFacts:
    with result.store.read() as rows:
        return read.change_facts(rows, OFFERED)


def test_before_anything_is_known_there_are_no_facts(world: Result) -> None:
    assert facts(world) == ChangeFacts(None, (), 0)
    assert fact_lines(facts(world)) == ()


def test_people_whose_merges_touched_the_same_files_are_named_with_how_many(world: Result) -> None:
    merge(world, SECOND)
    merge(world, THIRD)
    assert [(owner.person.did, owner.merged) for owner in facts(world).owners] == [(ANA, 2)]
    assert fact_lines(facts(world)) == (("Same files", f"merged before: {NAMED} 2, the author 0"),)


def test_the_authors_own_merges_are_counted_and_the_author_is_no_owner_besides(world: Result) -> None:
    with world.store.write() as txn:
        txn.execute(
            "update pull_requests set author_id = (select contributor_id from contributors where did = ?) "
            "where pull_uri = ?",
            [MARA, THIRD],
        )
    merge(world, THIRD)
    assert facts(world) == ChangeFacts(None, (), 1)


@pytest.mark.parametrize("proof", ["unverified", "contradicted"])
def test_a_merge_that_only_its_author_tells_of_makes_nobody_an_owner(world: Result, proof: str) -> None:
    merge(world, SECOND, proof)
    assert facts(world).owners == ()


def test_a_merge_that_touched_other_files_or_is_this_change_does_not_count(world: Result) -> None:
    touch(world, SECOND, "d.py")
    merge(world, SECOND)
    merge(world, OFFERED)
    assert facts(world) == ChangeFacts(None, (), 0)


@pytest.mark.parametrize(
    ("state", "workflows", "words"),
    [
        ("passed", {"test": "success"}, "passed"),
        ("failed", {"build": "success", "test": "failed", "lint": "timeout"}, "failed: test, lint"),
        ("running", {"test": "pending"}, "running"),
        ("never_ran", {}, "did not run on this round"),
    ],
)
def test_the_ci_run_of_the_round_is_told_with_the_workflows_that_failed(
    world: Result, state: str, workflows: dict[str, str], words: str
) -> None:
    ran(world, state, **workflows)
    assert fact_lines(facts(world)) == (("CI", words),)


def test_names_of_workflows_are_cut_and_only_the_first_are_told(world: Result) -> None:
    ran(world, "failed", **{f"{number}{'x' * 500}": "failed" for number in range(50)})
    ((_, words),) = fact_lines(facts(world))
    assert len(words) < 400
    assert words.endswith(" and 45 more")


@pytest.mark.django_db
class TestOnThePage:
    @pytest.fixture
    def site(self, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[ActingSite]:
        with acting_site(tmp_path, settings, monkeypatch) as made:
            yield made

    def test_an_open_row_tells_both_and_a_hostile_name_is_only_text(self, site: ActingSite) -> None:
        touch(site.result, OFFERED, "a.py")
        touch(site.result, SECOND, "a.py")
        merge(site.result, SECOND)
        ran(site.result, "failed", **{"<script>alert(1)</script>": "failed"})
        site.publish()
        page = site.maintainer(BEN, "ben.example").get(f"/pull/{OFFERED}").content.decode()
        assert "failed: &lt;script&gt;alert(1)&lt;/script&gt;" in page
        assert f"merged before: {NAMED} 1, the author 0" in page

    def test_a_row_that_the_audit_seals_tells_its_ci_run_and_no_owners(
        self, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with lane_site(tmp_path, settings, monkeypatch, audited=True) as site:
            for uri in (NEXT, OTHER):
                touch(site.result, uri, "a.py")
            merge(site.result, OTHER)
            ran(site.result, "passed", uri=NEXT)
            site.publish()
            page = site.maintainer(BEN, "ben.example").get(f"/pull/{NEXT}").content.decode()
            assert "Would you have merged" in page
            assert "<dt>CI</dt>" in page
            assert "merged before" not in page


PULL = pull_uri(MARA, "offered")
DEFINITION = "sh.tangled.label.definition"
Operands = Sequence[tuple[str, str]]


def definition(key: str) -> str:
    return f"at://{SEED}/{DEFINITION}/{key}"


def label(frames: Frames, author: str, key: str, add: Operands = (), delete: Operands = (), second: int = 0) -> None:
    """One record about `PULL`; operands are keys of definitions with values."""
    told = {
        name: [{"key": definition(key), "value": value} for key, value in pairs]
        for name, pairs in (("add", add), ("delete", delete))
    }
    moment = CREATED.replace("00Z", f"{second:02}Z")
    frames.commit(author, "sh.tangled.label.op", key, {"subject": PULL, "performedAt": moment, **told})


@pytest.fixture
def lantern(tmp_path: Path) -> Iterator[Result]:
    """Seed's repository with one open pull request and two defined labels."""
    with opened(tmp_path) as result:
        frames = Frames()
        frames.repository(SEED, repoDid=REPO)
        frames.pull(MARA, "offered")
        for key, name in (("bug", "Bug"), ("assignee", "assignee")):
            made = {"name": name, "valueType": {"type": "null", "format": "any"}, "scope": [], "createdAt": CREATED}
            frames.commit(SEED, DEFINITION, key, made)
        take(result, frames)
        yield result


def labels_after(result: Result, frames: Frames) -> tuple[str, ...]:
    feed(result, frames)
    row = result.pull(PULL)
    assert row is not None
    return row.labels


def test_a_label_reads_as_its_name_and_one_with_a_value_as_both(lantern: Result) -> None:
    frames = Frames()
    label(frames, SEED, "one", [("bug", "null"), ("assignee", ANA), ("good-first-issue", "null"), ("size", "small")])
    who = lantern.value("select coalesce(handle, did) from contributors where did = ?", [ANA]) or ANA
    assert labels_after(lantern, frames) == ("Bug", f"assignee: {who}", "good-first-issue", "size: small")


def test_nobody_without_push_access_labels_even_their_own(lantern: Result) -> None:
    frames = Frames()
    label(frames, MARA, "own", [("bug", "null")])
    label(frames, MALLORY, "other", [("reviewed", "null")])
    assert labels_after(lantern, frames) == ()
    after = Frames()
    label(after, SEED, "one", [("bug", "null")])
    label(after, MARA, "away", delete=[("bug", "null")], second=9)
    assert labels_after(lantern, after) == ("Bug",)


def test_the_last_word_about_a_label_holds_and_a_deleted_record_says_nothing(lantern: Result) -> None:
    frames = Frames()
    label(frames, SEED, "later", delete=[("bug", "null")], second=8)
    label(frames, SEED, "first", [("bug", "null"), ("size", "small")], second=3)
    assert labels_after(lantern, frames) == ("size: small",)
    after = Frames()
    after.delete(SEED, "sh.tangled.label.op", "later")
    assert labels_after(lantern, after) == ("Bug", "size: small")


def test_hundreds_of_labels_and_long_ones_stay_bounded(lantern: Result) -> None:
    frames = Frames()
    for number in range(4):
        label(frames, SEED, f"many{number}", [(f"{number}-{one:02}" + "x" * 100, "y" * 300) for one in range(90)])
    found = labels_after(lantern, frames)
    assert len(found) == changes.SHOWN
    assert max(map(len, found)) <= 2 * changes.LONGEST + 2


WORDS = st.lists(
    st.tuples(
        st.lists(st.sampled_from("abc"), unique=True, max_size=3),
        st.lists(st.sampled_from("abc"), unique=True, max_size=3),
    ),
    max_size=6,
)


@settings(max_examples=count(10, 600), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=WORDS)
def test_what_stands_is_what_applying_each_record_in_its_order_leaves(
    lantern: Result, words: list[tuple[list[str], list[str]]]
) -> None:
    standing: set[str] = set()
    author = lantern.value("select owner_id from repositories where repo_key = ?", [REPO])
    with lantern.store.write() as txn:
        txn.execute("delete from label_operations")
        for second, told in enumerate(words):
            added, removed = ([{"key": definition(key), "value": ""} for key in keys] for keys in told)
            standing = standing - set(told[1]) | set(told[0])
            about = {"uri": f"at://{SEED}/op/{second}", "author_id": author, "subject_uri": PULL}
            said = {"added": json.dumps(added), "removed": json.dumps(removed)}
            moments = dict.fromkeys(("written_at", "seen_at", "changed_at"), at(second))
            txn.append("label_operations", [about | said | moments])
    with lantern.reading() as rows:
        assert changes.pull_labels(rows, [PULL]).get(PULL, ()) == tuple(sorted(standing))


def test_what_its_author_has_open_beside_it_is_counted_with_what_has_the_same_title(world: Result) -> None:
    def beside(uri: str, *left_out: str) -> tuple[int, int]:
        with world.store.read() as rows:
            return read.change_facts(rows, uri, left_out).beside

    assert (beside(OFFERED), beside(SECOND)) == ((0, 0), (1, 0))
    with world.store.write() as txn:
        txn.execute("update pull_requests set title = 'The same' where pull_uri in (?, ?)", [SECOND, THIRD])
    assert beside(SECOND) == (1, 1)
    assert beside(SECOND, THIRD) == (0, 0), "the list that the count leads to leaves it out"
    assert beside_words(ChangeFacts(None, (), 0, beside=(5, 3))) == "5 more open by them, 3 with this title"
    assert beside_words(ChangeFacts(None, (), 0, beside=(1, 1))) == "1 more open by them, with this title"
    assert beside_words(ChangeFacts(None, (), 0)) == ""
