"""Mirrors: fetched from a real git server on loopback, kept within bounds, never from where they should not be."""

import json
import os
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ingest.errors import FetchProblem
from ingest.git.mirror import Limits, branch_name, due_mirrors, fetch_mirrors, folder_bytes, mirror_path
from ingest.git.process import _pins
from ingest.http.fetcher import Fetcher
from ingest.lookups.forge import remotes
from ingest.store.database import Store
from tests.ingest.git.git_world import KNOT, LIMITS, OWNER, REPO_DID, Knot, Watching, Work
from tests.ingest.peer import Answer, Peer, Request, Start, make_certificate, response
from tests.waiting import LONG_SECONDS, ends_by_itself


@pytest.fixture(name="work")
def work_fixture(tmp_path: Path) -> Work:
    work = Work(tmp_path / "work")
    work.commit("First", {"sum.py": "one\n"})
    return work


@pytest.fixture(name="knot")
def knot_fixture(work: Work) -> Iterator[Knot]:
    with Knot({REPO_DID: work.folder}) as knot:
        yield knot


@pytest.fixture(name="world")
def world_fixture(store: Store, knot: Knot, tmp_path: Path) -> Watching:
    return Watching(store, Fetcher(knot.origin), tmp_path / "mirrors")


def state(world: Watching) -> tuple[str, str | None]:
    row = world.rows("select state, reason from mirrors")[0]
    return row["state"], row["reason"]


def test_a_mirror_brings_commits_with_the_span_in_which_they_appeared(work: Work, world: Watching) -> None:
    assert world.look() == 1
    first = world.present
    second = work.commit("Second", {"sum.py": "two\n"})
    assert world.look() == 1
    assert world.look() == 0
    assert state(world) == ("fetched", None)
    commits = world.rows("select commit_id, absent_at, appeared_at, subject from commits order by appeared_at")
    assert [(row["subject"], row["absent_at"]) for row in commits] == [("First", None), ("Second", first)]
    assert world.rows("select absent_at from branch_commits where commit_id = ?", second) == [{"absent_at": first}]


def test_the_address_is_the_repositorys_did_and_else_its_owners_and_its_name(
    work: Work, store: Store, tmp_path: Path
) -> None:
    with Knot({f"{OWNER}/sum": work.folder}) as knot:
        world = Watching(store, Fetcher(knot.origin), tmp_path / "mirrors")
        assert world.look() == 1
    assert [asked.split("/info")[0] for asked in knot.asked if "/info" in asked][:2] == [
        f"{KNOT}/{REPO_DID}",
        f"{KNOT}/{OWNER}/sum",
    ]


def test_a_repository_that_the_knot_does_not_have_is_absent(store: Store, tmp_path: Path) -> None:
    with Knot({}) as knot:
        world = Watching(store, Fetcher(knot.origin), tmp_path / "mirrors")
        assert world.look() == 0
    assert state(world)[0] == "absent"


def test_a_mirror_is_due_daily_and_every_ten_minutes_while_something_is_open_and_at_once_after_a_new_round(
    work: Work, world: Watching
) -> None:
    def due(after: timedelta) -> int:
        with world.store.read() as rows:
            return due_mirrors(rows, lambda: world.present + after)

    world.look()
    assert [due(timedelta(hours=23)), due(timedelta(hours=25))] == [0, 1]
    world.offer(work.patch("HEAD"), after=timedelta(minutes=1))
    assert due(timedelta(minutes=1)) == 1
    world.look()
    assert [due(timedelta(minutes=9)), due(timedelta(minutes=11))] == [0, 1]
    with world.store.write() as txn:
        moment = world.present + timedelta(minutes=2)
        row = dict.fromkeys(("old_commit", "new_commit", "committer"))
        pushed = {"knot": KNOT, "repository": REPO_DID, "ref": "refs/heads/main", "happened_at": moment}
        txn.append("ref_updates", [{**row, **pushed}])
    assert due(timedelta(minutes=3)) == 1


def test_a_forced_push_and_a_deleted_branch_keep_what_was_seen(work: Work, world: Watching) -> None:
    gone = work.commit("Gone", {"sum.py": "gone\n"})
    work.git("branch", "other")
    world.look()
    work.git("reset", "-q", "--hard", "HEAD~1")
    work.git("branch", "-q", "-D", "other")
    kept = work.commit("Kept", {"sum.py": "kept\n"})
    assert world.look() == 1
    assert json.loads(world.rows("select read_refs from mirrors")[0]["read_refs"]) == {"main": kept}
    assert world.rows("select count(*) as n from commits where commit_id = ?", gone) == [{"n": 1}]


def test_odd_branch_names_are_read_and_impossible_ones_left_out(work: Work, world: Watching) -> None:
    for name in ("ünï", "a/b", 'qu"ote', "upload-pack=x", "x.y"):
        work.git("branch", name)
    raw = work.folder / ".git" / "packed-refs"
    raw.write_bytes(
        b"# pack-refs with: peeled fully-peeled sorted \n" + work.head().encode() + b" refs/heads/\xff\xfe\n"
    )
    world.look()
    names = set(json.loads(world.rows("select read_refs from mirrors")[0]["read_refs"]))
    assert {"main", "ünï", "a/b", 'qu"ote', "x.y"} <= names
    assert state(world) == ("fetched", None)


@given(some.text(max_size=30))
def test_a_branch_name_is_accepted_only_where_git_accepts_it(name: str) -> None:
    if branch_name(f"refs/heads/{name}") is not None:
        assert not set(name) & set(" ~^:?*[\\\x7f")
        assert ".." not in name
        assert not name.startswith(("-", "/", "."))


def test_what_a_kill_left_is_cleaned_and_the_fetch_done_again(work: Work, world: Watching) -> None:
    world.look()
    path = mirror_path(world.folder, 1)
    (path / "objects" / "pack" / "tmp_pack_x").write_bytes(b"half" * 1000)
    (path / "refs" / "heads" / "main.lock").parent.mkdir(parents=True, exist_ok=True)
    (path / "refs" / "heads" / "main.lock").write_text("")
    (path / "apply-x" / "objects").mkdir(parents=True)
    (path / "apply-x" / "index").write_text("half")
    work.commit("Second", {"sum.py": "two\n"})
    assert world.look() == 1
    assert list(path.glob("**/tmp_*")) == []
    assert not (path / "apply-x").exists()
    (path / "HEAD").unlink()
    assert world.look() == 0
    assert state(world) == ("fetched", None)


def test_the_mirror_of_what_nobody_watches_is_removed(work: Work, world: Watching) -> None:
    world.look()
    (world.folder / "other").mkdir()
    with world.store.write() as txn:
        txn.execute("delete from watched_repositories")
    world.look()
    assert [place.name for place in world.folder.iterdir()] == ["other"]


def test_a_repository_over_the_limit_is_too_large_and_an_older_mirror_stays(
    work: Work, world: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.look()
    monkeypatch.setattr("tests.ingest.git.git_world.LIMITS", Limits(300_000, 10_000_000, LONG_SECONDS))
    work.commit("Large", {"large.bin": os.urandom(3_000_000)})
    assert world.look() == 0
    assert state(world)[0] == "too_large"
    assert folder_bytes(mirror_path(world.folder, 1)) < 300_000
    monkeypatch.setattr("tests.ingest.git.git_world.LIMITS", Limits(10_000_000, 10_000_000, LONG_SECONDS))
    assert world.look() == 1


def test_the_limit_on_all_mirrors_holds(world: Watching, monkeypatch: pytest.MonkeyPatch) -> None:
    (world.folder / "7.git").mkdir(parents=True)
    (world.folder / "7.git" / "pack").write_bytes(b"x" * 5_000_000)
    with world.store.write() as txn:
        txn.append("watched_repositories", [{"repository_id": 7, "review": "off", "watched_at": world.present}])
    monkeypatch.setattr("tests.ingest.git.git_world.LIMITS", Limits(10_000_000, 5_000_000, LONG_SECONDS))
    world.look()
    assert state(world) == ("too_large", "the other mirrors leave no room for this one")


# Hostile servers.
ADVERTISED = response(
    b"001e# service=git-upload-pack\n0000", Content_Type="application/x-git-upload-pack-advertisement"
)


def slow_drip(_: Request) -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-advertisement\r\n\r\n001e# service=git-up"
    while True:
        time.sleep(0.2)
        yield b"0"


def endless_refs(_: Request) -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-advertisement\r\n\r\n"
    yield b"001e# service=git-upload-pack\n0000"
    for number in range(10_000_000):
        line = b"%040x refs/heads/b%08d%s\n" % (number, number, b"\0 agent=x" if not number else b"")
        yield b"".join(b"%04x%s" % (len(line) + 4, line) for _ in range(500))


HOSTILE: dict[str, Callable[[Request], Answer]] = {
    "redirect": lambda _: response(status=302, Location="http://127.0.0.1:1/did/info/refs?service=git-upload-pack"),
    "redirect to a file": lambda _: response(status=301, Location="file:///etc"),
    "password": lambda _: response(status=401, WWW_Authenticate='Basic realm="x"'),
    "error": lambda _: response(b"\x1b[31mno\n" * 1000, status=500),
    "rubbish": lambda _: response(os.urandom(5_000)),
    "nothing more": lambda _: ADVERTISED,
    "drip": slow_drip,
    "endless refs": endless_refs,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_server_ends_in_one_sentence(
    name: str, store: Store, tmp_path: Path, peer: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingest.git.mirror.REFS_SECONDS", 2.0)
    monkeypatch.setattr("ingest.git.mirror.REFS_LIMIT", 300_000)
    server = peer(HOSTILE[name])
    world = Watching(store, Fetcher(server.origin), tmp_path / "mirrors")
    with ends_by_itself():
        assert world.look() == 0
    told, reason = state(world)
    assert told in ("failed", "too_large", "absent")
    assert reason is not None
    assert reason.isprintable()
    assert len(reason) < 400
    assert folder_bytes(world.folder) < 100_000


def test_only_the_checked_address_is_connected_to_and_a_private_one_never(tmp_path: Path) -> None:
    private = Fetcher(resolver=lambda _: ["10.0.0.1"])
    with pytest.raises(FetchProblem, match="not a public address"):
        remotes(private, KNOT, REPO_DID, None, None)
    with pytest.raises(FetchProblem, match="no name"):
        remotes(private, "127.0.0.1", REPO_DID, None, None)
    with pytest.raises(FetchProblem, match="neither"):
        remotes(private, KNOT, None, OWNER, "../../etc")
    public = Fetcher(resolver=lambda _: ["93.184.215.14", "2606:2800:21f::1"])
    (remote,) = remotes(public, KNOT, REPO_DID, None, None)
    assert remote.url == f"https://{KNOT}/{REPO_DID}"
    assert f"http.curloptResolve={KNOT}:443:93.184.215.14,[2606:2800:21f::1]" in _pins(remote)


def test_a_pinned_name_leads_to_the_checked_address_over_tls(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name does not exist: without the pin nothing could be reached. The server's answer shows that it was."""
    certificate = make_certificate(tmp_path, KNOT)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, str(certificate) + ".key")
    with Peer(lambda _: response(status=404), context) as server:
        fetcher = Fetcher(resolver=lambda _: ["93.184.215.14"], route=lambda _, __: ("127.0.0.1", server.port))
        world = Watching(store, fetcher, tmp_path / "mirrors")
        fetch_mirrors(store, fetcher, world.folder, LIMITS, world.now, world.now, authorities=certificate)
        assert state(world)[0] == "absent"
        assert KNOT in server.names
        with store.write() as txn:
            txn.execute("delete from fetches")
        fetch_mirrors(store, fetcher, world.folder, LIMITS, world.now, world.now)
        assert state(world)[0] == "failed"  # a certificate that nobody vouches for


def test_a_closed_fetcher_ends_the_child_and_leaves_the_mirror_due(store: Store, tmp_path: Path, peer: Start) -> None:
    fetcher = Fetcher(peer(slow_drip).origin)
    world = Watching(store, fetcher, tmp_path / "mirrors")
    threading.Timer(0.7, fetcher.close).start()
    with ends_by_itself():  # a fetch may take ten minutes
        world.look()
    assert world.rows("from mirrors") == []
    with store.read() as rows:
        assert due_mirrors(rows, world.now) == 1


def test_no_configuration_hook_or_filter_of_a_repository_runs(work: Work, world: Watching, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    world.look()
    hook = mirror_path(world.folder, 1) / "hooks" / "reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {mark}\n")
    hook.chmod(0o755)
    hidden = {".gitattributes": "*.py -diff\n", ".gitmodules": '[submodule "x"]\n\tpath = x\n\turl = ext::sh\n'}
    work.commit("Hide", {**hidden, "sum.py": "hidden\n"})
    assert world.look() == 1
    assert not mark.exists()
    assert world.rows("select proves from commits where subject = 'Hide'") == [{"proves": True}]
