"""The webhook against real receivers on loopback: signed, tried again, and never in anybody's way."""

import base64
import hashlib
import hmac
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from pytest_django import Settings

from ingest.errors import FetchProblem
from ingest.http.fetcher import Receiver
from ingest.http.sockets import Leash
from tests.ingest.peer import Answer, Peer, Request, Start, make_certificate, response
from tests.triage.worlds.webhook_receiver import NOW, killed, receiver_at, sent, waiting
from triage.models import Delivery
from triage.services.notifying import sending, webhooks
from triage.services.notifying.webhooks import keep_fresh, secret_of, signature, webhook_notes

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("webhook_key")]


def test_a_receiver_verifies_what_came_by_the_secret_alone(start: Start, webhook_key: str) -> None:
    peer = start(lambda _: response(status=204))
    waiting()
    assert sent(receiver_at(f"{peer.origin}/hooks?a=B")) == 1
    (request,) = peer.requests
    assert (request.method, request.path) == ("POST", "/hooks?a=B")
    assert request.headers["content-type"] == "application/json"
    assert request.headers["webhook-timestamp"] == str(int(NOW.timestamp()))
    key = base64.b64decode(secret_of(webhook_key).removeprefix("whsec_"))
    signed = f"{request.headers['webhook-id']}.{request.headers['webhook-timestamp']}.".encode() + request.body
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    assert request.headers["webhook-signature"] == f"v1,{expected}"


def test_the_signature_is_the_one_of_the_specifications_own_example() -> None:
    secret = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").hex()
    body = b'{"test": 2432232314}'
    expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert signature(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body) == expected


def test_a_kill_between_the_answer_and_its_note_sends_the_same_message_again(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = start(lambda _: response())
    waiting()
    with monkeypatch.context() as patch:
        patch.setattr(sending, "_keep", killed)
        with pytest.raises(KeyboardInterrupt):
            sent(receiver_at(peer.origin))
    assert sent(receiver_at(peer.origin)) == 1
    assert [request.headers["webhook-id"] for request in peer.requests] == ["msg_0", "msg_0"]


def endless(_: Request) -> Iterator[bytes]:
    yield b"HTTP/1.1 200 Said\r\n\r\n"
    while True:
        yield b"x" * 65_536


def dripping(_: Request) -> Iterator[bytes]:
    yield b"HTTP/1.1 200 Said\r\n"
    while True:
        threading.Event().wait(0.02)
        yield b"X: y\r\n"


def flooding(_: Request) -> Iterator[bytes]:
    yield b"HTTP/1.1 200 Said\r\nX: "
    while True:
        yield b"x" * 65_536


def test_a_receiver_that_refuses_to_be_connected_to_is_not_said_to_be_slow() -> None:
    with socket.socket() as held:  # bound and not listening
        held.bind(("127.0.0.1", 0))
        with pytest.raises(FetchProblem, match=r"127\.0\.0\.1 could not be connected to"):
            receiver_at(f"http://127.0.0.1:{held.getsockname()[1]}/").post(b"{}", {})


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (lambda _: response(status=500), "127.0.0.1 answered 500"),
        (lambda _: response(status=302, Location="https://169.254.169.254/"), "127.0.0.1 answered 302"),
        (lambda _: b"nonsense\r\n\r\n", "broke"),
        (dripping, "took too long"),
        (flooding, "endless headers"),
    ],
)
def test_what_a_receiver_does_not_take_waits_for_another_try(
    start: Start, answer: Callable[[Request], Answer], problem: str
) -> None:
    peer = start(answer)
    waiting()
    assert sent(receiver_at(peer.origin, seconds=0.5)) == 0
    (left,) = Delivery.objects.all()
    assert problem in left.problem
    assert (left.tries, left.due_at) == (1, NOW + timedelta(minutes=1))
    assert len(peer.requests) == 1, "no redirect is followed, and nothing is sent twice in one try"


def test_an_endless_answer_is_taken_by_its_status_and_not_read(start: Start) -> None:
    waiting()
    assert sent(receiver_at(start(endless).origin)) == 1


def test_a_receiver_that_is_down_is_left_after_three_tries_and_every_message_comes_later(start: Start) -> None:
    down = [True]
    peer = start(lambda _: response(status=503 if down[0] else 200, Retry_After="7200"))
    waiting(5)
    assert sent(receiver_at(peer.origin)) == 0
    assert len(peer.requests) == webhooks.FAILURES
    assert Delivery.objects.filter(due_at=NOW + timedelta(hours=2)).count() == 3
    down[0] = False
    assert sent(receiver_at(peer.origin), NOW + timedelta(minutes=1)) == 2
    assert sent(receiver_at(peer.origin), NOW + timedelta(hours=2)) == 3


def test_a_run_that_lasted_long_enough_begins_no_further_try(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    peer = start(lambda _: response())
    waiting(3)
    monkeypatch.setattr(sending, "RUN_SECONDS", 0.0)
    assert sent(receiver_at(peer.origin)) == 0
    assert peer.requests == []


def test_after_a_day_a_message_is_given_up_and_whoever_looks_is_told(start: Start, settings: Settings) -> None:
    peer, now = start(lambda _: response(status=500)), NOW
    settings.WEBHOOK_URL = peer.origin
    waiting()
    while (left := Delivery.objects.get()).due_at is not None:
        now = left.due_at
        sent(receiver_at(peer.origin), now)
        if left.tries == 3:
            assert "is not taking messages: 1 " in webhook_notes(now)[0]
    assert now == NOW + timedelta(hours=24) == left.given_up_at
    assert 6 <= len(peer.requests) <= 10
    assert "were given up" in webhook_notes(now)[0]
    sent(receiver_at(peer.origin), now + timedelta(days=8))
    assert not Delivery.objects.exists()
    assert webhook_notes(now) == ()


def test_after_a_restore_what_waited_is_sent_under_the_id_that_it_had_and_what_is_old_is_not(start: Start) -> None:
    peer = start(lambda _: response())
    waiting(2)
    Delivery.objects.filter(key="msg_1").update(made_at=NOW - timedelta(hours=25))
    backup = list(Delivery.objects.values())
    assert sent(receiver_at(peer.origin)) == 2
    Delivery.objects.all().delete()
    Delivery.objects.bulk_create(Delivery(**row) for row in backup)
    assert keep_fresh(NOW) == (1, 1)
    assert sent(receiver_at(peer.origin)) == 1
    assert [request.headers["webhook-id"] for request in peer.requests] == ["msg_0", "msg_1", "msg_0"]
    assert peer.requests[0].body == peer.requests[2].body
    left = Delivery.objects.get(key="msg_1")
    assert (left.due_at, left.given_up_at, left.problem.startswith("older than a day")) == (None, NOW, True)


def test_a_worker_that_stops_ends_the_try_at_once_and_does_not_count_it(start: Start) -> None:
    closed = threading.Event()

    def stop(_: Request) -> Answer:
        closed.set()
        return dripping(_)

    peer = start(stop)
    waiting()
    assert sent(Receiver(peer.origin, lambda wanted: Leash(wanted, closed))) == 0
    assert Delivery.objects.get().tries == 0


def test_a_certificate_for_another_name_is_refused(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path, "hooks.example.test")
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(certificate, str(certificate) + ".key")
    with Peer(lambda _: response(), serving) as peer:
        for name, known, is_taken in (
            ("hooks.example.test", True, True),
            ("other.example.test", True, False),
            ("hooks.example.test", False, False),
        ):
            context = ssl.create_default_context(cafile=str(certificate) if known else None)
            there = receiver_at(f"https://{name}:{peer.port}/", resolver=lambda _: ["127.0.0.1"], context=context)
            if is_taken:
                assert there.post(b"{}", {}).is_taken
            else:
                with pytest.raises(FetchProblem, match="no valid certificate"):
                    there.post(b"{}", {})
        assert len(peer.requests) == 1


@pytest.mark.parametrize(
    "url", ["http://hooks.example/", "http://127.0.0.1/", "ftp://a.b/", "https://a.b/\r\nX: y", "https://u:p@a.b/"]
)
def test_nothing_but_https_and_this_machine_is_a_receiver(url: str) -> None:
    with pytest.raises(ValueError, match="a receiver is"):
        receiver_at(url)
