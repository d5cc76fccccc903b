"""Labels follow what may be told publicly: made, renewed, replaced, taken back, erased; their seq only grows."""

from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase as WithinTransactions
from pytest_django import Settings

from ingest.clock import WallClock, wall_now
from ingest.erasure.erase import erase
from ingest.http.fetcher import Fetcher
from ingest.worker import runtime
from scoring.config.repository import Publish, watched_repository
from scoring.handlers.settings import write_settings
from scoring.queries.public_lanes import PUBLIC_LANES, PublicLaneName
from tests.ingest.labels.world import CID, lane, pull_uri, settled
from tests.ingest.stream.frames import MARA, REPO
from tests.pipeline import Result
from tests.scoring.pipeline.offered_world import SECOND, THIRD, offered_world
from tests.scoring.small import OFFERED
from triage import tasks
from triage.models import Label
from triage.services.erasure import forget_account, said_by
from triage.services.publishing.labels import DAY, update_labels
from trustsite.worker.handover import folders_from_settings, make_runtime

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 26, 12)
BEN = "did:plc:" + "b" * 24


def days(count: float) -> timedelta:
    return timedelta(days=count)


def rows() -> list[tuple[str, str, bool]]:
    return list(Label.objects.order_by("seq").values_list("uri", "val", "neg"))


def test_a_label_is_made_once_and_a_normal_lane_and_one_in_shadow_have_none() -> None:
    lanes = [
        lane(pull_uri(1), "fast_lane"),
        lane(pull_uri(2), "normal_queue"),
        lane(pull_uri(3), "needs_human"),
        lane(pull_uri(4), "needs_human", shadow=True),
    ]
    assert update_labels(lanes, NOW) == 2
    assert update_labels(lanes, NOW + days(1)) == 0
    assert rows() == [(pull_uri(1), "fast-lane", False), (pull_uri(3), "needs-human", False)]


def test_a_new_version_is_a_negation_of_the_old_one_and_a_new_label() -> None:
    update_labels([lane(pull_uri(1))], NOW)
    assert update_labels([lane(pull_uri(1), cid="bafynew")], NOW) == 2
    negation, label = Label.objects.order_by("seq")
    assert (negation.cid, negation.neg) == (CID, True)
    assert (label.cid, label.neg) == ("bafynew", False)


def test_the_label_of_an_open_change_is_renewed_before_it_expires_and_that_of_a_decided_one_is_not() -> None:
    open_one, decided = lane(pull_uri(1)), settled(pull_uri(2), "fast_lane", NOW)
    update_labels([open_one, decided], NOW)
    assert update_labels([open_one, decided], NOW + days(19)) == 0
    assert update_labels([open_one, decided], NOW + days(21)) == 1
    renewed = Label.objects.get(uri=pull_uri(1))
    assert renewed.exp == renewed.seq + 30 * DAY
    assert update_labels([open_one, decided], NOW + days(31)) == 0
    assert rows() == [(pull_uri(1), "needs-human", False)]  # the other one expired, and is not made again


def test_what_was_withdrawn_is_labelled_only_where_something_was_told_before() -> None:
    update_labels([lane(pull_uri(1))], NOW)
    withdrawn = [lane(pull_uri(number), "withdrawn", since=NOW) for number in (1, 2)]
    update_labels(withdrawn, NOW + days(1))
    update_labels(withdrawn, NOW + days(2))
    assert rows() == [(pull_uri(1), "needs-human", True), (pull_uri(1), "withdrawn", False)]


def test_what_may_not_be_told_any_more_leaves_its_negation_until_the_label_would_have_expired() -> None:
    update_labels([lane(pull_uri(1))], NOW)
    assert update_labels([], NOW + days(1)) == 1
    assert rows() == [(pull_uri(1), "needs-human", True)]
    assert update_labels([], NOW + days(29)) == 0
    assert rows() == [(pull_uri(1), "needs-human", True)]
    update_labels([], NOW + days(30.1))
    assert rows() == []


def test_an_erased_person_has_no_label_any_more_and_their_negations_stay() -> None:
    of_ben = pull_uri(2, BEN)
    update_labels([lane(pull_uri(1)), lane(of_ben)], NOW)
    assert said_by(MARA)["labels"] == [{"uri": pull_uri(1), "cid": CID, "val": "needs-human", "neg": False}]
    assert forget_account(MARA, None) == 1
    assert rows() == [(of_ben, "needs-human", False), (pull_uri(1), "needs-human", True)]
    assert forget_account(MARA, None) == 0
    update_labels([lane(of_ben)], NOW + days(1))
    assert not Label.objects.filter(uri=pull_uri(1), neg=False).exists()


def test_after_a_restored_backup_and_with_a_clock_that_went_back_numbers_go_on_growing() -> None:
    update_labels([lane(pull_uri(1))], NOW)
    backup = list(Label.objects.all())
    update_labels([lane(pull_uri(1)), lane(pull_uri(2))], NOW + timedelta(seconds=5))
    told = Label.objects.latest("seq").seq
    Label.objects.all().delete()
    Label.objects.bulk_create(backup)
    update_labels([lane(pull_uri(1)), lane(pull_uri(3))], NOW + timedelta(seconds=6))
    assert Label.objects.latest("seq").seq > told
    before = Label.objects.latest("seq").seq
    update_labels([lane(pull_uri(1))], NOW - days(10))
    assert Label.objects.latest("seq").seq > before


def choose(result: Result, publish: Publish) -> None:
    with result.store.read() as found:
        watched = watched_repository(found, REPO)
    assert watched is not None
    chosen = replace(watched.settings, publish=publish, version=watched.settings.version + 1)
    write_settings(result.store, REPO, chosen, datetime(2026, 1, 2))


@pytest.mark.django_db(transaction=True)
def test_the_worker_labels_what_repositories_publish_and_takes_back_what_was_erased_or_switched_off(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "_has_tables", lambda: True)
    settings.LABELER_BIND = "127.0.0.1:1"
    with offered_world(tmp_path) as result, closing(Fetcher()) as fetcher:
        with result.store.write() as txn:
            reasons = '[{"code":"high_flag","params":{}}]'
            txn.execute("update current_decisions set lane = 'needs_human', reasons = ?", [reasons])
        runtime.start(make_runtime(result.store, fetcher, WallClock()))
        tasks.label_lanes.call_local()
        assert rows() == []  # it publishes nothing yet
        choose(result, "delayed")
        tasks.label_lanes.call_local()
        first, second, third = sorted([OFFERED, SECOND, THIRD])
        assert [(uri, neg) for uri, _, neg in rows()] == [(first, False), (second, False), (third, False)]
        result.store.tombstones.key = b"a key of the drive"
        erase(result.store, MARA, "asked", wall_now(), folders_from_settings())
        assert [uri for uri, _, neg in rows() if neg] == [OFFERED]
        assert {uri for uri, _, neg in rows() if not neg} == {SECOND, THIRD}
        tasks.label_lanes.call_local()
        assert len(rows()) == 3
        choose(result, "off")
        tasks.label_lanes.call_local()
        assert [neg for _, _, neg in rows()] == [True, True, True]
        runtime.stop()


LANES = st.lists(
    st.dictionaries(
        st.integers(0, 3),
        st.tuples(st.sampled_from(PUBLIC_LANES), st.sampled_from("abc")),
    ),
    max_size=6,
)


class AnyHistory(WithinTransactions):
    """Whatever happens to lanes, a reader of the stream knows at its end what is in force."""

    @given(LANES)
    def test_whoever_reads_the_whole_stream_has_the_table(
        self, history: list[dict[int, tuple[PublicLaneName, str]]]
    ) -> None:
        read: dict[str, tuple[str, str]] = {}
        newest, moment = 0, NOW
        for step in history:
            moment += timedelta(milliseconds=1)
            update_labels([lane(pull_uri(n), name, cid=cid, since=NOW) for n, (name, cid) in step.items()], moment)
            for label in Label.objects.filter(seq__gt=newest).order_by("seq"):
                newest = label.seq
                if not label.neg:
                    read[label.uri] = (label.val, label.cid)
                elif read.get(label.uri) == (label.val, label.cid):
                    del read[label.uri]
        in_force = Label.objects.filter(neg=False).values_list("uri", "val", "cid")
        assert read == {uri: (val, cid) for uri, val, cid in in_force}
        Label.objects.all().delete()
