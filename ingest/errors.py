"""Describe failures for people who read a page or a log: no error number, no class name.

It also describes in one sentence why DuckDB could not open a store, with the remedy.
"""

import errno
import re
import socket
import ssl
from pathlib import Path


class FetchProblem(Exception):
    """Nothing was fetched; one bounded sentence gives the reason, and `retry` tells if asking again may help.

    `status` is the HTTP status if there was one; `after` the seconds to wait (at most 6 hours) if the peer asked for
    that. `too_large`: the answer exceeded the limit. `closed`: this side stopped the request. `busy`: the request was
    not sent, because others to its domain are running.
    """

    def __init__(
        self,
        sentence: str,
        *,
        status: int | None = None,
        retry: bool = False,
        after: float | None = None,
        too_large: bool = False,
        closed: bool = False,
        busy: bool = False,
    ) -> None:
        super().__init__(sentence)
        self.status, self.retry, self.after = status, retry, after
        self.too_large, self.closed, self.busy = too_large, closed, busy

    @property
    def absent(self) -> bool:
        return self.status in (404, 410)


class OAuthRefused(FetchProblem):
    """The account's server, or this client, refuses; the sentence says what to do.

    `ended`: the session is over, only a new sign-in helps. `stale`: the access token is, so read the session again.
    `missing_scope`: the person did not grant it. `moved_on`: the record is another by now. `declined`: the person said
    no at their own server. `error` is the name that the server gave it, "" for none.
    """

    def __init__(
        self,
        sentence: str,
        *,
        status: int | None = None,
        retry: bool = False,
        ended: bool = False,
        stale: bool = False,
        missing_scope: str = "",
        moved_on: bool = False,
        declined: bool = False,
        error: str = "",
    ) -> None:
        super().__init__(sentence, status=status, retry=retry)
        self.ended, self.stale, self.missing_scope = ended, stale, missing_scope
        self.moved_on, self.declined, self.error = moved_on, declined, error


WORDS = {
    errno.ECONNREFUSED: "nothing listens there, or it refused the connection",
    errno.ECONNRESET: "the connection was cut",
    errno.EPIPE: "the connection was cut",
    errno.ETIMEDOUT: "it took too long to answer",
    errno.EHOSTUNREACH: "no way leads there from this machine",
    errno.ENETUNREACH: "no way leads there from this machine",
    errno.ENOSPC: "the drive is full",
    errno.EDQUOT: "the drive is full",
    errno.EFBIG: "files may grow no further there",
    errno.EROFS: "the drive is read-only",
    errno.EACCES: "this user may not write there",
    errno.EPERM: "this user may not write there",
    errno.EIO: "the drive fails",
}
# asyncio joins several failures in one text, and DuckDB always does.
_NUMBER = re.compile(r"\[Errno (\d{1,5})\]")
_KIND = re.compile(r"^(?:[A-Z]\w* )?Error: ")  # DuckDB's texts begin with this
LONGEST = 300


NO_NAME = "DNS finds no such name"


def plain(error: BaseException) -> str:
    """Return an error in at most 300 characters on one line: the system's errors in our words, others in their own."""
    text = _KIND.sub("", " ".join(str(error).split()))
    if isinstance(error, socket.gaierror):
        return f"{NO_NAME}: check the network first, then the spelling"
    if isinstance(error, ssl.SSLCertVerificationError):
        return "it has no valid certificate for its name"
    match = _NUMBER.search(text)
    number = getattr(error, "errno", None) or (int(match[1]) if match else None)
    if number in WORDS:
        return WORDS[number]
    if isinstance(error, TimeoutError):
        return "it took too long to answer"
    if isinstance(error, OSError) and error.strerror:
        text = error.strerror if error.filename is None else f"{error.strerror}: {error.filename}"
    return text[:LONGEST] or type(error).__name__


_NO_MEMORY = re.compile(r"Out of Memory|failed to (?:pin|allocate)|could not allocate")


class StoreProblem(Exception):
    """The store cannot be used; the message is one sentence with the remedy."""


def is_out_of_memory(message: str) -> bool:
    """Return True if an error of DuckDB's is about memory. A checkpoint that fails for it says so only in its text."""
    return _NO_MEMORY.search(message) is not None


def why_unopened(path: Path, error: str) -> str:
    """Return the sentence for DuckDB's error at `path`: held by another process, a damaged WAL, or a damaged file.

    A damaged WAL loses nothing: the stream brings its events again, and people's actions are either in the main file
    before they are confirmed or come again from the accounts (triage/services/notifying/deliveries.py).
    """
    holder = re.search(r"held in (\S+) \(PID (\d+)\)", error)
    if holder:
        return (
            f"{path} is held by process {holder[2]} ({holder[1]}): only one worker may own it; "
            "stop that one first, or read from a snapshot."
        )
    text = " ".join(error.split())[:200]
    if is_out_of_memory(error):
        return f"{path} needs more memory than it may take ({text}): nothing is lost, open it on a machine with more."
    wal = f"{path}.wal"
    if "WAL" in error or wal in error:
        return (
            f"{wal} cannot be replayed ({text}): nothing in it is lost for good, the stream and the accounts bring it "
            f"again; run `mv {wal} {wal}.damaged` and start again."
        )
    return (
        f"{path} cannot be opened ({text}): restore a backup, or the newest snapshot "
        "(`manage.py restore --snapshot --replace`)."
    )
