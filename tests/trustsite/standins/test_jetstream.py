"""The stand-in Jetstream over real sockets: cursors, filters, stages, faults and speed."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosedError, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.standins.load import bulk
from tests.trustsite.standins.recordings import ANA, FIRST_US, MARA, PULL, VOUCH, commit, small
from tests.waiting import LONG_SECONDS, ends_by_itself
from trustsite.standins import StandIns
from trustsite.standins.jetstream import Jetstream
from trustsite.standins.recording import make_recording

OLDEST = "cursor=0"


@pytest.fixture
def jetstream() -> Iterator[Jetstream]:
    with Jetstream(small()) as serving:
        yield serving


def subscribe(jetstream: Jetstream, query: str) -> ClientConnection:
    return connect(f"{jetstream.url}?{query}")


def numbers(client: ClientConnection, count: int) -> list[int]:
    """Numbers of the next frames, and a check that nothing follows them."""
    got = [json.loads(client.recv(LONG_SECONDS))["time_us"] - FIRST_US for _ in range(count)]
    with pytest.raises(TimeoutError):
        client.recv(0.1)
    return got


def test_a_cursor_that_is_too_old_silently_starts_at_the_oldest(jetstream: Jetstream) -> None:
    with subscribe(jetstream, OLDEST) as client:
        assert numbers(client, 8) == list(range(8))


def test_frames_arrive_byte_for_byte(jetstream: Jetstream) -> None:
    with subscribe(jetstream, OLDEST) as client:
        assert [client.recv(LONG_SECONDS, decode=False) for _ in range(8)] == small().frames


def test_a_cursor_is_inclusive(jetstream: Jetstream) -> None:
    with subscribe(jetstream, f"cursor={FIRST_US + 5}") as client:
        assert numbers(client, 3) == [5, 6, 7]


@pytest.mark.parametrize("query", ["", f"cursor={FIRST_US + 10**12}"])
def test_no_cursor_or_one_in_the_future_means_the_live_tail(query: str) -> None:
    with Jetstream(small(), hold_after=6) as jetstream, subscribe(jetstream, query) as client:
        assert numbers(client, 0) == []
        jetstream.release(None)
        assert numbers(client, 2) == [6, 7]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (f"wantedCollections={PULL}", [0, 1, 4, 5, 6, 7]),
        (f"wantedCollections={PULL}&wantedCollections={VOUCH}", [0, 1, 2, 4, 5, 6, 7]),
        ("wantedCollections=sh.tangled.*", [0, 1, 2, 4, 5, 6, 7]),
        ("wantedCollections=sh.tangled.graph.*", [0, 2]),
        ("wantedCollections=com.example.nothing", [0]),
        (f"wantedDids={ANA}", [2]),
        (f"wantedDids={MARA}&wantedCollections={VOUCH}", []),
    ],
)
def test_collections_and_people_are_filtered_and_identity_events_pass(
    jetstream: Jetstream, wanted: str, expected: list[int]
) -> None:
    with subscribe(jetstream, f"{OLDEST}&{wanted}") as client:
        assert numbers(client, len(expected)) == expected


@pytest.mark.parametrize(
    "query",
    [
        "wantedCollections=sh.tang*",
        "wantedCollections=*",
        "wantedCollections=nodots",
        "wantedDids=ana",
        "cursor=yesterday",
        "compress=true",
        "&".join(f"wantedCollections=a.b{number}" for number in range(101)),
    ],
)
def test_a_subscription_that_the_real_server_refuses_gets_400(jetstream: Jetstream, query: str) -> None:
    with pytest.raises(InvalidStatus) as refused:
        subscribe(jetstream, query)
    assert refused.value.response.status_code == 400


def test_another_path_is_404(jetstream: Jetstream) -> None:
    with pytest.raises(InvalidStatus) as refused:
        connect(jetstream.url.replace("subscribe", "elsewhere"))
    assert refused.value.response.status_code == 404


def test_held_frames_go_out_in_stages_to_every_client() -> None:
    with (
        StandIns(small(), hold_after=2) as stand_ins,
        connect(f"{stand_ins.jetstream_url}?{OLDEST}") as one,
        connect(f"{stand_ins.jetstream_url}?{OLDEST}") as two,
    ):
        assert [numbers(one, 2), numbers(two, 2)] == [[0, 1], [0, 1]]
        stand_ins.release(5)
        assert [numbers(one, 3), numbers(two, 3)] == [[2, 3, 4], [2, 3, 4]]
        stand_ins.release(3)
        assert numbers(one, 0) == []
        stand_ins.release(None)
        assert [numbers(one, 3), numbers(two, 3)] == [[5, 6, 7], [5, 6, 7]]


def test_the_socket_stays_open_with_pings() -> None:
    with Jetstream(small(), ping_interval=0.05) as jetstream, subscribe(jetstream, OLDEST) as client:
        assert numbers(client, 8)[-1] == 7
        assert numbers(client, 0) == []
        client.ping().wait(LONG_SECONDS)
        assert jetstream.connections == 1


def test_a_dropped_connection_breaks_without_a_closing_handshake_and_can_come_back(jetstream: Jetstream) -> None:
    with subscribe(jetstream, OLDEST) as client:
        numbers(client, 8)
        jetstream.drop_connections()
        with pytest.raises(ConnectionClosedError):
            client.recv(LONG_SECONDS)
    with subscribe(jetstream, f"cursor={FIRST_US + 7}") as client:
        assert numbers(client, 1) == [7]


def test_a_line_that_is_no_frame_goes_out_as_it_is() -> None:
    lines = [commit(1, MARA, PULL, "1"), b'{"torn', b"\xff\xfe", commit(2, MARA, PULL, "2")]
    with Jetstream(make_recording(lines, {}, (), ())) as jetstream, subscribe(jetstream, OLDEST) as client:
        assert [client.recv(LONG_SECONDS, decode=False) for _ in lines] == lines


def test_frames_of_every_size_are_framed_rightly() -> None:
    lines = [commit(number, MARA, PULL, "1", "x" * size) for number, size in enumerate((0, 60_000, 70_000, 300_000))]
    with Jetstream(make_recording(lines, {}, (), ())) as jetstream, subscribe(jetstream, OLDEST) as client:
        assert [client.recv(LONG_SECONDS, decode=False) for _ in lines] == lines


def test_closing_ends_the_connections() -> None:
    jetstream = Jetstream(small()).start()
    with subscribe(jetstream, "") as client:
        jetstream.close()
        with pytest.raises(ConnectionClosedError):
            client.recv(LONG_SECONDS)


def test_frames_go_out_many_at_a_time_and_none_waits_for_a_timer() -> None:
    recording = bulk(500, 4_000)
    with Jetstream(recording) as jetstream:
        query = f"{OLDEST}&wantedCollections=sh.tangled.*"
        with connect(f"{jetstream.url}?{query}", compression=None) as client, ends_by_itself():
            got: list[Any] = [client.recv(LONG_SECONDS, decode=False) for _ in recording.frames]
    assert got == recording.frames


def test_a_client_that_does_not_read_holds_nobody_else_up_and_loses_nothing() -> None:
    recording = bulk(500, 4_000)
    with Jetstream(recording) as jetstream, subscribe(jetstream, OLDEST) as slow, subscribe(jetstream, OLDEST) as quick:
        assert [quick.recv(LONG_SECONDS, decode=False) for _ in recording.frames] == recording.frames
        assert [slow.recv(LONG_SECONDS, decode=False) for _ in recording.frames] == recording.frames
