"""One snapshot for a whole request, and a count and a name for each, whatever is asked for."""

import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from django.conf import settings as configured
from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.test import Client, RequestFactory
from prometheus_client import generate_latest
from pytest_django import Settings

from ingest.store import snapshots
from ingest.store.database import Store
from ingest.store.snapshots import publish
from tests.ingest.stream.frames import MARA
from triage import middleware
from triage.access.requests import Request
from triage.measured import MEASURES
from triage.middleware import SnapshotMiddleware

# Closing a response tells Django that the request is over, and Django then looks after its database connections.
pytestmark = pytest.mark.django_db


class CountingReader:
    """Stands where the reader does and counts pins; what is pinned is of no interest here."""

    is_unreadable = False

    def __init__(self) -> None:
        self.taken = 0
        self.held = 0

    @contextmanager
    def pin(self) -> Generator[None]:
        """One pin, held until the block ends."""
        self.taken += 1
        self.held += 1
        try:
            yield None
        finally:
            self.held -= 1


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> CountingReader:
    """The reader that the middleware finds."""
    counting = CountingReader()
    monkeypatch.setattr(middleware, "snapshot_reader", lambda: counting)
    return counting


def answer(view: Callable[[Request], HttpResponseBase], path: str = "/") -> Any:
    """What the middleware makes of a view."""
    return SnapshotMiddleware(cast(Any, view))(cast(Any, RequestFactory().get(path)))


def test_a_request_holds_one_snapshot_until_its_answer_is_rendered(reader: CountingReader) -> None:
    held_meanwhile = []

    def view(request: Request) -> HttpResponse:
        held_meanwhile.append(reader.held)
        return HttpResponse(str(request.snapshot))

    answer(view)
    assert (held_meanwhile, reader.taken, reader.held) == ([1], 1, 0)


def test_a_view_that_fails_lets_go(reader: CountingReader) -> None:
    def view(request: Request) -> HttpResponse:
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError):
        answer(view)
    assert (reader.taken, reader.held) == (1, 0)


@pytest.mark.parametrize("parts_read", [0, 1, 3])
def test_a_streamed_answer_holds_on_until_the_server_closes_it(reader: CountingReader, parts_read: int) -> None:
    response = answer(lambda request: StreamingHttpResponse(str(reader.held) for _ in range(3)))
    assert isinstance(response, StreamingHttpResponse)
    parts = iter(response)
    assert [next(parts) for _ in range(parts_read)] == [b"1"] * parts_read
    assert reader.held == 1
    response.close()
    assert reader.held == 0


def test_a_stream_that_breaks_lets_go(reader: CountingReader) -> None:
    def body() -> Generator[bytes]:
        yield b"first"
        raise RuntimeError("broken")

    response = answer(lambda request: StreamingHttpResponse(body()))
    assert isinstance(response, StreamingHttpResponse)
    with pytest.raises(RuntimeError):
        list(response)
    response.close()
    assert reader.held == 0


def test_static_files_take_no_snapshot(reader: CountingReader) -> None:
    answer(lambda request: HttpResponse(str(request.snapshot)), f"{configured.STATIC_URL}css/missing.css")
    assert reader.taken == 0


def test_a_request_keeps_its_snapshot_while_a_newer_one_is_served_to_others(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "LOOK_SECONDS", 0.0)
    settings.SNAPSHOT_DIR = tmp_path / "snapshots"
    store = Store.open(tmp_path / "trust.duckdb")
    numbers: list[int | None] = []

    def read_number(request: Request) -> HttpResponse:
        assert request.snapshot is not None
        numbers.append(request.snapshot.value("select count(*) from vouches"))
        return HttpResponse(str(request.snapshot.number))

    def outlive(request: Request) -> HttpResponse:
        publish(store, settings.SNAPSHOT_DIR)
        assert answer(read_number).text == "2"
        return read_number(request)

    publish(store, settings.SNAPSHOT_DIR)
    assert answer(outlive).text == "1"
    assert answer(read_number).text == "2"
    assert numbers == [0, 0, 0]
    store.close()


def test_a_process_has_one_reader() -> None:
    assert middleware.snapshot_reader() is middleware.snapshot_reader()


def counted() -> dict[tuple[str, str], float]:
    """Requests by route and status."""
    told = re.findall(r'^sunstead_http_requests_total\{route="(.*?)",status="(.*?)"\} (\S+)', exposed(), re.M)
    return {(route, status): float(value) for route, status, value in told}


def exposed() -> str:
    return generate_latest(MEASURES).decode()


@pytest.mark.parametrize(
    ("path", "route", "status"),
    [
        ("/about", "about", "200"),
        ("/metrics", "get_metrics", "503"),
        ("/health", "get_health", "503"),
        (f"/score/{MARA}", "get_score", "503"),
        ("/nowhere", "none", "404"),
        (f"{configured.STATIC_URL}css/nothing.css", "static", "404"),
        ("/sign-in/made-up", "sign_in_link", "403"),
    ],
)
def test_a_request_is_counted_and_timed_by_the_name_of_its_route(
    client: Client, settings: Settings, path: str, route: str, status: str
) -> None:
    settings.PUBLIC_READ = True
    before = counted().get((route, status), 0.0)
    assert client.get(path).status_code == int(status)
    assert counted()[route, status] == before + 1
    assert f'sunstead_http_request_duration_seconds_bucket{{le="+Inf",route="{route}"}}' in exposed()


def test_whatever_strangers_ask_for_makes_no_new_series(client: Client) -> None:
    client.get("/nowhere")
    before = len(exposed().splitlines())
    for number in range(20):
        client.generic(f"ODD{number}", f"/nowhere/{number}?{MARA}={number}", HTTP_HOST="127.0.0.1")
    assert len(exposed().splitlines()) == before
    assert MARA not in exposed()


def test_each_answer_carries_a_name_of_its_own_and_none_that_came_with_the_request(client: Client) -> None:
    names = {client.get("/about", headers={"x-request-id": "mine"})["X-Request-Id"] for _ in range(3)}
    assert len(names) == 3
    assert all(re.fullmatch(r"[0-9a-f]{16}", name) for name in names)
