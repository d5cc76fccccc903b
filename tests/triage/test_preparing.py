"""Answers about a new snapshot are computed before anybody asks for them."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Queue
from typing import Any, cast

import duckdb
import pytest
from django.test import Client
from pytest_django import Settings

from ingest.store.snapshots import Preparer, Snapshot, SnapshotReader, publish
from scoring.config.policy import policy_from_settings
from scoring.queries import read
from scoring.queries.people import trust
from tests.ingest.stream.frames import MARA, REPO, SEED, Frames
from tests.pipeline import opened
from tests.scoring.small import feed
from tests.triage.worlds.pages_world import DrawnSnapshot, sign_in
from triage import middleware
from triage.http_cache import prepare
from triage.middleware import snapshot_reader

FIRST, SECOND = (cast(Snapshot, replace(DrawnSnapshot(), number=number)) for number in (1, 2))
WAIT = 60  # seconds at most for a thread to be given its turn


@dataclass
class Reader:
    """Serves what it is told to."""

    newest: Snapshot | None = FIRST

    @contextmanager
    def pin(self) -> Generator[Snapshot | None]:
        yield self.newest


def preparer(reader: Reader, then: Callable[[Snapshot], Any]) -> Preparer:
    return Preparer(cast(SnapshotReader, reader), then)


def test_each_snapshot_is_prepared_once_however_many_requests_meet_it() -> None:
    reader, prepared = Reader(), Queue[Snapshot]()
    running = preparer(reader, prepared.put)
    running.start()
    running.tell(FIRST)
    assert prepared.get(timeout=WAIT) is FIRST
    running.tell(FIRST)
    reader.newest = SECOND
    running.tell(SECOND)
    assert prepared.get(timeout=WAIT) is SECOND
    running.stop()
    assert prepared.empty()
    assert not running.is_alive()


def test_a_snapshot_that_cannot_be_read_is_left_to_whoever_asks(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(snapshot: Snapshot) -> None:
        raise duckdb.IOException("the drive is gone")

    preparer(Reader(), refuse).prepare_newest()
    assert "the drive is gone" in caplog.text


def test_before_anything_is_published_there_is_nothing_to_prepare() -> None:
    prepared = Queue[Snapshot]()
    preparer(Reader(None), prepared.put).prepare_newest()
    assert prepared.empty()


@pytest.mark.django_db
@pytest.mark.usefixtures("site")
def test_pages_are_prepared_for_browsers_and_not_for_programs(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Snapshot | None] = []
    monkeypatch.setattr(middleware, "told_of", told.append)
    behind_a_proxy_with_a_password = {"authorization": "Basic YW5hOnNlY3JldA=="}
    for headers, prepares in (
        ({}, True),
        (behind_a_proxy_with_a_password, True),
        ({"authorization": "Bearer sunstead_robot"}, False),
        ({"authorization": "bearer sunstead_robot"}, False),
    ):
        told.clear()
        client.get("/health", headers=headers)
        assert bool(told) is prepares, headers


@pytest.mark.django_db
def test_what_was_prepared_is_not_read_again_by_the_queue_and_a_row(
    client: Client, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.STREAM_CLOCK, settings.SNAPSHOT_DIR = True, tmp_path / "snapshots"
    policy = policy_from_settings()
    sign_in(client, "maintainer", REPO)

    def refuse(*arguments: object) -> None:
        raise AssertionError("this was prepared")

    with opened(tmp_path) as result:
        frames = Frames()
        frames.repository(SEED, repoDid=REPO)
        frames.vouch(SEED, MARA)
        frames.pull(MARA, "pull")
        feed(result, frames)
        result.watch([REPO], [SEED])
        result.judge()
        publish(result.store, settings.SNAPSHOT_DIR)
        with snapshot_reader().pin() as before:
            assert before is not None
            shown = read.explain_trust(before, MARA, REPO, policy)
    trust._graphs.get(SECOND, policy, lambda: cast(Any, None))  # a newer snapshot was read meanwhile
    (_, *rest), view = trust._kept.popitem()
    trust._kept[(0, *rest)] = view  # ty: ignore[invalid-assignment]
    with snapshot_reader().pin() as snapshot:
        assert snapshot is not None
        prepare(snapshot)
        monkeypatch.setattr(trust, "read_graph", refuse)
        monkeypatch.setattr(read, "queue", refuse)
        assert shown is not None
        assert read.explain_trust(snapshot, MARA, REPO, policy) == shown
    assert client.get("/").content.decode().count('class="row"') == 1
