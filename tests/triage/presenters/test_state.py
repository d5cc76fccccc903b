"""The state of ingest on pages, in JSON and in Prometheus: Live only when all is well, each trouble a sentence."""

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path

import pytest
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families
from pytest_django import Settings

from ingest.worker.status import Status, encode, write_page
from tests.ingest.stream.frames import MARA, SEED
from tests.triage.worlds.acting_site import invited
from tests.triage.worlds.drawn_rows import NOW
from tests.triage.worlds.pages_world import DrawnWorld, draw
from tests.triage.worlds.site import Site
from triage.access.tokens import create_token
from triage.context import TWO_CLOCKS
from triage.models import PublishedRecord, ServiceAccount, outbox
from triage.presenters import text as words
from triage.presenters.queue import freshness
from triage.presenters.text import Freshness

pytestmark = pytest.mark.django_db
FRESH = Freshness("live", "Live, 3 s behind")
PROMETHEUS = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
Beat = Callable[..., None]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, settings: Settings, tmp_path: Path) -> DrawnWorld:
    """A live site whose newest event is three seconds old; its worker never ran."""
    settings.PUBLIC_READ = True
    settings.STREAM_CLOCK = False
    settings.STATUS_PATH = tmp_path / "status.json"
    drawn = DrawnWorld(newest=datetime.now(UTC).replace(tzinfo=None) - timedelta(seconds=3))
    draw(monkeypatch, drawn)
    return drawn


@pytest.fixture
def beat(world: DrawnWorld, settings: Settings) -> Beat:
    """Writes a heartbeat of now, or of `age` seconds ago."""

    def write(age: float = 0.0, **told: object) -> None:
        status = {"written_at": time.time() - age, "free_bytes": 10**10} | told
        write_page(settings.STATUS_PATH, encode(Status(**status)))  # ty: ignore[invalid-argument-type]

    return write


def pill(client: Client, path: str = "/") -> tuple[str, str, list[str]]:
    """Tone, words and sentences of the freshness pill."""
    page = client.get(path).content.decode()
    whole = re.search(r'<span id="freshness" class="freshness (\w+)"[^>]*>(.*?)<button', page, re.S)
    assert whole is not None
    said = [unescape(text) for text in re.findall(r">([^<>]+?)</", whole[2]) if text.strip()]
    return whole[1], said[0] if said else "", said[1:]


def test_it_is_live_while_all_is_well(client: Client, beat: Beat) -> None:
    beat()
    tone, said, _ = pill(client)
    assert tone == "live"
    assert re.match(r"Live, \d s behind", said)


@pytest.mark.parametrize(
    ("told", "tone", "said", "sentence"),
    [
        ({"age": 45.0}, "stopped", "Worker not running", "nothing new comes in"),
        ({"running": False}, "stopped", "Worker not running", "nothing new comes in"),
        (
            {"listener_problem": "wss://a.test/subscribe is not answering (timed out)"},
            "late",
            "Offline: event stream",
            "Can't reach the event stream: wss://a.test/subscribe is not answering (timed out).",
        ),
        (
            {"store_problem": "no", "drive_full": True, "free_bytes": 12_000_000},
            "stopped",
            "Drive full",
            "12 MB left",
        ),
        ({"store_problem": "the store cannot be written (x)"}, "stopped", "Not storing", "cannot be written (x)."),
        ({"publisher_problem": "no room"}, "late", "Not publishing", "cannot be shown: no room."),
        (
            {"backfill_problem": "no backfill host answered"},
            "late",
            "Backfill waits",
            "not read for now: no backfill host",
        ),
        (
            {"event_streams_down": 1, "event_problems": ["knot.test is not answering (timed out)"]},
            "late",
            "Git events missing",
            "Pushes and runs of a knot or spindle do not arrive: knot.test is not answering (timed out). Retrying",
        ),
        (
            {"event_streams_down": 3, "event_problems": ["a.test has no address", "b.test is not answering (x)"]},
            "late",
            "Git events missing",
            "3 knots and spindles do not arrive: a.test has no address; b.test is not answering (x); and others.",
        ),
        ({"failing_hops": ["score_everyone"]}, "late", "Scoring fails", "Retrying automatically"),
        ({"failing_hops": ["new_hop"]}, "late", "A step fails", "A step of the work (new_hop) fails"),
    ],
)
def test_each_trouble_takes_live_away_and_says_one_plain_sentence(
    client: Client, beat: Beat, told: dict[str, object], tone: str, said: str, sentence: str
) -> None:
    beat(**told)
    assert pill(client)[:2] == (tone, said)
    assert any(sentence in each for each in pill(client)[2])
    page = unescape(client.get("/dashboard").content.decode())
    assert f"<strong>Yes.</strong> {said}." in page
    assert f"Something is broken: {said}</a>" in page, "below the title too"
    assert sentence in page


def test_a_worker_that_never_ran_has_not_started_yet(client: Client, world: DrawnWorld) -> None:
    tone, said, sentences = pill(client)
    assert (tone, said) == ("stopped", "Worker has not started yet")
    assert "make run" in sentences[0]


def test_open_gaps_are_told_with_what_else_is_wrong(
    client: Client, world: DrawnWorld, beat: Beat, settings: Settings
) -> None:
    world.gaps_open = 2
    settings.BACKFILL_HOSTS = ["https://relay.test"]
    beat(listener_problem="wss://a.test is not answering (x)")
    tone, said, sentences = pill(client)
    assert (tone, said) == ("late", "Offline: event stream (+1)")
    (missing,) = (sentence for sentence in sentences if "2 gaps in the stream not filled yet" in sentence)
    assert missing.endswith("may be missing here.")
    settings.BACKFILL_HOSTS = []
    assert any("must set BACKFILL_HOSTS" in sentence for sentence in pill(client)[2])


def test_a_slow_clock_of_the_machine_is_told_on_pages_and_to_monitors(client: Client, beat: Beat) -> None:
    beat(clock_behind_minutes=180)
    tone, said, sentences = pill(client)
    assert (tone, said) == ("late", "Clock wrong")
    assert any("all new events are dated 3 hours or more ahead of it" in sentence for sentence in sentences)
    assert client.get("/health").json()["clock_behind_minutes"] == 180


def test_a_gap_says_how_it_came_about() -> None:
    reason = "the cursor was at 2099-12-31 23:59:58, in the future, and was reset to now"
    (trouble,) = freshness.troubles(Status(written_at=1.0), 1.0, 1, recorded=False, gap_reason=reason)
    assert trouble.sentence.endswith(f"may be missing here. The newest: {reason}.")


def test_hosts_that_rest_and_dead_letters_are_told_and_leave_it_live(client: Client, beat: Beat) -> None:
    beat(hosts_left_alone=5, hosts_named=["a.test", "b.test", "c.test", "d.test"])
    tone, said, sentences = pill(client)
    assert (tone, said[:4]) == ("live", "Live")
    assert "5 hosts are paused for a while, slow or over the limit: a.test, b.test, c.test and others." in sentences
    beat(letters_dropped=1_200)
    assert "1,200 more were dropped: DEAD_LETTERS limits how many are kept." in pill(client)[2]
    assert any("7 shapes of records" in sentence for sentence in sentences)


def test_names_and_problems_of_strangers_are_escaped(client: Client, beat: Beat) -> None:
    beat(hosts_left_alone=1, hosts_named=["<script>\u202e"], listener_problem="<img src=x onerror=alert(1)>")
    page = client.get("/dashboard").content.decode()
    assert "<img src=x" not in page
    assert "<script>\u202e" not in page
    assert "⟨U+202E⟩" in page


def test_who_may_not_read_learns_nothing_of_the_worker(client: Client, beat: Beat, settings: Settings) -> None:
    beat(listener_problem="wss://secret.test is not answering")
    settings.PUBLIC_READ = False
    assert "secret.test" not in client.get("/sign-in").content.decode()


def test_an_empty_site_says_whether_a_worker_runs(client: Client, beat: Beat, monkeypatch: pytest.MonkeyPatch) -> None:
    draw(monkeypatch, None)
    page = client.get("/").content.decode()
    assert '<h2 id="ingest-title">Worker has not started yet</h2>' in page, "where the link of the frame leads"
    assert "Nothing is wrong" not in page
    beat(listener_problem="wss://a.test is not answering (x)")
    page = unescape(client.get("/").content.decode())
    assert "Can't reach the event stream: wss://a.test is not answering (x)." in page


def test_a_recording_at_rest_has_no_worker_and_no_trouble(client: Client, site: Site, settings: Settings) -> None:
    settings.PUBLIC_READ = True
    settings.STATUS_PATH = site.folder / "status.json"
    tone, said, sentences = pill(client)
    assert tone == "recorded"
    assert said.startswith("Recording")
    assert sentences == [TWO_CLOCKS]


def test_a_recording_whose_worker_fails_says_so(world: DrawnWorld) -> None:
    status = Status(written_at=100.0, failing_hops=("derive_events",))
    (trouble,) = freshness.troubles(status, 100.0, 3, recorded=True)
    assert trouble.short == "Reading new records fails"
    assert freshness.troubles(status, 200.0, 3, recorded=True) == ()


def test_old_data_stays_old_whatever_the_worker_says() -> None:
    old = words.freshness(NOW - timedelta(hours=1), NOW, recorded=False)
    (trouble,) = freshness.troubles(Status(written_at=1.0, listener_problem="x"), 1.0, 0, recorded=False)
    shown = freshness.with_state(old, [trouble], ["a note"])
    assert (shown.tone, shown.words) == ("stopped", "Offline: event stream")
    assert shown.details[0] == "Out of date, last event 1 hour ago."
    assert shown.details[-1] == "a note"


def test_without_trouble_only_the_details_change() -> None:
    assert freshness.with_state(FRESH, (), ("a note",)) == Freshness("live", "Live, 3 s behind", ("a note",))


def gauges(client: Client) -> dict[str, float]:
    """What Prometheus is told that has no label, and of what has one each value by its label."""
    client.force_login(invited(SEED))
    answer = client.get("/ops/metrics", headers={"accept": PROMETHEUS})
    assert answer.status_code == 200
    assert answer["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    told = text_string_to_metric_families(answer.content.decode())
    return {
        " ".join((sample.name, *sample.labels.values())): sample.value for family in told for sample in family.samples
    }


def test_prometheus_gets_gauges_and_programs_json(client: Client, world: DrawnWorld, beat: Beat) -> None:
    world.gaps_open = 2
    told = {"failing_hops": ["score_everyone"], "hosts_left_alone": 3, "event_streams_down": 2, "letters_dropped": 9}
    newest = time.time() - 5
    beat(cursor_us=int(newest * 1e6), **told)
    shown = gauges(client)
    assert 5 <= shown["sunstead_ingest_lag_seconds"] <= time.time() - newest + 0.1
    assert shown["sunstead_last_event_timestamp_seconds"] == pytest.approx(newest, abs=0.1)
    expected = {"gaps_open": 2, "dead_letters": 0, "unknown_shapes": 7, "hosts_in_backoff": 3, "failing_hops": 1}
    expected |= {"event_streams_down": 2, "dead_letters_dropped": 9}
    assert {name: shown[f"sunstead_{name}"] for name in expected} == expected
    assert shown["sunstead_worker_up"] == shown["sunstead_listener_up"] == 1
    assert "sunstead_snapshot_age_seconds" in shown
    assert {"fast_lane", "would_be_fast_lane", "normal_queue", "needs_human", "own"} == {
        name.split()[1] for name in shown if name.startswith("sunstead_open_pull_requests ")
    }
    assert client.get("/metrics", headers={"accept": PROMETHEUS}).json()["gaps_open"] == 2
    assert client.get("/metrics", headers={"accept": "*/*"}).json()["unknown_shapes"] == 7


def test_gauges_are_there_before_anything_was_published(
    client: Client, world: DrawnWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw(monkeypatch, None)
    shown = gauges(client)
    assert shown["sunstead_worker_up"] == 0.0
    assert "sunstead_snapshot_age_seconds" not in shown
    assert "sunstead_ingest_lag_seconds" not in shown


def test_messages_that_the_worker_has_not_taken_are_counted_once_they_are_due(
    client: Client, world: DrawnWorld
) -> None:
    now = datetime.now(UTC)
    outbox.put("role", "one", {}, now)
    outbox.put("role", "two", {}, now)
    outbox.put("action", "later", {}, now, now + timedelta(hours=1))
    shown = gauges(client)
    assert shown["sunstead_outbox_due role"] == 2
    assert "sunstead_outbox_due action" not in shown


def test_public_records_that_wait_are_counted_by_what_is_to_be_done(client: Client, world: DrawnWorld) -> None:
    assert not any(name.startswith("sunstead_publishing_waiting") for name in gauges(client)), "nothing is published"
    now = datetime.now(UTC)
    ServiceAccount.objects.create(did=MARA, server="https://pds.example.test", connected_at=now)
    for number, record in enumerate([{}, {}, None]):
        row = {"rkey": str(number), "record": record, "waits": True, "changed_at": now, "due_at": now}
        PublishedRecord.objects.create(collection="org.sunstead.assessment", **row)
    shown = gauges(client)
    assert (shown["sunstead_publishing_waiting write"], shown["sunstead_publishing_waiting delete"]) == (2, 1)


def test_gauges_are_for_readers_who_say_who_they_are_also_where_anybody_may_read_pages(
    client: Client, world: DrawnWorld
) -> None:
    refused = client.get("/ops/metrics", headers={"accept": PROMETHEUS})
    assert refused.status_code == 401
    assert refused.json()["code"] == "sign_in_needed"
    forwarded = client.get("/ops/metrics", headers={"x-forwarded-for": "127.0.0.1"}, REMOTE_ADDR="127.0.0.1")
    assert forwarded.status_code == 401
    token = create_token("prometheus", ["read"], datetime.now(UTC))
    assert client.get("/ops/metrics", headers={"authorization": f"Bearer {token}"}).status_code == 200
    other = create_token("forge", ["review"], datetime.now(UTC))
    assert client.get("/ops/metrics", headers={"authorization": f"Bearer {other}"}).status_code == 401


REFUSED = "[Errno 111] Connect call failed ('127.0.0.1', 6009)"


@pytest.mark.parametrize(
    ("problem", "told"),
    [
        (f"relay is not answering ({REFUSED})", "relay is not answering (connection refused)"),
        (f"(Multiple exceptions: {REFUSED}, {REFUSED.replace('127.0.0.1', '::1')})", "(connection refused)"),
        ("x ([Errno -2] Name or service not known)", "x (Name or service not known)"),
        ("the store cannot be written ([Errno 28] No space left)", "the store cannot be written (No space left)"),
        ("the server rejected it: HTTP 503", "the server rejected it: HTTP 503"),
        ("[Errno 99999999] made up", "[Errno 99999999] made up"),
    ],
)
def test_a_cause_is_told_without_the_numbers_of_the_system(problem: str, told: str) -> None:
    assert words.said(problem) == told


def test_no_number_of_the_system_reaches_a_page(client: Client, beat: Beat) -> None:
    beat(listener_problem=f"wss://relay.example is not answering ({REFUSED})")
    said = " ".join(pill(client)[2])
    assert "Can't reach the event stream: wss://relay.example is not answering (connection refused). Retrying" in said
    assert "Errno" not in client.get("/dashboard").content.decode()
