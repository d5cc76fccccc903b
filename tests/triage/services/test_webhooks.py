"""The webhook tells every change once, nothing sealed, nobody's words, nothing of an erased person; its command."""

import logging
from collections.abc import Iterator
from dataclasses import replace

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings

from ingest.clock import WallClock
from ingest.http.fetcher import Fetcher
from ingest.push.message import read_browser
from ingest.store.database import Store
from ingest.worker import runtime
from scoring.queries.read import LaneState, Standing
from tests.ingest.peer import Start, response
from tests.ingest.push.service import PushService
from tests.ingest.stream.frames import ANA, MARA, REPO
from tests.pipeline import opened
from tests.triage.worlds.small_site import OFFERED, frames_of_it, play
from tests.triage.worlds.webhook_receiver import NOW, killed, receiver_at, said, sent, waiting
from triage import tasks
from triage.models import Delivery, Maintainer, Person, PushSubscription, ToldState
from triage.services.erasure import forget_account, said_by
from triage.services.lane_closures import Scope, close_lane, open_lane
from triage.services.notifying import push, webhooks
from triage.services.notifying.webhooks import (
    Change,
    Event,
    StandingClosure,
    State,
    changes,
    forget,
    note_changes,
    secret_of,
)
from trustsite.worker.handover import make_runtime

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("webhook_key")]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """The small world, in which mara offers one change; nothing here writes to it."""
    with opened(tmp_path_factory.mktemp("webhooks")) as result:
        play(result, frames_of_it())
        yield result.store


def test_the_first_run_only_notes_and_then_every_change_is_sent_once(store: Store, start: Start) -> None:
    peer = start(lambda _: response())
    assert note_changes(store, NOW) == 0
    assert not Delivery.objects.exists()
    ben = Person.objects.create(did="did:plc:" + "3" * 24, handle="ben.example")
    closure, _ = close_lane(ben, Scope(repo_key=REPO, author=MARA), "she is careless", NOW)
    ToldState.objects.filter(kind="lane", key=OFFERED).update(value="needs_human")
    assert note_changes(store, NOW) == 2
    assert note_changes(store, NOW) == 0
    open_lane(ben, closure, "mended", NOW)
    assert note_changes(store, NOW) == 1
    assert sent(receiver_at(peer.origin)) == 3
    assert sent(receiver_at(peer.origin)) == 0
    closed, (name, moved), lifted = said(peer)
    about = {"by": "person", "scope": "author", "repository": REPO}
    assert (closed, lifted) == (("lane.closed", about), ("lane.opened", about))
    assert (name, moved["pull_request"], moved["from"], moved["to"]) == (
        *("lane.changed", OFFERED, "needs_human", "normal_queue"),
    )
    assert moved["address"] == f"https://trust.example/pull/{OFFERED}"
    for request in peer.requests:
        assert [word for word in (b"careless", b"mended", b"ben.example", b"title") if word in request.body] == []


def test_a_kill_before_the_commit_loses_nothing_and_tells_nothing_twice(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    note_changes(store, NOW)
    ToldState.objects.filter(kind="lane", key=OFFERED).update(value="needs_human")
    with monkeypatch.context() as patch:
        patch.setattr(webhooks, "_write", killed)
        with pytest.raises(KeyboardInterrupt):
            note_changes(store, NOW)
    assert not Delivery.objects.exists()
    assert note_changes(store, NOW) == 1
    assert note_changes(store, NOW) == 0


def test_with_no_room_changes_wait_untold_and_are_told_later(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    note_changes(store, NOW)
    ToldState.objects.filter(kind="lane").update(value="needs_human")
    waiting(2)
    monkeypatch.setattr(webhooks, "MOST_WAITING", 2)
    assert note_changes(store, NOW) == 0
    Delivery.objects.first().delete()
    assert note_changes(store, NOW) == 1


def test_an_erased_author_is_in_no_table_of_the_webhook_and_is_told_of_no_more(store: Store) -> None:
    note_changes(store, NOW)
    ToldState.objects.filter(kind="lane").update(value="needs_human")
    note_changes(store, NOW)
    waiting()
    (message,) = said_by(MARA)["webhook_messages"]
    assert f'"pull_request":"{OFFERED}"' in message["body"]
    forget_account(MARA, None)
    assert not ToldState.objects.filter(key__contains=MARA).exists()
    assert [one.key for one in Delivery.objects.all()] == ["msg_0"]


def test_without_a_receiver_nothing_waits_and_a_later_one_begins_anew(store: Store) -> None:
    note_changes(store, NOW)
    waiting()
    forget()
    assert not ToldState.objects.exists()
    assert not Delivery.objects.exists()
    assert note_changes(store, NOW) == 0


def test_the_workers_task_notes_and_sends_and_without_a_receiver_forgets(
    store: Store, start: Start, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer, fetcher = start(lambda _: response()), Fetcher()
    settings.WEBHOOK_URL = peer.origin
    monkeypatch.setattr(tasks, "_has_tables", lambda: True)
    monkeypatch.setattr(tasks, "close_old_connections", lambda: None)  # it is the one of this test's transaction
    runtime.start(make_runtime(store, fetcher, WallClock()))
    try:
        tasks.tell_webhook.call_local()
        ToldState.objects.filter(kind="lane").update(value="needs_human")
        tasks.tell_webhook.call_local()
        assert [name for name, _ in said(peer)] == ["lane.changed"]
        settings.WEBHOOK_URL = ""
        tasks.tell_webhook.call_local()
        assert not ToldState.objects.exists()
    finally:
        runtime.stop()
        fetcher.close()


def test_the_workers_tasks_tell_browsers_without_a_webhook_and_forget_once_nobody_is_told(
    store: Store, start: Start, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.WEBHOOK_URL, settings.PUBLIC_ORIGIN, settings.PUSH_KEY = "", "https://trust.example", "5a" * 32
    monkeypatch.setattr(tasks, "_has_tables", lambda: True)
    monkeypatch.setattr(tasks, "close_old_connections", lambda: None)  # it is the one of this test's transaction
    send, queued = tasks.send_pushes, list[bool]()
    monkeypatch.setattr(tasks, "send_pushes", lambda: queued.append(True))
    ana = Person.objects.create(did=ANA)
    Maintainer.objects.create(person=ana, repo_key=REPO)
    service = PushService(timezone.now())
    form = service.open("phone", push.site_key()).form
    push.subscribe(ana, read_browser(*(form[name] for name in ("endpoint", "p256dh", "auth"))), "A", "UTC", NOW)
    push.choose(ana, push.EVENTS, (0, 0), "UTC", NOW)
    fetcher = Fetcher(start(service.answer).origin)
    runtime.start(make_runtime(store, fetcher, WallClock()))
    try:
        tasks.tell_webhook.call_local()
        assert set(ToldState.objects.values_list("since", flat=True)) == {None}, "what stood before is not told"
        close_lane(ana, Scope(repo_key=REPO), "one went wrong", NOW)
        tasks.tell_webhook.call_local()
        send.call_local()
        assert (queued, service.told) == ([True], [("phone", "The fast lane was closed in 1 place.")])
        PushSubscription.objects.all().delete()
        tasks.tell_webhook.call_local()
        assert not ToldState.objects.exists()
    finally:
        runtime.stop()
        fetcher.close()


def test_the_command_prints_the_secret_sends_a_test_and_lists_what_became_of_messages(
    start: Start,
    settings: Settings,
    webhook_key: str,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    status = [200]
    peer = start(lambda _: response(status=status[0]))
    settings.WEBHOOK_URL = f"{peer.origin}/SECRET-PATH"
    call_command("webhook", "--secret")
    assert capsys.readouterr().out.strip() == secret_of(webhook_key)
    call_command("webhook", "--test")
    assert "accepted it" in capsys.readouterr().out
    assert said(peer) == [("webhook.test", {"address": "https://trust.example"})]
    status[0] = 500
    with pytest.raises(CommandError, match=r"127\.0\.0\.1 answered 500"):
        call_command("webhook", "--test")
    waiting()
    sent(receiver_at(settings.WEBHOOK_URL))
    call_command("webhook")
    assert "lane.changed  waits     1 try; 127.0.0.1 answered 500  msg_0" in capsys.readouterr().out
    assert "SECRET-PATH" not in caplog.text
    settings.WEBHOOK_URL = ""
    with pytest.raises(CommandError, match="WEBHOOK_URL is empty"):
        call_command("webhook", "--test")


URI = "at://did:plc:mara/pull/one"
PULL = Standing(URI, "did:plc:lantern", 0, "normal_queue", False, False, '[{"code":"no_path","params":{}}]')
OPEN, SHUT = LaneState("did:plc:lantern", True, ""), LaneState("did:plc:lantern", False, "lane_alarm")
CLOSURE = StandingClosure("c1", "author", "did:plc:lantern")
EMPTY = State((), ())


def found(told: dict[tuple[str, str], str], state: State) -> list[Change]:
    return list(changes(told, state, lambda uri: f"https://here/{uri}"))


def after(told: dict[tuple[str, str], str], state: State) -> dict[tuple[str, str], str]:
    """What is told once all of it was."""
    kept = dict(told)
    for one in found(told, state):
        kept.pop((one.kind, one.key), None)
        if one.value is not None:
            kept[one.kind, one.key] = one.value
    return kept


def names(told: dict[tuple[str, str], str], state: State) -> list[str]:
    return [one.event.name for one in found(told, state) if one.event]


def test_a_new_pull_request_comes_from_no_lane() -> None:
    (change,) = found({}, State((PULL,), ()))
    assert change.event == Event(
        "lane.changed",
        {
            "pull_request": URI,
            "repository": "did:plc:lantern",
            "round": 1,
            "shadow": False,
            "address": f"https://here/{URI}",
            "from": None,
            "to": "normal_queue",
            "reasons": ["no_path"],
        },
    )


def test_another_lane_is_told_once_and_another_round_in_the_same_lane_is_not() -> None:
    told = after({}, State((PULL,), ()))
    assert names(told, State((replace(PULL, round=1),), ())) == []
    flagged = State((replace(PULL, lane="needs_human"),), ())
    assert names(told, flagged) == ["lane.changed"]
    assert names(after(told, flagged), flagged) == []


def test_what_is_gone_is_forgotten_without_a_word() -> None:
    told = after({}, State((replace(PULL, is_sealed=True),), ()))
    assert names(told, EMPTY) == []
    assert after(told, EMPTY) == {}


def test_a_round_that_the_audit_drew_is_due_once_and_tells_no_reason() -> None:
    sealed = replace(PULL, is_sealed=True, reasons='[{"code":"audit_drawn","params":{}},{"code":"denounced_by_seed"}]')
    events = [one.event for one in found({}, State((sealed,), ())) if one.event]
    assert [one.name for one in events] == ["lane.changed", "audit.due"]
    assert events[0].data["reasons"] == ["audit_drawn"]
    told = after({}, State((sealed,), ()))
    assert names(told, State((sealed,), ())) == []
    assert names(told, State((replace(sealed, round=1),), ())) == ["audit.due"]


def test_the_gates_lane_is_noted_first_and_told_when_it_shuts_and_opens() -> None:
    told = after({}, State((), (OPEN,)))
    assert names({}, State((), (OPEN,))) == []
    (closed,) = found(told, State((), (SHUT,)))
    assert closed.event == Event(
        "lane.closed",
        {"by": "gate", "scope": "repository", "repository": "did:plc:lantern", "reasons": ["lane_alarm"]},
    )
    assert names(after(told, State((), (SHUT,))), State((), (OPEN,))) == ["lane.opened"]


def test_a_closure_by_a_person_tells_what_kind_of_thing_it_is_about_and_not_whom() -> None:
    state = State((), (), closures=(CLOSURE,))
    (closed,) = found({}, state)
    assert closed.event == Event("lane.closed", {"by": "person", "scope": "author", "repository": "did:plc:lantern"})
    told = after({}, state)
    assert names(told, state) == []
    assert names(told, State((), (), reopened=(CLOSURE,))) == ["lane.opened"]
    assert names(told, EMPTY) == [], "one that was erased is not said to be opened"
    assert after(told, EMPTY) == {}


@given(
    st.lists(
        st.builds(
            lambda n, lane, sealed, number: replace(PULL, uri=f"{URI}{n}", lane=lane, is_sealed=sealed, round=number),
            st.integers(0, 3),
            st.sampled_from(["fast_lane", "normal_queue", "needs_human"]),
            st.booleans(),
            st.integers(0, 2),
        ),
        unique_by=lambda one: one.uri,
    ).map(lambda pulls: State(tuple(pulls), (), closures=(CLOSURE,)[: len(pulls) % 2])),
    st.lists(st.sampled_from([EMPTY, State((PULL,), (OPEN,)), State((), (SHUT,), reopened=(CLOSURE,))])),
)
def test_what_was_told_is_never_told_again(state: State, before: list[State]) -> None:
    told: dict[tuple[str, str], str] = {}
    for one in [*before, state]:
        told = after(told, one)
    assert found(told, state) == []


@pytest.mark.parametrize("name", ["title", "handle", "because", "author"])
def test_no_event_has_a_field_for_what_others_wrote(name: str) -> None:
    state = State((replace(PULL, is_sealed=True),), (SHUT,), closures=(CLOSURE,))
    assert all(name not in one.event.data for one in found({("gate", "did:plc:lantern"): "open"}, state) if one.event)
