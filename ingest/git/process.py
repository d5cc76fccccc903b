"""Run git as a guarded child: only our configuration, one host at its checked address, bounds on time, memory and disk.

Text from strangers is never an option, a path or the name of a command: arguments are a list, revisions go in on
standard input, refs and patches are checked first. Every failure ends as one FetchProblem.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, BinaryIO, cast

from ingest.errors import FetchProblem
from ingest.http.fetcher import USER_AGENT
from ingest.http.sockets import Address, quoted


@dataclass(frozen=True)
class Remote:
    """The source of a fetch: only this address, at the checked places of its host."""

    host: str
    url: str
    places: tuple[Address, ...]  # empty: a stand-in on loopback answers for the host


MEMORY_BYTES = 4_000_000_000  # address space of a child: git maps packs; a delta that unfolds to more ends the child
LOCAL_SECONDS = 300.0  # for one question to a mirror
WATCH_SECONDS = 0.1  # between two checks of a child
SLOW_BYTES, SLOW_SECONDS = 1_000, 60  # give up on a peer that sends fewer bytes a second for this long
TRIAL = "apply-"  # prefix of folders in the mirror that hold a separate index
FATAL = 128  # exit code of git after "fatal:"; a higher code, or one below 0, comes from a signal
UNSTARTED = (126, 127)  # exit codes of a shell that could not start git
SHORTAGES = ("No space left", "quota exceeded", "Input/output error", "Too many open files", "Resource temporarily")
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
# `ulimit` instead of a hook between fork and exec, which can deadlock in a process with threads.
# A kill of this process closes the pipe that the background shell reads; that shell then ends the whole group.
# Nothing else would: prctl's death signal reaches git alone and not the helpers that it starts.
_WATCHER = '{ exec <"$3"; read -r _; kill -s KILL -- "-$$"; } >/dev/null 2>&1 &'
_SHELL = f'ulimit -c 0; ulimit -f "$1"; ulimit -v "$2" 2>/dev/null; {_WATCHER} shift 3; exec "$@"'
# Faults of old, honest histories; every other fault that fsck finds is refused.
_FORGIVEN = ("zeroPaddedFilemode", "badTimezone", "missingSpaceBeforeDate", "missingNameBeforeEmail", "badDate")
_SETTINGS = {
    "attr.tree": EMPTY_TREE,  # else a repository's own .gitattributes could hide its files from the diffs
    "core.attributesFile": "/dev/null",
    "core.bigFileThreshold": "32m",
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.packedGitLimit": "512m",
    "core.pager": "",
    "credential.helper": "",
    "diff.external": "",
    "fetch.fsckObjects": "true",
    "fetch.recurseSubmodules": "false",
    "fetch.unpackLimit": "1",
    "fetch.writeCommitGraph": "false",
    "gc.auto": "0",
    "http.followRedirects": "false",
    "http.lowSpeedLimit": str(SLOW_BYTES),
    "http.lowSpeedTime": str(SLOW_SECONDS),
    "http.proxy": "",
    "http.sslVerify": "true",
    "http.userAgent": USER_AGENT,
    "maintenance.auto": "false",
    "pack.threads": "1",
    "protocol.allow": "never",
    "protocol.version": "2",
    "submodule.recurse": "false",
    "transfer.fsckObjects": "true",
    "transfer.unpackLimit": "1",
    **{f"fetch.fsck.{fault}": "ignore" for fault in _FORGIVEN},
}
Watch = Callable[[], FetchProblem | None]


def watch_nothing() -> FetchProblem | None:
    return None


@dataclass
class _Running:
    """A child in a process group of its own, and the thread that ends it when it must end."""

    child: subprocess.Popen[bytes]
    complaints: BinaryIO  # its standard error
    ends: float
    watch: Watch
    problem: FetchProblem | None = None
    last_errors: bytes = b""  # the end of its standard error
    over: threading.Event = field(default_factory=threading.Event)

    def watch_child(self) -> None:
        while not self.over.wait(WATCH_SECONDS):
            late = FetchProblem("git took too long", retry=True) if time.monotonic() > self.ends else None
            problem = late or self.watch()
            if problem:
                self.problem = problem
                self.kill()
                return

    def listen(self) -> None:
        """Read its standard error and keep the end: a hostile server may send gigabytes."""
        while piece := self.complaints.read(4096):
            self.last_errors = (self.last_errors + piece)[-2000:]

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.child.pid, signal.SIGKILL)


@dataclass(frozen=True)
class Git:
    """The git of one bare repository. `watch` is called ten times a second and tells if a child must end."""

    folder: Path
    watch: Watch = watch_nothing
    authorities: Path | None = None  # certificates to trust instead of the system's

    def run(
        self,
        *arguments: str,
        given: Iterable[str] | Path = (),
        limit: int = 10_000_000,
        seconds: float = LOCAL_SECONDS,
        index: Path | None = None,
    ) -> bytes:
        """Return the output of one command, at most `limit` bytes. Raises FetchProblem.

        `index` is a folder for a separate index and new objects, so that the mirror stays unchanged.
        """
        with self.stream(*arguments, given=given, seconds=seconds, index=index) as output:
            answer = output.read(limit + 1)
            if len(answer) > limit:
                raise FetchProblem(f"git answered more than {limit} bytes", too_large=True)
        return answer

    @contextmanager
    def stream(
        self,
        *arguments: str,
        given: Iterable[str] | Path = (),
        seconds: float = LOCAL_SECONDS,
        index: Path | None = None,
    ) -> Generator[IO[bytes]]:
        """Yield a command's output; leaving early ends the child. `given` is standard input: lines or a file."""
        command, environment = self._build_command(arguments), self._build_environment("", index)
        with _spool(given) as lines, _child(command, environment, lines, seconds, self.watch) as output:
            yield output

    def ask(
        self,
        remote: Remote,
        *arguments: str,
        limit: int,
        seconds: float,
        file_bytes: int,
        index: Path | None = None,
    ) -> bytes:
        """Run a command that talks to a remote host. `file_bytes` bounds every file that it writes."""
        command = self._build_command(("-c", f"protocol.{_scheme(remote)}.allow=always", *_pins(remote), *arguments))
        if self.authorities is not None:
            command[1:1] = ["-c", f"http.sslCAInfo={self.authorities}"]
        environment = self._build_environment(_scheme(remote), index)
        with _child(command, environment, None, seconds, self.watch, file_bytes) as output:
            answer = output.read(limit + 1)
            if len(answer) > limit:
                raise FetchProblem(f"{remote.host} sent more than {limit} bytes", too_large=True)
        return answer

    def _build_command(self, arguments: Sequence[str]) -> list[str]:
        settings = [word for name, value in _SETTINGS.items() for word in ("-c", f"{name}={value}")]
        return [program(), "--no-pager", "--literal-pathspecs", *settings, *arguments]

    def _build_environment(self, protocol: str, index: Path | None) -> dict[str, str]:
        """Return the child's environment, without our proxy, agent, keys or home."""
        home = str(self.folder / "nothing")
        environment = {
            "PATH": os.pathsep.join([str(Path(program()).parent), "/usr/bin", "/bin"]),
            "HOME": home,
            "XDG_CONFIG_HOME": home,
            "LC_ALL": "C",
            "TZ": "UTC",
            "GIT_DIR": str(self.folder),
            "GIT_ALLOW_PROTOCOL": protocol,
            "GIT_ASKPASS": "/bin/false",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_TERMINAL_PROMPT": "0",
        }
        if index is None:
            return environment
        return environment | {
            "GIT_INDEX_FILE": str(index / "index"),
            "GIT_OBJECT_DIRECTORY": str(index / "objects"),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(self.folder / "objects"),
        }


def program() -> str:
    """Return the path of git. Raises FetchProblem if git is missing."""
    path = shutil.which("git")
    if path is None:
        raise FetchProblem("git is not installed, so that no repository can be mirrored", retry=True)
    return path


def _scheme(remote: Remote) -> str:
    """Return the only protocol that is allowed: https, or http to a stand-in on loopback."""
    return "https" if remote.places else "http"


def _pins(remote: Remote) -> list[str]:
    """Return options that hold the child to the checked addresses, or that name the host to a stand-in."""
    if not remote.places:
        return ["-c", f"http.extraHeader=Host: {remote.host}"]
    port = remote.places[0][1]
    addresses = ",".join(f"[{host}]" if ":" in host else host for host, _ in remote.places)
    return ["-c", f"http.curloptResolve={remote.host}:{port}:{addresses}"]


@contextmanager
def _child(
    command: Sequence[str],
    environment: dict[str, str],
    given: IO[bytes] | None,
    seconds: float,
    watch: Watch,
    file_bytes: int = 1_000_000_000,
) -> Generator[IO[bytes]]:
    """Yield a child's standard output; the child ends with the block. Raises FetchProblem if it failed."""
    limits = [str(file_bytes // 512 + 1), str(MEMORY_BYTES // 1024)]
    with _open_lifeline() as pipe:
        try:
            child = subprocess.Popen(
                ["/bin/sh", "-c", _SHELL, "sh", *limits, f"/dev/fd/{pipe}", *command],
                stdin=given if given is not None else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                cwd="/",
                start_new_session=True,
                pass_fds=[pipe],
            )
        except (OSError, ValueError) as error:  # too long a command, or a zero byte in it
            raise FetchProblem(f"git cannot be started: {quoted(str(error))}", retry=True) from None
        yield from _supervise(child, seconds, watch)


@contextmanager
def _spool(given: Iterable[str] | Path) -> Generator[IO[bytes]]:
    """Yield lines as a readable file, or the given file. Raises FetchProblem if there is no room for them."""
    if isinstance(given, Path):
        with given.open("rb") as file:
            yield file
        return
    with tempfile.TemporaryFile() as lines:
        try:
            lines.writelines(f"{line}\n".encode("utf-8", "surrogateescape") for line in given)
            lines.seek(0)
        except OSError as error:
            raise FetchProblem(f"git cannot be asked: {error.strerror}", retry=True) from None
        yield lines


@contextmanager
def _open_lifeline() -> Generator[int]:
    """Yield the reading end of a pipe that closes with the block or this process, since no child has the other end."""
    reading, writing = os.pipe()
    try:
        yield reading
    finally:
        os.close(reading)
        os.close(writing)


def _supervise(child: subprocess.Popen[bytes], seconds: float, watch: Watch) -> Generator[IO[bytes]]:
    """Yield the standard output of a child that was just started; at the end, kill its whole process group."""
    output, errors = cast(BinaryIO, child.stdout), cast(BinaryIO, child.stderr)
    running = _Running(child, errors, time.monotonic() + seconds, watch)
    threads = [threading.Thread(target=task, daemon=True) for task in (running.watch_child, running.listen)]
    for thread in threads:
        thread.start()
    ended = False
    try:
        yield output
        ended = not output.read(1)
    finally:
        if not ended:
            running.kill()
        output.close()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # not reaped yet: its number stays its own
        running.kill()  # processes that it started and left behind
        running.over.set()
        child.wait()
        for thread in threads:
            thread.join()
        errors.close()
    if running.problem:
        raise running.problem
    if ended and child.returncode:
        raise _explain_failure(child.returncode, running.last_errors)


class GitRefusal(FetchProblem):
    """git itself ended with a complaint: it was not killed, and it did not lack room."""


def _explain_failure(code: int, complaints: bytes) -> FetchProblem:
    """Return git's complaint in one bounded sentence."""
    lines = [line for line in complaints.decode("ascii", "backslashreplace").splitlines() if line.strip()]
    fatal = next((line for line in reversed(lines) if line.startswith(("fatal: ", "error: "))), "")
    complaint = quoted((fatal or (lines[-1] if lines else "")).removeprefix("fatal: ").removeprefix("error: "), 200)
    if "not found" in complaint and "repository" in complaint:
        return FetchProblem(f"git: {complaint}", status=404)
    if code in (-signal.SIGXFSZ, 128 + signal.SIGXFSZ) or "File too large" in complaint:
        return FetchProblem("git was sent a larger file than it may write", too_large=True)
    is_own = 0 < code <= FATAL and code not in UNSTARTED and not any(word in complaint for word in SHORTAGES)
    kind = GitRefusal if is_own else FetchProblem
    return kind(f"git ended with {code}: {complaint or 'without a word'}", retry=True)
