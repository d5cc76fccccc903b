"""Real git repositories that tests make, and the server that knots are: `git http-backend` behind HTTP on loopback."""

import os
import shutil
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from ingest.git.apply_check import compare_with_git
from ingest.git.followups import mine_followups
from ingest.git.history import read_history
from ingest.git.landings import find_landings
from ingest.git.mirror import Limits, fetch_mirrors
from ingest.git.patch import read_patch, store_patch
from ingest.http.fetcher import Fetcher
from ingest.store.database import Store
from tests.waiting import LONG_SECONDS

GIT = shutil.which("git") or "git"
DAY_ONE = datetime(2026, 3, 1, 12)
KNOT, REPO_DID, OWNER = "knot.example.test", "did:plc:repo2222222222222222222a", "did:plc:owner222222222222222222a"
LIMITS = Limits(mirror_bytes=50_000_000, mirrors_bytes=200_000_000, seconds=LONG_SECONDS)
HOUR = timedelta(hours=1)
TEXT = "".join(f"line {number}\n" for number in range(30))  # what both files of the repository begin with
NEW = TEXT.replace("line 9\n", "line 9\n    alpha\n    beta = 1\n    gamma\n")
Files = dict[str, str | bytes | None]


@dataclass
class Work:
    """A working copy of the repository that a knot serves from its own folder."""

    folder: Path
    clock: datetime = DAY_ONE
    zone: tzinfo = UTC

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        if not (self.folder / ".git").exists():
            self.git("init", "-q", "-b", "main")

    def git(self, *arguments: str, given: bytes | None = None) -> str:
        moment = self.clock.replace(tzinfo=UTC).astimezone(self.zone).isoformat()
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": "Ana",
            "GIT_AUTHOR_EMAIL": "ana@example.test",
            "GIT_COMMITTER_NAME": "Knot",
            "GIT_COMMITTER_EMAIL": "knot@example.test",
            "GIT_AUTHOR_DATE": moment,
            "GIT_COMMITTER_DATE": moment,
        }
        done = subprocess.run(
            [GIT, *arguments], cwd=self.folder, env=environment, input=given, capture_output=True, check=False
        )
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done.stdout.decode("utf-8", "surrogateescape").strip()

    def write(self, files: Mapping[str, str | bytes | None]) -> None:
        for name, content in files.items():
            place = self.folder / name
            if content is None:
                place.unlink()
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content.encode() if isinstance(content, str) else content)

    def commit(self, message: str, files: Mapping[str, str | bytes | None] | None = None) -> str:
        self.write(files or {})
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.head()

    def head(self) -> str:
        """The commit in hand, read as git keeps it: a process less for each commit."""
        head = (self.folder / ".git" / "HEAD").read_text().strip()
        return (self.folder / ".git" / head[5:]).read_text().strip() if head.startswith("ref: ") else head

    def lines(self, name: str) -> list[str]:
        return (self.folder / name).read_text().splitlines()

    def patch(self, start: str = "HEAD~1", *options: str) -> bytes:
        """The commits since `start` as `git format-patch` mails them."""
        return (
            self.git("format-patch", "--stdout", *options, f"{start}..HEAD").encode("utf-8", "surrogateescape") + b"\n"
        )

    def offer(self, base: str, changes: Sequence[tuple[str, Mapping[str, str | bytes | None]]]) -> bytes:
        """A series on a branch of a fork: made and mailed, and not here afterwards."""
        base = self.head() if base == "HEAD" else self.git("rev-parse", base)
        self.git("checkout", "-q", "--detach", base)
        for message, files in changes:
            self.commit(message, files)
        mails = self.patch(base)
        self.git("checkout", "-q", "main")
        return mails

    def propose(self, base: str, changes: Sequence[tuple[str, Mapping[str, str | bytes | None]]]) -> tuple[str, str]:
        """Commits that no branch has, as knots keep the head of a round: the commit before them, and the last."""
        base = self.git("rev-parse", base)
        self.git("checkout", "-q", "--detach", base)
        for message, files in changes:
            self.commit(message, files)
        head = self.head()
        self.git("checkout", "-q", "main")
        return base, head

    def am(self, mails: bytes) -> str:
        """Take a series as knots do."""
        self.git("am", "-q", given=mails)
        return self.head()


@dataclass
class Knot:
    """Serves repositories by the first part of the path; keeps what was asked for."""

    repositories: Mapping[str, Path]
    asked: list[str] = field(default_factory=list)

    def __enter__(self) -> Self:
        knot = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                knot.answer(self)

            def do_POST(self) -> None:
                knot.answer(self)

            def log_message(self, format: str, *args: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # ty: ignore[invalid-assignment]  # a client that went away
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        path, _, query = request.path.partition("?")
        self.asked.append(f"{request.headers.get('Host')}{request.path}")
        name = next((name for name in self.repositories if path.startswith(f"/{name}/")), None)
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        if name is None:
            request.send_response(404)
            request.send_header("Content-Length", "0")
            request.end_headers()
            return
        environment = {
            "PATH": os.environ["PATH"],
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_PROJECT_ROOT": str(self.repositories[name]),
            "PATH_INFO": path.removeprefix(f"/{name}"),
            "QUERY_STRING": query,
            "REQUEST_METHOD": request.command,
            "CONTENT_TYPE": request.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": request.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": request.headers.get("Git-Protocol", ""),
            "REMOTE_ADDR": "127.0.0.1",
        }
        done = subprocess.run([GIT, "http-backend"], env=environment, input=body, capture_output=True, check=False)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        request.send_response(200)
        for line in head.decode().split("\r\n"):
            header, _, value = line.partition(": ")
            if header and header != "Status":
                request.send_header(header, value)
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        request.wfile.write(content)


@dataclass
class Watching:
    """A store that watches one repository, and the hand-turned clock by which it looks at its mirror."""

    store: Store
    fetcher: Fetcher
    folder: Path
    present: datetime = DAY_ONE + timedelta(days=1)
    number: int = 1
    offered: int = 0

    def __post_init__(self) -> None:
        with self.store.write() as txn:
            self.owner = txn.person_ids([OWNER], self.present)[OWNER]
            if txn.value("select count(*) from watched_repositories where repository_id = ?", [self.number]):
                return  # a copy of a store that watches it already
            row = dict.fromkeys(("spindle", "written_at", "seen_at", "deleted_at"))
            own = {"repo_key": REPO_DID, "repository_id": self.number, "owner_id": self.owner, "rkey": "sum"}
            txn.append("repositories", [{**row, **own, "name": "sum", "knot": KNOT}])
            watched = {"repository_id": self.number, "review": "off", "watched_at": self.present}
            txn.append("watched_repositories", [watched])

    def now(self) -> datetime:
        return self.present

    def look(self, after: timedelta = HOUR) -> int:
        """Fetch the mirror an hour later and read what is new; returns how many commits are."""
        self.present += after
        with self.store.write() as txn:
            txn.execute("delete from fetches")
        fetch_mirrors(self.store, self.fetcher, self.folder, LIMITS, self.now, self.now)
        return read_history(self.store, self.fetcher, self.folder, self.now)

    def offer(
        self,
        patch: bytes,
        did: str = "did:plc:ana22222222222222222222a",
        *,
        branch: str | None = "main",
        title: str = "A change",
        witnessed: bool = True,
        after: timedelta = HOUR,
    ) -> str:
        """A pull request with this patch, seen an hour later; its at-uri."""
        self.present += after
        self.offered += 1
        uri = f"at://{did}/pull/{self.offered}"
        with self.store.write() as txn:
            author = txn.person_ids([did], self.present)[did]
            txn.append("pull_requests", [_pull_row(uri, author, self, branch, title)])
        self.revise(uri, patch, 0, witnessed=witnessed)
        return uri

    def revise(self, uri: str, patch: bytes, number: int, *, witnessed: bool = True) -> None:
        """A round of a pull request, seen now."""
        read, reading = read_patch(patch, 4_000_000), compare_with_git(patch)
        ref = f"blob:{uri}:{number}"
        row = {"pull_uri": uri, "round": number, "patch_ref": ref, "record_cid": None, "created_at": None}
        kept = {"pull_uri": uri, "patch_ref": ref, "patch_id": read.patch_id, "sha256": "0" * 64, "bytes": len(patch)}
        counts = {"files": read.files, "added": read.added, "removed": read.removed, "state": read.state}
        claims = {"proves": read.proves, "series": list(read.series), "change_ids": list(read.change_ids)}
        by_git = {"git_reading": reading and reading.state, "git_line": reading and reading.line}
        with self.store.write() as txn:
            txn.append("pull_rounds", [{**row, "seen_at": self.present, "witnessed": witnessed}])
            txn.append("patches", [{**kept, **counts, **claims, **by_git}])
            sql = "update pull_requests set round = ?, round_count = ?, patch_ref = ? where pull_uri = ?"
            txn.execute(sql, [number, number + 1, ref, uri])

    def compare(self, base: str, head: str, did: str = "did:plc:ana22222222222222222222a") -> str:
        """A pull request whose one round names two commits, seen now; its at-uri."""
        uri = self.offer(b"", did, after=timedelta(0))
        ref = f"compare:{base}..{head}"
        with self.store.write() as txn:
            for table in ("pull_requests", "pull_rounds", "patches"):
                txn.execute(f"update {table} set patch_ref = ? where pull_uri = ?", [ref, uri])
        return uri

    def declare(self, key: str, did: str = "did:plc:ana22222222222222222222a", rkey: str = "key") -> str:
        """A record of somebody's public key, seen now; its at-uri."""
        uri = f"at://{did}/sh.tangled.publicKey/{rkey}"
        moments = dict.fromkeys(("written_at", "seen_at", "changed_at"), self.present)
        row = {"uri": uri, "record_cid": None, "name": rkey, "key": key, "deleted_at": None, **moments}
        with self.store.write() as txn:
            txn.upsert("public_keys", [{**row, "author_id": txn.person_ids([did], self.present)[did]}])
        return uri

    def rows(self, sql: str, *params: object) -> list[dict[str, Any]]:
        with self.store.read() as rows:
            return rows.rows(sql, params)


class Place(Watching):
    """A watched repository whose patches are kept, so that squashes can be proven."""

    def land(self) -> list[tuple[str, str, bool]]:
        """Look at the mirror and find landings: (pull request, proof, proven) in a stable order."""
        self.look()
        find_landings(self.store, self.fetcher, self.folder, self.folder)
        rows = self.rows("select pull_uri, proof, proven from landings order by pull_uri, commit_id")
        return [(row["pull_uri"], row["proof"], row["proven"]) for row in rows]

    def revise(self, uri: str, patch: bytes, number: int, *, witnessed: bool = True) -> None:
        super().revise(uri, patch, number, witnessed=witnessed)
        kept = store_patch(self.folder, patch.decode("utf-8", "replace"))
        with self.store.write() as txn:
            sql = "update patches set sha256 = ? where pull_uri = ? and patch_ref = ?"
            txn.execute(sql, [kept, uri, f"blob:{uri}:{number}"])

    def follow(self, days: int = 14) -> set[tuple[str, str, str]]:
        """Look, and mine: everything that is known of (pull request, kind, commit)."""
        self.land()
        mine_followups(self.store, self.fetcher, self.folder, self.now, days)
        rows = self.rows("select pull_uri, kind, evidence from pull_followups")
        return {(row["pull_uri"], row["kind"], row["evidence"]) for row in rows}

    def settle(self, uri: str) -> None:
        """A push-holder's word that it was merged."""
        with self.store.write() as txn:
            sql = "update pull_requests set state = 'merged', merge_proof = 'verified' where pull_uri = ?"
            txn.execute(sql, [uri])


def land(
    work: Work, place: Place, message: str, files: Files, did: str = "did:plc:ana22222222222222222222a"
) -> tuple[str, str]:
    """A pull request that was offered, seen and merged by mail: its address and its commit."""
    mails = work.offer("HEAD", [(message, files)])
    pull = place.offer(mails, did)
    place.look()
    commit = work.am(mails)
    place.land()
    return pull, commit


def _pull_row(uri: str, author: int, world: Watching, branch: str | None, title: str) -> dict[str, object]:
    empty = dict.fromkeys(("source_branch", "record_cid", "patch_ref", "deleted_at", "state_at", "merged_at"))
    told = {"pull_uri": uri, "author_id": author, "repository_id": world.number, "title": title, "body": ""}
    moments = dict.fromkeys(("opened_at", "seen_at", "changed_at"), world.present)
    form = {"target_branch": branch, "record_form": "rounds", "round": 0, "round_count": 1, "state": "open"}
    return {**empty, **told, **moments, **form, "merge_proof": None}
