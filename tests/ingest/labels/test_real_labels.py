"""Labels are read by the reference's own Subscription and verified by its own code, whatever happens in between."""

import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ingest.labels.keys import rotate_key
from tests.conftest import Count
from tests.ingest.labels.world import CID, ORIGIN, SOURCE, Labeler, Reference, labeler, lane, now, pull_uri
from tests.waiting import wait_for
from triage.models import Label
from triage.services.publishing.labels import update_labels

pytestmark = pytest.mark.django_db(transaction=True)
PROVE_SECONDS = 900.0


@pytest.fixture(scope="module")
def running(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Labeler]:
    with labeler(tmp_path_factory.mktemp("labels")) as started:
        yield started


def test_every_label_is_read_exactly_once_across_a_reconnect_and_kills_of_the_server(
    running: Labeler, peer_modules: Path, count: Count
) -> None:
    many = count(300, 10_000)
    lanes = [lane(pull_uri(number)) for number in range(many)]
    assert update_labels(lanes[: many // 2], now()) == many // 2
    first = Reference(peer_modules, running, 0, many // 2)
    wait_for(lambda: len(first.labels) > many // 8, PROVE_SECONDS)
    os.kill(running.process_id, signal.SIGKILL)
    first.finish(PROVE_SECONDS)
    assert len(first.labels) == many // 2
    second = Reference(peer_modules, running, first.labels[-1]["seq"], many - many // 2)
    wait_for(lambda: second.lines, what="the second reader")
    update_labels(lanes[: 3 * many // 4], now())
    wait_for(lambda: len(second.labels) > many // 8, PROVE_SECONDS)
    os.kill(running.process_id, signal.SIGKILL)
    update_labels(lanes, now())
    second.finish(PROVE_SECONDS)
    labels = first.labels + second.labels
    seqs = [label["seq"] for label in labels]
    assert seqs == sorted(set(seqs))
    assert [label["uri"] for label in labels] == [lane.uri for lane in lanes]
    assert all(label["valid"] for label in labels)
    assert any("reconnect" in line for line in [*first.lines, *second.lines])


def test_the_reference_finds_key_and_service_in_the_document_and_all_fields_in_the_labels(
    running: Labeler, peer_modules: Path
) -> None:
    moment = now()
    update_labels([lane(pull_uri(1))], moment)
    found, label = Reference(peer_modules, running, 0, 1).finish()
    assert found["endpoint"] == ORIGIN
    assert found["key"].startswith("did:key:zDn")  # a key of P-256
    told = {"ver": 1, "src": SOURCE, "uri": pull_uri(1), "cid": CID, "val": "needs-human", "valid": True}
    assert {name: label[name] for name in told} == told
    made, expires = datetime.fromisoformat(label["cts"]), datetime.fromisoformat(label["exp"])
    assert made == moment.replace(tzinfo=UTC)
    assert expires - made == timedelta(days=30)
    assert "neg" not in label


def test_a_change_is_a_negation_and_then_a_new_label_and_the_query_has_what_is_in_force(
    running: Labeler, peer_modules: Path
) -> None:
    update_labels([lane(pull_uri(1)), lane(pull_uri(2))], now())
    reading = Reference(peer_modules, running, 0, 4)
    wait_for(lambda: len(reading.labels) == 2)
    update_labels([lane(pull_uri(1), "fast_lane"), lane(pull_uri(2))], now())
    reading.finish()
    assert [(label["uri"], label["val"], label.get("neg")) for label in reading.labels] == [
        (pull_uri(1), "needs-human", None),
        (pull_uri(2), "needs-human", None),
        (pull_uri(1), "needs-human", True),
        (pull_uri(1), "fast-lane", None),
    ]
    assert all(label["valid"] for label in reading.labels)
    old, _, negation, new = reading.labels
    assert old["cts"] < negation["cts"] < new["cts"]
    assert [label["val"] for label in running.query(pull_uri(1))["labels"]] == ["fast-lane"]


def test_a_label_that_was_changed_after_it_was_signed_is_refused_by_the_reference(
    running: Labeler, peer_modules: Path
) -> None:
    update_labels([lane(pull_uri(1)), lane(pull_uri(2))], now())
    Reference(peer_modules, running, 0, 2).finish()  # which signs them
    Label.objects.filter(uri=pull_uri(1)).update(val="fast-lane")
    _, changed, other = Reference(peer_modules, running, 0, 2).finish()
    assert (changed["val"], changed["valid"], other["valid"]) == ("fast-lane", False, True)


def test_after_a_rotation_old_labels_are_signed_anew_with_the_same_times(running: Labeler, peer_modules: Path) -> None:
    update_labels([lane(pull_uri(number)) for number in range(3)], now())
    before, *old = Reference(peer_modules, running, 0, 3).finish()
    asked = running.query("at://*")["labels"]
    rotate_key(running.key)
    answered = running.query("at://*")["labels"]
    after, *new = Reference(peer_modules, running, 0, 3).finish()
    assert before["key"] != after["key"]
    assert all(label["valid"] for label in [*old, *new])
    assert old == new  # but for the signatures, times among them
    assert all(left.pop("sig") != right.pop("sig") for left, right in zip(asked, answered, strict=True))
    assert asked == answered
    with closing(sqlite3.connect(running.config.database)) as file:
        (signers,) = file.execute("select count(distinct signer) from triage_label").fetchone()
    assert signers == 1


def test_a_cursor_in_the_future_is_refused_and_one_from_before_the_window_is_told_so(
    running: Labeler, peer_modules: Path
) -> None:
    update_labels([lane(pull_uri(1))], now())
    ahead = Label.objects.get().seq + 3_600_000_000
    assert Reference(peer_modules, running, ahead, 1).finish()[1:] == [{"error": "FutureCursor"}]
    _, told, label = Reference(peer_modules, running, 1_000_000, 2).finish()
    assert told["name"] == "OutdatedCursor"
    assert label["uri"] == pull_uri(1)
