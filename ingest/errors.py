"""Words for failures, for people who read a page or a log: no error number, no class name.

It also says in one sentence why DuckDB could not open a store, and what to do.
"""

import errno
import re
import socket
import ssl
from pathlib import Path


class FetchProblem(Exception):
    """Nothing was fetched, for a reason in one bounded sentence; `retry` says whether asking again may help.

    `status` is the HTTP status where there was one, `after` the seconds to wait (at most 6 hours) where the peer said
    so, `too_large` whether the answer went over the limit, `closed` whether this side stopped the request, `busy` that
    it was not sent, as others to the same domain are under way.
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
# asyncio puts several failures into one text, and DuckDB all of them.
_NUMBER = re.compile(r"\[Errno (\d{1,5})\]")
_KIND = re.compile(r"^(?:[A-Z]\w* )?Error: ")  # as DuckDB begins
LONGEST = 300


def plain(error: BaseException) -> str:
    """An error in at most 300 characters on one line: the system's errors in our words, others in their own."""
    text = _KIND.sub("", " ".join(str(error).split()))
    if isinstance(error, socket.gaierror):
        return "DNS finds no such name: check the network first, then the spelling"
    if isinstance(error, ssl.SSLCertVerificationError):
        return "it has no valid certificate for its name"
    found = _NUMBER.search(text)
    number = getattr(error, "errno", None) or (int(found[1]) if found else None)
    if number in WORDS:
        return WORDS[number]
    if isinstance(error, TimeoutError):
        return "it took too long to answer"
    if isinstance(error, OSError) and error.strerror:
        text = error.strerror if error.filename is None else f"{error.strerror}: {error.filename}"
    return text[:LONGEST] or type(error).__name__


_NO_MEMORY = re.compile(r"Out of Memory|failed to (?:pin|allocate)|could not allocate")


class StoreProblem(Exception):
    """The store cannot be used; the message is one sentence that says what to do."""


def is_out_of_memory(told: str) -> bool:
    """Return whether an error of DuckDB's is about memory. A checkpoint that fails for it says so in words alone."""
    return _NO_MEMORY.search(told) is not None


def why_unopened(path: Path, error: str) -> str:
    """The sentence for an error of DuckDB's at `path`: held by another process, a damaged log of changes, or damaged.

    Of a log nothing is lost with it: the stream brings its events again, and what people did is either in the main
    file before they are told so or brought again from the accounts (triage/services/deliveries.py).
    """
    holder = re.search(r"held in (\S+) \(PID (\d+)\)", error)
    if holder:
        return (
            f"{path} is held by process {holder[2]} ({holder[1]}): only one worker may own it; "
            "stop that one first, or read from a snapshot."
        )
    told = " ".join(error.split())[:200]
    if is_out_of_memory(error):
        return f"{path} needs more memory than it may take ({told}): nothing is lost, open it on a machine with more."
    wal = f"{path}.wal"
    if "WAL" in error or wal in error:
        return (
            f"{wal} cannot be replayed ({told}): nothing in it is lost for good, the stream and the accounts bring it "
            f"again; run `mv {wal} {wal}.damaged` and start again."
        )
    return (
        f"{path} cannot be opened ({told}): restore a backup, or the newest snapshot "
        "(`manage.py restore --snapshot --replace`)."
    )
