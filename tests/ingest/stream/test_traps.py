"""The traps at the head of facts/tangled.md, by their numbers.

Four have their tests beside what they are about: 5 and 6 in test_runs.py, 7 also in test_compared.py, 8 in
test_pushes.py, 11 also in test_page_numbers.py.
"""

import json
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

import pytest
from websockets.datastructures import Headers
from websockets.http11 import Request, Response
from websockets.sync.server import ServerConnection, serve

from ingest.http.fetcher import Fetcher
from ingest.store.database import Store
from ingest.stream.inspect import SampleProblem, listen
from ingest.stream.jetstream import Listener, Subscription
from ingest.stream.knots import EventStream
from tests.ingest.git.git_world import REPO_DID, Knot, Place, Work
from tests.ingest.stream.frames import (
    ANA,
    BLOB,
    MALLORY,
    MARA,
    REPO,
    SEED,
    STATUS,
    VOUCH,
    Frames,
    at,
    pull_uri,
    rows,
    take,
)
from tests.waiting import wait_for

ONE = pull_uri(MARA, "3mxf3x7ivft22")
WRITTEN = datetime(2026, 9, 21, 14, 13)


def test_trap_1_a_merge_that_the_author_or_a_stranger_claims_is_no_merge(store: Store) -> None:
    frames = Frames()
    frames.repository(SEED, repoDid=REPO)
    frames.pull(MARA, "3mxf3x7ivft22")
    frames.status(MARA, ONE, "merged")
    frames.status(MALLORY, ONE, "merged")
    take(store, frames)
    assert rows(store, "select state, merged_at, merge_proof from pull_requests") == [("open", None, "unverified")]


def test_trap_2_a_back_written_status_tells_no_moment_of_the_merge(store: Store) -> None:
    """Its key and its createdAt are the pull request's own."""
    frames = Frames()
    frames.repository(SEED, repoDid=REPO)
    frames.pull(MARA, "3mxf3x7ivft22")
    frames.status(SEED, ONE, "merged", "3mxf3x7ivft22")
    frames.commit(SEED, "sh.tangled.repo.issue.state", "3mxf3x7ivft22", issue_state("3mxf3x7ivft22"))
    frames.commit(SEED, "sh.tangled.repo.issue.state", "3mxf3x7ivft23", issue_state("3mxf3x7ivft22"))
    take(store, frames)
    assert rows(store, "select state, merged_at, merge_proof from pull_requests") == [("merged", None, "verified")]
    assert rows(store, "select back_written from statuses") == [(True,)]
    assert rows(store, "select back_written from issue_states order by uri") == [(True,), (False,)]


def issue_state(rkey: str) -> dict[str, str]:
    return {"issue": f"at://{MARA}/sh.tangled.repo.issue/{rkey}", "state": "sh.tangled.repo.issue.state.closed"}


def test_trap_3_an_edit_cannot_change_when_it_was_opened_and_every_version_is_kept(store: Store) -> None:
    frames = Frames()
    frames.pull(MARA, "one", createdAt="2026-09-21T17:13:00+03:00")
    frames.pull(MARA, "one", "update", createdAt="2021-01-01T00:00:00Z")
    take(store, frames)
    assert rows(store, "select opened_at, seen_at, changed_at from pull_requests") == [(WRITTEN, at(0), at(1))]
    assert rows(store, "select count(*) from events where body is not null") == [(2,)]


def test_trap_4_the_offset_of_a_time_leaves_no_trace(store: Store) -> None:
    """It is the web server's: two ways to write one moment give one row."""
    frames = Frames()
    frames.pull(MARA, "one", createdAt="2026-09-21T17:13:00+03:00")
    frames.pull(MARA, "two", createdAt="2026-09-21T14:13:00Z")
    take(store, frames)
    assert rows(store, "select distinct opened_at from pull_requests") == [(WRITTEN,)]


def test_trap_7_all_forms_of_a_pull_request_lead_to_a_patch(store: Store) -> None:
    uri = f"at://{SEED}/sh.tangled.repo/lantern"
    versions = [{"base": "a" * 40, "head": "b" * 40}]
    target = {"repo": REPO, "branch": "main"}
    frames = Frames()
    frames.commit(MARA, "sh.tangled.repo.pull", "1", {"targetRepo": uri, "targetBranch": "main", "patch": "diff"})
    frames.commit(MARA, "sh.tangled.repo.pull", "2", {"target": target, "patchBlob": {"ref": {"$link": BLOB}}})
    frames.pull(MARA, "3")
    frames.commit(MARA, "sh.tangled.repo.pull", "4", {"target": target, "rounds": [], "versions": versions})
    take(store, frames)
    found = rows(
        store, "select record_form, target_branch, split_part(patch_ref, ':', 1) from pull_requests order by all"
    )
    forms = [("flat", "inline"), ("rounds", "blob"), ("target", "blob"), ("versions", "compare")]
    assert found == [(form, "main", kind) for form, kind in forms]


def test_trap_7_the_recorded_pull_requests_of_the_newest_form_name_their_commits(store: Store, shared: Path) -> None:
    lines = (shared / "examples" / "sh.tangled.repo.pull.ndjson").read_text().splitlines()
    frames = Frames()
    for line in map(json.loads, lines):
        did, collection, rkey = line["uri"].removeprefix("at://").split("/")
        frames.commit(did, collection, rkey, line["value"])
    take(store, frames)
    assert rows(store, "select count(*) from pull_requests where patch_ref is null") == [(0,)]
    assert rows(store, "select count(*) > 0 from pull_requests where patch_ref like 'compare:%'") == [(True,)]


def test_trap_9_a_merge_is_found_by_its_change_on_the_branch_it_was_meant_for(store: Store, tmp_path: Path) -> None:
    """The knot commits anew, so that no commit's name is in the mails; real targets are often not the main branch."""
    work = Work(tmp_path / "work")
    work.commit("First", {"lamp.py": "dark\n"})
    work.git("branch", "sv-fe")
    with Knot({REPO_DID: work.folder}) as knot:
        place = Place(store, Fetcher(knot.origin), tmp_path / "mirrors")
        place.folder.mkdir()
        mails = work.offer("HEAD", [("Light", {"lamp.py": "light\n"})])
        pull = place.offer(mails, branch="sv-fe")
        place.look()
        work.git("checkout", "-q", "sv-fe")
        work.commit("Meanwhile", {"b.txt": "b\n"})
        landed = work.am(mails)
        assert landed.encode() not in mails
        assert place.land() == [(pull, "patch_id", True)]
    assert place.rows("select commit_id, branch from landings") == [{"commit_id": landed, "branch": "sv-fe"}]


def test_trap_10_who_is_vouched_for_is_the_record_key_and_a_put_changes_the_mind(store: Store) -> None:
    frames = Frames()
    frames.commit(ANA, VOUCH, MARA, {"subject": MALLORY, "did": MALLORY})  # no kind: a vouch, and a field is no subject
    frames.vouch(ANA, MARA, "update", kind="denounce")
    frames.vouch(ANA, SEED)
    frames.delete(ANA, VOUCH, SEED)
    take(store, frames)
    sql = "select did, kind, superseded_by from vouches join contributors on contributor_id = subject_id"
    sql += " order by event_seq"
    assert rows(store, sql) == [(MARA, "vouch", "put"), (MARA, "denounce", None), (SEED, "vouch", "delete")]


def test_trap_11_a_pull_request_is_known_by_its_at_uri_and_a_number_in_it_is_no_name(store: Store) -> None:
    frames = Frames()
    frames.pull(MARA, "one", pullId=12)
    frames.pull(MARA, "two", pullId=12)
    frames.commit(SEED, STATUS, "s", {"pull": "https://tangled.org/seed/lantern/pulls/12", "status": "merged"})
    take(store, frames)
    uris = [(pull_uri(MARA, "one"),), (pull_uri(MARA, "two"),)]
    assert rows(store, "select pull_uri from pull_requests order by all") == uris
    assert rows(store, "select * from statuses") == []


def listen_for_good(store: Store, url: str) -> Callable[[], object]:
    listener = Listener(store, Subscription("test", [url], [VOUCH]), lambda: None)
    listener.start()
    return listener.stop


def sample(_: Store, url: str) -> Callable[[], object]:
    with suppress(SampleProblem):
        list(listen(url, [VOUCH], 0.5))
    return lambda: None


def read_events(store: Store, url: str) -> Callable[[], object]:
    stream = EventStream(store, Fetcher(), url.removesuffix("/subscribe"), lambda: None)
    stream.start()
    return stream.interrupt


CLIENTS = [listen_for_good, sample, read_events]


@contextmanager
def server(answer: Callable[[Request], Response | None]) -> Generator[tuple[str, list[Request]]]:
    """A WebSocket server that answers so, and what it was asked."""
    asked: list[Request] = []

    def note(_: ServerConnection, request: Request) -> Response | None:
        asked.append(request)
        return answer(request)

    with serve(lambda one: one.close() if one.recv() else None, "127.0.0.1", 0, process_request=note) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        yield f"ws://127.0.0.1:{serving.socket.getsockname()[1]}/subscribe", asked
        serving.shutdown()


@pytest.mark.parametrize("client", CLIENTS)
def test_trap_12_no_stream_is_asked_to_be_compressed(client: Callable[..., Callable[[], object]], store: Store) -> None:
    """Two schemes at once are answered by 400, and one that unfolds without bound would be a bomb."""
    with server(lambda _: None) as (url, asked):
        stop = client(store, url)
        wait_for(lambda: bool(asked))
        stop()
    assert asked
    assert [request.headers.get("Sec-WebSocket-Extensions") for request in asked] == [None] * len(asked)
    assert not [request for request in asked if "compress" in request.path]


@pytest.mark.parametrize("client", CLIENTS)
def test_a_stream_that_redirects_leads_nowhere(client: Callable[..., Callable[[], object]], store: Store) -> None:
    """Else any host of the list could point into the operator's own network."""
    with server(lambda _: None) as (private, reached):
        away = Response(307, "Over there", Headers({"Location": private, "Content-Length": "0"}))
        with server(lambda _: away) as (url, asked):
            stop = client(store, url)
            wait_for(lambda: bool(asked))
            time.sleep(0.5)
            stop()
    assert asked
    assert reached == []
