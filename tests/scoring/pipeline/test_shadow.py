"""Shadow mode: what would have been fast lane is counted, with what people did with exactly those rounds."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from scoring.config.repository import DEFAULTS, rules_under, thresholds_under
from scoring.diff.globs import matching_pattern
from scoring.handlers.settings import switch_shadow, write_settings
from scoring.pipeline.decisions import to_json
from scoring.pipeline.lane_history import ShadowDay, record_shadow
from scoring.queries.read import shadow_report
from scoring.thresholds import RepositoryRules, Thresholds
from scoring.types import Reason
from tests.ingest.stream.frames import ANA, BLOB, MARA, REPO, SEED, Frames, at, pull_uri
from tests.pipeline import UNAUDITED, Result, opened
from tests.scoring.small import DAY, feed, settled, take

OFFERED, OTHER = pull_uri(MARA, "offered"), pull_uri(ANA, "other")
NEWER = "bafkrei" + "b" * 52


@pytest.fixture(name="result")
def result_fixture(tmp_path: Path) -> Iterator[Result]:
    with opened(tmp_path) as result:
        yield result


def two_open() -> Frames:
    frames = Frames()
    frames.repository(SEED, repoDid=REPO)
    frames.pull(MARA, "offered")
    frames.pull(ANA, "other")
    frames.pull(SEED, "own")
    return frames


def wave_through(result: Result) -> None:
    """Every decision that stands becomes fast lane, as if all evidence were there."""
    with result.store.write() as txn:
        txn.execute("update current_decisions set lane = 'fast_lane'")


def total(result: Result) -> ShadowDay:
    with result.reading() as rows:
        report = shadow_report(rows, REPO)
    assert report is not None
    return report.total


def played(result: Result, frames: Frames, then: Frames) -> ShadowDay:
    """Both pull requests would be fast lane, then something happens to them."""
    take(result, frames)
    wave_through(result)
    assert record_shadow(result.store) == 1
    feed(result, then[len(frames) :])
    result.judge()
    record_shadow(result.store)
    return total(result)


def test_a_newly_watched_repository_is_in_shadow_mode_and_its_rows_say_so(result: Result) -> None:
    take(result, two_open())
    row = result.pull(OFFERED)
    assert row is not None
    assert row.shadow
    assert result.score(MARA, REPO).shadow
    assert result.score(MARA).shadow, "its newest open pull request is there"


def test_shadow_mode_changes_no_decision(result: Result) -> None:
    take(result, two_open())
    columns = "select * exclude (as_of) from current_decisions order by pull_uri"
    before = result.rows(columns)
    switch_shadow(result.store, REPO, False, at(9))
    result.judge()
    assert result.rows(columns) == before
    row = result.pull(OFFERED)
    assert row is not None
    assert not row.shadow


def test_what_would_have_been_fast_lane_is_counted_once_and_without_push_holders(result: Result) -> None:
    take(result, two_open())
    wave_through(result)
    assert record_shadow(result.store) == 1
    assert record_shadow(result.store) == 0
    assert total(result) == ShadowDay(None, 2, 0, 0, 0, 2)


def test_what_only_the_audit_holds_back_would_have_been_fast_lane(result: Result) -> None:
    take(result, two_open())
    drawn = to_json((Reason("audit_drawn", {"odds": 1.0}), Reason("no_trust_path", {})))
    with result.store.write() as txn:
        txn.execute("update current_decisions set reasons = ? where pull_uri = ?", [drawn, OFFERED])
    record_shadow(result.store)
    assert total(result).would == 1


def test_a_merge_of_the_same_round_is_merged_as_sent(result: Result) -> None:
    then = two_open()
    then.status(SEED, OFFERED, "merged")
    assert played(result, two_open(), then) == ShadowDay(None, 2, 1, 0, 0, 1)


def test_a_later_round_is_a_change_also_when_it_is_merged(result: Result) -> None:
    then = two_open()
    then.pull(MARA, "offered", "update", blobs=(BLOB, NEWER))
    then.status(SEED, OFFERED, "merged")
    assert played(result, two_open(), then) == ShadowDay(None, 2, 0, 1, 0, 1)


def test_what_was_closed_or_taken_back_is_closed(result: Result) -> None:
    then = two_open()
    then.status(SEED, OFFERED, "closed")
    then.delete(ANA, "sh.tangled.repo.pull", "other")
    assert played(result, two_open(), then) == ShadowDay(None, 2, 0, 0, 2, 0)


def test_once_shadow_mode_is_off_nothing_new_is_counted_and_what_was_is_followed(result: Result) -> None:
    frames = two_open()
    take(result, frames)
    with result.store.write() as txn:
        txn.execute("update current_decisions set lane = 'fast_lane' where pull_uri = ?", [OFFERED])
    record_shadow(result.store)
    switch_shadow(result.store, REPO, False, at(9))
    result.judge()
    wave_through(result)
    assert record_shadow(result.store) == 0
    frames.status(SEED, OFFERED, "merged")
    feed(result, frames[-1:])
    result.judge()
    record_shadow(result.store)
    assert total(result) == ShadowDay(None, 1, 1, 0, 0, 0)


def test_a_repository_that_nobody_watches_has_no_report(result: Result) -> None:
    feed(result, two_open())
    with result.reading() as rows:
        assert shadow_report(rows, REPO) is None
    with pytest.raises(ValueError, match="no watched repository"):
        switch_shadow(result.store, REPO, False, at(9))


def test_an_older_message_about_the_settings_changes_nothing(result: Result) -> None:
    take(result, two_open())
    assert write_settings(result.store, REPO, replace(DEFAULTS, version=2, shadow=False), at(9))
    assert not write_settings(result.store, REPO, replace(DEFAULTS, version=1), at(10))
    assert not write_settings(result.store, REPO, replace(DEFAULTS, version=2), at(10))
    row = result.pull(OFFERED)
    assert row is not None
    assert not row.shadow


def test_a_push_holder_who_is_no_seed_here_stays_a_push_holder(result: Result) -> None:
    frames = two_open()
    frames.vouch(SEED, MARA)
    take(result, frames)
    trusted = "select structural_trust from trust join contributors using (contributor_id) "
    trusted += "where did = ? and repository_id > 0"
    assert result.value(trusted, [MARA]) > 0.5
    write_settings(result.store, REPO, replace(DEFAULTS, version=1, seeds_removed=(SEED,), seeds_added=(ANA,)), at(9))
    result.judge()
    seeds = "select did from seeds join contributors using (contributor_id) where repository_id > 0"
    assert [row["did"] for row in result.rows(seeds)] == [ANA]
    assert result.value(trusted, [MARA]) is None
    own = result.rows("select pull_uri from current_decisions where own")
    assert [row["pull_uri"] for row in own] == [pull_uri(SEED, "own")]
    ana = result.pull(OTHER)
    assert ana is not None
    assert not ana.own, "an added seed may not push"


def test_the_window_of_a_repository_decides_when_its_merges_count(result: Result) -> None:
    take(result, settled(), at(2) + 5 * DAY)
    labels = "select count(*) from labels"
    assert result.value(labels) == 0
    write_settings(result.store, REPO, replace(DEFAULTS, version=1, window_days=3), at(9))
    result.judge(at(2) + 5 * DAY)
    assert result.value(labels) == 1
    write_settings(result.store, REPO, replace(DEFAULTS, version=2, window_days=30), at(10))
    result.judge(at(2) + 29 * DAY)
    assert result.value(labels) == 0
    with result.store.write() as txn:
        txn.inputs_changed()
    result.judge(at(2) + 30 * DAY + timedelta(seconds=1))
    assert result.value(labels) == 1


def test_other_sensitive_paths_or_another_review_mode_have_open_changes_read_anew(result: Result) -> None:
    take(result, two_open())
    reads = "select count(*) from content_reviews"
    planted = {"pull_uri": OFFERED, "patch_ref": "x", "said": "", "rules": "", "repository_id": 1, "round": 0}
    texts = ("state", "asked", "asked_because", "reviewer", "summary", "flags", "findings", "left_out")
    figures = ("attempts", "failures", "content_risk", "coverage", "high_flags", "dollars")
    row = planted | dict.fromkeys(texts, "") | dict.fromkeys(figures, 0) | {"recommended": False, "begun_clock": at(1)}
    for version, changed in enumerate(({"budget": 0.02}, {"sensitive_paths": ("/db/",)}, {"review": "off"}), 1):
        with result.store.write() as txn:
            txn.upsert("content_reviews", [row])
        write_settings(result.store, REPO, replace(DEFAULTS, version=version, **changed), at(9))
        assert result.value(reads) == (1 if version == 1 else 0)
    assert result.value("select review from watched_repositories") == "off"


def test_a_repositorys_own_patterns_stand_beside_the_operators_and_take_none_of_them_back() -> None:
    default = RepositoryRules(never_fast_paths=("/infra/",))
    rules = rules_under(default, replace(DEFAULTS, tier="sensitive", never_fast_paths=("/db/", "!/infra/")))
    assert rules.tier == "sensitive"
    assert matching_pattern(rules.never_fast_paths, "infra/main.tf") == "/infra/"
    assert matching_pattern(rules.never_fast_paths, "db/one.sql") == "/db/"


def test_a_certificate_for_a_larger_budget_opens_no_lane_under_a_smaller_one() -> None:
    certified = Thresholds(t_high=0.9, certified=True, budget=0.05)
    assert thresholds_under(certified, 0.02) == replace(certified, t_high=None, certified=False, budget=0.02)
    assert thresholds_under(certified, 0.10) == replace(certified, budget=0.10)
    assert thresholds_under(certified, None) is certified
    by_hand = Thresholds(t_high=0.9, budget=0.05)
    assert thresholds_under(by_hand, 0.02).t_high == 0.9


def test_people_are_judged_by_the_budget_of_each_repository_and_by_the_sites_elsewhere(tmp_path: Path) -> None:
    def needed(did: str, repository: str | None = None) -> object:
        reasons = {reason.code: reason.params for reason in result.score(did, repository).verdict.reasons}
        return reasons["fast_lane_shut"]["needed"]

    with opened(tmp_path, UNAUDITED) as result:
        frames = settled()
        frames.vouch(SEED, MARA)
        frames.vouch(SEED, ANA)
        frames.pull(MARA, "next")
        now = at(2) + 20 * DAY
        take(result, frames, now)
        assert needed(MARA, REPO) == needed(MARA) == 59
        write_settings(result.store, REPO, replace(DEFAULTS, version=1, budget=0.02), at(9))
        result.judge(now)
        assert needed(MARA) == 59
        assert {needed(did, REPO) for did in (MARA, ANA)} == {149}, "ana offered nothing there"
        row = result.pull(pull_uri(MARA, "next"))
        assert row is not None
        assert row.lane_start is None
