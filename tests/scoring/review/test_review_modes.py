"""Reviews in a repository that is off, deterministic or claude, and was switched before or meanwhile."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from scoring.review.anthropic_client import Access, Claude
from scoring.review.cache import MemoryLedger
from scoring.review.costs import Call
from scoring.review.payload import Case
from scoring.review.pending import TRIES, Reviewing, review_due
from scoring.review.reviewer import Models, Reviewer
from scoring.review.schema import Review
from scoring.scanners.submission import Knowledge
from scoring.types import Lane
from tests.ingest.stream.frames import MARA, SEED, Frames
from tests.pipeline import Result, by_scanners
from tests.scoring.offered import CLEAN, offer
from tests.scoring.review.reviewing import PRICES, SONNET
from tests.scoring.review.test_review_pulls import LEAK, kept
from tests.scoring.small import OFFERED, again, settled, take

NOBODY_THERE = Reviewer(
    Claude(Access("key", "http://127.0.0.1:9"), lambda seconds: None),
    Models(SONNET, None, None, PRICES),
    b"key",
    MemoryLedger(0.0),
)


class Site:
    """An open pull request of mara's, reviewed by a stand-in that notes who was asked."""

    def __init__(self, result: Result) -> None:
        self.result = result
        self.calls: list[str] = []
        self.learned = 0
        self.reviewing = Reviewing(
            result.policy.thresholds,
            result.folder / "diffs",
            lambda rows, uri: Knowledge(),
            self._review,
            has_key=True,
            budget=1.0,
            learn=self._learn,
        )
        self.during: Callable[[], object] = lambda: None

    def _learn(self, change: object) -> None:
        self.learned += 1
        self.during()

    def _review(self, case: Case, call: Call, unfinished: tuple[str, ...], uri: str) -> Review:
        self.calls.append(str(call))
        if call is Call.CLAUDE:
            return replace(by_scanners(case, call, unfinished, uri), reviewer=SONNET, model=SONNET)
        return NOBODY_THERE.review(case, call, unfinished, uri)

    def turn(self, **changes: object) -> int:
        return review_due(self.result.store, replace(self.reviewing, **changes))

    def switch(self, mode: str) -> None:
        with self.result.store.write() as txn:
            txn.execute("update watched_repositories set review = ?", [mode])
            txn.inputs_changed()

    def codes(self) -> list[str]:
        again(self.result)
        row = self.result.pull(OFFERED)
        assert row is not None
        return [reason.code for reason in row.verdict.reasons]

    def lane(self) -> Lane:
        again(self.result)
        row = self.result.pull(OFFERED)
        assert row is not None
        return row.verdict.lane


@pytest.fixture(name="site")
def site_fixture(result: Result) -> Site:
    take(result, settled("open"))
    offer(result)
    return Site(result)


def test_off_still_has_the_scanners_read_and_gives_no_content_verdict(site: Site) -> None:
    site.switch("off")
    assert [site.turn(), site.turn()] == [1, 0]
    (review,) = kept(site.result)
    assert (review["state"], review["missing"], review["reviewer"]) == (
        "no content verdict",
        "review_off",
        "deterministic",
    )
    assert (site.calls, site.learned) == (["nobody"], 0), "nothing about the change leaves the site"
    assert "no_content_verdict" in site.codes()


def test_off_does_not_hide_what_the_scanners_find(site: Site) -> None:
    site.switch("off")
    offer(site.result, LEAK, ref="blob:two")
    site.turn()
    assert site.lane() is Lane.NEEDS_HUMAN
    assert site.codes()[0] == "high_flag"


def test_a_repository_that_switches_review_off_keeps_its_flags_and_no_verdict(site: Site) -> None:
    offer(site.result, LEAK, ref="blob:two")
    site.switch("claude")
    site.turn()
    site.switch("off")
    assert site.turn() == 0
    assert site.lane() is Lane.NEEDS_HUMAN
    offer(site.result, CLEAN, ref="blob:three")
    site.switch("claude")
    site.turn()
    assert "no_content_verdict" not in site.codes()
    site.switch("off")
    assert "no_content_verdict" in site.codes(), "what was read before opens no lane either"


def test_a_repository_that_is_off_and_not_read_yet_is_judged_all_the_same(site: Site) -> None:
    site.switch("off")
    assert "content_not_reviewed" in site.codes()


def test_review_that_is_switched_off_in_the_middle_of_a_turn_sends_nothing(site: Site) -> None:
    site.switch("claude")
    site.during = lambda: site.switch("off")
    site.turn()
    assert site.calls == ["nobody"]
    with site.result.store.write() as txn:
        txn.execute("delete from content_reviews")
    site.switch("claude")

    def unwatch() -> None:
        with site.result.store.write() as txn:
            txn.execute("delete from watched_repositories")

    site.during = unwatch
    site.turn()
    assert site.calls == ["nobody", "nobody"]


@pytest.mark.parametrize("before", ["off", "deterministic"])
def test_claude_that_is_switched_on_reads_what_is_open(site: Site, before: str) -> None:
    site.switch(before)
    assert [site.turn(), site.turn()] == [1, 0]
    site.switch("claude")
    assert [site.turn(), site.turn()] == [1, 0]
    assert site.calls[-1] == "claude"


def test_a_key_that_is_set_later_has_claude_read_what_is_open(site: Site) -> None:
    site.switch("claude")
    assert [site.turn(has_key=False), site.turn(has_key=False)] == [1, 0]
    assert [site.turn(), site.turn()] == [1, 0]
    assert site.calls == ["deterministic", "claude"]


def test_an_author_who_was_spared_the_reading_and_lost_the_trust_is_read(site: Site) -> None:
    site.switch("claude")
    frames = Frames(settled("open"))
    frames.vouch(SEED, MARA)
    take(site.result, frames)
    trusting = replace(site.result.policy.thresholds, t_high=0.3)
    assert [site.turn(thresholds=trusting), site.turn(thresholds=trusting)] == [1, 0]
    assert kept(site.result)[0]["asked_because"] == "trusted"
    with site.result.store.write() as txn:
        txn.execute("update trust set structural_trust = 0.29")
    assert [site.turn(thresholds=trusting), site.turn(thresholds=trusting)] == [1, 0]
    assert site.calls == ["deterministic", "claude"]


def test_what_the_day_had_no_dollars_for_is_read_once_there_are_some_however_late(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.switch("claude")
    now, spent = site.result.store.wall(), 1.0
    monkeypatch.setattr(site.result.store, "wall", lambda: now)
    for _ in range(9):
        site.turn(spent=lambda: spent)
        now += timedelta(hours=3)
    assert site.calls == ["missing"], "a day without dollars costs no work either"
    assert kept(site.result)[0]["missing"] == "over_budget"
    spent = 0.0
    assert [site.turn(spent=lambda: spent), site.turn(spent=lambda: spent)] == [1, 0]
    assert site.calls == ["missing", "claude"]


def test_a_repository_that_spent_its_share_waits_for_it_and_says_so(site: Site) -> None:
    site.switch("claude")
    number = site.result.value("select repository_id from watched_repositories")
    spent = {number: 0.5}
    share = {"repository_budget": 0.5, "spent_by_repository": lambda: spent}
    assert [site.turn(**share) for _ in range(3)] == [1, 0, 0]
    assert (site.calls, kept(site.result)[0]["missing"]) == (["missing"], "over_repository_budget")
    with site.result.store.write() as txn:
        txn.execute("update content_reviews set reviewed_clock = reviewed_clock - to_hours(2)")
    assert site.turn(**share) == 0, "the site has dollars, the repository has none"
    spent = {number + 1: 0.5}
    assert [site.turn(**share), site.turn(**share)] == [1, 0]
    assert site.calls == ["missing", "claude"]


def test_what_is_read_again_keeps_its_flags_until_the_new_reading_is_there(site: Site) -> None:
    offer(site.result, LEAK, ref="blob:two")
    site.turn()
    assert site.lane() is Lane.NEEDS_HUMAN
    site.switch("claude")
    lanes: list[Lane] = []

    def die(case: Case, call: Call, unfinished: tuple[str, ...], uri: str) -> Review:
        lanes.append(site.lane())
        raise MemoryError

    for _ in range(TRIES):
        with pytest.raises(MemoryError):
            site.turn(review=die)
    assert site.turn(review=die) == 1
    assert lanes == [Lane.NEEDS_HUMAN] * TRIES
    (review,) = kept(site.result)
    assert (review["missing"], review["high_flags"]) == ("review_failed", 1)
    assert site.lane() is Lane.NEEDS_HUMAN
