"""Why DuckDB could not open a store, in one sentence that says what to do."""

import re
from pathlib import Path

_NO_MEMORY = re.compile(r"Out of Memory|failed to (?:pin|allocate)|could not allocate")


class StoreProblem(Exception):
    """The store cannot be used; the message is one sentence that says what to do."""


def is_out_of_memory(told: str) -> bool:
    """Return whether an error of DuckDB's is about memory. A checkpoint that fails for it says so in words alone."""
    return _NO_MEMORY.search(told) is not None


def why_unopened(path: Path, error: str) -> str:
    """The sentence for an error of DuckDB's at `path`: held by another process, a damaged log of changes, or damaged.

    Of a log nothing is lost with it: the stream brings its events again, and what people did is either in the main
    file before they are told so or brought again from the accounts (triage/redelivery.py).
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
