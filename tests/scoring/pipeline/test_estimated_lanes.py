"""Lanes that maintainers opened on an estimate, as the store keeps and reads them."""

import threading
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from ingest.erasure.erase import erase
from scoring.certificates.lane_counts import Offer, check_offer
from scoring.handlers.settings import STRUCK, end_estimate, open_on_estimate
from scoring.pipeline.lane_thresholds import estimated_lanes, read_openings
from tests.ingest.erasure.planted import KEY, folders_below
from tests.ingest.stream.frames import ANA, MALLORY, REPO, SOURCE, at
from tests.pipeline import Result
from tests.scoring.small import settled, take
from tests.stores import fresh_store

NOW = at(100)
OFFER = Offer(
    threshold=0.60, source="own", cases=40.0, let_through=20.0, bad=1.0, bad_low=0.02, bad_high=0.09, model="m7"
)
TOLD = {"repo_key": REPO, **asdict(OFFER), "person": ANA, "made_at": "2026-11-20T12:00:00+00:00"}
LATER = {"made_at": "2026-11-20T13:00:00+00:00"}
DRAW = f"""
insert into audit_draws by name select pull_uri, round, record_cid, 'x' as patch_id, repository_id, 0.3 as odds,
  true as drawn, timestamp '{NOW}' as drawn_at, now()::timestamp as drawn_clock, true as estimated
from pull_requests limit 1
"""
END = {"opening": "1", "because": "enough", "person": ANA, **LATER}


@pytest.fixture
def offered(tmp_path: Path) -> Iterator[Result]:
    """A store in which mara has an open pull request to the watched repository."""
    store = fresh_store(tmp_path / "trust.duckdb", key=KEY)
    store.bind(SOURCE)
    result = Result(store, tmp_path)
    take(result, settled("open"), NOW)
    yield result
    store.close()


def standing(result: Result, now: datetime = NOW) -> list[str]:
    with result.reading() as rows:
        return [one.key for one in estimated_lanes(rows, now)]


def test_an_opening_stands_from_when_it_was_known_until_it_is_ended(offered: Result) -> None:
    assert open_on_estimate(offered.store, "1", TOLD, NOW)
    assert not open_on_estimate(offered.store, "1", {**TOLD, "threshold": 0.1}, NOW), "the message came twice"
    with offered.reading() as rows:
        (lane,) = estimated_lanes(rows, NOW)
        (opening,) = read_openings(rows, NOW).values()
    assert (lane.repository, lane.offer, lane.opener and lane.opener.did) == (REPO, OFFER, ANA)
    assert (lane.opened_at, opening.since, opening.offer) == (*[datetime(2026, 11, 20, 12)] * 2, OFFER)
    assert standing(offered, NOW - timedelta(seconds=1)) == []
    assert end_estimate(offered.store, END, NOW)
    assert not end_estimate(offered.store, END, NOW)
    assert standing(offered) == []


def test_an_undone_opening_withdraws_the_draws_of_a_pass_that_still_saw_the_lane_open(offered: Result) -> None:
    store = offered.store
    open_on_estimate(store, "1", TOLD, NOW)
    undoing = threading.Thread(target=end_estimate, args=(store, {**END, "undone": True}, NOW))
    with store.whole:  # the pass
        undoing.start()
        undoing.join(0.5)  # without the lock it would have ended by now
        with store.write() as txn:
            txn.execute(DRAW)
    undoing.join()
    assert offered.rows("from audit_draws") == []


def test_the_newest_opening_of_a_repository_stands_whatever_order_they_come_in(offered: Result) -> None:
    open_on_estimate(offered.store, "2", {**TOLD, **LATER}, NOW)
    open_on_estimate(offered.store, "1", TOLD, NOW)
    assert standing(offered) == ["2"]
    end_estimate(offered.store, {**END, "opening": "2"}, NOW)
    assert standing(offered) == [], "the one before does not come back"


def test_an_end_that_comes_before_its_opening_ends_it(offered: Result) -> None:
    end_estimate(offered.store, END, NOW)
    open_on_estimate(offered.store, "1", TOLD, NOW)
    assert standing(offered) == []


def test_every_decision_is_made_anew_after_either(offered: Result) -> None:
    assert offered.judge(NOW) == 0
    open_on_estimate(offered.store, "1", TOLD, NOW)
    assert offered.judge(NOW) > 0
    end_estimate(offered.store, END, NOW)
    assert offered.judge(NOW) > 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"repo_key": "nowhere"},
        {"source": "a friend"},
        {"threshold": float("nan")},
        {"bad_high": 1.0},
        {"bad_low": -0.1},
        {"bad": 21.0},
        {"cases": float("inf")},
        {"made_at": "yesterday"},
        {"model": "m" * 201},
    ],
)
def test_what_cannot_be_understood_opens_nothing(offered: Result, wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        open_on_estimate(offered.store, "1", {**TOLD, **wrong}, NOW)
    assert standing(offered) == []


def test_an_opening_told_by_an_older_web_names_no_model(offered: Result) -> None:
    told = {name: value for name, value in TOLD.items() if name != "model"}
    open_on_estimate(offered.store, "1", told, NOW)
    with offered.reading() as rows:
        assert [one.offer.model for one in estimated_lanes(rows, NOW)] == [""]


def test_an_offer_that_was_made_can_be_opened() -> None:
    check_offer(OFFER)
    assert OFFER.share == 0.5


def test_an_erased_openers_lane_stays_and_words_that_name_them_go(offered: Result, tmp_path: Path) -> None:
    open_on_estimate(offered.store, "1", {**TOLD, "person": MALLORY}, NOW)
    open_on_estimate(offered.store, "2", {**TOLD, **LATER}, NOW)
    end_estimate(offered.store, {**END, "person": MALLORY}, NOW)
    erase(offered.store, MALLORY, "by_request", NOW, folders_below(tmp_path))
    end_estimate(offered.store, {**END, "opening": "2", "because": f"{MALLORY} said so"}, NOW)
    assert offered.rows("select opening_key, actor_id is null as erased from estimated_lanes order by 1") == [
        {"opening_key": "1", "erased": True},
        {"opening_key": "2", "erased": False},
    ]
    assert offered.rows("select actor_id is null as erased, because from estimated_ends order by opening_key") == [
        {"erased": True, "because": "enough"},
        {"erased": False, "because": STRUCK},
    ]
