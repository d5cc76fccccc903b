"""Two people at the same moment, on a real SQLite file: one wins, the other is told so."""

import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from django.core.management import call_command
from django.db import connection, connections
from pytest_django import DjangoDbBlocker

from ingest.worker.runtime import Runtime
from scoring.queries.read import Person as Shown
from scoring.queries.read import Seen, Subject
from tests.conftest import Count
from tests.pipeline import At
from triage.models import Action, Change, OutboxEntry, Person, outbox
from triage.services import actions
from triage.services.actions import Conflict, Late, Wanted
from triage.services.notifying.deliveries import deliver_due

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
SEEN = Seen("bafy", 0, "a" * 64)
URI = "at://did:plc:mara/pull/offered"
AUTHOR = Shown("did:plc:mara", "mara")
SUBJECT = Subject(
    URI, "Mend", "did:plc:repo", "lamp", AUTHOR, "open", SEEN, "main", NOW.replace(tzinfo=None), None, None, 1, 1, 1
)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory, django_db_blocker: DjangoDbBlocker) -> Iterator[Path]:
    """The site's tables in a file of their own; every thread of a test opens it anew, as waitress's threads do."""
    path = tmp_path_factory.mktemp("web") / "web.sqlite3"
    settings = connections.settings["default"]
    before = settings["NAME"]
    with django_db_blocker.unblock():
        settings["NAME"] = str(path)
        in_thread(lambda: call_command("migrate", verbosity=0, interactive=False))
        yield path
        settings["NAME"] = before


def in_thread(*jobs: Callable[[], object]) -> list[object]:
    """Run these at the same moment, each in a thread with a connection of its own; what each returned or raised."""
    answers: list[object] = [None] * len(jobs)
    barrier = threading.Barrier(len(jobs))

    def run(place: int, job: Callable[[], object]) -> None:
        barrier.wait()
        try:
            answers[place] = job()
        except Exception as problem:  # noqa: BLE001  the test says which one it expects
            answers[place] = problem
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run, args=[place, job]) for place, job in enumerate(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


@contextmanager
def clean(people: int) -> Generator[list[Person]]:
    """Nothing done yet, by this many people."""

    def begin() -> list[Person]:
        for model in (Action, Change, OutboxEntry):
            model.objects.all().delete()
        return [Person.objects.get_or_create(did=f"did:plc:person{number}")[0] for number in range(people)]

    (made,) = in_thread(begin)
    assert isinstance(made, list), made
    yield made


def acting(person: Person, kind: str, version: int = 0) -> Callable[[], object]:
    return lambda: actions.act(person, {URI: SUBJECT}, [Wanted(kind, URI, SEEN, version)], NOW)


def test_of_two_who_act_on_one_row_one_wins_and_the_other_is_late(file: Path, count: Count) -> None:
    for _ in range(count(5, 50)):
        with clean(2) as (ana, ben):
            answers = in_thread(acting(ana, "approve"), acting(ben, "pull_for_review"))
            assert sorted(type(answer).__name__ for answer in answers) == ["Conflict", "list"], answers
            (made,) = in_thread(lambda: (Action.objects.count(), OutboxEntry.objects.count()))
            assert made == (1, 1)


def test_what_was_done_is_on_the_drive_before_anybody_is_told_so(file: Path) -> None:
    def how() -> object:
        with connection.cursor() as cursor:
            return cursor.execute("pragma synchronous").fetchone()[0]

    assert in_thread(how) == [2], "1 loses what was done in the seconds before a drive or its power fails"


def test_of_an_undo_and_a_delivery_at_the_same_moment_exactly_one_happens(file: Path, count: Count) -> None:
    for _ in range(count(5, 50)):
        with clean(1) as (ana,):
            meet(ana)


def meet(ana: Person) -> None:
    """An undo in the window's last moment and the delivery that is due then."""
    in_thread(acting(ana, "approve"))
    (key,) = in_thread(lambda: Action.objects.get().key)
    taken: list[str] = []
    undone, _ = in_thread(lambda: actions.undo(ana, str(key), NOW + actions.WINDOW), lambda: deliver(taken))
    assert isinstance(undone, Late) == (taken == [key])
    (is_undone,) = in_thread(lambda: Action.objects.get().undone_at is not None)
    assert is_undone == (taken == [])


def deliver(taken: list[str], now: datetime = NOW + timedelta(seconds=10)) -> None:
    runtime = cast(Runtime, SimpleNamespace(clock=At(NOW.replace(tzinfo=None))))
    deliver_due(runtime, now, {"action": lambda runtime, key, payload: taken.append(key)})


def test_two_undos_at_the_same_moment_are_one(file: Path) -> None:
    with clean(1) as (ana,):
        in_thread(acting(ana, "approve"))
        (key,) = in_thread(lambda: Action.objects.get().key)
        answers = in_thread(*[lambda: actions.undo(ana, str(key), NOW)] * 2)
        assert [type(answer) for answer in answers] == [list, list]
        (left,) = in_thread(lambda: (OutboxEntry.objects.count(), Change.objects.filter(what="action.undone").count()))
        assert left == (0, 1)


def test_a_clock_that_is_set_back_neither_delivers_early_nor_undoes_what_took_effect(file: Path) -> None:
    earlier, taken = NOW - timedelta(hours=1), list[str]()
    with clean(1) as (ana,):
        in_thread(acting(ana, "approve"))
        (key,) = in_thread(lambda: str(Action.objects.get().key))
        in_thread(lambda: deliver(taken, earlier))
        assert taken == []
        in_thread(lambda: deliver(taken))
        assert taken == [key]
        (answer,) = in_thread(lambda: actions.undo(ana, str(key), earlier))
        assert isinstance(answer, Late), answer


def test_a_double_click_is_one_action(file: Path) -> None:
    with clean(1) as (ana,):
        answers = in_thread(acting(ana, "approve"), acting(ana, "approve"))
        assert len([answer for answer in answers if isinstance(answer, Conflict)]) == 1
        (messages,) = in_thread(outbox.next_due)
        assert messages == NOW + timedelta(seconds=10)
