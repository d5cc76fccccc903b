"""For which changes a closed lane is closed, and what reaches the store of it."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from ingest.erasure.erase import erase
from scoring.handlers.settings import STRUCK, close, reopen
from scoring.pipeline.interventions import ERASED, Closure, closed_because, read_closed_pulls, read_closures
from tests.ingest.erasure.planted import KEY, folders_below
from tests.ingest.stream.frames import ANA, MALLORY, MARA, REPO, SEED, SOURCE, at
from tests.pipeline import Result
from tests.scoring.small import OFFERED, settled, take
from tests.stores import fresh_store

NOW = at(100)
TOLD = {"repo_key": REPO, "author": "", "voucher": "", "because": "a bad one", "person": ANA}
MADE = {"made_at": "2026-11-20T12:00:00+00:00"}


def closure(repository: str = "", author: str = "", voucher: str = "") -> Closure:
    return Closure("key", repository, author, voucher, "a bad one", "ana.test", datetime(2026, 11, 20), "mara.test")


@pytest.mark.parametrize(
    ("closed", "scope"),
    [
        (closure(), "site"),
        (closure(REPO), "repository"),
        (closure(author=MARA), "author"),
        (closure(REPO, MARA), "author"),
        (closure(voucher=ANA), "voucher"),
        (closure(REPO, MARA, ANA), "author"),
        (closure("other"), None),
        (closure(author=ANA), None),
        (closure(voucher=MARA), None),
        (closure("other", MARA), None),
        (closure(REPO, MARA, MALLORY), None),
    ],
)
def test_a_closure_holds_for_what_is_all_that_it_names(closed: Closure, scope: str | None) -> None:
    reason = closed_because([closed], REPO, MARA, {SEED, ANA})
    assert (reason and reason.params["scope"]) == scope
    assert reason is None or (reason.code, reason.params["by"]) == ("lane_closed", "ana.test")


def test_without_a_closure_the_lane_is_open_to_everybody() -> None:
    assert closed_because([], REPO, MARA, {SEED}) is None


@pytest.fixture
def offered(tmp_path: Path) -> Iterator[Result]:
    """Mara offers something; seed vouches for ana and ana for her, mallory vouches too and nobody trusts him."""
    store = fresh_store(tmp_path / "trust.duckdb", key=KEY)
    store.bind(SOURCE)
    result = Result(store, tmp_path)
    frames = settled("open")
    frames.vouch(SEED, ANA)
    frames.vouch(ANA, MARA)
    frames.vouch(MALLORY, MARA)
    take(result, frames, NOW)
    yield result
    store.close()


def scopes(result: Result, now: datetime = NOW) -> list[str]:
    with result.reading() as rows:
        return [one.scope for one in read_closed_pulls(rows, now).get(OFFERED, ())]


def test_a_closure_reaches_whoever_is_trusted_or_vouched_for_through_the_account(offered: Result) -> None:
    for key, voucher in (("1", SEED), ("2", ANA), ("3", MALLORY), ("4", MARA)):
        close(offered.store, key, {**TOLD, **MADE, "repo_key": "", "voucher": voucher}, NOW)
    with offered.reading() as rows:
        held = read_closed_pulls(rows, NOW)[OFFERED]
    assert [one.scope for one in held] == ["voucher"] * 3, "her own account vouches for nobody here"


def test_a_closure_counts_from_when_it_was_known_until_it_is_opened(offered: Result) -> None:
    assert close(offered.store, "1", {**TOLD, **MADE}, NOW)
    assert not close(offered.store, "1", {**TOLD, **MADE, "because": "again"}, NOW), "the message came twice"
    assert scopes(offered) == ["repository"]
    assert scopes(offered, NOW - timedelta(seconds=1)) == []
    opening = {"closure": "1", "because": "mended", "person": ANA, **MADE}
    assert reopen(offered.store, opening, NOW)
    assert not reopen(offered.store, opening, NOW)
    assert scopes(offered) == []


def test_every_decision_is_made_anew_after_either(offered: Result) -> None:
    assert offered.judge(NOW) == 0
    close(offered.store, "1", {**TOLD, **MADE}, NOW)
    assert offered.judge(NOW) > 0
    assert "lane_closed" in offered.value("select reasons from current_decisions")
    reopen(offered.store, {"closure": "1", "because": "mended", "person": ANA, **MADE}, NOW)
    assert offered.judge(NOW) > 0
    assert "lane_closed" not in offered.value("select reasons from current_decisions")


def test_a_repository_that_nobody_knows_is_an_error_and_no_closure_of_everything(offered: Result) -> None:
    with pytest.raises(ValueError, match="no repository"):
        close(offered.store, "1", {**TOLD, **MADE, "repo_key": "nowhere"}, NOW)
    assert scopes(offered) == []


def test_who_closed_it_and_why_is_read_with_it(offered: Result) -> None:
    close(offered.store, "1", {**TOLD, **MADE, "author": MARA, "because": "x" * 600}, NOW)
    with offered.reading() as rows:
        (one,) = read_closures(rows, NOW)
    assert (one.repository, one.author, one.voucher) == (REPO, MARA, "")
    assert one.because == "x" * 500
    assert one.closed_at == datetime(2026, 11, 20, 12)
    assert one.by


def test_a_reason_that_names_somebody_erased_loses_its_words_and_not_its_closure(
    offered: Result, tmp_path: Path
) -> None:
    erase(offered.store, MALLORY, "by_request", NOW, folders_below(tmp_path))
    close(offered.store, "1", {**TOLD, **MADE, "because": MALLORY}, NOW)
    with offered.reading() as rows:
        assert [one.because for one in read_closures(rows, NOW)] == [STRUCK]


def test_erasing_who_closed_it_leaves_it_closed_and_erasing_its_author_takes_it_away(
    offered: Result, tmp_path: Path
) -> None:
    close(offered.store, "1", {**TOLD, **MADE, "person": MALLORY}, NOW)
    close(offered.store, "2", {**TOLD, **MADE, "author": MALLORY}, NOW)
    erase(offered.store, MALLORY, "by_request", NOW, folders_below(tmp_path))
    with offered.reading() as rows:
        assert [(one.key, one.author, one.by) for one in read_closures(rows, NOW)] == [("1", "", ERASED)]
