"""`manage.py demo --live` on loopback: who is judged and how, and what is said of whom it cannot judge."""

import gzip
import json
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import override_settings

from ingest.clock import to_microseconds, wall_now
from ingest.errors import FetchProblem
from ingest.http.fetcher import Fetcher
from tests.conftest import Manage
from tests.ingest.stream.frames import CREATED, PULL, REPOSITORY, VOUCH
from tests.peers.network import RealNetwork
from tests.standins.claude import KEY, ClaudeStandIn
from trustsite import drive
from trustsite.demo.live import LiveProblem, Plan, Show, Tell, find_account, judge_live
from trustsite.demo.live_story import Answer, Judged, lines
from trustsite.standins import StandIns
from trustsite.standins.recording import Person, make_recording
from trustsite.world import World, build_world

HOUR_US = 3_600_000_000
LANTERN = "ana.example.test/lantern"
MARAS_SERVER = "garden.example.test"
OURS = ("jetstream", "backfill", "fetch", "look up")  # how the threads of a run are named
PATCH = b"diff --git a/lamp b/lamp\n--- a/lamp\n+++ b/lamp\n@@ -1 +1 @@\n-dark\n+light\n"


@pytest.fixture(scope="module")
def world() -> World:
    """The simulated network, an hour ago: a live run goes by the wall clock."""
    return build_world(end_time_us=to_microseconds(wall_now()) - HOUR_US)


@pytest.fixture(scope="module")
def peers(world: World) -> Iterator[StandIns]:
    with StandIns(world.recording) as network:
        yield network


@contextmanager
def on(origin: str, stream: str, folder: Path) -> Generator[None]:
    """A demo's folder below this one, and a loopback network for the real one."""
    place = drive.demo_place(folder)
    root = place.root
    with override_settings(
        PLACE=place,
        ROOT=root,
        DUCKDB_PATH=root / "duckdb" / "trust.duckdb",
        STAGING_DIR=root / "staging",
        DIFF_CORPUS_DIR=root / "diffs",
        MIRROR_DIR=root / "mirrors",
        STAND_IN_ORIGIN=origin,
        JETSTREAM_URLS=[stream],
    ):
        yield


@pytest.fixture
def loopback(peers: StandIns, tmp_path: Path) -> Iterator[None]:
    """The simulated network, whole again after the test."""
    with on(peers.origin, peers.jetstream_url, tmp_path):
        yield
    peers.peers.fail(MARAS_SERVER, None)


def judge(
    *handles: str,
    repositories: tuple[str, ...] = (),
    seconds: float = 0.0,
    listing: float = 30.0,
    show: Show | None = None,
    tell: Tell = lambda step: None,
) -> Answer:
    """A run in a store that is there already or not; none of its threads outlives it."""
    plan = Plan(handles, repositories, seconds, network_seconds=60.0, first_wait=0.01)
    try:
        return judge_live(plan, tell, show or (lambda passed, events: None))
    finally:
        assert [thread.name for thread in threading.enumerate() if thread.name.startswith(OURS)] == []


@pytest.fixture(scope="module")
def answer(peers: StandIns, tmp_path_factory: pytest.TempPathFactory) -> Answer:
    """Somebody well known, somebody new, nobody at all: as the seeds of lantern see them."""
    with on(peers.origin, peers.jetstream_url, tmp_path_factory.mktemp("live")):
        return judge("mara.example.test", "@Mallory.example.test", "nobody.example.test", repositories=(LANTERN,))


def test_a_contributor_with_a_record_has_a_probability_an_interval_and_a_path(answer: Answer, world: World) -> None:
    mara = answer.contributors[0]
    assert (mara.did, mara.repository) == (world.cast["mara"], "lantern")
    assert mara.probability is not None
    assert mara.low < mara.probability < mara.high
    assert mara.path == ("ana.example.test", "mara.example.test")
    assert mara.reasons
    assert answer.seeds[0] == "ana.example.test"


def test_a_contributor_without_a_record_is_not_enough_evidence_and_never_a_verdict(answer: Answer) -> None:
    mallory = answer.contributors[1]
    assert (mallory.name, mallory.probability, mallory.lane) == ("@Mallory.example.test", None, "normal_queue")
    assert mallory.path == ("ana.example.test", "pim.example.test", "mallory.example.test")
    assert any(line.startswith("@Mallory.example.test") and "no score yet" in line for line in lines(answer))


def test_who_is_unknown_is_named_and_stops_nobody_else(answer: Answer) -> None:
    (failed,) = answer.failed
    assert failed.name == "nobody.example.test"
    assert "Check the spelling" in failed.why
    assert len(answer.contributors) == 2


def test_without_a_key_the_deterministic_reviewer_reads_one_pull_request_and_is_named(answer: Answer) -> None:
    assert answer.review is not None
    assert (answer.review.pull, answer.review.reviewer) == (answer.contributors[1].pull, "deterministic")
    assert any("read by the deterministic reviewer, without a model" in line for line in lines(answer))


def test_what_the_network_says_cannot_move_the_cursor_of_a_terminal() -> None:
    hostile = Judged(
        "mara", "did:plc:x", None, None, 0, 1, 0, 0, (), "at://x", "\x1b[2Jgone", False, "normal_queue", ("\r",)
    )
    told = Answer((hostile,), None, (), (), ("lamp\x1b",), ("\x07",), 0)
    assert all(line.isprintable() for line in lines(told))


@pytest.mark.usefixtures("loopback")
def test_one_whose_data_server_is_dead_is_named_and_claude_reads_one_pull_request_of_the_others(
    peers: StandIns,
) -> None:
    peers.peers.fail(MARAS_SERVER, "close")
    with ClaudeStandIn() as claude, override_settings(ANTHROPIC_API_KEY=KEY, ANTHROPIC_BASE_URL=claude.base_url):
        found = judge("mara.example.test", "mallory.example.test", "pim.example.test", repositories=(LANTERN,))
    assert found.review is not None
    assert found.review.reviewer.startswith("claude-")
    assert len(claude.messages) == 2  # the two passes of one review
    assert [one.name for one in found.contributors] == ["mallory.example.test", "pim.example.test"]
    (failed,) = found.failed
    assert failed.why.startswith("The records of mara.example.test could not be read")
    assert "try later" in failed.why
    assert any("trust may be missing" in note for note in found.notes)


@pytest.mark.usefixtures("loopback")
def test_where_nobody_can_be_judged_it_says_why_of_each(peers: StandIns) -> None:
    peers.peers.fail(MARAS_SERVER, 404)
    with pytest.raises(LiveProblem, match=r"nobody\.example\.test could not .* The records of mara\.example\.test"):
        judge("mara.example.test", "nobody.example.test", repositories=(LANTERN,))


@pytest.mark.usefixtures("loopback")
def test_a_repository_that_nobody_knows_ends_the_run_in_words() -> None:
    with pytest.raises(LiveProblem, match="not among its owner's repositories"):
        judge("pim.example.test", repositories=("ana.example.test/nothing",))


def test_a_handle_that_its_account_does_not_claim_leads_to_nobody() -> None:
    moved = "did:plc:" + "m" * 24
    people = [Person(moved, f"{name}.example.test", "https://pds.example.test", CREATED) for name in ("old", "new")]
    with StandIns(make_recording([], {}, people, [])) as network:
        fetcher = Fetcher(network.origin)
        assert find_account(fetcher, "@New.example.test") == moved
        with pytest.raises(FetchProblem, match="whose own record names new"):
            find_account(fetcher, "old.example.test")
        fetcher.close()


def test_what_the_stream_brings_while_it_listens_counts(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(ahead=0.0, monotonic=lambda: time.monotonic() + clock.ahead)
    monkeypatch.setattr("trustsite.demo.live.time", clock)
    with StandIns(world.recording, hold_after=world.stages[0]) as network:

        def show(passed: float, events: int) -> None:
            """The minute is over with the first event, however long that takes on a busy machine."""
            network.release(None)
            clock.ahead = 60.0 * bool(events)

        with on(network.origin, network.jetstream_url, tmp_path):
            found = judge("pim.example.test", repositories=(LANTERN,), seconds=60.0, show=show)
    assert found.events > 0


@pytest.mark.usefixtures("loopback")
def test_without_a_stream_or_a_repository_the_records_of_those_they_sent_most_to_are_judged_and_both_are_said() -> None:
    told: list[str] = []

    def show(passed: float, events: int) -> None:
        told.append("listened" if passed else "began")

    with override_settings(JETSTREAM_URLS=["ws://127.0.0.1:9/subscribe"]):
        found = judge("sami.example.test", seconds=0.3, show=show, tell=told.append)
    (place,) = [number for number, step in enumerate(told) if step.startswith("Can't reach the event stream: ws://127")]
    assert place < len(told) - 1 - told[::-1].index("listened"), "before the listening is over"
    assert any(note.startswith("The event stream was interrupted") for note in found.notes)
    assert set(found.repositories) == {"driftwood", "lantern", "tidepool"}
    assert any(note.startswith("No repository was named") and "/lantern" in note for note in found.notes)
    (sami,) = found.contributors
    assert sami.path[0] == "ana.example.test"
    assert sami.pull is not None


@pytest.mark.usefixtures("loopback")
def test_the_command_prints_one_object_and_fails_with_whom_it_could_not_judge(peers: StandIns, tmp_path: Path) -> None:
    out, err = StringIO(), StringIO()
    arguments = ["--live", "pim.example.test", "nobody.example.test", "--repo", LANTERN, "--seconds", "0", "--json"]
    with pytest.raises(CommandError, match=r"nobody\.example\.test could not be looked up") as refused:
        call_command("demo", *arguments, stdout=out, stderr=err)
    assert refused.value.returncode == 1
    told = json.loads(out.getvalue())
    assert [one["name"] for one in told["contributors"]] == ["pim.example.test"]
    assert "Reading the records of pim.example.test" in err.getvalue()


def test_nobody_found_is_one_line_on_stderr(manage: Manage, tmp_path: Path) -> None:
    done = manage("demo", "--live", "nobody.example.test", DATA_ROOT=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "run this again" in done.stderr or "Check the spelling" in done.stderr


@pytest.mark.parametrize("arguments", [["--repo", LANTERN], ["--live", "a.example.org", "--seconds", "nan"]])
def test_what_makes_no_sense_is_refused_before_anything_is_asked(arguments: list[str], tmp_path: Path) -> None:
    with on("http://127.0.0.1:9", "ws://127.0.0.1:9", tmp_path), pytest.raises(CommandError):
        call_command("demo", *arguments)


def test_a_contributor_on_a_real_data_server_is_judged_with_what_comes_while_it_listens(
    real_network: RealNetwork, tmp_path: Path
) -> None:
    number = time.time_ns() % 1_000_000_000
    owner, contributor = real_network.join(f"liv{number}"), real_network.join(f"liw{number}")
    repository = owner.create(REPOSITORY, {"name": "lantern", "knot": "knot.example.test", "createdAt": CREATED})
    owner.create(VOUCH, {"kind": "vouch", "createdAt": CREATED}, contributor.did)
    rounds = [{"patchBlob": contributor.upload(gzip.compress(PATCH)), "createdAt": CREATED}]
    target = {"repo": repository, "branch": "main"}
    pulls: list[str] = []

    def show(passed: float, events: int) -> None:
        if not pulls:
            offered = {"title": "Mend the lamp", "createdAt": CREATED, "target": target, "rounds": rounds}
            pulls.append(contributor.create(PULL, offered))

    with on(real_network.origin, real_network.shim.url, tmp_path):
        found = judge(contributor.handle, repositories=(f"{owner.handle}/lantern",), seconds=2.0, show=show)
    (judged,) = found.contributors
    assert (judged.pull, judged.title) == (pulls[0], "Mend the lamp")
    assert judged.path == (owner.handle, contributor.handle)
    assert found.review is not None
    assert found.review.coverage == 1.0
