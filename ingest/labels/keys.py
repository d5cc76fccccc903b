"""The key that signs labels, in a file of the drive: 64 hex digits, made when it is first needed.

There is only one: a rotation replaces it, and labels that another key signed are signed anew before they are sent.
"""

import fcntl
import secrets
from pathlib import Path

from ingest.files import write_whole
from ingest.labels.signing import SigningKey, load_key


class LabelKeyProblem(Exception):
    """The key cannot be read or written; the message is one sentence with the remedy."""


def read_key(path: Path) -> SigningKey:
    """Return the key, which is made if there is none. Raises LabelKeyProblem."""
    try:
        if not path.exists():
            _write(path, is_rotation=False)
        return load_key(path.read_text())
    except (OSError, ValueError):
        raise LabelKeyProblem(
            f"{path} is damaged or cannot be read: put its backup there, or delete it; then labels get a new key."
        ) from None


def rotate_key(path: Path) -> SigningKey:
    """Replace the key; the DID document and every label that is sent from now on have the new one.

    Raises LabelKeyProblem.
    """
    try:
        _write(path, is_rotation=True)
    except OSError as problem:
        raise LabelKeyProblem(f"{path} cannot be written ({problem.strerror}): make its folder writable.") from problem
    return read_key(path)


def _write(path: Path, *, is_rotation: bool) -> None:
    """Write a new key, one process at a time; of two that make the first one the earlier wins."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with path.with_name(f".{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if is_rotation or not path.exists():
            write_whole(path, secrets.token_hex(32).encode())
